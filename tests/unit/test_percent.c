/* Escapes in URLs, and what only looks like one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/text/percent.h"

#include "base/banned.h"

static int byte_of(const char *text)
{
    return percent_byte(text, strlen(text));
}

static void test_escapes(void **state)
{
    (void) state;
    assert_int_equal(byte_of("%2F"), '/');
    assert_int_equal(byte_of("%2f"), '/');
    assert_int_equal(byte_of("%00"), 0);
    assert_int_equal(byte_of("%ff"), 255);
    assert_int_equal(byte_of("%255"), '%');
}

static void test_bad(void **state)
{
    static const char *const bad[] = { "",    "%",   "%4",  "4",   "%%4",  "%4%",  "% 4", "%+4",
                                       "%-4", "%0x", "%g0", "%0g", "%\n4", "x%41", "%@0", "%`0" };

    (void) state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (byte_of(bad[i]) != -1)
            fail_msg("'%s' passes", bad[i]);
    assert_int_equal(percent_byte("%41", 2), -1);
    assert_int_equal(percent_byte("%41", 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
