/*
 * Accounts: people who sign up, sign in, and own chats.
 *
 * A password is kept as its argon2id hash. Who signs in gets two tokens: an access token, a JWT
 * (HS256, 15 minutes) that is checked without the store, and a refresh token, 256 random bits of
 * which the store has the hash. A refresh token works once: the reply has its successor, and using
 * one a second time ends the whole family, because then somebody has a copy. The keys that sign
 * access tokens rotate; a token names its key, and the previous ones are valid as long as the
 * tokens that they signed.
 *
 * Guessing is throttled per account and per address, and takes as long and reads the same whether
 * the account exists or not. Who may sign up learns whether an address is taken, because the reply
 * to a sign-up is an account or none; that is throttled too, and who may not sign up learns
 * nothing.
 *
 * Parts: jwt.c is the form of access tokens, ring.c the keys that sign them, password.c the rules
 * and hashes, throttle.c the counting of attempts, known.c what is remembered about users.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "service/service.h"
#include "store/users.h"

struct auth;

enum auth_signup { AUTH_SIGNUP_AUTO, AUTH_SIGNUP_OPEN, AUTH_SIGNUP_INVITE, AUTH_SIGNUP_CLOSED };

struct auth_config {
    struct store *store;
    const char *data_dir; /* has the signing keys, in mark/ */
    enum auth_signup signup;
    int64_t access_us, refresh_us;    /* lifetimes; 0: 15 minutes, 30 days */
    int64_t rotate_us;                /* of signing keys; 0: 7 days */
    int64_t hash_memory, hash_passes; /* of argon2id; 0: 64 MiB, 3. For tests */
    int64_t (*now_us)(void);          /* wall clock; NULL: clock_unix_us() or the like. For tests */
};

int auth_open(const struct auth_config *config, struct auth **ret_auth, struct gb_err *err);
void auth_close(struct auth *auth); /* accepts NULL */

/* Where a request comes from: for throttling, and because AUTO lets people sign up on loopback
 * only. */
struct auth_peer {
    char address[64]; /* of the client, without the port; "" for a Unix socket */
    bool loopback;
};

/* All of these fill @ret_json, which the caller owns, with the reply of the wire. */
int auth_sign_up(struct auth *auth, const struct auth_peer *peer, const char *email,
                 const char *password, const char *name, const char *invitation, json_t **ret_json,
                 struct fault *fault);
int auth_sign_in(struct auth *auth, const struct auth_peer *peer, const char *email,
                 const char *password, json_t **ret_json, struct fault *fault);
int auth_refresh(struct auth *auth, const char *refresh_token, json_t **ret_json,
                 struct fault *fault);
/* Ends the family of the token; an unknown one is no fault. */
int auth_sign_out(struct auth *auth, const char *refresh_token, struct fault *fault);

/* Whether @token looks like an access token at all (and not like an API key). */
bool auth_is_access_token(const char *token);

struct auth_user {
    char id[STORE_ID_MAX];
    bool is_operator;
};

/* -EACCES and a fault (401) unless the token is ours, current, and its user still exists; another
 * negative number and a fault (500) if the store cannot be read. Cheap. */
int auth_verify(struct auth *auth, const char *token, struct auth_user *ret_user,
                struct fault *fault);

/* Whether anybody has an account; true if the store cannot be read. */
bool auth_any(struct auth *auth);

int auth_me(struct auth *auth, const char *user_id, json_t **ret_json, struct fault *fault);
/* NULL: unchanged. A new password, or a deletion, needs the current one; the former ends all
 * sessions of the user and returns a new pair of tokens. */
int auth_change(struct auth *auth, const struct auth_peer *peer, const char *user_id,
                const char *name, const char *password, const char *current_password,
                json_t **ret_json, struct fault *fault);
/* A deletion has two steps, because the caller ends what runs for the user in between: boxes,
 * answers. After the second, which removes the account and all that is its from the store, the
 * caller sweeps the files that nobody has any more. */
int auth_check_password(struct auth *auth, const struct auth_peer *peer, const char *user_id,
                        const char *current_password, struct fault *fault);
int auth_delete(struct auth *auth, const char *user_id, struct fault *fault);

/* ---- for the operator's command line ---- */

/* Those of sign-up, without tokens. The first account of all is the operator's. */
int auth_add(struct auth *auth, const char *email, const char *password, const char *name,
             json_t **ret_json, struct fault *fault);
/* A new password; ends all sessions of the user. BAD_CREDENTIALS: no such account. */
int auth_reset(struct auth *auth, const char *email, const char *password, struct fault *fault);
int auth_remove(struct auth *auth, const char *email, struct fault *fault);
/* An array of {user_id, email, name, role, created}, the oldest first. */
int auth_list(struct auth *auth, json_t **ret_json, struct fault *fault);

#define AUTH_CODE_MAX 40

/* A code that lets one person sign up, for @valid_us. */
int auth_invite(struct auth *auth, int64_t valid_us, char ret_code[AUTH_CODE_MAX],
                struct fault *fault);
/* A password of 100 random bits, in groups that can be read aloud. */
void auth_make_password(char ret_password[AUTH_CODE_MAX]);
