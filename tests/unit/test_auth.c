/* Accounts, over a real store, with a clock that the tests set and hashes that cost nothing. */
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

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/auth/auth.h"
#include "store/chats.h"

#include "store_harness.h"

#include "base/banned.h"

#define SECOND   USEC_PER_SEC
#define MINUTE   (60 * SECOND)
#define DAY      (24 * 60 * MINUTE)
#define PASSWORD "correct horse battery"

static int64_t now_us;

static int64_t fake_clock(void)
{
    return now_us;
}

struct fixture {
    char dir[64];
    struct store *store;
    struct auth *auth;
    struct fault fault;
};

static const struct auth_peer home = { .address = "127.0.0.1", .loopback = true };
static const struct auth_peer away = { .address = "192.0.2.7" };
static const struct auth_peer elsewhere = { .address = "198.51.100.9" };

static struct auth *open_auth(struct fixture *f, enum auth_signup signup)
{
    struct auth_config config = { .store = f->store,
                                  .data_dir = f->dir,
                                  .signup = signup,
                                  .hash_memory = 8192,
                                  .hash_passes = 1,
                                  .now_us = fake_clock };
    struct auth *auth = NULL;
    struct gb_err err;

    if (auth_open(&config, &auth, &err) < 0)
        fail_msg("%s", err.msg);
    return auth;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    now_us = INT64_C(1800000000) * SECOND;
    snprintf(f->dir, sizeof f->dir, "/tmp/gbtest-auth-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->store = harness_open(f->dir);
    f->auth = open_auth(f, AUTH_SIGNUP_AUTO);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = { "glovebox.db",
                                         "glovebox.db-wal",
                                         "glovebox.db-shm",
                                         "mark/signing-keys.json",
                                         "mark/signing-keys.lock",
                                         "mark" };
    struct fixture *f = *state;
    char path[128];

    auth_close(f->auth);
    store_close(f->store);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
        (void) remove(path);
    }
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static const char *text(const json_t *json, const char *name)
{
    const char *value = json_string_value(json_object_get(json, name));

    if (!value)
        fail_msg("there is no %s", name);
    return value;
}

/* The reply to a sign-up at home; the caller owns it. */
static json_t *sign_up(struct fixture *f, const char *email)
{
    json_t *json = NULL;

    if (auth_sign_up(f->auth, &home, email, PASSWORD, NULL, NULL, &json, &f->fault) < 0)
        fail_msg("%s", f->fault.detail);
    return json;
}

static json_t *sign_in(struct fixture *f, const char *email)
{
    json_t *json = NULL;

    if (auth_sign_in(f->auth, &home, email, PASSWORD, &json, &f->fault) < 0)
        fail_msg("%s", f->fault.detail);
    return json;
}

/* What happens to an attempt: the word of the problem, or "ok". */
static const char *attempt(struct fixture *f, const struct auth_peer *peer, const char *email,
                           const char *password)
{
    json_t *json = NULL;
    int r = auth_sign_in(f->auth, peer, email, password, &json, &f->fault);

    json_decref(json);
    return r < 0 ? f->fault.type : "ok";
}

static const char *verify(struct fixture *f, const json_t *json)
{
    struct auth_user user;
    int r = auth_verify(f->auth, text(json, "access_token"), &user, &f->fault);

    if (r == 0)
        assert_string_equal(user.id, text(json, "user_id"));
    else
        assert_int_equal(r, -EACCES);
    return r < 0 ? f->fault.type : "ok";
}

/* The reply to a refresh, or NULL with the fault. */
static json_t *refresh(struct fixture *f, const json_t *json)
{
    json_t *next = NULL;

    (void) auth_refresh(f->auth, text(json, "refresh_token"), &next, &f->fault);
    return next;
}

/* ---- signing up ---- */

static void test_sign_up(void **state)
{
    struct fixture *f = *state;
    json_t *json = NULL, *other;
    struct store_user user;

    assert_false(auth_any(f->auth));
    assert_int_equal(
        auth_sign_up(f->auth, &home, "Ada@Example.COM", PASSWORD, "Ada", NULL, &json, &f->fault),
        0);
    assert_true(auth_any(f->auth));
    assert_string_equal(text(json, "email"), "ada@example.com");
    assert_string_equal(text(json, "name"), "Ada");
    assert_string_equal(text(json, "role"), "operator");
    assert_string_equal(text(json, "token_type"), "bearer");
    assert_int_equal(json_integer_value(json_object_get(json, "expires_in")), 900);
    assert_string_equal(verify(f, json), "ok");
    assert_true(auth_is_access_token(text(json, "access_token")));
    assert_false(auth_is_access_token(text(json, "refresh_token")));
    assert_false(auth_is_access_token("gb_0123"));
    assert_int_equal(store_user_get(f->store, text(json, "user_id"), &user, NULL), 0);
    assert_non_null(strstr(user.password, "$argon2id$"));
    other = sign_up(f, "bob@example.com");
    assert_string_equal(text(other, "role"), "user");
    assert_string_equal(text(other, "name"), "");
    json_decref(other);
    json_decref(json);
}

static void test_sign_up_bad(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *email, *password, *name, *type;
    } bad[] = {
        { "nobody", PASSWORD, NULL, "email-malformed" },
        { "a@b", "short", NULL, "password-weak" },
        { "someone@example.com", "someone@example.com", NULL, "password-weak" },
        { "a@b", PASSWORD, "two\nlines", "invalid-request" },
        { "ada@example.com", PASSWORD, NULL, "email-taken" },
        { "ADA@example.com", "another password", NULL, "email-taken" },
    };
    json_t *json = NULL, *ada = sign_up(f, "ada@example.com");
    char name[200];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(auth_sign_up(f->auth, &home, bad[i].email, bad[i].password, bad[i].name, NULL,
                                 &json, &f->fault) < 0);
        assert_string_equal(f->fault.type, bad[i].type);
    }
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_true(auth_sign_up(f->auth, &home, "b@c", PASSWORD, name, NULL, &json, &f->fault) < 0);
    assert_string_equal(f->fault.loc, "name");
    assert_null(json);
    json_decref(ada);
}

/* Who may sign up, by mode and place. */
static void test_sign_up_modes(void **state)
{
    static const struct {
        enum auth_signup mode;
        const struct auth_peer *peer;
        bool invited, may;
    } rows[] = {
        { AUTH_SIGNUP_AUTO, &home, false, true },    { AUTH_SIGNUP_AUTO, &away, false, false },
        { AUTH_SIGNUP_AUTO, &away, true, true },     { AUTH_SIGNUP_OPEN, &away, false, true },
        { AUTH_SIGNUP_INVITE, &home, false, false }, { AUTH_SIGNUP_INVITE, &home, true, true },
        { AUTH_SIGNUP_INVITE, &away, true, true },   { AUTH_SIGNUP_CLOSED, &home, false, false },
        { AUTH_SIGNUP_CLOSED, &home, true, false },
    };
    struct fixture *f = *state;

    json_decref(sign_up(f, "taken@example.com"));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char code[AUTH_CODE_MAX], email[32];
        json_t *json = NULL;
        int r;

        auth_close(f->auth);
        f->auth = open_auth(f, rows[i].mode);
        assert_int_equal(auth_invite(f->auth, DAY, code, &f->fault), 0);
        snprintf(email, sizeof email, "u%zu@example.com", i);
        /* who may not sign up learns nothing about addresses */
        r = auth_sign_up(f->auth, rows[i].peer, "taken@example.com", PASSWORD, NULL,
                         rows[i].invited ? code : NULL, &json, &f->fault);
        assert_true(r < 0);
        assert_string_equal(f->fault.type, rows[i].may ? "email-taken" : "signup-closed");
        r = auth_sign_up(f->auth, rows[i].peer, email, PASSWORD, NULL,
                         rows[i].invited ? code : NULL, &json, &f->fault);
        assert_int_equal(r == 0, rows[i].may);
        json_decref(json);
    }
}

static void test_invitation(void **state)
{
    struct fixture *f = *state;
    char code[AUTH_CODE_MAX];
    json_t *json = NULL;

    assert_int_equal(auth_invite(f->auth, DAY, code, &f->fault), 0);
    /* the first account is the operator's, who is on this machine */
    assert_true(auth_sign_up(f->auth, &away, "a@b", PASSWORD, NULL, code, &json, &f->fault) < 0);
    assert_string_equal(f->fault.type, "signup-closed");
    json_decref(sign_up(f, "operator@example.com"));
    assert_true(auth_sign_up(f->auth, &away, "a@b", PASSWORD, NULL, "22222-22222-22222", &json,
                             &f->fault) < 0);
    assert_string_equal(f->fault.loc, "invitation");
    assert_int_equal(auth_sign_up(f->auth, &away, "a@b", PASSWORD, NULL, code, &json, &f->fault),
                     0);
    json_decref(json);
    json = NULL;
    assert_true(auth_sign_up(f->auth, &away, "c@d", PASSWORD, NULL, code, &json, &f->fault) < 0);
    assert_int_equal(auth_invite(f->auth, DAY, code, &f->fault), 0);
    now_us += DAY;
    assert_true(auth_sign_up(f->auth, &away, "c@d", PASSWORD, NULL, code, &json, &f->fault) < 0);
    assert_string_equal(f->fault.type, "signup-closed");
}

static void test_sign_up_throttled(void **state)
{
    struct fixture *f = *state;
    json_t *json = NULL, *ada = sign_up(f, "ada@example.com");
    int tries = 0;

    /* asking for addresses is guessing */
    while (auth_sign_up(f->auth, &home, "ada@example.com", PASSWORD, NULL, NULL, &json, &f->fault) <
               0 &&
           f->fault.problem == PROBLEM_EMAIL_TAKEN && tries < 1000)
        tries++;
    assert_string_equal(f->fault.type, "too-many-guesses");
    assert_true(f->fault.retry_after_s > 0);
    assert_true(tries <= 30);
    json_decref(ada);
}

/* ---- signing in ---- */

static void test_sign_in(void **state)
{
    struct fixture *f = *state;
    json_t *ada = sign_up(f, "ada@example.com"), *json = sign_in(f, "ADA@example.com");

    assert_string_equal(text(json, "user_id"), text(ada, "user_id"));
    assert_string_not_equal(text(json, "refresh_token"), text(ada, "refresh_token"));
    assert_string_equal(verify(f, json), "ok");
    assert_string_equal(verify(f, ada), "ok");
    assert_string_equal(attempt(f, &home, "ada@example.com", "wrong password"), "bad-credentials");
    assert_string_equal(attempt(f, &home, "eve@example.com", PASSWORD), "bad-credentials");
    assert_string_equal(attempt(f, &home, "eve", PASSWORD), "email-malformed");
    assert_string_equal(attempt(f, &home, "ada@example.com", ""), "bad-credentials");
    assert_string_equal(attempt(f, &home, "ada@example.com' OR '1'='1", PASSWORD),
                        "email-malformed");
    json_decref(ada);
    json_decref(json);
}

/* Whether the account exists changes nothing of what somebody sees who guesses. */
static void test_guessing_tells_nothing(void **state)
{
    struct fixture *f = *state;
    struct fault faults[2];

    json_decref(sign_up(f, "ada@example.com"));
    for (int i = 0; i < 15; i++) {
        for (int j = 0; j < 2; j++) {
            /* from different places, so that only the accounts count */
            const struct auth_peer *peer = j ? &elsewhere : &away;

            (void) attempt(f, peer, j ? "eve@example.com" : "ada@example.com", "wrong password");
            faults[j] = f->fault;
        }
        assert_int_equal(faults[0].problem, faults[1].problem);
        assert_int_equal(faults[0].retry_after_s, faults[1].retry_after_s);
        assert_string_equal(faults[0].detail, faults[1].detail);
        assert_string_equal(faults[0].loc, faults[1].loc);
    }
    assert_int_equal(faults[0].problem, PROBLEM_TOO_MANY_GUESSES);
}

static void test_throttled_account(void **state)
{
    struct fixture *f = *state;
    struct auth_peer peer = { .loopback = false };

    json_decref(sign_up(f, "ada@example.com"));
    for (int i = 0; i < 10; i++) { /* each from another place */
        snprintf(peer.address, sizeof peer.address, "192.0.2.%d", i);
        assert_string_equal(attempt(f, &peer, "ada@example.com", "wrong"), "bad-credentials");
    }
    assert_string_equal(attempt(f, &elsewhere, "ada@example.com", "wrong"), "too-many-guesses");
    assert_int_equal(f->fault.retry_after_s, 60);
    /* the right one too: else guessing would go on */
    assert_string_equal(attempt(f, &elsewhere, "ada@example.com", PASSWORD), "too-many-guesses");
    assert_string_equal(attempt(f, &elsewhere, "eve@example.com", "wrong"), "bad-credentials");
    now_us += MINUTE;
    assert_string_equal(attempt(f, &elsewhere, "ada@example.com", PASSWORD), "ok");
}

/* Where it has worked before, strangers who guess do not keep the owner out. */
static void test_throttled_but_trusted(void **state)
{
    struct fixture *f = *state;

    json_decref(sign_up(f, "ada@example.com"));
    json_decref(sign_in(f, "ada@example.com"));
    for (int i = 0; i < 10; i++)
        assert_string_equal(attempt(f, &away, "ada@example.com", "wrong"), "bad-credentials");
    assert_string_equal(attempt(f, &away, "ada@example.com", PASSWORD), "too-many-guesses");
    assert_string_equal(attempt(f, &home, "ada@example.com", PASSWORD), "ok");
    /* but guessing from there is throttled all the same */
    for (int i = 0; i < 10; i++)
        assert_string_equal(attempt(f, &home, "ada@example.com", "wrong"), "bad-credentials");
    assert_string_equal(attempt(f, &home, "ada@example.com", PASSWORD), "too-many-guesses");
}

static void test_throttled_address(void **state)
{
    struct fixture *f = *state;
    char email[32];

    json_decref(sign_up(f, "ada@example.com"));
    for (int i = 0; i < 30; i++) {
        snprintf(email, sizeof email, "u%d@example.com", i);
        assert_string_equal(attempt(f, &away, email, PASSWORD), "bad-credentials");
    }
    assert_string_equal(attempt(f, &away, "ada@example.com", PASSWORD), "too-many-guesses");
    assert_int_equal(f->fault.retry_after_s, 10);
    assert_string_equal(attempt(f, &elsewhere, "ada@example.com", PASSWORD), "ok");
    now_us += 10 * SECOND;
    assert_string_equal(attempt(f, &away, "ada@example.com", PASSWORD), "ok");
    assert_string_equal(attempt(f, &away, "ada@example.com", PASSWORD), "ok"); /* costs nothing */
}

/* ---- tokens ---- */

static void test_access_token(void **state)
{
    struct fixture *f = *state;
    json_t *json = sign_up(f, "ada@example.com");
    struct auth_user user;
    struct auth *other;
    static const char *const bad[] = {
        "", "eyJ", "eyJ.eyJ.x", "gb_x", "a.b.c", "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.e30."
    };

    now_us += 15 * MINUTE - SECOND;
    assert_string_equal(verify(f, json), "ok");
    now_us += SECOND;
    assert_string_equal(verify(f, json), "token-invalid");
    assert_non_null(strstr(f->fault.detail, "expired"));
    now_us -= 2 * DAY; /* from the future */
    assert_string_equal(verify(f, json), "token-invalid");
    now_us += 2 * DAY - 10 * MINUTE;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(auth_verify(f->auth, bad[i], &user, &f->fault), -EACCES);
        assert_int_equal(f->fault.kind, FAULT_UNAUTHORIZED);
    }
    other = open_auth(f, AUTH_SIGNUP_AUTO); /* another process */
    assert_int_equal(auth_verify(other, text(json, "access_token"), &user, &f->fault), 0);
    assert_true(user.is_operator);
    auth_close(other);
    json_decref(json);
}

static void test_key_rotation(void **state)
{
    struct fixture *f = *state;
    json_t *old = sign_up(f, "ada@example.com"), *young, *next;

    now_us += 7 * DAY - 5 * MINUTE;
    next = refresh(f, old); /* signed by the first key, just before its end */
    now_us += 5 * MINUTE;
    young = sign_in(f, "ada@example.com");
    assert_string_equal(verify(f, next), "ok");
    assert_string_equal(verify(f, young), "ok");
    assert_true(strncmp(text(next, "access_token"), text(young, "access_token"), 60) != 0);
    now_us += 11 * MINUTE;
    assert_string_equal(verify(f, next), "token-invalid");
    assert_string_equal(verify(f, young), "ok");
    json_decref(old);
    json_decref(next);
    json_decref(young);
}

static void test_refresh(void **state)
{
    struct fixture *f = *state;
    json_t *one = sign_up(f, "ada@example.com"), *other = sign_in(f, "ada@example.com");
    json_t *two = refresh(f, one), *three;

    assert_string_not_equal(text(two, "refresh_token"), text(one, "refresh_token"));
    assert_string_equal(text(two, "email"), "ada@example.com");
    assert_string_equal(verify(f, two), "ok");
    three = refresh(f, two);
    assert_non_null(three);
    /* a spent one: the family ends, others do not */
    assert_null(refresh(f, one));
    assert_string_equal(f->fault.type, "token-invalid");
    assert_non_null(strstr(f->fault.detail, "used before"));
    assert_null(refresh(f, three));
    json_decref(three);
    three = refresh(f, other);
    assert_non_null(three);
    now_us += 30 * DAY - SECOND; /* each one is good for thirty days */
    json_decref(two);
    two = refresh(f, three);
    assert_non_null(two);
    now_us += 30 * DAY;
    assert_null(refresh(f, two));
    json_decref(one);
    json_decref(two);
    json_decref(three);
    json_decref(other);
}

static void test_refresh_bad(void **state)
{
    static const char *const bad[] = {
        "",
        "gbr_",
        "gbr_0123",
        "eyJhbGciOiJub25lIn0.e30.",
        "gbr_00000000000000000000000000000000_"
        "0000000000000000000000000000000000000000000000000000000000000000",
        "gbr_0000000000000000000000000000000A_"
        "0000000000000000000000000000000000000000000000000000000000000000",
        "gbr_00000000000000000000000000000000_"
        "00000000000000000000000000000000000000000000000000000000000000000",
    };
    struct fixture *f = *state;
    json_t *json = sign_up(f, "ada@example.com"), *next = NULL;
    char token[128];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(auth_refresh(f->auth, bad[i], &next, &f->fault) < 0);
        assert_string_equal(f->fault.type, "token-invalid");
        assert_int_equal(auth_sign_out(f->auth, bad[i], &f->fault), 0);
    }
    /* an access token is none */
    assert_true(auth_refresh(f->auth, text(json, "access_token"), &next, &f->fault) < 0);
    next = refresh(f, json);
    assert_non_null(next);
    /* who knows the family has had a token of it: the end */
    snprintf(token, sizeof token, "%s", text(next, "refresh_token"));
    token[strlen(token) - 1] ^= 1;
    json_decref(next);
    next = NULL;
    assert_true(auth_refresh(f->auth, token, &next, &f->fault) < 0);
    assert_null(next);
    json_decref(json);
}

static void test_sign_out(void **state)
{
    struct fixture *f = *state;
    json_t *one = sign_up(f, "ada@example.com"), *other = sign_in(f, "ada@example.com");
    json_t *two = refresh(f, one), *next;

    /* with any token of the family */
    assert_int_equal(auth_sign_out(f->auth, text(one, "refresh_token"), &f->fault), 0);
    assert_null(refresh(f, two));
    next = refresh(f, other);
    assert_non_null(next);
    json_decref(one);
    json_decref(two);
    json_decref(other);
    json_decref(next);
}

/* ---- changes ---- */

static void test_change(void **state)
{
    struct fixture *f = *state;
    json_t *ada = sign_up(f, "ada@example.com"), *other = sign_in(f, "ada@example.com");
    json_t *json = NULL;
    const char *id = text(ada, "user_id");

    assert_int_equal(auth_me(f->auth, id, &json, &f->fault), 0);
    assert_string_equal(text(json, "created"), "2027-01-15T08:00:00.000000Z");
    assert_null(json_object_get(json, "password"));
    json_decref(json);
    json = NULL;
    assert_int_equal(auth_change(f->auth, &home, id, "Ada L.", NULL, NULL, &json, &f->fault), 0);
    assert_string_equal(text(json, "name"), "Ada L.");
    assert_null(json_object_get(json, "access_token"));
    assert_string_equal(verify(f, ada), "ok");
    json_decref(json);
    json = NULL;
    assert_true(auth_change(f->auth, &home, id, NULL, "another password", NULL, &json, &f->fault) <
                0);
    assert_string_equal(f->fault.loc, "current_password");
    assert_true(
        auth_change(f->auth, &home, id, NULL, "another password", "wrong", &json, &f->fault) < 0);
    assert_string_equal(f->fault.type, "bad-credentials");
    assert_true(auth_change(f->auth, &home, id, NULL, "short", PASSWORD, &json, &f->fault) < 0);
    assert_string_equal(f->fault.type, "password-weak");
    assert_string_equal(verify(f, ada), "ok");

    /* in the same second, so it is not the time that tells */
    assert_int_equal(
        auth_change(f->auth, &home, id, NULL, "another password", PASSWORD, &json, &f->fault), 0);
    assert_string_equal(verify(f, json), "ok");
    assert_string_equal(verify(f, ada), "token-invalid");
    assert_null(refresh(f, ada));
    assert_null(refresh(f, other));
    assert_string_equal(attempt(f, &home, "ada@example.com", PASSWORD), "bad-credentials");
    assert_string_equal(attempt(f, &home, "ada@example.com", "another password"), "ok");
    json_decref(other);
    other = refresh(f, json);
    assert_non_null(other);
    json_decref(ada);
    json_decref(other);
    json_decref(json);
}

static void test_check_throttled(void **state)
{
    struct fixture *f = *state;
    json_t *ada = sign_up(f, "ada@example.com");

    for (int i = 0; i < 10; i++)
        assert_true(auth_check_password(f->auth, &away, text(ada, "user_id"), "wrong", &f->fault) <
                    0);
    assert_true(auth_check_password(f->auth, &away, text(ada, "user_id"), PASSWORD, &f->fault) < 0);
    assert_string_equal(f->fault.type, "too-many-guesses");
    json_decref(ada);
}

static void test_delete(void **state)
{
    struct fixture *f = *state;
    json_t *ada = sign_up(f, "ada@example.com"), *bob = sign_up(f, "bob@example.com"), *json = NULL;
    struct store_chat chat = { .id = "c1", .created_us = 1, .updated_us = 1 }, got;
    struct gb_err err;

    snprintf(chat.owner, sizeof chat.owner, "user-%.40s", text(ada, "user_id"));
    assert_int_equal(store_chat_add(f->store, &chat, &err), 0);
    assert_true(auth_check_password(f->auth, &home, text(ada, "user_id"), "wrong", &f->fault) < 0);
    assert_int_equal(auth_check_password(f->auth, &home, text(ada, "user_id"), PASSWORD, &f->fault),
                     0);
    assert_string_equal(verify(f, ada), "ok");
    assert_int_equal(auth_delete(f->auth, text(ada, "user_id"), &f->fault), 0);
    assert_string_equal(verify(f, ada), "token-invalid"); /* at once */
    assert_null(refresh(f, ada));
    assert_string_equal(attempt(f, &home, "ada@example.com", PASSWORD), "bad-credentials");
    assert_int_equal(store_chat_get(f->store, chat.owner, "c1", &got, &err), -ENOENT);
    assert_true(auth_me(f->auth, text(ada, "user_id"), &json, &f->fault) < 0);
    assert_true(auth_delete(f->auth, text(ada, "user_id"), &f->fault) < 0);
    assert_string_equal(verify(f, bob), "ok");
    json_decref(sign_up(f, "ada@example.com")); /* the address is free again */
    json_decref(ada);
    json_decref(bob);
}

/* ---- the operator ---- */

static void test_operator(void **state)
{
    struct fixture *f = *state;
    struct auth *other = open_auth(f, AUTH_SIGNUP_CLOSED); /* a command beside the service */
    json_t *json = NULL, *ada, *list = NULL;
    char password[AUTH_CODE_MAX], again[AUTH_CODE_MAX];
    struct auth_user user;

    assert_int_equal(auth_add(other, "Ada@example.com", PASSWORD, "Ada", &json, &f->fault), 0);
    assert_string_equal(text(json, "role"), "operator");
    assert_null(json_object_get(json, "access_token"));
    json_decref(json);
    assert_true(auth_add(other, "ada@example.com", PASSWORD, NULL, &json, &f->fault) < 0);
    assert_string_equal(f->fault.type, "email-taken");
    ada = sign_in(f, "ada@example.com");
    assert_int_equal(auth_verify(f->auth, text(ada, "access_token"), &user, &f->fault), 0);
    now_us += DAY; /* the access token has expired, the account has not */
    assert_true(auth_stands(f->auth, user.id, user.stamp));

    auth_make_password(password);
    auth_make_password(again);
    assert_string_not_equal(password, again);
    assert_int_equal(strlen(password), 23);
    assert_int_equal(auth_reset(other, "ada@example.com", password, &f->fault), 0);
    assert_true(auth_reset(other, "eve@example.com", password, &f->fault) < 0);
    assert_true(auth_reset(other, "ada@example.com", "short", &f->fault) < 0);
    assert_null(refresh(f, ada));
    now_us += SECOND; /* the service notices within about a second */
    assert_string_equal(verify(f, ada), "token-invalid");
    assert_false(auth_stands(f->auth, user.id, user.stamp));
    json_decref(ada);
    ada = NULL;
    assert_int_equal(auth_sign_in(f->auth, &home, "ada@example.com", password, &ada, &f->fault), 0);

    assert_int_equal(auth_list(other, &list, &f->fault), 0);
    assert_int_equal(json_array_size(list), 1);
    assert_string_equal(text(json_array_get(list, 0), "email"), "ada@example.com");
    assert_null(json_object_get(json_array_get(list, 0), "password"));
    assert_int_equal(auth_verify(f->auth, text(ada, "access_token"), &user, &f->fault), 0);
    assert_int_equal(auth_remove(other, "ada@example.com", &f->fault), 0);
    assert_true(auth_remove(other, "ada@example.com", &f->fault) < 0);
    now_us += SECOND;
    assert_string_equal(verify(f, ada), "token-invalid");
    assert_false(auth_stands(f->auth, user.id, user.stamp));
    assert_false(auth_any(f->auth));
    json_decref(list);
    json_decref(ada);
    auth_close(other);
    auth_close(NULL);
}

/* ---- guests ---- */

static json_t *guest(struct fixture *f)
{
    json_t *json = NULL;

    if (auth_guest(f->auth, &home, &json, &f->fault) < 0)
        fail_msg("%s", f->fault.detail);
    return json;
}

static void test_guest(void **state)
{
    struct fixture *f = *state;
    json_t *json = guest(f), *next, *ada;
    char id[STORE_ID_MAX];
    struct auth_user user;
    struct auth_state now;

    assert_string_equal(text(json, "role"), "guest");
    assert_non_null(strstr(text(json, "email"), "@guest.invalid"));
    assert_int_equal(auth_verify(f->auth, text(json, "access_token"), &user, &f->fault), 0);
    assert_true(user.is_guest && !user.is_operator);
    /* There is still no account, and the first is the operator's. */
    assert_false(auth_any(f->auth));
    auth_get_state(f->auth, &home, &now);
    assert_true(now.first && now.guest && !now.accounts);
    ada = sign_up(f, "ada@example.com");
    assert_string_equal(text(ada, "role"), "operator");
    auth_get_state(f->auth, &home, &now);
    assert_true(!now.first && now.guest && now.accounts);
    /* Nobody can sign in as a guest, whatever the password. */
    assert_string_equal(attempt(f, &home, text(json, "email"), STORE_PASSWORD_NONE),
                        "bad-credentials");
    assert_true(auth_reset(f->auth, text(json, "email"), PASSWORD, &f->fault) < 0);
    assert_true(auth_guest_of(f->auth, text(json, "refresh_token"), id));
    assert_string_equal(id, text(json, "user_id"));
    assert_false(auth_guest_of(f->auth, text(ada, "refresh_token"), id));
    assert_false(auth_guest_of(f->auth, "gbr_nonsense", id));
    next = refresh(f, json);
    assert_non_null(next);
    json_decref(json);
    /* The day ends for both tokens, although they were renewed. */
    now_us += DAY - 10 * MINUTE;
    json = refresh(f, next);
    assert_non_null(json);
    now_us += 10 * MINUTE - SECOND;
    assert_string_equal(verify(f, json), "ok");
    now_us += SECOND;
    assert_string_equal(verify(f, json), "token-invalid");
    assert_null(refresh(f, json));
    json_decref(json);
    json_decref(next);
    json_decref(ada);
}

static void test_guests_bounded(void **state)
{
    struct fixture *f = *state;
    char(*ids)[STORE_ID_MAX] = NULL;
    json_t *json = NULL;
    size_t len;

    for (int i = 0; i < 10; i++)
        json_decref(guest(f));
    assert_true(auth_guest(f->auth, &home, &json, &f->fault) < 0);
    assert_string_equal(f->fault.type, "too-many-guesses");
    assert_true(f->fault.retry_after_s > 0);
    for (int i = 10; i < AUTH_GUESTS_MAX; i++) {
        now_us += MINUTE;
        json_decref(guest(f));
    }
    now_us += MINUTE;
    assert_true(auth_guest(f->auth, &home, &json, &f->fault) < 0);
    assert_string_equal(f->fault.type, "too-many-guests");
    assert_true(f->fault.retry_after_s > 0);
    assert_int_equal(auth_guests_over(f->auth, &ids, &len, &f->fault), 0);
    assert_int_equal(len, 0);
    free(ids);
    now_us += DAY - 10 * MINUTE;
    assert_int_equal(auth_guests_over(f->auth, &ids, &len, &f->fault), 0);
    assert_in_range(len, 1, AUTH_GUESTS_MAX);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(auth_delete(f->auth, ids[i], &f->fault), 0);
    free(ids);
    json_decref(guest(f));
}

static void test_guest_modes(void **state)
{
    struct fixture *f = *state;
    static const struct {
        enum auth_signup signup;
        bool home, any;
        const char *says;
        bool first, guest;
    } cases[] = {
        { AUTH_SIGNUP_AUTO, true, false, "open", true, true },
        { AUTH_SIGNUP_AUTO, false, false, "closed", false, false },
        { AUTH_SIGNUP_OPEN, true, false, "open", true, true },
        { AUTH_SIGNUP_OPEN, false, false, "closed", false, false },
        { AUTH_SIGNUP_INVITE, true, false, "invite", false, false },
        { AUTH_SIGNUP_CLOSED, true, false, "closed", false, false },
        { AUTH_SIGNUP_AUTO, true, true, "open", false, true },
        { AUTH_SIGNUP_AUTO, false, true, "invite", false, false },
        { AUTH_SIGNUP_OPEN, false, true, "open", false, false },
        { AUTH_SIGNUP_INVITE, true, true, "invite", false, false },
        { AUTH_SIGNUP_INVITE, false, true, "invite", false, false },
        { AUTH_SIGNUP_CLOSED, true, true, "closed", false, false },
        { AUTH_SIGNUP_CLOSED, false, true, "closed", false, false },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct auth_peer *peer = cases[i].home ? &home : &away;
        struct auth_state now;
        json_t *json = NULL;

        if (cases[i].any && !auth_any(f->auth))
            json_decref(sign_up(f, "ada@example.com"));
        auth_close(f->auth);
        f->auth = open_auth(f, cases[i].signup);
        auth_get_state(f->auth, peer, &now);
        assert_string_equal(now.signup, cases[i].says);
        assert_true(now.first == cases[i].first && now.guest == cases[i].guest);
        assert_true(now.accounts == cases[i].any);
        assert_int_equal(auth_guest(f->auth, peer, &json, &f->fault) == 0, cases[i].guest);
        if (!cases[i].guest)
            assert_string_equal(f->fault.type, "guests-closed");
        json_decref(json);
        auth_close(f->auth);
        f->auth = open_auth(f, AUTH_SIGNUP_AUTO);
    }
}

#define WITH_AUTH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_AUTH(test_sign_up),
        WITH_AUTH(test_sign_up_bad),
        WITH_AUTH(test_sign_up_modes),
        WITH_AUTH(test_invitation),
        WITH_AUTH(test_sign_up_throttled),
        WITH_AUTH(test_sign_in),
        WITH_AUTH(test_guessing_tells_nothing),
        WITH_AUTH(test_throttled_account),
        WITH_AUTH(test_throttled_but_trusted),
        WITH_AUTH(test_throttled_address),
        WITH_AUTH(test_access_token),
        WITH_AUTH(test_key_rotation),
        WITH_AUTH(test_refresh),
        WITH_AUTH(test_refresh_bad),
        WITH_AUTH(test_sign_out),
        WITH_AUTH(test_change),
        WITH_AUTH(test_check_throttled),
        WITH_AUTH(test_delete),
        WITH_AUTH(test_operator),
        WITH_AUTH(test_guest),
        WITH_AUTH(test_guests_bounded),
        WITH_AUTH(test_guest_modes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
