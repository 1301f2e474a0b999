/*
 * Tables of fields: what a body, a query or the arguments of a tool may contain.
 *
 * The same rows check the input, fill a struct for the handler, and are rendered as JSON Schema in
 * /openapi.json and in the tools of MCP. Tables of responses are only rendered.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/param.h"

enum field_type {
    FIELD_TEXT,    /* const char *; NULL when absent */
    FIELD_BOOL,    /* bool; false when absent */
    FIELD_INT,     /* int64_t; FIELD_ABSENT when absent */
    FIELD_SECONDS, /* int64_t, microseconds, from a number; FIELD_ABSENT when absent */
    FIELD_SIZE,    /* int64_t, bytes, from a number or "512m"; FIELD_ABSENT when absent */
    FIELD_CHOICE,  /* int, index into choices; -1 when absent */
    FIELD_OBJECT,  /* const json_t *; NULL when absent; @of is its schema, checked elsewhere */
    FIELD_MAP,     /* const json_t *: an object whose values are strings */
    FIELD_LIST,    /* const json_t *: an array of @of, or of strings */
    FIELD_NUMBER,  /* const json_t *: a number with or without a fraction; NULL when absent */
    FIELD_ROWS,    /* responses only, like the next: an array of arrays */
    FIELD_ANY,
};

#define FIELD_ABSENT     INT64_MIN
#define FIELD_ABOVE_ZERO 1 /* as the minimum of FIELD_SECONDS: anything but 0 */

enum field_flag {
    FIELD_REQUIRED = 1 << 0, /* in responses: always present */
    FIELD_NULLABLE = 1 << 1, /* responses only: in requests null always counts as absent */
};

struct schema;

struct field {
    const char *name;
    enum field_type type;
    unsigned flags;
    size_t offset;
    int64_t min, max;           /* numbers: value; strings: bytes; lists: items. 0, 0: any */
    const char *const *choices; /* ends with NULL */
    const struct schema *of;
    const char *help;
    const char *example; /* JSON text, or NULL */
};

struct schema {
    const char *name; /* in /openapi.json; NULL where only MCP has it */
    const char *help;
    const struct field *fields; /* ends with a NULL name */
    size_t size;                /* of the struct that it fills; 0 for responses */
};

/* Fills @ret, a struct of schema->size bytes, from @body, whose strings it borrows. Errors are
 * added to @errors as {loc, msg, type}; with @strict unknown names are errors too. Returns 0, or
 * -EINVAL if @errors is not empty. */
int fields_read_body(const struct schema *schema, const json_t *body, bool strict, void *ret,
                     json_t *errors);

/* The same for a query, where every value is text. */
int fields_read_query(const struct schema *schema, const struct param *params, size_t len,
                      void *ret, json_t *errors);

/* Adds {loc: [@where, @name], msg, type} to @errors, unless it is full. */
void fields_add_error(json_t *errors, const char *where, const char *name, const char *type,
                      const char *msg);

/* As JSON Schema; the caller owns the object. Schemas of members are referenced by name, as
 * components of /openapi.json. */
json_t *fields_to_schema(const struct schema *schema);

/* One field of it, as for a query parameter. */
json_t *field_to_schema(const struct field *field);

/* As a self-contained JSON Schema, as in a tool of MCP. @closed: other members are refused. */
json_t *fields_to_whole_schema(const struct schema *schema, bool closed);
