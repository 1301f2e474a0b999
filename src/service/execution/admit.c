/* Admits executions: checks the request and fills in what it leaves open. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "service/access/audit.h"
#include "service/execution/execution.h"
#include "service/execution/receipt.h"
#include "service/session/env.h"
#include "service/session/limits_request.h"
#include "service/session/session.h"

#include "base/banned.h"

void execution_request_init(struct execution_request *ret_request)
{
    *ret_request = (struct execution_request){ .reply_bytes = -1, .hangup_fd = -1 };
    limits_wish_init(&ret_request->limits);
}

static int request_check(struct service *service, const struct session *session,
                         const struct execution_request *request, struct fault *fault)
{
    const struct service_config *config = &service->config;

    if (!request->code)
        return fault_set(fault, PROBLEM_CODE_MISSING, "code", "code is missing");
    if ((int64_t) request->code_len > config->code_bytes_max)
        return fault_set(fault, PROBLEM_CODE_TOO_LARGE, "code",
                         "code can have at most %lld bytes; upload a file and run that",
                         (long long) config->code_bytes_max);
    if (memchr(request->code, 0, request->code_len))
        return fault_set(fault, PROBLEM_CODE_MALFORMED, "code",
                         "code must not contain NUL characters");
    if ((int64_t) request->input_len > config->input_bytes_max)
        return fault_set(fault, PROBLEM_INPUT_TOO_LARGE, "stdin",
                         "stdin can have at most %lld bytes; upload a file and read that",
                         (long long) config->input_bytes_max);
    if (request->reply_bytes > config->reply_bytes_max)
        return fault_set(
            fault, PROBLEM_REPLY_TOO_LARGE, "reply_bytes",
            "a reply holds at most %lld bytes per stream; page through the output instead",
            (long long) config->reply_bytes_max);
    if (session && request->kind == EXECUTION_SCRIPT)
        return fault_set(fault, PROBLEM_KIND_NOT_IN_SESSION, "kind",
                         "sessions run cells and commands, not scripts");
    if (session && request->env && request->env[0] && request->kind == EXECUTION_SHELL)
        return fault_set(fault, PROBLEM_ENV_NOT_HERE, "env",
                         "the persistent shell has its own environment; use export, or leave out "
                         "shell");
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
                         "in a session an execution can set only its timeout; other limits are set "
                         "when the session is created");
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
    int64_t reply_bytes =
        request->reply_bytes < 0 ? service->config.reply_bytes : request->reply_bytes;
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
    x->principal = caller->principal;
    if (!session)
        set_name(&caller->principal, caller->listener, x->set_name);
    if (session) {
        memcpy(x->session_id, session->id, sizeof x->session_id);
        x->budget = session->budget;
        atomic_fetch_add(&x->budget->refs, 1);
    }
    for (size_t i = 0; i < 2; i++)
        output_log_init(&x->logs[i], &x->lock, service->config.data_dir,
                        x->budget ? &x->budget->output : NULL, &service->output,
                        (size_t) reply_bytes);
    return x;
}

/* The run as the engine gets it: the request's values, and defaults for the rest. */
static void spec_fill(struct execution *x, const struct execution_request *request,
                      const struct limits *limits)
{
    const struct service *service = x->service;
    const char *filename = request->kind == EXECUTION_SCRIPT ? "<string>" : NULL;

    x->spec = (struct run_spec){
        .code = request->code,
        .code_len = request->code_len,
        .filename = request->filename ? request->filename : filename,
        .cell = request->kind == EXECUTION_CELL,
        .names = request->names,
        .names_len = request->names_len,
        .env = (char *const *) request->env, /* which the engine does not change */
        .limits = *limits,
        .reply_bytes = 0, /* the logs keep the output */
        .input = request->input,
        .input_len = request->input_len,
        .stdin_fd = -1,
        .cancel_fd = -1, /* until it runs */
        .sink = execution_sink(x),
        .ask = service->packages || request->ask ? execution_ask : NULL,
        .ask_arg = x,
        /* One account for both: what a cell does not wait for packages it may wait for answers. */
        .ask_us = (service->packages ? service->config.packages.timeout_us : 0) +
                  (request->ask ? request->ask_us : 0),
    };
    x->ask = request->ask;
    x->ask_arg = request->ask_arg;
}

/* With the lock held. */
static int admit_locked(struct service *service, const struct caller *caller, struct execution *x,
                        struct fault *fault)
{
    if (service->draining) {
        (void) fault_set(fault, PROBLEM_DRAINING, NULL,
                         "the service is shutting down; retry later");
        fault->retry_after_s = 5;
        return -1;
    }
    if (service->in_flight >= service->config.in_flight_max) {
        (void) fault_set(fault, PROBLEM_EXECUTIONS_MAX, NULL,
                         "%lld executions are in progress, the maximum; retry in a moment",
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

    /* Code that cannot be logged is not run. */
    if (service->audit && audit_check(service->audit, &err) < 0)
        return fault_from_engine(service, "the audit log cannot be written", &err, fault);
    pthread_mutex_lock(&service->lock);
    r = admit_locked(service, caller, x, fault);
    pthread_mutex_unlock(&service->lock);
    return r;
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
    spec_fill(x, request, &limits);
    x->begun_unix_us = unix_now_us();
    if (session) {
        kept_make_room(service, session);
        x->session = session_ref(session);
    }
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
