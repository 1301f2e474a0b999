/* `glovebox user budget ADDRESS [NAME=VALUE...|reset]`: what one person may spend in a day. */
#include "cli/user_budget.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/parse.h"
#include "cli/cmd.h"
#include "mark/auth/auth.h"
#include "mark/budget/budget.h"
#include "service/access/keys.h"

#include "base/banned.h"

#define DEFAULT   INT64_C(-1)
#define THOUSANDS 1000 /* of a dollar, to millionths */
#define CENT      (INT64_C(10) * THOUSANDS)

#define AMOUNT_TEXT_MAX 32

struct part {
    const char *name, *example;
    int (*parse)(const char *text, int64_t *ret_value);
    int64_t unit;
    size_t offset;
};

static const struct part parts[] = {
    { "bytes", "10g", parse_size, 1, offsetof(struct store_spent, bytes) },
    { "cost", "2.50", parse_cpus, THOUSANDS, offsetof(struct store_spent, cost) },
    { "tokens", "200000", parse_int, 1, offsetof(struct store_spent, tokens) },
    { "seconds", "1800", parse_seconds, 1, offsetof(struct store_spent, us) },
};

static int64_t *member(struct store_spent *spent, const struct part *part)
{
    return (int64_t *) (void *) ((char *) spent + part->offset);
}

static int take_word(const char *word, struct store_spent *budget, struct gb_err *err)
{
    const char *value = strchr(word, '=');
    char quoted[FORMAT_QUOTED_MAX];
    int64_t amount;

    for (size_t i = 0; value && i < ARRAY_LEN(parts); i++) {
        const struct part *part = &parts[i];

        if (strlen(part->name) != (size_t) (value - word) ||
            strncmp(word, part->name, strlen(part->name)) != 0)
            continue;
        value++;
        if (strcmp(value, "default") == 0)
            amount = DEFAULT;
        else if (strcmp(value, "none") == 0)
            amount = BUDGET_NONE;
        else if (part->parse(value, &amount) < 0 || amount < 0 ||
                 amount >= BUDGET_NONE / part->unit)
            return gb_fail_plain(err, EINVAL,
                                 "%s must be an amount such as %s, none for no limit, or default",
                                 part->name, part->example);
        else
            amount *= part->unit;
        *member(budget, part) = amount;
        return 0;
    }
    format_quoted(word, quoted);
    return gb_fail_plain(err, EINVAL,
                         "%s is none of bytes=SIZE, cost=DOLLARS, tokens=N, seconds=S and reset",
                         quoted);
}

static int find_key(struct store *store, const char *id, struct gb_err *err)
{
    struct store_key *keys = NULL;
    size_t len = 0;
    bool found = false;
    int r = keys_list(store, &keys, &len, err);

    for (size_t i = 0; r == 0 && i < len; i++)
        found = found || strcmp(keys[i].id, id) == 0;
    free(keys);
    if (r == 0 && !found)
        r = gb_fail_plain(err, ENOENT, "there is no key %.100s; 'glovebox key list' shows them",
                          id);
    return r;
}

/* The owner of what was spent: "user-" and the id of the account, or the id of the key. */
static int find_owner(struct store *store, struct auth *auth, const char *who,
                      char ret_owner[STORE_ID_MAX], struct gb_err *err)
{
    struct fault fault = { 0 };
    json_t *list = NULL, *user;
    size_t i;
    int r = -ENOENT;

    if (strncmp(who, "key:", 4) == 0) {
        (void) snprintf(ret_owner, STORE_ID_MAX, "%s", who + 4);
        return find_key(store, who + 4, err);
    }
    if (auth_list(auth, &list, &fault) < 0)
        return gb_fail_plain(err, EIO, "%.190s", fault.detail);
    json_array_foreach (list, i, user)
        if (strcmp(json_string_value(json_object_get(user, "email")), who) == 0) {
            (void) snprintf(ret_owner, STORE_ID_MAX, "user-%s",
                            json_string_value(json_object_get(user, "user_id")));
            r = 0;
        }
    json_decref(list);
    return r < 0 ? gb_fail_plain(err, ENOENT, "there is no account %.100s", who) : 0;
}

static json_t *amount_json(const struct part *part, int64_t value)
{
    if (value == DEFAULT)
        return json_string("default");
    if (value >= BUDGET_NONE)
        return json_string("none");
    if (part->parse == parse_cpus || part->parse == parse_seconds)
        return json_real((double) value / 1e6);
    return json_integer(value);
}

static void amount_text(const struct part *part, int64_t value, char ret_text[AMOUNT_TEXT_MAX])
{
    double amount = (double) value / 1e6;

    if (value == DEFAULT)
        (void) snprintf(ret_text, AMOUNT_TEXT_MAX, "default");
    else if (value >= BUDGET_NONE)
        (void) snprintf(ret_text, AMOUNT_TEXT_MAX, "none");
    else if (part->parse == parse_cpus) /* a query may cost less than a cent */
        (void) snprintf(ret_text, AMOUNT_TEXT_MAX, "%.*f", value % CENT == 0 ? 2 : 4, amount);
    else if (part->parse == parse_seconds)
        (void) snprintf(ret_text, AMOUNT_TEXT_MAX, "%.1f", amount);
    else
        (void) snprintf(ret_text, AMOUNT_TEXT_MAX, "%" PRId64, value);
}

static json_t *amounts_json(struct store_spent *spent)
{
    json_t *json = json_object();

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        (void) json_object_set_new(json, parts[i].name,
                                   amount_json(&parts[i], *member(spent, &parts[i])));
    return json;
}

static int show(const struct config *cfg, const char *who, struct store_spent *budget,
                struct store_spent *used, struct gb_err *err)
{
    char limit[AMOUNT_TEXT_MAX], now[AMOUNT_TEXT_MAX];

    if (cfg->json)
        return cmd_print_json(json_pack("{s:s, s:o, s:o}", "who", who, "limits",
                                        amounts_json(budget), "used", amounts_json(used)),
                              err);
    printf("%-8s  %16s  %16s\n", "", "A DAY", "USED TODAY");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        amount_text(&parts[i], *member(budget, &parts[i]), limit);
        amount_text(&parts[i], *member(used, &parts[i]), now);
        printf("%-8s  %16s  %16s\n", parts[i].name, limit, now);
    }
    return fflush(stdout) != 0 ? gb_fail(err, EIO, "print the budget") : 0;
}

int user_budget(const struct config *cfg, struct store *store, struct auth *auth,
                struct gb_err *err)
{
    struct store_spent budget = { DEFAULT, DEFAULT, DEFAULT, DEFAULT }, used;
    const char *who = cfg->args[0];
    char owner[STORE_ID_MAX], day[STORE_DAY_MAX];
    int r = find_owner(store, auth, who, owner, err);

    if (r < 0)
        return r;
    r = store_budget_get(store, who, &budget, err);
    r = r == -ENOENT ? 0 : r; /* nothing of its own so far */
    if (r == 0 && cfg->args_len == 2 && strcmp(cfg->args[1], "reset") == 0) {
        budget = (struct store_spent){ DEFAULT, DEFAULT, DEFAULT, DEFAULT };
        r = store_budget_delete(store, who, err);
        r = r == -ENOENT ? 0 : r;
    } else {
        for (int i = 1; r == 0 && i < cfg->args_len; i++)
            r = take_word(cfg->args[i], &budget, err);
        if (r == 0 && cfg->args_len > 1)
            r = store_budget_set(store, who, &budget, err);
    }
    if (r < 0)
        return r;
    budget_day(clock_wall_us(), day);
    r = store_spent_get(store, owner, day, &used, err);
    return r < 0 ? r : show(cfg, who, &budget, &used, err);
}
