/* Users of Mark, sign-ins and invitations. */
#include "store/users.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "store/internal.h"

#include "base/banned.h"

#define COLUMNS "id, email, name, password, is_operator, created_us, valid_from_us"

static const struct db_statement next_generation = {
    DB_WRITE,
    "UPDATE mark_users_generation SET value = value + 1",
    "record that users changed",
};
static const struct db_statement read_generation = {
    DB_READ,
    "SELECT value FROM mark_users_generation",
    "read the generation of users",
};
static const struct db_statement add_user = {
    DB_WRITE,
    "INSERT INTO mark_users (" COLUMNS ") VALUES (?1, ?2, ?3, ?4, "
    "CASE WHEN ?4 = '*' THEN 0 "
    "WHEN EXISTS (SELECT 1 FROM mark_users WHERE password <> '*') THEN ?5 ELSE 1 END, ?6, ?7)",
    "add a user",
};
static const struct db_statement added_user = {
    DB_WRITE,
    "SELECT is_operator FROM mark_users WHERE id = ?1",
    "add a user",
};
static const struct db_statement get_user = {
    DB_READ,
    "SELECT " COLUMNS " FROM mark_users WHERE id = ?1",
    "read a user",
};
static const struct db_statement find_user = {
    DB_READ,
    "SELECT " COLUMNS " FROM mark_users WHERE email = ?1",
    "find a user",
};
static const struct db_statement list_users = {
    DB_READ,
    "SELECT " COLUMNS " FROM mark_users ORDER BY created_us, id",
    "list users",
};
static const struct db_statement count_users = {
    DB_READ,
    "SELECT count(*) FROM mark_users WHERE password <> '*'",
    "count users",
};
static const struct db_statement count_guests = {
    DB_WRITE,
    "SELECT count(*) FROM mark_users WHERE password = '*'",
    "count guests",
};
static const struct db_statement list_guests = {
    DB_READ,
    "SELECT " COLUMNS " FROM mark_users WHERE password = '*' AND created_us < ?1 "
    "ORDER BY created_us, id LIMIT 100",
    "list guests",
};
static const struct db_statement rename_user = {
    DB_WRITE,
    "UPDATE mark_users SET name = ?2 WHERE id = ?1",
    "rename a user",
};
static const struct db_statement set_password = {
    DB_WRITE,
    "UPDATE mark_users SET password = ?2, valid_from_us = ?3 WHERE id = ?1",
    "set a password",
};
static const struct db_statement rehash_password = {
    DB_WRITE,
    "UPDATE mark_users SET password = ?3 WHERE id = ?1 AND password = ?2",
    "hash a password again",
};

/* ---- checks ---- */

static bool is_text(const char *text, size_t size, bool may_be_empty)
{
    size_t len = strnlen(text, size);

    if (len == size || (len == 0 && !may_be_empty) || !utf8_valid(text, len))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) text[i] < ' ' || text[i] == 127)
            return false;
    return true;
}

static int check_name(const char *name, struct gb_err *err)
{
    return is_text(name, STORE_USER_NAME_MAX, true)
               ? 0
               : gb_fail_plain(err, EINVAL,
                               "a user's name must be UTF-8 of at most %d bytes without control "
                               "characters",
                               STORE_USER_NAME_MAX - 1);
}

static int check_password(const char *password, struct gb_err *err)
{
    return is_text(password, STORE_PASSWORD_MAX, false)
               ? 0
               : gb_fail_plain(err, EINVAL, "not the hash of a password");
}

static int check_email(const char *email, struct gb_err *err)
{
    return is_text(email, STORE_EMAIL_MAX, false)
               ? 0
               : gb_fail_plain(err, EINVAL, "an address must have 1 to %d bytes",
                               STORE_EMAIL_MAX - 1);
}

static int check_user(const struct store_user *user, struct gb_err *err)
{
    int r = store_check_id(user->id, err);

    if (r == 0)
        r = check_email(user->email, err);
    if (r == 0)
        r = check_name(user->name, err);
    return r == 0 ? check_password(user->password, err) : r;
}

static int fail_no_user(struct gb_err *err)
{
    return gb_fail_plain(err, ENOENT, "no such user");
}

/* ---- invitations ---- */

static const struct db_statement add_invitation = {
    DB_WRITE,
    "INSERT INTO mark_invitations (hash, created_us, expires_us) VALUES (?1, ?2, ?3)",
    "add an invitation",
};
static const struct db_statement prune_invitations = {
    DB_WRITE,
    "DELETE FROM mark_invitations WHERE expires_us <= ?1",
    "remove old invitations",
};
static const struct db_statement find_invitation = {
    DB_READ,
    "SELECT 1 FROM mark_invitations WHERE hash = ?1 AND expires_us > ?2",
    "find an invitation",
};
static const struct db_statement use_invitation = {
    DB_WRITE,
    "DELETE FROM mark_invitations WHERE hash = ?1 AND expires_us > ?2",
    "use an invitation",
};

static int fail_invitation(struct gb_err *err)
{
    return gb_fail_plain(err, EKEYREJECTED, "the invitation is unknown, used or expired");
}

int store_invitation_add(struct store *store, const uint8_t hash[STORE_HASH_BYTES], int64_t now_us,
                         int64_t expires_us, struct gb_err *err)
{
    struct db *db = store->db;
    int r = db_write_begin(db, true, err);

    if (r < 0)
        return r;
    r = db_run(db, err, &prune_invitations, "i", now_us);
    if (r >= 0)
        r = db_run(db, err, &add_invitation, "hii", hash, now_us, expires_us);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_invitation_check(struct store *store, const uint8_t hash[STORE_HASH_BYTES],
                           int64_t now_us, struct gb_err *err)
{
    struct db_query q;
    int r;

    db_read_begin(store->db);
    q = db_query_begin(store->db, &find_invitation, "hi", hash, now_us);
    r = db_query_step(&q, err);
    db_query_end(&q);
    db_read_end(store->db);
    if (r == 0)
        return fail_invitation(err);
    return r < 0 ? r : 0;
}

/* ---- users ---- */

/* In a transaction. The generation comes first: it is the lock that lets one in at a time also
 * where several may write at once. */
static int user_add(struct db *db, const struct store_user *user, const uint8_t *invitation,
                    bool *ret_operator, struct gb_err *err)
{
    int64_t is_operator = 0;
    struct db_query q;
    int r = db_run(db, err, &next_generation, "");

    if (r >= 0 && invitation) {
        r = db_run(db, err, &use_invitation, "hi", invitation, user->created_us);
        r = r == 0 ? fail_invitation(err) : r;
    }
    if (r >= 0)
        r = db_run(db, err, &add_user, "ttttiii", user->id, user->email, user->name, user->password,
                   (int64_t) user->is_operator, user->created_us, user->valid_from_us);
    if (r < 0)
        return r;
    q = db_query_begin(db, &added_user, "t", user->id);
    r = db_query_step(&q, err);
    if (r == 0 || (r > 0 && !db_column_int(&q, 0, &is_operator)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    *ret_operator = is_operator != 0;
    return r;
}

int store_user_add(struct store *store, const struct store_user *user, const uint8_t *invitation,
                   bool *ret_operator, struct gb_err *err)
{
    bool is_operator = false;
    int r = check_user(user, err);

    if (r == 0)
        r = db_write_begin(store->db, true, err);
    if (r < 0)
        return r;
    r = user_add(store->db, user, invitation, &is_operator, err);
    r = db_write_end(store->db, r, err);
    if (r < 0)
        return r;
    *ret_operator = is_operator;
    return 0;
}

bool store_user_is_guest(const struct store_user *user)
{
    return strcmp(user->password, STORE_PASSWORD_NONE) == 0;
}

/* In a transaction. */
static int guest_add(struct db *db, const struct store_user *user, int64_t max, struct gb_err *err)
{
    bool is_operator;
    int64_t count;
    struct db_query q;
    int r = db_run(db, err, &next_generation, ""); /* see user_add() */

    if (r < 0)
        return r;
    q = db_query_begin(db, &count_guests, "");
    r = db_query_step(&q, err);
    if (r == 0 || (r > 0 && !db_column_int(&q, 0, &count)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    if (r >= 0 && count >= max)
        r = gb_fail_plain(err, EUSERS, "there are %lld guests", (long long) count);
    return r < 0 ? r : user_add(db, user, NULL, &is_operator, err);
}

int store_guest_add(struct store *store, struct store_user *user, int64_t max, struct gb_err *err)
{
    int r;

    (void) snprintf(user->password, sizeof user->password, STORE_PASSWORD_NONE);
    user->is_operator = false;
    r = check_user(user, err);
    if (r == 0)
        r = db_write_begin(store->db, true, err);
    if (r < 0)
        return r;
    r = guest_add(store->db, user, max, err);
    r = db_write_end(store->db, r, err);
    return r < 0 ? r : 0;
}

static bool user_read(struct db_query *q, struct store_user *ret_user)
{
    struct store_user user = { 0 };
    int64_t is_operator;

    if (!db_column_copy(q, 0, user.id, sizeof user.id) ||
        !db_column_copy(q, 1, user.email, sizeof user.email) ||
        !db_column_copy(q, 2, user.name, sizeof user.name) ||
        !db_column_copy(q, 3, user.password, sizeof user.password) ||
        !db_column_int(q, 4, &is_operator) || !db_column_int(q, 5, &user.created_us) ||
        !db_column_int(q, 6, &user.valid_from_us))
        return false;
    user.is_operator = is_operator != 0;
    *ret_user = user;
    return true;
}

static int user_get(struct store *store, const struct db_statement *statement, const char *by,
                    struct store_user *ret_user, struct gb_err *err)
{
    struct db_query q;
    int r;

    db_read_begin(store->db);
    q = db_query_begin(store->db, statement, "t", by);
    r = db_query_step(&q, err);
    if (r == 0)
        r = fail_no_user(err);
    else if (r > 0 && !user_read(&q, ret_user))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}

int store_user_get(struct store *store, const char *id, struct store_user *ret_user,
                   struct gb_err *err)
{
    int r = store_check_id(id, err);

    return r == 0 ? user_get(store, &get_user, id, ret_user, err) : r;
}

int store_user_find(struct store *store, const char *email, struct store_user *ret_user,
                    struct gb_err *err)
{
    int r = check_email(email, err);

    return r == 0 ? user_get(store, &find_user, email, ret_user, err) : r;
}

/* @before_us: of @statement's only parameter; NULL: it has none. */
static int list(struct store *store, const struct db_statement *statement, const int64_t *before_us,
                struct store_user **ret_users, size_t *ret_len, struct gb_err *err)
{
    autofree struct store_user *users = NULL;
    size_t len = 0;
    struct db_query q;
    int r;

    db_read_begin(store->db);
    q = before_us ? db_query_begin(store->db, statement, "i", *before_us)
                  : db_query_begin(store->db, statement, "");
    while ((r = db_query_step(&q, err)) > 0) {
        if (db_grow(&users, len, sizeof *users) < 0)
            r = gb_fail(err, ENOMEM, "list users");
        else if (!user_read(&q, &users[len]))
            r = db_fail_row(&q, err);
        if (r < 0)
            break;
        len++;
    }
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0)
        return r;
    *ret_users = TAKE_PTR(users);
    *ret_len = len;
    return 0;
}

int store_user_list(struct store *store, struct store_user **ret_users, size_t *ret_len,
                    struct gb_err *err)
{
    return list(store, &list_users, NULL, ret_users, ret_len, err);
}

int store_guest_list(struct store *store, int64_t before_us, struct store_user **ret_users,
                     size_t *ret_len, struct gb_err *err)
{
    return list(store, &list_guests, &before_us, ret_users, ret_len, err);
}

/* The one number that @statement returns. */
static int read_number(struct store *store, const struct db_statement *statement,
                       int64_t *ret_value, struct gb_err *err)
{
    struct db_query q;
    int r;

    db_read_begin(store->db);
    q = db_query_begin(store->db, statement, "");
    r = db_query_step(&q, err);
    if (r == 0 || (r > 0 && !db_column_int(&q, 0, ret_value)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}

int store_user_count(struct store *store, int64_t *ret_count, struct gb_err *err)
{
    return read_number(store, &count_users, ret_count, err);
}

int store_user_generation(struct store *store, int64_t *ret_generation, struct gb_err *err)
{
    return read_number(store, &read_generation, ret_generation, err);
}

/* ---- changes ---- */

/* Ends a transaction that changed @changed users. */
static int end_change(struct db *db, int changed, struct gb_err *err)
{
    int r = changed == 0 ? fail_no_user(err) : changed;

    if (r > 0)
        r = db_run(db, err, &next_generation, "");
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_user_rename(struct store *store, const char *id, const char *name, struct gb_err *err)
{
    struct db *db = store->db;
    int r = store_check_id(id, err);

    if (r == 0)
        r = check_name(name, err);
    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    return end_change(db, db_run(db, err, &rename_user, "tt", id, name), err);
}

static const struct db_statement set_operator = {
    DB_WRITE,
    "UPDATE mark_users SET is_operator = ?2 WHERE id = ?1 AND password <> '" STORE_PASSWORD_NONE
    "'",
    "set the role of a user",
};
static const struct db_statement other_operators = {
    DB_WRITE,
    "SELECT count(*) FROM mark_users WHERE is_operator <> 0 AND id <> ?1 "
    "AND password <> '" STORE_PASSWORD_NONE "'",
    "count operators",
};

/* In a transaction: somebody besides @id is an operator. */
static int check_others(struct db *db, const char *id, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &other_operators, "t", id);
    int64_t count = 0;
    int r = db_query_step(&q, err);

    if (r == 0 || (r > 0 && !db_column_int(&q, 0, &count)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    if (r < 0)
        return r;
    return count > 0 ? 0 : gb_fail_plain(err, EPERM, "the last operator stays one");
}

int store_user_set_operator(struct store *store, const char *id, bool is_operator,
                            struct gb_err *err)
{
    struct db *db = store->db;
    int r = store_check_id(id, err);

    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    if (!is_operator)
        r = check_others(db, id, err);
    if (r == 0)
        r = db_run(db, err, &set_operator, "ti", id, (int64_t) is_operator);
    return end_change(db, r, err);
}

static const struct db_statement end_sign_ins = {
    DB_WRITE,
    "DELETE FROM mark_sign_ins WHERE user_id = ?1",
    "end the sign-ins of a user",
};

int store_user_set_password(struct store *store, const char *id, const char *password,
                            int64_t valid_from_us, struct gb_err *err)
{
    struct db *db = store->db;
    int r = store_check_id(id, err), changed;

    if (r == 0)
        r = check_password(password, err);
    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    changed = db_run(db, err, &set_password, "tti", id, password, valid_from_us);
    if (changed > 0) {
        r = db_run(db, err, &end_sign_ins, "t", id);
        changed = r < 0 ? r : changed;
    }
    return end_change(db, changed, err);
}

int store_user_rehash(struct store *store, const char *id, const char *before, const char *after,
                      struct gb_err *err)
{
    int r = store_check_id(id, err);

    if (r == 0)
        r = check_password(after, err);
    if (r == 0)
        r = db_write(store->db, true, err, &rehash_password, "ttt", id, before, after);
    return r < 0 ? r : 0;
}

int store_user_delete(struct store *store, const char *id, const char *owner, struct gb_err *err)
{
    static const struct db_statement self = { DB_WRITE, "DELETE FROM mark_users WHERE id = ?1",
                                              "delete a user" }; /* and the sign-ins with it */
    struct db *db = store->db;
    int r = store_check_id(id, err), changed;

    if (r == 0)
        r = store_check_id(owner, err);
    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = store_owner_purge(db, owner, err);
    changed = r < 0 ? r : db_run(db, err, &self, "t", id);
    return end_change(db, changed, err);
}

/* ---- sign-ins ---- */

/* Only while the user is the one whose password was checked. */
static const struct db_statement add_sign_in = {
    DB_WRITE,
    "INSERT INTO mark_sign_ins (family, user_id, hash, created_us, used_us, expires_us) "
    "SELECT ?1, id, ?3, ?4, ?4, ?5 FROM mark_users WHERE id = ?2 AND valid_from_us = ?6",
    "add a sign-in",
};
static const struct db_statement prune_sign_ins = {
    DB_WRITE,
    "DELETE FROM mark_sign_ins WHERE expires_us <= ?1",
    "remove old sign-ins",
};
static const struct db_statement limit_sign_ins = {
    DB_WRITE,
    "DELETE FROM mark_sign_ins WHERE user_id = ?1 AND family NOT IN (SELECT family FROM "
    "mark_sign_ins WHERE user_id = ?1 ORDER BY used_us DESC, family LIMIT ?2)",
    "remove unused sign-ins",
};
static const struct db_statement turn_sign_in = {
    DB_WRITE,
    "UPDATE mark_sign_ins SET hash = ?3, used_us = ?4, expires_us = ?5 "
    "WHERE family = ?1 AND hash = ?2 AND expires_us > ?4",
    "turn a sign-in",
};
static const struct db_statement find_sign_in = {
    DB_WRITE,
    "SELECT " COLUMNS ", (SELECT expires_us FROM mark_sign_ins WHERE family = ?1) "
    "FROM mark_users WHERE id = (SELECT user_id FROM mark_sign_ins WHERE family = ?1)",
    "find a sign-in",
};
static const struct db_statement end_sign_in = {
    DB_WRITE,
    "DELETE FROM mark_sign_ins WHERE family = ?1",
    "end a sign-in",
};

int store_sign_in_add(struct store *store, const struct store_sign_in *sign_in,
                      int64_t valid_from_us, size_t max, struct gb_err *err)
{
    struct db *db = store->db;
    int r = store_check_id(sign_in->family, err);

    if (r == 0)
        r = store_check_id(sign_in->user_id, err);
    if (r == 0)
        r = db_write_begin(db, false, err);
    if (r < 0)
        return r;
    r = db_run(db, err, &prune_sign_ins, "i", sign_in->used_us);
    if (r >= 0)
        r = db_run(db, err, &add_sign_in, "tthiii", sign_in->family, sign_in->user_id,
                   sign_in->hash, sign_in->used_us, sign_in->expires_us, valid_from_us);
    if (r == 0)
        r = fail_no_user(err);
    if (r > 0)
        r = db_run(db, err, &limit_sign_ins, "ti", sign_in->user_id, (int64_t) max);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

/* After the change, or the attempt: 1 and whose it is, or 0. */
static int sign_in_find(struct db *db, const char *family, struct store_user *ret_user,
                        int64_t *ret_expires_us, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &find_sign_in, "t", family);
    int r = db_query_step(&q, err);

    if (r > 0 && (!user_read(&q, ret_user) || !db_column_int(&q, 7, ret_expires_us)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    return r;
}

int store_sign_in_turn(struct store *store, const struct store_sign_in *next,
                       const uint8_t spent[STORE_HASH_BYTES], struct store_user *ret_user,
                       struct gb_err *err)
{
    struct db *db = store->db;
    struct store_user user;
    int64_t expires_us = 0;
    bool reused = false;
    int r = store_check_id(next->family, err), turned;

    if (r == 0)
        r = db_write_begin(db, false, err);
    if (r < 0)
        return r;
    turned = db_run(db, err, &turn_sign_in, "thhii", next->family, spent, next->hash, next->used_us,
                    next->expires_us);
    r = turned < 0 ? turned : sign_in_find(db, next->family, &user, &expires_us, err);
    if (r == 0 || (r > 0 && turned == 0 && expires_us <= next->used_us)) {
        r = gb_fail_plain(err, ENOENT, "no such sign-in");
    } else if (r > 0 && turned == 0) {
        reused = true; /* its end is to be committed */
        r = db_run(db, err, &end_sign_in, "t", next->family);
    }
    r = db_write_end(db, r, err);
    if (r >= 0 && reused)
        return gb_fail_plain(err, ESTALE, "the token was used before; its sign-in is ended");
    if (r < 0)
        return r;
    *ret_user = user;
    return 0;
}

int store_sign_in_user(struct store *store, const char *family, struct store_user *ret_user,
                       struct gb_err *err)
{
    static const struct db_statement statement = {
        DB_READ,
        "SELECT " COLUMNS " FROM mark_users WHERE id = (SELECT user_id FROM mark_sign_ins "
        "WHERE family = ?1)",
        "find the user of a sign-in",
    };
    int r = store_check_id(family, err);

    return r == 0 ? user_get(store, &statement, family, ret_user, err) : r;
}

int store_sign_in_end(struct store *store, const char *family, struct gb_err *err)
{
    int r = store_check_id(family, err);

    if (r == 0)
        r = db_write(store->db, true, err, &end_sign_in, "t", family);
    return r < 0 ? r : 0;
}
