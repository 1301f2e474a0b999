/* Errors: how the three kinds of messages read. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

#include "base/banned.h"

static void test_messages(void **state)
{
    struct gb_err err;

    (void) state;
    assert_int_equal(gb_fail(&err, ENOENT, "open '%s'", "a"), -ENOENT);
    assert_int_equal(err.code, ENOENT);
    assert_string_equal(err.msg, "cannot open 'a': No such file or directory");
    assert_int_equal(gb_fail_about(&err, EPIPE, "the builder exited"), -EPIPE);
    assert_string_equal(err.msg, "the builder exited: Broken pipe");
    assert_int_equal(gb_fail_plain(&err, EINVAL, "%d is odd", 3), -EINVAL);
    assert_int_equal(err.code, EINVAL);
    assert_string_equal(err.msg, "3 is odd");
}

static void test_long(void **state)
{
    char name[300];
    struct gb_err err;

    (void) state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(gb_fail(&err, EIO, "read %s", name), -EIO);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_memory_equal(err.msg, "cannot read xxx", 15);
    assert_int_equal(gb_fail_about(&err, EIO, "%s", name), -EIO);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
}

static void test_nobody_reads_it(void **state)
{
    (void) state;
    assert_int_equal(gb_fail(NULL, EIO, "x"), -EIO);
    assert_int_equal(gb_fail_about(NULL, EIO, "x"), -EIO);
    assert_int_equal(gb_fail_plain(NULL, EIO, "x"), -EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_nobody_reads_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
