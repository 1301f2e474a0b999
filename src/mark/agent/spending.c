/*
 * What an answer takes of its owner's budget of the day (budget/budget.h).
 *
 * Its seconds are reserved when it begins: it gets as many as there are left, and no more. Before
 * each call of the model, the tokens that it will at least take are reserved; after it, what it
 * really took is spent. Queries do the same with bytes and money, on threads of the broker.
 */
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/agent/work.h"

#include "base/banned.h"

#define ANSWER_TOKENS 500          /* that a reply has at least, about */
#define SECONDS_MIN   USEC_PER_SEC /* an answer with less is not worth its beginning */

static struct budgets *budgets_of(const struct work *work)
{
    return work->agent->config.budgets;
}

/* Also on threads of the broker. */
static void spend(struct answer *answer, const struct store_spent *used)
{
    (void) pthread_mutex_lock(&answer->lock);
    answer->spent.bytes += used->bytes;
    answer->spent.cost += used->cost;
    answer->spent.tokens += used->tokens;
    answer->spent.us += used->us;
    (void) pthread_mutex_unlock(&answer->lock);
}

int spending_check(struct agent *agent, const struct caller *caller, const struct llm_model *model,
                   struct fault *fault)
{
    const struct store_spent least = { .cost = llm_model_is_demo(model) ? 0 : 1,
                                       .tokens = ANSWER_TOKENS,
                                       .us = SECONDS_MIN };

    if (budget_reserve(agent->config.budgets, caller, &least, fault) < 0)
        return -1;
    budget_settle(agent->config.budgets, caller, &least, NULL);
    return 0;
}

/* Ends it with the words of the refusal. */
static void refuse(struct work *work, const struct fault *fault)
{
    const char *cause = fault->problem == PROBLEM_BUDGET_SPENT ? "budget_of_the_day" : "internal";

    if (work->ending.story) { /* one that was to be mended */
        work_notice(work, "There was no second look at the numbers: %s.", fault->detail);
        work->done = true;
        return;
    }
    work_fail(work, cause, "I stopped here, because there is no budget left: %s.%s", fault->detail,
              json_array_size(work->answer->gathered.steps) > 0
                  ? " What was computed until then is below."
                  : "");
}

void spending_begin(struct work *work)
{
    struct caller *caller = &work->answer->caller;
    int64_t max_us = work->hard_us - work->begun_us;
    struct store_spent left;
    struct fault fault;

    if (budget_left(budgets_of(work), caller, &left, &fault) < 0) {
        refuse(work, &fault);
        return;
    }
    if (left.us < max_us) {
        max_us = left.us > SECONDS_MIN ? left.us : SECONDS_MIN;
        work->hard_us = work->begun_us + max_us;
        work->soft_us = work->hard_us - max_us / 5;
    }
    work->reserved_us = max_us;
    if (budget_reserve(budgets_of(work), caller, &(struct store_spent){ .us = max_us }, &fault) <
        0) {
        work->reserved_us = 0;
        refuse(work, &fault);
    }
}

bool spending_may_ask(struct work *work)
{
    struct store_spent wanted = { .cost = llm_model_is_demo(work->model) ? 0 : 1,
                                  .tokens = tokens_estimate(work->messages) + ANSWER_TOKENS };
    struct fault fault;

    if (budget_reserve(budgets_of(work), &work->answer->caller, &wanted, &fault) < 0) {
        refuse(work, &fault);
        return false;
    }
    work->reserved_call = wanted;
    return true;
}

void spending_asked(struct work *work)
{
    budget_settle(budgets_of(work), &work->answer->caller, &work->reserved_call, NULL);
    work->reserved_call = (struct store_spent){ 0 };
}

void spending_tokens(struct work *work, int64_t tokens, double dollars)
{
    struct store_spent used = { .tokens = tokens > 0 ? tokens : 0,
                                .cost = dollars > 0 && dollars < 1e9
                                            ? (int64_t) (dollars * 1e6 + 0.5)
                                            : 0 };

    spend(work->answer, &used);
    budget_settle(budgets_of(work), &work->answer->caller, NULL, &used);
}

int spending_may_query(struct answer *answer, const json_t *estimate, struct fault *fault)
{
    struct store_spent wanted = budget_of_query(estimate);

    return budget_reserve(answer->agent->config.budgets, &answer->caller, &wanted, fault);
}

/* One that was cut off may be billed all the same, and nobody tells how much: as estimated, then.
 */
static bool is_cut_off(const json_t *record)
{
    static const char *const words[] = { "cancelled", "timeout",  "too-large",
                                         "broken",    "internal", "unreachable" };
    const char *status = json_string_value(json_object_get(record, "status"));

    for (size_t i = 0; status && i < ARRAY_LEN(words); i++)
        if (strcmp(status, words[i]) == 0)
            return true;
    return false;
}

void spending_queried(struct answer *answer, bool passed, const json_t *record)
{
    struct store_spent wanted = budget_of_query(json_object_get(record, "estimate"));
    struct store_spent used = budget_of_query(record);

    if (!passed)
        return; /* it did not run */
    if (is_cut_off(record) && used.cost < wanted.cost)
        used = wanted;
    spend(answer, &used);
    budget_settle(answer->agent->config.budgets, &answer->caller, &wanted, &used);
}

json_t *spending_end(struct work *work)
{
    struct store_spent used = { .us = clock_now_us() - work->begun_us }, left, all;
    struct store_spent reserved = { .us = work->reserved_us };
    json_t *json = NULL;
    struct fault fault;

    spend(work->answer, &used);
    budget_settle(budgets_of(work), &work->answer->caller, &reserved, &used);
    work->reserved_us = 0;
    (void) pthread_mutex_lock(&work->answer->lock);
    all = work->answer->spent;
    (void) pthread_mutex_unlock(&work->answer->lock);
    if (budgets_of(work) &&
        budget_to_json(budgets_of(work), &work->answer->caller, &json, &fault) == 0)
        (void) json_object_del(json, "used");
    else if (budget_left(NULL, &work->answer->caller, &left, &fault) == 0)
        json = json_pack("{s:o}", "left", budget_amounts(&left));
    (void) json_object_set_new(json, "used", budget_amounts(&all));
    return json;
}
