/*
 * API keys: tokens, and who they belong to.
 *
 * A token is gb_<id>_<secret>: the id (12 hex digits) finds the key and is shown everywhere, the
 * secret is 256 random bits and is shown once. The store has only a hash.
 *
 * A service verifies tokens against a copy of all keys in memory, so a request never waits for the
 * store, and an unknown id costs no more than a known one. The copy is replaced when the store's
 * generation of keys has changed, which is checked at most once per second: a key that any process
 * revokes is refused within about a second. If the store does not answer, the copy is used for
 * another KEYS_STALE_US, then every key is refused, because a revocation could have been missed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/keys.h"

#define KEYS_ID_LEN     12
#define KEYS_SECRET_LEN 64
#define KEYS_TOKEN_MAX  (3 + KEYS_ID_LEN + 1 + KEYS_SECRET_LEN + 1)
#define KEYS_CHECK_US   INT64_C(1000000)  /* how often the store is asked whether keys changed */
#define KEYS_STALE_US   INT64_C(10000000) /* how long a copy is used without an answer */

struct keys;

/* What the service needs to know about a caller's key. */
struct keys_info {
    char id[KEYS_ID_LEN + 1];
    int64_t sessions, executions, rate_per_minute; /* or STORE_LIMIT_DEFAULT */
};

int keys_open(struct store *store, struct keys **ret_keys, struct gb_err *err);

/* Writes the times of last use. Accepts NULL. No other call may be under way. */
void keys_close(struct keys *keys);

/* Any thread. 0; -EACCES for a token that is malformed, unknown or revoked (the caller cannot tell
 * which); another error if the store has not answered for too long. */
int keys_verify(struct keys *keys, const char *token, struct keys_info *ret_info,
                struct gb_err *err);

/* For a connection that stays open: whether the key @id, which was verified before, still is valid.
 * False also if the store has not answered for too long. */
bool keys_stands(struct keys *keys, const char *id);

/* This process has created or revoked one: the next token is checked against what the store has. */
void keys_changed(struct keys *keys);

/* Whether a key exists that is not revoked. */
bool keys_any(struct keys *keys);

/* Writes the times of last use to the store; call it now and then, off the request path. */
int keys_flush(struct keys *keys, struct gb_err *err);

/* ---- the operator's side: no struct keys needed ---- */

struct keys_spec {
    const char *name;                              /* NULL: none */
    int64_t sessions, executions, rate_per_minute; /* or STORE_LIMIT_DEFAULT */
};

/* Makes a key. The token exists nowhere else: wipe it after showing it. */
int keys_create(struct store *store, const struct keys_spec *spec, char ret_token[KEYS_TOKEN_MAX],
                struct store_key *ret_key, struct gb_err *err);

/* -ENOENT, -EALREADY as store_key_revoke(). */
int keys_revoke(struct store *store, const char *id, struct gb_err *err);

/* All keys, the oldest first; the caller frees the array. */
int keys_list(struct store *store, struct store_key **ret_keys, size_t *ret_len,
              struct gb_err *err);
