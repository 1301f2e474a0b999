/*
 * The format of audit log entries, how they are chained, and how the chain is verified.
 * docs/AUDIT.md describes the same for people who verify it with other tools.
 */
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/parse.h"
#include "service/access/audit_internal.h"

#include "base/banned.h"

#define CHAIN_VERSION "glovebox audit 1"
#define PAGE_ROWS     1000

void audit_hash_code(const void *code, size_t len, uint8_t ret_hash[AUDIT_HASH_BYTES])
{
    (void) crypto_hash_sha256(ret_hash, code, len);
}

/* ---- from a caller to a row ---- */

static bool kind_valid(const char *kind)
{
    size_t len = kind ? strnlen(kind, AUDIT_KIND_MAX) : 0;

    for (size_t i = 0; i < len; i++)
        if (!(kind[i] >= 'a' && kind[i] <= 'z') && kind[i] != '_')
            return false;
    return len > 0 && len < AUDIT_KIND_MAX;
}

void audit_slot_release(struct audit_slot *slot)
{
    free(slot->volumes);
    free(slot->answer);
    free(slot->action);
    slot->volumes = slot->answer = slot->action = NULL;
}

int audit_slot_fill(struct audit_slot *ret_slot, const struct audit_entry *entry,
                    struct gb_err *err)
{
    if (!store_id_valid(entry->who) || !store_id_valid(entry->execution_id) ||
        (entry->session_id && !store_id_valid(entry->session_id)) || !kind_valid(entry->kind) ||
        entry->time_us < 0 || (entry->answer && strlen(entry->answer) > AUDIT_ANSWER_MAX) ||
        (entry->action && strlen(entry->action) > AUDIT_ACTION_MAX))
        return gb_fail_plain(err, EINVAL, "malformed audit log entry");
    ret_slot->entry = *entry;
    ret_slot->entry.who = ret_slot->entry.session_id = NULL;
    ret_slot->entry.execution_id = ret_slot->entry.kind = ret_slot->entry.volumes = NULL;
    ret_slot->entry.answer = ret_slot->entry.action = NULL;
    ret_slot->volumes = entry->volumes ? strdup(entry->volumes) : NULL;
    ret_slot->answer = entry->answer ? strdup(entry->answer) : NULL;
    ret_slot->action = entry->action ? strdup(entry->action) : NULL;
    if ((entry->volumes && !ret_slot->volumes) || (entry->answer && !ret_slot->answer) ||
        (entry->action && !ret_slot->action)) {
        audit_slot_release(ret_slot);
        return gb_fail(err, ENOMEM, "write the audit log");
    }
    if (entry->time_us == 0)
        ret_slot->entry.time_us = clock_wall_us();
    (void) snprintf(ret_slot->who, sizeof ret_slot->who, "%s", entry->who);
    (void) snprintf(ret_slot->session_id, sizeof ret_slot->session_id, "%s",
                    entry->session_id ? entry->session_id : "");
    (void) snprintf(ret_slot->execution_id, sizeof ret_slot->execution_id, "%s",
                    entry->execution_id);
    (void) snprintf(ret_slot->kind, sizeof ret_slot->kind, "%s", entry->kind);
    return 0;
}

/* A number, or null if it is unknown. */
#define NUMBER_MAX 24
static const char *known(int64_t value, char buf[NUMBER_MAX])
{
    (void) snprintf(buf, NUMBER_MAX, "%" PRId64, value);
    return value < 0 ? "null" : buf;
}

/* Sorted keys, like the members around it. */
static int by_member(const void *a, const void *b)
{
    return strcmp((*(const struct limit_row *const *) a)->member,
                  (*(const struct limit_row *const *) b)->member);
}

#define LIMITS_TEXT_MAX (LIMIT_ROWS * 48)
static void print_limits(char buf[LIMITS_TEXT_MAX], const struct limits *limits)
{
    const struct limit_row *rows[LIMIT_ROWS];
    size_t len = 0;

    for (size_t i = 0; i < LIMIT_ROWS; i++)
        rows[i] = &limit_rows[i];
    qsort(rows, LIMIT_ROWS, sizeof *rows, by_member);
    for (size_t i = 0; i < LIMIT_ROWS && len < LIMITS_TEXT_MAX; i++)
        len += (size_t) snprintf(buf + len, LIMITS_TEXT_MAX - len, "%c\"%s\":%" PRId64,
                                 i == 0 ? '{' : ',', rows[i]->member, limit_get(limits, rows[i]));
    if (len < LIMITS_TEXT_MAX)
        (void) snprintf(buf + len, LIMITS_TEXT_MAX - len, "}");
}

/* The fields as JSON: sorted keys, no whitespace, ASCII only, so that there is one way to write
 * them. Printed by hand, because jansson takes as long for it as SQLite for the whole row; every
 * string was checked in audit_slot_fill() or is a constant, and needs no escaping. */
static char *slot_to_fields(const struct audit_slot *slot)
{
    const struct audit_entry *e = &slot->entry;
    const char *limit = limit_kind_name(e->limit), *quote = limit ? "\"" : "";
    const char *volumes = slot->volumes, *answer = slot->answer, *action = slot->action;
    char code[AUDIT_HEX_MAX], limits[LIMITS_TEXT_MAX];
    char cpu[NUMBER_MAX], memory[NUMBER_MAX], output[NUMBER_MAX], wall[NUMBER_MAX];
    char *text = NULL;
    int len;

    (void) sodium_bin2hex(code, sizeof code, e->code_hash, sizeof e->code_hash);
    print_limits(limits, &e->limits);
    len = asprintf(&text,
                   "{%s%s%s%s%s%s\"code_bytes\":%" PRId64 ",\"code_sha256\":\"%s\",\"cpu_us\":%s,"
                   "\"execution_id\":\"%s\",\"exit_code\":%d,\"kind\":\"%s\",\"limit\":%s%s%s,"
                   "\"limits\":%s,\"memory_peak_bytes\":%s,\"output_bytes\":%s,\"status\":\"%s\","
                   "%s%s%s\"wall_us\":%s,\"who\":\"%s\"}",
                   action ? "\"action\":" : "", action ? action : "", action ? "," : "",
                   answer ? "\"answer\":" : "", answer ? answer : "", answer ? "," : "",
                   e->code_bytes, code, known(e->cpu_us, cpu), slot->execution_id, e->exit_code,
                   slot->kind, quote, limit ? limit : "null", quote, limits,
                   known(e->memory_peak_bytes, memory), known(e->output_bytes, output),
                   run_status_name(e->status), volumes ? "\"volumes\":" : "",
                   volumes ? volumes : "", volumes ? "," : "", known(e->wall_us, wall), slot->who);
    return len < 0 ? NULL : text;
}

void audit_chain(const struct store_audit *entry, uint8_t ret_hash[AUDIT_HASH_BYTES])
{
    char head[sizeof CHAIN_VERSION + AUDIT_HEX_MAX + STORE_ID_MAX + 64], prev[AUDIT_HEX_MAX];
    crypto_hash_sha256_state state;

    (void) sodium_bin2hex(prev, sizeof prev, entry->prev, sizeof entry->prev);
    (void) snprintf(head, sizeof head, CHAIN_VERSION "\n%s\n%" PRId64 "\n%" PRId64 "\n%s\n", prev,
                    entry->seq, entry->time_us, entry->session_id);
    (void) crypto_hash_sha256_init(&state);
    (void) crypto_hash_sha256_update(&state, (const unsigned char *) head, strlen(head));
    (void) crypto_hash_sha256_update(&state, (const unsigned char *) entry->fields,
                                     strlen(entry->fields));
    (void) crypto_hash_sha256_final(&state, ret_hash);
}

int audit_slot_chain(const struct audit_slot *slot, struct store_head *head,
                     struct store_audit *ret_row, struct gb_err *err)
{
    struct store_audit row = { .seq = head->seq + 1, .time_us = slot->entry.time_us };

    row.fields = slot_to_fields(slot);
    if (!row.fields)
        return gb_fail(err, ENOMEM, "write the audit log");
    memcpy(row.session_id, slot->session_id, sizeof row.session_id);
    memcpy(row.prev, head->hash, sizeof row.prev);
    audit_chain(&row, row.hash);
    head->seq = row.seq;
    memcpy(head->hash, row.hash, sizeof head->hash);
    *ret_row = row;
    return 0;
}

/* ---- checking it ---- */

__attribute__((format(printf, 3, 4))) static bool broken(struct audit_report *report, int64_t seq,
                                                         const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(report->why, sizeof report->why, fmt, ap) < 0)
        report->why[0] = '\0';
    va_end(ap);
    report->broken_seq = seq;
    return false;
}

/* Whether @row is the entry that must follow those that @report has counted; if so it is counted.
 */
static bool verify_row(struct audit_report *report, const struct store_audit *row)
{
    int64_t want = report->count + 1;
    uint8_t hash[AUDIT_HASH_BYTES];

    if (row->seq > want)
        return broken(report, want, "it is missing; the next one is %" PRId64, row->seq);
    if (row->malformed)
        return broken(report, want, "it cannot be read as an entry");
    if (row->seq < want)
        return broken(report, want, "an entry was inserted with number %" PRId64, row->seq);
    audit_chain(row, hash);
    if (memcmp(hash, row->hash, sizeof hash) != 0)
        return broken(report, want, "its content does not match its hash");
    if (memcmp(row->prev, report->head, sizeof report->head) != 0)
        return broken(report, want, "it does not follow the entry before it");
    report->count = want;
    memcpy(report->head, hash, sizeof hash);
    return true;
}

/* Compares with the head that the last append recorded. 1: more has been written in the meantime.
 */
static int verify_head(struct store *store, struct audit_report *report, struct gb_err *err)
{
    struct store_head head;
    int r = store_audit_head(store, &head, err);

    if (r == -EUCLEAN)
        return broken(report, report->count + 1, "the head of the log cannot be read");
    if (r < 0)
        return r;
    if (head.seq > report->count)
        return 1;
    if (head.seq < report->count)
        return broken(report, head.seq + 1, "it was added after the head of the log");
    if (memcmp(head.hash, report->head, sizeof head.hash) != 0)
        return broken(report, head.seq ? head.seq : 1, "the head of the log does not match");
    return 0;
}

struct verify {
    struct store *store;
    const uint8_t *want; /* NULL once it has been seen */
    struct audit_report report;
};

/* Continues reading; returns the number of rows. If one is broken, it is the last. */
static int verify_page(struct verify *v, struct gb_err *err)
{
    struct store_audit_query query = {
        .after_seq = v->report.count ? v->report.count : INT64_MIN,
        .since_us = INT64_MIN,
        .limit = PAGE_ROWS,
    };
    struct store_audit *rows;
    size_t len, i = 0;
    int r = store_audit_list(v->store, &query, &rows, &len, err);

    if (r < 0)
        return r;
    while (i < len && verify_row(&v->report, &rows[i])) {
        if (v->want && memcmp(v->want, v->report.head, AUDIT_HASH_BYTES) == 0)
            v->want = NULL;
        i++;
    }
    store_audit_free(rows, len);
    return (int) len;
}

/* Reads on; @more: the head has said that there are more. 1: there is more to do; 0: done, or
 * broken. */
static int verify_next(struct verify *v, bool *more, struct gb_err *err)
{
    int r = verify_page(v, err);

    if (r < 0 || v->report.broken_seq)
        return r < 0 ? r : 0;
    if (r > 0) {
        *more = false;
        return 1;
    }
    if (*more) {
        (void) broken(&v->report, v->report.count + 1, "it is missing: the log was truncated");
        return 0;
    }
    r = verify_head(v->store, &v->report, err);
    *more = r > 0;
    return r;
}

static int verify_all(struct verify *v, struct gb_err *err)
{
    bool more = false;
    int r;

    while ((r = verify_next(v, &more, err)) > 0)
        ;
    return r;
}

int audit_verify_some(struct store *store, struct audit_progress *progress, int64_t until_us,
                      struct gb_err *err)
{
    struct verify v = { .store = store, .report = progress->report };
    int r;

    if (sodium_init() < 0)
        return gb_fail_plain(err, EIO, "libsodium could not be initialised");
    do {
        r = verify_next(&v, &progress->more, err);
    } while (r > 0 && clock_now_us() < until_us);
    progress->report = v.report;
    progress->complete = progress->complete || (r == 0 && !v.report.broken_seq);
    return r < 0 ? r : 0;
}

int audit_verify(struct store *store, const uint8_t *want, struct audit_report *ret_report,
                 struct gb_err *err)
{
    struct verify v = { .store = store, .want = want };
    int r;

    if (sodium_init() < 0)
        return gb_fail_plain(err, EIO, "libsodium could not be initialised");

    /* An empty log has a head too. */
    if (want && memcmp(want, v.report.head, AUDIT_HASH_BYTES) == 0)
        v.want = NULL;
    r = verify_all(&v, err);
    if (r < 0)
        return r;
    if (v.want && !v.report.broken_seq)
        (void) broken(&v.report, v.report.count + 1,
                      "the expected head is not in the log: the log was truncated or rewritten");
    *ret_report = v.report;
    return 0;
}

/* ---- showing it ---- */

static json_t *row_to_json(const struct store_audit *row)
{
    json_t *entry = json_object(), *fields = json_loads(row->fields, 0, NULL);
    char hash[AUDIT_HEX_MAX], time[FORMAT_UTC_MAX];
    bool readable = json_is_object(fields) && !row->malformed;

    (void) sodium_bin2hex(hash, sizeof hash, row->hash, sizeof row->hash);
    format_utc(row->time_us, time);
    /* Set last, so that the stored fields cannot replace them. */
    if (!entry || (readable && json_object_update(entry, fields) < 0) ||
        json_object_set_new(entry, "seq", json_integer(row->seq)) < 0 ||
        json_object_set_new(entry, "time", json_string(time)) < 0 ||
        json_object_set_new(entry, "session_id",
                            row->session_id[0] ? json_string(row->session_id) : json_null()) < 0 ||
        json_object_set_new(entry, "hash", json_string(hash)) < 0 ||
        (!readable && json_object_set_new(entry, "malformed", json_true()) < 0)) {
        json_decref(entry);
        entry = NULL;
    }
    json_decref(fields);
    return entry;
}

static int show_rows(const struct store_audit *rows, size_t len,
                     int (*each)(void *arg, const json_t *entry), void *arg, struct gb_err *err)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < len; i++) {
        json_t *entry = row_to_json(&rows[i]);

        r = entry ? each(arg, entry) : gb_fail(err, ENOMEM, "read the audit log");
        json_decref(entry);
    }
    return r;
}

int audit_read(struct store *store, const struct audit_filter *filter,
               int (*each)(void *arg, const json_t *entry), void *arg, struct gb_err *err)
{
    struct store_audit_query query = {
        .since_us = filter->since_us,
        .session_id = filter->session_id,
        .limit = filter->last ? filter->last : PAGE_ROWS,
        .newest = filter->last > 0,
    };
    struct store_audit *rows;
    bool more = true;
    size_t len;
    int r = 0;

    while (r >= 0 && more) {
        r = store_audit_list(store, &query, &rows, &len, err);
        if (r < 0)
            break;
        r = show_rows(rows, len, each, arg, err);
        /* A number that does not grow means a tampered log: the same page would be read again and
         * again. */
        more = !filter->last && len == query.limit && rows[len - 1].seq > query.after_seq;
        if (more)
            query.after_seq = rows[len - 1].seq;
        store_audit_free(rows, len);
    }
    return r;
}
