#include "service/session/engine_calls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/strv.h"
#include "service/execution/execution.h"
#include "service/package/packages.h"
#include "service/session/env.h"
#include "service/session/reaper.h"
#include "service/session/session.h"
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
    return r < 0 ? fault_from_engine(service, "no box could be created", &err, fault) : 0;
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
    if (network_open(service->egress, lodging.box, policy, &service->config.network_limits, label,
                     &lodging.network, &err) < 0) {
        lodging_close(&lodging);
        return fault_from_engine(service, "the network could not be set up", &err, fault);
    }
    if (env_join(lodging.network.env, (char *const *) env, &lodging.env) < 0) {
        lodging_close(&lodging);
        return fault_no_memory(fault);
    }
    if (resident_open(lodging.box, lodging.env, &lodging.resident, &err) < 0) {
        lodging_close(&lodging);
        return fault_from_engine(service, "the interpreter could not be started", &err, fault);
    }
    *ret_lodging = lodging;
    return 0;
}

static int cell_run(struct session *session, const struct run_spec *spec, bool accept_loss,
                    struct outcome *ret_outcome, struct lodging_change *change, struct gb_err *err)
{
    struct lodging *lodging = &session->lodging;
    int r;

    /* At most twice: the first interpreter may turn out to have ended since its last cell. */
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

/* With the session's variables, followed by those of the request. */
static int command_run(struct session *session, const struct run_spec *spec,
                       struct outcome *ret_outcome, struct gb_err *err)
{
    char **env = NULL;
    int r;

    if (!spec->env || !spec->env[0])
        return box_command(session->lodging.box, spec, session->lodging.env, NULL, ret_outcome,
                           err);
    if (env_join(session->lodging.env, spec->env, &env) < 0)
        return gb_fail(err, ENOMEM, "build the environment");
    r = box_command(session->lodging.box, spec, env, NULL, ret_outcome, err);
    strv_free(env);
    return r;
}

int lodging_run(struct session *session, struct execution *x, struct outcome *ret_outcome,
                struct lodging_change *ret_change, struct fault *fault)
{
    const struct run_spec *spec = &x->spec;
    struct gb_err err = { 0 };
    int r = -EINVAL;

    *ret_change = (struct lodging_change){ 0 };
    switch (x->kind) {
    case EXECUTION_CELL:
        r = cell_run(session, spec, x->accept_loss, ret_outcome, ret_change, &err);
        break;
    case EXECUTION_COMMAND:
        r = command_run(session, spec, ret_outcome, &err);
        break;
    case EXECUTION_SHELL:
        r = shell_line_run(session, spec, ret_outcome, ret_change, &err);
        break;
    case EXECUTION_SCRIPT:
        break; /* refused before it came here */
    }
    if (session->lodging.network.proxy)
        (void) egress_take_contacts(session->lodging.network.proxy, &x->contacts, &x->contacts_len);
    if (r == 0)
        return 0;
    if (ret_change->found_lost && !ret_change->variables_lost)
        return -1; /* the caller sets the message */
    return fault_from_engine(x->service, "the code could not be run", &err, fault);
}

int lodging_look(struct session *session, const struct look_spec *spec, char **ret_json,
                 size_t *ret_len, bool *ret_lost, struct fault *fault)
{
    struct lodging *lodging = &session->lodging;
    struct gb_err err = { 0 };
    int r = 0;

    if (!lodging->resident)
        r = resident_open(lodging->box, lodging->env, &lodging->resident, &err);
    if (r == 0)
        r = resident_look(lodging->resident, spec, ret_json, ret_len, &err);
    if (r == 0)
        return 1;
    if (r == -ECHILD && lodging->resident) {
        resident_free(lodging->resident);
        lodging->resident = NULL;
        *ret_lost = true;
        *ret_json = NULL;
        return 1;
    }
    return r == -EBUSY ? 0
                       : fault_from_engine(session->service, "the interpreter could not be asked",
                                           &err, fault);
}

static int run_here(struct execution *x, struct box *box, struct outcome *ret_outcome,
                    struct gb_err *err)
{
    if (x->kind == EXECUTION_COMMAND || x->kind == EXECUTION_SHELL)
        return box_command(box, &x->spec, x->spec.env, NULL, ret_outcome, err);
    return oneshot_run(box, &x->spec, ret_outcome, err);
}

/* With its own network, which is closed before the end is reported. */
static int run_connected(struct execution *x, struct box *box, struct outcome *ret_outcome,
                         struct gb_err *err)
{
    char label[NETWORK_LABEL_MAX], **env = NULL;
    struct network network;
    int r;

    (void) snprintf(label, sizeof label, "execution %s", x->id);
    r = network_open(x->service->egress, box, TAKE_PTR(x->policy),
                     &x->service->config.network_limits, label, &network, err);
    if (r < 0)
        return r;
    if (env_join(network.env, x->spec.env, &env) < 0) {
        r = gb_fail(err, ENOMEM, "set up the network");
    } else {
        x->spec.env = env;
        r = run_here(x, box, ret_outcome, err);
        x->spec.env = NULL;
    }
    (void) egress_take_contacts(network.proxy, &x->contacts, &x->contacts_len);
    network_close(&network);
    strv_free(env);
    return r;
}

int lodging_run_once(struct execution *x, struct outcome *ret_outcome, struct fault *fault)
{
    const struct limits *pool = &x->service->config.engine.pool_limits;
    struct limits limits = x->spec.limits;
    struct box *box = NULL;
    struct gb_err err = { 0 };
    int r;

    /* These belong to the execution, not to the box, so any box of the pool will do. */
    limits.wall_us = pool->wall_us;
    limits.output_bytes = pool->output_bytes;
    if (box_open(x->service, &limits, x->template, (struct box_options){ 0 }, &box, fault) < 0)
        return -1;
    if (packages_furnish(x, box, fault) < 0) {
        reaper_take(x->service->reaper, box);
        return -1;
    }
    r = x->policy ? run_connected(x, box, ret_outcome, &err) : run_here(x, box, ret_outcome, &err);
    packages_leave(x);
    reaper_take(x->service->reaper, box);
    return r < 0 ? fault_from_engine(x->service, "the code could not be run", &err, fault) : 0;
}
