/*
 * The conformance suite of the store: what its headers promise, asked of SQLite or of PostgreSQL
 * (the first argument) through nothing but them. What only one can get wrong is in
 * test_store_sqlite.c and test_store_postgres.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "store/audit.h"
#include "store/internal.h"
#include "store/keys.h"
#include "store/sessions.h"

#include "store_harness.h"

#include "base/banned.h"

#define THREADS 4
#define ROUNDS  50

/* A store of its own for each test, in a directory that goes afterwards. */
struct fixture {
    char dir[64];
    struct store *store;
    struct gb_err err;
};

static void remove_dir(const char *dir)
{
    static const char *const names[] = { "glovebox.db", "glovebox.db-wal", "glovebox.db-shm",
                                         "serve.lock" };
    char path[128];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void) unlink(path);
    }
    assert_int_equal(rmdir(dir), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "/tmp/gbtest-store-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->store = harness_open(f->dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    store_close(f->store);
    harness_forget(f->dir);
    remove_dir(f->dir);
    free(f);
    return 0;
}

/* ---- keys ---- */

static struct store_key key_of(const char *id)
{
    struct store_key key = {
        .created_us = 1000, .sessions = 3, .executions = STORE_LIMIT_DEFAULT, .rate_per_minute = 60
    };

    snprintf(key.id, sizeof key.id, "%s", id);
    snprintf(key.name, sizeof key.name, "key %s", id);
    memset(key.hash, 0xab, sizeof key.hash);
    return key;
}

static struct store_key only_key(struct fixture *f, struct store *store)
{
    autofree struct store_key *keys = NULL;
    size_t len;

    assert_int_equal(store_key_list(store, &keys, &len, &f->err), 0);
    assert_int_equal(len, 1);
    return keys[0];
}

static int64_t generation(struct fixture *f, struct store *store)
{
    int64_t value;

    assert_int_equal(store_key_generation(store, &value, &f->err), 0);
    return value;
}

static void test_key(void **state)
{
    struct fixture *f = *state;
    struct store_key key = key_of("k1"), got;
    int64_t before = generation(f, f->store);

    assert_int_equal(store_key_add(f->store, &key, &f->err), 0);
    got = only_key(f, f->store);
    assert_string_equal(got.id, key.id);
    assert_string_equal(got.name, key.name);
    assert_memory_equal(got.hash, key.hash, sizeof key.hash);
    assert_int_equal(got.created_us, 1000);
    assert_int_equal(got.last_used_us, 0);
    assert_int_equal(got.revoked_us, 0);
    assert_int_equal(got.sessions, 3);
    assert_int_equal(got.executions, STORE_LIMIT_DEFAULT);
    assert_int_equal(got.rate_per_minute, 60);
    assert_true(generation(f, f->store) > before);

    assert_int_equal(store_key_add(f->store, &key, &f->err), -EEXIST);
    assert_non_null(strstr(f->err.msg, "store"));
    assert_string_equal(only_key(f, f->store).name, key.name);
}

static void test_key_order(void **state)
{
    struct fixture *f = *state;
    autofree struct store_key *keys = NULL;
    struct store_key young = key_of("a"), old = key_of("z"), empty = key_of("m");
    size_t len = 7;

    assert_int_equal(store_key_list(f->store, &keys, &len, &f->err), 0);
    assert_int_equal(len, 0);
    young.created_us = 3000;
    empty.created_us = 2000;
    empty.name[0] = '\0';
    assert_int_equal(store_key_add(f->store, &young, &f->err), 0);
    assert_int_equal(store_key_add(f->store, &empty, &f->err), 0);
    assert_int_equal(store_key_add(f->store, &old, &f->err), 0);
    free(keys);
    assert_int_equal(store_key_list(f->store, &keys, &len, &f->err), 0);
    assert_int_equal(len, 3);
    assert_string_equal(keys[0].id, "z");
    assert_string_equal(keys[1].id, "m");
    assert_string_equal(keys[1].name, "");
    assert_string_equal(keys[2].id, "a");
}

/* More than any array starts with. */
static void test_many_keys(void **state)
{
    struct fixture *f = *state;
    autofree struct store_key *keys = NULL;
    size_t len;

    for (int i = 0; i < 40; i++) {
        char id[16];
        struct store_key key;

        snprintf(id, sizeof id, "k%02d", i);
        key = key_of(id);
        assert_int_equal(store_key_add(f->store, &key, &f->err), 0);
    }
    assert_int_equal(store_key_list(f->store, &keys, &len, &f->err), 0);
    assert_int_equal(len, 40);
    assert_string_equal(keys[39].id, "k39");
}

static void test_key_revoke(void **state)
{
    struct fixture *f = *state;
    struct store *other = harness_open(f->dir);
    struct store_key key = key_of("k1");
    int64_t before;

    assert_int_equal(store_key_add(f->store, &key, &f->err), 0);
    before = generation(f, f->store);
    assert_int_equal(store_key_revoke(other, "k2", 5, &f->err), -ENOENT);
    assert_int_equal(generation(f, f->store), before);
    assert_int_equal(store_key_revoke(other, "k1", 5, &f->err), 0);
    assert_true(generation(f, f->store) > before);
    assert_int_equal(only_key(f, f->store).revoked_us, 5);
    assert_int_equal(store_key_revoke(f->store, "k1", 6, &f->err), -EALREADY);
    assert_int_equal(only_key(f, f->store).revoked_us, 5);
    store_close(other);
}

static void test_key_touch(void **state)
{
    struct fixture *f = *state;
    struct store_key key = key_of("k1");
    int64_t before;

    assert_int_equal(store_key_add(f->store, &key, &f->err), 0);
    before = generation(f, f->store);
    assert_int_equal(store_key_touch(f->store, "k1", 50, &f->err), 0);
    assert_int_equal(store_key_touch(f->store, "k1", 40, &f->err), 0); /* it does not go back */
    assert_int_equal(only_key(f, f->store).last_used_us, 50);
    assert_int_equal(store_key_touch(f->store, "k2", 50, &f->err), 0);
    assert_int_equal(generation(f, f->store), before);
}

static void test_key_bad(void **state)
{
    static const char *const ids[] = { "", "a b", "a/b", "a\n", "\xc3\xa4", "a'--" };
    struct fixture *f = *state;
    struct store_key key;

    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        key = key_of("x");
        snprintf(key.id, sizeof key.id, "%s", ids[i]);
        assert_int_equal(store_key_add(f->store, &key, &f->err), -EINVAL);
        assert_int_equal(store_key_revoke(f->store, ids[i], 1, &f->err), -EINVAL);
        assert_int_equal(store_key_touch(f->store, ids[i], 1, &f->err), -EINVAL);
    }
    key = key_of("x");
    memset(key.id, 'a', sizeof key.id); /* without an end */
    assert_int_equal(store_key_add(f->store, &key, &f->err), -EINVAL);
    key = key_of("x");
    memset(key.name, 'a', sizeof key.name);
    assert_int_equal(store_key_add(f->store, &key, &f->err), -EINVAL);
    key = key_of("x");
    snprintf(key.name, sizeof key.name, "%s", "bad \xff");
    assert_int_equal(store_key_add(f->store, &key, &f->err), -EINVAL);
    snprintf(key.name, sizeof key.name, "%s", "esc \033[2J");
    assert_int_equal(store_key_add(f->store, &key, &f->err), -EINVAL);
    key = key_of("x");
    key.sessions = 0;
    assert_int_equal(store_key_add(f->store, &key, &f->err), -EINVAL);
    key.sessions = -2;
    assert_int_equal(store_key_add(f->store, &key, &f->err), -EINVAL);
}

/* ---- sessions ---- */

static struct store_session session_of(const char *id, const char *owner)
{
    struct store_session session = { .created_us = 100, .last_used_us = 100 };

    snprintf(session.id, sizeof session.id, "%s", id);
    snprintf(session.owner, sizeof session.owner, "%s", owner);
    return session;
}

static void add_session(struct fixture *f, const char *id)
{
    struct store_session session = session_of(id, "");

    assert_int_equal(store_session_add(f->store, &session, &f->err), 0);
}

static struct store_session get_session(struct fixture *f, const char *id)
{
    struct store_session session;

    assert_int_equal(store_session_get(f->store, id, &session, &f->err), 0);
    return session;
}

static void test_session(void **state)
{
    struct fixture *f = *state;
    struct store_session session = session_of("s1", "k1"), got = { .end = STORE_END_LOST };

    assert_int_equal(store_session_get(f->store, "s1", &got, &f->err), -ENOENT);
    assert_int_equal(got.end, STORE_END_LOST); /* not written */
    assert_int_equal(store_session_add(f->store, &session, &f->err), 0);
    assert_int_equal(store_session_add(f->store, &session, &f->err), -EEXIST);
    got = get_session(f, "s1");
    assert_string_equal(got.id, "s1");
    assert_string_equal(got.owner, "k1");
    assert_int_equal(got.created_us, 100);
    assert_int_equal(got.last_used_us, 100);
    assert_int_equal(got.ended_us, 0);
    assert_int_equal(got.end, STORE_END_NONE);
    add_session(f, "s2");
    assert_string_equal(get_session(f, "s2").owner, "");
}

static void test_session_ends(void **state)
{
    static const enum store_end ends[] = { STORE_END_EXPIRED, STORE_END_DELETED, STORE_END_LOST,
                                           STORE_END_SHUTDOWN };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        char id[8];

        snprintf(id, sizeof id, "s%zu", i);
        add_session(f, id);
        assert_int_equal(store_session_end(f->store, id, 200, ends[i], &f->err), 0);
        assert_int_equal(get_session(f, id).end, ends[i]);
        assert_int_equal(get_session(f, id).ended_us, 200);
        /* the first end stays */
        assert_int_equal(store_session_end(f->store, id, 300, STORE_END_DELETED, &f->err), 0);
        assert_int_equal(get_session(f, id).end, ends[i]);
        assert_int_equal(get_session(f, id).ended_us, 200);
    }
    assert_int_equal(store_session_end(f->store, "none", 1, STORE_END_LOST, &f->err), -ENOENT);
}

static void test_session_all_and_prune(void **state)
{
    struct fixture *f = *state;
    struct store_session got;

    add_session(f, "s1");
    add_session(f, "s2");
    add_session(f, "s3");
    assert_int_equal(store_session_end(f->store, "s1", 200, STORE_END_EXPIRED, &f->err), 0);
    assert_int_equal(store_session_end_all(f->store, 300, STORE_END_SHUTDOWN, &f->err), 2);
    assert_int_equal(get_session(f, "s1").end, STORE_END_EXPIRED);
    assert_int_equal(get_session(f, "s2").end, STORE_END_SHUTDOWN);
    assert_int_equal(store_session_end_all(f->store, 400, STORE_END_SHUTDOWN, &f->err), 0);

    add_session(f, "s4");
    assert_int_equal(store_session_prune(f->store, 200, &f->err), 0);
    assert_int_equal(store_session_prune(f->store, 201, &f->err), 1);
    assert_int_equal(store_session_get(f->store, "s1", &got, &f->err), -ENOENT);
    assert_int_equal(store_session_prune(f->store, INT64_MAX, &f->err), 2);
    assert_int_equal(get_session(f, "s4").end, STORE_END_NONE); /* what lives is not forgotten */
}

static void test_session_bad(void **state)
{
    struct fixture *f = *state;
    struct store_session session = session_of("", ""), got;

    assert_int_equal(store_session_add(f->store, &session, &f->err), -EINVAL);
    session = session_of("s1", "k 1");
    assert_int_equal(store_session_add(f->store, &session, &f->err), -EINVAL);
    session = session_of("s1", "");
    session.end = STORE_END_LOST;
    assert_int_equal(store_session_add(f->store, &session, &f->err), -EINVAL);
    session = session_of("s1", "");
    session.ended_us = 1;
    assert_int_equal(store_session_add(f->store, &session, &f->err), -EINVAL);
    assert_int_equal(store_session_get(f->store, "../x", &got, &f->err), -EINVAL);
    assert_int_equal(store_session_end(f->store, "s1", 1, STORE_END_NONE, &f->err), -EINVAL);
    assert_int_equal(store_session_end(f->store, "s1", 1, (enum store_end) 77, &f->err), -EINVAL);
    assert_int_equal(store_session_end_all(f->store, 1, STORE_END_NONE, &f->err), -EINVAL);
}

/* ---- audit log ---- */

static void test_audit(void **state)
{
    struct fixture *f = *state;
    struct store_audit batch[3] = { harness_entry(1, ""), harness_entry(2, "s1"),
                                    harness_entry(3, "") },
                       *got;
    struct store_audit_query all = { .limit = 10 };
    struct store_head head;
    size_t len;

    assert_int_equal(store_audit_head(f->store, &head, &f->err), 0);
    assert_int_equal(head.seq, 0);
    assert_int_equal(head.hash[0] | head.hash[31], 0);
    assert_int_equal(store_audit_append(f->store, batch, 0, &f->err), 0);
    assert_int_equal(store_audit_append(f->store, batch, 3, &f->err), 0);
    assert_int_equal(store_audit_head(f->store, &head, &f->err), 0);
    assert_int_equal(head.seq, 3);
    assert_memory_equal(head.hash, batch[2].hash, sizeof head.hash);

    assert_int_equal(store_audit_list(f->store, &all, &got, &len, &f->err), 0);
    assert_int_equal(len, 3);
    assert_int_equal(got[1].seq, 2);
    assert_int_equal(got[1].time_us, 20);
    assert_string_equal(got[1].session_id, "s1");
    assert_string_equal(got[1].fields, "{\"n\":1}");
    assert_memory_equal(got[1].prev, batch[1].prev, sizeof got[1].prev);
    assert_memory_equal(got[1].hash, batch[1].hash, sizeof got[1].hash);
    assert_false(got[1].malformed);
    assert_string_equal(got[2].session_id, "");
    store_audit_free(got, len);
}

/* Nothing of a batch is kept when one entry does not follow. */
static void test_audit_stale(void **state)
{
    struct fixture *f = *state;
    struct store_audit batch[2] = { harness_entry(3, ""), harness_entry(4, "") };
    struct store_head head;

    harness_append(f->store, 1, 2, "");
    batch[1].prev[0] ^= 1;
    assert_int_equal(store_audit_append(f->store, batch, 2, &f->err), -ESTALE);
    batch[1] = harness_entry(5, "");
    assert_int_equal(store_audit_append(f->store, batch, 2, &f->err), -ESTALE);
    batch[0] = harness_entry(2, "");
    assert_int_equal(store_audit_append(f->store, batch, 1, &f->err), -ESTALE);
    assert_int_equal(store_audit_head(f->store, &head, &f->err), 0);
    assert_int_equal(head.seq, 2);
    batch[0] = harness_entry(3, "");
    assert_int_equal(store_audit_append(f->store, batch, 1, &f->err), 0);
}

static void assert_listed(struct fixture *f, const struct store_audit_query *query, int64_t first,
                          size_t len)
{
    struct store_audit *got;
    size_t got_len;

    assert_int_equal(store_audit_list(f->store, query, &got, &got_len, &f->err), 0);
    assert_int_equal(got_len, len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(got[i].seq, first + (int64_t) i);
    store_audit_free(got, got_len);
}

static void test_audit_query(void **state)
{
    struct fixture *f = *state;
    struct store_audit_query query = { .limit = 3 };

    harness_append(f->store, 1, 10, "");
    harness_append(f->store, 11, 20, "s1");
    assert_listed(f, &query, 1, 3);
    query.after_seq = 19;
    assert_listed(f, &query, 20, 1);
    query.after_seq = 20;
    assert_listed(f, &query, 0, 0);
    query = (struct store_audit_query){ .limit = 4, .newest = true };
    assert_listed(f, &query, 17, 4);
    query.upto_seq = 9;
    assert_listed(f, &query, 6, 4);
    query.upto_seq = 0;
    query.limit = 100;
    assert_listed(f, &query, 1, 20);
    query.since_us = 150;
    assert_listed(f, &query, 15, 6);
    query = (struct store_audit_query){ .limit = 5, .session_id = "s1" };
    assert_listed(f, &query, 11, 5);
    query.newest = true;
    assert_listed(f, &query, 16, 5);
    query.session_id = "s2";
    assert_listed(f, &query, 0, 0);
    query = (struct store_audit_query){ INT64_MIN, INT64_MIN, NULL, 100, false, 0 };
    assert_listed(f, &query, 1, 20);
}

static void test_audit_bad(void **state)
{
    struct fixture *f = *state;
    struct store_audit entry = harness_entry(1, "s 1"), *got;
    autofree char *longest = malloc(STORE_AUDIT_FIELDS_MAX + 1);
    struct store_audit_query query = { .limit = 0 };
    size_t len;

    assert_non_null(longest);
    assert_int_equal(store_audit_append(f->store, &entry, 1, &f->err), -EINVAL);
    entry = harness_entry(0, "");
    assert_int_equal(store_audit_append(f->store, &entry, 1, &f->err), -EINVAL);
    entry = harness_entry(1, "");
    entry.time_us = -1;
    assert_int_equal(store_audit_append(f->store, &entry, 1, &f->err), -EINVAL);
    entry = harness_entry(1, "");
    memset(longest, 'x', STORE_AUDIT_FIELDS_MAX);
    longest[STORE_AUDIT_FIELDS_MAX] = '\0';
    entry.fields = longest;
    assert_int_equal(store_audit_append(f->store, &entry, 1, &f->err), -EINVAL);
    longest[STORE_AUDIT_FIELDS_MAX - 1] = '\0';
    assert_int_equal(store_audit_append(f->store, &entry, 1, &f->err), 0);

    assert_int_equal(store_audit_list(f->store, &query, &got, &len, &f->err), -EINVAL);
    query.limit = STORE_AUDIT_ROWS_MAX + 1;
    assert_int_equal(store_audit_list(f->store, &query, &got, &len, &f->err), -EINVAL);
    query = (struct store_audit_query){ .limit = 1, .session_id = "" };
    assert_int_equal(store_audit_list(f->store, &query, &got, &len, &f->err), -EINVAL);
}

/* ---- values ---- */

static const struct db_statement put_row = {
    DB_WRITE,
    "INSERT INTO mark_budgets (who, bytes, cost, tokens, us) VALUES (?1, ?2, ?3, ?4, ?5)",
    "put a row",
};
static const struct db_statement read_rows = {
    DB_READ,
    "SELECT who, bytes, cost, SUM(tokens), us > 0 FROM mark_budgets WHERE who > ?1 "
    "GROUP BY who, bytes, cost, us ORDER BY who",
    "read rows",
};
static const struct db_statement drop_rows = { DB_WRITE, "DELETE FROM mark_budgets", "drop rows" };

/* The same bytes, the same order and the same numbers, whatever the backend would do by itself. */
static void test_values(void **state)
{
    static const char *const sorted[] = { " ", "%_!'\"\\?1$1", "A",         "B", "a", "a b",
                                          "b", "\u00e4",       "\U0001f600" };
    static const int64_t numbers[] = { INT64_MIN, -1, 0, 1, INT64_MAX };
    struct fixture *f = *state;
    struct db *db = f->store->db;
    struct db_query q;
    size_t i = 0;

    for (size_t j = ARRAY_LEN(sorted); j-- > 0;)
        assert_int_equal(db_write(db, false, &f->err, &put_row, "tIiii", sorted[j],
                                  numbers[j % ARRAY_LEN(numbers)], INT64_C(0),
                                  numbers[(j + 1) % ARRAY_LEN(numbers)], INT64_MAX, (int64_t) j),
                         1);
    db_read_begin(db);
    q = db_query_begin(db, &read_rows, "t", "");
    for (; db_query_step(&q, &f->err) > 0; i++) {
        char who[64];
        int64_t cost, tokens, positive = -1;

        assert_true(i < ARRAY_LEN(sorted) && db_column_copy(&q, 0, who, sizeof who));
        assert_string_equal(who, sorted[i]);
        assert_int_equal(db_column_is_null(&q, 1), numbers[i % ARRAY_LEN(numbers)] == 0);
        assert_true(db_column_int(&q, 2, &cost) && db_column_int(&q, 3, &tokens) &&
                    db_column_int(&q, 4, &positive));
        assert_true(cost == numbers[(i + 1) % ARRAY_LEN(numbers)] && tokens == INT64_MAX);
        assert_int_equal(positive, i > 0);
        assert_false(db_column_int(&q, 0, &cost)); /* a text is no number, and a number no text */
        assert_false(db_column_copy(&q, 2, who, sizeof who));
    }
    db_query_end(&q);
    db_read_end(db);
    assert_int_equal(i, ARRAY_LEN(sorted));
    assert_int_equal(db_write(db, false, &f->err, &drop_rows, ""), ARRAY_LEN(sorted));
}

/* What is not UTF-8 is refused, and the transaction with it; what is after a NUL does not exist. */
static void test_texts(void **state)
{
    static const char *const bad[] = { "\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80",
                                       "\xf5\x80\x80\x80" };
    struct fixture *f = *state;
    struct db *db = f->store->db;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(db_write(db, true, &f->err, &put_row, "tiiii", bad[i], INT64_C(1),
                                  INT64_C(1), INT64_C(1), INT64_C(1)),
                         -EINVAL);
        assert_non_null(strstr(f->err.msg, "UTF-8"));
    }
    assert_int_equal(db_write(db, true, &f->err, &put_row, "tiiii", "a\0b", INT64_C(1), INT64_C(1),
                              INT64_C(1), INT64_C(1)),
                     1);
    assert_int_equal(db_write(db, true, &f->err, &put_row, "tiiii", "a", INT64_C(1), INT64_C(1),
                              INT64_C(1), INT64_C(1)),
                     -EEXIST);
    assert_int_equal(db_write(db, true, &f->err, &drop_rows, ""), 1);
}

/* ---- threads and openings ---- */

struct worker {
    struct store *store;
    int number;
    int failed;
};

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < ROUNDS && !w->failed; i++) {
        struct store_session session = session_of("x", ""), got;
        struct store_head head;
        int64_t value;

        snprintf(session.id, sizeof session.id, "s%d-%d", w->number, i);
        w->failed = store_session_add(w->store, &session, NULL) < 0 ||
                    store_session_get(w->store, session.id, &got, NULL) < 0 ||
                    strcmp(got.id, session.id) != 0 ||
                    store_key_generation(w->store, &value, NULL) < 0 ||
                    store_audit_head(w->store, &head, NULL) < 0 ||
                    store_session_end(w->store, session.id, 5, STORE_END_DELETED, NULL) < 0;
    }
    return NULL;
}

/* Threads over one opening, and over two, which is what two processes are to a backend. */
static void test_threads(void **state)
{
    struct fixture *f = *state;
    struct store *other = harness_open(f->dir);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ i % 2 ? other : f->store, i, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].failed, 0);
    }
    assert_int_equal(store_session_prune(other, 6, &f->err), THREADS * ROUNDS);
    store_close(other);
}

static void test_stays(void **state)
{
    struct fixture *f = *state;
    struct store_key key = key_of("k1");

    assert_int_equal(store_key_add(f->store, &key, &f->err), 0);
    harness_append(f->store, 1, 2, "");
    add_session(f, "s1");
    store_close(f->store);
    f->store = harness_open(f->dir);
    assert_string_equal(only_key(f, f->store).id, "k1");
    assert_string_equal(get_session(f, "s1").id, "s1");
    harness_append(f->store, 3, 3, "");
}

static void test_exclusive(void **state)
{
    struct fixture *f = *state;
    char url[512];
    struct store_config config = harness_config(f->dir, url);
    struct store *one = NULL, *two = NULL;

    config.exclusive = true;
    assert_int_equal(store_open(&config, &one, &f->err), 0); /* beside one that is not */
    assert_int_equal(store_open(&config, &two, &f->err), -EBUSY);
    assert_non_null(strstr(f->err.msg, "--data"));
    assert_null(two);
    store_close(one);
    assert_int_equal(store_open(&config, &two, &f->err), 0);
    store_close(two);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        WITH_STORE(test_key),
        WITH_STORE(test_key_order),
        WITH_STORE(test_many_keys),
        WITH_STORE(test_key_revoke),
        WITH_STORE(test_key_touch),
        WITH_STORE(test_key_bad),
        WITH_STORE(test_session),
        WITH_STORE(test_session_ends),
        WITH_STORE(test_session_all_and_prune),
        WITH_STORE(test_session_bad),
        WITH_STORE(test_audit),
        WITH_STORE(test_audit_stale),
        WITH_STORE(test_audit_query),
        WITH_STORE(test_audit_bad),
        WITH_STORE(test_values),
        WITH_STORE(test_texts),
        WITH_STORE(test_threads),
        WITH_STORE(test_stays),
        WITH_STORE(test_exclusive),
    };

    if (!harness_choose(argc, argv))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
