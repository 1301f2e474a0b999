/* What owners have spent, by day, and budgets of single owners. */
#pragma once

#include "store/store.h"

#define STORE_DAY_MAX 11 /* "2026-11-16", UTC */

struct store_spent {
    int64_t bytes;  /* that sources billed, or read where they do not bill */
    int64_t cost;   /* millionths of a US dollar: models and queries */
    int64_t tokens; /* of models */
    int64_t us;     /* of answers */
};

/* Adds, in one transaction; the row is made. */
int store_spent_add(struct store *store, const char *owner, const char *day,
                    const struct store_spent *more, struct gb_err *err);
/* Zero if there is none. */
int store_spent_get(struct store *store, const char *owner, const char *day,
                    struct store_spent *ret_spent, struct gb_err *err);
#define STORE_SPENT_ROWS_MAX 1000
struct store_spent_row {
    char owner[STORE_ID_MAX], day[STORE_DAY_MAX];
    struct store_spent spent;
};
/* What everybody spent on @day, those who spent most first; at most @max rows. The caller frees
 * them. */
int store_spent_list(struct store *store, const char *day, size_t max,
                     struct store_spent_row **ret_rows, size_t *ret_len, struct gb_err *err);
/* What all together spent on each day from @since on, the last first; owner is "". */
int store_spent_days(struct store *store, const char *since, size_t max,
                     struct store_spent_row **ret_rows, size_t *ret_len, struct gb_err *err);
/* Days before @day are forgotten. */
int store_spent_prune(struct store *store, const char *day, struct gb_err *err);

/* Members of -1 are the service's default. */
int store_budget_set(struct store *store, const char *who, const struct store_spent *budget,
                     struct gb_err *err);
/* -ENOENT: none of its own. */
int store_budget_get(struct store *store, const char *who, struct store_spent *ret_budget,
                     struct gb_err *err);
int store_budget_delete(struct store *store, const char *who, struct gb_err *err);
