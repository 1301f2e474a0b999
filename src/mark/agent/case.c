/*
 * Cases: an answer with all that is needed to run it again, apart from its chat.
 *
 * A case is a JSON object (agent.h) made of what the store has of an answer: the chat's programs
 * before it, because the answer's may build on their variables; its own; the files by their hashes;
 * and what came out. Running it makes a fresh box, runs the programs in order without a model, and
 * compares what they hand over with what the case has. Whoever keeps a case (a verified answer)
 * can run it when the chat is gone; what it names must still be in mark/files and mark/results.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/text/hex.h"
#include "base/text/strv.h"
#include "mark/agent/work.h"
#include "mark/story/compare.h"

#include "base/banned.h"

#define CASES_MAX           32 /* that run at one time, */
#define CASES_PER_OWNER_MAX 4  /* and of one owner */
#define ERROR_BYTES_MAX     500

struct case_run {
    struct agent *agent;
    const struct caller *caller;
    const json_t *json;
    struct history history; /* files and earlier cells */
    struct session *session;
    struct answer *again; /* gathers what the programs hand over this time */
    struct queries queries;
    char *template; /* that the box has; NULL: nothing ran */
    json_t *errors; /* of the answer's own programs */
    unsigned flags;
    int64_t begun_us, until_us;
    size_t failed; /* programs that did not end well */
};

/* ---- making one ---- */

struct case_making {
    struct agent *agent;
    const struct caller *caller;
    json_t *json;
};

/* Programs of earlier answers of the chat with what their queries returned, and the questions. */
static int take_message(void *arg, const struct store_message *message)
{
    struct case_making *making = arg;
    json_t *details = message->details ? json_loads(message->details, JSON_ALLOW_NUL, NULL) : NULL;
    char *question = message->role == STORE_ROLE_USER ? message_text(message) : NULL;
    json_t *json = making->json;
    struct gb_err err;
    int r = 0;

    (void) json_array_extend(json_object_get(json, "before"), json_object_get(details, "cells"));
    if (json_array_size(json_object_get(details, "cells")) > 0)
        r = queries_of_answer(making->agent, making->caller, message->id,
                              json_object_get(json, "queries"), &err);
    if (question)
        (void) json_array_append_new(json_object_get(json, "asked"), json_text(question));
    free(question);
    json_decref(details);
    return r;
}

/* The question itself is before its answer too. */
static void drop_question(json_t *asked, const char *question)
{
    size_t len = json_array_size(asked);
    const char *last = json_string_value(json_array_get(asked, len - 1));

    if (len > 0 && question && last && strcmp(last, question) == 0)
        (void) json_array_remove(asked, len - 1);
}

static char *question_of(struct agent *agent, const struct caller *caller,
                         const struct store_message *message)
{
    struct store_message question = { 0 };
    struct gb_err ignored;
    char *text = NULL;

    if (message->reply_to[0] &&
        store_message_get(agent->config.store, principal_text(&caller->principal),
                          message->reply_to, &question, &ignored) == 0)
        text = message_text(&question);
    store_message_release(&question);
    return text;
}

json_t *case_make(struct agent *agent, const struct caller *caller,
                  const struct store_message *message, const json_t *details, struct gb_err *err)
{
    static const char *const of_details[] = { "cells",        "files",    "charts_shown",
                                              "tables_shown", "template", "packages",
                                              "story",        "model",    "sources",
                                              "source_files" };
    static const char *const of_response[] = { "status", "values", "data", "visualizations",
                                               "numbers" };
    autofree char *question = question_of(agent, caller, message);
    json_t *response =
        message->response ? json_loads(message->response, JSON_ALLOW_NUL, NULL) : NULL;
    json_t *json = json_pack("{s:s, s:s, s:s?, s:s, s:[], s:[], s:[]}", "message_id", message->id,
                             "chat_id", message->chat_id, "question", question, "prompt_version",
                             message->prompt_version, "before", "asked", "queries");
    struct case_making making = { agent, caller, json };
    int r = json ? history_each(agent, caller, message->chat_id, message->seq, take_message,
                                &making, err)
                 : gb_fail(err, ENOMEM, "read an answer");

    if (r == 0)
        r = queries_of_answer(agent, caller, message->id, json_object_get(json, "queries"), err);
    for (size_t i = 0; i < ARRAY_LEN(of_details); i++)
        if (json_object_get(details, of_details[i]))
            (void) json_object_set(json, of_details[i], json_object_get(details, of_details[i]));
    for (size_t i = 0; i < ARRAY_LEN(of_response); i++)
        if (json_object_get(response, of_response[i]))
            (void) json_object_set(json, of_response[i], json_object_get(response, of_response[i]));
    json_decref(response);
    drop_question(json_object_get(json, "asked"), question);
    if (r == 0)
        return json;
    json_decref(json);
    return NULL;
}

int agent_case(struct agent *agent, const struct caller *caller, const char *message_id,
               json_t **ret_case, struct fault *fault)
{
    struct store_message message = { 0 };
    struct gb_err err = { 0 };
    json_t *details;

    if (agent_get_answer(agent, caller, message_id, &message, fault) < 0)
        return -1;
    details = message.details ? json_loads(message.details, JSON_ALLOW_NUL, NULL) : NULL;
    *ret_case = case_make(agent, caller, &message, details, &err);
    json_decref(details);
    store_message_release(&message);
    if (*ret_case)
        return 0;
    return agent_store_fault(agent, PROBLEM_MESSAGE_UNKNOWN, "read a chat", -err.code, &err, fault);
}

/* ---- what to run ---- */

static bool hash_parse(const char *text, uint8_t ret_hash[STORE_HASH_BYTES])
{
    if (!text || !hex_is(text, 2 * (size_t) STORE_HASH_BYTES))
        return false;
    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        ret_hash[i] = (uint8_t) (hex_value(text[2 * i]) << 4 | hex_value(text[2 * i + 1]));
    return true;
}

static int take_files(struct case_run *c)
{
    const json_t *files = json_object_get(c->json, "files"), *file;
    size_t i;

    c->history.files = calloc(json_array_size(files) + 1, sizeof *c->history.files);
    if (!c->history.files)
        return -ENOMEM;
    json_array_foreach (files, i, file) {
        struct chat_file *to = &c->history.files[c->history.files_len];
        const char *path = json_string_value(json_object_get(file, "path"));
        const char *name = json_string_value(json_object_get(file, "name"));

        if (!path || !name || strncmp(path, "data/", 5) != 0 ||
            !hash_parse(json_string_value(json_object_get(file, "sha256")), to->attachment.sha256))
            continue;
        (void) snprintf(to->attachment.name, sizeof to->attachment.name, "%s", name);
        to->attachment.size = json_integer_value(json_object_get(file, "size"));
        to->path = strdup(path);
        if (!to->path)
            return -ENOMEM;
        c->history.files_len++;
    }
    return 0;
}

/* What the queries returned, they return again; or the sources are asked. */
static int begin_queries(struct case_run *c, struct fault *fault)
{
    bool live = c->flags & AGENT_CASE_LIVE;
    struct query_record *records = NULL;
    const json_t *name;
    size_t len = 0, i;

    json_array_foreach (json_object_get(c->json, "sources"), i, name)
        if (json_is_string(name) && strv_add(&c->again->sources, json_string_value(name)) < 0)
            return fault_no_memory(fault);
    if (!live && queries_from_case(json_object_get(c->json, "queries"), &records, &len) < 0)
        return fault_no_memory(fault);
    return queries_begin_replay(&c->queries, c->agent, c->again, c->session, records, len, !live,
                                fault);
}

/* ---- running ---- */

/* Directories are not kept: the programs read what is in them now. */
static int take_mounts(struct case_run *c, struct fault *fault)
{
    json_t *then = json_object_get(c->json, "source_files"), *state;
    const char *name;

    json_object_foreach (then, name, state) {
        char *const names[] = { (char *) name, NULL };
        size_t before = c->history.mounts.len;

        if (mounts_add(c->agent->config.sources, c->agent->config.service, c->caller, names,
                       &c->history.mounts, fault) < 0)
            return -1;
        if (c->history.mounts.len > before)
            continue;
        if (c->history.mounts.left_out)
            return fault_set(fault, PROBLEM_SOURCE_FAILED, NULL, "%s",
                             json_string_value(json_array_get(c->history.mounts.left_out, 0)));
        return fault_set(fault, PROBLEM_SOURCE_UNKNOWN, NULL,
                         "the source of files %s is not there any more", name);
    }
    return 0;
}

static int open_session(struct case_run *c, struct fault *fault)
{
    const char *template = json_string_value(json_object_get(c->json, "template"));

    if (c->flags & AGENT_CASE_NOW)
        template = NULL;
    if (take_mounts(c, fault) < 0)
        return -1;
    if (cells_session_new(c->agent, c->caller, &c->history, template, &c->session, fault) < 0)
        return -1;
    for (size_t i = 0; i < c->history.files_len; i++)
        if (cells_upload(c->agent, c->session, &c->history.files[i], fault) < 0)
            return -1;
    return begin_queries(c, fault);
}

static int check_stop(const struct case_run *c, struct fault *fault)
{
    if (!atomic_load(&c->again->stop))
        return 0;
    return fault_set(fault, PROBLEM_DRAINING, NULL, "the service is shutting down");
}

/* Why a program of the answer failed, in short. */
static void note_error(struct case_run *c, int64_t n, const json_t *receipt)
{
    const json_t *error = json_object_get(receipt, "error");
    const char *value = json_string_value(json_object_get(error, "value"));
    const char *name = json_string_value(json_object_get(error, "name"));
    struct text text = { 0 };

    if (!name)
        name = json_string_value(json_object_get(receipt, "status"));
    text_printf(&text, "%s%s%s", name ? name : "failed", value ? ": " : "", value ? value : "");
    if (text.data)
        (void) json_array_append_new(
            c->errors, json_pack("{s:I, s:o}", "n", (json_int_t) n, "error",
                                 json_text_cut(text.data, text.len, ERROR_BYTES_MAX)));
    text_release(&text);
}

/* Runs one program; of the answer's own (@n above 0) what it hands over is gathered. */
static int run_one(struct case_run *c, int64_t n, const char *code, struct fault *fault)
{
    json_t *receipt = NULL;

    if (check_stop(c, fault) < 0)
        return -1;
    if (clock_now_us() >= c->until_us) {
        c->failed++;
        if (n > 0)
            (void) json_array_append_new(c->errors, json_pack("{s:I, s:s}", "n", (json_int_t) n,
                                                              "error", "no time was left"));
        return 0;
    }
    if (cells_execute(c->agent, c->caller, c->again, c->session, 0, code, true, c->queries.scope,
                      c->until_us, &receipt, fault) < 0)
        return -1;
    if (!receipt_ok(receipt)) {
        c->failed++;
        if (n > 0)
            note_error(c, n, receipt);
    }
    if (!c->template && json_object_get(receipt, "template"))
        c->template = strdup(json_string_value(json_object_get(receipt, "template")));
    if (n > 0)
        (void) receipts_gather(c->again, NULL, NULL, n, code, receipt);
    json_decref(receipt);
    return 0;
}

static int run_all(struct case_run *c, struct fault *fault)
{
    autofree char *prelude = cells_prelude(&c->history);
    const json_t *cell;
    size_t i;

    if (!prelude)
        return fault_no_memory(fault);
    if (run_one(c, 0, prelude, fault) < 0)
        return -1;
    json_array_foreach (json_object_get(c->json, "before"), i, cell)
        if (json_is_string(cell) && run_one(c, 0, json_string_value(cell), fault) < 0)
            return -1;
    c->failed = 0; /* earlier programs may fail as they like: the answer's own count */
    json_array_foreach (json_object_get(c->json, "cells"), i, cell)
        if (json_is_string(cell) && run_one(c, (int64_t) i + 1, json_string_value(cell), fault) < 0)
            return -1;
    return check_stop(c, fault); /* what was interrupted says nothing */
}

/* ---- comparing ---- */

static bool all_equal(const json_t *list)
{
    const json_t *item;
    size_t i;

    json_array_foreach (list, i, item)
        if (!json_is_true(json_object_get(item, "equal")))
            return false;
    return true;
}

/* Tells that the box has other versions now: a reason for a difference that is not the data. */
static void tell_packages(const struct case_run *c, json_t *result)
{
    const char *before = json_string_value(json_object_get(c->json, "packages"));
    const char *after = service_packages_text(c->agent->config.service);

    if (before && strcmp(before, after) != 0)
        (void) json_object_set_new(result, "packages",
                                   json_pack("{s:s, s:s}", "before", before, "after", after));
}

static void tell_template(const struct case_run *c, json_t *result)
{
    const char *before = json_string_value(json_object_get(c->json, "template"));

    if (before && c->template && strcmp(before, c->template) != 0)
        (void) json_object_set_new(result, "template",
                                   json_pack("{s:s, s:s}", "before", before, "after", c->template));
}

static const char *hash_of(const json_t *query)
{
    return json_string_value(json_object_get(query, "sha256"));
}

/* Also if neither of them is there, which json_equal() calls different. */
static bool same_member(const json_t *a, const json_t *b, const char *name)
{
    const json_t *one = json_object_get(a, name), *other = json_object_get(b, name);

    return (!one && !other) || json_equal(one, other);
}

/* The same query when the answer was made: the one at the same place, or else any. */
static const json_t *query_before(const struct case_run *c, const json_t *query, size_t at)
{
    const json_t *list = json_object_get(c->json, "queries"), *item;
    const json_t *found = NULL;
    size_t i;

    json_array_foreach (list, i, item) {
        const json_t *before = json_object_get(item, "query");

        if (same_member(before, query, "sql") && same_member(before, query, "source") &&
            same_member(before, query, "params") && (!found || i <= at))
            found = before;
    }
    return found;
}

static json_t *query_short(const json_t *query)
{
    static const char *const names[] = { "status", "rows", "sha256", "message" };
    json_t *brief = json_object();

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (json_object_get(query, names[i]))
            (void) json_object_set(brief, names[i], json_object_get(query, names[i]));
    return brief;
}

/* What the sources said this time, beside what they said then. */
static void tell_queries(struct case_run *c, json_t *result)
{
    json_t *list = json_array(), *queries;
    const json_t *query;
    size_t i;

    if (!(c->flags & AGENT_CASE_LIVE) || !c->queries.scope) {
        json_decref(list);
        return;
    }
    queries = queries_to_json(&c->queries);
    json_array_foreach (queries, i, query) {
        const json_t *before = query_before(c, query, i);
        const char *then = hash_of(before), *now = hash_of(query);

        (void) json_array_append_new(
            list, json_pack("{s:I, s:O, s:O, s:o, s:o, s:b}", "n", (json_int_t) i + 1, "source",
                            json_object_get(query, "source"), "sql", json_object_get(query, "sql"),
                            "before", query_short(before), "after", query_short(query), "equal",
                            then && now && strcmp(then, now) == 0));
    }
    json_decref(queries);
    (void) json_object_set_new(result, "queries", list);
}

/* Compares what the case has under @key; what it does not have is not compared. */
static json_t *compare(const struct case_run *c, const char *key, const json_t *after,
                       const char *shown,
                       json_t *(*comparison)(const json_t *before, const json_t *after))
{
    const json_t *before = json_object_get(c->json, key);
    json_t *chosen, *result;

    if (!before)
        return json_array();
    chosen = response_choose(after, shown ? json_object_get(c->json, shown) : NULL);
    result = comparison(before, chosen);
    json_decref(chosen);
    return result;
}

/* Which files of data sources are others than they were. */
static void tell_files(const struct case_run *c, json_t *result)
{
    const json_t *then = json_object_get(c->json, "source_files");
    json_t *now = then ? mounts_state(&c->history.mounts) : NULL, *changes;

    if (!now)
        return;
    changes = mounts_changes(then, now);
    if (json_array_size(changes) > 0)
        (void) json_object_set(result, "files", changes);
    json_decref(changes);
    json_decref(now);
}

static json_t *result_of(struct case_run *c)
{
    const struct gathered *again = &c->again->gathered;
    json_t *values = compare(c, "values", again->values, NULL, compare_values);
    json_t *tables = compare(c, "data", again->tables, "tables_shown", compare_tables);
    json_t *charts = compare(c, "visualizations", again->charts, "charts_shown", compare_charts);
    bool equal = c->failed == 0 && all_equal(values) && all_equal(tables) && all_equal(charts);
    int64_t ms = (clock_now_us() - c->begun_us) / 1000;
    size_t checked = json_array_size(values) + json_array_size(tables) + json_array_size(charts);
    json_t *result =
        json_pack("{s:O?, s:b, s:o, s:o, s:o, s:I, s:I, s:f}", "message_id",
                  json_object_get(c->json, "message_id"), "equal", equal, "values", values,
                  "tables", tables, "charts", charts, "failed", (json_int_t) c->failed, "checked",
                  (json_int_t) checked, "seconds", (double) ms / 1000.0);

    if (!result)
        return NULL;
    if (json_array_size(c->errors) > 0)
        (void) json_object_set(result, "errors", c->errors);
    tell_queries(c, result);
    tell_packages(c, result);
    tell_template(c, result);
    tell_files(c, result);
    return result;
}

/* ---- the whole ---- */

/* Takes a place for it. It is in the list of those that a drain stops until case_leave(). */
static int case_admit(struct case_run *c, struct fault *fault)
{
    struct agent *agent = c->agent;
    size_t all = 0, own = 0;
    bool room;

    c->again = answer_new(agent, c->caller);
    if (!c->again)
        return fault_no_memory(fault);
    (void) pthread_mutex_lock(&agent->lock);
    for (const struct answer *a = agent->rechecks; a; a = a->next) {
        all++;
        own += principal_equal(&a->caller.principal, &c->caller->principal);
    }
    room = !agent->draining && all < CASES_MAX &&
           (own < CASES_PER_OWNER_MAX || principal_is_local(&c->caller->principal));
    if (room) {
        c->again->next = agent->rechecks;
        agent->rechecks = answer_ref(c->again);
    }
    (void) pthread_mutex_unlock(&agent->lock);
    if (room)
        return 0;
    answer_unref(c->again);
    (void) fault_set(fault, PROBLEM_BUSY, NULL,
                     "too many answers are being checked; try again in a moment");
    fault->retry_after_s = 5;
    return -1;
}

static void case_leave(struct agent *agent, struct answer *again)
{
    struct answer **place = &agent->rechecks;

    (void) pthread_mutex_lock(&agent->lock);
    while (*place != again)
        place = &(*place)->next;
    *place = again->next;
    answer_unref(again);
    if (!agent->rechecks)
        (void) pthread_cond_broadcast(&agent->idle);
    (void) pthread_mutex_unlock(&agent->lock);
}

static void case_release(struct case_run *c)
{
    struct answer *again = answer_ref(c->again);
    struct fault ignored;

    queries_release(&c->queries);
    if (c->session)
        (void) session_delete(c->session, &ignored);
    session_unref(c->session);
    answer_unref(c->again);
    history_release(&c->history);
    json_decref(c->errors);
    free(c->template);
    case_leave(c->agent, again);
    answer_unref(again);
}

/* Has it run, if there is anything to run. */
static int case_go(struct case_run *c, const struct agent_case_hooks *hooks, struct fault *fault)
{
    if (json_array_size(json_object_get(c->json, "cells")) == 0)
        return 0;
    if (open_session(c, fault) < 0)
        return -1;
    if (hooks && hooks->begin && hooks->begin(hooks->arg, c->session, fault) < 0)
        return -1;
    if (run_all(c, fault) < 0)
        return -1;
    return hooks ? hooks->end(hooks->arg, c->session, fault) : 0;
}

int agent_case_run_with(struct agent *agent, const struct caller *caller, const json_t *json,
                        unsigned flags, const struct agent_case_hooks *hooks, json_t **ret_result,
                        struct fault *fault)
{
    struct case_run c = {
        .agent = agent, .caller = caller, .json = json, .flags = flags, .begun_us = clock_now_us()
    };
    json_t *result = NULL;
    int r;

    if (case_admit(&c, fault) < 0)
        return -1;
    c.until_us = c.begun_us + agent->config.seconds_max_us;
    c.errors = json_array();
    r = take_files(&c) < 0 ? fault_no_memory(fault) : 0;
    if (r == 0)
        r = case_go(&c, hooks, fault);
    if (r == 0) {
        result = result_of(&c);
        r = result ? 0 : fault_no_memory(fault);
    }
    case_release(&c);
    if (r == 0)
        *ret_result = result;
    return r;
}

int agent_case_run(struct agent *agent, const struct caller *caller, const json_t *json,
                   unsigned flags, json_t **ret_result, struct fault *fault)
{
    return agent_case_run_with(agent, caller, json, flags, NULL, ret_result, fault);
}
