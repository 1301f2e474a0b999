/* A store of an older version: copied, then updated, or neither. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "store/keys.h"
#include "store/migrations.h"
#include "store/sessions.h"
#include "store/users.h"

#include "store_harness.h"

#include "base/banned.h"

#define HASH "'abababababababababababababababababababababababababababababababab'"
#define ROWS 1000 /* so that the file has many pages */

struct fixture {
    char dir[64], path[96], copy[128], part[160];
    struct gb_err err;
};

static void sql(const char *path, const char *text)
{
    sqlite3 *db;
    char *why = NULL;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL),
                     SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* The one number that @text returns; -1: an error. */
static int64_t ask(const char *path, const char *text)
{
    sqlite3 *db;
    sqlite3_stmt *stmt = NULL;
    int64_t value = -1;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(db, text, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        value = sqlite3_column_int64(stmt, 0);
    (void) sqlite3_finalize(stmt);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return value;
}

/* A store as version 1 wrote it, in WAL mode. */
static void make_old(struct fixture *f)
{
    char text[512];

    sql(f->path, "PRAGMA journal_mode = WAL");
    assert_int_equal(chmod(f->path, 0600), 0);
    sql(f->path, migrations[0].tables);
    sql(f->path, migrations[0].sqlite);
    sql(f->path, "PRAGMA application_id = 1735159670; PRAGMA user_version = 1");
    sql(f->path, "INSERT INTO api_keys VALUES ('k1', 'ci', " HASH ", 5, NULL, NULL, 3, NULL, 60);"
                 "INSERT INTO sessions VALUES ('s1', 'k1', 10, 20, 30, 'expired');"
                 "INSERT INTO sessions VALUES ('s2', NULL, 11, 21, NULL, NULL);");
    snprintf(text, sizeof text,
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
             "INSERT INTO audit_log SELECT i, i * 10, 's1', " HASH ", " HASH ", "
             "'{\"n\":1}' FROM n",
             ROWS);
    sql(f->path, text);
    snprintf(text, sizeof text, "UPDATE audit_head SET seq = %d, hash = " HASH, ROWS);
    sql(f->path, text);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "/tmp/gbtest-upgrade-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof f->path, "%s/glovebox.db", f->dir);
    snprintf(f->copy, sizeof f->copy, "%s.v1-backup", f->path);
    snprintf(f->part, sizeof f->part, "%s.part", f->copy);
    make_old(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    static const char *const ends[] = { "", "-wal", "-shm", "-journal" };
    struct fixture *f = *state;
    char path[192];

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        snprintf(path, sizeof path, "%s%s", f->path, ends[i]);
        (void) unlink(path);
        snprintf(path, sizeof path, "%s%s", f->copy, ends[i]);
        (void) unlink(path);
    }
    assert_int_equal(rmdir(f->dir), 0); /* so there is no half of a copy */
    free(f);
    return 0;
}

static void assert_still_old(struct fixture *f)
{
    assert_int_equal(ask(f->path, "PRAGMA user_version"), 1);
    assert_int_equal(ask(f->path, "SELECT count(*) FROM audit_log"), ROWS);
    assert_int_equal(ask(f->path, "SELECT count(*) FROM sessions WHERE key_id = 'k1'"), 1);
    assert_int_equal(ask(f->path, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'mark_%'"),
                     0);
}

static void test_upgrade(void **state)
{
    struct fixture *f = *state;
    struct store *store = harness_open(f->dir);
    autofree struct store_key *keys = NULL;
    struct store_session session;
    struct store_audit_query query = { INT64_MIN, INT64_MIN, "s1", ROWS + 1, false, 0 };
    struct store_audit *entries;
    struct stat st;
    size_t len;
    int64_t count;

    assert_int_equal(store_key_list(store, &keys, &len, &f->err), 0);
    assert_int_equal(len, 1);
    assert_string_equal(keys[0].name, "ci");
    assert_int_equal(keys[0].rate_per_minute, 60);
    assert_int_equal(store_session_get(store, "s1", &session, &f->err), 0);
    assert_string_equal(session.owner, "k1");
    assert_int_equal(session.end, STORE_END_EXPIRED);
    assert_int_equal(session.ended_us, 30);
    assert_int_equal(store_session_get(store, "s2", &session, &f->err), 0);
    assert_string_equal(session.owner, "");
    assert_int_equal(store_audit_list(store, &query, &entries, &len, &f->err), 0);
    assert_int_equal(len, ROWS);
    store_audit_free(entries, len);
    assert_int_equal(store_user_count(store, &count, &f->err), 0);
    assert_int_equal(count, 0);
    store_close(store);

    /* the copy: nobody else reads it, and it has the old tables with everything in them */
    assert_int_equal(stat(f->copy, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(access(f->part, F_OK), -1);
    assert_int_equal(ask(f->copy, "PRAGMA user_version"), 1);
    assert_int_equal(ask(f->copy, "PRAGMA application_id"), 0x676c6f76);
    assert_int_equal(ask(f->copy, "SELECT count(*) FROM audit_log"), ROWS);
    assert_int_equal(ask(f->copy, "SELECT count(*) FROM api_keys"), 1);
    assert_int_equal(ask(f->copy, "SELECT count(*) FROM sessions WHERE key_id = 'k1'"), 1);
    assert_int_equal(ask(f->copy, "SELECT count(*) FROM pragma_integrity_check"), 1);

    /* the next opening changes nothing */
    assert_int_equal(unlink(f->copy), 0);
    store_close(harness_open(f->dir));
    assert_int_equal(access(f->copy, F_OK), -1);
}

static void test_new_has_no_copy(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(unlink(f->path), 0);
    store_close(harness_open(f->dir));
    assert_int_equal(access(f->copy, F_OK), -1);
    sql(f->path, "PRAGMA user_version"); /* it is there, for the teardown */
}

static void refused(struct fixture *f, const char *word)
{
    struct store_config config = { .dir = f->dir };
    struct store *store = NULL;

    assert_true(store_open(&config, &store, &f->err) < 0);
    assert_null(store);
    if (!strstr(f->err.msg, word))
        fail_msg("'%s' is not in: %s", word, f->err.msg);
}

/* The last table of the migration is in the way: everything before it is undone. */
static void test_migration_fails(void **state)
{
    struct fixture *f = *state;

    sql(f->path, "CREATE TABLE sessions_002 (a)");
    refused(f, "sessions_002");
    assert_still_old(f);
    assert_int_equal(ask(f->copy, "SELECT count(*) FROM audit_log"), ROWS);

    /* and once that is out of the way it goes on, over the older copy */
    sql(f->path, "DROP TABLE sessions_002");
    store_close(harness_open(f->dir));
    assert_int_equal(ask(f->path, "PRAGMA user_version"), (int64_t) migrations_len);
}

static void test_no_place_for_the_copy(void **state)
{
    struct fixture *f = *state;
    char file[192];

    assert_int_equal(mkdir(f->copy, 0700), 0);
    snprintf(file, sizeof file, "%s/x", f->copy);
    assert_int_equal(mkdir(file, 0700), 0); /* not empty: rename() cannot replace it */
    refused(f, "backup");
    assert_still_old(f);
    assert_int_equal(access(f->part, F_OK), -1);
    assert_int_equal(rmdir(file), 0);
    assert_int_equal(rmdir(f->copy), 0);
}

/* What a full disk does: writing past some size fails. In a process of its own, because the limit
 * is the process's; the index of the write-ahead log, 32 KiB, fits. */
static void test_disk_full(void **state)
{
    struct fixture *f = *state;
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit limit = { 49152, 49152 };
        struct store_config config = { .dir = f->dir };
        struct store *store;

        (void) signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
            _exit(2);
        _exit(store_open(&config, &store, &f->err) < 0 && strstr(f->err.msg, "backup") ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_still_old(f);
    assert_int_equal(access(f->copy, F_OK), -1);
    assert_int_equal(access(f->part, F_OK), -1);
    store_close(harness_open(f->dir));
    assert_int_equal(ask(f->copy, "SELECT count(*) FROM audit_log"), ROWS);
}

/* A command of a newer version must not change the tables under an older service. */
static void test_served(void **state)
{
    struct fixture *f = *state;
    char path[96];
    int fd;

    snprintf(path, sizeof path, "%s/serve.lock", f->dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    refused(f, "stop it first");
    assert_still_old(f);
    assert_int_equal(access(f->copy, F_OK), -1);
    assert_int_equal(close(fd), 0);
    store_close(harness_open(f->dir));
    assert_int_equal(ask(f->path, "PRAGMA user_version"), (int64_t) migrations_len);
    assert_int_equal(unlink(path), 0);
}

/* A process that died in the middle of a copy leaves a part of it. */
static void test_leftover(void **state)
{
    struct fixture *f = *state;
    int fd = open(f->part, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "half", 4), 4);
    assert_int_equal(close(fd), 0);
    store_close(harness_open(f->dir));
    assert_int_equal(access(f->part, F_OK), -1);
    assert_int_equal(ask(f->copy, "PRAGMA user_version"), 1);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_STORE(test_upgrade),         WITH_STORE(test_new_has_no_copy),
        WITH_STORE(test_migration_fails), WITH_STORE(test_no_place_for_the_copy),
        WITH_STORE(test_disk_full),       WITH_STORE(test_leftover),
        WITH_STORE(test_served),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
