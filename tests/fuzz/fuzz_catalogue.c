/*
 * Catalogues of strangers: what a connector hands over becomes text for a model. The first line of
 * the input is the question, the rest the catalogue.
 *
 * The text must be UTF-8 within its bounds, without control characters, and each line of it must
 * begin as one of ours: a name, comment or sample that could begin a line could also close the
 * fence, or look like an instruction of ours.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "mark/source/catalogue.h"
#include "mark/source/intake.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* ---- nothing is loaded here ---- */

int whom_find(struct sources *sources, const struct caller *caller, struct whom *ret_whom,
              struct fault *fault)
{
    (void) sources, (void) caller, (void) ret_whom, (void) fault;
    return -1;
}

int held_find(struct sources *sources, const struct whom *whom, const char *id_or_name,
              struct held *ret_held, struct fault *fault)
{
    (void) sources, (void) whom, (void) id_or_name, (void) ret_held, (void) fault;
    return -1;
}

void held_release(struct held *held)
{
    (void) held;
}

bool held_usable(const struct held *held, const struct whom *whom)
{
    (void) held, (void) whom;
    return false;
}

int views_load(struct sources *sources, const struct held *held, bool all,
               struct table_view **ret_views, size_t *ret_len, struct fault *fault)
{
    (void) sources, (void) held, (void) all, (void) ret_views, (void) ret_len, (void) fault;
    return -1;
}

void views_free(struct table_view *views, size_t len)
{
    (void) views, (void) len;
}

json_t *source_stored(const char *text)
{
    (void) text;
    return NULL;
}

/* ---- the text ---- */

static void check_line(const char *line, size_t len)
{
    static const char *const begin[] = { "Source shop, ", "Table ",      "  ",
                                         "More tables, ", "Join ",       "Example: ",
                                         "(The rest ",    "Nothing is ", "Its tables are files: " };
    size_t i = 0;

    while (i < ARRAY_LEN(begin) &&
           (len < strlen(begin[i]) || memcmp(line, begin[i], strlen(begin[i])) != 0))
        i++;
    must(i < ARRAY_LEN(begin));
    for (size_t j = 0; j < len; j++)
        must((unsigned char) line[j] >= 0x20 && line[j] != 0x7f);
}

static void check_text(const char *text, size_t max)
{
    must(text && strlen(text) <= max && utf8_valid(text, strlen(text)));
    while (*text) {
        size_t len = strcspn(text, "\n");

        check_line(text, len);
        must(text[len] == '\n');
        text += len + 1;
    }
}

static void check_catalogue(json_t *catalogue, const char *question, const char *kind, size_t max)
{
    json_t *tables = json_object_get(catalogue, "tables"), *info;
    struct table_view *views = calloc(json_object_size(tables) + 1, sizeof *views);
    struct held held = { .settings = json_pack("{s:s}", "description", question) };
    json_t *notes = json_pack("{s:[{s:s,s:s}],s:[{s:s,s:s}]}", "joins", "left", question, "right",
                              "a.b.c", "examples", "question", question, "sql", question);
    autofree char *text = NULL;
    const char *name;
    size_t len = 0;

    must(views != NULL);
    (void) snprintf(held.source.name, sizeof held.source.name, "shop");
    (void) snprintf(held.source.kind, sizeof held.source.kind, "%s", kind);
    json_object_foreach (tables, name, info) {
        must(strlen(name) < STORE_TABLE_NAME_MAX);
        (void) snprintf(views[len].name, sizeof views[len].name, "%s", name);
        views[len++].info = info;
    }
    text = views_text(&held, views, len, notes, question, max);
    check_text(text, max);
    json_decref(held.settings);
    json_decref(notes);
    free(views);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const kinds[] = { "postgresql", "bigquery", "files" };
    const char *text = (const char *) data, *line = size ? memchr(text, '\n', size) : NULL;
    struct gb_err err = { 0 };
    json_t *catalogue = NULL;
    char question[256];
    size_t used = 0, len;

    if (!line || size > 1 << 20)
        return 0;
    len = (size_t) (line - text);
    (void) utf8_replace(text, len < 80 ? len : 80, question, sizeof question - 1, &used);
    question[utf8_replace(text, len < 80 ? len : 80, question, sizeof question - 1, &used)] = '\0';
    if (intake_parse(line + 1, size - len - 1, &catalogue, &err) < 0)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        check_catalogue(catalogue, question, kinds[i], 200 + size % 5000);
    json_decref(catalogue);
    return 0;
}
