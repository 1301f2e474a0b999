/*
 * Streams: replies that are written as their text is produced, as server-sent events or line by
 * line.
 *
 * The connection's own thread asks the source for the next text and waits for it, in slices of a
 * second, and writes it before it asks again. So a slow reader slows only itself. In between the
 * thread checks the socket. A client that has closed its sending half may still read, so this alone
 * does not end a stream: a keep-alive is sent, and a client that is gone replies with a reset.
 */
#pragma once

#include "base/clock.h"

struct request;

#define SSE_SLICE_US USEC_PER_SEC

enum sse_next {
    SSE_TEXT,    /* there is a text */
    SSE_NOTHING, /* none within SSE_SLICE_US */
    SSE_END,     /* the last one has been returned */
    SSE_BROKEN,  /* the stream cannot continue; the client sees it cut off */
};

struct sse_source {
    /* The next text in *@ret_text, for free(); NULL with SSE_TEXT means out of memory. */
    enum sse_next (*next)(void *arg, char **ret_text);
    void (*free)(void *arg);
    const char *media;     /* NULL: text/event-stream */
    const char *keepalive; /* what to send when idle; NULL: a comment */
};

/* Replies with the texts of @source. Takes @arg in any case. @header, @value: one more header, or
 * NULL. */
void sse_reply(struct request *rq, const struct sse_source *source, void *arg, const char *header,
               const char *value);

/* One event, for free(); NULL: out of memory. @id and @event may be NULL, @data has no line
 * break. */
char *sse_event(const char *id, const char *event, const char *data);

enum client { CLIENT_THERE, CLIENT_SILENT, CLIENT_GONE };

/* CLIENT_SILENT: it will send nothing more; it may still read. */
enum client client_look(int fd);
