/* Ratings of answers. */
#include "store/feedback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "store/internal.h"

#include "base/banned.h"

#define FEEDBACK_COLUMNS "f.message_id, f.owner, f.rating, f.reasons, f.comment, f.created_us "

/* Only the owner of an answer can rate it: the row is made of the answer. */
static const struct db_statement set_feedback = {
    DB_WRITE,
    "INSERT INTO mark_feedback (message_id, owner, rating, reasons, comment, created_us) "
    "SELECT m.id, c.owner, CAST(?3 AS TEXT), CAST(?4 AS TEXT), CAST(?5 AS TEXT), "
    "CAST(?6 AS BIGINT) "
    "FROM mark_messages m JOIN mark_chats c ON c.id = m.chat_id "
    "WHERE m.id = ?1 AND c.owner = ?2 AND m.role = 'assistant' "
    "ON CONFLICT (message_id) DO UPDATE SET rating = excluded.rating, reasons = excluded.reasons, "
    "comment = excluded.comment, created_us = excluded.created_us",
    "rate an answer",
};
static const struct db_statement feedback_of_chat = {
    DB_READ,
    "SELECT " FEEDBACK_COLUMNS "FROM mark_feedback f JOIN mark_messages m ON m.id = f.message_id "
    "WHERE m.chat_id = ?1 AND f.owner = ?2 AND m.seq >= ?3 AND m.seq <= ?4 ORDER BY m.seq",
    "read ratings",
};
static const struct db_statement list_feedback = {
    DB_READ,
    "SELECT " FEEDBACK_COLUMNS "FROM mark_feedback f WHERE f.created_us >= ?1 "
    "AND (f.created_us > ?2 OR (f.created_us = ?2 AND f.message_id > ?3)) "
    "ORDER BY f.created_us, f.message_id LIMIT ?4",
    "list ratings",
};

void store_feedback_release(struct store_feedback *feedback)
{
    free(feedback->reasons);
    free(feedback->comment);
    feedback->reasons = feedback->comment = NULL;
}

void store_feedbacks_free(struct store_feedback *feedbacks, size_t len)
{
    for (size_t i = 0; feedbacks && i < len; i++)
        store_feedback_release(&feedbacks[i]);
    free(feedbacks);
}

static int check_text(const char *text, size_t size, struct gb_err *err)
{
    size_t len = text ? strnlen(text, size) : 0;

    if (text && (len == size || !utf8_valid(text, len)))
        return gb_fail_plain(err, EINVAL, "a text of a rating is too long or not UTF-8");
    return 0;
}

int store_feedback_set(struct store *store, const struct store_feedback *feedback,
                       struct gb_err *err)
{
    int r = store_check_id(feedback->owner, err);

    if (r == 0)
        r = store_check_id(feedback->message_id, err);
    if (r == 0)
        r = check_text(feedback->reasons, STORE_REASONS_MAX, err);
    if (r == 0)
        r = check_text(feedback->comment, STORE_COMMENT_MAX, err);
    if (r < 0)
        return r;
    r = db_write(store->db, true, err, &set_feedback, "ttttti", feedback->message_id,
                 feedback->owner, feedback->up ? "up" : "down", feedback->reasons,
                 feedback->comment, feedback->created_us);
    if (r == 0)
        return gb_fail_plain(err, ENOENT, "no answer '%s'", feedback->message_id);
    return r < 0 ? r : 0;
}

static int feedback_read(struct db_query *q, struct store_feedback *ret_feedback,
                         struct gb_err *err)
{
    struct store_feedback feedback = { 0 };
    char rating[8];
    int r;

    if (!db_column_copy(q, 0, feedback.message_id, sizeof feedback.message_id) ||
        !db_column_copy(q, 1, feedback.owner, sizeof feedback.owner) ||
        !db_column_copy(q, 2, rating, sizeof rating) || !db_column_int(q, 5, &feedback.created_us))
        return db_fail_row(q, err);
    feedback.up = strcmp(rating, "up") == 0;
    r = db_column_dup(q, 3, STORE_REASONS_MAX, &feedback.reasons);
    if (r == 0)
        r = db_column_dup(q, 4, STORE_COMMENT_MAX, &feedback.comment);
    if (r < 0) {
        store_feedback_release(&feedback);
        return r == -ENOMEM ? gb_fail(err, ENOMEM, "read a rating") : db_fail_row(q, err);
    }
    *ret_feedback = feedback;
    return 0;
}

/* Reads the rows of @q, ends it, and releases the connection. */
static int feedbacks_read(struct db_query *q, struct store_feedback **ret_feedbacks,
                          size_t *ret_len, struct gb_err *err)
{
    struct store_feedback *feedbacks = NULL;
    size_t len = 0;
    int r;

    while ((r = db_query_step(q, err)) > 0) {
        if (db_grow(&feedbacks, len, sizeof *feedbacks) < 0)
            r = gb_fail(err, ENOMEM, "read ratings");
        else
            r = feedback_read(q, &feedbacks[len], err);
        if (r < 0)
            break;
        len++;
    }
    db_query_end(q);
    db_read_end(q->db);
    if (r < 0) {
        store_feedbacks_free(feedbacks, len);
        return r;
    }
    *ret_feedbacks = feedbacks;
    *ret_len = len;
    return 0;
}

int store_feedback_of_chat(struct store *store, const char *owner, const char *chat_id,
                           int64_t first_seq, int64_t last_seq,
                           struct store_feedback **ret_feedbacks, size_t *ret_len,
                           struct gb_err *err)
{
    int r = store_check_id(owner, err);
    struct db_query q;

    if (r == 0)
        r = store_check_id(chat_id, err);
    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &feedback_of_chat, "ttii", chat_id, owner, first_seq, last_seq);
    return feedbacks_read(&q, ret_feedbacks, ret_len, err);
}

int store_feedback_list(struct store *store, int64_t since_us, int64_t after_us,
                        const char *after_id, size_t limit, struct store_feedback **ret_feedbacks,
                        size_t *ret_len, struct gb_err *err)
{
    struct db_query q;

    if (limit < 1 || limit > STORE_FEEDBACK_MAX)
        return gb_fail_plain(err, EINVAL, "the number of ratings must be from 1 to %d",
                             STORE_FEEDBACK_MAX);
    db_read_begin(store->db);
    q = db_query_begin(store->db, &list_feedback, "iiti", since_us, after_us, after_id,
                       (int64_t) limit);
    return feedbacks_read(&q, ret_feedbacks, ret_len, err);
}
