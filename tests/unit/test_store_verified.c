/* The conformance suite of the store, continued: verified answers. Nothing but the headers is
 * used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/attachments.h"
#include "store/chats.h"
#include "store/verified.h"

#include "store_harness.h"

#include "base/banned.h"

#define NO_LIMIT (-1)

static char question[] = "Which region grew fastest?";
static char content[] = "{\"cells\":[]}";

static struct store_verified verified_of(const char *id, const char *owner, bool shared,
                                         int64_t time_us)
{
    struct store_verified verified = {
        .shared = shared, .created_us = time_us, .question = question, .content = content
    };

    snprintf(verified.id, sizeof verified.id, "%s", id);
    snprintf(verified.message_id, sizeof verified.message_id, "m-%s", id);
    snprintf(verified.owner, sizeof verified.owner, "%s", owner);
    return verified;
}

static void add(struct harness_store *f, const char *id, const char *owner, bool shared,
                int64_t time_us)
{
    struct store_verified verified = verified_of(id, owner, shared, time_us);

    assert_int_equal(store_verified_add(f->store, &verified, NULL, 0, NO_LIMIT, &f->err), 0);
}

static void assert_listed(struct harness_store *f, const char *owner, bool shared_too,
                          const char *after, size_t limit, const char *ids)
{
    struct store_verified *list = NULL;
    char found[256] = "";
    size_t len = 0;

    assert_int_equal(
        store_verified_list(f->store, owner, shared_too, after, limit, &list, &len, &f->err), 0);
    for (size_t i = 0; i < len; i++) {
        size_t used = strlen(found);

        snprintf(found + used, sizeof found - used, "%s%s", i > 0 ? " " : "", list[i].id);
        assert_null(list[i].content);
        assert_string_equal(list[i].question, question);
    }
    assert_string_equal(found, ids);
    store_verified_free(list, len);
}

static void test_add_get(void **state)
{
    struct harness_store *f = *state;
    struct store_verified verified = verified_of("v1", "ann", true, 5), got;

    assert_int_equal(store_verified_add(f->store, &verified, NULL, 0, NO_LIMIT, &f->err), 0);
    assert_int_equal(store_verified_get(f->store, "ann", "v1", &got, &f->err), 0);
    assert_string_equal(got.message_id, "m-v1");
    assert_string_equal(got.content, content);
    assert_true(got.shared);
    assert_int_equal(got.created_us, 5);
    assert_int_equal(got.checked_us, 0);
    assert_int_equal(got.passed, -1);
    store_verified_release(&got);
    assert_int_equal(store_verified_get(f->store, NULL, "v1", &got, &f->err), 0);
    store_verified_release(&got);
    assert_int_equal(store_verified_get(f->store, "bob", "v1", &got, &f->err), -ENOENT);
    assert_int_equal(store_verified_get(f->store, "ann", "v2", &got, &f->err), -ENOENT);
    assert_int_equal(store_verified_of(f->store, "bob", "m-v1", &got, &f->err), -ENOENT);
    assert_int_equal(store_verified_of(f->store, "ann", "m-v1", &got, &f->err), 0);
    assert_string_equal(got.id, "v1");
    store_verified_release(&got);
}

static void test_once(void **state)
{
    struct harness_store *f = *state;
    struct store_verified again = verified_of("v1", "ann", false, 1);

    add(f, "v1", "ann", false, 1);
    snprintf(again.id, sizeof again.id, "v2");
    assert_int_equal(store_verified_add(f->store, &again, NULL, 0, NO_LIMIT, &f->err), -EEXIST);
    assert_int_equal(store_verified_delete(f->store, "bob", "v1", &f->err), -ENOENT);
    assert_int_equal(store_verified_delete(f->store, "ann", "v1", &f->err), 0);
    assert_int_equal(store_verified_delete(f->store, "ann", "v1", &f->err), -ENOENT);
    assert_int_equal(store_verified_add(f->store, &again, NULL, 0, NO_LIMIT, &f->err), 0);
    assert_int_equal(store_verified_delete(f->store, NULL, "v2", &f->err), 0);
}

static void test_list(void **state)
{
    struct harness_store *f = *state;
    struct store_verified *list = NULL;
    size_t len = 0;

    add(f, "a1", "ann", false, 1);
    add(f, "a2", "ann", false, 2);
    add(f, "a3", "ann", true, 2);
    add(f, "b1", "bob", true, 3);
    add(f, "b2", "bob", false, 4);
    assert_listed(f, "ann", false, NULL, 10, "a3 a2 a1");
    assert_listed(f, "ann", true, NULL, 10, "b1 a3 a2 a1");
    assert_listed(f, "eve", true, NULL, 10, "b1 a3");
    assert_listed(f, NULL, false, NULL, 10, "b2 b1 a3 a2 a1");
    assert_listed(f, NULL, false, NULL, 2, "b2 b1");
    assert_listed(f, NULL, false, "b1", 2, "a3 a2");
    assert_listed(f, "ann", false, "a3", 10, "a2 a1");
    assert_int_equal(store_verified_list(f->store, "ann", false, "gone", 1, &list, &len, &f->err),
                     -ENOENT);
}

static void test_checked(void **state)
{
    struct harness_store *f = *state;
    struct store_verified got;

    add(f, "v1", "ann", false, 1);
    assert_int_equal(store_verified_checked(f->store, "v2", 7, true, &f->err), -ENOENT);
    for (int passed = 0; passed <= 1; passed++) {
        assert_int_equal(store_verified_checked(f->store, "v1", 7 + passed, passed, &f->err), 0);
        assert_int_equal(store_verified_get(f->store, "ann", "v1", &got, &f->err), 0);
        assert_int_equal(got.passed, passed);
        assert_int_equal(got.checked_us, 7 + passed);
        store_verified_release(&got);
    }
}

static struct store_input input_of(enum store_input_kind kind, int byte, int64_t size)
{
    struct store_input input = { .kind = kind, .size = size };

    memset(input.sha256, byte, sizeof input.sha256);
    return input;
}

/* A file that a verified answer needs is not one that a sweep may remove. */
static void test_inputs(void **state)
{
    struct harness_store *f = *state;
    struct store_verified verified = verified_of("v1", "ann", false, 1);
    struct store_input inputs[] = { input_of(STORE_INPUT_FILE, 1, 10),
                                    input_of(STORE_INPUT_FILE, 1, 10),
                                    input_of(STORE_INPUT_RESULT, 2, 10) };
    bool has = true;

    assert_int_equal(store_attachment_has(f->store, inputs[0].sha256, &has, &f->err), 0);
    assert_false(has);
    assert_int_equal(store_verified_add(f->store, &verified, inputs, 3, 20, &f->err), 0);
    assert_int_equal(store_attachment_has(f->store, inputs[0].sha256, &has, &f->err), 0);
    assert_true(has);
    assert_int_equal(store_attachment_has(f->store, inputs[2].sha256, &has, &f->err), 0);
    assert_false(has); /* a result is in another directory */
    assert_int_equal(store_verified_delete(f->store, "ann", "v1", &f->err), 0);
    assert_int_equal(store_attachment_has(f->store, inputs[0].sha256, &has, &f->err), 0);
    assert_false(has);
}

static void test_share(void **state)
{
    struct harness_store *f = *state;
    struct store_input inputs[] = { input_of(STORE_INPUT_FILE, 1, 10),
                                    input_of(STORE_INPUT_FILE, 2, 11) };
    struct store_verified verified = verified_of("v1", "ann", false, 1), got;

    assert_int_equal(store_verified_add(f->store, &verified, inputs, 1, 20, &f->err), 0);
    verified = verified_of("v2", "ann", false, 1);
    assert_int_equal(store_verified_add(f->store, &verified, inputs, 2, 20, &f->err), -EDQUOT);
    assert_int_equal(store_verified_get(f->store, "ann", "v2", &got, &f->err), -ENOENT);
    /* The same content again takes no more room. */
    assert_int_equal(store_verified_add(f->store, &verified, inputs, 1, 20, &f->err), 0);
    verified = verified_of("v3", "bob", false, 1);
    assert_int_equal(store_verified_add(f->store, &verified, inputs + 1, 1, 20, &f->err), 0);
}

static void test_count(void **state)
{
    struct harness_store *f = *state;
    struct store_verified verified;
    char id[32];

    for (int i = 0; i < STORE_VERIFIED_MAX; i++) {
        snprintf(id, sizeof id, "v%d", i);
        add(f, id, "ann", false, 1);
    }
    verified = verified_of("more", "ann", false, 1);
    assert_int_equal(store_verified_add(f->store, &verified, NULL, 0, NO_LIMIT, &f->err), -EDQUOT);
    add(f, "other", "bob", false, 1);
}

static void test_owner_delete(void **state)
{
    struct harness_store *f = *state;
    struct store_verified got;

    add(f, "v1", "ann", true, 1);
    add(f, "v2", "bob", true, 1);
    assert_int_equal(store_owner_delete(f->store, "ann", &f->err), 0);
    assert_int_equal(store_verified_get(f->store, NULL, "v1", &got, &f->err), -ENOENT);
    assert_int_equal(store_verified_get(f->store, NULL, "v2", &got, &f->err), 0);
    store_verified_release(&got);
}

static void test_bad(void **state)
{
    struct harness_store *f = *state;
    struct store_verified verified = verified_of("v1", "ann", false, 1), got;
    struct store_input input = input_of(STORE_INPUT_FILE, 1, -1);
    static char bad[] = "\xff", none[] = "";
    char *longest = malloc(STORE_VERIFIED_BYTES_MAX + 2);

    assert_non_null(longest);
    memset(longest, 'x', STORE_VERIFIED_BYTES_MAX + 1);
    longest[STORE_VERIFIED_BYTES_MAX + 1] = '\0';
    verified.content = longest;
    assert_int_equal(store_verified_add(f->store, &verified, NULL, 0, -1, &f->err), -E2BIG);
    verified.content = bad;
    assert_int_equal(store_verified_add(f->store, &verified, NULL, 0, -1, &f->err), -EINVAL);
    verified.content = none;
    assert_int_equal(store_verified_add(f->store, &verified, NULL, 0, -1, &f->err), -EINVAL);
    verified.content = content;
    assert_int_equal(store_verified_add(f->store, &verified, &input, 1, -1, &f->err), -EINVAL);
    verified.id[0] = '\0';
    assert_int_equal(store_verified_add(f->store, &verified, NULL, 0, -1, &f->err), -EINVAL);
    assert_int_equal(store_verified_get(f->store, NULL, "a b", &got, &f->err), -EINVAL);
    longest[STORE_VERIFIED_BYTES_MAX] = '\0';
    verified = verified_of("v1", "ann", false, 1);
    verified.content = longest;
    assert_int_equal(store_verified_add(f->store, &verified, NULL, 0, -1, &f->err), 0);
    free(longest);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_add_get, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_once, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_list, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_checked, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_inputs, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_share, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_count, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_owner_delete, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_bad, harness_setup, harness_teardown),
    };

    if (!harness_choose(argc, argv))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
