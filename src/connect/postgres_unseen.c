/*
 * What a plan does not show. EXPLAIN leaves out the lists of VALUES, the counts of LIMIT and
 * OFFSET, the bounds of window frames and, before PostgreSQL 17, what is compared with a subquery
 * by IN, ANY and ALL. A masked column in one of them is in no expression of the plan. So where a
 * table with masked columns is read, the statement itself may not name such a column, and has only
 * plain values in these places: a whole row or a renamed column would need no name. Pure functions
 * over the words of the statement; what they cannot tell apart is refused.
 */
#include <string.h>

#include "base/autoclean.h"
#include "connect/postgres_internal.h"
#include "connect/sql_lex.h"

#include "base/banned.h"

struct reader {
    struct sql_lexer lexer;
    struct sql_piece piece, last, before; /* this one, the one before it, and before that */
    struct sql_piece operand;             /* the last that was no part of an operator */
    struct sql_piece opener;              /* what was before a row of "(" */
    struct sql_piece compared;            /* what was before the operator before them */
    const json_t *names;
    bool operands_shown;
    bool between; /* the word was there: AND may be a part of it */
    struct driver_error *error;
};

static bool is_word(const struct reader *reader, const struct sql_piece *piece, const char *word)
{
    return piece->kind == SQL_WORD && reader->lexer.text[piece->start] != '"' &&
           strcmp(piece->name, word) == 0;
}

static bool is_one_of(const struct reader *reader, const struct sql_piece *piece,
                      const char *const *words)
{
    for (; *words; words++)
        if (is_word(reader, piece, *words))
            return true;
    return false;
}

static bool is_symbol(const struct sql_piece *piece, char symbol)
{
    return piece->kind == SQL_OTHER && piece->symbol == symbol;
}

static bool is_operator(const struct sql_piece *piece)
{
    return piece->kind == SQL_OTHER && strchr("+-*/<>=~!@#%^&|`?", piece->symbol);
}

static struct sql_piece ahead(const struct reader *reader)
{
    struct sql_lexer lexer = reader->lexer;
    struct sql_piece piece;

    sql_next(&lexer, &piece);
    return piece;
}

static void step(struct reader *reader)
{
    reader->before = reader->last;
    reader->last = reader->piece;
    if (!is_operator(&reader->last))
        reader->operand = reader->last;
    sql_next(&reader->lexer, &reader->piece);
    if (is_symbol(&reader->piece, '(') && !is_symbol(&reader->last, '(')) {
        reader->opener = reader->last;
        reader->compared = reader->operand;
    }
}

static int refuse(const struct reader *reader, const char *what)
{
    return driver_fail(reader->error, CONNECT_MASKED,
                       "where a table with masked columns is read, %s", what);
}

/* ---- VALUES ---- */

/* null, true, false, a type after "::" or before a string. */
static bool is_plain(const struct reader *reader, bool *in_type)
{
    static const char *const constants[] = { "null", "true", "false", NULL };
    static const char *const more[] = { "precision", "varying", "with", "without",
                                        "time",      "zone",    NULL };
    struct sql_piece next = ahead(reader);

    if (reader->last.kind == SQL_CAST) {
        *in_type = true;
        return true;
    }
    if (*in_type && is_one_of(reader, &reader->piece, more))
        return true;
    *in_type = false;
    return is_one_of(reader, &reader->piece, constants) || next.kind == SQL_TEXT;
}

/* From the word itself to the end of its last list. */
static int read_values(struct reader *reader)
{
    size_t depth = 0;
    bool in_type = false;

    for (step(reader);; step(reader)) {
        const struct sql_piece *piece = &reader->piece;

        if (is_symbol(piece, '('))
            depth++;
        else if (is_symbol(piece, ')') && depth > 0)
            depth--;
        else if ((depth == 0 && !is_symbol(piece, ',')) || piece->kind == SQL_END ||
                 piece->kind == SQL_BROKEN)
            return 0; /* behind it, or what the server refuses */
        else if (piece->kind == SQL_WORD && !is_plain(reader, &in_type))
            return refuse(reader, "VALUES may have only plain values, no names and functions");
        if (piece->kind != SQL_WORD)
            in_type = false;
    }
}

/* ---- LIMIT, OFFSET, FETCH, frames ---- */

static int check_count(struct reader *reader)
{
    static const char *const after[] = { "limit", "offset", "fetch", "for",
                                         "row",   "rows",   "only",  NULL };
    static const char *const all[] = { "all", "null", "row", "rows", NULL };
    static const char *const first[] = { "first", "next", NULL };
    struct sql_piece next;

    if (is_one_of(reader, &reader->last, first) && is_word(reader, &reader->before, "fetch")) {
        /* FETCH FIRST 5 ROWS ONLY */
    } else if (!is_word(reader, &reader->last, "limit") &&
               !is_word(reader, &reader->last, "offset")) {
        return 0;
    }
    next = ahead(reader);
    if ((reader->piece.kind == SQL_TEXT || is_one_of(reader, &reader->piece, all)) &&
        (next.kind == SQL_END || is_symbol(&next, ')') || is_symbol(&next, ';') ||
         is_one_of(reader, &next, after)))
        return 0;
    return refuse(reader, "LIMIT and OFFSET take a number or a parameter, no expression");
}

static int check_frame(struct reader *reader)
{
    static const char *const bounds[] = { "preceding", "following", NULL };
    static const char *const starts[] = { "between", "and", "rows", "range", "groups", NULL };

    if (!is_one_of(reader, &reader->piece, bounds) ||
        ((reader->last.kind == SQL_TEXT || is_word(reader, &reader->last, "unbounded")) &&
         is_one_of(reader, &reader->before, starts)))
        return 0;
    return refuse(reader, "the bounds of a window take a number or a parameter, no expression");
}

/* ---- what is compared with a subquery ---- */

/* ROW(x) LIKE (SELECT ...) and ROW(x) BETWEEN (SELECT ...) AND (SELECT ...) are comparisons of rows
 * as those by operators are. */
static bool is_comparing(const struct reader *reader)
{
    static const char *const words[] = { "like",      "ilike",      "to", "between",
                                         "symmetric", "asymmetric", NULL };

    return is_one_of(reader, &reader->opener, words) ||
           (reader->between && is_word(reader, &reader->opener, "and"));
}

static int check_compared(struct reader *reader)
{
    static const char *const queries[] = { "select", "with", "values", "table", NULL };
    static const char *const quantifiers[] = { "in", "any", "some", "all", NULL };

    reader->between = reader->between || is_word(reader, &reader->piece, "between");
    if (reader->operands_shown || !is_symbol(&reader->last, '(') ||
        !is_one_of(reader, &reader->piece, queries))
        return 0;
    if (is_one_of(reader, &reader->opener, quantifiers))
        return refuse(reader, "use EXISTS or a join instead of IN, ANY or ALL with a subquery");
    if (is_comparing(reader) || is_symbol(&reader->opener, ')') ||
        (is_operator(&reader->opener) && is_symbol(&reader->compared, ')')))
        return refuse(reader, "a row cannot be compared with a subquery; use a join");
    return 0;
}

static bool has_subplan(const json_t *node)
{
    const char *name = json_string_value(json_object_get(node, "Subplan Name"));
    json_t *child;
    size_t i;

    if (name && strncmp(name, "SubPlan", 7) == 0)
        return true;
    json_array_foreach (json_object_get(node, "Plans"), i, child)
        if (has_subplan(child))
            return true;
    return false;
}

/* ---- the statement ---- */

static int check_piece(struct reader *reader)
{
    if (reader->piece.kind == SQL_WORD && json_object_get(reader->names, reader->piece.name))
        return driver_fail(reader->error, CONNECT_MASKED,
                           "column %.60s is masked: leave it out of the statement, also as a name "
                           "for something else",
                           reader->piece.name);
    if (check_count(reader) < 0 || check_frame(reader) < 0 || check_compared(reader) < 0)
        return -1;
    return 0;
}

int plan_check_unseen(const char *sql, const json_t *names, const json_t *json, bool operands_shown,
                      struct driver_error *error)
{
    const json_t *node = json_object_get(json_array_get(json, 0), "Plan");
    struct reader reader = { .lexer = { .text = sql, .len = strlen(sql) },
                             .names = names,
                             .operands_shown = operands_shown || !has_subplan(node),
                             .error = error };
    int r = 0;

    for (step(&reader); r == 0; step(&reader)) {
        r = check_piece(&reader);
        if (r == 0 && is_word(&reader, &reader.piece, "values") && (r = read_values(&reader)) == 0)
            r = check_piece(&reader); /* the one after the lists */
        if (reader.piece.kind == SQL_END || reader.piece.kind == SQL_BROKEN)
            break;
    }
    return r;
}
