/* What is known about attached files. */
#include "store/attachments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "store/internal.h"

#include "base/banned.h"

#define SELECT_ATTACHMENTS                                                                         \
    "SELECT id, owner, name, media_type, sha256, size, created_us, profile FROM mark_attachments "

static const struct db_statement add_attachment = {
    DB_WRITE,
    "INSERT INTO mark_attachments (id, owner, name, media_type, sha256, size, created_us, profile) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    "add an attachment",
};
static const struct db_statement set_profile = {
    DB_WRITE,
    "UPDATE mark_attachments SET profile = ?3 WHERE id = ?1 AND owner = ?2",
    "set the profile of an attachment",
};
static const struct db_statement get_attachment = {
    DB_READ,
    SELECT_ATTACHMENTS "WHERE id = ?1 AND owner = ?2",
    "find an attachment",
};
static const struct db_statement list_attachments = {
    DB_READ,
    "SELECT id, owner, name, media_type, sha256, size, created_us, NULL FROM mark_attachments "
    "WHERE owner = ?1 ORDER BY created_us, id",
    "list attachments",
};
/* Indexed by side. The sum of a BIGINT is a NUMERIC in PostgreSQL. */
static const struct db_statement sum_attachments[] = {
    { DB_READ,
      "SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM mark_attachments "
      "WHERE owner = ?1",
      "count attachments" },
    { DB_WRITE,
      "SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM mark_attachments "
      "WHERE owner = ?1",
      "count attachments" },
};
static const struct db_statement delete_attachment = {
    DB_WRITE,
    "DELETE FROM mark_attachments WHERE id = ?1 AND owner = ?2",
    "delete an attachment",
};
static const struct db_statement has_content = {
    DB_READ,
    "SELECT 1 FROM mark_attachments WHERE sha256 = ?1 "
    "UNION ALL SELECT 1 FROM mark_verified_inputs WHERE kind = 'file' AND sha256 = ?1 "
    "UNION ALL SELECT 1 FROM mark_artifacts WHERE sha256 = ?1 LIMIT 1",
    "find content",
};

static int fail_unknown(const char *id, struct gb_err *err)
{
    return gb_fail_plain(err, ENOENT, "no attachment '%s'", id);
}

static int check_ids(const char *owner, const char *id, struct gb_err *err)
{
    int r = store_check_id(owner, err);

    return r < 0 ? r : store_check_id(id, err);
}

void store_attachment_release(struct store_attachment *attachment)
{
    free(attachment->profile);
    attachment->profile = NULL;
}

void store_attachments_free(struct store_attachment *attachments, size_t len)
{
    for (size_t i = 0; attachments && i < len; i++)
        store_attachment_release(&attachments[i]);
    free(attachments);
}

/* ---- writing ---- */

static bool name_valid(const char *name, size_t size)
{
    size_t len = strnlen(name, size);

    if (len == 0 || len == size || !utf8_valid(name, len) || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) name[i] < 0x20 || name[i] == '/' || name[i] == 0x7f)
            return false;
    return true;
}

static int check_profile(const char *profile, struct gb_err *err)
{
    size_t len = strnlen(profile, STORE_PROFILE_MAX + 1);

    if (len > STORE_PROFILE_MAX)
        return gb_fail_plain(err, E2BIG, "the profile of an attachment is too long");
    if (!utf8_valid(profile, len))
        return gb_fail_plain(err, EINVAL, "the profile of an attachment is not UTF-8");
    return 0;
}

static int check_attachment(const struct store_attachment *attachment, struct gb_err *err)
{
    size_t type_len = strnlen(attachment->media_type, sizeof attachment->media_type);
    int r = check_ids(attachment->owner, attachment->id, err);

    if (r == 0 && (!name_valid(attachment->name, sizeof attachment->name) || type_len == 0 ||
                   type_len == sizeof attachment->media_type || attachment->size < 0))
        r = gb_fail_plain(err, EINVAL, "not an attachment");
    return r == 0 && attachment->profile ? check_profile(attachment->profile, err) : r;
}

static int sum(struct db *db, enum db_side side, const char *owner, int64_t *ret_count,
               int64_t *ret_bytes, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &sum_attachments[side], "t", owner);
    int r = db_query_step(&q, err);

    if (r >= 0 && (r == 0 || !db_column_int(&q, 0, ret_count) || !db_column_int(&q, 1, ret_bytes)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    return r < 0 ? r : 0;
}

int store_attachment_add(struct store *store, const struct store_attachment *attachment,
                         int64_t count_max, int64_t bytes_max, struct gb_err *err)
{
    struct db *db = store->db;
    int64_t count, bytes;
    int r = check_attachment(attachment, err);

    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = sum(db, DB_WRITE, attachment->owner, &count, &bytes, err);
    if (r == 0 && ((count_max >= 0 && count >= count_max) ||
                   (bytes_max >= 0 &&
                    (attachment->size > bytes_max || bytes > bytes_max - attachment->size))))
        r = gb_fail_plain(err, EDQUOT, "the owner has no room for another attachment");
    if (r == 0)
        r = db_run(db, err, &add_attachment, "tttthiit", attachment->id, attachment->owner,
                   attachment->name, attachment->media_type, attachment->sha256, attachment->size,
                   attachment->created_us, attachment->profile);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_attachment_set_profile(struct store *store, const char *owner, const char *id,
                                 const char *profile, struct gb_err *err)
{
    int r = check_ids(owner, id, err);

    if (r == 0)
        r = check_profile(profile, err);
    if (r < 0)
        return r;
    r = db_write(store->db, false, err, &set_profile, "ttt", id, owner, profile);
    return r == 0 ? fail_unknown(id, err) : r < 0 ? r : 0;
}

int store_attachment_delete(struct store *store, const char *owner, const char *id,
                            struct gb_err *err)
{
    int r = check_ids(owner, id, err);

    if (r < 0)
        return r;
    r = db_write(store->db, true, err, &delete_attachment, "tt", id, owner);
    return r == 0 ? fail_unknown(id, err) : r < 0 ? r : 0;
}

/* ---- reading ---- */

static int attachment_read(struct db_query *q, struct store_attachment *ret_attachment,
                           struct gb_err *err)
{
    struct store_attachment attachment = { 0 };
    int r;

    if (!db_column_copy(q, 0, attachment.id, sizeof attachment.id) ||
        !db_column_copy(q, 1, attachment.owner, sizeof attachment.owner) ||
        !db_column_copy(q, 2, attachment.name, sizeof attachment.name) ||
        !db_column_copy(q, 3, attachment.media_type, sizeof attachment.media_type) ||
        !db_column_hash(q, 4, attachment.sha256) || !db_column_int(q, 5, &attachment.size) ||
        !db_column_int(q, 6, &attachment.created_us) ||
        !name_valid(attachment.name, sizeof attachment.name))
        return db_fail_row(q, err);
    r = db_column_dup(q, 7, STORE_PROFILE_MAX, &attachment.profile);
    if (r < 0)
        return r == -ENOMEM ? gb_fail(err, ENOMEM, "read an attachment") : db_fail_row(q, err);
    *ret_attachment = attachment;
    return 0;
}

int store_attachment_get(struct store *store, const char *owner, const char *id,
                         struct store_attachment *ret_attachment, struct gb_err *err)
{
    int r = check_ids(owner, id, err);
    struct db_query q;

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &get_attachment, "tt", id, owner);
    r = db_query_step(&q, err);
    if (r == 0)
        r = fail_unknown(id, err);
    else if (r > 0)
        r = attachment_read(&q, ret_attachment, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}

int store_attachment_list(struct store *store, const char *owner,
                          struct store_attachment **ret_attachments, size_t *ret_len,
                          struct gb_err *err)
{
    struct store_attachment *attachments = NULL;
    struct db_query q;
    size_t len = 0;
    int r = store_check_id(owner, err);

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &list_attachments, "t", owner);
    while ((r = db_query_step(&q, err)) > 0) {
        if (db_grow(&attachments, len, sizeof *attachments) < 0)
            r = gb_fail(err, ENOMEM, "list attachments");
        else
            r = attachment_read(&q, &attachments[len], err);
        if (r < 0)
            break;
        len++;
    }
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0) {
        store_attachments_free(attachments, len);
        return r;
    }
    *ret_attachments = attachments;
    *ret_len = len;
    return 0;
}

int store_attachment_sum(struct store *store, const char *owner, int64_t *ret_count,
                         int64_t *ret_bytes, struct gb_err *err)
{
    int r = store_check_id(owner, err);

    if (r < 0)
        return r;
    db_read_begin(store->db);
    r = sum(store->db, DB_READ, owner, ret_count, ret_bytes, err);
    db_read_end(store->db);
    return r;
}

int store_attachment_has(struct store *store, const uint8_t sha256[STORE_HASH_BYTES], bool *ret_has,
                         struct gb_err *err)
{
    struct db_query q;
    int r;

    db_read_begin(store->db);
    q = db_query_begin(store->db, &has_content, "h", sha256);
    r = db_query_step(&q, err);
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0)
        return r;
    *ret_has = r > 0;
    return 0;
}
