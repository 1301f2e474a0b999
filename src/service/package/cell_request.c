/*
 * %pip install in a cell. The cell's run hands us the request and continues to poll; a separate
 * thread installs, writes the reply into a pipe and ends. In a session this is an install like any
 * other. For a one-shot the packages go into its box and nowhere else; the box may be gone before
 * the install is done, so the execution keeps a pointer to it, under a lock, for as long as it
 * exists.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "service/execution/execution.h"
#include "service/package/internal.h"
#include "service/session/session.h"

#include "base/banned.h"

/* The engine's loop has buffers of 64 KiB. A sanitizer has its own data on each stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ASK_STACK (4u * 1024 * 1024)
#else
#define ASK_STACK (512u * 1024)
#endif

#define MB         1e6
#define TOLD_BYTES 8000000 /* larger downloads are told */
#define TOLD_US    (5 * USEC_PER_SEC)

struct ask_job {
    struct execution *x;
    struct session *session; /* or NULL */
    int fd;                  /* to write the reply to */
    json_t *wish;
    int64_t told_us; /* when progress was told last; 0: never */
};

static void job_free(struct ask_job *job)
{
    session_unref(job->session);
    execution_unref(job->x);
    gb_closep(&job->fd);
    json_decref(job->wish);
    free(job);
}

static int place_change(struct execution *x, struct layer *layer, struct fault *fault)
{
    int r;

    pthread_mutex_lock(&x->place_lock);
    if (x->place)
        r = packages_mount(x->service, x->place, layer, fault);
    else
        r = fault_set(fault, PROBLEM_EXECUTION_ENDED, NULL, "the execution has ended");
    if (r == 0) {
        layer_unref(x->layer);
        x->layer = layer_ref(layer);
    }
    pthread_mutex_unlock(&x->place_lock);
    return r;
}

int packages_install_here(struct execution *x, const struct install_order *order, json_t **ret_json,
                          struct fault *fault)
{
    struct install_job job;
    int r;

    if (install_job_init(&job, x->service, order, fault) < 0)
        return -1;
    job.scope = x->set_name;
    job.live = true;
    pthread_mutex_lock(&x->place_lock);
    job.before = layer_ref(x->layer);
    if (x->place)
        r = install_job_adopt(&job, x->place, x->template, fault);
    else
        r = fault_set(fault, PROBLEM_EXECUTION_ENDED, NULL, "the execution has ended");
    pthread_mutex_unlock(&x->place_lock);
    if (r == 0)
        r = install_job_resolve(&job, NULL, fault);
    if (r == 0 && job.result.layer && job.result.layer != job.before)
        r = place_change(x, job.result.layer, fault);
    if (r == 0)
        *ret_json = install_to_json(&job);
    install_job_release(&job);
    return r;
}

int packages_furnish(struct execution *x, struct box *box, struct fault *fault)
{
    bool fits = packages_template_fits(x->service, x->template);
    struct layer *layer = fits ? packages_default(x->service, x->set_name) : NULL;

    if (layer && packages_mount(x->service, box, layer, fault) < 0) {
        layer_unref(layer);
        return -1;
    }
    pthread_mutex_lock(&x->place_lock);
    x->place = box;
    x->layer = layer;
    pthread_mutex_unlock(&x->place_lock);
    return 0;
}

void packages_leave(struct execution *x)
{
    struct layer *layer;

    pthread_mutex_lock(&x->place_lock);
    x->place = NULL;
    layer = x->layer;
    x->layer = NULL;
    pthread_mutex_unlock(&x->place_lock);
    layer_unref(layer);
}

/* {"op": "install" or "uninstall", "requirements": [...], "newest"?}: pointers into it, or
 * false. */
static bool order_read(const json_t *wish, struct install_order *ret_order,
                       const char ***ret_wanted)
{
    const json_t *list = json_object_get(wish, "requirements");
    size_t len = json_array_size(list);
    const char *op = json_string_value(json_object_get(wish, "op"));
    const char **wanted;

    if (!op || (strcmp(op, "install") != 0 && strcmp(op, "uninstall") != 0) || len == 0 ||
        len > REQUIREMENTS_MAX)
        return false;
    wanted = calloc(len + 1, sizeof *wanted);
    for (size_t i = 0; wanted && i < len; i++) {
        wanted[i] = json_string_value(json_array_get(list, i));
        if (!wanted[i] || strlen(wanted[i]) != json_string_length(json_array_get(list, i))) {
            free(wanted);
            return false;
        }
    }
    *ret_wanted = wanted;
    *ret_order = (struct install_order){ .wanted = wanted,
                                         .remove = strcmp(op, "uninstall") == 0,
                                         .newest = json_is_true(json_object_get(wish, "newest")) };
    return wanted != NULL;
}

/* A small install says nothing until it is done. */
static void on_progress(void *arg, const struct install_progress *progress)
{
    struct ask_job *job = arg;
    int64_t now = clock_now_us();
    char line[ASK_LINE_MAX];

    if (progress->stage != INSTALL_FETCHING || progress->bytes_total < TOLD_BYTES ||
        (job->told_us && now - job->told_us < TOLD_US))
        return;
    if (!job->told_us)
        snprintf(line, sizeof line, "%cFetching %lld packages, %.1f MB\n", ASK_LINE_SIGN,
                 (long long) progress->total, (double) progress->bytes_total / MB);
    else
        snprintf(line, sizeof line, "%c%.1f of %.1f MB\n", ASK_LINE_SIGN,
                 (double) progress->bytes / MB, (double) progress->bytes_total / MB);
    job->told_us = now;
    (void) io_write_all(job->fd, line, strlen(line));
}

static json_t *answer_make(struct ask_job *job)
{
    struct execution *x = job->x;
    struct caller caller = { .principal = x->principal, .limits = { -1, -1, -1 } };
    autofree const char **wanted = NULL;
    struct install_order order;
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (!order_read(job->wish, &order, &wanted))
        r = fault_set(&fault, PROBLEM_ASK_MALFORMED, NULL,
                      "malformed install request; use %%pip install NAME");
    else if (job->session && job->session->no_installs)
        r = fault_set(&fault, PROBLEM_PACKAGE_NOT_ALLOWED, NULL,
                      "programs cannot install packages here; use those that the box has");
    else {
        order.watch = (struct install_watch){ on_progress, job };
        order.cancel_fd = job->fd; /* it reports an error once nobody reads the answer */
        if (job->session)
            r = packages_install(x->service, &caller, job->session, &order, &json, &fault);
        else if ((r = account_take_install(x->service, &caller, &fault)) == 0)
            r = packages_install_here(x, &order, &json, &fault);
    }
    if (r == 0 && json)
        return json;
    return json_pack("{s:b,s:s,s:s}", "success", 0, "message", fault.detail, "type",
                     fault.type ? fault.type : "");
}

static void *ask_main(void *arg)
{
    struct ask_job *job = arg;
    struct service *service = job->x->service;
    json_t *answer = answer_make(job);
    char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;

    if (text && strlen(text) <= ASK_ANSWER_MAX)
        (void) io_write_all(job->fd, text, strlen(text));
    free(text);
    json_decref(answer);
    job_free(job);
    service_worker_count(service, -1);
    return NULL;
}

static int job_start(struct ask_job *job)
{
    struct service *service = job->x->service;
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void) pthread_attr_setstacksize(&attr, ASK_STACK);
    service_worker_count(service, 1);
    r = pthread_create(&thread, &attr, ask_main, job);
    pthread_attr_destroy(&attr);
    if (r != 0)
        service_worker_count(service, -1);
    return -r;
}

int packages_ask(void *arg, const char *json, size_t len)
{
    struct execution *x = arg;
    struct ask_job *job = calloc(1, sizeof *job);
    int ends[2], r;

    if (!job)
        return -ENOMEM;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        r = -errno;
        free(job);
        return r;
    }
    job->fd = ends[1];
    job->x = execution_ref(x);
    pthread_mutex_lock(&x->lock);
    job->session = x->session ? session_ref(x->session) : NULL;
    pthread_mutex_unlock(&x->lock);
    job->wish = json_loadb(json, len, 0, NULL);
    r = job_start(job);
    if (r < 0) {
        job_free(job);
        (void) close(ends[0]);
        return r;
    }
    return ends[0];
}
