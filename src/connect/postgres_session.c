/*
 * A connection to PostgreSQL, and the transaction that everything happens in.
 *
 * libpq is used without blocking: pg_wait() is the only place that waits, for the server, for the
 * broker (which hangs up to cancel) and for the deadline. The exceptions are the look-up of a
 * host's name, which resolv.conf's options bound, and PQcancel(), which has a thread of its own
 * that nobody waits for longer than CANCEL_SECONDS.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "connect/postgres_internal.h"

#include "base/banned.h"

#define CONNECT_SECONDS 15
#define CANCEL_SECONDS  2 /* less than the grace of order_arm() */
#define NOTICES_MAX     20
#define NOTICE_BYTES    300
#define PORT_DEFAULT    5432
#define NOWHERE         "/nonexistent/glovebox" /* so that libpq looks in no home directory */

static char root_cert[64]; /* the path of the certificates, chosen before the seal */

static const char *const system_stores[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
};

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

int pg_prepare(const struct order *order, struct driver_error *error)
{
    const char *pem = text_of(json_object_get(order->json, "source"), "sslrootcert");
    int fd;

    if (!*pem) {
        for (size_t i = 0; i < ARRAY_LEN(system_stores) && !*root_cert; i++)
            if (access(system_stores[i], R_OK) == 0)
                snprintf(root_cert, sizeof root_cert, "%s", system_stores[i]);
        return 0;
    }
    fd = memfd_create("ca", MFD_CLOEXEC);
    if (fd < 0 || io_write_all(fd, pem, strlen(pem)) < 0)
        return driver_fail(error, CONNECT_INTERNAL, "cannot keep the certificate of the source");
    snprintf(root_cert, sizeof root_cert, "/proc/self/fd/%d", fd);
    return 0;
}

/* Whether the text of an error goes to a program, a model and whoever asked. Checks and syncs are
 * for operators, who need to know where it was tried to connect. */
static bool is_for_others(const struct pg *pg)
{
    return strcmp(text_of(pg->order->json, "op"), "query") == 0;
}

/* ---- waiting ---- */

static void *cancel_thread(void *arg)
{
    char why[256];

    (void) PQcancel(arg, why, sizeof why);
    return NULL;
}

void pg_cancel(struct pg *pg)
{
    bool at_work = pg->conn && !pg->lost && pg->connect_until_us == 0;
    PGcancel *cancel = at_work ? PQgetCancel(pg->conn) : NULL;
    struct timespec until;
    pthread_t thread;

    if (!cancel)
        return;
    pg->lost = true;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CANCEL_SECONDS;
    if (pthread_create(&thread, NULL, cancel_thread, cancel) != 0)
        return;
    /* If it does not end, it ends with the process, which has nothing more to do. */
    if (pthread_timedjoin_np(thread, NULL, &until) == 0)
        PQfreeCancel(cancel);
}

static int give_up(struct pg *pg, enum connect_word word)
{
    bool connecting = pg->connect_until_us != 0;

    pg_cancel(pg);
    if (word == CONNECT_CANCELLED)
        return driver_fail(pg->error, word, "the query was cancelled");
    if (connecting)
        return driver_fail(pg->error, CONNECT_UNREACHABLE,
                           "%.100s does not answer: it took longer than allowed to connect",
                           is_for_others(pg) ? "the server" : text_of(pg->source, "host"));
    return driver_fail(
        pg->error, word,
        "the query took longer than it may; ask for less, or aggregate at the source");
}

int pg_still_wanted(struct pg *pg)
{
    if (order_cancelled(pg->order))
        return give_up(pg, CONNECT_CANCELLED);
    if (clock_now_us() >= pg->order->deadline_us)
        return give_up(pg, CONNECT_TIMEOUT);
    return 0;
}

int pg_wait(struct pg *pg, short events)
{
    for (;;) {
        struct pollfd items[2] = { { .fd = PQsocket(pg->conn), .events = events },
                                   { .fd = pg->order->control_fd, .events = POLLIN } };
        int64_t until = pg->order->deadline_us, left_us;
        int n;

        if (pg->connect_until_us && pg->connect_until_us < until)
            until = pg->connect_until_us;
        left_us = until - clock_now_us();
        if (left_us <= 0)
            return give_up(pg, CONNECT_TIMEOUT);
        n = poll(items, 2, (int) (left_us / USEC_PER_MSEC) + 1);
        if (n < 0 && errno != EINTR)
            return driver_fail(pg->error, CONNECT_INTERNAL, "cannot wait: %s", strerror(errno));
        if (n > 0 && items[1].revents)
            return give_up(pg, CONNECT_CANCELLED);
        if (n > 0 && items[0].revents)
            return 0;
    }
}

int pg_next(struct pg *pg, PGresult **ret_result)
{
    int left;

    while ((left = PQflush(pg->conn)) > 0) {
        if (pg_wait(pg, POLLIN | POLLOUT) < 0)
            return -1;
        if (!PQconsumeInput(pg->conn))
            break; /* PQgetResult() says what it is */
    }
    while (left >= 0 && PQisBusy(pg->conn)) {
        if (pg_wait(pg, POLLIN) < 0)
            return -1;
        if (!PQconsumeInput(pg->conn))
            break;
    }
    *ret_result = PQgetResult(pg->conn);
    return 0;
}

/* ---- what a server says ---- */

static void notice(void *arg, const PGresult *result)
{
    struct pg *pg = arg;
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    char cut[NOTICE_BYTES];

    if (!text || json_array_size(pg->notices) >= NOTICES_MAX)
        return;
    snprintf(cut, sizeof cut, "%s", text);
    (void) json_array_append_new(pg->notices, json_stringn_nocheck(cut, strlen(cut)));
}

static enum connect_word word_of(const char *state)
{
    static const struct {
        const char *prefix;
        enum connect_word word;
    } words[] = {
        { "28", CONNECT_DENIED },         { "42501", CONNECT_DENIED },
        { "22021", CONNECT_UNSUPPORTED }, { "25006", CONNECT_READ_ONLY },
        { "57014", CONNECT_TIMEOUT },     { "55P03", CONNECT_TIMEOUT },
        { "3D", CONNECT_UNREACHABLE },    { "08", CONNECT_UNREACHABLE },
        { "53300", CONNECT_UNREACHABLE }, { "57P", CONNECT_BROKEN },
        { "XX", CONNECT_BROKEN },         { "58", CONNECT_BROKEN },
    };

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strncmp(state, words[i].prefix, strlen(words[i].prefix)) == 0)
            return words[i].word;
    return CONNECT_SQL;
}

/* " (line 3: ...)" for a position that the server counted in characters. */
static void place_of(const char *sql, const char *position, char *buf, size_t size)
{
    long at = position ? strtol(position, NULL, 10) : 0;
    const char *p = sql, *line_start = sql;
    int line = 1;

    buf[0] = '\0';
    if (!sql || at < 1)
        return;
    for (long i = 1; *p && i < at; p++) {
        if (*p == '\n') {
            line++;
            line_start = p + 1;
        }
        if (((unsigned char) p[1] & 0xc0) != 0x80)
            i++;
    }
    snprintf(buf, size, " (line %d: %.*s)", line,
             (int) strcspn(line_start, "\n") > 80 ? 80 : (int) strcspn(line_start, "\n"),
             line_start);
}

int pg_refused(struct pg *pg, const PGresult *result, const char *sql)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *text = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    const char *hint = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_HINT) : NULL;
    const char *detail = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL) : NULL;
    char place[160];

    if (!state || !text) {
        pg->lost = true;
        text = pg->conn ? PQerrorMessage(pg->conn) : "";
        return driver_fail(pg->error, CONNECT_BROKEN, "the connection broke: %.400s",
                           *text ? text : "the server sent something that is not PostgreSQL");
    }
    if (!hint && strcmp(state, "22021") == 0)
        hint = "convert text that is not UTF-8, as in convert_from(x::bytea, 'LATIN1')";
    place_of(sql, PQresultErrorField(result, PG_DIAG_STATEMENT_POSITION), place, sizeof place);
    return driver_fail(pg->error, word_of(state), "%.240s%s%s%.160s%s%.140s", text, place,
                       detail ? "; " : "", detail ? detail : "", hint ? "; " : "",
                       hint ? hint : "");
}

/* ---- statements of ours ---- */

static int drain(struct pg *pg)
{
    PGresult *more = NULL;

    do {
        PQclear(more);
        if (pg_next(pg, &more) < 0)
            return -1;
    } while (more);
    return 0;
}

int pg_outcome(struct pg *pg, const char *sql, PGresult **ret_result)
{
    PGresult *result = NULL;
    ExecStatusType status;

    if (pg_next(pg, &result) < 0)
        return -1;
    status = PQresultStatus(result); /* accepts NULL: a fatal error */
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        (void) pg_refused(pg, result, sql);
        PQclear(result);
        return -1;
    }
    if (drain(pg) < 0) {
        PQclear(result);
        return -1;
    }
    *ret_result = result;
    return 0;
}

static int not_sent(struct pg *pg)
{
    pg->lost = true;
    return driver_fail(pg->error, CONNECT_BROKEN, "the connection broke: %.400s",
                       PQerrorMessage(pg->conn));
}

int pg_ask(struct pg *pg, const char *sql, int params, const char *const *values,
           PGresult **ret_result)
{
    PGresult *result = NULL;

    if (!PQsendQueryParams(pg->conn, sql, params, NULL, values, NULL, NULL, 0))
        return not_sent(pg);
    if (pg_outcome(pg, NULL, &result) < 0)
        return -1;
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        PQclear(result);
        return driver_fail(pg->error, CONNECT_BROKEN, "the server answered without rows");
    }
    *ret_result = result;
    return 0;
}

int pg_do(struct pg *pg, const char *script)
{
    PGresult *result = NULL;

    if (!PQsendQuery(pg->conn, script))
        return not_sent(pg);
    for (;;) {
        if (pg_next(pg, &result) < 0)
            return -1;
        if (!result)
            return 0;
        if (PQresultStatus(result) != PGRES_COMMAND_OK) {
            (void) pg_refused(pg, result, NULL);
            PQclear(result);
            return -1;
        }
        PQclear(result);
    }
}

/* ---- connecting ---- */

static bool is_local(const char *host)
{
    return host[0] == '/' || strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

static bool is_verified(const char *mode)
{
    return strcmp(mode, "verify-full") == 0 || strcmp(mode, "verify-ca") == 0;
}

static int connection_start(struct pg *pg)
{
    const char *host = text_of(pg->source, "host"), *mode = text_of(pg->source, "sslmode");
    const json_t *port_json = json_object_get(pg->source, "port");
    const char *name = text_of(pg->source, "application_name");
    char port[16];
    const char *keys[] = { "host",
                           "port",
                           "dbname",
                           "user",
                           "password",
                           "sslmode",
                           "sslrootcert",
                           "client_encoding",
                           "application_name",
                           "gssencmode",
                           "passfile",
                           "sslcert",
                           "sslkey",
                           "sslcrl",
                           "ssl_min_protocol_version",
                           "channel_binding",
                           "options",
                           NULL };
    const char *values[ARRAY_LEN(keys)] = { NULL };

    if (!*host || !*text_of(pg->source, "user") || !*text_of(pg->source, "dbname"))
        return driver_fail(pg->error, CONNECT_UNREACHABLE,
                           "the source needs a host, a database and a user");
    if (!*mode)
        mode = is_local(host) ? "prefer" : "verify-full";
    if (!is_local(host) && !is_verified(mode))
        return driver_fail(pg->error, CONNECT_UNSAFE,
                           "sslmode=%.20s does not verify the server; use verify-full", mode);
    if (is_verified(mode) && !*root_cert)
        return driver_fail(pg->error, CONNECT_UNREACHABLE,
                           "there are no certificates to verify the server with; give the source a "
                           "CA");
    snprintf(port, sizeof port, "%d",
             json_is_integer(port_json) ? (int) json_integer_value(port_json) : PORT_DEFAULT);
    values[0] = host;
    values[1] = port;
    values[2] = text_of(pg->source, "dbname");
    values[3] = text_of(pg->source, "user");
    values[4] = text_of(pg->source, "password");
    values[5] = mode;
    values[6] = is_verified(mode) ? root_cert : NOWHERE;
    values[7] = "UTF8";
    values[8] = *name ? name : "glovebox";
    values[9] = "disable";
    values[10] = values[11] = values[12] = values[13] = NOWHERE;
    values[14] = "TLSv1.2";
    values[15] = "prefer";
    values[16] = "";
    pg->conn = PQconnectStartParams(keys, values, 0);
    return pg->conn ? 0 : driver_fail(pg->error, CONNECT_INTERNAL, "out of memory");
}

/* libpq writes lines: one for each address that was tried, and hints with a tab in front. */
static void one_line(const char *lines, char *ret_text, size_t size)
{
    size_t len = 0, end = strlen(lines);

    while (end > 0 && lines[end - 1] == '\n')
        end--;
    for (size_t i = 0; i < end && len + 3 < size; i++) {
        if (lines[i] == '\n' && lines[i + 1] == '\t') {
            ret_text[len++] = '.';
            i++;
        } else if (lines[i] == '\n') {
            ret_text[len++] = ';';
        }
        ret_text[len++] = lines[i] == '\n' || lines[i] == '\t' ? ' ' : lines[i];
    }
    ret_text[len] = '\0';
}

/* libpq's own words, "connection to server at "HOST" (ADDRESS), port N failed: ", and the name
 * where else it says it. */
static void hide_address(const struct pg *pg, char *text)
{
    static const char before[] = "connection to server ", after[] = " failed: ";
    const char *host = text_of(pg->source, "host");
    char *at, *end;

    while ((at = strstr(text, before)) && (end = strstr(at, after)))
        memmove(at, end + strlen(after), strlen(end + strlen(after)) + 1);
    for (at = text; strlen(host) >= 3 && (at = strstr(at, host)); at += 3) {
        memset(at, '*', 3);
        memmove(at + 3, at + strlen(host), strlen(at + strlen(host)) + 1);
    }
}

/* libpq gives no SQLSTATE for a failed connection: the server's words tell a wrong password from a
 * server that is not there. */
static int connection_failed(struct pg *pg)
{
    static const char *const denials[] = { "authentication failed", "password",
                                           "no pg_hba.conf entry", "not permitted to log in",
                                           "role \"" };
    enum connect_word word = CONNECT_UNREACHABLE;
    char text[1024];

    one_line(PQerrorMessage(pg->conn), text, sizeof text);
    if (is_for_others(pg))
        hide_address(pg, text);
    for (size_t i = 0; i < ARRAY_LEN(denials); i++)
        if (strstr(text, denials[i]))
            word = CONNECT_DENIED;
    pg->lost = true;
    if (strstr(text, "no password supplied"))
        return driver_fail(pg->error, word,
                           "the server wants a password, and the source has none; set one "
                           "(--password-file of glovebox source add)");
    if (strstr(text, "certificate verify failed"))
        return driver_fail(pg->error, word,
                           "cannot connect: %s; give the source the CA that signed the server's "
                           "certificate (--ca of glovebox source add)",
                           text);
    return driver_fail(pg->error, word, "cannot connect: %s",
                       *text ? text : "the server sent something that is not PostgreSQL");
}

static int connection_finish(struct pg *pg)
{
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;

    if (PQstatus(pg->conn) == CONNECTION_BAD)
        return connection_failed(pg);
    while (state != PGRES_POLLING_OK) {
        if (pg_wait(pg, state == PGRES_POLLING_READING ? POLLIN : POLLOUT) < 0)
            return -1;
        state = PQconnectPoll(pg->conn);
        if (state == PGRES_POLLING_FAILED)
            return connection_failed(pg);
    }
    pg->connect_until_us = 0;
    if (PQsetnonblocking(pg->conn, 1) < 0)
        return not_sent(pg);
    (void) PQsetNoticeReceiver(pg->conn, notice, pg);
    return 0;
}

/* ---- the transaction ---- */

char *pg_literal(struct pg *pg, const char *text)
{
    char *quoted = PQescapeLiteral(pg->conn, text, strlen(text));
    char *copy = quoted ? strdup(quoted) : NULL;

    PQfreemem(quoted);
    return copy;
}

static int write_identifier(struct pg *pg, FILE *out, const char *text, size_t len)
{
    char *quoted = PQescapeIdentifier(pg->conn, text, len);

    if (!quoted)
        return -1;
    fputs(quoted, out);
    PQfreemem(quoted);
    return 0;
}

/* Only names with a dot are an application's own; others are settings of the server. */
static bool is_variable(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    const char *dot = strchr(name, '.');

    return dot && dot != name && dot[1] && !strchr(dot + 1, '.') &&
           strspn(name, allowed) == strlen(name);
}

static int write_variables(struct pg *pg, FILE *out)
{
    json_t *variables = json_object_get(pg->source, "variables"), *value;
    const char *name;

    json_object_foreach (variables, name, value) {
        const char *dot = strchr(name, '.');
        autofree char *literal = NULL;

        if (!is_variable(name) || !json_is_string(value))
            return driver_fail(
                pg->error, CONNECT_UNSAFE,
                "'%.60s' cannot be a session variable; their names are like app.user", name);
        literal = pg_literal(pg, json_string_value(value));
        fputs("SET LOCAL ", out);
        if (!literal || write_identifier(pg, out, name, (size_t) (dot - name)) < 0)
            return driver_fail(pg->error, CONNECT_UNSAFE, "'%.60s' cannot be set", name);
        fputc('.', out);
        if (write_identifier(pg, out, dot + 1, strlen(dot + 1)) < 0)
            return driver_fail(pg->error, CONNECT_UNSAFE, "'%.60s' cannot be set", name);
        fprintf(out, " = %s;\n", literal);
    }
    return 0;
}

static int write_search_path(struct pg *pg, FILE *out)
{
    const json_t *schemas = json_object_get(pg->source, "schemas");
    json_t *schema;
    size_t i;

    if (json_array_size(schemas) == 0)
        return 0;
    fputs("SET LOCAL search_path = ", out);
    json_array_foreach ((json_t *) schemas, i, schema) {
        const char *name = json_string_value(schema);

        fputs(i > 0 ? ", " : "", out);
        if (!name || write_identifier(pg, out, name, strlen(name)) < 0)
            return driver_fail(pg->error, CONNECT_INTERNAL, "schemas is not a list of names");
    }
    fputs(";\n", out);
    return 0;
}

static int write_begin(struct pg *pg, FILE *out)
{
    int64_t left_ms = (pg->order->deadline_us - clock_now_us()) / USEC_PER_MSEC;
    const char *role = text_of(pg->source, "role");

    if (left_ms < 1)
        left_ms = 1;
    fprintf(out,
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;\n"
            "SET LOCAL statement_timeout = %lld;\n"
            "SET LOCAL lock_timeout = 10000;\n"
            "SET LOCAL idle_in_transaction_session_timeout = %lld;\n"
            "SET LOCAL standard_conforming_strings = on;\n"
            "SET LOCAL row_security = on;\n"
            "SET LOCAL datestyle = 'ISO';\n"
            "SET LOCAL intervalstyle = 'iso_8601';\n"
            "SET LOCAL bytea_output = 'hex';\n"
            "SET LOCAL extra_float_digits = 1;\n",
            (long long) left_ms, (long long) left_ms + 5000);
    /* So that what was explained is what is run. */
    if (PQserverVersion(pg->conn) >= 120000)
        fputs("SET LOCAL plan_cache_mode = force_custom_plan;\n", out);
    if (write_search_path(pg, out) < 0)
        return -1;
    if (*role) {
        fputs("SET LOCAL ROLE ", out);
        if (write_identifier(pg, out, role, strlen(role)) < 0)
            return driver_fail(pg->error, CONNECT_UNSAFE, "the role has no valid name");
        fputs(";\n", out);
    }
    return write_variables(pg, out);
}

static int begin(struct pg *pg)
{
    autofree char *script = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&script, &len);
    int r;

    if (!out)
        return driver_fail(pg->error, CONNECT_INTERNAL, "out of memory");
    r = write_begin(pg, out);
    if (fclose(out) != 0)
        return driver_fail(pg->error, CONNECT_INTERNAL, "out of memory");
    return r < 0 ? r : pg_do(pg, script);
}

/* ---- opening and closing ---- */

int pg_open(struct pg *pg, const struct order *order, struct driver_error *error)
{
    const json_t *source = json_object_get(order->json, "source");
    const json_t *timeout = json_object_get(source, "connect_timeout");
    int64_t seconds = json_is_integer(timeout) ? json_integer_value(timeout) : CONNECT_SECONDS;

    if (seconds < 1 || seconds > 600)
        seconds = CONNECT_SECONDS;
    *pg = (struct pg){ .order = order,
                       .source = source,
                       .error = error,
                       .notices = json_array(),
                       .connect_until_us = clock_now_us() + seconds * USEC_PER_SEC };
    if (connection_start(pg) < 0 || connection_finish(pg) < 0 || begin(pg) < 0 ||
        pg_guard_session(pg) < 0) {
        pg_close(pg);
        return -1;
    }
    return 0;
}

void pg_close(struct pg *pg)
{
    PQfinish(pg->conn);
    json_decref(pg->notices);
    pg->conn = NULL;
    pg->notices = NULL;
}
