/* The report for a terminal. What is in it may come from a model: the caller makes it printable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "mark/agent/text.h"
#include "mark/eval/internal.h"

#include "base/banned.h"

#define LABEL_WIDTH 24
#define IDS_SHOWN   12

/* @label in a column, cut to whole characters; what a character takes is assumed to be one place.
 */
static void add_label(struct text *out, const char *indent, const char *label)
{
    size_t width = LABEL_WIDTH - strlen(indent), places = 0, at = 0, len = strlen(label);

    text_puts(out, indent);
    while (at < len && places < width) {
        size_t n;

        (void) utf8_next(label + at, len - at, &n);
        text_add(out, label + at, n);
        at += n;
        places++;
    }
    for (; places < width; places++)
        text_puts(out, " ");
}

static void add_numbers(struct text *out, const json_t *totals)
{
    const json_t *accuracy = json_object_get(totals, "accuracy");
    const json_t *tokens = json_object_get(totals, "prompt_tokens");
    const json_t *cost = json_object_get(totals, "cost");
    char passed[32], text[48];

    (void) snprintf(passed, sizeof passed, "%.0f/%.0f", eval_number(totals, "passed"),
                    eval_number(totals, "questions"));
    text_printf(out, " %9s", passed);
    (void) snprintf(text, sizeof text, "%.1f%%", 100 * json_number_value(accuracy));
    text_printf(out, " %9s %6.0f %12.0f %6.0f %9.1f", json_is_number(accuracy) ? text : "-",
                eval_number(totals, "false_numbers"), eval_number(totals, "unsupported"),
                eval_number(totals, "steps"), eval_number(totals, "seconds"));
    (void) snprintf(text, sizeof text, "%.0f",
                    eval_number(totals, "prompt_tokens") +
                        eval_number(totals, "completion_tokens"));
    text_printf(out, " %9s", json_is_number(tokens) ? text : "-");
    (void) snprintf(text, sizeof text, "$%.4f", json_number_value(cost));
    text_printf(out, " %9s\n", json_is_number(cost) ? text : "-");
}

static void add_contender(struct text *out, const json_t *contender)
{
    const json_t *tag;
    size_t i;

    add_label(out, "", eval_string(contender, "label"));
    add_numbers(out, json_object_get(contender, "totals"));
    json_array_foreach (json_object_get(contender, "tags"), i, tag) {
        add_label(out, "  ", eval_string(tag, "tag"));
        add_numbers(out, tag);
    }
}

static void add_failures(struct text *out, const json_t *contender)
{
    const json_t *result, *reason;
    bool first = true;
    size_t i, k;

    json_array_foreach (json_object_get(contender, "results"), i, result) {
        if (json_is_true(json_object_get(result, "passed")))
            continue;
        if (first)
            text_printf(out, "\nfailed with %s:\n", eval_string(contender, "label"));
        first = false;
        text_printf(out, "  %s: %s\n", eval_string(result, "id"), eval_string(result, "question"));
        json_array_foreach (json_object_get(result, "reasons"), k, reason)
            text_printf(out, "    %s\n", json_string_value(reason));
    }
    if (eval_number(contender, "drifted") > 0)
        text_printf(
            out,
            "\n%.0f replies of the recording %s were made for other requests: something has "
            "changed since\n",
            eval_number(contender, "drifted"), eval_string(contender, "label"));
}

static void add_ids(struct text *out, const char *word, const json_t *ids)
{
    const json_t *id;
    size_t i;

    text_printf(out, "  %-7s%zu", word, json_array_size(ids));
    json_array_foreach (ids, i, id) {
        if (i == IDS_SHOWN) {
            text_puts(out, ", ...");
            break;
        }
        text_printf(out, "%s%s", i == 0 ? ": " : ", ", json_string_value(id));
    }
    text_puts(out, "\n");
}

char *eval_table(const json_t *report)
{
    const json_t *contender, *compared;
    struct text out = { 0 };
    size_t i;

    text_printf(&out, "%s: %.0f questions%s\n\n", eval_string(report, "name"),
                eval_number(report, "questions"),
                json_is_true(json_object_get(report, "stopped")) ? ", stopped before the end" : "");
    add_label(&out, "", "");
    text_printf(&out, " %9s %9s %6s %12s %6s %9s %9s %9s\n", "passed", "accuracy", "false",
                "unsupported", "steps", "seconds", "tokens", "cost");
    json_array_foreach (json_object_get(report, "contenders"), i, contender)
        add_contender(&out, contender);
    json_array_foreach (json_object_get(report, "contenders"), i, contender)
        add_failures(&out, contender);
    json_array_foreach (json_object_get(report, "compared"), i, compared) {
        text_printf(&out, "\n%s against %s:\n", eval_string(compared, "candidate"),
                    eval_string(compared, "baseline"));
        add_ids(&out, "better", json_object_get(compared, "better"));
        add_ids(&out, "worse", json_object_get(compared, "worse"));
        text_printf(&out, "  %-7s%.0f\n", "same", eval_number(compared, "same"));
    }
    return text_take(&out);
}
