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
#include "engine/frame.h"
#include "service/execution/receipt.h"

#include "base/banned.h"

#define R   "\xef\xbf\xbd"
#define MIB ((size_t) 1024 * 1024)

static const struct receipt_ids plain_ids = { .execution_id = "exec_1", .execution_count = 1 };

/* The receipt as text says the same as the tree. */
static void check_text(const struct outcome *o, const struct receipt_ids *ids, json_t *tree)
{
    autofree char *text = NULL;
    json_t *parsed;
    json_error_t error;
    size_t len = 0;

    assert_int_equal(receipt_to_text(o, ids, &text, &len), 0);
    parsed = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    assert_non_null(parsed);
    assert_true(json_equal(tree, parsed));
    json_decref(parsed);
}

/* Every test here checks both ways that a receipt is written. */
static json_t *build(const struct outcome *o, const struct receipt_ids *ids)
{
    struct gb_err err = { 0 };
    json_t *json = NULL;

    assert_int_equal(receipt_to_json(o, ids, &json, &err), 0);
    assert_non_null(json);
    check_text(o, ids, json);
    return json;
}

/* The stream lives in the test: outcome_release() is not called on these. */
static struct stream_cut cut_of(char *head, size_t head_len, char *tail, size_t tail_len,
                                int64_t left_out)
{
    return (struct stream_cut){ head, tail, head_len, tail_len, left_out };
}

static struct stream_cut whole(char *text)
{
    return cut_of(text, strlen(text), NULL, 0, 0);
}

static char *dump(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

    assert_non_null(text);
    return text;
}

static void assert_dumps(json_t *json, const char *want)
{
    autofree char *text = dump(json);

    assert_string_equal(text, want);
}

static void test_everything(void **state)
{
    char out[] = "4\n", err_text[] = "Traceback", name[] = "NameError", value[] = "x", tb[] = "t";
    char a[] = "out.csv", b[] = "d/in.csv", c[] = "gone";
    struct file_entry files[] = { { a, 12, FILE_CREATED },
                                  { b, 3, FILE_MODIFIED },
                                  { c, 0, FILE_DELETED } };
    struct outcome o = {
        .status = RUN_TIMEOUT,
        .limit = LIMIT_WALL_TIME,
        .exit_code = 124,
        .wall_us = 2100,
        .cpu_us = 2600,
        .memory_peak_bytes = 1048576,
        .oom_kills = 2,
        .processes = 3,
        .out = whole(out),
        .err = whole(err_text),
        .files = files,
        .files_len = 3,
        .error_name = name,
        .error_name_len = 9,
        .error_value = value,
        .error_value_len = 1,
        .error_traceback = tb,
        .error_traceback_len = 1,
    };
    json_t *json = build(&o, &(struct receipt_ids){ .session_id = "sess_1",
                                                    .execution_id = "exec_1",
                                                    .execution_count = 7,
                                                    .template = "py312",
                                                    .session_lost = true,
                                                    .shell_lost = true });

    (void) state;
    assert_dumps(json,
                 "{\"status\":\"timeout\",\"limit\":\"wall_time\",\"success\":false,"
                 "\"exit_code\":124,\"stdout\":\"4\\n\",\"stderr\":\"Traceback\","
                 "\"execution_time\":0.0021,\"result\":null,\"outputs\":[],"
                 "\"error\":{\"name\":\"NameError\",\"value\":\"x\",\"traceback\":\"t\"},"
                 "\"files\":[{\"path\":\"out.csv\",\"size\":12,\"change\":\"created\"},"
                 "{\"path\":\"d/in.csv\",\"size\":3,\"change\":\"modified\"},"
                 "{\"path\":\"gone\",\"size\":0,\"change\":\"deleted\"}],"
                 "\"truncated\":{\"stdout\":0,\"stderr\":0,\"outputs\":0},"
                 "\"usage\":{\"cpu_ms\":3,\"peak_memory_bytes\":1048576,\"wall_ms\":2,"
                 "\"processes\":3,\"oom_kills\":2,\"hosts\":[]},"
                 "\"session_id\":\"sess_1\",\"execution_id\":\"exec_1\",\"execution_count\":7,"
                 "\"template\":\"py312\","
                 "\"session_lost\":true,\"shell_lost\":true}");
    json_decref(json);
}

static void test_nothing(void **state)
{
    struct outcome o = { .cpu_us = -1, .memory_peak_bytes = -1, .oom_kills = -1, .processes = 1 };
    json_t *json = build(&o, &plain_ids);

    (void) state;
    assert_dumps(json, "{\"status\":\"ok\",\"limit\":null,\"success\":true,\"exit_code\":0,"
                       "\"stdout\":\"\",\"stderr\":\"\",\"execution_time\":0.0,\"result\":null,"
                       "\"outputs\":[],\"error\":null,\"files\":[],"
                       "\"truncated\":{\"stdout\":0,\"stderr\":0,\"outputs\":0},"
                       "\"usage\":{\"cpu_ms\":null,\"peak_memory_bytes\":null,\"wall_ms\":0,"
                       "\"processes\":1,\"oom_kills\":null,\"hosts\":[]},"
                       "\"session_id\":null,\"execution_id\":\"exec_1\",\"execution_count\":1,"
                       "\"template\":\"default\"}");
    json_decref(json);
}

static void test_as_text(void **state)
{
    static const struct receipt_ids in_session = { .session_id = "ses_1",
                                                   .execution_id = "exec_1",
                                                   .execution_count = INT64_MAX };
    static const struct receipt_ids lost = { .session_id = "ses_1",
                                             .execution_id = "exec_1",
                                             .execution_count = 7,
                                             .template = "py312",
                                             .session_lost = true };
    static const struct receipt_ids *const ids[] = { &plain_ids, &in_session, &lost };
    static const int64_t times[] = { -1, 0, 1, 12, 499, 500, 999999, 1000000, 61000001, INT64_MAX };
    char text[] = "a \"quoted\" \\ line\n\tand another/\n", other[] = "~ !";

    (void) state;
    for (int status = RUN_OK; status <= RUN_SYSTEM; status++)
        for (size_t i = 0; i < ARRAY_LEN(times); i++)
            for (size_t k = 0; k < ARRAY_LEN(ids); k++) {
                struct outcome o = { .status = (enum run_status) status,
                                     .limit = status == RUN_OK ? LIMIT_NONE : LIMIT_WALL_TIME,
                                     .exit_code = status == RUN_OK ? 0 : -2147483647,
                                     .wall_us = times[i] < INT64_MAX ? times[i] : 86400000000,
                                     .cpu_us = times[i] / 2,
                                     .memory_peak_bytes = times[i],
                                     .processes = times[i],
                                     .out = whole(text),
                                     .err = whole(k == 0 ? other : text + 4) };

                json_decref(build(&o, ids[k]));
                o.out = o.err = (struct stream_cut){ 0 };
                json_decref(build(&o, ids[k]));
            }
}

/* Every byte that a stream can have, and what lies across the blocks in which text is written. */
static void test_as_text_bytes(void **state)
{
    static const char *const units[] = { "x",        "\"",           "\n",
                                         "\1",       "\x7f",         "\xff",
                                         "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\x8d",
                                         "\xe2\x82" };
    const size_t len = 3 * 4096;
    autofree char *large = malloc(len);
    struct outcome o = { .memory_peak_bytes = INT64_MAX, .processes = INT64_MAX };
    char byte[1], id[101];

    (void) state;
    assert_non_null(large);
    for (int c = 0; c < 256; c++) {
        byte[0] = (char) c;
        o.out = cut_of(byte, 1, NULL, 0, 0);
        json_decref(build(&o, &plain_ids));
    }
    for (size_t shift = 0; shift < 4; shift++)
        for (size_t i = 0; i < ARRAY_LEN(units); i++) {
            size_t unit = strlen(units[i]), at = shift;

            memset(large, 'x', len);
            for (; at + unit <= len; at += unit)
                memcpy(large + at, units[i], unit);
            o.out = o.err = cut_of(large, len, NULL, 0, 0);
            json_decref(build(&o, &plain_ids));
        }
    memset(id, '"', 100);
    id[100] = '\0';
    json_decref(build(&o, &(struct receipt_ids){ .session_id = id, .execution_id = id }));
}

/* What not every receipt has. */
static void test_as_text_rest(void **state)
{
    char text[] = "x", json[] = "{\"data\":{},\"metadata\":{}}";
    struct file_entry file = { text, 1, FILE_CREATED };
    struct bundle bundle = { .json = json, .len = sizeof json - 1 };
    const struct outcome outcomes[] = {
        { .out = cut_of(text, 1, NULL, 0, 5) },
        { .err = cut_of(text, 1, text, 1, 0) },
        { .result = bundle },
        { .outputs = &bundle, .outputs_len = 1 },
        { .outputs_left_out = 1 },
        { .error_name = text, .error_name_len = 1 },
        { .error_value = text },
        { .error_traceback = text },
        { .files = &file, .files_len = 1 },
        { .files_incomplete = true },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++)
        json_decref(build(&outcomes[i], &plain_ids));
}

/* The text itself, with nothing between its parts. */
static void test_text_is_compact(void **state)
{
    static const char start[] =
        "{\"status\":\"ok\",\"limit\":null,\"success\":true,\"exit_code\":0,"
        "\"stdout\":\"\",\"stderr\":\"\",\"execution_time\":61.000500,";
    struct outcome o = { .wall_us = 61000500 };
    autofree char *text = NULL;
    size_t len;

    (void) state;
    assert_int_equal(receipt_to_text(&o, &plain_ids, &text, &len), 0);
    assert_true(len > sizeof start);
    assert_memory_equal(text, start, sizeof start - 1);
}

static void test_contacts(void **state)
{
    static const struct egress_contact contacts[] = {
        { "2001:db8::7", 443, 2, 0, 0, 10, 20 },
        { "evil.example", 80, 0, 3, 1, 0, 0 },
    };
    struct outcome o = { .wall_us = -1 };
    json_t *json = build(&o, &(struct receipt_ids){ .execution_id = "exec_1",
                                                    .contacts = contacts,
                                                    .contacts_len = ARRAY_LEN(contacts) });

    (void) state;
    /* Those that were reached, and all that were asked for. */
    assert_dumps(json_object_get(json_object_get(json, "usage"), "hosts"),
                 "[\"[2001:db8::7]:443\"]");
    assert_dumps(
        json_object_get(json, "network"),
        "[{\"host\":\"2001:db8::7\",\"port\":443,\"requests\":2,\"refused\":0,\"failed\":0,"
        "\"bytes_sent\":10,\"bytes_received\":20},"
        "{\"host\":\"evil.example\",\"port\":80,\"requests\":0,\"refused\":3,\"failed\":1,"
        "\"bytes_sent\":0,\"bytes_received\":0}]");
    json_decref(json);
}

/* What only some receipts have. */
static void test_in_a_session(void **state)
{
    struct outcome o = { .files_incomplete = true };
    json_t *json = build(&o, &(struct receipt_ids){ .session_id = "ses_1" });

    (void) state;
    assert_true(json_is_true(json_object_get(json, "files_incomplete")));
    assert_true(json_is_false(json_object_get(json, "session_lost")));
    assert_null(json_object_get(json, "shell_lost"));
    json_decref(json);
    o.files_incomplete = false;
    json = build(&o, &plain_ids);
    assert_null(json_object_get(json, "files_incomplete"));
    assert_null(json_object_get(json, "session_lost"));
    json_decref(json);
}

/* Only "ok" is a success, whatever the exit code says. */
static void test_success(void **state)
{
    (void) state;
    for (int status = RUN_OK; status <= RUN_SYSTEM; status++) {
        struct outcome o = { .status = (enum run_status) status };
        json_t *json = build(&o, &plain_ids);

        assert_int_equal(json_is_true(json_object_get(json, "success")), status == RUN_OK);
        assert_string_equal(json_string_value(json_object_get(json, "status")),
                            run_status_name(o.status));
        json_decref(json);
    }
}

static void test_error_in_parts(void **state)
{
    char name[] = "E\xff";
    struct outcome o = { .status = RUN_ERROR, .error_name = name, .error_name_len = 2 };
    json_t *json = build(&o, &plain_ids);

    (void) state;
    assert_dumps(json_object_get(json, "error"),
                 "{\"name\":\"E" R "\",\"value\":null,\"traceback\":null}");
    json_decref(json);
}

/* What a tenant says of its error comes past every budget and must not be copied without end. */
static void test_error_bounded(void **state)
{
    const size_t len = 4 * MIB;
    autofree char *words = malloc(len), *text = NULL;
    struct outcome o = {
        .status = RUN_ERROR,
        .error_name = words,
        .error_name_len = len,
        .error_value = words,
        .error_value_len = len,
        .error_traceback = words,
        .error_traceback_len = len,
    };
    json_t *json;

    (void) state;
    assert_non_null(words);
    memset(words, 1, len);
    json = build(&o, &plain_ids);
    text = dump(json_object_get(json, "error"));
    assert_true(strlen(text) < MIB);
    assert_non_null(strstr(text, "bytes left out"));
    json_decref(json);
}

static void test_bytes(void **state)
{
    char out[] = "a\0\x01\x1b\"\\\xff\xe2\x82\xac\x7f", err_text[] = "\xed\xa0\x80";
    char path[] = "n\xff\xc3\xa9\n";
    struct file_entry file = { path, 1, FILE_CREATED };
    struct outcome o = {
        .out = cut_of(out, sizeof out - 1, NULL, 0, 0),
        .err = whole(err_text),
        .files = &file,
        .files_len = 1,
    };
    json_t *json = build(&o, &plain_ids);

    (void) state;
    assert_dumps(json_object_get(json, "stdout"),
                 "\"a\\u0000\\u0001\\u001B\\\"\\\\" R "\xe2\x82\xac\x7f\"");
    assert_dumps(json_object_get(json, "stderr"), "\"" R R R "\"");
    assert_dumps(json_object_get(json_array_get(json_object_get(json, "files"), 0), "path"),
                 "\"n" R "\xc3\xa9\\n\"");
    json_decref(json);
}

struct cut_case {
    const char *head, *tail;
    int64_t left_out;
    const char *text;
};

static const struct cut_case cut_cases[] = {
    { "ab", "yz", 1234, "ab\n… 1234 bytes left out …\nyz" },
    { "", "", 5, "\n… 5 bytes left out …\n" },
    { "ab", "", 1, "ab\n… 1 bytes left out …\n" },
    { "a\xff", "\xfez", 7, "a" R "\n… 7 bytes left out …\n" R "z" },
    { "ab", "yz", 0, "abyz" },
    { "a\xe2\x82", "\xacz", 0, "a\xe2\x82\xacz" },
    { "", "yz", 0, "yz" },
};

static void test_cuts(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cut_cases); i++) {
        const struct cut_case *c = &cut_cases[i];
        autofree char *head = strdup(c->head), *tail = strdup(c->tail);
        struct outcome o = {
            .err = cut_of(head, strlen(head), tail, strlen(tail), c->left_out),
        };
        json_t *json = build(&o, &plain_ids);

        assert_string_equal(json_string_value(json_object_get(json, "stderr")), c->text);
        assert_int_equal(
            json_integer_value(json_object_get(json_object_get(json, "truncated"), "stderr")),
            c->left_out);
        assert_int_equal(
            json_integer_value(json_object_get(json_object_get(json, "truncated"), "stdout")), 0);
        json_decref(json);
    }
}

struct growth_case {
    const char *name;
    char head, tail; /* what they are filled with */
    size_t head_len, tail_len;
    int64_t left_out;
    size_t json_max;
    bool cut; /* further than it came */
};

static const struct growth_case growth_cases[] = {
    { "text", 'x', 'x', MIB, 0, 0, 2 * MIB, false },
    { "newlines", '\n', 'x', MIB, 0, 0, 2 * MIB, false },
    { "quotes", '"', 'x', MIB, 0, 0, 2 * MIB, false },
    { "some control bytes", 1, 'x', 300000, 0, 0, 2 * MIB, false },
    { "control bytes", 1, 'x', MIB, 0, 0, 2 * MIB, true },
    { "NUL bytes", 0, 'x', MIB, 0, 0, 2 * MIB, true },
    { "invalid bytes", '\xff', 'x', MIB, 0, 0, 2 * MIB, true },
    { "control bytes, cut", 1, 1, MIB / 2, MIB / 2, 99, 2 * MIB, true },
    { "head only", 1, 'x', MIB / 2, MIB / 2, 99, 2 * MIB, true },
    { "tail only", 'x', 1, MIB / 2, MIB / 2, 99, 2 * MIB, true },
    { "small budget", 1, 1, 500, 500, 99, 2000, true },
    { "large budget", 'x', 'x', 2 * MIB, 2 * MIB, 99, 8 * MIB, false },
    { "large stream, whole", 'x', 'x', 4 * MIB, 0, 0, 8 * MIB, false },
    { "one byte, cut", 1, 1, 1, 0, 99, 2, true },
};

/* Raw bytes that the text stands for: the filling, without the line in the middle. */
static int64_t count_kept(const char *text, size_t len)
{
    int64_t n = 0;

    for (size_t i = 0; i < len; i++)
        if (text[i] == 'x' || text[i] == '"' || text[i] == '\1' || text[i] == '\0' ||
            text[i] == '\n' || (i + 2 < len && memcmp(text + i, R, 3) == 0))
            n++;
    return n;
}

static void check_growth(const struct growth_case *c, json_t *json)
{
    json_t *out = json_object_get(json, "stdout");
    int64_t left_out =
        json_integer_value(json_object_get(json_object_get(json, "truncated"), "stdout"));
    autofree char *encoded = json_dumps(out, JSON_ENCODE_ANY);
    int64_t came = (int64_t) (c->head_len + c->tail_len) + c->left_out;
    int64_t kept = count_kept(json_string_value(out), json_string_length(out));

    assert_non_null(encoded);
    if (strlen(encoded) > c->json_max + 64 + 2) /* the line and the quotes come on top */
        fail_msg("%s: %zu bytes of JSON", c->name, strlen(encoded));
    if ((left_out > c->left_out) != c->cut)
        fail_msg("%s: %lld left out", c->name, (long long) left_out);
    if (left_out > 0)
        kept -= 2; /* the line's own newlines */
    if (kept + left_out != came)
        fail_msg("%s: kept %lld and left out %lld of %lld", c->name, (long long) kept,
                 (long long) left_out, (long long) came);
    /* Nothing is cut without need: less than one more unit a side would have fitted. */
    if (c->cut && strlen(encoded) + 12 + 2 < c->json_max)
        fail_msg("%s: only %zu bytes of JSON", c->name, strlen(encoded));
}

static void test_growth(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(growth_cases); i++) {
        const struct growth_case *c = &growth_cases[i];
        autofree char *head = malloc(c->head_len + 1), *tail = malloc(c->tail_len + 1);
        struct outcome o = { 0 };
        json_t *json;

        assert_non_null(head);
        assert_non_null(tail);
        memset(head, c->head, c->head_len);
        memset(tail, c->tail, c->tail_len);
        o.out = cut_of(head, c->head_len, tail, c->tail_len, c->left_out);
        json = build(&o, &plain_ids);
        check_growth(c, json);
        json_decref(json);
    }
}

/* ---- what a cell shows ---- */

static struct bundle bundle_of(const char *json)
{
    return (struct bundle){ .json = (char *) json, .len = strlen(json) };
}

static int64_t outputs_left_out(json_t *json)
{
    return json_integer_value(json_object_get(json_object_get(json, "truncated"), "outputs"));
}

static void test_shown(void **state)
{
    struct bundle outputs[] = {
        bundle_of("{\"data\":{\"image/png\":\"aGk=\"},\"metadata\":{\"a\":1}}"),
        bundle_of("{\"data\":{\"text/html\":\"<b>\"}}"),
    };
    struct outcome o = {
        .result = bundle_of("{\"data\":{\"text/plain\":\"4\"},\"metadata\":{}}"),
        .outputs = outputs,
        .outputs_len = 2,
        .outputs_left_out = 5,
    };
    json_t *json;

    (void) state;
    outputs[1].out = INT64_C(1) << 40;
    outputs[1].err = 7;
    json = build(&o, &plain_ids);
    assert_dumps(json_object_get(json, "result"), "{\"text/plain\":\"4\"}");
    assert_dumps(json_object_get(json, "result_metadata"), "{}");
    assert_dumps(json_object_get(json, "outputs"),
                 "[{\"data\":{\"image/png\":\"aGk=\"},\"metadata\":{\"a\":1},"
                 "\"stdout_offset\":0,\"stderr_offset\":0},"
                 "{\"data\":{\"text/html\":\"<b>\"},\"metadata\":{},"
                 "\"stdout_offset\":1099511627776,\"stderr_offset\":7}]");
    assert_int_equal(outputs_left_out(json), 5);
    json_decref(json);
}

#define AS(id, more) "\"metadata\":{\"glovebox\":{\"display_id\":\"" id "\"" more "}}}"
#define TEXT(text)   "{\"data\":{\"text/plain\":\"" text "\"},"
#define UPDATE       ",\"update\":true"
#define CLEAR(how)   "{\"data\":{},\"metadata\":{\"glovebox\":{\"clear\":\"" how "\"}}}"
#define LONG_ID                                                                                    \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"

/* Displays that are updated or cleared: the receipt has what is left. */
static void test_folded(void **state)
{
    static const struct {
        const char *outputs[5];
        const char *texts; /* of those that are left; ! marks one that is an update, + that more was
                              printed after all of them */
    } cases[] = {
        { { TEXT("a") "\"metadata\":{}}", TEXT("b") AS("x", "") }, "a b" },
        { { TEXT("a") AS("x", ""), TEXT("b") AS("y", ""), TEXT("c") AS("x", UPDATE) }, "c b" },
        { { TEXT("a") AS("x", ""), TEXT("b") AS("x", ""), TEXT("c") AS("x", UPDATE) }, "c c" },
        { { TEXT("a") AS("x", ""), TEXT("b") AS("x", UPDATE), TEXT("c") AS("x", UPDATE) }, "c" },
        { { TEXT("a") AS("x", ""), TEXT("b") AS("y", UPDATE) }, "a b!" },
        { { TEXT("b") AS("y", UPDATE), TEXT("c") AS("y", UPDATE) }, "c" },
        { { TEXT("a") AS("x", ""), CLEAR("now"), TEXT("b") AS("x", UPDATE) }, "b!" },
        { { TEXT("a") AS("x", ""), CLEAR("now") }, "" },
        { { TEXT("a") AS("x", ""), CLEAR("wait") }, "a" },
        { { TEXT("a") AS("x", ""), CLEAR("wait") }, "+" },
        { { TEXT("a") AS("x", ""), CLEAR("wait"), TEXT("b") AS("", "") }, "b" },
        { { CLEAR("now"), CLEAR("wait"), TEXT("b") AS("", ""), CLEAR("wait") }, "b" },
        /* what a tenant may also send */
        { { TEXT("a") AS("", ""), TEXT("b") AS("", UPDATE) }, "a b!" },
        { { TEXT("a") "\"metadata\":{\"glovebox\":[1]}}", TEXT("b") "\"metadata\":{}}" }, "a b" },
        { { TEXT("a") "\"metadata\":{\"glovebox\":{\"display_id\":5,\"update\":true}}}" }, "a!" },
        { { TEXT("a") "\"metadata\":{\"glovebox\":{\"clear\":true}}}" }, "a" },
        { { TEXT("a") AS("x\\u0000y", ""), TEXT("b") AS("x\\u0000z", UPDATE) }, "a b!" },
        { { TEXT("a") AS(LONG_ID LONG_ID LONG_ID LONG_ID LONG_ID LONG_ID, ""),
            TEXT("b") AS(LONG_ID LONG_ID LONG_ID LONG_ID LONG_ID LONG_ID, UPDATE) },
          "a b!" },
        { { TEXT("a") AS("x", ""), "{\"glovebox\"", TEXT("b") AS("x", UPDATE) }, "b" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bundle outputs[5];
        struct outcome o = { .outputs = outputs };
        const char *want = cases[i].texts;
        bool clears = false;
        char printed[] = "more", texts[64] = "";
        json_t *json, *item;
        size_t at;

        while (o.outputs_len < 5 && cases[i].outputs[o.outputs_len]) {
            outputs[o.outputs_len] = bundle_of(cases[i].outputs[o.outputs_len]);
            clears |= strstr(cases[i].outputs[o.outputs_len], "clear\":\"") != NULL;
            o.outputs_len++;
        }
        if (want[0] == '+') {
            o.out = whole(printed);
            want++;
        }
        json = build(&o, &plain_ids);
        json_array_foreach (json_object_get(json, "outputs"), at, item) {
            json_t *place = json_object_get(json_object_get(item, "metadata"), "glovebox");
            size_t len = strlen(texts);

            snprintf(
                texts + len, sizeof texts - len, "%s%s%s", at ? " " : "",
                json_string_value(json_object_get(json_object_get(item, "data"), "text/plain")),
                json_object_get(place, "update") ? "!" : "");
        }
        if (strcmp(texts, want) != 0)
            fail_msg("case %zu: '%s', not '%s'", i, texts, want);
        clears &= strcmp(want, "a") != 0; /* it waits for more */
        assert_int_equal(json_object_get(json, "cleared") != NULL, clears);
        json_decref(json);
    }
}

struct bundle_case {
    const char *json;
    const char *data; /* NULL: it is refused */
};

#define DATA(d) "{\"data\":" d "}"

static const struct bundle_case bundle_cases[] = {
    { DATA("{}"), "{}" },
    { DATA("{\"text/plain\":\"\"}"), "{\"text/plain\":\"\"}" },
    { DATA("{\"text/plain\":\"a\\u0000b\"}"), "{\"text/plain\":\"a\\u0000b\"}" },
    { " {\"data\" : {\"a/b\":\"x\"} , \"metadata\":{}, \"more\":1} ", "{\"a/b\":\"x\"}" },
    { DATA("{\"application/json\":[1,null,{\"a\":1.5}]}"),
      "{\"application/json\":[1,null,{\"a\":1.5}]}" },
    { DATA("{\"application/vnd.x+json\":\"text\"}"), "{\"application/vnd.x+json\":\"text\"}" },
    { DATA("{\"image/svg+xml\":\"<svg a='b'/>\"}"), "{\"image/svg+xml\":\"<svg a='b'/>\"}" },
    { DATA("{\"image/png\":\"ab+/==\"}"), "{\"image/png\":\"ab+/==\"}" },
    { DATA("{\"image/jpeg\":\"\"}"), "{\"image/jpeg\":\"\"}" },
    /* not JSON */
    { "", NULL },
    { "x", NULL },
    { "{", NULL },
    { "{\"data\":{}}x", NULL },
    { "{\"data\":{\"text/plain\":\"\xff\"}}", NULL },
    { "{\"data\":{\"text/plain\":\"\xed\xa0\x80\"}}", NULL },
    { "{\"data\":{\"text/plain\":\"\\ud800\"}}", NULL },
    { DATA("{\"application/json\":NaN}"), NULL },
    { DATA("{\"application/json\":123456789012345678901}"), NULL },
    { DATA("{\"application/json\":1e999}"), NULL },
    { DATA("{\"application/json\":{\"\\u0000\":1}}"), NULL },
    /* another shape */
    { "null", NULL },
    { "[]", NULL },
    { "\"data\"", NULL },
    { "{}", NULL },
    { "{\"metadata\":{}}", NULL },
    { DATA("[]"), NULL },
    { DATA("null"), NULL },
    { "{\"data\":{},\"metadata\":[]}", NULL },
    { "{\"data\":{},\"metadata\":null}", NULL },
    /* data that is none */
    { DATA("{\"text/html\":5}"), NULL },
    { DATA("{\"text/html\":null}"), NULL },
    { DATA("{\"text/html\":{\"a\":\"b\"}}"), NULL },
    { DATA("{\"text/plain\":\"ok\",\"text/html\":[]}"), NULL },
    { DATA("{\"image/png\":\"\\\"><script>\"}"), NULL },
    { DATA("{\"image/png\":\"a=b\"}"), NULL },
    { DATA("{\"image/gif\":\"a\\u0000b\"}"), NULL },
    /* names that are none */
    { DATA("{\"\":\"x\"}"), NULL },
    { DATA("{\"text\":\"x\"}"), NULL },
    { DATA("{\"/\":\"x\"}"), NULL },
    { DATA("{\"text/\":\"x\"}"), NULL },
    { DATA("{\"a/b/c\":\"x\"}"), NULL },
    { DATA("{\"text/<b>\":\"x\"}"), NULL },
    { DATA("{\"text/h tml\":\"x\"}"), NULL },
    { DATA("{\"text/\xc3\xa9\":\"x\"}"), NULL },
};

static void test_bundles(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bundle_cases); i++) {
        const struct bundle_case *c = &bundle_cases[i];
        struct bundle output = bundle_of(c->json);
        struct outcome o = { .result = output, .outputs = &output, .outputs_len = 1 };
        json_t *json = build(&o, &plain_ids);
        json_t *result = json_object_get(json, "result"),
               *outputs = json_object_get(json, "outputs");

        if (json_is_null(result) != !c->data || json_array_size(outputs) != (c->data ? 1 : 0))
            fail_msg("%s", c->json);
        if (c->data)
            assert_dumps(result, c->data);
        else
            assert_null(json_object_get(json, "result_metadata"));
        assert_int_equal(outputs_left_out(json), c->data ? 0 : 2);
        json_decref(json);
    }
}

/* @part again and again within an application/json list; the whole is as large as a bundle may be.
 */
static struct bundle filled(const char *part, char **ret_text)
{
    static const char start[] = "{\"data\":{\"application/json\":[0", end[] = "]}}";
    size_t size = strlen(part), len = sizeof start - 1;
    char *text = malloc(FRAME_BUNDLE_MAX);

    assert_non_null(text);
    memcpy(text, start, len);
    for (; len + size + sizeof end < FRAME_BUNDLE_MAX; len += size)
        memcpy(text + len, part, size);
    memcpy(text + len, end, sizeof end);
    *ret_text = text;
    return (struct bundle){ .json = text, .len = len + sizeof end - 1 };
}

/* What would take a hundred times its length is not parsed at all. */
static void test_bundle_growth(void **state)
{
    static const struct {
        const char *part;
        bool shown;
    } cases[] = {
        { ",[]", false },
        { ",{}", false },
        { ",1", false },
        { ",\"\"", false },
        { ",{\"a\":[]}", false },
        { ",\"a string with , : [ { in it\"", true },
        { ",\"\\\",[[[[[[[[[[[[[[[[[[\"", true },
        { ",1234567890", true },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autofree char *text = NULL;
        struct bundle output = filled(cases[i].part, &text);
        struct outcome o = { .outputs = &output, .outputs_len = 1 };
        json_t *json = build(&o, &plain_ids);

        if (json_array_size(json_object_get(json, "outputs")) != (cases[i].shown ? 1 : 0))
            fail_msg("%s", cases[i].part);
        assert_int_equal(outputs_left_out(json), cases[i].shown ? 0 : 1);
        json_decref(json);
    }
}

/* All bundles of a receipt share one account, and the result comes first. */
static void test_bundles_together(void **state)
{
    autofree char *text = NULL;
    struct bundle large = filled(",1234567890", &text);
    struct bundle outputs[] = { large, bundle_of(DATA("{\"text/plain\":\"small\"}")), large };
    struct outcome o = { .result = large, .outputs = outputs, .outputs_len = 3 };
    json_t *json = build(&o, &plain_ids);

    (void) state;
    assert_true(json_is_object(json_object_get(json, "result")));
    assert_dumps(json_object_get(json, "outputs"),
                 "[{\"data\":{\"text/plain\":\"small\"},\"metadata\":{},"
                 "\"stdout_offset\":0,\"stderr_offset\":0}]");
    assert_int_equal(outputs_left_out(json), 2);
    json_decref(json);
}

static void test_bundle_depth(void **state)
{
    static const char start[] = "{\"data\":{\"application/json\":";
    const size_t depth = 500000;
    autofree char *text = malloc(sizeof start + depth);
    struct bundle output = { .json = text, .len = sizeof start - 1 + depth };
    struct outcome o = { .outputs = &output, .outputs_len = 1 };
    json_t *json;

    (void) state;
    assert_non_null(text);
    memcpy(text, start, sizeof start);
    memset(text + sizeof start - 1, '[', depth);
    json = build(&o, &plain_ids);
    assert_int_equal(outputs_left_out(json), 1);
    json_decref(json);
}

static void test_new_id(void **state)
{
    char a[22], b[64], small[21];

    (void) state;
    assert_int_equal(receipt_new_id(a, sizeof a), 0);
    assert_int_equal(receipt_new_id(b, sizeof b), 0);
    assert_int_equal(strlen(a), 21);
    assert_memory_equal(a, "exec_", 5);
    assert_int_equal(strspn(a + 5, "0123456789abcdef"), 16);
    assert_string_not_equal(a, b);
    assert_int_equal(receipt_new_id(small, sizeof small), -ENOBUFS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_success),
        cmocka_unit_test(test_in_a_session),
        cmocka_unit_test(test_as_text),
        cmocka_unit_test(test_as_text_bytes),
        cmocka_unit_test(test_as_text_rest),
        cmocka_unit_test(test_text_is_compact),
        cmocka_unit_test(test_contacts),
        cmocka_unit_test(test_error_in_parts),
        cmocka_unit_test(test_error_bounded),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_shown),
        cmocka_unit_test(test_folded),
        cmocka_unit_test(test_bundles),
        cmocka_unit_test(test_bundle_growth),
        cmocka_unit_test(test_bundles_together),
        cmocka_unit_test(test_bundle_depth),
        cmocka_unit_test(test_new_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
