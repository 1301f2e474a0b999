#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "server/v1/terminal_socket.h"

#include "base/banned.h"

static void test_good(void **state)
{
    static const struct {
        const char *text;
        int64_t cols, rows;
    } cases[] = {
        { "{\"type\":\"resize\",\"cols\":80,\"rows\":24}", 80, 24 },
        { " { \"rows\" : 1 , \"type\" : \"resize\" , \"cols\" : 1000 } ", 1000, 1 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t cols = -1, rows = -1;

        assert_int_equal(terminal_message_read(cases[i].text, strlen(cases[i].text), &cols, &rows),
                         0);
        assert_int_equal(cols, cases[i].cols);
        assert_int_equal(rows, cases[i].rows);
    }
}

static void test_bad(void **state)
{
    static const char *const cases[] = {
        "",
        " ",
        "x",
        "null",
        "1",
        "[]",
        "{}",
        "\"resize\"",
        "{\"type\":\"resize\"}",
        "{\"type\":\"resize\",\"cols\":80}",
        "{\"type\":\"resize\",\"rows\":24}",
        "{\"cols\":80,\"rows\":24}",
        "{\"type\":\"Resize\",\"cols\":80,\"rows\":24}",
        "{\"type\":\"input\",\"cols\":80,\"rows\":24}",
        "{\"type\":null,\"cols\":80,\"rows\":24}",
        "{\"type\":0,\"cols\":80,\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":0,\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":-1,\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":1001,\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":80,\"rows\":65616}",
        "{\"type\":\"resize\",\"cols\":80,\"rows\":4294967320}",
        "{\"type\":\"resize\",\"cols\":80,\"rows\":99999999999999999999}",
        "{\"type\":\"resize\",\"cols\":80.5,\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":\"80\",\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":[80],\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":80,\"rows\":24,\"more\":1}",
        "{\"type\":\"resize\",\"cols\":80,\"cols\":81,\"rows\":24}",
        "{\"type\":\"resize\",\"cols\":80,\"rows\":24}{}",
        "{\"type\":\"resize\",\"cols\":80,\"rows\":24",
        "[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]",
    };
    char large[2048];
    int64_t cols = 7, rows = 7;

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (terminal_message_read(cases[i], strlen(cases[i]), &cols, &rows) == 0)
            fail_msg("accepted: %s", cases[i]);
    memset(large, ' ', sizeof large);
    memcpy(large, "{\"type\":\"resize\",\"cols\":80,\"rows\":24}", 38);
    assert_int_equal(terminal_message_read(large, sizeof large, &cols, &rows), -1);
    assert_int_equal(cols, 7);
    assert_int_equal(rows, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
