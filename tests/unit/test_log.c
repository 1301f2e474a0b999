/* The log's lines: one event is one line, whatever the values hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"

#include "base/banned.h"

#define END                                                                                        \
    {                                                                                              \
        NULL, LOG_FIELD_END, NULL, 0                                                               \
    }

static const char *line_of(enum log_format format, const char *event,
                           const struct log_field *fields)
{
    static char buf[LOG_LINE_MAX + 1];
    size_t len =
        log_format_line(format, LOG_LEVEL_INFO, INT64_C(1700000000123456), event, fields, buf);

    assert_true(len > 0 && len <= LOG_LINE_MAX);
    buf[len] = '\0';
    assert_int_equal(strlen(buf), len);
    assert_int_equal(buf[len - 1], '\n');
    assert_ptr_equal(strchr(buf, '\n'), buf + len - 1); /* no other end of line */
    return buf;
}

static void test_json(void **state)
{
    const struct log_field fields[] = { LOG_TEXT("method", "GET"), LOG_INT("status", -200),
                                        LOG_MSEC("ms", 1234), LOG_TEXT("none", NULL), END };

    (void) state;
    assert_string_equal(line_of(LOG_FORMAT_JSON, "request", fields),
                        "{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"info\","
                        "\"event\":\"request\",\"method\":\"GET\",\"status\":-200,"
                        "\"ms\":1.234}\n");
}

static void test_text(void **state)
{
    const struct log_field fields[] = { LOG_TEXT("path", "/v1/{id}"), LOG_TEXT("say", "two words"),
                                        LOG_TEXT("empty", ""), END };

    (void) state;
    assert_string_equal(line_of(LOG_FORMAT_TEXT, "request", fields),
                        "2023-11-14T22:13:20.123Z info request path=/v1/{id} say=\"two words\" "
                        "empty=\"\"\n");
}

static void test_hostile_values(void **state)
{
    static const struct {
        const char *value, *shown;
    } cases[] = {
        { "a\nb", "\"a\\u000ab\"" },
        { "\r\x1b[31m", "\"\\u000d\\u001b[31m\"" },
        { "say \"hi\" \\", "\"say \\\"hi\\\" \\\\\"" },
        { "\x7f\xc2\x9b", "\"\\u007f\\u009b\"" },
        { "\xff\xc3", "\"\\ufffd\\ufffd\"" },
        { "\xe2\x80\xae", "\"\\u202e\"" },
        { "gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\"" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct log_field fields[] = { LOG_TEXT("v", cases[i].value), END };

        assert_non_null(strstr(line_of(LOG_FORMAT_JSON, "x", fields), cases[i].shown));
        assert_non_null(strstr(line_of(LOG_FORMAT_TEXT, "x", fields), cases[i].shown));
    }
}

static void test_long_values_are_cut(void **state)
{
    char *big = malloc(100001);

    (void) state;
    assert_non_null(big);
    memset(big, '"', 100000);
    big[100000] = '\0';
    for (int format = 0; format < 2; format++) {
        const struct log_field fields[] = { LOG_TEXT("a", big), LOG_TEXT("b", big), LOG_INT("c", 1),
                                            END };
        const char *line = line_of((enum log_format) format, big, fields);

        if (format == LOG_FORMAT_JSON)
            assert_string_equal(line + strlen(line) - 3, "\"}\n");
        else
            assert_string_equal(line + strlen(line) - 2, "\"\n");
    }
    free(big);
}

static void test_levels(void **state)
{
    struct gb_err err;

    (void) state;
    assert_true(log_wants(LOG_LEVEL_INFO));
    assert_false(log_wants(LOG_LEVEL_DEBUG));
    assert_int_equal(log_open(LOG_LEVEL_DEBUG, LOG_FORMAT_JSON, "/nowhere/at/all", &err), -2);
    assert_int_equal(log_open(LOG_LEVEL_ERROR, LOG_FORMAT_JSON, "/dev/null", &err), 0);
    assert_false(log_wants(LOG_LEVEL_WARNING));
    log_event(LOG_LEVEL_ERROR, "x", LOG_INT("n", 1));
    log_close();
    assert_true(log_wants(LOG_LEVEL_INFO));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),           cmocka_unit_test(test_text),
        cmocka_unit_test(test_hostile_values), cmocka_unit_test(test_long_values_are_cut),
        cmocka_unit_test(test_levels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
