/*
 * One connection to PostgreSQL: connecting, waiting with a limit, what went wrong.
 *
 * libpq's blocking calls wait for as long as a server keeps quiet. So only the others are used
 * here, each with poll() and a deadline: a server that hangs is hung up on.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "store/postgres/internal.h"

#include "base/banned.h"

/* For a server that restarts, and for our own lock on a connection that has just broken. */
#define PATIENT_USEC      (6 * USEC_PER_SEC)
#define PATIENT_BUSY_USEC (3 * USEC_PER_SEC)
#define PAUSE_NSEC        100000000
#define FRESH_USEC        USEC_PER_SEC /* a failure that is younger is reported again */
#define DRAIN_BYTES_MAX   (1 << 20)

/* ---- errors ---- */

int conn_fail(struct pg_conn *conn, int code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(conn->words, sizeof conn->words, fmt, args);
    va_end(args);
    /* One line; and a server must not be able to make us show the password we sent it. */
    conn->words[strcspn(conn->words, "\n")] = '\0';
    for (char *c = conn->words; *c; c++)
        if ((unsigned char) *c < ' ' || *c == 127)
            *c = ' ';
    if (conn->target->password && strstr(conn->words, conn->target->password))
        (void) snprintf(conn->words, sizeof conn->words, "the server's message is not shown");
    conn->code = code;
    return code;
}

int conn_error(const struct pg_conn *conn, const char *what, struct gb_err *err)
{
    return gb_fail_plain(err, conn->code ? conn->code : EIO, "store: %s: %s", what, conn->words);
}

bool conn_is_lost(const struct pg_conn *conn)
{
    return !conn->pg;
}

static int errno_of(const char *state)
{
    static const struct {
        const char *state;
        int code;
    } codes[] = {
        { "23505", EEXIST },     { "23503", ENOENT },     { "23", EPERM },
        { "P0001", EPERM },      { "22021", EINVAL },     { "25006", EROFS },
        { "28", EACCES },        { "40", EBUSY },         { "42501", EACCES },
        { "53100", ENOSPC },     { "53200", ENOMEM },     { "53300", EAGAIN },
        { "54", E2BIG },         { "55P03", EBUSY },      { "57014", ETIMEDOUT },
        { "57P", ECONNRESET }, /* shut down by an administrator, or by a crash of another */
        { "25P03", ECONNRESET }, { "25P04", ECONNRESET }, { "08", ECONNRESET },
        { "XX001", EUCLEAN },    { "XX002", EUCLEAN },
    };

    for (size_t i = 0; state && i < sizeof codes / sizeof codes[0]; i++)
        if (strncmp(state, codes[i].state, strlen(codes[i].state)) == 0)
            return codes[i].code;
    return EIO;
}

/* Without DETAIL, which quotes values. */
static int fail_result(struct pg_conn *conn, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    int code = state ? errno_of(state) : ECONNRESET;

    if (code != ECONNRESET)
        return conn_fail(conn, code, "%s", text ? text : "the server refused it");
    (void) conn_fail(conn, code, "the connection to the database was lost%s%s", text ? ": " : "",
                     text ? text : "");
    conn_drop(conn);
    return code;
}

static int fail_lost(struct pg_conn *conn)
{
    conn_drop(conn);
    return conn_fail(conn, ECONNRESET, "the connection to the database was lost");
}

/* ---- waiting ---- */

/* 0, ETIMEDOUT, or another errno. */
static int wait_for(int fd, short events, int64_t until_us)
{
    struct pollfd wanted = { .fd = fd, .events = events };

    for (;;) {
        int64_t left = (until_us - clock_now_us()) / USEC_PER_MSEC;
        int n;

        if (left < 0)
            return ETIMEDOUT;
        n = poll(&wanted, 1, left > 60000 ? 60000 : (int) left + 1);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return errno;
    }
}

static bool is_good(ExecStatusType status)
{
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ||
           status == PGRES_SINGLE_TUPLE || status == PGRES_EMPTY_QUERY;
}

int conn_result(struct pg_conn *conn, int64_t timeout_ms, PGresult **ret_result)
{
    int64_t until_us = clock_now_us() + timeout_ms * USEC_PER_MSEC;
    PGresult *result;
    int r;

    for (;;) {
        int unsent = PQflush(conn->pg);

        if (unsent < 0)
            return fail_lost(conn);
        if (unsent == 0 && !PQisBusy(conn->pg))
            break;
        r = wait_for(PQsocket(conn->pg), (short) (POLLIN | (unsent ? POLLOUT : 0)), until_us);
        if (r == ETIMEDOUT) {
            conn_drop(conn);
            return conn_fail(conn, ETIMEDOUT, "the database does not answer");
        }
        if (r != 0 || !PQconsumeInput(conn->pg))
            return fail_lost(conn);
    }
    result = PQgetResult(conn->pg);
    if (!result || is_good(PQresultStatus(result))) {
        *ret_result = result;
        return 0;
    }
    r = fail_result(conn, result);
    PQclear(result);
    return r;
}

/* After the first result, whether it was a failure or not: until there is no other. */
static int finish(struct pg_conn *conn, int64_t timeout_ms, int failed, PGresult **last)
{
    while (conn->pg) {
        PGresult *next = NULL;
        char words[sizeof conn->words];
        int r;

        memcpy(words, conn->words, sizeof words);
        r = conn_result(conn, timeout_ms, &next);
        if (failed) { /* the first failure counts */
            memcpy(conn->words, words, sizeof words);
            conn->code = failed;
        }
        failed = failed ? failed : r;
        if (r == 0 && !next)
            break;
        if (next) {
            PQclear(*last);
            *last = next;
        }
    }
    return failed;
}

int conn_exec(struct pg_conn *conn, int64_t timeout_ms, const char *sql, PGresult **ret_result)
{
    PGresult *last = NULL;
    int r;

    if (!conn->pg)
        return conn_fail(conn, ECONNRESET, "not connected to the database");
    r = PQsendQuery(conn->pg, sql) ? 0 : fail_lost(conn);
    r = finish(conn, timeout_ms, r, &last);
    if (r == 0 && ret_result && last)
        *ret_result = last;
    else
        PQclear(last);
    return r == 0 && ret_result && !last ? conn_fail(conn, EIO, "the database sent no result") : r;
}

void conn_drain(struct pg_conn *conn)
{
    size_t bytes = 0;

    while (conn->pg) {
        PGresult *result = NULL;
        int r = conn_result(conn, PG_HANG_MSEC, &result);

        if (r == 0 && !result)
            break;
        for (int i = 0; result && PQntuples(result) > 0 && i < PQnfields(result); i++)
            bytes += (size_t) PQgetlength(result, 0, i);
        PQclear(result);
        /* Only those that read: in a transaction this would undo it. */
        if (bytes > DRAIN_BYTES_MAX && conn->side == DB_READ)
            conn_drop(conn);
    }
    conn->streams = false;
}

/* ---- connecting ---- */

static void be_quiet(void *arg, const PGresult *result)
{
    (void) arg;
    (void) result;
}

void conn_drop(struct pg_conn *conn)
{
    PQfinish(conn->pg);
    conn->pg = NULL;
    conn->streams = false;
    memset(conn->prepared, 0, sizeof conn->prepared);
}

static int start(struct pg_conn *conn)
{
    const struct pg_target *target = conn->target;
    int64_t until_us = clock_now_us() + PG_CONNECT_MSEC * USEC_PER_MSEC;
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;

    conn->pg = PQconnectStartParams((const char *const *) target->keywords,
                                    (const char *const *) target->values, 0);
    if (!conn->pg)
        return conn_fail(conn, ENOMEM, "out of memory");
    (void) PQsetNoticeReceiver(conn->pg, be_quiet, NULL);
    while (PQstatus(conn->pg) != CONNECTION_BAD && state != PGRES_POLLING_OK &&
           state != PGRES_POLLING_FAILED) {
        short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        int r = wait_for(PQsocket(conn->pg), events, until_us);

        if (r != 0) {
            conn_drop(conn);
            return conn_fail(conn, ETIMEDOUT, "the database does not answer within %d seconds",
                             PG_CONNECT_MSEC / 1000);
        }
        state = PQconnectPoll(conn->pg);
    }
    if (PQstatus(conn->pg) == CONNECTION_OK && PQsetnonblocking(conn->pg, 1) == 0)
        return 0;
    (void) conn_fail(conn, ECONNREFUSED, "%s", PQerrorMessage(conn->pg));
    conn_drop(conn);
    return conn->code;
}

/* pg_temp is named so that it comes last: it would be searched first otherwise. */
static int set_up(struct pg_conn *conn)
{
    char sql[640];

    (void) snprintf(sql, sizeof sql,
                    "SET search_path TO \"%s\", pg_temp; SET statement_timeout TO %d; "
                    "SET lock_timeout TO %d; SET idle_in_transaction_session_timeout TO %d; "
                    "SET client_min_messages TO warning; SET standard_conforming_strings TO on; "
                    "SET default_transaction_isolation TO 'read committed'; "
                    "SET default_transaction_read_only TO %s; SET tcp_keepalives_idle TO 30; "
                    "SET tcp_keepalives_interval TO 10; SET tcp_keepalives_count TO 3",
                    conn->target->schema, PG_STATEMENT_MSEC, PG_LOCK_MSEC, PG_STATEMENT_MSEC,
                    conn->side == DB_READ ? "on" : "off");
    return conn_exec(conn, PG_CONNECT_MSEC, sql, NULL);
}

/* The lock goes with the connection, on which everything is written: who has lost it cannot write
 * any more. */
static int take_serve_lock(struct pg_conn *conn)
{
    PGresult *result = NULL;
    char sql[96];
    int key[2], r;

    target_lock_key(conn->target, PG_LOCK_SERVE, key);
    (void) snprintf(sql, sizeof sql, "SELECT pg_try_advisory_lock(%d, %d)", key[0], key[1]);
    r = conn_exec(conn, PG_CONNECT_MSEC, sql, &result);
    if (r == 0 && (PQntuples(result) != 1 || strcmp(PQgetvalue(result, 0, 0), "t") != 0))
        r = conn_fail(conn, EBUSY,
                      "another glovebox is already serving from schema '%s' of this database; "
                      "choose another with ?schema=NAME",
                      conn->target->schema);
    PQclear(result);
    return r;
}

static int connect_once(struct pg_conn *conn)
{
    int r = start(conn);

    if (r == 0)
        r = set_up(conn);
    if (r == 0 && conn->serves)
        r = take_serve_lock(conn);
    if (r != 0)
        conn_drop(conn);
    return r;
}

int conn_connect(struct pg_conn *conn, bool patient)
{
    static const struct timespec pause = { .tv_nsec = PAUSE_NSEC };
    int64_t start_us = clock_now_us();
    int r;

    if (conn->pg)
        return 0;
    /* Those who waited for this connection all the time need not wait for it once more each. */
    if (conn->tried_us && start_us - conn->tried_us < FRESH_USEC)
        return conn->code ? conn->code : EIO;
    patient = patient && !conn->tried_us;
    for (;;) {
        r = connect_once(conn);
        if (r == 0 || !patient ||
            clock_now_us() - start_us > (r == EBUSY ? PATIENT_BUSY_USEC : PATIENT_USEC))
            break;
        (void) nanosleep(&pause, NULL);
    }
    conn->tried_us = r == 0 ? 0 : clock_now_us();
    return r;
}
