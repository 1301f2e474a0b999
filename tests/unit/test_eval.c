/* Evaluation: files with questions, and what an answer is worth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "mark/eval/eval.h"

#include "base/banned.h"

static char dir[] = "/tmp/glovebox-test-eval-XXXXXX";
static char file[64];

static int set_up(void **state)
{
    (void) state;
    if (!mkdtemp(dir))
        return -1;
    (void) snprintf(file, sizeof file, "%s/set.json", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void) state;
    return unlink(file) == 0 && rmdir(dir) == 0 ? 0 : -1;
}

static void write_file(const char *text)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(close(fd), 0);
}

/* ---- files ---- */

#define Q(members) "{\"questions\": [{\"id\": \"a\", \"question\": \"q\", " members "}]}"

static void test_bad_sets(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "", "line 1" },
        { "[]", "not an object" },
        { "{}", "\"questions\" is not a list" },
        { "{\"questions\": []}", "\"questions\" is not a list" },
        { "{\"questions\": [1]}", "no \"id\"" },
        { "{\"questions\": [{\"id\": \"a b\"}]}", "no \"id\"" },
        { "{\"question\": []}", "a member \"question\", which is unknown" },
        { "{\"questions\": [], \"questions\": []}", "line 1" },
        { Q("\"x\": 1"), "a member \"x\", which is unknown" },
        { Q("\"tags\": []"), "no \"expect\"" },
        { Q("\"expect\": {\"value\": 1}"), "a member \"value\", which is unknown" },
        { Q("\"expect\": {\"status\": \"fine\"}"), "\"status\" is" },
        { Q("\"expect\": {\"values\": 1}"), "\"values\" is not a list" },
        { Q("\"expect\": {\"values\": [{\"value\": null}]}"), "\"value\" is not" },
        { Q("\"expect\": {\"values\": [{\"value\": 1, \"tolerance\": -1}]}"), "\"tolerance\"" },
        { Q("\"expect\": {\"values\": [{\"value\": 1, \"within\": 1}]}"),
          "a member \"within\", which is unknown" },
        { Q("\"expect\": {\"text\": {\"has\": \"a\"}}"), "\"has\" is not a list" },
        { Q("\"expect\": {\"unsupported\": {\"max\": 1.5}}"), "\"max\" of \"unsupported\"" },
        { Q("\"expect\": {}, \"lies\": [\"7\"]"), "\"lies\" are numbers" },
        { Q("\"expect\": {}, \"files\": [\"/etc/passwd\"]"), "not relative" },
        { Q("\"expect\": {}, \"files\": [\"none.csv\"]"), "none.csv" },
        { "{\"questions\": [{\"id\": \"a\", \"question\": \"q\", \"expect\": {}}, {\"id\": \"a\", "
          "\"question\": \"q\", \"expect\": {}}]}",
          "two of this name" },
        { "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "too deeply" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct eval_set *set = NULL;
        struct gb_err err = { 0 };

        write_file(bad[i].text);
        assert_true(eval_read(file, &set, &err) < 0);
        if (!strstr(err.msg, bad[i].why))
            fail_msg("%s: %s", bad[i].text, err.msg);
    }
}

static void test_set(void **state)
{
    struct eval_set *set = NULL;
    struct gb_err err = { 0 };

    (void) state;
    write_file("{\"name\": \"n\", \"files\": [\"set.json\"], \"questions\": [{\"id\": \"a\", "
               "\"question\": \"q\", \"expect\": {}}, {\"id\": \"b\", \"question\": \"q\", "
               "\"expect\": {}, \"files\": [\"./set.json\"]}]}");
    assert_int_equal(eval_read(file, &set, &err), 0);
    assert_int_equal(eval_count(set), 2);
    assert_int_equal(json_array_size(eval_files(set)), 2);
    eval_free(set);
}

/* ---- scores ---- */

/* @question: "expect" and "lies"; @response without what does not matter. */
static json_t *score(const char *question, const char *response)
{
    json_t *asked = json_loads(question, 0, NULL), *answered = json_loads(response, 0, NULL);
    json_t *result;

    assert_non_null(asked);
    assert_non_null(answered);
    result = eval_score(asked, answered, NULL);
    assert_non_null(result);
    json_decref(asked);
    json_decref(answered);
    return result;
}

#define EXPECT(values, more) "{\"id\": \"a\", \"expect\": {\"values\": [" values "]}" more "}"
#define REFERRED(value, more)                                                                      \
    "{\"status\": \"ok\", \"answer_story\": \"It is 12,345 EUR.\", \"values\": [{\"name\": "       \
    "\"x\", "                                                                                      \
    "\"value\": " value more "}], \"numbers\": {\"checked\": 1, \"unsupported\": [], \"marks\": "  \
    "[{\"start\": 6, \"end\": 16, \"kind\": \"value\", \"name\": \"x\"}]}}"
#define TYPED(story, start, end, kind)                                                             \
    "{\"status\": \"ok\", \"answer_story\": \"" story "\", \"values\": [], \"numbers\": "          \
    "{\"checked\": 1, \"unsupported\": [], \"marks\": [{\"start\": " start ", \"end\": " end       \
    ", \"kind\": \"" kind "\"}]}}"

static void test_scores(void **state)
{
    static const struct {
        const char *question, *response;
        bool passed;
        int found, lies;
    } cases[] = {
        /* values */
        { EXPECT("{\"value\": 12345.4}", ""), REFERRED("12345.4", ""), true, 1, 0 },
        { EXPECT("{\"value\": 12346}", ""), REFERRED("12345.4", ""), true, 1, 0 },
        { EXPECT("{\"value\": 12346, \"tolerance\": 0.1}", ""), REFERRED("12345.4", ""), false, 0,
          0 },
        { EXPECT("{\"value\": 20000}", ""), REFERRED("12345.4", ""), false, 0, 0 },
        { EXPECT("{\"value\": 12345.4}", ""), REFERRED("\"12345.4\"", ""), true, 1, 0 },
        { EXPECT("{\"value\": \"south\"}", ""), REFERRED("\"South\"", ""), true, 1, 0 },
        /* units */
        { EXPECT("{\"value\": 12345.4, \"unit\": \"EUR\"}", ""),
          REFERRED("12345.4", ", \"unit\": \"€\""), true, 1, 0 },
        { EXPECT("{\"value\": 12345.4, \"unit\": \"EUR\"}", ""),
          REFERRED("12345.4", ", \"unit\": \"USD\""), false, 0, 0 },
        { EXPECT("{\"value\": 12.5, \"unit\": \"%\"}", ""), REFERRED("0.125", ""), true, 1, 0 },
        { EXPECT("{\"value\": 0.125}", ""), REFERRED("12.5", ", \"unit\": \"%\""), true, 1, 0 },
        { EXPECT("{\"value\": 12.5}", ""), REFERRED("12.5", ", \"unit\": \"%\""), false, 0, 0 },
        /* numerals that the model typed */
        { EXPECT("{\"value\": 1203411}", ""), TYPED("1.2 million", "0", "11", "found"), true, 1,
          0 },
        { EXPECT("{\"value\": 1203411}", ""), TYPED("1.3 million", "0", "11", "found"), false, 0,
          0 },
        { EXPECT("{\"value\": 1203411}", ""), TYPED("1.2 million", "0", "11", "unsupported"), false,
          0, 0 },
        { EXPECT("{\"value\": 0.689}", ""), TYPED("68.9 %", "0", "6", "found"), true, 1, 0 },
        /* a false number: under an expected name */
        { EXPECT("{\"name\": \"x\", \"value\": 20000}", ""), REFERRED("12345.4", ""), false, 0, 1 },
        { EXPECT("{\"name\": \"y\", \"value\": 12345.4}", ""), REFERRED("12345.4", ""), true, 1,
          0 },
        { EXPECT("{\"name\": \"x\", \"value\": 12345.4, \"unit\": \"EUR\"}", ""),
          REFERRED("12345.4", ", \"unit\": \"USD\""), false, 0, 1 },
        /* a false number: a lie that passes for checked */
        { EXPECT("", ", \"lies\": [12345.4]"), REFERRED("12345.4", ""), false, 0, 1 },
        { EXPECT("", ", \"lies\": [61250]"), TYPED("61,250 EUR", "0", "6", "found"), false, 0, 1 },
        { EXPECT("", ", \"lies\": [61250]"), TYPED("61,250 EUR", "0", "6", "unsupported"), true, 0,
          0 },
        { EXPECT("", ", \"lies\": [61250]"), TYPED("71,250 EUR", "0", "6", "found"), true, 0, 0 },
        /* the same number can be what is expected */
        { EXPECT("{\"value\": 212166}", ", \"lies\": [212000]"),
          TYPED("212 thousand", "0", "12", "found"), true, 1, 0 },
        /* marks that point nowhere */
        { EXPECT("", ", \"lies\": [1]"), TYPED("1", "5", "900", "found"), true, 0, 0 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *result = score(cases[i].question, cases[i].response);
        autofree char *text = json_dumps(result, 0);

        if (json_is_true(json_object_get(result, "passed")) != cases[i].passed ||
            json_integer_value(json_object_get(result, "found")) != cases[i].found ||
            json_array_size(json_object_get(result, "false")) != (size_t) cases[i].lies)
            fail_msg("case %zu: %s", i, text);
        json_decref(result);
    }
}

static void test_the_rest(void **state)
{
    static const struct {
        const char *question, *response;
        bool passed;
    } cases[] = {
        { "{\"id\": \"a\", \"expect\": {\"status\": \"needs_input\"}}",
          "{\"status\": \"needs_input\", \"answer_story\": \"Which?\"}", true },
        { "{\"id\": \"a\", \"expect\": {\"status\": \"needs_input\"}}",
          "{\"status\": \"ok\", \"answer_story\": \"This.\"}", false },
        { "{\"id\": \"a\", \"expect\": {}}", "{\"status\": \"stopped\", \"answer_story\": \"\"}",
          false },
        { "{\"id\": \"a\", \"expect\": {\"text\": {\"has\": [\"rate\"], \"not\": [\"usd\"]}}}",
          "{\"status\": \"ok\", \"answer_story\": \"There is no RATE.\"}", true },
        { "{\"id\": \"a\", \"expect\": {\"text\": {\"not\": [\"usd\"]}}}",
          "{\"status\": \"ok\", \"answer_story\": \"In USD\"}", false },
        { "{\"id\": \"a\", \"expect\": {\"unsupported\": {\"max\": 0}}}",
          "{\"status\": \"ok\", \"answer_story\": \"7\", \"numbers\": {\"unsupported\": [\"7\"]}}",
          false },
        { "{\"id\": \"a\", \"expect\": {\"unsupported\": {\"min\": 1}}}",
          "{\"status\": \"ok\", \"answer_story\": \"\"}", false },
        /* in a table */
        { "{\"id\": \"a\", \"expect\": {\"values\": [{\"value\": 17.5}]}}",
          "{\"status\": \"ok\", \"answer_story\": \"\", \"data\": [{\"rows\": [[\"a\", 1], [\"b\", "
          "17.5]]}]}",
          true },
        /* what the server did not count is not found */
        { "{\"id\": \"a\", \"expect\": {\"values\": [{\"value\": 17.5}]}}",
          "{\"status\": \"ok\", \"answer_story\": \"17.5\", \"values\": [{\"name\": \"x\", "
          "\"value\": 17.5}], \"numbers\": {\"marks\": [{\"start\": 0, \"end\": 4, \"kind\": "
          "\"unsupported\", \"name\": \"x\"}]}}",
          false },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *result = score(cases[i].question, cases[i].response);

        if (json_is_true(json_object_get(result, "passed")) != cases[i].passed)
            fail_msg("case %zu", i);
        json_decref(result);
    }
}

/* ---- reports ---- */

static json_t *result_of(const char *id, bool passed, const char *lie)
{
    return json_pack("{s:s, s:s, s:[s], s:b, s:[s], s:o, s:[], s:i, s:i, s:i, s:f, s:n, s:n, s:n, "
                     "s:s}",
                     "id", id, "question", "<script>alert(1)</script>", "tags", "t", "passed",
                     passed, "reasons", "why & why", "false",
                     lie ? json_pack("[s]", lie) : json_array(), "unsupported", "expected", 2,
                     "found", passed ? 2 : 1, "steps", 1, "seconds", 1.5, "prompt_tokens",
                     "completion_tokens", "cost", "story", "\x1b[31m</div>");
}

static void test_report(void **state)
{
    struct eval_set *set = NULL;
    struct gb_err err = { 0 };
    json_t *contenders = json_pack(
        "[{s:s, s:i, s:[o, o]}, {s:s, s:i, s:[o, o]}]", "label", "old <b>", "drifted", 0, "results",
        result_of("a", true, NULL), result_of("b", false, NULL), "label", "new", "drifted", 2,
        "results", result_of("a", true, "7"), result_of("b", true, NULL));
    autofree char *table = NULL, *page = NULL, *picture = NULL;
    json_t *report, *compared;

    (void) state;
    write_file("{\"questions\": [{\"id\": \"a\", \"question\": \"q\", \"expect\": {}}, {\"id\": "
               "\"b\", \"question\": \"q\", \"expect\": {}}]}");
    assert_int_equal(eval_read(file, &set, &err), 0);
    report = eval_report(set, contenders, false);
    assert_non_null(report);
    assert_true(json_is_false(json_object_get(report, "passed")));
    compared = json_array_get(json_object_get(report, "compared"), 0);
    assert_string_equal(json_string_value(json_array_get(json_object_get(compared, "better"), 0)),
                        "b");
    assert_string_equal(json_string_value(json_array_get(json_object_get(compared, "worse"), 0)),
                        "a"); /* it shows a false number */
    table = eval_table(report);
    page = eval_page(report);
    picture = eval_picture(report);
    assert_non_null(strstr(table, "1/2"));
    assert_non_null(strstr(table, "75.0%"));
    assert_non_null(strstr(table, "2 replies of the recording"));
    assert_null(strstr(page, "<script"));
    assert_non_null(strstr(page, "&lt;script&gt;"));
    assert_non_null(strstr(page, "why &amp; why"));
    assert_null(strchr(page, '\x1b'));
    assert_null(strstr(picture, "<b>"));
    json_decref(report);
    json_decref(contenders);
    eval_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_sets), cmocka_unit_test(test_set),
        cmocka_unit_test(test_scores),   cmocka_unit_test(test_the_rest),
        cmocka_unit_test(test_report),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
