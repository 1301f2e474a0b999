/*
 * Budgets: what one owner may spend in a day (UTC): bytes that sources read or bill, money, tokens
 * and seconds of answers. Money and tokens of a model are counted after each of its calls, bytes
 * and money of a query when it ends; what is under way is reserved, so two at the same time cannot
 * pass together.
 */
#pragma once

#include "service/service.h"
#include "store/spent.h"

struct budgets;

struct budgets_config {
    struct store *store;
    struct store_spent day; /* members of 0: no limit */
};

int budgets_open(const struct budgets_config *config, struct budgets **ret_budgets,
                 struct gb_err *err);
void budgets_close(struct budgets *budgets);

/* {"day", "resets_in": seconds, "limits": {"bytes", "cost", "tokens", "seconds"} (null: none),
 * "used":
 * {...}, "left": {...}}. */
int budget_to_json(struct budgets *budgets, const struct caller *caller, json_t **ret_json,
                   struct fault *fault);
/* Reserves @wanted (estimates); PROBLEM_BUDGET (429) says which limit, what is left and what it
 * would have cost. Each reservation is ended with what was used. */
int budget_reserve(struct budgets *budgets, const struct caller *caller,
                   const struct store_spent *wanted, struct fault *fault);
void budget_settle(struct budgets *budgets, const struct caller *caller,
                   const struct store_spent *wanted, const struct store_spent *used);
