/* Exports of Mark without a service: text that stays in its place, names of files, charts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/export/internal.h"

#include "base/banned.h"

/* ---- writing into memory ---- */

struct memory {
    struct out out;
    char *text;
    size_t len;
};

static void memory_open(struct memory *m)
{
    *m = (struct memory){ 0 };
    m->out = (struct out){ .file = open_memstream(&m->text, &m->len), .max = 1 << 20 };
    assert_non_null(m->out.file);
}

/* What was written; the caller frees it. */
static char *memory_close(struct memory *m)
{
    assert_int_equal(m->out.error, 0);
    assert_int_equal(m->out.bytes, (int64_t) (fflush(m->out.file), m->len));
    out_release(&m->out);
    return m->text;
}

static void assert_written(struct memory *m, const char *want)
{
    autofree char *text = memory_close(m);

    assert_string_equal(text, want);
}

static json_t *load(const char *text)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);

    assert_non_null(json);
    return json;
}

/* ---- pieces ---- */

static void test_out(void **state)
{
    json_t *json = load("[\"</script>\\u2028&\\u00e9\", 1.5]");
    struct memory m;

    (void) state;
    memory_open(&m);
    out_json(&m.out, json);
    assert_written(&m, "[\"\\u003c/script\\u003e\\u2028\\u0026\\u00E9\",1.5]");
    memory_open(&m);
    out_html(&m.out, "a<b>&\"'é");
    assert_written(&m, "a&#60;b&#62;&#38;&#34;&#39;é");
    memory_open(&m);
    m.out.quoted = true;
    out_puts(&m.out, "\"\\\n\r\x01 é");
    assert_written(&m, "\\u0022\\u005c\\n\\u000d\\u0001 é");
    memory_open(&m);
    m.out.max = 3;
    out_puts(&m.out, "abc");
    assert_int_equal(m.out.error, 0);
    out_puts(&m.out, "d");
    assert_int_equal(m.out.error, EFBIG);
    m.out.error = 0;
    assert_written(&m, "abc");
    json_decref(json);
}

static void test_text(void **state)
{
    static const struct {
        const char *text, *line, *cell;
    } cases[] = {
        { "plain", "plain", "plain" },
        { "a|b\nc", "a\\|b c", "a\\|b<br>c" },
        { "# <b> *x* _y_ `z` [l](u) ![i](u) &amp; ~~s~~ $m$",
          "\\# \\<b\\> \\*x\\* \\_y\\_ \\`z\\` \\[l\\](u) \\!\\[i\\](u) \\&amp; \\~\\~s\\~\\~ "
          "\\$m\\$",
          "\\# \\<b\\> \\*x\\* \\_y\\_ \\`z\\` \\[l\\](u) \\!\\[i\\](u) \\&amp; \\~\\~s\\~\\~ "
          "\\$m\\$" },
        { "1. list", "1\\. list", "1. list" },
        { "12) list", "12\\) list", "12) list" },
        { "- list", "\\- list", "- list" },
        { "-5.5", "\\-5.5", "-5.5" },
        { "back\\slash", "back\\\\slash", "back\\\\slash" },
        { "\r\t\x1b[31m", "   \\[31m", "   \\[31m" },
    };
    struct memory m;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        memory_open(&m);
        md_text(&m.out, cases[i].text, false);
        assert_written(&m, cases[i].line);
        memory_open(&m);
        md_text(&m.out, cases[i].text, true);
        assert_written(&m, cases[i].cell);
    }
}

static void test_fence(void **state)
{
    struct memory m;

    (void) state;
    memory_open(&m);
    md_fence(&m.out, "python", "x = 1");
    assert_written(&m, "```python\nx = 1\n```\n\n");
    memory_open(&m);
    md_fence(&m.out, "", "```\n`````\r\nx\ry\n");
    assert_written(&m, "``````\n```\n`````\nx\ny\n``````\n\n");
}

static void test_table(void **state)
{
    json_t *table =
        load("{\"title\": \"T\", \"columns\": [{\"name\": \"a|b\", \"type\": \"text\"}, {\"name\": "
             "\"n\", \"type\": \"number\"}], \"rows\": [[\"x\\ny\", 1.25], [null, true], [\"z\", "
             "9007199254740993]], \"row_count\": 5}");
    struct memory m;

    (void) state;
    memory_open(&m);
    md_table(&m.out, table, 2);
    assert_written(&m, "| a\\|b | n |\n|---|---:|\n| x<br>y | 1.25 |\n|  | true |\n\n"
                       "The first 2 of 5 rows.\n\n");
    memory_open(&m);
    html_table(&m.out, table, 10);
    assert_written(&m, "<table><caption>T (the first 3 of 5 rows)</caption>\n<thead><tr><th "
                       "scope=\"col\">a|b</th><th scope=\"col\" class=\"n\">n</th></tr></thead>\n"
                       "<tbody>\n<tr><td>x\ny</td><td class=\"n\">1.25</td></tr>\n<tr><td></td><td "
                       "class=\"n\">true</td></tr>\n<tr><td>z</td><td "
                       "class=\"n\">9007199254740993</td></tr>\n</tbody></table>\n");
    json_decref(table);
}

/* ---- stories ---- */

static char *to_html(const char *story, const char *marks)
{
    json_t *numbers = json_pack("{s:o}", "marks", load(marks));
    json_t *values = load("[{\"name\": \"v\", \"step\": 3}]");
    struct memory m;

    memory_open(&m);
    prose_html(&m.out, story, numbers, values);
    json_decref(numbers);
    json_decref(values);
    return memory_close(&m);
}

static void test_prose_markdown(void **state)
{
    static const struct {
        const char *story, *want;
    } cases[] = {
        { "# Top\n\ntext", "### Top\n\ntext\n" },
        { "##### Deep", "###### Deep\n" },
        { "a <b>c</b>", "a \\<b\\>c\\</b\\>\n" },
        { "<script>\nalert(1)\n</script>", "\\<script\\>\nalert(1)\n\\</script\\>\n" },
        { "[x](javascript:alert(1))", "x\n" },
        { "[x](JavaScript:alert(1) \"t\")", "x\n" },
        { "[x](//evil.example)", "x\n" },
        { "[x](https://a.example \"t\")", "[x](https://a.example)\n" },
        { "![pic](https://a.example/p.png)", "[pic](https://a.example/p.png)\n" },
        { "![pic](data:image/png;base64,AA)", "pic\n" },
        { "> ```\nopen", NULL },
        { "```evil`info\nx", NULL },
        { "- a\n- b\n\n      code\n\ntext\n\n***\n\n~~~~\nnever closed", NULL },
        { "| a | b |\n|---|:-:|\n| 1 | <i>x</i> \\| y |\n\n~~gone~~ `` a`b `` \\* &copy; &#42;",
          NULL },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autofree char *text = prose_markdown(cases[i].story, 2);
        autofree char *same = prose_markdown(cases[i].story, 0);
        autofree char *before = to_html(cases[i].story, "[]");
        autofree char *after = to_html(same, "[]");

        if (cases[i].want)
            assert_string_equal(text, cases[i].want);
        assert_string_equal(after, before); /* what was written is what is read again */
    }
}

#define CHECKED "<mark class=\"checked\" tabindex=\"0\" title=\"found in what was computed\">"
#define BAD     "<mark class=\"unsupported\" tabindex=\"0\" title=\"no program computed this number\">"

static void test_prose_html(void **state)
{
    static const struct {
        const char *story, *marks, *want;
    } cases[] = {
        { "a 12 b", "[{\"start\": 2, \"end\": 4, \"kind\": \"found\"}]",
          "<p>a " CHECKED "12</mark> b</p>\n" },
        { "a 12 b", "[{\"start\": 2, \"end\": 4, \"kind\": \"value\", \"name\": \"v\"}]",
          "<p>a <mark class=\"checked\" tabindex=\"0\" title=\"computed: v, in step 3\">12</mark> "
          "b</p>\n" },
        { "1**2**3", "[{\"start\": 0, \"end\": 7, \"kind\": \"unsupported\"}]",
          "<p>" BAD "1</mark><strong>" BAD "2</mark></strong>" BAD "3<sup>?</sup></mark></p>\n" },
        { "`1` 2",
          "[{\"start\": 1, \"end\": 2, \"kind\": \"found\"}, {\"start\": 4, \"end\": 5, "
          "\"kind\": \"unsupported\"}]",
          "<p><code>1</code> " BAD "2<sup>?</sup></mark></p>\n" },
        { "[1](http://a/2)",
          "[{\"start\": 1, \"end\": 2, \"kind\": \"found\"}, {\"start\": 13, \"end\": 14, "
          "\"kind\": "
          "\"found\"}]",
          "<p><a href=\"http://a/2\">" CHECKED "1</mark></a></p>\n" },
        /* Marks that make no sense, and characters that look like ours. */
        { "12",
          "[{\"start\": -1, \"end\": 1}, {\"start\": 1, \"end\": 1}, {\"start\": 1, \"end\": "
          "9}, {\"start\": \"x\"}, 7]",
          "<p>12</p>\n" },
        { "\xee\x80\x80\xee\x80\x91x\xee\x80\x81", "[]", "<p>x</p>\n" },
        { "\xee\x80\x80", "[{\"start\": 0, \"end\": 3, \"kind\": \"found\"}]", "<p></p>\n" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autofree char *html = to_html(cases[i].story, cases[i].marks);

        assert_string_equal(html, cases[i].want);
    }
}

/* ---- shares ---- */

/* How many exports @owner can begin; those are left under way. */
static size_t begin_all(struct exports *exports, struct export_turn *turns, const char *owner,
                        bool box)
{
    struct fault fault = { 0 };
    size_t n = 0;

    for (;; n++) {
        turns[n] = (struct export_turn){ .owner = owner, .box = box };
        if (export_begin(exports, &turns[n], &fault) < 0)
            break;
        assert_true(n < 64);
    }
    assert_int_equal(fault.problem, PROBLEM_BUSY);
    assert_true(fault.retry_after_s > 0);
    return n;
}

static void test_shares(void **state)
{
    static const char *const owners[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i" };
    struct exports_config config = { .data_dir = "/" };
    struct export_turn turns[9][64], again;
    struct exports *exports;
    struct gb_err err;
    struct fault fault = { 0 };

    (void) state;
    assert_int_equal(exports_open(&config, &exports, &err), 0);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(begin_all(exports, turns[i], owners[i], true), 2);
    assert_int_equal(begin_all(exports, turns[8], owners[8], true), 0); /* 16 in all */
    assert_int_equal(begin_all(exports, turns[8], owners[8], false), 4);
    export_end(exports, &turns[3][0]);
    for (size_t i = 0; i < 4; i++)
        export_end(exports, &turns[8][i]);
    again = (struct export_turn){ .owner = "i", .box = true };
    assert_int_equal(export_begin(exports, &again, &fault), 0);
    exports_close(exports);
}

/* What was made and is not fetched yet takes room: it counts for its owner, and for nobody else. */
static void test_shares_of_files(void **state)
{
    struct exports_config config = { .data_dir = "/" };
    struct export_file files[4][20] = { 0 };
    struct export_turn *turn;
    struct exports *exports;
    struct gb_err err;
    struct fault fault = { 0 };
    char owner[8];

    (void) state;
    assert_int_equal(exports_open(&config, &exports, &err), 0);
    for (size_t o = 0; o < 20; o++) {
        (void) snprintf(owner, sizeof owner, "o%zu", o);
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(export_turn_begin(exports, owner, i % 2, &turn, &fault), 0);
            export_turn_end(turn, true, &files[i][o]);
        }
        assert_int_equal(export_turn_begin(exports, owner, false, &turn, &fault), -1);
        assert_int_equal(export_turn_begin(exports, owner, true, &turn, &fault), -1);
        assert_int_equal(fault.problem, PROBLEM_BUSY);
    }
    export_fetched(files[0][0].turn);
    assert_int_equal(export_turn_begin(exports, "o0", true, &turn, &fault), 0);
    export_turn_end(turn, false, NULL); /* it failed: there is no file */
    assert_int_equal(export_turn_begin(exports, "o0", false, &turn, &fault), 0);
    export_turn_end(turn, true, &files[0][0]);
    for (size_t o = 0; o < 20; o++)
        for (size_t i = 0; i < 4; i++)
            export_fetched(files[i][o].turn);
    assert_null(exports->turns);
    exports_close(exports);
}

/* ---- names and charts ---- */

static void test_names(void **state)
{
    static const struct {
        const char *title, *part, *want;
    } cases[] = {
        { "Sales by region", "", "Sales by region.md" },
        { "Sales by region", "answer", "Sales by region-answer.md" },
        { "", "", "chat.md" },
        { "...", "", "chat.md" },
        { "../../etc/passwd", "", "_.._etc_passwd.md" },
        { "a\"b\\c:d*e?f<g>h|i\x7fj", "", "a_b_c_d_e_f_g_h_i_j.md" },
        { "Umsätze – 売上", "", "Umsätze – 売上.md" },
        { "txt.\xe2\x80\xae"
          "exe",
          "", "txt._exe.md" }, /* U+202E turns what follows */
        { "bad \xff\xfe utf-8", "", "bad __ utf-8.md" },
        { "line\r\nbreak", "", "line__break.md" },
    };
    char name[EXPORT_NAME_MAX], longest[1000];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        export_name(cases[i].title, cases[i].part, "md", name);
        assert_string_equal(name, cases[i].want);
    }
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    export_name(longest, "answer", "parquet", name);
    assert_int_equal(strlen(name), 60 + strlen("-answer.parquet"));
}

static void assert_chart(const char *spec, const char *want)
{
    json_t *chart = load(spec), *table = chart_table(chart);
    autofree char *text = table ? json_dumps(json_object_get(table, "rows"), JSON_COMPACT) : NULL;

    assert_string_equal(text ? text : "none", want);
    json_decref(table);
    json_decref(chart);
}

static void test_charts(void **state)
{
    (void) state;
    assert_chart("{\"data\": [{\"name\": \"s\", \"x\": [\"a\", \"b\"], \"y\": [1, null]}]}",
                 "[[\"s\",\"a\",1],[\"s\",\"b\",null]]");
    assert_chart("{\"data\": [{\"labels\": [\"a\"], \"values\": [2]}]}", "[[\"a\",2]]");
    /* 1.0 and 2.0; 7 and -1 */
    assert_chart("{\"data\": [{\"x\": {\"dtype\": \"i2\", \"bdata\": \"BwD//w==\"}, \"y\": "
                 "{\"dtype\": \"f8\", \"bdata\": \"AAAAAAAA8D8AAAAAAAAAQA==\"}}]}",
                 "[[7,1.0],[-1,2.0]]");
    assert_chart("{\"data\": [{\"y\": [[1], {}]}]}", "[[null,null],[null,null]]");
    assert_chart("{\"data\": []}", "none");
    assert_chart("{\"data\": {\"x\": 1}}", "none");
    assert_chart("{\"data\": [7, null, {\"x\": \"text\"}]}", "none");
    assert_chart("{\"data\": [{\"y\": {\"dtype\": \"f9\", \"bdata\": \"AAAA\"}}]}", "none");
    assert_chart("{\"data\": [{\"y\": {\"dtype\": \"f8\", \"bdata\": \"not base64!\"}}]}", "none");
    assert_chart("{\"data\": [{\"y\": {\"dtype\": \"\", \"bdata\": \"AAAA\"}}]}", "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_fence),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_prose_markdown),
        cmocka_unit_test(test_prose_html),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_shares_of_files),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_charts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
