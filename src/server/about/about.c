/* Routes that describe the service. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mark/mark.h"
#include "server/server_internal.h"

#include "base/banned.h"

static const char *id_mode_name(enum id_mode mode)
{
    switch (mode) {
    case ID_ROOT:
        return "own-ids";
    case ID_RANGE:
        return "id-range";
    case ID_SINGLE:
        return "single-id";
    }
    return "unknown";
}

static const char *cgroup_mode_name(enum cgroup_mode mode)
{
    switch (mode) {
    case CGROUP_V2:
        return "cgroup-v2";
    case CGROUP_V1:
        return "cgroup-v1";
    case CGROUP_AUTO:
    case CGROUP_OFF:
        break;
    }
    return "watched";
}

static const char *auth_name(const struct server *server)
{
    switch (server->config.auth) {
    case SERVER_AUTH_OPEN:
        return "off";
    case SERVER_AUTH_KEY:
        return "key";
    case SERVER_AUTH_AUTO:
        break;
    }
    for (size_t i = 0; i < server->listeners_len; i++)
        if (server->listeners[i].needs_key)
            return "key";
    return "loopback-only";
}

static json_t *boxes_json(const struct service_stats *stats)
{
    return json_pack("{s:I,s:I}", "ready", (json_int_t) stats->boxes_ready, "live",
                     (json_int_t) stats->boxes_live);
}

/* How the size of a session's workspace is limited. */
static const char *quota_name(enum disk_kind kind)
{
    return kind == DISK_NONE ? "memory" : kind == DISK_IMAGE ? "hard" : "watched";
}

/* Open to everyone, so it names no model. */
static json_t *mark_json(struct mark *mark)
{
    struct agent_stats stats = { 0 };

    if (mark)
        agent_get_stats(mark_agent(mark), &stats);
    return json_pack("{s:s,s:I}", "state", mark_state(mark), "answers", (json_int_t) stats.running);
}

void about_health(struct request *rq)
{
    struct service_stats stats;
    json_t *isolation;

    service_get_stats(rq->server->config.service, &stats);
    isolation = json_pack("{s:s,s:s,s:s}", "ids", id_mode_name(stats.engine.id_mode), "limits",
                          cgroup_mode_name(stats.engine.cgroup_mode), "workspace_quota",
                          quota_name(stats.engine.disk_kind));
    if (stats.engine.note[0])
        (void) json_object_set_new(isolation, "note", json_string(stats.engine.note));
    reply_json(rq, MHD_HTTP_OK,
               json_pack("{s:s,s:s,s:s,s:f,s:b,s:b,s:s,s:s,s:o,s:{s:I,s:I},s:o,s:o,s:I}", "status",
                         "healthy", "service", "glovebox", "version", GLOVEBOX_VERSION,
                         "uptime_seconds", (double) stats.uptime_us / 1e6, "ready", stats.ready,
                         "draining", stats.draining, "authentication", auth_name(rq->server),
                         "template", service_template_name(rq->server->config.service), "isolation",
                         isolation, "sessions", "live", (json_int_t) stats.sessions_live, "most",
                         (json_int_t) stats.sessions_max, "boxes", boxes_json(&stats), "mark",
                         mark_json(rq->server->config.mark), "memory_bytes",
                         (json_int_t) stats.server_rss_bytes));
}

void about_ready(struct request *rq)
{
    bool ready = service_is_ready(rq->server->config.service);

    rq->refusal.retry_after_s = ready ? 0 : 1;
    reply_json(rq, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
               json_pack("{s:b}", "ready", ready));
}

void about_templates(struct request *rq)
{
    reply_json(rq, MHD_HTTP_OK, service_templates_to_json(rq->server->config.service));
}

void about_limits(struct request *rq)
{
    reply_json(rq, MHD_HTTP_OK, service_limits_to_json(rq->server->config.service));
}

void about_openapi(struct request *rq)
{
    reply_text(rq, MHD_HTTP_OK, "application/json", rq->server->openapi, rq->server->openapi_len);
}

static json_t *mark_stats_json(struct mark *mark)
{
    struct agent_stats stats;

    if (!mark)
        return json_null();
    agent_get_stats(mark_agent(mark), &stats);
    return json_pack(
        "{s:I,s:I,s:{s:I,s:I,s:I,s:I},s:I,s:I,s:I,s:I,s:I,s:I,s:f}", "running",
        (json_int_t) stats.running, "waiting", (json_int_t) stats.waiting, "by_status", "ok",
        (json_int_t) stats.ok, "error", (json_int_t) stats.error, "stopped",
        (json_int_t) stats.stopped, "needs_input", (json_int_t) stats.needs_input, "steps",
        (json_int_t) stats.steps, "model_calls", (json_int_t) stats.model_calls, "model_failures",
        (json_int_t) stats.model_failures, "prompt_tokens", (json_int_t) stats.prompt_tokens,
        "completion_tokens", (json_int_t) stats.completion_tokens, "cached_tokens",
        (json_int_t) stats.cached_tokens, "cost", stats.cost);
}

void about_stats(struct request *rq)
{
    struct server *server = rq->server;
    json_t *statuses = json_object();
    struct service_stats stats;

    service_get_stats(server->config.service, &stats);
    for (size_t i = 0; i < SERVICE_STATUSES; i++)
        (void) json_object_set_new(statuses, service_status_name(i),
                                   json_integer(stats.executions[i]));
    reply_json(rq, MHD_HTTP_OK,
               json_pack("{s:f,s:{s:I,s:I,s:I,s:I,s:I},s:{s:I,s:I,s:I,s:o},s:o,s:o,s:{s:I,s:I}}",
                         "uptime_seconds", (double) stats.uptime_us / 1e6, "sessions", "live",
                         (json_int_t) stats.sessions_live, "most", (json_int_t) stats.sessions_max,
                         "made", (json_int_t) stats.sessions_made, "expired",
                         (json_int_t) stats.sessions_expired, "lost",
                         (json_int_t) stats.sessions_lost, "executions", "running",
                         (json_int_t) stats.executions_running, "waiting",
                         (json_int_t) stats.executions_waiting, "kept",
                         (json_int_t) stats.executions_kept, "by_status", statuses, "boxes",
                         boxes_json(&stats), "answers", mark_stats_json(server->config.mark),
                         "http", "requests", (json_int_t) atomic_load(&server->request_count),
                         "streams", (json_int_t) atomic_load(&server->streams)));
}
