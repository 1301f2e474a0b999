/*
 * One answer against what was expected of it. See eval.h for what counts.
 *
 * A numeral that the model typed and the server found is compared as the server compares it: with
 * its own precision and scale ("1.2 M" is 1,203,411). A value that was handed over is compared as a
 * number, within the tolerance of the expectation.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "mark/eval/internal.h"
#include "mark/story/evidence.h"

#include "base/banned.h"

#define TOLERANCE  1e-3 /* of the value, where none is said: three digits are right */
#define TINY       1e-9
#define REASON_MAX 400
#define STORY_MAX  4000 /* bytes of it that are kept */

/* What is looked for: an expected value, or a lie. */
struct wanted {
    const json_t *value;       /* a number or a text */
    const char *name;          /* NULL: any */
    const char *unit;          /* "": not said */
    double number, within;     /* of a number */
    struct evidence *evidence; /* of a number: it and nothing else */
};

struct shown {
    const json_t *value; /* handed over, as in MarkResponse; NULL: a numeral */
    const char *name;
    struct numeral numeral;
    const char *text; /* as it stands in the story */
    size_t len;
};

struct answer_view {
    const json_t *response;
    const char *story;
    struct shown *shown; /* what a reader takes for checked */
    size_t shown_len;
};

/* ---- units ---- */

static bool is_percent(const char *unit)
{
    return strcmp(unit, "%") == 0 || strcasecmp(unit, "percent") == 0;
}

static const char *plain_unit(const char *unit)
{
    static const char *const same[][2] = { { "€", "EUR" },     { "$", "USD" },
                                           { "£", "GBP" },     { "euro", "EUR" },
                                           { "euros", "EUR" }, { "dollars", "USD" } };

    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        if (strcasecmp(unit, same[i][0]) == 0)
            return same[i][1];
    return unit;
}

/* A value without a unit is not held against it. */
static bool units_agree(const char *wanted, const char *given)
{
    return !*wanted || !*given || is_percent(wanted) || is_percent(given) ||
           strcasecmp(plain_unit(wanted), plain_unit(given)) == 0;
}

/* ---- what is looked for ---- */

static int wanted_init(struct wanted *wanted, const json_t *value, const json_t *expectation)
{
    const json_t *tolerance = json_object_get(expectation, "tolerance");
    json_t *alone;
    int r;

    *wanted = (struct wanted){ .value = value, .unit = eval_string(expectation, "unit") };
    wanted->name = json_string_value(json_object_get(expectation, "name"));
    if (!json_is_number(value))
        return 0;
    wanted->number = json_number_value(value);
    wanted->within = tolerance ? json_number_value(tolerance) + TINY * fabs(wanted->number)
                               : TOLERANCE * fabs(wanted->number) + TINY;
    wanted->evidence = evidence_new();
    alone = json_pack("{s:s, s:O, s:s, s:i}", "name", "wanted", "value", (json_t *) value, "unit",
                      wanted->unit, "step", 1);
    r = wanted->evidence && alone ? evidence_add_value(wanted->evidence, alone) : -1;
    json_decref(alone);
    if (r == 0)
        evidence_sort(wanted->evidence);
    return r;
}

static void wanted_release(struct wanted *wanted)
{
    evidence_free(wanted->evidence);
    *wanted = (struct wanted){ 0 };
}

static bool near(const struct wanted *wanted, double number)
{
    return fabs(number - wanted->number) <= wanted->within;
}

/* A share can be handed over as 0.125, or as 12.5 with the unit %. */
static bool number_is(const struct wanted *wanted, double number, const char *unit)
{
    bool asked = is_percent(wanted->unit), given = is_percent(unit);

    if (near(wanted, number) && (asked || !given))
        return true;
    if (asked && !given)
        return near(wanted, number * 100);
    return !asked && given && near(wanted, number / 100);
}

static bool value_is(const struct wanted *wanted, const json_t *value)
{
    const json_t *given = json_object_get(value, "value");
    const char *unit = eval_string(value, "unit");

    if (json_is_string(wanted->value))
        return json_is_string(given) &&
               strcasecmp(json_string_value(given), json_string_value(wanted->value)) == 0;
    if (!units_agree(wanted->unit, unit))
        return false;
    if (json_is_number(given))
        return number_is(wanted, json_number_value(given), unit);
    if (json_is_string(given)) { /* a decimal */
        char *end;
        double number = strtod(json_string_value(given), &end);

        return end != json_string_value(given) && *end == '\0' && number_is(wanted, number, unit);
    }
    return false;
}

static bool numeral_is(const struct wanted *wanted, const struct numeral *numeral)
{
    double number = numeral->value * numeral->scale * (numeral->sign < 0 ? -1 : 1);

    if (!wanted->evidence)
        return false;
    if (numeral->kind == NUMERAL_NUMBER &&
        number_is(wanted, number, numeral->percent == 100 ? "%" : ""))
        return true;
    return evidence_finds(wanted->evidence, numeral, EVIDENCE_POINT, NULL) ||
           evidence_finds(wanted->evidence, numeral, EVIDENCE_COMMA, NULL);
}

static bool shown_is(const struct wanted *wanted, const struct shown *shown)
{
    return shown->value ? value_is(wanted, shown->value) : numeral_is(wanted, &shown->numeral);
}

/* ---- what is shown ---- */

static const json_t *find_value(const json_t *response, const char *name)
{
    const json_t *value, *found = NULL;
    size_t i;

    json_array_foreach (json_object_get(response, "values"), i, value)
        if (strcmp(eval_string(value, "name"), name) == 0)
            found = value; /* the last of a name counts */
    return found;
}

/* The numeral at bytes @start to @end of the story. */
static bool find_numeral(const char *story, size_t start, size_t end, struct numeral *ret_numeral)
{
    struct numerals *numerals = NULL;
    bool found = false;

    if (numerals_open(story, strlen(story), NUMERALS_STORY, &numerals) < 0)
        return false;
    while (!found && numerals_next(numerals, ret_numeral))
        found = ret_numeral->start < end && ret_numeral->end > start;
    numerals_close(numerals);
    return found;
}

static int view_init(struct answer_view *view, const json_t *response)
{
    const json_t *marks = json_object_get(json_object_get(response, "numbers"), "marks"), *mark;
    size_t i, len;

    *view = (struct answer_view){ .response = response };
    view->story = eval_string(response, "answer_story");
    len = strlen(view->story);
    view->shown = calloc(json_array_size(marks) + 1, sizeof *view->shown);
    if (!view->shown)
        return -1;
    json_array_foreach (marks, i, mark) {
        struct shown *shown = &view->shown[view->shown_len];
        size_t start = (size_t) json_integer_value(json_object_get(mark, "start"));
        size_t end = (size_t) json_integer_value(json_object_get(mark, "end"));
        const char *kind = eval_string(mark, "kind");

        if (strcmp(kind, "unsupported") == 0 || start >= end || end > len)
            continue;
        *shown = (struct shown){ .text = view->story + start, .len = end - start };
        shown->name = json_string_value(json_object_get(mark, "name"));
        if (strcmp(kind, "value") == 0)
            shown->value = shown->name ? find_value(response, shown->name) : NULL;
        if (shown->value || find_numeral(view->story, start, end, &shown->numeral))
            view->shown_len++;
    }
    return 0;
}

static bool marked_unsupported(const json_t *response, const char *name)
{
    const json_t *mark;
    size_t i;

    json_array_foreach (json_object_get(json_object_get(response, "numbers"), "marks"), i, mark)
        if (strcmp(eval_string(mark, "kind"), "unsupported") == 0 &&
            strcmp(eval_string(mark, "name"), name) == 0)
            return true;
    return false;
}

static bool in_tables(const struct wanted *wanted, const json_t *response)
{
    const json_t *table, *row, *cell;
    size_t t, r, c;

    json_array_foreach (json_object_get(response, "data"), t, table)
        json_array_foreach (json_object_get(table, "rows"), r, row)
            json_array_foreach (row, c, cell) {
                json_t *value = json_pack("{s:O}", "value", (json_t *) cell);
                bool is = value_is(wanted, value);

                json_decref(value);
                if (is)
                    return true;
            }
    return false;
}

/* In the story, among what was handed over, or in a table. */
static bool is_found(const struct wanted *wanted, const struct answer_view *view)
{
    const json_t *value;
    size_t i;

    for (i = 0; i < view->shown_len; i++)
        if (shown_is(wanted, &view->shown[i]))
            return true;
    if (json_is_string(wanted->value) && strcasestr(view->story, json_string_value(wanted->value)))
        return true;
    json_array_foreach (json_object_get(view->response, "values"), i, value)
        if (value_is(wanted, value) &&
            !marked_unsupported(view->response, eval_string(value, "name")))
            return true;
    return in_tables(wanted, view->response);
}

/* ---- the verdict ---- */

__attribute__((format(printf, 2, 3))) static void add_text(json_t *list, const char *fmt, ...)
{
    char text[REASON_MAX];
    json_t *string;
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    string = json_string(text);
    for (size_t len = strlen(text); !string && len > 0;) { /* cut inside a character */
        text[--len] = '\0';
        string = json_string(text);
    }
    (void) json_array_append_new(list, string);
}

static void describe(const json_t *value, char *buf, size_t size)
{
    if (json_is_string(value))
        (void) snprintf(buf, size, "'%.60s'", json_string_value(value));
    else
        (void) snprintf(buf, size, "%.10g", json_number_value(value));
}

static bool is_expected(const struct shown *shown, const struct wanted *expected, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (shown_is(&expected[i], shown))
            return true;
    return false;
}

/* Numbers that pass for checked and are among the lies. What is also expected is none: "212
 * thousand" may be either. */
static void find_lies(const json_t *lies, const struct answer_view *view,
                      const struct wanted *expected, size_t expected_len, json_t *ret_false)
{
    const json_t *lie;
    size_t i;

    json_array_foreach (lies, i, lie) {
        struct wanted wanted;

        if (wanted_init(&wanted, lie, NULL) == 0)
            for (size_t s = 0; s < view->shown_len; s++)
                if (shown_is(&wanted, &view->shown[s]) &&
                    !is_expected(&view->shown[s], expected, expected_len))
                    add_text(ret_false, "'%.*s' is shown as checked, and is a lie",
                             (int) view->shown[s].len, view->shown[s].text);
        wanted_release(&wanted);
    }
}

/* Shown under the name of an expected value, and another. */
static void find_others(const struct answer_view *view, const struct wanted *expected, size_t len,
                        json_t *ret_false)
{
    char text[80];

    for (size_t i = 0; i < len; i++)
        for (size_t s = 0; s < view->shown_len; s++) {
            const struct shown *shown = &view->shown[s];

            if (!expected[i].name || !shown->name || !shown->value ||
                strcmp(expected[i].name, shown->name) != 0 || shown_is(&expected[i], shown))
                continue;
            describe(expected[i].value, text, sizeof text);
            add_text(ret_false, "%s is shown as '%.*s', and is %s%s%s", expected[i].name,
                     (int) shown->len, shown->text, text, *expected[i].unit ? " " : "",
                     expected[i].unit);
        }
}

static void check_texts(const json_t *text, const struct answer_view *view, json_t *reasons)
{
    const json_t *item;
    size_t i;

    json_array_foreach (json_object_get(text, "has"), i, item)
        if (!strcasestr(view->story, json_string_value(item)))
            add_text(reasons, "the story does not say '%.100s'", json_string_value(item));
    json_array_foreach (json_object_get(text, "not"), i, item)
        if (strcasestr(view->story, json_string_value(item)))
            add_text(reasons, "the story says '%.100s'", json_string_value(item));
}

static void check_unsupported(const json_t *range, size_t count, json_t *reasons)
{
    const json_t *min = json_object_get(range, "min"), *max = json_object_get(range, "max");

    if (min && (json_int_t) count < json_integer_value(min))
        add_text(reasons, "%zu unsupported numbers, and at least %lld are expected", count,
                 (long long) json_integer_value(min));
    if (max && (json_int_t) count > json_integer_value(max))
        add_text(reasons, "%zu unsupported numbers, and at most %lld are expected", count,
                 (long long) json_integer_value(max));
}

/* What is expected, each as something to look for; *@ret_found counts what is there. */
static int check_values(const json_t *question, const struct answer_view *view, json_t *reasons,
                        json_t *ret_false, size_t *ret_found)
{
    const json_t *values = json_object_get(json_object_get(question, "expect"), "values"), *value;
    size_t len = json_array_size(values), i;
    autofree struct wanted *expected = calloc(len + 1, sizeof *expected);
    char text[80];
    int r = expected ? 0 : -1;

    *ret_found = 0;
    json_array_foreach (values, i, value) {
        if (r == 0)
            r = wanted_init(&expected[i], json_object_get(value, "value"), value);
        if (r < 0)
            break;
        describe(expected[i].value, text, sizeof text);
        if (is_found(&expected[i], view))
            ++*ret_found;
        else
            add_text(reasons, "%s%s%s was not found", expected[i].name ? expected[i].name : "",
                     expected[i].name ? " = " : "", text);
    }
    if (r == 0) {
        find_lies(json_object_get(question, "lies"), view, expected, len, ret_false);
        find_others(view, expected, len, ret_false);
    }
    for (i = 0; expected && i < len; i++)
        wanted_release(&expected[i]);
    return r;
}

/* ---- the result ---- */

static json_t *cut_story(const char *story)
{
    size_t len = strlen(story), max = len < STORY_MAX ? len : STORY_MAX;

    while (max > 0 && max < len && ((unsigned char) story[max] & 0xc0) == 0x80)
        max--;
    return json_stringn(story, max);
}

static void add_usage(json_t *result, const json_t *response)
{
    static const char *const members[] = { "prompt_tokens", "completion_tokens", "cost",
                                           "seconds" };
    const json_t *usage = json_object_get(response, "usage");

    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        json_t *value = json_object_get(usage, members[i]);

        (void) json_object_set_new(result, members[i],
                                   json_is_number(value) ? json_incref(value) : json_null());
    }
    (void) json_object_set_new(
        result, "steps",
        json_integer((json_int_t) json_array_size(json_object_get(response, "steps"))));
}

static int judge(json_t *result, const json_t *question, const json_t *response, json_t *reasons)
{
    const json_t *expect = json_object_get(question, "expect");
    json_t *unsupported = json_object_get(json_object_get(response, "numbers"), "unsupported");
    const char *status = eval_string(response, "status"), *wanted = eval_string(expect, "status");
    json_t *false_numbers = json_array();
    struct answer_view view;
    size_t found = 0;
    int r;

    wanted = *wanted ? wanted : "ok";
    if (strcmp(status, wanted) != 0)
        add_text(reasons, "the status is %s, and %s is expected", status, wanted);
    r = view_init(&view, response);
    if (r == 0)
        r = check_values(question, &view, reasons, false_numbers, &found);
    if (r == 0)
        check_texts(json_object_get(expect, "text"), &view, reasons);
    check_unsupported(json_object_get(expect, "unsupported"), json_array_size(unsupported),
                      reasons);
    (void) json_array_extend(reasons, false_numbers);
    (void) json_object_set_new(result, "found", json_integer((json_int_t) found));
    (void) json_object_set_new(result, "false", false_numbers);
    if (unsupported)
        (void) json_object_set(result, "unsupported", unsupported);
    (void) json_object_set_new(
        result, "checked",
        json_integer((json_int_t) eval_number(json_object_get(response, "numbers"), "checked")));
    (void) json_object_set_new(result, "story", cut_story(view.story));
    free(view.shown);
    return r;
}

json_t *eval_score(const json_t *question, const json_t *response, const char *failure)
{
    const json_t *expect = json_object_get(question, "expect");
    json_t *tags = json_object_get(question, "tags"), *reasons = json_array();
    json_t *result =
        json_pack("{s:s, s:s, s:O?, s:s, s:I, s:i, s:[], s:[], s:i, s:s}", "id",
                  eval_string(question, "id"), "question", eval_string(question, "question"),
                  "tags", tags, "status", response ? eval_string(response, "status") : "error",
                  "expected", (json_int_t) json_array_size(json_object_get(expect, "values")),
                  "found", 0, "false", "unsupported", "checked", 0, "story", "");
    int r = result && reasons ? 0 : -1;

    if (r == 0)
        add_usage(result, response);
    if (r == 0 && response)
        r = judge(result, question, response, reasons);
    else if (r == 0)
        add_text(reasons, "%s", failure ? failure : "it was not answered");
    if (r == 0) {
        (void) json_object_set_new(result, "passed", json_boolean(json_array_size(reasons) == 0));
        r = json_object_set(result, "reasons", reasons);
    }
    json_decref(reasons);
    if (r == 0)
        return result;
    json_decref(result);
    return NULL;
}
