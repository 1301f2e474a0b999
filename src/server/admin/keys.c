/* Operator API: keys. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/log.h"
#include "base/text/parse.h"
#include "server/admin/internal.h"

#include "base/banned.h"

static struct store *store_of(struct request *rq)
{
    return mark_store(rq->server->config.mark);
}

static int fail_keys(struct request *rq, const struct gb_err *err, struct fault *fault)
{
    log_event(LOG_LEVEL_ERROR, "operator", LOG_TEXT("id", rq->id), LOG_TEXT("problem", err->msg));
    return fault_set(fault, PROBLEM_KEYS_UNAVAILABLE, NULL,
                     "keys cannot be read or changed at the moment; retry later");
}

json_t *admin_now(const json_t *accounts, const char *principal)
{
    json_t *now = json_object_get(accounts, principal);

    return now ? json_incref(now) : json_pack("{s:i,s:i}", "sessions", 0, "executions", 0);
}

static json_t *time_json(int64_t us)
{
    char text[FORMAT_UTC_MAX];

    if (us == 0)
        return json_null();
    format_utc(us, text);
    return json_string(text);
}

static json_t *limit_json(int64_t limit)
{
    return limit == STORE_LIMIT_DEFAULT ? json_null() : json_integer(limit);
}

static json_t *key_json(const struct store_key *key)
{
    return json_pack(
        "{s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "id", key->id, "name", key->name, "created",
        time_json(key->created_us), "last_used", time_json(key->last_used_us), "revoked",
        time_json(key->revoked_us), "sessions", limit_json(key->sessions), "executions",
        limit_json(key->executions), "rate_per_minute", limit_json(key->rate_per_minute));
}

/* With what it uses. */
static json_t *key_show(struct request *rq, const struct store_key *key, const json_t *accounts)
{
    json_t *json = key_json(key), *budget = NULL;
    struct caller caller = { .limits = { -1, -1, -1 } };
    struct fault ignored;

    (void) json_object_set_new(json, "now", admin_now(accounts, key->id));
    if (key->revoked_us == 0 && principal_from_key(key->id, &caller.principal) == 0 &&
        budget_to_json(mark_budgets(rq->server->config.mark), &caller, &budget, &ignored) == 0)
        (void) json_object_set_new(json, "budget", budget);
    return json;
}

void admin_keys(struct request *rq)
{
    autofree struct store_key *keys = NULL;
    struct query_admin_keys query;
    struct gb_err err = { 0 };
    struct fault fault = { 0 };
    json_t *list, *accounts = NULL;
    json_int_t total = 0;
    size_t len = 0, max;
    bool begun, more = false;

    if (request_query(rq, &query) < 0)
        return;
    max = admin_limit(query.limit);
    if (rq->server->config.keys) /* times of use are written now and then */
        (void) keys_flush(rq->server->config.keys, &err);
    if (keys_list(store_of(rq), &keys, &len, &err) < 0 ||
        watch_accounts(rq->server->config.service, &accounts, &fault) < 0) {
        if (!fault.kind)
            (void) fail_keys(rq, &err, &fault);
        reply_fault(rq, &fault);
        return;
    }
    list = json_array();
    begun = !query.after;
    for (size_t i = 0; i < len; i++) {
        bool wanted = !query.active || keys[i].revoked_us == 0;

        total += wanted;
        if (begun && wanted && json_array_size(list) < max)
            (void) json_array_append_new(list, key_show(rq, &keys[i], accounts));
        else
            more = more || (begun && wanted);
        begun = begun || strcmp(keys[i].id, query.after) == 0;
    }
    json_decref(accounts);
    reply_json(rq, MHD_HTTP_OK,
               json_pack("{s:o,s:b,s:I}", "keys", list, "more", more, "total", total));
}

/* So that it takes effect at once. */
static void keys_renew(struct request *rq)
{
    if (rq->server->config.keys)
        keys_changed(rq->server->config.keys);
}

static int64_t quota(int64_t value)
{
    return value == FIELD_ABSENT ? STORE_LIMIT_DEFAULT : value;
}

void admin_key_create(struct request *rq)
{
    struct body_admin_key body;
    char token[KEYS_TOKEN_MAX];
    struct store_key key;
    struct gb_err err = { 0 };
    struct fault fault = { 0 };
    struct keys_spec spec;
    json_t *json;
    int r;

    if (request_json(rq, &body) < 0)
        return;
    spec = (struct keys_spec){ body.name, quota(body.sessions), quota(body.executions),
                               quota(body.rate_per_minute) };
    r = keys_create(store_of(rq), &spec, token, &key, &err);
    if (r < 0) {
        r = r == -EINVAL ? fault_set(&fault, PROBLEM_INVALID_REQUEST, "name", "%s", err.msg)
                         : fail_keys(rq, &err, &fault);
        admin_tell(rq, "key_create", NULL, &fault);
        reply_fault(rq, &fault);
        return;
    }
    keys_renew(rq);
    admin_tell(rq, "key_create", key.id, NULL);
    json = key_json(&key);
    (void) json_object_set_new(json, "token", json_string(token));
    explicit_bzero(token, sizeof token);
    reply_json(rq, MHD_HTTP_CREATED, json);
}

void admin_key_revoke(struct request *rq)
{
    const char *id = request_param(rq, "id");
    struct gb_err err = { 0 };
    struct fault fault = { 0 };
    struct principal principal;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = keys_revoke(store_of(rq), id, &err);
    keys_renew(rq);
    if (r == -ENOENT || r == -EALREADY || r == -EINVAL)
        r = fault_set(&fault, PROBLEM_KEY_GONE, "id", "no such key, or it is revoked already");
    else if (r < 0)
        r = fail_keys(rq, &err, &fault);
    /* Nobody can reach its sessions any more. */
    else if (principal_from_key(id, &principal) == 0)
        watch_sessions_end(rq->server->config.service, &principal);
    admin_finish(rq, "key_revoke", id, r, &fault);
}
