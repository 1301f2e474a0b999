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
 * A guest has an account without a password, for a day: whoever may sign up on this machine may
 * also just look around. There are only a few at a time, and who shows up first as a guest does not
 * take the place of the operator.
 *
 * Parts: jwt.c is the form of access tokens, ring.c the keys that sign them, password.c the rules
 * and hashes, throttle.c the counting of attempts, known.c what is remembered about users, guest.c
 * guests.
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

/* ---- guests ---- */

#define AUTH_GUESTS_MAX 20                         /* at a time */
#define AUTH_GUEST_US   (INT64_C(86400) * 1000000) /* how long an account of one lives */

/* Quotas of a guest. */
#define AUTH_GUEST_SESSIONS   4
#define AUTH_GUEST_EXECUTIONS 2
#define AUTH_GUEST_RATE       120 /* per minute */

struct auth_state {
    bool accounts;      /* somebody has one, guests aside */
    const char *signup; /* "open", "invite" or "closed" for this peer */
    bool first;         /* this peer may create the operator's account now */
    bool guest;         /* this peer may be a guest */
};

/* What @peer may do without an account. */
void auth_get_state(struct auth *auth, const struct auth_peer *peer, struct auth_state *ret_state);

/* An account for a day, and its tokens, as those of a sign-up. */
int auth_guest(struct auth *auth, const struct auth_peer *peer, json_t **ret_json,
               struct fault *fault);

/* The guest who signs out with this token: nobody can ever come back as one, so the caller removes
 * it. False: the token is somebody else's, or nobody's. */
bool auth_guest_of(struct auth *auth, const char *refresh_token, char ret_id[STORE_ID_MAX]);

/* Ids of guests whose day is over; the caller frees the array. The next call has more. */
int auth_guests_over(struct auth *auth, char (**ret_ids)[STORE_ID_MAX], size_t *ret_len,
                     struct fault *fault);

/* ---- access tokens ---- */

/* Whether @token looks like an access token at all (and not like an API key). */
bool auth_is_access_token(const char *token);

struct auth_user {
    char id[STORE_ID_MAX];
    bool is_operator, is_guest;
    int64_t stamp; /* for auth_stands() */
};

/* -EACCES and a fault (401) unless the token is ours, current, and its user still exists; another
 * negative number and a fault (500) if the store cannot be read. Cheap. */
int auth_verify(struct auth *auth, const char *token, struct auth_user *ret_user,
                struct fault *fault);

/* For a connection that stays open longer than an access token is valid: whether the user, who was
 * verified before, still exists and has the same password; a guest also has only a day. False if
 * the store cannot be read. */
bool auth_stands(struct auth *auth, const char *user_id, int64_t stamp);

/* Whether anybody has an account, guests aside; true if the store cannot be read. */
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
/* By id, for operators of the web page. USER_UNKNOWN: no such account. LAST_OPERATOR: nobody else
 * is one. *@ret_json is the account, as in auth_list(). */
int auth_user(struct auth *auth, const char *user_id, json_t **ret_json, struct fault *fault);
int auth_set_operator(struct auth *auth, const char *user_id, bool is_operator, json_t **ret_json,
                      struct fault *fault);
/* An array of {user_id, email, name, role, created}, the oldest first. */
int auth_list(struct auth *auth, json_t **ret_json, struct fault *fault);

#define AUTH_CODE_MAX 40

/* A code that lets one person sign up, for @valid_us. */
int auth_invite(struct auth *auth, int64_t valid_us, char ret_code[AUTH_CODE_MAX],
                struct fault *fault);
/* A password of 100 random bits, in groups that can be read aloud. */
void auth_make_password(char ret_password[AUTH_CODE_MAX]);
