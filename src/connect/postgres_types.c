/*
 * Types of PostgreSQL: what a column of one becomes (result.h), and the list of those that a result
 * has. What is built in comes from a table; domains, arrays, records and enumerations are looked
 * up. What has no exact counterpart is text, as the server writes it, with its name as source_type.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/grow.h"
#include "connect/postgres_internal.h"
#include "connect/postgres_value.h"

#include "base/banned.h"

#define TYPES_MAX  5000
#define ROUNDS_MAX 10 /* of asking: a type in a type in a type */
#define FIELDS_MAX 20000

static const struct {
    unsigned oid;
    enum result_type type;
} builtin[] = {
    { 16, RESULT_BOOL },       { 17, RESULT_BYTES },       { 18, RESULT_TEXT },
    { 19, RESULT_TEXT },       { 20, RESULT_INT },         { 21, RESULT_INT },
    { 23, RESULT_INT },        { 25, RESULT_TEXT },        { 26, RESULT_INT },
    { 28, RESULT_INT },        { 29, RESULT_INT },         { 114, RESULT_JSON },
    { 142, RESULT_TEXT },      { 650, RESULT_TEXT },       { 700, RESULT_FLOAT },
    { 701, RESULT_FLOAT },     { 705, RESULT_TEXT },       { 774, RESULT_TEXT },
    { 790, RESULT_TEXT },      { 829, RESULT_TEXT },       { 869, RESULT_TEXT },
    { 1042, RESULT_TEXT },     { 1043, RESULT_TEXT },      { 1082, RESULT_DATE },
    { 1083, RESULT_TIME },     { 1114, RESULT_TIMESTAMP }, { 1184, RESULT_TIMESTAMPTZ },
    { 1186, RESULT_INTERVAL }, { 1266, RESULT_TEXT },      { 1560, RESULT_TEXT },
    { 1562, RESULT_TEXT },     { 1700, RESULT_DECIMAL },   { 2249, RESULT_TEXT },
    { 2950, RESULT_UUID },     { 3802, RESULT_JSON },      { 5069, RESULT_DECIMAL },
};

struct field {
    char *name;
    unsigned type;
};

struct type {
    unsigned oid;
    char kind; /* typtype: b, c, d, e, p, r, m */
    unsigned base, element;
    char delimiter;
    struct field *fields;
    size_t fields_len, fields_cap;
};

struct pg_types {
    struct type *list;
    size_t len, cap;
};

static bool builtin_type(unsigned oid, enum result_type *ret_type)
{
    for (size_t i = 0; i < ARRAY_LEN(builtin); i++)
        if (builtin[i].oid == oid) {
            *ret_type = builtin[i].type;
            return true;
        }
    return false;
}

static struct type *find(const struct pg_types *types, unsigned oid)
{
    for (size_t i = 0; i < types->len; i++)
        if (types->list[i].oid == oid)
            return &types->list[i];
    return NULL;
}

/* ---- the list ---- */

struct pg_types *pg_types_builtin(void)
{
    return calloc(1, sizeof(struct pg_types));
}

void pg_types_free(struct pg_types *types)
{
    for (size_t i = 0; types && i < types->len; i++) {
        for (size_t j = 0; j < types->list[i].fields_len; j++)
            free(types->list[i].fields[j].name);
        free(types->list[i].fields);
    }
    if (types)
        free(types->list);
    free(types);
}

int pg_types_add(struct pg_types *types, unsigned oid, char kind, unsigned base, unsigned element,
                 char delimiter)
{
    enum result_type known;
    struct type *grown;

    if (builtin_type(oid, &known) || find(types, oid))
        return 0;
    if (types->len >= TYPES_MAX)
        return -E2BIG;
    grown = grow(types->list, &types->cap, types->len + 1, sizeof *grown, 16);
    if (!grown)
        return -ENOMEM;
    types->list = grown;
    types->list[types->len++] = (struct type){
        .oid = oid, .kind = kind, .base = base, .element = element, .delimiter = delimiter
    };
    return 0;
}

int pg_types_add_field(struct pg_types *types, unsigned oid, const char *name, unsigned field)
{
    struct type *type = find(types, oid);
    struct field *grown;

    if (!type || type->kind != 'c')
        return 0;
    grown = grow(type->fields, &type->fields_cap, type->fields_len + 1, sizeof *grown, 8);
    if (!grown)
        return -ENOMEM;
    type->fields = grown;
    type->fields[type->fields_len] = (struct field){ .name = strdup(name), .type = field };
    if (!type->fields[type->fields_len].name)
        return -ENOMEM;
    type->fields_len++;
    return 0;
}

/* ---- what a type is ---- */

void pg_shape(const struct pg_types *types, unsigned oid, unsigned depth,
              struct pg_shape *ret_shape)
{
    const struct type *type = find(types, oid);

    *ret_shape = (struct pg_shape){ .type = RESULT_TEXT };
    for (unsigned i = 0; type && type->kind == 'd' && i < SHAPE_DEPTH; i++) {
        oid = type->base;
        type = find(types, oid);
    }
    if (builtin_type(oid, &ret_shape->type) || !type || depth >= SHAPE_DEPTH)
        return;
    if (type->element) {
        ret_shape->array = true;
        ret_shape->element = type->element;
        ret_shape->delimiter = type->delimiter;
    } else if (type->kind == 'c' && type->fields_len > 0) {
        ret_shape->type = RESULT_RECORD;
        ret_shape->record = type;
        ret_shape->fields_len = type->fields_len;
    }
}

void pg_shape_field(const struct pg_shape *shape, size_t i, const char **ret_name,
                    unsigned *ret_type)
{
    *ret_name = shape->record->fields[i].name;
    *ret_type = shape->record->fields[i].type;
}

static json_t *fields_of(const struct pg_types *types, const struct pg_shape *shape, unsigned depth,
                         size_t *budget);

/* What a column of that type is, as JSON without its name. */
static json_t *describe(const struct pg_types *types, unsigned oid, unsigned depth, size_t *budget)
{
    struct pg_shape shape, element;
    bool repeated;
    json_t *fields = NULL;

    if (*budget == 0)
        return NULL;
    (*budget)--;
    pg_shape(types, oid, depth, &shape);
    repeated = shape.array;
    if (repeated) {
        pg_shape(types, shape.element, depth + 1, &element);
        shape = element;
        depth++;
    }
    if (shape.array) /* an array of a domain over an array */
        shape = (struct pg_shape){ .type = RESULT_TEXT };
    if (shape.type == RESULT_RECORD) {
        fields = fields_of(types, &shape, depth + 1, budget);
        if (!fields)
            return NULL;
    }
    return json_pack("{s:s, s:s, s:b, s:o*}", "type", result_type_word(shape.type), "source_type",
                     "", "repeated", repeated, "fields", fields);
}

static json_t *fields_of(const struct pg_types *types, const struct pg_shape *shape, unsigned depth,
                         size_t *budget)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < shape->fields_len; i++) {
        const char *name;
        unsigned oid;
        json_t *field;

        pg_shape_field(shape, i, &name, &oid);
        field = describe(types, oid, depth, budget);
        if (!field || json_object_set_new(field, "name", json_string(name)) < 0 ||
            json_array_append_new(list, field) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

int pg_types_column(const struct pg_types *types, unsigned oid, struct result_column *column)
{
    size_t budget = FIELDS_MAX;
    json_t *json = describe(types, oid, 0, &budget), *fields;
    struct pg_shape shape, element;

    if (!json)
        return budget == 0 ? -E2BIG : -ENOMEM;
    pg_shape(types, oid, 0, &shape);
    column->repeated = shape.array;
    if (shape.array) {
        pg_shape(types, shape.element, 1, &element);
        shape.type = element.array ? RESULT_TEXT : element.type;
    }
    column->type = shape.type;
    fields = json_object_get(json, "fields");
    column->fields = fields ? json_dumps(fields, JSON_COMPACT) : NULL;
    json_decref(json);
    return fields && !column->fields ? -ENOMEM : 0;
}

/* ---- asking for them ---- */

static char *oid_list(const unsigned *oids, size_t len)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    fputc('{', out);
    for (size_t i = 0; i < len; i++)
        fprintf(out, "%s%u", i > 0 ? "," : "", oids[i]);
    fputc('}', out);
    return fclose(out) == 0 ? text : NULL;
}

static unsigned cell_oid(const PGresult *rows, int row, int column)
{
    return (unsigned) strtoul(PQgetvalue(rows, row, column), NULL, 10);
}

static const char types_sql[] =
    "SELECT t.oid, t.typtype, t.typbasetype, CASE WHEN t.typlen = -1 AND t.typelem <> 0 AND t.oid "
    "NOT IN (22, 30) THEN t.typelem ELSE 0 END, t.typdelim FROM pg_catalog.pg_type t WHERE t.oid = "
    "ANY ($1::pg_catalog.oid[])";
static const char fields_sql[] =
    "SELECT t.oid, a.attname, a.atttypid FROM pg_catalog.pg_type t JOIN pg_catalog.pg_attribute a "
    "ON "
    "a.attrelid = t.typrelid WHERE t.oid = ANY ($1::pg_catalog.oid[]) AND t.typtype = 'c' AND "
    "a.attnum > 0 AND NOT a.attisdropped ORDER BY t.oid, a.attnum";

static int take_types(struct pg *pg, struct pg_types *types, const char *list)
{
    PGresult *rows = NULL;
    int r = pg_ask(pg, types_sql, 1, &list, &rows);

    for (int i = 0; r == 0 && PQnfields(rows) == 5 && i < PQntuples(rows); i++)
        r = pg_types_add(types, cell_oid(rows, i, 0), PQgetvalue(rows, i, 1)[0],
                         cell_oid(rows, i, 2), cell_oid(rows, i, 3), PQgetvalue(rows, i, 4)[0]);
    PQclear(rows);
    rows = NULL;
    if (r < 0)
        return r;
    r = pg_ask(pg, fields_sql, 1, &list, &rows);
    for (int i = 0; r == 0 && PQnfields(rows) == 3 && i < PQntuples(rows); i++)
        r = pg_types_add_field(types, cell_oid(rows, i, 0), PQgetvalue(rows, i, 1),
                               cell_oid(rows, i, 2));
    PQclear(rows);
    return r;
}

struct wanted {
    unsigned *oids;
    size_t len, cap;
};

static int want(struct wanted *wanted, const struct pg_types *types, unsigned oid)
{
    enum result_type known;
    unsigned *grown;

    if (oid == 0 || builtin_type(oid, &known) || find(types, oid))
        return 0;
    for (size_t i = 0; i < wanted->len; i++)
        if (wanted->oids[i] == oid)
            return 0;
    if (wanted->len >= TYPES_MAX)
        return -E2BIG;
    grown = grow(wanted->oids, &wanted->cap, wanted->len + 1, sizeof *grown, 32);
    if (!grown)
        return -ENOMEM;
    wanted->oids = grown;
    wanted->oids[wanted->len++] = oid;
    return 0;
}

/* What the types found so far are made of. */
static int want_parts(struct wanted *wanted, const struct pg_types *types)
{
    int r = 0;

    wanted->len = 0;
    for (size_t i = 0; i < types->len && r == 0; i++) {
        const struct type *type = &types->list[i];

        r = want(wanted, types, type->base);
        if (r == 0)
            r = want(wanted, types, type->element);
        for (size_t j = 0; j < type->fields_len && r == 0; j++)
            r = want(wanted, types, type->fields[j].type);
    }
    return r;
}

int pg_types_load(struct pg *pg, const unsigned *oids, size_t len, struct pg_types **ret_types)
{
    struct pg_types *types = pg_types_builtin();
    struct wanted wanted = { 0 };
    int r = types ? 0 : -ENOMEM;

    pg->error->text[0] = '\0';
    for (size_t i = 0; i < len && r == 0; i++)
        r = want(&wanted, types, oids[i]);
    for (int round = 0; r == 0 && wanted.len > 0 && round < ROUNDS_MAX; round++) {
        autofree char *list = oid_list(wanted.oids, wanted.len);

        r = list ? take_types(pg, types, list) : -ENOMEM;
        if (r == 0)
            r = want_parts(&wanted, types);
    }
    free(wanted.oids);
    if (r == 0) {
        *ret_types = types;
        return 0;
    }
    pg_types_free(types);
    if (pg->error->text[0] == '\0')
        (void) driver_fail(pg->error, r == -E2BIG ? CONNECT_TOO_LARGE : CONNECT_INTERNAL, "%s",
                           r == -E2BIG ? "the result has more types than we look up"
                                       : "out of memory");
    return -1;
}
