/* The results of all contenders in one: totals, by tag, and side by side. */
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/eval/internal.h"

#include "base/banned.h"

/* ---- totals ---- */

/* Sums of what every result has, and of what only some know: then it is null if none did. */
static json_t *totals_of(const json_t *results, const char *tag)
{
    static const char *const sums[] = { "expected", "found", "steps" };
    static const char *const known[] = { "seconds", "prompt_tokens", "completion_tokens", "cost" };
    double sum[ARRAY_LEN(sums)] = { 0 }, more[ARRAY_LEN(known)] = { 0 };
    bool seen[ARRAY_LEN(known)] = { 0 };
    json_int_t questions = 0, passed = 0, lies = 0, unsupported = 0;
    json_t *totals, *result, *name;
    size_t i, k;

    json_array_foreach (results, i, result) {
        bool has = !tag;

        json_array_foreach (json_object_get(result, "tags"), k, name)
            has = has || strcmp(json_string_value(name), tag) == 0;
        if (!has)
            continue;
        questions++;
        passed += json_is_true(json_object_get(result, "passed")) ? 1 : 0;
        lies += (json_int_t) json_array_size(json_object_get(result, "false"));
        unsupported += (json_int_t) json_array_size(json_object_get(result, "unsupported"));
        for (k = 0; k < ARRAY_LEN(sums); k++)
            sum[k] += eval_number(result, sums[k]);
        for (k = 0; k < ARRAY_LEN(known); k++) {
            more[k] += eval_number(result, known[k]);
            seen[k] |= json_is_number(json_object_get(result, known[k]));
        }
    }
    totals = json_pack("{s:I, s:I, s:I, s:I}", "questions", questions, "passed", passed,
                       "false_numbers", lies, "unsupported", unsupported);
    for (k = 0; totals && k < ARRAY_LEN(sums); k++)
        (void) json_object_set_new(totals, sums[k], json_integer((json_int_t) sum[k]));
    (void) json_object_set_new(totals, "accuracy",
                               sum[0] > 0 ? json_real(sum[1] / sum[0]) : json_null());
    for (k = 0; totals && k < ARRAY_LEN(known); k++)
        (void) json_object_set_new(totals, known[k],
                                   !seen[k]           ? json_null()
                                   : k == 1 || k == 2 ? json_integer((json_int_t) more[k])
                                                      : json_real(more[k]));
    return totals;
}

/* In the order in which they first occur. */
static json_t *tags_of(const json_t *results)
{
    json_t *tags = json_array(), *result, *name;
    json_t *seen = json_object();
    size_t i, k;

    json_array_foreach (results, i, result)
        json_array_foreach (json_object_get(result, "tags"), k, name) {
            const char *tag = json_string_value(name);
            json_t *totals;

            if (json_object_get(seen, tag))
                continue;
            (void) json_object_set_new(seen, tag, json_true());
            totals = totals_of(results, tag);
            (void) json_object_set(totals, "tag", name);
            (void) json_array_append_new(tags, totals);
        }
    json_decref(seen);
    return tags;
}

/* ---- side by side ---- */

/* Above 0: @one is better than @other. A false number is worse than no answer. */
static int compare(const json_t *one, const json_t *other)
{
    size_t lies = json_array_size(json_object_get(one, "false"));
    size_t other_lies = json_array_size(json_object_get(other, "false"));
    int passed = json_is_true(json_object_get(one, "passed"));
    int other_passed = json_is_true(json_object_get(other, "passed"));
    double found = eval_number(one, "found"), other_found = eval_number(other, "found");

    if (lies != other_lies)
        return lies < other_lies ? 1 : -1;
    if (passed != other_passed)
        return passed - other_passed;
    return found == other_found ? 0 : found > other_found ? 1 : -1;
}

static json_t *compare_all(const json_t *baseline, const json_t *candidate)
{
    json_t *compared =
        json_pack("{s:s, s:s, s:[], s:[]}", "baseline", eval_string(baseline, "label"), "candidate",
                  eval_string(candidate, "label"), "better", "worse");
    const json_t *one, *other;
    json_int_t same = 0;
    size_t i, k;

    json_array_foreach (json_object_get(candidate, "results"), i, one)
        json_array_foreach (json_object_get(baseline, "results"), k, other) {
            int better;

            if (strcmp(eval_string(one, "id"), eval_string(other, "id")) != 0)
                continue;
            better = compare(one, other);
            if (better == 0)
                same++;
            else
                (void) json_array_append(json_object_get(compared, better > 0 ? "better" : "worse"),
                                         json_object_get(one, "id"));
        }
    (void) json_object_set_new(compared, "same", json_integer(same));
    return compared;
}

json_t *eval_report(const struct eval_set *set, json_t *contenders, bool stopped)
{
    const char *name = eval_string(set->root, "name");
    json_t *report = json_pack("{s:s, s:I, s:b, s:O, s:[]}", "name", *name ? name : "evaluation",
                               "questions", (json_int_t) eval_count(set), "stopped", stopped,
                               "contenders", contenders, "compared");
    bool passed = !stopped && json_array_size(contenders) > 0;
    json_t *contender;
    size_t i;

    json_array_foreach (contenders, i, contender) {
        const json_t *results = json_object_get(contender, "results");
        json_t *totals = totals_of(results, NULL);

        passed = passed && json_array_size(results) == eval_count(set) &&
                 eval_number(totals, "passed") == (double) eval_count(set);
        (void) json_object_set_new(contender, "totals", totals);
        (void) json_object_set_new(contender, "tags", tags_of(results));
        if (i > 0)
            (void) json_array_append_new(json_object_get(report, "compared"),
                                         compare_all(json_array_get(contenders, 0), contender));
    }
    if (report && json_object_set_new(report, "passed", json_boolean(passed)) == 0)
        return report;
    json_decref(report);
    return NULL;
}
