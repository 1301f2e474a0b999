/* JSON that is only looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/compat/json_text.h"

static void test_objects(void **state)
{
    static const char *const texts[] = {
        "{}",
        " {\"a\": 1}\n",
        "{\"a\":[],\"b\":{},\"c\":[1,2,[3]],\"d\":null,\"e\":true,\"f\":false}",
        "{\"n\":123456789012345678901234567890123456789012345678901234567890}",
        "{\"n\":[0,-0,-1.5e+10,1E5,0.25e-3]}",
        "{\"s\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00 \xc3\xa9\"}",
    };

    (void) state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_true(json_text_is_object(texts[i], strlen(texts[i])));
}

static void test_others(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "[]",
        "1",
        "\"x\"",
        "null",
        "{",
        "}",
        "{]",
        "{}}",
        "{} {}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "{1:1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":[1,]}",
        "{\"a\":[1 2]}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":nul}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":+1}",
        "{\"a\":-}",
        "{\"a\":1e}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\u12",
        "{\"a\":\"\n\"}",
        "{\"a\":\"",
        "{\"a\":\"\\",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\xed\xa0\x80\"}",
    };

    (void) state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(json_text_is_object(texts[i], strlen(texts[i])));
    assert_false(json_text_is_object("{\"a\":\"\0\"}", 9));
    assert_false(json_text_is_object("{}\0", 3));
}

static void test_depth(void **state)
{
    char text[4096];

    (void) state;
    memset(text, '[', sizeof text);
    memcpy(text, "{\"a\":", 5);
    assert_false(json_text_is_object(text, sizeof text));
    memset(text + 205, ']', 200);
    text[405] = '}';
    assert_true(json_text_is_object(text, 406));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_depth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
