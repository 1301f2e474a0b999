/*
 * WebSocket (RFC 6455) without a socket: the handshake, and frames by libwslay.
 *
 * A codec belongs to one thread at a time. It never waits: bytes of the client go in, messages come
 * out; messages go in, bytes for the client come out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum ws_kind { WS_TEXT = 1, WS_BINARY = 2 };

enum ws_code {
    WS_NORMAL = 1000,
    WS_GOING_AWAY = 1001,
    WS_PROTOCOL_ERROR = 1002,
    WS_UNSUPPORTED = 1003, /* this kind of message is not accepted */
    WS_NO_CODE = 1005,     /* never sent: the other side closed without a code */
    WS_ABNORMAL = 1006,    /* never sent: the connection broke */
    WS_BAD_TEXT = 1007,
    WS_POLICY = 1008, /* a message that is not allowed */
    WS_TOO_BIG = 1009,
    WS_INTERNAL = 1011,
};

#define WS_REASON_MAX 120 /* bytes of text in a close frame */

/* ---- the handshake ---- */

#define WS_ANSWER_MAX 32

/* The headers of a request that asks for a WebSocket; NULL when absent. */
struct ws_hello {
    const char *upgrade, *connection, *key, *version;
};

/* 0, or the HTTP status of the refusal (400, 426) with the reason in *@ret_why. */
int ws_hello_check(const struct ws_hello *hello, const char **ret_why);

/* Sec-WebSocket-Accept for a key that was checked; -EIO if it cannot be hashed. */
int ws_hello_answer(const char *key, char buf[WS_ANSWER_MAX]);

/* The first subprotocol of the list @offered that is in @known, which ends with NULL; NULL: none.
 */
const char *ws_hello_protocol(const char *offered, const char *const *known);

/* What web pages offer: they cannot set headers, so the token comes as a subprotocol beside the one
 * that is chosen. */
#define WS_PROTOCOL_PAGE   "glovebox.v1"
#define WS_PROTOCOL_BEARER "glovebox.bearer."

/* Copies the token in the list @offered, which may be NULL, to @buf. 0: there is none. -EINVAL: it
 * is empty or does not fit, or there are several. */
int ws_hello_bearer(const char *offered, char *buf, size_t size);

/* ---- frames ---- */

struct ws_codec;

struct ws_message {
    struct ws_message *next;
    enum ws_kind kind;
    size_t len;
    char data[]; /* text is UTF-8; a NUL follows, which is not counted */
};

/* @message_bytes_max: of a received message; a larger one closes with WS_TOO_BIG. */
int ws_codec_new(size_t message_bytes_max, struct ws_codec **ret_codec);
void ws_codec_free(struct ws_codec *codec); /* accepts NULL */

/* Takes all bytes from the client. A protocol violation closes; pings are answered. -EPROTO once
 * nothing more is read, -ENOMEM. */
int ws_codec_feed(struct ws_codec *codec, const char *data, size_t len);

/* The oldest message received, for free(); NULL: none. */
struct ws_message *ws_codec_take(struct ws_codec *codec);

/* Queues a message or a ping. -EPIPE after a close, -ENOMEM. */
int ws_codec_send(struct ws_codec *codec, enum ws_kind kind, const void *data, size_t len);
int ws_codec_ping(struct ws_codec *codec);

/* Closes once everything in the queue has been written; the first call counts. @reason may be
 * NULL. */
void ws_codec_close(struct ws_codec *codec, enum ws_code code, const char *reason);

/* Writes at most @size bytes for the client to the buffer; returns how many. */
size_t ws_codec_output(struct ws_codec *codec, char *buf, size_t size);

/* Bytes and frames that are queued and not yet written. */
size_t ws_codec_queued_bytes(const struct ws_codec *codec);
size_t ws_codec_queued_frames(const struct ws_codec *codec);

bool ws_codec_reads(const struct ws_codec *codec);      /* bytes of the client still matter */
bool ws_codec_writes(const struct ws_codec *codec);     /* there is something to write */
bool ws_codec_is_closing(const struct ws_codec *codec); /* one side or the other has closed */

/* Why it ended: the client's code, otherwise ours, otherwise WS_ABNORMAL. */
enum ws_code ws_codec_code(const struct ws_codec *codec);
