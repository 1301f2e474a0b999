/*
 * The receiving side of a WebSocket. The first line of the input is a list of subprotocols, the
 * second a key; the rest is what a client sends: pieces, each with its length in a byte before it.
 * A length of 0 means: put out what is queued, a few bytes only, as to a slow reader.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "server/http/ws_protocol.h"

#include "base/banned.h"

#define MESSAGE_MAX 300

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_hello(const char *protocols, const char *key)
{
    static const char *const known[] = { "v1.kernel", "v2", NULL };
    struct ws_hello hello = { protocols, "upgrade", key, "13" };
    const char *why = NULL, *protocol = ws_hello_protocol(protocols, known);
    char answer[WS_ANSWER_MAX];
    int status;

    must(!protocol || strstr(protocols, protocol));
    (void) ws_hello_check(&hello, &why);
    hello.upgrade = "websocket";
    status = ws_hello_check(&hello, &why);
    must(status == 0 || (status == 400 && why));
    if (status == 0) {
        must(ws_hello_answer(key, answer) == 0);
        must(strlen(answer) == 28);
    }
}

static void take_messages(struct ws_codec *codec)
{
    struct ws_message *message;

    while ((message = ws_codec_take(codec))) {
        must(message->len <= MESSAGE_MAX && message->data[message->len] == '\0');
        if (message->kind == WS_TEXT)
            must(utf8_valid(message->data, message->len));
        /* What a handler does: it answers. */
        (void) ws_codec_send(codec, message->kind, message->data, message->len);
        free(message);
    }
}

/* What is put out is frames without a mask; the first byte of all must say so. */
static void put_out(struct ws_codec *codec, size_t size, bool *begun)
{
    char buf[64];
    size_t len = ws_codec_output(codec, buf, size);

    must(len <= size);
    if (len > 0 && !*begun) {
        must((buf[0] & 0x70) == 0 && (buf[0] & 0x0f) <= 10);
        *begun = true;
    }
}

static void check_frames(const uint8_t *input, size_t size)
{
    struct ws_codec *codec = NULL;
    bool begun = false, closed = false;

    if (ws_codec_new(MESSAGE_MAX, &codec) < 0)
        return;
    while (size > 0) {
        size_t len = *input++;

        size--;
        len = len < size ? len : size;
        if (len == 0) {
            put_out(codec, 7, &begun);
            continue;
        }
        if (ws_codec_feed(codec, (const char *) input, len) < 0)
            closed = true;
        must(!closed || !ws_codec_reads(codec));
        take_messages(codec);
        input += len;
        size -= len;
    }
    ws_codec_close(codec, WS_GOING_AWAY, "end");
    for (int i = 0; ws_codec_writes(codec); i++) {
        put_out(codec, 64, &begun);
        must(i < 1000000);
    }
    must(ws_codec_queued_bytes(codec) == 0 || closed);
    must(ws_codec_is_closing(codec));
    (void) ws_codec_code(codec);
    ws_codec_free(codec);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    const uint8_t *first = size ? memchr(input, '\n', size) : NULL, *second;
    char *lines = malloc(size + 1);

    if (!lines)
        return 0;
    memcpy(lines, input, size);
    lines[size] = '\0';
    second = first ? memchr(first + 1, '\n', size - (size_t) (first + 1 - input)) : NULL;
    if (second) {
        size_t used = (size_t) (second + 1 - input);

        lines[first - input] = lines[second - input] = '\0';
        check_hello(lines, lines + (first + 1 - input));
        check_frames(input + used, size - used);
    }
    free(lines);
    return 0;
}
