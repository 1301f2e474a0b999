/* GET /metrics: the Prometheus text format, written by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mark/mark.h"
#include "server/server_internal.h"

#include "base/banned.h"

static void write_one(FILE *out, const char *name, const char *type, const char *help,
                      int64_t value)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s %lld\n", name, help, name, type, name,
            (long long) value);
}

static void write_statuses(FILE *out, const struct service_stats *stats)
{
    fputs("# HELP sandbox_executions_total Finished executions by status.\n"
          "# TYPE sandbox_executions_total counter\n",
          out);
    for (size_t i = 0; i < SERVICE_STATUSES; i++)
        fprintf(out, "sandbox_executions_total{status=\"%s\"} %lld\n", service_status_name(i),
                (long long) stats->executions[i]);
    fputs("# HELP sandbox_errors_total Executions that failed, by reason.\n"
          "# TYPE sandbox_errors_total counter\n",
          out);
    for (size_t i = 0; i < SERVICE_STATUSES; i++)
        if (i != RUN_OK)
            fprintf(out, "sandbox_errors_total{type=\"%s\"} %lld\n", service_status_name(i),
                    (long long) stats->executions[i]);
}

static void write_durations(FILE *out, const struct service_stats *stats)
{
    static const char name[] = "sandbox_execution_duration_seconds";
    int64_t below = 0;

    fprintf(out, "# HELP %s Wall time of executions.\n# TYPE %s histogram\n", name, name);
    for (size_t i = 0; i < SERVICE_BUCKETS; i++) {
        below += stats->duration_buckets[i];
        if (i + 1 < SERVICE_BUCKETS)
            fprintf(out, "%s_bucket{le=\"%g\"} %lld\n", name, (double) service_bucket_us[i] / 1e6,
                    (long long) below);
    }
    fprintf(out, "%s_bucket{le=\"+Inf\"} %lld\n%s_sum %.6f\n%s_count %lld\n", name,
            (long long) below, name, (double) stats->duration_sum_us / 1e6, name,
            (long long) stats->duration_count);
}

static void write_http(FILE *out, struct server *server)
{
    int64_t sockets;

    fputs("# HELP glovebox_http_replies_total Replies by class of status code.\n"
          "# TYPE glovebox_http_replies_total counter\n",
          out);
    for (size_t i = 2; i < 6; i++)
        fprintf(out, "glovebox_http_replies_total{class=\"%zuxx\"} %lld\n", i,
                (long long) atomic_load(&server->replies[i]));
    write_one(out, "glovebox_http_streams", "gauge", "Open event streams.",
              atomic_load(&server->streams));
    pthread_mutex_lock(&server->lock);
    sockets = (int64_t) server->upgraded;
    pthread_mutex_unlock(&server->lock);
    write_one(out, "glovebox_http_sockets", "gauge", "Open WebSockets.", sockets);
}

/* Metrics that are a single number of the service. */
static const struct {
    const char *name, *type, *help;
    size_t offset;
} numbers[] = {
    { "sandbox_package_installs_total", "counter", "Package installs.",
      offsetof(struct service_stats, installs) },
    { "glovebox_package_installs_cached_total", "counter",
      "Package installs served from the cache.", offsetof(struct service_stats, installs_cached) },
    { "glovebox_package_installs_failed_total", "counter", "Package installs that failed.",
      offsetof(struct service_stats, installs_failed) },
    { "glovebox_package_layers", "gauge", "Package layers on disk.",
      offsetof(struct service_stats, layers) },
    { "glovebox_package_layer_bytes", "gauge", "Size of all package layers.",
      offsetof(struct service_stats, layers_bytes) },
    { "glovebox_sessions_live", "gauge", "Live sessions.",
      offsetof(struct service_stats, sessions_live) },
    { "glovebox_sessions_max", "gauge", "Limit of live sessions.",
      offsetof(struct service_stats, sessions_max) },
    { "glovebox_sessions_made_total", "counter", "Sessions created.",
      offsetof(struct service_stats, sessions_made) },
    { "glovebox_sessions_expired_total", "counter", "Sessions that hit the idle timeout.",
      offsetof(struct service_stats, sessions_expired) },
    { "glovebox_sessions_lost_total", "counter", "Sessions that lost their variables.",
      offsetof(struct service_stats, sessions_lost) },
    { "glovebox_executions_running", "gauge", "Executions that are running.",
      offsetof(struct service_stats, executions_running) },
    { "glovebox_executions_waiting", "gauge", "Executions that are queued.",
      offsetof(struct service_stats, executions_waiting) },
    { "glovebox_executions_kept", "gauge", "Finished executions that are still readable.",
      offsetof(struct service_stats, executions_kept) },
    { "glovebox_terminals_live", "gauge", "Terminals whose program is running.",
      offsetof(struct service_stats, terminals_live) },
    { "glovebox_terminals_opened_total", "counter", "Terminals opened.",
      offsetof(struct service_stats, terminals_opened) },
    { "glovebox_refused_total", "counter", "Executions and sessions that were refused.",
      offsetof(struct service_stats, refused) },
    { "glovebox_boxes_ready", "gauge", "Boxes waiting in the pool.",
      offsetof(struct service_stats, boxes_ready) },
    { "glovebox_boxes_live", "gauge", "Boxes in use.", offsetof(struct service_stats, boxes_live) },
    { "glovebox_server_memory_bytes", "gauge", "Resident memory of the server.",
      offsetof(struct service_stats, server_rss_bytes) },
    { "glovebox_kept_memory_bytes", "gauge", "Output kept in memory.",
      offsetof(struct service_stats, kept_memory_bytes) },
    { "glovebox_kept_disk_bytes", "gauge", "Output kept on disk.",
      offsetof(struct service_stats, kept_disk_bytes) },
    { "glovebox_network_connections", "gauge", "Connections of boxes to their proxies.",
      offsetof(struct service_stats, network.connections_live) },
    { "glovebox_network_connections_total", "counter",
      "Connections of boxes to their proxies since the start.",
      offsetof(struct service_stats, network.connections) },
    { "glovebox_network_requests_total", "counter", "Requests and tunnels of boxes that went out.",
      offsetof(struct service_stats, network.requests) },
    { "glovebox_network_refused_total", "counter", "Requests and tunnels that were refused.",
      offsetof(struct service_stats, network.refused) },
    { "glovebox_network_failed_total", "counter",
      "Requests and tunnels that were malformed, or whose host could not be reached.",
      offsetof(struct service_stats, network.failed) },
    { "glovebox_network_sent_bytes_total", "counter", "Bytes that boxes sent.",
      offsetof(struct service_stats, network.bytes_sent) },
    { "glovebox_network_received_bytes_total", "counter", "Bytes that boxes received.",
      offsetof(struct service_stats, network.bytes_received) },
};

static const struct {
    const char *name, *type, *help;
    size_t offset;
} mark_numbers[] = {
    { "glovebox_mark_answers_running", "gauge", "Answers of Mark that are under way.",
      offsetof(struct agent_stats, running) },
    { "glovebox_mark_answers_waiting", "gauge", "Questions that wait for one before them.",
      offsetof(struct agent_stats, waiting) },
    { "glovebox_mark_steps_total", "counter", "Programs that were run for answers.",
      offsetof(struct agent_stats, steps) },
    { "glovebox_mark_model_calls_total", "counter", "Requests to language models.",
      offsetof(struct agent_stats, model_calls) },
    { "glovebox_mark_model_failures_total", "counter",
      "Requests to language models that failed after all retries.",
      offsetof(struct agent_stats, model_failures) },
};

static void write_mark(FILE *out, struct mark *mark)
{
    struct agent_stats stats = { 0 };

    agent_get_stats(mark_agent(mark), &stats);
    for (size_t i = 0; i < sizeof mark_numbers / sizeof *mark_numbers; i++)
        write_one(
            out, mark_numbers[i].name, mark_numbers[i].type, mark_numbers[i].help,
            *(const int64_t *) (const void *) ((const char *) &stats + mark_numbers[i].offset));
    fprintf(out,
            "# HELP glovebox_mark_answers_total Finished answers by status.\n"
            "# TYPE glovebox_mark_answers_total counter\n"
            "glovebox_mark_answers_total{status=\"ok\"} %lld\n"
            "glovebox_mark_answers_total{status=\"error\"} %lld\n"
            "glovebox_mark_answers_total{status=\"stopped\"} %lld\n"
            "glovebox_mark_answers_total{status=\"needs_input\"} %lld\n"
            "# HELP glovebox_mark_tokens_total Tokens of language models, by kind.\n"
            "# TYPE glovebox_mark_tokens_total counter\n"
            "glovebox_mark_tokens_total{kind=\"prompt\"} %lld\n"
            "glovebox_mark_tokens_total{kind=\"completion\"} %lld\n"
            "glovebox_mark_tokens_total{kind=\"cached\"} %lld\n"
            "# HELP glovebox_mark_cost_dollars_total Cost of answers, where it is known.\n"
            "# TYPE glovebox_mark_cost_dollars_total counter\n"
            "glovebox_mark_cost_dollars_total %.6f\n",
            (long long) stats.ok, (long long) stats.error, (long long) stats.stopped,
            (long long) stats.needs_input, (long long) stats.prompt_tokens,
            (long long) stats.completion_tokens, (long long) stats.cached_tokens, stats.cost);
}

static void write_all(FILE *out, struct server *server)
{
    struct service_stats stats;

    service_get_stats(server->config.service, &stats);
    write_statuses(out, &stats);
    write_durations(out, &stats);
    write_one(out, "glovebox_ready", "gauge", "1 while new work is accepted.", stats.ready);
    write_one(out, "glovebox_uptime_seconds", "gauge", "Seconds since the start.",
              stats.uptime_us / 1000000);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        write_one(out, numbers[i].name, numbers[i].type, numbers[i].help,
                  *(const int64_t *) (const void *) ((const char *) &stats + numbers[i].offset));
    if (server->config.mark)
        write_mark(out, server->config.mark);
    write_http(out, server);
}

void about_metrics(struct request *rq)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    if (!out)
        return;
    write_all(out, rq->server);
    if (fclose(out) == 0)
        reply_text(rq, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text, len);
    free(text);
}
