/* The audit log. A row written by another program may contain anything, so reading refuses nothing
 * and says for each row whether it is one of ours. */
#include "store/audit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/internal.h"

#include "base/banned.h"

#define SELECT_ENTRIES                                                                             \
    "SELECT seq, time_us, session_id, prev_hash, hash, fields FROM audit_log "                     \
    "WHERE seq > ?1 AND time_us >= ?2"

static const struct db_statement read_head = {
    DB_READ,
    "SELECT seq, hash FROM audit_head",
    "read the head of the audit log",
};
static const struct db_statement read_head_locked = {
    DB_WRITE,
    "SELECT seq, hash FROM audit_head",
    "read the head of the audit log",
};
static const struct db_statement add_entry = {
    DB_WRITE,
    "INSERT INTO audit_log (seq, time_us, session_id, prev_hash, hash, fields) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    "add to the audit log",
};
static const struct db_statement move_head = {
    DB_WRITE,
    "UPDATE audit_head SET seq = ?1, hash = ?2",
    "update the head of the audit log",
};
/* Indexed by whether the newest are requested, then by whether those of one session. */
static const struct db_statement list_entries[2][2] = {
    { { DB_READ, SELECT_ENTRIES " ORDER BY seq LIMIT ?3", "read the audit log" },
      { DB_READ, SELECT_ENTRIES " AND session_id = ?4 ORDER BY seq LIMIT ?3",
        "read the audit log" } },
    { { DB_READ, SELECT_ENTRIES " AND seq <= ?4 ORDER BY seq DESC LIMIT ?3", "read the audit log" },
      { DB_READ, SELECT_ENTRIES " AND seq <= ?4 AND session_id = ?5 ORDER BY seq DESC LIMIT ?3",
        "read the audit log" } },
};

static int check_entry(const struct store_audit *entry, struct gb_err *err)
{
    if (entry->seq < 1 || entry->time_us < 0 || !entry->fields)
        return gb_fail_plain(err, EINVAL, "not an audit log entry");
    if (strnlen(entry->fields, STORE_AUDIT_FIELDS_MAX) == STORE_AUDIT_FIELDS_MAX)
        return gb_fail_plain(err, EINVAL, "an audit log entry is too long");
    return entry->session_id[0] ? store_check_id(entry->session_id, err) : 0;
}

static int head_read(struct db *db, const struct db_statement *statement,
                     struct store_head *ret_head, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, statement, "");
    struct store_head head;
    int r = db_query_step(&q, err);

    if (r == 0 ||
        (r > 0 && (!db_column_int(&q, 0, &head.seq) || !db_column_hash(&q, 1, head.hash))))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    if (r < 0)
        return r;
    *ret_head = head;
    return 0;
}

int store_audit_head(struct store *store, struct store_head *ret_head, struct gb_err *err)
{
    int r;

    db_read_begin(store->db);
    r = head_read(store->db, &read_head, ret_head, err);
    db_read_end(store->db);
    return r;
}

static int entry_add(struct db *db, const struct store_audit *entry, struct store_head *head,
                     struct gb_err *err)
{
    int r;

    if (entry->seq != head->seq + 1 || memcmp(entry->prev, head->hash, sizeof head->hash) != 0)
        return gb_fail_plain(err, ESTALE, "entry %lld does not follow the head of the audit log",
                             (long long) entry->seq);
    r = db_run(db, err, &add_entry, "iiThht", entry->seq, entry->time_us, entry->session_id,
               entry->prev, entry->hash, entry->fields);
    if (r < 0)
        return r;
    head->seq = entry->seq;
    memcpy(head->hash, entry->hash, sizeof head->hash);
    return 0;
}

int store_audit_append(struct store *store, const struct store_audit *entries, size_t len,
                       struct gb_err *err)
{
    struct store_head head;
    int r = 0;

    for (size_t i = 0; r == 0 && i < len; i++)
        r = check_entry(&entries[i], err);
    if (r < 0 || len == 0)
        return r;
    r = db_write_begin(store->db, true, err);
    if (r < 0)
        return r;
    r = head_read(store->db, &read_head_locked, &head, err);
    for (size_t i = 0; r == 0 && i < len; i++)
        r = entry_add(store->db, &entries[i], &head, err);
    if (r == 0)
        r = db_run(store->db, err, &move_head, "ih", head.seq, head.hash);
    r = db_write_end(store->db, r, err);
    return r < 0 ? r : 0;
}

static int entry_read(struct db_query *q, struct store_audit *ret_entry)
{
    struct store_audit entry = { 0 };
    int r = db_column_dup(q, 5, STORE_AUDIT_FIELDS_MAX - 1, &entry.fields);
    bool good = r == 0 && entry.fields;

    if (!entry.fields)
        entry.fields = r == -ENOMEM ? NULL : strdup("");
    if (!entry.fields)
        return -ENOMEM;
    good &= db_column_int(q, 0, &entry.seq);
    good &= db_column_int(q, 1, &entry.time_us);
    good &= db_column_copy_optional(q, 2, entry.session_id, sizeof entry.session_id);
    if (entry.session_id[0] && !store_id_valid(entry.session_id)) {
        good = false;
        entry.session_id[0] = '\0';
    }
    good &= db_column_hash(q, 3, entry.prev);
    good &= db_column_hash(q, 4, entry.hash);
    entry.malformed = !good;
    *ret_entry = entry;
    return 0;
}

static void reverse(struct store_audit *entries, size_t len)
{
    for (size_t i = 0; i < len / 2; i++) {
        struct store_audit swap = entries[i];

        entries[i] = entries[len - 1 - i];
        entries[len - 1 - i] = swap;
    }
}

static int entries_read(struct db *db, const struct store_audit_query *query,
                        struct store_audit **entries, size_t *len, struct gb_err *err)
{
    const struct db_statement *list = &list_entries[query->newest][query->session_id != NULL];
    int64_t limit = (int64_t) query->limit, upto = query->upto_seq ? query->upto_seq : INT64_MAX;
    struct db_query q =
        query->newest
            ? db_query_begin(db, list, query->session_id ? "iiiit" : "iiii", query->after_seq,
                             query->since_us, limit, upto, query->session_id)
            : db_query_begin(db, list, query->session_id ? "iiit" : "iii", query->after_seq,
                             query->since_us, limit, query->session_id);
    int r;

    while ((r = db_query_step(&q, err)) > 0) {
        if (db_grow(entries, *len, sizeof **entries) < 0 || entry_read(&q, &(*entries)[*len]) < 0) {
            r = gb_fail(err, ENOMEM, "read the audit log");
            break;
        }
        (*len)++;
    }
    db_query_end(&q);
    return r;
}

int store_audit_list(struct store *store, const struct store_audit_query *query,
                     struct store_audit **ret_entries, size_t *ret_len, struct gb_err *err)
{
    int r = query->session_id ? store_check_id(query->session_id, err) : 0;
    struct store_audit *entries = NULL;
    size_t len = 0;

    if (r == 0 && (query->limit < 1 || query->limit > STORE_AUDIT_ROWS_MAX))
        r = gb_fail_plain(err, EINVAL, "the number of entries must be from 1 to %d",
                          STORE_AUDIT_ROWS_MAX);
    if (r < 0)
        return r;
    db_read_begin(store->db);
    r = entries_read(store->db, query, &entries, &len, err);
    db_read_end(store->db);
    if (r < 0) {
        store_audit_free(entries, len);
        return r;
    }
    if (query->newest)
        reverse(entries, len);
    *ret_entries = entries;
    *ret_len = len;
    return 0;
}

void store_audit_free(struct store_audit *entries, size_t len)
{
    for (size_t i = 0; entries && i < len; i++)
        free(entries[i].fields);
    free(entries);
}
