/* The catalogue: tables of a source with what is known about them, for those who may see them. */
#include "mark/source/catalogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/parse.h"
#include "store/fold.h"

#include "base/banned.h"

#define Q_MAX 500

/* ---- loading ---- */

void views_free(struct table_view *views, size_t len)
{
    for (size_t i = 0; views && i < len; i++) {
        json_decref(views[i].info);
        json_decref(views[i].notes);
    }
    free(views);
}

/* A table whose readers are not listed is everybody's: of a source without logins. The local caller
 * has no row, and has the data directory with all that is in the catalogue. */
static bool is_readable(const json_t *info, const struct held *held)
{
    struct identity identity = identity_of(held->settings, held->row);
    json_t *readers = json_object_get(info, "readable"), *reader;
    char text[IDENTITY_MAX];
    size_t i;

    if (strcmp(held->source.kind, "postgresql") != 0 || !held->row)
        return true;
    identity_text(&identity, text);
    json_array_foreach (readers, i, reader) {
        const char *is = json_string_value(reader);

        if (is && strcmp(is, text) == 0)
            return true;
    }
    return false;
}

int views_load(struct sources *sources, const struct held *held, bool all,
               struct table_view **ret_views, size_t *ret_len, struct fault *fault)
{
    struct store_table *tables = NULL;
    struct table_view *views;
    struct gb_err err = { 0 };
    size_t len = 0, count = 0;
    int r = store_table_list(sources->config.store, held->source.id, all, &tables, &len, &err);

    if (r < 0)
        return source_fault(r, &err, fault);
    views = calloc(len + 1, sizeof *views);
    for (size_t i = 0; views && i < len; i++) {
        struct table_view view = { .info = source_stored(tables[i].info),
                                   .notes = source_stored(tables[i].notes),
                                   .gone_us = tables[i].gone_us };

        /* damaged rows are left out: without its notes a mask would be lost */
        if (!view.info || (tables[i].notes && !view.notes) ||
            (!all && !is_readable(view.info, held))) {
            json_decref(view.info);
            json_decref(view.notes);
            continue;
        }
        memcpy(view.name, tables[i].name, sizeof view.name);
        views[count++] = view;
    }
    store_tables_free(tables, len);
    if (!views)
        return fault_no_memory(fault);
    *ret_views = views;
    *ret_len = count;
    return 0;
}

int catalogue_count(struct sources *sources, const struct held *held, const struct whom *whom,
                    int64_t *ret_count, struct fault *fault)
{
    struct table_view *views = NULL;
    struct gb_err err = { 0 };
    size_t len = 0;
    int r;

    if (whom->is_operator || strcmp(held->source.kind, "postgresql") != 0) {
        r = store_table_count(sources->config.store, held->source.id, ret_count, &err);
        return r < 0 ? source_fault(r, &err, fault) : 0;
    }
    if (views_load(sources, held, false, &views, &len, fault) < 0)
        return -1;
    views_free(views, len);
    *ret_count = (int64_t) len;
    return 0;
}

/* ---- one table ---- */

static int put(json_t *to, const json_t *from, const char *const *names)
{
    int r = 0;

    for (; r == 0 && *names; names++) {
        json_t *value = json_object_get(from, *names);

        if (value && !json_is_null(value))
            r = json_object_set(to, *names, value);
    }
    return r;
}

static const char *const column_notes[] = { "description", "unit", "synonyms", "masked", NULL };

static json_t *column_to_json(const struct table_view *view, const json_t *column)
{
    static const char *const facts[] = { "name",    "type", "source_type", "nullable",
                                         "comment", "key",  "references",  NULL };
    static const char *const samples[] = { "samples", NULL };
    const char *name = json_string_value(json_object_get(column, "name"));
    json_t *json = json_object();
    int r = json ? put(json, column, facts) : -1;

    if (r == 0 && name && !view_is_masked(view, name))
        r = put(json, column, samples);
    if (r == 0 && name)
        r = put(json, view_column_notes(view, name), column_notes);
    if (r < 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* Columns that people wrote about and that are gone. */
static int add_gone(const struct table_view *view, json_t *list)
{
    json_t *notes = json_object_get(view->notes, "columns"), *note, *column;
    json_t *columns = json_object_get(view->info, "columns");
    const char *name;
    size_t i;

    json_object_foreach (notes, name, note) {
        bool is_there = false;
        json_t *json;

        json_array_foreach (columns, i, column) {
            const char *is = json_string_value(json_object_get(column, "name"));

            is_there = is_there || (is && strcmp(is, name) == 0);
        }
        if (is_there)
            continue;
        json = json_pack("{s:s,s:b}", "name", name, "gone", 1);
        if (!json || put(json, note, column_notes) < 0 || json_array_append(list, json) < 0) {
            json_decref(json);
            return -1;
        }
        json_decref(json);
    }
    return 0;
}

json_t *view_to_json(const struct table_view *view)
{
    static const char *const facts[] = { "kind",         "comment",      "rows", "bytes",
                                         "row_security", "partitioning", NULL };
    static const char *const notes[] = { "description", "synonyms", NULL };
    json_t *columns = json_object_get(view->info, "columns"), *column, *list = json_array();
    json_t *json = json_pack("{s:s}", "name", view->name);
    int r = json && list ? put(json, view->info, facts) : -1;
    size_t i;

    if (r == 0)
        r = put(json, view->notes, notes);
    if (r == 0 && view->gone_us > 0) {
        char text[FORMAT_UTC_MAX];

        format_utc(view->gone_us, text);
        r = json_object_set_new(json, "gone", json_string(text));
    }
    json_array_foreach (columns, i, column)
        if (r == 0)
            r = json_array_append_new(list, column_to_json(view, column));
    if (r == 0)
        r = add_gone(view, list);
    if (r == 0)
        r = json_object_set(json, "columns", list);
    json_decref(list);
    if (r < 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* ---- the wire ---- */

/* Whether every word of @q, which is folded, occurs in what is shown of the table. */
static bool matches(const json_t *json, const char *q)
{
    autofree char *text = json_dumps(json, JSON_COMPACT);
    autofree char *folded = text ? store_fold(text, STORE_INFO_MAX) : NULL;

    while (folded && *(q += strspn(q, " "))) {
        size_t len = strcspn(q, " ");

        if (!memmem(folded, strlen(folded), q, len))
            return false;
        q += len;
    }
    return folded != NULL;
}

static int list_views(const struct table_view *views, size_t len, const char *q, json_t **ret_json,
                      struct fault *fault)
{
    autofree char *folded = q && q[0] ? store_fold(q, Q_MAX) : NULL;
    json_t *list = json_array();
    int r = list && (folded || !q || !q[0]) ? 0 : -1;

    for (size_t i = 0; r == 0 && i < len; i++) {
        json_t *json = view_to_json(&views[i]);

        if (!json)
            r = -1;
        else if (!folded || matches(json, folded))
            r = json_array_append(list, json);
        json_decref(json);
    }
    *ret_json = r == 0 ? json_pack("{s:O}", "tables", list) : NULL;
    json_decref(list);
    return *ret_json ? 0 : fault_no_memory(fault);
}

int source_tables(struct sources *sources, const struct caller *caller, const char *id_or_name,
                  const char *q, json_t **ret_json, struct fault *fault)
{
    struct table_view *views = NULL;
    size_t len = 0;
    struct held held;
    struct whom whom;
    int r;

    if (whom_find(sources, caller, &whom, fault) < 0 ||
        held_find(sources, &whom, id_or_name, &held, fault) < 0)
        return -1;
    r = views_load(sources, &held, whom.is_operator, &views, &len, fault);
    if (r == 0)
        r = list_views(views, len, q, ret_json, fault);
    views_free(views, len);
    held_release(&held);
    return r;
}

static int unknown_table(const char *table, struct fault *fault)
{
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(table, quoted);
    return fault_set(fault, PROBLEM_TABLE_UNKNOWN, "table",
                     "the source has no table %s; its name is schema.table, as GET .../tables "
                     "lists it",
                     quoted);
}

/* One table; SOURCE_BUSY and the like do not matter to a reader. */
static int view_find(struct sources *sources, const struct held *held, bool all, const char *table,
                     struct table_view *ret_view, char **ret_notes, struct fault *fault)
{
    struct store_table row;
    struct gb_err err = { 0 };
    struct table_view view = { 0 };
    int r = store_table_get(sources->config.store, held->source.id, table, &row, &err);

    if (r == -ENOENT || r == -EINVAL)
        return unknown_table(table, fault);
    if (r < 0)
        return source_fault(r, &err, fault);
    view.info = source_stored(row.info);
    view.notes = source_stored(row.notes);
    view.gone_us = row.gone_us;
    memcpy(view.name, row.name, sizeof view.name);
    if (ret_notes)
        *ret_notes = TAKE_PTR(row.notes);
    store_table_release(&row);
    if (!view.info || (!all && (view.gone_us > 0 || !is_readable(view.info, held)))) {
        json_decref(view.info);
        json_decref(view.notes);
        if (ret_notes)
            free(TAKE_PTR(*ret_notes));
        return unknown_table(table, fault);
    }
    *ret_view = view;
    return 0;
}

static void view_release(struct table_view *view)
{
    json_decref(view->info);
    json_decref(view->notes);
    *view = (struct table_view){ 0 };
}

int source_table(struct sources *sources, const struct caller *caller, const char *id_or_name,
                 const char *table, json_t **ret_json, struct fault *fault)
{
    struct table_view view;
    struct held held;
    struct whom whom;
    int r;

    if (whom_find(sources, caller, &whom, fault) < 0 ||
        held_find(sources, &whom, id_or_name, &held, fault) < 0)
        return -1;
    r = view_find(sources, &held, whom.is_operator, table, &view, NULL, fault);
    held_release(&held);
    if (r < 0)
        return -1;
    *ret_json = view_to_json(&view);
    view_release(&view);
    return *ret_json ? 0 : fault_no_memory(fault);
}

/* ---- editing ---- */

/* What was sampled of columns that are masked now is not kept. NULL: there was nothing. */
static char *info_without_masked(const struct table_view *view, const json_t *notes)
{
    struct table_view after = { .notes = (json_t *) notes };
    json_t *columns = json_object_get(view->info, "columns"), *column;
    bool changed = false;
    size_t i;

    json_array_foreach (columns, i, column) {
        const char *name = json_string_value(json_object_get(column, "name"));

        if (name && view_is_masked(&after, name) && json_object_del(column, "samples") == 0)
            changed = true;
    }
    return changed ? json_dumps(view->info, JSON_COMPACT) : NULL;
}

/* -ESTALE in @ret_r: somebody else was faster. */
static int change(struct sources *sources, const struct held *held, const char *table,
                  const json_t *body, int *ret_r, struct fault *fault)
{
    autofree char *before = NULL, *after = NULL, *info = NULL;
    struct gb_err err = { 0 };
    struct table_view view = { 0 };
    json_t *notes = NULL;
    int r;

    *ret_r = 0;
    if (view_find(sources, held, true, table, &view, &before, fault) < 0)
        return -1;
    if (before && !view.notes)
        r = fault_set(fault, PROBLEM_INTERNAL, NULL, "the notes of the table are damaged");
    else
        r = notes_of_table(view.notes, view.info, held->source.kind, body, &notes, fault);
    if (r == 0)
        info = info_without_masked(&view, notes);
    view_release(&view);
    if (r < 0)
        return -1;
    after = notes ? json_dumps(notes, JSON_COMPACT) : NULL;
    if (notes && !after) {
        json_decref(notes);
        return fault_no_memory(fault);
    }
    json_decref(notes);
    *ret_r = store_table_set_notes(sources->config.store, held->source.id, table, before, after,
                                   info, &err);
    return *ret_r < 0 ? source_fault(*ret_r, &err, fault) : 0;
}

int source_table_change(struct sources *sources, const struct caller *caller,
                        const char *id_or_name, const char *table, json_t *body, json_t **ret_json,
                        struct fault *fault)
{
    struct held held;
    struct whom whom;
    int r = whom_operator(sources, caller, &whom, fault), was = -ESTALE;

    if (r < 0 || held_find(sources, &whom, id_or_name, &held, fault) < 0)
        return -1;
    for (int i = 0; i < SOURCE_TRIES && was == -ESTALE; i++)
        r = change(sources, &held, table, body, &was, fault);
    held_release(&held);
    return r < 0 ? -1 : source_table(sources, caller, id_or_name, table, ret_json, fault);
}
