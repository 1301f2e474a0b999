/*
 * Budgets: what one owner may spend in a day (UTC): bytes that sources read or bill, money, tokens
 * and seconds of answers. Money and tokens of a model are counted after each of its calls, bytes
 * and money of a query when it ends; what is under way is reserved, so two at the same time cannot
 * pass together.
 *
 * A reservation is first made and then compared, without a lock over the store: two that together
 * are too much may both be refused, and never both pass. What cannot be written to the store is
 * kept in memory, counts, and is written with the next.
 */
#pragma once

#include <jansson.h>

#include "service/service.h"
#include "store/spent.h"

/* In a budget of one owner: no limit, whatever the service says. */
#define BUDGET_NONE (INT64_MAX / 4)

struct budgets;

struct budgets_config {
    struct service *service; /* for its log; may be NULL */
    struct store *store;
    struct store_spent day; /* members of 0: no limit */
};

int budgets_open(const struct budgets_config *config, struct budgets **ret_budgets,
                 struct gb_err *err);
/* Writes what could not be written before. Accepts NULL. */
void budgets_close(struct budgets *budgets);

/* {"day", "resets_in": seconds, "limits": {"bytes", "cost", "tokens", "seconds"} (null: none),
 * "used": {...}, "left": {...}}; costs are in US dollars. */
int budget_to_json(struct budgets *budgets, const struct caller *caller, json_t **ret_json,
                   struct fault *fault);
/* What there is left; INT64_MAX: as much as you like. */
int budget_left(struct budgets *budgets, const struct caller *caller, struct store_spent *ret_left,
                struct fault *fault);
/* Sets the caller's own budget of a day; members of -1 are the service's, BUDGET_NONE: no limit.
 * All of them -1: it has none of its own any more. */
int budget_set(struct budgets *budgets, const struct caller *caller, const struct store_spent *own,
               struct fault *fault);
/* What was set for the caller alone: {"bytes", "cost", "tokens", "seconds"}; null: the default, -1:
 * no limit. */
int budget_own(struct budgets *budgets, const struct caller *caller, json_t **ret_json,
               struct fault *fault);
/* What everybody spent in the last @days days, today included: {"days": [{"day", "bytes", "cost",
 * "tokens", "seconds"}] (the last first), "owners": [{"owner", ...}] (of today, those who spent
 * most first, at most @max), "more"}. */
int budget_overview(struct budgets *budgets, int days, size_t max, json_t **ret_json,
                    struct fault *fault);
/* Reserves @wanted (estimates; a member of 0 is not compared); PROBLEM_BUDGET_SPENT (429) says
 * which limit, what is left, when it resets and what it would have cost. Each reservation is ended
 * with what was used. @budgets may be NULL, here and below: everything is allowed. */
int budget_reserve(struct budgets *budgets, const struct caller *caller,
                   const struct store_spent *wanted, struct fault *fault);
/* Either may be NULL: only spends, or only ends the reservation. */
void budget_settle(struct budgets *budgets, const struct caller *caller,
                   const struct store_spent *wanted, const struct store_spent *used);

/* "2026-11-16", UTC. */
void budget_day(int64_t wall_us, char ret_day[STORE_DAY_MAX]);

/* ---- queries ---- */

/* What an estimate of a source, or a record of a query, comes to ("bytes" and "money"). */
struct store_spent budget_of_query(const json_t *json);
/* Amounts as they are shown: {"bytes", "cost", "tokens", "seconds"}; INT64_MAX is null.
 * NULL: out of memory. */
json_t *budget_amounts(const struct store_spent *amounts);
