/* Signing up, in and out; access tokens. */
#include "mark/auth/auth.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/hex.h"
#include "base/text/utf8.h"
#include "mark/auth/internal.h"

#include "base/banned.h"

#define MINUTE (60 * USEC_PER_SEC)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

/* Defaults. A key signs for a week, and its tokens are valid for minutes; the hour is for clocks
 * that are set. */
#define ACCESS_US    (15 * MINUTE)
#define REFRESH_US   (30 * DAY)
#define ROTATE_US    (7 * DAY)
#define KEEP_MORE_US HOUR

/* Failed attempts: ten as one person, then one each minute: fourteen thousand a day from all
 * addresses together is nothing against a password that is not among the commonest. Thirty from one
 * address, where an office may sit, then six a minute. */
#define ACCOUNT_BURST    10
#define ACCOUNT_EVERY_US MINUTE
#define ADDRESS_BURST    30
#define ADDRESS_EVERY_US (10 * USEC_PER_SEC)
#define SIGNUP_BURST     60
#define SIGNUP_EVERY_US  (10 * USEC_PER_SEC)
#define GUEST_BURST      10
#define GUEST_EVERY_US   MINUTE
#define TRUSTED_US       (30 * DAY)

#define SIGN_INS_MAX 50 /* of one user at a time */

#define REFRESH_PREFIX "gbr_"
#define FAMILY_LEN     32
#define SECRET_LEN     64
#define REFRESH_LEN    (sizeof REFRESH_PREFIX - 1 + FAMILY_LEN + 1 + SECRET_LEN)

#define LEEWAY_S 60 /* a token from another process whose clock is ahead */

/* ---- opening and closing ---- */

static int64_t or_default(int64_t value, int64_t standard)
{
    return value ? value : standard;
}

static int open_parts(struct auth *auth, const struct auth_config *config, struct gb_err *err)
{
    if (sodium_init() < 0)
        return gb_fail_plain(err, EIO, "libsodium could not be initialised");
    hasher_init(&auth->hasher, config->hash_memory, config->hash_passes);
    throttle_init(&auth->accounts, ACCOUNT_BURST, ACCOUNT_EVERY_US);
    throttle_init(&auth->pairs, ACCOUNT_BURST, ACCOUNT_EVERY_US);
    throttle_init(&auth->addresses, ADDRESS_BURST, ADDRESS_EVERY_US);
    throttle_init(&auth->signups, SIGNUP_BURST, SIGNUP_EVERY_US);
    throttle_init(&auth->guests, GUEST_BURST, GUEST_EVERY_US);
    throttle_init(&auth->trusted, 1, TRUSTED_US);
    known_init(&auth->known, config->store);
    return ring_open(config->data_dir, or_default(config->rotate_us, ROTATE_US),
                     auth->access_us + KEEP_MORE_US, &auth->ring, err);
}

int auth_open(const struct auth_config *config, struct auth **ret_auth, struct gb_err *err)
{
    struct auth *auth = calloc(1, sizeof *auth);
    int r;

    if (!auth)
        return gb_fail(err, ENOMEM, "open the accounts");
    auth->store = config->store;
    auth->signup = config->signup;
    auth->access_us = or_default(config->access_us, ACCESS_US);
    auth->refresh_us = or_default(config->refresh_us, REFRESH_US);
    auth->now_us = config->now_us ? config->now_us : clock_wall_us;
    r = open_parts(auth, config, err);
    if (r < 0) {
        auth_close(auth);
        return r;
    }
    *ret_auth = auth;
    return 0;
}

void auth_close(struct auth *auth)
{
    if (!auth)
        return;
    ring_close(auth->ring);
    known_release(&auth->known);
    throttle_release(&auth->accounts);
    throttle_release(&auth->pairs);
    throttle_release(&auth->addresses);
    throttle_release(&auth->signups);
    throttle_release(&auth->guests);
    throttle_release(&auth->trusted);
    hasher_release(&auth->hasher);
    free(auth);
}

int auth_fail_store(const struct gb_err *err, struct fault *fault)
{
    if (err->code == ENOSPC) {
        (void) fault_set(fault, PROBLEM_DISK_FULL, NULL,
                         "the disk of the service is full; ask the operator to make room");
        fault->retry_after_s = 30;
        return -1;
    }
    if (err->code == ENOMEM)
        return fault_no_memory(fault);
    return fault_set(fault, PROBLEM_INTERNAL, NULL, "accounts cannot be read or written: %s",
                     err->msg);
}

/* ---- tokens ---- */

json_t *auth_user_to_json(const struct store_user *user)
{
    return json_pack("{s:s,s:s,s:s,s:s}", "user_id", user->id, "email", user->email, "name",
                     user->name, "role",
                     user->is_operator           ? "operator"
                     : store_user_is_guest(user) ? "guest"
                                                 : "user");
}

static int make_access_token(struct auth *auth, const struct store_user *user, int64_t now_us,
                             char ret_token[JWT_TOKEN_MAX], struct gb_err *err)
{
    struct jwt_claims claims = { .iat_s = now_us / USEC_PER_SEC,
                                 .exp_s = (now_us + auth->access_us) / USEC_PER_SEC,
                                 .stamp = user->valid_from_us };
    struct jwt_key key;
    int r = ring_current(auth->ring, now_us, &key, err);

    if (r < 0)
        return r;
    (void) snprintf(claims.sub, sizeof claims.sub, "%.*s", MARK_ID_MAX - 1, user->id);
    mark_id_make(claims.jti);
    r = jwt_make(&key, &claims, ret_token);
    sodium_memzero(&key, sizeof key);
    return r < 0 ? gb_fail(err, -r, "make a token") : 0;
}

static void random_hex(char *buf, size_t digits)
{
    uint8_t bits[SECRET_LEN / 2];

    randombytes_buf(bits, digits / 2);
    (void) sodium_bin2hex(buf, digits + 1, bits, digits / 2);
    sodium_memzero(bits, sizeof bits);
}

/* BLAKE2b, not argon2id: 256 random bits cannot be guessed at any speed. */
static void token_hash(const char *token, uint8_t ret_hash[STORE_HASH_BYTES])
{
    (void) crypto_generichash(ret_hash, STORE_HASH_BYTES, (const unsigned char *) token,
                              strlen(token), NULL, 0);
}

void auth_code_hash(const char *code, uint8_t ret_hash[STORE_HASH_BYTES])
{
    token_hash(code, ret_hash);
}

/* Another token of the family, and its row. */
static void make_refresh_token(struct auth *auth, const char *family, int64_t now_us,
                               char ret_token[REFRESH_LEN + 1], struct store_sign_in *ret_sign_in)
{
    char secret[SECRET_LEN + 1];

    random_hex(secret, SECRET_LEN);
    (void) snprintf(ret_token, REFRESH_LEN + 1, REFRESH_PREFIX "%s_%s", family, secret);
    sodium_memzero(secret, sizeof secret);
    *ret_sign_in =
        (struct store_sign_in){ .used_us = now_us, .expires_us = now_us + auth->refresh_us };
    (void) snprintf(ret_sign_in->family, sizeof ret_sign_in->family, "%s", family);
    token_hash(ret_token, ret_sign_in->hash);
}

/* Whether @token is well formed; it may have any length. */
static bool refresh_token_parse(const char *token, char ret_family[FAMILY_LEN + 1])
{
    const char *family = token + sizeof REFRESH_PREFIX - 1;

    if (strnlen(token, REFRESH_LEN + 1) != REFRESH_LEN ||
        strncmp(token, REFRESH_PREFIX, sizeof REFRESH_PREFIX - 1) != 0 ||
        strspn(family, HEX_DIGITS) != FAMILY_LEN || family[FAMILY_LEN] != '_' ||
        !hex_is(family + FAMILY_LEN + 1, SECRET_LEN))
        return false;
    memcpy(ret_family, family, FAMILY_LEN);
    ret_family[FAMILY_LEN] = '\0';
    return true;
}

/* The user with both tokens, as the wire shows them. */
static int pair_to_json(struct auth *auth, const struct store_user *user, const char *refresh_token,
                        int64_t now_us, json_t **ret_json, struct fault *fault)
{
    char access[JWT_TOKEN_MAX];
    struct gb_err err = { 0 };
    json_t *json, *pair;

    if (make_access_token(auth, user, now_us, access, &err) < 0)
        return auth_fail_store(&err, fault);
    json = auth_user_to_json(user);
    pair = json_pack("{s:s,s:s,s:s,s:I}", "access_token", access, "refresh_token", refresh_token,
                     "token_type", "bearer", "expires_in",
                     (json_int_t) (auth->access_us / USEC_PER_SEC));
    sodium_memzero(access, sizeof access);
    if (!json || !pair || json_object_update(json, pair) < 0) {
        json_decref(json);
        json = NULL;
    }
    json_decref(pair);
    *ret_json = json;
    return json ? 0 : fault_no_memory(fault);
}

int auth_issue(struct auth *auth, const struct store_user *user, json_t **ret_json,
               struct fault *fault)
{
    char token[REFRESH_LEN + 1], family[FAMILY_LEN + 1];
    int64_t now_us = auth->now_us();
    struct store_sign_in sign_in;
    struct gb_err err = { 0 };
    int r;

    random_hex(family, FAMILY_LEN);
    make_refresh_token(auth, family, now_us, token, &sign_in);
    (void) snprintf(sign_in.user_id, sizeof sign_in.user_id, "%s", user->id);
    if (store_user_is_guest(user))
        sign_in.expires_us = user->created_us + AUTH_GUEST_US;
    r = store_sign_in_add(auth->store, &sign_in, user->valid_from_us, SIGN_INS_MAX, &err);
    if (r == -ENOENT)
        r = fault_set(fault, PROBLEM_BAD_CREDENTIALS, NULL,
                      "the account was changed at this moment; sign in again");
    else if (r < 0)
        r = auth_fail_store(&err, fault);
    else
        r = pair_to_json(auth, user, token, now_us, ret_json, fault);
    sodium_memzero(token, sizeof token);
    return r;
}

/* ---- guessing ---- */

int auth_fail_throttled(int64_t wait_us, struct fault *fault)
{
    int seconds = (int) ((wait_us + USEC_PER_SEC - 1) / USEC_PER_SEC);

    (void) fault_set(fault, PROBLEM_TOO_MANY_GUESSES, NULL,
                     "too many attempts have failed; try again in %d seconds", seconds);
    fault->retry_after_s = seconds;
    return -1;
}

/* An attempt to sign in, counted twice: for the account and for the address. */
struct attempt {
    struct throttle *account_throttle;
    char account[STORE_EMAIL_MAX + sizeof((struct auth_peer *) NULL)->address + 1];
    char pair[STORE_EMAIL_MAX + sizeof((struct auth_peer *) NULL)->address + 1];
    const char *address;
};

/* Somebody who guesses from everywhere empties the bucket of the account. Its owner then signs in
 * from where that has worked before: such a pair has a bucket of its own. */
static void attempt_init(struct auth *auth, const struct auth_peer *peer, const char *email,
                         int64_t now_us, struct attempt *ret)
{
    bool trusted;

    (void) snprintf(ret->pair, sizeof ret->pair, "%s %s", email, peer->address);
    trusted = throttle_used(&auth->trusted, ret->pair, now_us);
    ret->account_throttle = trusted ? &auth->pairs : &auth->accounts;
    (void) snprintf(ret->account, sizeof ret->account, "%s", trusted ? ret->pair : email);
    ret->address = peer->address;
}

static int attempt_begin(struct auth *auth, const struct attempt *attempt, int64_t now_us,
                         struct fault *fault)
{
    int64_t wait_us = throttle_take(&auth->addresses, attempt->address, now_us);

    if (wait_us > 0)
        return auth_fail_throttled(wait_us, fault);
    wait_us = throttle_take(attempt->account_throttle, attempt->account, now_us);
    if (wait_us > 0) {
        throttle_give(&auth->addresses, attempt->address, now_us);
        return auth_fail_throttled(wait_us, fault);
    }
    return 0;
}

/* It was no guess: it succeeded, or was not tried at all. */
static void attempt_undo(struct auth *auth, const struct attempt *attempt, int64_t now_us)
{
    throttle_give(&auth->addresses, attempt->address, now_us);
    throttle_give(attempt->account_throttle, attempt->account, now_us);
}

static int check_account(struct auth *auth, const char *email, const char *password,
                         struct store_user *ret_user, bool *ret_right, struct fault *fault)
{
    char again[STORE_PASSWORD_MAX];
    struct gb_err err = { 0 };
    int r = store_user_find(auth->store, email, ret_user, &err);
    bool exists = r == 0;

    if (r < 0 && r != -ENOENT)
        return auth_fail_store(&err, fault);
    if (exists && store_user_is_guest(ret_user)) /* has no password, and so cannot sign in */
        exists = false;
    r = hasher_check(&auth->hasher, password, exists ? ret_user->password : NULL, ret_right, again,
                     fault);
    if (r == 0 && *ret_right && again[0])
        (void) store_user_rehash(auth->store, ret_user->id, ret_user->password, again, NULL);
    return r;
}

int auth_try(struct auth *auth, const struct auth_peer *peer, const char *email,
             const char *password, struct store_user *ret_user, struct fault *fault)
{
    int64_t now_us = auth->now_us();
    struct attempt attempt;
    bool right = false;
    int r;

    attempt_init(auth, peer, email, now_us, &attempt);
    r = attempt_begin(auth, &attempt, now_us, fault);
    if (r < 0)
        return r;
    r = check_account(auth, email, password, ret_user, &right, fault);
    if (r < 0 || right)
        attempt_undo(auth, &attempt, now_us);
    if (r < 0)
        return r;
    if (!right)
        return fault_set(fault, PROBLEM_BAD_CREDENTIALS, NULL,
                         "the address or the password is wrong");
    (void) throttle_take(&auth->trusted, attempt.pair, now_us);
    return 0;
}

/* ---- signing up ---- */

static bool name_is_valid(const char *name)
{
    for (const char *p = name; *p; p++)
        if ((unsigned char) *p < ' ' || *p == 127)
            return false;
    return strlen(name) < STORE_USER_NAME_MAX && utf8_valid(name, strlen(name));
}

int auth_check_name(const char *name, struct fault *fault)
{
    return name_is_valid(name)
               ? 0
               : fault_set(fault, PROBLEM_INVALID_REQUEST, "name",
                           "a name has at most %d bytes of UTF-8, without control characters",
                           STORE_USER_NAME_MAX - 1);
}

static int fail_add(int r, const struct gb_err *err, struct fault *fault)
{
    if (r == -EEXIST)
        return fault_set(fault, PROBLEM_EMAIL_TAKEN, "email",
                         "an account with this address exists; sign in with POST /auth/signin");
    if (r == -EKEYREJECTED)
        return fault_set(
            fault, PROBLEM_SIGNUP_CLOSED, "invitation",
            "the invitation is unknown, used or expired; ask the operator for another");
    return auth_fail_store(err, fault);
}

/* The hash is made before the store is asked whether the address is free, so that takes as long
 * either way. */
int auth_make_user(struct auth *auth, const char *email, const char *password, const char *name,
                   const uint8_t *invitation, struct store_user *ret_user, struct fault *fault)
{
    struct store_user user = { 0 };
    struct gb_err err = { 0 };
    int r = email_normalise(email, user.email, fault);

    if (r == 0)
        r = password_check(password, user.email, fault);
    if (r == 0 && name)
        r = auth_check_name(name, fault);
    if (r == 0)
        r = hasher_make(&auth->hasher, password, user.password, fault);
    if (r < 0)
        return r;
    (void) snprintf(user.name, sizeof user.name, "%s", name ? name : "");
    mark_id_make(user.id);
    user.created_us = user.valid_from_us = auth->now_us();
    r = store_user_add(auth->store, &user, invitation, &user.is_operator, &err);
    if (r < 0)
        return fail_add(r, &err, fault);
    known_changed(&auth->known);
    *ret_user = user;
    return 0;
}

int auth_may_sign_up(struct auth *auth, const struct auth_peer *peer, const char *invitation,
                     uint8_t hash[STORE_HASH_BYTES], const uint8_t **ret_invitation,
                     struct fault *fault)
{
    struct gb_err err = { 0 };
    int r;

    *ret_invitation = NULL;
    /* The first account is the operator's: whoever happens to come by first must not get it. */
    if (!peer->loopback && !auth_any(auth))
        return fault_set(fault, PROBLEM_SIGNUP_CLOSED, NULL,
                         "the first account is the operator's and is created on the machine of the "
                         "service: glovebox user add EMAIL");
    if (auth->signup == AUTH_SIGNUP_OPEN || (auth->signup == AUTH_SIGNUP_AUTO && peer->loopback))
        return 0;
    if (auth->signup == AUTH_SIGNUP_CLOSED)
        return fault_set(fault, PROBLEM_SIGNUP_CLOSED, NULL,
                         "this service is closed for new accounts; ask the operator for one "
                         "(glovebox user add)");
    if (!invitation)
        return fault_set(fault, PROBLEM_SIGNUP_CLOSED, "invitation",
                         "signing up here needs an invitation; ask the operator for one (glovebox "
                         "user invite)");
    auth_code_hash(invitation, hash);
    r = store_invitation_check(auth->store, hash, auth->now_us(), &err);
    if (r < 0)
        return fail_add(r, &err, fault);
    *ret_invitation = hash;
    return 0;
}

int auth_sign_up(struct auth *auth, const struct auth_peer *peer, const char *email,
                 const char *password, const char *name, const char *invitation, json_t **ret_json,
                 struct fault *fault)
{
    uint8_t hash[STORE_HASH_BYTES];
    const uint8_t *let_in;
    struct store_user user;
    int64_t now_us = auth->now_us();
    int64_t wait_us = throttle_take(&auth->signups, peer->address, now_us);
    int r;

    if (wait_us > 0)
        return auth_fail_throttled(wait_us, fault);
    r = auth_may_sign_up(auth, peer, invitation, hash, &let_in, fault);
    if (r == 0)
        r = auth_make_user(auth, email, password, name, let_in, &user, fault);
    /* Who learns that an address is taken has made a guess. */
    if (r < 0 && fault->problem == PROBLEM_EMAIL_TAKEN) {
        wait_us = throttle_take(&auth->addresses, peer->address, now_us);
        return wait_us > 0 ? auth_fail_throttled(wait_us, fault) : r;
    }
    return r < 0 ? r : auth_issue(auth, &user, ret_json, fault);
}

/* ---- signing in and out ---- */

int auth_sign_in(struct auth *auth, const struct auth_peer *peer, const char *email,
                 const char *password, json_t **ret_json, struct fault *fault)
{
    char normal[STORE_EMAIL_MAX];
    struct store_user user;
    int r = email_normalise(email, normal, fault);

    if (r == 0)
        r = auth_try(auth, peer, normal, password, &user, fault);
    return r < 0 ? r : auth_issue(auth, &user, ret_json, fault);
}

int auth_refresh(struct auth *auth, const char *refresh_token, json_t **ret_json,
                 struct fault *fault)
{
    char family[FAMILY_LEN + 1], token[REFRESH_LEN + 1];
    uint8_t spent[STORE_HASH_BYTES];
    int64_t now_us = auth->now_us();
    struct store_sign_in next;
    struct store_user user;
    struct gb_err err = { 0 };
    int r;

    if (!refresh_token_parse(refresh_token, family))
        return fault_set(fault, PROBLEM_TOKEN_INVALID, "refresh_token",
                         "this is not a refresh token of this service; sign in again");
    token_hash(refresh_token, spent);
    make_refresh_token(auth, family, now_us, token, &next);
    r = store_sign_in_turn(auth->store, &next, spent, &user, &err);
    if (r == -ENOENT)
        r = fault_set(fault, PROBLEM_TOKEN_INVALID, "refresh_token",
                      "this sign-in has ended; sign in again");
    else if (r == -ESTALE)
        r = fault_set(fault, PROBLEM_TOKEN_INVALID, "refresh_token",
                      "this refresh token was used before, so somebody may have copied it; the "
                      "sign-in is ended: sign in again");
    else if (r < 0)
        r = auth_fail_store(&err, fault);
    else if (store_user_is_guest(&user) && auth_guest_is_over(user.created_us, now_us))
        r = auth_fail_over(fault);
    else
        r = pair_to_json(auth, &user, token, now_us, ret_json, fault);
    sodium_memzero(token, sizeof token);
    return r;
}

int auth_sign_out(struct auth *auth, const char *refresh_token, struct fault *fault)
{
    char family[FAMILY_LEN + 1];
    struct gb_err err = { 0 };

    if (refresh_token_parse(refresh_token, family) &&
        store_sign_in_end(auth->store, family, &err) < 0)
        return auth_fail_store(&err, fault);
    return 0;
}

bool auth_guest_of(struct auth *auth, const char *refresh_token, char ret_id[STORE_ID_MAX])
{
    char family[FAMILY_LEN + 1];
    struct store_user user;

    if (!refresh_token_parse(refresh_token, family) ||
        store_sign_in_user(auth->store, family, &user, NULL) < 0 || !store_user_is_guest(&user))
        return false;
    memcpy(ret_id, user.id, STORE_ID_MAX);
    return true;
}

/* ---- access tokens ---- */

bool auth_is_access_token(const char *token)
{
    return strncmp(token, "eyJ", 3) == 0; /* the base64 of {" */
}

static int fail_token(struct fault *fault, const char *detail)
{
    (void) fault_set(fault, PROBLEM_TOKEN_INVALID, NULL, "%s", detail);
    return -EACCES;
}

int auth_verify(struct auth *auth, const char *token, struct auth_user *ret_user,
                struct fault *fault)
{
    static const char foreign[] =
        "this is not an access token of this service; sign in with POST /auth/signin";
    int64_t now_us = auth->now_us(), now_s = now_us / USEC_PER_SEC;
    char kid[JWT_KID_LEN + 1];
    struct jwt_key key;
    struct jwt_claims claims;
    struct known_user user;
    struct gb_err err = { 0 };
    bool good = jwt_kid(token, kid) && ring_find(auth->ring, kid, now_us, &key) &&
                jwt_open(token, &key, &claims);

    sodium_memzero(&key, sizeof key);
    if (!good || claims.iat_s > now_s + LEEWAY_S)
        return fail_token(fault, foreign);
    if (claims.exp_s <= now_s)
        return fail_token(fault, "the access token has expired; get a new one with POST "
                                 "/auth/refresh, or sign in with POST /auth/signin");
    if (known_get(&auth->known, claims.sub, now_us, &user, &err) < 0)
        return auth_fail_store(&err, fault);
    if (!user.exists)
        return fail_token(fault, foreign);
    if (user.stamp != claims.stamp)
        return fail_token(fault, "the password was changed since; sign in with POST /auth/signin");
    if (user.is_guest && auth_guest_is_over(user.created_us, now_us)) {
        (void) auth_fail_over(fault);
        return -EACCES;
    }
    memcpy(ret_user->id, user.id, sizeof ret_user->id);
    ret_user->is_operator = user.is_operator;
    ret_user->is_guest = user.is_guest;
    ret_user->stamp = user.stamp;
    return 0;
}

bool auth_stands(struct auth *auth, const char *user_id, int64_t stamp)
{
    int64_t now_us = auth->now_us();
    struct known_user user;
    struct gb_err err;

    return known_get(&auth->known, user_id, now_us, &user, &err) == 0 && user.exists &&
           user.stamp == stamp && !(user.is_guest && auth_guest_is_over(user.created_us, now_us));
}

bool auth_any(struct auth *auth)
{
    bool any = true;

    (void) known_any(&auth->known, auth->now_us(), &any, NULL);
    return any;
}
