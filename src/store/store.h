/*
 * The store: what outlives the service. API keys, records of sessions, the audit log.
 *
 * Every backend is a const table of functions (store_internal.h) behind these calls, and passes the
 * same suite (tests/unit/test_store.c). All calls may come from any thread, and several processes
 * may have one store open. A call that writes is one transaction: it has happened whole, or not at
 * all. None belongs on the path of an execution: callers keep in memory what they ask often.
 *
 * Times are microseconds of the wall clock since 1970, UTC; 0 is "never". Ids and names are
 * NUL-terminated. What a caller gives too long or malformed is refused with -EINVAL, never cut.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define STORE_ID_MAX           65  /* of an id, with its end: [A-Za-z0-9._-], not empty */
#define STORE_NAME_MAX         129 /* of a key's name, with its end; UTF-8 */
#define STORE_HASH_BYTES       32
#define STORE_AUDIT_FIELDS_MAX 8192 /* of an entry's fields, with their end */
#define STORE_AUDIT_ROWS_MAX   100000

struct store;

struct store_config {
    const char *dir; /* the data directory, made if it is not there (0700) */
    bool must_exist; /* -ENOENT instead of making anything */
    bool exclusive;  /* for the service: at most one at a time may open it so, else -EBUSY */
};

/* Refuses what others own or may write to, and a store of a newer version (-EPROTONOSUPPORT). */
int store_open(const struct store_config *config, struct store **ret_store, struct gb_err *err);

/* No call may be under way. Accepts NULL. */
void store_close(struct store *store);

/* Whether @text can be an id; NULL cannot. */
bool store_id_valid(const char *text);

/* ---- API keys ---- */

#define STORE_LIMIT_DEFAULT INT64_C(-1) /* the server's own limit counts */

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

/* -ENOENT: no such key. -EALREADY: it was revoked before; that time stays. */
int store_key_revoke(struct store *store, const char *id, int64_t now_us, struct gb_err *err);

/* Remembers the last use, if it is later than the one known. An unknown id is no error. */
int store_key_touch(struct store *store, const char *id, int64_t used_us, struct gb_err *err);

/* A number that grows whenever a key was added or revoked, by whatever process: cheap to ask, and
 * as long as it is the same, a copy of the list (but for last_used_us) is up to date. */
int store_key_generation(struct store *store, int64_t *ret_generation, struct gb_err *err);

/* ---- session records ---- */

enum store_end {
    STORE_END_NONE,     /* it lives */
    STORE_END_EXPIRED,  /* idle for too long */
    STORE_END_DELETED,  /* somebody asked for it */
    STORE_END_LOST,     /* its processes died */
    STORE_END_SHUTDOWN, /* the service stopped, or crashed */
};

struct store_session {
    char id[STORE_ID_MAX];
    char key_id[STORE_ID_MAX]; /* "": without a key */
    int64_t created_us, last_used_us, ended_us;
    enum store_end end;
};

/* A new, living session. -EEXIST when the id is taken, -ENOENT when there is no such key. */
int store_session_add(struct store *store, const struct store_session *session, struct gb_err *err);

/* -ENOENT: it never existed, or ended so long ago that it was pruned. */
int store_session_get(struct store *store, const char *id, struct store_session *ret_session,
                      struct gb_err *err);

/* -ENOENT when it is not known or has ended. */
int store_session_touch(struct store *store, const char *id, int64_t used_us, struct gb_err *err);

/* -ENOENT when it is not known; the first end stays, and another one is no error. */
int store_session_end(struct store *store, const char *id, int64_t now_us, enum store_end end,
                      struct gb_err *err);

/* Ends all that live: after a start none of an earlier service can. Returns their number. */
int64_t store_session_end_all(struct store *store, int64_t now_us, enum store_end end,
                              struct gb_err *err);

/* Forgets those that ended before @before_us. Returns their number. */
int64_t store_session_prune(struct store *store, int64_t before_us, struct gb_err *err);

/* ---- audit log ---- */

/* The store keeps the order and the bytes; what is hashed and how is the business of
 * service/access/audit.h. Entries can be added and read, nothing else. */
struct store_audit {
    int64_t seq; /* from 1, without gaps */
    int64_t time_us;
    char session_id[STORE_ID_MAX]; /* "": none */
    uint8_t prev[STORE_HASH_BYTES], hash[STORE_HASH_BYTES];
    char *fields; /* text, at most STORE_AUDIT_FIELDS_MAX */
    bool
        malformed; /* read only: the row is none that was ever appended; what cannot be read is 0 */
};

struct store_head {
    int64_t seq; /* 0: the log is empty, and the hash is all zero */
    uint8_t hash[STORE_HASH_BYTES];
};

/* The end of the log as the last append noted it, apart from the entries. */
int store_audit_head(struct store *store, struct store_head *ret_head, struct gb_err *err);

/* Adds @len entries and moves the head, durably. -ESTALE, and nothing is added, when the first does
 * not follow the head or one does not follow the other: ask for the head again. */
int store_audit_append(struct store *store, const struct store_audit *entries, size_t len,
                       struct gb_err *err);

struct store_audit_query {
    int64_t after_seq; /* INT64_MIN in both: really all, whatever somebody put there */
    int64_t since_us;
    const char *session_id; /* NULL: of all, and of none */
    size_t limit;           /* at most STORE_AUDIT_ROWS_MAX */
    bool newest;            /* the last that match instead of the first; in order all the same */
};

/* Entries as they are stored, unchecked, by seq. Free with store_audit_free(). */
int store_audit_list(struct store *store, const struct store_audit_query *query,
                     struct store_audit **ret_entries, size_t *ret_len, struct gb_err *err);

void store_audit_free(struct store_audit *entries, size_t len);
