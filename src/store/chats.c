/* Chats. Each statement names the owner, so that another's chat is one that does not exist. */
#include "store/chats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "store/fold.h"
#include "store/internal.h"

#include "base/banned.h"

#define CHAT_COLUMNS "id, owner, title, session_id, model, created_us, updated_us"
#define LIST_CHATS                                                                                 \
    "SELECT " CHAT_COLUMNS " FROM mark_chats WHERE owner = ?1 "                                    \
    "AND (updated_us < ?2 OR (updated_us = ?2 AND id < ?3)) "
#define LIST_ORDER "ORDER BY updated_us DESC, id DESC LIMIT ?4"

static const struct db_statement add_chat = {
    DB_WRITE,
    "INSERT INTO mark_chats (id, owner, title, words, session_id, model, created_us, "
    "updated_us, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0)",
    "add a chat",
};
static const struct db_statement count_chats = {
    DB_WRITE,
    "SELECT COUNT(*) FROM mark_chats WHERE owner = ?1",
    "count chats",
};
static const struct db_statement get_chat = {
    DB_READ,
    "SELECT " CHAT_COLUMNS " FROM mark_chats WHERE id = ?1 AND owner = ?2",
    "find a chat",
};
/* Indexed by whether there is something to search for. */
static const struct db_statement list_chats[2] = {
    { DB_READ, LIST_CHATS LIST_ORDER, "list chats" },
    { DB_READ,
      LIST_CHATS "AND (words LIKE ?5 ESCAPE '!' OR EXISTS (SELECT 1 FROM mark_messages "
                 "WHERE mark_messages.chat_id = mark_chats.id "
                 "AND mark_messages.words LIKE ?5 ESCAPE '!')) " LIST_ORDER,
      "search chats" },
};
static const struct db_statement rename_chat = {
    DB_WRITE,
    "UPDATE mark_chats SET title = ?3, words = ?4, updated_us = "
    "CASE WHEN updated_us < ?5 THEN ?5 ELSE updated_us END WHERE id = ?1 AND owner = ?2",
    "rename a chat",
};
static const struct db_statement set_session = {
    DB_WRITE,
    "UPDATE mark_chats SET session_id = ?2 WHERE id = ?1",
    "set the session of a chat",
};
static const struct db_statement set_model = {
    DB_WRITE,
    "UPDATE mark_chats SET model = ?2 WHERE id = ?1",
    "set the model of a chat",
};
static const struct db_statement delete_chat = {
    DB_WRITE,
    "DELETE FROM mark_chats WHERE id = ?1 AND owner = ?2",
    "delete a chat",
};
static const struct db_statement delete_chats = {
    DB_WRITE,
    "DELETE FROM mark_chats WHERE owner = ?1",
    "delete chats",
};
static const struct db_statement delete_shares = {
    DB_WRITE,
    "DELETE FROM shares WHERE owner = ?1",
    "delete shares",
};
static const struct db_statement delete_attachments = {
    DB_WRITE,
    "DELETE FROM mark_attachments WHERE owner = ?1",
    "delete attachments",
};
static const struct db_statement delete_verified = {
    DB_WRITE,
    "DELETE FROM mark_verified WHERE owner = ?1",
    "delete verified answers",
};

static const struct db_statement find_owner = {
    DB_READ,
    "SELECT owner, 1 FROM mark_chats WHERE id = ?1 UNION ALL SELECT mark_chats.owner, 0 "
    "FROM mark_messages JOIN mark_chats ON mark_chats.id = mark_messages.chat_id "
    "WHERE mark_messages.id = ?1",
    "find an owner",
};

static int fail_unknown(const char *id, struct gb_err *err)
{
    return gb_fail_plain(err, ENOENT, "no chat '%s'", id);
}

static int check_ids(const char *owner, const char *id, struct gb_err *err)
{
    int r = store_check_id(owner, err);

    return r < 0 ? r : store_check_id(id, err);
}

/* Whether @text has at most @size - 1 bytes, all UTF-8. */
static int check_text(const char *text, size_t size, const char *what, struct gb_err *err)
{
    size_t len = strnlen(text, size);

    if (len == size)
        return gb_fail_plain(err, EINVAL, "%s is longer than %zu bytes", what, size - 1);
    if (!utf8_valid(text, len))
        return gb_fail_plain(err, EINVAL, "%s is not UTF-8", what);
    return 0;
}

/* In a transaction: whether the owner may have one more. */
static int check_share(struct db *db, const char *owner, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &count_chats, "t", owner);
    int64_t count = 0;
    int r = db_query_step(&q, err);

    if (r >= 0 && (r == 0 || !db_column_int(&q, 0, &count)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    if (r >= 0 && count >= STORE_CHATS_MAX)
        r = gb_fail_plain(err, EDQUOT, "the owner has %d chats", STORE_CHATS_MAX);
    return r < 0 ? r : 0;
}

int store_chat_add(struct store *store, const struct store_chat *chat, struct gb_err *err)
{
    struct db *db = store->db;
    autofree char *words = NULL;
    int r = check_ids(chat->owner, chat->id, err);

    if (r == 0 && chat->session_id[0])
        r = store_check_id(chat->session_id, err);
    if (r == 0)
        r = check_text(chat->title, sizeof chat->title, "the title", err);
    if (r == 0)
        r = check_text(chat->model, sizeof chat->model, "the model's name", err);
    if (r < 0)
        return r;
    words = store_fold(chat->title, sizeof chat->title);
    if (!words)
        return gb_fail(err, ENOMEM, "add a chat");
    r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = check_share(db, chat->owner, err);
    if (r == 0)
        r = db_run(db, err, &add_chat, "ttttTTii", chat->id, chat->owner, chat->title, words,
                   chat->session_id, chat->model, chat->created_us, chat->updated_us);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

static bool chat_read(struct db_query *q, struct store_chat *ret_chat)
{
    struct store_chat chat;

    if (!db_column_copy(q, 0, chat.id, sizeof chat.id) ||
        !db_column_copy(q, 1, chat.owner, sizeof chat.owner) ||
        !db_column_copy(q, 2, chat.title, sizeof chat.title) ||
        !db_column_copy_optional(q, 3, chat.session_id, sizeof chat.session_id) ||
        !db_column_copy_optional(q, 4, chat.model, sizeof chat.model) ||
        !db_column_int(q, 5, &chat.created_us) || !db_column_int(q, 6, &chat.updated_us))
        return false;
    *ret_chat = chat;
    return true;
}

int store_chat_get(struct store *store, const char *owner, const char *id,
                   struct store_chat *ret_chat, struct gb_err *err)
{
    int r = check_ids(owner, id, err);
    struct db_query q;

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &get_chat, "tt", id, owner);
    r = db_query_step(&q, err);
    if (r == 0)
        r = fail_unknown(id, err);
    else if (r > 0 && !chat_read(&q, ret_chat))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}

int store_owner_of(struct store *store, const char *id, char ret_owner[STORE_ID_MAX],
                   bool *ret_chat, struct gb_err *err)
{
    int r = store_check_id(id, err);
    struct db_query q;
    int64_t chat = 0;

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &find_owner, "t", id);
    r = db_query_step(&q, err);
    if (r == 0)
        r = gb_fail_plain(err, ENOENT, "no chat and no answer '%s'", id);
    else if (r > 0 &&
             (!db_column_copy(&q, 0, ret_owner, STORE_ID_MAX) || !db_column_int(&q, 1, &chat)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    db_read_end(store->db);
    *ret_chat = chat != 0;
    return r < 0 ? r : 0;
}

static int chats_read(struct db_query *q, struct store_chat **chats, size_t *len,
                      struct gb_err *err)
{
    int r;

    while ((r = db_query_step(q, err)) > 0) {
        if (db_grow(chats, *len, sizeof **chats) < 0)
            return gb_fail(err, ENOMEM, "list chats");
        if (!chat_read(q, &(*chats)[*len]))
            return db_fail_row(q, err);
        (*len)++;
    }
    return r;
}

static int check_query(const struct store_chat_query *query, struct gb_err *err)
{
    int r = store_check_id(query->owner, err);

    if (r == 0 && query->after_id)
        r = store_check_id(query->after_id, err);
    if (r == 0 && (query->limit < 1 || query->limit > STORE_CHAT_ROWS_MAX))
        r = gb_fail_plain(err, EINVAL, "the number of chats must be from 1 to %d",
                          STORE_CHAT_ROWS_MAX);
    if (r == 0 && query->q)
        r = check_text(query->q, STORE_SEARCH_MAX + 1, "what is searched for", err);
    return r;
}

int store_chat_list(struct store *store, const struct store_chat_query *query,
                    struct store_chat **ret_chats, size_t *ret_len, struct gb_err *err)
{
    bool searches = query->q && query->q[0];
    autofree struct store_chat *chats = NULL;
    autofree char *pattern = NULL;
    struct db_query q;
    size_t len = 0;
    int r = check_query(query, err);

    if (r < 0)
        return r;
    pattern = searches ? store_like(query->q, STORE_SEARCH_MAX) : NULL;
    if (searches && !pattern)
        return gb_fail(err, ENOMEM, "search chats");
    db_read_begin(store->db);
    q = db_query_begin(store->db, &list_chats[searches], searches ? "titit" : "titi", query->owner,
                       query->after_id ? query->after_us : INT64_MAX,
                       query->after_id ? query->after_id : "", (int64_t) query->limit, pattern);
    r = chats_read(&q, &chats, &len, err);
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0)
        return r;
    *ret_chats = TAKE_PTR(chats);
    *ret_len = len;
    return 0;
}

int store_chat_rename(struct store *store, const char *owner, const char *id, const char *title,
                      int64_t now_us, struct gb_err *err)
{
    autofree char *words = NULL;
    int r = check_ids(owner, id, err);

    if (r == 0)
        r = check_text(title, STORE_TITLE_MAX, "the title", err);
    if (r < 0)
        return r;
    words = store_fold(title, STORE_TITLE_MAX);
    if (!words)
        return gb_fail(err, ENOMEM, "rename a chat");
    r = db_write(store->db, true, err, &rename_chat, "tttti", id, owner, title, words, now_us);
    return r == 0 ? fail_unknown(id, err) : r < 0 ? r : 0;
}

int store_chat_set(struct store *store, const char *id, const char *session_id, const char *model,
                   struct gb_err *err)
{
    struct db *db = store->db;
    int r = store_check_id(id, err);

    if (r == 0 && session_id && session_id[0])
        r = store_check_id(session_id, err);
    if (r == 0 && model)
        r = check_text(model, STORE_TITLE_MAX, "the model's name", err);
    if (r == 0)
        r = db_write_begin(db, false, err);
    if (r < 0)
        return r;
    r = 1;
    if (session_id)
        r = db_run(db, err, &set_session, "tT", id, session_id);
    if (r > 0 && model)
        r = db_run(db, err, &set_model, "tT", id, model);
    if (r == 0)
        r = fail_unknown(id, err);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_chat_delete(struct store *store, const char *owner, const char *id, struct gb_err *err)
{
    int r = check_ids(owner, id, err);

    if (r == 0)
        r = db_write(store->db, true, err, &delete_chat, "tt", id, owner);
    else
        return r;
    return r == 0 ? fail_unknown(id, err) : r < 0 ? r : 0;
}

int store_owner_purge(struct db *db, const char *owner, struct gb_err *err)
{
    int r = db_run(db, err, &delete_chats, "t", owner);

    if (r >= 0)
        r = db_run(db, err, &delete_verified, "t", owner);
    if (r >= 0)
        r = db_run(db, err, &delete_shares, "t", owner);
    return r < 0 ? r : db_run(db, err, &delete_attachments, "t", owner);
}

int store_owner_delete(struct store *store, const char *owner, struct gb_err *err)
{
    struct db *db = store->db;
    int r = store_check_id(owner, err);

    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = db_write_end(db, store_owner_purge(db, owner, err), err);
    return r < 0 ? r : 0;
}
