/* The parts of the PostgreSQL driver. postgres.c opens with the theory of operation. */
#pragma once

#include <libpq-fe.h>
#include <stdio.h>

#include "connect/driver.h"

/* ---- postgres_session.c: one connection, in one transaction that only reads ---- */

struct pg {
    const struct order *order;
    const json_t *source;
    struct driver_error *error;
    PGconn *conn;
    json_t *notices;
    int64_t connect_until_us; /* 0: connected */
    bool lost;                /* nothing more can be said to the server */
};

/* Keeps the certificate of the order where libpq finds it: before the seal. */
int pg_prepare(const struct order *order, struct driver_error *error);
/* Connects, begins, takes on role and variables, and checks that they hold. On failure everything
 * is released. */
int pg_open(struct pg *pg, const struct order *order, struct driver_error *error);
void pg_close(struct pg *pg);
/* Waits for the socket, the broker and the deadline; cancels the statement if it ends early. */
int pg_wait(struct pg *pg, short events);
/* Whether the broker left or the deadline has passed, without waiting: for loops over rows. */
int pg_still_wanted(struct pg *pg);
/* Flushes, then the next result of what was sent. 0, and NULL if there is none any more. */
int pg_next(struct pg *pg, PGresult **ret_result);
/* One statement of our own with text parameters; the result must be rows. The caller clears it. */
int pg_ask(struct pg *pg, const char *sql, int params, const char *const *values,
           PGresult **ret_result);
/* The same for a script without parameters that returns nothing. */
int pg_do(struct pg *pg, const char *script);
/* Waits for the one result of what was sent; @sql is the model's, for the place of an error. */
int pg_outcome(struct pg *pg, const char *sql, PGresult **ret_result);
/* Fills the error from what the server said, in its words. */
int pg_refused(struct pg *pg, const PGresult *result, const char *sql);
/* A literal in quotes; the caller frees it. NULL: out of memory, or not in the encoding. */
char *pg_literal(struct pg *pg, const char *text);
/* Ends the statement at the server: at most a few seconds. */
void pg_cancel(struct pg *pg);

/* ---- postgres_types.c: what a value is, and what it becomes ---- */

struct pg_types;

/* Looks up what is not built in. */
int pg_types_load(struct pg *pg, const unsigned *oids, size_t len, struct pg_types **ret_types);
struct pg_types *pg_types_builtin(void);    /* knows only those that are; for tests */
void pg_types_free(struct pg_types *types); /* accepts NULL */
/* Adds a type as the catalogue of a server describes it; for tests, and pg_types_load(). */
int pg_types_add(struct pg_types *types, unsigned oid, char kind, unsigned base, unsigned element,
                 char delimiter);
int pg_types_add_field(struct pg_types *types, unsigned oid, const char *name, unsigned field);
/* Fills type, repeated and fields. -E2BIG: a record of more fields than we describe. */
int pg_types_column(const struct pg_types *types, unsigned oid, struct result_column *column);
/* Puts a value in the text format. -EPROTO: not such a value; -ERANGE: one that we cannot carry;
 * else as result.h. */
int pg_value_put(const struct pg_types *types, unsigned oid, struct result *result,
                 const char *text, size_t len);

/* ---- postgres_plan.c: what a statement would do; pure ---- */

struct pg_plan {
    double cost, rows, bytes;
    bool is_query; /* else it is a statement without a plan */
    bool writes;
    bool broken; /* it has text that cannot be split into words */
    bool opaque; /* a node reads tables that it does not name, such as a join of foreign tables */
    /* Lists of {"schema", "name"}; names of functions have "" if the plan leaves their schema out.
     */
    json_t *relations, *functions;
};

/* Reads what EXPLAIN (VERBOSE, FORMAT JSON) said. */
int plan_read(const char *text, size_t len, struct pg_plan *ret_plan, json_t **ret_json,
              struct driver_error *error);
void plan_release(struct pg_plan *plan);
json_t *plan_estimate(const struct pg_plan *plan);
/* Relations outside of @schemas (an array, NULL: all are allowed), and those whose contents give
 * away what others hold. */
int plan_check_relations(const struct pg_plan *plan, const json_t *schemas,
                         struct driver_error *error);
/* Functions with a schema other than pg_catalog, and those that run SQL given as text. */
int plan_check_functions(const json_t *functions, struct driver_error *error);
/* Masked columns in any expression of the plan. @hidden: {"schema.table": [column, ...]}, with the
 * tables that inherit from them. */
int plan_check_masks(const struct pg_plan *plan, const json_t *json, const json_t *hidden,
                     struct driver_error *error);
/* Foreign tables with masks: their conditions are sent to another server, in its names. */
int plan_check_foreign(const json_t *json, const json_t *hidden, struct driver_error *error);
/* The names of the masked columns of the tables that the plan reads, as keys. */
json_t *plan_masked_names(const struct pg_plan *plan, const json_t *hidden);
/* An alias of a masked table that renames its columns, in the statement or the text of a view. */
int plan_check_aliases(const json_t *json, const json_t *hidden, const char *sql,
                       struct driver_error *error);
/* Adds the functions that the statement itself names, also those that the planner has folded away.
 */
int plan_add_called(const char *sql, json_t *functions, struct driver_error *error);

/* ---- postgres_unseen.c: what a plan does not show; pure ---- */

/* Masked columns, and what may hide one, in the places of @sql that are in no plan. @names: those
 * of plan_masked_names(). @operands_shown: the server's plans have what is compared with a
 * subquery. */
int plan_check_unseen(const char *sql, const json_t *names, const json_t *json, bool operands_shown,
                      struct driver_error *error);

/* ---- postgres_guard.c: plan and parameters against the rules of the order ---- */

#define PG_EXPLAIN "EXPLAIN (VERBOSE, FORMAT JSON) "

/* Runs @sql, which begins with PG_EXPLAIN. The caller releases plan and JSON. */
int pg_explain(struct pg *pg, const char *sql, struct pg_plan *ret_plan, json_t **ret_json);
/* Whether there are rules about schemas or masks at all. */
bool pg_is_guarded(const struct pg *pg);
/* Whether role and variables hold against SQL that tries to undo them. */
int pg_guard_session(struct pg *pg);
/* {"schema.table": [column, ...]} of the tables with masks and all that inherit from them. */
int pg_hidden(struct pg *pg, const json_t *masked, json_t **ret_hidden);
/* The functions and operators that the statement names: before it is planned, because the planner
 * runs some of them already, and their errors tell what they read. */
int pg_guard_text(struct pg *pg, const char *sql);
int pg_guard_plan(struct pg *pg, const char *sql, const struct pg_plan *plan, const json_t *json);

/* ---- postgres_params.c ---- */

struct pg_params {
    char *sql;     /* with $1, $2, ... in place of names */
    char **values; /* NULL: null */
    size_t len;
};

int pg_params_read(const json_t *params, const char *sql, struct pg_params *ret_params,
                   struct driver_error *error);
void pg_params_release(struct pg_params *params);

/* ---- postgres_catalogue.c, postgres_check.c ---- */

/* The schemas of the source as an array in PostgreSQL's words; NULL: all. The caller frees it. */
char *pg_schemas(const struct pg *pg);
int pg_catalogue(const struct order *order, json_t **ret_catalogue, json_t **ret_done,
                 struct driver_error *error);
int pg_check(const struct order *order, json_t **ret_done, struct driver_error *error);
