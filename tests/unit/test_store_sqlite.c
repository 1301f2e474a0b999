/* The SQLite file: who may have it, what it refuses, what somebody may have put into it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "store/audit.h"
#include "store/chats.h"
#include "store/keys.h"
#include "store/sessions.h"
#include "store/users.h"

#include "store_harness.h"

#include "base/banned.h"

/* A store of its own for each test, in a directory that goes afterwards. */
struct fixture {
    char dir[64];
    struct store *store;
    struct gb_err err;
};

static void remove_dir(const char *dir)
{
    static const char *const names[] = { "glovebox.db", "glovebox.db-wal", "glovebox.db-shm",
                                         "serve.lock", "link" };
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
    remove_dir(f->dir);
    free(f);
    return 0;
}

static void db_path(const struct fixture *f, char buf[128])
{
    snprintf(buf, 128, "%s/glovebox.db", f->dir);
}

/* Runs SQL on the file as somebody else would. */
static int sql(struct fixture *f, const char *text)
{
    char path[128];
    sqlite3 *db;
    int rc;

    db_path(f, path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    rc = sqlite3_exec(db, text, NULL, NULL, NULL);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return rc;
}

static void assert_refused(struct fixture *f, int code, const char *word)
{
    struct store_config config = { .dir = f->dir };
    struct store *store = NULL;

    assert_int_equal(store_open(&config, &store, &f->err), -code);
    assert_null(store);
    if (!strstr(f->err.msg, word))
        fail_msg("'%s' is not in: %s", word, f->err.msg);
}

static void test_file_modes(void **state)
{
    struct fixture *f = *state;
    char path[128];
    struct stat st;

    db_path(f, path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    strncat(path, "-wal", sizeof path - strlen(path) - 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_makes_directories(void **state)
{
    struct fixture *f = *state;
    char dir[96], parent[96];
    struct store_config config = { .dir = dir, .must_exist = true };
    struct store *store = NULL;
    struct stat st;

    snprintf(parent, sizeof parent, "%s/a", f->dir);
    snprintf(dir, sizeof dir, "%s/a/b", f->dir);
    assert_int_equal(store_open(&config, &store, &f->err), -ENOENT);
    assert_int_equal(access(parent, F_OK), -1);
    config.must_exist = false;
    assert_int_equal(store_open(&config, &store, &f->err), 0);
    store_close(store);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    config.must_exist = true;
    assert_int_equal(store_open(&config, &store, &f->err), 0);
    store_close(store);
    remove_dir(dir);
    assert_int_equal(rmdir(parent), 0);
}

static void test_refuses_files(void **state)
{
    struct fixture *f = *state;
    char path[128], link_path[128];

    db_path(f, path);
    snprintf(link_path, sizeof link_path, "%s/link", f->dir);
    store_close(f->store);
    f->store = NULL;

    assert_int_equal(chmod(path, 0640), 0);
    assert_refused(f, EPERM, "chmod 600");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(link(path, link_path), 0);
    assert_refused(f, EPERM, "not a regular file");
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(rename(path, link_path), 0);
    assert_int_equal(symlink("link", path), 0);
    assert_refused(f, EPERM, "not a regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(link_path, path), 0);
    assert_int_equal(chmod(f->dir, 0770), 0);
    assert_refused(f, EPERM, "chmod 700");
    assert_int_equal(chmod(f->dir, 0700), 0);
    f->store = harness_open(f->dir);
}

static void test_refuses_owners(void **state)
{
    struct fixture *f = *state;
    char path[128];

    if (geteuid() != 0)
        return; /* nobody else can give a file away */
    db_path(f, path);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_refused(f, EPERM, "12345");
    assert_int_equal(chown(path, 0, 0), 0);
    assert_int_equal(chown(f->dir, 12345, 12345), 0);
    assert_refused(f, EPERM, "12345");
    assert_int_equal(chown(f->dir, 0, 0), 0);
}

static void test_refuses_versions(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(sql(f, "PRAGMA user_version = 99"), SQLITE_OK);
    assert_refused(f, EPROTONOSUPPORT, "newer Glovebox");
    assert_int_equal(sql(f, "PRAGMA user_version = 1; PRAGMA application_id = 7"), SQLITE_OK);
    assert_refused(f, EUCLEAN, "not a Glovebox database");
}

static void test_refuses_other_files(void **state)
{
    struct fixture *f = *state;
    char path[128];
    FILE *file;

    db_path(f, path);
    store_close(f->store);
    f->store = NULL;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sql(f, "CREATE TABLE theirs (a)"), SQLITE_OK);
    assert_int_equal(chmod(path, 0600), 0);
    assert_refused(f, EUCLEAN, "not a Glovebox database");
    file = fopen(path, "we");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        fputs("not a database\n", file);
    assert_int_equal(fclose(file), 0);
    assert_refused(f, EUCLEAN, "not a Glovebox database");
}

static void test_append_only(void **state)
{
    static const char *const refused[] = {
        "UPDATE audit_log SET fields = 'x' WHERE seq = 1",
        "DELETE FROM audit_log WHERE seq = 2",
        "INSERT OR REPLACE INTO audit_log VALUES (1, 1, NULL, 'a', 'b', 'c')",
        "DELETE FROM audit_head",
        "UPDATE audit_head SET seq = 1",
    };
    struct fixture *f = *state;

    harness_append(f->store, 1, 2, "");
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        assert_int_equal(sql(f, refused[i]), SQLITE_CONSTRAINT);
}

/* Rows that we never wrote are marked, and never read as something they are not. */
static void test_malformed(void **state)
{
#define HASH "hex(zeroblob(32))"
    static const char *const rows[] = {
        "('x', 1, NULL, " HASH ", " HASH ", '{}')",
        "(9, 'x', NULL, " HASH ", " HASH ", '{}')",
        "(9, 1, 'a b', " HASH ", " HASH ", '{}')",
        "(9, 1, x'41', " HASH ", " HASH ", '{}')",
        "(9, 1, NULL, '12', " HASH ", '{}')",
        "(9, 1, NULL, " HASH " || 'x', " HASH ", '{}')",
        "(9, 1, NULL, " HASH ", zeroblob(32), '{}')",
        "(9, 1, NULL, " HASH ", replace(" HASH ", '0', 'G'), '{}')",
        "(9, 1, NULL, " HASH ", " HASH ", x'7b7d')",
        "(9, 1, NULL, " HASH ", " HASH ", 'a' || char(0) || 'b')",
        "(9, 1, NULL, " HASH ", " HASH ", hex(zeroblob(70000)))",
    };
    struct fixture *f = *state;
    char text[512];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct store_audit_query query = { INT64_MIN, INT64_MIN, NULL, 10, false, 0 };
        struct store_audit *got;
        size_t len;

        snprintf(text, sizeof text,
                 "DROP TRIGGER IF EXISTS audit_log_no_delete; DELETE FROM audit_log; "
                 "INSERT INTO audit_log VALUES %s",
                 rows[i]);
        assert_int_equal(sql(f, text), SQLITE_OK);
        assert_int_equal(store_audit_list(f->store, &query, &got, &len, &f->err), 0);
        assert_int_equal(len, 1);
        assert_true(got[0].malformed);
        store_audit_free(got, len);
    }
}

/* What people delete is not in the file any more. */
static void test_deleted_is_gone(void **state)
{
    struct fixture *f = *state;
    struct store_user user = {
        .id = "u1", .email = "a@b", .name = "ZZ needle ZZ", .password = "h"
    };
    autofree char *content = malloc(1 << 20);
    char path[128];
    bool is_operator;

    assert_non_null(content);
    db_path(f, path);
    for (int deleted = 0; deleted < 2; deleted++) {
        FILE *file;
        size_t len;

        if (deleted)
            assert_int_equal(store_user_delete(f->store, "u1", "user-u1", &f->err), 0);
        else
            assert_int_equal(store_user_add(f->store, &user, NULL, &is_operator, &f->err), 0);
        store_close(f->store); /* the last one moves the log into the file */
        file = fopen(path, "re");
        assert_non_null(file);
        len = fread(content, 1, 1 << 20, file);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(memmem(content, len, "ZZ needle ZZ", 12) == NULL, deleted);
        f->store = harness_open(f->dir);
    }
}

/* An owner has a share of chats, and a chat of messages. */
static void test_chats_have_bounds(void **state)
{
    struct fixture *f = *state;
    struct store_chat chat = { .id = "c", .owner = "ann" };
    struct store_message message = {
        .id = "m", .chat_id = "c0", .role = STORE_ROLE_ASSISTANT, .parts = (char[]){ "[]" }
    };

    assert_int_equal(sql(f, "INSERT INTO mark_chats (id, owner, title, words, created_us, "
                            "updated_us, bytes) WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT "
                            "i + 1 FROM n WHERE i < 9999) SELECT 'c' || i, 'ann', '', '', 1, 1, 0 "
                            "FROM n"),
                     SQLITE_OK);
    assert_int_equal(store_chat_add(f->store, &chat, &f->err), -EDQUOT);
    (void) snprintf(chat.owner, sizeof chat.owner, "bob");
    assert_int_equal(store_chat_add(f->store, &chat, &f->err), 0);
    assert_int_equal(store_message_add(f->store, NULL, &message, &f->err), 0);
    assert_int_equal(sql(f, "UPDATE mark_messages SET seq = 10000"), SQLITE_OK);
    (void) snprintf(message.id, sizeof message.id, "n");
    assert_int_equal(store_message_add(f->store, NULL, &message, &f->err), -EDQUOT);
}

static int64_t bytes_of(const struct fixture *f, const char *chat)
{
    sqlite3_stmt *stmt = NULL;
    sqlite3 *db = NULL;
    char path[256];
    int64_t bytes;

    snprintf(path, sizeof path, "%s/glovebox.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT bytes FROM mark_chats WHERE id = ?1", -1, &stmt, NULL),
        SQLITE_OK);
    sqlite3_bind_text(stmt, 1, chat, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    bytes = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return bytes;
}

/* All chats of an owner together have a share of the disk. */
static void test_owners_have_bounds(void **state)
{
    struct fixture *f = *state;
    struct store_chat chat = { .id = "c", .owner = "ann" };
    struct store_message message = {
        .id = "m", .chat_id = "c", .role = STORE_ROLE_ASSISTANT, .parts = (char[]){ "[]" }
    };

    assert_int_equal(store_chat_add(f->store, &chat, &f->err), 0);
    (void) snprintf(chat.id, sizeof chat.id, "d");
    assert_int_equal(store_chat_add(f->store, &chat, &f->err), 0);
    assert_int_equal(store_message_add(f->store, NULL, &message, &f->err), 0);
    assert_int_equal(bytes_of(f, "c"), 2);
    message.response = (char[]){ "{\"a\": 1}" };
    for (int i = 0; i < 2; i++) { /* what is written again takes no more room */
        assert_int_equal(store_message_finish(f->store, &message, &f->err), 0);
        assert_int_equal(bytes_of(f, "c"), 2 + 8);
    }
    assert_int_equal(store_trace_add(f->store, "m", 1, "{}", &f->err), 0);
    assert_int_equal(bytes_of(f, "c"), 2 + 8 + 2);

    assert_int_equal(sql(f, "UPDATE mark_chats SET bytes = 4294967296 WHERE id = 'd'"), SQLITE_OK);
    (void) snprintf(message.id, sizeof message.id, "n");
    assert_int_equal(store_message_add(f->store, NULL, &message, &f->err), -EDQUOT);
    assert_int_equal(store_chat_delete(f->store, "ann", "d", &f->err), 0);
    assert_int_equal(store_message_add(f->store, NULL, &message, &f->err), 0);
}

static void test_no_directory(void **state)
{
    struct store_config config = { .dir = "" };
    struct store *store = NULL;
    struct gb_err err;

    (void) state;
    assert_int_equal(store_open(&config, &store, &err), -EINVAL);
    config.dir = "/dev/null/x";
    assert_int_equal(store_open(&config, &store, &err), -ENOTDIR);
    assert_null(store);
    store_close(NULL);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_STORE(test_file_modes),         WITH_STORE(test_makes_directories),
        WITH_STORE(test_refuses_files),      WITH_STORE(test_refuses_owners),
        WITH_STORE(test_refuses_versions),   WITH_STORE(test_refuses_other_files),
        WITH_STORE(test_append_only),        WITH_STORE(test_malformed),
        WITH_STORE(test_deleted_is_gone),    WITH_STORE(test_chats_have_bounds),
        WITH_STORE(test_owners_have_bounds), cmocka_unit_test(test_no_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
