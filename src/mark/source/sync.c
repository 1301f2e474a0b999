/*
 * Syncs and checks: reading a catalogue from its source, and trying whether the source works.
 *
 * A database shows each login its own part, so the catalogue is asked for once as everyone who may
 * use the source: for each pair of login and role. The parts are put together, and each table keeps
 * the list of those who can read it. Samples of a column stay only if all who can read its table
 * were shown some, because a right can be missing for single columns. If one of the questions
 * fails, the old catalogue stays, and the source says why.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/strv.h"
#include "base/text/utf8.h"
#include "mark/source/connector.h"
#include "mark/source/files.h"
#include "mark/source/google.h"
#include "mark/source/intake.h"
#include "mark/source/internal.h"

#include "base/banned.h"

#define SAMPLES        5
#define IDENTITIES_MAX 100
#define CHECK_US       (60 * USEC_PER_SEC)
#define SLACK_US       (10 * USEC_PER_SEC)

/* ---- asking ---- */

/* As whom the source is asked: one for each pair of login and role. NULL is its own login. */
struct askers {
    const struct store_access *rows[IDENTITIES_MAX];
    size_t len;
};

static int askers_find(const struct held *held, struct askers *askers, struct fault *fault)
{
    char texts[IDENTITIES_MAX][IDENTITY_MAX];

    askers->len = 0;
    if (strcmp(held->source.kind, "postgresql") != 0 || held->access_len == 0) {
        askers->rows[askers->len++] = NULL;
        return 0;
    }
    for (size_t i = 0; i < held->access_len; i++) {
        struct identity identity = identity_of(held->settings, &held->access[i]);
        char text[IDENTITY_MAX];
        size_t j = 0;

        identity_text(&identity, text);
        while (j < askers->len && strcmp(texts[j], text) != 0)
            j++;
        if (j < askers->len)
            continue;
        if (askers->len == IDENTITIES_MAX)
            return fault_set(fault, PROBLEM_SOURCE_FAILED, "access",
                             "the source is used by more than %d logins and roles; name fewer, or "
                             "give people a common role",
                             IDENTITIES_MAX);
        memcpy(texts[askers->len], text, sizeof text);
        askers->rows[askers->len++] = &held->access[i];
    }
    return 0;
}

static int fail_connector(const struct connector_failure *failure, const char *as,
                          struct fault *fault)
{
    char text[200];
    size_t len = strnlen(failure->text, sizeof text - 1);

    memcpy(text, failure->text, len);
    len -= utf8_partial_end(text, len);
    text[len] = '\0';
    return fault_set(fault, PROBLEM_SOURCE_FAILED, NULL, "%s%.60s%s%s", as[0] ? "as " : "", as,
                     as[0] ? ": " : "", text);
}

/* Runs one order, with secrets, which it wipes. */
static int ask(struct sources *sources, json_t *order, int64_t us, int *ret_fd, json_t **ret_done,
               struct connector_failure *failure)
{
    struct connector_call call = { .order = order,
                                   .deadline_us = clock_now_us() + us + SLACK_US,
                                   .bytes_max = INTAKE_BYTES_MAX,
                                   .result_fd = -1,
                                   .cancel_fd = -1 };
    int r = connector_run(&call, ret_fd, ret_done, failure);

    if (r == 0)
        google_tokens_keep(sources->tokens, json_object_get(order, "source"), *ret_done);
    source_wipe(json_object_get(order, "source"));
    return r;
}

static int order_for(struct sources *sources, const struct held *held,
                     const struct store_access *row, const char *op, int64_t us, json_t **ret_order,
                     struct fault *fault)
{
    struct whom nobody = { 0 };
    json_t *order = NULL, *masked = NULL, *limits;
    bool samples = !json_is_false(json_object_get(held->settings, "samples"));
    int r;

    if (row && strchr(row->who, '@'))
        (void) snprintf(nobody.email, sizeof nobody.email, "%s", row->who);
    if (order_make(sources, held, row, &nobody, &order, fault) < 0)
        return -1;
    r = notes_masked(sources, held->source.id, &masked, fault);
    limits = json_object_get(order, "limits");
    if (r == 0 && (json_object_set(order, "masked", masked) < 0 ||
                   json_object_set_new(order, "op", json_string(op)) < 0 ||
                   json_object_set_new(order, "samples", json_integer(samples ? SAMPLES : 0)) < 0 ||
                   json_object_set_new(limits, "bytes", json_integer(INTAKE_BYTES_MAX)) < 0 ||
                   json_object_set_new(limits, "ms", json_integer(us / 1000)) < 0))
        r = fault_no_memory(fault);
    json_decref(masked);
    if (r < 0) {
        source_wipe(json_object_get(order, "source"));
        json_decref(order);
        return -1;
    }
    *ret_order = order;
    return 0;
}

static const char *as_text(const struct askers *askers, const struct store_access *row)
{
    return askers->len < 2 || !row ? "" : row->who;
}

/* ---- one part of the catalogue ---- */

static int read_file(int fd, char **ret_text, size_t *ret_len)
{
    struct stat st;
    char *text;
    ssize_t len;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size < 0 || (uint64_t) st.st_size > INTAKE_BYTES_MAX)
        return -EFBIG;
    text = malloc((size_t) st.st_size + 1);
    if (!text)
        return -ENOMEM;
    len = io_read_all(fd, text, (size_t) st.st_size);
    if (len < 0) {
        free(text);
        return (int) len;
    }
    *ret_text = text;
    *ret_len = (size_t) len;
    return 0;
}

static bool is_files(const struct held *held)
{
    return strcmp(held->source.kind, "files") == 0;
}

static int part_parse(const char *text, size_t len, json_t **ret_part, struct fault *fault)
{
    struct gb_err err = { 0 };
    int r = intake_parse(text, len, ret_part, &err);

    if (r == -ENOMEM)
        return fault_no_memory(fault);
    return r < 0 ? fault_set(fault, PROBLEM_SOURCE_FAILED, NULL, "%s",
                             err.msg[0] ? err.msg : "the catalogue cannot be read")
                 : 0;
}

/* A directory is looked into by a box, not by a connector. */
static int part_of_files(struct sources *sources, const struct held *held, json_t **ret_part,
                         struct fault *fault)
{
    const char *directory = json_string_value(json_object_get(held->settings, "directory"));
    bool samples = !json_is_false(json_object_get(held->settings, "samples"));
    autofree char *text = NULL;
    json_t *catalogue = NULL;

    if (files_check(directory ? directory : "", sources->config.data_dir, fault) < 0) {
        char why[sizeof fault->detail];

        (void) snprintf(why, sizeof why, "%s", fault->detail);
        return fault_set(fault, PROBLEM_SOURCE_FAILED, NULL, "%s", why); /* it was good once */
    }
    if (files_catalogue(sources->config.service, directory, samples ? SAMPLES : 0, &catalogue,
                        fault) < 0)
        return -1;
    text = json_dumps(catalogue, JSON_COMPACT);
    json_decref(catalogue);
    return text ? part_parse(text, strlen(text), ret_part, fault) : fault_no_memory(fault);
}

static int part_read(struct sources *sources, const struct held *held, const struct askers *askers,
                     const struct store_access *row, json_t **ret_part, struct fault *fault)
{
    struct connector_failure failure = { 0 };
    json_t *order = NULL, *done = NULL;
    autofree char *text = NULL;
    autoclose int fd = -EBADF;
    size_t len = 0;
    int r;

    if (is_files(held))
        return part_of_files(sources, held, ret_part, fault);
    if (order_for(sources, held, row, "catalogue", sources->config.us_max, &order, fault) < 0)
        return -1;
    r = ask(sources, order, sources->config.us_max, &fd, &done, &failure);
    json_decref(order);
    json_decref(done);
    if (r < 0) {
        r = fail_connector(&failure, as_text(askers, row), fault);
        connector_failure_release(&failure);
        return r;
    }
    r = read_file(fd, &text, &len);
    if (r == -ENOMEM)
        return fault_no_memory(fault);
    return r < 0 ? fault_set(fault, PROBLEM_SOURCE_FAILED, NULL, "the catalogue cannot be read")
                 : part_parse(text, len, ret_part, fault);
}

/* ---- putting the parts together ---- */

static json_t *column_of(json_t *info, const char *name)
{
    json_t *columns = json_object_get(info, "columns"), *column;
    size_t i;

    json_array_foreach (columns, i, column) {
        const char *is = json_string_value(json_object_get(column, "name"));

        if (is && strcmp(is, name) == 0)
            return column;
    }
    return NULL;
}

/* Samples that @other was not shown are not kept; nor are those of columns that it has not. */
static void samples_meet(json_t *info, json_t *other)
{
    json_t *columns = json_object_get(info, "columns"), *column;
    size_t i;

    json_array_foreach (columns, i, column) {
        const char *name = json_string_value(json_object_get(column, "name"));
        json_t *theirs = name ? column_of(other, name) : NULL;

        if (!json_object_get(theirs, "samples"))
            (void) json_object_del(column, "samples");
    }
}

static void samples_drop(json_t *info)
{
    json_t *columns = json_object_get(info, "columns"), *column;
    size_t i;

    json_array_foreach (columns, i, column)
        (void) json_object_del(column, "samples");
}

/* Adds one table of a part. @reader: who can read it, or NULL if this login cannot. */
static int merge_table(json_t *all, const char *name, json_t *info, const char *reader)
{
    json_t *is = json_object_get(all, name), *readers = json_object_get(is, "readable");
    bool first = json_array_size(readers) == 0;

    if (!is) {
        if (!reader)
            samples_drop(info);
        readers = json_array();
        if (json_object_set(all, name, info) < 0 ||
            json_object_set_new(info, "readable", readers) < 0)
            return -1;
    } else if (reader && first) { /* what is there is of somebody who cannot read it */
        if (json_object_set(info, "readable", readers) < 0 || json_object_set(all, name, info) < 0)
            return -1;
    } else if (reader) {
        samples_meet(is, info);
    }
    return reader ? json_array_append_new(readers, json_string(reader)) : 0;
}

static int merge_part(json_t *all, const json_t *part, const char *identity)
{
    json_t *tables = json_object_get(part, "tables"), *info;
    const json_t *readable = json_object_get(part, "readable");
    const char *name;
    int r = 0;

    json_object_foreach (tables, name, info) {
        bool reads = json_is_null(readable) || json_object_get(readable, name);

        if (r == 0 && (json_object_get(all, name) || json_object_size(all) < STORE_TABLES_MAX))
            r = merge_table(all, name, info, reads ? identity : NULL);
    }
    return r;
}

/* What is masked was not asked for; whatever came all the same is not kept. */
static int masks_apply(struct sources *sources, const char *source_id, json_t *all,
                       struct fault *fault)
{
    json_t *masked = NULL, *mask, *name;
    size_t i, j;

    if (notes_masked(sources, source_id, &masked, fault) < 0)
        return -1;
    json_array_foreach (masked, i, mask) {
        const char *table = json_string_value(json_object_get(mask, "table"));
        json_t *info = table ? json_object_get(all, table) : NULL,
               *columns = json_object_get(mask, "columns");

        json_array_foreach (columns, j, name)
            (void) json_object_del(column_of(info, json_string_value(name)), "samples");
    }
    json_decref(masked);
    return 0;
}

/* ---- a sync ---- */

struct synced {
    int64_t tables, added, gone, left_out;
};

static int read_all(struct sources *sources, const struct held *held, json_t *all,
                    struct synced *synced, struct fault *fault)
{
    struct askers askers;
    int r = askers_find(held, &askers, fault);

    for (size_t i = 0; r == 0 && i < askers.len; i++) {
        struct identity identity = identity_of(held->settings, askers.rows[i]);
        char text[IDENTITY_MAX];
        json_t *part = NULL;

        identity_text(&identity, text);
        r = part_read(sources, held, &askers, askers.rows[i], &part, fault);
        if (r == 0 && merge_part(all, part, text) < 0)
            r = fault_no_memory(fault);
        synced->left_out += json_integer_value(json_object_get(part, "left_out"));
        json_decref(part);
    }
    return r == 0 ? masks_apply(sources, held->source.id, all, fault) : r;
}

static int count_changes(struct sources *sources, const char *source_id, const json_t *all,
                         struct synced *synced, struct fault *fault)
{
    struct store_table *tables = NULL;
    struct gb_err err = { 0 };
    size_t len = 0, stay = 0;
    int r = store_table_list(sources->config.store, source_id, false, &tables, &len, &err);

    if (r < 0)
        return source_fault(r, &err, fault);
    for (size_t i = 0; i < len; i++)
        stay += json_object_get(all, tables[i].name) != NULL;
    store_tables_free(tables, len);
    synced->tables = (int64_t) json_object_size(all);
    synced->gone = (int64_t) (len - stay);
    synced->added = synced->tables - (int64_t) stay;
    return 0;
}

static int write_all(struct sources *sources, const char *source_id, json_t *all,
                     struct fault *fault)
{
    struct store_table *tables = calloc(json_object_size(all) + 1, sizeof *tables);
    int64_t now_us = clock_wall_us();
    struct gb_err err = { 0 };
    const char *name;
    json_t *info;
    size_t len = 0;
    int r = tables ? 0 : -ENOMEM;

    json_object_foreach (all, name, info) {
        if (r < 0)
            break;
        (void) snprintf(tables[len].name, sizeof tables[len].name, "%s", name);
        tables[len].info = json_dumps(info, JSON_COMPACT);
        r = tables[len].info ? 0 : -ENOMEM;
        len += r == 0;
    }
    if (r == 0)
        r = store_table_sync(sources->config.store, source_id, tables, len, now_us, &err);
    if (r == 0)
        r = store_source_synced(sources->config.store, source_id, now_us, NULL, &err);
    store_tables_free(tables, len);
    return r < 0 ? source_fault(r, &err, fault) : 0;
}

/* True if nobody else syncs it; then sync_end() follows. */
static bool sync_begin(struct sources *sources, const char *id)
{
    bool is_free = true;

    (void) pthread_mutex_lock(&sources->lock);
    for (size_t i = 0; sources->syncing && sources->syncing[i]; i++)
        is_free = is_free && strcmp(sources->syncing[i], id) != 0;
    if (is_free && strv_add(&sources->syncing, id) < 0)
        is_free = false;
    (void) pthread_mutex_unlock(&sources->lock);
    return is_free;
}

static void sync_end(struct sources *sources, const char *id)
{
    size_t len, i = 0;

    (void) pthread_mutex_lock(&sources->lock);
    len = strv_len((const char *const *) sources->syncing);
    while (i < len && strcmp(sources->syncing[i], id) != 0)
        i++;
    if (i < len) {
        free(sources->syncing[i]);
        sources->syncing[i] = sources->syncing[len - 1];
        sources->syncing[len - 1] = NULL;
    }
    (void) pthread_mutex_unlock(&sources->lock);
}

static int sync_held(struct sources *sources, const struct held *held, struct synced *synced,
                     struct fault *fault)
{
    json_t *all = json_object();
    struct gb_err err = { 0 };
    int r = all ? read_all(sources, held, all, synced, fault) : fault_no_memory(fault);

    if (r == 0)
        r = count_changes(sources, held->source.id, all, synced, fault);
    if (r == 0)
        r = write_all(sources, held->source.id, all, fault);
    if (r < 0) /* if it is gone by now, nobody will ask */
        (void) store_source_synced(sources->config.store, held->source.id, clock_wall_us(),
                                   fault->detail, &err);
    json_decref(all);
    return r;
}

int source_sync(struct sources *sources, const struct caller *caller, const char *id_or_name,
                json_t **ret_json, struct fault *fault)
{
    int64_t start_us = clock_now_us();
    struct synced synced = { 0 };
    struct held held;
    struct whom whom;
    int r;

    if (whom_operator(sources, caller, &whom, fault) < 0 ||
        held_find(sources, &whom, id_or_name, &held, fault) < 0)
        return -1;
    if (sync_begin(sources, held.source.id)) {
        r = sync_held(sources, &held, &synced, fault);
        sync_end(sources, held.source.id);
    } else {
        r = fault_set(fault, PROBLEM_SOURCE_BUSY, NULL,
                      "the catalogue of this source is being read already; wait until it is done");
        fault->retry_after_s = 5;
    }
    held_release(&held);
    if (r < 0)
        return -1;
    *ret_json = json_pack("{s:I,s:I,s:I,s:I,s:f}", "tables", (json_int_t) synced.tables, "added",
                          (json_int_t) synced.added, "gone", (json_int_t) synced.gone, "left_out",
                          (json_int_t) synced.left_out, "seconds",
                          (double) (clock_now_us() - start_us) / USEC_PER_SEC);
    return *ret_json ? 0 : fault_no_memory(fault);
}

/* ---- a check ---- */

static int add_check(json_t *checks, const char *name, bool ok, const char *text, const char *as)
{
    json_t *json = json_pack("{s:s,s:b,s:s}", "name", name, "ok", ok, "text", text);

    if (json && as[0] && json_object_set_new(json, "as", json_string(as)) < 0) {
        json_decref(json);
        json = NULL;
    }
    return json ? json_array_append_new(checks, json) : -1;
}

/* What the connector found. It is text of a server, which the connector has made printable. */
static int add_found(json_t *checks, const json_t *done, const char *as)
{
    json_t *found = json_object_get(done, "checks"), *check;
    size_t i;
    int r = 0;

    json_array_foreach (found, i, check) {
        const char *name = json_string_value(json_object_get(check, "name"));
        const char *text = json_string_value(json_object_get(check, "text"));

        if (r == 0 && name && i < 50)
            r = add_check(checks, name, json_is_true(json_object_get(check, "ok")),
                          text ? text : "", as);
    }
    if (r == 0 && json_array_size(found) == 0)
        r = add_check(checks, "connection", true, "connected and signed in", as);
    return r;
}

static int check_one(struct sources *sources, const struct held *held,
                     const struct store_access *row, const char *as, json_t *checks,
                     struct fault *fault)
{
    struct connector_failure failure = { 0 };
    json_t *order = NULL, *done = NULL;
    int fd = -EBADF, r;

    if (order_for(sources, held, row, "check", CHECK_US, &order, fault) < 0)
        return add_check(checks, "secret", false, fault->detail, as);
    r = ask(sources, order, CHECK_US, &fd, &done, &failure);
    json_decref(order);
    if (r < 0)
        r = add_check(checks, failure.word[0] ? failure.word : "internal", false, failure.text, as);
    else
        r = add_found(checks, done, as);
    connector_failure_release(&failure);
    json_decref(done);
    if (fd >= 0)
        (void) close(fd);
    return r;
}

/* Whether the directory is there, and a box of this service has it. */
static int check_files(struct sources *sources, const struct held *held, json_t *checks)
{
    const char *directory = json_string_value(json_object_get(held->settings, "directory"));
    struct service *service = sources->config.service;
    struct fault fault = { 0 };
    json_t *catalogue = NULL;
    char text[128];
    int r;

    if (files_check(directory ? directory : "", sources->config.data_dir, &fault) < 0)
        return add_check(checks, "directory", false, fault.detail, "");
    r = add_check(checks, "directory", true, "it is there, and can be read", "");
    if (r < 0 || !service)
        return r;
    if (files_catalogue(service, directory, 0, &catalogue, &fault) < 0)
        return add_check(checks, "box", false, fault.detail, "");
    (void) snprintf(text, sizeof text, "a box has it, with %zu tables in its files",
                    json_array_size(json_object_get(catalogue, "tables")));
    json_decref(catalogue);
    return add_check(checks, "box", true, text, "");
}

/* If everybody has a login of their own, that of the source is left for the commands of this
 * machine. It was given with a password, so it should work, too. */
static bool is_own_login_idle(const struct held *held, const struct askers *askers)
{
    const char *own = identity_of(held->settings, NULL).login;

    if (!held->source.secret)
        return false;
    for (size_t i = 0; i < askers->len; i++)
        if (strcmp(identity_of(held->settings, askers->rows[i]).login, own) == 0)
            return false;
    return true;
}

static int check_all(struct sources *sources, const struct held *held, json_t *checks,
                     struct fault *fault)
{
    struct askers askers;
    bool idle;
    int r;

    if (is_files(held))
        return check_files(sources, held, checks) < 0 ? fault_no_memory(fault) : 0;
    r = askers_find(held, &askers, fault);
    idle = r == 0 && is_own_login_idle(held, &askers);
    if (idle && check_one(sources, held, NULL, "", checks, fault) < 0)
        r = fault_no_memory(fault);
    for (size_t i = 0; r == 0 && i < askers.len; i++) {
        const struct store_access *row = askers.rows[i];

        if (check_one(sources, held, row, idle ? row->who : as_text(&askers, row), checks, fault) <
            0)
            r = fault_no_memory(fault);
    }
    return r;
}

int source_check(struct sources *sources, const struct caller *caller, const char *id_or_name,
                 json_t **ret_json, struct fault *fault)
{
    json_t *checks = json_array(), *check;
    struct held held;
    struct whom whom;
    bool ok = true;
    size_t i;
    int r;

    if (whom_operator(sources, caller, &whom, fault) < 0 ||
        held_find(sources, &whom, id_or_name, &held, fault) < 0) {
        json_decref(checks);
        return -1;
    }
    r = checks ? check_all(sources, &held, checks, fault) : fault_no_memory(fault);
    held_release(&held);
    json_array_foreach (checks, i, check)
        ok = ok && json_is_true(json_object_get(check, "ok"));
    if (r == 0) {
        *ret_json = json_pack("{s:b,s:O}", "ok", ok, "checks", checks);
        r = *ret_json ? 0 : fault_no_memory(fault);
    }
    json_decref(checks);
    return r;
}
