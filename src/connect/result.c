/*
 * The result of a query, written as result.h describes it: values are collected column by column
 * and go to the file as a batch once they are RESULT_BATCH_BYTES, so memory holds one batch and one
 * row, however long the result is.
 */
#include "connect/result.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define BATCH_ROWS   65536
#define STAGE_BYTES  ((size_t) 64 << 10)
#define HEAD_BYTES   16 /* of a chunk */
#define END_RESERVE  96 /* the chunk at the end */
#define ALIGN8(size) (((size) + 7) & ~(size_t) 7)

struct column {
    struct result_column is;
    bool fixed;
    uint8_t *nulls;  /* a byte for each row */
    uint64_t *words; /* the values of fixed types, else the end of each value in @bytes */
    char *bytes;
    size_t nulls_cap, words_cap, bytes_cap;
    size_t bytes_len, null_count;
};

struct result {
    int fd;
    int64_t bytes_max, written, rows;
    struct column *columns;
    size_t len, at;    /* @at: the column that the next value is for */
    size_t batch_rows; /* complete ones */
    size_t batch_bytes;
    char *stage;
    size_t stage_len;
};

static const struct {
    const char *word;
    bool fixed;
} types[] = {
#define RESULT_ROW(name, word, fixed) [RESULT_##name] = { word, fixed },
    RESULT_TYPES(RESULT_ROW)
#undef RESULT_ROW
};

const char *result_type_word(enum result_type type)
{
    return types[type].word;
}

/* ---- the file ---- */

static int stage_flush(struct result *result)
{
    int r = io_write_all(result->fd, result->stage, result->stage_len);

    result->stage_len = 0;
    return r;
}

static int emit(struct result *result, const void *data, size_t len)
{
    int r;

    if (len == 0)
        return 0;
    result->written += (int64_t) len;
    if (result->stage_len + len > STAGE_BYTES && (r = stage_flush(result)) < 0)
        return r;
    if (len > STAGE_BYTES)
        return io_write_all(result->fd, data, len);
    memcpy(result->stage + result->stage_len, data, len);
    result->stage_len += len;
    return 0;
}

static int emit_word(struct result *result, uint64_t value)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t) (value >> (8 * i));
    return emit(result, bytes, sizeof bytes);
}

static int emit_padding(struct result *result, size_t len)
{
    static const char zeros[8];

    return emit(result, zeros, ALIGN8(len) - len);
}

static int emit_head(struct result *result, const char tag[4], uint64_t len)
{
    char head[8] = { tag[0], tag[1], tag[2], tag[3], 0, 0, 0, 0 };
    int r = emit(result, head, sizeof head);

    return r < 0 ? r : emit_word(result, len);
}

static int emit_text_chunk(struct result *result, const char tag[4], const char *text)
{
    size_t len = strlen(text);
    int r;

    if (result->written + (int64_t) (HEAD_BYTES + ALIGN8(len)) > result->bytes_max)
        return -EFBIG;
    if ((r = emit_head(result, tag, len)) < 0 || (r = emit(result, text, len)) < 0)
        return r;
    return emit_padding(result, len);
}

/* ---- the columns ---- */

static json_t *fields_json(const char *text)
{
    return text ? json_loads(text, JSON_DECODE_ANY, NULL) : json_array();
}

json_t *result_columns_json(const struct result_column *columns, size_t len)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < len; i++) {
        const struct result_column *c = &columns[i];

        if (json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:o}", "name", c->name,
                                                  "type", types[c->type].word, "source_type",
                                                  c->source_type ? c->source_type : "", "repeated",
                                                  c->repeated, "fields", fields_json(c->fields))) <
            0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int write_schema(struct result *result, const struct result_column *columns)
{
    json_t *root = json_pack("{s:o}", "columns", result_columns_json(columns, result->len));
    autofree char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    int r;

    json_decref(root);
    if (!text)
        return -ENOMEM;
    if ((r = emit(result, RESULT_MAGIC, sizeof RESULT_MAGIC - 1)) < 0)
        return r;
    return emit_text_chunk(result, "SCHM", text);
}

static int check_columns(const struct result_column *columns, size_t len)
{
    if (len > RESULT_COLUMNS_MAX)
        return -E2BIG;
    for (size_t i = 0; i < len; i++) {
        const char *name = columns[i].name;

        if (!name || strlen(name) > RESULT_NAME_MAX || !utf8_valid(name, strlen(name)))
            return -EINVAL;
    }
    return 0;
}

static void column_release(struct result_column *column)
{
    free(column->name);
    free(column->source_type);
    free(column->fields);
}

void result_columns_free(struct result_column *columns, size_t len)
{
    for (size_t i = 0; columns && i < len; i++)
        column_release(&columns[i]);
    free(columns);
}

static int result_start(struct result *result, const struct result_column *columns)
{
    int r = check_columns(columns, result->len);

    if (r < 0)
        return r;
    if (!result->stage || !result->columns)
        return -ENOMEM;
    return write_schema(result, columns);
}

int result_new(int fd, int64_t bytes_max, struct result_column *columns, size_t len,
               struct result **ret_result)
{
    struct result *result = calloc(1, sizeof *result);
    int r = -ENOMEM;

    if (result) {
        *result = (struct result){ .fd = fd, .bytes_max = bytes_max, .len = len };
        result->stage = malloc(STAGE_BYTES);
        result->columns = calloc(len ? len : 1, sizeof *result->columns);
        r = result_start(result, columns);
    }
    if (r < 0) {
        result_columns_free(columns, len);
        if (result)
            result->len = 0;
        result_free(result);
        return r;
    }
    for (size_t i = 0; i < len; i++)
        result->columns[i] =
            (struct column){ .is = columns[i],
                             .fixed = types[columns[i].type].fixed && !columns[i].repeated };
    free(columns);
    *ret_result = result;
    return 0;
}

void result_free(struct result *result)
{
    if (!result)
        return;
    for (size_t i = 0; i < result->len; i++) {
        column_release(&result->columns[i].is);
        free(result->columns[i].nulls);
        free(result->columns[i].words);
        free(result->columns[i].bytes);
    }
    free(result->columns);
    free(result->stage);
    free(result);
}

/* ---- values ---- */

/* The column of the next value, with room for it in @words; counts its @bytes against the limit. A
 * null byte is counted for every value: that is what the batch has if any is null. */
static int next_column(struct result *result, bool fixed, bool any, size_t bytes,
                       struct column **ret_column)
{
    struct column *column;
    void *grown;

    if (result->at >= result->len)
        return -EINVAL;
    column = &result->columns[result->at];
    if (!any && column->fixed != fixed)
        return -EINVAL;
    if (bytes > (size_t) result->bytes_max ||
        result->written + (int64_t) (result->batch_bytes + bytes + 9) +
                (int64_t) (result->len * 32 + END_RESERVE + HEAD_BYTES + 8) >
            result->bytes_max)
        return -EFBIG;
    grown = grow(column->words, &column->words_cap, result->batch_rows + 1, 8, 64);
    if (!grown)
        return -ENOMEM;
    column->words = grown;
    grown = grow(column->nulls, &column->nulls_cap, result->batch_rows + 1, 1, 64);
    if (!grown)
        return -ENOMEM;
    column->nulls = grown;
    column->nulls[result->batch_rows] = 0;
    result->batch_bytes += bytes + 9;
    *ret_column = column;
    return 0;
}

int result_put_null(struct result *result)
{
    struct column *column;
    int r = next_column(result, false, true, 0, &column);

    if (r < 0)
        return r;
    column->nulls[result->batch_rows] = 1;
    column->null_count++;
    column->words[result->batch_rows] = column->fixed ? 0 : column->bytes_len;
    result->at++;
    return 0;
}

static int put_word(struct result *result, uint64_t value, bool is_float)
{
    struct column *column;
    int r = next_column(result, true, false, 0, &column);

    if (r < 0)
        return r;
    if ((column->is.type == RESULT_FLOAT) != is_float ||
        (column->is.type == RESULT_BOOL && value > 1))
        return -EINVAL;
    column->words[result->batch_rows] = value;
    result->at++;
    return 0;
}

int result_put_int(struct result *result, int64_t value)
{
    return put_word(result, (uint64_t) value, false);
}

int result_put_float(struct result *result, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return put_word(result, bits, true);
}

int result_put_text(struct result *result, const char *text, size_t len)
{
    struct column *column;
    char *grown;
    int r = next_column(result, false, false, len, &column);

    if (r < 0)
        return r;
    if (column->is.type != RESULT_BYTES && !utf8_valid(text, len))
        return -EILSEQ;
    grown = grow(column->bytes, &column->bytes_cap, column->bytes_len + len + 1, 1, 256);
    if (!grown)
        return -ENOMEM;
    column->bytes = grown;
    if (len > 0)
        memcpy(column->bytes + column->bytes_len, text, len);
    column->bytes_len += len;
    column->words[result->batch_rows] = column->bytes_len;
    result->at++;
    return 0;
}

/* ---- batches ---- */

static size_t column_size(const struct result *result, const struct column *column)
{
    size_t n = result->batch_rows, size = 8;

    if (column->null_count > 0)
        size += ALIGN8(n);
    return size + (column->fixed ? 8 * n : 8 * (n + 1) + ALIGN8(column->bytes_len));
}

static int write_words(struct result *result, const uint64_t *words)
{
    int r = 0;

    for (size_t i = 0; i < result->batch_rows && r == 0; i++)
        r = emit_word(result, words[i]);
    return r;
}

static int write_column(struct result *result, struct column *column)
{
    int r = emit_word(result, column->null_count);

    if (r == 0 && column->null_count > 0 &&
        (r = emit(result, column->nulls, result->batch_rows)) == 0)
        r = emit_padding(result, result->batch_rows);
    if (r == 0 && !column->fixed)
        r = emit_word(result, 0);
    if (r == 0)
        r = write_words(result, column->words);
    if (r == 0 && !column->fixed && (r = emit(result, column->bytes, column->bytes_len)) == 0)
        r = emit_padding(result, column->bytes_len);
    column->null_count = column->bytes_len = 0;
    return r;
}

static int write_batch(struct result *result)
{
    size_t size = 8;
    int r;

    if (result->batch_rows == 0)
        return 0;
    for (size_t i = 0; i < result->len; i++)
        size += column_size(result, &result->columns[i]);
    if (result->written + (int64_t) (HEAD_BYTES + size + END_RESERVE) > result->bytes_max)
        return -EFBIG;
    if ((r = emit_head(result, "BTCH", size)) < 0 ||
        (r = emit_word(result, result->batch_rows)) < 0)
        return r;
    for (size_t i = 0; i < result->len && r == 0; i++)
        r = write_column(result, &result->columns[i]);
    result->batch_rows = result->batch_bytes = 0;
    return r;
}

int result_end_row(struct result *result)
{
    if (result->at != result->len)
        return -EINVAL;
    result->at = 0;
    result->rows++;
    result->batch_rows++;
    if (result->batch_bytes < RESULT_BATCH_BYTES && result->batch_rows < BATCH_ROWS)
        return 0;
    return write_batch(result);
}

int64_t result_rows(const struct result *result)
{
    return result->rows;
}

int result_finish(struct result *result, int64_t *ret_size)
{
    char text[64];
    int r;

    if (result->at != 0)
        return -EINVAL;
    if ((r = write_batch(result)) < 0)
        return r;
    snprintf(text, sizeof text, "{\"rows\":%lld}", (long long) result->rows);
    if ((r = emit_text_chunk(result, "END ", text)) < 0 || (r = stage_flush(result)) < 0)
        return r;
    *ret_size = result->written;
    return 0;
}
