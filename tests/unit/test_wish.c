#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/clock.h"
#include "service/session/limits_request.h"

#include "base/banned.h"

#define MIB (INT64_C(1) << 20)

static int wish_of(const char *text, struct limits *wish, struct fault *fault)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    int r;

    assert_non_null(json);
    r = limits_wish_from_json(json, wish, fault);
    json_decref(json);
    return r;
}

static void test_good(void **state)
{
    struct fault fault;
    struct limits wish;

    (void) state;
    assert_int_equal(
        wish_of("{\"timeout\": 1.5, \"cpu_time\": 2, \"memory\": \"64m\", \"cpus\": 0.5,"
                " \"pids\": 7, \"disk\": 1048576, \"inodes\": 100, \"file_size\": \"1k\","
                " \"open_files\": 20, \"output\": 0}",
                &wish, &fault),
        0);
    assert_int_equal(wish.wall_us, 1500000);
    assert_int_equal(wish.cpu_us, 2000000);
    assert_int_equal(wish.memory_bytes, 64 * MIB);
    assert_int_equal(wish.cpu_milli, 500);
    assert_int_equal(wish.pids, 7);
    assert_int_equal(wish.disk_bytes, MIB);
    assert_int_equal(wish.disk_inodes, 100);
    assert_int_equal(wish.file_bytes, 1024);
    assert_int_equal(wish.open_files, 20);
    assert_int_equal(wish.output_bytes, 0);
    assert_int_equal(wish_of("{}", &wish, &fault), 0);
    assert_int_equal(wish.wall_us, -1);
    assert_int_equal(limits_wish_from_json(NULL, &wish, &fault), 0);
    assert_int_equal(wish_of("null", &wish, &fault), 0);
}

static void test_bad(void **state)
{
    static const char *const cases[] = {
        "[]",
        "1",
        "\"x\"",
        "{\"timeout\": \"30\"}",
        "{\"timeout\": -1}",
        "{\"timeout\": null}",
        "{\"timeout\": true}",
        "{\"timeout\": [1]}",
        "{\"timeout\": 1e300}",
        "{\"timeout\": 0.0000001}",
        "{\"timeout\": 9223372036854775807}",
        "{\"memory\": 1.5}",
        "{\"memory\": \"much\"}",
        "{\"memory\": \"\"}",
        "{\"memory\": \"-1\"}",
        "{\"memory\": \"64m\\u0000\"}",
        "{\"pids\": 1.5}",
        "{\"pids\": \"7\"}",
        "{\"cpus\": \"1\"}",
        "{\"Memory\": 1}",
        "{\"\": 1}",
        "{\"memory_bytes\": 1}",
    };
    struct fault fault;
    struct limits wish;

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (wish_of(cases[i], &wish, &fault) == 0)
            fail_msg("%s was taken", cases[i]);
        assert_int_equal(fault.kind, FAULT_INVALID);
        assert_true(fault.detail[0] != 0);
    }
}

static void test_ceiling(void **state)
{
    struct limits defaults, ceiling, wish, limits;
    struct wish_bounds bounds = { &defaults, &ceiling, 30 * USEC_PER_SEC, 60 * USEC_PER_SEC };
    struct fault fault;

    (void) state;
    limits_default(&defaults);
    ceiling = defaults;
    ceiling.memory_bytes = 1024 * MIB;
    ceiling.cpu_us = 10 * USEC_PER_SEC;
    limits_wish_init(&wish);
    assert_int_equal(wish_to_limits(&wish, &bounds, &limits, &fault), 0);
    assert_int_equal(limits.wall_us, 30 * USEC_PER_SEC);
    assert_int_equal(limits.memory_bytes, defaults.memory_bytes);
    wish.memory_bytes = 1024 * MIB;
    wish.wall_us = 60 * USEC_PER_SEC;
    wish.disk_bytes = MIB;
    assert_int_equal(wish_to_limits(&wish, &bounds, &limits, &fault), 0);
    assert_int_equal(limits.memory_bytes, 1024 * MIB);
    assert_int_equal(limits.wall_us, 60 * USEC_PER_SEC);
    assert_int_equal(limits.file_bytes, MIB);
    wish.memory_bytes++;
    assert_true(wish_to_limits(&wish, &bounds, &limits, &fault) < 0);
    assert_string_equal(fault.loc, "limits.memory");
    assert_non_null(strstr(fault.detail, "at most 1g"));
    wish.memory_bytes = -1;
    wish.wall_us++;
    assert_true(wish_to_limits(&wish, &bounds, &limits, &fault) < 0);
    assert_string_equal(fault.loc, "limits.timeout");
    wish.wall_us = -1;
    wish.cpu_us = 0; /* none at all is more than any */
    assert_true(wish_to_limits(&wish, &bounds, &limits, &fault) < 0);
    assert_string_equal(fault.loc, "limits.cpu_time");
    ceiling.cpu_us = 0; /* and no ceiling is above every wish */
    assert_int_equal(wish_to_limits(&wish, &bounds, &limits, &fault), 0);
    wish.cpu_us = 100 * USEC_PER_SEC;
    assert_int_equal(wish_to_limits(&wish, &bounds, &limits, &fault), 0);
}

static void test_and_back(void **state)
{
    struct limits limits, again;
    struct fault fault;
    json_t *json;

    (void) state;
    limits_default(&limits);
    limits.wall_us = 1500000;
    json = limits_to_json(&limits);
    assert_int_equal(limits_wish_from_json(json, &again, &fault), 0);
    assert_memory_equal(&limits, &again, sizeof limits);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_ceiling),
        cmocka_unit_test(test_and_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
