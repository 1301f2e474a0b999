/* Ratings of answers. Each answer has at most one, by the owner of its chat. */
#pragma once

#include "store/store.h"

#define STORE_REASONS_MAX  4096 /* bytes, with the NUL */
#define STORE_COMMENT_MAX  8193 /* likewise; UTF-8 */
#define STORE_FEEDBACK_MAX 1000 /* rows of one list */

struct store_feedback {
    char message_id[STORE_ID_MAX];
    char owner[STORE_ID_MAX];
    bool up;
    char *reasons; /* JSON: an array of words; NULL: none */
    char *comment; /* NULL: none */
    int64_t created_us;
};

void store_feedback_release(struct store_feedback *feedback);
void store_feedbacks_free(struct store_feedback *feedbacks, size_t len);

/* Replaces an earlier one. -ENOENT: the owner has no such answer. */
int store_feedback_set(struct store *store, const struct store_feedback *feedback,
                       struct gb_err *err);
/* Those of a chat's messages from @first_seq to @last_seq, in their order. */
int store_feedback_of_chat(struct store *store, const char *owner, const char *chat_id,
                           int64_t first_seq, int64_t last_seq,
                           struct store_feedback **ret_feedbacks, size_t *ret_len,
                           struct gb_err *err);
/* Everybody's since @since_us, the oldest first, at most @limit, after the one of @after_us and
 * @after_id (0 and "": from the start). */
int store_feedback_list(struct store *store, int64_t since_us, int64_t after_us,
                        const char *after_id, size_t limit, struct store_feedback **ret_feedbacks,
                        size_t *ret_len, struct gb_err *err);
