/* WebSocket without a socket: the handshake's headers, and frames of every bad kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "server/http/ws_protocol.h"

#include "base/banned.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ==" /* and its answer: RFC 6455, section 1.3 */

/* ---- the handshake ---- */

static void test_hello(void **state)
{
    static const struct {
        struct ws_hello hello;
        int status;
    } cases[] = {
        { { "websocket", "Upgrade", KEY, "13" }, 0 },
        { { "WebSocket", "keep-alive, upgrade", KEY, "13" }, 0 },
        { { "h2c, websocket", " ,, Upgrade ", KEY, "13" }, 0 },
        { { NULL, NULL, NULL, NULL }, 426 },
        { { "websocket", NULL, KEY, "13" }, 426 },
        { { NULL, "Upgrade", KEY, "13" }, 426 },
        { { "websockets", "Upgrade", KEY, "13" }, 426 },
        { { "web socket", "Upgrade", KEY, "13" }, 426 },
        { { "", "", KEY, "13" }, 426 },
        { { "websocket", "close", KEY, "13" }, 426 },
        { { "websocket", "Upgrade", KEY, NULL }, 426 },
        { { "websocket", "Upgrade", KEY, "8" }, 426 },
        { { "websocket", "Upgrade", KEY, "13, 8" }, 426 },
        { { "websocket", "Upgrade", KEY, "013" }, 426 },
        { { "websocket", "Upgrade", NULL, "13" }, 400 },
        { { "websocket", "Upgrade", "", "13" }, 400 },
        { { "websocket", "Upgrade", "dGhlIHNhbXBsZSBub25jZQ", "13" }, 400 },
        { { "websocket", "Upgrade", "dGhlIHNhbXBsZSBub25jZQ=*", "13" }, 400 },
        { { "websocket", "Upgrade", "dGhlIHNhbXBsZSBub25jZQ== ", "13" }, 400 },
        { { "websocket", "Upgrade", "dGhlIHNhbXBsZSBub25jZXh4", "13" }, 400 }, /* 18 bytes */
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why = NULL;

        assert_int_equal(ws_hello_check(&cases[i].hello, &why), cases[i].status);
        assert_int_equal(why != NULL, cases[i].status != 0);
    }
}

static void test_answer(void **state)
{
    char answer[WS_ANSWER_MAX];

    (void) state;
    assert_int_equal(ws_hello_answer(KEY, answer), 0);
    assert_string_equal(answer, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static void test_protocols(void **state)
{
    static const char *const known[] = { "v2.x", "v1.x", NULL };

    (void) state;
    assert_string_equal(ws_hello_protocol("v1.x", known), "v1.x");
    assert_string_equal(ws_hello_protocol("other, v1.x ,v2.x", known), "v1.x");
    assert_null(ws_hello_protocol("V1.X", known)); /* these are case-sensitive */
    assert_null(ws_hello_protocol("v1", known));
    assert_null(ws_hello_protocol("", known));
    assert_null(ws_hello_protocol(NULL, known));
    assert_null(ws_hello_protocol("v1.x", NULL));
}

/* ---- frames ---- */

#define MAX 1000

struct bytes {
    unsigned char data[8192];
    size_t len;
};

/* A frame as a client sends it, with a mask. @head: FIN, reserved bits, opcode. */
static void add_frame(struct bytes *b, unsigned char head, const void *payload, size_t len)
{
    static const unsigned char mask[4] = { 1, 2, 3, 4 };
    unsigned char *p = b->data + b->len;

    assert_true(b->len + len + 8 <= sizeof b->data);
    *p++ = head;
    if (len < 126) {
        *p++ = (unsigned char) (0x80 | len);
    } else {
        *p++ = 0x80 | 126;
        *p++ = (unsigned char) (len >> 8);
        *p++ = (unsigned char) len;
    }
    memcpy(p, mask, 4);
    p += 4;
    for (size_t i = 0; i < len; i++)
        *p++ = (unsigned char) (((const unsigned char *) payload)[i] ^ mask[i % 4]);
    b->len = (size_t) (p - b->data);
}

static struct ws_codec *make(void)
{
    struct ws_codec *codec = NULL;

    assert_int_equal(ws_codec_new(MAX, &codec), 0);
    return codec;
}

/* All that is put out, a few bytes at a time. */
static size_t output(struct ws_codec *codec, unsigned char *buf, size_t size, size_t step)
{
    size_t used = 0, n;

    while ((n = ws_codec_output(codec, (char *) buf + used,
                                step < size - used ? step : size - used)) > 0)
        used += n;
    assert_false(ws_codec_writes(codec));
    return used;
}

static void assert_message(struct ws_codec *codec, enum ws_kind kind, const char *text)
{
    struct ws_message *message = ws_codec_take(codec);

    assert_non_null(message);
    assert_int_equal(message->kind, kind);
    assert_int_equal(message->len, strlen(text));
    assert_string_equal(message->data, text);
    free(message);
}

static void test_bearer(void **state)
{
    static const struct {
        const char *offered, *token; /* NULL: none; "": refused */
    } cases[] = {
        { NULL, NULL },
        { "", NULL },
        { "glovebox.v1", NULL },
        { "glovebox.v1, glovebox.bearer.gb_abc", "gb_abc" },
        { "glovebox.bearer.eyJ.x-_y.z ,glovebox.v1", "eyJ.x-_y.z" },
        { "glovebox.bearer.123456789012345", "123456789012345" },
        { "Glovebox.Bearer.abc", NULL }, /* these are case-sensitive */
        { "glovebox.bearer", NULL },
        { "xglovebox.bearer.abc", NULL },
        { "glovebox.bearer.", "" },
        { "glovebox.bearer., glovebox.v1", "" },
        { "glovebox.bearer.a, glovebox.bearer.b", "" },
        { "glovebox.bearer.a, glovebox.bearer.a", "" },
        { "glovebox.bearer.1234567890123456", "" }, /* too long */
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buf[16] = "untouched";
        int r = ws_hello_bearer(cases[i].offered, buf, sizeof buf);

        if (!cases[i].token) {
            assert_int_equal(r, 0);
            assert_string_equal(buf, "untouched");
        } else if (!cases[i].token[0]) {
            assert_int_equal(r, -EINVAL);
        } else {
            assert_int_equal(r, 1);
            assert_string_equal(buf, cases[i].token);
        }
    }
}

static void test_messages(void **state)
{
    struct bytes in = { .len = 0 };
    unsigned char out[256];

    (void) state;
    add_frame(&in, 0x81, "hello", 5);
    add_frame(&in, 0x82, "", 0);
    add_frame(&in, 0x01, "one \xe2\x82", 6); /* a character cut by a fragment */
    add_frame(&in, 0x89, "p", 1);            /* a ping between fragments */
    add_frame(&in, 0x00, "", 0);
    add_frame(&in, 0x80, "\xac", 1);
    add_frame(&in, 0x8a, "nobody asked", 12);
    for (size_t step = 1; step < in.len; step += 7) {
        struct ws_codec *codec = make();

        for (size_t i = 0; i < in.len; i += step)
            assert_int_equal(ws_codec_feed(codec, (const char *) in.data + i,
                                           step < in.len - i ? step : in.len - i),
                             0);
        assert_message(codec, WS_TEXT, "hello");
        assert_message(codec, WS_BINARY, "");
        assert_message(codec, WS_TEXT, "one \xe2\x82\xac");
        assert_null(ws_codec_take(codec));
        assert_int_equal(output(codec, out, sizeof out, step), 3);
        assert_memory_equal(out, "\x8a\x01p", 3); /* the pong */
        assert_true(ws_codec_reads(codec));
        assert_false(ws_codec_is_closing(codec));
        ws_codec_free(codec);
    }
}

static void test_send(void **state)
{
    struct ws_codec *codec = make();
    unsigned char out[256];

    (void) state;
    assert_int_equal(ws_codec_send(codec, WS_TEXT, "abc", 3), 0);
    assert_int_equal(ws_codec_send(codec, WS_BINARY, "\0\1", 2), 0);
    assert_int_equal(ws_codec_queued_bytes(codec), 5);
    assert_int_equal(ws_codec_queued_frames(codec), 2);
    ws_codec_close(codec, WS_GOING_AWAY, "bye");
    ws_codec_close(codec, WS_NORMAL, "the first counts");
    assert_int_equal(ws_codec_send(codec, WS_TEXT, "late", 4), -EPIPE);
    assert_int_equal(ws_codec_ping(codec), -EPIPE);
    assert_true(ws_codec_writes(codec));
    /* the close comes last, although the library would have it first */
    assert_int_equal(output(codec, out, sizeof out, 3), 5 + 4 + 2 + 2 + 3);
    assert_memory_equal(out,
                        "\x81\x03"
                        "abc\x82\x02\x00\x01\x88\x05\x03\xe9"
                        "bye",
                        16);
    assert_int_equal(ws_codec_code(codec), WS_GOING_AWAY);
    assert_true(ws_codec_reads(codec)); /* for the client's close */
    assert_true(ws_codec_is_closing(codec));
    ws_codec_free(codec);
}

static void test_close(void **state)
{
    static const struct {
        const char *payload;
        size_t len;
        enum ws_code code;
    } cases[] = {
        { "\x03\xe8", 2, WS_NORMAL },
        { "\x0f\xa1 why", 6, 4001 },
        { "", 0, WS_NO_CODE },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ws_codec *codec = make();
        struct bytes in = { .len = 0 };
        unsigned char out[256];

        add_frame(&in, 0x88, cases[i].payload, cases[i].len);
        add_frame(&in, 0x81, "late", 4);
        assert_int_equal(ws_codec_feed(codec, (const char *) in.data, in.len), -EPROTO);
        assert_null(ws_codec_take(codec));
        assert_true(output(codec, out, sizeof out, 256) >= 2);
        assert_int_equal(out[0], 0x88); /* answered */
        assert_int_equal(ws_codec_code(codec), cases[i].code);
        assert_false(ws_codec_reads(codec));
        assert_int_equal(ws_codec_send(codec, WS_TEXT, "late", 4), -EPIPE);
        ws_codec_free(codec);
    }
}

/* Each is answered with a close, and nothing is read after it. */
static void test_bad_frames(void **state)
{
    static const struct {
        const char *what;
        const char *bytes;
        size_t len;
        int code; /* 0: a close without one */
    } cases[] = {
        { "no mask", "\x81\x01x", 3, WS_PROTOCOL_ERROR },
        { "a reserved bit", "\xc1\x81\0\0\0\0x", 7, WS_PROTOCOL_ERROR },
        { "an opcode that is none", "\x83\x81\0\0\0\0x", 7, WS_PROTOCOL_ERROR },
        { "a control opcode that is none", "\x8b\x80\0\0\0\0", 6, WS_PROTOCOL_ERROR },
        { "a continuation of nothing", "\x80\x81\0\0\0\0x", 7, WS_PROTOCOL_ERROR },
        { "a message within another", "\x01\x81\0\0\0\0x\x81\x81\0\0\0\0x", 14, WS_PROTOCOL_ERROR },
        { "a fragmented ping", "\x09\x81\0\0\0\0x", 7, 0 },
        { "a fragmented close", "\x08\x80\0\0\0\0", 6, 0 },
        { "a long ping", "\x89\xfe\x00\x80\0\0\0\0", 8, 0 },
        { "a length with too many bytes", "\x81\xfe\x00\x01\0\0\0\0x", 9, 0 },
        { "a negative length", "\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 14, 0 },
        { "2 to the 62nd bytes", "\x81\xff\x40\0\0\0\0\0\0\0\0\0\0\0x", 15, WS_TOO_BIG },
        { "one byte too many", "\x82\xfe\x03\xe9\0\0\0\0x", 9, WS_TOO_BIG },
        { "too much in fragments", "\x02\xfe\x03\xe8\0\0\0\0", 8, -1 },
        { "bad UTF-8", "\x81\x82\0\0\0\0\xc3\x28", 8, WS_BAD_TEXT },
        { "a surrogate", "\x81\x83\0\0\0\0\xed\xa0\x80", 9, WS_BAD_TEXT },
        { "cut UTF-8", "\x81\x82\0\0\0\0\xe2\x82", 8, WS_BAD_TEXT },
        { "a close code that is none", "\x88\x82\0\0\0\0\x03\xee", 8, WS_PROTOCOL_ERROR },
        { "a reason that is not UTF-8", "\x88\x84\0\0\0\0\x03\xe8\xc3\x28", 10, WS_BAD_TEXT },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ws_codec *codec = make();
        struct bytes in = { .len = cases[i].len };
        unsigned char out[256];
        size_t len;
        int code = cases[i].code;

        memcpy(in.data, cases[i].bytes, cases[i].len);
        if (code == -1) { /* a whole fragment of the largest size, and one byte more */
            in.len += 1000;
            add_frame(&in, 0x80, "x", 1);
            code = WS_TOO_BIG;
        }
        if (ws_codec_feed(codec, (const char *) in.data, in.len) != -EPROTO)
            fail_msg("%s: accepted", cases[i].what);
        assert_null(ws_codec_take(codec));
        len = output(codec, out, sizeof out, 256);
        if (len != (code ? 4 : 2) || out[0] != 0x88 || (code && out[2] * 256 + out[3] != code))
            fail_msg("%s: %zu bytes, code %d", cases[i].what, len, out[2] * 256 + out[3]);
        assert_int_equal(ws_codec_feed(codec, "\x81\x80\0\0\0\0", 6), -EPROTO);
        assert_null(ws_codec_take(codec));
        ws_codec_free(codec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello),     cmocka_unit_test(test_answer),
        cmocka_unit_test(test_protocols), cmocka_unit_test(test_bearer),
        cmocka_unit_test(test_messages),  cmocka_unit_test(test_send),
        cmocka_unit_test(test_close),     cmocka_unit_test(test_bad_frames),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
