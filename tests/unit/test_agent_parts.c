/* Parts of the agent that read what a model writes, cut anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/agent/events.h"
#include "mark/agent/receipts.h"
#include "mark/agent/stream.h"
#include "mark/agent/work.h"

#include "base/banned.h"

/* ---- one member of the arguments ---- */

/* Feeds @json cut into two at @cut, and into pieces of @piece bytes after that. */
static char *member_in_pieces(const char *json, size_t cut, size_t piece)
{
    struct member_stream stream = { 0 };
    struct text out = { 0 };
    size_t len = strlen(json);

    member_feed(&stream, "code", json, cut, &out);
    for (size_t at = cut; at < len; at += piece)
        member_feed(&stream, "code", json + at, len - at < piece ? len - at : piece, &out);
    member_release(&stream);
    return text_take(&out);
}

static void test_member(void **state)
{
    static const char *const cases[][2] = {
        { "{\"code\": \"print(1)\"}", "print(1)" },
        { "{\"code\":\"a\\nb\\t\\\"c\\\" \\\\ \\/ \\u00e9 \\ud83d\\ude00 z\"}",
          "a\nb\t\"c\" \\ / \xc3\xa9 \xf0\x9f\x98\x80 z" },
        { "{\"x\": {\"code\": \"no\", \"y\": [1, \"},{\\\"\"]}, \"code\": \"yes\"}", "yes" },
        { " {\n \"other\" : \"code\" , \"code\" : \"ok\" , \"more\": 1 } ", "ok" },
        { "{\"coder\": \"no\", \"cod\": \"no\", \"code\": \"\xe2\x82\xac\"}", "\xe2\x82\xac" },
        { "{\"a\\\"code\": \"no\", \"code\": \"yes\"}", "yes" },
        { "{\"\\\\\": 1, \"code\": \"yes\"}", "yes" },
        { "{\"code\": 7}", "" },
        { "{\"code\": null, \"a\": \"code\"}", "" },
        { "{}", "" },
        { "[\"code\", \"no\"]", "" },
        { "not JSON at all", "" },
        { "{\"code\": \"never ends", "never ends" },
        { "{\"code\": \"half \\ud83d\"}", "half " },
        { "{\"code\": \"other \\ude00\"}", "other \xef\xbf\xbd" },
        { "{\"code\": \"a\"} {\"code\": \"b\"}", "a" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t cut = 0; cut <= strlen(cases[i][0]); cut++)
            for (size_t piece = 1; piece < 40; piece += 13) {
                autofree char *got = member_in_pieces(cases[i][0], cut, piece);

                assert_string_equal(got, cases[i][1]);
            }
}

/* ---- references ---- */

static char *find(void *arg, const char *name)
{
    (void) arg;
    return strcmp(name, "total") == 0 ? strdup("42 EUR") : NULL;
}

static void test_references(void **state)
{
    static const char *const cases[][2] = {
        { "It is {{total}}.", "It is 42 EUR." },
        { "{{total}}{{ total }}", "42 EUR42 EUR" },
        { "{{nope}}", "[nope?]" },
        { "a {b} {{c} }} d", "a {b} {{c} }} d" },
        { "{{ not\nclosed }}", "{{ not\nclosed }}" },
        { "{{", "{{" },
        { "{", "{" },
        { "{{}}", "{{}}" },
        { "{{this_name_is_longer_than_any_name_may_be_this_name_is_longer_than_any_name_may_be}}",
          "{{this_name_is_longer_than_any_name_may_be_this_name_is_longer_than_any_name_may_be}}" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t cut = 0; cut <= strlen(cases[i][0]); cut++) {
            struct refs_stream stream = { .len = 0 };
            struct text out = { 0 };
            autofree char *got = NULL;

            refs_feed(&stream, cases[i][0], cut, find, NULL, &out);
            refs_feed(&stream, cases[i][0] + cut, strlen(cases[i][0]) - cut, find, NULL, &out);
            refs_flush(&stream, &out);
            got = text_take(&out);
            assert_string_equal(got, cases[i][1]);
        }
}

/* ---- fenced programs ---- */

static void test_fenced(void **state)
{
    static const char *const cases[][2] = {
        { "```python\nprint(1)\n```", "print(1)\n" },
        { "I look.\n```py\nx\ny\n```\nThen more.", "x\ny\n" },
        { "  ```python3\nx\n  ```", "x\n" },
        { "```python\nnever closed", "never closed" },
        { "```python {.cell}\nx\n```", "x\n" },
        { "```text\nshown\n```\n```python\nrun\n```", "run\n" },
        { "```text\n```python\n```\nno", NULL },
        { "```\nno\n```", NULL },
        { "```pythonista\nno\n```", NULL },
        { "```python\na\n```\n```python\nb\n```", NULL },
        { "in a line ```python\nno", NULL },
        { "plain", NULL },
        { "", NULL },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *code = NULL;
        size_t len = 0, around = 0;
        bool found = fenced_find(cases[i][0], &code, &len, &around);

        if (found != (cases[i][1] != NULL))
            fail_msg("%s", cases[i][0]);
        if (!found)
            continue;
        assert_int_equal(len, strlen(cases[i][1]));
        assert_memory_equal(code, cases[i][1], len);
        assert_int_equal(around + len, strlen(cases[i][0]));
    }
}

/* ---- texts ---- */

static void test_cut(void **state)
{
    struct text text = { 0 };
    char big[1000];

    (void) state;
    for (size_t i = 0; i < sizeof big; i += 2)
        memcpy(big + i, "\xc3\xa9", 2);
    for (size_t max = 0; max < 200; max++) {
        text_add_cut(&text, big, sizeof big, max);
        assert_false(text.failed);
        assert_non_null(strstr(text.data, "bytes left out"));
        assert_true(text.len < max + 60);
        {
            json_t *json = json_stringn(text.data, text.len); /* NULL unless it is UTF-8 */

            assert_non_null(json);
            json_decref(json);
        }
        text_release(&text);
    }
    text_add_cut(&text, big, sizeof big, sizeof big);
    assert_int_equal(text.len, sizeof big);
    text_release(&text);
}

/* The fence's word is not in what it fences, and the same text has the same fence. */
static void test_fence(void **state)
{
    struct text a = { 0 }, b = { 0 }, inner = { 0 };
    char word[32];

    (void) state;
    results_fence(&a, "evil", 4);
    results_fence(&b, "evil", 4);
    assert_string_equal(a.data, b.data);
    /* Somebody who saw the fence of another text uses it. */
    text_puts(&inner, a.data);
    text_release(&b);
    results_fence(&b, inner.data, inner.len);
    memcpy(word, b.data + strlen("<data "), 12);
    word[12] = '\0';
    assert_null(strstr(inner.data, word));
    text_release(&a);
    text_release(&b);
    text_release(&inner);
}

/* ---- the log ---- */

static void test_log(void **state)
{
    struct event_log log = { 0 };
    struct answer_event event;
    char piece[1000];
    int64_t after = 0;
    size_t pieces = 0, bytes = 0;
    int r;

    (void) state;
    assert_int_equal(event_log_next(&log, 0, &event), 0);
    memset(piece, 'x', sizeof piece);
    event_log_add(&log, EV_CHAT, strdup("{}"));
    for (int i = 0; i < 5000; i++) /* far more than is kept */
        event_log_delta(&log, EV_OUTPUT, 1, false, piece, sizeof piece);
    event_log_delta(&log, EV_OUTPUT, 1, false, "\xff", 1); /* not UTF-8 */
    event_log_add(&log, EV_DONE, strdup("{}"));
    event_log_add(&log, EV_CHAT, strdup("{}")); /* after the end */
    assert_true(log.bytes < (size_t) 1024 * 1024);
    while ((r = event_log_next(&log, after, &event)) == 1) {
        assert_true(event.id > after);
        after = event.id;
        pieces++;
        bytes += strlen(event.data);
        free(event.data);
    }
    assert_int_equal(r, -1);
    assert_true(pieces > 5 && pieces < 20); /* joined */
    assert_true(bytes > (size_t) 400 * 1024 && bytes < (size_t) 1024 * 1024);
    assert_int_equal(event_log_next(&log, INT64_MAX, &event), -1);
    event_log_release(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_member), cmocka_unit_test(test_references),
        cmocka_unit_test(test_fenced), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_fence),  cmocka_unit_test(test_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
