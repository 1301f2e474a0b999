/* The table of functions behind store.h, one of each backend, and what backends share. */
#pragma once

#include "store/store.h"

/* As the calls of store.h with the same names, which have checked what the caller gave. */
struct store_ops {
    void (*close)(struct store *store);

    int (*key_add)(struct store *store, const struct store_key *key, struct gb_err *err);
    int (*key_list)(struct store *store, struct store_key **ret_keys, size_t *ret_len,
                    struct gb_err *err);
    int (*key_revoke)(struct store *store, const char *id, int64_t now_us, struct gb_err *err);
    int (*key_touch)(struct store *store, const char *id, int64_t used_us, struct gb_err *err);
    int (*key_generation)(struct store *store, int64_t *ret_generation, struct gb_err *err);

    int (*session_add)(struct store *store, const struct store_session *session,
                       struct gb_err *err);
    int (*session_get)(struct store *store, const char *id, struct store_session *ret_session,
                       struct gb_err *err);
    int (*session_touch)(struct store *store, const char *id, int64_t used_us, struct gb_err *err);
    int (*session_end)(struct store *store, const char *id, int64_t now_us, enum store_end end,
                       struct gb_err *err);
    int64_t (*session_end_all)(struct store *store, int64_t now_us, enum store_end end,
                               struct gb_err *err);
    int64_t (*session_prune)(struct store *store, int64_t before_us, struct gb_err *err);

    int (*audit_head)(struct store *store, struct store_head *ret_head, struct gb_err *err);
    int (*audit_append)(struct store *store, const struct store_audit *entries, size_t len,
                        struct gb_err *err);
    int (*audit_list)(struct store *store, const struct store_audit_query *query,
                      struct store_audit **ret_entries, size_t *ret_len, struct gb_err *err);
};

/* The first member of every backend's own struct. */
struct store {
    const struct store_ops *ops;
};

int store_sqlite_open(const struct store_config *config, struct store **ret_store,
                      struct gb_err *err);

/* ---- the data directory (store_dir.c) ---- */

struct store_dir {
    char *path;  /* absolute, without links */
    int fd;      /* holds a lock until store_dir_release(): one opens at a time */
    int lock_fd; /* of an exclusive opener; -EBADF */
};

/* Finds or makes the directory and refuses one that others own or may write to. */
int store_dir_open(const struct store_config *config, struct store_dir *ret_dir,
                   struct gb_err *err);
void store_dir_release(struct store_dir *dir);

/* Makes the file (0600) unless @must_exist, and refuses one that others own or may open. */
int store_dir_check_file(const struct store_dir *dir, const char *name, bool must_exist,
                         struct gb_err *err);

/* ---- values as text (store.c) ---- */

#define STORE_HEX_MAX (2 * STORE_HASH_BYTES + 1)

void store_hex(const uint8_t hash[STORE_HASH_BYTES], char ret_hex[STORE_HEX_MAX]);
bool store_unhex(const char *hex, uint8_t ret_hash[STORE_HASH_BYTES]);

/* "expired", ...; NULL for STORE_END_NONE. */
const char *store_end_name(enum store_end end);
/* STORE_END_LOST for a word that nobody knows. */
enum store_end store_end_from_name(const char *name);
