/* The numbers of a story: what is found, what is filled in, and every way to lie that we know. */

#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/autoclean.h"
#include "mark/story/story.h"

#include "base/banned.h"

#define KINDS_MAX 64

/* The kinds of the marks as letters: V value, F found, U unsupported. */
static void story_kinds(const struct story *story, char *kinds)
{
    const json_t *mark;
    size_t i, last = 0;

    json_array_foreach (story->marks, i, mark) {
        const char *kind = json_string_value(json_object_get(mark, "kind"));
        size_t start = (size_t) json_integer_value(json_object_get(mark, "start"));
        size_t end = (size_t) json_integer_value(json_object_get(mark, "end"));

        assert_true(i + 1 < KINDS_MAX);
        if (last > start || start >= end || end > strlen(story->text))
            fail_msg("marks %zu to %zu after %zu in \"%s\"", start, end, last, story->text);
        last = end;
        kinds[i] = kind[0] == 'v' ? 'V' : kind[0] == 'f' ? 'F' : 'U';
    }
    kinds[i] = '\0';
}

static void add_values(struct evidence *evidence, const char *text)
{
    json_t *values = json_loads(text, 0, NULL), *value;
    size_t i;

    assert_non_null(values);
    json_array_foreach (values, i, value)
        assert_int_equal(evidence_add_value(evidence, value), 0);
    json_decref(values);
}

/* ---- typed numerals ---- */

struct typed {
    const char *output; /* what was computed */
    const char *story;
    const char *kinds;
};

static void check_typed(const struct typed *cases, size_t len)
{
    size_t failed = 0;

    for (size_t i = 0; i < len; i++) {
        struct evidence *evidence = evidence_new();
        struct story story;
        char kinds[KINDS_MAX];

        assert_non_null(evidence);
        assert_int_equal(evidence_add_output(evidence, cases[i].output, strlen(cases[i].output)),
                         0);
        assert_int_equal(story_check(evidence, cases[i].story, &story), 0);
        story_kinds(&story, kinds);
        if (strcmp(kinds, cases[i].kinds) != 0) {
            char *marks = json_dumps(story.marks, JSON_COMPACT);

            print_error("[%s] \"%s\": %s instead of %s, %s\n", cases[i].output, cases[i].story,
                        kinds, cases[i].kinds, marks);
            free(marks);
            failed++;
        }
        story_release(&story);
        evidence_free(evidence);
    }
    assert_int_equal(failed, 0);
}

static void test_notations(void **state)
{
    static const struct typed cases[] = {
        { "", "No numbers here.", "" },
        { "42", "42", "F" },
        { "42", "43", "U" },
        { "1203411", "1,203,411", "F" },
        { "1203411", "1.203.411", "F" },
        { "1203411", "1 203 411", "F" },
        { "1203411", "1'203'411", "F" },
        { "1203411", "1’203’411", "F" },
        { "1203411", "1\u202f203\u202f411", "F" },
        { "1203411", "1&nbsp;203&nbsp;411", "F" },
        { "1203411", "1_203_411", "F" },
        { "1203411", "12,03,411", "F" },
        { "1,203,411", "1203411", "F" },
        { "1203411.5", "1,203,411.50", "F" },
        { "1203411.5", "1.203.411,5", "F" },
        { "1203411.5", "1 203 411,50", "F" },
        { "1203411.37", "1,203,411", "F" },
        { "1203411.37", "1,203,412", "U" },
        /* one separator, three digits: by the style of the rest, else with a point */
        { "1203", "1,203", "F" },
        { "1.203", "1.203", "F" },
        { "1203", "1.203", "U" },
        { "1.203", "1,203", "U" },
        { "1203 12.5", "1.203 und 12,5", "FF" },
        { "1203 12.5", "1,203 and 12.5", "FF" },
        { "1203 12.5 7.25", "1.203 und 12,5 und 7.25", "UFF" },
        { "0.203", "0,203", "F" },
        /* decimals */
        { "12.5", "12,5", "F" },
        { "12.5", "12.50", "F" },
        { "12.46", "12.5", "F" },
        { "12.44", "12.5", "U" },
        { ".5", "0.5", "F" },
        { "0.5", ".5", "F" },
        { "3.14159", "3.14", "F" },
        { "3.14159", "3.15", "U" },
        /* scales */
        { "1203411", "1.2 M", "F" },
        { "1203411", "1.2M", "F" },
        { "1203411", "1.2 million", "F" },
        { "1203411", "1,2 Mio.", "F" },
        { "1203411", "1.3 million", "U" },
        { "1203411", "1203k", "F" },
        { "1203411", "1.2 thousand", "U" },
        { "1203411000", "1.2 bn", "F" },
        { "1203411000", "1.2 billion", "F" },
        { "1203411000", "1,2 Mrd.", "F" },
        { "1203411000", "$1.2bn", "F" },
        { "1203411000", "1.2 million", "U" },
        { "12034", "1.2万", "F" },
        { "120341100", "1.2億", "F" },
        { "1203411", "12 lakh", "F" },
        { "120000", "1.2 hundred thousand", "F" },
        { "1.2", "1.2 million", "U" },
        { "1.2", "1.2M", "U" },
        { "1.2", "$1.2m", "U" },
        { "1203411", "$1.2m", "F" },
        { "5", "5 m", "F" },
        { "5", "5 kg", "F" },
        { "5", "MEUR 5", "U" },
        { "5000000", "MEUR 5", "F" },
        { "5000", "5 k€", "F" },
        { "1203411", "1.2e6", "F" },
        { "1203411", "1.2E+06", "F" },
        { "1203411", "1.2 × 10^6", "F" },
        { "1203411", "1.2×10⁶", "F" },
        { "1203411", "$1.2 \\times 10^{6}$", "F" },
        { "1203411", "1.2 x 10<sup>6</sup>", "F" },
        { "0.00012", "1.2×10⁻⁴", "F" },
        { "1.2 10 6", "1.2 × 10 to the 6", "UF" },
        { "1000000", "10^6", "F" },
        { "1000000", "10⁶", "F" },
        { "1.203411e+06", "1,203,411", "F" },
        /* percent */
        { "0.1198", "12%", "F" },
        { "0.1198", "12 %", "F" },
        { "0.1198", "12 percent", "F" },
        { "0.1198", "12 per cent", "F" },
        { "0.1198", "12 Prozent", "F" },
        { "0.1198", "11.98%", "F" },
        { "0.1198", "11.9%", "U" },
        { "11.98", "12%", "F" },
        { "12.5%", "12.5 %", "F" },
        { "0.125", "0.125%", "U" },
        { "0.5%", "0.5 %", "F" },
        { "0.0125", "125 bps", "F" },
        { "0.0125", "12.5‰", "F" },
        { "12", "**12**%", "F" },
        { "1.5", "150%", "F" },
        { "0.1198", "**12**&nbsp;%", "F" },
        /* signs */
        { "-5", "-5", "F" },
        { "-5", "−5", "F" },
        { "-5", "5", "U" },
        { "-0.05", "it fell by 5%", "F" },
        { "-0.05", "a drop of 5%", "F" },
        { "-0.05", "ein Rückgang um 5 %", "F" },
        { "-0.05", "it grew by 5%", "U" },
        { "5", "-5", "U" },
        { "5", "+5", "F" },
        { "-5", "+5", "U" },
        { "-5", "-$5", "F" },
        { "-5", "$-5", "F" },
        { "5", "−{5}", "F" },
        /* ranges and lists */
        { "10 20", "10-20", "FF" },
        { "10 20", "10–20 %", "FF" },
        { "10 20", "10 to 20", "FF" },
        { "1 2 3", "1,2,3", "FFF" },
        { "1 2", "1, 2", "FF" },
        { "1 203", "1, 203", "FF" },
        { "1 203 41", "1,203,41", "U" },
        { "12 345", "12 345", "U" },
        { "12345", "12 345", "F" },
        { "12 345", "12\n345", "U" },
        { "12 345", "12\n\n345", "FF" },
        { "12 345", "12    345", "U" },
        { "12 345", "| 12 | 345 |", "FF" },
        /* fractions */
        { "0.5", "½", "F" },
        { "2.5", "2½", "F" },
        { "0.75", "3/4", "F" },
        { "3 4", "3/4", "F" },
        { "3 5", "3/4", "U" },
        { "0.3333333333", "1/3", "F" },
        { "0.4", "½", "U" },
        /* ordinals, multiples, words */
        { "3", "the 3rd", "F" },
        { "4", "the 3rd", "U" },
        { "2.97", "3x", "F" },
        { "SKU-123", "SKU-123", "F" },
        { "123", "SKU-123", "F" },
        { "SKU-124", "SKU-123", "U" },
        { "", "In Q1 the CO2 footprint", "" },
        { "2024", "2024Q1", "F" },
        { "1234", "EUR1234", "F" },
        { "1", "EUR1234", "U" },
        { "", "three, VII, hundreds", "" },
        { "pandas 2.2.1", "2.2.1", "F" },
        { "2.2 1 2", "2.2.1", "U" },
        /* dates and times */
        { "2024-03-01", "2024-03-01", "F" },
        { "2024-03-01", "March 1, 2024", "F" },
        { "2024-03-01", "1 March 2024", "F" },
        { "2024-03-01", "1. März 2024", "F" },
        { "2024-03-01", "01.03.2024", "F" },
        { "2024-03-01", "3/1/2024", "F" },
        { "2024-03-01", "March 2024", "F" },
        { "2024-03-01", "on March 1st", "F" },
        { "2024-03-01", "in 2024", "F" },
        { "2024-03-01", "2024-03", "F" },
        { "2024-03-01", "2024-03-02", "U" },
        { "2024-03-01", "March 2, 2024", "U" },
        { "2024-03-01 2", "March 2, 2024", "U" },
        { "2024-03-01", "April 2024", "U" },
        { "2024 4", "April 2024", "U" },
        { "2024-03-01", "in 2023", "U" },
        { "14:02", "14:02", "F" },
        { "14:02:33", "14:02", "F" },
        { "14:02", "14:03", "U" },
        { "14 2", "14:02", "U" },
        { "14:02", "2:02 pm", "F" },
        { "2024-03-01 14:02:00", "2024-03-01 14:02", "FF" },
        /* rounding */
        { "0.3", "0", "U" },
        { "0", "0", "F" },
        { "1.6", "2", "U" },
        { "1203", "1,200", "U" },
        { "1203", "about 1,200", "F" },
        { "1203", "over 1,200", "F" },
        { "1203", "~1,200", "F" },
        { "1203", "about 1,300", "U" },
        { "1203411", "about 1,000,000", "U" },
        { "1400000", "1 million", "U" },
        { "1040000", "1 million", "F" },
        /* long numbers are compared digit by digit */
        { "12345678901234567", "12345678901234567", "F" },
        { "12345678901234567", "12345678901234568", "U" },
        { "12345678901234567", "12,345,678,901,234,567", "F" },
        /* markers and labels */
        { "", "1. North\n2. South\n3. West", "" },
        { "", "# 1. Summary\ntext\n# 2. Details", "" },
        { "", "1203411. That is the revenue", "U" },
        { "", "1. North\n5. South", "U" },
        { "", "See Table 1 and Figure 2.", "" },
        { "", "Table 1203", "U" },
        { "", "A note.[^1]\n\n[^1]: text", "" },
        { "", "12[^3]", "UU" },
        { "42", "`42`", "F" },
        { "42", "`43`", "U" },
        { "42", "```\n42 43\n```", "FU" },
        { "42", "[42](https://example.org)", "F" },
        { "42", "[here](https://example.org/43)", "U" },
    };

    (void) state;
    check_typed(cases, ARRAY_LEN(cases));
}

/* ---- lies ---- */

/* The program computed 1, 2, 3, 5, 12, 23, 100 and 0.5; the story wants to show something else.
 * Each row has one text that a reader takes for a number that was not computed. */
static void test_lies(void **state)
{
    static const char *const lies[] = {
        /* scripts */
        "１２３ EUR",
        "١٢٣",
        "१२३",
        "𝟏𝟐𝟑",
        "𝟣𝟤𝟥",
        "1２3",
        "1٢3",
        "🯱🯲🯳",
        /* characters without width */
        "1\u200b23",
        "12\u200c3",
        "1\u200d2\u200d3",
        "1\u206023",
        "1\ufeff23",
        "1\u00ad23",
        "1\u200e23",
        "1\u206623\u2069",
        "1\u034f23",
        "1\u180e23",
        "1\ufe0f23",
        "1\u03362\u03363",
        "1\U000e002023",
        "1\u31642",
        "1\u28002",
        "1\x7f"
        "23",
        "1\b"
        "23",
        /* look-alikes */
        "1O0",
        "1О0",
        "1Ο0",
        "l00",
        "I00",
        "5O",
        "l23",
        "1l2",
        "lOO",
        "IOO EUR",
        "lООО",
        "З00",
        "1𝐎0",
        /* other forms */
        "①②③",
        "⑫",
        "⒈⒉",
        "❶",
        "¹²³",
        "₁₂₃",
        "EUR ¹²",
        "x¹²",
        "12³",
        "5⁵",
        "2^10",
        "2**10",
        "💯",
        "🔟",
        "1️⃣2️⃣3️⃣",
        "㏠",
        "㍙",
        "⅓",
        "3½",
        "1½",
        "12½",
        "৴",
        "፩፪",
        /* entities */
        "&#49;",
        "&#x31;&#x32;&#x33;",
        "1&#50;3",
        "&#49;23",
        "1&#8203;23",
        "1&shy;23",
        "1&ZeroWidthSpace;23",
        "1&zwj;23",
        "1&NoBreak;23",
        "&frac13;",
        "1&comma;230",
        "12&sup3;",
        "1&thinsp;230",
        /* markup */
        "1**2**3",
        "**1**23",
        "1*2*3",
        "1__2__3",
        "1~~2~~3",
        "1`2`3",
        "1<b>2</b>3",
        "1<!-- -->23",
        "1<!-- > -->23",
        "1<span>23</span>",
        "1[2](https://a.b)3",
        "1[2][a]3",
        "[1](u(v)w)23",
        "1![](x)23",
        "1\\23",
        "1$2$3",
        "1{2}3",
        "1^2^3",
        "1<wbr>23",
        "**1**,**230**",
        "**1**.**5**",
        "1**.**5",
        "1<br>23",
        "12 **345**",
        "**12** 345",
        /* formulas */
        "$1{,}230$",
        "$1\\,230$",
        "\\frac{1}{23}",
        "$1 \\times 10^{5}$",
        "1 × 10^5",
        "1 × 10⁵",
        "1 × 10**5",
        "1·10<sup>5</sup>",
        "1 × 10 ^ 5",
        "1e5",
        "1E+5",
        "1e-5",
        "12e3456",
        /* scales and signs */
        "5 million",
        "5 **million**",
        "5&nbsp;million",
        "5 (million)",
        "5-million",
        "5\nmillion",
        "5M",
        "5 k",
        "$5m",
        "€5b",
        "5万",
        "5 dozen",
        "5 hundred",
        "5 thousand million",
        "million 5",
        "-5",
        "−5",
        "–5",
        "➖5",
        "a profit of: - 5",
        "-$5",
        "0.5%",
        "12‰",
        "5 bps",
        /* separators */
        "1,230",
        "1.230",
        "1 230",
        "1\u00a0230",
        "1\u2009230",
        "1'230",
        "1’230",
        "1_230",
        "1\n230",
        "1\t230",
        "1 \n 230",
        "1٬230",
        "1,00,000",
        "5,12,23,100",
        "1.2.3",
        "12:23",
        "5/12/2023",
        "2005-12-23",
        "12 May",
        "May 5",
        "5/24",
        /* places */
        "[5](x \"123\")",
        "[a](https://x.y/123)",
        "<img width=123>",
        "<!-- 123 -->",
        "![123](x)",
        "`123`",
        "> 123",
        "# 123",
        "- 123",
        "123. a",
        "7. a",
        "1. a\n4. b",
        "[^123",
        "Table 123",
        "Step 123",
        "EUR123",
        "EUR 123",
        "€123",
        "x123",
        "123x",
        "a_123",
        "No.123",
        "(123)",
        "\"123\"",
        "123rd",
        "12,3",
        "0x7b or 123",
        /* references that are none */
        "{{{{nobody}}}}",
        "{{nobody}}",
        "{{ nobody }}",
        "{{no body}}",
        "{{123}}",
        "{{nobody:.1f}}",
        "{123}",
        "{{\"a\": 123}}",
    };
    static const char printed[] = "1 2 3 5 12 23 100 0.5\n";
    size_t failed = 0;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
        struct evidence *evidence = evidence_new();
        struct story story;
        char kinds[KINDS_MAX];

        assert_non_null(evidence);
        assert_int_equal(evidence_add_output(evidence, printed, strlen(printed)), 0);
        assert_int_equal(story_check(evidence, lies[i], &story), 0);
        story_kinds(&story, kinds);
        if (!strchr(kinds, 'U') || json_array_size(story.unsupported) == 0) {
            print_error("\"%s\" passes: %s, %s\n", lies[i], kinds, story.text);
            failed++;
        }
        story_release(&story);
        evidence_free(evidence);
    }
    assert_int_equal(failed, 0);
}

/* ---- values ---- */

static void test_value_texts(void **state)
{
    static const struct {
        const char *value, *text;
    } cases[] = {
        { "{\"value\": 1203411}", "1,203,411" },
        { "{\"value\": 2024}", "2024" },
        { "{\"value\": 2024, \"unit\": \"kg\"}", "2,024 kg" },
        { "{\"value\": 12034}", "12,034" },
        { "{\"value\": 0}", "0" },
        { "{\"value\": -5}", "-5" },
        { "{\"value\": 9223372036854775807}", "9,223,372,036,854,775,807" },
        { "{\"value\": -9223372036854775807}", "-9,223,372,036,854,775,807" },
        { "{\"value\": 1203411.5}", "1,203,411.5" },
        { "{\"value\": 1203411.0}", "1,203,411" },
        { "{\"value\": 1203411.5, \"unit\": \"EUR\"}", "1,203,411.50 EUR" },
        { "{\"value\": 1203411.5, \"unit\": \"€\"}", "€1,203,411.50" },
        { "{\"value\": -1203411.5, \"unit\": \"$\"}", "-$1,203,411.50" },
        { "{\"value\": 12.5, \"unit\": \"%\"}", "12.5%" },
        { "{\"value\": 0.12345678}", "0.1235" },
        { "{\"value\": 0.00012345678}", "0.0001235" },
        { "{\"value\": 0.5}", "0.5" },
        { "{\"value\": 1e20}", "1.000e+20" },
        { "{\"value\": 1.5e-9}", "1.500e-09" },
        { "{\"value\": 3.14159}", "3.14" },
        { "{\"value\": true}", "yes" },
        { "{\"value\": false}", "no" },
        { "{\"value\": null}", "no value" },
        { "{\"value\": \"north\"}", "north" },
        { "{\"value\": \"2024-03-01\"}", "2024-03-01" },
        { "{\"value\": [1]}", "no value" },
        { "{}", "no value" },
        /* formats */
        { "{\"value\": 1203411.5, \"format\": \",.2f\"}", "1,203,411.50" },
        { "{\"value\": 1203411.5, \"format\": \".2f\"}", "1203411.50" },
        { "{\"value\": 1203411.5, \"format\": \"_.0f\"}", "1,203,412" },
        { "{\"value\": 0.1234, \"format\": \".1%\"}", "12.3%" },
        { "{\"value\": 0.1234, \"format\": \"+.1%\"}", "+12.3%" },
        { "{\"value\": -0.1234, \"format\": \"+.1%\"}", "-12.3%" },
        { "{\"value\": 0.1234, \"format\": \"%\"}", "12.3%" },
        { "{\"value\": 12.34, \"unit\": \"%\", \"format\": \".1%\"}", "12.3%" },
        { "{\"value\": 1234, \"format\": \",d\"}", "1,234" },
        { "{\"value\": 1234, \"format\": \",\"}", "1,234" },
        { "{\"value\": 1234, \"format\": \"+\"}", "+1234" },
        { "{\"value\": 1234.5678, \"format\": \".3g\"}", "1.23e+03" },
        { "{\"value\": 1234.5678, \"format\": \".2e\"}", "1.23e+03" },
        { "{\"value\": 1234.5678, \"format\": \".6\"}", "1234.57" },
        { "{\"value\": 2.5, \"format\": \"d\"}", "2.5" },
        { "{\"value\": 2.675, \"format\": \".2f\"}", "2.67" },
        { "{\"value\": \"a\", \"format\": \"s\"}", "a" },
        /* formats that would hide the value */
        { "{\"value\": 0.4, \"format\": \".0f\"}", "0.4" },
        { "{\"value\": 0.004, \"format\": \".0%\"}", "0.4%" },
        { "{\"value\": 1.5, \"format\": \".0f\"}", "1.5" },
        { "{\"value\": 14000000.0, \"format\": \".0e\"}", "1.4e+07" },
        /* formats that are none */
        { "{\"value\": 1234, \"format\": \">10\"}", "1234" },
        { "{\"value\": 1234, \"format\": \"%d items\"}", "1234" },
        { "{\"value\": 1234, \"format\": \".999f\"}", "1234" },
        { "{\"value\": 1234, \"format\": \"{}\"}", "1234" },
        { "{\"value\": 1234, \"format\": \"\"}", "1234" },
        { "{\"value\": 1234, \"format\": 5}", "1234" },
        { "{\"value\": 1e308, \"format\": \",.20f\"}", NULL },
        /* units that could pass for digits */
        { "{\"value\": 5, \"unit\": \"000 EUR\"}", "5" },
        { "{\"value\": 5, \"unit\": \",000\"}", "5" },
        { "{\"value\": 5, \"unit\": \".5\"}", "5" },
        { "{\"value\": 5, \"unit\": \"０\"}", "5" },
        { "{\"value\": 5, \"unit\": \"½\"}", "5" },
        { "{\"value\": 5, \"unit\": \"&#48;\"}", "5" },
        { "{\"value\": 5, \"unit\": \"O\"}", "5" },
        { "{\"value\": 5, \"unit\": \"\\u200b0\"}", "5" },
        { "{\"value\": 5, \"unit\": \"**0**\"}", "5" },
        { "{\"value\": 5, \"unit\": \"a\\nb\"}", "5" },
        { "{\"value\": 5, \"unit\": \"m2\"}", "5 m2" },
        { "{\"value\": 5, \"unit\": \"m²\"}", "5 m²" },
        { "{\"value\": 5, \"unit\": \" kg \"}", "5 kg" },
        { "{\"value\": 5, \"unit\": 5}", "5" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *value = json_loads(cases[i].value, 0, NULL);
        char *text;

        assert_non_null(value);
        text = value_text(value);
        assert_non_null(text);
        if (cases[i].text && strcmp(text, cases[i].text) != 0)
            print_error("%s\n", cases[i].value);
        if (cases[i].text)
            assert_string_equal(text, cases[i].text);
        free(text);
        json_decref(value);
    }
}

static void test_value_texts_in_another_locale(void **state)
{
    json_t *value = json_loads("{\"value\": 1203411.5, \"format\": \",.2f\"}", 0, NULL);
    char *text;

    (void) state;
    /* Where the machine has none of these there is nothing to see. */
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        (void) setlocale(LC_ALL, "fr_FR.UTF-8");
    text = value_text(value);
    (void) setlocale(LC_ALL, "C");
    assert_string_equal(text, "1,203,411.50");
    free(text);
    json_decref(value);
}

static const char values[] = "["
                             "{\"name\": \"a\", \"value\": 5, \"step\": 1},"
                             "{\"name\": \"b\", \"value\": 7, \"step\": 1},"
                             "{\"name\": \"neg\", \"value\": -5, \"step\": 1},"
                             "{\"name\": \"share\", \"value\": 0.1234, \"format\": \".1%\"},"
                             "{\"name\": \"pct\", \"value\": 12.5, \"unit\": \"%\"},"
                             "{\"name\": \"revenue\", \"value\": 1203411.5, \"unit\": \"EUR\"},"
                             "{\"name\": \"dollars\", \"value\": 12.5, \"unit\": \"$\"},"
                             "{\"name\": \"m\", \"value\": 1.2, \"unit\": \"million EUR\"},"
                             "{\"name\": \"text\", \"value\": \"*b* {{a}} [x](y) <i> 99\"},"
                             "{\"name\": \"head\", \"value\": \"# big\"},"
                             "{\"name\": \"item\", \"value\": \"12. item\"},"
                             "{\"name\": \"url\", \"value\": \"http://x.y www.a.b q@c\"},"
                             "{\"name\": \"lines\", \"value\": \"a\\nb\\u202ec\"},"
                             "{\"name\": \"day\", \"value\": \"2024-03-01\"},"
                             "{\"name\": \"none\", \"value\": null},"
                             "{\"name\": \"x.y_2\", \"value\": 3},"
                             "{\"name\": \"twice\", \"value\": 111},"
                             "{\"name\": \"twice\", \"value\": 222}"
                             "]";

static void test_references(void **state)
{
    static const struct {
        const char *story, *text, *kinds, *unsupported; /* joined by | */
    } cases[] = {
        { "It is {{revenue}}.", "It is 1,203,411.50 EUR.", "V", "" },
        { "{{a}}", "5", "V", "" },
        { "{{ a }}", "5", "V", "" },
        { "{{share}} and {{share:.3%}}", "12.3% and 12.340%", "VV", "" },
        { "{{revenue:,.0f}}", "1,203,412 EUR", "V", "" },
        { "{{revenue:nonsense}}", "1,203,411.50 EUR", "V", "" },
        { "{{x.y_2}} and {{twice}}", "3 and 222", "VV", "" },
        { "{{x.y_2}} {{twice}}", "3 222", "UU", "3 |222" }, /* reads as 3222 */
        { "{{none}}", "no value", "V", "" },
        { "{{pct}} {{dollars}}", "12.5% $12.50", "VV", "" },
        { "{{nobody}}", "[nobody?]", "U", "[nobody?]" },
        { "{{nobody}} {{nobody}}", "[nobody?] [nobody?]", "UU", "[nobody?]" },
        { "{{q1_2024}} was", "[q1_2024?] was", "U", "[q1_2024?]" },
        { "{{net revenue}}", "[net revenue?]", "U", "[net revenue?]" },
        /* what is filled in is text, and never filled in again */
        { "{{text}}", "\\*b\\* \\{\\{a\\}\\} \\[x\\](y) \\<i\\> 99", "V", "" },
        { "{{head}} {{item}}", "\\# big 12\\. item", "VV", "" },
        { "{{url}}", "http\\://x.y www\\.a.b q\\@c", "V", "" },
        { "{{lines}}", "a bc", "V", "" },
        { "{{{{a}}}}", "{{5}}", "V", "" },
        { "{{{a}}}", "{5}", "V", "" },
        { "{{a}", "{{a}", "", "" },
        { "{{}}", "{{}}", "", "" },
        { "{{a{{b}}", "{{a7", "V", "" },
        { "{{\na}}", "{{\na}}", "", "" },
        /* surroundings that make another number of it */
        { "{{a}}0", "50", "U", "50" },
        { "1{{a}}", "15", "U", "15" },
        { "{{a}}{{b}}", "57", "UU", "5|7" },
        { "{{a}}.{{b}}", "5.7", "UU", "5.|7" },
        { "{{a}},000", "5,000", "U", "5,000" },
        { "{{a}} 000", "5 000", "U", "5 000" },
        { "{{a}}.5", "5.5", "U", "5.5" },
        { "-{{a}}", "-5", "V", "" }, /* which is a value too */
        { "-{{b}}", "-7", "U", "-7" },
        { "−{{b}}", "−7", "U", "−7" },
        { "{{a}} million", "5 million", "U", "5 million" },
        { "{{a}}M", "5M", "U", "5M" },
        { "{{a}} **million**", "5 **million**", "U", "5 **million" },
        { "MEUR {{a}}", "MEUR 5", "U", "5" },
        { "{{a}}e6", "5e6", "U", "5e6" },
        { "{{a}} × 10^6", "5 × 10^6", "U", "5 × 10^6" },
        { "{{a}}**0**", "5**0**", "U", "5**0**" },
        { "{{a}}*0*", "5*0*", "UU", "5|0" },
        { "{{a}}<b>0</b>", "5<b>0</b>", "UU", "5|0" },
        { "{{a}}\u200b0", "5\u200b0", "UU", "5|0" },
        { "{{a}}&#48;", "5&#48;", "UU", "5|&#48;" },
        { "{{a}}O", "5O", "U", "5" },
        { "l{{a}}", "l5", "U", "5" },
        { "{{a}}½", "5½", "U", "5½" },
        { "{{a}}²", "5²", "U", "5²" },
        { "{{a}}:30", "5:30", "U", "5:30" },
        { "March {{a}}", "March 5", "U", "March 5" },
        { "{{a}}/{{b}}", "5/7", "VV", "" },
        { "{{a}}-{{b}}", "5-7", "VV", "" },
        { "{{a}} %", "5 %", "V", "" },
        { "{{m}}", "1.2 million EUR", "V", "" },
        { "{{a}}{{nobody}}", "5[nobody?]", "VU", "[nobody?]" },
        { "{{a}}{{q1}}", "5[q1?]", "VU", "[q1?]" },
        /* and such that do not */
        { "**{{a}}** of {{b}}", "**5** of 7", "VV", "" },
        { "({{a}})", "(5)", "V", "" },
        { "{{a}}, {{b}}.", "5, 7.", "VV", "" },
        { "{{a}}x {{b}}th", "5x 7th", "VV", "" },
        { "{{day}}", "2024-03-01", "V", "" },
        { "on {{day}} we", "on 2024-03-01 we", "V", "" },
        { "| {{a}} | {{b}} |", "| 5 | 7 |", "VV", "" },
        { "1. {{a}}\n2. {{b}}", "1. 5\n2. 7", "VV", "" },
        /* typed ones that are values */
        { "1.2 million and 1,203,411.50 EUR", "1.2 million and 1,203,411.50 EUR", "FF", "" },
        { "12.3% and 12.5%", "12.3% and 12.5%", "FF", "" },
        { "99", "99", "F", "" },
    };
    size_t failed = 0;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct evidence *evidence = evidence_new();
        char kinds[KINDS_MAX], unsupported[512] = "";
        struct story story;
        const json_t *item;
        size_t k;

        assert_non_null(evidence);
        add_values(evidence, values);
        assert_int_equal(story_check(evidence, cases[i].story, &story), 0);
        story_kinds(&story, kinds);
        json_array_foreach (story.unsupported, k, item) {
            size_t len = strlen(unsupported);

            (void) snprintf(unsupported + len, sizeof(unsupported) - len, "%s%s", k ? "|" : "",
                            json_string_value(item));
        }
        if (strcmp(kinds, cases[i].kinds) != 0 || strcmp(story.text, cases[i].text) != 0 ||
            strcmp(unsupported, cases[i].unsupported) != 0) {
            print_error("\"%s\": \"%s\" %s [%s]\n", cases[i].story, story.text, kinds, unsupported);
            failed++;
        }
        story_release(&story);
        evidence_free(evidence);
    }
    assert_int_equal(failed, 0);
}

/* ---- literals ---- */

/* Steps: code and what it put out; given; then a story. */
static void test_literals(void **state)
{
    static const struct {
        const char *given, *code, *output, *code2, *output2, *story, *kinds;
    } cases[] = {
        { "", "print(df.x.sum())", "1203411", "", "", "1,203,411", "F" },
        { "", "print(1203411)", "1203411", "", "", "1,203,411", "U" },
        { "is it 1,203,411?", "print(1203411)", "1203411", "", "", "1,203,411", "F" },
        { "is it 1.203.411?", "print(1203411)", "1203411", "", "", "1,203,411", "F" },
        { "", "print(1_203_411)", "1203411", "", "", "1,203,411", "U" },
        { "", "print(12_03_411)", "1203411", "", "", "1,203,411", "U" },
        { "", "print(0x125cd3)", "1203411", "", "", "1,203,411", "U" },
        { "", "print(1.203411e6)", "1203411.0", "", "", "1,203,411", "U" },
        { "", "print(-1203411)", "-1203411", "", "", "a loss of 1,203,411", "U" },
        { "", "print('1,203,411')", "1,203,411", "", "", "1,203,411", "U" },
        { "", "print('1 203 411')", "1 203 411", "", "", "1 203 411", "U" },
        { "", "print('1.2 million')", "1.2 million", "", "", "1.2 million", "U" },
        { "", "print(f'{1203411.37:.0f}')", "1203411", "", "", "1,203,411", "U" },
        { "", "print(f'{0.1234:.1%}')", "12.3%", "", "", "12.3%", "U" },
        { "", "print('2024-03-01')", "2024-03-01", "", "", "March 1, 2024", "U" },
        { "since 2024-03-01", "print('2024-03-01')", "2024-03-01", "", "", "March 1, 2024", "F" },
        { "", "print('EUR1234567')", "EUR1234567", "", "", "EUR1234567", "U" },
        { "", "print('14:02')", "14:02", "", "", "14:02", "U" },
        /* two digits are everywhere */
        { "", "print(12)", "12", "", "", "12", "F" },
        { "", "x = df.x.sum() / 100", "12.5", "", "", "12.5", "F" },
        /* a later step repeats what an earlier one computed */
        { "", "print(df.x.sum())", "1203411", "total = 1203411\nprint(total)", "1203411",
          "1,203,411", "F" },
        { "", "print(1203411)", "1203411", "print(x)", "1203411", "1,203,411", "U" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct evidence *evidence = evidence_new();
        struct story story;
        char kinds[KINDS_MAX];

        assert_non_null(evidence);
        (void) evidence_add_given(evidence, EVIDENCE_DATA, cases[i].given, strlen(cases[i].given));
        (void) evidence_add_code(evidence, cases[i].code, strlen(cases[i].code));
        (void) evidence_add_output(evidence, cases[i].output, strlen(cases[i].output));
        (void) evidence_add_code(evidence, cases[i].code2, strlen(cases[i].code2));
        (void) evidence_add_output(evidence, cases[i].output2, strlen(cases[i].output2));
        assert_int_equal(story_check(evidence, cases[i].story, &story), 0);
        story_kinds(&story, kinds);
        if (strcmp(kinds, cases[i].kinds) != 0)
            fail_msg("%s: \"%s\" is %s", cases[i].code, cases[i].story, kinds);
        story_release(&story);
        evidence_free(evidence);
    }
}

static void test_literal_values(void **state)
{
    static const char code[] = "mark.value('x', 123456)\nmark.value('t', 'about 98765 items')";
    struct evidence *evidence = evidence_new();
    struct story story;
    char kinds[KINDS_MAX];

    (void) state;
    assert_int_equal(evidence_add_code(evidence, code, strlen(code)), 0);
    add_values(evidence, "[{\"name\": \"x\", \"value\": 123456},"
                         " {\"name\": \"y\", \"value\": 123457},"
                         " {\"name\": \"t\", \"value\": \"about 98765 items\"},"
                         " {\"name\": \"u\", \"value\": \"about 98766 items\"}]");
    assert_int_equal(story_check(evidence, "{{x}} and {{y}} and {{t}} and {{u}}", &story), 0);
    story_kinds(&story, kinds);
    assert_string_equal(kinds, "UVUV");
    assert_int_equal(story.checked, 2);
    story_release(&story);

    /* The question has it: then it may be repeated. */
    assert_int_equal(evidence_add_given(evidence, EVIDENCE_QUESTION, "123,456?", 8), 0);
    assert_int_equal(story_check(evidence, "{{x}}", &story), 0);
    story_kinds(&story, kinds);
    assert_string_equal(kinds, "V");
    story_release(&story);
    evidence_free(evidence);
}

/* ---- tables ---- */

static void test_tables(void **state)
{
    json_t *table = json_loads(
        "{\"title\": \"Top 777\", \"columns\": [{\"name\": \"region\", \"type\": \"text\"},"
        " {\"name\": \"sales 2023\", \"type\": \"number\"}, {\"name\": \"day\", \"type\": "
        "\"date\"}],"
        " \"rows\": [[\"north 45\", 1203.5, \"2024-03-01\"], [\"south\", -17, null],"
        " [true, [1], {\"a\": 555}]], \"row_count\": 4711}",
        0, NULL);
    struct evidence *evidence = evidence_new();
    struct story story;
    char kinds[KINDS_MAX];

    (void) state;
    assert_non_null(table);
    assert_int_equal(evidence_add_table(evidence, table), 0);
    assert_int_equal(story_check(evidence,
                                 "1,203.5 in north 45, -17, 4,711 rows, 3 columns, in 2023, on "
                                 "March 1, 2024; but 777, 555, 1186.5",
                                 &story),
                     0);
    story_kinds(&story, kinds);
    assert_string_equal(kinds, "FFFFFFFUUU");
    story_release(&story);
    evidence_free(evidence);
    json_decref(table);
}

/* What is no table or value is left out. */
static void test_malformed_evidence(void **state)
{
    static const char *const texts[] = {
        "[]",
        "5",
        "null",
        "\"a\"",
        "{}",
        "{\"name\": 5, \"value\": 5}",
        "{\"name\": \"a\"}",
        "{\"name\": \"a\", \"value\": [5]}",
        "{\"name\": \"a\", \"value\": {\"b\": 5}}",
        "{\"columns\": 5, \"rows\": 7, \"row_count\": \"x\"}",
        "{\"columns\": [5, null], \"rows\": [5, null, {}]}",
        "{\"name\": \"n\", \"value\": 1, \"unit\": {}, \"format\": []}",
    };
    struct evidence *evidence = evidence_new();
    struct story story;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        json_t *json = json_loads(texts[i], JSON_DECODE_ANY, NULL);

        assert_non_null(json);
        assert_int_equal(evidence_add_value(evidence, json), 0);
        assert_int_equal(evidence_add_table(evidence, json), 0);
        json_decref(json);
    }
    assert_int_equal(story_check(evidence, "{{a}} {{n}}", &story), 0);
    assert_string_equal(story.text, "[a?] 1");
    assert_int_equal(json_array_size(story.unknown), 1);
    story_release(&story);
    evidence_free(evidence);
}

/* ---- bounds ---- */

static char *repeat(const char *piece, size_t count)
{
    size_t len = strlen(piece);
    char *text = malloc(len * count + 1);

    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * len, piece, len);
    text[len * count] = '\0';
    return text;
}

static void test_bounds(void **state)
{
    static const struct {
        const char *piece;
        size_t count;
        int result;
    } cases[] = {
        { "{{a}} ", 1000000, -E2BIG },
        { "{{a}} ", 10001, -E2BIG },
        { "{{a}}, ", 10000, 0 },
        { "{{text}} ", 10000, -E2BIG }, /* filled in it would be 10 MB */
        { "7, ", 10001, -E2BIG },
        { "7, ", 9999, 0 },
        { "a", STORY_BYTES_MAX, 0 },
        { "a", STORY_BYTES_MAX + 1, -E2BIG },
        /* texts that could take a scanner quadratic time */
        { "{", STORY_BYTES_MAX, 0 },
        { "{{a", STORY_BYTES_MAX / 3, 0 },
        { "*", STORY_BYTES_MAX, 0 },
        { "<", STORY_BYTES_MAX, 0 },
        { "<a", STORY_BYTES_MAX / 2, 0 },
        { "[", STORY_BYTES_MAX, 0 },
        { "](", STORY_BYTES_MAX / 2, 0 },
        { "[a](", STORY_BYTES_MAX / 4, 0 },
        { "&", STORY_BYTES_MAX, 0 },
        { "&#1", STORY_BYTES_MAX / 3, -E2BIG },
        { "<!--", STORY_BYTES_MAX / 4, 0 },
        { "1", STORY_BYTES_MAX, 0 },
        { "1,", STORY_BYTES_MAX / 2, -E2BIG },
        { "111,", STORY_BYTES_MAX / 4, 0 },
        { "a1", STORY_BYTES_MAX / 2, -E2BIG },
        { "1 ", STORY_BYTES_MAX / 2, -E2BIG },
        { "1*", STORY_BYTES_MAX / 2, -E2BIG },
        { "1](", STORY_BYTES_MAX / 3, -E2BIG },
        { " ", STORY_BYTES_MAX, 0 },
        { "\n", STORY_BYTES_MAX, 0 },
        { "\xff", STORY_BYTES_MAX, 0 },
        { "\xe2\x80\xae", STORY_BYTES_MAX / 3, 0 },
        { "O", STORY_BYTES_MAX, 0 },
        { "l", STORY_BYTES_MAX, 0 },
        { "aOl ", STORY_BYTES_MAX / 4, 0 },
    };
    autofree char *long_text = repeat("x", 1000);

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct evidence *evidence = evidence_new();
        autofree char *text = repeat(cases[i].piece, cases[i].count);
        json_t *value = json_pack("{s:s, s:s}", "name", "text", "value", long_text);
        struct story story = { 0 };
        int r;

        assert_non_null(value);
        assert_int_equal(evidence_add_value(evidence, value), 0);
        json_decref(value);
        add_values(evidence, "[{\"name\": \"a\", \"value\": 7}]");
        r = story_check(evidence, text, &story);
        if (r != cases[i].result)
            fail_msg("%zu times \"%s\": %d", cases[i].count, cases[i].piece, r);
        story_release(&story);
        evidence_free(evidence);
    }
}

/* A million numbers: what is beyond is left out, and what is asked is found fast. */
static void test_much_evidence(void **state)
{
    struct evidence *evidence = evidence_new();
    size_t room = (size_t) 12 * 1000 * 1000, len = 0;
    char *text = malloc(room);
    struct story story;

    (void) state;
    assert_non_null(text);
    for (int i = 0; i < 1100000; i++)
        len += (size_t) snprintf(text + len, room - len, "%d.5\n", i);
    assert_int_equal(evidence_add_output(evidence, text, len), 0);
    free(text);
    text = repeat("31,415.5 and 0.25; ", 4999);
    assert_int_equal(story_check(evidence, text, &story), 0);
    assert_int_equal(story.checked, 4999);
    assert_int_equal(json_array_size(story.unsupported), 1);
    free(text);
    story_release(&story);
    evidence_free(evidence);
}

/* So many literals that there is no telling any more: nothing counts. */
static void test_flood_of_literals(void **state)
{
    struct evidence *evidence = evidence_new();
    size_t room = (size_t) 12 * 1000 * 1000, len = 0;
    char *code = malloc(room);
    struct story story;

    (void) state;
    assert_non_null(code);
    for (int i = 0; i < 1100000; i++)
        len += (size_t) snprintf(code + len, room - len, "%d\n", i + 1000);
    assert_int_equal(evidence_add_code(evidence, code, len), 0);
    free(code);
    assert_int_equal(evidence_add_output(evidence, "9876543.25", 10), 0);
    add_values(evidence, "[{\"name\": \"x\", \"value\": 9876543.25}]");
    assert_int_equal(story_check(evidence, "9876543.25 and {{x}}", &story), 0);
    assert_int_equal(story.checked, 0);
    story_release(&story);
    evidence_free(evidence);
}

/* Characters that turn the text around are not in what is shown. */
static void test_reordering(void **state)
{
    struct evidence *evidence = evidence_new();
    struct story story;

    (void) state;
    assert_int_equal(evidence_add_output(evidence, "12", 2), 0);
    assert_int_equal(story_check(evidence, "\u202e12\u202d\x07\x1b[31m", &story), 0);
    assert_string_equal(story.text, "12[31m");
    story_release(&story);
    evidence_free(evidence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notations),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_value_texts),
        cmocka_unit_test(test_value_texts_in_another_locale),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_literals),
        cmocka_unit_test(test_literal_values),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_malformed_evidence),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_much_evidence),
        cmocka_unit_test(test_flood_of_literals),
        cmocka_unit_test(test_reordering),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
