/* Records of sessions. A restart ends all of them, so no write waits for the disk. */
#include "store/sessions.h"

#include <errno.h>
#include <string.h>

#include "base/autoclean.h"
#include "store/internal.h"

#include "base/banned.h"

static const struct db_statement add_session = {
    DB_WRITE,
    "INSERT INTO sessions (id, owner, created_us, last_used_us) VALUES (?1, ?2, ?3, ?4)",
    "add a session",
};
static const struct db_statement get_session = {
    DB_READ,
    "SELECT id, owner, created_us, last_used_us, ended_us, end_reason FROM sessions "
    "WHERE id = ?1",
    "find a session",
};
static const struct db_statement find_session = {
    DB_WRITE,
    "SELECT 1 FROM sessions WHERE id = ?1",
    "find a session",
};
static const struct db_statement end_session = {
    DB_WRITE,
    "UPDATE sessions SET ended_us = ?2, end_reason = ?3 WHERE id = ?1 AND ended_us IS NULL",
    "end a session",
};
static const struct db_statement end_all = {
    DB_WRITE,
    "UPDATE sessions SET ended_us = ?1, end_reason = ?2 WHERE ended_us IS NULL",
    "end all sessions",
};
static const struct db_statement prune = {
    DB_WRITE,
    "DELETE FROM sessions WHERE ended_us < ?1",
    "delete old sessions",
};

static const char *const end_names[] = {
    [STORE_END_NONE] = NULL,   [STORE_END_EXPIRED] = "expired",   [STORE_END_DELETED] = "deleted",
    [STORE_END_LOST] = "lost", [STORE_END_SHUTDOWN] = "shutdown",
};

/* NULL for STORE_END_NONE. */
static const char *end_name(enum store_end end)
{
    return (size_t) end < ARRAY_LEN(end_names) ? end_names[end] : NULL;
}

/* STORE_END_LOST for an unknown word. */
static enum store_end end_from_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(end_names); i++)
        if (end_names[i] && strcmp(name, end_names[i]) == 0)
            return (enum store_end) i;
    return STORE_END_LOST;
}

static int check_end(enum store_end end, struct gb_err *err)
{
    return end_name(end) ? 0 : gb_fail_plain(err, EINVAL, "not a reason for a session to end");
}

static int fail_unknown(const char *id, struct gb_err *err)
{
    return gb_fail_plain(err, ENOENT, "no record of session '%s'", id);
}

int store_session_add(struct store *store, const struct store_session *session, struct gb_err *err)
{
    int r = store_check_id(session->id, err);

    if (r == 0 && session->owner[0])
        r = store_check_id(session->owner, err);
    if (r == 0 && (session->ended_us || session->end != STORE_END_NONE))
        r = gb_fail_plain(err, EINVAL, "a new session has not ended");
    if (r == 0)
        r = db_write(store->db, false, err, &add_session, "tTii", session->id, session->owner,
                     session->created_us, session->last_used_us);
    return r < 0 ? r : 0;
}

static bool session_read(struct db_query *q, struct store_session *ret_session)
{
    struct store_session session = { .ended_us = db_column_optional(q, 4, 0) };
    char end[16];

    if (!db_column_copy(q, 0, session.id, sizeof session.id) ||
        !db_column_copy_optional(q, 1, session.owner, sizeof session.owner) ||
        !db_column_int(q, 2, &session.created_us) || !db_column_int(q, 3, &session.last_used_us) ||
        !db_column_copy_optional(q, 5, end, sizeof end))
        return false;
    if (end[0])
        session.end = end_from_name(end);
    *ret_session = session;
    return true;
}

int store_session_get(struct store *store, const char *id, struct store_session *ret_session,
                      struct gb_err *err)
{
    int r = store_check_id(id, err);
    struct db_query q;

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &get_session, "t", id);
    r = db_query_step(&q, err);
    if (r == 0)
        r = fail_unknown(id, err);
    else if (r > 0 && !session_read(&q, ret_session))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}

static int session_exists(struct db *db, const char *id, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &find_session, "t", id);
    int r = db_query_step(&q, err);

    db_query_end(&q);
    return r == 0 ? fail_unknown(id, err) : r;
}

int store_session_end(struct store *store, const char *id, int64_t now_us, enum store_end end,
                      struct gb_err *err)
{
    int r = store_check_id(id, err);

    if (r == 0)
        r = check_end(end, err);
    if (r == 0)
        r = db_write_begin(store->db, false, err);
    if (r < 0)
        return r;
    r = session_exists(store->db, id, err);
    if (r > 0)
        r = db_run(store->db, err, &end_session, "tit", id, now_us, end_name(end));
    r = db_write_end(store->db, r, err);
    return r < 0 ? r : 0;
}

int64_t store_session_end_all(struct store *store, int64_t now_us, enum store_end end,
                              struct gb_err *err)
{
    int r = check_end(end, err);

    return r < 0 ? r : db_write(store->db, false, err, &end_all, "it", now_us, end_name(end));
}

int64_t store_session_prune(struct store *store, int64_t before_us, struct gb_err *err)
{
    return db_write(store->db, false, err, &prune, "i", before_us);
}
