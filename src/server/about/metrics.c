/* GET /metrics: the text format of Prometheus, by hand. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    fputs("# HELP sandbox_executions_total Executions that ended, by status.\n"
          "# TYPE sandbox_executions_total counter\n",
          out);
    for (size_t i = 0; i < SERVICE_STATUSES; i++)
        fprintf(out, "sandbox_executions_total{status=\"%s\"} %lld\n", service_status_name(i),
                (long long) stats->executions[i]);
    fputs("# HELP sandbox_errors_total Executions that did not end well, by reason.\n"
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
    fputs("# HELP glovebox_http_replies_total Replies, by class of status.\n"
          "# TYPE glovebox_http_replies_total counter\n",
          out);
    for (size_t i = 2; i < 6; i++)
        fprintf(out, "glovebox_http_replies_total{class=\"%zuxx\"} %lld\n", i,
                (long long) atomic_load(&server->replies[i]));
    write_one(out, "glovebox_http_streams", "gauge", "Streams of events that are open.",
              atomic_load(&server->streams));
}

static void write_network(FILE *out, const struct egress_stats *stats)
{
    write_one(out, "glovebox_network_connections", "gauge",
              "Connections of boxes to their proxies.", stats->connections_live);
    write_one(out, "glovebox_network_connections_total", "counter", "The same, since the start.",
              stats->connections);
    write_one(out, "glovebox_network_requests_total", "counter",
              "Requests and tunnels of boxes that went out.", stats->requests);
    write_one(out, "glovebox_network_refused_total", "counter", "Those that were refused.",
              stats->refused);
    write_one(out, "glovebox_network_failed_total", "counter",
              "Those that were malformed, or whose host could not be reached.", stats->failed);
    write_one(out, "glovebox_network_sent_bytes_total", "counter", "Bytes that boxes sent.",
              stats->bytes_sent);
    write_one(out, "glovebox_network_received_bytes_total", "counter", "Bytes that boxes received.",
              stats->bytes_received);
}

static void write_all(FILE *out, struct server *server)
{
    struct service_stats stats;

    service_get_stats(server->config.service, &stats);
    write_statuses(out, &stats);
    write_durations(out, &stats);
    write_one(out, "sandbox_package_installs_total", "counter", "Installs of packages.",
              stats.installs);
    write_one(out, "glovebox_package_installs_cached_total", "counter",
              "Installs of a set that was known.", stats.installs_cached);
    write_one(out, "glovebox_package_installs_failed_total", "counter", "Installs that failed.",
              stats.installs_failed);
    write_one(out, "glovebox_package_layers", "gauge", "Layers of packages.", stats.layers);
    write_one(out, "glovebox_package_layer_bytes", "gauge", "Size of all layers.",
              stats.layers_bytes);
    write_one(out, "glovebox_ready", "gauge", "1 while new work is taken.", stats.ready);
    write_one(out, "glovebox_uptime_seconds", "gauge", "Since the start.",
              stats.uptime_us / 1000000);
    write_one(out, "glovebox_sessions_live", "gauge", "Sessions.", stats.sessions_live);
    write_one(out, "glovebox_sessions_max", "gauge", "The most sessions.", stats.sessions_max);
    write_one(out, "glovebox_sessions_made_total", "counter", "Sessions made.",
              stats.sessions_made);
    write_one(out, "glovebox_sessions_expired_total", "counter",
              "Sessions that were idle too long.", stats.sessions_expired);
    write_one(out, "glovebox_sessions_lost_total", "counter", "Sessions that lost their variables.",
              stats.sessions_lost);
    write_one(out, "glovebox_executions_running", "gauge", "Executions that run.",
              stats.executions_running);
    write_one(out, "glovebox_executions_waiting", "gauge", "Executions in line.",
              stats.executions_waiting);
    write_one(out, "glovebox_executions_kept", "gauge", "Executions that can be read.",
              stats.executions_kept);
    write_one(out, "glovebox_refused_total", "counter", "Requests for work that were refused.",
              stats.refused);
    write_one(out, "glovebox_boxes_ready", "gauge", "Boxes that wait in the pool.",
              stats.boxes_ready);
    write_one(out, "glovebox_boxes_live", "gauge", "Boxes in use.", stats.boxes_live);
    write_one(out, "glovebox_server_memory_bytes", "gauge", "Resident memory of the server.",
              stats.server_rss_bytes);
    write_one(out, "glovebox_kept_memory_bytes", "gauge", "Output kept in memory.",
              stats.kept_memory_bytes);
    write_one(out, "glovebox_kept_disk_bytes", "gauge", "Output kept on disk.",
              stats.kept_disk_bytes);
    write_network(out, &stats.network);
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
