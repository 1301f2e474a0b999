/* Files that people attached: what is known about them. Their bytes are in the data directory,
 * under their SHA-256, once for each content however often it was uploaded. */
#pragma once

#include "store/store.h"

#define STORE_FILE_NAME_MAX 256
#define STORE_PROFILE_MAX   (256 * 1024)

struct store_attachment {
    char id[STORE_ID_MAX]; /* a UUID */
    char owner[STORE_ID_MAX];
    char name[STORE_FILE_NAME_MAX]; /* safe: no "/", no control characters, not "." or ".." */
    char media_type[STORE_ID_MAX * 2];
    uint8_t sha256[STORE_HASH_BYTES];
    int64_t size, created_us;
    char *profile; /* JSON, or NULL */
};

void store_attachment_release(struct store_attachment *attachment);
void store_attachments_free(struct store_attachment *attachments, size_t len);

/* -EDQUOT: the owner would have more than @count_max, or more than @bytes_max in all. Negative: no
 * bound. Two that come at the same time cannot get past it together. */
int store_attachment_add(struct store *store, const struct store_attachment *attachment,
                         int64_t count_max, int64_t bytes_max, struct gb_err *err);
/* -ENOENT: it was deleted meanwhile. */
int store_attachment_set_profile(struct store *store, const char *owner, const char *id,
                                 const char *profile, struct gb_err *err);
int store_attachment_get(struct store *store, const char *owner, const char *id,
                         struct store_attachment *ret_attachment, struct gb_err *err);
/* The owner's, oldest first, without their profiles; all in one go: their number is bounded by the
 * quota. */
int store_attachment_list(struct store *store, const char *owner,
                          struct store_attachment **ret_attachments, size_t *ret_len,
                          struct gb_err *err);
/* What the owner's take together. */
int store_attachment_sum(struct store *store, const char *owner, int64_t *ret_count,
                         int64_t *ret_bytes, struct gb_err *err);
int store_attachment_delete(struct store *store, const char *owner, const char *id,
                            struct gb_err *err);
/* Whether any attachment, verified answer or file of an answer, of anybody, has that content. */
int store_attachment_has(struct store *store, const uint8_t sha256[STORE_HASH_BYTES], bool *ret_has,
                         struct gb_err *err);
