/*
 * Streams of events: server-sent events and NDJSON.
 *
 * The connection's own thread asks for the next event and waits for it, in slices of a second, and
 * writes it before it asks again. A slow reader therefore slows only itself: the run goes on, and
 * what it prints is read from where it is kept. In between the thread looks at the socket. A client
 * that has closed its sending half may still read, so this alone does not end a stream: a comment
 * is sent, to which a client that is gone answers with a reset. When the client has left only the
 * stream ends, and the run too if that was asked for.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define TEXT_BYTES 16384
#define SLICE_US   USEC_PER_SEC

struct event_stream {
    struct server *server;
    struct MHD_Connection *mhd;
    struct execution *execution;
    struct event_cursor cursor;
    enum media media;
    int fd;
    bool cancel, started, ended;
    int64_t quiet_since_us;
    struct pending pending;
    char text[TEXT_BYTES];
};

/* ---- one event as text ---- */

static json_t *text_to_json(const struct event *event)
{
    json_t *json = json_pack("{s:s%,s:I,s:I}", "text", event->text, event->text_len, "offset",
                             (json_int_t) event->offset, "next", (json_int_t) event->next);

    if (json && event->left_out > 0)
        (void) json_object_set_new(json, "left_out", json_integer(event->left_out));
    return json;
}

static json_t *fault_to_json(const struct fault *fault)
{
    return json_pack("{s:s+,s:s,s:i,s:s}", "type",
                     "urn:glovebox:problem:", problem_word(fault->problem), "title",
                     MHD_get_reason_phrase_for((unsigned) fault->kind), "status", (int) fault->kind,
                     "detail", fault->detail);
}

static json_t *event_to_json(struct event *event)
{
    switch (event->kind) {
    case EVENT_STDOUT:
    case EVENT_STDERR:
        return text_to_json(event);
    case EVENT_FAULT:
        return fault_to_json(&event->fault);
    case EVENT_DISPLAY:
    case EVENT_RESULT:
    case EVENT_RECEIPT:
        break;
    }
    return json_incref(event->json);
}

/* Makes @data the pending text; takes @data. */
static int put_event(struct event_stream *s, const char *name, json_t *data)
{
    char *json = data ? json_dumps(data, REPLY_JSON) : NULL;
    int len = -1;

    json_decref(data);
    if (json && s->media == MEDIA_NDJSON)
        len = asprintf(&s->pending.text, "{\"event\":\"%s\",\"data\":%s}\n", name, json);
    else if (json)
        len = asprintf(&s->pending.text, "id: %lld-%lld-%zu\nevent: %s\ndata: %s\n\n",
                       (long long) s->cursor.out, (long long) s->cursor.err, s->cursor.displays,
                       name, json);
    free(json);
    if (len < 0) {
        s->pending.text = NULL;
        return -1;
    }
    s->pending.len = (size_t) len;
    s->pending.used = 0;
    return 0;
}

static int put_start(struct event_stream *s)
{
    s->started = true;
    return put_event(s, "start",
                     json_pack("{s:s,s:s?}", "execution_id", execution_id(s->execution),
                               "session_id", execution_session_id(s->execution)));
}

static int put_keepalive(struct event_stream *s)
{
    static const char comment[] = ": keep-alive\n\n";

    if (s->media == MEDIA_NDJSON)
        return put_event(s, "keepalive", json_object());
    s->pending.text = strdup(comment);
    s->pending.len = sizeof comment - 1;
    s->pending.used = 0;
    return s->pending.text ? 0 : -1;
}

/* ---- the client ---- */

enum client client_look(int fd)
{
    struct pollfd p = { fd, POLLRDHUP, 0 };

    if (poll(&p, 1, 0) <= 0)
        return CLIENT_THERE;
    return p.revents & (POLLHUP | POLLERR | POLLNVAL) ? CLIENT_GONE : CLIENT_SILENT;
}

/* Waits for the next event or a reason to say something else. Returns 0 with text pending, 1 after
 * the last event, -1 when the stream cannot go on. */
static int next_text(struct event_stream *s)
{
    for (;;) {
        struct event event = { 0 };
        int r = execution_next_event(s->execution, &s->cursor, s->text, sizeof s->text, SLICE_US,
                                     &event);

        if (r < 0)
            return 1;
        if (r > 0) {
            r = put_event(s, event_kind_name(event.kind), event_to_json(&event));
            s->ended = event.kind == EVENT_RECEIPT || event.kind == EVENT_FAULT;
            event_release(&event);
            return r;
        }
        switch (client_look(s->fd)) {
        case CLIENT_GONE:
            return -1;
        case CLIENT_SILENT:
            return put_keepalive(s);
        case CLIENT_THERE:
            if (clock_now_us() - s->quiet_since_us >= s->server->config.keepalive_us)
                return put_keepalive(s);
        }
    }
}

ssize_t pending_read(struct pending *pending, char *buf, size_t max)
{
    size_t len = pending->len - pending->used;

    len = len < max ? len : max;
    memcpy(buf, pending->text + pending->used, len);
    pending->used += len;
    if (pending->used == pending->len) {
        free(pending->text);
        pending->text = NULL;
    }
    return (ssize_t) len;
}

static ssize_t on_read(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct event_stream *s = cls;
    int r;

    (void) pos;
    if (!s->pending.text) {
        if (s->ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        /* While we wait the library must not think the connection idle. */
        (void) MHD_set_connection_option(s->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
        r = s->started ? next_text(s) : put_start(s);
        (void) MHD_set_connection_option(s->mhd, MHD_CONNECTION_OPTION_TIMEOUT,
                                         (unsigned) (s->server->config.idle_us / USEC_PER_SEC));
        if (r != 0)
            return r > 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
    }
    s->quiet_since_us = clock_now_us();
    return pending_read(&s->pending, buf, max);
}

static void on_free(void *cls)
{
    struct event_stream *s = cls;
    struct fault fault;

    if (s->cancel && !s->ended)
        (void) execution_interrupt(s->execution, &fault);
    atomic_fetch_sub(&s->server->streams, 1);
    execution_unref(s->execution);
    free(s->pending.text);
    free(s);
}

void stream_events(struct request *rq, enum media media, struct execution *execution,
                   const struct event_cursor *cursor, bool cancel)
{
    struct event_stream *s = calloc(1, sizeof *s);
    struct MHD_Response *response;

    request_note(rq, execution_session_id(execution), execution_id(execution));
    if (!s) {
        execution_unref(execution);
        reply_no_memory(rq);
        return;
    }
    s->server = rq->server;
    s->mhd = rq->mhd;
    s->execution = execution;
    s->cursor = *cursor;
    s->media = media;
    s->fd = request_socket(rq);
    s->cancel = cancel;
    s->quiet_since_us = clock_now_us();
    atomic_fetch_add(&s->server->streams, 1);
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, TEXT_BYTES, on_read, s, on_free);
    if (!response) {
        on_free(s);
        return;
    }
    reply_header(response, "Content-Type",
                 media == MEDIA_SSE ? "text/event-stream" : "application/x-ndjson");
    reply_header(response, "Cache-Control", "no-cache, no-transform");
    reply_header(response, "X-Accel-Buffering", "no"); /* proxies must not collect it */
    reply_send(rq, MHD_HTTP_OK, response);
}
