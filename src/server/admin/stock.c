/* Operator API: the audit log, templates, packages, sources, models. */
#include <string.h>

#include "base/text/parse.h"
#include "mark/source/sources.h"
#include "server/admin/internal.h"
#include "service/access/audit.h"

#include "base/banned.h"

#define DAYS   30
#define LAYERS 200
#define OWNERS 100

static struct service *service_of(struct request *rq)
{
    return rq->server->config.service;
}

/* ---- the audit log ---- */

static int read_time(struct request *rq, const char *name, const char *text, int64_t *ret_us)
{
    json_t *errors;

    *ret_us = 0;
    if (!text || parse_utc(text, ret_us) == 0)
        return 0;
    errors = json_array();
    fields_add_error(errors, "query", name, "invalid",
                     "must be a time such as 2026-11-16T08:30:00Z");
    reply_invalid(rq, errors);
    return -1;
}

void admin_audit(struct request *rq)
{
    struct audit_search search = { 0 };
    struct query_admin_audit query;
    char who[PRINCIPAL_ID_MAX];
    struct fault fault = { 0 };
    struct names names;
    json_t *json = NULL;
    int r;

    if (request_query(rq, &query) < 0 ||
        read_time(rq, "since", query.since, &search.since_us) < 0 ||
        read_time(rq, "until", query.until, &search.until_us) < 0)
        return;
    search.before_seq = query.before == FIELD_ABSENT ? 0 : query.before;
    search.limit = admin_limit(query.limit);
    search.session_id = query.session_id;
    search.kind = query.kind;
    search.status = query.status < 0 ? NULL : service_status_name((size_t) query.status);
    search.who = query.who ? who : NULL;
    /* What cannot be in the log is not looked for. */
    if ((query.who && !names_find(rq, query.who, who)) ||
        (query.session_id && !store_id_valid(query.session_id))) {
        reply_json(rq, MHD_HTTP_OK,
                   json_pack("{s:[],s:n,s:i}", "entries", "before", "looked_at", 0));
        return;
    }
    r = watch_audit(service_of(rq), &search, &json, &fault);
    if (r == 0) {
        names_init(&names, rq);
        names_add(&names, json_object_get(json, "entries"), "who");
        names_release(&names);
    }
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

static void reply_chain(struct request *rq, bool anew)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = watch_audit_chain(service_of(rq), anew, &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void admin_audit_chain(struct request *rq)
{
    reply_chain(rq, false);
}

void admin_audit_chain_again(struct request *rq)
{
    reply_chain(rq, true);
}

/* ---- templates, packages, sources ---- */

void admin_templates(struct request *rq)
{
    if (request_query(rq, NULL) == 0)
        reply_json(rq, MHD_HTTP_OK, service_templates_to_json(service_of(rq)));
}

void admin_packages(struct request *rq)
{
    struct fault fault = { 0 };
    struct names names;
    json_t *json = NULL, *set;
    size_t i;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = watch_packages(service_of(rq), LAYERS, &json, &fault);
    if (r == 0) {
        names_init(&names, rq);
        names_add(&names, json_object_get(json, "sets"), "owner");
        names_release(&names);
    }
    json_array_foreach (json_object_get(json, "sets"), i, set) {
        const char *owner = json_string_value(json_object_get(set, "owner"));

        if (owner && strncmp(owner, "listener-", 9) == 0)
            (void) json_object_set_new(set, "name", json_string(owner + 9));
    }
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

static json_t *source_frame(const json_t *source)
{
    static const char *const names[] = { "source_id", "name",   "kind",      "description",
                                         "tables",    "synced", "sync_error" };
    json_t *json = json_object();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_object_get(source, names[i]))
            (void) json_object_set(json, names[i], json_object_get(source, names[i]));
    (void) json_object_set_new(
        json, "access",
        json_integer((json_int_t) json_array_size(json_object_get(source, "access"))));
    return json;
}

void admin_sources(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL, *list, *source;
    size_t i;

    if (request_query(rq, NULL) < 0)
        return;
    if (source_list(mark_sources(rq->server->config.mark), &rq->caller, &json, &fault) < 0) {
        reply_fault(rq, &fault);
        return;
    }
    list = json_array();
    json_array_foreach (json_object_get(json, "sources"), i, source)
        (void) json_array_append_new(list, source_frame(source));
    json_decref(json);
    reply_json(rq, MHD_HTTP_OK, json_pack("{s:o}", "sources", list));
}

/* ---- models ---- */

static json_t *model_use(struct agent *agent, const struct llm_model *model)
{
    struct agent_model_stats stats;

    agent_get_model_stats(agent, model, &stats);
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:f}", "calls", (json_int_t) stats.calls, "failures",
                     (json_int_t) stats.failures, "prompt_tokens", (json_int_t) stats.prompt_tokens,
                     "completion_tokens", (json_int_t) stats.completion_tokens, "cached_tokens",
                     (json_int_t) stats.cached_tokens, "cost", stats.cost);
}

static json_t *totals_json(struct agent *agent)
{
    struct agent_stats stats;

    agent_get_stats(agent, &stats);
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:f,s:I,s:{s:I,s:I,s:I,s:I}}", "calls",
                     (json_int_t) stats.model_calls, "failures", (json_int_t) stats.model_failures,
                     "prompt_tokens", (json_int_t) stats.prompt_tokens, "completion_tokens",
                     (json_int_t) stats.completion_tokens, "cached_tokens",
                     (json_int_t) stats.cached_tokens, "cost", stats.cost, "steps",
                     (json_int_t) stats.steps, "answers", "ok", (json_int_t) stats.ok, "error",
                     (json_int_t) stats.error, "stopped", (json_int_t) stats.stopped, "needs_input",
                     (json_int_t) stats.needs_input);
}

void admin_models(struct request *rq)
{
    struct mark *mark = rq->server->config.mark;
    const struct llm_model *model;
    struct fault fault = { 0 };
    struct names names;
    json_t *json = NULL, *models;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = budget_overview(mark_budgets(mark), DAYS, OWNERS, &json, &fault);
    if (r < 0) {
        reply_fault(rq, &fault);
        return;
    }
    models = json_array();
    for (size_t i = 0; (model = llm_model_at(mark_models(mark), i)); i++) {
        json_t *one = llm_model_to_json(model);

        (void) json_object_set_new(one, "use", model_use(mark_agent(mark), model));
        (void) json_array_append_new(models, one);
    }
    (void) json_object_set_new(json, "models", models);
    (void) json_object_set_new(json, "totals", totals_json(mark_agent(mark)));
    names_init(&names, rq);
    names_add(&names, json_object_get(json, "owners"), "owner");
    names_release(&names);
    reply_json(rq, MHD_HTTP_OK, json);
}
