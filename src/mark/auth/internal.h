/* What the files of this room share. */
#pragma once

#include "mark/auth/auth.h"
#include "mark/auth/known.h"
#include "mark/auth/password.h"
#include "mark/auth/ring.h"
#include "mark/auth/throttle.h"

struct auth {
    struct store *store;
    enum auth_signup signup;
    int64_t access_us, refresh_us;
    int64_t (*now_us)(void);
    struct ring *ring;
    struct hasher hasher;
    struct throttle accounts;  /* failed attempts to sign in as somebody, from anywhere */
    struct throttle pairs;     /* the same from an address where it has succeeded before */
    struct throttle addresses; /* failed attempts from one address, as anybody */
    struct throttle signups;   /* new accounts from one address */
    struct throttle guests;    /* the same of guests */
    struct throttle trusted;   /* pairs of account and address that succeeded in the last weeks */
    struct known known;
};

/* A fault for a failure of the store. */
int auth_fail_store(const struct gb_err *err, struct fault *fault);

/* {user_id, email, name, role}; NULL: out of memory. */
json_t *auth_user_to_json(const struct store_user *user);

/* Signs the user in: a new family, whose tokens are added to the user in *@ret_json. */
int auth_issue(struct auth *auth, const struct store_user *user, json_t **ret_json,
               struct fault *fault);

/* Whether @password is that of the account @email, which is normalised; throttled. On success
 * *@ret_user is the account, otherwise the fault is the same whether there is one or not. */
int auth_try(struct auth *auth, const struct auth_peer *peer, const char *email,
             const char *password, struct store_user *ret_user, struct fault *fault);

int auth_check_name(const char *name, struct fault *fault);

/* Checks the fields of a new account and makes it. @invitation, a hash, may be NULL. */
int auth_make_user(struct auth *auth, const char *email, const char *password, const char *name,
                   const uint8_t *invitation, struct store_user *ret_user, struct fault *fault);

/* The hash of an invitation's code. */
void auth_code_hash(const char *code, uint8_t ret_hash[STORE_HASH_BYTES]);

/* Whether this peer may sign up at all; nothing about any address has been looked at yet. Sets
 * *@ret_invitation if it is @hash, that of @invitation, that lets it in. */
int auth_may_sign_up(struct auth *auth, const struct auth_peer *peer, const char *invitation,
                     uint8_t hash[STORE_HASH_BYTES], const uint8_t **ret_invitation,
                     struct fault *fault);

int auth_fail_throttled(int64_t wait_us, struct fault *fault);

/* Whether the day of a guest is over. */
bool auth_guest_is_over(int64_t created_us, int64_t now_us);

/* A fault for a token of one whose is. */
int auth_fail_over(struct fault *fault);
