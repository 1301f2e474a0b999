#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "service/access/keys_internal.h"

#include "store_harness.h"

#include "base/banned.h"

struct fixture {
    char dir[64];
    struct store *store;
    struct keys *keys;
    struct gb_err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "/tmp/gbtest-keys-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->store = harness_open(f->dir);
    assert_int_equal(keys_open(f->store, &f->keys, &f->err), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char path[128];

    keys_close(f->keys);
    store_close(f->store);
    snprintf(path, sizeof path, "%s/glovebox.db", f->dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static const struct keys_spec plain = { "plain", STORE_LIMIT_DEFAULT, STORE_LIMIT_DEFAULT,
                                        STORE_LIMIT_DEFAULT };

static struct store_key create(struct fixture *f, struct store *store, char token[KEYS_TOKEN_MAX])
{
    struct store_key key;

    if (keys_create(store, &plain, token, &key, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    return key;
}

/* Runs SQL on the file as somebody else would. */
static void sql(struct fixture *f, const char *text)
{
    char path[128];
    sqlite3 *db;

    snprintf(path, sizeof path, "%s/glovebox.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* What a start of the service sees. */
static void reopen(struct fixture *f)
{
    keys_close(f->keys);
    assert_int_equal(keys_open(f->store, &f->keys, &f->err), 0);
}

/* Verifies once the copy is old enough to be looked at again. */
static int verify_later(struct fixture *f, const char *token)
{
    struct keys_info info;

    keys_age(f->keys, KEYS_CHECK_US);
    return keys_verify(f->keys, token, &info, &f->err);
}

static void test_token(void **state)
{
    struct fixture *f = *state;
    char one[KEYS_TOKEN_MAX], two[KEYS_TOKEN_MAX];
    struct store_key key = create(f, f->store, one);
    uint8_t secret_in_store = 0;

    create(f, f->store, two);
    assert_int_equal(strlen(one), KEYS_TOKEN_MAX - 1);
    assert_memory_equal(one, "gb_", 3);
    assert_memory_equal(one + 3, key.id, KEYS_ID_LEN);
    assert_int_equal(one[3 + KEYS_ID_LEN], '_');
    assert_int_equal(strspn(one + 4 + KEYS_ID_LEN, "0123456789abcdef"), KEYS_SECRET_LEN);
    assert_string_not_equal(one, two);
    /* neither as text nor as bits */
    for (size_t i = 0; i < sizeof key.hash; i++)
        secret_in_store |= (uint8_t) (key.hash[i] ^ (unsigned char) one[4 + KEYS_ID_LEN + i]);
    assert_int_not_equal(secret_in_store, 0);
}

static void test_verify(void **state)
{
    struct fixture *f = *state;
    struct keys_spec spec = { "limited", 3, 2, 600 };
    char token[KEYS_TOKEN_MAX];
    struct keys_info info;
    struct store_key key;

    assert_false(keys_any(f->keys));
    assert_int_equal(keys_create(f->store, &spec, token, &key, &f->err), 0);
    assert_int_equal(verify_later(f, token), 0);
    assert_int_equal(keys_verify(f->keys, token, &info, &f->err), 0);
    assert_string_equal(info.id, key.id);
    assert_int_equal(info.sessions, 3);
    assert_int_equal(info.executions, 2);
    assert_int_equal(info.rate_per_minute, 600);
    assert_true(keys_any(f->keys));
}

static void test_refused(void **state)
{
    struct fixture *f = *state;
    char token[KEYS_TOKEN_MAX], other[KEYS_TOKEN_MAX], bad[256];
    static const char *const junk[] = { "",
                                        "gb_",
                                        "gb",
                                        "x",
                                        "gb_123456789abc_",
                                        "Bearer gb_123456789abc_00",
                                        "gb_'; DROP TABLE api_keys" };
    struct keys_info info = { .id = "untouched" };

    create(f, f->store, token);
    create(f, f->store, other);
    reopen(f);
    for (size_t i = 0; i < ARRAY_LEN(junk); i++)
        assert_int_equal(keys_verify(f->keys, junk[i], &info, &f->err), -EACCES);
    /* any character changed */
    for (size_t i = 0; i < KEYS_TOKEN_MAX - 1; i++) {
        memcpy(bad, token, KEYS_TOKEN_MAX);
        bad[i] = bad[i] == '0' ? '1' : '0';
        assert_int_equal(keys_verify(f->keys, bad, &info, &f->err), -EACCES);
    }
    /* cut, too long, in capitals, with another key's id */
    snprintf(bad, sizeof bad, "%.*s", KEYS_TOKEN_MAX - 2, token);
    assert_int_equal(keys_verify(f->keys, bad, &info, &f->err), -EACCES);
    snprintf(bad, sizeof bad, "%s0", token);
    assert_int_equal(keys_verify(f->keys, bad, &info, &f->err), -EACCES);
    memcpy(bad, token, KEYS_TOKEN_MAX);
    memcpy(bad + 3, other + 3, KEYS_ID_LEN);
    assert_int_equal(keys_verify(f->keys, bad, &info, &f->err), -EACCES);
    assert_string_equal(info.id, "untouched");
    assert_string_equal(f->err.msg, "that is not a valid key");
}

/* Another opening of the store is what another process is. */
static void test_revoked_elsewhere(void **state)
{
    struct fixture *f = *state;
    struct store *other = harness_open(f->dir);
    char token[KEYS_TOKEN_MAX], stays[KEYS_TOKEN_MAX];
    struct store_key key = create(f, other, token);
    struct keys_info info;

    create(f, other, stays);
    reopen(f);
    assert_int_equal(keys_verify(f->keys, token, &info, &f->err), 0);
    assert_true(keys_stands(f->keys, key.id) && !keys_stands(f->keys, "000000000000"));
    assert_int_equal(keys_revoke(other, key.id, &f->err), 0);
    assert_int_equal(verify_later(f, token), -EACCES);
    assert_false(keys_stands(f->keys, key.id));
    assert_int_equal(keys_verify(f->keys, stays, &info, &f->err), 0);
    assert_int_equal(keys_revoke(other, key.id, &f->err), -EALREADY);
    assert_int_equal(keys_revoke(other, "000000000000", &f->err), -ENOENT);
    store_close(other);
}

/* Without the store a copy serves for a while, since it may be busy; then nobody comes in. */
static void test_store_fails(void **state)
{
    struct fixture *f = *state;
    char token[KEYS_TOKEN_MAX];

    create(f, f->store, token);
    reopen(f);
    sql(f, "ALTER TABLE api_keys_generation RENAME TO away");
    assert_int_equal(verify_later(f, token), 0);
    keys_age(f->keys, KEYS_STALE_US);
    assert_true(verify_later(f, token) < 0);
    assert_non_null(strstr(f->err.msg, "api_keys_generation"));
    sql(f, "ALTER TABLE away RENAME TO api_keys_generation");
    assert_int_equal(verify_later(f, token), 0);
}

/* A row that cannot be read must not make all keys vanish, nor let its own in. */
static void test_damaged_row(void **state)
{
    struct fixture *f = *state;
    char token[KEYS_TOKEN_MAX];

    create(f, f->store, token);
    reopen(f);
    sql(f, "UPDATE api_keys SET hash = 'x'; UPDATE api_keys_generation SET value = value + 1");
    assert_int_equal(verify_later(f, token), 0); /* the copy serves */
    keys_age(f->keys, KEYS_STALE_US);
    assert_int_equal(verify_later(f, token), -EUCLEAN);
}

static int64_t last_used(struct fixture *f)
{
    autofree struct store_key *list = NULL;
    size_t len;

    assert_int_equal(keys_list(f->store, &list, &len, &f->err), 0);
    assert_int_equal(len, 1);
    return list[0].last_used_us;
}

static void test_last_use(void **state)
{
    struct fixture *f = *state;
    char token[KEYS_TOKEN_MAX];
    struct keys_info info;
    int64_t first;

    create(f, f->store, token);
    reopen(f);
    assert_int_equal(keys_verify(f->keys, token, &info, &f->err), 0);
    assert_int_equal(last_used(f), 0); /* verifying does not write */
    assert_int_equal(keys_flush(f->keys, &f->err), 0);
    first = last_used(f);
    assert_true(first > 0);
    assert_int_equal(keys_flush(f->keys, &f->err), 0);
    assert_int_equal(last_used(f), first);
    assert_int_equal(keys_verify(f->keys, token, &info, &f->err), 0);
    keys_close(f->keys); /* writes too */
    f->keys = NULL;
    assert_true(last_used(f) > first);
}

static void test_create_bad(void **state)
{
    struct fixture *f = *state;
    struct keys_spec spec = plain;
    char token[KEYS_TOKEN_MAX] = "untouched", name[STORE_NAME_MAX + 1];
    struct store_key key;

    memset(name, 'x', STORE_NAME_MAX);
    name[STORE_NAME_MAX] = '\0';
    spec.name = name;
    assert_int_equal(keys_create(f->store, &spec, token, &key, &f->err), -EINVAL);
    spec.name = "a\tb";
    assert_int_equal(keys_create(f->store, &spec, token, &key, &f->err), -EINVAL);
    spec = plain;
    spec.executions = 0;
    assert_int_equal(keys_create(f->store, &spec, token, &key, &f->err), -EINVAL);
    assert_string_equal(token, "untouched");
    spec = plain;
    spec.name = NULL;
    assert_int_equal(keys_create(f->store, &spec, token, &key, &f->err), 0);
    assert_string_equal(key.name, "");
}

struct worker {
    struct keys *keys;
    const char *token;
    _Atomic bool *stop;
    int failed;
};

static void *verify_always(void *arg)
{
    struct worker *w = arg;
    struct keys_info info;

    while (!*w->stop && !w->failed) {
        w->failed = keys_verify(w->keys, w->token, &info, NULL) < 0;
        (void) keys_any(w->keys);
    }
    return NULL;
}

/* The copy is replaced under those who read it. */
static void test_threads(void **state)
{
    struct fixture *f = *state;
    struct worker workers[3];
    pthread_t threads[3];
    char token[KEYS_TOKEN_MAX], late[KEYS_TOKEN_MAX];
    _Atomic bool stop = false;

    create(f, f->store, token);
    reopen(f);
    for (size_t i = 0; i < ARRAY_LEN(workers); i++) {
        workers[i] = (struct worker){ f->keys, token, &stop, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, verify_always, &workers[i]), 0);
    }
    create(f, f->store, late);
    /* Another thread may be the one that reads them again. */
    while (verify_later(f, late) != 0)
        sched_yield();
    assert_int_equal(keys_flush(f->keys, &f->err), 0);
    stop = true;
    for (size_t i = 0; i < ARRAY_LEN(workers); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].failed, 0);
    }
}

#define WITH_KEYS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_KEYS(test_token),       WITH_KEYS(test_verify),
        WITH_KEYS(test_refused),     WITH_KEYS(test_revoked_elsewhere),
        WITH_KEYS(test_store_fails), WITH_KEYS(test_damaged_row),
        WITH_KEYS(test_last_use),    WITH_KEYS(test_create_bad),
        WITH_KEYS(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
