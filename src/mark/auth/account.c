/* What happens to an account once it is there, and what the operator does to accounts. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/parse.h"
#include "mark/auth/internal.h"

#include "base/banned.h"

/* ---- the user's side ---- */

static int fail_gone(struct fault *fault)
{
    return fault_set(fault, PROBLEM_TOKEN_INVALID, NULL, "this account does not exist any more");
}

static int fail_user(int r, const struct gb_err *err, struct fault *fault)
{
    return r == -ENOENT ? fail_gone(fault) : auth_fail_store(err, fault);
}

static json_t *profile(const struct store_user *user)
{
    json_t *json = auth_user_to_json(user);
    char created[FORMAT_UTC_MAX];

    format_utc(user->created_us, created);
    if (json && json_object_set_new(json, "created", json_string(created)) < 0) {
        json_decref(json);
        json = NULL;
    }
    return json;
}

static int read_user(struct auth *auth, const char *user_id, struct store_user *ret_user,
                     struct fault *fault)
{
    struct gb_err err = { 0 };
    int r = store_user_get(auth->store, user_id, ret_user, &err);

    return r < 0 ? fail_user(r, &err, fault) : 0;
}

int auth_me(struct auth *auth, const char *user_id, json_t **ret_json, struct fault *fault)
{
    struct store_user user;
    int r = read_user(auth, user_id, &user, fault);

    if (r < 0)
        return r;
    *ret_json = profile(&user);
    return *ret_json ? 0 : fault_no_memory(fault);
}

/* Changes the password of @user, which is updated; ends its sign-ins. */
static int set_password(struct auth *auth, struct store_user *user, const char *password,
                        struct fault *fault)
{
    int64_t now_us = auth->now_us();
    struct gb_err err = { 0 };
    int r = hasher_make(&auth->hasher, password, user->password, fault);

    if (r < 0)
        return r;
    user->valid_from_us = now_us > user->valid_from_us ? now_us : user->valid_from_us + 1;
    r = store_user_set_password(auth->store, user->id, user->password, user->valid_from_us, &err);
    known_changed(&auth->known);
    return r < 0 ? fail_user(r, &err, fault) : 0;
}

int auth_check_password(struct auth *auth, const struct auth_peer *peer, const char *user_id,
                        const char *current_password, struct fault *fault)
{
    struct store_user user, same;
    int r = read_user(auth, user_id, &user, fault);

    if (r == 0)
        r = auth_try(auth, peer, user.email, current_password, &same, fault);
    if (r < 0 && fault->problem == PROBLEM_BAD_CREDENTIALS)
        return fault_set(fault, PROBLEM_BAD_CREDENTIALS, "current_password",
                         "the current password is wrong");
    return r;
}

static int change_password(struct auth *auth, const struct auth_peer *peer, struct store_user *user,
                           const char *password, const char *current_password, struct fault *fault)
{
    int r;

    if (!current_password)
        return fault_set(fault, PROBLEM_INVALID_REQUEST, "current_password",
                         "a new password needs the current one, as current_password");
    r = password_check(password, user->email, fault);
    if (r == 0)
        r = auth_check_password(auth, peer, user->id, current_password, fault);
    return r == 0 ? set_password(auth, user, password, fault) : r;
}

static int change_name(struct auth *auth, struct store_user *user, const char *name,
                       struct fault *fault)
{
    struct gb_err err = { 0 };
    int r = store_user_rename(auth->store, user->id, name, &err);

    if (r < 0)
        return fail_user(r, &err, fault);
    known_changed(&auth->known);
    (void) snprintf(user->name, sizeof user->name, "%s", name);
    return 0;
}

int auth_change(struct auth *auth, const struct auth_peer *peer, const char *user_id,
                const char *name, const char *password, const char *current_password,
                json_t **ret_json, struct fault *fault)
{
    struct store_user user = { 0 };
    json_t *json = NULL, *tokens = NULL;
    int r = name ? auth_check_name(name, fault) : 0;

    if (r == 0)
        r = read_user(auth, user_id, &user, fault);
    if (r == 0 && password)
        r = change_password(auth, peer, &user, password, current_password, fault);
    if (r == 0 && name)
        r = change_name(auth, &user, name, fault);
    if (r == 0 && password)
        r = auth_issue(auth, &user, &tokens, fault);
    if (r < 0)
        return r;
    json = profile(&user);
    if (json && tokens && json_object_update(json, tokens) < 0) {
        json_decref(json);
        json = NULL;
    }
    json_decref(tokens);
    *ret_json = json;
    return json ? 0 : fault_no_memory(fault);
}

int auth_delete(struct auth *auth, const char *user_id, struct fault *fault)
{
    struct principal principal;
    struct gb_err err = { 0 };
    int r = principal_from_user(user_id, &principal);

    if (r < 0)
        return fail_gone(fault);
    r = store_user_delete(auth->store, user_id, principal_text(&principal), &err);
    known_changed(&auth->known);
    return r < 0 ? fail_user(r, &err, fault) : 0;
}

/* ---- the operator's side ---- */

int auth_add(struct auth *auth, const char *email, const char *password, const char *name,
             json_t **ret_json, struct fault *fault)
{
    struct store_user user;
    int r = auth_make_user(auth, email, password, name, NULL, &user, fault);

    if (r < 0)
        return r;
    *ret_json = profile(&user);
    return *ret_json ? 0 : fault_no_memory(fault);
}

static int find_user(struct auth *auth, const char *email, struct store_user *ret_user,
                     struct fault *fault)
{
    char normal[STORE_EMAIL_MAX];
    struct gb_err err = { 0 };
    int r = email_normalise(email, normal, fault);

    if (r < 0)
        return r;
    r = store_user_find(auth->store, normal, ret_user, &err);
    if (r == -ENOENT)
        return fault_set(fault, PROBLEM_BAD_CREDENTIALS, "email", "no account has the address %s",
                         normal);
    return r < 0 ? auth_fail_store(&err, fault) : 0;
}

int auth_reset(struct auth *auth, const char *email, const char *password, struct fault *fault)
{
    struct store_user user;
    int r = find_user(auth, email, &user, fault);

    if (r == 0 && store_user_is_guest(&user))
        return fault_set(fault, PROBLEM_BAD_CREDENTIALS, "email", "a guest has no password");
    if (r == 0)
        r = password_check(password, user.email, fault);
    return r == 0 ? set_password(auth, &user, password, fault) : r;
}

int auth_remove(struct auth *auth, const char *email, struct fault *fault)
{
    struct store_user user;
    int r = find_user(auth, email, &user, fault);

    return r == 0 ? auth_delete(auth, user.id, fault) : r;
}

static int fail_unknown(int r, const struct gb_err *err, struct fault *fault)
{
    if (r == -ENOENT || r == -EINVAL)
        return fault_set(fault, PROBLEM_USER_UNKNOWN, "id", "no such account; it may be gone");
    if (r == -EPERM)
        return fault_set(fault, PROBLEM_LAST_OPERATOR, NULL,
                         "this is the only operator; make somebody else one first");
    return auth_fail_store(err, fault);
}

int auth_user(struct auth *auth, const char *user_id, json_t **ret_json, struct fault *fault)
{
    struct store_user user;
    struct gb_err err = { 0 };
    int r = store_user_get(auth->store, user_id, &user, &err);

    if (r < 0)
        return fail_unknown(r, &err, fault);
    *ret_json = profile(&user);
    return *ret_json ? 0 : fault_no_memory(fault);
}

int auth_set_operator(struct auth *auth, const char *user_id, bool is_operator, json_t **ret_json,
                      struct fault *fault)
{
    struct gb_err err = { 0 };
    int r = store_user_set_operator(auth->store, user_id, is_operator, &err);

    known_changed(&auth->known);
    return r < 0 ? fail_unknown(r, &err, fault) : auth_user(auth, user_id, ret_json, fault);
}

int auth_list(struct auth *auth, json_t **ret_json, struct fault *fault)
{
    autofree struct store_user *users = NULL;
    struct gb_err err = { 0 };
    json_t *list;
    size_t len;

    if (store_user_list(auth->store, &users, &len, &err) < 0)
        return auth_fail_store(&err, fault);
    list = json_array();
    for (size_t i = 0; list && i < len; i++)
        if (json_array_append_new(list, profile(&users[i])) < 0) {
            json_decref(list);
            list = NULL;
        }
    *ret_json = list;
    return list ? 0 : fault_no_memory(fault);
}

/* Groups of five from 32 characters that are hard to mistake for each other. */
static void random_code(char *buf, size_t groups)
{
    static const char alphabet[] = "23456789abcdefghijkmnpqrstuvwxyz";
    _Static_assert(sizeof alphabet - 1 == 32, "five bits for each character");
    uint8_t bits[AUTH_CODE_MAX];
    size_t used = 0;

    randombytes_buf(bits, sizeof bits);
    for (size_t i = 0; i < groups * 5; i++) {
        if (i > 0 && i % 5 == 0)
            buf[used++] = '-';
        buf[used++] = alphabet[bits[i] % 32];
    }
    buf[used] = '\0';
    sodium_memzero(bits, sizeof bits);
}

int auth_invite(struct auth *auth, int64_t valid_us, char ret_code[AUTH_CODE_MAX],
                struct fault *fault)
{
    uint8_t hash[STORE_HASH_BYTES];
    int64_t now_us = auth->now_us();
    struct gb_err err = { 0 };
    char code[AUTH_CODE_MAX];

    random_code(code, 5);
    auth_code_hash(code, hash);
    if (store_invitation_add(auth->store, hash, now_us, now_us + valid_us, &err) < 0)
        return auth_fail_store(&err, fault);
    memcpy(ret_code, code, sizeof code);
    return 0;
}

void auth_make_password(char ret_password[AUTH_CODE_MAX])
{
    random_code(ret_password, 4);
}
