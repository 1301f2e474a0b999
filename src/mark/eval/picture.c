/*
 * The report as a picture: for each measure one bar per contender, then the share of passed
 * questions by tag. SVG of our own, with a style for light and one for dark pages; nothing in it is
 * loaded from elsewhere, and texts of others are escaped.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "mark/agent/text.h"
#include "mark/eval/markup.h"

#include "base/banned.h"

#define WIDTH       760
#define LEFT        230 /* where bars begin */
#define RIGHT       110 /* room for their numbers */
#define BAR         14
#define STEP        20 /* from bar to bar */
#define GAP         12 /* between blocks */
#define LABEL_CHARS 30
#define TAGS_MAX    24

static const char *const colours[][2] = {
    /* on light, on dark */
    { "#33689e", "#77aadd" }, { "#cc6611", "#ee8866" }, { "#228833", "#99ddaa" },
    { "#aa3377", "#ffaabb" }, { "#7a6a00", "#eedd88" }, { "#117788", "#99ddff" },
    { "#664499", "#bb99ee" }, { "#555555", "#bbbbbb" },
};

enum form { FORM_SHARE, FORM_COUNT, FORM_MEAN, FORM_MONEY };

static const struct measure {
    const char *title, *of, *by; /* the sum of @of, divided by that of @by; NULL: not divided */
    enum form form;
} measures[] = {
    { "Passed", "passed", "questions", FORM_SHARE },
    { "Expected values found", "found", "expected", FORM_SHARE },
    { "False numbers shown", "false_numbers", NULL, FORM_COUNT },
    { "Unsupported numbers", "unsupported", NULL, FORM_COUNT },
    { "Programs per question", "steps", "questions", FORM_MEAN },
    { "Seconds per question", "seconds", "questions", FORM_MEAN },
    { "Cost in US dollars", "cost", NULL, FORM_MONEY },
};

/* Below 0: not known. */
static double measure_of(const struct measure *measure, const json_t *totals)
{
    const json_t *of = json_object_get(totals, measure->of);
    double by = measure->by ? eval_number(totals, measure->by) : 1;

    return json_is_number(of) && by > 0 ? json_number_value(of) / by : -1;
}

static void print_measure(enum form form, double value, char buf[32])
{
    if (value < 0)
        (void) snprintf(buf, 32, "-");
    else if (form == FORM_SHARE)
        (void) snprintf(buf, 32, "%.1f%%", 100 * value);
    else if (form == FORM_COUNT)
        (void) snprintf(buf, 32, "%.0f", value);
    else if (form == FORM_MONEY)
        (void) snprintf(buf, 32, "$%.4f", value);
    else
        (void) snprintf(buf, 32, "%.2f", value);
}

static void add_bar(struct text *out, int y, size_t number, const char *label, double part,
                    const char *text)
{
    double width = part > 0 ? part * (WIDTH - LEFT - RIGHT) : 0;

    text_printf(out, "<text class=\"label\" x=\"%d\" y=\"%d\">", LEFT - 8, y + BAR - 3);
    markup_add_cut(out, label, LABEL_CHARS);
    text_printf(out,
                "</text><rect class=\"track\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>"
                "<rect class=\"c%zu\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>",
                LEFT, y, WIDTH - LEFT - RIGHT, BAR, number % ARRAY_LEN(colours), LEFT, y, width,
                BAR);
    text_printf(out, "<text class=\"number\" x=\"%d\" y=\"%d\">%s</text>\n", WIDTH - RIGHT + 8,
                y + BAR - 3, text);
}

static int add_measure(struct text *out, int y, const struct measure *measure,
                       const json_t *contenders)
{
    const json_t *contender;
    double max = measure->form == FORM_SHARE ? 1 : 0;
    bool known = false;
    size_t i;

    json_array_foreach (contenders, i, contender) {
        double value = measure_of(measure, json_object_get(contender, "totals"));

        known = known || value >= 0;
        max = value > max ? value : max;
    }
    if (!known)
        return y;
    text_printf(out, "<text class=\"title\" x=\"0\" y=\"%d\">%s</text>\n", y + BAR, measure->title);
    y += STEP;
    json_array_foreach (contenders, i, contender) {
        double value = measure_of(measure, json_object_get(contender, "totals"));
        char text[32];

        print_measure(measure->form, value, text);
        add_bar(out, y, i, eval_string(contender, "label"), max > 0 ? value / max : 0, text);
        y += STEP;
    }
    return y + GAP;
}

static const json_t *find_tag(const json_t *contender, const char *tag)
{
    const json_t *totals;
    size_t i;

    json_array_foreach (json_object_get(contender, "tags"), i, totals)
        if (strcmp(eval_string(totals, "tag"), tag) == 0)
            return totals;
    return NULL;
}

/* The tags of the first contender: all are asked the same. */
static int add_tags(struct text *out, int y, const json_t *contenders)
{
    const json_t *tags = json_object_get(json_array_get(contenders, 0), "tags"), *tag, *contender;
    size_t t, i;

    if (json_array_size(tags) == 0)
        return y;
    text_printf(out, "<text class=\"title\" x=\"0\" y=\"%d\">Passed by tag</text>\n", y + BAR);
    y += STEP;
    json_array_foreach (tags, t, tag) {
        if (t == TAGS_MAX)
            break;
        json_array_foreach (contenders, i, contender) {
            const json_t *totals = find_tag(contender, eval_string(tag, "tag"));
            double passed = eval_number(totals, "passed"), all = eval_number(totals, "questions");
            char text[64];

            (void) snprintf(text, sizeof text, "%.0f of %.0f", passed, all);
            add_bar(out, y, i, i == 0 ? eval_string(tag, "tag") : "", all > 0 ? passed / all : 0,
                    text);
            y += STEP;
        }
        y += json_array_size(contenders) > 1 ? GAP / 2 : 0;
    }
    return y + GAP;
}

static void add_style(struct text *out)
{
    text_puts(out, "<style>text{font:13px system-ui,sans-serif;fill:#222}.title{font-weight:600}"
                   ".label{text-anchor:end;fill:#444}.number{fill:#222}.track{fill:#eceef1}");
    for (size_t i = 0; i < ARRAY_LEN(colours); i++)
        text_printf(out, ".c%zu{fill:%s}", i, colours[i][0]);
    text_puts(out, "@media(prefers-color-scheme:dark){text,.number{fill:#e6e6e6}.label{fill:#bbb}"
                   ".track{fill:#2c3036}");
    for (size_t i = 0; i < ARRAY_LEN(colours); i++)
        text_printf(out, ".c%zu{fill:%s}", i, colours[i][1]);
    text_puts(out, "}</style>\n");
}

char *eval_picture(const json_t *report)
{
    const json_t *contenders = json_object_get(report, "contenders");
    struct text body = { 0 }, out = { 0 };
    int y = 0;

    for (size_t i = 0; i < ARRAY_LEN(measures); i++)
        y = add_measure(&body, y, &measures[i], contenders);
    y = add_tags(&body, y, contenders);
    text_printf(&out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                "height=\"%d\" role=\"img\">\n<title>",
                WIDTH, y > 0 ? y : 1, WIDTH, y > 0 ? y : 1);
    markup_add(&out, eval_string(report, "name"));
    text_puts(&out, "</title>\n");
    add_style(&out);
    text_puts(&out, body.data ? body.data : "");
    text_puts(&out, "</svg>\n");
    out.failed |= body.failed;
    text_release(&body);
    return text_take(&out);
}
