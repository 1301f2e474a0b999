/*
 * Executions: from the request to the receipt.
 *
 * Every execution is an object that can be found by its id while it runs and for a while after.
 * One thread runs it: the caller's own (execution_run_here, the fast path: no thread, no disk, the
 * service's lock taken twice for a moment) or a worker (execution_start). Both go through
 *
 *   admit      limits of the service and the key; into the table
 *   turn       in a session: wait in the queue
 *   run        session/engine_calls.c; output goes into the logs, whether or not anybody reads
 *   finish     audit, statistics, the turn to the next, then DONE: readers get the receipt
 *
 * Afterwards the newest kept_count executions are kept, each for at most kept_us, as far as memory
 * and disk allow. One that a reader holds stays until it is released.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/strv.h"
#include "service/access/audit.h"
#include "service/execution/execution.h"
#include "service/session/session.h"
#include "service/session/volumes_request.h"

#include "base/banned.h"

/* ---- references ---- */

static void texts_free(struct texts *texts)
{
    free(texts->code);
    free(texts->filename);
    free(texts->names);
    free(texts->input);
    strv_free(texts->env);
    *texts = (struct texts){ 0 };
}

/* Frees its output, except what belongs to the log. */
static void cut_release(struct stream_cut *cut, const struct output_log *log)
{
    if (cut->head == log->mem)
        cut->head = NULL;
}

static void execution_free(struct execution *x)
{
    cut_release(&x->outcome.out, &x->logs[STREAM_OUT]);
    cut_release(&x->outcome.err, &x->logs[STREAM_ERR]);
    outcome_release(&x->outcome);
    free(x->contacts);
    egress_policy_free(x->policy);
    for (size_t i = 0; !x->displays_taken && i < x->displays_len; i++)
        free(x->displays[i].json);
    free(x->displays);
    output_log_release(&x->logs[STREAM_OUT]);
    output_log_release(&x->logs[STREAM_ERR]);
    budget_unref(x->budget);
    texts_free(&x->own);
    if (x->done_fd >= 0)
        (void) close(x->done_fd);
    layer_unref(x->layer);
    pthread_mutex_destroy(&x->place_lock);
    pthread_mutex_destroy(&x->lock);
    pthread_cond_destroy(&x->cond);
    pthread_cond_destroy(&x->turn_cond);
    free(x);
}

struct execution *execution_ref(struct execution *x)
{
    atomic_fetch_add(&x->refs, 1);
    return x;
}

void execution_unref(struct execution *x)
{
    if (x && atomic_fetch_sub(&x->refs, 1) == 1)
        execution_free(x);
}

/* ---- run ---- */

static int sink_write(void *arg, enum stream stream, const char *data, size_t len)
{
    struct execution *x = arg;

    output_log_append(&x->logs[stream], data, len);
    pthread_mutex_lock(&x->lock);
    if (x->readers > 0)
        pthread_cond_broadcast(&x->cond);
    pthread_mutex_unlock(&x->lock);
    return 0;
}

/* A display that cannot be kept for streams is still in the receipt. */
static void sink_bundle(void *arg, enum bundle_kind kind, const char *json, size_t len)
{
    struct execution *x = arg;
    struct bundle *displays;
    char *copy;

    if (kind != BUNDLE_DISPLAY)
        return;
    copy = malloc(len + 1);
    if (!copy)
        return;
    memcpy(copy, json, len);
    copy[len] = 0;
    pthread_mutex_lock(&x->lock);
    displays = reallocarray(x->displays, x->displays_len + 1, sizeof *displays);
    if (displays) {
        x->displays = displays;
        displays[x->displays_len++] = (struct bundle){
            .json = copy,
            .len = len,
            .out = x->logs[STREAM_OUT].total,
            .err = x->logs[STREAM_ERR].total,
        };
        if (x->readers > 0)
            pthread_cond_broadcast(&x->cond);
    }
    pthread_mutex_unlock(&x->lock);
    if (!displays)
        free(copy);
}

struct run_sink execution_sink(struct execution *x)
{
    return (struct run_sink){ .arg = x, .write = sink_write, .bundle = sink_bundle };
}

static void cancel_write(int fd)
{
    uint64_t one = 1;

    (void) !write(fd, &one, sizeof one);
}

/* From here on interrupts go to the engine. */
static void run_begin(struct execution *x, int cancel_fd)
{
    pthread_mutex_lock(&x->lock);
    x->state = EXECUTION_RUNNING;
    x->started_us = clock_now_us();
    x->cancel_fd = x->spec.cancel_fd = cancel_fd;
    if (atomic_load(&x->interrupted))
        cancel_write(cancel_fd);
    pthread_mutex_unlock(&x->lock);
    atomic_fetch_sub(&x->service->waiting, 1);
    atomic_fetch_add(&x->service->running, 1);
}

static void run_end(struct execution *x)
{
    pthread_mutex_lock(&x->lock);
    x->cancel_fd = -1;
    pthread_mutex_unlock(&x->lock);
    atomic_fetch_sub(&x->service->running, 1);
}

/* Drains interrupts of this execution that the engine did not read; no more can come now. */
static void cancel_drain(struct execution *x, int fd)
{
    uint64_t stale;

    while (atomic_load(&x->interrupted) && read(fd, &stale, sizeof stale) == sizeof stale)
        ;
}

static int run_once(struct execution *x, struct outcome *ret_outcome, struct fault *fault)
{
    autoclose int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    int r;

    run_begin(x, fd);
    if (fd < 0)
        r = fault_set(fault, PROBLEM_OUT_OF_DESCRIPTORS, NULL,
                      "the service is out of file descriptors; retry later");
    else
        r = lodging_run_once(x, ret_outcome, fault);
    run_end(x);
    return r;
}

static int run_in_session(struct execution *x, struct outcome *ret_outcome, struct fault *fault)
{
    struct session *session = x->session;
    struct lodging_change change = { 0 };
    int r;

    run_begin(x, session->cancel_fd);
    r = lodging_run(session, x, ret_outcome, &change, fault);
    run_end(x);
    cancel_drain(x, session->cancel_fd);
    if (change.found_lost)
        turn_lost(session, true);
    if (change.variables_lost)
        turn_lost(session, false);
    if (r < 0 && change.found_lost && !change.variables_lost)
        return turn_fault_lost(session, fault);
    x->session_lost = change.variables_lost;
    x->shell_lost = change.shell_lost;
    return r;
}

/* ---- finish ---- */

static int bucket_of(int64_t us)
{
    int i = 0;

    while (i < SERVICE_BUCKETS - 1 && us > service_bucket_us[i])
        i++;
    return i;
}

static const char *kind_name(enum execution_kind kind)
{
    switch (kind) {
    case EXECUTION_CELL:
        return "cell";
    case EXECUTION_COMMAND:
        return "command";
    case EXECUTION_SHELL:
        return "shell";
    case EXECUTION_SCRIPT:
        break;
    }
    return "script";
}

static void audit_note(struct execution *x, const struct session *session,
                       const struct outcome *outcome)
{
    struct audit_entry entry = {
        .who = principal_text(&x->principal),
        .session_id = x->session_id[0] ? x->session_id : NULL,
        .execution_id = x->id,
        .kind = kind_name(x->kind),
        .time_us = x->begun_unix_us,
        .code_bytes = (int64_t) x->spec.code_len,
        .limits = x->spec.limits,
        .status = outcome->status,
        .limit = outcome->limit,
        .exit_code = outcome->exit_code,
        .wall_us = outcome->wall_us,
        .cpu_us = outcome->cpu_us,
        .memory_peak_bytes = outcome->memory_peak_bytes,
        .output_bytes = x->logs[STREAM_OUT].total + x->logs[STREAM_ERR].total,
        .volumes = session && session->bindings ? session->bindings->text : NULL,
    };
    struct gb_err err;

    if (!x->service->audit)
        return;
    audit_hash_code(x->spec.code, x->spec.code_len, entry.code_hash);
    if (audit_write(x->service->audit, &entry, &err) < 0)
        service_log(x->service, LOG_LEVEL_ERROR,
                    "execution %s: cannot be written to the audit log: %s", x->id, err.msg);
}

static void count_outcome(struct execution *x, const struct outcome *outcome)
{
    struct service *service = x->service;
    int64_t us = outcome->wall_us > 0 ? outcome->wall_us : 0;

    atomic_fetch_add(&service->by_status[outcome->status], 1);
    atomic_fetch_add(&service->by_limit[outcome->limit], 1);
    atomic_fetch_add(&service->buckets[bucket_of(us)], 1);
    atomic_fetch_add(&service->duration_sum_us, us);
    if (service->config.log)
        service_log(service, LOG_LEVEL_INFO, "execution %s%s%s %s: %s in %lld us", x->id,
                    x->session_id[0] ? " session " : "", x->session_id, kind_name(x->kind),
                    run_status_name(outcome->status), (long long) us);
}

static void log_code(struct execution *x)
{
    const struct service_config *config = &x->service->config;
    autofree char *code = NULL;

    if (!config->log_code)
        return;
    code = strndup(x->spec.code, x->spec.code_len);
    config->log_code(config->log_arg, x->id, code ? code : "(out of memory)");
}

/* The displays were copied when they arrived; these copies replace the outcome's own. */
static void displays_join(struct execution *x)
{
    if (x->displays_len == 0 || x->displays_len != x->outcome.outputs_len)
        return;
    for (size_t i = 0; i < x->displays_len; i++) {
        free(x->outcome.outputs[i].json);
        x->outcome.outputs[i] = x->displays[i];
    }
    x->displays_taken = true;
}

/* The engine kept nothing of the streams, so its left_out counts all of their bytes; the logs have
 * what the receipt shows. */
static void streams_join(struct execution *x)
{
    struct stream_cut *cuts[] = { &x->outcome.out, &x->outcome.err };

    for (size_t i = 0; i < 2; i++) {
        struct stream_cut cut = { 0 };

        (void) output_log_cut(&x->logs[i], &cut); /* out of memory: nothing is shown */
        cut.left_out = cuts[i]->left_out - (int64_t) (cut.head_len + cut.tail_len);
        *cuts[i] = cut;
    }
}

/* Everything others may wait for is released before DONE: a client that has seen the receipt finds
 * the turn, the session and its quota free. */
void execution_finish(struct execution *x, struct outcome *outcome, const struct fault *fault,
                      bool keep)
{
    struct session *session;

    if (outcome) {
        x->outcome = *outcome;
        streams_join(x);
    }
    /* Programs are not kept. */
    x->spec = (struct run_spec){ 0 };
    texts_free(&x->own);
    pthread_mutex_lock(&x->lock);
    if (outcome) {
        displays_join(x);
    } else {
        x->fault = *fault;
    }
    session = x->session;
    x->session = NULL;
    pthread_mutex_unlock(&x->lock);
    session_unref(session);
    execution_leave(x, keep);
    pthread_mutex_lock(&x->lock);
    x->state = EXECUTION_DONE;
    x->ended_us = clock_now_us();
    if (x->readers > 0)
        pthread_cond_broadcast(&x->cond);
    if (x->done_fd >= 0)
        cancel_write(x->done_fd);
    pthread_mutex_unlock(&x->lock);
}

/* The outcome of an execution that was stopped while it was queued. */
static void outcome_cancelled(struct outcome *ret_outcome)
{
    *ret_outcome = (struct outcome){ .status = RUN_CANCELLED, .exit_code = RUN_EXIT_CANCELLED };
}

/* Only for the log and the statistics. */
static void outcome_failed(struct outcome *ret_outcome)
{
    *ret_outcome = (struct outcome){ .status = RUN_SYSTEM,
                                     .exit_code = RUN_EXIT_SYSTEM,
                                     .wall_us = -1,
                                     .cpu_us = -1,
                                     .memory_peak_bytes = -1 };
}

/* Each cell has its own name, so that a traceback through functions of earlier cells shows the
 * right lines: the number is the receipt's execution_count. */
static void name_cell(struct execution *x)
{
    if (x->spec.filename)
        return;
    snprintf(x->cell_name, sizeof x->cell_name, "<cell %lld>",
             (long long) (x->session_id[0] ? x->execution_count : 1));
    x->spec.filename = x->cell_name;
}

int execution_go(struct execution *x, bool keep_refused, struct fault *fault)
{
    struct service *service = x->service;
    struct session *session = x->session;
    struct outcome outcome = { 0 };
    bool ran = false;
    int r = 0;

    if (session)
        r = turn_wait(session, x, fault);
    else if (atomic_load(&x->interrupted))
        r = 1;
    if (r != 0)
        atomic_fetch_sub(&service->waiting, 1);
    if (r == 1) {
        outcome_cancelled(&outcome);
        r = 0;
    } else if (r == 0) {
        ran = true;
        name_cell(x);
        log_code(x);
        r = session ? run_in_session(x, &outcome, fault) : run_once(x, &outcome, fault);
    }
    if (r < 0)
        atomic_fetch_add(&service->refused, 1);
    /* If we failed half-way, some of the code may have run. */
    if (r < 0 && ran && fault->kind != FAULT_CONFLICT)
        outcome_failed(&outcome);
    if (r == 0 || outcome.status == RUN_SYSTEM) {
        audit_note(x, session, &outcome);
        count_outcome(x, &outcome);
    }
    if (session && ran)
        turn_give(session);
    execution_finish(x, r == 0 ? &outcome : NULL, fault, r == 0 || keep_refused);
    return r;
}

int execution_run_here(struct service *service, const struct caller *caller,
                       struct session *session, const struct execution_request *request,
                       struct execution **ret_execution, struct fault *fault)
{
    struct execution *x;
    int r;

    if (request->hangup_fd >= 0)
        return execution_run_watched(service, caller, session, request, ret_execution, fault);
    if (execution_begin(service, caller, session, request, &x, fault) < 0) {
        atomic_fetch_add(&service->refused, 1);
        return -1;
    }
    r = execution_go(x, false, fault);
    if (r < 0) {
        execution_unref(x);
        return r;
    }
    *ret_execution = x;
    return 0;
}
