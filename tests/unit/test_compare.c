/* What recheck finds equal, and what it says where things are not. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/autoclean.h"
#include "mark/story/compare.h"

#include "base/banned.h"

static json_t *load(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, JSON_DECODE_ANY, &error);

    if (!json)
        fail_msg("%s: %s", text, error.text);
    return json;
}

static bool is_equal(const json_t *item)
{
    return json_is_true(json_object_get(item, "equal"));
}

static const char *missing(const json_t *item)
{
    const char *text = json_string_value(json_object_get(item, "missing"));

    return text ? text : "";
}

/* ---- values ---- */

static void test_values(void **state)
{
    static const struct {
        const char *before, *after;
        bool equal;
    } cases[] = {
        { "5", "5", true },
        { "5", "6", false },
        { "9007199254740993", "9007199254740992", false },
        { "0.1", "0.1", true },
        { "0.3", "0.30000000000000004", true },
        { "1203411.5", "1203411.5000001", true },
        { "1203411.5", "1203411.51", false },
        { "1e-300", "1.1e-300", false },
        { "0.0", "-0.0", true },
        { "5", "5.0", true },
        { "5", "5.1", false },
        { "null", "null", true }, /* NaN */
        { "null", "0", false },
        { "true", "true", true },
        { "true", "1", false },
        { "\"a\"", "\"a\"", true },
        { "\"a\"", "\"a \"", false },
        { "\"5\"", "5", false },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *before = json_pack("[{s:s, s:o}]", "name", "x", "value", load(cases[i].before));
        json_t *after = json_pack("[{s:s, s:o}]", "name", "x", "value", load(cases[i].after));
        json_t *result = compare_values(before, after);
        const json_t *item = json_array_get(result, 0);

        assert_int_equal(json_array_size(result), 1);
        if (is_equal(item) != cases[i].equal)
            fail_msg("%s and %s", cases[i].before, cases[i].after);
        assert_string_equal(json_string_value(json_object_get(item, "name")), "x");
        assert_true(json_equal(json_object_get(item, "before"),
                               json_object_get(json_array_get(before, 0), "value")));
        assert_true(json_equal(json_object_get(item, "after"),
                               json_object_get(json_array_get(after, 0), "value")));
        json_decref(before);
        json_decref(after);
        json_decref(result);
    }
}

static void test_values_by_name(void **state)
{
    json_t *before = load("[{\"name\": \"a\", \"value\": 1}, {\"name\": \"b\", \"value\": 2},"
                          " {\"name\": \"a\", \"value\": 3}, {\"value\": 4}, 5,"
                          " {\"name\": \"u\", \"value\": 1, \"unit\": \"EUR\"}]");
    json_t *after = load("[{\"name\": \"c\", \"value\": 9}, {\"name\": \"a\", \"value\": 3},"
                         " {\"name\": \"u\", \"value\": 1, \"unit\": \"USD\"}]");
    json_t *result = compare_values(before, after), *item;
    size_t i;
    unsigned seen = 0;

    (void) state;
    assert_int_equal(json_array_size(result), 4);
    json_array_foreach (result, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));

        assert_int_equal(is_equal(item), name[0] == 'a'); /* the last of that name */
        assert_string_equal(missing(item), name[0] == 'b'   ? "after"
                                           : name[0] == 'c' ? "before"
                                                            : "");
        seen |= 1u << (name[0] - 'a');
    }
    assert_int_equal(seen, 1u | 2u | 4u | 1u << ('u' - 'a'));
    json_decref(before);
    json_decref(after);
    json_decref(result);
}

/* ---- tables and charts ---- */

struct pair {
    const char *before, *after;
    const char *difference; /* the first one; NULL: equal */
};

static void check_pairs(const struct pair *pairs, size_t len,
                        json_t *(*compare)(const json_t *before, const json_t *after))
{
    for (size_t i = 0; i < len; i++) {
        json_t *before = json_pack("[o]", load(pairs[i].before));
        json_t *after = json_pack("[o]", load(pairs[i].after));
        json_t *result = compare(before, after);
        const json_t *item = json_array_get(result, 0);
        const char *text =
            json_string_value(json_array_get(json_object_get(item, "differences"), 0));

        assert_int_equal(json_array_size(result), 1);
        assert_int_equal(is_equal(item), !text);
        if (!!text != !!pairs[i].difference || (text && strcmp(text, pairs[i].difference) != 0))
            fail_msg("%s and %s: %s", pairs[i].before, pairs[i].after, text ? text : "equal");
        json_decref(before);
        json_decref(after);
        json_decref(result);
    }
}

#define TABLE(rows, count)                                                                         \
    "{\"title\": \"T\", \"columns\": [{\"name\": \"a\"}, {\"name\": \"b\"}], \"rows\": " rows      \
    ", \"row_count\": " count "}"

static void test_tables(void **state)
{
    static const struct pair pairs[] = {
        { TABLE("[[1, \"x\"]]", "1"), TABLE("[[1, \"x\"]]", "1"), NULL },
        { TABLE("[[0.3, null]]", "1"), TABLE("[[0.30000000000000004, null]]", "1"), NULL },
        { TABLE("[[1, \"x\"]]", "1"), TABLE("[[1, \"y\"]]", "1"),
          "row 1, column \"b\": \"x\" before, \"y\" now" },
        { TABLE("[[1, 2], [3, 4]]", "2"), TABLE("[[3, 4], [1, 2]]", "2"),
          "row 1, column \"a\": 1 before, 3 now" },
        { TABLE("[[1, 2]]", "1"), TABLE("[[1, 2]]", "2"), "1 rows before, 2 now" },
        { TABLE("[[1, 2]]", "5"), TABLE("[]", "5"), "1 rows shown before, 0 now" },
        { TABLE("[[1, 2]]", "1"), TABLE("[[1]]", "1"), "row 1 has 1 cells instead of 2" },
        { TABLE("[[1, [1]]]", "1"), TABLE("[[1, [2]]]", "1"),
          "row 1, column \"b\": a list of 1 before, a list of 1 now" },
        { "{\"columns\": [{\"name\": \"a\"}]}", "{\"columns\": [{\"name\": \"b\"}]}",
          "column 1 was \"a\" and is \"b\"" },
        { "{\"columns\": [{\"name\": \"a\"}]}", "{\"columns\": []}", "1 columns before, 0 now" },
        { "{}", "{}", NULL },
        { "5", "[]", NULL }, /* neither is a table */
        { "{\"rows\": 5}", "{\"rows\": {}}", NULL },
    };

    (void) state;
    check_pairs(pairs, ARRAY_LEN(pairs), compare_tables);
}

static void test_charts(void **state)
{
    static const struct pair pairs[] = {
        { "{\"data\": [{\"y\": [1, 2]}], \"layout\": {\"width\": 5}}",
          "{\"data\": [{\"y\": [1, 2]}], \"layout\": {\"width\": 6}}", NULL },
        { "{\"data\": [{\"y\": [1], \"uid\": \"a\"}]}",
          "{\"data\": [{\"y\": [1], \"uid\": \"b\"}]}", NULL },
        { "{\"data\": [{\"y\": [1], \"uid\": \"a\"}]}", "{\"data\": [{\"y\": [1]}]}", NULL },
        { "{\"data\": [{\"y\": [1, 2]}]}", "{\"data\": [{\"y\": [1, 3]}]}",
          "trace 1, y, item 2: 2 before, 3 now" },
        { "{\"data\": [{\"y\": [1, 2]}]}", "{\"data\": [{\"y\": [1]}]}",
          "trace 1, y: a list of 2 before, a list of 1 now" },
        { "{\"data\": [{\"y\": [0.3]}]}", "{\"data\": [{\"y\": [0.30000000000000004]}]}", NULL },
        { "{\"data\": [{}, {}]}", "{\"data\": [{}]}", "2 traces before, 1 now" },
        { "{\"data\": [{\"a\": 1}]}", "{\"data\": [{\"b\": 1}]}",
          "trace 1, a: 1 before, nothing now" },
        { "{\"data\": [{}]}", "{\"data\": [{\"b\": 1}]}", "trace 1, b: nothing before, 1 now" },
        { "{\"layout\": {\"title\": \"A\"}}", "{\"layout\": {\"title\": {\"text\": \"A\"}}}",
          NULL },
        { "{\"layout\": {\"title\": \"A\"}}", "{\"layout\": {\"title\": {\"text\": \"B\"}}}",
          "title: \"A\" before, \"B\" now" },
        { "{\"layout\": {\"xaxis\": {\"title\": {\"text\": \"A\"}}}}", "{\"layout\": {}}",
          "title of xaxis: \"A\" before, nothing now" },
        /* 1.0, 2.0 as doubles; 1.0, 3.0; 1, 2 as bytes */
        { "{\"data\": [{\"y\": {\"dtype\": \"f8\", \"bdata\": \"AAAAAAAA8D8AAAAAAAAAQA==\"}}]}",
          "{\"data\": [{\"y\": {\"dtype\": \"f8\", \"bdata\": \"AAAAAAAA8D8AAAAAAAAAQA==\"}}]}",
          NULL },
        { "{\"data\": [{\"y\": {\"dtype\": \"f8\", \"bdata\": \"AAAAAAAA8D8AAAAAAAAAQA==\"}}]}",
          "{\"data\": [{\"y\": {\"dtype\": \"f8\", \"bdata\": \"AAAAAAAA8D8AAAAAAAAIQA==\"}}]}",
          "trace 1, y, item 2: 2 before, 3 now" },
        { "{\"data\": [{\"y\": {\"dtype\": \"f8\", \"bdata\": \"AAAAAAAA8D8AAAAAAAAAQA==\"}}]}",
          "{\"data\": [{\"y\": {\"dtype\": \"i1\", \"bdata\": \"AQI=\"}}]}", NULL },
        { "{\"data\": [{\"y\": {\"dtype\": \"i1\", \"bdata\": \"AQI=\"}}]}",
          "{\"data\": [{\"y\": {\"dtype\": \"i1\", \"bdata\": \"AQ==\"}}]}",
          "trace 1, y: 2 items before, 1 now" },
        { "{\"data\": [{\"y\": {\"dtype\": \"i1\", \"bdata\": \"/w==\"}}]}",
          "{\"data\": [{\"y\": {\"dtype\": \"u1\", \"bdata\": \"/w==\"}}]}",
          "trace 1, y, item 1: -1 before, 255 now" },
        /* what cannot be decoded is compared as text */
        { "{\"data\": [{\"y\": {\"dtype\": \"f8\", \"bdata\": \"AA\"}}]}",
          "{\"data\": [{\"y\": {\"dtype\": \"f8\", \"bdata\": \"AB\"}}]}",
          "trace 1, y, bdata: \"AA\" before, \"AB\" now" },
        { "{\"data\": [{\"y\": {\"dtype\": \"x3\", \"bdata\": \"AA\"}}]}",
          "{\"data\": [{\"y\": {\"dtype\": \"x3\", \"bdata\": \"AA\"}}]}", NULL },
        { "5", "[]", NULL },
        { "{\"data\": 5}", "{\"data\": {}}", NULL },
    };

    (void) state;
    check_pairs(pairs, ARRAY_LEN(pairs), compare_charts);
}

static void test_one_more(void **state)
{
    json_t *one = load("[{\"title\": \"A\"}]"),
           *two = load("[{\"title\": \"A\"}, {\"title\": \"B\"}]");
    json_t *more = compare_tables(one, two), *less = compare_tables(two, one);
    json_t *none = compare_charts(NULL, NULL);

    (void) state;
    assert_int_equal(json_array_size(more), 2);
    assert_true(is_equal(json_array_get(more, 0)));
    assert_false(is_equal(json_array_get(more, 1)));
    assert_string_equal(missing(json_array_get(more, 1)), "before");
    assert_string_equal(missing(json_array_get(less, 1)), "after");
    assert_string_equal(json_string_value(json_object_get(json_array_get(less, 1), "title")), "B");
    assert_int_equal(json_array_size(none), 0);
    json_decref(one);
    json_decref(two);
    json_decref(more);
    json_decref(less);
    json_decref(none);
}

/* ---- bounds ---- */

static void test_many_differences(void **state)
{
    json_t *before = json_array(), *after = json_array(), *a, *b, *result, *list;

    (void) state;
    for (int i = 0; i < 1000; i++) {
        (void) json_array_append_new(before, json_pack("[i]", i));
        (void) json_array_append_new(after, json_pack("[i]", i + 1));
    }
    a = json_pack("[{s:o}]", "rows", before);
    b = json_pack("[{s:o}]", "rows", after);
    result = compare_tables(a, b);
    list = json_object_get(json_array_get(result, 0), "differences");
    assert_int_equal(json_array_size(list), COMPARE_DIFFERENCES_MAX + 1);
    assert_string_equal(json_string_value(json_array_get(list, COMPARE_DIFFERENCES_MAX)),
                        "and 980 more");
    json_decref(a);
    json_decref(b);
    json_decref(result);
}

static void test_deep_and_long(void **state)
{
    json_t *deep = json_integer(1), *other = json_integer(2), *a, *b, *result;
    autofree char *text = malloc(100001);
    json_t *differences;

    (void) state;
    for (int i = 0; i < 1000; i++) {
        deep = json_pack("[o]", deep);
        other = json_pack("{s:o}", "é\"\n and a key that is much longer than what is shown", other);
    }
    a = json_pack("[{s:[{s:o}]}]", "data", "y", deep);
    b = json_pack("[{s:[{s:o}]}]", "data", "y", other);
    result = compare_charts(a, a);
    differences = json_object_get(json_array_get(result, 0), "differences");
    assert_int_equal(json_array_size(differences), 1);
    assert_non_null(strstr(json_string_value(json_array_get(differences, 0)), "too deep"));
    json_decref(result);
    result = compare_charts(b, b);
    assert_false(is_equal(json_array_get(result, 0)));
    json_decref(result);
    result = compare_tables(a, b);
    json_decref(result);
    json_decref(a);
    json_decref(b);

    memset(text, 'x', 100000);
    text[100000] = '\0';
    a = json_pack("[{s:[{s:s}]}]", "data", text, text);
    b = json_pack("[{s:[{s:s}]}]", "data", text, "");
    result = compare_charts(a, b);
    differences = json_object_get(json_array_get(result, 0), "differences");
    assert_true(strlen(json_string_value(json_array_get(differences, 0))) < 300);
    json_decref(result);
    json_decref(a);
    json_decref(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),        cmocka_unit_test(test_values_by_name),
        cmocka_unit_test(test_tables),        cmocka_unit_test(test_charts),
        cmocka_unit_test(test_one_more),      cmocka_unit_test(test_many_differences),
        cmocka_unit_test(test_deep_and_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
