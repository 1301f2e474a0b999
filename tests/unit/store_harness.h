/*
 * What the tests of the store and of what stands on it share. Include after cmocka.h.
 *
 * A test program with the argument "postgres" uses the server that the environment variable
 * GB_POSTGRES names (tests/run.py starts one), with a schema for each directory.
 */
#pragma once

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "store/audit.h"

static const char *harness_postgres; /* URL of the server; NULL: SQLite */

/* From the first argument of a test program. False: there is no server, so it was skipped. */
static inline bool harness_choose(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "postgres") != 0)
        return true;
    harness_postgres = getenv("GB_POSTGRES");
    if (harness_postgres && harness_postgres[0])
        return true;
    puts("1..0 # SKIP GB_POSTGRES names no server");
    return false;
}

/* The schema for @dir: the end of its name, spelled in hex, because that has capitals. */
static inline void harness_schema(const char *dir, char ret_schema[64])
{
    const char *end = dir + strlen(dir) - 6;
    int len = snprintf(ret_schema, 64, "test_%d_", (int) getpid());

    for (int i = 0; i < 6; i++)
        len += snprintf(ret_schema + len, 64 - (size_t) len, "%02x", (unsigned char) end[i]);
}

/* How to open the store for @dir; @url is where the URL is put. */
static inline struct store_config harness_config(const char *dir, char url[512])
{
    struct store_config config = { .dir = dir };
    char schema[64];

    if (!harness_postgres)
        return config;
    harness_schema(dir, schema);
    snprintf(url, 512, "%s%cschema=%s", harness_postgres, strchr(harness_postgres, '?') ? '&' : '?',
             schema);
    config.database = url;
    return config;
}

/* Runs SQL in the schema for @dir as somebody else would. "": well; else the SQLSTATE. */
static inline void harness_sql(const char *dir, const char *sql, char ret_state[6])
{
    PGconn *pg = PQconnectdb(harness_postgres);
    char schema[64], set[128];
    const char *state;
    PGresult *result;

    assert_int_equal(PQstatus(pg), CONNECTION_OK);
    harness_schema(dir, schema);
    snprintf(set, sizeof set, "SET client_min_messages TO warning; SET search_path TO %s", schema);
    PQclear(PQexec(pg, set));
    result = PQexec(pg, sql);
    state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    snprintf(ret_state, 6, "%s", state ? state : "");
    PQclear(result);
    PQfinish(pg);
}

/* Removes what there is of the store outside of @dir. */
static inline void harness_forget(const char *dir)
{
    char schema[64], sql[128], state[6];

    if (!harness_postgres)
        return;
    harness_schema(dir, schema);
    snprintf(sql, sizeof sql, "DROP SCHEMA IF EXISTS %s CASCADE", schema);
    harness_sql(dir, sql, state);
    assert_string_equal(state, "");
}

/* Opens the store for @dir; once more is as good as the first time. */
static inline struct store *harness_open(const char *dir)
{
    char url[512];
    struct store_config config = harness_config(dir, url);
    struct store *store = NULL;
    struct gb_err err;

    if (store_open(&config, &store, &err) < 0)
        fail_msg("%s", err.msg);
    return store;
}

/* A store of its own for each test, in a directory that goes afterwards. */
struct harness_store {
    char dir[64];
    struct store *store;
    struct gb_err err;
};

static inline int harness_setup(void **state)
{
    struct harness_store *f = calloc(1, sizeof *f);

    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "/tmp/gbtest-store-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->store = harness_open(f->dir);
    *state = f;
    return 0;
}

static inline int harness_teardown(void **state)
{
    static const char *const names[] = { "glovebox.db", "glovebox.db-wal", "glovebox.db-shm" };
    struct harness_store *f = *state;
    char path[128];

    store_close(f->store);
    harness_forget(f->dir);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
        (void) unlink(path);
    }
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

/* Entry @seq with a hash that its number tells, so that they follow each other. */
static inline struct store_audit harness_entry(int64_t seq, const char *session_id)
{
    static char fields[] = "{\"n\":1}";
    struct store_audit entry = { .seq = seq, .time_us = seq * 10, .fields = fields };

    snprintf(entry.session_id, sizeof entry.session_id, "%s", session_id);
    memset(entry.hash, (int) seq, sizeof entry.hash);
    memset(entry.prev, (int) seq - 1, sizeof entry.prev);
    return entry;
}

static inline void harness_append(struct store *store, int64_t from, int64_t to,
                                  const char *session_id)
{
    struct gb_err err;

    for (int64_t seq = from; seq <= to; seq++) {
        struct store_audit entry = harness_entry(seq, session_id);

        assert_int_equal(store_audit_append(store, &entry, 1, &err), 0);
    }
}
