#include "service/session/engine_calls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/strv.h"
#include "service/service_internal.h"
#include "service/session/env.h"
#include "service/session/volumes_request.h"

#include "base/banned.h"

void lodging_close(struct lodging *lodging)
{
    shell_free(lodging->shell);
    resident_free(lodging->resident);
    network_close(&lodging->network); /* it holds the box's network namespace */
    box_release(lodging->box);
    strv_free(lodging->env);
    *lodging = (struct lodging){ 0 };
}

static int box_open(struct service *service, const struct limits *limits, const char *template,
                    struct box_options options, struct box **ret_box, struct fault *fault)
{
    struct gb_err err;
    int r;

    if (template_open(service, template, &options.template, fault) < 0)
        return -1;
    r = box_acquire_with(service->engine, limits, &options, ret_box, &err);
    engine_template_put(options.template);
    return r < 0 ? fault_from_engine(service, "no box could be made", &err, fault) : 0;
}

/* The engine takes lists of strings that it does not change, without const. */
static char *const *strings(const char *const *list)
{
    return (char *const *) list;
}

int lodging_open(const struct session *session, const char *const *env,
                 struct egress_policy *policy, struct lodging *ret_lodging, struct fault *fault)
{
    struct service *service = session->service;
    const struct box_options options = {
        .disk = service->disk,
        .volumes = session->bindings ? session->bindings->items : NULL,
        .volumes_len = session->bindings ? session->bindings->len : 0,
    };
    struct lodging lodging = { 0 };
    char label[NETWORK_LABEL_MAX];
    struct gb_err err;

    (void) snprintf(label, sizeof label, "session %s", session->id);
    if (box_open(service, &session->limits, session->template, options, &lodging.box, fault) < 0) {
        egress_policy_free(policy);
        return -1;
    }
    if (network_open(service, lodging.box, policy, &service->config.network_limits, label,
                     &lodging.network, &err) < 0) {
        lodging_close(&lodging);
        return fault_from_engine(service, "no network could be opened", &err, fault);
    }
    if (network_env(&lodging.network, strings(env), &lodging.env) < 0) {
        lodging_close(&lodging);
        return fault_no_memory(fault);
    }
    if (resident_open(lodging.box, lodging.env, &lodging.resident, &err) < 0) {
        lodging_close(&lodging);
        return fault_from_engine(service, "no interpreter could be started", &err, fault);
    }
    *ret_lodging = lodging;
    return 0;
}

static struct run_spec spec_make(struct execution *x, const struct execution_request *request)
{
    static char empty[] = "";
    static char *no_args[] = { empty, NULL };
    bool python = x->kind == EXECUTION_CELL || x->kind == EXECUTION_SCRIPT;

    return (struct run_spec){
        .code = request->code,
        .code_len = request->code_len,
        .filename = request->filename             ? request->filename
                    : x->kind == EXECUTION_SCRIPT ? "<string>"
                                                  : "<cell>",
        .cell = x->kind == EXECUTION_CELL,
        .names = request->names,
        .names_len = request->names_len,
        .argv = python ? no_args : NULL,
        .limits = x->limits,
        .reply_bytes = (size_t) request->reply_bytes,
        .input = request->input,
        .input_len = request->input_len,
        .stdin_fd = -1,
        .cancel_fd = x->cancel_fd,
        .sink = execution_sink(x),
        .ask = x->service->packages ? packages_ask : NULL,
        .ask_arg = x,
    };
}

static int cell_run(struct session *session, const struct run_spec *spec, bool accept_loss,
                    struct outcome *ret_outcome, struct lodging_change *change, struct gb_err *err)
{
    struct lodging *lodging = &session->lodging;
    int r;

    /* Twice at most: the first may be found to have ended since its last cell. */
    for (;;) {
        if (!lodging->resident) {
            r = resident_open(lodging->box, lodging->env, &lodging->resident, err);
            if (r < 0)
                return r;
        }
        r = resident_run(lodging->resident, spec, ret_outcome, err);
        if (r == 0 && !ret_outcome->lost)
            return 0;
        resident_free(lodging->resident);
        lodging->resident = NULL;
        if (r != -ECHILD || change->found_lost) {
            change->variables_lost = true;
            return r;
        }
        change->found_lost = true;
        if (!accept_loss)
            return r;
    }
}

static int shell_line_run(struct session *session, const struct run_spec *spec,
                          struct outcome *ret_outcome, struct lodging_change *change,
                          struct gb_err *err)
{
    struct lodging *lodging = &session->lodging;
    int r;

    for (;;) {
        if (!lodging->shell) {
            r = shell_open(lodging->box, lodging->env, &lodging->shell, err);
            if (r < 0)
                return r;
        }
        r = shell_run(lodging->shell, spec, ret_outcome, err);
        if (r == 0 && !ret_outcome->lost)
            return 0;
        shell_free(lodging->shell);
        lodging->shell = NULL;
        if (r != -ECHILD || change->shell_lost) {
            change->shell_lost = true;
            return r;
        }
        change->shell_lost = true;
    }
}

int lodging_run(struct session *session, struct execution *x,
                const struct execution_request *request, struct outcome *ret_outcome,
                struct lodging_change *ret_change, struct fault *fault)
{
    struct run_spec spec = spec_make(x, request);
    struct gb_err err = { 0 };
    int r = -EINVAL;

    *ret_change = (struct lodging_change){ 0 };
    switch (x->kind) {
    case EXECUTION_CELL:
        r = cell_run(session, &spec, request->accept_loss, ret_outcome, ret_change, &err);
        break;
    case EXECUTION_COMMAND:
        r = box_command(session->lodging.box, &spec,
                        request->env ? strings(request->env) : session->lodging.env, NULL,
                        ret_outcome, &err);
        break;
    case EXECUTION_SHELL:
        r = shell_line_run(session, &spec, ret_outcome, ret_change, &err);
        break;
    case EXECUTION_SCRIPT:
        break; /* refused before it came here */
    }
    if (session->lodging.network.proxy)
        (void) egress_take_contacts(session->lodging.network.proxy, &x->contacts, &x->contacts_len);
    if (r == 0)
        return 0;
    if (ret_change->found_lost && !ret_change->variables_lost)
        return -1; /* the caller words this one */
    return fault_from_engine(x->service, "the code could not be run", &err, fault);
}

static int run_here(struct execution *x, struct box *box, const struct run_spec *spec,
                    struct outcome *ret_outcome, struct gb_err *err)
{
    if (x->kind == EXECUTION_COMMAND || x->kind == EXECUTION_SHELL)
        return box_command(box, spec, spec->env, NULL, ret_outcome, err);
    return execution_run(box, spec, ret_outcome, err);
}

/* With a network of its own, which is shut before anybody hears of the end. */
static int run_connected(struct execution *x, struct box *box, const struct run_spec *spec,
                         struct outcome *ret_outcome, struct gb_err *err)
{
    struct run_spec own = *spec;
    char label[NETWORK_LABEL_MAX], **env = NULL;
    struct network network;
    int r;

    (void) snprintf(label, sizeof label, "execution %s", x->id);
    r = network_open(x->service, box, TAKE_PTR(x->policy), &x->service->config.network_limits,
                     label, &network, err);
    if (r < 0)
        return r;
    r = network_env(&network, spec->env, &env);
    own.env = env;
    if (r < 0)
        r = gb_fail(err, ENOMEM, "open a network");
    else
        r = run_here(x, box, &own, ret_outcome, err);
    (void) egress_take_contacts(network.proxy, &x->contacts, &x->contacts_len);
    network_close(&network);
    strv_free(env);
    return r;
}

int lodging_run_once(struct execution *x, const struct execution_request *request,
                     struct outcome *ret_outcome, struct fault *fault)
{
    const struct limits *pool = &x->service->config.engine.pool_limits;
    struct run_spec spec = spec_make(x, request);
    struct limits limits = x->limits;
    struct box *box = NULL;
    struct gb_err err = { 0 };
    int r;

    /* These are of the execution and not of the box: whatever they are, a box of the pool will do.
     */
    limits.wall_us = pool->wall_us;
    limits.output_bytes = pool->output_bytes;
    spec.env = strings(request->env);
    if (box_open(x->service, &limits, x->template, (struct box_options){ 0 }, &box, fault) < 0)
        return -1;
    if (packages_furnish(x, box, fault) < 0) {
        reaper_take(x->service->reaper, box);
        return -1;
    }
    r = x->policy ? run_connected(x, box, &spec, ret_outcome, &err)
                  : run_here(x, box, &spec, ret_outcome, &err);
    packages_leave(x);
    reaper_take(x->service->reaper, box);
    return r < 0 ? fault_from_engine(x->service, "the code could not be run", &err, fault) : 0;
}
