/* What `glovebox source check` says about a PostgreSQL source: whether it can be used, and what an
 * operator should know before others use it. A source that cannot be reached is an answer, too. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "connect/postgres_internal.h"

#include "base/banned.h"

__attribute__((format(printf, 4, 5))) static void say(json_t *checks, const char *name, bool ok,
                                                      const char *fmt, ...)
{
    char text[700];
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void) json_array_append_new(
        checks, json_pack("{s:s, s:b, s:s}", "name", name, "ok", (int) ok, "text", text));
}

static const char facts_sql[] =
    "SELECT pg_catalog.current_setting('server_version'), session_user, current_user, "
    "pg_catalog.current_database(), pg_catalog.current_setting('server_encoding'), "
    "pg_catalog.current_setting('transaction_read_only'), bool_or(r.rolsuper), "
    "bool_or(r.rolbypassrls), (SELECT pg_catalog.count(*) FROM pg_catalog.pg_class c JOIN "
    "pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', "
    "'f') "
    "AND NOT c.relispartition AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' AND "
    "pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND "
    "pg_catalog.has_any_column_privilege(c.oid, "
    "'SELECT') AND ($1::pg_catalog.text[] IS NULL OR n.nspname = ANY ($1::pg_catalog.text[]))) "
    "FROM pg_catalog.pg_roles r WHERE r.rolname IN (session_user, current_user)";

static void say_tls(struct pg *pg, json_t *checks)
{
    const char *mode = json_string_value(json_object_get(pg->source, "sslmode"));

    if (!PQsslInUse(pg->conn))
        say(checks, "tls", true, "not encrypted, on this machine");
    else
        say(checks, "tls", true, "%.20s, sslmode %.20s", PQsslAttribute(pg->conn, "protocol"),
            mode ? mode : "of the default");
}

static void say_rights(const PGresult *rows, json_t *checks)
{
    const char *user = PQgetvalue(rows, 0, 1);

    if (strcmp(PQgetvalue(rows, 0, 7), "t") == 0)
        say(checks, "rights", true, "warning: %.60s has BYPASSRLS: row policies do not hold", user);
    else
        say(checks, "rights", true, "%.60s is no superuser and has no BYPASSRLS", user);
    say(checks, "sharing", true,
        "people who use the same login can see each other's running statements and cancel them "
        "(pg_stat_activity, pg_cancel_backend); a login per person keeps them apart");
}

static void say_tables(struct pg *pg, const char *count, json_t *checks)
{
    bool some = json_array_size(json_object_get(pg->source, "schemas")) > 0;

    if (strcmp(count, "0") == 0)
        say(checks, "tables", false, "no table can be read%s",
            some ? " in the schemas of the source; check their names, and what the login may read"
                 : "; grant the login USAGE of a schema, and SELECT on its tables");
    else
        say(checks, "tables", true, "%.20s %s can be read%s", count,
            strcmp(count, "1") == 0 ? "table" : "tables",
            some ? " in the schemas of the source" : "");
}

static void say_facts(struct pg *pg, const PGresult *rows, json_t *checks)
{
    bool ascii = strcmp(PQgetvalue(rows, 0, 4), "SQL_ASCII") == 0;

    say(checks, "connect", true, "PostgreSQL %.60s, database %.60s, login %.60s",
        PQgetvalue(rows, 0, 0), PQgetvalue(rows, 0, 3), PQgetvalue(rows, 0, 1));
    say_tls(pg, checks);
    say(checks, "read-only", strcmp(PQgetvalue(rows, 0, 5), "on") == 0, "transactions are %s",
        strcmp(PQgetvalue(rows, 0, 5), "on") == 0 ? "read only" : "writable");
    if (strcmp(PQgetvalue(rows, 0, 1), PQgetvalue(rows, 0, 2)) != 0)
        say(checks, "role", true, "statements run as %.60s, and cannot change that",
            PQgetvalue(rows, 0, 2));
    say_rights(rows, checks);
    say(checks, "encoding", true, "%s%.40s%s", ascii ? "warning: " : "", PQgetvalue(rows, 0, 4),
        ascii ? ": text that is not UTF-8 will be refused" : "");
    say_tables(pg, PQgetvalue(rows, 0, 8), checks);
}

static bool all_ok(const json_t *checks)
{
    json_t *check;
    size_t i;

    json_array_foreach ((json_t *) checks, i, check)
        if (!json_is_true(json_object_get(check, "ok")))
            return false;
    return true;
}

int pg_check(const struct order *order, json_t **ret_done, struct driver_error *error)
{
    json_t *checks = json_array();
    PGresult *rows = NULL;
    struct pg pg;
    int r = pg_open(&pg, order, error);

    if (r == 0) {
        autofree char *schemas = pg_schemas(&pg);

        r = pg_ask(&pg, facts_sql, 1, (const char *const[]){ schemas }, &rows);
        if (r == 0 && (PQntuples(rows) != 1 || PQnfields(rows) != 9))
            r = driver_fail(error, CONNECT_BROKEN, "the server does not describe itself");
        if (r == 0)
            say_facts(&pg, rows, checks);
        PQclear(rows);
        pg_close(&pg);
    }
    if (r < 0 && error->word == CONNECT_CANCELLED) {
        json_decref(checks);
        return r;
    }
    if (r < 0)
        say(checks, error->word == CONNECT_UNSAFE ? "rights" : "connect", false, "%s", error->text);
    *ret_done = json_pack("{s:b, s:o}", "ok", (int) all_ok(checks), "checks", checks);
    return *ret_done ? 0 : driver_fail(error, CONNECT_INTERNAL, "out of memory");
}
