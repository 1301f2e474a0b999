/*
 * Copying a store to another of either kind: on SQLite the target is a second file, with the
 * argument "postgres" a schema of the server, and back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "store/audit.h"
#include "store/chats.h"
#include "store/copy.h"
#include "store/keys.h"
#include "store/users.h"

#include "store_harness.h"

#include "base/banned.h"

/* Two directories: `from` is always SQLite; the harness decides what `to` is. */
struct fixture {
    char from_dir[64], to_dir[64], back_dir[64];
    struct store *from, *to;
    struct gb_err err;
};

static struct store *open_file(const char *dir)
{
    struct store_config config = { .dir = dir };
    struct store *store = NULL;
    struct gb_err err;

    if (store_open(&config, &store, &err) < 0)
        fail_msg("%s", err.msg);
    return store;
}

static void remove_dir(const char *dir)
{
    static const char *const names[] = { "glovebox.db", "glovebox.db-wal", "glovebox.db-shm" };
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
    char *const dirs[] = { f->from_dir, f->to_dir, f->back_dir };

    assert_non_null(f);
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        snprintf(dirs[i], sizeof f->to_dir, "/tmp/gbtest-store-XXXXXX");
        assert_non_null(mkdtemp(dirs[i]));
    }
    f->from = open_file(f->from_dir);
    f->to = harness_open(f->to_dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    store_close(f->from);
    store_close(f->to);
    harness_forget(f->to_dir);
    remove_dir(f->from_dir);
    remove_dir(f->to_dir);
    remove_dir(f->back_dir);
    free(f);
    return 0;
}

static sqlite3 *open_sqlite(const char *dir)
{
    sqlite3 *db;
    char path[128];

    snprintf(path, sizeof path, "%s/glovebox.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static int sql(const char *dir, const char *text)
{
    sqlite3 *db = open_sqlite(dir);
    int rc = sqlite3_exec(db, text, NULL, NULL, NULL);

    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return rc;
}

/* One row at least in every table, with NULLs, extremes and characters of all lengths. */
static void fill(struct fixture *f)
{
#define HEX  "'" HEX8 HEX8 HEX8 HEX8 HEX8 HEX8 HEX8 HEX8 "'"
#define HEX8 "0123abcd"
    static const char *const rows[] = {
        "INSERT INTO api_keys VALUES ('k1', 'ключ', " HEX ", 5, NULL, NULL, 3, NULL, 60)",
        "INSERT INTO sessions VALUES ('s1', NULL, 10, 20, 30, 'expired'), "
        "('s2', 'k1', 1, 2, NULL, NULL)",
        "INSERT INTO mark_users VALUES ('u1', 'ada@example.com', 'Ada', 'h', 1, 1, 2), "
        "('U0', 'bob@example.com', '', 'h', 0, -9223372036854775808, 9223372036854775807)",
        "INSERT INTO mark_sign_ins VALUES ('f1', 'u1', " HEX ", 1, 2, 3)",
        "INSERT INTO mark_invitations VALUES (" HEX ", 1, 2)",
        "INSERT INTO mark_chats VALUES ('c1', 'user-u1', 'Ä ß 日本 😀', 'ä', NULL, NULL, 1, 2, 3)",
        "INSERT INTO mark_messages VALUES ('m1', 'c1', 1, NULL, 'user', 'ok', NULL, 1, 2, 'w', "
        "'[]', NULL, NULL, NULL, NULL), ('m2', 'c1', 2, 'm1', 'assistant', 'pending', 'p', 1, 2, "
        "'', '[]', '[]', '{}', '{\"z\": \"\\u0000\"}', '{\"a\": \"quote '' and \n line\"}')",
        "INSERT INTO mark_traces VALUES ('m2', 1, '{}'), ('m2', 2, '{}'), ('m2', 10, '{}')",
        "INSERT INTO mark_feedback VALUES ('m2', 'user-u1', 'up', NULL, NULL, 4)",
        "INSERT INTO mark_attachments VALUES ('a1', 'user-u1', 'x.csv', 't/c', " HEX
        ", 4, NULL, 1)",
        "INSERT INTO mark_sources VALUES ('o1', 'shop', 'postgresql', '{}', NULL, NULL, 1, 2, "
        "NULL, "
        "NULL)",
        "INSERT INTO mark_source_access VALUES ('o1', '*', NULL, NULL, NULL)",
        "INSERT INTO mark_source_tables VALUES ('o1', 'a.b', NULL, 1, NULL, '{}'), "
        "('o1', 'A.B', 1, 1, '{}', '{}')",
        "INSERT INTO mark_results VALUES ('m2', 1, 'user-u1', " HEX ", " HEX ", 5, '{}', 1)",
        "INSERT INTO mark_artifacts VALUES ('m2', 1, 'user-u1', 'out/ä.png', " HEX ", 5, 1)",
        "INSERT INTO mark_spent VALUES ('user-u1', '2026-11-16', 1, 2, 3, 4)",
        "INSERT INTO mark_budgets VALUES ('ada@example.com', NULL, 1, NULL, NULL)",
        "INSERT INTO mark_verified VALUES ('v1', 'm2', 'user-u1', 1, 1, NULL, NULL, 'q', 'w', "
        "'{}')",
        "INSERT INTO mark_verified_inputs VALUES ('v1', 'file', " HEX ", 4)",
        "INSERT INTO shares VALUES ('shr_1', 'user-u1', 'Ä', 2, 1, 2, '{}')",
        "UPDATE api_keys_generation SET value = 7",
        "UPDATE mark_users_generation SET value = 9",
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (sql(f->from_dir, rows[i]) != SQLITE_OK)
            fail_msg("%s", rows[i]);
    harness_append(f->from, 1, 12, "s1");
}

static int64_t count_all(const char *dir)
{
    sqlite3 *db = open_sqlite(dir);
    int64_t sum = 0;

    for (size_t i = 0; store_copy_table(i); i++) {
        const char *name = store_copy_table(i);
        sqlite3_stmt *stmt = NULL;
        char text[128];

        snprintf(text, sizeof text, "SELECT count(*) FROM %.*s", (int) strcspn(name, ":"), name);
        assert_int_equal(sqlite3_prepare_v2(db, text, -1, &stmt, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
        if (sqlite3_column_int64(stmt, 0) == 0)
            fail_msg("%s: nothing in it", text);
        sum += sqlite3_column_int64(stmt, 0);
        sqlite3_finalize(stmt);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return sum;
}

/* The list of what is copied is all that there is. */
static void test_everything_is_listed(void **state)
{
    struct fixture *f = *state;
    sqlite3 *db = open_sqlite(f->from_dir);
    sqlite3_stmt *stmt = NULL;
    size_t listed = 0, found = 0;

    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT m.name, group_concat(c.name, ', ') FROM "
                                        "sqlite_schema m, pragma_table_info(m.name) c WHERE "
                                        "m.type = 'table' GROUP BY m.name",
                                        -1, &stmt, NULL),
                     SQLITE_OK);
    for (; sqlite3_step(stmt) == SQLITE_ROW; found++) {
        char want[512];
        size_t i = 0;

        snprintf(want, sizeof want, "%s: %s", (const char *) sqlite3_column_text(stmt, 0),
                 (const char *) sqlite3_column_text(stmt, 1));
        while (store_copy_table(i) && strcmp(store_copy_table(i), want) != 0)
            i++;
        if (!store_copy_table(i))
            fail_msg("not in the list of src/store/copy.c: %s", want);
    }
    while (store_copy_table(listed))
        listed++;
    assert_int_equal(listed, found);
    sqlite3_finalize(stmt);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_there_and_back(void **state)
{
    struct fixture *f = *state;
    struct store *back = open_file(f->back_dir);
    struct store_copy there = { .from = f->from, .to = f->to },
                      home = { .from = f->to, .to = back };
    struct store_audit_query query = { .limit = 100 };
    struct store_audit *entries;
    struct store_user user;
    struct store_chat chat;
    struct store_head head;
    int64_t generation;
    size_t len;

    fill(f);
    if (store_copy(&there, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    assert_int_equal(there.rows, count_all(f->from_dir));
    assert_int_equal(store_user_get(f->to, "U0", &user, &f->err), 0);
    assert_true(user.created_us == INT64_MIN && user.valid_from_us == INT64_MAX);
    assert_int_equal(store_user_generation(f->to, &generation, &f->err), 0);
    assert_int_equal(generation, 9);
    assert_int_equal(store_chat_get(f->to, "user-u1", "c1", &chat, &f->err), 0);
    assert_string_equal(chat.title, "Ä ß 日本 😀");
    assert_int_equal(store_audit_head(f->to, &head, &f->err), 0);
    assert_int_equal(head.seq, 12);
    assert_int_equal(store_audit_list(f->to, &query, &entries, &len, &f->err), 0);
    assert_int_equal(len, 12);
    store_audit_free(entries, len);
    harness_append(f->to, 13, 14, ""); /* and it goes on there */

    if (store_copy(&home, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    store_close(back);
    assert_int_equal(home.rows, there.rows + 2);
    assert_int_equal(count_all(f->back_dir), home.rows);
}

static void test_empty(void **state)
{
    struct fixture *f = *state;
    struct store_copy copy = { .from = f->from, .to = f->to };

    if (store_copy(&copy, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    assert_int_equal(copy.rows, 3);
    harness_append(f->to, 1, 1, "");
    store_close(open_file(f->back_dir)); /* for the teardown */
}

static void test_target_is_not_empty(void **state)
{
    struct fixture *f = *state;
    struct store_copy copy = { .from = f->from, .to = f->to };

    fill(f);
    harness_append(f->to, 1, 1, "");
    assert_int_equal(store_copy(&copy, &f->err), -ENOTEMPTY);
    assert_non_null(strstr(f->err.msg, "audit_log"));
    store_close(open_file(f->back_dir));
}

/* What somebody put into the file and no store would: nothing is written then. */
static void test_damaged(void **state)
{
    static const char *const damage[] = {
        "UPDATE mark_chats SET title = x'00ff'",
        "UPDATE mark_chats SET title = 'a' || char(0) || 'b'",
        "UPDATE mark_chats SET title = CAST(x'c328' AS TEXT)",
        "UPDATE mark_chats SET created_us = 1.5",
    };
    struct fixture *f = *state;
    struct store_copy copy = { .from = f->from, .to = f->to };

    fill(f);
    for (size_t i = 0; i < ARRAY_LEN(damage); i++) {
        struct store_head head;
        int64_t count;

        assert_int_equal(sql(f->from_dir, damage[i]), SQLITE_OK);
        assert_int_equal(store_copy(&copy, &f->err), -EUCLEAN);
        assert_non_null(strstr(f->err.msg, "mark_chats"));
        assert_int_equal(store_user_count(f->to, &count, &f->err), 0);
        assert_int_equal(count, 0);
        assert_int_equal(store_audit_head(f->to, &head, &f->err), 0);
        assert_int_equal(head.seq, 0);
        assert_int_equal(sql(f->from_dir, "UPDATE mark_chats SET title = 'whole', created_us = 1"),
                         SQLITE_OK);
    }
    assert_int_equal(store_copy(&copy, &f->err), 0);
    store_close(open_file(f->back_dir));
}

#define WITH_STORES(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        WITH_STORES(test_everything_is_listed),
        WITH_STORES(test_there_and_back),
        WITH_STORES(test_empty),
        WITH_STORES(test_target_is_not_empty),
        WITH_STORES(test_damaged),
    };

    if (!harness_choose(argc, argv))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
