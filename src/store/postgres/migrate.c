/*
 * The tables, in a schema of their own.
 *
 * The version is a row of glovebox_version, which is also the table that writers lock (backend.c).
 * Two processes that open a new database at the same time are kept apart by an advisory lock; one
 * of them makes the tables, in one transaction, and the other finds them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/parse.h"
#include "store/migrations.h"
#include "store/postgres/internal.h"

#include "base/banned.h"

#define MIGRATE_MSEC (60 * 60 * 1000)

/* What is there. */
struct found {
    int64_t version; /* 0: no tables */
    bool schema, others, is_open;
};

/* Texts compare by their bytes, as they do in SQLite, whatever the database's own collation. */
static const char collate_sql[] =
    "DO $$ DECLARE c record; BEGIN "
    "FOR c IN SELECT r.relname, a.attname FROM pg_catalog.pg_attribute a "
    "JOIN pg_catalog.pg_class r ON r.oid = a.attrelid "
    "WHERE r.relnamespace = pg_catalog.current_schema()::regnamespace AND r.relkind = 'r' "
    "AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = 'text'::regtype "
    "AND a.attcollation <> (SELECT oid FROM pg_catalog.pg_collation WHERE collname = 'C' "
    "AND collnamespace = 'pg_catalog'::regnamespace) "
    "LOOP EXECUTE format('ALTER TABLE %I ALTER COLUMN %I TYPE text COLLATE \"C\"', "
    "c.relname, c.attname); END LOOP; END $$";

static bool is_true(const PGresult *result, int column)
{
    return strcmp(PQgetvalue(result, 0, column), "t") == 0;
}

/* Refuses a server that cannot hold the store. */
static int check_server(struct pg_conn *conn, struct gb_err *err)
{
    PGresult *result = NULL;
    int r = conn_exec(conn, PG_HANG_MSEC,
                      "SELECT current_setting('server_encoding') = 'UTF8', pg_is_in_recovery()",
                      &result);

    if (r != 0)
        return conn_error(conn, "look at the database", err);
    if (!is_true(result, 0))
        r = gb_fail_plain(err, EINVAL,
                          "the database's encoding must be UTF8; create one with "
                          "CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0");
    else if (PQserverVersion(conn->pg) < 130000)
        r = gb_fail_plain(err, EPROTONOSUPPORT, "PostgreSQL 13 or newer is needed");
    else if (is_true(result, 1))
        r = gb_fail_plain(err, EROFS, "the database is a standby; connect to the primary");
    PQclear(result);
    return r;
}

static int read_version(struct pg_conn *conn, int64_t *ret_version, struct gb_err *err)
{
    PGresult *result = NULL;
    int r = conn_exec(conn, PG_HANG_MSEC, "SELECT version FROM glovebox_version", &result);

    if (r != 0)
        return conn_error(conn, "read the version", err);
    if (PQntuples(result) != 1 || parse_int(PQgetvalue(result, 0, 0), ret_version) < 0 ||
        *ret_version < 1)
        r = gb_fail_plain(err, EUCLEAN, "store: the version of the tables is damaged");
    PQclear(result);
    return r;
}

static int look(struct pg_conn *conn, struct found *ret_found, struct gb_err *err)
{
    const char *schema = conn->target->schema;
    struct found found = { 0 };
    PGresult *result = NULL;
    char sql[512];
    int r;

    (void) snprintf(sql, sizeof sql,
                    "SELECT n.oid IS NOT NULL, to_regclass('\"%s\".glovebox_version') IS NOT NULL, "
                    "EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid), "
                    "COALESCE(has_schema_privilege('public', n.oid, 'CREATE'), false) "
                    "FROM (SELECT to_regnamespace('\"%s\"')::oid AS oid) n",
                    schema, schema);
    r = conn_exec(conn, PG_HANG_MSEC, sql, &result);
    if (r != 0)
        return conn_error(conn, "look at the database", err);
    found.schema = is_true(result, 0);
    found.others = is_true(result, 2) && !is_true(result, 1);
    found.is_open = is_true(result, 3);
    if (is_true(result, 1))
        r = read_version(conn, &found.version, err);
    PQclear(result);
    if (r == 0)
        *ret_found = found;
    return r;
}

/* As with files and directories: nothing of other programs, and nothing that others can change. */
static int check_found(const struct pg_conn *conn, const struct found *found, struct gb_err *err)
{
    const char *schema = conn->target->schema;

    if (found->others)
        return gb_fail_plain(err, EUCLEAN,
                             "schema '%s' of the database has tables of another program; choose "
                             "another with ?schema=NAME",
                             schema);
    if (found->is_open)
        return gb_fail_plain(err, EPERM,
                             "anybody may create objects in schema '%s' of the database; run "
                             "REVOKE CREATE ON SCHEMA %s FROM PUBLIC",
                             schema, schema);
    if (found->version > (int64_t) migrations_len)
        return gb_fail_plain(err, EPROTONOSUPPORT,
                             "schema '%s' was created by a newer Glovebox: its version is %lld, "
                             "and this one supports up to %zu",
                             schema, (long long) found->version, migrations_len);
    return 0;
}

/* ---- one transaction ---- */

static int run(struct pg_conn *conn, const char *sql, const char *what, struct gb_err *err)
{
    return conn_exec(conn, MIGRATE_MSEC, sql, NULL) == 0 ? 0 : conn_error(conn, what, err);
}

static int begin(struct pg_conn *conn, struct gb_err *err)
{
    char sql[256];
    int key[2];

    target_lock_key(conn->target, PG_LOCK_MIGRATE, key);
    (void) snprintf(sql, sizeof sql,
                    "BEGIN; SET LOCAL statement_timeout TO 0; SET LOCAL lock_timeout TO %d; "
                    "SELECT pg_advisory_xact_lock(%d, %d)",
                    2 * PG_LOCK_MSEC, key[0], key[1]);
    return run(conn, sql, "wait for another process that creates tables", err);
}

/* Whoever serves must not have its tables changed. Our own lock, if we serve, is no obstacle. */
static int check_served(struct pg_conn *conn, struct gb_err *err)
{
    PGresult *result = NULL;
    char sql[96];
    int key[2], r;

    target_lock_key(conn->target, PG_LOCK_SERVE, key);
    (void) snprintf(sql, sizeof sql, "SELECT pg_try_advisory_xact_lock(%d, %d)", key[0], key[1]);
    if (conn_exec(conn, PG_HANG_MSEC, sql, &result) != 0)
        return conn_error(conn, "look who serves", err);
    r = is_true(result, 0)
            ? 0
            : gb_fail_plain(err, EBUSY,
                            "an older Glovebox is serving from this database, and would not "
                            "understand its tables after an update; stop it first");
    PQclear(result);
    return r;
}

static int make_schema(struct pg_conn *conn, const struct found *found, struct gb_err *err)
{
    char sql[128];

    (void) snprintf(sql, sizeof sql, "CREATE SCHEMA \"%s\"", conn->target->schema);
    if (!found->schema) {
        int r = run(conn, sql, "create the schema", err);

        if (r < 0)
            return r;
    }
    return run(conn,
               "CREATE TABLE glovebox_version (version BIGINT NOT NULL); "
               "INSERT INTO glovebox_version (version) VALUES (0)",
               "create tables", err);
}

static int make_step(struct pg_conn *conn, size_t from, struct gb_err *err)
{
    char sql[96];
    int r = run(conn, migrations[from].tables, "create tables", err);

    if (r == 0)
        r = run(conn, migrations[from].postgres, "create triggers", err);
    if (r == 0)
        r = run(conn, collate_sql, "set collations", err);
    (void) snprintf(sql, sizeof sql, "UPDATE glovebox_version SET version = %zu", from + 1);
    return r == 0 ? run(conn, sql, "record the version", err) : r;
}

static int migrate(struct pg_conn *conn, struct gb_err *err)
{
    struct found found;
    int r = look(conn, &found, err); /* again: another process may have been first */

    if (r == 0)
        r = check_found(conn, &found, err);
    if (r < 0 || found.version == (int64_t) migrations_len)
        return r;
    r = check_served(conn, err);
    if (r == 0 && found.version == 0)
        r = make_schema(conn, &found, err);
    if (r == 0 && found.version > 0)
        r = run(conn, "LOCK TABLE glovebox_version IN EXCLUSIVE MODE", "lock tables", err);
    for (size_t from = (size_t) found.version; r == 0 && from < migrations_len; from++)
        r = make_step(conn, from, err);
    return r;
}

int migrate_run(struct pg_conn *conn, bool must_exist, struct gb_err *err)
{
    struct found found;
    int r = check_server(conn, err);

    if (r == 0)
        r = look(conn, &found, err);
    if (r == 0)
        r = check_found(conn, &found, err);
    if (r < 0 || found.version == (int64_t) migrations_len)
        return r;
    if (must_exist && found.version == 0)
        return gb_fail_plain(err, ENOENT, "there is no store in schema '%s' of the database",
                             conn->target->schema);
    r = begin(conn, err);
    if (r == 0)
        r = migrate(conn, err);
    if (r == 0)
        r = run(conn, "COMMIT", "commit", err);
    if (r < 0 && conn->pg)
        (void) conn_exec(conn, PG_HANG_MSEC, "ROLLBACK", NULL);
    return r;
}
