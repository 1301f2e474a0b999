/* Lists of strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/strv.h"

static void test_copy_owns_its_strings(void **state)
{
    char first[] = "A=1";
    const char *list[] = { first, "B=", NULL };
    char **copy = NULL;

    (void) state;
    assert_int_equal(strv_copy(list, &copy), 0);
    first[0] = 'X';
    assert_string_equal(copy[0], "A=1");
    assert_string_equal(copy[1], "B=");
    assert_null(copy[2]);
    strv_free(copy);
}

static void test_null_is_an_empty_list(void **state)
{
    char **copy = NULL;

    (void) state;
    assert_int_equal(strv_len(NULL), 0);
    assert_int_equal(strv_copy(NULL, &copy), 0);
    assert_non_null(copy);
    assert_null(copy[0]);
    strv_free(copy);
    strv_free(NULL);
}

static void test_add_appends(void **state)
{
    char **list = NULL;

    (void) state;
    assert_int_equal(strv_add(&list, "one"), 0);
    assert_int_equal(strv_add(&list, ""), 0);
    assert_int_equal(strv_add(&list, "three"), 0);
    assert_int_equal(strv_len((const char *const *) list), 3);
    assert_string_equal(list[0], "one");
    assert_string_equal(list[1], "");
    assert_string_equal(list[2], "three");
    strv_free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_owns_its_strings),
        cmocka_unit_test(test_null_is_an_empty_list),
        cmocka_unit_test(test_add_appends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
