/* The store in PostgreSQL: where it may be, what it refuses, and a server that goes away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "store/audit.h"
#include "store/chats.h"
#include "store/internal.h"
#include "store/keys.h"
#include "store/migrations.h"
#include "store/users.h"

#include "store_harness.h"

#include "base/banned.h"

#define SECRET "s3cret-word"

static void assert_state(struct harness_store *f, const char *sql, const char *want)
{
    char state[6];

    harness_sql(f->dir, sql, state);
    if (strcmp(state, want) != 0)
        fail_msg("%s: SQLSTATE '%s'", sql, state);
}

static void assert_refused(struct harness_store *f, int code, const char *word)
{
    char url[512];
    struct store_config config = harness_config(f->dir, url);
    struct store *store = NULL;

    assert_int_equal(store_open(&config, &store, &f->err), -code);
    assert_null(store);
    if (!strstr(f->err.msg, word))
        fail_msg("'%s' is not in: %s", word, f->err.msg);
}

/* ---- where it may be ---- */

static void test_urls(void **state)
{
    static const struct {
        const char *url, *word;
    } bad[] = {
        { "mysql://u:" SECRET "@localhost/x", "postgresql://" },
        { "", "postgresql://" },
        { "postgresql://u:" SECRET "%zz@localhost/x", "not a valid URL" },
        { "postgresql://u:" SECRET "@localhost/x?nonsense=1", "not a valid URL" },
        { "postgresql://u:" SECRET "@localhost:port:x/x", "" },
        { "postgresql://u:" SECRET "@db.example.com/x", "sslmode=verify-full" },
        { "postgresql://u:" SECRET "@db.example.com/x?sslmode=require", "sslmode=verify-full" },
        { "postgresql://u:" SECRET "@localhost,db.example.com/x", "sslmode=verify-full" },
        { "postgresql://u:" SECRET "@localhost/x?hostaddr=192.0.2.1", "sslmode=verify-full" },
        { "postgresql://u:" SECRET "@[2001:db8::1]/x?sslmode=prefer", "sslmode=verify-full" },
        { "postgresql://u:" SECRET "@127.0.0.1.example.com/x", "sslmode=verify-full" },
        { "postgresql://u@localhost/x?schema=", "schema" },
        { "postgresql://u@localhost/x?schema=pg_mine", "schema" },
        { "postgresql://u@localhost/x?schema=a%22b", "schema" },
        { "postgresql://u@localhost/x?a=b&schema=1a", "schema" },
        { "postgresql://u:" SECRET "@127.0.0.1:1/x?schema=good", "connect" },
        { "postgresql://u:" SECRET "@/x?host=/nonexistent", "connect" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct store_config config = { .database = bad[i].url };
        struct store *store = NULL;
        struct gb_err err = { 0 };

        assert_true(store_open(&config, &store, &err) < 0);
        assert_null(store);
        if (!strstr(err.msg, bad[i].word) || strstr(err.msg, SECRET))
            fail_msg("%s: %s", bad[i].url, err.msg);
    }
}

/* The environment cannot weaken what the URL has to say about TLS. */
static void test_environment(void **state)
{
    struct store_config config = { .database = "postgresql://u:" SECRET "@/x" };
    struct store *store = NULL;
    struct gb_err err = { 0 };

    (void) state;
    assert_int_equal(setenv("PGHOST", "db.example.com", 1), 0);
    assert_int_equal(store_open(&config, &store, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "sslmode=verify-full"));
    assert_int_equal(unsetenv("PGHOST"), 0);
    assert_int_equal(setenv("PGHOSTADDR", "192.0.2.1", 1), 0);
    config.database = "postgresql://u:" SECRET "@localhost/x";
    assert_int_equal(store_open(&config, &store, &err), -EINVAL);
    assert_int_equal(unsetenv("PGHOSTADDR"), 0);
}

static void test_password_files(void **state)
{
    static const struct {
        const char *text;
        mode_t mode;
        const char *word;
    } files[] = {
        { SECRET "\n", 0644, "chmod 600" },
        { "", 0600, "one line" },
        { "\n\n", 0600, "one line" },
        { SECRET "\n", 0600, "connect" }, /* nobody is there to ask for it */
    };
    char path[] = "/tmp/gbtest-password-XXXXXX";
    struct store_config config = { .database = "postgresql://u@127.0.0.1:1/x",
                                   .database_password_file = path };
    struct store *store = NULL;
    struct gb_err err;
    int fd = mkstemp(path);

    (void) state;
    assert_true(fd >= 0);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, files[i].text, strlen(files[i].text), 0),
                         (ssize_t) strlen(files[i].text));
        assert_int_equal(fchmod(fd, files[i].mode), 0);
        assert_true(store_open(&config, &store, &err) < 0);
        if (!strstr(err.msg, files[i].word) || strstr(err.msg, SECRET))
            fail_msg("%s", err.msg);
    }
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(store_open(&config, &store, &err), -ENOENT);
}

/* ---- what is there ---- */

static void test_refuses_versions(void **state)
{
    struct harness_store *f = *state;

    assert_state(f, "UPDATE glovebox_version SET version = 99", "");
    assert_refused(f, EPROTONOSUPPORT, "newer Glovebox");
    assert_state(f, "UPDATE glovebox_version SET version = -1", "");
    assert_refused(f, EUCLEAN, "damaged");
    assert_state(f, "DROP TABLE glovebox_version", "");
    assert_refused(f, EUCLEAN, "another program");
}

static void test_refuses_open_schemas(void **state)
{
    struct harness_store *f = *state;
    char schema[64], sql[128];

    harness_schema(f->dir, schema);
    snprintf(sql, sizeof sql, "GRANT CREATE ON SCHEMA %s TO PUBLIC", schema);
    assert_state(f, sql, "");
    assert_refused(f, EPERM, "REVOKE CREATE");
}

static void test_must_exist(void **state)
{
    struct harness_store *f = *state;
    char url[512];
    struct store_config config = harness_config(f->dir, url);
    struct store *store = NULL;

    config.must_exist = true;
    assert_int_equal(store_open(&config, &store, &f->err), 0);
    store_close(store);
    store_close(f->store);
    harness_forget(f->dir);
    assert_int_equal(store_open(&config, &store, &f->err), -ENOENT);
    f->store = harness_open(f->dir);
}

static void test_append_only(void **state)
{
    static const char *const refused[] = {
        "UPDATE audit_log SET fields = 'x' WHERE seq = 1",
        "DELETE FROM audit_log WHERE seq = 2",
        "TRUNCATE audit_log",
        ("INSERT INTO audit_log VALUES (1, 1, NULL, '', '', '')"
         " ON CONFLICT (seq) DO UPDATE SET seq = 9"),
        "DELETE FROM audit_head",
        "TRUNCATE audit_head",
        "UPDATE audit_head SET seq = 1",
    };
    struct harness_store *f = *state;

    harness_append(f->store, 1, 2, "");
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        assert_state(f, refused[i], "23001");
}

static void test_malformed(void **state)
{
    struct harness_store *f = *state;
    struct store_audit_query query = { INT64_MIN, INT64_MIN, NULL, 10, false, 0 };
    struct store_audit *got;
    size_t len;

    assert_state(f, "INSERT INTO audit_log VALUES (1, 1, 'a b', 'x', 'y', repeat('z', 200000))",
                 "");
    assert_int_equal(store_audit_list(f->store, &query, &got, &len, &f->err), 0);
    assert_int_equal(len, 1);
    assert_true(got[0].malformed);
    store_audit_free(got, len);
}

/* Tables of version 1, with rows, become those of today; by two at once, only one does it. */
static void *open_one(void *arg)
{
    struct harness_store *f = arg;
    char url[512];
    struct store_config config = harness_config(f->dir, url);
    struct store *store = NULL;
    struct gb_err err;

    if (store_open(&config, &store, &err) < 0)
        return strdup(err.msg);
    store_close(store);
    return NULL;
}

static void open_at_once(struct harness_store *f)
{
    pthread_t threads[4];

    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_one, f), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        void *why = NULL;

        assert_int_equal(pthread_join(threads[i], &why), 0);
        if (why)
            fail_msg("%s", (char *) why);
    }
}

static void test_upgrade(void **state)
{
    struct harness_store *f = *state;
    char schema[64], sql[128];
    struct store_key *keys;
    size_t len;

    store_close(f->store);
    f->store = NULL;
    harness_forget(f->dir);
    harness_schema(f->dir, schema);
    snprintf(sql, sizeof sql, "CREATE SCHEMA %s", schema);
    assert_state(f, sql, "");
    assert_state(f, migrations[0].tables, "");
    assert_state(f, migrations[0].postgres, "");
    assert_state(f,
                 "CREATE TABLE glovebox_version (version BIGINT NOT NULL); INSERT INTO "
                 "glovebox_version VALUES (1); INSERT INTO api_keys VALUES ('k1', 'ci', "
                 "repeat('ab', 32), 5, NULL, NULL, 3, NULL, 60); INSERT INTO sessions VALUES "
                 "('s1', 'k1', 10, 20, 30, 'expired')",
                 "");
    open_at_once(f);
    f->store = harness_open(f->dir);
    assert_int_equal(store_key_list(f->store, &keys, &len, &f->err), 0);
    assert_int_equal(len, 1);
    assert_string_equal(keys[0].name, "ci");
    free(keys);
    assert_state(f, "SELECT owner FROM sessions WHERE id = 's1'", "");
}

/* A migration that fails leaves what there was. */
static void test_upgrade_fails(void **state)
{
    struct harness_store *f = *state;
    char schema[64], sql[128];

    store_close(f->store);
    f->store = NULL;
    harness_forget(f->dir);
    harness_schema(f->dir, schema);
    snprintf(sql, sizeof sql, "CREATE SCHEMA %s", schema);
    assert_state(f, sql, "");
    assert_state(f, migrations[0].tables, "");
    assert_state(f,
                 "CREATE TABLE glovebox_version (version BIGINT NOT NULL); INSERT INTO "
                 "glovebox_version VALUES (1); CREATE TABLE sessions_002 (a INT)",
                 "");
    assert_refused(f, EIO, "sessions_002");
    assert_state(f, "SELECT 1 FROM mark_users", "42P01");
    assert_state(f, "DROP TABLE sessions_002", "");
    f->store = harness_open(f->dir);
}

static void test_first_opening_by_several(void **state)
{
    struct harness_store *f = *state;

    store_close(f->store);
    harness_forget(f->dir);
    open_at_once(f);
    f->store = harness_open(f->dir);
}

/* ---- a server that goes away ---- */

/* Ends all connections to the schema's store but that which asks. */
static void hang_up(struct harness_store *f)
{
    assert_state(f,
                 "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE "
                 "application_name = 'glovebox' AND pid <> pg_backend_pid() AND datname = "
                 "current_database()",
                 "");
}

static void test_reconnects(void **state)
{
    struct harness_store *f = *state;
    struct store_head head;

    harness_append(f->store, 1, 1, "");
    for (int i = 2; i < 5; i++) {
        hang_up(f);
        harness_append(f->store, i, i, ""); /* writes first */
        hang_up(f);
        assert_int_equal(store_audit_head(f->store, &head, &f->err), 0);
        assert_int_equal(head.seq, i);
    }
}

static const struct db_statement put_budget = {
    DB_WRITE,
    "INSERT INTO mark_budgets (who, tokens) VALUES (?1, ?2)",
    "put",
};
static const struct db_statement get_budget = {
    DB_READ,
    "SELECT tokens FROM mark_budgets WHERE who = ?1",
    "get",
};

static int64_t tokens_of(struct harness_store *f, const char *who)
{
    struct db *db = f->store->db;
    struct db_query q;
    int64_t tokens;

    db_read_begin(db);
    q = db_query_begin(db, &get_budget, "t", who);
    tokens = db_query_step(&q, &f->err) > 0 ? db_column_optional(&q, 0, -2) : -1;
    db_query_end(&q);
    db_read_end(db);
    return tokens;
}

/* In the middle of a transaction: the caller is told, and nothing of it has happened. */
static void test_lost_in_a_transaction(void **state)
{
    struct harness_store *f = *state;
    struct db *db = f->store->db;
    int r;

    assert_int_equal(db_write_begin(db, true, &f->err), 0);
    assert_int_equal(db_run(db, &f->err, &put_budget, "ti", "a", INT64_C(1)), 1);
    hang_up(f);
    r = db_run(db, &f->err, &put_budget, "ti", "b", INT64_C(1));
    assert_true(r < 0);
    assert_non_null(strstr(f->err.msg, "lost"));
    assert_true(db_write_end(db, r, &f->err) < 0);
    assert_int_equal(tokens_of(f, "a"), -1);

    /* before the commit */
    assert_int_equal(db_write_begin(db, true, &f->err), 0);
    assert_int_equal(db_run(db, &f->err, &put_budget, "ti", "a", INT64_C(1)), 1);
    hang_up(f);
    assert_true(db_write_end(db, 0, &f->err) < 0);
    assert_non_null(strstr(f->err.msg, "nothing was written"));
    assert_int_equal(tokens_of(f, "a"), -1);
    assert_int_equal(db_write(db, true, &f->err, &put_budget, "ti", "a", INT64_C(3)), 1);
    assert_int_equal(tokens_of(f, "a"), 3);
}

/* A statement fails: the transaction cannot be committed as if nothing had happened. */
static void test_failed_statement(void **state)
{
    struct harness_store *f = *state;
    struct db *db = f->store->db;

    assert_int_equal(db_write_begin(db, true, &f->err), 0);
    assert_int_equal(db_run(db, &f->err, &put_budget, "ti", "a", INT64_C(1)), 1);
    assert_int_equal(db_run(db, &f->err, &put_budget, "ti", "a", INT64_C(1)), -EEXIST);
    assert_true(db_write_end(db, 0, &f->err) < 0);
    assert_int_equal(tokens_of(f, "a"), -1);
}

/* Whoever serves and lost its connection to another server process of the same store finds out. */
static void test_another_took_over(void **state)
{
    struct harness_store *f = *state;
    char url[512];
    struct store_config config = harness_config(f->dir, url);
    struct store *one = NULL, *two = NULL;
    struct store_key key = { .id = "k1",
                             .sessions = STORE_LIMIT_DEFAULT,
                             .executions = STORE_LIMIT_DEFAULT,
                             .rate_per_minute = STORE_LIMIT_DEFAULT };

    config.dir = NULL; /* as if on another machine */
    config.exclusive = true;
    assert_int_equal(store_open(&config, &one, &f->err), 0);
    assert_int_equal(store_open(&config, &two, &f->err), -EBUSY);
    assert_non_null(strstr(f->err.msg, "already serving"));
    hang_up(f);
    assert_int_equal(store_open(&config, &two, &f->err), 0);
    assert_true(store_key_add(one, &key, &f->err) < 0);
    assert_non_null(strstr(f->err.msg, "already serving"));
    assert_int_equal(store_key_add(two, &key, &f->err), 0);
    store_close(two);
    store_close(one);
}

/* ---- a database of its own: other tests do not want to be hung up on ---- */

static char database[64], url_of_database[512];
static const char *server;

static int run_on_server(const char *format)
{
    PGconn *pg = PQconnectdb(server);
    PGresult *result;
    char sql[128];
    bool good;

    (void) snprintf(sql, sizeof sql, "%s %s", format, database);
    result = PQexec(pg, sql);
    good = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    PQfinish(pg);
    return good ? 0 : -1;
}

static int setup_all(void **state)
{
    (void) state;
    server = harness_postgres;
    (void) snprintf(database, sizeof database, "gbtest_%d", (int) getpid());
    (void) snprintf(url_of_database, sizeof url_of_database, "%s%cdbname=%s", server,
                    strchr(server, '?') ? '&' : '?', database);
    harness_postgres = url_of_database;
    return run_on_server("CREATE DATABASE");
}

static int teardown_all(void **state)
{
    (void) state;
    return run_on_server("DROP DATABASE");
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, harness_setup, harness_teardown)

int main(void)
{
    char *args[] = { "", "postgres", NULL };
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_password_files),
        WITH_STORE(test_refuses_versions),
        WITH_STORE(test_refuses_open_schemas),
        WITH_STORE(test_must_exist),
        WITH_STORE(test_append_only),
        WITH_STORE(test_malformed),
        WITH_STORE(test_upgrade),
        WITH_STORE(test_upgrade_fails),
        WITH_STORE(test_first_opening_by_several),
        WITH_STORE(test_reconnects),
        WITH_STORE(test_lost_in_a_transaction),
        WITH_STORE(test_failed_statement),
        WITH_STORE(test_another_took_over),
    };

    if (!harness_choose(2, args))
        return 0;
    return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
