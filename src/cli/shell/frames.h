/* WebSocket frames (RFC 6455) of a client, without a socket. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum frame_kind {
    FRAME_MORE = 0, /* the rest of a message; callers never see it */
    FRAME_TEXT = 1,
    FRAME_BINARY = 2,
    FRAME_CLOSE = 8,
    FRAME_PING = 9,
    FRAME_PONG = 10,
};

#define FRAME_HEAD_MAX 14

/* Writes the head of a client's frame, and masks @data in place. Returns the length of the head. */
size_t frame_wrap(enum frame_kind kind, char *data, size_t len, const uint8_t mask[4],
                  uint8_t head[FRAME_HEAD_MAX]);

/* What comes from the server. All zero is the beginning. */
struct frames {
    uint8_t head[10];
    size_t head_len;
    char *data; /* of the message so far, then of the control frame in it */
    size_t len, size;
    uint64_t left;      /* of the frame's payload; only with a whole head */
    size_t kept;        /* how much of the data is of earlier frames */
    enum frame_kind of; /* kind of the message; FRAME_MORE: none has begun */
};

void frames_release(struct frames *frames);

/* Takes all bytes; @each gets every message and control frame. -EPROTO for anything that a server
 * must not send, -EMSGSIZE, -ENOMEM; or what @each returned, if negative. */
int frames_feed(struct frames *frames, const char *data, size_t len,
                int (*each)(void *arg, enum frame_kind kind, const char *data, size_t len),
                void *arg);
