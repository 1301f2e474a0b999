/* Operator API: accounts and invitations. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/parse.h"
#include "server/admin/internal.h"

#include "base/banned.h"

#define HOUR_US       (3600 * USEC_PER_SEC)
#define HOURS_DEFAULT 72
#define USER_PREFIX   "user-"

static struct auth *auth_of(struct request *rq)
{
    return mark_auth(rq->server->config.mark);
}

static const char *text_of(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text ? text : "";
}

/* Somebody else, as if they called themselves. */
static int caller_of(struct request *rq, const char *user_id, struct caller *ret_caller,
                     struct fault *fault)
{
    *ret_caller = (struct caller){ .listener = rq->listener->url, .limits = { -1, -1, -1 } };
    if (principal_from_user(user_id, &ret_caller->principal) < 0)
        return fault_set(fault, PROBLEM_USER_UNKNOWN, "id", "no such account");
    return 0;
}

/* ---- showing ---- */

/* As authenticate_user() has them: null is the server's default. */
static void add_quota(json_t *user)
{
    bool guest = strcmp(text_of(user, "role"), "guest") == 0;

    (void) json_object_set_new(user, "sessions",
                               guest ? json_integer(AUTH_GUEST_SESSIONS) : json_null());
    (void) json_object_set_new(user, "executions",
                               guest ? json_integer(AUTH_GUEST_EXECUTIONS) : json_null());
    (void) json_object_set_new(user, "rate_per_minute",
                               guest ? json_integer(AUTH_GUEST_RATE) : json_null());
}

/* Adds what somebody may use and uses; takes nothing. */
static void add_use(struct request *rq, json_t *user, const json_t *accounts)
{
    struct caller caller;
    struct fault ignored;
    struct budgets *budgets = mark_budgets(rq->server->config.mark);
    json_t *budget = NULL, *own = NULL;

    if (caller_of(rq, text_of(user, "user_id"), &caller, &ignored) < 0)
        return;
    add_quota(user);
    (void) json_object_set_new(user, "now", admin_now(accounts, caller.principal.id));
    if (budget_to_json(budgets, &caller, &budget, &ignored) < 0)
        return;
    if (budget_own(budgets, &caller, &own, &ignored) == 0)
        (void) json_object_set_new(budget, "own", own);
    (void) json_object_set_new(user, "budget", budget);
}

static void reply_user(struct request *rq, json_t *user)
{
    struct fault ignored;
    json_t *accounts = NULL;

    (void) watch_accounts(rq->server->config.service, &accounts, &ignored);
    add_use(rq, user, accounts);
    json_decref(accounts);
    reply_json(rq, MHD_HTTP_OK, user);
}

static bool user_matches(const json_t *user, const char *q)
{
    return !q || strcasestr(text_of(user, "email"), q) || strcasestr(text_of(user, "name"), q);
}

/* The page of @all that the query asks for. */
static json_t *user_page(struct request *rq, const struct query_admin_users *query, json_t *all,
                         const json_t *accounts)
{
    size_t max = admin_limit(query->limit), i;
    json_t *list = json_array(), *user;
    bool begun = !query->after, more = false;
    json_int_t total = 0;

    json_array_foreach (all, i, user) {
        bool matches = user_matches(user, query->q);

        total += matches;
        if (begun && matches && json_array_size(list) < max) {
            add_use(rq, user, accounts);
            (void) json_array_append(list, user);
        } else if (begun && matches) {
            more = true;
        }
        begun = begun || strcmp(text_of(user, "user_id"), query->after) == 0;
    }
    return json_pack("{s:o,s:b,s:I}", "users", list, "more", more, "total", total);
}

void admin_users(struct request *rq)
{
    struct query_admin_users query;
    struct fault fault = { 0 };
    json_t *all = NULL, *accounts = NULL, *json = NULL;
    int r;

    if (request_query(rq, &query) < 0)
        return;
    r = auth_list(auth_of(rq), &all, &fault);
    if (r == 0)
        r = watch_accounts(rq->server->config.service, &accounts, &fault);
    if (r == 0)
        json = user_page(rq, &query, all, accounts);
    json_decref(all);
    json_decref(accounts);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

/* ---- changing ---- */

static int refuse_self(struct request *rq, const char *id, struct fault *fault)
{
    if (strcmp(rq->caller.principal.id + sizeof USER_PREFIX - 1, id) != 0)
        return 0;
    return fault_set(fault, PROBLEM_OWN_ACCOUNT, "id",
                     "this is your own account; change it in its settings, or have another "
                     "operator do it");
}

void admin_user_change(struct request *rq)
{
    const char *id = request_param(rq, "id");
    struct body_admin_user body;
    struct fault fault = { 0 };
    bool up;
    json_t *user = NULL;
    int r;

    if (request_json(rq, &body) < 0)
        return;
    up = body.role == ADMIN_ROLE_OPERATOR;
    r = refuse_self(rq, id, &fault);
    if (r == 0)
        r = auth_set_operator(auth_of(rq), id, up, &user, &fault);
    admin_tell(rq, up ? "user_promote" : "user_demote", id, r < 0 ? &fault : NULL);
    if (r < 0)
        reply_fault(rq, &fault);
    else
        reply_user(rq, user);
}

/* Absent: the service's; -1: no limit. */
static int64_t amount(int64_t value)
{
    return value == FIELD_ABSENT ? -1 : value < 0 ? BUDGET_NONE : value;
}

/* The same for a number with a fraction, in millionths; below -1: it is out of range. */
static int64_t fraction(const json_t *number)
{
    double value = number ? json_number_value(number) : 0;

    if (!number)
        return -1;
    if (value == -1)
        return BUDGET_NONE;
    return isfinite(value) && value >= 0 && value < 1e11 ? (int64_t) llround(value * 1e6) : -2;
}

void admin_user_budget(struct request *rq)
{
    const char *id = request_param(rq, "id");
    struct body_admin_budget body;
    struct store_spent own;
    struct fault fault = { 0 };
    struct caller caller;
    json_t *user = NULL;
    int r;

    if (request_json(rq, &body) < 0)
        return;
    own = (struct store_spent){ amount(body.bytes), fraction(body.cost), amount(body.tokens),
                                fraction(body.seconds) };
    if (own.cost < -1 || own.us < -1) {
        reply_problem(rq, PROBLEM_INVALID_REQUEST,
                      "cost and seconds must be from 0 to 1e11, or -1");
        return;
    }
    r = auth_user(auth_of(rq), id, &user, &fault);
    if (r == 0)
        r = caller_of(rq, id, &caller, &fault);
    if (r == 0)
        r = budget_set(mark_budgets(rq->server->config.mark), &caller, &own, &fault);
    admin_tell(rq, "user_budget", id, r < 0 ? &fault : NULL);
    if (r == 0) {
        reply_user(rq, user);
        return;
    }
    json_decref(user);
    reply_fault(rq, &fault);
}

void admin_user_password(struct request *rq)
{
    const char *id = request_param(rq, "id");
    char password[AUTH_CODE_MAX];
    struct fault fault = { 0 };
    json_t *user = NULL;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = refuse_self(rq, id, &fault);
    if (r == 0)
        r = auth_user(auth_of(rq), id, &user, &fault);
    auth_make_password(password);
    if (r == 0)
        r = auth_reset(auth_of(rq), text_of(user, "email"), password, &fault);
    json_decref(user);
    admin_tell(rq, "user_password", id, r < 0 ? &fault : NULL);
    if (r < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json_pack("{s:s}", "password", password));
    explicit_bzero(password, sizeof password);
}

/* ---- removing ---- */

/* An operator is made a user first, which fails for the last one. */
static int remove_account(struct request *rq, const char *id, struct fault *fault)
{
    static const struct store_spent none = { -1, -1, -1, -1 };
    struct auth *auth = auth_of(rq);
    struct caller caller;
    json_t *user = NULL;
    bool is_operator;
    int r = auth_user(auth, id, &user, fault);

    if (r < 0)
        return r;
    is_operator = strcmp(text_of(user, "role"), "operator") == 0;
    json_decref(user);
    user = NULL;
    if (is_operator)
        r = auth_set_operator(auth, id, false, &user, fault);
    json_decref(user);
    if (r == 0)
        r = caller_of(rq, id, &caller, fault);
    if (r == 0)
        r = budget_set(mark_budgets(rq->server->config.mark), &caller, &none, fault);
    return r == 0 ? mark_delete_user(rq->server->config.mark, id, fault) : r;
}

void admin_user_remove(struct request *rq)
{
    const char *id = request_param(rq, "id");
    struct fault fault = { 0 };
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = refuse_self(rq, id, &fault);
    if (r == 0)
        r = remove_account(rq, id, &fault);
    admin_finish(rq, "user_remove", id, r, &fault);
}

/* ---- invitations ---- */

void admin_invite(struct request *rq)
{
    struct body_admin_invite body;
    char code[AUTH_CODE_MAX], origin[LISTEN_NAME_MAX + 32], until[FORMAT_UTC_MAX];
    struct fault fault = { 0 };
    int64_t valid_us;
    int r;

    if (request_json(rq, &body) < 0)
        return;
    valid_us = (body.hours == FIELD_ABSENT ? HOURS_DEFAULT : body.hours) * HOUR_US;
    r = auth_invite(auth_of(rq), valid_us, code, &fault);
    admin_tell(rq, "user_invite", NULL, r < 0 ? &fault : NULL);
    if (r < 0) {
        reply_fault(rq, &fault);
        return;
    }
    request_origin(rq, origin, sizeof origin);
    format_utc(clock_wall_us() + valid_us, until);
    reply_json(rq, MHD_HTTP_CREATED,
               json_pack("{s:s,s:s+++,s:s}", "invitation", code, "url", origin,
                         "/?invitation=", code, "", "expires", until));
    explicit_bzero(code, sizeof code);
}
