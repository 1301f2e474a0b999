/* The file of the policy gate: what it may say, and the errors about what it may not. What the gate
 * finds in code is tested in test_gate.py, and both together in tests/system/test_mark_box.py. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/autoclean.h"
#include "mark/agent/gate.h"

#include "base/banned.h"

/* Loads a file with this text. NULL: it is good; else the error, for the next call. */
static const char *load(const char *text, size_t len)
{
    static struct gb_err err;
    char path[] = "/tmp/glovebox-test-gate-XXXXXX";
    int fd = mkstemp(path);
    struct gate *gate = NULL;
    int r;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), (ssize_t) len);
    (void) close(fd);
    r = gate_load(path, &gate, &err);
    (void) unlink(path);
    assert_int_equal(r == 0, gate != NULL);
    gate_free(gate);
    return r == 0 ? NULL : err.msg;
}

static void test_good_files(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"shell\": false}",
        "{\"dunders\": true, \"shell\": true, \"comment\": [\"anything\"]}",
        "{\"deny\": {}, \"allow\": {}}",
        "{\"deny\": {\"imports\": [\"os\", \"xml.etree\", \"_x1\"]}}",
        "{\"deny\": {\"calls\": [\"os.system\", \"eval\", \"shutil.*\", \".to_pickle\"]}}",
        "{\"deny\": {\"calls\": [\"a.b.*\"]}}",
        "{\"deny\": {\"names\": [\"__globals__\"]}, \"allow\": {\"imports\": []}}",
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const char *error = load(texts[i], strlen(texts[i]));

        if (error)
            fail_msg("%s: %s", texts[i], error);
    }
}

static void test_bad_files(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { "", "not JSON" },
        { "{", "line 1 is not JSON" },
        { "{\n\n\"deny\"\n}", "line 4 is not JSON" },
        { "[]", "must hold a JSON object" },
        { "\"x\"", "not JSON" },
        { "{\"denies\": {}}", "has \"denies\"; it may have" },
        { "{\"shell\": 1}", "\"shell\" must be true or false" },
        { "{\"dunders\": \"no\"}", "\"dunders\" must be true or false" },
        { "{\"deny\": []}", "\"deny\" must be an object" },
        { "{\"allow\": {\"modules\": []}}", "\"allow\" has \"modules\"" },
        { "{\"deny\": {\"imports\": \"os\"}}", "\"deny\".\"imports\" must be a list" },
        { "{\"deny\": {\"imports\": [\"os\", 5]}}", "entry 2 (not text)" },
        { "{\"deny\": {\"imports\": [\"\"]}}", "entry 1 ()" },
        { "{\"deny\": {\"imports\": [\"os.\"]}}", "entry 1 (os.)" },
        { "{\"deny\": {\"imports\": [\".os\"]}}", "entry 1 (.os)" },
        { "{\"deny\": {\"imports\": [\"a..b\"]}}", "entry 1 (a..b)" },
        { "{\"deny\": {\"imports\": [\"os.*\"]}}", "is not a name such as \"os\"" },
        { "{\"deny\": {\"imports\": [\"a b\"]}}", "entry 1 (a b)" },
        { "{\"deny\": {\"imports\": [\"1a\"]}}", "entry 1 (1a)" },
        { "{\"deny\": {\"calls\": [\"*\"]}}", "entry 1 (*)" },
        { "{\"deny\": {\"calls\": [\".*\"]}}", "entry 1 (.*)" },
        { "{\"deny\": {\"calls\": [\"a.*.b\"]}}", "entry 1 (a.*.b)" },
        { "{\"deny\": {\"calls\": [\".a.b\"]}}", "entry 1 (.a.b)" },
        { "{\"deny\": {\"calls\": [\"os.system()\"]}}", "such as \"os.system\"" },
        { "{\"deny\": {\"names\": [\"a.b\"]}}", "such as \"__globals__\"" },
        { "{\"deny\": {\"names\": [\"\xc3\xa9\"]}}", "entry 1" },
        { "{\"shell\": true, \"shell\": false}", "duplicate" },
        { "{\"comment\": [[[[[[[[[[[[[[]]]]]]]]]]]]]]}", "nested too deeply" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *error = load(cases[i].text, strlen(cases[i].text));

        if (!error || !strstr(error, cases[i].error))
            fail_msg("%s: %s", cases[i].text, error ? error : "accepted");
    }
}

static void test_files_that_are_none(void **state)
{
    struct gate *gate = NULL;
    struct gb_err err;
    size_t len = 300 * 1024;
    char *text = malloc(len);

    (void) state;
    assert_true(gate_load("/nowhere/gate.json", &gate, &err) < 0);
    assert_non_null(strstr(err.msg, "/nowhere/gate.json"));
    assert_true(gate_load("/tmp", &gate, &err) < 0);
    assert_non_null(strstr(err.msg, "is not a file"));
    assert_non_null(text);
    memset(text, ' ', len);
    assert_non_null(strstr(load(text, len), "is larger than"));
    memcpy(text, "{\"comment\": \"a\0b\"}", 18);
    assert_non_null(load(text, 18));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_files),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_files_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
