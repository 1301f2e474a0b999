/*
 * The catalogue of a directory of files, computed in a throw-away box (files.py), because files and
 * those who parse them are hostile. What the box says is not believed: only what has the shape of a
 * catalogue is taken over, within bounds.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/json_depth.h"
#include "mark/box/box.h"
#include "mark/source/files.h"

#include "base/banned.h"

#define WALL_US       (60 * USEC_PER_SEC)
#define IDLE_US       (180 * USEC_PER_SEC) /* ends a session that was not deleted */
#define REPLY_BYTES   (768 * 1024)
#define PLACE         FILES_PLACE "/files"
#define TABLES_MAX    2000
#define COLUMNS_MAX   300
#define SAMPLES_MAX   5
#define COMMENT_BYTES 600
#define DEPTH_MAX     10

extern const char profile_program[], files_program[]; /* attach/profile.py, files.py */

/* ---- the box ---- */

/* The longest time that a request may ask for here, at most WALL_US. */
static int64_t wall_of(struct service *service)
{
    json_t *limits = service_limits_to_json(service);
    double ceiling =
        json_number_value(json_object_get(json_object_get(limits, "ceiling"), "timeout"));

    json_decref(limits);
    if (ceiling <= 0 || ceiling * USEC_PER_SEC > WALL_US)
        return WALL_US;
    return (int64_t) (ceiling * USEC_PER_SEC);
}

static int run_program(struct service *service, const struct caller *caller,
                       struct session *session, int64_t samples, json_t **ret_receipt,
                       struct fault *fault)
{
    int64_t wall_us = wall_of(service);
    struct execution *execution = NULL;
    struct execution_request request;
    autofree char *code = NULL;
    int r;

    if (asprintf(&code, "%s\n%s\n%s\ncatalogue_main(\"" PLACE "\", %d, %.1f)\n", mark_box_program,
                 profile_program, files_program, (int) samples,
                 (double) wall_us / USEC_PER_SEC * 0.6) < 0) {
        code = NULL;
        return fault_no_memory(fault);
    }
    execution_request_init(&request);
    request.kind = EXECUTION_CELL;
    request.code = code;
    request.code_len = strlen(code);
    request.filename = "files.py";
    request.limits.wall_us = wall_us;
    request.reply_bytes = REPLY_BYTES;
    r = execution_run_here(service, caller, session, &request, &execution, fault);
    if (r == 0)
        r = execution_receipt(execution, ret_receipt, fault);
    execution_unref(execution);
    return r;
}

/* ---- what it said ---- */

static bool is_text(const json_t *text, size_t max)
{
    size_t len = json_string_length(text);
    const char *value = json_string_value(text);

    if (!value || len == 0 || len > max || strlen(value) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) value[i] < 0x20 || value[i] == 0x7f)
            return false;
    return true;
}

static void take_text(json_t *to, const json_t *from, const char *key, size_t max)
{
    json_t *text = json_object_get(from, key);

    (void) json_object_set(to, key, is_text(text, max) ? text : json_null());
}

static void take_count(json_t *to, const json_t *from, const char *key)
{
    json_t *count = json_object_get(from, key);

    (void) json_object_set(
        to, key, json_is_integer(count) && json_integer_value(count) >= 0 ? count : json_null());
}

static const char *type_of(const json_t *column)
{
    static const char *const types[] = { "int", "float", "bool", "date", "timestamp", "json" };
    const char *type = json_string_value(json_object_get(column, "type"));

    for (size_t i = 0; type && i < ARRAY_LEN(types); i++)
        if (strcmp(type, types[i]) == 0)
            return types[i];
    return "text";
}

static json_t *column_of(const json_t *column, int64_t samples)
{
    const json_t *given = json_object_get(column, "samples");
    json_t *taken, *sample;
    size_t i;

    if (!is_text(json_object_get(column, "name"), STORE_TABLE_NAME_MAX - 1))
        return NULL;
    taken = json_pack("{s:O, s:s, s:b, s:b, s:n}", "name", json_object_get(column, "name"), "type",
                      type_of(column), "nullable",
                      json_is_true(json_object_get(column, "nullable")), "key", 0, "references");
    take_text(taken, column, "source_type", 24);
    take_text(taken, column, "comment", COMMENT_BYTES);
    if (samples > 0) {
        json_t *list = json_array();

        json_array_foreach (given, i, sample)
            if (i < SAMPLES_MAX && (int64_t) i < samples && is_text(sample, 400))
                (void) json_array_append(list, sample);
        (void) json_object_set_new(taken, "samples", list);
    }
    return taken;
}

static json_t *table_of(const json_t *table, int64_t samples)
{
    json_t *columns = json_array(), *column, *taken;
    size_t i;

    json_array_foreach (json_object_get(table, "columns"), i, column) {
        json_t *good = i < COLUMNS_MAX ? column_of(column, samples) : NULL;

        if (good)
            (void) json_array_append_new(columns, good);
    }
    taken = json_pack("{s:O, s:s, s:b, s:n, s:o}", "name", json_object_get(table, "name"), "kind",
                      "file", "row_security", 0, "partitioning", "columns", columns);
    take_text(taken, table, "comment", COMMENT_BYTES);
    take_count(taken, table, "rows");
    take_count(taken, table, "bytes");
    return taken;
}

static json_t *catalogue_of(const json_t *receipt, int64_t samples)
{
    const json_t *out = json_object_get(receipt, "stdout");
    const char *text = json_string_value(out);
    json_t *said = NULL, *tables = json_array(), *seen = json_object(), *table;
    size_t i;

    if (text && !json_too_deep(text, json_string_length(out), DEPTH_MAX))
        said = json_loadb(text, json_string_length(out), 0, NULL);
    json_array_foreach (json_object_get(said, "tables"), i, table) {
        json_t *name = json_object_get(table, "name");

        if (i >= TABLES_MAX || !is_text(name, STORE_TABLE_NAME_MAX - 1) ||
            json_object_get(seen, json_string_value(name)))
            continue;
        (void) json_object_set_new(seen, json_string_value(name), json_true());
        (void) json_array_append_new(tables, table_of(table, samples));
    }
    json_decref(seen);
    if (!json_is_array(json_object_get(said, "tables"))) {
        json_decref(tables);
        tables = NULL;
    }
    json_decref(said);
    return tables ? json_pack("{s:o, s:n}", "tables", tables, "readable") : NULL;
}

/* Why the program said nothing. */
static int fault_of(const json_t *receipt, struct fault *fault)
{
    const char *status = json_string_value(json_object_get(receipt, "status"));
    const json_t *error = json_object_get(receipt, "error");
    const char *value = json_string_value(json_object_get(error, "value"));

    if (status && strcmp(status, "timeout") == 0)
        return fault_set(fault, PROBLEM_SOURCE_FAILED, NULL,
                         "the files take too long to look at; put fewer of them into a directory");
    if (status && strcmp(status, "oom") == 0)
        return fault_set(fault, PROBLEM_SOURCE_FAILED, NULL,
                         "the files need more memory to look at than a box has");
    return fault_set(fault, PROBLEM_SOURCE_FAILED, NULL, "the files could not be looked at: %.300s",
                     value    ? value
                     : status ? status
                              : "the box said nothing");
}

int files_catalogue(struct service *service, const char *directory, int64_t samples,
                    json_t **ret_catalogue, struct fault *fault)
{
    struct caller caller = { .listener = "sources", .limits = { -1, -1, -1 } };
    struct volume volume = { directory, PLACE, VOLUME_RO };
    struct mounts mounts = { .items = { volume }, .len = 1 };
    struct session_request request;
    struct session *session = NULL;
    struct fault ignored = { 0 };
    json_t *receipt = NULL;
    int r;

    if (samples > SAMPLES_MAX)
        samples = SAMPLES_MAX;
    if (!service)
        return fault_set(fault, PROBLEM_SOURCE_FAILED, NULL,
                         "there is no box to look at files; sync it in a running service");
    session_request_init(&request);
    request.idle_us = IDLE_US;
    request.volumes = &volume;
    request.volumes_len = 1;
    request.inner_volumes = true;
    request.no_installs = true;
    r = session_create(service, &caller, &request, &session, fault);
    if (r < 0)
        mounts_explain(&mounts, fault);
    else
        r = run_program(service, &caller, session, samples, &receipt, fault);
    if (session)
        (void) session_delete(session, &ignored);
    session_unref(session);
    if (r < 0)
        return r;
    *ret_catalogue = catalogue_of(receipt, samples);
    r = *ret_catalogue ? 0 : fault_of(receipt, fault);
    json_decref(receipt);
    return r;
}
