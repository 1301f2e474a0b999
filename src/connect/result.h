/*
 * The result of a query as a file: written by the connector, column by column in batches, and read
 * by the module mark in the box (mark/box/mark.py, with numpy), never by the supervisor.
 *
 *   8 bytes   "GBRESULT"
 *   then chunks: 4 bytes tag, 4 bytes zero, 8 bytes length (little-endian), payload, zeros up to a
 *   multiple of 8
 *
 *   "SCHM"  JSON: {"columns": [{"name", "type", "source_type", "repeated": bool, "fields": [...]}]}
 *   "BTCH"  8 bytes number of rows n, then for each column:
 *             8 bytes number of nulls; if above 0, a byte for each row (1: null), padded to 8
 *             fixed types: 8 bytes for each row
 *             others: (n + 1) offsets of 8 bytes, the first 0, then as many bytes, padded to 8
 *   "END "  JSON: {"rows": n}: without it the file is not complete
 *
 * Types: fixed are "bool" (0, 1), "int" (int64), "float" (double), "date" (days since 1970), "time"
 * (microseconds since midnight), "timestamp" (microseconds since 1970, without a zone),
 * "timestamptz" (the same in UTC). INT64_MIN and INT64_MAX are minus and plus infinity in the last
 * four but "time". Others are "text", "bytes", "decimal" (digits as text, also "NaN"), "json",
 * "uuid", "interval", "geography" (text as the source writes it), and "record" or a repeated
 * column: JSON text in which every number that is not an int is a string, to be converted by
 * "fields": a repeated column is an array (of arrays, if it has more dimensions), a record an
 * object by name, NULL is null. "bool" is true or false there; "int", "date", "time", "timestamp"
 * and "timestamptz" are ints, as in the fixed types; "bytes" is base64, everything else a string.
 * "fields" are columns like those of "SCHM".
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESULT_COLUMNS_MAX 1600
#define RESULT_NAME_MAX    1024 /* bytes of a column's name; longer is refused */
#define RESULT_MAGIC       "GBRESULT"
#define RESULT_BATCH_BYTES ((size_t) 4 << 20)

#define RESULT_TYPES(TYPE)                                                                         \
    TYPE(BOOL, "bool", true)                                                                       \
    TYPE(INT, "int", true)                                                                         \
    TYPE(FLOAT, "float", true)                                                                     \
    TYPE(DATE, "date", true)                                                                       \
    TYPE(TIME, "time", true)                                                                       \
    TYPE(TIMESTAMP, "timestamp", true)                                                             \
    TYPE(TIMESTAMPTZ, "timestamptz", true)                                                         \
    TYPE(TEXT, "text", false)                                                                      \
    TYPE(BYTES, "bytes", false)                                                                    \
    TYPE(DECIMAL, "decimal", false)                                                                \
    TYPE(JSON, "json", false)                                                                      \
    TYPE(UUID, "uuid", false)                                                                      \
    TYPE(INTERVAL, "interval", false)                                                              \
    TYPE(GEOGRAPHY, "geography", false)                                                            \
    TYPE(RECORD, "record", false)

#define RESULT_ENUM(name, word, fixed) RESULT_##name,
enum result_type { RESULT_TYPES(RESULT_ENUM) RESULT_TYPE_COUNT };
#undef RESULT_ENUM

struct result_column {
    char *name, *source_type; /* UTF-8; owned */
    enum result_type type;
    bool repeated;
    char *fields; /* of a record: JSON text of its columns, or NULL */
};

struct result;

/* "int", "timestamptz", ... */
const char *result_type_word(enum result_type type);
/* The columns as "SCHM" and the message "done" have them, a new json_t array; NULL: out of memory.
 */
json_t *result_columns_json(const struct result_column *columns, size_t len);
void result_columns_free(struct result_column *columns, size_t len); /* accepts NULL */

/* @bytes_max: of the file. Takes @columns and what they own, also on failure. */
int result_new(int fd, int64_t bytes_max, struct result_column *columns, size_t len,
               struct result **ret_result);
void result_free(struct result *result); /* accepts NULL */

/* One row: each column in order, then result_end_row(). -EFBIG: the file would be too large;
 * -EINVAL: not what the column is (a driver's mistake); -EILSEQ: text that is not UTF-8 (bytes are
 * never checked). */
int result_put_null(struct result *result);
int result_put_int(struct result *result, int64_t value); /* fixed types but FLOAT */
int result_put_float(struct result *result, double value);
int result_put_text(struct result *result, const char *text, size_t len); /* all others */
int result_end_row(struct result *result);
int64_t result_rows(const struct result *result);
/* Writes what is left, and the end. */
int result_finish(struct result *result, int64_t *ret_size);
