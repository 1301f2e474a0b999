/*
 * The check of a story: see story.h.
 *
 * Theory of operation. First the references are filled in, in one pass from left to right; what is
 * filled in is never looked at for references again. Then the numerals of the whole text are read
 * as a reader sees them, with what was filled in: one that lies inside a filled place is the
 * value's and was computed, unless its surroundings make another number of it ("{{a}}0", "-{{a}}",
 * "{{a}} million"); every other has to be found in the evidence. All of it takes linear time.
 */

#include "mark/story/story.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "mark/numeral/numeral.h"
#include "mark/story/evidence.h"

#include "base/banned.h"

#define NAME_MAX_BYTES   64u
#define FORMAT_MAX_BYTES 16u
#define SHOWN_MAX_BYTES  80u /* of a numeral in the list of the unsupported */

enum mark_kind { MARK_VALUE, MARK_UNKNOWN, MARK_FOUND, MARK_UNSUPPORTED };

struct mark {
    size_t start, end;
    enum mark_kind kind;
    char name[NAME_MAX_BYTES + 1]; /* of VALUE and UNKNOWN */
    bool supported;                /* of VALUE */
    struct origin origin;          /* of VALUE and FOUND */
};

struct marks {
    struct mark *items;
    size_t len, room;
};

struct checker {
    struct evidence *evidence;
    char *text; /* filled in */
    size_t len, room;
    struct marks fills;    /* in order */
    struct numeral *found; /* all numerals, in order */
    size_t found_len, found_room;
};

static void checker_release(struct checker *checker)
{
    free(checker->text);
    free(checker->fills.items);
    free(checker->found);
}

/* ---- text ---- */

/* Characters that reorder what a reader sees, or that no reader sees and no text needs. */
static bool is_dropped(const char *text, size_t len)
{
    unsigned char c = (unsigned char) text[0];

    if (len == 1)
        return (c < ' ' && c != '\n' && c != '\t') || c == 0x7f;
    if (len == 2)
        return c == 0xc2 && (unsigned char) text[1] < 0xa0; /* C1 */
    /* U+202D and U+202E */
    return len == 3 && c == 0xe2 && (unsigned char) text[1] == 0x80 &&
           ((unsigned char) text[2] == 0xad || (unsigned char) text[2] == 0xae);
}

static int append(struct checker *checker, const char *text, size_t len)
{
    if (checker->len + len > STORY_TEXT_MAX)
        return -E2BIG;
    if (checker->len + len + 1 > checker->room) {
        size_t room = (checker->len + len + 1) * 2;
        char *grown = realloc(checker->text, room);

        if (!grown)
            return -ENOMEM;
        checker->text = grown;
        checker->room = room;
    }
    memcpy(checker->text + checker->len, text, len);
    checker->len += len;
    checker->text[checker->len] = '\0';
    return 0;
}

/* One character of @text, as far as it may be shown; returns its length. */
static int append_char(struct checker *checker, const char *text, size_t len, size_t *ret_used)
{
    if (utf8_next(text, len, ret_used) != UTF8_CHAR)
        return append(checker, UTF8_REPLACEMENT, UTF8_REPLACEMENT_LEN);
    return is_dropped(text, *ret_used) ? 0 : append(checker, text, *ret_used);
}

static int append_text(struct checker *checker, const char *text)
{
    size_t len = strlen(text), used;

    for (size_t i = 0; i < len; i += used) {
        int r = append_char(checker, text + i, len - i, &used);

        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- references ---- */

struct reference {
    char name[NAME_MAX_BYTES + 1], format[FORMAT_MAX_BYTES + 1];
    size_t len; /* of all of it, with braces */
};

static bool copy_trimmed(const char *text, size_t len, char *out, size_t size)
{
    while (len > 0 && *text == ' ') {
        text++;
        len--;
    }
    while (len > 0 && text[len - 1] == ' ')
        len--;
    if (len >= size)
        return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

/* {{name}} or {{name:format}}. What is not a name but could be meant as one is a reference too, to
 * nothing; anything else in braces is text. */
static bool reference_read(const char *text, size_t len, struct reference *ret_reference)
{
    size_t limit = 2 + NAME_MAX_BYTES + FORMAT_MAX_BYTES + 8, end = 2, colon = 0;

    if (len < 5 || text[0] != '{' || text[1] != '{')
        return false;
    for (; end < len && end < limit && text[end] != '}'; end++) {
        unsigned char c = (unsigned char) text[end];

        if (c < ' ' || c >= 0x7f || strchr("{\"\\<>[]()`*", c))
            return false;
        if (c == ':' && !colon)
            colon = end;
    }
    if (end + 1 >= len || text[end] != '}' || text[end + 1] != '}')
        return false;
    ret_reference->len = end + 2;
    ret_reference->format[0] = '\0';
    if (colon && !copy_trimmed(text + colon + 1, end - colon - 1, ret_reference->format,
                               sizeof(ret_reference->format)))
        return false;
    return copy_trimmed(text + 2, (colon ? colon : end) - 2, ret_reference->name,
                        sizeof(ret_reference->name)) &&
           ret_reference->name[0];
}

static struct mark *marks_new(struct marks *marks)
{
    if (marks->len == marks->room) {
        size_t room = marks->room ? marks->room * 2 : 16;
        struct mark *grown = realloc(marks->items, room * sizeof(*grown));

        if (!grown)
            return NULL;
        marks->items = grown;
        marks->room = room;
    }
    marks->items[marks->len] = (struct mark){ 0 };
    return &marks->items[marks->len++];
}

static struct origin value_origin(const json_t *value)
{
    return (struct origin){ .message_id = json_string_value(json_object_get(value, "message_id")),
                            .step = json_integer_value(json_object_get(value, "step")),
                            .line = json_integer_value(json_object_get(value, "line")) };
}

static int fill(struct checker *checker, const struct reference *reference)
{
    bool counts;
    const json_t *value = evidence_value(checker->evidence, reference->name, &counts);
    autofree char *text = NULL;
    struct mark *mark;
    int r;

    if (checker->fills.len >= STORY_REFERENCES_MAX)
        return -E2BIG;
    mark = marks_new(&checker->fills);
    if (!mark)
        return -ENOMEM;
    mark->start = checker->len;
    mark->kind = value ? MARK_VALUE : MARK_UNKNOWN;
    mark->supported = counts;
    if (value)
        mark->origin = value_origin(value);
    memcpy(mark->name, reference->name, sizeof(mark->name));
    if (value) {
        text = value_markdown(value, reference->format[0] ? reference->format : NULL);
        r = text ? append_text(checker, text) : -ENOMEM;
    } else {
        r = append(checker, "[", 1);
        r = r < 0 ? r : append(checker, reference->name, strlen(reference->name));
        r = r < 0 ? r : append(checker, "?]", 2);
    }
    checker->fills.items[checker->fills.len - 1].end = checker->len;
    return r;
}

static int fill_all(struct checker *checker, const char *text, size_t len)
{
    struct reference reference;
    size_t used;
    int r = append(checker, "", 0);

    for (size_t i = 0; r == 0 && i < len; i += used) {
        if (text[i] == '{' && reference_read(text + i, len - i, &reference)) {
            r = fill(checker, &reference);
            used = reference.len;
        } else {
            r = append_char(checker, text + i, len - i, &used);
        }
    }
    return r;
}

/* ---- numerals ---- */

static int find_numerals(struct checker *checker)
{
    struct numerals *numerals;
    struct numeral numeral;
    int r = numerals_open(checker->text, checker->len, NUMERALS_STORY, &numerals);

    if (r < 0)
        return r;
    while (r == 0 && numerals_next(numerals, &numeral)) {
        if (checker->found_len >= 2 * STORY_REFERENCES_MAX) {
            r = -E2BIG;
        } else if (checker->found_len == checker->found_room) {
            size_t room = checker->found_room ? checker->found_room * 2 : 64;
            struct numeral *grown = realloc(checker->found, room * sizeof(*grown));

            if (!grown) {
                r = -ENOMEM;
                break;
            }
            checker->found = grown;
            checker->found_room = room;
        }
        if (r == 0)
            checker->found[checker->found_len++] = numeral;
    }
    numerals_close(numerals);
    return r;
}

/* The first place that ends after the start of the numeral; the numerals come in order. */
static size_t fill_at(const struct marks *fills, size_t from, const struct numeral *numeral)
{
    while (from < fills->len && fills->items[from].end <= numeral->start)
        from++;
    return from;
}

static bool overlaps(const struct marks *fills, size_t i, const struct numeral *numeral)
{
    return i < fills->len && fills->items[i].start < numeral->end;
}

/* Which of comma and point the model uses for decimals. */
static enum evidence_style story_style(const struct checker *checker)
{
    bool point = false, comma = false;
    size_t at = 0;

    for (size_t i = 0; i < checker->found_len; i++) {
        const struct numeral *numeral = &checker->found[i];

        at = fill_at(&checker->fills, at, numeral);
        if (overlaps(&checker->fills, at, numeral) || numeral->kind != NUMERAL_NUMBER)
            continue;
        point = point || numeral->style == NUMERAL_STYLE_POINT;
        comma = comma || numeral->style == NUMERAL_STYLE_COMMA;
    }
    return comma ? (point ? EVIDENCE_MIXED : EVIDENCE_COMMA) : EVIDENCE_POINT;
}

/* Whether a numeral inside a filled place says there what the value says by itself. */
static bool is_untouched(const struct checker *checker, const struct mark *fill,
                         const struct numeral *numeral)
{
    struct numerals *numerals;
    struct numeral alone;
    bool same = false;

    if (numeral->start > fill->start && numeral->end < fill->end)
        return true;
    if (numerals_open(checker->text + fill->start, fill->end - fill->start, NUMERALS_STORY,
                      &numerals) < 0)
        return false;
    while (!same && numerals_next(numerals, &alone)) {
        if (alone.start + fill->start != numeral->start)
            continue;
        same = alone.end == numeral->end - fill->start && alone.kind == numeral->kind &&
               alone.sign == numeral->sign && alone.value == numeral->value &&
               alone.scale == numeral->scale && alone.percent == numeral->percent &&
               alone.month == numeral->month && alone.year == numeral->year &&
               alone.kind != NUMERAL_ODD;
        break;
    }
    numerals_close(numerals);
    return same;
}

/* A numeral that has to do with filled places, from @at on. */
static void check_filled(struct checker *checker, size_t at, const struct numeral *numeral,
                         enum evidence_style style)
{
    struct mark *first = &checker->fills.items[at];
    bool inside = numeral->start >= first->start && numeral->end <= first->end;

    if (first->kind == MARK_UNKNOWN && inside)
        return;
    if (inside && is_untouched(checker, first, numeral))
        return;
    if (evidence_finds(checker->evidence, numeral, style, NULL))
        return;
    if (first->start > numeral->start)
        first->start = numeral->start;
    for (; at < checker->fills.len && checker->fills.items[at].start < numeral->end; at++) {
        struct mark *mark = &checker->fills.items[at];

        mark->supported = false;
        if (at + 1 < checker->fills.len && mark[1].start < numeral->end)
            mark->end = mark[1].start;
        else if (mark->end < numeral->end)
            mark->end = numeral->end;
    }
}

static int check_numerals(struct checker *checker, struct marks *typed)
{
    enum evidence_style style = story_style(checker);
    size_t at = 0;

    for (size_t i = 0; i < checker->found_len; i++) {
        const struct numeral *numeral = &checker->found[i];
        struct mark *mark;

        at = fill_at(&checker->fills, at, numeral);
        if (overlaps(&checker->fills, at, numeral)) {
            check_filled(checker, at, numeral, style);
            continue;
        }
        if (typed->len >= STORY_REFERENCES_MAX)
            return -E2BIG;
        mark = marks_new(typed);
        if (!mark)
            return -ENOMEM;
        mark->start = numeral->start;
        mark->end = numeral->end;
        mark->kind = evidence_finds(checker->evidence, numeral, style, &mark->origin)
                         ? MARK_FOUND
                         : MARK_UNSUPPORTED;
    }
    return 0;
}

/* ---- the result ---- */

static int add_once(json_t *list, json_t *seen, const char *text, size_t len)
{
    char shown[SHOWN_MAX_BYTES + 1];

    if (len > SHOWN_MAX_BYTES) {
        len = SHOWN_MAX_BYTES;
        while (len > 0 && ((unsigned char) text[len] & 0xc0) == 0x80)
            len--;
    }
    memcpy(shown, text, len);
    shown[len] = '\0';
    if (json_object_get(seen, shown))
        return 0;
    if (json_object_set_new(seen, shown, json_true()) < 0 ||
        json_array_append_new(list, json_string(shown)) < 0)
        return -ENOMEM;
    return 0;
}

/* Where it comes from. What a program says about its lines was checked when it was received. */
static int add_origin(json_t *object, const struct origin *origin)
{
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = { { "step", origin->step },
                    { "line", origin->line },
                    { "table", origin->table },
                    { "row", origin->row },
                    { "column", origin->column } };
    const struct {
        const char *key, *value;
    } texts[] = { { "where", origin->where }, { "message_id", origin->message_id } };
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (texts[i].value)
            r |= json_object_set_new(object, texts[i].key, json_string(texts[i].value));
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (numbers[i].value > 0)
            r |= json_object_set_new(object, numbers[i].key, json_integer(numbers[i].value));
    return r < 0 ? -ENOMEM : 0;
}

/* A mark in the lists of the result. */
static int tell(struct story *story, json_t *seen, json_t *seen_names, const struct mark *mark)
{
    bool bad = mark->kind == MARK_UNSUPPORTED || mark->kind == MARK_UNKNOWN ||
               (mark->kind == MARK_VALUE && !mark->supported);
    bool named = mark->kind == MARK_VALUE || mark->kind == MARK_UNKNOWN;
    json_t *object = json_pack("{s:I, s:I, s:s, s:s*}", "start", (json_int_t) mark->start, "end",
                               (json_int_t) mark->end, "kind",
                               bad                        ? "unsupported"
                               : mark->kind == MARK_VALUE ? "value"
                                                          : "found",
                               "name", named ? mark->name : NULL);
    int r = 0;

    if (!object || json_array_append_new(story->marks, object) < 0 ||
        add_origin(object, &mark->origin) < 0)
        return -ENOMEM;
    if (!bad) {
        story->checked++;
        return 0;
    }
    if (mark->kind == MARK_UNKNOWN)
        r = add_once(story->unknown, seen_names, mark->name, strlen(mark->name));
    return r < 0 ? r
                 : add_once(story->unsupported, seen, story->text + mark->start,
                            mark->end - mark->start);
}

static int tell_all(struct story *story, const struct marks *fills, const struct marks *typed)
{
    json_t *seen = json_object(), *seen_names = json_object();
    size_t i = 0, k = 0;
    int r = seen && seen_names ? 0 : -ENOMEM;

    while (r == 0 && (i < fills->len || k < typed->len)) {
        bool filled =
            k >= typed->len || (i < fills->len && fills->items[i].start <= typed->items[k].start);

        r = tell(story, seen, seen_names, filled ? &fills->items[i++] : &typed->items[k++]);
    }
    json_decref(seen);
    json_decref(seen_names);
    return r;
}

void story_release(struct story *story)
{
    free(story->text);
    json_decref(story->unsupported);
    json_decref(story->unknown);
    json_decref(story->marks);
    *story = (struct story){ 0 };
}

int story_check(struct evidence *evidence, const char *text, struct story *ret_story)
{
    struct checker checker = { .evidence = evidence };
    struct marks typed = { 0 };
    struct story story = { .unsupported = json_array(),
                           .unknown = json_array(),
                           .marks = json_array() };
    size_t len = strnlen(text, STORY_BYTES_MAX + 1);
    int r = len > STORY_BYTES_MAX ? -E2BIG : 0;

    if (r == 0 && (!story.unsupported || !story.unknown || !story.marks))
        r = -ENOMEM;
    evidence_sort(evidence);
    if (r == 0)
        r = fill_all(&checker, text, len);
    if (r == 0)
        r = find_numerals(&checker);
    if (r == 0)
        r = check_numerals(&checker, &typed);
    if (r == 0) {
        story.text = TAKE_PTR(checker.text);
        r = tell_all(&story, &checker.fills, &typed);
    }
    checker_release(&checker);
    free(typed.items);
    if (r < 0) {
        story_release(&story);
        return r;
    }
    *ret_story = story;
    return 0;
}
