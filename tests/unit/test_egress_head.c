/* Heads and bodies: what is understood, what is refused, what is passed on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "base/autoclean.h"
#include "egress/head.h"

#include "base/banned.h"

static struct request_head head;

static int parse(const char *text)
{
    const char *why = NULL;
    int r = request_head_parse(text, strlen(text), &head, &why);

    assert_true(r >= 0 || why);
    return r;
}

static void test_requests(void **state)
{
    static const char get[] = "GET http://Example.com:8080/a?b=c HTTP/1.1\r\nHost: other\r\n"
                              "X-A:  1 \r\nConnection: x-b, keep-alive\r\nX-B: 2\r\n"
                              "Proxy-Authorization: x\r\nUpgrade: websocket\r\n\r\nrest";
    static const struct head_extra extras[] = { { "X-a", "secret", 6 } };
    char out[1024];
    int n;

    (void) state;
    assert_int_equal(parse(get), sizeof get - 1 - 4);
    assert_string_equal(head.method, "GET");
    assert_string_equal(head.host.text, "example.com");
    assert_int_equal(head.port, 8080);
    assert_int_equal(head.body, BODY_NONE);
    n = request_head_write(&head, NULL, 0, false, out, sizeof out);
    out[n] = '\0';
    assert_string_equal(out, "GET /a?b=c HTTP/1.1\r\nHost: example.com:8080\r\nX-A: 1\r\n"
                             "Connection: close\r\n\r\n");
    n = request_head_write(&head, extras, 1, true, out, sizeof out);
    out[n] = '\0';
    assert_string_equal(out, "GET /a?b=c HTTP/1.1\r\nHost: example.com:8080\r\nX-a: secret\r\n"
                             "Connection: close\r\n\r\n");
    assert_int_equal(request_head_write(&head, NULL, 0, false, out, 40), -EMSGSIZE);

    assert_true(parse("CONNECT [::1]:443 HTTP/1.1\r\n\r\n") > 0);
    assert_true(head.connect && head.host.literal && head.port == 443);
    assert_true(parse("POST http://a.example?x HTTP/1.0\r\nContent-Length: 5\r\n\r\n") > 0);
    assert_true(head.body == BODY_LENGTH && head.body_len == 5 && head.port == 80);
    n = request_head_write(&head, NULL, 0, false, out, sizeof out);
    out[n] = '\0';
    assert_string_equal(out, "POST /?x HTTP/1.0\r\nHost: a.example\r\nContent-Length: 5\r\n"
                             "Connection: close\r\n\r\n");
    assert_true(parse("PUT http://a.example/ HTTP/1.1\r\ntransfer-encoding: Chunked\r\n"
                      "Expect: 100-continue\r\n\r\n") > 0);
    assert_true(head.body == BODY_CHUNKED && head.expect);

    /* Not all there yet, at every cut. */
    for (size_t i = 0; i < sizeof get - 1 - 4; i++) {
        const char *why;

        assert_int_equal(request_head_parse(get, i, &head, &why), 0);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        { "\r\n\r\n", 400 },
        { "GET\r\n\r\n", 400 },
        { "GET http://a.example/\r\n\r\n", 400 },
        { "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", 400 },
        { "GET https://a.example/ HTTP/1.1\r\n\r\n", 400 },
        { "GET ftp://a.example/ HTTP/1.1\r\n\r\n", 400 },
        { "GET http:///x HTTP/1.1\r\n\r\n", 400 },
        { "GET http://u:p@a.example/ HTTP/1.1\r\n\r\n", 400 },
        { "GET http://a.example/#x HTTP/1.1\r\n\r\n", 400 },
        { "GET http://a.example/ x HTTP/1.1\r\n\r\n", 400 },
        { "GET http://a.example/\x01 HTTP/1.1\r\n\r\n", 400 },
        { "GET http://a.example/\xc3\xbc HTTP/1.1\r\n\r\n", 400 },
        { "GET http://127.1/ HTTP/1.1\r\n\r\n", 400 },
        { "GET http://a.example:0/ HTTP/1.1\r\n\r\n", 400 },
        { "GET http://a.example/ HTTP/2.0\r\n\r\n", 505 },
        { "GET http://a.example/ HTTP/1.1 \r\n\r\n", 505 },
        { "PRI * HTTP/2.0\r\n\r\n", 505 },
        { "TRACE http://a.example/ HTTP/1.1\r\n\r\n", 405 },
        { "connect a.example:443 HTTP/1.1\r\n\r\n", 405 },
        { "CONNECT a.example HTTP/1.1\r\n\r\n", 400 },
        { "CONNECT http://a.example:443/ HTTP/1.1\r\n\r\n", 400 },
        { "CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 1\r\n\r\n", 400 },
        { "CONNECT a.example:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
        { "G(T http://a.example/ HTTP/1.1\r\n\r\n", 400 },
        { "GET http://a.example/ HTTP/1.1\nHost: x\n\r\n\r\n", 505 },
        { "GET http://a.example/ HTTP/1.1\r\nX\r\n\r\n", 400 },
        { "GET http://a.example/ HTTP/1.1\r\n: x\r\n\r\n", 400 },
        { "GET http://a.example/ HTTP/1.1\r\nX : x\r\n\r\n", 400 },
        { "GET http://a.example/ HTTP/1.1\r\nX: a\r\n b\r\n\r\n", 400 },
        { "GET http://a.example/ HTTP/1.1\r\nX: a\nY: b\r\n\r\n", 400 },
        { "GET http://a.example/ HTTP/1.1\r\nX: a\rY: b\r\n\r\n", 400 },
        { "GET http://a.example/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400 },
        { "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
          400 },
        { "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n", 400 },
        { "POST http://a.example/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n", 400 },
        { "POST http://a.example/ HTTP/1.1\r\nContent-Length: 0x1\r\n\r\n", 400 },
        { "POST http://a.example/ HTTP/1.1\r\nContent-Length:\r\n\r\n", 400 },
        { "POST http://a.example/ HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n\r\n", 400 },
        { "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n"
          "\r\n",
          400 },
        { "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501 },
        { "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
          "Transfer-Encoding: chunked\r\n\r\n",
          400 },
        { "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n", 501 },
        { "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n", 400 },
        { "POST http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
        { "POST http://a.example/ HTTP/1.1\r\nExpect: 200-ok\r\n\r\n", 417 },
    };
    autofree char *large = malloc(HEAD_MAX + 64);
    const char *why;
    size_t at;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (parse(cases[i].text) != -cases[i].status)
            fail_msg("%d: %s", parse(cases[i].text), cases[i].text);

    assert_non_null(large);
    memset(large, 'a', HEAD_MAX + 64);
    assert_int_equal(request_head_parse(large, HEAD_MAX, &head, &why), -431);
    at = (size_t) snprintf(large, 64, "GET http://a.example/ HTTP/1.1\r\n");
    for (int i = 0; i <= HEAD_FIELDS_MAX; i++)
        at += (size_t) snprintf(large + at, 16, "a: b\r\n");
    memcpy(large + at, "\r\n", 2);
    assert_int_equal(request_head_parse(large, at + 2, &head, &why), -431);
    memset(large, 'a', HEAD_MAX);
    memcpy(large, "GET http://a.example/", 21);
    memcpy(large + 9000, " HTTP/1.1\r\n\r\n", 13);
    assert_int_equal(request_head_parse(large, 9013, &head, &why), -414);
}

static void test_bodies(void **state)
{
    static const struct {
        const char *text;
        long taken; /* -1: refused */
    } cases[] = {
        { "0\r\n\r\n", 5 },
        { "5\r\nhello\r\n0\r\n\r\nGET http://b.example/", 15 },
        { "a\r\n0123456789\r\n1\r\nx\r\n00\r\n\r\n", 27 },
        { "5;ext=1\r\nhello\r\n0\r\n\r\n", -1 },
        { "5 \r\nhello\r\n0\r\n\r\n", -1 },
        { "\r\n", -1 },
        { "-5\r\n", -1 },
        { "0x5\r\n", -1 },
        { "5\nhello", -1 },
        { "5\r\nhelloX", -1 },
        { "5\r\nhello\n0\r\n", -1 },
        { "0\r\nTrailer: x\r\n\r\n", -1 },
        { "10000000000000000\r\n", -1 },
    };
    struct body_reader reader;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t len = strlen(cases[i].text);

        /* At once, and byte by byte. */
        for (size_t piece = len; piece >= 1; piece = piece > 1 ? 1 : 0) {
            long taken = 0;

            body_reader_init(&reader, &(struct request_head){ .body = BODY_CHUNKED });
            for (size_t at = 0; at < len && taken >= 0 && !body_reader_done(&reader); at += piece) {
                ssize_t n = body_reader_feed(&reader, cases[i].text + at, piece);

                taken = n < 0 ? -1 : taken + (long) n;
            }
            if (taken != cases[i].taken || body_reader_done(&reader) != (taken > 0))
                fail_msg("%ld of '%s'", taken, cases[i].text);
            if (piece == 0)
                break;
        }
    }
    body_reader_init(&reader, &(struct request_head){ .body = BODY_LENGTH, .body_len = 5 });
    assert_int_equal(body_reader_feed(&reader, "abc", 3), 3);
    assert_false(body_reader_done(&reader));
    assert_int_equal(body_reader_feed(&reader, "deGET /", 7), 2);
    assert_true(body_reader_done(&reader));
    assert_int_equal(body_reader_feed(&reader, "GET /", 5), 0);
    body_reader_init(&reader, &(struct request_head){ .body = BODY_NONE });
    assert_true(body_reader_done(&reader));
}

static void test_replies(void **state)
{
    static const char good[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive, X-H\r\n"
        "Keep-Alive: 5\r\nX-H: 1\r\nSet-Cookie: a\r\n\r\nhi";
    static const char *const bad[] = {
        "hello\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 999 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 200 O\x01K\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
    };
    char out[512];
    size_t len;
    int status;

    (void) state;
    assert_int_equal(reply_head_rewrite(good, sizeof good - 1, out, sizeof out, &status, &len),
                     sizeof good - 1 - 2);
    out[len] = '\0';
    assert_int_equal(status, 200);
    assert_string_equal(out, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a\r\n"
                             "Connection: close\r\n\r\n");
    assert_int_equal(reply_head_rewrite(good, 40, out, sizeof out, &status, &len), 0);
    assert_int_equal(reply_head_rewrite(good, sizeof good - 1, out, 30, &status, &len), -EPROTO);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (reply_head_rewrite(bad[i], strlen(bad[i]), out, sizeof out, &status, &len) != -EPROTO)
            fail_msg("'%s' was taken", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_replies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
