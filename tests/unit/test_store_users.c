/* The conformance suite of store/users.h; see test_store.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "store/users.h"

#include "store_harness.h"

#include "base/banned.h"

#define THREADS 8

static struct store_user user_of(const char *id)
{
    struct store_user user = { .created_us = 1000, .valid_from_us = 1000 };

    snprintf(user.id, sizeof user.id, "%s", id);
    snprintf(user.email, sizeof user.email, "%s@example.com", id);
    snprintf(user.name, sizeof user.name, "The %s", id);
    snprintf(user.password, sizeof user.password, "$argon2id$%s", id);
    return user;
}

/* Whether it became the operator. */
static bool add(struct harness_store *f, const char *id)
{
    struct store_user user = user_of(id);
    bool is_operator;

    assert_int_equal(store_user_add(f->store, &user, NULL, &is_operator, &f->err), 0);
    return is_operator;
}

static struct store_user get(struct harness_store *f, const char *id)
{
    struct store_user user;

    assert_int_equal(store_user_get(f->store, id, &user, &f->err), 0);
    return user;
}

static int64_t generation(struct harness_store *f)
{
    int64_t value;

    assert_int_equal(store_user_generation(f->store, &value, &f->err), 0);
    return value;
}

/* ---- users ---- */

static void test_user(void **state)
{
    struct harness_store *f = *state;
    struct store_user user = user_of("ada"), got = { .created_us = 7 };
    int64_t before = generation(f), count;
    bool is_operator = false;

    assert_int_equal(store_user_get(f->store, "ada", &got, &f->err), -ENOENT);
    assert_int_equal(store_user_find(f->store, "ada@example.com", &got, &f->err), -ENOENT);
    assert_int_equal(got.created_us, 7); /* not written */
    assert_int_equal(store_user_add(f->store, &user, NULL, &is_operator, &f->err), 0);
    assert_true(is_operator);
    assert_true(generation(f) > before);
    assert_int_equal(store_user_find(f->store, "ada@example.com", &got, &f->err), 0);
    assert_string_equal(got.id, "ada");
    assert_string_equal(got.name, "The ada");
    assert_string_equal(got.password, "$argon2id$ada");
    assert_true(got.is_operator);
    assert_int_equal(got.created_us, 1000);
    assert_int_equal(got.valid_from_us, 1000);
    assert_int_equal(store_user_find(f->store, "Ada@example.com", &got, &f->err), -ENOENT);

    /* the same address, and the same id */
    snprintf(user.id, sizeof user.id, "eve");
    before = generation(f);
    assert_int_equal(store_user_add(f->store, &user, NULL, &is_operator, &f->err), -EEXIST);
    user = user_of("ada");
    snprintf(user.email, sizeof user.email, "other@example.com");
    assert_int_equal(store_user_add(f->store, &user, NULL, &is_operator, &f->err), -EEXIST);
    assert_int_equal(generation(f), before);
    assert_int_equal(store_user_count(f->store, &count, &f->err), 0);
    assert_int_equal(count, 1);
    assert_false(add(f, "bob"));
    assert_false(get(f, "bob").is_operator);
}

static void test_user_list(void **state)
{
    struct harness_store *f = *state;
    autofree struct store_user *users = NULL;
    struct store_user old = user_of("old");
    size_t len = 7;
    bool is_operator;

    assert_int_equal(store_user_list(f->store, &users, &len, &f->err), 0);
    assert_int_equal(len, 0);
    free(TAKE_PTR(users));
    for (int i = 0; i < 20; i++) {
        char id[16];

        snprintf(id, sizeof id, "u%02d", i);
        (void) add(f, id);
    }
    old.created_us = 1;
    assert_int_equal(store_user_add(f->store, &old, NULL, &is_operator, &f->err), 0);
    assert_int_equal(store_user_list(f->store, &users, &len, &f->err), 0);
    assert_int_equal(len, 21);
    assert_string_equal(users[0].id, "old");
    assert_string_equal(users[20].id, "u19");
}

static void test_guests(void **state)
{
    struct harness_store *f = *state;
    autofree struct store_user *users = NULL;
    struct store_user user = user_of("g1");
    int64_t count, before = generation(f);
    size_t len;

    user.is_operator = true;
    assert_int_equal(store_guest_add(f->store, &user, 2, &f->err), 0);
    assert_true(generation(f) > before);
    assert_true(store_user_is_guest(&user) && !user.is_operator);
    user = get(f, "g1");
    assert_true(store_user_is_guest(&user) && !user.is_operator);
    assert_int_equal(store_user_count(f->store, &count, &f->err), 0);
    assert_int_equal(count, 0);
    assert_true(add(f, "ada")); /* the first who is no guest */
    user = user_of("g2");
    user.created_us = 2000;
    assert_int_equal(store_guest_add(f->store, &user, 2, &f->err), 0);
    user = user_of("g3");
    before = generation(f);
    assert_int_equal(store_guest_add(f->store, &user, 2, &f->err), -EUSERS);
    assert_int_equal(generation(f), before);
    user = user_of("g2");
    assert_int_equal(store_guest_add(f->store, &user, 9, &f->err), -EEXIST);
    assert_int_equal(store_guest_list(f->store, 2000, &users, &len, &f->err), 0);
    assert_int_equal(len, 1);
    assert_string_equal(users[0].id, "g1");
    assert_int_equal(store_user_delete(f->store, "ada", "user-ada", &f->err), 0);
    assert_true(add(f, "bob"));
}

static void test_user_bad(void **state)
{
    struct harness_store *f = *state;
    struct store_user user;
    bool is_operator;

#define REFUSED(change)                                                                            \
    do {                                                                                           \
        user = user_of("x");                                                                       \
        change;                                                                                    \
        assert_int_equal(store_user_add(f->store, &user, NULL, &is_operator, &f->err), -EINVAL);   \
    } while (0)
    REFUSED(user.id[0] = '\0');
    REFUSED(user.id[0] = '/');
    REFUSED(user.email[0] = '\0');
    REFUSED(user.email[0] = '\n');
    REFUSED(memset(user.email, 'a', sizeof user.email));
    REFUSED(memset(user.name, 'a', sizeof user.name));
    REFUSED(user.name[0] = '\xff');
    REFUSED(user.name[0] = '\x1b');
    REFUSED(user.password[0] = '\0');
    REFUSED(memset(user.password, 'a', sizeof user.password));
#undef REFUSED
    assert_int_equal(store_user_rename(f->store, "a b", "n", &f->err), -EINVAL);
    assert_int_equal(store_user_rename(f->store, "x", "n\n", &f->err), -EINVAL);
    assert_int_equal(store_user_rename(f->store, "x", "n", &f->err), -ENOENT);
    assert_int_equal(store_user_set_password(f->store, "x", "", 1, &f->err), -EINVAL);
    assert_int_equal(store_user_set_password(f->store, "x", "h", 1, &f->err), -ENOENT);
    assert_int_equal(store_user_delete(f->store, "x", "", &f->err), -EINVAL);
    assert_int_equal(store_user_delete(f->store, "x", "user-x", &f->err), -ENOENT);
}

static void test_user_changes(void **state)
{
    struct harness_store *f = *state;
    int64_t before;

    (void) add(f, "ada");
    before = generation(f);
    assert_int_equal(store_user_rename(f->store, "ada", "", &f->err), 0);
    assert_string_equal(get(f, "ada").name, "");
    assert_true(generation(f) > before);
    before = generation(f);
    assert_int_equal(store_user_set_password(f->store, "ada", "new", 2000, &f->err), 0);
    assert_string_equal(get(f, "ada").password, "new");
    assert_int_equal(get(f, "ada").valid_from_us, 2000);
    assert_true(generation(f) > before);
    assert_int_equal(store_user_rehash(f->store, "ada", "old", "newer", &f->err), 0);
    assert_string_equal(get(f, "ada").password, "new");
    assert_int_equal(store_user_rehash(f->store, "ada", "new", "newer", &f->err), 0);
    assert_string_equal(get(f, "ada").password, "newer");
    assert_int_equal(get(f, "ada").valid_from_us, 2000);
}

struct racer {
    pthread_t thread;
    const char *dir;
    int n;
    bool is_operator;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    struct store *store = harness_open(racer->dir);
    struct store_user user;
    struct gb_err err;
    char id[16];

    snprintf(id, sizeof id, "u%d", racer->n);
    user = user_of(id);
    if (store_user_add(store, &user, NULL, &racer->is_operator, &err) < 0)
        racer->is_operator = true; /* spoils the count */
    store_close(store);
    return NULL;
}

/* Somebody has to be the operator. */
static void test_operators(void **state)
{
    struct harness_store *f = *state;
    int64_t before;

    assert_true(add(f, "ann"));
    assert_false(add(f, "bob"));
    assert_int_equal(store_user_set_operator(f->store, "ann", false, &f->err), -EPERM);
    before = generation(f);
    assert_int_equal(store_user_set_operator(f->store, "bob", true, &f->err), 0);
    assert_true(generation(f) > before && get(f, "bob").is_operator);
    assert_int_equal(store_user_set_operator(f->store, "ann", false, &f->err), 0);
    assert_false(get(f, "ann").is_operator);
    assert_int_equal(store_user_set_operator(f->store, "bob", false, &f->err), -EPERM);
    assert_true(get(f, "bob").is_operator);
    assert_int_equal(store_user_set_operator(f->store, "eve", true, &f->err), -ENOENT);
    assert_int_equal(store_user_set_operator(f->store, "'; --", true, &f->err), -EINVAL);
}

static void test_first_is_one(void **state)
{
    struct harness_store *f = *state;
    struct racer racers[THREADS];
    int operators = 0;

    for (int i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){ .dir = f->dir, .n = i };
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
        operators += racers[i].is_operator;
    }
    assert_int_equal(operators, 1);
}

/* ---- sign-ins ---- */

static struct store_sign_in sign_in_of(const char *family, const char *user_id, int mark)
{
    struct store_sign_in sign_in = { .used_us = 1000 + mark, .expires_us = 5000 };

    snprintf(sign_in.family, sizeof sign_in.family, "%s", family);
    snprintf(sign_in.user_id, sizeof sign_in.user_id, "%s", user_id);
    memset(sign_in.hash, mark, sizeof sign_in.hash);
    return sign_in;
}

static int turn(struct harness_store *f, const char *family, int from, int to, int64_t now_us)
{
    struct store_sign_in next = sign_in_of(family, "", to);
    uint8_t spent[STORE_HASH_BYTES];
    struct store_user user;
    int r;

    memset(spent, from, sizeof spent);
    next.used_us = now_us;
    r = store_sign_in_turn(f->store, &next, spent, &user, &f->err);
    if (r == 0)
        assert_string_equal(user.email, "ada@example.com");
    return r;
}

static void test_sign_in(void **state)
{
    struct harness_store *f = *state;
    struct store_sign_in sign_in = sign_in_of("f1", "ada", 1);

    assert_int_equal(store_sign_in_add(f->store, &sign_in, 1000, 9, &f->err), -ENOENT);
    (void) add(f, "ada");
    assert_int_equal(store_sign_in_add(f->store, &sign_in, 999, 9, &f->err), -ENOENT);
    assert_int_equal(store_sign_in_add(f->store, &sign_in, 1000, 9, &f->err), 0);
    assert_int_equal(store_sign_in_add(f->store, &sign_in, 1000, 9, &f->err), -EEXIST);
    assert_int_equal(turn(f, "f2", 1, 2, 2000), -ENOENT);
    assert_int_equal(turn(f, "f1", 1, 2, 2000), 0);
    assert_int_equal(turn(f, "f1", 2, 3, 2000), 0);
    /* a spent one: now none of the family works */
    assert_int_equal(turn(f, "f1", 1, 4, 2000), -ESTALE);
    assert_int_equal(turn(f, "f1", 3, 4, 2000), -ENOENT);
    assert_int_equal(store_sign_in_end(f->store, "f1", &f->err), 0);
    assert_int_equal(store_sign_in_end(f->store, "a/b", &f->err), -EINVAL);
}

static void test_sign_in_ends(void **state)
{
    struct harness_store *f = *state;
    struct store_sign_in sign_in = sign_in_of("f1", "ada", 1);

    (void) add(f, "ada");
    assert_int_equal(store_sign_in_add(f->store, &sign_in, 1000, 9, &f->err), 0);
    assert_int_equal(turn(f, "f1", 1, 2, 5000), -ENOENT); /* too late, and nothing else happens */
    assert_int_equal(turn(f, "f1", 9, 2, 5000), -ENOENT);
    assert_int_equal(turn(f, "f1", 1, 2, 4999), 0);
    assert_int_equal(store_sign_in_end(f->store, "f1", &f->err), 0);
    assert_int_equal(turn(f, "f1", 2, 3, 2000), -ENOENT);
    assert_int_equal(store_sign_in_add(f->store, &sign_in, 1000, 9, &f->err), 0);
    assert_int_equal(store_user_set_password(f->store, "ada", "h", 2000, &f->err), 0);
    assert_int_equal(turn(f, "f1", 1, 2, 2000), -ENOENT);
    assert_int_equal(store_sign_in_add(f->store, &sign_in, 2000, 9, &f->err), 0);
    assert_int_equal(store_user_delete(f->store, "ada", "user-ada", &f->err), 0);
    assert_int_equal(turn(f, "f1", 1, 2, 2000), -ENOENT);
}

static void test_sign_in_max(void **state)
{
    struct harness_store *f = *state;

    (void) add(f, "ada");
    for (int i = 1; i <= 5; i++) {
        char family[8];
        struct store_sign_in sign_in;

        snprintf(family, sizeof family, "f%d", i);
        sign_in = sign_in_of(family, "ada", i);
        assert_int_equal(store_sign_in_add(f->store, &sign_in, 1000, 3, &f->err), 0);
        if (i == 3) /* used again, so f2 is the one to go */
            assert_int_equal(turn(f, "f1", 1, 11, 1004), 0);
    }
    assert_int_equal(turn(f, "f2", 2, 22, 2000), -ENOENT);
    assert_int_equal(turn(f, "f3", 3, 33, 2000), -ENOENT);
    assert_int_equal(turn(f, "f1", 11, 12, 2000), 0);
    assert_int_equal(turn(f, "f4", 4, 44, 2000), 0);
    assert_int_equal(turn(f, "f5", 5, 55, 2000), 0);
}

/* Of many who use one token at a time exactly one gets a successor. */
struct turner {
    pthread_t thread;
    struct harness_store *f;
    int to, r;
};

static void *turn_once(void *arg)
{
    struct turner *t = arg;
    struct store_sign_in next = sign_in_of("f1", "", t->to);
    uint8_t spent[STORE_HASH_BYTES];
    struct store_user user;
    struct gb_err err;

    memset(spent, 1, sizeof spent);
    t->r = store_sign_in_turn(t->f->store, &next, spent, &user, &err);
    return NULL;
}

static void test_sign_in_race(void **state)
{
    struct harness_store *f = *state;
    struct store_sign_in sign_in = sign_in_of("f1", "ada", 1);
    struct turner turners[THREADS];
    int turned = 0;

    (void) add(f, "ada");
    assert_int_equal(store_sign_in_add(f->store, &sign_in, 1000, 9, &f->err), 0);
    for (int i = 0; i < THREADS; i++) {
        turners[i] = (struct turner){ .f = f, .to = 10 + i };
        assert_int_equal(pthread_create(&turners[i].thread, NULL, turn_once, &turners[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(turners[i].thread, NULL), 0);
        turned += turners[i].r == 0;
    }
    assert_int_equal(turned, 1);
}

/* ---- invitations ---- */

static void test_invitation(void **state)
{
    struct harness_store *f = *state;
    struct store_user user = user_of("ada"), taken;
    uint8_t hash[STORE_HASH_BYTES] = { 1 }, other[STORE_HASH_BYTES] = { 2 };
    bool is_operator;

    assert_int_equal(store_invitation_check(f->store, hash, 1, &f->err), -EKEYREJECTED);
    assert_int_equal(store_invitation_add(f->store, hash, 1, 5000, &f->err), 0);
    assert_int_equal(store_invitation_check(f->store, hash, 4999, &f->err), 0);
    assert_int_equal(store_invitation_check(f->store, hash, 5000, &f->err), -EKEYREJECTED);
    assert_int_equal(store_user_add(f->store, &user, other, &is_operator, &f->err), -EKEYREJECTED);
    assert_int_equal(store_user_get(f->store, "ada", &taken, &f->err), -ENOENT);

    /* an address that is taken does not use it up */
    (void) add(f, "bob");
    taken = user_of("eve");
    snprintf(taken.email, sizeof taken.email, "bob@example.com");
    assert_int_equal(store_user_add(f->store, &taken, hash, &is_operator, &f->err), -EEXIST);
    assert_int_equal(store_user_add(f->store, &user, hash, &is_operator, &f->err), 0);
    assert_false(is_operator);
    user = user_of("eve");
    assert_int_equal(store_user_add(f->store, &user, hash, &is_operator, &f->err), -EKEYREJECTED);

    assert_int_equal(store_invitation_add(f->store, hash, 1, 500, &f->err), 0);
    assert_int_equal(store_user_add(f->store, &user, hash, &is_operator, &f->err), -EKEYREJECTED);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, harness_setup, harness_teardown)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        WITH_STORE(test_user),         WITH_STORE(test_user_list),    WITH_STORE(test_guests),
        WITH_STORE(test_operators),    WITH_STORE(test_user_bad),     WITH_STORE(test_user_changes),
        WITH_STORE(test_first_is_one), WITH_STORE(test_sign_in),      WITH_STORE(test_sign_in_ends),
        WITH_STORE(test_sign_in_max),  WITH_STORE(test_sign_in_race), WITH_STORE(test_invitation),
    };

    if (!harness_choose(argc, argv))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
