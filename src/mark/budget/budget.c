#include "mark/budget/budget.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "store/sources.h"
#include "store/users.h"

#include "base/banned.h"

#define KEPT_DAYS   35 /* of what was spent */
#define DAY_SECONDS 86400
#define AMOUNT_MAX  48

/* Somebody of whom there is something in memory. */
struct owner {
    struct owner *next;
    char id[STORE_ID_MAX];
    struct store_spent reserved, unsaved, saving; /* the last one is on its way to the store */
};

struct budgets {
    struct budgets_config config;
    pthread_mutex_t lock;
    struct owner *owners;
};

/* ---- the four amounts ---- */

enum { BYTES, COST, TOKENS, SECONDS, AMOUNTS };

static const char *const amount_names[AMOUNTS] = { "bytes", "cost", "tokens", "seconds" };

static int64_t *amount_at(struct store_spent *spent, int i)
{
    int64_t *const all[AMOUNTS] = { &spent->bytes, &spent->cost, &spent->tokens, &spent->us };

    return all[i];
}

static int64_t amount_of(const struct store_spent *spent, int i)
{
    const int64_t all[AMOUNTS] = { spent->bytes, spent->cost, spent->tokens, spent->us };

    return all[i];
}

static int64_t add(int64_t a, int64_t b)
{
    return a > INT64_MAX / 4 - b ? INT64_MAX / 4 : a + b;
}

static void spent_add(struct store_spent *sum, const struct store_spent *more)
{
    for (int i = 0; i < AMOUNTS; i++)
        *amount_at(sum, i) = add(amount_of(sum, i), amount_of(more, i));
}

static void spent_take(struct store_spent *sum, const struct store_spent *less)
{
    for (int i = 0; i < AMOUNTS; i++) {
        int64_t rest = amount_of(sum, i) - amount_of(less, i);

        *amount_at(sum, i) = rest > 0 ? rest : 0;
    }
}

static bool spent_is_zero(const struct store_spent *spent)
{
    return !spent->bytes && !spent->cost && !spent->tokens && !spent->us;
}

/* For people. */
static const char *amount_text(int i, int64_t value, char buf[AMOUNT_MAX])
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB" };
    double size = (double) value;
    size_t unit = 0;

    switch (i) {
    case COST:
        (void) snprintf(buf, AMOUNT_MAX, "$%.*f", value % 10000 ? 6 : 2, (double) value / 1e6);
        break;
    case SECONDS:
        (void) snprintf(buf, AMOUNT_MAX, "%.1f s", (double) value / USEC_PER_SEC);
        break;
    case TOKENS:
        (void) snprintf(buf, AMOUNT_MAX, "%lld tokens", (long long) value);
        break;
    default:
        for (; size >= 1024 && unit + 1 < ARRAY_LEN(units); unit++)
            size /= 1024;
        (void) snprintf(buf, AMOUNT_MAX, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
    }
    return buf;
}

static json_t *amount_json(int i, int64_t value)
{
    if (value == INT64_MAX)
        return json_null();
    if (i == COST)
        return json_real((double) value / 1e6);
    if (i == SECONDS)
        return json_real((double) value / USEC_PER_SEC);
    return json_integer(value);
}

json_t *budget_amounts(const struct store_spent *amounts)
{
    json_t *json = json_object();

    for (int i = 0; i < AMOUNTS; i++)
        if (json_object_set_new(json, amount_names[i], amount_json(i, amount_of(amounts, i))) < 0) {
            json_decref(json);
            return NULL;
        }
    return json;
}

/* A number of somebody else's, as a count. */
static int64_t count_of(const json_t *number, double unit)
{
    double value = json_number_value(number) * unit;

    if (!isfinite(value) || value <= 0)
        return 0;
    return value >= 1e18 ? INT64_MAX / 8 : (int64_t) ceil(value);
}

struct store_spent budget_of_query(const json_t *json)
{
    return (struct store_spent){ .bytes = count_of(json_object_get(json, "bytes"), 1),
                                 .cost = count_of(json_object_get(json, "money"), 1e6) };
}

/* ---- days ---- */

void budget_day(int64_t wall_us, char ret_day[STORE_DAY_MAX])
{
    time_t seconds = (time_t) (wall_us / USEC_PER_SEC);
    struct tm tm;

    if (!gmtime_r(&seconds, &tm) || strftime(ret_day, STORE_DAY_MAX, "%Y-%m-%d", &tm) == 0)
        (void) snprintf(ret_day, STORE_DAY_MAX, "1970-01-01");
}

static int64_t resets_in(int64_t wall_us)
{
    return DAY_SECONDS - wall_us / USEC_PER_SEC % DAY_SECONDS;
}

/* ---- whose ---- */

/* As rows of budgets name them: an email, or "key:ID". "": nobody has its own. */
static int name_of(struct budgets *budgets, const struct caller *caller,
                   char ret_who[STORE_WHO_MAX], struct gb_err *err)
{
    const struct principal *principal = &caller->principal;
    struct store_user user;
    int r;

    ret_who[0] = '\0';
    if (principal->kind == PRINCIPAL_KEY)
        (void) snprintf(ret_who, STORE_WHO_MAX, "key:%s", principal->id);
    if (principal->kind != PRINCIPAL_USER || strncmp(principal->id, "user-", 5) != 0)
        return 0;
    r = store_user_get(budgets->config.store, principal->id + 5, &user, err);
    if (r == 0)
        (void) snprintf(ret_who, STORE_WHO_MAX, "%s", user.email);
    return r == -ENOENT ? 0 : r;
}

/* INT64_MAX: no limit. In a row of its own, 0 is none at all: nothing may be spent. */
static int limits_of(struct budgets *budgets, const struct caller *caller,
                     struct store_spent *ret_limits, struct gb_err *err)
{
    struct store_spent own = { -1, -1, -1, -1 };
    char who[STORE_WHO_MAX];
    int r = name_of(budgets, caller, who, err);

    if (r == 0 && who[0])
        r = store_budget_get(budgets->config.store, who, &own, err);
    if (r < 0 && r != -ENOENT)
        return r;
    for (int i = 0; i < AMOUNTS; i++) {
        int64_t day = amount_of(&budgets->config.day, i), mine = amount_of(&own, i);

        *amount_at(ret_limits, i) = mine >= 0 ? mine : day > 0 ? day : INT64_MAX;
        if (mine >= BUDGET_NONE)
            *amount_at(ret_limits, i) = INT64_MAX;
    }
    return 0;
}

/* With the lock held: the owner's entry, or NULL. */
static struct owner *owner_find(struct budgets *budgets, const char *id)
{
    struct owner *owner = budgets->owners;

    while (owner && strcmp(owner->id, id) != 0)
        owner = owner->next;
    return owner;
}

static struct owner *owner_make(struct budgets *budgets, const char *id)
{
    struct owner *owner = owner_find(budgets, id);

    if (owner)
        return owner;
    owner = calloc(1, sizeof *owner);
    if (!owner)
        return NULL;
    (void) snprintf(owner->id, sizeof owner->id, "%s", id);
    owner->next = budgets->owners;
    budgets->owners = owner;
    return owner;
}

static void owner_drop_if_idle(struct budgets *budgets, const char *id)
{
    struct owner **at = &budgets->owners, *owner;

    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    owner = *at;
    if (!owner || !spent_is_zero(&owner->reserved) || !spent_is_zero(&owner->unsaved) ||
        !spent_is_zero(&owner->saving))
        return;
    *at = owner->next;
    free(owner);
}

/* ---- how much ---- */

struct state {
    struct store_spent limits, used, reserved;
};

static int state_read(struct budgets *budgets, const struct caller *caller, int64_t now_us,
                      struct state *ret_state, struct fault *fault)
{
    const char *id = principal_text(&caller->principal);
    struct state state = { 0 };
    char day[STORE_DAY_MAX];
    struct owner *owner;
    struct gb_err err;
    int r = limits_of(budgets, caller, &state.limits, &err);

    (void) pthread_mutex_lock(&budgets->lock);
    owner = owner_find(budgets, id);
    if (owner) {
        state.reserved = owner->reserved;
        spent_add(&state.reserved, &owner->unsaved);
        spent_add(&state.reserved, &owner->saving);
    }
    (void) pthread_mutex_unlock(&budgets->lock);
    /* After the reservations: what is settled meanwhile counts twice rather than not at all. */
    budget_day(now_us, day);
    if (r == 0)
        r = store_spent_get(budgets->config.store, id, day, &state.used, &err);
    if (r < 0) {
        if (budgets->config.service)
            service_log(budgets->config.service, LOG_LEVEL_ERROR, "mark: budget: %s", err.msg);
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "the budget cannot be read; try later");
    }
    *ret_state = state;
    return 0;
}

/* Of member @i; INT64_MAX: no limit. */
static int64_t state_left(const struct state *state, int i)
{
    int64_t limit = amount_of(&state->limits, i);
    int64_t taken = add(amount_of(&state->used, i), amount_of(&state->reserved, i));

    if (limit == INT64_MAX)
        return INT64_MAX;
    return limit > taken ? limit - taken : 0;
}

static int refuse(const struct state *state, int i, int64_t left, int64_t wanted, int64_t now_us,
                  struct fault *fault)
{
    char limit[AMOUNT_MAX], used[AMOUNT_MAX], rest[AMOUNT_MAX], needs[AMOUNT_MAX];
    int64_t seconds = resets_in(now_us);

    (void) fault_set(
        fault, PROBLEM_BUDGET_SPENT, amount_names[i],
        "your budget of %s a day: %s are used or reserved and %s are left, and this "
        "needs about %s. It resets in %lld h %lld min, at 00:00 UTC. Ask for less, or "
        "ask the operator for more",
        amount_text(i, amount_of(&state->limits, i), limit),
        amount_text(i, add(amount_of(&state->used, i), amount_of(&state->reserved, i)), used),
        amount_text(i, left, rest), amount_text(i, wanted, needs), (long long) (seconds / 3600),
        (long long) (seconds % 3600 / 60));
    fault->retry_after_s = (int) seconds;
    return -1;
}

int budget_left(struct budgets *budgets, const struct caller *caller, struct store_spent *ret_left,
                struct fault *fault)
{
    struct state state;

    *ret_left = (struct store_spent){ INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    if (!budgets)
        return 0;
    if (state_read(budgets, caller, clock_wall_us(), &state, fault) < 0)
        return -1;
    for (int i = 0; i < AMOUNTS; i++)
        *amount_at(ret_left, i) = state_left(&state, i);
    return 0;
}

static void reservation_end(struct budgets *budgets, const char *id,
                            const struct store_spent *wanted)
{
    struct owner *owner;

    (void) pthread_mutex_lock(&budgets->lock);
    owner = owner_find(budgets, id);
    if (owner)
        spent_take(&owner->reserved, wanted);
    owner_drop_if_idle(budgets, id);
    (void) pthread_mutex_unlock(&budgets->lock);
}

int budget_reserve(struct budgets *budgets, const struct caller *caller,
                   const struct store_spent *wanted, struct fault *fault)
{
    const char *id = principal_text(&caller->principal);
    int64_t now_us = clock_wall_us();
    struct owner *owner;
    struct state state;
    int r;

    if (!budgets)
        return 0;
    (void) pthread_mutex_lock(&budgets->lock);
    owner = owner_make(budgets, id);
    if (owner)
        spent_add(&owner->reserved, wanted);
    (void) pthread_mutex_unlock(&budgets->lock);
    if (!owner)
        return fault_no_memory(fault);
    r = state_read(budgets, caller, now_us, &state, fault);
    if (r == 0)
        spent_take(&state.reserved, wanted); /* our own, which is compared apart */
    for (int i = 0; r == 0 && i < AMOUNTS; i++) {
        int64_t left = state_left(&state, i);

        if (amount_of(wanted, i) > 0 && amount_of(wanted, i) > left)
            r = refuse(&state, i, left, amount_of(wanted, i), now_us, fault);
    }
    if (r < 0)
        reservation_end(budgets, id, wanted);
    return r;
}

/* ---- spending ---- */

/* Writes what is not yet in the store; what cannot be written stays. */
static void owner_save(struct budgets *budgets, const char *id)
{
    struct store_spent more = { 0 };
    char day[STORE_DAY_MAX];
    struct owner *owner;
    struct gb_err err;
    int r;

    (void) pthread_mutex_lock(&budgets->lock);
    owner = owner_find(budgets, id);
    if (owner) {
        more = owner->unsaved;
        owner->unsaved = (struct store_spent){ 0 };
        spent_add(&owner->saving, &more);
    }
    (void) pthread_mutex_unlock(&budgets->lock);
    if (spent_is_zero(&more))
        return;
    budget_day(clock_wall_us(), day);
    r = store_spent_add(budgets->config.store, id, day, &more, &err);
    if (r < 0 && budgets->config.service)
        service_log(budgets->config.service, LOG_LEVEL_ERROR,
                    "mark: what was spent is not stored yet: %s", err.msg);
    (void) pthread_mutex_lock(&budgets->lock);
    owner = owner_find(budgets, id); /* it cannot be gone: it was saving */
    if (owner)
        spent_take(&owner->saving, &more);
    if (owner && r < 0)
        spent_add(&owner->unsaved, &more);
    owner_drop_if_idle(budgets, id);
    (void) pthread_mutex_unlock(&budgets->lock);
}

void budget_settle(struct budgets *budgets, const struct caller *caller,
                   const struct store_spent *wanted, const struct store_spent *used)
{
    const char *id = principal_text(&caller->principal);
    struct owner *owner;

    if (!budgets)
        return;
    (void) pthread_mutex_lock(&budgets->lock);
    owner = owner_make(budgets, id);
    if (owner && used)
        spent_add(&owner->unsaved, used);
    if (owner && wanted)
        spent_take(&owner->reserved, wanted);
    (void) pthread_mutex_unlock(&budgets->lock);
    if (used)
        owner_save(budgets, id);
    (void) pthread_mutex_lock(&budgets->lock);
    owner_drop_if_idle(budgets, id);
    (void) pthread_mutex_unlock(&budgets->lock);
}

/* ---- showing it ---- */

int budget_to_json(struct budgets *budgets, const struct caller *caller, json_t **ret_json,
                   struct fault *fault)
{
    int64_t now_us = clock_wall_us();
    struct store_spent left;
    char day[STORE_DAY_MAX];
    struct state state;
    json_t *json;

    if (state_read(budgets, caller, now_us, &state, fault) < 0)
        return -1;
    for (int i = 0; i < AMOUNTS; i++)
        *amount_at(&left, i) = state_left(&state, i);
    budget_day(now_us, day);
    json = json_pack("{s:s, s:I, s:o, s:o, s:o}", "day", day, "resets_in",
                     (json_int_t) resets_in(now_us), "limits", budget_amounts(&state.limits),
                     "used", budget_amounts(&state.used), "left", budget_amounts(&left));
    if (!json)
        return fault_no_memory(fault);
    *ret_json = json;
    return 0;
}

/* ---- opening and closing ---- */

int budgets_open(const struct budgets_config *config, struct budgets **ret_budgets,
                 struct gb_err *err)
{
    struct budgets *budgets = calloc(1, sizeof *budgets);
    char day[STORE_DAY_MAX];
    int r;

    if (!budgets)
        return gb_fail(err, ENOMEM, "open the budgets");
    budgets->config = *config;
    (void) pthread_mutex_init(&budgets->lock, NULL); /* cannot fail with defaults */
    budget_day(clock_wall_us() - KEPT_DAYS * DAY_SECONDS * USEC_PER_SEC, day);
    r = store_spent_prune(config->store, day, err);
    if (r < 0) {
        budgets_close(budgets);
        return r;
    }
    *ret_budgets = budgets;
    return 0;
}

void budgets_close(struct budgets *budgets)
{
    if (!budgets)
        return;
    while (budgets->owners) {
        char id[STORE_ID_MAX];

        memcpy(id, budgets->owners->id, sizeof id);
        owner_save(budgets, id);
        if (budgets->owners && strcmp(budgets->owners->id, id) == 0) {
            struct owner *owner = budgets->owners; /* what cannot be saved now is lost */

            budgets->owners = owner->next;
            free(owner);
        }
    }
    (void) pthread_mutex_destroy(&budgets->lock);
    free(budgets);
}

/* ---- for operators ---- */

static int fail_budget(struct budgets *budgets, const struct gb_err *err, struct fault *fault)
{
    if (budgets->config.service)
        service_log(budgets->config.service, LOG_LEVEL_ERROR, "mark: budget: %s", err->msg);
    return fault_set(fault, PROBLEM_INTERNAL, NULL, "budgets cannot be read or set; try later");
}

int budget_own(struct budgets *budgets, const struct caller *caller, json_t **ret_json,
               struct fault *fault)
{
    struct store_spent own = { -1, -1, -1, -1 }, shown;
    char who[STORE_WHO_MAX];
    struct gb_err err = { 0 };
    int r = name_of(budgets, caller, who, &err);
    json_t *json;

    if (r == 0 && who[0])
        r = store_budget_get(budgets->config.store, who, &own, &err);
    if (r < 0 && r != -ENOENT)
        return fail_budget(budgets, &err, fault);
    for (int i = 0; i < AMOUNTS; i++) {
        int64_t mine = amount_of(&own, i);

        *amount_at(&shown, i) = mine < 0 || mine >= BUDGET_NONE ? INT64_MAX : mine;
    }
    json = budget_amounts(&shown);
    for (int i = 0; json && i < AMOUNTS; i++)
        if (amount_of(&own, i) >= BUDGET_NONE)
            (void) json_object_set_new(json, amount_names[i], json_integer(-1));
    if (!json)
        return fault_no_memory(fault);
    *ret_json = json;
    return 0;
}

int budget_set(struct budgets *budgets, const struct caller *caller, const struct store_spent *own,
               struct fault *fault)
{
    bool none = own->bytes < 0 && own->cost < 0 && own->tokens < 0 && own->us < 0;
    struct store *store = budgets->config.store;
    char who[STORE_WHO_MAX];
    struct gb_err err = { 0 };
    int r = name_of(budgets, caller, who, &err);

    if (r == 0 && !who[0])
        return fault_set(fault, PROBLEM_USER_UNKNOWN, NULL, "only accounts and keys have budgets");
    if (r == 0)
        r = none ? store_budget_delete(store, who, &err) : store_budget_set(store, who, own, &err);
    if (r == -ENOENT && none)
        return 0;
    return r < 0 ? fail_budget(budgets, &err, fault) : 0;
}

static int append_amounts(json_t *list, const char *name, const char *value,
                          const struct store_spent *spent)
{
    json_t *json = budget_amounts(spent);

    if (json && json_object_set_new(json, name, json_string(value)) < 0) {
        json_decref(json);
        json = NULL;
    }
    return json_array_append_new(list, json);
}

int budget_overview(struct budgets *budgets, int days, size_t max, json_t **ret_json,
                    struct fault *fault)
{
    int64_t now_us = clock_wall_us();
    autofree struct store_spent_row *rows = NULL, *sums = NULL;
    json_t *by_day = json_array(), *owners = json_array();
    char since[STORE_DAY_MAX], today[STORE_DAY_MAX];
    struct store *store = budgets->config.store;
    struct gb_err err = { 0 };
    size_t len = 0, sums_len = 0;
    int r;

    budget_day(now_us, today);
    budget_day(now_us - (int64_t) (days - 1) * DAY_SECONDS * USEC_PER_SEC, since);
    r = store_spent_list(store, today, max + 1, &rows, &len, &err);
    if (r == 0)
        r = store_spent_days(store, since, (size_t) days + 1, &sums, &sums_len, &err);
    if (r < 0) {
        json_decref(by_day);
        json_decref(owners);
        return fail_budget(budgets, &err, fault);
    }
    for (size_t i = 0; r == 0 && i < len && i < max; i++)
        r = append_amounts(owners, "owner", rows[i].owner, &rows[i].spent);
    for (size_t i = 0; r == 0 && i < sums_len; i++)
        r = append_amounts(by_day, "day", sums[i].day, &sums[i].spent);
    *ret_json = json_pack("{s:s,s:o,s:o,s:b}", "today", today, "days", by_day, "owners", owners,
                          "more", len > max);
    if (r == 0 && *ret_json)
        return 0;
    json_decref(*ret_json);
    return fault_no_memory(fault);
}
