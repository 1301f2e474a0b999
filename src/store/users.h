/* People who use Mark, their refresh tokens, and invitations. */
#pragma once

#include "store/store.h"

#define STORE_EMAIL_MAX     255 /* with its NUL; lower case, as given by the caller */
#define STORE_USER_NAME_MAX 129 /* UTF-8 */
#define STORE_PASSWORD_MAX  129 /* crypto_pwhash_STRBYTES */

struct store_user {
    char id[STORE_ID_MAX]; /* a UUID */
    char email[STORE_EMAIL_MAX];
    char name[STORE_USER_NAME_MAX];    /* may be empty */
    char password[STORE_PASSWORD_MAX]; /* hash */
    bool is_operator;
    int64_t created_us;
    int64_t valid_from_us; /* tokens that were issued before are void */
};

/* -EEXIST: the address is taken. The first of all users becomes the operator, whatever
 * @user->is_operator says; *@ret_first tells. */
int store_user_add(struct store *store, const struct store_user *user, bool *ret_first,
                   struct gb_err *err);
/* -ENOENT: no such user. */
int store_user_get(struct store *store, const char *id, struct store_user *ret_user,
                   struct gb_err *err);
int store_user_find(struct store *store, const char *email, struct store_user *ret_user,
                    struct gb_err *err);
int store_user_list(struct store *store, struct store_user **ret_users, size_t *ret_len,
                    struct gb_err *err);
int store_user_count(struct store *store, int64_t *ret_count, struct gb_err *err);
/* Changes name, password and valid_from_us. */
int store_user_update(struct store *store, const struct store_user *user, struct gb_err *err);
/* The user, tokens, and everything with @owner (principal_text()) in the tables of Mark: chats,
 * messages, traces, feedback, attachments. */
int store_user_delete(struct store *store, const char *id, const char *owner, struct gb_err *err);
