/*
 * The audit log as operators search it: the newest entries first, by what is in them.
 *
 * There is no index over the fields, and there may be millions of entries, so one search looks at a
 * bounded number of them, in small pages, and says where to go on. Of an answer of Mark only the
 * frame is shown: with --mark-audit whole the entry has the question and the story in it, which are
 * for `glovebox audit show` alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/parse.h"
#include "service/access/audit.h"

#include "base/banned.h"

#define PAGE_ROWS 250
#define LOOK_ROWS 20000
#define LOOK_US   (300 * USEC_PER_MSEC)
#define SLACK_US                                                                                   \
    (INT64_C(86400) * USEC_PER_SEC) /* entries come by their end, times are of the                 \
                                       begin */

static bool text_is(const json_t *fields, const char *name, const char *wanted)
{
    const char *is = json_string_value(json_object_get(fields, name));

    return !wanted || (is && strcmp(is, wanted) == 0);
}

static bool row_matches(const struct audit_search *search, const struct store_audit *row,
                        const json_t *fields)
{
    if (row->time_us < search->since_us ||
        (search->until_us > 0 && row->time_us >= search->until_us))
        return false;
    return text_is(fields, "who", search->who) && text_is(fields, "kind", search->kind) &&
           text_is(fields, "status", search->status);
}

static json_t *answer_frame(const json_t *answer)
{
    static const char *const names[] = { "model", "status", "prompt_version" };
    json_t *json = json_object();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_object_get(answer, names[i]))
            (void) json_object_set(json, names[i], json_object_get(answer, names[i]));
    (void) json_object_set_new(
        json, "programs",
        json_integer((json_int_t) json_array_size(json_object_get(answer, "executions"))));
    (void) json_object_set_new(
        json, "queries",
        json_integer((json_int_t) json_array_size(json_object_get(answer, "queries"))));
    return json;
}

static json_t *row_show(const struct store_audit *row, const json_t *fields)
{
    static const char *const names[] = {
        "who",     "kind",      "execution_id",      "status",
        "limit",   "exit_code", "code_bytes",        "code_sha256",
        "wall_us", "cpu_us",    "memory_peak_bytes", "output_bytes",
        "action"
    };
    char time[FORMAT_UTC_MAX];
    json_t *json;

    format_utc(row->time_us, time);
    json = json_pack("{s:I,s:s,s:o}", "seq", (json_int_t) row->seq, "time", time, "session_id",
                     row->session_id[0] ? json_string(row->session_id) : json_null());
    if (!json_is_object(fields) || row->malformed) {
        (void) json_object_set_new(json, "malformed", json_true());
        return json;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_object_get(fields, names[i]))
            (void) json_object_set(json, names[i], json_object_get(fields, names[i]));
    if (json_object_get(fields, "answer"))
        (void) json_object_set_new(json, "answer", answer_frame(json_object_get(fields, "answer")));
    return json;
}

struct hunt {
    const struct audit_search *search;
    json_t *found;
    int64_t upto; /* the next to look at; 0: there are no more */
    size_t looked_at;
    bool enough;
};

/* From the last row to the first: they come in order. */
static void hunt_page(struct hunt *hunt, const struct store_audit *rows, size_t len)
{
    const struct audit_search *search = hunt->search;
    size_t left = len;

    while (left > 0 && !hunt->enough) {
        const struct store_audit *row = &rows[--left];
        json_t *fields = json_loads(row->fields, 0, NULL);

        hunt->looked_at++;
        if (row_matches(search, row, fields))
            (void) json_array_append_new(hunt->found, row_show(row, fields));
        json_decref(fields);
        hunt->enough = json_array_size(hunt->found) >= search->limit;
        if (!row->malformed && row->time_us < search->since_us - SLACK_US) {
            hunt->upto = 0; /* none before it can have begun so late */
            return;
        }
    }
    /* A forged number need not be above 0; then that was all. */
    hunt->upto = left > 0 || len == PAGE_ROWS ? rows[left].seq - 1 : 0;
}

int audit_search_run(struct store *store, const struct audit_search *search, json_t **ret_json,
                     struct gb_err *err)
{
    struct hunt hunt = { .search = search,
                         .found = json_array(),
                         .upto = search->before_seq > 0 ? search->before_seq - 1 : INT64_MAX };
    int64_t until_us = clock_now_us() + LOOK_US;
    int r = hunt.found ? 0 : gb_fail(err, ENOMEM, "read the audit log");

    while (r == 0 && !hunt.enough && hunt.upto > 0 && hunt.looked_at < LOOK_ROWS &&
           (hunt.looked_at == 0 || clock_now_us() < until_us)) {
        struct store_audit_query query = { .session_id = search->session_id,
                                           .limit = PAGE_ROWS,
                                           .newest = true,
                                           .upto_seq = hunt.upto };
        struct store_audit *rows = NULL;
        size_t len = 0;

        r = store_audit_list(store, &query, &rows, &len, err);
        if (r == 0)
            hunt_page(&hunt, rows, len);
        store_audit_free(rows, len);
    }
    if (r < 0) {
        json_decref(hunt.found);
        return r;
    }
    *ret_json = json_pack("{s:o,s:o,s:I}", "entries", hunt.found, "before",
                          hunt.upto > 0 ? json_integer(hunt.upto + 1) : json_null(), "looked_at",
                          (json_int_t) hunt.looked_at);
    return *ret_json ? 0 : gb_fail(err, ENOMEM, "read the audit log");
}
