/*
 * What EXPLAIN (VERBOSE, FORMAT JSON) says about a statement, read for three questions: what it may
 * cost, which relations and functions it uses, and whether a masked column is in one of its
 * expressions. Pure functions over text that a server wrote.
 *
 * Masks. The plan is looked at instead of the statement, because there views are opened, SELECT *
 * is spelled out, aliases are resolved and nothing can hide behind syntax. Every string of a node
 * that is not known to be something else is an expression. One exception: below a node that
 * computes its own output, a scan may list all columns of its table because that costs nothing;
 * what is really used is in the expressions above it, by its name, or in the scan's own conditions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/json_depth.h"
#include "connect/postgres_internal.h"
#include "connect/sql_lex.h"

#include "base/banned.h"

#define PLAN_DEPTH 400
#define NAMES_MAX  20000

static bool in_list(const char *word, const char *const *list, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (strcmp(word, list[i]) == 0)
            return true;
    return false;
}

#define IN(word, list) in_list(word, list, ARRAY_LEN(list))

static const char *text_of(const json_t *node, const char *key)
{
    const char *text = json_string_value(json_object_get(node, key));

    return text ? text : "";
}

/* ---- expressions ---- */

/* What is in a node besides expressions and numbers. */
static const char *const not_expressions[] = {
    "Node Type",       "Parent Relationship",
    "Join Type",       "Strategy",
    "Partial Mode",    "Relation Name",
    "Schema",          "Alias",
    "Index Name",      "CTE Name",
    "Subplan Name",    "Operation",
    "Command",         "Function Name",
    "Scan Direction",  "Plans",
    "Tuplestore Name", "Sort Method",
    "Cache Mode",      "Custom Plan Provider",
};

/* Nodes that compute their own output from what a scan below them gives. */
static const char *const projecting[] = { "Aggregate", "Group",      "WindowAgg", "Nested Loop",
                                          "Hash Join", "Merge Join", "Result",    "ProjectSet" };

static const char *const plain_scans[] = { "Seq Scan",         "Index Scan",  "Index Only Scan",
                                           "Bitmap Heap Scan", "Sample Scan", "Tid Scan",
                                           "Tid Range Scan" };

struct walk {
    int (*expression)(struct walk *walk, const char *text);
    int (*node)(struct walk *walk, const json_t *node);
    json_t *relations, *functions;
    const json_t *hidden; /* names of masked columns, or tables with some, as keys */
    const char *sql;
    struct driver_error *error;
    bool writes, broken, opaque;
};

static bool output_is_incidental(const json_t *node, const json_t *parent)
{
    const char *relation = text_of(node, "Parent Relationship");

    /* A window's own order is shown by the sort below it, and by nothing if an index has it. */
    if (strcmp(text_of(parent, "Node Type"), "WindowAgg") == 0 &&
        strncmp(text_of(node, "Node Type"), "Index", 5) == 0)
        return false;
    return parent && (strcmp(relation, "Outer") == 0 || strcmp(relation, "Inner") == 0) &&
           IN(text_of(node, "Node Type"), plain_scans) &&
           IN(text_of(parent, "Node Type"), projecting);
}

static int walk_value(struct walk *walk, const json_t *value)
{
    json_t *item;
    size_t i;
    const char *key;
    int r = 0;

    if (json_is_string(value))
        return walk->expression(walk, json_string_value(value));
    if (json_is_array(value)) {
        json_array_foreach ((json_t *) value, i, item)
            if ((r = walk_value(walk, item)) < 0)
                return r;
    } else if (json_is_object(value)) { /* grouping sets, target tables */
        json_object_foreach ((json_t *) value, key, item)
            if (strcmp(key, "Schema") != 0 && (r = walk_value(walk, item)) < 0)
                return r;
    }
    return r;
}

static int walk_node(struct walk *walk, const json_t *node, const json_t *parent)
{
    json_t *value, *child;
    const char *key;
    size_t i;
    int r = walk->node ? walk->node(walk, node) : 0;

    if (r < 0)
        return r;
    json_object_foreach ((json_t *) node, key, value) {
        if (IN(key, not_expressions) ||
            (strcmp(key, "Output") == 0 && output_is_incidental(node, parent)))
            continue;
        if (walk->expression && (r = walk_value(walk, value)) < 0)
            return r;
    }
    json_array_foreach (json_object_get(node, "Plans"), i, child)
        if ((r = walk_node(walk, child, node)) < 0)
            return r;
    return 0;
}

/* ---- names ---- */

static int name_add(json_t *list, const char *schema, const char *name, struct driver_error *error)
{
    json_t *item;
    size_t i;

    json_array_foreach (list, i, item)
        if (strcmp(text_of(item, "name"), name) == 0 &&
            strcmp(text_of(item, "schema"), schema) == 0)
            return 0;
    if (json_array_size(list) >= NAMES_MAX)
        return driver_fail(error, CONNECT_TOO_LARGE, "the statement names too many things");
    if (json_array_append_new(list, json_pack("{s:s, s:s}", "schema", schema, "name", name)) < 0)
        return driver_fail(error, CONNECT_INTERNAL, "out of memory");
    return 0;
}

/* Names before "(", with what is before their dot. */
static int calls_add(const char *text, bool *ret_broken, json_t *list, struct driver_error *error)
{
    struct sql_lexer lexer = { .text = text, .len = strlen(text) };
    struct sql_piece piece, name = { .kind = SQL_END };
    char schema[SQL_NAME_MAX] = "";
    bool dotted = false;

    do {
        sql_next(&lexer, &piece);
        if (piece.kind == SQL_BROKEN || (piece.unicode && piece.kind == SQL_WORD))
            *ret_broken = true;
        if (piece.kind == SQL_WORD) {
            snprintf(schema, sizeof schema, "%s", dotted && name.kind == SQL_WORD ? name.name : "");
            name = piece;
            dotted = false;
        } else if (piece.kind == SQL_OTHER && piece.symbol == '.') {
            dotted = true;
        } else {
            if (piece.kind == SQL_OTHER && piece.symbol == '(' && name.kind == SQL_WORD &&
                name_add(list, schema, name.name, error) < 0)
                return -1;
            name.kind = SQL_END;
            dotted = false;
        }
    } while (piece.kind != SQL_END && piece.kind != SQL_BROKEN);
    return 0;
}

int plan_add_called(const char *sql, json_t *functions, struct driver_error *error)
{
    bool broken = false;

    if (calls_add(sql, &broken, functions, error) < 0)
        return -1;
    if (broken)
        return driver_fail(error, CONNECT_MASKED,
                           "the statement cannot be checked: write names plainly, without U&\"\"");
    return 0;
}

static int read_expression(struct walk *walk, const char *text)
{
    return calls_add(text, &walk->broken, walk->functions, walk->error);
}

/* Nodes that may do more than read one table: a wrapper of foreign tables joins and aggregates at
 * the other server, an extension anything. Then there is no name of a table. */
static const char *const foreign_scans[] = { "Foreign Scan", "Custom Scan" };

static int read_node(struct walk *walk, const json_t *node)
{
    const char *type = text_of(node, "Node Type");
    const char *relation = text_of(node, "Relation Name");
    const char *function = text_of(node, "Function Name");

    if (strcmp(type, "ModifyTable") == 0 || strcmp(type, "LockRows") == 0)
        walk->writes = true;
    if (!*relation && IN(type, foreign_scans))
        walk->opaque = true;
    if (*relation && name_add(walk->relations, text_of(node, "Schema"), relation, walk->error) < 0)
        return -1;
    if (*function && name_add(walk->functions, text_of(node, "Schema"), function, walk->error) < 0)
        return -1;
    return 0;
}

/* ---- reading it ---- */

static double number_of(const json_t *node, const char *key)
{
    double value = json_number_value(json_object_get(node, key));

    return value >= 0 ? value : 0; /* also for what is not a number */
}

int plan_read(const char *text, size_t len, struct pg_plan *ret_plan, json_t **ret_json,
              struct driver_error *error)
{
    json_t *json = json_too_deep(text, len, PLAN_DEPTH) ? NULL : json_loadb(text, len, 0, NULL);
    const json_t *node = json_object_get(json_array_get(json, 0), "Plan");
    struct walk walk = { .expression = read_expression, .node = read_node, .error = error };

    *ret_plan = (struct pg_plan){ .is_query = json_is_object(node) };
    if (!json)
        return driver_fail(error, CONNECT_BROKEN, "the plan of the statement is not JSON");
    ret_plan->relations = walk.relations = json_array();
    ret_plan->functions = walk.functions = json_array();
    if (walk_node(&walk, node, NULL) < 0) {
        plan_release(ret_plan);
        json_decref(json);
        return -1;
    }
    ret_plan->writes = walk.writes;
    ret_plan->broken = walk.broken;
    ret_plan->opaque = walk.opaque;
    ret_plan->cost = number_of(node, "Total Cost");
    ret_plan->rows = number_of(node, "Plan Rows");
    ret_plan->bytes = ret_plan->rows * number_of(node, "Plan Width");
    *ret_json = json;
    return 0;
}

void plan_release(struct pg_plan *plan)
{
    json_decref(plan->relations);
    json_decref(plan->functions);
    *plan = (struct pg_plan){ 0 };
}

json_t *plan_estimate(const struct pg_plan *plan)
{
    /* Nothing is read that is not on this side of 2^53: a plan of more is not to be run anyway. */
    double rows = plan->rows < 9e15 ? plan->rows : 9e15;
    double bytes = plan->bytes < 9e15 ? plan->bytes : 9e15;

    return json_pack("{s:f, s:I, s:I, s:n}", "cost", plan->cost, "rows", (json_int_t) rows, "bytes",
                     (json_int_t) bytes, "money");
}

/* ---- relations and functions ---- */

/* What is in them was in tables, or is somebody else's query. */
static const char *const telling_relations[] = { "pg_statistic", "pg_statistic_ext_data",
                                                 "pg_largeobject", "pg_stats", "pg_stat_activity" };

int plan_check_relations(const struct pg_plan *plan, const json_t *schemas,
                         struct driver_error *error)
{
    json_t *relation, *schema;
    size_t i, j;

    json_array_foreach (plan->relations, i, relation) {
        const char *in = text_of(relation, "schema"), *name = text_of(relation, "name");
        bool allowed = !schemas;

        json_array_foreach ((json_t *) schemas, j, schema)
            allowed = allowed ||
                      strcmp(json_string_value(schema) ? json_string_value(schema) : "", in) == 0;
        if (!allowed)
            return driver_fail(error, CONNECT_DENIED,
                               "the statement reads %.60s.%.60s, and only the schemas of this "
                               "source may be read",
                               in, name);
        if (strcmp(in, "pg_catalog") == 0 && IN(name, telling_relations))
            return driver_fail(error, CONNECT_MASKED,
                               "%.60s tells what is in columns that are masked", name);
    }
    return 0;
}

/* They run SQL that is given as text, which no plan shows, or tell of other sessions. */
static const char *const telling_functions[] = {
    "query_to_xml",
    "query_to_xmlschema",
    "query_to_xml_and_xmlschema",
    "cursor_to_xml",
    "cursor_to_xmlschema",
    "table_to_xml",
    "table_to_xmlschema",
    "table_to_xml_and_xmlschema",
    "schema_to_xml",
    "schema_to_xmlschema",
    "schema_to_xml_and_xmlschema",
    "database_to_xml",
    "database_to_xmlschema",
    "database_to_xml_and_xmlschema",
    "ts_stat",
    "ts_rewrite",
    "set_config",
    "pg_stat_get_activity",
    "pg_stat_get_backend_activity",
    "lo_get",
    "loread",
    "pg_read_file",
    "pg_read_binary_file",
    "pg_sequence_last_value",
    "currtid2",
    "pg_logical_slot_peek_changes",
    "pg_logical_slot_get_changes",
};

int plan_check_functions(const json_t *functions, struct driver_error *error)
{
    json_t *function;
    size_t i;

    json_array_foreach ((json_t *) functions, i, function) {
        const char *schema = text_of(function, "schema"), *name = text_of(function, "name");

        if (*schema && strcmp(schema, "pg_catalog") != 0)
            return driver_fail(error, CONNECT_MASKED,
                               "the statement calls %.60s.%.60s, and this source allows only "
                               "functions of PostgreSQL itself",
                               schema, name);
        if (IN(name, telling_functions))
            return driver_fail(error, CONNECT_MASKED,
                               "%.60s() is not allowed here: what it reads cannot be checked",
                               name);
    }
    return 0;
}

/* ---- masks ---- */

static int mask_expression(struct walk *walk, const char *text)
{
    struct sql_lexer lexer = { .text = text, .len = strlen(text) };
    struct sql_piece piece;
    bool dot = false;

    for (;;) {
        sql_next(&lexer, &piece);
        if (piece.kind == SQL_END)
            return 0;
        if (piece.kind == SQL_BROKEN)
            return driver_fail(walk->error, CONNECT_MASKED,
                               "the plan of the statement cannot be read");
        if (piece.kind == SQL_WORD && json_object_get(walk->hidden, piece.name))
            return driver_fail(walk->error, CONNECT_MASKED,
                               "column %.60s is masked: leave it out of the statement, also out of "
                               "conditions and sorting",
                               piece.name);
        if (dot && piece.kind == SQL_OTHER && piece.symbol == '*')
            return driver_fail(walk->error, CONNECT_MASKED,
                               "the statement uses whole rows of a table with masked columns; name "
                               "the columns that are needed");
        dot = piece.kind == SQL_OTHER && piece.symbol == '.';
    }
}

json_t *plan_masked_names(const struct pg_plan *plan, const json_t *hidden)
{
    json_t *names = json_object(), *relation, *columns, *column;
    size_t i, j;

    json_array_foreach (plan->relations, i, relation) {
        char full[2 * SQL_NAME_MAX + 2];

        snprintf(full, sizeof full, "%s.%s", text_of(relation, "schema"),
                 text_of(relation, "name"));
        columns = json_object_get(hidden, full);
        json_array_foreach (columns, j, column)
            if (json_is_string(column))
                (void) json_object_set_new(names, json_string_value(column), json_true());
    }
    return names;
}

int plan_check_masks(const struct pg_plan *plan, const json_t *json, const json_t *hidden,
                     struct driver_error *error)
{
    const json_t *node = json_object_get(json_array_get(json, 0), "Plan");
    json_t *names = plan_masked_names(plan, hidden);
    struct walk walk = { .expression = mask_expression, .hidden = names, .error = error };
    int r = 0;

    if (json_object_size(names) > 0)
        r = walk_node(&walk, node, NULL);
    json_decref(names);
    return r;
}

static bool is_hidden(const json_t *hidden, const json_t *relation, const char *schema,
                      const char *name)
{
    char full[2 * SQL_NAME_MAX + 2];

    snprintf(full, sizeof full, "%s.%s", text_of(relation, schema), text_of(relation, name));
    return json_object_get(hidden, full) != NULL;
}

static int foreign_node(struct walk *walk, const json_t *node)
{
    if (!IN(text_of(node, "Node Type"), foreign_scans) ||
        !is_hidden(walk->hidden, node, "Schema", "Relation Name"))
        return 0;
    return driver_fail(walk->error, CONNECT_MASKED,
                       "%.60s.%.60s is read from another server and has masked columns, so it "
                       "cannot be read here",
                       text_of(node, "Schema"), text_of(node, "Relation Name"));
}

int plan_check_foreign(const json_t *json, const json_t *hidden, struct driver_error *error)
{
    const json_t *node = json_object_get(json_array_get(json, 0), "Plan");
    struct walk walk = { .node = foreign_node, .hidden = hidden, .error = error };

    return walk_node(&walk, node, NULL);
}

/* "p_2" was "p": names of a plan are unique. */
static void alias_base(const char *alias, char base[SQL_NAME_MAX])
{
    size_t len = strlen(alias), digits = 0;

    while (digits < len && alias[len - digits - 1] >= '0' && alias[len - digits - 1] <= '9')
        digits++;
    if (digits > 0 && digits < len && alias[len - digits - 1] == '_')
        len -= digits + 1;
    snprintf(base, SQL_NAME_MAX, "%.*s", (int) len, alias);
}

static int alias_node(struct walk *walk, const json_t *node)
{
    struct sql_lexer lexer = { .text = walk->sql, .len = strlen(walk->sql) };
    const char *alias = text_of(node, "Alias");
    char base[SQL_NAME_MAX];
    struct sql_piece piece;
    bool named = false;

    if (!*alias || !is_hidden(walk->hidden, node, "Schema", "Relation Name"))
        return 0;
    alias_base(alias, base);
    /* A long name was cut to make room for its number. */
    if (strlen(alias) >= SQL_NAME_MAX - 8)
        return driver_fail(walk->error, CONNECT_MASKED, "give the table a shorter alias");
    do {
        sql_next(&lexer, &piece);
        if (named && piece.kind == SQL_OTHER && piece.symbol == '(')
            return driver_fail(
                walk->error, CONNECT_MASKED,
                "'%.60s(' may rename columns of a table that has masked ones; use an "
                "alias without a list of columns",
                base);
        named = piece.kind == SQL_WORD &&
                (strcmp(piece.name, base) == 0 || strcmp(piece.name, alias) == 0);
    } while (piece.kind != SQL_END && piece.kind != SQL_BROKEN);
    return 0;
}

int plan_check_aliases(const json_t *json, const json_t *hidden, const char *sql,
                       struct driver_error *error)
{
    const json_t *node = json_object_get(json_array_get(json, 0), "Plan");
    struct walk walk = { .node = alias_node, .hidden = hidden, .sql = sql, .error = error };

    return walk_node(&walk, node, NULL);
}
