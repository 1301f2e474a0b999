/*
 * Parameters: a list is $1, $2, ... as the server has them; a mapping is :name, which becomes $n
 * here, outside of strings, comments and casts. Values go as text, and the server decides by the
 * statement what they are.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "connect/postgres_internal.h"
#include "connect/sql_lex.h"

#include "base/banned.h"

#define PARAMS_MAX 1000

/* ---- values ---- */

static void write_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static bool write_scalar(FILE *out, const json_t *value, bool quoted)
{
    if (json_is_string(value)) {
        if (quoted)
            write_quoted(out, json_string_value(value));
        else
            fputs(json_string_value(value), out);
    } else if (json_is_boolean(value)) {
        fputs(json_is_true(value) ? "true" : "false", out);
    } else if (json_is_integer(value)) {
        fprintf(out, "%lld", (long long) json_integer_value(value));
    } else if (json_is_real(value)) {
        fprintf(out, "%.17g", json_real_value(value));
    } else if (json_is_null(value) && quoted) {
        fputs("NULL", out);
    } else {
        return false;
    }
    return true;
}

/* A list is an array of PostgreSQL. */
static bool write_list(FILE *out, const json_t *list, int depth)
{
    json_t *item;
    size_t i;

    if (depth > 5)
        return false;
    fputc('{', out);
    json_array_foreach ((json_t *) list, i, item) {
        fputs(i > 0 ? "," : "", out);
        if (json_is_array(item) ? !write_list(out, item, depth + 1)
                                : !write_scalar(out, item, true))
            return false;
    }
    fputc('}', out);
    return true;
}

/* -EINVAL: not a value that can be a parameter. */
static int value_text(const json_t *value, char **ret_text)
{
    size_t len = 0;
    FILE *out;
    bool ok;

    *ret_text = NULL;
    if (json_is_null(value))
        return 0;
    if (json_is_object(value)) {
        *ret_text = json_dumps(value, JSON_COMPACT);
        return *ret_text ? 0 : -ENOMEM;
    }
    out = open_memstream(ret_text, &len);
    if (!out)
        return -ENOMEM;
    ok = json_is_array(value) ? write_list(out, value, 0) : write_scalar(out, value, false);
    if (fclose(out) != 0)
        return -ENOMEM;
    return ok ? 0 : -EINVAL;
}

static int value_add(struct pg_params *params, const json_t *value, struct driver_error *error)
{
    int r = value_text(value, &params->values[params->len]);

    params->len++;
    if (r == -EINVAL)
        return driver_fail(error, CONNECT_UNSUPPORTED,
                           "parameter %zu is not a value: use text, numbers, booleans, None, lists "
                           "of them, or a mapping for JSON",
                           params->len);
    return r < 0 ? driver_fail(error, CONNECT_INTERNAL, "out of memory") : 0;
}

static int read_list(const json_t *list, const char *sql, struct pg_params *params,
                     struct driver_error *error)
{
    json_t *value;
    size_t i;

    params->sql = strdup(sql);
    if (!params->sql)
        return driver_fail(error, CONNECT_INTERNAL, "out of memory");
    json_array_foreach ((json_t *) list, i, value)
        if (value_add(params, value, error) < 0)
            return -1;
    return 0;
}

/* ---- names ---- */

struct naming {
    const json_t *values;
    struct pg_params *params;
    const char **names; /* that have a number, in order */
    struct driver_error *error;
    FILE *out;
    int brackets;
};

/* The number of a name, which is given when it is first seen. */
static int number_of(struct naming *naming, const char *name)
{
    const json_t *value = json_object_get(naming->values, name);
    const char *kept = NULL;
    json_t *unused;

    for (size_t i = 0; i < naming->params->len; i++)
        if (strcmp(naming->names[i], name) == 0)
            return (int) i + 1;
    json_object_foreach ((json_t *) naming->values, kept, unused)
        if (strcmp(kept, name) == 0)
            break;
    if (!value || !kept)
        return driver_fail(naming->error, CONNECT_SQL,
                           "there is no parameter named '%.60s'; params has other names", name);
    naming->names[naming->params->len] = kept;
    if (value_add(naming->params, value, naming->error) < 0)
        return -1;
    return (int) naming->params->len;
}

static int name_replace(struct naming *naming, const struct sql_piece *piece)
{
    int number;

    if (naming->brackets > 0) /* an upper bound, as in a[1:n] */
        return driver_fail(
            naming->error, CONNECT_UNSUPPORTED,
            "':%.60s' within [ ] may be a bound of an array; write $1 and give a list "
            "of parameters",
            piece->name);
    number = number_of(naming, piece->name);
    if (number < 0)
        return -1;
    fprintf(naming->out, "$%d", number);
    return 0;
}

static int names_replace(struct naming *naming, const char *sql)
{
    struct sql_lexer lexer = { .text = sql, .len = strlen(sql) };
    struct sql_piece piece;
    size_t copied = 0;

    for (;;) {
        sql_next(&lexer, &piece);
        if (piece.kind == SQL_END || piece.kind == SQL_BROKEN)
            break; /* the server says what is wrong with it */
        if (piece.kind == SQL_OTHER && piece.symbol == '[')
            naming->brackets++;
        if (piece.kind == SQL_OTHER && piece.symbol == ']')
            naming->brackets--;
        if (piece.kind != SQL_NAMED)
            continue;
        fwrite(sql + copied, 1, piece.start - copied, naming->out);
        copied = piece.start + piece.len;
        if (name_replace(naming, &piece) < 0)
            return -1;
    }
    fputs(sql + copied, naming->out);
    return 0;
}

static int read_names(const json_t *values, const char *sql, struct pg_params *params,
                      struct driver_error *error)
{
    struct naming naming = { .values = values, .params = params, .error = error };
    size_t len = 0;
    int r;

    naming.names = calloc(json_object_size(values) + 1, sizeof *naming.names);
    naming.out = open_memstream(&params->sql, &len);
    if (!naming.names || !naming.out) {
        free(naming.names);
        if (naming.out)
            fclose(naming.out);
        return driver_fail(error, CONNECT_INTERNAL, "out of memory");
    }
    r = names_replace(&naming, sql);
    free(naming.names);
    if (fclose(naming.out) != 0)
        return driver_fail(error, CONNECT_INTERNAL, "out of memory");
    if (r == 0 && params->len < json_object_size(values))
        return driver_fail(error, CONNECT_SQL,
                           "the statement uses %zu of %zu parameters; names are written :name",
                           params->len, json_object_size(values));
    return r;
}

int pg_params_read(const json_t *params, const char *sql, struct pg_params *ret_params,
                   struct driver_error *error)
{
    size_t len = json_is_array(params) ? json_array_size(params) : json_object_size(params);
    int r;

    *ret_params = (struct pg_params){ 0 };
    if (len > PARAMS_MAX)
        return driver_fail(error, CONNECT_UNSUPPORTED,
                           "%zu parameters are more than %d; give one that is a list", len,
                           PARAMS_MAX);
    ret_params->values = calloc(len + 1, sizeof *ret_params->values);
    if (!ret_params->values)
        return driver_fail(error, CONNECT_INTERNAL, "out of memory");
    r = json_is_object(params) ? read_names(params, sql, ret_params, error)
                               : read_list(params, sql, ret_params, error);
    if (r < 0)
        pg_params_release(ret_params);
    return r;
}

void pg_params_release(struct pg_params *params)
{
    for (size_t i = 0; i < params->len; i++)
        free(params->values[i]);
    free(params->values);
    free(params->sql);
    *params = (struct pg_params){ 0 };
}
