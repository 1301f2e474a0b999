/* Budgets of the day: reservations, what is spent, whose limit counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mark/budget/budget.h"
#include "store/users.h"

#include "store_harness.h"

#include "base/banned.h"

static struct caller key_caller(const char *id)
{
    struct caller caller = { 0 };

    assert_int_equal(principal_from_key(id, &caller.principal), 0);
    return caller;
}

static struct budgets *open_budgets(struct harness_store *f, struct store_spent day)
{
    struct budgets_config config = { .store = f->store, .day = day };
    struct budgets *budgets = NULL;

    assert_int_equal(budgets_open(&config, &budgets, &f->err), 0);
    return budgets;
}

static void assert_left(struct budgets *budgets, const struct caller *caller, int64_t tokens)
{
    struct store_spent left;
    struct fault fault;

    assert_int_equal(budget_left(budgets, caller, &left, &fault), 0);
    assert_int_equal(left.tokens, tokens);
}

static void test_reserves(void **state)
{
    struct harness_store *f = *state;
    struct budgets *budgets = open_budgets(f, (struct store_spent){ .tokens = 100 });
    struct caller ann = key_caller("ann"), bob = key_caller("bob");
    struct store_spent sixty = { .tokens = 60 }, forty = { .tokens = 40 }, used = { .tokens = 30 };
    struct store_spent other = { .bytes = INT64_MAX / 8, .us = 1 };
    struct fault fault;

    assert_int_equal(budget_reserve(budgets, &ann, &sixty, &fault), 0);
    assert_left(budgets, &ann, 40);
    assert_true(budget_reserve(budgets, &ann, &sixty, &fault) < 0);
    assert_int_equal(fault.problem, PROBLEM_BUDGET_SPENT);
    assert_int_equal(fault.kind, 429);
    assert_true(fault.retry_after_s > 0 && fault.retry_after_s <= 86400);
    assert_non_null(strstr(fault.detail, "100 tokens a day"));
    assert_non_null(strstr(fault.detail, "40 tokens are left"));
    assert_non_null(strstr(fault.detail, "needs about 60 tokens"));
    assert_non_null(strstr(fault.detail, "resets in"));
    assert_left(budgets, &ann, 40); /* what is refused is not reserved */
    assert_int_equal(budget_reserve(budgets, &bob, &sixty, &fault), 0);
    budget_settle(budgets, &bob, &sixty, NULL);
    assert_int_equal(budget_reserve(budgets, &ann, &forty, &fault), 0);
    assert_left(budgets, &ann, 0);
    budget_settle(budgets, &ann, &sixty, &used);
    assert_left(budgets, &ann, 30);
    budget_settle(budgets, &ann, &forty, NULL);
    assert_left(budgets, &ann, 70);
    assert_int_equal(budget_reserve(budgets, &ann, &other, &fault), 0); /* no limit for those */
    budget_settle(budgets, &ann, &other, NULL);
    budgets_close(budgets);

    /* another process, or the next one */
    budgets = open_budgets(f, (struct store_spent){ .tokens = 100 });
    assert_left(budgets, &ann, 70);
    budgets_close(budgets);
}

struct racer {
    struct budgets *budgets;
    struct caller caller;
    int passed;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    struct store_spent one = { .tokens = 10 };
    struct fault fault;

    for (int i = 0; i < 20; i++)
        if (budget_reserve(racer->budgets, &racer->caller, &one, &fault) == 0) {
            racer->passed++;
            budget_settle(racer->budgets, &racer->caller, &one, &one);
        }
    return NULL;
}

/* However they interleave, no more than the limit is spent. */
static void test_at_once(void **state)
{
    struct harness_store *f = *state;
    struct budgets *budgets = open_budgets(f, (struct store_spent){ .tokens = 300 });
    struct racer racers[4];
    pthread_t threads[4];
    struct store_spent spent;
    char day[STORE_DAY_MAX];
    int passed = 0;

    for (int i = 0; i < 4; i++) {
        racers[i] = (struct racer){ budgets, key_caller("ann"), 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        passed += racers[i].passed;
    }
    budgets_close(budgets);
    budget_day(clock_wall_us(), day);
    assert_int_equal(store_spent_get(f->store, "ann", day, &spent, &f->err), 0);
    assert_true(passed > 0 && passed <= 30);
    assert_int_equal(spent.tokens, 10 * passed);
}

static void test_own_limits(void **state)
{
    struct harness_store *f = *state;
    struct budgets *budgets = open_budgets(f, (struct store_spent){ .tokens = 100, .us = 5 });
    struct store_user user = { .id = "11111111-1111-4111-8111-111111111111",
                               .email = "a@b.c",
                               .password = "h" };
    struct store_spent own = { -1, -1, 7, -1 }, none = { -1, -1, BUDGET_NONE, 0 }, left;
    struct caller ann = { 0 }, key = key_caller("k1"), local = { 0 };
    struct fault fault;
    bool is_operator;

    assert_int_equal(store_user_add(f->store, &user, NULL, &is_operator, &f->err), 0);
    assert_int_equal(principal_from_user(user.id, &ann.principal), 0);
    assert_left(budgets, &ann, 100);
    assert_int_equal(store_budget_set(f->store, "a@b.c", &own, &f->err), 0);
    assert_left(budgets, &ann, 7);
    assert_left(budgets, &key, 100);
    assert_left(budgets, &local, 100);
    assert_int_equal(store_budget_set(f->store, "key:k1", &own, &f->err), 0);
    assert_left(budgets, &key, 7);
    assert_int_equal(store_budget_set(f->store, "a@b.c", &none, &f->err), 0);
    assert_int_equal(budget_left(budgets, &ann, &left, &fault), 0);
    assert_true(left.tokens == INT64_MAX && left.us == 0 && left.bytes == INT64_MAX);
    budgets_close(budgets);
}

static void test_shown(void **state)
{
    struct harness_store *f = *state;
    struct budgets *budgets =
        open_budgets(f, (struct store_spent){ .cost = 2500000, .tokens = 100, .us = 90000000 });
    struct caller ann = key_caller("ann");
    struct store_spent used = { 1, 500000, 20, 1500000 };
    struct fault fault;
    json_t *json = NULL, *want;

    budget_settle(budgets, &ann, NULL, &used);
    assert_int_equal(budget_to_json(budgets, &ann, &json, &fault), 0);
    want = json_pack("{s:n, s:f, s:i, s:f}", "bytes", "cost", 2.0, "tokens", 80, "seconds", 88.5);
    assert_true(json_equal(json_object_get(json, "left"), want));
    json_decref(want);
    want = json_pack("{s:i, s:f, s:i, s:f}", "bytes", 1, "cost", 0.5, "tokens", 20, "seconds", 1.5);
    assert_true(json_equal(json_object_get(json, "used"), want));
    json_decref(want);
    json_decref(json);
    budgets_close(budgets);
}

/* What each limit says when it is reached. */
static void test_each_limit(void **state)
{
    static const struct {
        struct store_spent day, used, need;
        const char *limit, *left, *needed;
    } rows[] = {
        { { .bytes = 3 << 20 },
          { .bytes = 2 << 20 },
          { .bytes = 2 << 20 },
          "3.0 MiB a day",
          "1.0 MiB are left",
          "needs about 2.0 MiB" },
        { { .cost = 2500000 },
          { .cost = 2000000 },
          { .cost = 750000 },
          "$2.50 a day",
          "$0.50 are left",
          "needs about $0.75" },
        { { .tokens = 9 },
          { .tokens = 9 },
          { .tokens = 1 },
          "9 tokens a day",
          "0 tokens are left",
          "needs about 1 tokens" },
        { { .us = 60000000 },
          { .us = 59500000 },
          { .us = 1000000 },
          "60.0 s a day",
          "0.5 s are left",
          "needs about 1.0 s" },
    };
    struct harness_store *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct budgets *budgets = open_budgets(f, rows[i].day);
        char id[2] = { (char) ('a' + (int) i), '\0' };
        struct caller ann = key_caller(id);
        struct fault fault = { 0 };

        budget_settle(budgets, &ann, NULL, &rows[i].used);
        assert_true(budget_reserve(budgets, &ann, &rows[i].need, &fault) < 0);
        assert_int_equal(fault.problem, PROBLEM_BUDGET_SPENT);
        if (!strstr(fault.detail, rows[i].limit) || !strstr(fault.detail, rows[i].left) ||
            !strstr(fault.detail, rows[i].needed))
            fail_msg("%s", fault.detail);
        budgets_close(budgets);
    }
}

static void test_days(void **state)
{
    char day[STORE_DAY_MAX];

    (void) state;
    budget_day(INT64_C(86400) * 1000000 - 1, day);
    assert_string_equal(day, "1970-01-01");
    budget_day(INT64_C(86400) * 1000000, day);
    assert_string_equal(day, "1970-01-02");
}

/* What was spent on another day is not counted. */
static void test_another_day(void **state)
{
    struct harness_store *f = *state;
    struct store_spent all = { .tokens = 100 };
    struct budgets *budgets = open_budgets(f, all);
    struct caller ann = key_caller("ann");
    char day[STORE_DAY_MAX];

    budget_day(clock_wall_us() - INT64_C(2) * 86400 * 1000000, day);
    assert_int_equal(store_spent_add(f->store, "ann", day, &all, &f->err), 0);
    assert_left(budgets, &ann, 100);
    budgets_close(budgets);
}

/* Numbers of sources are strangers' numbers. */
static void test_queries(void **state)
{
    static const struct {
        const char *json;
        int64_t bytes, cost;
    } rows[] = {
        { "{}", 0, 0 },
        { "{\"bytes\": 10, \"money\": 0.0000015}", 10, 2 },
        { "{\"bytes\": null, \"money\": null}", 0, 0 },
        { "{\"bytes\": \"10\", \"money\": []}", 0, 0 },
        { "{\"bytes\": -5, \"money\": -1}", 0, 0 },
        { "{\"bytes\": 1e300, \"money\": 1e300}", INT64_MAX / 8, INT64_MAX / 8 },
        { "{\"bytes\": 9223372036854775807}", INT64_MAX / 8, 0 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *json = json_loads(rows[i].json, 0, NULL);
        struct store_spent spent = budget_of_query(json);

        assert_int_equal(spent.bytes, rows[i].bytes);
        assert_int_equal(spent.cost, rows[i].cost);
        json_decref(json);
    }
    assert_int_equal(budget_of_query(NULL).bytes, 0);
}

static void test_none(void **state)
{
    struct caller ann = key_caller("ann");
    struct store_spent much = { INT64_MAX / 8, 1, 1, 1 };
    struct fault fault;

    (void) state;
    assert_int_equal(budget_reserve(NULL, &ann, &much, &fault), 0);
    budget_settle(NULL, &ann, &much, &much);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, harness_setup, harness_teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_STORE(test_reserves),   WITH_STORE(test_at_once),       WITH_STORE(test_own_limits),
        WITH_STORE(test_shown),      cmocka_unit_test(test_queries), cmocka_unit_test(test_none),
        WITH_STORE(test_each_limit), cmocka_unit_test(test_days),    WITH_STORE(test_another_day),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
