/* Results of queries that answers used: rows; the files are in the data directory (mark/results/),
 * once for each content. */
#pragma once

#include "store/store.h"

#define STORE_QUERY_JSON_MAX (1 << 20)

struct store_result {
    char message_id[STORE_ID_MAX], owner[STORE_ID_MAX];
    int64_t n; /* of the query in the answer, from 1 */
    uint8_t key[STORE_HASH_BYTES], sha256[STORE_HASH_BYTES];
    int64_t size, created_us;
    char *query; /* JSON as in MarkResponse, and "params" and "step" */
};

void store_results_free(struct store_result *results, size_t len);

/* -EDQUOT: the owner's results would take more than @bytes_max; the same content counts once.
 * -ENOENT: no such answer of that owner. A query that failed has a size of 0. */
int store_result_add(struct store *store, const struct store_result *result, int64_t bytes_max,
                     struct gb_err *err);
/* A query whose program is not run again. One that is not there is no error. */
int store_result_drop(struct store *store, const char *owner, const char *message_id, int64_t n,
                      struct gb_err *err);
/* Those of an answer, in order. */
int store_result_list(struct store *store, const char *owner, const char *message_id,
                      struct store_result **ret_results, size_t *ret_len, struct gb_err *err);
/* The contents that answers of a chat have, from message number @from_seq on (0: all), each once,
 * as STORE_HASH_BYTES after the other; for free(). */
int store_result_of_chat(struct store *store, const char *owner, const char *chat_id,
                         int64_t from_seq, uint8_t **ret_hashes, size_t *ret_len,
                         struct gb_err *err);
/* Whether an answer, or a verified one, has that content. */
int store_result_has(struct store *store, const uint8_t sha256[STORE_HASH_BYTES], bool *ret_has,
                     struct gb_err *err);
