/*
 * What BigQuery sends, and what a program gives as parameters: JSON of an object with "schema",
 * "rows" and "params". However wrong it is, it is an error with a text, or a result file that is
 * complete and has as many rows as were put; parameters become an object that JSON can write.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text/json_depth.h"
#include "base/text/utf8.h"
#include "connect/bigquery.h"

#include "base/banned.h"

#define FILE_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_file(int fd, int64_t size, bool finished)
{
    char magic[8];

    must(lseek(fd, 0, SEEK_END) <= FILE_MAX);
    if (!finished)
        return;
    must(lseek(fd, 0, SEEK_END) == size && size % 8 == 0);
    must(pread(fd, magic, sizeof magic, 0) == 8 && memcmp(magic, RESULT_MAGIC, 8) == 0);
}

static void put_rows(struct bigquery_field *fields, size_t len, const json_t *rows)
{
    int fd = memfd_create("result", MFD_CLOEXEC);
    struct driver_error error = { 0 };
    struct result *result = NULL;
    int64_t size = 0, put = 0;
    int r = 0;

    must(fd >= 0);
    if (result_new(fd, FILE_MAX, bigquery_columns(fields, len), len, &result) == 0) {
        for (size_t i = 0; i < json_array_size(rows) && r == 0; i++) {
            r = bigquery_row_put(fields, len, json_array_get(rows, i), result, &error);
            put += r == 0;
        }
        must(r == 0 || error.text[0]);
        must(result_rows(result) == put);
        if (r == 0)
            r = result_finish(result, &size);
        check_file(fd, size, r == 0);
        result_free(result);
    }
    (void) close(fd);
}

static void take_samples(struct bigquery_field *fields, size_t len, const json_t *rows)
{
    const json_t *cells = json_object_get(json_array_get(rows, 0), "f");

    for (size_t i = 0; i < len; i++) {
        char *text = bigquery_sample(&fields[i], json_array_get(cells, i), 20);

        must(!text || (strlen(text) <= 20 && utf8_valid(text, strlen(text))));
        free(text);
    }
}

static void read_schema(const json_t *json)
{
    const json_t *rows = json_object_get(json, "rows");
    struct bigquery_field *fields = NULL;
    struct driver_error error = { 0 };
    json_t *shown;
    size_t len = 0;

    if (bigquery_schema_read(json_object_get(json, "schema"), 100, &fields, &len, &error) < 0) {
        must(error.text[0] && !fields);
        return;
    }
    must(len > 0 && len <= 100);
    shown = bigquery_fields_json(fields, len);
    must(json_array_size(shown) == len);
    json_decref(shown);
    take_samples(fields, len, rows);
    put_rows(fields, len, rows);
    bigquery_fields_free(fields, len);
}

static void read_params(const json_t *params)
{
    json_t *config = json_object();
    struct driver_error error = { 0 };
    int r = bigquery_params(params, config, &error);
    char *text = json_dumps(config, JSON_COMPACT);

    must(text && (r == 0 || error.text[0]));
    if (r == 0 && json_array_size(params) > 0)
        must(json_array_size(json_object_get(config, "queryParameters")) ==
             json_array_size(params));
    free(text);
    json_decref(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    json_t *json = json_too_deep((const char *) input, size, BIGQUERY_JSON_DEPTH)
                       ? NULL
                       : json_loadb((const char *) input, size, JSON_ALLOW_NUL, NULL);

    if (json_is_object(json)) {
        read_schema(json);
        read_params(json_object_get(json, "params"));
    }
    json_decref(json);
    return 0;
}
