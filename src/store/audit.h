/* The audit log in the store, which keeps the order and the bytes; service/access/audit.h decides
 * what is hashed and how. Entries can be added and read, nothing else. */
#pragma once

#include "store/store.h"

#define STORE_AUDIT_FIELDS_MAX (128 * 1024) /* of an entry's fields, with their NUL */
#define STORE_AUDIT_ROWS_MAX   100000

struct store_audit {
    int64_t seq; /* from 1, without gaps */
    int64_t time_us;
    char session_id[STORE_ID_MAX]; /* "": none */
    uint8_t prev[STORE_HASH_BYTES], hash[STORE_HASH_BYTES];
    char *fields; /* text, at most STORE_AUDIT_FIELDS_MAX */
    /* Only set by reading: the row was not written by us; values that cannot be read are 0. */
    bool malformed;
};

struct store_head {
    int64_t seq; /* 0: the log is empty, and the hash is all zero */
    uint8_t hash[STORE_HASH_BYTES];
};

/* The end of the log as recorded by the last append, apart from the entries. */
int store_audit_head(struct store *store, struct store_head *ret_head, struct gb_err *err);

/* Adds @len entries and moves the head, durably. -ESTALE, and nothing is added, if the first does
 * not follow the head or one does not follow the other: read the head again. */
int store_audit_append(struct store *store, const struct store_audit *entries, size_t len,
                       struct gb_err *err);

struct store_audit_query {
    int64_t after_seq; /* INT64_MIN in both: really all rows, even forged ones */
    int64_t since_us;
    const char *session_id; /* NULL: all entries, with a session or without */
    size_t limit;           /* at most STORE_AUDIT_ROWS_MAX */
    bool newest;            /* the last that match instead of the first; still in order */
    int64_t upto_seq;       /* of the newest: none after this one; 0: no bound */
};

/* Entries as they are stored, unchecked, by seq. Free with store_audit_free(). */
int store_audit_list(struct store *store, const struct store_audit_query *query,
                     struct store_audit **ret_entries, size_t *ret_len, struct gb_err *err);

void store_audit_free(struct store_audit *entries, size_t len);
