#include "server/http/ws_protocol.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <wslay/wslay.h>

#include "base/banned.h"

#define GUID      "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* of RFC 6455, section 1.3 */
#define KEY_CHARS 24                                     /* sixteen bytes in base64 */
#define SHA1_SIZE 20

enum { STATUS_BAD = 400, STATUS_UPGRADE = 426 };

/* ---- the handshake ---- */

/* The next element of a comma-separated list: its length, its start in *@ret_at, and the rest of
 * the list in *@list. 0 at the end; empty elements are skipped. */
static size_t next_element(const char **list, const char **ret_at)
{
    const char *at = *list + strspn(*list, ", \t");
    size_t len = strcspn(at, ","), used = len;

    while (used > 0 && (at[used - 1] == ' ' || at[used - 1] == '\t'))
        used--;
    *ret_at = at;
    *list = at + len;
    return used;
}

static bool has_element(const char *list, const char *name)
{
    const char *at;
    size_t len;

    while (list && (len = next_element(&list, &at)) > 0)
        if (len == strlen(name) && strncasecmp(at, name, len) == 0)
            return true;
    return false;
}

static bool is_key(const char *key)
{
    unsigned char bytes[KEY_CHARS];
    size_t len = 0;

    return key && strlen(key) == KEY_CHARS &&
           sodium_base642bin(bytes, sizeof bytes, key, KEY_CHARS, NULL, &len, NULL,
                             sodium_base64_VARIANT_ORIGINAL) == 0 &&
           len == 16;
}

int ws_hello_check(const struct ws_hello *hello, const char **ret_why)
{
    if (!has_element(hello->upgrade, "websocket") || !has_element(hello->connection, "upgrade")) {
        *ret_why = "this is a WebSocket: send Connection: Upgrade and Upgrade: websocket";
        return STATUS_UPGRADE;
    }
    if (!hello->version || strcmp(hello->version, "13") != 0) {
        *ret_why = "the only WebSocket version that is supported is 13";
        return STATUS_UPGRADE;
    }
    if (!is_key(hello->key)) {
        *ret_why = "Sec-WebSocket-Key must be 16 random bytes in base64";
        return STATUS_BAD;
    }
    return 0;
}

int ws_hello_answer(const char *key, char buf[WS_ANSWER_MAX])
{
    unsigned char hash[SHA1_SIZE];
    char text[KEY_CHARS + sizeof GUID];
    int len = snprintf(text, sizeof text, "%s" GUID, key);

    if (gnutls_hash_fast(GNUTLS_DIG_SHA1, text, (size_t) len, hash) < 0)
        return -EIO;
    (void) sodium_bin2base64(buf, WS_ANSWER_MAX, hash, sizeof hash, sodium_base64_VARIANT_ORIGINAL);
    return 0;
}

const char *ws_hello_protocol(const char *offered, const char *const *known)
{
    const char *at;
    size_t len;

    while (offered && known && (len = next_element(&offered, &at)) > 0)
        for (size_t i = 0; known[i]; i++)
            if (len == strlen(known[i]) && memcmp(at, known[i], len) == 0)
                return known[i];
    return NULL;
}

int ws_hello_bearer(const char *offered, char *buf, size_t size)
{
    static const size_t prefix = sizeof WS_PROTOCOL_BEARER - 1;
    const char *at;
    size_t len;
    int found = 0;

    while (offered && (len = next_element(&offered, &at)) > 0) {
        if (len < prefix || memcmp(at, WS_PROTOCOL_BEARER, prefix) != 0)
            continue;
        len -= prefix;
        if (found || len == 0 || len >= size)
            return -EINVAL;
        memcpy(buf, at + prefix, len);
        buf[len] = '\0';
        found = 1;
    }
    return found;
}

/* ---- frames ---- */

struct ws_codec {
    wslay_event_context_ptr wslay;
    struct ws_message *first, **last;
    bool no_memory;

    const char *in; /* while bytes are fed */
    size_t in_len;
    char *out; /* while bytes are written */
    size_t out_len, out_size;

    bool closes; /* once the queue is empty */
    enum ws_code close_code;
    char close_reason[WS_REASON_MAX + 1];
};

static ssize_t on_recv(wslay_event_context_ptr wslay, uint8_t *buf, size_t len, int flags,
                       void *arg)
{
    struct ws_codec *codec = arg;

    (void) flags;
    if (codec->in_len == 0) {
        wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    len = len < codec->in_len ? len : codec->in_len;
    memcpy(buf, codec->in, len);
    codec->in += len;
    codec->in_len -= len;
    return (ssize_t) len;
}

static ssize_t on_send(wslay_event_context_ptr wslay, const uint8_t *data, size_t len, int flags,
                       void *arg)
{
    struct ws_codec *codec = arg;
    size_t room = codec->out_size - codec->out_len;

    (void) flags;
    if (room == 0) {
        wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    len = len < room ? len : room;
    memcpy(codec->out + codec->out_len, data, len);
    codec->out_len += len;
    return (ssize_t) len;
}

static void on_message(wslay_event_context_ptr wslay, const struct wslay_event_on_msg_recv_arg *arg,
                       void *user)
{
    struct ws_codec *codec = user;
    struct ws_message *message;

    (void) wslay;
    if (arg->opcode != WSLAY_TEXT_FRAME && arg->opcode != WSLAY_BINARY_FRAME)
        return;
    message = malloc(sizeof *message + arg->msg_length + 1);
    if (!message) {
        codec->no_memory = true;
        return;
    }
    message->next = NULL;
    message->kind = arg->opcode == WSLAY_TEXT_FRAME ? WS_TEXT : WS_BINARY;
    message->len = arg->msg_length;
    if (arg->msg_length > 0)
        memcpy(message->data, arg->msg, arg->msg_length);
    message->data[message->len] = '\0';
    *codec->last = message;
    codec->last = &message->next;
}

int ws_codec_new(size_t message_bytes_max, struct ws_codec **ret_codec)
{
    static const struct wslay_event_callbacks callbacks = { .recv_callback = on_recv,
                                                            .send_callback = on_send,
                                                            .on_msg_recv_callback = on_message };
    struct ws_codec *codec = calloc(1, sizeof *codec);

    if (!codec || wslay_event_context_server_init(&codec->wslay, &callbacks, codec) != 0) {
        free(codec);
        return -ENOMEM;
    }
    wslay_event_config_set_max_recv_msg_length(codec->wslay, message_bytes_max);
    codec->last = &codec->first;
    *ret_codec = codec;
    return 0;
}

void ws_codec_free(struct ws_codec *codec)
{
    struct ws_message *message;

    if (!codec)
        return;
    while ((message = ws_codec_take(codec)))
        free(message);
    wslay_event_context_free(codec->wslay);
    free(codec);
}

/* For a frame with a malformed header wslay only queues a close without a code. */
int ws_codec_feed(struct ws_codec *codec, const char *data, size_t len)
{
    int r;

    codec->in = data;
    codec->in_len = len;
    r = wslay_event_recv(codec->wslay);
    codec->in_len = 0;
    if (r == WSLAY_ERR_NOMEM || codec->no_memory)
        return -ENOMEM;
    return r != 0 || !wslay_event_get_read_enabled(codec->wslay) ? -EPROTO : 0;
}

struct ws_message *ws_codec_take(struct ws_codec *codec)
{
    struct ws_message *message = codec->first;

    if (!message)
        return NULL;
    codec->first = message->next;
    if (!codec->first)
        codec->last = &codec->first;
    message->next = NULL;
    return message;
}

static int queue(struct ws_codec *codec, uint8_t opcode, const void *data, size_t len)
{
    struct wslay_event_msg message = { opcode, data, len };
    int r = codec->closes ? WSLAY_ERR_NO_MORE_MSG : wslay_event_queue_msg(codec->wslay, &message);

    return r == 0 ? 0 : r == WSLAY_ERR_NOMEM ? -ENOMEM : -EPIPE;
}

int ws_codec_send(struct ws_codec *codec, enum ws_kind kind, const void *data, size_t len)
{
    return queue(codec, kind == WS_TEXT ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, data, len);
}

int ws_codec_ping(struct ws_codec *codec)
{
    return queue(codec, WSLAY_PING, NULL, 0);
}

void ws_codec_close(struct ws_codec *codec, enum ws_code code, const char *reason)
{
    if (codec->closes)
        return;
    codec->closes = true;
    codec->close_code = code;
    snprintf(codec->close_reason, sizeof codec->close_reason, "%s", reason ? reason : "");
}

size_t ws_codec_output(struct ws_codec *codec, char *buf, size_t size)
{
    codec->out = buf;
    codec->out_len = 0;
    codec->out_size = size;
    (void) wslay_event_send(codec->wslay);
    /* The library sends a close before messages queued earlier, so it gets the close last. */
    if (codec->closes && wslay_event_get_write_enabled(codec->wslay) &&
        !wslay_event_want_write(codec->wslay) &&
        wslay_event_queue_close(codec->wslay, (uint16_t) codec->close_code,
                                (const uint8_t *) codec->close_reason,
                                strlen(codec->close_reason)) == 0)
        (void) wslay_event_send(codec->wslay);
    return codec->out_len;
}

size_t ws_codec_queued_bytes(const struct ws_codec *codec)
{
    return wslay_event_get_queued_msg_length(codec->wslay);
}

size_t ws_codec_queued_frames(const struct ws_codec *codec)
{
    return wslay_event_get_queued_msg_count(codec->wslay);
}

bool ws_codec_reads(const struct ws_codec *codec)
{
    return wslay_event_want_read(codec->wslay) != 0;
}

bool ws_codec_writes(const struct ws_codec *codec)
{
    return wslay_event_want_write(codec->wslay) != 0 ||
           (codec->closes && wslay_event_get_write_enabled(codec->wslay) != 0);
}

bool ws_codec_is_closing(const struct ws_codec *codec)
{
    return codec->closes || wslay_event_get_close_received(codec->wslay) ||
           wslay_event_get_close_sent(codec->wslay) || !wslay_event_want_read(codec->wslay);
}

enum ws_code ws_codec_code(const struct ws_codec *codec)
{
    if (wslay_event_get_close_received(codec->wslay))
        return (enum ws_code) wslay_event_get_status_code_received(codec->wslay);
    return (enum ws_code) wslay_event_get_status_code_sent(codec->wslay);
}
