/* Answers of tenants to looks: whatever they are, a reply has its form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "service/session/look.h"

#include "base/banned.h"

#define OFFSET 10
#define CURSOR 15

static void check(enum look_op op, const char *text, const char *want)
{
    json_t *reply = look_reply(op, text, text ? strlen(text) : 0, OFFSET, CURSOR);
    autofree char *got = json_dumps(reply, JSON_COMPACT);

    assert_non_null(got);
    if (strcmp(got, want) != 0)
        fail_msg("%s\nbecomes %s\nbut not %s", text ? text : "(none)", got, want);
    json_decref(reply);
}

#define NO_MATCHES   "{\"matches\":[],\"start\":15,\"end\":15,\"busy\":false}"
#define NO_HELP      "{\"found\":false,\"text\":\"\",\"busy\":false}"
#define NO_VARIABLES "{\"variables\":[],\"truncated\":false,\"busy\":false}"

static void test_no_answer(void **state)
{
    static const char *const texts[] = {
        NULL, "",     "{",    "[]",     "null",         "7",   "\"x\"",
        "{}", "\xff", "{}{}", "{\"a\"", "{\"a\":\xff}", "nan", "[[[[[[[[[[[[]]]]]]]]]]]]",
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        check(LOOK_COMPLETE, texts[i], NO_MATCHES);
        check(LOOK_INSPECT, texts[i], NO_HELP);
        check(LOOK_VARIABLES, texts[i], NO_VARIABLES);
    }
}

static void test_matches(void **state)
{
    (void) state;
    check(
        LOOK_COMPLETE,
        "{\"matches\":[{\"text\":\"x\",\"type\":\"function\",\"more\":1}],\"start\":3,\"end\":99}",
        "{\"matches\":[{\"text\":\"x\",\"type\":\"function\"}],\"start\":13,\"end\":15,"
        "\"busy\":false}");
    check(LOOK_COMPLETE,
          "{\"matches\":[7,null,[],{},{\"text\":\"\"},{\"text\":7},{\"text\":\"y\"},"
          "{\"text\":\"z\",\"type\":\"evil\"}],\"start\":0,\"busy\":true}",
          "{\"matches\":[{\"text\":\"y\",\"type\":\"instance\"},{\"text\":\"z\",\"type\":"
          "\"instance\"}],\"start\":10,\"end\":15,\"busy\":false}");
    /* Where it begins cannot be after the cursor, or before the text. */
    check(LOOK_COMPLETE, "{\"matches\":[{\"text\":\"x\"}],\"start\":6}", NO_MATCHES);
    check(LOOK_COMPLETE, "{\"matches\":[{\"text\":\"x\"}],\"start\":-1}", NO_MATCHES);
    check(LOOK_COMPLETE, "{\"matches\":[{\"text\":\"x\"}],\"start\":\"0\"}", NO_MATCHES);
    check(LOOK_COMPLETE, "{\"matches\":[{\"text\":\"x\"}]}", NO_MATCHES);
    check(LOOK_COMPLETE, "{\"matches\":[{\"text\":\"x\"}],\"start\":9223372036854775807}",
          NO_MATCHES);
    check(LOOK_COMPLETE, "{\"matches\":{\"text\":\"x\"},\"start\":5}", NO_MATCHES);
}

static void test_help(void **state)
{
    (void) state;
    check(LOOK_INSPECT, "{\"found\":true,\"text\":\"a\\nb\"}",
          "{\"found\":true,\"text\":\"a\\nb\",\"busy\":false}");
    check(LOOK_INSPECT, "{\"found\":false,\"text\":\"x\"}", NO_HELP);
    check(LOOK_INSPECT, "{\"found\":true,\"text\":\"\"}", NO_HELP);
    check(LOOK_INSPECT, "{\"found\":true,\"text\":[]}", NO_HELP);
    check(LOOK_INSPECT, "{\"found\":1,\"text\":\"x\"}", NO_HELP);
}

static void test_variables(void **state)
{
    (void) state;
    check(LOOK_VARIABLES,
          "{\"variables\":[{\"name\":\"x\",\"type\":\"int\",\"summary\":\"1\",\"shape\":[2,3],"
          "\"size_bytes\":28,\"more\":[]}],\"truncated\":true}",
          "{\"variables\":[{\"name\":\"x\",\"type\":\"int\",\"summary\":\"1\",\"shape\":[2,3],"
          "\"size_bytes\":28}],\"truncated\":true,\"busy\":false}");
    check(
        LOOK_VARIABLES,
        "{\"variables\":[{\"name\":\"x\",\"type\":\"t\",\"summary\":[],\"shape\":[-1],"
        "\"size_bytes\":-1},{\"name\":\"y\"},{\"type\":\"t\"},null,{\"name\":\"z\",\"type\":\"t\","
        "\"shape\":[\"x\"],\"size_bytes\":1.5}],\"truncated\":1}",
        "{\"variables\":[{\"name\":\"x\",\"type\":\"t\",\"summary\":\"\"},{\"name\":\"z\",\"type\":"
        "\"t\",\"summary\":\"\"}],\"truncated\":false,\"busy\":false}");
}

/* What an honest runner would not send. */
static void test_bounds(void **state)
{
    json_t *list = json_array(), *answer, *reply;
    autofree char *text = NULL;
    char name[802];

    (void) state;
    for (int i = 0; i < 1000; i++)
        (void) json_array_append_new(list, json_pack("{s:s,s:s}", "text", "x", "name", "x"));
    answer = json_pack("{s:o,s:i}", "matches", list, "start", 0);
    text = json_dumps(answer, 0);
    json_decref(answer);
    reply = look_reply(LOOK_COMPLETE, text, strlen(text), OFFSET, CURSOR);
    assert_int_equal(json_array_size(json_object_get(reply, "matches")), 200);
    json_decref(reply);

    list = json_array(); /* more than there can be is not even read */
    for (int i = 0; i < 5000; i++)
        (void) json_array_append_new(list, json_object());
    answer = json_pack("{s:[{s:s}],s:o,s:i}", "matches", "text", "x", "more", list, "start", 0);
    free(text);
    text = json_dumps(answer, 0);
    json_decref(answer);
    reply = look_reply(LOOK_COMPLETE, text, strlen(text), OFFSET, CURSOR);
    assert_int_equal(json_array_size(json_object_get(reply, "matches")), 0);
    json_decref(reply);

    for (size_t i = 0; i < 800; i += 4) /* 200 characters of 4 bytes, and one more */
        memcpy(name + i, "\xf0\x9f\x98\x80", 4);
    name[800] = '\0';
    for (int more = 0; more < 2; more++) {
        memcpy(name + 800, more ? "x" : "", more ? 2 : 1);
        answer = json_pack("{s:[{s:s}],s:i}", "matches", "text", name, "start", 0);
        free(text);
        text = json_dumps(answer, 0);
        json_decref(answer);
        reply = look_reply(LOOK_COMPLETE, text, strlen(text), OFFSET, CURSOR);
        assert_int_equal(json_array_size(json_object_get(reply, "matches")), !more);
        json_decref(reply);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_answer), cmocka_unit_test(test_matches),
        cmocka_unit_test(test_help),      cmocka_unit_test(test_variables),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
