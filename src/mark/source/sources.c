/* Sources: making, changing and showing them, and handing them to those who may use them. */
#include "mark/source/sources.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/json_depth.h"
#include "base/text/parse.h"
#include "base/text/strv.h"
#include "mark/ids.h"
#include "mark/source/files.h"
#include "mark/source/google.h"
#include "mark/source/internal.h"
#include "mark/source/vault.h"

#include "base/banned.h"

#define ROWS_MAX    5000000
#define BYTES_MAX   (INT64_C(1) << 30)
#define US_MAX      (300 * USEC_PER_SEC)
#define STORED_DEEP 16

/* ---- what all of them use ---- */

int source_unknown(const char *id_or_name, struct fault *fault)
{
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(id_or_name, quoted);
    return fault_set(fault, PROBLEM_SOURCE_UNKNOWN, "id", "there is no data source %s for you",
                     quoted);
}

int source_fault(int r, const struct gb_err *err, struct fault *fault)
{
    if (r == -ENOMEM)
        return fault_no_memory(fault);
    if (r == -ENOENT)
        return fault_set(fault, PROBLEM_SOURCE_UNKNOWN, "id", "the data source is gone");
    if (r == -EEXIST)
        return fault_set(fault, PROBLEM_SOURCE_TAKEN, "name",
                         "a data source of this name exists already; choose another, or change "
                         "that one");
    if (r == -EDQUOT)
        return fault_set(fault, PROBLEM_SOURCES_QUOTA, NULL, "%s; remove one first", err->msg);
    if (r == -EINVAL)
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, NULL, "%s", err->msg);
    if (r == -EKEYREJECTED || r == -EBADMSG || r == -EPERM || r == -EUCLEAN)
        return fault_set(fault, PROBLEM_SOURCE_SEALED, NULL, "%s", err->msg);
    if (r == -ENOSPC) {
        (void) fault_set(fault, PROBLEM_DISK_FULL, NULL,
                         "the disk of the service is full; ask the operator to make room");
        fault->retry_after_s = 30;
        return -1;
    }
    return fault_set(fault, PROBLEM_INTERNAL, NULL, "%s; try again", err->msg);
}

json_t *source_stored(const char *text)
{
    size_t len = text ? strlen(text) : 0;

    return !text || json_too_deep(text, len, STORED_DEEP)
               ? NULL
               : json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
}

void source_wipe(json_t *json)
{
    const char *name;
    json_t *value;
    size_t i;

    if (json_is_string(json))
        sodium_memzero((char *) json_string_value(json), json_string_length(json));
    json_array_foreach (json, i, value)
        source_wipe(value);
    json_object_foreach (json, name, value)
        source_wipe(value);
}

/* Secrets of a body, which the caller is about to release. */
static void wipe_body(json_t *body)
{
    json_t *rows = json_object_get(body, "access"), *row;
    size_t i;

    source_wipe(json_object_get(body, "password"));
    source_wipe(json_object_get(body, "credentials"));
    source_wipe(json_object_get(body, "url")); /* may have a password in it */
    json_array_foreach (rows, i, row)
        source_wipe(json_object_get(row, "password"));
}

/* ---- opening ---- */

int sources_open(const struct sources_config *config, struct sources **ret_sources,
                 struct gb_err *err)
{
    struct sources *sources = calloc(1, sizeof *sources);

    if (!sources)
        return gb_fail(err, ENOMEM, "open the data sources");
    sources->config = *config;
    sources->data_dir = config->data_dir ? strdup(config->data_dir) : NULL;
    if (config->rows_max <= 0)
        sources->config.rows_max = ROWS_MAX;
    if (config->bytes_max <= 0)
        sources->config.bytes_max = BYTES_MAX;
    if (config->us_max <= 0)
        sources->config.us_max = US_MAX;
    sources->tokens = google_tokens_new();
    if (!sources->data_dir || !sources->tokens || pthread_mutex_init(&sources->lock, NULL) != 0) {
        google_tokens_free(sources->tokens);
        free(sources->data_dir);
        free(sources);
        return gb_fail(err, ENOMEM, "open the data sources");
    }
    *ret_sources = sources;
    return 0;
}

void sources_close(struct sources *sources)
{
    if (!sources)
        return;
    (void) pthread_mutex_destroy(&sources->lock);
    strv_free(sources->syncing);
    google_tokens_free(sources->tokens);
    free(sources->data_dir);
    free(sources);
}

struct google_tokens *sources_tokens(struct sources *sources)
{
    return sources->tokens;
}

void source_done(struct sources *sources, const struct grant *grant, const json_t *done)
{
    json_t *copy = json_copy((json_t *) done);

    if (copy)
        google_tokens_keep(sources->tokens, json_object_get(grant->order, "source"), copy);
    json_decref(copy);
}

/* ---- making ---- */

/* Dumps @json, which may be NULL; *@ret_text is NULL then. */
static int dump(const json_t *json, size_t max, const char *what, char **ret_text,
                struct fault *fault)
{
    char *text;

    *ret_text = NULL;
    if (!json)
        return 0;
    text = json_dumps(json, JSON_COMPACT);
    if (!text)
        return fault_no_memory(fault);
    if (strlen(text) > max) {
        free(text);
        return fault_set(fault, PROBLEM_SOURCES_QUOTA, NULL, "%s would take more than %zu KB", what,
                         max / 1024);
    }
    *ret_text = text;
    return 0;
}

static int read_kind(const json_t *body, char kind[16], struct fault *fault)
{
    const char *text = json_string_value(json_object_get(body, "kind"));

    if (!text || (strcmp(text, "postgresql") != 0 && strcmp(text, "bigquery") != 0 &&
                  strcmp(text, "files") != 0))
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, "kind",
                         "kind must be postgresql, bigquery or files");
    (void) snprintf(kind, 16, "%s", text);
    return 0;
}

static int read_name(const json_t *body, char name[STORE_SOURCE_NAME_MAX], struct fault *fault)
{
    const json_t *json = json_object_get(body, "name");
    const char *text = json_string_value(json);
    size_t len = text ? json_string_length(json) : 0;

    if (len < 1 || len >= STORE_SOURCE_NAME_MAX || text[0] < 'a' || text[0] > 'z' ||
        strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") != len)
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, "name",
                         "name must be 1 to %d of a-z, 0-9 and _, and begin with a letter: it is "
                         "what programs say in mark.query()",
                         STORE_SOURCE_NAME_MAX - 1);
    memcpy(name, text, len + 1);
    return 0;
}

/* A directory of files must be there when it is named; later it is looked at again. */
static int check_directory(struct sources *sources, const struct settings *settings,
                           struct fault *fault)
{
    const char *path = json_string_value(json_object_get(settings->json, "directory"));

    return path ? files_check(path, sources->config.data_dir, fault) : 0;
}

/* Fills settings, notes and secret of @source. */
static int fill(struct sources *sources, const struct settings *settings, const json_t *old_notes,
                const json_t *body, struct store_source *source, struct fault *fault)
{
    json_t *notes = NULL;
    int r = check_directory(sources, settings, fault);

    if (r == 0)
        r = notes_of_source(old_notes, body, &notes, fault);
    if (r == 0)
        r = dump(settings->json, STORE_SETTINGS_MAX, "the settings", &source->settings, fault);
    if (r == 0)
        r = dump(notes, STORE_NOTES_MAX, "the notes", &source->notes, fault);
    if (r == 0 && settings->secret) {
        free(TAKE_PTR(source->secret));
        r = secret_seal(sources, source->id, settings->secret, &source->secret, fault);
    }
    json_decref(notes);
    return r;
}

static int to_json(struct sources *sources, const struct whom *whom, const struct held *held,
                   json_t **ret_json, struct fault *fault);

static int show(struct sources *sources, const struct whom *whom, const char *id, json_t **ret_json,
                struct fault *fault)
{
    struct held held;
    int r;

    if (held_find(sources, whom, id, &held, fault) < 0)
        return -1;
    r = to_json(sources, whom, &held, ret_json, fault);
    held_release(&held);
    return r;
}

static int add(struct sources *sources, const json_t *body, struct store_source *source,
               struct fault *fault)
{
    struct settings settings = { 0 };
    struct store_access *access = NULL;
    struct gb_err err = { 0 };
    size_t len = 0;
    int r = json_is_object(body)
                ? read_kind(body, source->kind, fault)
                : fault_set(fault, PROBLEM_SOURCE_MALFORMED, NULL, "a source must be an object");

    if (r == 0)
        r = read_name(body, source->name, fault);
    if (r == 0)
        r = settings_from_body(sources, source->kind, NULL, body, &settings, fault);
    mark_id_make(source->id);
    source->created_us = source->updated_us = clock_wall_us();
    if (r == 0)
        r = fill(sources, &settings, NULL, body, source, fault);
    if (r == 0)
        r = access_from_body(sources, source->id, source->kind, body, NULL, false, &access, &len,
                             fault);
    if (r == 0) {
        r = store_source_add(sources->config.store, source, access, len, &err);
        if (r < 0)
            r = source_fault(r, &err, fault);
    }
    store_access_free(access, len);
    settings_release(&settings);
    return r;
}

int source_add(struct sources *sources, const struct caller *caller, json_t *body,
               json_t **ret_json, struct fault *fault)
{
    struct store_source source = { 0 };
    struct whom whom;
    int r = whom_operator(sources, caller, &whom, fault);

    if (r == 0)
        r = add(sources, body, &source, fault);
    wipe_body(body);
    if (r == 0)
        r = show(sources, &whom, source.id, ret_json, fault);
    store_source_release(&source);
    return r;
}

/* Whether passwords that are kept would go to another server than they were given for. */
static int check_moved(const struct held *held, const struct settings *settings, bool has_access,
                       struct fault *fault)
{
    bool kept = held->source.secret && !settings->secret;

    for (size_t i = 0; !has_access && i < held->access_len; i++)
        kept = kept || held->access[i].secret;
    if (settings->moved && kept)
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, "url",
                         "the server or the user is another one now, and the passwords were given "
                         "for the one before: send password, and access with its passwords, again");
    return 0;
}

/* -ESTALE in @ret_r: somebody else was faster. */
static int change(struct sources *sources, struct held *held, const json_t *body, int *ret_r,
                  struct fault *fault)
{
    bool has_access = json_is_array(json_object_get(body, "access"));
    struct store_source source = held->source;
    struct settings settings = { 0 };
    struct store_access *access = NULL;
    json_t *notes = source_stored(held->source.notes);
    struct gb_err err = { 0 };
    size_t len = 0;
    int r = 0;

    source.settings = source.notes = NULL;
    source.secret = held->source.secret ? strdup(held->source.secret) : NULL;
    if (json_object_get(body, "name"))
        r = read_name(body, source.name, fault);
    if (r == 0)
        r = settings_from_body(sources, source.kind, held->settings, body, &settings, fault);
    if (r == 0)
        r = check_moved(held, &settings, has_access, fault);
    if (r == 0)
        r = fill(sources, &settings, notes, body, &source, fault);
    if (r == 0 && has_access)
        r = access_from_body(sources, source.id, source.kind, body, held, settings.moved, &access,
                             &len, fault);
    source.updated_us = clock_wall_us();
    *ret_r = 0;
    if (r == 0) {
        *ret_r = store_source_update(sources->config.store, &source, held->source.updated_us,
                                     access, len, &err);
        if (*ret_r < 0)
            r = source_fault(*ret_r, &err, fault);
    }
    store_access_free(access, len);
    settings_release(&settings);
    json_decref(notes);
    free(source.settings);
    free(source.notes);
    free(source.secret);
    return r;
}

int source_change(struct sources *sources, const struct caller *caller, const char *id_or_name,
                  json_t *body, json_t **ret_json, struct fault *fault)
{
    const char *kind = json_string_value(json_object_get(body, "kind"));
    struct held held = { 0 };
    struct whom whom;
    int r = whom_operator(sources, caller, &whom, fault), was = -ESTALE;

    if (r == 0 && !json_is_object(body))
        r = fault_set(fault, PROBLEM_SOURCE_MALFORMED, NULL, "a change must be an object");
    for (int i = 0; i < SOURCE_TRIES && was == -ESTALE && (r == 0 || i > 0); i++) {
        held_release(&held);
        was = 0;
        r = held_find(sources, &whom, id_or_name, &held, fault);
        if (r == 0 && kind && strcmp(kind, held.source.kind) != 0)
            r = fault_set(fault, PROBLEM_SOURCE_MALFORMED, "kind",
                          "the kind of a source does not change; remove it and make another");
        if (r == 0)
            r = change(sources, &held, body, &was, fault);
    }
    wipe_body(body);
    if (r == 0)
        r = show(sources, &whom, held.source.id, ret_json, fault);
    held_release(&held);
    return r;
}

int source_remove(struct sources *sources, const struct caller *caller, const char *id_or_name,
                  struct fault *fault)
{
    struct gb_err err = { 0 };
    struct held held;
    struct whom whom;
    int r = whom_operator(sources, caller, &whom, fault);

    if (r == 0)
        r = held_find(sources, &whom, id_or_name, &held, fault);
    if (r < 0)
        return r;
    r = store_source_delete(sources->config.store, held.source.id, &err);
    held_release(&held);
    return r < 0 ? source_fault(r, &err, fault) : 0;
}

/* ---- showing ---- */

static json_t *time_json(int64_t us)
{
    char text[FORMAT_UTC_MAX];

    if (us <= 0)
        return json_null();
    format_utc(us, text);
    return json_string(text);
}

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

/* What only operators see: how it is reached, who may use it, and how the last sync went. */
static int add_settings(const struct held *held, json_t *json)
{
    json_t *notes = source_stored(held->source.notes), *shown = json_copy(held->settings);
    int r = shown ? 0 : -1;

    (void) json_object_del(shown, "description");
    if (r == 0)
        r = json_object_set_new(json, "settings", TAKE_PTR(shown));
    if (r == 0)
        r = json_object_set_new(json, "has_secret", json_boolean(held->source.secret != NULL));
    if (r == 0)
        r = json_object_set_new(json, "access", access_to_json(held));
    if (r == 0)
        r = json_object_set_new(json, "sync_error", text_or_null(held->source.sync_error));
    if (r == 0 && json_object_get(notes, "joins"))
        r = json_object_set(json, "joins", json_object_get(notes, "joins"));
    if (r == 0 && json_object_get(notes, "examples"))
        r = json_object_set(json, "examples", json_object_get(notes, "examples"));
    json_decref(shown);
    json_decref(notes);
    return r;
}

static int to_json(struct sources *sources, const struct whom *whom, const struct held *held,
                   json_t **ret_json, struct fault *fault)
{
    const char *description = json_string_value(json_object_get(held->settings, "description"));
    int64_t count = 0;
    json_t *json;

    if (catalogue_count(sources, held, whom, &count, fault) < 0)
        return -1;
    json = json_pack("{s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:I,s:b}", "source_id", held->source.id, "name",
                     held->source.name, "kind", held->source.kind, "description",
                     description ? description : "", "created", time_json(held->source.created_us),
                     "updated", time_json(held->source.updated_us), "synced",
                     time_json(held->source.synced_us), "tables", (json_int_t) count, "usable",
                     held_usable(held, whom));
    if (!json || (whom->is_operator && add_settings(held, json) < 0)) {
        json_decref(json);
        return fault_no_memory(fault);
    }
    *ret_json = json;
    return 0;
}

int source_list(struct sources *sources, const struct caller *caller, json_t **ret_json,
                struct fault *fault)
{
    struct held *list = NULL;
    json_t *array = json_array();
    size_t len = 0;
    struct whom whom;
    int r = whom_find(sources, caller, &whom, fault);

    if (r == 0)
        r = held_list(sources, &whom, &list, &len, fault);
    for (size_t i = 0; r == 0 && i < len; i++) {
        json_t *json = NULL;

        r = to_json(sources, &whom, &list[i], &json, fault);
        if (r == 0 && json_array_append_new(array, json) < 0)
            r = fault_no_memory(fault);
    }
    held_free(list, len);
    if (r == 0) {
        *ret_json = json_pack("{s:O}", "sources", array);
        r = *ret_json ? 0 : fault_no_memory(fault);
    }
    json_decref(array);
    return r;
}

int source_get(struct sources *sources, const struct caller *caller, const char *id_or_name,
               json_t **ret_json, struct fault *fault)
{
    struct whom whom;

    if (whom_find(sources, caller, &whom, fault) < 0)
        return -1;
    return show(sources, &whom, id_or_name, ret_json, fault);
}

/* ---- for the agent ---- */

static int grant_fill(struct sources *sources, const struct whom *whom, const struct held *held,
                      struct grant *grant, struct fault *fault)
{
    const char *directory = json_string_value(json_object_get(held->settings, "directory"));
    const json_t *price = json_object_get(held->settings, "price_per_tib");
    json_t *masked = NULL;
    int r;

    (void) snprintf(grant->id, sizeof grant->id, "%s", held->source.id);
    (void) snprintf(grant->name, sizeof grant->name, "%s", held->source.name);
    (void) snprintf(grant->kind, sizeof grant->kind, "%s", held->source.kind);
    grant->price = price ? json_number_value(price) : -1;
    if (directory && !(grant->directory = strdup(directory)))
        return fault_no_memory(fault);
    r = notes_masked(sources, held->source.id, &masked, fault);
    if (r == 0)
        r = order_make(sources, held, held->row, whom, &grant->order, fault);
    if (r == 0 && json_object_set(grant->order, "masked", masked) < 0)
        r = fault_no_memory(fault);
    json_decref(masked);
    return r;
}

int source_grant(struct sources *sources, const struct caller *caller, const char *id_or_name,
                 struct grant *ret_grant, struct fault *fault)
{
    struct grant grant = { 0 };
    struct held held;
    struct whom whom;
    int r;

    if (whom_find(sources, caller, &whom, fault) < 0 ||
        held_find(sources, &whom, id_or_name, &held, fault) < 0)
        return -1;
    r = held_usable(&held, &whom) ? grant_fill(sources, &whom, &held, &grant, fault)
                                  : source_unknown(id_or_name, fault);
    held_release(&held);
    if (r < 0) {
        grant_release(&grant);
        return -1;
    }
    *ret_grant = grant;
    return 0;
}

void grant_release(struct grant *grant)
{
    source_wipe(json_object_get(grant->order, "source"));
    json_decref(grant->order);
    free(grant->directory);
    *grant = (struct grant){ 0 };
}

/* Adds the names that @wanted has of @list, or all of them. */
static int names_add(const struct whom *whom, const struct held *list, size_t len,
                     const char *const *wanted, char ***names, struct fault *fault)
{
    int r = 0;

    if (!wanted) {
        for (size_t i = 0; r == 0 && i < len; i++)
            if (held_usable(&list[i], whom))
                r = strv_add(names, list[i].source.name);
        return r < 0 ? fault_no_memory(fault) : 0;
    }
    for (; *wanted; wanted++) {
        size_t i = 0, j = 0;

        while (i < len &&
               (!held_usable(&list[i], whom) || (strcmp(list[i].source.id, *wanted) != 0 &&
                                                 strcmp(list[i].source.name, *wanted) != 0)))
            i++;
        if (i == len)
            return source_unknown(*wanted, fault);
        while (*names && (*names)[j] && strcmp((*names)[j], list[i].source.name) != 0)
            j++;
        if ((!*names || !(*names)[j]) && strv_add(names, list[i].source.name) < 0)
            return fault_no_memory(fault);
    }
    return 0;
}

int source_names(struct sources *sources, const struct caller *caller, const char *const *wanted,
                 char ***ret_names, struct fault *fault)
{
    struct held *list = NULL;
    char **names = NULL;
    size_t len = 0;
    struct whom whom;
    int r = whom_find(sources, caller, &whom, fault);

    if (r == 0)
        r = held_list(sources, &whom, &list, &len, fault);
    if (r == 0)
        r = names_add(&whom, list, len, wanted, &names, fault);
    held_free(list, len);
    if (r == 0 && !names && strv_copy(NULL, &names) < 0)
        r = fault_no_memory(fault);
    if (r < 0) {
        strv_free(names);
        return -1;
    }
    *ret_names = names;
    return 0;
}
