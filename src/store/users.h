/* People who use Mark, their sign-ins, and invitations. */
#pragma once

#include "store/store.h"

#define STORE_EMAIL_MAX     255 /* with its NUL; lower case, as given by the caller */
#define STORE_USER_NAME_MAX 129 /* UTF-8 without control characters */
#define STORE_PASSWORD_MAX  129 /* crypto_pwhash_STRBYTES */

/* In place of a guest's hash: there is no password that it belongs to. A guest has an account for a
 * while, from created_us on, and is otherwise a user like others. */
#define STORE_PASSWORD_NONE "*"

struct store_user {
    char id[STORE_ID_MAX]; /* a UUID */
    char email[STORE_EMAIL_MAX];
    char name[STORE_USER_NAME_MAX];    /* may be empty */
    char password[STORE_PASSWORD_MAX]; /* hash */
    bool is_operator;
    int64_t created_us;
    int64_t valid_from_us; /* changes with the password: access tokens from before are void */
};

/* -EEXIST: the address is taken. -EKEYREJECTED: @invitation, the hash of one, or NULL if none is
 * needed, is unknown, used or expired; it is used up only if the user was added. The first of all
 * users, guests aside, becomes the operator, whatever @user->is_operator says; *@ret_operator
 * tells. */
int store_user_add(struct store *store, const struct store_user *user, const uint8_t *invitation,
                   bool *ret_operator, struct gb_err *err);
/* The same for a guest, whose password is set here, and who is never the operator. -EUSERS: there
 * are @max. */
int store_guest_add(struct store *store, struct store_user *user, int64_t max, struct gb_err *err);
bool store_user_is_guest(const struct store_user *user);
/* Guests from before @before_us, some of them; the caller frees the array. */
int store_guest_list(struct store *store, int64_t before_us, struct store_user **ret_users,
                     size_t *ret_len, struct gb_err *err);
/* -ENOENT: no such user; here and below. */
int store_user_get(struct store *store, const char *id, struct store_user *ret_user,
                   struct gb_err *err);
int store_user_find(struct store *store, const char *email, struct store_user *ret_user,
                    struct gb_err *err);
/* The oldest first; the caller frees the array. */
int store_user_list(struct store *store, struct store_user **ret_users, size_t *ret_len,
                    struct gb_err *err);
/* Guests do not count. */
int store_user_count(struct store *store, int64_t *ret_count, struct gb_err *err);
/* Differs from every earlier value once a user was added, changed or removed. */
int store_user_generation(struct store *store, int64_t *ret_generation, struct gb_err *err);

int store_user_rename(struct store *store, const char *id, const char *name, struct gb_err *err);
/* -EPERM: nobody else is an operator, and somebody has to be. */
int store_user_set_operator(struct store *store, const char *id, bool is_operator,
                            struct gb_err *err);
/* Also ends all sign-ins of the user. */
int store_user_set_password(struct store *store, const char *id, const char *password,
                            int64_t valid_from_us, struct gb_err *err);
/* The same password hashed in another way: sign-ins stay. Does nothing if the hash is no longer
 * @before. */
int store_user_rehash(struct store *store, const char *id, const char *before, const char *after,
                      struct gb_err *err);
/* The user, sign-ins, and everything with @owner (principal_text()) in the tables of Mark: chats,
 * messages, traces, feedback, attachments, and its shares. */
int store_user_delete(struct store *store, const char *id, const char *owner, struct gb_err *err);

/* ---- sign-ins: families of refresh tokens ---- */

struct store_sign_in {
    char
        family[STORE_ID_MAX]; /* a secret like the token: only who has one of its tokens knows it */
    char user_id[STORE_ID_MAX];
    uint8_t hash[STORE_HASH_BYTES]; /* of the one token that is valid */
    int64_t used_us, expires_us;
};

/* Adds a family, unless the user is gone or has another valid_from_us meanwhile (-ENOENT). Removes
 * those that have expired, and of the user the ones that were used least recently, so that at most
 * @max remain. */
int store_sign_in_add(struct store *store, const struct store_sign_in *sign_in,
                      int64_t valid_from_us, size_t max, struct gb_err *err);
/* Replaces the token with hash @spent by that of @next, whose user_id is not used; *@ret_user is as
 * it was at that moment. -ENOENT: no such family, or it has expired. -ESTALE: @spent is not the
 * valid one, so the family is ended now. */
int store_sign_in_turn(struct store *store, const struct store_sign_in *next,
                       const uint8_t spent[STORE_HASH_BYTES], struct store_user *ret_user,
                       struct gb_err *err);
/* Whose it is. -ENOENT: no such family. */
int store_sign_in_user(struct store *store, const char *family, struct store_user *ret_user,
                       struct gb_err *err);
/* Also if there is no such family. */
int store_sign_in_end(struct store *store, const char *family, struct gb_err *err);

/* ---- invitations ---- */

/* Removes those that have expired. */
int store_invitation_add(struct store *store, const uint8_t hash[STORE_HASH_BYTES], int64_t now_us,
                         int64_t expires_us, struct gb_err *err);
/* -EKEYREJECTED: unknown, used or expired. */
int store_invitation_check(struct store *store, const uint8_t hash[STORE_HASH_BYTES],
                           int64_t now_us, struct gb_err *err);
