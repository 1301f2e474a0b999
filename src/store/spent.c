/* What owners have spent, by day, and budgets of single owners. */
#include "store/spent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "store/internal.h"
#include "store/sources.h"

#include "base/banned.h"

#define SUM_MAX (INT64_MAX / 4) /* so that a sum of two is one too */

static const struct db_statement read_spent[DB_SIDES] = {
    [DB_READ] = { DB_READ,
                  "SELECT bytes, cost, tokens, us FROM mark_spent WHERE owner = ?1 AND day = ?2",
                  "read what was spent" },
    [DB_WRITE] = { DB_WRITE,
                   "SELECT bytes, cost, tokens, us FROM mark_spent WHERE owner = ?1 AND day = ?2",
                   "read what was spent" },
};
static const struct db_statement write_spent = {
    DB_WRITE,
    "INSERT INTO mark_spent (owner, day, bytes, cost, tokens, us) VALUES (?1, ?2, ?3, ?4, ?5, ?6) "
    "ON CONFLICT (owner, day) DO UPDATE SET bytes = excluded.bytes, cost = excluded.cost, "
    "tokens = excluded.tokens, us = excluded.us",
    "record what was spent",
};
static const struct db_statement list_spent = {
    DB_READ,
    "SELECT owner, day, bytes, cost, tokens, us FROM mark_spent WHERE day = ?1 "
    "ORDER BY cost DESC, tokens DESC, owner LIMIT ?2",
    "read what was spent",
};
/* Not as integers, whose sum can be one too many for SQLite. */
#define SUM_OF(column)                                                                             \
    "CAST(CASE WHEN SUM(" column " * 1e0) > 2e18 THEN 2e18 ELSE SUM(" column                       \
    " * 1e0) END AS BIGINT)"
static const struct db_statement list_days = {
    DB_READ,
    "SELECT '' AS owner, day, " SUM_OF("bytes") ", " SUM_OF("cost") ", " SUM_OF(
        "tokens") ", " SUM_OF("us") " FROM mark_spent WHERE day >= ?1 GROUP BY day ORDER BY day "
                                    "DESC LIMIT ?2",
    "read what was spent",
};
static const struct db_statement prune_spent = {
    DB_WRITE,
    "DELETE FROM mark_spent WHERE day < ?1",
    "forget what was spent",
};
static const struct db_statement set_budget = {
    DB_WRITE,
    "INSERT INTO mark_budgets (who, bytes, cost, tokens, us) VALUES (?1, ?2, ?3, ?4, ?5) "
    "ON CONFLICT (who) DO UPDATE SET bytes = excluded.bytes, cost = excluded.cost, "
    "tokens = excluded.tokens, us = excluded.us",
    "set a budget",
};
static const struct db_statement get_budget = {
    DB_READ,
    "SELECT bytes, cost, tokens, us FROM mark_budgets WHERE who = ?1",
    "read a budget",
};
static const struct db_statement delete_budget = {
    DB_WRITE,
    "DELETE FROM mark_budgets WHERE who = ?1",
    "remove a budget",
};

/* ---- checks ---- */

static int check_day(const char *day, struct gb_err *err)
{
    static const char form[] = "0000-00-00";
    bool good = strnlen(day, STORE_DAY_MAX) == STORE_DAY_MAX - 1;

    for (size_t i = 0; good && form[i]; i++)
        good = form[i] == '-' ? day[i] == '-' : day[i] >= '0' && day[i] <= '9';
    return good ? 0 : gb_fail_plain(err, EINVAL, "not a day");
}

static int check_who(const char *who, struct gb_err *err)
{
    size_t len = strnlen(who, STORE_WHO_MAX);

    return len > 0 && len < STORE_WHO_MAX && utf8_valid(who, len)
               ? 0
               : gb_fail_plain(err, EINVAL, "not an address or a key");
}

static bool amounts_valid(const struct store_spent *spent, int64_t min)
{
    const int64_t all[] = { spent->bytes, spent->cost, spent->tokens, spent->us };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i] < min || all[i] > SUM_MAX)
            return false;
    return true;
}

static int64_t add(int64_t a, int64_t b)
{
    return a > SUM_MAX - b ? SUM_MAX : a + b;
}

/* ---- what was spent ---- */

static int spent_read(struct db *db, enum db_side side, const char *owner, const char *day,
                      struct store_spent *ret_spent, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &read_spent[side], "tt", owner, day);
    struct store_spent spent = { 0 };
    int r = db_query_step(&q, err);

    if (r > 0 && (!db_column_int(&q, 0, &spent.bytes) || !db_column_int(&q, 1, &spent.cost) ||
                  !db_column_int(&q, 2, &spent.tokens) || !db_column_int(&q, 3, &spent.us) ||
                  !amounts_valid(&spent, 0)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    if (r < 0)
        return r;
    *ret_spent = spent;
    return 0;
}

int store_spent_add(struct store *store, const char *owner, const char *day,
                    const struct store_spent *more, struct gb_err *err)
{
    struct db *db = store->db;
    struct store_spent sum;
    int r = store_check_id(owner, err);

    if (r == 0)
        r = check_day(day, err);
    if (r == 0 && !amounts_valid(more, 0))
        r = gb_fail_plain(err, EINVAL, "what was spent cannot be negative or so much");
    if (r == 0)
        r = db_write_begin(db, false, err);
    if (r < 0)
        return r;
    r = spent_read(db, DB_WRITE, owner, day, &sum, err);
    if (r == 0)
        r = db_run(db, err, &write_spent, "ttiiii", owner, day, add(sum.bytes, more->bytes),
                   add(sum.cost, more->cost), add(sum.tokens, more->tokens), add(sum.us, more->us));
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_spent_get(struct store *store, const char *owner, const char *day,
                    struct store_spent *ret_spent, struct gb_err *err)
{
    int r = store_check_id(owner, err);

    if (r == 0)
        r = check_day(day, err);
    if (r < 0)
        return r;
    db_read_begin(store->db);
    r = spent_read(store->db, DB_READ, owner, day, ret_spent, err);
    db_read_end(store->db);
    return r;
}

static bool row_read(struct db_query *q, struct store_spent_row *row)
{
    return db_column_copy(q, 0, row->owner, sizeof row->owner) &&
           db_column_copy(q, 1, row->day, sizeof row->day) &&
           db_column_int(q, 2, &row->spent.bytes) && db_column_int(q, 3, &row->spent.cost) &&
           db_column_int(q, 4, &row->spent.tokens) && db_column_int(q, 5, &row->spent.us) &&
           amounts_valid(&row->spent, 0);
}

static int rows_read(struct store *store, const struct db_statement *statement, const char *day,
                     size_t max, struct store_spent_row **ret_rows, size_t *ret_len,
                     struct gb_err *err)
{
    autofree struct store_spent_row *rows = NULL;
    struct db_query q;
    size_t len = 0;
    int r = check_day(day, err);

    if (r == 0 && (max < 1 || max > STORE_SPENT_ROWS_MAX))
        r = gb_fail_plain(err, EINVAL, "the number of rows must be from 1 to %d",
                          STORE_SPENT_ROWS_MAX);
    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, statement, "ti", day, (int64_t) max);
    while ((r = db_query_step(&q, err)) > 0) {
        if (db_grow(&rows, len, sizeof *rows) < 0) {
            r = gb_fail(err, ENOMEM, "read what was spent");
            break;
        }
        if (!row_read(&q, &rows[len])) {
            r = db_fail_row(&q, err);
            break;
        }
        len++;
    }
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0)
        return r;
    *ret_rows = TAKE_PTR(rows);
    *ret_len = len;
    return 0;
}

int store_spent_list(struct store *store, const char *day, size_t max,
                     struct store_spent_row **ret_rows, size_t *ret_len, struct gb_err *err)
{
    return rows_read(store, &list_spent, day, max, ret_rows, ret_len, err);
}

int store_spent_days(struct store *store, const char *since, size_t max,
                     struct store_spent_row **ret_rows, size_t *ret_len, struct gb_err *err)
{
    return rows_read(store, &list_days, since, max, ret_rows, ret_len, err);
}

int store_spent_prune(struct store *store, const char *day, struct gb_err *err)
{
    int r = check_day(day, err);

    if (r == 0)
        r = db_write(store->db, false, err, &prune_spent, "t", day);
    return r < 0 ? r : 0;
}

/* ---- budgets ---- */

#define DEFAULT INT64_C(-1)

int store_budget_set(struct store *store, const char *who, const struct store_spent *budget,
                     struct gb_err *err)
{
    int r = check_who(who, err);

    if (r == 0 && !amounts_valid(budget, DEFAULT))
        r = gb_fail_plain(err, EINVAL, "not a budget");
    if (r == 0)
        r = db_write(store->db, true, err, &set_budget, "tIIII", who, budget->bytes, DEFAULT,
                     budget->cost, DEFAULT, budget->tokens, DEFAULT, budget->us, DEFAULT);
    return r < 0 ? r : 0;
}

int store_budget_get(struct store *store, const char *who, struct store_spent *ret_budget,
                     struct gb_err *err)
{
    struct store_spent budget;
    struct db_query q;
    int r = check_who(who, err);

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &get_budget, "t", who);
    r = db_query_step(&q, err);
    if (r == 0)
        r = gb_fail_plain(err, ENOENT, "there is no budget for '%.100s'", who);
    if (r > 0) {
        budget.bytes = db_column_optional(&q, 0, DEFAULT);
        budget.cost = db_column_optional(&q, 1, DEFAULT);
        budget.tokens = db_column_optional(&q, 2, DEFAULT);
        budget.us = db_column_optional(&q, 3, DEFAULT);
        if (!amounts_valid(&budget, DEFAULT))
            r = db_fail_row(&q, err);
    }
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0)
        return r;
    *ret_budget = budget;
    return 0;
}

int store_budget_delete(struct store *store, const char *who, struct gb_err *err)
{
    int r = check_who(who, err);

    if (r == 0)
        r = db_write(store->db, true, err, &delete_budget, "t", who);
    if (r == 0)
        return gb_fail_plain(err, ENOENT, "there is no budget for '%.100s'", who);
    return r < 0 ? r : 0;
}
