/* Shares, on both backends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>

#include "store/chats.h"
#include "store/shares.h"

#include "store_harness.h"

#include "base/banned.h"

#define NOTEBOOK "{\"nbformat\":4,\"cells\":[\"\xc3\xa9\"]}"

static struct store_share share_of(const char *id, const char *owner, int64_t now_us)
{
    struct store_share share = { .size = sizeof NOTEBOOK - 1,
                                 .created_us = now_us,
                                 .expires_us = now_us + 100,
                                 .notebook = (char *) NOTEBOOK };

    snprintf(share.id, sizeof share.id, "%s", id);
    snprintf(share.owner, sizeof share.owner, "%s", owner);
    snprintf(share.title, sizeof share.title, "title of %s", id);
    return share;
}

static int add(struct harness_store *f, const char *id, const char *owner, int64_t now_us,
               int64_t count_max, int64_t bytes_max)
{
    struct store_share share = share_of(id, owner, now_us);

    return store_share_add(f->store, &share, count_max, bytes_max, &f->err);
}

static size_t count(struct harness_store *f, const char *owner, int64_t now_us)
{
    struct store_share *list;
    size_t len;

    assert_int_equal(store_share_list(f->store, owner, now_us, &list, &len, &f->err), 0);
    for (size_t i = 0; i < len; i++)
        assert_null(list[i].notebook);
    free(list);
    return len;
}

static void test_keeps(void **state)
{
    struct harness_store *f = *state;
    struct store_share got, *list;
    size_t len;

    assert_int_equal(add(f, "shr_1", "ann", 1000, 9, 9999), 0);
    assert_int_equal(add(f, "shr_2", "ann", 1001, 9, 9999), 0);
    assert_int_equal(add(f, "shr_3", "bob", 1002, 9, 9999), 0);
    assert_int_equal(store_share_get(f->store, "shr_1", 1050, &got, &f->err), 0);
    assert_string_equal(got.notebook, NOTEBOOK);
    assert_string_equal(got.title, "title of shr_1");
    assert_string_equal(got.owner, "ann");
    assert_true(got.size == sizeof NOTEBOOK - 1 && got.created_us == 1000 &&
                got.expires_us == 1100);
    store_share_release(&got);
    assert_int_equal(store_share_list(f->store, "ann", 1050, &list, &len, &f->err), 0);
    assert_int_equal(len, 2);
    assert_string_equal(list[0].id, "shr_2"); /* the youngest */
    free(list);
    assert_int_equal(count(f, "carol", 1050), 0);
    assert_int_equal(store_share_get(f->store, "shr_4", 0, &got, &f->err), -ENOENT);
}

static void test_owners(void **state)
{
    struct harness_store *f = *state;
    struct store_share got;

    assert_int_equal(add(f, "shr_1", "ann", 1000, 9, 9999), 0);
    assert_int_equal(add(f, "shr_2", "bob", 1000, 9, 9999), 0);
    assert_true(add(f, "shr_1", "bob", 1000, 9, 9999) < 0); /* the id is taken */
    assert_int_equal(store_share_delete(f->store, "bob", "shr_1", &f->err), -ENOENT);
    assert_int_equal(store_share_delete(f->store, "ann", "shr_1", &f->err), 0);
    assert_int_equal(store_share_delete(f->store, "ann", "shr_1", &f->err), -ENOENT);
    assert_int_equal(add(f, "shr_3", "ann", 1000, 9, 9999), 0);
    assert_int_equal(store_owner_delete(f->store, "bob", &f->err), 0);
    assert_int_equal(store_share_get(f->store, "shr_2", 1000, &got, &f->err), -ENOENT);
    assert_int_equal(count(f, "ann", 1000), 1);
}

static void test_bounds(void **state)
{
    struct harness_store *f = *state;
    int64_t size = sizeof NOTEBOOK - 1;

    assert_int_equal(add(f, "shr_1", "ann", 1000, 2, 9999), 0);
    assert_int_equal(add(f, "shr_2", "ann", 1000, 2, 2 * size - 1), -EDQUOT);
    assert_int_equal(add(f, "shr_2", "ann", 1000, 2, 2 * size), 0);
    assert_int_equal(add(f, "shr_3", "ann", 1000, 2, 9999), -EDQUOT);
    assert_int_equal(add(f, "shr_3", "bob", 1000, 2, size - 1), -EDQUOT);
    assert_int_equal(add(f, "shr_3", "bob", 1000, 2, size), 0); /* another's do not count */
    /* Those that have expired do not either. */
    assert_int_equal(add(f, "shr_4", "ann", 1100, 2, 9999), 0);
    assert_int_equal(count(f, "ann", 0), 1);
}

static void test_ends(void **state)
{
    struct harness_store *f = *state;
    struct store_share got;

    assert_int_equal(add(f, "shr_1", "ann", 1000, 9, 9999), 0);
    assert_int_equal(add(f, "shr_2", "bob", 1050, 9, 9999), 0);
    assert_int_equal(store_share_get(f->store, "shr_1", 1099, &got, &f->err), 0);
    store_share_release(&got);
    assert_int_equal(store_share_get(f->store, "shr_1", 1100, &got, &f->err), -ENOENT);
    assert_int_equal(count(f, "ann", 1100), 0);
    assert_int_equal(store_share_prune(f->store, 1099, &f->err), 0);
    assert_int_equal(store_share_prune(f->store, 1100, &f->err), 1);
    assert_int_equal(count(f, "ann", 0), 0);
    assert_int_equal(count(f, "bob", 0), 1);
}

static void *add_some(void *arg)
{
    struct harness_store *f = arg;
    static _Atomic int next;
    struct gb_err err;
    long added = 0;

    for (int i = 0; i < 10; i++) {
        struct store_share share;
        char id[32];

        snprintf(id, sizeof id, "shr_%d", ++next);
        share = share_of(id, "ann", 1000);
        added += store_share_add(f->store, &share, 7, 9999, &err) == 0;
    }
    return (void *) added;
}

/* Two that come at the same time cannot get past the bound together. */
static void test_at_once(void **state)
{
    struct harness_store *f = *state;
    pthread_t threads[4];
    void *one;
    long added = 0;

    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_some, f), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_join(threads[i], &one), 0);
        added += (long) one;
    }
    assert_int_equal(added, 7);
    assert_int_equal(count(f, "ann", 1000), 7);
}

static void test_large(void **state)
{
    struct harness_store *f = *state;
    struct store_share share = share_of("shr_1", "ann", 1000), got;
    char *text = malloc(STORE_SHARE_NOTEBOOK_MAX + 2);

    assert_non_null(text);
    memset(text, ' ', STORE_SHARE_NOTEBOOK_MAX + 1);
    text[STORE_SHARE_NOTEBOOK_MAX + 1] = '\0';
    share.notebook = text;
    share.size = STORE_SHARE_NOTEBOOK_MAX + 1;
    assert_int_equal(store_share_add(f->store, &share, 9, INT64_MAX, &f->err), -EINVAL);
    text[STORE_SHARE_NOTEBOOK_MAX] = '\0';
    share.size = STORE_SHARE_NOTEBOOK_MAX;
    assert_int_equal(store_share_add(f->store, &share, 9, INT64_MAX, &f->err), 0);
    assert_int_equal(store_share_get(f->store, "shr_1", 1000, &got, &f->err), 0);
    assert_string_equal(got.notebook, text);
    store_share_release(&got);
    free(text);
}

static void test_bad(void **state)
{
    struct harness_store *f = *state;
    struct store_share share, got;

    share = share_of("a b", "ann", 1000);
    assert_int_equal(store_share_add(f->store, &share, 9, 9999, &f->err), -EINVAL);
    share = share_of("shr_1", "", 1000);
    assert_int_equal(store_share_add(f->store, &share, 9, 9999, &f->err), -EINVAL);
    share = share_of("shr_1", "ann", 1000);
    share.notebook = NULL;
    assert_int_equal(store_share_add(f->store, &share, 9, 9999, &f->err), -EINVAL);
    share.notebook = (char *) "\xff";
    share.size = 1;
    assert_int_equal(store_share_add(f->store, &share, 9, 9999, &f->err), -EINVAL);
    share = share_of("shr_1", "ann", 1000);
    share.size++;
    assert_int_equal(store_share_add(f->store, &share, 9, 9999, &f->err), -EINVAL);
    share = share_of("shr_1", "ann", 1000);
    share.title[0] = '\xff';
    assert_int_equal(store_share_add(f->store, &share, 9, 9999, &f->err), -EINVAL);
    share = share_of("shr_1", "ann", 1000);
    share.expires_us = 1000;
    assert_int_equal(store_share_add(f->store, &share, 9, 9999, &f->err), -EINVAL);
    assert_int_equal(store_share_get(f->store, "'", 0, &got, &f->err), -EINVAL);
    assert_int_equal(store_share_delete(f->store, "ann", "", &f->err), -EINVAL);
    assert_int_equal(count(f, "ann", 0), 0);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, harness_setup, harness_teardown)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        WITH_STORE(test_keeps), WITH_STORE(test_owners),  WITH_STORE(test_bounds),
        WITH_STORE(test_ends),  WITH_STORE(test_at_once), WITH_STORE(test_large),
        WITH_STORE(test_bad),
    };

    if (!harness_choose(argc, argv))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
