/*
 * An answer in the audit log: who asked, what the model was sent, what it decided, which programs
 * ran. Programs have entries of their own, which this one names. What was asked and sent is there
 * as hashes, or whole if the operator wants that; docs/AUDIT.md has the format.
 */
#include "service/access/audit.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/agent/work.h"

#include "base/banned.h"

#define REQUESTS_MAX 100
#define QUERIES_MAX  200

static json_t *hash_json(const char *text)
{
    uint8_t hash[AUDIT_HASH_BYTES];
    char hex[AUDIT_HEX_MAX];

    audit_hash_code(text, strlen(text), hash);
    (void) sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
    return json_string(hex);
}

void audit_request(struct work *work, const json_t *request)
{
    autofree char *text = NULL;

    if (!request || json_array_size(work->requests) >= REQUESTS_MAX)
        return;
    text = json_dumps(request, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
    if (text)
        (void) json_array_append_new(work->requests, hash_json(text));
}

/* What was asked of the sources: the SQL whole if that is wanted, else its hash. */
static void add_queries(const struct work *work, json_t *list, const json_t *queries)
{
    static const char *const names[] = { "source", "status", "rows", "bytes", "money", "sha256" };
    const json_t *query;
    size_t i;

    json_array_foreach (queries, i, query) {
        const char *sql = json_string_value(json_object_get(query, "sql"));
        json_t *entry = json_object();

        if (json_array_size(list) >= QUERIES_MAX) {
            json_decref(entry);
            return;
        }
        for (size_t j = 0; j < ARRAY_LEN(names); j++)
            if (json_object_get(query, names[j]))
                (void) json_object_set(entry, names[j], json_object_get(query, names[j]));
        (void) json_object_set_new(entry, "sql_sha256", hash_json(sql ? sql : ""));
        if (work->agent->config.audit == AGENT_AUDIT_WHOLE)
            (void) json_object_set(entry, "sql", json_object_get(query, "sql"));
        (void) json_array_append_new(list, entry);
    }
}

static json_t *entry_json(const struct work *work)
{
    const struct gathered *gathered = &work->answer->gathered;
    json_t *codes = json_array(), *executions = json_array(), *queries = json_array();
    const json_t *step;
    size_t i;

    json_array_foreach (gathered->steps, i, step) {
        const char *code = json_string_value(json_object_get(step, "code"));

        (void) json_array_append_new(codes, hash_json(code));
        (void) json_array_append(executions,
                                 json_object_get(json_object_get(step, "receipt"), "execution_id"));
        add_queries(work, queries, json_object_get(step, "queries"));
    }
    return json_pack("{s:s, s:o, s:O?, s:o, s:s, s:s, s:o, s:O?, s:s}", "chat_id",
                     work->answer->chat_id, "code_sha256", codes, "decisions", work->decisions,
                     "executions", executions, "model", llm_model_name(work->model),
                     "prompt_version", work->agent->prompts.version, "queries", queries,
                     "requests_sha256", work->requests, "status",
                     response_status_name(work->ending.status));
}

static char *entry_text(const json_t *entry)
{
    return entry ? json_dumps(entry, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII) : NULL;
}

static void drop_sql(json_t *queries)
{
    json_t *query;
    size_t i;

    json_array_foreach (queries, i, query)
        (void) json_object_del(query, "sql");
}

/* The conversation and the story, if that is wanted and they fit. */
static void add_whole(const struct work *work, json_t *entry, const char *story)
{
    autofree char *text = NULL;

    if (work->agent->config.audit != AGENT_AUDIT_WHOLE)
        return;
    (void) json_object_set_new(entry, "question", json_string(work->answer->query));
    (void) json_object_set_new(entry, "story", json_string(story));
    (void) json_object_set(entry, "messages", work->messages);
    text = entry_text(entry);
    if (text && strlen(text) <= AUDIT_ANSWER_MAX)
        return;
    (void) json_object_del(entry, "messages");
    (void) json_object_set_new(entry, "too_long", json_true());
    free(TAKE_PTR(text));
    text = entry_text(entry);
    if (text && strlen(text) <= AUDIT_ANSWER_MAX)
        return;
    (void) json_object_del(entry, "question");
    (void) json_object_del(entry, "story");
    drop_sql(json_object_get(entry, "queries"));
}

static enum run_status status_of(enum store_message_status status)
{
    if (status == STORE_MESSAGE_STOPPED)
        return RUN_CANCELLED;
    return status == STORE_MESSAGE_OK || status == STORE_MESSAGE_NEEDS_INPUT ? RUN_OK : RUN_ERROR;
}

void audit_answer(struct work *work, const char *story)
{
    struct answer *answer = work->answer;
    json_t *json = entry_json(work);
    struct audit_entry entry = { .who = principal_text(&answer->caller.principal),
                                 .session_id =
                                     work->cells.session ? session_id(work->cells.session) : NULL,
                                 .execution_id = answer->message_id,
                                 .kind = "answer",
                                 .time_us = clock_wall_us() - work->ending.wall_us,
                                 .code_bytes = (int64_t) strlen(answer->query),
                                 .status = status_of(work->ending.status),
                                 .wall_us = work->ending.wall_us,
                                 .cpu_us = -1,
                                 .memory_peak_bytes = -1,
                                 .output_bytes = (int64_t) strlen(story) };
    struct gb_err err = { .msg = "out of memory" };
    autofree char *text = NULL;

    if (json)
        add_whole(work, json, story);
    text = entry_text(json);
    json_decref(json);
    audit_hash_code(answer->query, strlen(answer->query), entry.code_hash);
    entry.exit_code = entry.status == RUN_OK ? 0 : 1;
    entry.answer = text;
    if (!text || service_audit(work->agent->config.service, &entry, &err) < 0)
        service_log(work->agent->config.service, LOG_LEVEL_ERROR,
                    "mark: answer %s: cannot be written to the audit log: %s", answer->message_id,
                    err.msg);
}
