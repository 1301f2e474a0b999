/*
 * Messages of chats, and what the model saw and said for each answer.
 *
 * The number of a message in its chat is the next one at the time it is added. The chat is updated
 * first in the same transaction, which holds its row in a database that lets several write at once,
 * so two questions never get the same number.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/strv.h"
#include "base/text/utf8.h"
#include "store/chats.h"
#include "store/fold.h"
#include "store/internal.h"

#include "base/banned.h"

#define WORDS_MAX (64 * 1024) /* of a text that a search looks at */

#define SMALL_COLUMNS                                                                              \
    "m.id, m.chat_id, c.owner, m.seq, m.reply_to, m.role, m.status, m.prompt_version, "            \
    "m.created_us, m.updated_us"
#define FROM_MESSAGES "FROM mark_messages m JOIN mark_chats c ON c.id = m.chat_id "
#define MESSAGE_COLUMNS(response)                                                                  \
    SMALL_COLUMNS ", m.parts, m.attachments, m.usage, m.details, " response " " FROM_MESSAGES
#define LIST_MESSAGES                                                                              \
    "SELECT " MESSAGE_COLUMNS(                                                                     \
        "CASE WHEN ?5 = 0 THEN m.response END") "WHERE m.chat_id = ?1 AND c.owner = ?2 AND m.seq " \
                                                "> ?3 AND m.seq < ?4 ORDER BY m.seq "

static const struct db_statement touch_chat = {
    DB_WRITE,
    "UPDATE mark_chats SET updated_us = CASE WHEN updated_us < ?2 THEN ?2 ELSE updated_us END "
    "WHERE id = ?1",
    "update a chat",
};
static const struct db_statement touch_chat_of = {
    DB_WRITE,
    "UPDATE mark_chats SET updated_us = CASE WHEN updated_us < ?2 THEN ?2 ELSE updated_us END "
    "WHERE id = (SELECT chat_id FROM mark_messages WHERE mark_messages.id = ?1)",
    "update a chat",
};
/* Adds what a message takes to its chat, or with ?2 = -1 takes it away. */
static const struct db_statement weigh_message = {
    DB_WRITE,
    "UPDATE mark_chats SET bytes = bytes + ?2 * (SELECT LENGTH(parts) + "
    "COALESCE(LENGTH(details), 0) + COALESCE(LENGTH(response), 0) FROM mark_messages "
    "WHERE mark_messages.id = ?1) "
    "WHERE id = (SELECT chat_id FROM mark_messages WHERE mark_messages.id = ?1)",
    "update a chat",
};
static const struct db_statement weigh_trace = {
    DB_WRITE,
    "UPDATE mark_chats SET bytes = bytes + ?2 "
    "WHERE id = (SELECT chat_id FROM mark_messages WHERE mark_messages.id = ?1)",
    "update a chat",
};
static const struct db_statement owner_bytes = {
    DB_WRITE,
    "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM mark_chats "
    "WHERE owner = (SELECT owner FROM mark_chats WHERE id = ?1)",
    "sum up chats",
};
static const struct db_statement last_seq = {
    DB_WRITE,
    "SELECT COALESCE(MAX(seq), 0) FROM mark_messages WHERE chat_id = ?1",
    "number a message",
};
static const struct db_statement add_message = {
    DB_WRITE,
    "INSERT INTO mark_messages (id, chat_id, seq, reply_to, role, status, prompt_version, "
    "created_us, updated_us, words, parts, attachments, usage, details, response) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    "add a message",
};
static const struct db_statement finish_message = {
    DB_WRITE,
    "UPDATE mark_messages SET status = ?2, prompt_version = ?3, updated_us = ?4, "
    "words = COALESCE(?5, words), parts = COALESCE(?6, parts), usage = ?7, details = ?8, "
    "response = ?9 WHERE id = ?1 AND role = 'assistant'",
    "finish a message",
};
static const struct db_statement find_replaced = {
    DB_WRITE,
    "SELECT m.seq, c.session_id " FROM_MESSAGES
    "WHERE m.id = ?1 AND c.owner = ?2 AND c.id = ?3 AND m.role = 'user'",
    "find a question",
};
static const struct db_statement find_pending = {
    DB_WRITE,
    "SELECT 1 FROM mark_messages WHERE chat_id = ?1 AND status = 'pending' LIMIT 1",
    "find an answer under way",
};
/* What the messages from a number on take, and what the box has of them. */
static const struct db_statement lighten_chat = {
    DB_WRITE,
    "UPDATE mark_chats SET session_id = NULL, bytes = bytes - (SELECT COALESCE(SUM(LENGTH(parts) + "
    "COALESCE(LENGTH(details), 0) + COALESCE(LENGTH(response), 0)), 0) FROM mark_messages "
    "WHERE chat_id = ?1 AND seq >= ?2) - (SELECT COALESCE(SUM(LENGTH(exchange)), 0) "
    "FROM mark_traces WHERE message_id IN (SELECT id FROM mark_messages WHERE chat_id = ?1 "
    "AND seq >= ?2)) WHERE id = ?1",
    "update a chat",
};
static const struct db_statement cut_chat = {
    DB_WRITE,
    "DELETE FROM mark_messages WHERE chat_id = ?1 AND seq >= ?2",
    "delete messages",
};
static const struct db_statement get_message = {
    DB_READ,
    "SELECT " MESSAGE_COLUMNS("m.response") "WHERE m.id = ?1 AND c.owner = ?2",
    "find a message",
};
static const struct db_statement find_chat = {
    DB_READ,
    "SELECT 1 FROM mark_chats WHERE id = ?1 AND owner = ?2",
    "find a chat",
};
/* Indexed by whether the newest are requested. */
static const struct db_statement list_messages[2] = {
    { DB_READ, LIST_MESSAGES "LIMIT ?6", "list messages" },
    { DB_READ, LIST_MESSAGES "DESC LIMIT ?6", "list messages" },
};
static const struct db_statement list_pending = {
    DB_READ,
    "SELECT " SMALL_COLUMNS " " FROM_MESSAGES
    "WHERE m.status = 'pending' ORDER BY m.created_us, m.id",
    "list pending messages",
};
static const struct db_statement add_trace = {
    DB_WRITE,
    "INSERT INTO mark_traces (message_id, n, exchange) VALUES (?1, ?2, ?3)",
    "add to a trace",
};
static const struct db_statement find_message = {
    DB_READ,
    "SELECT 1 " FROM_MESSAGES "WHERE m.id = ?1 AND c.owner = ?2",
    "find a message",
};
static const struct db_statement list_trace = {
    DB_READ,
    "SELECT exchange FROM mark_traces WHERE message_id = ?1 ORDER BY n",
    "read a trace",
};

static const char *const role_names[] = {
    [STORE_ROLE_USER] = "user",
    [STORE_ROLE_ASSISTANT] = "assistant",
};
static const char *const status_names[] = {
    [STORE_MESSAGE_PENDING] = "pending",
    [STORE_MESSAGE_OK] = "ok",
    [STORE_MESSAGE_ERROR] = "error",
    [STORE_MESSAGE_STOPPED] = "stopped",
    [STORE_MESSAGE_NEEDS_INPUT] = "needs_input",
};

/* -1: not one of them. */
static int index_of(const char *const *names, size_t len, const char *name)
{
    for (size_t i = 0; i < len; i++)
        if (strcmp(names[i], name) == 0)
            return (int) i;
    return -1;
}

static int fail_unknown(const char *id, struct gb_err *err)
{
    return gb_fail_plain(err, ENOENT, "no message '%s'", id);
}

void store_message_release(struct store_message *message)
{
    char **texts[] = { &message->parts,    &message->text,    &message->attachments,
                       &message->response, &message->details, &message->usage };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        free(*texts[i]);
        *texts[i] = NULL;
    }
}

void store_messages_free(struct store_message *messages, size_t len)
{
    for (size_t i = 0; messages && i < len; i++)
        store_message_release(&messages[i]);
    free(messages);
}

/* ---- writing ---- */

static int check_texts(const struct store_message *message, struct gb_err *err)
{
    const char *texts[] = { message->parts,    message->text,    message->attachments,
                            message->response, message->details, message->usage };
    size_t sum = 0;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        size_t len = texts[i] ? strnlen(texts[i], STORE_TEXT_MAX + 1) : 0;

        sum += len;
        if (len > STORE_TEXT_MAX || sum > STORE_MESSAGE_MAX)
            return gb_fail_plain(err, E2BIG, "a message is too long to be stored");
        if (texts[i] && !utf8_valid(texts[i], len))
            return gb_fail_plain(err, EINVAL, "a message is not UTF-8");
    }
    return 0;
}

static int check_message(const struct store_message *message, enum store_role role,
                         struct gb_err *err)
{
    int r = store_check_id(message->id, err);

    if (r == 0)
        r = store_check_id(message->chat_id, err);
    if (r == 0 && message->reply_to[0])
        r = store_check_id(message->reply_to, err);
    if (r == 0 && message->prompt_version[0])
        r = store_check_id(message->prompt_version, err);
    if (r == 0 && (message->role != role || (size_t) message->status >= ARRAY_LEN(status_names) ||
                   !message->parts))
        r = gb_fail_plain(err, EINVAL, "not a message");
    return r < 0 ? r : check_texts(message, err);
}

/* The number of the last message of a chat, which was updated in this transaction. */
static int seq_last(struct db *db, const char *chat_id, int64_t *ret_seq, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &last_seq, "t", chat_id);
    int r = db_query_step(&q, err);

    if (r >= 0 && (r == 0 || !db_column_int(&q, 0, ret_seq)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    return r < 0 ? r : 0;
}

static int message_insert(struct db *db, const struct store_message *message, int64_t seq,
                          struct gb_err *err)
{
    autofree char *words = store_fold(message->text ? message->text : "", WORDS_MAX);
    int r;

    if (!words)
        return gb_fail(err, ENOMEM, "add a message");
    r = db_run(db, err, &add_message, "ttiTttTiitttttt", message->id, message->chat_id, seq,
               message->reply_to, role_names[message->role], status_names[message->status],
               message->prompt_version, message->created_us, message->updated_us, words,
               message->parts, message->attachments, message->usage, message->details,
               message->response);
    return r < 0 ? r : db_run(db, err, &weigh_message, "ti", message->id, INT64_C(1));
}

/* In a transaction: whether the owner of the chat may have another message. */
static int check_owner(struct db *db, const char *chat_id, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &owner_bytes, "t", chat_id);
    int64_t bytes = 0;
    int r = db_query_step(&q, err);

    if (r >= 0 && (r == 0 || !db_column_int(&q, 0, &bytes)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    if (r >= 0 && bytes >= STORE_OWNER_MAX)
        r = gb_fail_plain(err, EDQUOT, "the owner's chats take %lld GiB",
                          (long long) (STORE_OWNER_MAX >> 30));
    return r < 0 ? r : 0;
}

static int check_pair(const struct store_message *question, const struct store_message *answer,
                      struct gb_err *err)
{
    int r = check_message(answer, STORE_ROLE_ASSISTANT, err);

    if (r == 0 && question)
        r = check_message(question, STORE_ROLE_USER, err);
    if (r == 0 && question && strcmp(question->chat_id, answer->chat_id) != 0)
        r = gb_fail_plain(err, EINVAL, "a question and its answer are of one chat");
    return r;
}

/* In a transaction: 1, and the chat is locked. */
static int chat_touch(struct db *db, const struct store_message *answer, struct gb_err *err)
{
    int r = db_run(db, err, &touch_chat, "ti", answer->chat_id, answer->created_us);

    return r == 0 ? gb_fail_plain(err, ENOENT, "no chat '%s'", answer->chat_id) : r;
}

/* In a transaction that has locked the chat: at its end. */
static int pair_insert(struct db *db, const struct store_message *question,
                       const struct store_message *answer, int64_t *ret_seq, struct gb_err *err)
{
    int64_t seq = 0;
    int r = seq_last(db, answer->chat_id, &seq, err);

    if (r == 0 && seq >= STORE_MESSAGES_MAX)
        r = gb_fail_plain(err, EDQUOT, "the chat has %d messages", STORE_MESSAGES_MAX);
    if (r == 0)
        r = check_owner(db, answer->chat_id, err);
    if (r == 0 && question)
        r = message_insert(db, question, ++seq, err);
    if (r >= 0)
        r = message_insert(db, answer, ++seq, err);
    *ret_seq = seq;
    return r;
}

int store_message_add(struct store *store, struct store_message *question,
                      struct store_message *answer, struct gb_err *err)
{
    struct db *db = store->db;
    int64_t seq = 0;
    int r = check_pair(question, answer, err);

    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = chat_touch(db, answer, err);
    if (r > 0)
        r = pair_insert(db, question, answer, &seq, err);
    r = db_write_end(db, r, err);
    if (r < 0)
        return r;
    answer->seq = seq;
    if (question)
        question->seq = seq - 1;
    return 0;
}

/* In a transaction that has locked the chat: the number of the question, and whose turn it is. */
static int replaced_find(struct db *db, struct store_replaced *replaced, const char *chat_id,
                         int64_t *ret_seq, struct gb_err *err)
{
    struct db_query q =
        db_query_begin(db, &find_replaced, "ttt", replaced->message_id, replaced->owner, chat_id);
    int r = db_query_step(&q, err);

    if (r == 0)
        r = fail_unknown(replaced->message_id, err);
    else if (r > 0 &&
             (!db_column_int(&q, 0, ret_seq) ||
              !db_column_copy_optional(&q, 1, replaced->session_id, sizeof replaced->session_id)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    if (r < 0)
        return r;
    q = db_query_begin(db, &find_pending, "t", chat_id);
    r = db_query_step(&q, err);
    db_query_end(&q);
    return r > 0 ? gb_fail_plain(err, EBUSY, "an answer of the chat is pending") : r;
}

int store_message_replace(struct store *store, struct store_replaced *replaced,
                          struct store_message *question, struct store_message *answer,
                          struct gb_err *err)
{
    struct db *db = store->db;
    int64_t seq = 0;
    int r = check_pair(question, answer, err);

    if (r == 0)
        r = store_check_id(replaced->owner, err);
    if (r == 0)
        r = store_check_id(replaced->message_id, err);
    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = chat_touch(db, answer, err);
    if (r > 0)
        r = replaced_find(db, replaced, answer->chat_id, &seq, err);
    if (r == 0)
        r = db_run(db, err, &lighten_chat, "ti", answer->chat_id, seq);
    if (r > 0)
        r = db_run(db, err, &cut_chat, "ti", answer->chat_id, seq);
    if (r > 0)
        r = pair_insert(db, question, answer, &seq, err);
    r = db_write_end(db, r, err);
    if (r < 0)
        return r;
    answer->seq = seq;
    question->seq = seq - 1;
    return 0;
}

int store_message_finish(struct store *store, const struct store_message *message,
                         struct gb_err *err)
{
    autofree char *words = message->text ? store_fold(message->text, WORDS_MAX) : NULL;
    struct db *db = store->db;
    int r = store_check_id(message->id, err);

    if (r == 0 && message->prompt_version[0])
        r = store_check_id(message->prompt_version, err);
    if (r == 0 && (size_t) message->status >= ARRAY_LEN(status_names))
        r = gb_fail_plain(err, EINVAL, "not the status of a message");
    if (r == 0)
        r = check_texts(message, err);
    if (r == 0 && message->text && !words)
        r = gb_fail(err, ENOMEM, "finish a message");
    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = db_run(db, err, &weigh_message, "ti", message->id, INT64_C(-1));
    if (r == 0)
        r = fail_unknown(message->id, err);
    if (r > 0)
        r = db_run(db, err, &finish_message, "ttTittttt", message->id,
                   status_names[message->status], message->prompt_version, message->updated_us,
                   words, message->parts, message->usage, message->details, message->response);
    if (r == 0)
        r = fail_unknown(message->id, err);
    if (r > 0)
        r = db_run(db, err, &weigh_message, "ti", message->id, INT64_C(1));
    if (r > 0)
        r = db_run(db, err, &touch_chat_of, "ti", message->id, message->updated_us);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

/* ---- reading ---- */

static int small_read(struct db_query *q, struct store_message *message, struct gb_err *err)
{
    char role[16], status[16];
    int role_index, status_index;

    if (!db_column_copy(q, 0, message->id, sizeof message->id) ||
        !db_column_copy(q, 1, message->chat_id, sizeof message->chat_id) ||
        !db_column_copy(q, 2, message->owner, sizeof message->owner) ||
        !db_column_int(q, 3, &message->seq) ||
        !db_column_copy_optional(q, 4, message->reply_to, sizeof message->reply_to) ||
        !db_column_copy(q, 5, role, sizeof role) || !db_column_copy(q, 6, status, sizeof status) ||
        !db_column_copy_optional(q, 7, message->prompt_version, sizeof message->prompt_version) ||
        !db_column_int(q, 8, &message->created_us) || !db_column_int(q, 9, &message->updated_us))
        return db_fail_row(q, err);
    role_index = index_of(role_names, ARRAY_LEN(role_names), role);
    status_index = index_of(status_names, ARRAY_LEN(status_names), status);
    if (role_index < 0 || status_index < 0)
        return db_fail_row(q, err);
    message->role = (enum store_role) role_index;
    message->status = (enum store_message_status) status_index;
    return 0;
}

/* Fills @ret_message, which is written only on success. */
static int message_read(struct db_query *q, bool whole, struct store_message *ret_message,
                        struct gb_err *err)
{
    struct store_message message = { 0 };
    char **texts[] = { &message.parts, &message.attachments, &message.usage, &message.details,
                       &message.response };
    int r = small_read(q, &message, err);

    for (size_t i = 0; r == 0 && whole && i < ARRAY_LEN(texts); i++)
        r = db_column_dup(q, 10 + (int) i, STORE_TEXT_MAX, texts[i]);
    if (r < 0) {
        store_message_release(&message);
        return r == -ENOMEM ? gb_fail(err, ENOMEM, "read a message") : db_fail_row(q, err);
    }
    *ret_message = message;
    return 0;
}

int store_message_get(struct store *store, const char *owner, const char *id,
                      struct store_message *ret_message, struct gb_err *err)
{
    int r = store_check_id(owner, err);
    struct db_query q;

    if (r == 0)
        r = store_check_id(id, err);
    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &get_message, "tt", id, owner);
    r = db_query_step(&q, err);
    if (r == 0)
        r = fail_unknown(id, err);
    else if (r > 0)
        r = message_read(&q, true, ret_message, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}

static size_t message_bytes(const struct store_message *message)
{
    const char *texts[] = { message->parts, message->attachments, message->response,
                            message->details, message->usage };
    size_t sum = 0;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        sum += texts[i] ? strlen(texts[i]) : 0;
    return sum;
}

/* All rows, or until their texts have @bytes_max bytes (0: no bound). */
static int messages_read(struct db_query *q, bool whole, size_t bytes_max,
                         struct store_message **messages, size_t *len, struct gb_err *err)
{
    size_t bytes = 0;
    int r;

    while ((r = db_query_step(q, err)) > 0) {
        if (db_grow(messages, *len, sizeof **messages) < 0)
            return gb_fail(err, ENOMEM, "list messages");
        r = message_read(q, whole, &(*messages)[*len], err);
        if (r < 0)
            return r;
        bytes += message_bytes(&(*messages)[(*len)++]);
        if (bytes_max && bytes >= bytes_max)
            return 0;
    }
    return r;
}

static void reverse(struct store_message *messages, size_t len)
{
    for (size_t i = 0; i < len / 2; i++) {
        struct store_message swap = messages[i];

        messages[i] = messages[len - 1 - i];
        messages[len - 1 - i] = swap;
    }
}

/* 0, or -ENOENT unless @statement finds something. */
static int require(struct db *db, const struct db_statement *statement, const char *id,
                   const char *owner, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, statement, "tt", id, owner);
    int r = db_query_step(&q, err);

    db_query_end(&q);
    if (r == 0)
        return gb_fail_plain(err, ENOENT, "no chat or message '%s'", id);
    return r < 0 ? r : 0;
}

static int check_query(const struct store_message_query *query, struct gb_err *err)
{
    int r = store_check_id(query->owner, err);

    if (r == 0)
        r = store_check_id(query->chat_id, err);
    if (r == 0 && (query->limit < 1 || query->limit > STORE_CHAT_ROWS_MAX))
        r = gb_fail_plain(err, EINVAL, "the number of messages must be from 1 to %d",
                          STORE_CHAT_ROWS_MAX);
    return r;
}

int store_message_list(struct store *store, const struct store_message_query *query,
                       struct store_message **ret_messages, size_t *ret_len, struct gb_err *err)
{
    struct store_message *messages = NULL;
    struct db_query q;
    size_t len = 0;
    int r = check_query(query, err);

    if (r < 0)
        return r;
    db_read_begin(store->db);
    r = require(store->db, &find_chat, query->chat_id, query->owner, err);
    if (r == 0) {
        q = db_query_begin(store->db, &list_messages[query->newest], "ttiiii", query->chat_id,
                           query->owner, query->after_seq,
                           query->before_seq > 0 ? query->before_seq : INT64_MAX,
                           (int64_t) query->without_response, (int64_t) query->limit);
        r = messages_read(&q, true, query->bytes_max, &messages, &len, err);
        db_query_end(&q);
    }
    db_read_end(store->db);
    if (r < 0) {
        store_messages_free(messages, len);
        return r;
    }
    if (query->newest)
        reverse(messages, len);
    *ret_messages = messages;
    *ret_len = len;
    return 0;
}

int store_message_pending(struct store *store, struct store_message **ret_messages, size_t *ret_len,
                          struct gb_err *err)
{
    struct store_message *messages = NULL;
    struct db_query q;
    size_t len = 0;
    int r;

    db_read_begin(store->db);
    q = db_query_begin(store->db, &list_pending, "");
    r = messages_read(&q, false, 0, &messages, &len, err);
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0) {
        store_messages_free(messages, len);
        return r;
    }
    *ret_messages = messages;
    *ret_len = len;
    return 0;
}

/* ---- traces ---- */

int store_trace_add(struct store *store, const char *message_id, int64_t n, const char *json,
                    struct gb_err *err)
{
    size_t len = strnlen(json, STORE_TEXT_MAX + 1);
    int r = store_check_id(message_id, err);

    if (r == 0 && len > STORE_TEXT_MAX)
        r = gb_fail_plain(err, E2BIG, "an exchange with the model is too long to be stored");
    if (r == 0 && !utf8_valid(json, len))
        r = gb_fail_plain(err, EINVAL, "an exchange with the model is not UTF-8");
    if (r == 0)
        r = db_write_begin(store->db, false, err);
    if (r < 0)
        return r;
    r = db_run(store->db, err, &add_trace, "tit", message_id, n, json);
    if (r >= 0)
        r = db_run(store->db, err, &weigh_trace, "ti", message_id, (int64_t) len);
    r = db_write_end(store->db, r, err);
    return r < 0 ? r : 0;
}

static int texts_read(struct db_query *q, char ***texts, struct gb_err *err)
{
    int r;

    while ((r = db_query_step(q, err)) > 0) {
        autofree char *text = NULL;

        r = db_column_dup(q, 0, STORE_TEXT_MAX, &text);
        if (r == 0 && !text)
            r = -EUCLEAN;
        if (r == 0)
            r = strv_add(texts, text);
        if (r < 0)
            return r == -ENOMEM ? gb_fail(err, ENOMEM, "read a trace") : db_fail_row(q, err);
    }
    return r;
}

int store_trace_list(struct store *store, const char *owner, const char *message_id,
                     char ***ret_texts, struct gb_err *err)
{
    char **texts = NULL;
    struct db_query q;
    int r = store_check_id(owner, err);

    if (r == 0)
        r = store_check_id(message_id, err);
    if (r < 0)
        return r;
    db_read_begin(store->db);
    r = require(store->db, &find_message, message_id, owner, err);
    if (r == 0) {
        q = db_query_begin(store->db, &list_trace, "t", message_id);
        r = texts_read(&q, &texts, err);
        db_query_end(&q);
    }
    db_read_end(store->db);
    if (r < 0) {
        strv_free(texts);
        return r;
    }
    *ret_texts = texts;
    return 0;
}
