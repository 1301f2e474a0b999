/*
 * Streams: replies that are written as their text comes, as server-sent events or line by line.
 *
 * The connection's own thread asks the source for the next text and waits for it, in slices of a
 * second, and writes it before it asks again. A slow reader therefore slows only itself. In between
 * the thread looks at the socket. A client that has closed its sending half may still read, so this
 * alone does not end a stream: a keep-alive is sent, to which a client that is gone answers with a
 * reset.
 */
#pragma once

#include "base/clock.h"

struct request;

#define SSE_SLICE_US USEC_PER_SEC

enum sse_next {
    SSE_TEXT,    /* there is a text */
    SSE_NOTHING, /* not within SSE_SLICE_US */
    SSE_END,     /* the last has been given */
    SSE_BROKEN,  /* the stream cannot go on; the client sees it cut off */
};

struct sse_source {
    /* The next text in *@ret_text, for free(); NULL with SSE_TEXT means no memory. */
    enum sse_next (*next)(void *arg, char **ret_text);
    void (*free)(void *arg);
    const char *media;     /* NULL: text/event-stream */
    const char *keepalive; /* what to write in silence; NULL: a comment */
};

/* Answers with what @source gives. Takes @arg in any case. @header, @value: one more header, or
 * NULL. */
void sse_reply(struct request *rq, const struct sse_source *source, void *arg, const char *header,
               const char *value);

/* One event, for free(); NULL: no memory. @id and @event may be NULL, @data has no line break. */
char *sse_event(const char *id, const char *event, const char *data);

enum client { CLIENT_THERE, CLIENT_SILENT, CLIENT_GONE };

/* CLIENT_SILENT: it will send nothing more; it may still read. */
enum client client_look(int fd);
