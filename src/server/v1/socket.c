/*
 * Events of an execution over a WebSocket: each is a text message, formatted like a line of NDJSON.
 * A thread waits for events and sends them; the socket's own thread reads. The client may send
 * {"type": "interrupt"}. After the last event the socket is closed. If the client disconnects, the
 * run continues.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/json_depth.h"
#include "server/v1/schemas.h"
#include "server/v1/stream.h"

#include "base/banned.h"

#define SLICE_US      (USEC_PER_SEC / 4) /* how long it may take to notice a disconnect */
#define MESSAGE_BYTES (64u * 1024)
#define QUEUE_BYTES   (256u * 1024)
#define DEPTH_MAX     8

struct event_socket {
    struct ws *ws;
    struct execution *execution;
    struct event_cursor cursor;
    pthread_t thread;
    bool has_thread;
    atomic_bool ended; /* the client has disconnected */
    char text[EVENT_TEXT_BYTES];
};

/* ---- sending ---- */

/* Takes @data. Returns below 0 if there is nothing more to do. */
static int send_event(struct event_socket *s, const char *name, json_t *data)
{
    json_t *json = json_pack("{s:s,s:o}", "event", name, "data", data);
    char *text = json ? json_dumps(json, REPLY_JSON) : NULL;
    int r = -ENOMEM;

    json_decref(json);
    if (text) {
        /* Waits for a slow client as long as it is connected. */
        do
            r = ws_send(s->ws, WS_TEXT, text, strlen(text), SLICE_US);
        while (r == -EAGAIN);
    }
    if (r == -ENOMEM)
        ws_close(s->ws, WS_INTERNAL, "out of memory");
    free(text);
    return r;
}

static void *sender_main(void *arg)
{
    struct event_socket *s = arg;
    int r = send_event(s, "start", event_start_to_json(s->execution));
    bool last = false;

    while (r == 0 && !last && !atomic_load(&s->ended)) {
        struct event event = { 0 };
        int got = execution_next_event(s->execution, &s->cursor, s->text, sizeof s->text, SLICE_US,
                                       &event);

        if (got < 0)
            break;
        if (got == 0)
            continue;
        last = event_is_last(&event);
        r = send_event(s, event_kind_name(event.kind), event_data_to_json(&event));
        event_release(&event);
    }
    ws_close(s->ws, WS_NORMAL, NULL); /* unless it is closed already */
    return NULL;
}

/* ---- the socket ---- */

static int on_open(struct ws *ws, void *arg)
{
    struct event_socket *s = arg;

    s->ws = ws;
    s->has_thread = pthread_create(&s->thread, NULL, sender_main, s) == 0;
    return s->has_thread ? 0 : -EAGAIN;
}

static void on_message(struct ws *ws, enum ws_kind kind, const char *data, size_t len, void *arg)
{
    struct event_socket *s = arg;
    struct body_stream_message message = { 0 };
    json_t *errors = json_array(), *json = NULL;
    struct fault fault = { 0 };

    if (kind == WS_BINARY)
        ws_close(ws, WS_UNSUPPORTED, "send text");
    else if (json_too_deep(data, len, DEPTH_MAX) ||
             !(json = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL)) ||
             fields_read_body(&schema_stream_message, json, true, &message, errors) < 0)
        ws_close(ws, WS_POLICY, "the only message is {\"type\": \"interrupt\"}");
    else
        (void) execution_interrupt(s->execution, &fault); /* fails if it has already ended */
    json_decref(json);
    json_decref(errors);
}

static void on_close(struct ws *ws, enum ws_code code, void *arg)
{
    struct event_socket *s = arg;

    (void) ws;
    (void) code;
    atomic_store(&s->ended, true);
    if (s->has_thread)
        pthread_join(s->thread, NULL);
}

static void on_free(void *arg)
{
    struct event_socket *s = arg;

    execution_unref(s->execution);
    free(s);
}

void socket_events(struct request *rq, struct execution *execution,
                   const struct event_cursor *cursor)
{
    static const struct ws_handlers handlers = {
        .message_bytes_max = MESSAGE_BYTES,
        .queue_bytes_max = QUEUE_BYTES,
        .open = on_open,
        .message = on_message,
        .close = on_close,
        .free = on_free,
    };
    struct event_socket *s = calloc(1, sizeof *s);

    if (!s) {
        execution_unref(execution);
        reply_no_memory(rq);
        return;
    }
    s->execution = execution;
    s->cursor = *cursor;
    ws_accept(rq, &handlers, s);
}
