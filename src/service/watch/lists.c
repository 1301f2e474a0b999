/* Sessions and executions of everybody, and how an operator ends them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "service/execution/execution.h"
#include "service/watch/internal.h"

#include "base/banned.h"

#define USAGE_US (2 * USEC_PER_SEC)

const char *watch_principal_kind(const struct principal *principal)
{
    switch (principal->kind) {
    case PRINCIPAL_KEY:
        return "key";
    case PRINCIPAL_USER:
        return "user";
    case PRINCIPAL_LOCAL:
        break;
    }
    return "local";
}

static json_t *known(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *seconds(int64_t us)
{
    int64_t ms = us / USEC_PER_MSEC;

    return us < 0 ? json_null() : json_real((double) ms / 1000);
}

static int add_principal(json_t *json, const struct principal *principal)
{
    return json_object_set_new(json, "principal", json_string(principal_text(principal))) < 0 ||
                   json_object_set_new(json, "principal_kind",
                                       json_string(watch_principal_kind(principal))) < 0
               ? -1
               : 0;
}

/* ---- sessions ---- */

/* The builder is asked at most every two seconds, however many look: it makes the boxes, too. */
struct box_usage watch_usage(struct session *session)
{
    int64_t now = clock_now_us();
    struct cgroup_usage counters;
    struct box_usage usage;
    struct gb_err ignored;
    bool fresh;

    pthread_mutex_lock(&session->lock);
    usage = session->usage;
    fresh = usage.measured_us > 0 && now - usage.measured_us < USAGE_US;
    if (usage.measured_us == 0)
        session->usage = (struct box_usage){ now, -1, -1, -1 }; /* for whoever comes meanwhile */
    else if (!fresh)
        session->usage.measured_us = now; /* who gets the old values */
    pthread_mutex_unlock(&session->lock);
    if (fresh)
        return usage;
    usage = (struct box_usage){ now, -1, -1, -1 };
    if (box_get_usage(session->lodging.box, &counters, NULL, &ignored) == 0)
        usage = (struct box_usage){ now, counters.memory_bytes, counters.pids, counters.cpu_us };
    pthread_mutex_lock(&session->lock);
    session->usage = usage;
    pthread_mutex_unlock(&session->lock);
    return usage;
}

static json_t *session_to_json(struct session *session)
{
    struct box_usage usage = watch_usage(session);
    char running[EXECUTION_ID_MAX] = "";
    struct session_info info;
    json_t *json;

    session_get_info(session, &info);
    pthread_mutex_lock(&session->lock);
    if (session->running)
        memcpy(running, session->running->id, sizeof running);
    pthread_mutex_unlock(&session->lock);
    json = session_info_to_json(&info);
    session_info_release(&info);
    if (!json || add_principal(json, &session->principal) < 0 ||
        json_object_set_new(json, "listener",
                            session->listener[0] ? json_string(session->listener) : json_null()) <
            0 ||
        json_object_set_new(json, "memory_bytes", known(usage.memory_bytes)) < 0 ||
        json_object_set_new(json, "processes", known(usage.pids)) < 0 ||
        json_object_set_new(json, "cpu_seconds", seconds(usage.cpu_us)) < 0 ||
        json_object_set_new(json, "execution_id", running[0] ? json_string(running) : json_null()) <
            0) {
        json_decref(json);
        return NULL;
    }
    /* Paths of the host are the operator's own, but nobody needs them here. */
    (void) json_object_del(json, "volumes");
    return json;
}

/* With the lock held: the place of @after in the order of age; it may have ended. */
static bool find_serial(struct service *service, const char *after, uint64_t *ret_serial)
{
    struct id_node *node = id_table_find(&service->sessions, after);

    if (node) {
        *ret_serial = ID_NODE_OF(node, struct session, node)->serial;
        return true;
    }
    for (size_t i = 0; i < TOMBSTONES; i++)
        if (service->tombstones[i].end != END_NONE &&
            strcmp(service->tombstones[i].id, after) == 0) {
            *ret_serial = service->tombstones[i].serial;
            return true;
        }
    return false;
}

/* References to a page of them. Returns how many; below 0 if @after is unknown. */
static int page_take(struct service *service, const char *after, struct session **page, size_t max,
                     bool *ret_more, size_t *ret_total)
{
    struct session *session;
    uint64_t serial = 0;
    bool found;
    int len = 0;

    *ret_more = false;
    pthread_mutex_lock(&service->lock);
    found = !after || find_serial(service, after, &serial);
    *ret_total = service->sessions.len;
    if (found) {
        TAILQ_FOREACH(session, &service->sessions_by_age, by_age)
        {
            if (session->serial <= serial)
                continue;
            *ret_more = (size_t) len == max;
            if (*ret_more)
                break;
            page[len++] = session_ref(session);
        }
    }
    pthread_mutex_unlock(&service->lock);
    return found ? len : -ENOENT;
}

int watch_sessions(struct service *service, const char *after, size_t max, json_t **ret_json,
                   struct fault *fault)
{
    struct session *page[WATCH_ROWS_MAX];
    json_t *list = json_array();
    size_t total;
    bool more, failed = !list;
    int len;

    max = max < WATCH_ROWS_MAX ? max : WATCH_ROWS_MAX;
    len = page_take(service, after, page, max, &more, &total);
    for (int i = 0; i < len; i++) {
        failed = failed || json_array_append_new(list, session_to_json(page[i])) < 0;
        session_unref(page[i]);
    }
    if (len < 0 || failed)
        json_decref(list);
    if (len < 0)
        return fault_set(fault, PROBLEM_CURSOR_UNKNOWN, "after",
                         "'after' is not a session; list from the start");
    if (failed)
        return fault_no_memory(fault);
    *ret_json =
        json_pack("{s:o,s:b,s:I}", "sessions", list, "more", more, "total", (json_int_t) total);
    return *ret_json ? 0 : fault_no_memory(fault);
}

int watch_session_end(struct service *service, const char *id, struct fault *fault)
{
    struct session *session = NULL;
    struct id_node *node;
    int r;

    pthread_mutex_lock(&service->lock);
    node = id_table_find(&service->sessions, id);
    if (node)
        session = session_ref(ID_NODE_OF(node, struct session, node));
    pthread_mutex_unlock(&service->lock);
    if (!session) {
        session_fault_ended(END_NONE, id, fault);
        return -1;
    }
    r = session_delete(session, fault);
    session_unref(session);
    return r;
}

void watch_sessions_end(struct service *service, const struct principal *principal)
{
    struct session *session, *one;
    uint64_t last;

    /* Somebody who makes new ones meanwhile does not keep us busy. */
    pthread_mutex_lock(&service->lock);
    last = service->serial;
    pthread_mutex_unlock(&service->lock);
    do {
        one = NULL;
        pthread_mutex_lock(&service->lock);
        TAILQ_FOREACH(session, &service->sessions_by_age, by_age)
        {
            if (session->serial > last || !principal_equal(&session->principal, principal))
                continue;
            one = session_ref(session);
            break;
        }
        pthread_mutex_unlock(&service->lock);
        if (one)
            (void) session_stop(one, END_DELETED);
        session_unref(one);
    } while (one);
}

/* ---- executions ---- */

/* What is shown of one; copied under locks. */
struct row {
    char id[EXECUTION_ID_MAX], session_id[SESSION_ID_MAX], template[TEMPLATE_NAME_MAX];
    struct principal principal;
    enum execution_kind kind;
    enum execution_state state;
    int64_t begun_unix_us, running_us; /* the last below 0: it has not begun to run */
    enum run_status status;
    enum limit_kind limit;
    int exit_code;
    int64_t wall_us, cpu_us, memory_peak_bytes;
    const char *refused; /* the word of its fault, or NULL */
};

static void row_fill(struct row *row, struct execution *x)
{
    *row = (struct row){ .principal = x->principal,
                         .kind = x->kind,
                         .begun_unix_us = x->begun_unix_us,
                         .running_us = -1 };
    memcpy(row->id, x->id, sizeof row->id);
    memcpy(row->session_id, x->session_id, sizeof row->session_id);
    memcpy(row->template, x->template, sizeof row->template);
    pthread_mutex_lock(&x->lock);
    row->state = x->state;
    if (x->state == EXECUTION_RUNNING)
        row->running_us = clock_now_us() - x->started_us;
    row->status = x->outcome.status;
    row->limit = x->outcome.limit;
    row->exit_code = x->outcome.exit_code;
    row->wall_us = x->outcome.wall_us;
    row->cpu_us = x->outcome.cpu_us;
    row->memory_peak_bytes = x->outcome.memory_peak_bytes;
    row->refused = x->fault.kind != FAULT_NONE ? x->fault.type : NULL;
    pthread_mutex_unlock(&x->lock);
}

static const char *kind_name(enum execution_kind kind)
{
    static const char *const names[] = { [EXECUTION_CELL] = "cell",
                                         [EXECUTION_COMMAND] = "command",
                                         [EXECUTION_SHELL] = "shell",
                                         [EXECUTION_SCRIPT] = "script" };

    return names[kind];
}

static json_t *row_to_json(const struct row *row, bool finished)
{
    const char *state = row->state == EXECUTION_WAITING ? "waiting" : "running";
    const char *limit = finished && !row->refused ? limit_kind_name(row->limit) : NULL;
    const char *status = !finished      ? state
                         : row->refused ? "refused"
                                        : run_status_name(row->status);
    bool ended = finished && !row->refused;
    json_t *json = json_pack(
        "{s:s,s:o,s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "execution_id", row->id, "session_id",
        row->session_id[0] ? json_string(row->session_id) : json_null(), "kind",
        kind_name(row->kind), "template", row->template, "status", status, "begun",
        seconds(row->begun_unix_us), "seconds", seconds(ended ? row->wall_us : row->running_us),
        "cpu_seconds", ended ? seconds(row->cpu_us) : json_null(), "memory_peak_bytes",
        ended ? known(row->memory_peak_bytes) : json_null(), "limit",
        limit ? json_string(limit) : json_null(), "exit_code",
        ended ? json_integer(row->exit_code) : json_null(), "refused",
        row->refused ? json_string(row->refused) : json_null());

    if (json && add_principal(json, &row->principal) < 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static bool row_wanted(const struct watch_filter *filter, const struct row *row)
{
    if (!filter->finished)
        return true;
    if (filter->status >= 0 && (row->refused || (int) row->status != filter->status))
        return false;
    return !filter->stopped_only || row->refused ||
           (row->status != RUN_OK && row->status != RUN_ERROR);
}

int watch_executions(struct service *service, const struct watch_filter *filter, json_t **ret_json,
                     struct fault *fault)
{
    size_t max = filter->max < WATCH_ROWS_MAX ? filter->max : WATCH_ROWS_MAX, len = 0;
    autofree struct row *rows =
        calloc(max + 1, sizeof *rows); /* the last: whether there are more */
    struct execution *x;
    json_t *list = json_array();
    bool failed;

    if (!rows || !list) {
        json_decref(list);
        return fault_no_memory(fault);
    }
    pthread_mutex_lock(&service->lock);
    x = filter->finished ? TAILQ_LAST(&service->kept, execution_list) : TAILQ_FIRST(&service->live);
    while (x && len <= max) {
        row_fill(&rows[len], x);
        len += row_wanted(filter, &rows[len]);
        x = filter->finished ? TAILQ_PREV(x, execution_list, in_list) : TAILQ_NEXT(x, in_list);
    }
    pthread_mutex_unlock(&service->lock);
    failed = false;
    for (size_t i = 0; i < len && i < max; i++)
        failed = failed || json_array_append_new(list, row_to_json(&rows[i], filter->finished)) < 0;
    *ret_json = failed ? NULL : json_pack("{s:O,s:b}", "executions", list, "more", len > max);
    json_decref(list);
    return *ret_json ? 0 : fault_no_memory(fault);
}

int watch_execution_interrupt(struct service *service, const char *id, struct fault *fault)
{
    struct execution *x = NULL;
    struct id_node *node;
    int r;

    pthread_mutex_lock(&service->lock);
    node = id_table_find(&service->executions, id);
    if (node)
        x = execution_ref(ID_NODE_OF(node, struct execution, node));
    pthread_mutex_unlock(&service->lock);
    if (!x)
        return fault_set(fault, PROBLEM_EXECUTION_UNKNOWN, "id",
                         "no such execution; it may have ended long ago");
    r = execution_interrupt(x, fault);
    execution_unref(x);
    return r;
}

/* ---- principals ---- */

int watch_accounts(struct service *service, json_t **ret_json, struct fault *fault)
{
    struct row {
        char principal[PRINCIPAL_ID_MAX];
        int64_t sessions, in_flight;
    } * rows;
    size_t len = 0, room;
    json_t *json;

    pthread_mutex_lock(&service->lock);
    room = service->accounts.len;
    rows = calloc(room + 1, sizeof *rows);
    for (size_t i = 0; rows && i < ID_TABLE_CHAINS; i++)
        for (struct id_node *node = service->accounts.chains[i]; node && len < room;
             node = node->next) {
            const struct account *account = ID_NODE_OF(node, struct account, node);

            snprintf(rows[len].principal, sizeof rows[len].principal, "%s",
                     principal_text(&account->principal));
            rows[len].sessions = account->sessions;
            rows[len++].in_flight = account->in_flight;
        }
    pthread_mutex_unlock(&service->lock);
    json = rows ? json_object() : NULL;
    for (size_t i = 0; json && i < len; i++)
        (void) json_object_set_new(json, rows[i].principal,
                                   json_pack("{s:I,s:I}", "sessions", (json_int_t) rows[i].sessions,
                                             "executions", (json_int_t) rows[i].in_flight));
    free(rows);
    *ret_json = json;
    return json ? 0 : fault_no_memory(fault);
}
