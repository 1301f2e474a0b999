/* The service at a glance, its packages, and the state of the audit log. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/parse.h"
#include "service/package/packages.h"
#include "service/watch/internal.h"
#include "store/audit.h"

#include "base/banned.h"

#define CHAIN_PIECE_US (200 * USEC_PER_MSEC) /* one look at the audit log */

static json_t *known(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *executions_json(struct service *service, const struct service_stats *stats)
{
    json_t *statuses = json_object(), *limits = json_object();

    for (size_t i = 0; i < SERVICE_STATUSES; i++)
        (void) json_object_set_new(statuses, service_status_name(i),
                                   json_integer(stats->executions[i]));
    for (size_t i = LIMIT_NONE + 1; i < SERVICE_LIMITS; i++)
        (void) json_object_set_new(limits, limit_kind_name((enum limit_kind) i),
                                   json_integer(atomic_load(&service->by_limit[i])));
    return json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:o,s:o}", "running", (json_int_t) stats->executions_running,
        "waiting", (json_int_t) stats->executions_waiting, "most",
        (json_int_t) service->config.in_flight_max, "kept", (json_int_t) stats->executions_kept,
        "refused", (json_int_t) stats->refused, "by_status", statuses, "by_limit", limits);
}

static json_t *quota(int64_t value)
{
    return value == SERVICE_NO_LIMIT ? json_null() : json_integer(value);
}

int watch_overview(struct service *service, json_t **ret_json, struct fault *fault)
{
    const struct key_limits *key = &service->config.key;
    struct service_stats stats;
    int64_t used, total;
    json_t *memory;

    service_get_stats(service, &stats);
    watch_host_memory(&used, &total);
    memory = json_pack("{s:o,s:o,s:o,s:I,s:I}", "server_bytes", known(stats.server_rss_bytes),
                       "host_bytes", known(used), "host_total_bytes", known(total),
                       "kept_memory_bytes", (json_int_t) stats.kept_memory_bytes, "kept_disk_bytes",
                       (json_int_t) stats.kept_disk_bytes);
    *ret_json = json_pack(
        "{s:b,s:b,s:f,s:s,s:s,s:{s:I,s:I,s:I},s:{s:I,s:I,s:I,s:I,s:I},s:o,s:o,s:{s:I,s:I,s:I,s:I,s:"
        "I}}",
        "ready", stats.ready, "draining", stats.draining, "uptime_seconds",
        (double) stats.uptime_us / 1e6, "version", GLOVEBOX_VERSION, "template",
        service_template_name(service), "boxes", "ready", (json_int_t) stats.boxes_ready, "live",
        (json_int_t) stats.boxes_live, "pool", (json_int_t) service->config.engine.pool_boxes,
        "sessions", "live", (json_int_t) stats.sessions_live, "most",
        (json_int_t) stats.sessions_max, "made", (json_int_t) stats.sessions_made, "expired",
        (json_int_t) stats.sessions_expired, "lost", (json_int_t) stats.sessions_lost, "executions",
        executions_json(service, &stats), "memory", memory, "packages", "installs",
        (json_int_t) stats.installs, "cached", (json_int_t) stats.installs_cached, "failed",
        (json_int_t) stats.installs_failed, "layers", (json_int_t) stats.layers, "bytes",
        (json_int_t) stats.layers_bytes);
    (void) json_object_set_new(*ret_json, "key_defaults",
                               json_pack("{s:o,s:o,s:o}", "sessions", quota(key->sessions),
                                         "executions", quota(key->in_flight), "rate_per_minute",
                                         quota(key->rate_per_minute)));
    return *ret_json ? 0 : fault_no_memory(fault);
}

int watch_packages(struct service *service, size_t max, json_t **ret_json, struct fault *fault)
{
    struct service_stats stats;

    service_get_stats(service, &stats);
    *ret_json = layers_to_json(packages_layers(service), max);
    (void) json_object_set_new(*ret_json, "bytes", json_integer(stats.layers_bytes));
    return *ret_json ? 0 : fault_no_memory(fault);
}

/* ---- the audit log ---- */

static int fail_audit(struct service *service, const struct gb_err *err, struct fault *fault)
{
    service_log(service, LOG_LEVEL_ERROR, "audit log: %s", err->msg);
    return fault_set(fault, PROBLEM_INTERNAL, NULL,
                     "the audit log cannot be read at the moment; the server's log says why");
}

int watch_audit(struct service *service, const struct audit_search *search, json_t **ret_json,
                struct fault *fault)
{
    struct gb_err err = { 0 };

    if (!service->config.store) {
        *ret_json = json_pack("{s:[],s:n,s:i}", "entries", "before", "looked_at", 0);
        return *ret_json ? 0 : fault_no_memory(fault);
    }
    if (audit_search_run(service->config.store, search, ret_json, &err) < 0)
        return fail_audit(service, &err, fault);
    return 0;
}

static json_t *time_json(int64_t us)
{
    char text[FORMAT_UTC_MAX];

    if (us == 0)
        return json_null();
    format_utc(us, text);
    return json_string(text);
}

static json_t *chain_to_json(struct watch *watch, int64_t entries)
{
    struct audit_progress chain;
    char head[AUDIT_HEX_MAX];
    int64_t begun, completed;
    const char *state;

    pthread_mutex_lock(&watch->lock);
    chain = watch->chain;
    begun = watch->chain_begun_us;
    completed = watch->chain_completed_us;
    pthread_mutex_unlock(&watch->lock);
    state = chain.report.broken_seq ? "broken" : chain.complete ? "intact" : "checking";
    (void) sodium_bin2hex(head, sizeof head, chain.report.head, sizeof chain.report.head);
    return json_pack("{s:s,s:I,s:I,s:s,s:o,s:o,s:o,s:o}", "state", state, "checked",
                     (json_int_t) chain.report.count, "entries", (json_int_t) entries, "head", head,
                     "broken_entry",
                     chain.report.broken_seq ? json_integer(chain.report.broken_seq) : json_null(),
                     "why", chain.report.broken_seq ? json_string(chain.report.why) : json_null(),
                     "begun", time_json(begun), "completed", time_json(completed));
}

/* With the lock held: from the first entry on. */
static void chain_begin(struct watch *watch)
{
    watch->chain = (struct audit_progress){ 0 };
    watch->chain_begun_us = unix_now_us();
    watch->chain_completed_us = 0;
    watch->chain_anew = false;
}

/* A copy of how far it got, if nobody else is at it. */
static bool chain_take(struct watch *watch, bool anew, struct audit_progress *ret_chain)
{
    bool mine;

    pthread_mutex_lock(&watch->lock);
    mine = !watch->chain_busy;
    if (anew || watch->chain_begun_us == 0)
        chain_begin(watch);
    if (mine) {
        watch->chain_busy = true;
        *ret_chain = watch->chain;
    } else {
        watch->chain_anew = watch->chain_anew || anew;
    }
    pthread_mutex_unlock(&watch->lock);
    return mine;
}

static void chain_put(struct watch *watch, const struct audit_progress *chain)
{
    pthread_mutex_lock(&watch->lock);
    watch->chain_busy = false;
    if (!watch->chain_anew) {
        watch->chain = *chain;
        if (chain->complete)
            watch->chain_completed_us = unix_now_us();
    }
    watch->chain_anew = false;
    pthread_mutex_unlock(&watch->lock);
}

int watch_audit_chain(struct service *service, bool anew, json_t **ret_json, struct fault *fault)
{
    struct watch *watch = service->watch;
    struct store *store = service->config.store;
    struct audit_progress chain;
    struct store_head head = { 0 };
    struct gb_err err = { 0 };
    int r = 0;

    if (!store) {
        *ret_json =
            json_pack("{s:s,s:i,s:i,s:s,s:n,s:n,s:n,s:n}", "state", "off", "checked", 0, "entries",
                      0, "head", "", "broken_entry", "why", "begun", "completed");
        return *ret_json ? 0 : fault_no_memory(fault);
    }
    if (chain_take(watch, anew, &chain)) {
        if (!chain.report.broken_seq)
            r = audit_verify_some(store, &chain, clock_now_us() + CHAIN_PIECE_US, &err);
        chain_put(watch, &chain);
    }
    if (r == 0)
        r = store_audit_head(store, &head, &err);
    if (r < 0 && r != -EUCLEAN) /* that is in the report: the head cannot be read */
        return fail_audit(service, &err, fault);
    *ret_json = chain_to_json(watch, head.seq);
    return *ret_json ? 0 : fault_no_memory(fault);
}
