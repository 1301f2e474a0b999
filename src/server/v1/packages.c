/* Native API: packages of a session, and of the caller's default set. */
#include <stdlib.h>

#include "server/handlers.h"
#include "server/http/negotiate.h"
#include "server/http/sse.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"
#include "server/v1/stream.h"

#include "base/banned.h"

const char **body_texts(const json_t *list)
{
    size_t len = json_array_size(list);
    const char **texts = calloc(len + 1, sizeof *texts);

    for (size_t i = 0; texts && i < len; i++)
        texts[i] = json_string_value(json_array_get(list, i));
    return texts;
}

/* All take @session, which may be NULL, and reply. */

static void list(struct request *rq, struct session *session)
{
    struct fault fault = { 0 };
    json_t *json = NULL;

    if (packages_list(rq->server->config.service, &rq->caller, session, &json, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
    session_unref(session);
}

/* ---- an install as a stream of events ---- */

struct install_stream {
    struct install_task *task;
    enum media media;
    bool ended;
};

static json_t *progress_to_json(const struct install_progress *progress)
{
    return json_pack("{s:s,s:I,s:I,s:I,s:I,s:s}", "stage", install_stage_name(progress->stage),
                     "done", (json_int_t) progress->done, "total", (json_int_t) progress->total,
                     "bytes", (json_int_t) progress->bytes, "bytes_total",
                     (json_int_t) progress->bytes_total, "name", progress->name);
}

static enum sse_next install_next(void *arg, char **ret_text)
{
    struct install_stream *s = arg;
    struct install_event event;
    const char *name = "progress";
    json_t *data;
    int r;

    if (s->ended)
        return SSE_END;
    r = install_task_next(s->task, SSE_SLICE_US, &event);
    if (r <= 0)
        return r < 0 ? SSE_END : SSE_NOTHING;
    s->ended = event.last;
    if (!event.last)
        data = progress_to_json(&event.progress);
    else {
        name = event.json ? "installed" : "error";
        data = event.json ? event.json : fault_to_json(&event.fault);
    }
    *ret_text = event_text(s->media, NULL, name, data);
    return SSE_TEXT;
}

static void install_free(void *arg)
{
    struct install_stream *s = arg;

    install_task_free(s->task);
    free(s);
}

/* Replies with the progress, then the result. If the client leaves, the install ends. */
static void install_follow(struct request *rq, struct session *session,
                           const struct install_order *order, enum media media)
{
    static const struct sse_source events = { install_next, install_free, NULL, NULL };
    static const struct sse_source lines = { install_next, install_free, "application/x-ndjson",
                                             "{\"event\":\"keepalive\",\"data\":{}}\n" };
    struct install_stream *s = calloc(1, sizeof *s);
    struct fault fault = { 0 };

    if (!s) {
        reply_no_memory(rq);
        return;
    }
    s->media = media;
    if (install_task_start(rq->server->config.service, &rq->caller, session, order, NULL, NULL,
                           &s->task, &fault) < 0) {
        free(s);
        reply_fault(rq, &fault);
        return;
    }
    sse_reply(rq, media == MEDIA_NDJSON ? &lines : &events, s, NULL, NULL);
}

static void install(struct request *rq, struct session *session)
{
    enum media media = negotiate_media(rq->headers.accept);
    struct install_order order = { .cancel_fd = -1 };
    struct body_packages body = { 0 };
    struct fault fault = { 0 };
    autofree const char **wanted = NULL;
    json_t *json = NULL;

    if (request_json(rq, &body) < 0) {
        session_unref(session);
        return;
    }
    wanted = body_texts(body.packages);
    order.wanted = wanted;
    order.newest = body.newest;
    if (!wanted)
        reply_no_memory(rq);
    else if (media != MEDIA_JSON)
        install_follow(rq, session, &order, media);
    else if (packages_install(rq->server->config.service, &rq->caller, session, &order, &json,
                              &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
    session_unref(session);
}

static void uninstall(struct request *rq, struct session *session)
{
    const char *const names[] = { request_param(rq, "name"), NULL };
    const struct install_order order = { .wanted = names, .remove = true, .cancel_fd = -1 };
    struct fault fault = { 0 };
    json_t *json = NULL;

    if (packages_install(rq->server->config.service, &rq->caller, session, &order, &json, &fault) <
        0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
    session_unref(session);
}

void v1_session_packages(struct request *rq)
{
    struct session *session;

    if (request_session(rq, &session) == 0)
        list(rq, session);
}

void v1_session_packages_add(struct request *rq)
{
    struct session *session;

    if (request_session(rq, &session) == 0)
        install(rq, session);
}

void v1_session_packages_remove(struct request *rq)
{
    struct session *session;

    if (request_session(rq, &session) == 0)
        uninstall(rq, session);
}

void v1_packages_remove(struct request *rq)
{
    uninstall(rq, NULL);
}

void v1_packages(struct request *rq)
{
    list(rq, NULL);
}

void v1_packages_add(struct request *rq)
{
    install(rq, NULL);
}

void v1_packages_reset(struct request *rq)
{
    struct fault fault = { 0 };

    if (packages_reset(rq->server->config.service, &rq->caller, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
}
