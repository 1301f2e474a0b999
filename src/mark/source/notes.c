/*
 * What people write about sources, tables and columns.
 *
 * Notes are apart from what a sync reads, so a sync never loses them. A column that is gone keeps
 * its notes: it may come back, and a mask in particular must not fall off because a column was away
 * for a day. An edit replaces single members; null removes one.
 *
 *   of a source   {"joins": [{"left", "right", "note"}], "examples": [{"question", "sql"}]}
 *   of a table    {"description", "synonyms": [..], "columns": {NAME: {"description", "unit",
 *                 "synonyms": [..], "masked": true}}}
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/parse.h"
#include "mark/source/internal.h"

#include "base/banned.h"

#define TEXT_MAX     4000
#define UNIT_MAX     100
#define WORDS_MAX    20
#define WORD_BYTES   200
#define JOINS_MAX    500
#define EXAMPLES_MAX 200
#define SQL_MAX      20000
#define PLACE_MAX    1400 /* schema.table.column */
#define COLUMNS_MAX  1600

static int fail(struct fault *fault, const char *loc, const char *why)
{
    return fault_set(fault, PROBLEM_SOURCE_MALFORMED, loc, "%s %s", loc, why);
}

static int check_members(const json_t *object, const char *const *known, const char *what,
                         struct fault *fault)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, NULL, "%s must be an object", what);
    json_object_foreach ((json_t *) object, name, value) {
        char quoted[FORMAT_QUOTED_MAX];
        size_t i = 0;

        while (known[i] && strcmp(known[i], name) != 0)
            i++;
        if (known[i])
            continue;
        format_quoted(name, quoted);
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, NULL, "%s has no member %s", what,
                         quoted);
    }
    return 0;
}

/* ---- single members ---- */

static int edit_text(json_t *notes, const json_t *body, const char *name, size_t max,
                     struct fault *fault)
{
    return settings_copy_text(notes, body, name, max, fault) < 0 ? -1 : 0;
}

static int edit_words(json_t *notes, const json_t *body, struct fault *fault)
{
    const json_t *words = json_object_get(body, "synonyms"), *word;
    size_t i;

    if (!words)
        return 0;
    if (json_is_null(words) || (json_is_array(words) && json_array_size(words) == 0)) {
        (void) json_object_del(notes, "synonyms");
        return 0;
    }
    if (!json_is_array(words) || json_array_size(words) > WORDS_MAX)
        return fail(fault, "synonyms", "must be a list of at most 20 words");
    json_array_foreach ((json_t *) words, i, word)
        if (!json_is_string(word) || json_string_length(word) < 1 ||
            json_string_length(word) > WORD_BYTES ||
            strlen(json_string_value(word)) != json_string_length(word))
            return fail(fault, "synonyms", "must be words of 1 to 200 bytes");
    return json_object_set_new(notes, "synonyms", json_deep_copy(words)) < 0
               ? fault_no_memory(fault)
               : 0;
}

static int finish(json_t *notes, json_t **ret_notes, struct fault *fault)
{
    autofree char *text = json_dumps(notes, JSON_COMPACT);

    if (!text) {
        json_decref(notes);
        return fault_no_memory(fault);
    }
    if (strlen(text) > STORE_NOTES_MAX) {
        json_decref(notes);
        return fault_set(fault, PROBLEM_SOURCES_QUOTA, NULL,
                         "the notes would take more than %d KB; shorten some",
                         STORE_NOTES_MAX / 1024);
    }
    if (json_object_size(notes) == 0) {
        json_decref(notes);
        notes = NULL;
    }
    *ret_notes = notes;
    return 0;
}

/* ---- of a source ---- */

/* A list of objects with two required or optional texts. */
struct list_form {
    const char *name, *members[4];
    size_t max, bytes[3], required;
};

static const struct list_form forms[] = {
    { "joins", { "left", "right", "note" }, JOINS_MAX, { PLACE_MAX, PLACE_MAX, TEXT_MAX }, 2 },
    { "examples", { "question", "sql" }, EXAMPLES_MAX, { TEXT_MAX, SQL_MAX }, 1 },
};

static json_t *list_item(const struct list_form *form, const json_t *item, struct fault *fault)
{
    json_t *made = json_object();

    if (!made) {
        (void) fault_no_memory(fault);
        return NULL;
    }
    if (check_members(item, form->members, form->name, fault) < 0)
        goto failed;
    for (size_t i = 0; form->members[i]; i++) {
        if (edit_text(made, item, form->members[i], form->bytes[i], fault) < 0)
            goto failed;
        if (i < form->required && !json_object_get(made, form->members[i])) {
            (void) fault_set(fault, PROBLEM_SOURCE_MALFORMED, form->name, "%s: %s is missing",
                             form->name, form->members[i]);
            goto failed;
        }
    }
    return made;
failed:
    json_decref(made);
    return NULL;
}

static int edit_list(const struct list_form *form, json_t *notes, const json_t *body,
                     struct fault *fault)
{
    const json_t *list = json_object_get(body, form->name), *item;
    json_t *made;
    size_t i;

    if (!list)
        return 0;
    (void) json_object_del(notes, form->name);
    if (json_is_null(list) || (json_is_array(list) && json_array_size(list) == 0))
        return 0;
    if (!json_is_array(list) || json_array_size(list) > form->max)
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, form->name,
                         "%s must be a list of at most %zu", form->name, form->max);
    made = json_array();
    json_array_foreach ((json_t *) list, i, item) {
        json_t *copy = list_item(form, item, fault);

        if (!copy || json_array_append_new(made, copy) < 0) {
            json_decref(made);
            return copy ? fault_no_memory(fault) : -1;
        }
    }
    return json_object_set_new(notes, form->name, made) < 0 ? fault_no_memory(fault) : 0;
}

int notes_of_source(const json_t *notes, const json_t *body, json_t **ret_notes,
                    struct fault *fault)
{
    json_t *made = notes ? json_deep_copy(notes) : json_object();
    int r = made ? 0 : fault_no_memory(fault);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(forms); i++)
        r = edit_list(&forms[i], made, body, fault);
    if (r < 0) {
        json_decref(made);
        return -1;
    }
    return finish(made, ret_notes, fault);
}

/* ---- of a table ---- */

static bool has_column(const json_t *info, const char *name)
{
    json_t *columns = json_object_get(info, "columns"), *column;
    size_t i;

    json_array_foreach (columns, i, column) {
        const char *is = json_string_value(json_object_get(column, "name"));

        if (is && strcmp(is, name) == 0)
            return true;
    }
    return false;
}

static int edit_mask(json_t *notes, const json_t *body, const char *kind, struct fault *fault)
{
    const json_t *masked = json_object_get(body, "masked");

    if (!masked)
        return 0;
    if (!json_is_boolean(masked) && !json_is_null(masked))
        return fail(fault, "masked", "must be true or false");
    if (json_is_true(masked) && strcmp(kind, "files") == 0)
        return fail(fault, "masked",
                    "is not possible for files: programs read them whole; leave the column out of "
                    "the file, or take the file out of the directory");
    if (!json_is_true(masked))
        (void) json_object_del(notes, "masked");
    else if (json_object_set_new(notes, "masked", json_true()) < 0)
        return fault_no_memory(fault);
    return 0;
}

static int edit_column(json_t *columns, const json_t *info, const char *kind, const json_t *body,
                       struct fault *fault)
{
    static const char *const known[] = {
        "name", "description", "unit", "synonyms", "masked", NULL
    };
    const char *name;
    char quoted[FORMAT_QUOTED_MAX];
    json_t *notes;
    int r;

    if (check_members(body, known, "a column", fault) < 0 ||
        settings_text(body, "name", PLACE_MAX, &name, fault) < 0)
        return -1;
    if (!name)
        return fail(fault, "columns", "has an item without name");
    notes = json_object_get(columns, name);
    if (!notes && !has_column(info, name)) {
        format_quoted(name, quoted);
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, "columns", "there is no column %s",
                         quoted);
    }
    notes = notes ? json_incref(notes) : json_object();
    r = notes ? edit_text(notes, body, "description", TEXT_MAX, fault) : fault_no_memory(fault);
    if (r == 0)
        r = edit_text(notes, body, "unit", UNIT_MAX, fault);
    if (r == 0)
        r = edit_words(notes, body, fault);
    if (r == 0)
        r = edit_mask(notes, body, kind, fault);
    if (r == 0 && json_object_size(notes) == 0)
        (void) json_object_del(columns, name);
    else if (r == 0 && json_object_set(columns, name, notes) < 0)
        r = fault_no_memory(fault);
    json_decref(notes);
    return r;
}

static int edit_columns(json_t *notes, const json_t *info, const char *kind, const json_t *body,
                        struct fault *fault)
{
    const json_t *list = json_object_get(body, "columns"), *item;
    json_t *columns = json_object_get(notes, "columns");
    size_t i;

    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list) || json_array_size(list) > COLUMNS_MAX)
        return fail(fault, "columns", "must be a list of at most 1600");
    if (!columns) {
        columns = json_object();
        if (json_object_set_new(notes, "columns", columns) < 0)
            return fault_no_memory(fault);
    }
    json_array_foreach ((json_t *) list, i, item)
        if (edit_column(columns, info, kind, item, fault) < 0)
            return -1;
    if (json_object_size(columns) == 0)
        (void) json_object_del(notes, "columns");
    return 0;
}

int notes_of_table(const json_t *notes, const json_t *info, const char *kind, const json_t *body,
                   json_t **ret_notes, struct fault *fault)
{
    static const char *const known[] = { "description", "synonyms", "columns", NULL };
    json_t *made = notes ? json_deep_copy(notes) : json_object();
    int r = made ? check_members(body, known, "a table", fault) : fault_no_memory(fault);

    if (r == 0)
        r = edit_text(made, body, "description", TEXT_MAX, fault);
    if (r == 0)
        r = edit_words(made, body, fault);
    if (r == 0)
        r = edit_columns(made, info, kind, body, fault);
    if (r < 0) {
        json_decref(made);
        return -1;
    }
    return finish(made, ret_notes, fault);
}

/* ---- masks ---- */

static int add_masks(json_t *list, const struct store_table *table)
{
    json_t *notes = source_stored(table->notes), *columns = json_object_get(notes, "columns"),
           *names = json_array(), *column;
    const char *name;
    int r = names ? 0 : -1;

    if (table->notes && !notes)
        r = -1; /* damaged: better none than a mask that is not seen */
    json_object_foreach (columns, name, column)
        if (r == 0 && json_is_true(json_object_get(column, "masked")))
            r = json_array_append_new(names, json_string(name));
    if (r == 0 && json_array_size(names) > 0)
        r = json_array_append_new(list,
                                  json_pack("{s:s,s:O}", "table", table->name, "columns", names));
    json_decref(names);
    json_decref(notes);
    return r;
}

int notes_masked(struct sources *sources, const char *source_id, json_t **ret_masked,
                 struct fault *fault)
{
    struct store_table *tables = NULL;
    json_t *list = json_array();
    struct gb_err err = { 0 };
    size_t len = 0;
    int r = store_table_noted(sources->config.store, source_id, &tables, &len, &err);

    if (r < 0 || !list) {
        json_decref(list);
        return r < 0 ? source_fault(r, &err, fault) : fault_no_memory(fault);
    }
    for (size_t i = 0; r == 0 && i < len; i++)
        r = add_masks(list, &tables[i]);
    store_tables_free(tables, len);
    if (r < 0) {
        json_decref(list);
        return fault_set(fault, PROBLEM_INTERNAL, NULL,
                         "the notes of a source cannot be read, so its masks are not known");
    }
    *ret_masked = list;
    return 0;
}
