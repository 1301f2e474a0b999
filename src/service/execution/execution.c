/*
 * Executions: from the request to the receipt.
 *
 * Every execution is an object that others can find by its id while it runs and for a while after.
 * It is run by one thread: the caller's own (execution_run_here, the short way: no thread, no disk,
 * two short visits to the service's lock) or a worker (execution_start). Both go through
 *
 *   admit      limits of the service and the key; into the table
 *   turn       in a session: wait in line
 *   run        session/engine_calls.c; output flows into the logs, whoever reads
 *   finish     audit, numbers, the turn to the next, then DONE: readers get the receipt
 *
 * Afterwards the execution is kept: the newest kept_count of them, each for at most kept_us, as far
 * as memory and disk allow. What a reader holds stays until it lets go.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "service/execution/receipt.h"
#include "service/service_internal.h"
#include "service/session/env.h"
#include "service/session/limits_request.h"
#include "service/session/network.h"
#include "service/session/volumes_request.h"

#include "base/banned.h"

#define KEPT_FILES_MAX 512 /* descriptors are few */
#define LOGGED_CODE    300u

void execution_request_init(struct execution_request *ret_request)
{
    *ret_request = (struct execution_request){ .reply_bytes = -1, .hangup_fd = -1 };
    limits_wish_init(&ret_request->limits);
}

/* ---- references ---- */

static void execution_free(struct execution *x)
{
    outcome_release(&x->outcome);
    free(x->contacts);
    egress_policy_free(x->policy);
    for (size_t i = 0; !x->displays_taken && i < x->displays_len; i++)
        free(x->displays[i].bundle.json);
    free(x->displays);
    output_log_release(&x->logs[STREAM_OUT]);
    output_log_release(&x->logs[STREAM_ERR]);
    budget_unref(x->budget);
    execution_copy_free(x->copy);
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

/* ---- admit ---- */

static int request_check(struct service *service, const struct session *session,
                         const struct execution_request *request, struct fault *fault)
{
    const struct service_config *config = &service->config;

    if (!request->code)
        return fault_set(fault, PROBLEM_CODE_MISSING, "code", "code is missing");
    if ((int64_t) request->code_len > config->code_bytes_max)
        return fault_set(fault, PROBLEM_CODE_TOO_LARGE, "code",
                         "code may have %lld bytes; upload a file and run that",
                         (long long) config->code_bytes_max);
    if (memchr(request->code, 0, request->code_len))
        return fault_set(fault, PROBLEM_CODE_MALFORMED, "code",
                         "code must not have NUL characters");
    if ((int64_t) request->input_len > config->input_bytes_max)
        return fault_set(fault, PROBLEM_INPUT_TOO_LARGE, "stdin",
                         "stdin may have %lld bytes; upload a file and read that",
                         (long long) config->input_bytes_max);
    if (request->reply_bytes > config->reply_bytes_max)
        return fault_set(fault, PROBLEM_REPLY_TOO_LARGE, "reply_bytes",
                         "a reply has at most %lld bytes a stream; page through the output instead",
                         (long long) config->reply_bytes_max);
    if (session && request->kind == EXECUTION_SCRIPT)
        return fault_set(fault, PROBLEM_KIND_NOT_IN_SESSION, "kind",
                         "a session runs cells and commands");
    if (session && request->env && request->env[0] && request->kind != EXECUTION_COMMAND)
        return fault_set(fault, PROBLEM_ENV_NOT_HERE, "env",
                         "the environment of a session is set when it is made");
    return env_check(request->env, fault);
}

static int limits_make(struct service *service, const struct session *session,
                       const struct execution_request *request, struct limits *ret_limits,
                       struct fault *fault)
{
    const struct service_config *config = &service->config;
    bool shell = request->kind == EXECUTION_COMMAND || request->kind == EXECUTION_SHELL;
    struct wish_bounds bounds = {
        .defaults = &config->oneshot,
        .ceiling = &config->ceiling,
        .wall_default_us = shell ? config->command_wall_default_us : config->wall_default_us,
        .wall_max_us = shell ? config->command_wall_max_us : config->wall_max_us,
    };

    if (!session)
        return wish_to_limits(&request->limits, &bounds, ret_limits, fault);
    if (wish_beyond_time(&request->limits))
        return fault_set(fault, PROBLEM_LIMIT_NOT_HERE, "limits",
                         "in a session an execution can set its timeout only; other limits are set "
                         "when the session is made");
    if (!shell)
        bounds.wall_default_us = session->limits.wall_us;
    *ret_limits = session->limits;
    ret_limits->cpu_us = session->cpu_us;
    return wish_to_wall(&request->limits, &bounds, &ret_limits->wall_us, fault);
}

static struct execution *execution_alloc(struct service *service, const struct caller *caller,
                                         struct session *session,
                                         const struct execution_request *request)
{
    struct execution *x = calloc(1, sizeof *x);

    if (!x)
        return NULL;
    x->service = service;
    x->kind = request->kind;
    x->accept_loss = request->accept_loss;
    x->cancel_fd = x->done_fd = -1;
    atomic_init(&x->refs, 1);
    pthread_mutex_init(&x->lock, NULL);
    pthread_mutex_init(&x->place_lock, NULL);
    cond_init(&x->cond);
    cond_init(&x->turn_cond);
    (void) snprintf(x->key_id, sizeof x->key_id, "%s", caller->key_id);
    if (!session)
        set_name(caller->key_id, caller->listener ? caller->listener : "", x->set_name);
    if (session) {
        memcpy(x->session_id, session->id, sizeof x->session_id);
        x->budget = session->budget;
        atomic_fetch_add(&x->budget->refs, 1);
    }
    for (size_t i = 0; i < 2; i++)
        output_log_init(&x->logs[i], &x->lock, service->config.data_dir,
                        x->budget ? &x->budget->output : NULL, &service->output);
    return x;
}

/* With the lock held. */
static int admit_locked(struct service *service, const struct caller *caller, struct execution *x,
                        struct fault *fault)
{
    if (service->draining) {
        (void) fault_set(fault, PROBLEM_DRAINING, NULL,
                         "the service is stopping; try another or come back");
        fault->retry_after_s = 5;
        return -1;
    }
    if (service->in_flight >= service->config.in_flight_max) {
        (void) fault_set(fault, PROBLEM_EXECUTIONS_MAX, NULL,
                         "%lld executions are under way; try again in a moment",
                         (long long) service->in_flight);
        fault->retry_after_s = 1;
        return -1;
    }
    if (account_take_execution(service, caller, &x->account, fault) < 0)
        return -1;
    service->in_flight++;
    id_table_add(&service->executions, &x->node, x->id);
    TAILQ_INSERT_TAIL(&service->live, x, in_list);
    execution_ref(x);
    return 0;
}

static int admit(struct service *service, const struct caller *caller, struct execution *x,
                 struct fault *fault)
{
    struct gb_err err;
    int r;

    /* What cannot be logged is not run. */
    if (service->audit && audit_check(service->audit, &err) < 0)
        return fault_from_engine(service, "the audit log cannot be written", &err, fault);
    pthread_mutex_lock(&service->lock);
    r = admit_locked(service, caller, x, fault);
    pthread_mutex_unlock(&service->lock);
    return r;
}

static void execution_finish(struct execution *x, struct outcome *outcome,
                             const struct fault *fault, bool keep);
static void kept_remove(struct service *service, struct execution *x);

/* What earlier executions of a session printed counts against its quota. Once that is half full,
 * the oldest of them make way. */
static void budget_make_room(struct service *service, struct session *session)
{
    struct output_budget *budget = &session->budget->output;
    struct execution *x, *next;
    struct execution_list gone = TAILQ_HEAD_INITIALIZER(gone);
    int64_t surplus = atomic_load(&budget->disk_used) - budget->disk_max / 2;

    if (surplus <= 0)
        return;
    pthread_mutex_lock(&service->lock);
    for (x = TAILQ_FIRST(&service->kept); x && surplus > 0; x = next) {
        next = TAILQ_NEXT(x, in_list);
        if (x->budget != session->budget || x->kept_files == 0)
            continue;
        surplus -= x->kept_disk;
        kept_remove(service, x);
        TAILQ_INSERT_TAIL(&gone, x, in_list);
    }
    pthread_mutex_unlock(&service->lock);
    for (x = TAILQ_FIRST(&gone); x; x = next) {
        next = TAILQ_NEXT(x, in_list);
        execution_unref(x);
    }
}

int execution_begin(struct service *service, const struct caller *caller, struct session *session,
                    const struct execution_request *request, struct execution **ret_execution,
                    struct fault *fault)
{
    struct egress_policy *policy = NULL;
    char template[TEMPLATE_NAME_MAX];
    struct execution *x;
    struct limits limits;

    if (request_check(service, session, request, fault) < 0 ||
        (!session && template_wish(service, request->template, template, fault) < 0) ||
        limits_make(service, session, request, &limits, fault) < 0 ||
        (!session && network_policy_from_json(service, request->network, &policy, fault) < 0))
        return -1;
    x = execution_alloc(service, caller, session, request);
    if (!x || receipt_new_id(x->id, sizeof x->id) < 0) {
        execution_unref(x);
        egress_policy_free(policy);
        return fault_no_memory(fault);
    }
    memcpy(x->template, session ? session->template : template, sizeof x->template);
    x->policy = policy;
    x->limits = limits;
    x->begun_unix_us = unix_now_us();
    if (session)
        budget_make_room(service, session);
    if (session)
        x->session = session_ref(session);
    if (admit(service, caller, x, fault) < 0) {
        session_unref(x->session);
        execution_unref(x);
        return -1;
    }
    if (session && turn_enter(session, x, fault) < 0) {
        execution_finish(x, NULL, fault, false);
        execution_unref(x);
        return -1;
    }
    atomic_fetch_add(&service->waiting, 1);
    *ret_execution = x;
    return 0;
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

/* A display that cannot be kept for the stream is in the receipt all the same. */
static void sink_bundle(void *arg, enum bundle_kind kind, const char *json, size_t len)
{
    struct execution *x = arg;
    struct display *displays;
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
        displays[x->displays_len++] = (struct display){
            .bundle = { copy, len },
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

/* From here on an interrupt goes to the engine. */
static void run_begin(struct execution *x, int cancel_fd)
{
    pthread_mutex_lock(&x->lock);
    x->state = EXECUTION_RUNNING;
    x->started_us = clock_now_us();
    x->cancel_fd = cancel_fd;
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

/* What interrupts of this execution wrote and the engine did not read: nobody writes any more. */
static void cancel_drain(struct execution *x, int fd)
{
    uint64_t stale;

    while (atomic_load(&x->interrupted) && read(fd, &stale, sizeof stale) == sizeof stale)
        ;
}

static int run_once(struct execution *x, const struct execution_request *request,
                    struct outcome *ret_outcome, struct fault *fault)
{
    autoclose int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    int r;

    run_begin(x, fd);
    if (fd < 0)
        r = fault_set(fault, PROBLEM_OUT_OF_DESCRIPTORS, NULL,
                      "the service has too much open; try later");
    else
        r = lodging_run_once(x, request, ret_outcome, fault);
    run_end(x);
    return r;
}

/* The session's variables for a command, and those of the request after them. */
static int env_join(char *const *first, const char *const *second, const char ***ret_env)
{
    size_t a = 0, b = 0;
    const char **env;

    while (first && first[a])
        a++;
    while (second[b])
        b++;
    env = calloc(a + b + 1, sizeof *env);
    if (!env)
        return -ENOMEM;
    for (size_t i = 0; i < a; i++)
        env[i] = first[i];
    for (size_t i = 0; i < b; i++)
        env[a + i] = second[i];
    *ret_env = env;
    return 0;
}

static int run_in_session(struct execution *x, const struct execution_request *request,
                          struct outcome *ret_outcome, struct fault *fault)
{
    struct session *session = x->session;
    struct execution_request own = *request;
    struct lodging_change change = { 0 };
    autofree const char **env = NULL;
    int r;

    run_begin(x, session->cancel_fd);
    if (request->env && request->env[0] && env_join(session->lodging.env, request->env, &env) == 0)
        own.env = env;
    else
        own.env = NULL;
    r = lodging_run(session, x, &own, ret_outcome, &change, fault);
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
                       const struct execution_request *request, const struct outcome *outcome)
{
    struct audit_entry entry = {
        .who = x->key_id[0] ? x->key_id : AUDIT_WHO_LOCAL,
        .session_id = x->session_id[0] ? x->session_id : NULL,
        .execution_id = x->id,
        .kind = kind_name(x->kind),
        .time_us = x->begun_unix_us,
        .code_bytes = (int64_t) request->code_len,
        .limits = x->limits,
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
    audit_hash_code(request->code, request->code_len, entry.code_hash);
    if (audit_write(x->service->audit, &entry, &err) < 0)
        service_log(x->service, LOG_LEVEL_ERROR, "execution %s: not in the audit log: %s", x->id,
                    err.msg);
}

static void count_outcome(struct execution *x, const struct outcome *outcome)
{
    struct service *service = x->service;
    int64_t us = outcome->wall_us > 0 ? outcome->wall_us : 0;

    atomic_fetch_add(&service->by_status[outcome->status], 1);
    atomic_fetch_add(&service->buckets[bucket_of(us)], 1);
    atomic_fetch_add(&service->duration_sum_us, us);
    if (service->config.log)
        service_log(service, LOG_LEVEL_INFO, "execution %s%s%s %s: %s in %lld us", x->id,
                    x->session_id[0] ? " session " : "", x->session_id, kind_name(x->kind),
                    run_status_name(outcome->status), (long long) us);
}

/* As a JSON string, so that no byte of it can pass for a line of the log. */
static void log_code(struct execution *x, const struct execution_request *request)
{
    size_t len = request->code_len < LOGGED_CODE ? request->code_len : LOGGED_CODE;
    autofree char *quoted = NULL;
    json_t *text;

    if (!x->service->config.log_code)
        return;
    text = json_stringn(request->code, len - utf8_partial_end(request->code, len));
    quoted = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    json_decref(text);
    service_log(x->service, LOG_LEVEL_INFO, "execution %s code %s", x->id,
                quoted ? quoted : "not text");
}

/* The displays were copied when they came; the outcome takes these copies in place of its own. */
static void displays_join(struct execution *x)
{
    if (x->displays_len == 0 || x->displays_len != x->outcome.outputs_len)
        return;
    for (size_t i = 0; i < x->displays_len; i++) {
        free(x->outcome.outputs[i].json);
        x->outcome.outputs[i] = x->displays[i].bundle;
    }
    x->displays_taken = true;
}

static int64_t memory_of(const struct execution *x)
{
    const struct outcome *o = &x->outcome;

    return (int64_t) (sizeof *x + x->logs[0].mem_cap + x->logs[1].mem_cap + o->out.head_len +
                      o->out.tail_len + o->err.head_len + o->err.tail_len + o->outputs_bytes +
                      o->files_len * 128 + x->contacts_len * sizeof *x->contacts);
}

/* With the lock held; the table's reference is the caller's now. */
static void kept_remove(struct service *service, struct execution *x)
{
    TAILQ_REMOVE(&service->kept, x, in_list);
    id_table_remove(&service->executions, &x->node);
    service->kept_len--;
    service->kept_memory -= x->kept_memory;
    service->kept_disk -= x->kept_disk;
    service->kept_files -= x->kept_files;
}

/* With the lock held: the oldest, if there are too many or it is too old. */
static struct execution *kept_surplus(struct service *service, int64_t now)
{
    const struct service_config *config = &service->config;
    struct execution *x = TAILQ_FIRST(&service->kept);

    if (!x)
        return NULL;
    if (service->kept_len <= config->kept_count &&
        service->kept_memory <= config->kept_memory_bytes &&
        service->kept_disk <= config->kept_disk_bytes && service->kept_files <= KEPT_FILES_MAX &&
        now - x->kept_since_us <= config->kept_us)
        return NULL;
    kept_remove(service, x);
    return x;
}

void execution_sweep(struct service *service)
{
    struct execution *x;

    do {
        pthread_mutex_lock(&service->lock);
        x = kept_surplus(service, service_now(service));
        pthread_mutex_unlock(&service->lock);
        execution_unref(x);
    } while (x);
}

/* Out of what is under way: kept, or gone. */
static void execution_leave(struct execution *x, bool keep)
{
    struct service *service = x->service;
    struct execution *surplus;

    pthread_mutex_lock(&service->lock);
    TAILQ_REMOVE(&service->live, x, in_list);
    account_give_execution(x->account);
    service->in_flight--;
    if (service->in_flight == 0)
        pthread_cond_broadcast(&service->idle);
    if (keep) {
        x->kept_since_us = service_now(service);
        x->kept_memory = memory_of(x);
        for (size_t i = 0; i < 2; i++)
            if (x->logs[i].fd >= 0) {
                x->kept_disk += x->logs[i].kept;
                x->kept_files++;
            }
        TAILQ_INSERT_TAIL(&service->kept, x, in_list);
        service->kept_len++;
        service->kept_memory += x->kept_memory;
        service->kept_disk += x->kept_disk;
        service->kept_files += x->kept_files;
    } else {
        id_table_remove(&service->executions, &x->node);
    }
    surplus = kept_surplus(service, service_now(service));
    pthread_mutex_unlock(&service->lock);
    if (!keep)
        execution_unref(x);
    /* One in, one out; the rest, if much was let go of at once, in another round. */
    if (surplus) {
        execution_unref(surplus);
        execution_sweep(service);
    }
}

/* Everything that others may wait for comes before DONE: who has seen the receipt finds the turn,
 * the session and the key's numbers free. */
static void execution_finish(struct execution *x, struct outcome *outcome,
                             const struct fault *fault, bool keep)
{
    struct session *session;

    pthread_mutex_lock(&x->lock);
    if (outcome) {
        x->outcome = *outcome;
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

/* What an execution that was stopped in line comes to. */
static void outcome_cancelled(struct outcome *ret_outcome)
{
    *ret_outcome = (struct outcome){ .status = RUN_CANCELLED, .exit_code = RUN_EXIT_CANCELLED };
}

/* For the log and the numbers only. */
static void outcome_failed(struct outcome *ret_outcome)
{
    *ret_outcome = (struct outcome){ .status = RUN_SYSTEM,
                                     .exit_code = RUN_EXIT_SYSTEM,
                                     .wall_us = -1,
                                     .cpu_us = -1,
                                     .memory_peak_bytes = -1 };
}

int execution_go(struct execution *x, const struct execution_request *request, bool keep_refused,
                 struct fault *fault)
{
    struct service *service = x->service;
    struct session *session = x->session;
    struct outcome outcome = { 0 };
    struct execution_request own = *request;
    bool ran = false;
    int r = 0;

    if (own.reply_bytes < 0)
        own.reply_bytes = service->config.reply_bytes;
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
        r = session ? run_in_session(x, &own, &outcome, fault) : run_once(x, &own, &outcome, fault);
    }
    if (r < 0)
        atomic_fetch_add(&service->refused, 1);
    /* Where we failed half-way, some of the code may have run. */
    if (r < 0 && ran && fault->kind != FAULT_CONFLICT)
        outcome_failed(&outcome);
    if (r == 0 || outcome.status == RUN_SYSTEM) {
        audit_note(x, session, request, &outcome);
        count_outcome(x, &outcome);
        log_code(x, request);
    }
    if (session && ran)
        turn_give(session);
    execution_finish(x, r == 0 ? &outcome : NULL, fault, r == 0 || keep_refused);
    return r;
}
