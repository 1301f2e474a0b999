/*
 * Sessions: who has which, how long they live, and why they ended.
 *
 * A session is in the table from the moment its box is ready until it ends: deleted, expired, or
 * because the service stops. Ending removes it from the table at once, so nobody new finds it;
 * callers that have it already get the reason (END_...) when they next try to use it. The box goes
 * with the last reference.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/hex.h"
#include "base/text/parse.h"
#include "service/execution/execution.h"
#include "service/package/packages.h"
#include "service/session/env.h"
#include "service/session/limits_request.h"
#include "service/session/network.h"
#include "service/session/session.h"
#include "service/session/volumes_request.h"
#include "service/terminal/terminals.h"
#include "store/sessions.h"

#include "base/banned.h"

void session_request_init(struct session_request *ret_request)
{
    *ret_request = (struct session_request){ .idle_us = -1 };
    limits_wish_init(&ret_request->limits);
}

/* ---- references ---- */

void budget_unref(struct session_budget *budget)
{
    if (budget && atomic_fetch_sub(&budget->refs, 1) == 1)
        free(budget);
}

/* Accepts a half-built session. */
static void session_free(struct session *session)
{
    struct service *service = session->service;

    lodging_close(&session->lodging);
    layer_unref(session->layer);
    json_decref(session->requirements);
    pthread_mutex_destroy(&session->packages_lock);
    json_decref(session->network);
    bindings_free(session->bindings);
    budget_unref(session->budget);
    if (session->cancel_fd >= 0)
        (void) close(session->cancel_fd);
    pthread_mutex_destroy(&session->lock);
    pthread_mutex_lock(&service->lock);
    if (session->account)
        account_give_session(session->account);
    service->sessions_taken--;
    pthread_cond_broadcast(&service->idle);
    pthread_mutex_unlock(&service->lock);
    free(session);
}

struct session *session_ref(struct session *session)
{
    atomic_fetch_add(&session->refs, 1);
    return session;
}

void session_unref(struct session *session)
{
    if (session && atomic_fetch_sub(&session->refs, 1) == 1)
        session_free(session);
}

const char *session_id(const struct session *session)
{
    return session->id;
}

/* ---- creating one ---- */

static int request_check(struct service *service, const struct session_request *request,
                         struct limits *ret_limits, int64_t *ret_idle_us,
                         char ret_template[TEMPLATE_NAME_MAX], struct fault *fault)
{
    const struct service_config *config = &service->config;
    struct wish_bounds bounds = { &config->session, &config->ceiling, config->wall_default_us,
                                  config->wall_max_us };
    int64_t idle_us;

    if (template_wish(service, request->template, ret_template, fault) < 0)
        return -1;
    if (request->packages && request->packages[0] &&
        packages_check(&config->packages, request->packages, fault) < 0)
        return -1;
    idle_us = request->idle_us < 0 ? config->idle_us : request->idle_us;
    if (idle_us > config->idle_max_us || idle_us < USEC_PER_SEC)
        return fault_set(fault, PROBLEM_IDLE_OUT_OF_RANGE, "idle_timeout",
                         "idle_timeout must be from 1 to %lld seconds",
                         (long long) (config->idle_max_us / USEC_PER_SEC));
    if (env_check(request->env, fault) < 0 ||
        wish_to_limits(&request->limits, &bounds, ret_limits, fault) < 0)
        return -1;
    *ret_idle_us = idle_us;
    return 0;
}

/* Reserves room for one session: in the service and in the caller's quota. */
static int place_take(struct service *service, const struct caller *caller, struct session *session,
                      struct fault *fault)
{
    const struct service_config *config = &service->config;
    int r = -1;

    pthread_mutex_lock(&service->lock);
    if (service->draining) {
        r = fault_set(fault, PROBLEM_DRAINING, NULL, "the service is shutting down; retry later");
        fault->retry_after_s = 5;
    } else if (service->sessions_taken >= config->sessions_max) {
        r = fault_set(fault, PROBLEM_SESSIONS_MAX, NULL,
                      "all %lld sessions are in use; delete one or retry later",
                      (long long) config->sessions_max);
        fault->retry_after_s = 30;
    } else {
        r = account_take_session(service, caller, &session->account, fault);
    }
    if (r == 0) {
        service->sessions_taken++;
        session->serial = ++service->serial;
    }
    pthread_mutex_unlock(&service->lock);
    return r;
}

static struct session *session_alloc(struct service *service, const struct caller *caller)
{
    struct session *session = calloc(1, sizeof *session);

    if (!session)
        return NULL;
    session->service = service;
    session->cancel_fd = -1;
    session->look_fd = -1;
    TAILQ_INIT(&session->line);
    session->principal = caller->principal;
    (void) snprintf(session->listener, sizeof session->listener, "%s",
                    caller->listener ? caller->listener : "");
    atomic_init(&session->refs, 1);
    pthread_mutex_init(&session->lock, NULL);
    pthread_mutex_init(&session->packages_lock, NULL);
    return session;
}

/* Takes over @policy. */
static int session_fill(struct session *session, const struct caller *caller,
                        const struct session_request *request, struct egress_policy *policy,
                        struct fault *fault)
{
    session->budget = calloc(1, sizeof *session->budget);
    session->network = network_policy_to_json(policy);
    if (!session->budget || !session->network) {
        egress_policy_free(policy);
        return fault_no_memory(fault);
    }
    atomic_init(&session->budget->refs, 1);
    session->budget->output.disk_max = session->limits.disk_bytes;
    session->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (session->cancel_fd < 0 || id_new("ses_", session->id, sizeof session->id) < 0) {
        egress_policy_free(policy);
        return fault_set(fault, PROBLEM_OUT_OF_DESCRIPTORS, NULL,
                         "the service is out of file descriptors; retry later");
    }
    if (lodging_open(session, request->env, policy, &session->lodging, fault) < 0)
        return -1;
    return packages_move_in(session, caller, request->packages, fault);
}

/* The record by which we know, even after a restart, that the session existed. */
static int record_add(struct session *session, struct fault *fault)
{
    struct store *store = session->service->config.store;
    struct store_session record = { .created_us = session->created_unix_us,
                                    .last_used_us = session->created_unix_us };
    struct gb_err err;

    if (!store)
        return 0;
    (void) snprintf(record.id, sizeof record.id, "%s", session->id);
    (void) snprintf(record.owner, sizeof record.owner, "%s", principal_record(&session->principal));
    if (store_session_add(store, &record, &err) < 0)
        return fault_from_engine(session->service, "the session could not be recorded", &err,
                                 fault);
    return 0;
}

/* Adds it to the table, unless the service has begun to stop. */
static int session_publish(struct session *session, struct fault *fault)
{
    struct service *service = session->service;
    bool draining;

    pthread_mutex_lock(&service->lock);
    draining = service->draining;
    if (!draining) {
        id_table_add(&service->sessions, &session->node, session->id);
        TAILQ_INSERT_TAIL(&service->sessions_by_age, session, by_age);
        session_ref(session);
    }
    pthread_mutex_unlock(&service->lock);
    if (draining)
        return fault_set(fault, PROBLEM_DRAINING, NULL,
                         "the service is shutting down; retry later");
    return 0;
}

static int session_make(struct service *service, const struct caller *caller,
                        const struct session_request *request, struct session **ret_session,
                        struct fault *fault)
{
    char template[TEMPLATE_NAME_MAX];
    struct egress_policy *policy = NULL;
    struct limits limits;
    struct session *session;
    struct bindings *bindings = NULL;
    int64_t idle_us = 0;

    if (network_policy_from_json(service, request->network, &policy, fault) < 0)
        return -1;
    if (request_check(service, request, &limits, &idle_us, template, fault) < 0 ||
        bindings_new(&service->config, request, &bindings, fault) < 0) {
        egress_policy_free(policy);
        return -1;
    }
    session = session_alloc(service, caller);
    if (!session) {
        bindings_free(bindings);
        egress_policy_free(policy);
        return fault_no_memory(fault);
    }
    if (place_take(service, caller, session, fault) < 0) {
        egress_policy_free(policy);
        pthread_mutex_destroy(&session->lock);
        pthread_mutex_destroy(&session->packages_lock);
        bindings_free(bindings);
        free(session);
        return -1;
    }
    session->bindings = bindings;
    memcpy(session->template, template, sizeof session->template);
    session->limits = limits;
    session->limits.cpu_us = 0; /* for a session's box: its executions have their own */
    session->cpu_us = limits.cpu_us;
    session->no_installs = request->no_installs;
    session->idle_us = idle_us;
    session->created_us = session->last_used_us = service_now(service);
    session->created_unix_us = unix_now_us();
    if (session_fill(session, caller, request, policy, fault) < 0 ||
        record_add(session, fault) < 0 || session_publish(session, fault) < 0) {
        session_unref(session);
        return -1;
    }
    *ret_session = session;
    return 0;
}

int session_create(struct service *service, const struct caller *caller,
                   const struct session_request *request, struct session **ret_session,
                   struct fault *fault)
{
    if (session_make(service, caller, request, ret_session, fault) < 0) {
        atomic_fetch_add(&service->refused, 1);
        return -1;
    }
    atomic_fetch_add(&service->sessions_made, 1);
    service_log(service, LOG_LEVEL_INFO, "session %s created%s%s", (*ret_session)->id,
                (*ret_session)->bindings ? " with volumes " : "",
                (*ret_session)->bindings ? (*ret_session)->bindings->text : "");
    return 0;
}

/* ---- finding one, or why it ended ---- */

void session_fault_ended(enum session_end end, const char *id, struct fault *fault)
{
    switch (end) {
    case END_EXPIRED:
        (void) fault_set(fault, PROBLEM_SESSION_EXPIRED, "session_id",
                         "session %s was idle for too long and has expired; create a new one", id);
        return;
    case END_DELETED:
        (void) fault_set(fault, PROBLEM_SESSION_DELETED, "session_id",
                         "session %s was deleted; create a new one", id);
        return;
    case END_SHUTDOWN:
        (void) fault_set(fault, PROBLEM_SESSION_ENDED, "session_id",
                         "session %s ended when the service was stopped; create a new one", id);
        return;
    case END_NONE:
        break;
    }
    (void) fault_set(fault, PROBLEM_SESSION_UNKNOWN, "session_id",
                     "no such session; check the id, or create a session first");
}

static const struct tombstone *tombstone_find(const struct service *service, const char *id,
                                              const struct principal *principal)
{
    for (size_t i = 0; i < TOMBSTONES; i++) {
        const struct tombstone *stone = &service->tombstones[i];

        if (stone->end != END_NONE && strcmp(stone->id, id) == 0 &&
            principal_equal(&stone->principal, principal))
            return stone;
    }
    return NULL;
}

/* Looks it up in the store, if the id could be one of ours. */
static enum session_end end_recorded(struct service *service, const char *id,
                                     const struct principal *principal)
{
    struct store_session record;
    struct gb_err err;

    if (!service->config.store || strncmp(id, "ses_", 4) != 0 || !hex_is(id + 4, 32) ||
        store_session_get(service->config.store, id, &record, &err) < 0 ||
        strcmp(record.owner, principal_record(principal)) != 0)
        return END_NONE;
    switch (record.end) {
    case STORE_END_EXPIRED:
        return END_EXPIRED;
    case STORE_END_DELETED:
        return END_DELETED;
    case STORE_END_LOST:
    case STORE_END_SHUTDOWN:
        return END_SHUTDOWN;
    case STORE_END_NONE:
        break;
    }
    return END_NONE;
}

int session_find(struct service *service, const struct caller *caller, const char *id,
                 struct session **ret_session, struct fault *fault)
{
    struct session *session = NULL;
    const struct tombstone *stone;
    enum session_end end = END_NONE;
    struct id_node *node;

    pthread_mutex_lock(&service->lock);
    node = id_table_find(&service->sessions, id);
    if (node) {
        session = ID_NODE_OF(node, struct session, node);
        if (principal_equal(&session->principal, &caller->principal))
            session_ref(session);
        else
            session = NULL;
    } else {
        stone = tombstone_find(service, id, &caller->principal);
        end = stone ? stone->end : END_NONE;
    }
    pthread_mutex_unlock(&service->lock);
    if (session) {
        *ret_session = session;
        return 0;
    }
    if (!node && end == END_NONE)
        end = end_recorded(service, id, &caller->principal);
    /* Only the id of an ended session is repeated: it is well formed. */
    session_fault_ended(end, id, fault);
    return -1;
}

/* ---- describing one ---- */

void session_get_info(struct session *session, struct session_info *ret_info)
{
    int64_t now = service_now(session->service), left;
    struct session_info info = { 0 };

    memcpy(info.id, session->id, sizeof info.id);
    memcpy(info.template, session->template, sizeof info.template);
    info.limits = session->limits;
    info.limits.cpu_us = session->cpu_us;
    info.created_unix_us = session->created_unix_us;
    info.idle_limit_us = session->idle_us;
    info.age_us = now - session->created_us;
    pthread_mutex_lock(&session->lock);
    info.state = session->busy && session->look_fd < 0 ? SESSION_RUNNING
                 : session->loss_untold                ? SESSION_LOST
                                                       : SESSION_READY;
    info.idle_us = session->busy || session->users ? 0 : now - session->last_used_us;
    info.execution_count = session->execution_count;
    info.waiting = session->line_len;
    pthread_mutex_unlock(&session->lock);
    left = session->idle_us - info.idle_us;
    info.expires_in_us = left > 0 ? left : 0;
    if (session->bindings)
        info.volumes = json_incref(session->bindings->json);
    *ret_info = info;
}

json_t *session_network_to_json(struct session *session)
{
    return json_deep_copy(session->network);
}

void session_info_release(struct session_info *info)
{
    json_decref(info->volumes);
    info->volumes = NULL;
}

static json_t *seconds(int64_t us)
{
    int64_t ms = us / USEC_PER_MSEC;

    return json_real((double) ms / 1000);
}

json_t *session_info_to_json(const struct session_info *info)
{
    static const char *const states[] = {
        [SESSION_READY] = "ready", [SESSION_RUNNING] = "running", [SESSION_LOST] = "lost"
    };

    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "session_id",
                     info->id, "state", states[info->state], "template", info->template, "created",
                     seconds(info->created_unix_us), "age", seconds(info->age_us), "idle",
                     seconds(info->idle_us), "idle_timeout", seconds(info->idle_limit_us),
                     "expires_in", seconds(info->expires_in_us), "execution_count",
                     (json_int_t) info->execution_count, "waiting", (json_int_t) info->waiting,
                     "limits", limits_to_json(&info->limits), "volumes",
                     info->volumes ? json_incref(info->volumes) : json_array());
}

/* The position of @after in the order of age; it may have ended. */
static int serial_of(struct service *service, const char *after, const struct principal *principal,
                     uint64_t *ret_serial)
{
    struct id_node *node = id_table_find(&service->sessions, after);
    const struct tombstone *stone;

    if (node) {
        struct session *session = ID_NODE_OF(node, struct session, node);

        if (!principal_equal(&session->principal, principal))
            return -ENOENT;
        *ret_serial = session->serial;
        return 0;
    }
    stone = tombstone_find(service, after, principal);
    if (!stone)
        return -ENOENT;
    *ret_serial = stone->serial;
    return 0;
}

int session_list(struct service *service, const struct caller *caller, const char *after,
                 struct session_info *infos, size_t max, size_t *ret_len, bool *ret_more,
                 struct fault *fault)
{
    struct session *session;
    uint64_t serial = 0;
    size_t len = 0;
    bool more = false;
    int r = 0;

    pthread_mutex_lock(&service->lock);
    if (after)
        r = serial_of(service, after, &caller->principal, &serial);
    if (r == 0) {
        TAILQ_FOREACH(session, &service->sessions_by_age, by_age)
        {
            if (session->serial <= serial ||
                !principal_equal(&session->principal, &caller->principal))
                continue;
            more = len == max;
            if (more)
                break;
            session_get_info(session, &infos[len++]);
        }
    }
    pthread_mutex_unlock(&service->lock);
    if (r < 0)
        return fault_set(fault, PROBLEM_CURSOR_UNKNOWN, "after",
                         "'after' is not a session of yours; list from the start");
    *ret_len = len;
    *ret_more = more;
    return 0;
}

void session_touch(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    session->last_used_us = service_now(session->service);
    pthread_mutex_unlock(&session->lock);
}

int session_interrupt(struct session *session, bool all, size_t *ret_count, struct fault *fault)
{
    struct execution **list, *x;
    struct fault ended;
    size_t len = 0, count = 0;

    pthread_mutex_lock(&session->lock);
    list = calloc((size_t) session->line_len + 1, sizeof *list);
    if (list) {
        /* Queued executions first: they must not get the turn of the one that is stopped. */
        if (all)
            TAILQ_FOREACH(x, &session->line, in_line)
        list[len++] = execution_ref(x);
        if (session->running)
            list[len++] = execution_ref(session->running);
    }
    pthread_mutex_unlock(&session->lock);
    if (!list)
        return fault_no_memory(fault);
    for (size_t i = 0; i < len; i++) {
        count += execution_interrupt(list[i], &ended) == 0;
        execution_unref(list[i]);
    }
    free(list);
    *ret_count = count;
    return 0;
}

int session_use_begin(struct session *session, struct fault *fault)
{
    enum session_end end;

    pthread_mutex_lock(&session->lock);
    end = session->end;
    if (end == END_NONE)
        session->users++;
    pthread_mutex_unlock(&session->lock);
    if (end == END_NONE)
        return 0;
    session_fault_ended(end, session->id, fault);
    return -1;
}

void session_use_end(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    session->users--;
    session->last_used_us = service_now(session->service);
    pthread_mutex_unlock(&session->lock);
}

/* ---- the end ---- */

static void tombstone_set(struct service *service, const struct session *session,
                          enum session_end end)
{
    struct tombstone *stone = &service->tombstones[service->tombstones_next++ % TOMBSTONES];

    memcpy(stone->id, session->id, sizeof stone->id);
    stone->principal = session->principal;
    stone->end = end;
    stone->serial = session->serial;
}

static void record_end(struct session *session, enum session_end end)
{
    static const enum store_end ends[] = { [END_NONE] = STORE_END_NONE,
                                           [END_EXPIRED] = STORE_END_EXPIRED,
                                           [END_DELETED] = STORE_END_DELETED,
                                           [END_SHUTDOWN] = STORE_END_SHUTDOWN };
    struct service *service = session->service;
    struct gb_err err;

    if (service->config.store &&
        store_session_end(service->config.store, session->id, unix_now_us(), ends[end], &err) < 0)
        service_log(service, LOG_LEVEL_ERROR, "session %s: cannot record its end: %s", session->id,
                    err.msg);
}

/* Marks it as ended and removes it from the table, if @idle_since is negative or it has been unused
 * since then. */
static bool session_retire(struct session *session, enum session_end end, int64_t idle_since)
{
    struct service *service = session->service;
    bool mine;

    pthread_mutex_lock(&service->lock);
    pthread_mutex_lock(&session->lock);
    mine = session->end == END_NONE &&
           (idle_since < 0 || (!session->busy && session->line_len == 0 && session->users == 0 &&
                               session->last_used_us <= idle_since));
    if (mine)
        session->end = end;
    pthread_mutex_unlock(&session->lock);
    if (mine) {
        id_table_remove(&service->sessions, &session->node);
        TAILQ_REMOVE(&service->sessions_by_age, session, by_age);
        tombstone_set(service, session, end);
    }
    pthread_mutex_unlock(&service->lock);
    return mine;
}

static void session_finish(struct session *session, enum session_end end)
{
    struct fault ignored;
    struct execution *x;

    /* Queued executions notice the end themselves; the running one is told to stop at once. */
    pthread_mutex_lock(&session->lock);
    TAILQ_FOREACH(x, &session->line, in_line)
    pthread_cond_signal(&x->turn_cond);
    x = session->running ? execution_ref(session->running) : NULL;
    turn_end_look(session);
    pthread_mutex_unlock(&session->lock);
    if (x) {
        (void) execution_interrupt(x, &ignored);
        (void) execution_interrupt(x, &ignored);
        (void) execution_wait(x, -1);
        execution_unref(x);
    }
    terminals_end(session);
    record_end(session, end);
    service_log(session->service, LOG_LEVEL_INFO, "session %s ended", session->id);
    session_unref(session); /* the table's */
}

bool session_stop(struct session *session, enum session_end end)
{
    if (!session_retire(session, end, -1))
        return false;
    session_finish(session, end);
    return true;
}

int session_delete(struct session *session, struct fault *fault)
{
    enum session_end end;

    if (session_stop(session, END_DELETED))
        return 0;
    pthread_mutex_lock(&session->lock);
    end = session->end;
    pthread_mutex_unlock(&session->lock);
    session_fault_ended(end, session->id, fault);
    return -1;
}

void session_sweep(struct service *service)
{
    int64_t now = service_now(service);

    /* One at a time, because ending one takes a while and is done without the lock. */
    for (;;) {
        struct session *session, *idle = NULL;

        pthread_mutex_lock(&service->lock);
        TAILQ_FOREACH(session, &service->sessions_by_age, by_age)
        {
            pthread_mutex_lock(&session->lock);
            if (!session->busy && session->line_len == 0 && session->users == 0 &&
                now - session->last_used_us >= session->idle_us)
                idle = session_ref(session);
            pthread_mutex_unlock(&session->lock);
            if (idle)
                break;
        }
        pthread_mutex_unlock(&service->lock);
        if (!idle)
            return;
        if (session_retire(idle, END_EXPIRED, now - idle->idle_us)) {
            atomic_fetch_add(&service->sessions_expired, 1);
            session_finish(idle, END_EXPIRED);
        }
        session_unref(idle);
    }
}
