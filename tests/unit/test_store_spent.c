/* What owners spent by day, and their budgets, on both backends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/sources.h"
#include "store/spent.h"

#include "store_harness.h"

#include "base/banned.h"

#define DAY "2026-11-16"

static void assert_spent(struct harness_store *f, const char *owner, const char *day,
                         struct store_spent want)
{
    struct store_spent got;

    assert_int_equal(store_spent_get(f->store, owner, day, &got, &f->err), 0);
    assert_true(got.bytes == want.bytes && got.cost == want.cost && got.tokens == want.tokens &&
                got.us == want.us);
}

static void test_adds(void **state)
{
    struct harness_store *f = *state;
    struct store_spent more = { 1, 2, 3, 4 }, huge = { INT64_MAX / 4, 0, 0, 0 };

    assert_spent(f, "ann", DAY, (struct store_spent){ 0 });
    assert_int_equal(store_spent_add(f->store, "ann", DAY, &more, &f->err), 0);
    assert_int_equal(store_spent_add(f->store, "ann", DAY, &more, &f->err), 0);
    assert_spent(f, "ann", DAY, (struct store_spent){ 2, 4, 6, 8 });
    assert_spent(f, "bob", DAY, (struct store_spent){ 0 });
    assert_spent(f, "ann", "2026-11-17", (struct store_spent){ 0 });
    assert_int_equal(store_spent_add(f->store, "ann", DAY, &huge, &f->err), 0);
    assert_spent(f, "ann", DAY, (struct store_spent){ INT64_MAX / 4, 4, 6, 8 });

    assert_int_equal(store_spent_add(f->store, "ann", "2026-11-15", &more, &f->err), 0);
    assert_int_equal(store_spent_prune(f->store, DAY, &f->err), 0);
    assert_spent(f, "ann", "2026-11-15", (struct store_spent){ 0 });
    assert_spent(f, "ann", DAY, (struct store_spent){ INT64_MAX / 4, 4, 6, 8 });
}

static void test_list(void **state)
{
    struct harness_store *f = *state;
    struct store_spent little = { 1, 10, 3, 4 }, much = { 5, 90, 7, 8 };
    struct store_spent_row *rows;
    size_t len;

    assert_int_equal(store_spent_add(f->store, "ann", "2026-11-14", &much, &f->err), 0);
    assert_int_equal(store_spent_add(f->store, "ann", "2026-11-15", &little, &f->err), 0);
    assert_int_equal(store_spent_add(f->store, "ann", DAY, &little, &f->err), 0);
    assert_int_equal(store_spent_add(f->store, "bob", DAY, &much, &f->err), 0);
    assert_int_equal(store_spent_list(f->store, DAY, 10, &rows, &len, &f->err), 0);
    assert_int_equal(len, 2);
    assert_string_equal(rows[0].owner, "bob");
    assert_true(rows[0].spent.cost == 90 && rows[1].spent.us == 4);
    assert_string_equal(rows[1].day, DAY);
    free(rows);
    assert_int_equal(store_spent_list(f->store, DAY, 1, &rows, &len, &f->err), 0);
    assert_int_equal(len, 1);
    free(rows);
    assert_int_equal(store_spent_list(f->store, "today", 1, &rows, &len, &f->err), -EINVAL);
    assert_int_equal(store_spent_list(f->store, DAY, 0, &rows, &len, &f->err), -EINVAL);
}

static void test_days(void **state)
{
    struct harness_store *f = *state;
    struct store_spent little = { 1, 10, 3, 4 }, huge = { INT64_MAX / 4, 0, 0, 0 };
    struct store_spent_row *rows;
    char owner[16];
    size_t len;

    assert_int_equal(store_spent_add(f->store, "ann", "2026-11-14", &little, &f->err), 0);
    for (int i = 0; i < 1500; i++) { /* more owners than a list has rows */
        snprintf(owner, sizeof owner, "user-%d", i);
        assert_int_equal(store_spent_add(f->store, owner, "2026-11-15", &little, &f->err), 0);
    }
    for (int i = 0; i < 8; i++) { /* more than a number can be */
        snprintf(owner, sizeof owner, "user-%d", i);
        assert_int_equal(store_spent_add(f->store, owner, DAY, &huge, &f->err), 0);
    }
    assert_int_equal(store_spent_days(f->store, "2026-11-15", 10, &rows, &len, &f->err), 0);
    assert_int_equal(len, 2);
    assert_string_equal(rows[0].day, DAY);
    assert_true(rows[0].spent.bytes >= INT64_C(2000000000000000000) && rows[0].spent.cost == 0);
    assert_string_equal(rows[1].day, "2026-11-15");
    assert_true(rows[1].spent.bytes == 1500 && rows[1].spent.cost == 15000);
    assert_true(rows[1].spent.tokens == 4500 && rows[1].spent.us == 6000);
    free(rows);
    assert_int_equal(store_spent_days(f->store, "2026-11-17", 10, &rows, &len, &f->err), 0);
    assert_int_equal(len, 0);
    free(rows);
    assert_int_equal(store_spent_days(f->store, "today", 10, &rows, &len, &f->err), -EINVAL);
}

static void *spend(void *arg)
{
    struct store *store = arg;
    struct store_spent one = { 1, 1, 1, 1 };
    struct gb_err err;

    for (int i = 0; i < 25; i++)
        if (store_spent_add(store, "ann", DAY, &one, &err) < 0)
            return strdup(err.msg);
    return NULL;
}

/* Two processes and four threads: nothing is lost. */
static void test_at_once(void **state)
{
    struct harness_store *f = *state;
    struct store *other = harness_open(f->dir);
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, spend, i % 2 ? other : f->store), 0);
    for (int i = 0; i < 4; i++) {
        void *why = NULL;

        assert_int_equal(pthread_join(threads[i], &why), 0);
        if (why)
            fail_msg("%s", (char *) why);
    }
    store_close(other);
    assert_spent(f, "ann", DAY, (struct store_spent){ 100, 100, 100, 100 });
}

static void test_budgets(void **state)
{
    struct harness_store *f = *state;
    struct store_spent budget = { -1, 5, -1, 0 }, got;

    assert_int_equal(store_budget_get(f->store, "a@b", &got, &f->err), -ENOENT);
    assert_int_equal(store_budget_set(f->store, "a@b", &budget, &f->err), 0);
    assert_int_equal(store_budget_get(f->store, "a@b", &got, &f->err), 0);
    assert_true(got.bytes == -1 && got.cost == 5 && got.tokens == -1 && got.us == 0);
    budget = (struct store_spent){ 1, -1, 2, 3 };
    assert_int_equal(store_budget_set(f->store, "a@b", &budget, &f->err), 0);
    assert_int_equal(store_budget_get(f->store, "a@b", &got, &f->err), 0);
    assert_true(got.bytes == 1 && got.cost == -1 && got.tokens == 2 && got.us == 3);
    assert_int_equal(store_budget_delete(f->store, "a@b", &f->err), 0);
    assert_int_equal(store_budget_delete(f->store, "a@b", &f->err), -ENOENT);
}

static void test_bad(void **state)
{
    static const char *const days[] = { "", "2026-11-1", "2026-11-161", "2026/11/16",
                                        "x026-11-16" };
    struct harness_store *f = *state;
    struct store_spent one = { 1, 1, 1, 1 }, negative = { 0, -1, 0, 0 }, less = { -2, 0, 0, 0 };
    struct store_spent much = { INT64_MAX, 0, 0, 0 };
    char who[STORE_WHO_MAX + 1];

    for (size_t i = 0; i < ARRAY_LEN(days); i++)
        assert_int_equal(store_spent_add(f->store, "ann", days[i], &one, &f->err), -EINVAL);
    assert_int_equal(store_spent_add(f->store, "a b", DAY, &one, &f->err), -EINVAL);
    assert_int_equal(store_spent_add(f->store, "ann", DAY, &negative, &f->err), -EINVAL);
    assert_int_equal(store_spent_add(f->store, "ann", DAY, &much, &f->err), -EINVAL);
    assert_int_equal(store_budget_set(f->store, "a@b", &less, &f->err), -EINVAL);
    assert_int_equal(store_budget_set(f->store, "", &one, &f->err), -EINVAL);
    assert_int_equal(store_budget_set(f->store, "\xff", &one, &f->err), -EINVAL);
    memset(who, 'x', sizeof who);
    who[STORE_WHO_MAX] = '\0';
    assert_int_equal(store_budget_set(f->store, who, &one, &f->err), -EINVAL);
    assert_spent(f, "ann", DAY, (struct store_spent){ 0 });
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, harness_setup, harness_teardown)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        WITH_STORE(test_adds),    WITH_STORE(test_list),    WITH_STORE(test_days),
        WITH_STORE(test_at_once), WITH_STORE(test_budgets), WITH_STORE(test_bad),
    };

    if (!harness_choose(argc, argv))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
