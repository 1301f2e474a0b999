/* What changed, in words for a person: one line for each thing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/agent/text.h"
#include "mark/story/compare.h"
#include "mark/verify/internal.h"

#include "base/banned.h"

#define LINES_MAX   100
#define SHOWN_BYTES 80

static void add_line(json_t *lines, struct text *text)
{
    size_t len = text->data ? text_fit(text->data, text->len, 600) : 0;

    if (json_array_size(lines) == LINES_MAX)
        (void) json_array_append_new(lines, json_string("and more"));
    else if (len > 0 && json_array_size(lines) < LINES_MAX)
        (void) json_array_append_new(lines, json_stringn(text->data, len));
    text_release(text);
}

/* A value in a few words; a missing one is "nothing". */
static void add_shown(struct text *text, const json_t *value)
{
    autofree char *dump = NULL;
    size_t len;

    if (!value || json_is_null(value)) {
        text_puts(text, "nothing");
        return;
    }
    dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
    len = dump ? text_fit(dump, strlen(dump), SHOWN_BYTES) : 0;
    if (dump)
        text_add(text, dump, len);
    if (dump && dump[len])
        text_puts(text, "...");
}

static void value_line(json_t *lines, const char *name, const json_t *before, const json_t *after)
{
    struct text text = { 0 };

    text_printf(&text, "value %.100s: ", name ? name : "?");
    add_shown(&text, before);
    text_puts(&text, " \u2192 ");
    add_shown(&text, after);
    add_line(lines, &text);
}

static bool is_equal(const json_t *item)
{
    return json_is_true(json_object_get(item, "equal"));
}

static void list_lines(json_t *lines, const char *what, const json_t *list)
{
    const json_t *item, *difference;
    size_t i, j;

    json_array_foreach (list, i, item) {
        const json_t *differences = json_object_get(item, "differences");
        const char *title = json_string_value(json_object_get(item, "title"));
        const char *missing = json_string_value(json_object_get(item, "missing"));
        struct text text = { 0 };

        if (is_equal(item))
            continue;
        text_printf(&text, "%s %zu%s%.100s%s: ", what, i + 1, title ? " \"" : "",
                    title ? title : "", title ? "\"" : "");
        if (missing)
            text_puts(&text, strcmp(missing, "after") == 0 ? "it is not there any more"
                                                           : "it was not there before");
        else if (json_array_size(differences) == 0)
            text_puts(&text, "it is another one");
        json_array_foreach (differences, j, difference)
            if (!missing)
                text_printf(&text, "%s%s", j > 0 ? "; " : "", json_string_value(difference));
        add_line(lines, &text);
    }
}

void report_differences(json_t *lines, const json_t *result)
{
    const json_t *item;
    size_t i;

    json_array_foreach (json_object_get(result, "errors"), i, item) {
        struct text text = { 0 };
        const char *error = json_string_value(json_object_get(item, "error"));

        text_printf(&text, "program %lld failed: %s",
                    (long long) json_integer_value(json_object_get(item, "n")), error ? error : "");
        add_line(lines, &text);
    }
    json_array_foreach (json_object_get(result, "values"), i, item)
        if (!is_equal(item))
            value_line(lines, json_string_value(json_object_get(item, "name")),
                       json_object_get(item, "before"), json_object_get(item, "after"));
    list_lines(lines, "table", json_object_get(result, "tables"));
    list_lines(lines, "chart", json_object_get(result, "charts"));
}

/* ---- what is different besides ---- */

void report_change(json_t *lines, const char *what, const char *before, const char *after)
{
    struct text text = { 0 };

    if (!before || !after || strcmp(before, after) == 0)
        return;
    text_printf(&text, "%s: %.200s \u2192 %.200s", what, before, after);
    add_line(lines, &text);
}

/* "numpy 2.1, pandas 2.2" as an object of names and versions. */
static json_t *packages_of(const char *list)
{
    json_t *packages = json_object();

    while (list && *list) {
        size_t len = strcspn(list, ","), name = strcspn(list, " ,");
        const char *version = name < len ? list + name + 1 : "";
        size_t version_len = name < len ? len - name - 1 : 0;

        (void) json_object_setn_new(packages, list, name, json_stringn(version, version_len));
        list += len;
        list += strspn(list, ", ");
    }
    return packages;
}

static void report_packages(json_t *lines, const char *before, const char *after)
{
    json_t *was = packages_of(before), *is = packages_of(after), *version;
    char what[128];
    const char *name;

    json_object_foreach (was, name, version) {
        const char *now = json_string_value(json_object_get(is, name));

        (void) snprintf(what, sizeof what, "package %.100s", name);
        report_change(lines, what, json_string_value(version), now ? now : "not installed");
    }
    json_object_foreach (is, name, version)
        if (!json_object_get(was, name)) {
            (void) snprintf(what, sizeof what, "package %.100s", name);
            report_change(lines, what, "not installed", json_string_value(version));
        }
    json_decref(was);
    json_decref(is);
}

void report_context(json_t *lines, const json_t *result)
{
    const json_t *packages = json_object_get(result, "packages");
    const json_t *template = json_object_get(result, "template"), *file;
    size_t i;

    json_array_foreach (json_object_get(result, "files"), i, file)
        (void) json_array_append_new(lines, json_sprintf("file %s", json_string_value(file)));
    report_change(lines, "template", json_string_value(json_object_get(template, "before")),
                  json_string_value(json_object_get(template, "after")));
    if (packages)
        report_packages(lines, json_string_value(json_object_get(packages, "before")),
                        json_string_value(json_object_get(packages, "after")));
}

/* ---- what a model computed this time ---- */

/* Whether the story refers to that value: "{{name}}" or "{{name:format}}". */
static bool is_shown(const char *story, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = story; (at = strstr(at, "{{")); at += 2) {
        const char *start = at + 2 + strspn(at + 2, " ");

        if (strncmp(start, name, len) == 0 && strchr(" :}", start[len]))
            return true;
    }
    return false;
}

/* Whether @a and @b are the same, whatever they are called. */
static bool same_value(const json_t *a, const json_t *b)
{
    json_t *before = json_pack("[{s:s, s:O?, s:O?}]", "name", "x", "value",
                               json_object_get(a, "value"), "unit", json_object_get(a, "unit"));
    json_t *after = json_pack("[{s:s, s:O?, s:O?}]", "name", "x", "value",
                              json_object_get(b, "value"), "unit", json_object_get(a, "unit"));
    json_t *result = before && after ? compare_values(before, after) : NULL;
    bool same = is_equal(json_array_get(result, 0));

    json_decref(before);
    json_decref(after);
    json_decref(result);
    return same;
}

static void report_value(json_t *lines, const json_t *value, const json_t *now)
{
    const char *name = json_string_value(json_object_get(value, "name"));
    const json_t *item, *named = NULL;
    size_t i;

    json_array_foreach (now, i, item) {
        const char *other = json_string_value(json_object_get(item, "name"));

        if (same_value(value, item))
            return;
        if (name && other && strcmp(name, other) == 0)
            named = item;
    }
    value_line(lines, name, json_object_get(value, "value"), json_object_get(named, "value"));
}

void report_values(json_t *lines, const json_t *json, const json_t *response)
{
    const json_t *values = json_object_get(json, "values"), *value;
    const json_t *now = json_object_get(response, "values");
    const char *story = json_string_value(json_object_get(json, "story"));
    size_t i, shown = 0;

    for (int all = 0; all <= 1 && shown == 0; all++) /* a story without references: all values */
        json_array_foreach (values, i, value) {
            const char *name = json_string_value(json_object_get(value, "name"));

            if (!name || (!all && !(story && is_shown(story, name))))
                continue;
            shown++;
            report_value(lines, value, now);
        }
}
