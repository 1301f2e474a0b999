/*
 * The rules of an order against what a statement would do, and against what it could undo.
 *
 * SET ROLE and session variables decide what row policies show. They are set by us and not by the
 * statement, but SELECT set_config('role', ...) is an ordinary expression, which no plan has to
 * show: query_to_xml() can hide it in text. So they count only if the server itself refuses
 * set_config() to the login and to the role; else the source is refused, with the words that a
 * superuser has to run once. A login per person needs none of this.
 */
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "connect/postgres_internal.h"

#include "base/banned.h"

#define PLAN_BYTES (32u << 20)
#define REVOKE_ADVICE                                                                              \
    "a superuser runs once in this database: REVOKE EXECUTE ON FUNCTION "                          \
    "pg_catalog.set_config(text, text, boolean) FROM PUBLIC; REVOKE UPDATE ON "                    \
    "pg_catalog.pg_settings FROM PUBLIC; or give each person a login of their own"

/* ---- the session ---- */

static const char session_sql[] =
    "SELECT r.rolname, r.rolsuper, r.rolbypassrls, "
    "pg_catalog.has_function_privilege(r.oid, 'pg_catalog.set_config(text,text,boolean)', "
    "'EXECUTE') OR pg_catalog.has_any_column_privilege(r.oid, "
    "'pg_catalog.pg_settings', 'UPDATE'), (SELECT g.rolname FROM pg_catalog.pg_roles g WHERE "
    "g.rolname IN ('pg_read_all_data', 'pg_write_all_data', 'pg_read_server_files', "
    "'pg_write_server_files', 'pg_execute_server_program') AND pg_catalog.pg_has_role(r.oid, "
    "g.oid, "
    "'MEMBER') LIMIT 1), current_user = $1 OR $1 = '', (SELECT c.oid::pg_catalog.regclass FROM "
    "pg_catalog.pg_class c WHERE c.relrowsecurity AND NOT c.relforcerowsecurity AND r.rolname = "
    "current_user AND pg_catalog.pg_has_role(r.oid, c.relowner, 'USAGE') LIMIT 1) FROM "
    "pg_catalog.pg_roles r WHERE r.rolname IN (session_user, current_user)";

static bool is_true(const PGresult *rows, int row, int column)
{
    return strcmp(PQgetvalue(rows, row, column), "t") == 0;
}

static const char *json_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

/* Variables are there for row policies, which do not hold for the owner of a table. A role or a
 * person's own login may be that of somebody who is to see everything. */
static int check_owner(struct pg *pg, const PGresult *rows, int row)
{
    if (PQgetisnull(rows, row, 6) || *json_text(pg->source, "role") ||
        json_object_size(json_object_get(pg->source, "variables")) == 0)
        return 0;
    return driver_fail(pg->error, CONNECT_UNSAFE,
                       "%.60s owns %.120s, so its row policies do not hold, whatever the session "
                       "variables of this "
                       "source are; use a login that owns no such table, or run ALTER TABLE %.120s "
                       "FORCE ROW LEVEL "
                       "SECURITY",
                       PQgetvalue(rows, row, 0), PQgetvalue(rows, row, 6),
                       PQgetvalue(rows, row, 6));
}

/* A statement that only reads can do much as a superuser: read files of the server, end the
 * sessions of others. So none is asked as one, whoever may use the source. */
static int refuse_superuser(struct pg *pg, const char *name)
{
    return driver_fail(pg->error, CONNECT_UNSAFE,
                       "%.60s is a superuser, for whom no right and no row policy holds; use a "
                       "login that may only read",
                       name);
}

static bool is_superuser(const struct pg *pg)
{
    const char *told = PQparameterStatus(pg->conn, "is_superuser");

    return told && strcmp(told, "on") == 0;
}

/* @holds: role or variables are used, which must not be undone. */
static int check_role(struct pg *pg, const PGresult *rows, int row, bool holds)
{
    const char *name = PQgetvalue(rows, row, 0);

    if (is_true(rows, row, 1))
        return refuse_superuser(pg, name);
    if (is_true(rows, row, 2))
        return driver_fail(
            pg->error, CONNECT_UNSAFE,
            "%.60s has BYPASSRLS, so row policies do not hold; use a login without it", name);
    if (!PQgetisnull(rows, row, 4))
        return driver_fail(
            pg->error, CONNECT_UNSAFE,
            "%.60s is a member of %.60s, which reads more than its own rights; use a "
            "login without it",
            name, PQgetvalue(rows, row, 4));
    if (holds && is_true(rows, row, 3))
        return driver_fail(pg->error, CONNECT_UNSAFE,
                           "SQL run as %.60s can undo the role or session variables of this source "
                           "with set_config(); " REVOKE_ADVICE,
                           name);
    if (!is_true(rows, row, 5))
        return driver_fail(pg->error, CONNECT_UNSAFE, "the server did not take on the role");
    return check_owner(pg, rows, row);
}

int pg_guard_session(struct pg *pg)
{
    const char *role = json_string_value(json_object_get(pg->source, "role"));
    bool holds = (role && *role) || json_object_size(json_object_get(pg->source, "variables")) > 0;
    PGresult *rows = NULL;
    int r = 0;

    if (is_superuser(pg))
        return refuse_superuser(pg, PQuser(pg->conn));
    if (!holds && !json_is_true(json_object_get(pg->source, "personal")))
        return 0;
    if (!role)
        role = "";
    if (pg_ask(pg, session_sql, 1, &role, &rows) < 0)
        return -1;
    if (PQntuples(rows) < 1 || PQnfields(rows) != 7)
        r = driver_fail(pg->error, CONNECT_UNSAFE, "the server does not say whom we are");
    for (int i = 0; i < PQntuples(rows) && r == 0; i++)
        r = check_role(pg, rows, i, holds);
    PQclear(rows);
    return r;
}

/* ---- the plan ---- */

int pg_explain(struct pg *pg, const char *sql, struct pg_plan *ret_plan, json_t **ret_json)
{
    PGresult *rows = NULL;
    int r;

    if (pg_ask(pg, sql, 0, NULL, &rows) < 0)
        return -1;
    if (PQntuples(rows) != 1 || PQnfields(rows) != 1)
        r = driver_fail(pg->error, CONNECT_BROKEN, "the server did not explain the statement");
    else if ((unsigned) PQgetlength(rows, 0, 0) > PLAN_BYTES)
        r = driver_fail(pg->error, CONNECT_TOO_LARGE,
                        "the plan of the statement is larger than %u bytes; make it simpler",
                        PLAN_BYTES);
    else
        r = plan_read(PQgetvalue(rows, 0, 0), (size_t) PQgetlength(rows, 0, 0), ret_plan, ret_json,
                      pg->error);
    PQclear(rows);
    return r;
}

/* Tables that inherit from those with masks, partitions among them: their columns are the same. */
static const char inherits_sql[] =
    "WITH RECURSIVE down(top, oid) AS (SELECT pg_catalog.concat(n.nspname, '.', c.relname), c.oid "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE "
    "pg_catalog.concat(n.nspname, '.', c.relname) = ANY ($1::pg_catalog.text[]) UNION SELECT "
    "d.top, "
    "i.inhrelid FROM down d JOIN pg_catalog.pg_inherits i ON i.inhparent = d.oid) SELECT d.top, "
    "pg_catalog.concat(n.nspname, '.', c.relname) FROM down d JOIN pg_catalog.pg_class c ON c.oid "
    "= "
    "d.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace";

static void write_item(FILE *out, const char *text, bool first)
{
    fputs(first ? "\"" : ",\"", out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* @key of each object of @list, as an array for a parameter. */
static char *names_of(const json_t *list, const char *key)
{
    char *text = NULL;
    size_t len = 0, i;
    FILE *out = open_memstream(&text, &len);
    json_t *item;
    bool first = true;

    if (!out)
        return NULL;
    fputc('{', out);
    json_array_foreach ((json_t *) list, i, item) {
        const char *name = json_string_value(json_object_get(item, key));

        if (name) {
            write_item(out, name, first);
            first = false;
        }
    }
    fputc('}', out);
    return fclose(out) == 0 ? text : NULL;
}

static const json_t *columns_of(const json_t *masked, const char *table)
{
    json_t *item;
    size_t i;

    json_array_foreach ((json_t *) masked, i, item) {
        const char *name = json_string_value(json_object_get(item, "table"));

        if (name && strcmp(name, table) == 0)
            return json_object_get(item, "columns");
    }
    return NULL;
}

/* {"schema.table": [column, ...]} for the tables with masks and all below them. */
int pg_hidden(struct pg *pg, const json_t *masked, json_t **ret_hidden)
{
    autofree char *tables = names_of(masked, "table");
    const char *value = tables;
    json_t *hidden = json_object();
    PGresult *rows = NULL;

    if (!tables || !hidden || pg_ask(pg, inherits_sql, 1, &value, &rows) < 0) {
        json_decref(hidden);
        return tables ? -1 : driver_fail(pg->error, CONNECT_INTERNAL, "out of memory");
    }
    for (int i = 0; PQnfields(rows) == 2 && i < PQntuples(rows); i++) {
        const json_t *columns = columns_of(masked, PQgetvalue(rows, i, 0));
        json_t *list = json_object_get(hidden, PQgetvalue(rows, i, 1));

        if (!list) {
            list = json_array();
            (void) json_object_set_new(hidden, PQgetvalue(rows, i, 1), list);
        }
        (void) json_array_extend(list, (json_t *) columns);
    }
    PQclear(rows);
    *ret_hidden = hidden;
    return 0;
}

/* A name without a schema may be a function of the database: one in the search path. Operators are
 * not named by plans either, so those that run SQL are looked for, too. */
static const char outside_sql[] =
    "SELECT n.nspname, p.proname FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid "
    "= "
    "p.pronamespace WHERE p.proname = ANY ($1::pg_catalog.name[]) AND n.nspname <> 'pg_catalog' "
    "UNION ALL SELECT n.nspname, o.oprname FROM pg_catalog.pg_operator o JOIN "
    "pg_catalog.pg_namespace n ON n.oid = o.oprnamespace JOIN pg_catalog.pg_proc p ON p.oid = "
    "o.oprcode JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE n.nspname <> 'pg_catalog' "
    "AND l.lanname NOT IN ('c', 'internal') AND pg_catalog.strpos($2, o.oprname) > 0 LIMIT 1";

/* Those that @sql names, and @planned. */
static int check_functions(struct pg *pg, const char *sql, const json_t *planned)
{
    json_t *functions = planned ? json_copy((json_t *) planned) : json_array();
    autofree char *names = NULL;
    PGresult *rows = NULL;
    int r = plan_add_called(sql, functions, pg->error);

    if (r == 0)
        r = plan_check_functions(functions, pg->error);
    names = names_of(functions, "name");
    json_decref(functions);
    if (r < 0)
        return r;
    if (!names)
        return driver_fail(pg->error, CONNECT_INTERNAL, "out of memory");
    if (pg_ask(pg, outside_sql, 2, (const char *const[]){ names, sql }, &rows) < 0)
        return -1;
    if (PQntuples(rows) > 0)
        r = driver_fail(pg->error, CONNECT_MASKED,
                        "the statement may use %.60s.%.60s, and this source allows only functions "
                        "of PostgreSQL itself",
                        PQgetvalue(rows, 0, 0), PQgetvalue(rows, 0, 1));
    PQclear(rows);
    return r;
}

static const char views_sql[] =
    "SELECT pg_catalog.pg_get_viewdef(r.ev_class) FROM pg_catalog.pg_rewrite r WHERE EXISTS "
    "(SELECT "
    "FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class c ON c.oid = d.refobjid JOIN "
    "pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE d.classid = "
    "'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid AND d.refclassid = "
    "'pg_catalog.pg_class'::pg_catalog.regclass AND c.oid <> r.ev_class AND "
    "pg_catalog.concat(n.nspname, '.', c.relname) = ANY ($1::pg_catalog.text[]))";

/* Aliases with columns, in the statement and in the views that it may have used. */
static int check_aliases(struct pg *pg, const char *sql, const json_t *json, const json_t *hidden)
{
    json_t *list = json_array(), *unused;
    autofree char *tables = NULL;
    const char *table;
    PGresult *rows = NULL;
    int r = plan_check_aliases(json, hidden, sql, pg->error);

    json_object_foreach ((json_t *) hidden, table, unused)
        (void) json_array_append_new(list, json_pack("{s:s}", "table", table));
    tables = names_of(list, "table");
    json_decref(list);
    if (r < 0)
        return r;
    if (!tables)
        return driver_fail(pg->error, CONNECT_INTERNAL, "out of memory");
    if (pg_ask(pg, views_sql, 1, (const char *const[]){ tables }, &rows) < 0)
        return -1;
    for (int i = 0; i < PQntuples(rows) && r == 0; i++)
        r = plan_check_aliases(json, hidden, PQgetvalue(rows, i, 0), pg->error);
    PQclear(rows);
    return r;
}

bool pg_is_guarded(const struct pg *pg)
{
    return json_array_size(json_object_get(pg->source, "schemas")) > 0 ||
           json_array_size(json_object_get(pg->order->json, "masked")) > 0;
}

int pg_guard_text(struct pg *pg, const char *sql)
{
    return pg_is_guarded(pg) ? check_functions(pg, sql, NULL) : 0;
}

/* PostgreSQL 17 shows what is compared with a subquery. */
static int check_unseen(struct pg *pg, const char *sql, const struct pg_plan *plan,
                        const json_t *json, const json_t *hidden)
{
    json_t *names = plan_masked_names(plan, hidden);
    int r = 0;

    if (json_object_size(names) > 0)
        r = plan_check_unseen(sql, names, json, PQserverVersion(pg->conn) >= 170000, pg->error);
    json_decref(names);
    return r;
}

int pg_guard_plan(struct pg *pg, const char *sql, const struct pg_plan *plan, const json_t *json)
{
    const json_t *schemas = json_object_get(pg->source, "schemas");
    const json_t *masked = json_object_get(pg->order->json, "masked");
    json_t *hidden = NULL;
    int r;

    if (!json_is_array(schemas) || json_array_size(schemas) == 0)
        schemas = NULL;
    if (!pg_is_guarded(pg))
        return 0;
    if (plan->broken)
        return driver_fail(pg->error, CONNECT_MASKED, "the plan of the statement cannot be read");
    if (plan->opaque)
        return driver_fail(pg->error, CONNECT_MASKED,
                           "another server would join or aggregate foreign tables for this "
                           "statement, and the plan does not tell which; read each of them in a "
                           "WITH x AS MATERIALIZED (SELECT ...) of its own");
    if (plan_check_relations(plan, schemas, pg->error) < 0 ||
        check_functions(pg, sql, plan->functions) < 0)
        return -1;
    if (json_array_size(masked) == 0)
        return 0;
    r = pg_hidden(pg, masked, &hidden);
    if (r == 0)
        r = plan_check_masks(plan, json, hidden, pg->error);
    if (r == 0)
        r = plan_check_foreign(json, hidden, pg->error);
    if (r == 0)
        r = check_aliases(pg, sql, json, hidden);
    if (r == 0)
        r = check_unseen(pg, sql, plan, json, hidden);
    json_decref(hidden);
    return r;
}
