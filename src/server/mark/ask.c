/*
 * Mark over HTTP: questions, answers and their events, models.
 *
 * An answer has a thread of its own in the agent. Here the connection's thread only waits for it,
 * in slices in which it also looks whether the client is still there, or writes its events as they
 * come. So a client that goes away ends nothing but its own waiting.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/parse.h"
#include "base/text/strv.h"
#include "mark/chat/chats.h"
#include "mark/mark.h"
#include "server/handlers.h"
#include "server/http/sse.h"
#include "server/mark/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

static struct agent *agent_of(struct request *rq)
{
    return mark_agent(rq->server->config.mark);
}

/* ---- events ---- */

struct answer_stream {
    struct answer *answer;
    enum media media;
    int64_t after; /* the id of the last event that was sent */
    bool ended;
};

/* One event as text, for free(); NULL: out of memory. Its data is JSON already. */
static char *event_to_text(enum media media, const struct answer_event *event)
{
    char id[24], *text = NULL;

    snprintf(id, sizeof id, "%lld", (long long) event->id);
    if (media != MEDIA_NDJSON)
        return sse_event(id, event->name, event->data);
    if (asprintf(&text, "{\"event\":\"%s\",\"id\":%s,\"data\":%s}\n", event->name, id,
                 event->data) < 0)
        return NULL;
    return text;
}

static enum sse_next stream_next(void *arg, char **ret_text)
{
    struct answer_stream *s = arg;
    struct answer_event event = { 0 };
    int r;

    if (s->ended)
        return SSE_END;
    r = answer_next_event(s->answer, s->after, SSE_SLICE_US, &event);
    if (r <= 0)
        return r < 0 ? SSE_END : SSE_NOTHING;
    s->after = event.id;
    s->ended = event.last;
    *ret_text = event.data ? event_to_text(s->media, &event) : NULL;
    free(event.data);
    return SSE_TEXT;
}

static void stream_free(void *arg)
{
    struct answer_stream *s = arg;

    answer_unref(s->answer);
    free(s);
}

/* Replies with the events after number @after. Takes the reference. */
static void stream_answer(struct request *rq, enum media media, struct answer *answer,
                          int64_t after)
{
    static const struct sse_source events = { stream_next, stream_free, NULL, NULL };
    static const struct sse_source lines = { stream_next, stream_free, "application/x-ndjson",
                                             "{\"event\":\"keepalive\",\"data\":{}}\n" };
    struct answer_stream *s = calloc(1, sizeof *s);

    if (!s) {
        answer_unref(answer);
        reply_no_memory(rq);
        return;
    }
    s->answer = answer;
    s->media = media;
    s->after = after;
    sse_reply(rq, media == MEDIA_NDJSON ? &lines : &events, s, NULL, NULL);
}

/* ---- asking ---- */

/* Waits for the end. Of an answer whose client is gone nobody reads the reply. */
static void wait_answer(struct request *rq, struct answer *answer)
{
    while (!answer_wait(answer, SSE_SLICE_US))
        if (client_look(request_socket(rq)) == CLIENT_GONE)
            return;
}

/* The whole answer, or its events as they come. Takes the reference. */
static void reply_answer(struct request *rq, struct answer *answer)
{
    enum media media = negotiate_media(rq->headers.accept);

    if (media != MEDIA_JSON) {
        stream_answer(rq, media, answer, 0);
        return;
    }
    wait_answer(rq, answer);
    reply_json(rq, MHD_HTTP_OK, answer_to_json(answer));
    answer_unref(answer);
}

static int read_ids(struct request *rq, const json_t *list, char ***ret_ids)
{
    json_t *item;
    size_t i;

    json_array_foreach (list, i, item)
        if (strv_add(ret_ids, json_string_value(item)) < 0) {
            reply_no_memory(rq);
            return -1;
        }
    return 0;
}

/* A list of a body: NULL if it is not there, which is not the same as one without members. */
static const char *const *list_or_none(const json_t *list, char **ids)
{
    static const char *const none[] = { NULL };

    return list && !ids ? none : (const char *const *) ids;
}

void mark_ask(struct request *rq)
{
    struct agent_question question = { 0 };
    struct answer *answer = NULL;
    struct fault fault = { 0 };
    struct body_ask body = { 0 };
    char **ids = NULL, **sources = NULL;

    if (request_json(rq, &body) < 0)
        return;
    if (read_ids(rq, body.attachments, &ids) == 0 && read_ids(rq, body.sources, &sources) == 0) {
        question.query = body.query;
        question.chat_id = body.chat_id;
        question.attachments = (const char *const *) ids;
        question.model = body.model;
        question.sources = list_or_none(body.sources, sources);
        if (agent_ask(agent_of(rq), &rq->caller, &question, &answer, &fault) < 0)
            reply_fault(rq, &fault);
        else
            reply_answer(rq, answer);
    }
    strv_free(ids);
    strv_free(sources);
}

void mark_edit(struct request *rq)
{
    struct agent_question question = { 0 };
    struct answer *answer = NULL;
    struct fault fault = { 0 };
    struct body_edit body = { 0 };
    char **ids = NULL, **sources = NULL;

    if (request_json(rq, &body) < 0)
        return;
    if (read_ids(rq, body.attachments, &ids) == 0 && read_ids(rq, body.sources, &sources) == 0) {
        question.query = body.query;
        question.model = body.model;
        question.attachments = list_or_none(body.attachments, ids);
        question.sources = list_or_none(body.sources, sources);
        if (agent_edit(agent_of(rq), &rq->caller, request_param(rq, "id"), &question, &answer,
                       &fault) < 0)
            reply_fault(rq, &fault);
        else
            reply_answer(rq, answer);
    }
    strv_free(ids);
    strv_free(sources);
}

void mark_regenerate(struct request *rq)
{
    struct body_regenerate body = { 0 };
    struct answer *answer = NULL;
    struct fault fault = { 0 };

    if (request_json(rq, &body) < 0)
        return;
    if (agent_regenerate(agent_of(rq), &rq->caller, request_param(rq, "id"), body.model, &answer,
                         &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_answer(rq, answer);
}

void mark_stop(struct request *rq)
{
    struct fault fault = { 0 };
    size_t count = 0;

    if (agent_stop(agent_of(rq), &rq->caller, request_param(rq, "id"), &count, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json_pack("{s:I}", "stopped", (json_int_t) count));
}

/* ---- answers ---- */

void mark_events(struct request *rq)
{
    enum media media = negotiate_media(rq->headers.accept);
    const char *last = rq->headers.last_event_id;
    struct query_mark_events query = { 0 };
    struct answer *answer = NULL;
    struct fault fault = { 0 };
    int64_t after = 0;

    if (request_query(rq, &query) < 0)
        return;
    /* An id that is not ours is of another stream: from the start, then. */
    if (query.after != FIELD_ABSENT)
        after = query.after;
    else if (last && (parse_int(last, &after) < 0 || after < 0))
        after = 0;
    if (answer_find(agent_of(rq), &rq->caller, request_param(rq, "id"), &answer, &fault) < 0)
        reply_fault(rq, &fault);
    else
        stream_answer(rq, media == MEDIA_JSON ? MEDIA_SSE : media, answer, after);
}

/* Of an answer under way the store has nothing yet: what there is comes from the agent. */
static void add_live(struct request *rq, const char *id, json_t *message)
{
    const char *status = json_string_value(json_object_get(message, "status"));
    struct answer *answer = NULL;
    struct fault fault = { 0 };

    if (!status || strcmp(status, "pending") != 0 ||
        answer_find(agent_of(rq), &rq->caller, id, &answer, &fault) < 0)
        return;
    (void) json_object_set_new(message, "response", answer_to_json(answer));
    answer_unref(answer);
}

void mark_message(struct request *rq)
{
    const char *id = request_param(rq, "id");
    struct fault fault = { 0 };
    json_t *message = NULL;

    if (chat_message(mark_store(rq->server->config.mark), &rq->caller, id, &message, &fault) < 0) {
        reply_fault(rq, &fault);
        return;
    }
    add_live(rq, id, message);
    (void) json_object_set_new(message, "verified",
                               verify_of(mark_verify(rq->server->config.mark), &rq->caller, id));
    reply_json(rq, MHD_HTTP_OK, message);
}

static void reply_look(struct request *rq,
                       int (*look)(struct agent *agent, const struct caller *caller,
                                   const char *message_id, json_t **ret_json, struct fault *fault))
{
    struct fault fault = { 0 };
    json_t *json = NULL;

    if (look(agent_of(rq), &rq->caller, request_param(rq, "id"), &json, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
}

void mark_recheck(struct request *rq)
{
    struct body_recheck body = { 0 };
    struct fault fault = { 0 };
    json_t *json = NULL;

    if (request_json(rq, &body) < 0)
        return;
    if (agent_recheck(agent_of(rq), &rq->caller, request_param(rq, "id"),
                      body.live ? AGENT_CASE_LIVE : 0, &json, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
}

void mark_trace(struct request *rq)
{
    reply_look(rq, agent_trace);
}

/* ---- budgets ---- */

void mark_budget(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL;

    if (budget_to_json(mark_budgets(rq->server->config.mark), &rq->caller, &json, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
}

/* ---- models ---- */

void mark_models_list(struct request *rq)
{
    const struct llm_models *models = mark_models(rq->server->config.mark);
    const struct llm_model *demo = llm_model_demo(models), *model;
    bool is_guest = rq->caller.is_guest;
    json_t *list = json_array();

    for (size_t i = 0; (model = llm_model_at(models, i)); i++)
        if (!is_guest || model == demo)
            (void) json_array_append_new(list, llm_model_to_json(model));
    model = is_guest ? demo : llm_model_find(models, NULL);
    reply_json(
        rq, MHD_HTTP_OK,
        json_pack("{s:o,s:s?}", "models", list, "default", model ? llm_model_name(model) : NULL));
}
