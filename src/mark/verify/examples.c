/*
 * Verified answers as examples for a new question.
 *
 * How much two questions resemble each other is the share of the new one's trigrams of letters that
 * the other has too, in one case: it needs no list of words and works in every language. Only the
 * questions of those that are compared are read; the contents of the few that are taken come last.
 */
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/agent/text.h"
#include "mark/verify/internal.h"
#include "store/fold.h"

#include "base/banned.h"

#define EXAMPLES_MAX   3
#define COMPARED_MAX   2000 /* the newest */
#define PAGE           500
#define QUESTION_BYTES 2048 /* of each that are looked at */
#define LIKE_MIN       0.35
#define BITS           8192u

struct grams {
    uint64_t bits[BITS / 64];
};

struct candidate {
    char id[STORE_ID_MAX];
    double like;
};

static uint32_t gram_hash(const unsigned char *at)
{
    return (uint32_t) (((uint64_t) (at[0] << 16 | at[1] << 8 | at[2]) * 0x9E3779B97F4A7C15u) >> 51);
}

static bool is_letter(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c >= 0x80;
}

/* False: out of memory. */
static bool grams_of(const char *question, struct grams *ret_grams)
{
    autofree char *folded = store_fold(question, QUESTION_BYTES);
    size_t len = 0;

    *ret_grams = (struct grams){ 0 };
    if (!folded)
        return false;
    for (char *at = folded; *at; at++) /* one blank between words */
        if (is_letter((unsigned char) *at))
            folded[len++] = *at;
        else if (len > 0 && folded[len - 1] != ' ')
            folded[len++] = ' ';
    for (size_t i = 0; i + 3 <= len; i++) {
        uint32_t bit = gram_hash((const unsigned char *) folded + i) % BITS;

        ret_grams->bits[bit / 64] |= UINT64_C(1) << (bit % 64);
    }
    return true;
}

static int count_both(const struct grams *a, const struct grams *b)
{
    int count = 0;

    for (size_t i = 0; i < BITS / 64; i++)
        count += __builtin_popcountll(a->bits[i] & b->bits[i]);
    return count;
}

static void consider(struct candidate *best, size_t *len, const char *id, double like)
{
    size_t at = *len;

    while (at > 0 && best[at - 1].like < like)
        at--;
    if (at == EXAMPLES_MAX)
        return;
    if (*len < EXAMPLES_MAX)
        (*len)++;
    for (size_t i = *len - 1; i > at; i--)
        best[i] = best[i - 1];
    best[at].like = like;
    (void) snprintf(best[at].id, sizeof best[at].id, "%s", id);
}

/* Whether the caller may be shown it, whoever shares it. */
static bool may_show(struct verify *verify, const struct caller *caller, const char *id)
{
    struct store_verified verified;
    struct gb_err ignored;
    json_t *json;
    bool may;

    if (store_verified_get(verify->config.store, NULL, id, &verified, &ignored) < 0)
        return false;
    json = json_loads(verified.content, JSON_ALLOW_NUL, NULL);
    may = json && verify_may_use(verify, caller, json);
    json_decref(json);
    store_verified_release(&verified);
    return may;
}

static size_t find(struct verify *verify, const struct caller *caller, const struct grams *wanted,
                   struct candidate best[EXAMPLES_MAX])
{
    int all = count_both(wanted, wanted);
    char after[STORE_ID_MAX] = "";
    size_t found = 0, compared = 0, len = PAGE;
    struct gb_err ignored;

    while (all > 0 && len == PAGE && compared < COMPARED_MAX) {
        struct store_verified *list = NULL;
        struct grams grams;

        if (store_verified_list(verify->config.store, principal_text(&caller->principal), true,
                                after[0] ? after : NULL, PAGE, &list, &len, &ignored) < 0)
            break;
        for (size_t i = 0; i < len; i++) {
            double like =
                grams_of(list[i].question, &grams) ? (double) count_both(wanted, &grams) / all : 0;
            bool better = found < EXAMPLES_MAX || like > best[EXAMPLES_MAX - 1].like;

            if (like >= LIKE_MIN && better && may_show(verify, caller, list[i].id))
                consider(best, &found, list[i].id, like);
            memcpy(after, list[i].id, sizeof after);
        }
        compared += len;
        store_verified_free(list, len);
    }
    return found;
}

/* ---- as text ---- */

static void add_text(struct text *text, const char *what, const char *value, size_t max)
{
    if (!value || !*value)
        return;
    text_puts(text, what);
    text_add_cut(text, value, strlen(value), max);
    text_puts(text, "\n");
}

/* Names of values, not what they were: those were computed from the data of then. */
static void add_values(struct text *text, const json_t *json)
{
    const json_t *values = json_object_get(json, "values"), *value;
    size_t i;

    json_array_foreach (values, i, value) {
        const char *name = json_string_value(json_object_get(value, "name"));
        const char *unit = json_string_value(json_object_get(value, "unit"));

        if (i < 20 && name)
            text_printf(text, "%s%.60s%s%.20s%s", i == 0 ? "Values: " : ", ", name,
                        unit ? " (" : "", unit ? unit : "", unit ? ")" : "");
    }
    if (json_array_size(values) > 0)
        text_puts(text, "\n");
}

static void add_example(struct text *text, const struct store_verified *verified,
                        const json_t *json, size_t max)
{
    const json_t *cells = json_object_get(json, "cells"), *cell;
    size_t each = max * 3 / 5 / (json_array_size(cells) + 1), i;

    add_text(text, "Question: ", verified->question, max / 8);
    add_text(text, "Note: ", json_string_value(json_object_get(json, "note")), max / 8);
    if (json_array_size(json_object_get(json, "before")) > 0)
        text_puts(text, "(It builds on earlier programs, which are left out.)\n");
    json_array_foreach (cells, i, cell)
        add_text(text, "Program:\n", json_string_value(cell), each);
    add_values(text, json);
    add_text(text, "Story: ", json_string_value(json_object_get(json, "story")), max / 8);
}

char *verify_examples(struct verify *verify, const struct caller *caller, const char *question,
                      size_t max)
{
    struct candidate best[EXAMPLES_MAX];
    struct text text = { 0 };
    struct grams wanted;
    struct gb_err ignored;
    size_t len;

    if (!grams_of(question, &wanted))
        return NULL;
    len = find(verify, caller, &wanted, best);
    for (size_t i = 0; i < len; i++) {
        struct store_verified verified;
        struct text one = { 0 };
        json_t *json;

        if (store_verified_get(verify->config.store, NULL, best[i].id, &verified, &ignored) < 0)
            continue;
        json = json_loads(verified.content, JSON_ALLOW_NUL, NULL);
        add_example(&one, &verified, json, max / len);
        if (!one.failed && one.data && text.len + one.len + 1 <= max)
            text_printf(&text, "%s%s", text.len > 0 ? "\n" : "", one.data);
        text_release(&one);
        json_decref(json);
        store_verified_release(&verified);
    }
    if (text.len > 0 && !text.failed)
        return text_take(&text);
    text_release(&text);
    return NULL;
}
