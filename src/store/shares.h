/* Notebooks that people share. */
#pragma once

#include "store/store.h"

#define STORE_SHARE_TITLE_MAX    801               /* with its NUL; UTF-8 */
#define STORE_SHARE_NOTEBOOK_MAX (8 * 1024 * 1024) /* bytes */

struct store_share {
    char id[STORE_ID_MAX];
    char owner[STORE_ID_MAX];
    char title[STORE_SHARE_TITLE_MAX];
    int64_t size, created_us, expires_us;
    char *notebook; /* JSON; NULL in lists */
};

void store_share_release(struct store_share *share);

/* -EDQUOT: the owner would have more than @count_max, or more than @bytes_max in all; two that come
 * at the same time cannot get past that together. The owner's that have expired at
 * @share->created_us are removed first. */
int store_share_add(struct store *store, const struct store_share *share, int64_t count_max,
                    int64_t bytes_max, struct gb_err *err);

/* Anybody's. -ENOENT: there is none, or it has expired at @now_us. */
int store_share_get(struct store *store, const char *id, int64_t now_us,
                    struct store_share *ret_share, struct gb_err *err);

/* The owner's, the youngest first, without their notebooks; the caller frees the array. */
int store_share_list(struct store *store, const char *owner, int64_t now_us,
                     struct store_share **ret_shares, size_t *ret_len, struct gb_err *err);

/* -ENOENT: the owner has no such share. */
int store_share_delete(struct store *store, const char *owner, const char *id, struct gb_err *err);

/* Removes everybody's that have expired at @now_us. Returns how many. */
int64_t store_share_prune(struct store *store, int64_t now_us, struct gb_err *err);
