/*
 * Queries of an answer's programs: which sources they may ask, and what becomes of what they asked.
 *
 * Each program gets a scope of the broker. Its queries are told to the readers as they begin and
 * end, and are part of the receipt when the program has ended. The rows of the store, which a
 * replay needs, are made by the broker as the queries end; those of a program that failed are
 * removed again, because such a program is never run again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/hex.h"
#include "base/text/strv.h"
#include "mark/agent/work.h"
#include "store/results.h"

#include "base/banned.h"

/* ---- which sources ---- */

static bool is_wanted(const json_t *wanted, const char *name)
{
    const json_t *item;
    size_t i;

    json_array_foreach (wanted, i, item)
        if (json_is_string(item) && strcmp(json_string_value(item), name) == 0)
            return true;
    return false;
}

/* Those that the question names, or an earlier one of the chat, as far as there still are such; or
 * all. */
int queries_resolve(struct work *work)
{
    struct answer *answer = work->answer;
    const json_t *wanted = answer->wanted ? answer->wanted : work->history.sources;
    struct broker *broker = work->agent->config.broker;
    struct fault fault = { 0 };
    char **all = NULL;
    int r = 0;

    if (!broker)
        return 0;
    if (broker_names(broker, &answer->caller, NULL, &all, &fault) < 0) {
        service_log(work->agent->config.service, LOG_LEVEL_WARNING, "mark: data sources: %s",
                    fault.detail);
        return 0; /* the answer has none, then */
    }
    for (size_t i = 0; r == 0 && all && all[i]; i++)
        if (!wanted || is_wanted(wanted, all[i]))
            r = strv_add(&answer->sources, all[i]);
    strv_free(all);
    return r;
}

/* ---- what happens ---- */

static json_t *event_of(const struct queries *q, const struct query_record *record)
{
    json_t *event = json_copy(record->json);

    (void) json_object_del(event, "params");
    (void) json_object_set_new(event, "n", json_integer(q->n));
    return event;
}

/* scope_config.may */
static int queries_may(void *arg, const struct query_record *record, const json_t *estimate,
                       struct fault *fault)
{
    struct queries *q = arg;
    json_t *event;

    if (spending_may_query(q->answer, estimate, fault) < 0)
        return -1;
    if (q->n > 0) {
        event = event_of(q, record);
        (void) json_object_set_new(event, "status", json_string("running"));
        answer_event(q->answer, EV_QUERY, event);
    }
    return 0;
}

/* scope_config.did */
static void queries_did(void *arg, const struct query_record *record)
{
    struct queries *q = arg;

    spending_queried(q->answer, record->passed, record->json);
    if (q->n > 0)
        answer_event(q->answer, EV_QUERY, event_of(q, record));
}

/* ---- scopes ---- */

static int begin(struct queries *q, struct scope_config *config, struct fault *fault)
{
    config->broker = q->agent->config.broker;
    config->caller = *q->caller;
    config->names = q->answer->sources;
    config->may = queries_may;
    config->did = queries_did;
    config->arg = q;
    return config->broker ? scope_new(config, &q->scope, fault) : 0;
}

int queries_begin(struct queries *q, struct work *work, int64_t n, struct fault *fault)
{
    struct scope_config config = { .session = work->cells.session,
                                   .message_id = work->answer->message_id,
                                   .queries = work->queries,
                                   .step = n };

    *q = (struct queries){
        .agent = work->agent, .caller = &work->answer->caller, .answer = work->answer, .n = n
    };
    return begin(q, &config, fault);
}

int queries_begin_replay(struct queries *q, struct agent *agent, struct answer *answer,
                         struct session *session, struct query_record *records, size_t len,
                         bool only, struct fault *fault)
{
    struct scope_config config = {
        .session = session, .replay = records, .replay_len = len, .replay_only = only
    };

    *q = (struct queries){ .agent = agent,
                           .caller = &answer->caller,
                           .answer = answer,
                           .records = records,
                           .records_len = len };
    return begin(q, &config, fault);
}

void queries_release(struct queries *q)
{
    scope_free(q->scope);
    query_records_free(q->records, q->records_len);
    *q = (struct queries){ 0 };
}

/* ---- afterwards ---- */

static void drop_row(struct queries *q, const struct query_record *record)
{
    struct gb_err err;

    if (record->kept &&
        store_result_drop(q->agent->config.store, principal_text(&q->caller->principal),
                          q->answer->message_id, record->n, &err) < 0)
        service_log(q->agent->config.service, LOG_LEVEL_WARNING, "mark: %s", err.msg);
}

static bool is_ok(const json_t *query)
{
    const char *status = json_string_value(json_object_get(query, "status"));

    return status && strcmp(status, "ok") == 0;
}

/* How many rows there were may be told: it was counted by us. */
static void add_evidence(struct evidence *evidence, const json_t *query)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%lld",
                       (long long) json_integer_value(json_object_get(query, "rows")));

    if (evidence && is_ok(query))
        (void) evidence_add_given(evidence, EVIDENCE_QUERY, text, (size_t) len);
}

json_t *queries_to_json(struct queries *q)
{
    const struct query_record *records = NULL;
    size_t len = q->scope ? scope_records(q->scope, &records) : 0;
    json_t *list = json_array();

    for (size_t i = 0; i < len; i++) {
        json_t *query = json_copy(records[i].json);

        (void) json_object_set_new(query, "n", json_integer(records[i].n));
        (void) json_array_append_new(list, query);
    }
    return list;
}

void queries_end(struct queries *q, struct work *work, json_t *receipt)
{
    const struct query_record *records = NULL;
    size_t len = q->scope ? scope_records(q->scope, &records) : 0, lost = 0;
    bool ok = receipt && receipt_ok(receipt);

    if (work->evidence)
        evidence_set_step(work->evidence, q->n);
    for (size_t i = 0; i < len; i++) {
        if (!ok)
            drop_row(q, &records[i]);
        else if (!records[i].kept && is_ok(records[i].json))
            lost++;
        if (records[i].n > work->queries)
            work->queries = records[i].n;
        add_evidence(work->evidence, records[i].json);
    }
    if (lost > 0)
        work_notice(work,
                    "The results of %zu queries could not be kept: a recheck of this answer has to "
                    "ask the sources again. Delete chats that are not needed any more.",
                    lost);
    if (receipt)
        (void) json_object_set_new(receipt, "queries", queries_to_json(q));
    queries_release(q);
}

/* ---- cases ---- */

static bool hash_read(const json_t *json, uint8_t ret_hash[STORE_HASH_BYTES])
{
    const char *text = json_string_value(json);

    if (!text || !hex_is(text, 2 * (size_t) STORE_HASH_BYTES))
        return false;
    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        ret_hash[i] = (uint8_t) (hex_value(text[2 * i]) << 4 | hex_value(text[2 * i + 1]));
    return true;
}

static json_t *hash_json(const uint8_t hash[STORE_HASH_BYTES])
{
    char text[2 * STORE_HASH_BYTES + 1] = "";

    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        hex_put(hash[i], text + 2 * i);
    return json_string(text);
}

int queries_of_answer(struct agent *agent, const struct caller *caller, const char *message_id,
                      json_t *list, struct gb_err *err)
{
    struct query_record *records = NULL;
    size_t len = 0;
    int r = query_records_load(agent->config.store, principal_text(&caller->principal), message_id,
                               &records, &len, err);

    for (size_t i = 0; r == 0 && i < len; i++)
        (void) json_array_append_new(
            list, json_pack("{s:o, s:o, s:I, s:O}", "key", hash_json(records[i].key), "sha256",
                            hash_json(records[i].sha256), "size", (json_int_t) records[i].size,
                            "query", records[i].json));
    query_records_free(records, len);
    return r;
}

int queries_from_case(const json_t *list, struct query_record **ret_records, size_t *ret_len)
{
    struct query_record *records = calloc(json_array_size(list) + 1, sizeof *records);
    const json_t *item;
    size_t i, len = 0;

    if (!records)
        return -ENOMEM;
    json_array_foreach (list, i, item) {
        struct query_record *record = &records[len];
        json_t *query = json_object_get(item, "query");

        if (!json_is_object(query) || !hash_read(json_object_get(item, "key"), record->key) ||
            !hash_read(json_object_get(item, "sha256"), record->sha256))
            continue;
        record->json = json_incref(query);
        record->kept = true;
        record->size = json_integer_value(json_object_get(item, "size"));
        len++;
    }
    *ret_records = records;
    *ret_len = len;
    return 0;
}
