/* Labels, over a service that runs nothing and has room for eight sessions. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_service.h"
#include "server/compat/labels.h"

static const struct caller nobody = { .listener = NULL },
                           somebody = { .principal = { PRINCIPAL_KEY, "key_1" } };
static struct service *service;
static struct labels *labels;

static struct label_scope scope(const struct caller *caller, const void *listener,
                                const char *label)
{
    return (struct label_scope){ service, caller, listener, label };
}

/* The id of the label's session, or NULL without one. */
static const char *use(struct label_scope at, bool make, bool *ret_made)
{
    struct session *session = NULL;
    struct fault fault = { 0 };

    assert_int_equal(labels_session(labels, &at, make, &session, ret_made, &fault), 0);
    return session ? session_id(session) : NULL;
}

static void end(struct label_scope at)
{
    struct session *session = NULL;
    struct fault fault = { 0 };
    bool made;

    assert_int_equal(labels_session(labels, &at, false, &session, &made, &fault), 0);
    assert_int_equal(session_delete(session, &fault), 0);
}

static int set_up(void **state)
{
    (void) state;
    service = fake_service_new();
    labels = labels_new();
    return labels ? 0 : -1;
}

static int tear_down(void **state)
{
    (void) state;
    labels_free(labels);
    labels_free(NULL);
    fake_service_free(service);
    return 0;
}

static void test_names(void **state)
{
    char longest[LABEL_MAX + 2];

    (void) state;
    memset(longest, 'x', sizeof longest);
    longest[LABEL_MAX] = '\0';
    assert_true(label_is_valid("a"));
    assert_true(label_is_valid("A.b_c-9"));
    assert_true(label_is_valid(longest));
    longest[LABEL_MAX] = 'x';
    longest[LABEL_MAX + 1] = '\0';
    assert_false(label_is_valid(longest));
    assert_false(label_is_valid(""));
    assert_false(label_is_valid("a b"));
    assert_false(label_is_valid("a/b"));
    assert_false(label_is_valid("\xc3\xa9"));
    assert_true(label_is_id("ses_0123456789abcdef0123456789abcdef"));
    assert_false(label_is_id("ses_0123456789abcdef0123456789abcdeg"));
    assert_false(label_is_id("ses_1"));
}

static void test_made_once_for_each(void **state)
{
    char first[SESSION_ID_MAX];
    bool made;
    int a, b; /* listeners */

    (void) state;
    assert_null(use(scope(&nobody, &a, "x"), false, &made));
    snprintf(first, sizeof first, "%s", use(scope(&nobody, &a, "x"), true, &made));
    assert_true(made);
    assert_string_equal(use(scope(&nobody, &a, "x"), true, &made), first);
    assert_false(made);
    assert_string_equal(use(scope(&nobody, &a, "x"), false, &made), first);
    assert_string_not_equal(use(scope(&nobody, &a, ""), true, &made), first);
    assert_string_not_equal(use(scope(&nobody, &b, "x"), true, &made), first);
    assert_string_not_equal(use(scope(&somebody, &a, "x"), true, &made), first);
    labels_forget(labels, &(struct label_scope){ service, &nobody, &a, "x" });
    assert_null(use(scope(&nobody, &a, "x"), false, &made));
    assert_string_not_equal(use(scope(&nobody, &a, "x"), true, &made), first);
}

static void test_loss(void **state)
{
    struct label_scope at = scope(&nobody, NULL, "x"), other = scope(&nobody, NULL, "y");
    char words[LABEL_LOSS_MAX];
    bool made;

    (void) state;
    assert_false(labels_take_loss(labels, &at, words));
    (void) use(at, true, &made);
    end(at);
    assert_false(labels_take_loss(labels, &at, words)); /* nobody has noticed yet */
    assert_null(use(at, false, &made));
    labels_note_loss(labels, &at, "later words"); /* the first ones stay */
    (void) use(at, true, &made);
    assert_true(made);
    assert_false(labels_take_loss(labels, &other, words));
    assert_true(labels_take_loss(labels, &at, words));
    assert_non_null(strstr(words, "the session has ended"));
    assert_false(labels_take_loss(labels, &at, words));
    labels_note_loss(labels, &at, "forgotten");
    labels_forget(labels, &at);
    assert_false(labels_take_loss(labels, &at, words));
}

/* A session that cannot be made leaves no label, but what is to be told stays. */
static void test_no_room(void **state)
{
    struct label_scope at = scope(&nobody, NULL, "last");
    struct session *session = NULL;
    struct fault fault = { 0 };
    char name[16], words[LABEL_LOSS_MAX];
    bool made;

    (void) state;
    (void) use(at, true, &made);
    end(at);
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "n%d", i);
        (void) use(scope(&nobody, NULL, name), true, &made);
    }
    /* The fake gives the same ids again, so this one is somebody else's by now. */
    labels_note_loss(labels, &at, "words");
    at.label = "another";
    assert_int_equal(labels_session(labels, &at, true, &session, &made, &fault), -1);
    assert_int_equal(fault.kind, FAULT_TOO_MANY);
    assert_null(use(at, false, &made));
    at.label = "last";
    assert_true(labels_take_loss(labels, &at, words));
}

static void *use_first(void *arg)
{
    bool *made = arg;

    (void) use(scope(&nobody, NULL, "race"), true, made);
    return NULL;
}

static void test_at_once(void **state)
{
    pthread_t threads[8];
    bool made[8] = { 0 };
    int count = 0;

    (void) state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_first, &made[i]), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 8; i++)
        count += made[i];
    assert_int_equal(count, 1);
}

/* The one that was not used for longest makes way. */
static void test_many(void **state)
{
    struct label_scope at = scope(&nobody, NULL, "kept"), old = scope(&nobody, NULL, "old");
    char name[16], words[LABEL_LOSS_MAX];

    (void) state;
    labels_note_loss(labels, &old, "old");
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "n%d", i);
        labels_note_loss(labels, &at, "kept");
        labels_note_loss(labels, &(struct label_scope){ service, &nobody, NULL, name }, "x");
    }
    assert_false(labels_take_loss(labels, &old, words));
    assert_true(labels_take_loss(labels, &at, words));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test_setup_teardown(test_made_once_for_each, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_loss, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
