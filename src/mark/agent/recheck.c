/*
 * Recheck: an answer's programs once more, in a fresh box, without a model.
 *
 * The chat's earlier programs run first, because the answer's may build on their variables; then
 * the answer's own, with the same files by their hashes and the same template. What they hand over
 * is compared with what the answer has. The answer itself stays as it is; the result is kept in its
 * details.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/text/hex.h"
#include "mark/agent/work.h"
#include "mark/story/compare.h"

#include "base/banned.h"

#define RECHECKS_MAX           32
#define RECHECKS_PER_OWNER_MAX 4

struct recheck {
    struct agent *agent;
    const struct caller *caller;
    struct store_message message;
    json_t *details, *response;
    struct history history; /* files and earlier cells */
    struct session *session;
    struct answer *again; /* gathers what the programs hand over this time */
    int64_t begun_us, until_us;
    size_t failed; /* programs that did not end well */
};

/* ---- what to run ---- */

static bool hash_parse(const char *text, uint8_t ret_hash[STORE_HASH_BYTES])
{
    if (!text || !hex_is(text, 2 * (size_t) STORE_HASH_BYTES))
        return false;
    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        ret_hash[i] = (uint8_t) (hex_value(text[2 * i]) << 4 | hex_value(text[2 * i + 1]));
    return true;
}

static int take_files(struct recheck *c)
{
    const json_t *files = json_object_get(c->details, "files"), *file;
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

/* Programs of earlier answers of the chat. */
static int take_cells(void *arg, const struct store_message *message)
{
    struct recheck *c = arg;
    json_t *details = message->details ? json_loads(message->details, JSON_ALLOW_NUL, NULL) : NULL;

    (void) json_array_extend(c->history.cells, json_object_get(details, "cells"));
    json_decref(details);
    return 0;
}

/* ---- running ---- */

static int open_session(struct recheck *c, struct fault *fault)
{
    const char *template = json_string_value(json_object_get(c->details, "template"));

    if (cells_session_new(c->agent, c->caller, &c->history, template, &c->session, fault) < 0)
        return -1;
    for (size_t i = 0; i < c->history.files_len; i++)
        if (cells_upload(c->agent, c->session, &c->history.files[i], fault) < 0)
            return -1;
    return 0;
}

static int check_stop(const struct recheck *c, struct fault *fault)
{
    if (!atomic_load(&c->again->stop))
        return 0;
    return fault_set(fault, PROBLEM_DRAINING, NULL, "the service is shutting down");
}

/* Runs one program; of the answer's own (@n above 0) what it hands over is gathered. */
static int run_one(struct recheck *c, int64_t n, const char *code, struct fault *fault)
{
    json_t *receipt = NULL;

    if (check_stop(c, fault) < 0)
        return -1;
    if (clock_now_us() >= c->until_us) {
        c->failed++;
        return 0;
    }
    if (cells_execute(c->agent, c->caller, c->again, c->session, 0, code, true, c->until_us,
                      &receipt, fault) < 0)
        return -1;
    if (!receipt_ok(receipt))
        c->failed++;
    if (n > 0)
        (void) receipts_gather(c->again, NULL, NULL, n, code, receipt);
    json_decref(receipt);
    return 0;
}

static int run_all(struct recheck *c, struct fault *fault)
{
    autofree char *prelude = cells_prelude(&c->history);
    const json_t *cell;
    size_t i;

    if (!prelude)
        return fault_no_memory(fault);
    if (run_one(c, 0, prelude, fault) < 0)
        return -1;
    json_array_foreach (c->history.cells, i, cell)
        if (run_one(c, 0, json_string_value(cell), fault) < 0)
            return -1;
    c->failed = 0; /* earlier programs may fail as they like: the answer's own count */
    json_array_foreach (json_object_get(c->details, "cells"), i, cell)
        if (run_one(c, (int64_t) i + 1, json_string_value(cell), fault) < 0)
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
static void tell_packages(const struct recheck *c, json_t *result)
{
    const char *before = json_string_value(json_object_get(c->details, "packages"));
    const char *after = service_packages_text(c->agent->config.service);

    if (before && strcmp(before, after) != 0)
        (void) json_object_set_new(result, "packages",
                                   json_pack("{s:s, s:s}", "before", before, "after", after));
}

static json_t *result_of(const struct recheck *c)
{
    const struct gathered *again = &c->again->gathered;
    json_t *charts_after =
        response_choose(again->charts, json_object_get(c->details, "charts_shown"));
    json_t *tables_after =
        response_choose(again->tables, json_object_get(c->details, "tables_shown"));
    json_t *values = compare_values(json_object_get(c->response, "values"), again->values);
    json_t *tables = compare_tables(json_object_get(c->response, "data"), tables_after);
    json_t *charts = compare_charts(json_object_get(c->response, "visualizations"), charts_after);
    bool equal = c->failed == 0 && all_equal(values) && all_equal(tables) && all_equal(charts);
    int64_t ms = (clock_now_us() - c->begun_us) / 1000;
    size_t checked = json_array_size(values) + json_array_size(tables) + json_array_size(charts);
    json_t *result;

    json_decref(charts_after);
    json_decref(tables_after);
    result = json_pack("{s:s, s:b, s:o, s:o, s:o, s:I, s:I, s:f}", "message_id", c->message.id,
                       "equal", equal, "values", values, "tables", tables, "charts", charts,
                       "failed", (json_int_t) c->failed, "checked", (json_int_t) checked, "seconds",
                       (double) ms / 1000.0);
    if (result)
        tell_packages(c, result);
    return result;
}

/* In the details of the answer, with the time. */
static void keep_result(struct recheck *c, json_t *result)
{
    json_t *kept = json_copy(result);
    struct gb_err err;

    (void) json_object_set_new(kept, "at_us", json_integer(clock_wall_us()));
    (void) json_object_set_new(c->details, "recheck", kept);
    free(c->message.details);
    c->message.details = json_dumps(c->details, JSON_COMPACT);
    free(c->message.parts); /* NULL: unchanged */
    c->message.parts = NULL;
    if (!c->message.details || store_message_finish(c->agent->config.store, &c->message, &err) < 0)
        service_log(c->agent->config.service, LOG_LEVEL_WARNING,
                    "mark: a recheck of %s could not be stored", c->message.id);
}

/* ---- the whole ---- */

static int recheck_load(struct recheck *c, const char *message_id, struct fault *fault)
{
    struct gb_err err = { 0 };
    int r;

    if (agent_get_answer(c->agent, c->caller, message_id, &c->message, fault) < 0)
        return -1;
    c->details = c->message.details ? json_loads(c->message.details, JSON_ALLOW_NUL, NULL) : NULL;
    c->response =
        c->message.response ? json_loads(c->message.response, JSON_ALLOW_NUL, NULL) : NULL;
    if (!c->details)
        c->details = json_object();
    if (take_files(c) < 0)
        return fault_no_memory(fault);
    c->history.cells = json_array();
    r = history_each(c->agent, c->caller, c->message.chat_id, c->message.seq, take_cells, c, &err);
    if (r < 0)
        return agent_store_fault(c->agent, PROBLEM_MESSAGE_UNKNOWN, "read a chat", r, &err, fault);
    return 0;
}

static void recheck_release(struct recheck *c)
{
    struct fault ignored;

    if (c->session)
        (void) session_delete(c->session, &ignored);
    session_unref(c->session);
    answer_unref(c->again);
    history_release(&c->history);
    json_decref(c->details);
    json_decref(c->response);
    store_message_release(&c->message);
}

/* Takes a place for it. It is in the list of those that a drain stops until recheck_leave(). */
static int recheck_admit(struct recheck *c, struct fault *fault)
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
    room = !agent->draining && all < RECHECKS_MAX && own < RECHECKS_PER_OWNER_MAX;
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

static void recheck_leave(struct agent *agent, struct answer *again)
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

int agent_recheck(struct agent *agent, const struct caller *caller, const char *message_id,
                  json_t **ret_json, struct fault *fault)
{
    struct recheck c = { .agent = agent, .caller = caller, .begun_us = clock_now_us() };
    struct answer *again;
    json_t *result = NULL;
    int r;

    if (recheck_admit(&c, fault) < 0)
        return -1;
    c.until_us = c.begun_us + agent->config.seconds_max_us;
    r = recheck_load(&c, message_id, fault);
    if (r == 0 && json_array_size(json_object_get(c.details, "cells")) > 0)
        r = open_session(&c, fault) < 0 ? -1 : run_all(&c, fault);
    if (r == 0) {
        result = result_of(&c);
        r = result ? 0 : fault_no_memory(fault);
    }
    if (r == 0) {
        keep_result(&c, result);
        *ret_json = result;
    }
    again = answer_ref(c.again);
    recheck_release(&c);
    recheck_leave(agent, again);
    answer_unref(again);
    return r;
}
