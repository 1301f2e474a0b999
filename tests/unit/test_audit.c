/* The audit log: what is written, that nothing is lost, and that tampering with the file is seen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "service/access/audit_internal.h"
#include "service/access/principal.h"

#include "base/banned.h"

#define THREADS 4
#define ROUNDS  700 /* all together more than the queue holds */

struct fixture {
    char dir[64];
    struct store *store;
    struct audit *audit;
    struct gb_err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct store_config config;

    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "/tmp/gbtest-audit-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    config = (struct store_config){ .dir = f->dir };
    assert_int_equal(store_open(&config, &f->store, &f->err), 0);
    assert_int_equal(audit_open(f->store, &f->audit, &f->err), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char path[128];

    assert_int_equal(audit_close(f->audit, &f->err), 0);
    store_close(f->store);
    snprintf(path, sizeof path, "%s/glovebox.db", f->dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static struct audit_entry entry_of(const char *execution_id)
{
    struct audit_entry entry = {
        .who = PRINCIPAL_TEXT_LOCAL,
        .execution_id = execution_id,
        .kind = "cell",
        .time_us = 1700000000000000,
        .code_bytes = 9,
        .status = RUN_TIMEOUT,
        .limit = LIMIT_WALL_TIME,
        .exit_code = 124,
        .wall_us = 2000,
        .cpu_us = -1,
        .memory_peak_bytes = 4096,
        .output_bytes = 12,
    };

    limits_default(&entry.limits);
    audit_hash_code("print(1)\n", 9, entry.code_hash);
    return entry;
}

static void write_some(struct fixture *f, int count)
{
    for (int i = 0; i < count; i++) {
        char id[24];
        struct audit_entry entry;

        snprintf(id, sizeof id, "exec_%d", i);
        entry = entry_of(id);
        entry.session_id = i % 2 ? "s1" : NULL;
        entry.time_us += i;
        assert_int_equal(audit_write(f->audit, &entry, &f->err), 0);
    }
    assert_int_equal(audit_flush(f->audit, &f->err), 0);
}

static struct audit_report verify(struct fixture *f, const uint8_t *want)
{
    struct audit_report report;

    if (audit_verify(f->store, want, &report, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    return report;
}

/* Changes the file as its owner could, with the triggers out of the way. */
static void tamper(struct fixture *f, const char *text)
{
    static const char drop[] =
        "DROP TRIGGER audit_log_no_update; DROP TRIGGER audit_log_no_delete; "
        "DROP TRIGGER audit_log_no_replace; "
        "DROP TRIGGER audit_head_no_delete; DROP TRIGGER audit_head_grows;";
    char path[128];
    sqlite3 *db;

    snprintf(path, sizeof path, "%s/glovebox.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    (void) sqlite3_exec(db, drop, NULL, NULL, NULL);
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* ---- writing ---- */

static void test_fields(void **state)
{
    static const char want[] =
        "{\"code_bytes\":9,"
        "\"code_sha256\":\"cc42155088fca5730758db72b2a5bca33112a941dfaa2d43098ec422ce4ea213\","
        "\"cpu_us\":null,\"execution_id\":\"exec_0\",\"exit_code\":124,\"kind\":\"cell\","
        "\"limit\":\"wall_time\",\"limits\":{\"cpu_milli\":1000,\"cpu_us\":0,"
        "\"disk_bytes\":67108864,\"disk_inodes\":16384,\"file_bytes\":67108864,"
        "\"memory_bytes\":536870912,\"open_files\":1024,\"output_bytes\":67108864,\"pids\":64,"
        "\"wall_us\":30000000},\"memory_peak_bytes\":4096,\"output_bytes\":12,"
        "\"status\":\"timeout\",\"wall_us\":2000,\"who\":\"local\"}";
    struct fixture *f = *state;
    struct store_audit_query query = { .limit = 10 };
    struct store_audit *rows;
    uint8_t hash[AUDIT_HASH_BYTES];
    size_t len;

    write_some(f, 2);
    assert_int_equal(store_audit_list(f->store, &query, &rows, &len, &f->err), 0);
    assert_int_equal(len, 2);
    assert_string_equal(rows[0].fields, want);
    assert_string_equal(rows[0].session_id, "");
    assert_string_equal(rows[1].session_id, "s1");
    assert_int_equal(rows[1].time_us, 1700000000000001);
    audit_chain(&rows[0], hash);
    assert_memory_equal(hash, rows[0].hash, sizeof hash);
    assert_memory_equal(hash, rows[1].prev, sizeof hash);
    store_audit_free(rows, len);
}

/* Printed by hand, and still what a JSON library would print: for extreme values too. */
static void test_fields_are_canonical(void **state)
{
    struct fixture *f = *state;
    struct audit_entry entry = entry_of("exec_1");
    struct store_audit_query query = { .limit = 10 };
    struct store_audit *rows;
    size_t len;

    memset(&entry.limits, 0x7f, sizeof entry.limits);
    entry.limits.wall_us = INT64_MIN;
    entry.code_bytes = entry.wall_us = entry.cpu_us = INT64_MAX;
    entry.output_bytes = entry.memory_peak_bytes = -1;
    entry.exit_code = INT32_MIN;
    assert_int_equal(audit_write(f->audit, &entry, &f->err), 0);
    entry.limit = LIMIT_NONE;
    entry.status = RUN_OK;
    entry.kind = "answer";
    entry.answer = "{\"chat_id\":\"c\",\"question\":\"\\u00E9\\n\"}";
    entry.volumes = "[]";
    assert_int_equal(audit_write(f->audit, &entry, &f->err), 0);
    assert_int_equal(audit_flush(f->audit, &f->err), 0);
    assert_int_equal(store_audit_list(f->store, &query, &rows, &len, &f->err), 0);
    assert_int_equal(len, 2);
    for (size_t i = 0; i < len; i++) {
        json_t *json = json_loads(rows[i].fields, JSON_REJECT_DUPLICATES, NULL);
        autofree char *text = NULL;

        assert_non_null(json);
        text = json_dumps(json, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENSURE_ASCII);
        assert_string_equal(text, rows[i].fields);
        assert_int_equal(json_is_null(json_object_get(json, "limit")), i == 1);
        assert_int_equal(json_is_object(json_object_get(json, "answer")), i == 1);
        json_decref(json);
    }
    store_audit_free(rows, len);
}

/* An entry that the store would refuse must not reach the writer, who could tell nobody. */
static void test_bad_entries(void **state)
{
    struct fixture *f = *state;
    struct audit_entry entry;
    char *long_text = malloc(AUDIT_ANSWER_MAX + 2);

    assert_non_null(long_text);
    memset(long_text, '1', AUDIT_ANSWER_MAX + 1);
    long_text[AUDIT_ANSWER_MAX + 1] = '\0';

#define REFUSES(change)                                                                            \
    do {                                                                                           \
        entry = entry_of("exec_1");                                                                \
        change;                                                                                    \
        assert_int_equal(audit_write(f->audit, &entry, &f->err), -EINVAL);                         \
    } while (0)

    REFUSES(entry.who = NULL);
    REFUSES(entry.who = "");
    REFUSES(entry.who = "a b");
    REFUSES(entry.execution_id = NULL);
    REFUSES(entry.execution_id = "x\n");
    REFUSES(entry.session_id = "");
    REFUSES(entry.session_id = "../x");
    REFUSES(entry.kind = NULL);
    REFUSES(entry.kind = "Cell");
    REFUSES(entry.kind = "a_kind_that_is_too_long");
    REFUSES(entry.time_us = -1);
    REFUSES(entry.answer = long_text);
    free(long_text);
    assert_int_equal(verify(f, NULL).count, 0);
}

static void test_time_of_now(void **state)
{
    struct fixture *f = *state;
    struct audit_entry entry = entry_of("exec_1");
    struct store_audit_query query = { .limit = 1 };
    struct store_audit *rows;
    size_t len;

    entry.time_us = 0;
    assert_int_equal(audit_write(f->audit, &entry, &f->err), 0);
    assert_int_equal(audit_flush(f->audit, &f->err), 0);
    assert_int_equal(store_audit_list(f->store, &query, &rows, &len, &f->err), 0);
    assert_true(len == 1 && rows[0].time_us > 1700000000000000);
    store_audit_free(rows, len);
}

struct worker {
    struct audit *audit;
    int number, failed;
};

static void *write_many(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < ROUNDS && !w->failed; i++) {
        char id[32];
        struct audit_entry entry;

        snprintf(id, sizeof id, "exec_%d_%d", w->number, i);
        entry = entry_of(id);
        w->failed = audit_write(w->audit, &entry, NULL) < 0 || audit_check(w->audit, NULL) < 0;
    }
    return NULL;
}

/* Nothing is dropped when the queue is full, and each writer's entries stay in their order. */
static void test_threads(void **state)
{
    struct fixture *f = *state;
    struct store_audit_query query = { .limit = STORE_AUDIT_ROWS_MAX };
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    int next[THREADS] = { 0 };
    struct store_audit *rows;
    size_t len;

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ f->audit, i, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].failed, 0);
    }
    assert_int_equal(audit_close(f->audit, &f->err), 0); /* writes what is queued */
    f->audit = NULL;
    assert_int_equal(verify(f, NULL).count, THREADS * ROUNDS);
    assert_int_equal(store_audit_list(f->store, &query, &rows, &len, &f->err), 0);
    for (size_t i = 0; i < len; i++) {
        const char *id = strstr(rows[i].fields, "exec_");
        int number, round;

        assert_non_null(id);
        assert_int_equal(sscanf(id, "exec_%d_%d", &number, &round), 2);
        assert_int_equal(round, next[number]++);
    }
    store_audit_free(rows, len);
}

/* Two writers share one log, as two processes would. */
static void test_two_writers(void **state)
{
    struct fixture *f = *state;
    struct audit *mine = f->audit, *other;
    struct store_config config = { .dir = f->dir };
    struct store *store;

    assert_int_equal(store_open(&config, &store, &f->err), 0);
    assert_int_equal(audit_open(store, &other, &f->err), 0);
    for (int i = 0; i < 5; i++) {
        f->audit = i % 2 ? mine : other;
        write_some(f, 3);
    }
    f->audit = mine;
    assert_int_equal(audit_close(other, &f->err), 0);
    store_close(store);
    assert_int_equal(verify(f, NULL).count, 15);
    assert_int_equal(verify(f, NULL).broken_seq, 0);
}

/* ---- when the store fails ---- */

/* The log says so, goes on trying, and has lost nothing once the store works again. */
static void test_store_fails(void **state)
{
    struct fixture *f = *state;
    struct audit_entry entry = entry_of("exec_9");

    write_some(f, 1);
    assert_int_equal(audit_check(f->audit, &f->err), 0);
    tamper(f, "ALTER TABLE audit_log RENAME TO away");
    assert_int_equal(audit_write(f->audit, &entry, &f->err), 0);
    assert_true(audit_flush(f->audit, &f->err) < 0);
    assert_true(audit_check(f->audit, &f->err) < 0);
    assert_non_null(strstr(f->err.msg, "cannot write to the audit log"));
    tamper(f, "ALTER TABLE away RENAME TO audit_log");
    while (audit_flush(f->audit, &f->err) < 0)
        continue; /* waits for the next attempt */
    assert_int_equal(audit_check(f->audit, &f->err), 0);
    assert_int_equal(verify(f, NULL).count, 2);
}

static void test_close_tells_what_is_lost(void **state)
{
    struct fixture *f = *state;
    struct audit_entry entry = entry_of("exec_9");

    tamper(f, "ALTER TABLE audit_log RENAME TO away");
    assert_int_equal(audit_write(f->audit, &entry, &f->err), 0);
    assert_int_equal(audit_write(f->audit, &entry, &f->err), 0);
    assert_true(audit_close(f->audit, &f->err) < 0);
    assert_non_null(strstr(f->err.msg, "2 audit log entries"));
    f->audit = NULL;
}

/* ---- verifying ---- */

static void test_whole(void **state)
{
    struct fixture *f = *state;
    struct audit_report report = verify(f, NULL), later;
    uint8_t zero[AUDIT_HASH_BYTES] = { 0 };

    assert_int_equal(report.count, 0);
    assert_int_equal(verify(f, zero).broken_seq, 0);
    write_some(f, 3);
    report = verify(f, NULL);
    assert_int_equal(report.count, 3);
    assert_int_equal(report.broken_seq, 0);
    write_some(f, 2500); /* several pages */
    later = verify(f, report.head);
    assert_int_equal(later.count, 2503);
    assert_int_equal(later.broken_seq, 0);
    assert_memory_not_equal(later.head, report.head, sizeof report.head);
    assert_int_equal(verify(f, later.head).broken_seq, 0);
    report.head[0] ^= 1;
    later = verify(f, report.head);
    assert_int_equal(later.broken_seq, 2504);
    assert_non_null(strstr(later.why, "not in the log"));
}

static void test_tampered(void **state)
{
    static const struct {
        const char *text;
        int64_t seq;
        const char *why;
    } cases[] = {
        { "UPDATE audit_log SET fields = replace(fields, 'timeout', 'ok') WHERE seq = 3", 3,
          "does not match its hash" },
        { "UPDATE audit_log SET time_us = time_us + 1 WHERE seq = 3", 3,
          "does not match its hash" },
        { "UPDATE audit_log SET session_id = 's2' WHERE seq = 2", 2, "does not match its hash" },
        { "UPDATE audit_log SET session_id = 's1' WHERE seq = 3", 3, "does not match its hash" },
        { "UPDATE audit_log SET prev_hash = hash WHERE seq = 4", 4, "does not match its hash" },
        { "UPDATE audit_log SET hash = prev_hash WHERE seq = 4", 4, "does not match its hash" },
        { "UPDATE audit_log SET hash = 'x' WHERE seq = 1", 1, "cannot be read" },
        { "UPDATE audit_log SET fields = x'00' WHERE seq = 1", 1, "cannot be read" },
        { "UPDATE audit_log SET time_us = -5 WHERE seq = 2", 2, "does not match its hash" },
        { "UPDATE audit_log SET seq = 'x' WHERE seq = 3", 3, "missing" },
        { "DELETE FROM audit_log WHERE seq = 1", 1, "missing" },
        { "DELETE FROM audit_log WHERE seq = 3", 3, "missing; the next one is 4" },
        { "DELETE FROM audit_log WHERE seq = 6", 6, "truncated" },
        { "DELETE FROM audit_log WHERE seq > 2", 3, "truncated" },
        { "DELETE FROM audit_log", 1, "truncated" },
        { "UPDATE audit_log SET seq = 99 WHERE seq = 3; "
          "UPDATE audit_log SET seq = 3 WHERE seq = 4; "
          "UPDATE audit_log SET seq = 4 WHERE seq = 99",
          3, "does not match its hash" },
        { "DELETE FROM audit_log WHERE seq = 3; "
          "UPDATE audit_log SET seq = seq - 1 WHERE seq = 4; "
          "UPDATE audit_log SET seq = seq - 1 WHERE seq = 5; "
          "UPDATE audit_log SET seq = seq - 1 WHERE seq = 6",
          3, "does not match its hash" },
        { "INSERT INTO audit_log SELECT 7, time_us, session_id, prev_hash, hash, fields "
          "FROM audit_log WHERE seq = 6",
          7, "does not match its hash" },
        { "INSERT INTO audit_log SELECT 0, time_us, session_id, prev_hash, hash, fields "
          "FROM audit_log WHERE seq = 1",
          1, "was inserted with number 0" },
        { "INSERT INTO audit_log SELECT 42, time_us, session_id, prev_hash, hash, fields "
          "FROM audit_log WHERE seq = 1",
          7, "missing" },
        { "UPDATE audit_head SET hash = replace(hash, 'a', 'b')", 6, "head of the log" },
        { "UPDATE audit_head SET seq = 5", 6, "after the head" },
        { "UPDATE audit_head SET seq = 7", 7, "truncated" },
        { "UPDATE audit_head SET hash = 'x'", 7, "cannot be read" },
        { "DELETE FROM audit_head", 7, "cannot be read" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture *f;
        struct audit_report report;
        void *own = NULL;

        setup(&own);
        f = own;
        write_some(f, 6);
        assert_int_equal(verify(f, NULL).count, 6);
        tamper(f, cases[i].text);
        report = verify(f, NULL);
        if (report.broken_seq != cases[i].seq || !strstr(report.why, cases[i].why))
            fail_msg("%s: entry %lld, %s", cases[i].text, (long long) report.broken_seq,
                     report.why);
        assert_true(report.count < cases[i].seq || strstr(cases[i].text, "audit_head"));
        teardown(&own);
    }
}

/* Everything from an entry on was written anew, with hashes that fit: only a head that was kept
 * elsewhere can tell. */
static void test_written_anew(void **state)
{
    struct fixture *f = *state;
    struct audit_entry entry = entry_of("another");
    struct audit_report kept, early;

    write_some(f, 2);
    early = verify(f, NULL);
    write_some(f, 2);
    kept = verify(f, NULL);
    assert_int_equal(audit_close(f->audit, &f->err), 0);
    f->audit = NULL;
    tamper(f, "DELETE FROM audit_log WHERE seq > 2; "
              "UPDATE audit_head SET seq = 2, hash = (SELECT hash FROM audit_log WHERE seq = 2)");
    assert_int_equal(verify(f, NULL).broken_seq, 0);
    assert_int_equal(verify(f, early.head).broken_seq, 0);
    assert_int_equal(verify(f, kept.head).broken_seq, 3);
    assert_int_equal(audit_open(f->store, &f->audit, &f->err), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(audit_write(f->audit, &entry, &f->err), 0);
    assert_int_equal(audit_flush(f->audit, &f->err), 0);
    assert_int_equal(verify(f, NULL).broken_seq, 0);
    assert_int_equal(verify(f, NULL).count, 5);
    assert_int_equal(verify(f, kept.head).broken_seq, 6);
}

/* ---- reading ---- */

struct seen {
    int count;
    json_int_t first, last;
};

static int note(void *arg, const json_t *entry)
{
    struct seen *seen = arg;

    seen->last = json_integer_value(json_object_get(entry, "seq"));
    if (seen->count++ == 0)
        seen->first = seen->last;
    assert_true(json_is_string(json_object_get(entry, "hash")));
    assert_true(json_is_string(json_object_get(entry, "time")));
    assert_non_null(json_object_get(entry, "session_id"));
    return 0;
}

static struct seen read_with(struct fixture *f, struct audit_filter filter)
{
    struct seen seen = { 0 };

    assert_int_equal(audit_read(f->store, &filter, note, &seen, &f->err), 0);
    return seen;
}

static int stop_at_once(void *arg, const json_t *entry)
{
    (void) entry;
    ++*(int *) arg;
    return -ECANCELED;
}

static void test_read(void **state)
{
    struct fixture *f = *state;
    struct audit_filter all = { 0 };
    struct seen seen;
    int calls = 0;

    write_some(f, 2100);
    seen = read_with(f, all);
    assert_true(seen.count == 2100 && seen.first == 1 && seen.last == 2100);
    seen = read_with(f, (struct audit_filter){ .last = 5 });
    assert_true(seen.count == 5 && seen.first == 2096 && seen.last == 2100);
    seen = read_with(f, (struct audit_filter){ .session_id = "s1" });
    assert_true(seen.count == 1050 && seen.first == 2 && seen.last == 2100);
    seen = read_with(f, (struct audit_filter){ .since_us = 1700000000002090 });
    assert_true(seen.count == 10 && seen.first == 2091);
    seen = read_with(f, (struct audit_filter){ .since_us = INT64_MAX });
    assert_int_equal(seen.count, 0);
    assert_int_equal(audit_read(f->store, &all, stop_at_once, &calls, &f->err), -ECANCELED);
    assert_int_equal(calls, 1);
}

/* What somebody put there is shown as what it is, and never stands for our own members. */
static int is_malformed(void *arg, const json_t *entry)
{
    int *count = arg;

    if (json_is_true(json_object_get(entry, "malformed")))
        ++*count;
    assert_false(json_is_string(json_object_get(entry, "seq")));
    return 0;
}

static void test_read_tampered(void **state)
{
    struct fixture *f = *state;
    struct audit_filter all = { 0 };
    int malformed = 0;

    write_some(f, 3);
    tamper(f, "UPDATE audit_log SET fields = 'not JSON' WHERE seq = 1; "
              "UPDATE audit_log SET fields = '{\"seq\":\"x\"}' WHERE seq = 2; "
              "UPDATE audit_log SET seq = 'x' WHERE seq = 3");
    assert_int_equal(audit_read(f->store, &all, is_malformed, &malformed, &f->err), 0);
    assert_int_equal(malformed, 2);
}

/* In pieces of one page each: the same verdict as at once, and new entries are read alone. */
static void test_verify_some(void **state)
{
    struct fixture *f = *state;
    struct audit_progress progress = { 0 };
    int pieces = 0;

    write_some(f, 2100);
    while (!progress.complete) {
        assert_int_equal(audit_verify_some(f->store, &progress, 0, &f->err), 0);
        assert_int_equal(progress.report.broken_seq, 0);
        assert_true(++pieces < 10);
    }
    assert_true(pieces >= 3);
    assert_int_equal(progress.report.count, 2100);
    write_some(f, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(audit_verify_some(f->store, &progress, 0, &f->err), 0);
    assert_true(progress.complete && progress.report.count == 2103 && !progress.report.broken_seq);
    tamper(f, "DELETE FROM audit_log WHERE seq > 2000");
    progress = (struct audit_progress){ 0 };
    for (int i = 0; i < 10; i++)
        assert_int_equal(audit_verify_some(f->store, &progress, INT64_MAX, &f->err), 0);
    assert_int_equal(progress.report.broken_seq, 2001);
    assert_false(progress.complete);
}

static size_t search(struct fixture *f, struct audit_search search, int64_t *ret_first,
                     int64_t *ret_before)
{
    json_t *json = NULL, *entries;
    size_t len;

    if (audit_search_run(f->store, &search, &json, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    entries = json_object_get(json, "entries");
    len = json_array_size(entries);
    *ret_first = json_integer_value(json_object_get(json_array_get(entries, 0), "seq"));
    *ret_before = json_integer_value(json_object_get(json, "before"));
    json_decref(json);
    return len;
}

static void test_search(void **state)
{
    struct fixture *f = *state;
    int64_t first, before, found = 0;

    write_some(f, 600);
    assert_int_equal(search(f, (struct audit_search){ .limit = 200 }, &first, &before), 200);
    assert_true(first == 600 && before == 401);
    /* All of them once, whatever the page. */
    before = 0;
    do
        found += (int64_t) search(f, (struct audit_search){ .limit = 7, .before_seq = before },
                                  &first, &before);
    while (before > 0);
    assert_int_equal(found, 600);
    assert_int_equal(
        search(f, (struct audit_search){ .limit = 200, .who = "nobody" }, &first, &before), 0);
    assert_int_equal(before, 0);
    assert_int_equal(
        search(f, (struct audit_search){ .limit = 10, .session_id = "s1" }, &first, &before), 10);
    assert_int_equal(first, 600);
    assert_int_equal(search(f,
                            (struct audit_search){ .limit = 200,
                                                   .since_us = 1700000000000590,
                                                   .until_us = 1700000000000595,
                                                   .kind = "cell",
                                                   .status = "timeout" },
                            &first, &before),
                     5);
    assert_int_equal(first, 595);
    assert_int_equal(
        search(f, (struct audit_search){ .limit = 9, .status = "ok" }, &first, &before), 0);
}

/* What an operator did is an entry like any other; of an answer only the frame is found. */
static void test_search_shows(void **state)
{
    struct fixture *f = *state;
    struct audit_entry act = entry_of("op-1"), answer = entry_of("msg_1");
    struct audit_search all = { .limit = 10 };
    json_t *json = NULL, *entries;
    char *text;

    act.kind = "operator";
    act.action = "{\"name\":\"session_end\",\"target\":\"ses_1\"}";
    answer.kind = "answer";
    answer.answer =
        "{\"executions\":[\"a\",\"b\"],\"model\":\"m\",\"question\":\"private\",\"story\":"
        "\"private\"}";
    assert_int_equal(audit_write(f->audit, &act, &f->err), 0);
    assert_int_equal(audit_write(f->audit, &answer, &f->err), 0);
    assert_int_equal(audit_flush(f->audit, &f->err), 0);
    assert_int_equal(verify(f, NULL).count, 2);
    assert_int_equal(audit_search_run(f->store, &all, &json, &f->err), 0);
    entries = json_object_get(json, "entries");
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(json_array_get(entries, 1), "action"), "target")),
                        "ses_1");
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(json_array_get(entries, 0), "answer"), "programs")),
                     2);
    text = json_dumps(json, 0);
    assert_null(strstr(text, "private"));
    free(text);
    json_decref(json);
}

#define WITH_LOG(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_LOG(test_fields),        WITH_LOG(test_fields_are_canonical),
        WITH_LOG(test_bad_entries),   WITH_LOG(test_time_of_now),
        WITH_LOG(test_threads),       WITH_LOG(test_two_writers),
        WITH_LOG(test_store_fails),   WITH_LOG(test_close_tells_what_is_lost),
        WITH_LOG(test_whole),         cmocka_unit_test(test_tampered),
        WITH_LOG(test_written_anew),  WITH_LOG(test_read),
        WITH_LOG(test_read_tampered), WITH_LOG(test_verify_some),
        WITH_LOG(test_search),        WITH_LOG(test_search_shows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
