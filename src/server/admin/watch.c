/* Operator API: how the service is, and sessions and executions of everybody. */
#include <stdatomic.h>

#include "server/admin/internal.h"

#include "base/banned.h"

static struct service *service_of(struct request *rq)
{
    return rq->server->config.service;
}

/* ---- the service ---- */

static json_t *http_json(struct server *server)
{
    json_t *replies = json_array();

    for (size_t i = 1; i < sizeof server->replies / sizeof *server->replies; i++)
        (void) json_array_append_new(replies, json_integer(atomic_load(&server->replies[i])));
    return json_pack("{s:I,s:I,s:o}", "requests", (json_int_t) atomic_load(&server->request_count),
                     "streams", (json_int_t) atomic_load(&server->streams), "replies", replies);
}

static json_t *answers_json(struct mark *mark)
{
    struct agent_stats stats;

    agent_get_stats(mark_agent(mark), &stats);
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I}", "running", (json_int_t) stats.running, "waiting",
                     (json_int_t) stats.waiting, "ok", (json_int_t) stats.ok, "error",
                     (json_int_t) stats.error, "stopped", (json_int_t) stats.stopped, "needs_input",
                     (json_int_t) stats.needs_input);
}

void admin_overview(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = watch_overview(service_of(rq), &json, &fault);
    if (r == 0) {
        (void) json_object_set_new(json, "mark", answers_json(rq->server->config.mark));
        (void) json_object_set_new(json, "http", http_json(rq->server));
    }
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void admin_series(struct request *rq)
{
    struct query_admin_series query;
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, &query) < 0)
        return;
    r = watch_series(service_of(rq), query.minutes == FIELD_ABSENT ? 15 : query.minutes, &json,
                     &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

/* ---- sessions and executions ---- */

static void reply_named(struct request *rq, int r, json_t *json, const char *list,
                        const struct fault *fault)
{
    struct names names;

    if (r == 0) {
        names_init(&names, rq);
        names_add(&names, json_object_get(json, list), "principal");
        names_release(&names);
    }
    reply_either(rq, r, MHD_HTTP_OK, json, fault);
}

void admin_sessions(struct request *rq)
{
    struct query_admin_page query;
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, &query) < 0)
        return;
    r = watch_sessions(service_of(rq), query.after, admin_limit(query.limit), &json, &fault);
    reply_named(rq, r, json, "sessions", &fault);
}

void admin_session_end(struct request *rq)
{
    const char *id = request_param(rq, "id");
    struct fault fault = { 0 };

    if (request_query(rq, NULL) < 0)
        return;
    admin_finish(rq, "session_end", id, watch_session_end(service_of(rq), id, &fault), &fault);
}

void admin_executions(struct request *rq)
{
    struct query_admin_executions query;
    struct watch_filter filter;
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, &query) < 0)
        return;
    filter = (struct watch_filter){ .finished = query.state > ADMIN_LIVE || query.status >= 0,
                                    .status = query.status,
                                    .stopped_only = query.state == ADMIN_STOPPED,
                                    .max = admin_limit(query.limit) };
    r = watch_executions(service_of(rq), &filter, &json, &fault);
    reply_named(rq, r, json, "executions", &fault);
}

void admin_execution_interrupt(struct request *rq)
{
    const char *id = request_param(rq, "id");
    struct fault fault = { 0 };

    if (request_query(rq, NULL) < 0)
        return;
    admin_finish(rq, "execution_stop", id, watch_execution_interrupt(service_of(rq), id, &fault),
                 &fault);
}
