/* Answers that a person has verified: regression cases, and examples for later questions. */
#pragma once

#include "store/store.h"

#define STORE_VERIFIED_MAX          1000      /* of one owner */
#define STORE_VERIFIED_BYTES_MAX    (4 << 20) /* of one content */
#define STORE_VERIFIED_QUESTION_MAX (64 << 10)
#define STORE_VERIFIED_INPUTS_MAX   1000 /* of one answer */

enum store_input_kind { STORE_INPUT_FILE, STORE_INPUT_RESULT }; /* mark/files, mark/results */

/* A content that the answer needs to be run again. */
struct store_input {
    enum store_input_kind kind;
    uint8_t sha256[STORE_HASH_BYTES];
    int64_t size;
};

struct store_verified {
    char id[STORE_ID_MAX], message_id[STORE_ID_MAX], owner[STORE_ID_MAX];
    bool shared;
    int64_t created_us, checked_us;
    int passed; /* -1: never checked */
    char *question, *content;
};

void store_verified_release(struct store_verified *verified);
void store_verified_free(struct store_verified *verified, size_t len);

/* @inputs stay as long as it is there; one that occurs twice counts once. -EEXIST: that answer is
 * verified already; -EDQUOT: the owner has STORE_VERIFIED_MAX, or their inputs would take more than
 * @bytes_max; -E2BIG: the content is too long. */
int store_verified_add(struct store *store, const struct store_verified *verified,
                       const struct store_input *inputs, size_t inputs_len, int64_t bytes_max,
                       struct gb_err *err);
/* @owner NULL: of anybody, here and below. -ENOENT. */
int store_verified_get(struct store *store, const char *owner, const char *id,
                       struct store_verified *ret_verified, struct gb_err *err);
/* The one of an answer, without its content. -ENOENT. */
int store_verified_of(struct store *store, const char *owner, const char *message_id,
                      struct store_verified *ret_verified, struct gb_err *err);
int store_verified_delete(struct store *store, const char *owner, const char *id,
                          struct gb_err *err);
/* Newest first, after id @after (NULL: from the start; -ENOENT: there is none), without their
 * contents. @shared_too: also those that are shared. */
int store_verified_list(struct store *store, const char *owner, bool shared_too, const char *after,
                        size_t limit, struct store_verified **ret_verified, size_t *ret_len,
                        struct gb_err *err);
int store_verified_checked(struct store *store, const char *id, int64_t now_us, bool passed,
                           struct gb_err *err);
