/* API keys in the store. */
#pragma once

#include "store/store.h"

#define STORE_NAME_MAX      129         /* of a key's name, with its NUL; UTF-8 */
#define STORE_LIMIT_DEFAULT INT64_C(-1) /* use the server's own limit */

struct store_key {
    char id[STORE_ID_MAX];
    char name[STORE_NAME_MAX]; /* may be empty */
    uint8_t hash[STORE_HASH_BYTES];
    int64_t created_us, last_used_us, revoked_us;
    int64_t sessions, executions, rate_per_minute; /* at most; or STORE_LIMIT_DEFAULT */
};

/* -EEXIST when the id is taken. */
int store_key_add(struct store *store, const struct store_key *key, struct gb_err *err);

/* All of them, the oldest first; the caller frees the array. */
int store_key_list(struct store *store, struct store_key **ret_keys, size_t *ret_len,
                   struct gb_err *err);

/* -ENOENT: no such key. -EALREADY: it is already revoked; the time does not change. */
int store_key_revoke(struct store *store, const char *id, int64_t now_us, struct gb_err *err);

/* Records the last use, if it is later than the stored one. An unknown id is not an error. */
int store_key_touch(struct store *store, const char *id, int64_t used_us, struct gb_err *err);

/* A number that grows whenever a key is added or revoked, by any process: cheap to read, and as
 * long as it is the same, a copy of the list (except for last_used_us) is up to date. */
int store_key_generation(struct store *store, int64_t *ret_generation, struct gb_err *err);
