/*
 * The report as one HTML page: the picture, a table of contenders, and each question with what came
 * of it. No scripts; a policy forbids them, because stories of models are in it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "mark/eval/markup.h"

#include "base/banned.h"

/* ---- texts of others ---- */

void markup_add_cut(struct text *out, const char *text, size_t chars)
{
    size_t len = strlen(text), at = 0;

    for (; at < len && chars > 0; chars--) {
        unsigned char c = (unsigned char) text[at];
        size_t n;

        if (utf8_next(text + at, len - at, &n) != UTF8_CHAR || (c < ' ' && c != '\n') || c == 0x7f)
            text_puts(out, " ");
        else if (c == '<')
            text_puts(out, "&lt;");
        else if (c == '>')
            text_puts(out, "&gt;");
        else if (c == '&')
            text_puts(out, "&amp;");
        else if (c == '"')
            text_puts(out, "&quot;");
        else
            text_add(out, text + at, n);
        at += n;
    }
    if (at < len)
        text_puts(out, "…");
}

void markup_add(struct text *out, const char *text)
{
    markup_add_cut(out, text, SIZE_MAX);
}

/* ---- the page ---- */

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<style>\n"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}\n"
    "table{border-collapse:collapse;width:100%;margin:1rem 0}th,td{text-align:left;padding:.3rem "
    ".6rem;border-bottom:1px solid "
    "#ddd;vertical-align:top}td.n,th.n{text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}\n"
    "svg{max-width:100%;height:auto}.bad{color:#b00020;font-weight:600}.story{white-space:pre-wrap;"
    "color:#555}small{color:#666}\n"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#16181b}th,td{border-color:"
    "#333}.bad{color:#ff8a80}.story,small{color:#aaa}}\n"
    "</style>\n<title>";

static void add_cell(struct text *out, const json_t *totals, const char *key, const char *fmt)
{
    const json_t *value = json_object_get(totals, key);

    text_puts(out, "<td class=\"n\">");
    if (!json_is_number(value))
        text_puts(out, "-");
    else if (strcmp(fmt, "%") == 0)
        text_printf(out, "%.1f%%", 100 * json_number_value(value));
    else if (strcmp(fmt, "$") == 0)
        text_printf(out, "$%.4f", json_number_value(value));
    else if (strcmp(fmt, ".") == 0)
        text_printf(out, "%.1f", json_number_value(value));
    else
        text_printf(out, "%.0f", json_number_value(value));
    text_puts(out, "</td>");
}

static void add_totals(struct text *out, const char *indent, const char *label,
                       const json_t *totals)
{
    text_printf(out, "<tr><td>%s", indent);
    markup_add(out, label);
    text_printf(out, "</td><td class=\"n\">%.0f of %.0f</td>", eval_number(totals, "passed"),
                eval_number(totals, "questions"));
    add_cell(out, totals, "accuracy", "%");
    add_cell(out, totals, "false_numbers", "");
    add_cell(out, totals, "unsupported", "");
    add_cell(out, totals, "steps", "");
    add_cell(out, totals, "seconds", ".");
    add_cell(out, totals, "prompt_tokens", "");
    add_cell(out, totals, "completion_tokens", "");
    add_cell(out, totals, "cost", "$");
    text_puts(out, "</tr>\n");
}

static void add_contenders(struct text *out, const json_t *contenders)
{
    const json_t *contender, *tag;
    size_t i, k;

    text_puts(out, "<table><tr><th></th><th class=\"n\">passed</th><th class=\"n\">accuracy</th>"
                   "<th class=\"n\">false numbers</th><th class=\"n\">unsupported</th>"
                   "<th class=\"n\">programs</th><th class=\"n\">seconds</th>"
                   "<th class=\"n\">tokens in</th><th class=\"n\">out</th>"
                   "<th class=\"n\">cost</th></tr>\n");
    json_array_foreach (contenders, i, contender) {
        add_totals(out, "", eval_string(contender, "label"), json_object_get(contender, "totals"));
        json_array_foreach (json_object_get(contender, "tags"), k, tag)
            add_totals(out, "&emsp;", eval_string(tag, "tag"), tag);
    }
    text_puts(out, "</table>\n");
}

static void add_compared(struct text *out, const json_t *compared)
{
    static const char *const sides[] = { "better", "worse" };
    const json_t *pair, *id;
    size_t i, k;

    json_array_foreach (compared, i, pair) {
        text_puts(out, "<p>");
        markup_add(out, eval_string(pair, "candidate"));
        text_puts(out, " against ");
        markup_add(out, eval_string(pair, "baseline"));
        text_puts(out, ":");
        for (size_t s = 0; s < 2; s++) {
            const json_t *ids = json_object_get(pair, sides[s]);

            text_printf(out, " %s %zu", sides[s], json_array_size(ids));
            json_array_foreach (ids, k, id) {
                text_puts(out, k == 0 ? " (" : ", ");
                markup_add(out, json_string_value(id));
            }
            text_puts(out, json_array_size(ids) > 0 ? ")," : ",");
        }
        text_printf(out, " same %.0f.</p>\n", eval_number(pair, "same"));
    }
}

static void add_result(struct text *out, const json_t *contender, const json_t *result)
{
    const json_t *reason;
    size_t i;

    text_puts(out, "<tr><td>");
    markup_add(out, eval_string(result, "id"));
    text_puts(out, "<br><small>");
    markup_add(out, eval_string(contender, "label"));
    text_puts(out, json_is_true(json_object_get(result, "passed"))
                       ? "</small></td><td>passed</td><td>"
                       : "</small></td><td class=\"bad\">failed</td><td>");
    markup_add(out, eval_string(result, "question"));
    json_array_foreach (json_object_get(result, "reasons"), i, reason) {
        text_puts(out, "<br><span class=\"bad\">");
        markup_add(out, json_string_value(reason));
        text_puts(out, "</span>");
    }
    text_puts(out, "<div class=\"story\">");
    markup_add(out, eval_string(result, "story"));
    text_puts(out, "</div></td></tr>\n");
}

char *eval_page(const json_t *report)
{
    const json_t *contenders = json_object_get(report, "contenders"), *contender, *result;
    char *picture = eval_picture(report);
    struct text out = { 0 };
    size_t i, k;

    text_puts(&out, head);
    markup_add(&out, eval_string(report, "name"));
    text_puts(&out, "</title></head><body>\n<h1>");
    markup_add(&out, eval_string(report, "name"));
    text_puts(&out, "</h1>\n");
    if (json_is_true(json_object_get(report, "stopped")))
        text_puts(&out, "<p class=\"bad\">Stopped before the end.</p>\n");
    text_puts(&out, picture ? picture : "");
    add_contenders(&out, contenders);
    add_compared(&out, json_object_get(report, "compared"));
    text_puts(&out, "<h2>Questions</h2>\n<table>\n");
    json_array_foreach (contenders, i, contender)
        json_array_foreach (json_object_get(contender, "results"), k, result)
            add_result(&out, contender, result);
    text_puts(&out, "</table>\n</body></html>\n");
    out.failed |= !picture;
    free(picture);
    return text_take(&out);
}
