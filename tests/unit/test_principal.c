/* Principals: made from keys, compared, and written as text. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "service/access/principal.h"

static const struct principal local;

static struct principal key(const char *id)
{
    struct principal principal;

    assert_int_equal(principal_from_key(id, &principal), 0);
    return principal;
}

static void test_local(void **state)
{
    (void) state;
    assert_true(principal_is_local(&local));
    assert_string_equal(principal_text(&local), "local");
    assert_string_equal(principal_record(&local), "");
}

static void test_key(void **state)
{
    struct principal alice = key("aaaaaaaaaaaa");

    (void) state;
    assert_false(principal_is_local(&alice));
    assert_string_equal(principal_text(&alice), "aaaaaaaaaaaa");
    assert_string_equal(principal_record(&alice), "aaaaaaaaaaaa");
}

/* No principal is cut to fit: two long ids with one beginning would be one owner. */
static void test_bad_ids(void **state)
{
    struct principal principal = local;
    char id[PRINCIPAL_ID_MAX + 1];

    (void) state;
    assert_int_equal(principal_from_key("", &principal), -EINVAL);
    memset(id, 'a', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    assert_int_equal(principal_from_key(id, &principal), -EINVAL);
    assert_true(principal_equal(&principal, &local));
    id[sizeof id - 2] = '\0';
    principal = key(id);
    assert_string_equal(principal_text(&principal), id);
}

static void test_equal(void **state)
{
    struct principal alice = key("aaaaaaaaaaaa"), again = key("aaaaaaaaaaaa"), bob = key("b");
    struct principal called_local = key("local"), nameless = { .kind = PRINCIPAL_KEY };

    (void) state;
    assert_true(principal_equal(&local, &local));
    assert_true(principal_equal(&alice, &again));
    assert_false(principal_equal(&alice, &bob));
    assert_false(principal_equal(&alice, &local));
    assert_false(principal_equal(&called_local, &local));
    assert_false(principal_equal(&nameless, &local)); /* the kind counts, not only the id */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local),
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_bad_ids),
        cmocka_unit_test(test_equal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
