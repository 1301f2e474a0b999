/* Where the numbers of a story come from: which step and line computed them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/autoclean.h"
#include "mark/story/places.h"
#include "mark/story/story.h"

#include "base/banned.h"

#define EARLIER "00000000-0000-4000-8000-000000000001"

static void add_value(struct evidence *evidence, const char *text)
{
    json_t *value = json_loads(text, 0, NULL);

    assert_non_null(value);
    assert_int_equal(evidence_add_value(evidence, value), 0);
    json_decref(value);
}

static void add_table(struct evidence *evidence, const char *text)
{
    json_t *table = json_loads(text, 0, NULL);

    assert_non_null(table);
    assert_int_equal(evidence_add_table(evidence, table), 0);
    json_decref(table);
}

static void add_output(struct evidence *evidence, int64_t step, const char *text)
{
    evidence_set_step(evidence, step);
    assert_int_equal(evidence_add_output(evidence, text, strlen(text)), 0);
}

/* A chat with an earlier answer, and an answer of three steps. */
static struct evidence *evidence_make(void)
{
    static const char question[] = "What of 5,555 and 777?", data[] = "rows: 4444, columns: 777";
    struct evidence *evidence = evidence_new();

    assert_non_null(evidence);
    assert_int_equal(evidence_add_given(evidence, EVIDENCE_QUESTION, question, strlen(question)),
                     0);
    assert_int_equal(evidence_add_given(evidence, EVIDENCE_DATA, data, strlen(data)), 0);
    add_value(evidence, "{\"name\": \"old\", \"value\": 31.5, \"step\": 2, \"line\": 9, "
                        "\"message_id\": \"" EARLIER "\"}");
    add_value(evidence, "{\"name\": \"both\", \"value\": 6100, \"step\": 1, \"line\": 1, "
                        "\"message_id\": \"" EARLIER "\"}");
    add_output(evidence, 1, "6100 of 8200\n2024-03-01\n");
    assert_int_equal(evidence_add_given(evidence, EVIDENCE_QUERY, "612", 3), 0);
    add_value(evidence, "{\"name\": \"sum\", \"value\": 1203411.37, \"step\": 2, \"line\": 4}");
    add_value(evidence, "{\"name\": \"bare\", \"value\": 99.25, \"step\": 2}");
    add_table(evidence,
              "{\"columns\": [{\"name\": \"region\"}, {\"name\": \"x\"}], \"rows\": [[\"N\", "
              "1203411.37], [\"S\", 5555], [\"W\", 12.346]], \"row_count\": 3, \"step\": 3, "
              "\"line\": 7}");
    add_table(evidence, "{\"columns\": [{\"name\": \"y\"}], \"rows\": [[8200], [4444]], "
                        "\"row_count\": 2, \"step\": 3}");
    return evidence;
}

struct place_case {
    const char *story;
    const char *mark; /* the only one, without its offsets */
};

static const struct place_case places[] = {
    /* filled in */
    { "{{sum}}", "{\"kind\": \"value\", \"name\": \"sum\", \"step\": 2, \"line\": 4}" },
    { "{{bare}}", "{\"kind\": \"value\", \"name\": \"bare\", \"step\": 2}" },
    { "{{old}}", "{\"kind\": \"value\", \"name\": \"old\", \"step\": 2, \"line\": 9, "
                 "\"message_id\": \"" EARLIER "\"}" },
    { "{{none}}", "{\"kind\": \"unsupported\", \"name\": \"none\"}" },
    /* a value before a table that has it too, also if it is rounded */
    { "1,203,411.37", "{\"kind\": \"found\", \"where\": \"value\", \"step\": 2, \"line\": 4}" },
    { "1.2 million", "{\"kind\": \"found\", \"where\": \"value\", \"step\": 2, \"line\": 4}" },
    { "99.25", "{\"kind\": \"found\", \"where\": \"value\", \"step\": 2}" },
    /* a table before an output, the data and the question */
    { "8,200", "{\"kind\": \"found\", \"where\": \"table\", \"step\": 3, \"table\": 2, \"row\": 1, "
               "\"column\": 1}" },
    { "12.35", "{\"kind\": \"found\", \"where\": \"table\", \"step\": 3, \"line\": 7, \"table\": "
               "1, \"row\": 3, \"column\": 2}" },
    { "5,555", "{\"kind\": \"found\", \"where\": \"table\", \"step\": 3, \"line\": 7, \"table\": "
               "1, \"row\": 2, \"column\": 2}" },
    { "4444", "{\"kind\": \"found\", \"where\": \"table\", \"step\": 3, \"table\": 2, \"row\": 2, "
              "\"column\": 1}" },
    /* this answer before an earlier one, and that before what was given */
    { "6100", "{\"kind\": \"found\", \"where\": \"output\", \"step\": 1}" },
    { "1 March 2024", "{\"kind\": \"found\", \"where\": \"output\", \"step\": 1}" },
    { "31.5", "{\"kind\": \"found\", \"where\": \"value\", \"step\": 2, \"line\": 9, "
              "\"message_id\": \"" EARLIER "\"}" },
    { "612", "{\"kind\": \"found\", \"where\": \"query\", \"step\": 1}" },
    { "777", "{\"kind\": \"found\", \"where\": \"data\"}" },
    { "987654", "{\"kind\": \"unsupported\"}" },
};

static void test_places(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct evidence *evidence = evidence_make();
        json_t *expected = json_loads(places[i].mark, 0, NULL), *mark;
        struct story story;

        assert_non_null(expected);
        assert_int_equal(story_check(evidence, places[i].story, &story), 0);
        assert_int_equal(json_array_size(story.marks), 1);
        mark = json_array_get(story.marks, 0);
        (void) json_object_del(mark, "start");
        (void) json_object_del(mark, "end");
        if (!json_equal(mark, expected)) {
            char *text = json_dumps(mark, 0);

            fail_msg("%s: %s instead of %s", places[i].story, text, places[i].mark);
        }
        json_decref(expected);
        story_release(&story);
        evidence_free(evidence);
    }
}

/* Equal before rounded, whatever the places are. */
static void test_equal_first(void **state)
{
    struct evidence *evidence = evidence_new();
    struct story story;
    json_t *mark;

    (void) state;
    assert_non_null(evidence);
    add_value(evidence, "{\"name\": \"near\", \"value\": 11.8, \"step\": 1, \"line\": 1}");
    add_output(evidence, 2, "12");
    assert_int_equal(story_check(evidence, "12 shops", &story), 0);
    mark = json_array_get(story.marks, 0);
    assert_int_equal(json_integer_value(json_object_get(mark, "step")), 2);
    story_release(&story);
    evidence_free(evidence);
}

/* A story of round numbers about a table in which thousands of cells are such: each is found in
 * bounded time, and as many as there are. */
static void test_many(void **state)
{
    struct evidence *evidence = evidence_new();
    json_t *rows = json_array(), *table;
    char *text = malloc(5000 * 12);
    struct story story;
    size_t len = 0;

    (void) state;
    assert_non_null(evidence);
    assert_non_null(text);
    for (int i = 0; i < 100000; i++)
        json_array_append_new(rows, json_pack("[f]", 1000000 + i / 100000.0));
    table = json_pack("{s:[{s:s}], s:o, s:i, s:i}", "columns", "name", "x", "rows", rows,
                      "row_count", 100000, "step", 1);
    assert_non_null(table);
    assert_int_equal(evidence_add_table(evidence, table), 0);
    for (int i = 0; i < 5000; i++)
        len += (size_t) snprintf(text + len, 12, "1,000,000 ");
    assert_int_equal(story_check(evidence, text, &story), 0);
    assert_int_equal(story.checked, 5000);
    /* A row beyond what a tag can name has a step and no row. */
    story_release(&story);
    assert_int_equal(story_check(evidence, "1,000,000.95", &story), 0);
    assert_int_equal(story.checked, 1);
    assert_null(json_object_get(json_array_get(story.marks, 0), "row"));
    assert_int_equal(json_integer_value(json_object_get(json_array_get(story.marks, 0), "step")),
                     1);
    story_release(&story);
    json_decref(table);
    free(text);
    evidence_free(evidence);
}

/* More places than there may be: the kind is kept. */
static void test_full(void **state)
{
    struct places all = { .messages = json_object() };
    struct place place = { .rank = RANK_VALUE };
    struct origin origin;

    (void) state;
    for (int64_t i = 1; i <= 70000; i++) {
        place.step = i;
        origin = places_origin(&all, places_tag(&all, &place));
        assert_string_equal(origin.where, "value");
        assert_true(origin.step == (i <= 65536 ? i : 0));
    }
    place = (struct place){ .rank = RANK_QUESTION, .message_id = places_message(&all, EARLIER) };
    assert_string_equal(place.message_id, EARLIER);
    assert_ptr_equal(place.message_id, places_message(&all, EARLIER));
    assert_null(places_message(&all, NULL));
    origin = places_origin(&all, places_tag(&all, &place) | FROM_INEXACT);
    assert_string_equal(origin.where, "question");
    places_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_equal_first),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
