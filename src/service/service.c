/*
 * The service as a whole: start, sweeper, statistics, shutdown.
 *
 * Shutdown has three steps. Draining: new work is refused, and running work gets the grace period
 * to finish. Then it is interrupted and, a moment later, stopped. Then sessions end, and with them
 * their boxes. service_close() waits for all of it, so nothing is left when it returns.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/thread.h"
#include "service/access/audit.h"
#include "service/access/keys.h"
#include "service/execution/execution.h"
#include "service/package/packages.h"
#include "service/session/network.h"
#include "service/session/reaper.h"
#include "service/session/session.h"
#include "service/session/volumes_request.h"
#include "service/template/templates.h"
#include "service/watch/sampler.h"
#include "store/sessions.h"

#include "base/banned.h"

#define MIB            (INT64_C(1) << 20)
#define GIB            (INT64_C(1) << 30)
#define STOP_SOFT_US   (3 * USEC_PER_SEC) /* a little longer than the engine's own grace period */
#define RECORDS_FOR_US (INT64_C(7) * 86400 * USEC_PER_SEC)

const int64_t service_bucket_us[SERVICE_BUCKETS - 1] = {
    1000,    2500,    5000,     10000,    25000,    50000,     100000,    250000,    500000,
    1000000, 2500000, 10000000, 30000000, 60000000, 120000000, 300000000, 900000000, 3600000000,
};

void service_config_default(struct service_config *config)
{
    *config = (struct service_config){
        .wall_default_us = 30 * USEC_PER_SEC,
        .wall_max_us = 300 * USEC_PER_SEC,
        .command_wall_default_us = 300 * USEC_PER_SEC,
        .command_wall_max_us = 300 * USEC_PER_SEC,
        .sessions_max = 100,
        .idle_us = 3600 * USEC_PER_SEC,
        .idle_max_us = 24 * 3600 * USEC_PER_SEC,
        .sweep_us = 300 * USEC_PER_SEC,
        .waiters_max = 64,
        .in_flight_max = 1024,
        .terminals_max = 256,
        .terminals_per_caller = 64,
        .key = { .sessions = 100, .in_flight = 64, .rate_per_minute = SERVICE_NO_LIMIT },
        .code_bytes_max = 8 * MIB,
        .input_bytes_max = 8 * MIB,
        .reply_bytes = MIB,
        .reply_bytes_max = 4 * MIB,
        .kept_count = 1000,
        .kept_us = 15 * 60 * USEC_PER_SEC,
        .kept_memory_bytes = 256 * MIB,
        .kept_disk_bytes = 4 * GIB,
        .grace_us = 30 * USEC_PER_SEC,
        .packages = { .blocked = PACKAGES_BLOCKED,
                      .set_bytes = 512 * MIB,
                      .timeout_us = 300 * USEC_PER_SEC,
                      .rate_per_minute = 60,
                      .refresh_us = 86400 * USEC_PER_SEC,
                      .store_bytes = 10 * GIB,
                      .store_age_us = 30 * 86400 * USEC_PER_SEC },
    };
    limits_default(&config->oneshot);
    limits_session_default(&config->session);
    limits_ceiling_default(&config->ceiling);
}

int64_t service_now(const struct service *service)
{
    return service->config.now_us ? service->config.now_us() : clock_now_us();
}

int64_t unix_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t) ts.tv_sec * USEC_PER_SEC + ts.tv_nsec / 1000;
}

int id_new(const char *prefix, char *buf, size_t size)
{
    unsigned char bits[16];
    size_t len = strlen(prefix);

    if (size < len + 2 * sizeof bits + 1)
        return -ENOBUFS;
    if (getrandom(bits, sizeof bits, 0) != (ssize_t) sizeof bits)
        return -EIO;
    (void) snprintf(buf, size, "%s", prefix);
    for (size_t i = 0; i < sizeof bits; i++)
        (void) snprintf(buf + len + 2 * i, 3, "%02x", bits[i]);
    return 0;
}

int service_audit(struct service *service, const struct audit_entry *entry, struct gb_err *err)
{
    return service->audit ? audit_write(service->audit, entry, err) : 0;
}

void service_log(struct service *service, enum log_level level, const char *fmt, ...)
{
    char line[2048];
    va_list args;

    if (!service->config.log)
        return;
    va_start(args, fmt);
    (void) vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    service->config.log(service->config.log_arg, level, line);
}

/* ---- the sweeper ---- */

void service_sweep(struct service *service)
{
    struct gb_err err;

    session_sweep(service);
    execution_sweep(service);
    pthread_mutex_lock(&service->lock);
    account_sweep(service);
    pthread_mutex_unlock(&service->lock);
    packages_sweep(service);
    share_sweep(service);
    if (service->config.keys && keys_flush(service->config.keys, &err) < 0)
        service_log(service, LOG_LEVEL_WARNING, "cannot record when keys were last used: %s",
                    err.msg);
    if (service->config.store &&
        store_session_prune(service->config.store, unix_now_us() - RECORDS_FOR_US, &err) < 0)
        service_log(service, LOG_LEVEL_WARNING, "cannot prune records of old sessions: %s",
                    err.msg);
}

/* Waits on @cond with the lock held; false on timeout. */
static bool wait_until(struct service *service, pthread_cond_t *cond, int64_t deadline_us)
{
    struct timespec ts = { .tv_sec = deadline_us / USEC_PER_SEC,
                           .tv_nsec = deadline_us % USEC_PER_SEC * 1000 };

    return pthread_cond_timedwait(cond, &service->lock, &ts) != ETIMEDOUT;
}

static void *sweeper_main(void *arg)
{
    struct service *service = arg;
    int64_t next;

    pthread_mutex_lock(&service->lock);
    while (!service->stopping) {
        next = clock_now_us() + service->config.sweep_us;
        while (!service->stopping && wait_until(service, &service->sweep, next))
            ;
        if (service->stopping)
            break;
        pthread_mutex_unlock(&service->lock);
        service_sweep(service);
        pthread_mutex_lock(&service->lock);
    }
    pthread_mutex_unlock(&service->lock);
    return NULL;
}

/* ---- start ---- */

static struct service *service_alloc(const struct service_config *config)
{
    struct service *service = calloc(1, sizeof *service);

    if (!service)
        return NULL;
    service->tombstones = calloc(TOMBSTONES, sizeof *service->tombstones);
    if (!service->tombstones) {
        free(service);
        return NULL;
    }
    service->config = *config;
    if (config->template) {
        struct template_def def = template_entry_def(config->template);

        service->config.engine.python = def.python;
        service->config.engine.binds = def.binds;
        service->config.engine.packages = def.packages;
        if (!config->engine.preload)
            service->config.engine.preload = def.preload;
    }
    template_describe(service);
    service->config.engine.pool_limits = config->oneshot;
    service->config.engine.pool_limits.wall_us = config->wall_default_us;
    /* Running executions may use as much again as kept ones. */
    service->output.disk_max = 2 * config->kept_disk_bytes;
    TAILQ_INIT(&service->sessions_by_age);
    TAILQ_INIT(&service->live);
    TAILQ_INIT(&service->kept);
    pthread_mutex_init(&service->lock, NULL);
    cond_init(&service->idle);
    cond_init(&service->sweep);
    service->started_us = clock_now_us();
    return service;
}

static void service_free(struct service *service)
{
    struct execution *x;

    while ((x = TAILQ_FIRST(&service->kept))) {
        TAILQ_REMOVE(&service->kept, x, in_list);
        execution_unref(x);
    }
    for (size_t i = 0; i < ID_TABLE_CHAINS; i++) {
        struct id_node *node;

        while ((node = service->accounts.chains[i])) {
            id_table_remove(&service->accounts, node);
            free(ID_NODE_OF(node, struct account, node));
        }
    }
    pthread_mutex_destroy(&service->lock);
    pthread_cond_destroy(&service->idle);
    pthread_cond_destroy(&service->sweep);
    free(service->tombstones);
    free(service);
}

/* Sessions of an earlier service ended with it, whether or not it could record that. */
static int store_prepare(struct service *service, struct gb_err *err)
{
    struct store *store = service->config.store;

    if (!store)
        return 0;
    if (store_session_end_all(store, unix_now_us(), STORE_END_SHUTDOWN, err) < 0)
        return -err->code;
    return audit_open(store, &service->audit, err);
}

static int data_dir_check(const char *dir, struct gb_err *err)
{
    struct stat st;

    if (!dir || stat(dir, &st) < 0)
        return gb_fail_about(err, dir ? errno : EINVAL, "data directory '%s'", dir ? dir : "");
    if (!S_ISDIR(st.st_mode))
        return gb_fail_about(err, ENOTDIR, "data directory '%s'", dir);
    return 0;
}

/* Workspaces of sessions are below the data directory if its file system supports that. Otherwise
 * they are in memory, like those of one-shots: smaller, but sealed the same way. */
static int engine_prepare(struct service *service, struct gb_err *err)
{
    struct engine_config config = service->config.engine;
    autofree char *dir = realpath(service->config.data_dir, NULL);
    char path[PATH_MAX];
    int r;

    if (!dir)
        return gb_fail_about(err, errno, "data directory '%s'", service->config.data_dir);
    if ((size_t) snprintf(path, sizeof path, "%s/workspaces", dir) >= sizeof path)
        return gb_fail_about(err, ENAMETOOLONG, "data directory");
    config.disk_dir = path;
    r = packages_open(service, &config, err);
    if (r < 0)
        return r;
    r = engine_open(&config, &service->engine, err);
    service->disk = r == 0;
    if (r == 0)
        return 0;
    config.disk_dir = NULL;
    if (engine_open(&config, &service->engine, &(struct gb_err){ 0 }) < 0)
        return r; /* the disk was not the reason */
    service_log(service, LOG_LEVEL_WARNING,
                "session workspaces are kept in memory, not on disk: %s", err->msg);
    return 0;
}

static void on_egress_log(void *arg, enum log_level level, const char *line)
{
    service_log(arg, level, "network: %s", line);
}

static int egress_start(struct service *service, struct gb_err *err)
{
    struct egress_config config = service->config.egress;

    config.log = on_egress_log;
    config.log_arg = service;
    return egress_open(&config, &service->egress, err);
}

int service_open(const struct service_config *config, struct service **ret_service,
                 struct gb_err *err)
{
    struct service *service;
    int r;

    r = data_dir_check(config->data_dir, err);
    if (r < 0)
        return r;
    service = service_alloc(config);
    if (!service)
        return gb_fail(err, ENOMEM, "start the service");
    r = store_prepare(service, err);
    if (r == 0)
        r = engine_prepare(service, err);
    if (r == 0)
        r = egress_start(service, err);
    if (r == 0)
        packages_attach(service);
    if (r == 0)
        r = reaper_open(&service->reaper, err);
    if (r == 0) {
        r = pthread_create(&service->sweeper, NULL, sweeper_main, service);
        service->sweeper_runs = r == 0;
        if (r != 0)
            r = gb_fail(err, r, "start the sweeper");
    }
    if (r == 0)
        r = watch_open(service, &service->watch, err);
    if (r < 0) {
        service_close(service);
        return r;
    }
    *ret_service = service;
    return 0;
}

bool service_is_ready(struct service *service)
{
    bool ready;

    pthread_mutex_lock(&service->lock);
    ready = service->engine_ready && !service->draining;
    pthread_mutex_unlock(&service->lock);
    return ready;
}

int service_wait_ready(struct service *service, struct gb_err *err)
{
    int r = engine_wait_ready(service->engine, err);

    if (r < 0)
        return r;
    template_log_left_out(service, service_template_name(service), NULL);
    pthread_mutex_lock(&service->lock);
    service->engine_ready = true;
    pthread_mutex_unlock(&service->lock);
    return 0;
}

/* ---- shutdown ---- */

/* Waits until nothing is in flight, at most until the deadline; false on timeout. */
static bool wait_idle(struct service *service, int64_t deadline_us)
{
    bool idle;

    pthread_mutex_lock(&service->lock);
    while (service->in_flight > 0 && wait_until(service, &service->idle, deadline_us))
        ;
    idle = service->in_flight == 0;
    pthread_mutex_unlock(&service->lock);
    return idle;
}

static struct session *session_any(struct service *service)
{
    struct session *session;

    pthread_mutex_lock(&service->lock);
    session = TAILQ_FIRST(&service->sessions_by_age);
    if (session)
        session_ref(session);
    pthread_mutex_unlock(&service->lock);
    return session;
}

void service_drain(struct service *service)
{
    struct session *session;

    pthread_mutex_lock(&service->lock);
    service->draining = true;
    pthread_mutex_unlock(&service->lock);
    if (!wait_idle(service, clock_now_us() + service->config.grace_us)) {
        packages_stop(service);
        execution_interrupt_all(service);
        while (!wait_idle(service, clock_now_us() + STOP_SOFT_US))
            execution_interrupt_all(service);
    }
    while ((session = session_any(service))) {
        (void) session_stop(session, END_SHUTDOWN);
        session_unref(session);
    }
}

void service_close(struct service *service)
{
    struct gb_err err;

    if (!service)
        return;
    service_drain(service);
    pthread_mutex_lock(&service->lock);
    service->stopping = true;
    pthread_cond_broadcast(&service->sweep);
    while (service->workers > 0 || service->sessions_taken > 0)
        pthread_cond_wait(&service->idle, &service->lock);
    pthread_mutex_unlock(&service->lock);
    if (service->sweeper_runs)
        (void) pthread_join(service->sweeper, NULL);
    watch_close(service->watch);
    reaper_close(service->reaper);
    if (audit_close(service->audit, &err) < 0)
        service_log(service, LOG_LEVEL_ERROR, "audit log: %s", err.msg);
    engine_close(service->engine);
    packages_close(service);
    egress_close(service->egress);
    service_free(service);
}

/* ---- statistics ---- */

const char *service_status_name(size_t i)
{
    return run_status_name((enum run_status) i);
}

static int64_t rss_bytes(void)
{
    char text[128];
    long long pages = 0;
    ssize_t n = io_read_text_at(AT_FDCWD, "/proc/self/statm", text, sizeof text);

    if (n < 0 || sscanf(text, "%*s %lld", &pages) != 1)
        return -1;
    return pages * sysconf(_SC_PAGESIZE);
}

void service_get_stats(struct service *service, struct service_stats *ret_stats)
{
    struct service_stats stats = { .uptime_us = clock_now_us() - service->started_us,
                                   .sessions_max = service->config.sessions_max,
                                   .server_rss_bytes = rss_bytes() };

    egress_get_stats(service->egress, &stats.network);
    pthread_mutex_lock(&service->lock);
    stats.draining = service->draining;
    stats.ready = service->engine_ready && !service->draining;
    stats.sessions_live = (int64_t) service->sessions.len;
    stats.executions_kept = service->kept_len;
    stats.kept_memory_bytes = service->kept_memory;
    stats.terminals_live = service->terminals;
    pthread_mutex_unlock(&service->lock);
    stats.kept_disk_bytes = atomic_load(&service->output.disk_used);
    stats.executions_running = atomic_load(&service->running);
    stats.executions_waiting = atomic_load(&service->waiting);
    stats.sessions_made = atomic_load(&service->sessions_made);
    stats.sessions_expired = atomic_load(&service->sessions_expired);
    stats.sessions_lost = atomic_load(&service->sessions_lost);
    stats.terminals_opened = atomic_load(&service->terminals_opened);
    stats.refused = atomic_load(&service->refused);
    stats.duration_sum_us = atomic_load(&service->duration_sum_us);
    for (size_t i = 0; i < SERVICE_STATUSES; i++) {
        stats.executions[i] = atomic_load(&service->by_status[i]);
        stats.duration_count += stats.executions[i];
    }
    for (size_t i = 0; i < SERVICE_BUCKETS; i++)
        stats.duration_buckets[i] = atomic_load(&service->buckets[i]);
    packages_get_stats(service, &stats);
    engine_get_info(service->engine, &stats.engine);
    stats.boxes_ready = stats.engine.boxes_ready;
    stats.boxes_live = stats.engine.boxes_live;
    *ret_stats = stats;
}

static json_t *limits_of(const struct limits *limits, int64_t wall_us)
{
    struct limits copy = *limits;

    copy.wall_us = wall_us;
    return limits_to_json(&copy);
}

json_t *service_limits_to_json(struct service *service)
{
    const struct service_config *c = &service->config;

    return json_pack(
        "{s:o, s:o, s:o, s:{s:f, s:f}, s:{s:I, s:f, s:f}, s:o, s:I, s:I, s:{s:I, s:I}, s:o}",
        "oneshot", limits_of(&c->oneshot, c->wall_default_us), "session",
        limits_of(&c->session, c->wall_default_us), "ceiling",
        limits_of(&c->ceiling, c->wall_max_us), "command_timeout", "default",
        (double) c->command_wall_default_us / USEC_PER_SEC, "most",
        (double) c->command_wall_max_us / USEC_PER_SEC, "sessions", "most",
        (json_int_t) c->sessions_max, "idle_timeout", (double) c->idle_us / USEC_PER_SEC,
        "idle_timeout_most", (double) c->idle_max_us / USEC_PER_SEC, "volumes", bindings_allowed(c),
        "code_bytes", (json_int_t) c->code_bytes_max, "stdin_bytes",
        (json_int_t) c->input_bytes_max, "reply_bytes", "default", (json_int_t) c->reply_bytes,
        "most", (json_int_t) c->reply_bytes_max, "network", network_policy_to_json(c->network));
}
