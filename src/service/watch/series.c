/*
 * Plots: a thread takes a sample every five seconds and keeps those of the last hour in a ring.
 *
 * Executions pay nothing for it: the sample is the difference of counters that there are anyway.
 * Latencies come from the histogram of durations, so a quantile is as exact as its buckets; samples
 * that are shown as one point are added up before.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/thread.h"
#include "service/watch/internal.h"

#include "base/banned.h"

#define POINTS_MAX 120

/* ---- taking them ---- */

static int64_t own_memory(void)
{
    char text[128];
    long long pages = 0;
    ssize_t n = io_read_text_at(AT_FDCWD, "/proc/self/statm", text, sizeof text);

    return n < 0 || sscanf(text, "%*s %lld", &pages) != 1 ? -1 : pages * sysconf(_SC_PAGESIZE);
}

void watch_host_memory(int64_t *ret_used, int64_t *ret_total)
{
    long long total = 0, available = 0;
    char text[4096];
    const char *at;
    ssize_t n = io_read_text_at(AT_FDCWD, "/proc/meminfo", text, sizeof text);

    *ret_used = *ret_total = -1;
    if (n < 0 || sscanf(text, "MemTotal: %lld kB", &total) != 1)
        return;
    *ret_total = total * 1024;
    at = strstr(text, "MemAvailable:");
    if (at && sscanf(at, "MemAvailable: %lld kB", &available) == 1)
        *ret_used = (total - available) * 1024;
}

/* References to all sessions; NULL: there is no memory. */
static struct session **sessions_take(struct service *service, size_t *ret_len)
{
    struct session *session, **all;
    size_t len = 0;

    pthread_mutex_lock(&service->lock);
    all = calloc(service->sessions.len + 1, sizeof *all);
    TAILQ_FOREACH(session, &service->sessions_by_age, by_age)
    {
        if (!all || len == service->sessions.len)
            break;
        all[len++] = session_ref(session);
    }
    pthread_mutex_unlock(&service->lock);
    *ret_len = len;
    return all;
}

/* Of all sessions together; -1 if that cannot be measured. The builder is asked for a bounded
 * number of them, new ones and those whose turn it is; of the others what was measured last
 * counts. */
static int64_t boxes_memory(struct service *service, const struct engine_info *info)
{
    int64_t sum = 0, since_us;
    struct session **all;
    size_t len = 0, asked = 0;

    if (info->cgroup_mode == CGROUP_OFF)
        return -1;
    all = sessions_take(service, &len);
    since_us = clock_now_us() - SAMPLE_US / 2 - SAMPLE_US * (int64_t) (len / ASKED_MAX);
    for (size_t i = 0; i < len; i++) {
        struct box_usage usage;

        pthread_mutex_lock(&all[i]->lock);
        usage = all[i]->usage;
        pthread_mutex_unlock(&all[i]->lock);
        if ((usage.measured_us == 0 || usage.measured_us < since_us) && asked < ASKED_MAX) {
            usage = watch_usage(all[i]);
            asked++;
        }
        sum += usage.memory_bytes > 0 ? usage.memory_bytes : 0;
        session_unref(all[i]);
    }
    free(all);
    return all ? sum : -1;
}

struct counters {
    int64_t buckets[SERVICE_BUCKETS], error, stopped;
};

static void read_counters(struct service *service, struct counters *ret)
{
    *ret = (struct counters){ 0 };
    for (size_t i = 0; i < SERVICE_BUCKETS; i++)
        ret->buckets[i] = atomic_load(&service->buckets[i]);
    for (size_t i = 0; i < SERVICE_STATUSES; i++) {
        int64_t count = atomic_load(&service->by_status[i]);

        if (i == RUN_ERROR)
            ret->error += count;
        else if (i != RUN_OK)
            ret->stopped += count;
    }
}

static void sample_take(struct watch *watch, struct counters *before)
{
    struct service *service = watch->service;
    struct engine_info info;
    struct counters now;
    struct sample sample = { 0 };
    int64_t total;

    read_counters(service, &now);
    for (size_t i = 0; i < SERVICE_BUCKETS; i++)
        sample.buckets[i] = (uint32_t) (now.buckets[i] - before->buckets[i]);
    sample.error = (uint32_t) (now.error - before->error);
    sample.stopped = (uint32_t) (now.stopped - before->stopped);
    *before = now;
    engine_get_info(service->engine, &info);
    sample.boxes_ready = (int32_t) info.boxes_ready;
    sample.running = (int32_t) atomic_load(&service->running);
    sample.waiting = (int32_t) atomic_load(&service->waiting);
    pthread_mutex_lock(&service->lock);
    sample.sessions = (int32_t) service->sessions.len;
    pthread_mutex_unlock(&service->lock);
    sample.memory_server = own_memory();
    sample.memory_boxes = boxes_memory(service, &info);
    watch_host_memory(&sample.memory_host, &total);
    pthread_mutex_lock(&watch->lock);
    watch->ring[watch->taken++ % SAMPLES] = sample;
    watch->taken_unix_us = unix_now_us();
    pthread_mutex_unlock(&watch->lock);
}

/* False once the thread shall end. */
static bool wait_until(struct watch *watch, int64_t until_us)
{
    struct timespec until = { until_us / USEC_PER_SEC, until_us % USEC_PER_SEC * 1000 };
    bool stopping;

    pthread_mutex_lock(&watch->lock);
    while (!watch->stopping && clock_now_us() < until_us)
        (void) pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
    stopping = watch->stopping;
    pthread_mutex_unlock(&watch->lock);
    return !stopping;
}

static void *watch_main(void *arg)
{
    struct watch *watch = arg;
    int64_t next = clock_now_us();
    struct counters before;

    read_counters(watch->service, &before);
    while (wait_until(watch, next += SAMPLE_US)) {
        sample_take(watch, &before);
        /* A machine that slept has missed samples: they are not made up. */
        if (clock_now_us() > next + SAMPLE_US)
            next = clock_now_us();
    }
    return NULL;
}

int watch_open(struct service *service, struct watch **ret_watch, struct gb_err *err)
{
    struct watch *watch = calloc(1, sizeof *watch);
    int r;

    if (!watch)
        return gb_fail(err, ENOMEM, "start the watch");
    watch->service = service;
    watch->taken_unix_us = unix_now_us();
    pthread_mutex_init(&watch->lock, NULL);
    cond_init(&watch->wake);
    r = pthread_create(&watch->thread, NULL, watch_main, watch);
    if (r != 0) {
        pthread_mutex_destroy(&watch->lock);
        pthread_cond_destroy(&watch->wake);
        free(watch);
        return gb_fail(err, r, "start the watch");
    }
    *ret_watch = watch;
    return 0;
}

void watch_close(struct watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->stopping = true;
    pthread_cond_broadcast(&watch->wake);
    pthread_mutex_unlock(&watch->lock);
    (void) pthread_join(watch->thread, NULL);
    pthread_mutex_destroy(&watch->lock);
    pthread_cond_destroy(&watch->wake);
    free(watch);
}

/* ---- showing them ---- */

/* Some samples as one. */
struct point {
    uint64_t buckets[SERVICE_BUCKETS], count, error, stopped;
    struct sample last;
    int32_t sessions, running, waiting;
    size_t len;
};

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static void point_add(struct point *point, const struct sample *sample)
{
    for (size_t i = 0; i < SERVICE_BUCKETS; i++) {
        point->buckets[i] += sample->buckets[i];
        point->count += sample->buckets[i];
    }
    point->error += sample->error;
    point->stopped += sample->stopped;
    point->sessions = most(point->sessions, sample->sessions);
    point->running = most(point->running, sample->running);
    point->waiting = most(point->waiting, sample->waiting);
    point->last = *sample;
    point->len++;
}

/* Interpolated within its bucket. The last one has no upper bound, so nothing above twice its lower
 * bound is claimed. */
static json_t *quantile_ms(const struct point *point, double q)
{
    double rank = q * (double) point->count, below = 0;

    if (point->count == 0)
        return json_null();
    for (size_t i = 0; i < SERVICE_BUCKETS; i++) {
        double from = i == 0 ? 0 : (double) service_bucket_us[i - 1];
        double to = i == SERVICE_BUCKETS - 1 ? 2 * from : (double) service_bucket_us[i];
        double in = (double) point->buckets[i];

        if (in > 0 && below + in >= rank)
            return json_real((from + (to - from) * (rank - below) / in) / 1000);
        below += in;
    }
    return json_null();
}

static json_t *known(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *per_second(uint64_t count, const struct point *point)
{
    return json_real((double) count * USEC_PER_SEC / ((double) point->len * SAMPLE_US));
}

static void add(json_t *series, const char *name, json_t *value)
{
    json_t *list = json_object_get(series, name);

    if (!list) {
        list = json_array();
        (void) json_object_set_new(series, name, list);
    }
    (void) json_array_append_new(list, value);
}

static void point_show(json_t *series, const struct point *point, int64_t end_us)
{
    add(series, "time", json_integer(end_us / USEC_PER_SEC));
    add(series, "rate", per_second(point->count, point));
    add(series, "error_rate", per_second(point->error, point));
    add(series, "stopped_rate", per_second(point->stopped, point));
    add(series, "p50_ms", quantile_ms(point, 0.5));
    add(series, "p95_ms", quantile_ms(point, 0.95));
    add(series, "sessions", json_integer(point->sessions));
    add(series, "running", json_integer(point->running));
    add(series, "waiting", json_integer(point->waiting));
    add(series, "boxes_ready", json_integer(point->last.boxes_ready));
    add(series, "memory_server", known(point->last.memory_server));
    add(series, "memory_boxes", known(point->last.memory_boxes));
    add(series, "memory_host", known(point->last.memory_host));
}

static json_t *series_empty(void)
{
    static const char *const names[] = { "time",         "rate",          "error_rate",
                                         "stopped_rate", "p50_ms",        "p95_ms",
                                         "sessions",     "running",       "waiting",
                                         "boxes_ready",  "memory_server", "memory_boxes",
                                         "memory_host" };
    json_t *series = json_object();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void) json_object_set_new(series, names[i], json_array());
    return series;
}

int watch_series(struct service *service, int64_t minutes, json_t **ret_json, struct fault *fault)
{
    struct watch *watch = service->watch;
    uint64_t wanted = (uint64_t) minutes * 60 * USEC_PER_SEC / SAMPLE_US;
    uint64_t group = (wanted + POINTS_MAX - 1) / POINTS_MAX, first, taken;
    struct sample *ring = malloc(sizeof watch->ring);
    json_t *series = ring ? series_empty() : NULL;
    int64_t end_us;

    if (!series) {
        free(ring);
        return fault_no_memory(fault);
    }
    pthread_mutex_lock(&watch->lock);
    memcpy(ring, watch->ring, sizeof watch->ring);
    taken = watch->taken;
    end_us = watch->taken_unix_us;
    pthread_mutex_unlock(&watch->lock);
    first = taken > wanted ? taken - wanted : 0;
    first -= first % group; /* so that a sample stays in the same point from one look to the next */
    if (taken - first > SAMPLES)
        first += group;
    while (first < taken) {
        struct point point = { 0 };

        for (; point.len < group && first < taken; first++)
            point_add(&point, &ring[first % SAMPLES]);
        point_show(series, &point, end_us - (int64_t) (taken - first) * SAMPLE_US);
    }
    free(ring);
    (void) json_object_set_new(series, "step", json_real((double) group * SAMPLE_US / 1e6));
    (void) json_object_set_new(series, "end", json_integer(end_us / USEC_PER_SEC));
    *ret_json = series;
    return 0;
}
