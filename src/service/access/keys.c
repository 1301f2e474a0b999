#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "service/access/keys_internal.h"

#include "base/banned.h"

#define TOKEN_PREFIX     "gb_"
#define TOKEN_PREFIX_LEN (sizeof TOKEN_PREFIX - 1)
#define TOKEN_LEN        (KEYS_TOKEN_MAX - 1)

/* One key in memory. */
struct held_key {
    struct store_key key;
    _Atomic int64_t used_us; /* if later than the time in the store, otherwise 0 */
};

struct keys {
    struct store *store;
    pthread_rwlock_t lock; /* guards the copy; held for writing only while it is replaced */
    struct held_key *held; /* by id */
    size_t held_len;
    int64_t generation;
    pthread_mutex_t refreshing;  /* one thread asks the store, the others continue with the copy */
    _Atomic int64_t checked_us;  /* when the store was asked, monotonic clock */
    _Atomic int64_t answered_us; /* when it last answered */
};

/* ---- tokens ---- */

static bool is_hex(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!(text[i] >= '0' && text[i] <= '9') && !(text[i] >= 'a' && text[i] <= 'f'))
            return false;
    return true;
}

/* Whether @token is well formed; it may have any length. */
static bool token_parse(const char *token, char ret_id[KEYS_ID_LEN + 1])
{
    const char *id = token + TOKEN_PREFIX_LEN, *secret = id + KEYS_ID_LEN + 1;

    if (strnlen(token, TOKEN_LEN + 1) != TOKEN_LEN ||
        memcmp(token, TOKEN_PREFIX, TOKEN_PREFIX_LEN) != 0 || !is_hex(id, KEYS_ID_LEN) ||
        id[KEYS_ID_LEN] != '_' || !is_hex(secret, KEYS_SECRET_LEN))
        return false;
    memcpy(ret_id, id, KEYS_ID_LEN);
    ret_id[KEYS_ID_LEN] = '\0';
    return true;
}

/* BLAKE2b, not argon2id: a slow hash makes guessing expensive for secrets that people choose. This
 * one is 256 random bits, which cannot be guessed at any speed; a slow hash per request would only
 * help somebody to overload the server. The id is hashed too, so a hash belongs to one key. */
static void token_hash(const char *token, uint8_t ret_hash[STORE_HASH_BYTES])
{
    (void) crypto_generichash(ret_hash, STORE_HASH_BYTES, (const unsigned char *) token, TOKEN_LEN,
                              NULL, 0);
}

static void random_hex(char *buf, size_t digits)
{
    unsigned char bits[KEYS_SECRET_LEN / 2];

    randombytes_buf(bits, digits / 2);
    (void) sodium_bin2hex(buf, digits + 1, bits, digits / 2);
    sodium_memzero(bits, sizeof bits);
}

static int start_sodium(struct gb_err *err)
{
    return sodium_init() < 0 ? gb_fail_plain(err, EIO, "libsodium could not be initialised") : 0;
}

/* ---- the copy in memory ---- */

static int compare_held(const void *a, const void *b)
{
    return strcmp(((const struct held_key *) a)->key.id, ((const struct held_key *) b)->key.id);
}

static struct held_key *find_held(const struct keys *keys, const char *id)
{
    struct held_key want;

    if (keys->held_len == 0)
        return NULL;
    (void) snprintf(want.key.id, sizeof want.key.id, "%s", id);
    return bsearch(&want, keys->held, keys->held_len, sizeof want, compare_held);
}

static int read_all(struct store *store, struct held_key **ret_held, size_t *ret_len,
                    struct gb_err *err)
{
    autofree struct store_key *rows = NULL;
    autofree struct held_key *held = NULL;
    size_t len;
    int r = store_key_list(store, &rows, &len, err);

    if (r < 0)
        return r;
    held = calloc(len ? len : 1, sizeof *held);
    if (!held)
        return gb_fail(err, ENOMEM, "read the keys");
    for (size_t i = 0; i < len; i++)
        held[i].key = rows[i];
    qsort(held, len, sizeof *held, compare_held);
    *ret_held = TAKE_PTR(held);
    *ret_len = len;
    return 0;
}

/* Replaces the copy; times of use that have not been written yet are carried over. */
static void replace(struct keys *keys, struct held_key *held, size_t len, int64_t generation)
{
    struct keys old = { .held = keys->held, .held_len = keys->held_len };

    (void) pthread_rwlock_wrlock(&keys->lock);
    for (size_t i = 0; i < len; i++) {
        struct held_key *before = find_held(&old, held[i].key.id);

        if (before)
            held[i].used_us = before->used_us;
    }
    keys->held = held;
    keys->held_len = len;
    keys->generation = generation;
    (void) pthread_rwlock_unlock(&keys->lock);
    free(old.held);
}

/* Reads the keys again if they have changed. The generation is read first, so a change in between
 * is noticed the next time. */
static int refresh(struct keys *keys, struct gb_err *err)
{
    struct held_key *held = NULL;
    int64_t generation;
    size_t len = 0;
    int r = store_key_generation(keys->store, &generation, err);

    if (r == 0 && generation != keys->generation) {
        r = read_all(keys->store, &held, &len, err);
        if (r == 0)
            replace(keys, held, len, generation);
    }
    if (r == 0)
        keys->answered_us = clock_now_us();
    return r;
}

/* While the copy is fresh enough, one thread asks the store and the others continue; after that all
 * wait. */
static bool refresh_lock(struct keys *keys, int64_t now_us)
{
    if (now_us - keys->checked_us < KEYS_CHECK_US)
        return false;
    if (now_us - keys->answered_us >= KEYS_STALE_US)
        return pthread_mutex_lock(&keys->refreshing) == 0;
    return pthread_mutex_trylock(&keys->refreshing) == 0;
}

static int refresh_if_due(struct keys *keys, struct gb_err *err)
{
    int64_t now_us = clock_now_us();
    int r = 0;

    if (refresh_lock(keys, now_us)) {
        if (now_us - keys->checked_us >= KEYS_CHECK_US) {
            r = refresh(keys, err);
            keys->checked_us = clock_now_us();
        }
        (void) pthread_mutex_unlock(&keys->refreshing);
    }
    if (now_us - keys->answered_us < KEYS_STALE_US)
        return 0;
    return r < 0 ? r : gb_fail_plain(err, EAGAIN, "the key store has been unreadable for too long");
}

/* ---- the service's side ---- */

int keys_open(struct store *store, struct keys **ret_keys, struct gb_err *err)
{
    struct keys *keys;
    int r = start_sodium(err);

    if (r < 0)
        return r;
    keys = calloc(1, sizeof *keys);
    if (!keys)
        return gb_fail(err, ENOMEM, "read the keys");
    keys->store = store;
    (void) pthread_rwlock_init(&keys->lock, NULL); /* with default attributes they cannot fail */
    (void) pthread_mutex_init(&keys->refreshing, NULL);
    keys->generation = -1;
    r = refresh(keys, err);
    if (r < 0) {
        keys_close(keys);
        return r;
    }
    keys->checked_us = clock_now_us();
    *ret_keys = keys;
    return 0;
}

void keys_close(struct keys *keys)
{
    if (!keys)
        return;
    (void) keys_flush(keys, NULL); /* losing a time of last use does no harm */
    (void) pthread_rwlock_destroy(&keys->lock);
    (void) pthread_mutex_destroy(&keys->refreshing);
    free(keys->held);
    free(keys);
}

static bool verify_held(struct keys *keys, const char *id, const uint8_t hash[STORE_HASH_BYTES],
                        struct keys_info *ret_info)
{
    struct held_key *held = find_held(keys, id);

    if (!held || sodium_memcmp(held->key.hash, hash, STORE_HASH_BYTES) != 0 ||
        held->key.revoked_us != 0)
        return false;
    held->used_us = clock_wall_us();
    memcpy(ret_info->id, id, sizeof ret_info->id);
    ret_info->sessions = held->key.sessions;
    ret_info->executions = held->key.executions;
    ret_info->rate_per_minute = held->key.rate_per_minute;
    return true;
}

int keys_verify(struct keys *keys, const char *token, struct keys_info *ret_info,
                struct gb_err *err)
{
    char id[KEYS_ID_LEN + 1];
    uint8_t hash[STORE_HASH_BYTES];
    bool found = false;
    int r;

    if (token_parse(token, id)) {
        r = refresh_if_due(keys, err);
        if (r < 0)
            return r;
        token_hash(token, hash);
        (void) pthread_rwlock_rdlock(&keys->lock);
        found = verify_held(keys, id, hash, ret_info);
        (void) pthread_rwlock_unlock(&keys->lock);
    }
    return found ? 0 : gb_fail_plain(err, EACCES, "that is not a valid key");
}

bool keys_stands(struct keys *keys, const char *id)
{
    const struct held_key *held;
    bool stands;

    if (refresh_if_due(keys, NULL) < 0)
        return false;
    (void) pthread_rwlock_rdlock(&keys->lock);
    held = find_held(keys, id);
    stands = held && held->key.revoked_us == 0;
    (void) pthread_rwlock_unlock(&keys->lock);
    return stands;
}

void keys_age(struct keys *keys, int64_t us)
{
    keys->checked_us -= us;
    keys->answered_us -= us;
}

bool keys_any(struct keys *keys)
{
    bool any = false;

    (void) refresh_if_due(keys, NULL);
    (void) pthread_rwlock_rdlock(&keys->lock);
    for (size_t i = 0; i < keys->held_len && !any; i++)
        any = keys->held[i].key.revoked_us == 0;
    (void) pthread_rwlock_unlock(&keys->lock);
    return any;
}

/* Takes the next time of use that is not in the store yet, so that it can be written without the
 * lock. */
static bool take_use(struct keys *keys, size_t *at, char ret_id[STORE_ID_MAX], int64_t *ret_used_us)
{
    bool found = false;

    (void) pthread_rwlock_rdlock(&keys->lock);
    for (; *at < keys->held_len && !found; (*at)++) {
        struct held_key *held = &keys->held[*at];

        *ret_used_us = atomic_exchange(&held->used_us, 0);
        found = *ret_used_us != 0;
        if (found)
            memcpy(ret_id, held->key.id, STORE_ID_MAX);
    }
    (void) pthread_rwlock_unlock(&keys->lock);
    return found;
}

void keys_changed(struct keys *keys)
{
    keys->checked_us = clock_now_us() - KEYS_CHECK_US;
}

int keys_flush(struct keys *keys, struct gb_err *err)
{
    char id[STORE_ID_MAX];
    int64_t used_us;
    size_t at = 0;

    while (take_use(keys, &at, id, &used_us)) {
        int r = store_key_touch(keys->store, id, used_us, err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- the operator's side ---- */

int keys_create(struct store *store, const struct keys_spec *spec, char ret_token[KEYS_TOKEN_MAX],
                struct store_key *ret_key, struct gb_err *err)
{
    struct store_key key = {
        .created_us = clock_wall_us(),
        .sessions = spec->sessions,
        .executions = spec->executions,
        .rate_per_minute = spec->rate_per_minute,
    };
    char token[KEYS_TOKEN_MAX], secret[KEYS_SECRET_LEN + 1];
    int r = start_sodium(err);

    if (r < 0)
        return r;
    if (spec->name && strlen(spec->name) >= sizeof key.name)
        return gb_fail_plain(err, EINVAL, "a key name can have at most %zu bytes",
                             sizeof key.name - 1);
    (void) snprintf(key.name, sizeof key.name, "%s", spec->name ? spec->name : "");
    random_hex(key.id, KEYS_ID_LEN);
    random_hex(secret, KEYS_SECRET_LEN);
    (void) snprintf(token, sizeof token, TOKEN_PREFIX "%.*s_%s", KEYS_ID_LEN, key.id, secret);
    token_hash(token, key.hash);
    r = store_key_add(store, &key, err);
    if (r == 0) {
        memcpy(ret_token, token, sizeof token);
        *ret_key = key;
    }
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(token, sizeof token);
    return r;
}

int keys_revoke(struct store *store, const char *id, struct gb_err *err)
{
    return store_key_revoke(store, id, clock_wall_us(), err);
}

int keys_list(struct store *store, struct store_key **ret_keys, size_t *ret_len, struct gb_err *err)
{
    return store_key_list(store, ret_keys, ret_len, err);
}
