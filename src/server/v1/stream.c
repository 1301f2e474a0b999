/*
 * Events of an execution as server-sent events and as NDJSON.
 *
 * A slow reader does not delay the run, because output is read from where it is kept. When the
 * client disconnects only the stream ends; the run ends too if the request asked for that.
 */
#include "server/v1/stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/http/sse.h"

#include "base/banned.h"

struct event_stream {
    struct execution *execution;
    struct event_cursor cursor;
    enum media media;
    bool cancel, started, ended;
    char text[EVENT_TEXT_BYTES];
};

/* ---- one event as JSON ---- */

static json_t *text_to_json(const struct event *event)
{
    json_t *json = json_pack("{s:s%,s:I,s:I}", "text", event->text, event->text_len, "offset",
                             (json_int_t) event->offset, "next", (json_int_t) event->next);

    if (json && event->left_out > 0)
        (void) json_object_set_new(json, "left_out", json_integer(event->left_out));
    return json;
}

json_t *fault_to_json(const struct fault *fault)
{
    return json_pack("{s:s+,s:s,s:i,s:s}", "type",
                     "urn:glovebox:problem:", problem_word(fault->problem), "title",
                     MHD_get_reason_phrase_for((unsigned) fault->kind), "status", (int) fault->kind,
                     "detail", fault->detail);
}

json_t *event_start_to_json(struct execution *execution)
{
    return json_pack("{s:s,s:s?}", "execution_id", execution_id(execution), "session_id",
                     execution_session_id(execution));
}

json_t *event_data_to_json(struct event *event)
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

bool event_is_last(const struct event *event)
{
    return event->kind == EVENT_RECEIPT || event->kind == EVENT_FAULT;
}

/* ---- the stream ---- */

char *event_text(enum media media, const char *id, const char *name, json_t *data)
{
    char *json = data ? json_dumps(data, REPLY_JSON) : NULL, *text = NULL;

    json_decref(data);
    if (json && media != MEDIA_NDJSON)
        text = sse_event(id, name, json);
    else if (json && asprintf(&text, "{\"event\":\"%s\",\"data\":%s}\n", name, json) < 0)
        text = NULL;
    free(json);
    return text;
}

static char *make_text(const struct event_stream *s, const char *name, json_t *data)
{
    char id[80];

    snprintf(id, sizeof id, "%lld-%lld-%zu", (long long) s->cursor.out, (long long) s->cursor.err,
             s->cursor.displays);
    return event_text(s->media, id, name, data);
}

static enum sse_next stream_next(void *arg, char **ret_text)
{
    struct event_stream *s = arg;
    struct event event = { 0 };
    int r;

    if (s->ended)
        return SSE_END;
    if (!s->started) {
        s->started = true;
        *ret_text = make_text(s, "start", event_start_to_json(s->execution));
        return SSE_TEXT;
    }
    r = execution_next_event(s->execution, &s->cursor, s->text, sizeof s->text, SSE_SLICE_US,
                             &event);
    if (r <= 0)
        return r < 0 ? SSE_END : SSE_NOTHING;
    *ret_text = make_text(s, event_kind_name(event.kind), event_data_to_json(&event));
    s->ended = event_is_last(&event);
    event_release(&event);
    return SSE_TEXT;
}

static void stream_free(void *arg)
{
    struct event_stream *s = arg;
    struct fault fault;

    if (s->cancel && !s->ended)
        (void) execution_interrupt(s->execution, &fault);
    execution_unref(s->execution);
    free(s);
}

void stream_events(struct request *rq, enum media media, struct execution *execution,
                   const struct event_cursor *cursor, bool cancel)
{
    static const struct sse_source events = { stream_next, stream_free, NULL, NULL };
    static const struct sse_source lines = { stream_next, stream_free, "application/x-ndjson",
                                             "{\"event\":\"keepalive\",\"data\":{}}\n" };
    struct event_stream *s = calloc(1, sizeof *s);

    request_note(rq, execution_session_id(execution), execution_id(execution));
    if (!s) {
        execution_unref(execution);
        reply_no_memory(rq);
        return;
    }
    s->execution = execution;
    s->cursor = *cursor;
    s->media = media;
    s->cancel = cancel;
    sse_reply(rq, media == MEDIA_NDJSON ? &lines : &events, s, NULL, NULL);
}
