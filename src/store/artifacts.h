/* Files that programs of answers wrote: rows; the bytes are in the data directory (mark/files/)
 * with those of attachments, once for each content. */
#pragma once

#include "store/store.h"

#define STORE_ARTIFACT_NAME_MAX 4096

struct store_artifact {
    char message_id[STORE_ID_MAX], owner[STORE_ID_MAX];
    int64_t n;  /* its place in the answer, from 1 */
    char *name; /* path in the workspace, UTF-8 */
    uint8_t sha256[STORE_HASH_BYTES];
    int64_t size, created_us;
};

void store_artifact_release(struct store_artifact *artifact);

/* -EDQUOT: the owner's artifacts, each content once, and attachments would take more than
 * @bytes_max. -ENOENT: no such answer of that owner. */
int store_artifact_add(struct store *store, const struct store_artifact *artifact,
                       int64_t bytes_max, struct gb_err *err);
int store_artifact_get(struct store *store, const char *owner, const char *message_id, int64_t n,
                       struct store_artifact *ret_artifact, struct gb_err *err);
/* The contents that answers of a chat have, from message number @from_seq on (0: all), each once,
 * as STORE_HASH_BYTES after the other; for free(). */
int store_artifact_of_chat(struct store *store, const char *owner, const char *chat_id,
                           int64_t from_seq, uint8_t **ret_hashes, size_t *ret_len,
                           struct gb_err *err);
