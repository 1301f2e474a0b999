/*
 * Parts of the BigQuery driver. Theory of operation: bigquery.c.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connect/driver.h"

#define BIGQUERY_BODY_MAX   ((size_t) 64 << 20) /* of one reply */
#define BIGQUERY_JSON_DEPTH 80    /* of one reply: 15 levels of STRUCT, and REPEATED */
#define BIGQUERY_NEST_MAX   16    /* of STRUCTs; BigQuery has at most 15 */
#define BIGQUERY_FIELDS_MAX 10000 /* of a schema, with nested ones */
#define BIGQUERY_ID_MAX     1024  /* bytes of a project, dataset or table; all are shorter */

/* ---- bigquery_types.c: what a schema and its rows mean ---- */

struct bigquery_field {
    char *name, *source_type;
    enum result_type type;
    bool repeated;
    bool fine;    /* a TIMESTAMP with picoseconds, which are cut */
    bool was_cut; /* and some were not zero */
    struct bigquery_field *fields;
    size_t len;
};

/* Of a result: {"fields": [...]}. Fails with TOO_LARGE above @columns_max, UNSUPPORTED for types
 * that we do not know, BROKEN for what is no schema. On the heap. */
int bigquery_schema_read(const json_t *schema, int64_t columns_max,
                         struct bigquery_field **ret_fields, size_t *ret_len,
                         struct driver_error *error);
void bigquery_fields_free(struct bigquery_field *fields, size_t len); /* accepts NULL */
/* As columns of a result, for result_new(). NULL: out of memory. */
struct result_column *bigquery_columns(const struct bigquery_field *fields, size_t len);
/* [{"name", "type", "source_type", "repeated"?, "fields"?}]. NULL: out of memory. */
json_t *bigquery_fields_json(const struct bigquery_field *fields, size_t len);
/* The type of a column by its name; RESULT_TYPE_COUNT: we do not know it. */
enum result_type bigquery_type(const char *name);

/* Writes a row {"f": [{"v": ...}]} with its end. */
int bigquery_row_put(struct bigquery_field *fields, size_t len, const json_t *row,
                     struct result *result, struct driver_error *error);
/* A value as short text for the samples of a catalogue, at most @max bytes; NULL: it is null or not
 * of its type. On the heap. */
char *bigquery_sample(struct bigquery_field *field, const json_t *cell, size_t max);

/* ---- bigquery_scalar.c: text of one value, read strictly ---- */

bool bigquery_int(const char *text, size_t len, int64_t *ret_value);
bool bigquery_float(const char *text, size_t len, double *ret_value);
bool bigquery_decimal(const char *text, size_t len);
bool bigquery_date(const char *text, size_t len, int64_t *ret_days);
bool bigquery_time(const char *text, size_t len, int64_t *ret_us);
/* "2026-11-16T18:30:00.123456"; also with a blank. Sets *@ret_cut if there were more digits than
 * microseconds and one of them was not 0. */
bool bigquery_datetime(const char *text, size_t len, int64_t *ret_us, bool *ret_cut);
/* Microseconds since 1970, or with @fine the form of a DATETIME with "Z". */
bool bigquery_timestamp(const char *text, size_t len, bool fine, int64_t *ret_us, bool *ret_cut);
/* Microseconds since 1970 as a cast to STRING shows them; any number will do. */
#define BIGQUERY_TIMESTAMP_MAX 96
void bigquery_timestamp_text(int64_t us, char buf[BIGQUERY_TIMESTAMP_MAX]);
/* Standard base64 with padding. The caller frees @ret_data, which is never NULL on success. */
bool bigquery_bytes(const char *text, size_t len, char **ret_data, size_t *ret_len);

/* A member that is a string without NUL, else NULL; an integer that may be text, else -1. */
const char *bigquery_text(const json_t *object, const char *name);
int64_t bigquery_count(const json_t *object, const char *name);

/* ---- bigquery_params.c ---- */

/* Adds parameterMode and queryParameters for the params of an order to @config. */
int bigquery_params(const json_t *params, json_t *config, struct driver_error *error);

/* ---- bigquery_http.c: one request at a time, with retries ---- */

struct bigquery {
    const struct order *order;
    const json_t *source;
    void *multi; /* CURLM */
    char *url;   /* of the API, without a slash at its end */
    char *token; /* secret */
    int64_t expires_in_s;
    bool token_is_new;                        /* to be handed back */
    const char *project, *dataset, *location; /* of the source; the last two may be NULL */
    char *job_location;                       /* where the job runs, once it is known */
    bool cancelling; /* the rest of the time is for that: control_fd and deadline do not count */
    int64_t cancel_deadline_us;
};

/* A reply that is not 2xx. */
struct bigquery_refusal {
    int status;
    char reason[64];
    char text[400];
};

int bigquery_open(const struct order *order, struct bigquery *ret_bq, struct driver_error *error);
void bigquery_close(struct bigquery *bq);

/* @path is below "projects/{project}/", already escaped. @body NULL: GET. Retries what can be
 * retried. Returns 0 and an object; or a negative number, with @error. If @refusal is not NULL, a
 * reply of status 4xx that is final is 1, with @refusal set instead of @error. */
int bigquery_call(struct bigquery *bq, const char *path, const json_t *body, json_t **ret_reply,
                  struct bigquery_refusal *refusal, struct driver_error *error);
/* Turns a refusal or an error of a job into an error of ours. */
int bigquery_refused(const struct bigquery_refusal *refusal, struct driver_error *error);
/* "a/b" as a part of a path or query. On the heap; NULL: out of memory. */
char *bigquery_escape(const char *text);
/* Waits; -1 with @error once the order was cancelled or its time is up. */
int bigquery_wait(struct bigquery *bq, int64_t us, struct driver_error *error);
/* Puts what was learned of the token into @done. */
void bigquery_tell_token(const struct bigquery *bq, json_t *done);

/* ---- bigquery_catalogue.c ---- */

int bigquery_catalogue(const struct order *order, json_t **ret_catalogue, json_t **ret_done,
                       struct driver_error *error);
int bigquery_check(const struct order *order, json_t **ret_done, struct driver_error *error);
