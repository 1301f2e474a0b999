#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "connect/bigquery.h"

#include "base/banned.h"

/* ---- schemas ---- */

/* Names of types as the API and as SQL have them. RANGE is text: its ends have no type of ours. */
static const struct type_row {
    const char *name, *source_type;
    enum result_type type;
} type_rows[] = {
    { "STRING", "STRING", RESULT_TEXT },
    { "BYTES", "BYTES", RESULT_BYTES },
    { "INTEGER", "INT64", RESULT_INT },
    { "INT64", "INT64", RESULT_INT },
    { "FLOAT", "FLOAT64", RESULT_FLOAT },
    { "FLOAT64", "FLOAT64", RESULT_FLOAT },
    { "NUMERIC", "NUMERIC", RESULT_DECIMAL },
    { "BIGNUMERIC", "BIGNUMERIC", RESULT_DECIMAL },
    { "BOOLEAN", "BOOL", RESULT_BOOL },
    { "BOOL", "BOOL", RESULT_BOOL },
    { "TIMESTAMP", "TIMESTAMP", RESULT_TIMESTAMPTZ },
    { "DATE", "DATE", RESULT_DATE },
    { "TIME", "TIME", RESULT_TIME },
    { "DATETIME", "DATETIME", RESULT_TIMESTAMP },
    { "GEOGRAPHY", "GEOGRAPHY", RESULT_GEOGRAPHY },
    { "JSON", "JSON", RESULT_JSON },
    { "INTERVAL", "INTERVAL", RESULT_INTERVAL },
    { "RANGE", "RANGE", RESULT_TEXT },
    { "RECORD", "STRUCT", RESULT_RECORD },
    { "STRUCT", "STRUCT", RESULT_RECORD },
};

static const struct type_row *find_type(const char *name)
{
    for (size_t i = 0; name && i < ARRAY_LEN(type_rows); i++)
        if (strcmp(type_rows[i].name, name) == 0)
            return &type_rows[i];
    return NULL;
}

enum result_type bigquery_type(const char *name)
{
    const struct type_row *row = find_type(name);

    return row ? row->type : RESULT_TYPE_COUNT;
}

void bigquery_fields_free(struct bigquery_field *fields, size_t len)
{
    for (size_t i = 0; fields && i < len; i++) {
        free(fields[i].name);
        free(fields[i].source_type);
        bigquery_fields_free(fields[i].fields, fields[i].len);
    }
    free(fields);
}

static int broken(struct driver_error *error, const char *what)
{
    return driver_fail(error, CONNECT_BROKEN, "BigQuery's reply is not valid: %s", what);
}

static int no_memory(struct driver_error *error)
{
    return driver_fail(error, CONNECT_INTERNAL, "out of memory");
}

static char *make_source_type(const struct type_row *row, const json_t *json, bool repeated)
{
    const char *element = bigquery_text(json_object_get(json, "rangeElementType"), "type");
    char *text = NULL;
    int r;

    if (strcmp(row->name, "RANGE") == 0 && find_type(element))
        r = asprintf(&text, repeated ? "ARRAY<RANGE<%s>>" : "RANGE<%s>", element);
    else
        r = asprintf(&text, repeated ? "ARRAY<%s>" : "%s", row->source_type);
    return r < 0 ? NULL : text;
}

static int read_fields(const json_t *json, int depth, size_t *budget,
                       struct bigquery_field **ret_fields, size_t *ret_len,
                       struct driver_error *error);

static int read_field(const json_t *json, int depth, size_t *budget, struct bigquery_field *field,
                      struct driver_error *error)
{
    const char *name = bigquery_text(json, "name"), *mode = bigquery_text(json, "mode");
    const char *type_name = bigquery_text(json, "type");
    const struct type_row *row = find_type(type_name);

    if (!json_is_object(json) || !name || !type_name)
        return broken(error, "a column without name or type");
    if (strlen(name) >= RESULT_NAME_MAX)
        return driver_fail(error, CONNECT_UNSUPPORTED, "the name of a column is too long");
    if (!row)
        return driver_fail(error, CONNECT_UNSUPPORTED,
                           "column %.100s has type %.60s, which is not supported; cast it in the "
                           "query, for example with TO_JSON_STRING(column)",
                           name, type_name);
    field->type = row->type;
    field->repeated = mode && strcmp(mode, "REPEATED") == 0;
    field->fine = bigquery_count(json, "timestampPrecision") > 6;
    field->name = strdup(name);
    field->source_type = make_source_type(row, json, field->repeated);
    if (!field->name || !field->source_type)
        return no_memory(error);
    if (row->type != RESULT_RECORD)
        return 0;
    return read_fields(json_object_get(json, "fields"), depth + 1, budget, &field->fields,
                       &field->len, error);
}

/* In a STRUCT, where values go by name. */
static int check_names(const struct bigquery_field *fields, size_t len, struct driver_error *error)
{
    json_t *seen = json_object();
    bool twice = false;

    if (!seen)
        return no_memory(error);
    for (size_t i = 0; i < len && !twice; i++) {
        twice = json_object_get(seen, fields[i].name) != NULL;
        if (json_object_set_new(seen, fields[i].name, json_true()) < 0) {
            json_decref(seen);
            return broken(error, "the name of a field is not text");
        }
    }
    json_decref(seen);
    return twice ? driver_fail(error, CONNECT_UNSUPPORTED,
                               "a STRUCT of the result has two fields with the same name; name "
                               "them with AS")
                 : 0;
}

/* @budget is how many fields there may be, with those nested. */
static int read_fields(const json_t *json, int depth, size_t *budget,
                       struct bigquery_field **ret_fields, size_t *ret_len,
                       struct driver_error *error)
{
    size_t len = json_array_size(json);
    struct bigquery_field *fields;
    int r = 0;

    if (!json_is_array(json) || len == 0)
        return broken(error, "a schema without columns");
    if (depth > BIGQUERY_NEST_MAX || len > *budget)
        return driver_fail(error, CONNECT_TOO_LARGE,
                           "the result has more than %d fields or is nested deeper than %d; select "
                           "fewer columns",
                           BIGQUERY_FIELDS_MAX, BIGQUERY_NEST_MAX);
    *budget -= len;
    fields = calloc(len, sizeof *fields);
    if (!fields)
        return no_memory(error);
    for (size_t i = 0; i < len && r == 0; i++)
        r = read_field(json_array_get(json, i), depth, budget, &fields[i], error);
    if (r == 0 && depth > 0)
        r = check_names(fields, len, error);
    if (r < 0) {
        bigquery_fields_free(fields, len);
        return r;
    }
    *ret_fields = fields;
    *ret_len = len;
    return 0;
}

int bigquery_schema_read(const json_t *schema, int64_t columns_max,
                         struct bigquery_field **ret_fields, size_t *ret_len,
                         struct driver_error *error)
{
    const json_t *json = json_object_get(schema, "fields");
    size_t budget = BIGQUERY_FIELDS_MAX;

    if (columns_max <= 0 || columns_max > RESULT_COLUMNS_MAX)
        columns_max = RESULT_COLUMNS_MAX;
    if (json_array_size(json) > (size_t) columns_max)
        return driver_fail(error, CONNECT_TOO_LARGE,
                           "the result has %zu columns, and at most %lld are taken; select fewer",
                           json_array_size(json), (long long) columns_max);
    return read_fields(json, 0, &budget, ret_fields, ret_len, error);
}

/* ---- as columns ---- */

json_t *bigquery_fields_json(const struct bigquery_field *fields, size_t len)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < len; i++) {
        json_t *nested = NULL, *one;

        if (fields[i].type == RESULT_RECORD)
            nested = bigquery_fields_json(fields[i].fields, fields[i].len);
        one = json_pack("{s:s, s:s, s:s, s:b, s:o*}", "name", fields[i].name, "type",
                        result_type_word(fields[i].type), "source_type", fields[i].source_type,
                        "repeated", (int) fields[i].repeated, "fields", nested);
        if (!one || json_array_append_new(list, one) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static char *nested_text(const struct bigquery_field *field)
{
    json_t *list = bigquery_fields_json(field->fields, field->len);
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;

    json_decref(list);
    return text;
}

struct result_column *bigquery_columns(const struct bigquery_field *fields, size_t len)
{
    struct result_column *columns = calloc(len, sizeof *columns);
    bool good = columns != NULL;

    for (size_t i = 0; good && i < len; i++) {
        columns[i].type = fields[i].type;
        columns[i].repeated = fields[i].repeated;
        columns[i].name = strdup(fields[i].name);
        columns[i].source_type = strdup(fields[i].source_type);
        if (fields[i].type == RESULT_RECORD)
            columns[i].fields = nested_text(&fields[i]);
        good = columns[i].name && columns[i].source_type &&
               (fields[i].type != RESULT_RECORD || columns[i].fields);
    }
    if (good)
        return columns;
    for (size_t i = 0; columns && i < len; i++) {
        free(columns[i].name);
        free(columns[i].source_type);
        free(columns[i].fields);
    }
    free(columns);
    return NULL;
}

/* ---- values ---- */

/* One value that is not null, as text of the wire: whether it is what the field is. Fixed types but
 * FLOAT in @ret_int. */
static bool read_scalar(struct bigquery_field *field, const char *text, size_t len,
                        int64_t *ret_int, double *ret_float)
{
    bool good = true, cut = false;

    switch (field->type) {
    case RESULT_BOOL:
        *ret_int = len == 4;
        return (len == 4 && memcmp(text, "true", 4) == 0) ||
               (len == 5 && memcmp(text, "false", 5) == 0);
    case RESULT_INT:
        return bigquery_int(text, len, ret_int);
    case RESULT_FLOAT:
        return bigquery_float(text, len, ret_float);
    case RESULT_DATE:
        return bigquery_date(text, len, ret_int);
    case RESULT_TIME:
        return bigquery_time(text, len, ret_int);
    case RESULT_TIMESTAMP:
        good = bigquery_datetime(text, len, ret_int, &cut) && !cut;
        break;
    case RESULT_TIMESTAMPTZ:
        good = bigquery_timestamp(text, len, field->fine, ret_int, &cut);
        break;
    case RESULT_DECIMAL:
        return bigquery_decimal(text, len);
    case RESULT_TEXT:
    case RESULT_BYTES:
    case RESULT_JSON:
    case RESULT_UUID:
    case RESULT_INTERVAL:
    case RESULT_GEOGRAPHY:
        break;
    case RESULT_RECORD:
    case RESULT_TYPE_COUNT:
        return false;
    }
    field->was_cut |= cut;
    return good;
}

static json_t *nested_value(struct bigquery_field *field, const json_t *v, bool inside);

static json_t *nested_record(struct bigquery_field *field, const json_t *v)
{
    const json_t *cells = json_object_get(v, "f");
    json_t *object;

    if (json_array_size(cells) != field->len)
        return NULL;
    object = json_object();
    for (size_t i = 0; object && i < field->len; i++) {
        json_t *value =
            nested_value(&field->fields[i], json_object_get(json_array_get(cells, i), "v"), false);

        if (!value || json_object_set_new(object, field->fields[i].name, value) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *nested_list(struct bigquery_field *field, const json_t *v)
{
    json_t *list = json_is_array(v) ? json_array() : NULL;

    for (size_t i = 0; list && i < json_array_size(v); i++) {
        json_t *value = nested_value(field, json_object_get(json_array_get(v, i), "v"), true);

        if (!value || json_array_append_new(list, value) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* A value inside JSON, as result.h says. @inside: it is an element of the field. NULL: it is not
 * what the field is. */
static json_t *nested_value(struct bigquery_field *field, const json_t *v, bool inside)
{
    const char *text = json_string_value(v);
    size_t len = json_string_length(v);
    int64_t number = 0;
    double real;

    if (json_is_null(v))
        return json_null();
    if (field->repeated && !inside)
        return nested_list(field, v);
    if (field->type == RESULT_RECORD)
        return nested_record(field, v);
    if (!text || !read_scalar(field, text, len, &number, &real))
        return NULL;
    if (field->type == RESULT_BOOL)
        return json_boolean(number != 0);
    if (field->type == RESULT_BYTES) {
        autofree char *data = NULL;

        if (!bigquery_bytes(text, len, &data, &len))
            return NULL;
        return json_incref((json_t *) v); /* base64 stays base64 */
    }
    if (field->type == RESULT_INT || field->type == RESULT_DATE || field->type == RESULT_TIME ||
        field->type == RESULT_TIMESTAMP || field->type == RESULT_TIMESTAMPTZ)
        return json_integer(number);
    return json_incref((json_t *) v);
}

static int put_nested(struct bigquery_field *field, const json_t *v, struct result *result)
{
    json_t *json = nested_value(field, v, false);
    autofree char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    json_decref(json);
    return text ? result_put_text(result, text, strlen(text)) : -EPROTO;
}

static int put_bytes(const char *text, size_t len, struct result *result)
{
    autofree char *data = NULL;
    size_t data_len;

    if (!bigquery_bytes(text, len, &data, &data_len))
        return -EPROTO;
    return result_put_text(result, data, data_len);
}

static int put_value(struct bigquery_field *field, const json_t *v, struct result *result)
{
    const char *text = json_string_value(v);
    size_t len = json_string_length(v);
    int64_t number = 0;
    double real = 0;

    if (json_is_null(v))
        return result_put_null(result);
    if (field->repeated || field->type == RESULT_RECORD)
        return put_nested(field, v, result);
    if (!text || !read_scalar(field, text, len, &number, &real))
        return -EPROTO;
    if (field->type == RESULT_FLOAT)
        return result_put_float(result, real);
    if (field->type == RESULT_BYTES)
        return put_bytes(text, len, result);
    if (field->type <= RESULT_TIMESTAMPTZ)
        return result_put_int(result, number);
    return result_put_text(result, text, len);
}

_Static_assert(RESULT_TEXT == RESULT_TIMESTAMPTZ + 1, "fixed types are the first");

int bigquery_row_put(struct bigquery_field *fields, size_t len, const json_t *row,
                     struct result *result, struct driver_error *error)
{
    const json_t *cells = json_object_get(row, "f");
    int r = 0;

    if (!json_is_array(cells) || json_array_size(cells) != len)
        return broken(error, "a row does not have as many values as there are columns");
    for (size_t i = 0; i < len; i++) {
        const json_t *v = json_object_get(json_array_get(cells, i), "v");

        r = v ? put_value(&fields[i], v, result) : -EPROTO;
        if (r == -EPROTO || r == -EILSEQ)
            return driver_fail(
                error, CONNECT_BROKEN,
                "BigQuery's reply is not valid: a value of column %.100s is no %.60s",
                fields[i].name, fields[i].source_type);
        if (r < 0)
            break;
    }
    if (r == 0)
        r = result_end_row(result);
    if (r == -EFBIG)
        return driver_fail(error, CONNECT_TOO_LARGE,
                           "the result is larger than the limit; select fewer columns or rows, or "
                           "aggregate in the query");
    return r < 0 ? driver_fail(error, CONNECT_INTERNAL, "cannot write the result: %s", strerror(-r))
                 : 0;
}

char *bigquery_sample(struct bigquery_field *field, const json_t *cell, size_t max)
{
    const json_t *v = json_object_get(cell, "v");
    const char *text = json_string_value(v);
    size_t len = json_string_length(v);
    char shown[BIGQUERY_TIMESTAMP_MAX];
    int64_t number = 0;
    double real;

    if (!text || field->repeated || field->type == RESULT_RECORD || field->type == RESULT_BYTES ||
        !read_scalar(field, text, len, &number, &real))
        return NULL;
    if (memchr(text, '\0', len))
        return NULL;
    /* A number on the wire, which says nothing to somebody who writes a query. */
    if (field->type == RESULT_TIMESTAMPTZ && bigquery_int(text, len, &number)) {
        bigquery_timestamp_text(number, shown);
        text = shown;
        len = strlen(text);
    }
    if (len > max) {
        len = max;
        len -= utf8_partial_end(text, len);
    }
    return strndup(text, len);
}
