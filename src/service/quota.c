#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/service_internal.h"

#include "base/banned.h"

#define TOKEN         1000 /* one execution, in thousandths */
#define BURST_MIN     10
#define MINUTE_US     (60 * USEC_PER_SEC)
#define RATE_MAX      INT64_C(1000000000) /* more than any caller could use: no limit */
#define FULL_AFTER_US (10 * MINUTE_US)    /* more than any burst takes */

static int64_t pick(int64_t of_key, int64_t configured)
{
    return of_key < 0 ? configured : of_key;
}

static struct account *account_get(struct service *service, const struct principal *principal)
{
    struct id_node *node = id_table_find(&service->accounts, principal_record(principal));
    struct account *account;

    if (node)
        return ID_NODE_OF(node, struct account, node);
    account = calloc(1, sizeof *account);
    if (!account)
        return NULL;
    account->principal = *principal;
    /* full; cut to the burst when it is looked at */
    account->work = account->installs =
        (struct bucket){ .tokens_milli = INT64_MAX, .filled_us = service_now(service) };
    id_table_add(&service->accounts, &account->node, principal_record(&account->principal));
    return account;
}

/* Only the time that became tokens is used up: rounding must not starve a caller that asks often.
 */
static void bucket_fill(struct bucket *bucket, int64_t now, int64_t rate, int64_t burst)
{
    int64_t elapsed = now - bucket->filled_us, gained;

    if (elapsed > FULL_AFTER_US || bucket->tokens_milli >= burst) {
        bucket->tokens_milli = burst;
        bucket->filled_us = now;
        return;
    }
    gained = elapsed * rate / (MINUTE_US / TOKEN);
    bucket->filled_us += gained * (MINUTE_US / TOKEN) / rate;
    bucket->tokens_milli += gained;
    if (bucket->tokens_milli > burst)
        bucket->tokens_milli = burst;
}

/* A token bucket that fills evenly. The burst is a tenth of the rate per minute, at least a few,
 * but never more than the whole rate. */
static int rate_take(struct service *service, struct bucket *bucket, int64_t rate, const char *what,
                     struct fault *fault)
{
    int64_t wait_us, burst;

    if (rate >= RATE_MAX)
        return 0;
    if (rate == 0)
        return fault_set(fault, PROBLEM_RATE_LIMIT, NULL,
                         "this key may not %s anything; ask the operator for a higher rate", what);
    burst = rate / 10 > BURST_MIN ? rate / 10 : BURST_MIN;
    bucket_fill(bucket, service_now(service), rate, (burst < rate ? burst : rate) * TOKEN);
    if (bucket->tokens_milli < TOKEN) {
        wait_us = (TOKEN - bucket->tokens_milli) * (MINUTE_US / TOKEN) / rate;
        (void) fault_set(fault, PROBLEM_RATE_LIMIT, NULL,
                         "this key may %s at most %lld per minute; retry later", what,
                         (long long) rate);
        fault->retry_after_s = (int) (wait_us / USEC_PER_SEC) + 1;
        return -1;
    }
    bucket->tokens_milli -= TOKEN;
    return 0;
}

static int account_take(struct service *service, const struct caller *caller, bool session,
                        struct account **ret_account, struct fault *fault)
{
    const struct key_limits *mine = &caller->limits, *common = &service->config.key;
    struct account *account = account_get(service, &caller->principal);
    int64_t *count, most;

    if (!account)
        return fault_no_memory(fault);
    count = session ? &account->sessions : &account->in_flight;
    if (!principal_is_local(&caller->principal)) {
        most = session ? pick(mine->sessions, common->sessions)
                       : pick(mine->in_flight, common->in_flight);
        if (*count >= most) {
            (void) fault_set(fault, session ? PROBLEM_KEY_SESSIONS : PROBLEM_KEY_EXECUTIONS, NULL,
                             "this key already has %lld %s, its maximum; %s", (long long) *count,
                             session ? "sessions" : "executions in progress",
                             session ? "delete one first" : "wait for one to finish");
            fault->retry_after_s = session ? 60 : 1;
            return -1;
        }
        if (rate_take(service, &account->work, pick(mine->rate_per_minute, common->rate_per_minute),
                      "start", fault) < 0)
            return -1;
    }
    (*count)++;
    account->refs++;
    *ret_account = account;
    return 0;
}

int account_take_session(struct service *service, const struct caller *caller,
                         struct account **ret_account, struct fault *fault)
{
    return account_take(service, caller, true, ret_account, fault);
}

int account_take_execution(struct service *service, const struct caller *caller,
                           struct account **ret_account, struct fault *fault)
{
    return account_take(service, caller, false, ret_account, fault);
}

int account_take_install(struct service *service, const struct caller *caller, struct fault *fault)
{
    struct account *account;
    int r = 0;

    if (principal_is_local(&caller->principal))
        return 0;
    pthread_mutex_lock(&service->lock);
    account = account_get(service, &caller->principal);
    if (!account)
        r = fault_no_memory(fault);
    else
        r = rate_take(service, &account->installs, service->config.packages.rate_per_minute,
                      "install", fault);
    pthread_mutex_unlock(&service->lock);
    return r;
}

int account_take_terminal(struct service *service, const struct caller *caller,
                          struct account *account, struct fault *fault)
{
    const struct service_config *config = &service->config;
    int r = 0;

    pthread_mutex_lock(&service->lock);
    if (service->draining) {
        r = fault_set(fault, PROBLEM_DRAINING, NULL, "the service is shutting down; retry later");
        fault->retry_after_s = 5;
    } else if (account->terminals >= config->terminals_per_caller ||
               service->terminals >= config->terminals_max) {
        r = fault_set(fault, PROBLEM_TERMINALS_MAX, NULL,
                      "%s %lld terminals are open, the maximum; close one first",
                      account->terminals >= config->terminals_per_caller ? "your" : "all",
                      (long long) (account->terminals >= config->terminals_per_caller
                                       ? account->terminals
                                       : service->terminals));
        fault->retry_after_s = 30;
    } else if (!principal_is_local(&caller->principal)) {
        r = rate_take(service, &account->work,
                      pick(caller->limits.rate_per_minute, config->key.rate_per_minute), "start",
                      fault);
    }
    if (r == 0) {
        account->terminals++;
        service->terminals++;
    }
    pthread_mutex_unlock(&service->lock);
    return r;
}

void account_give_terminal(struct service *service, struct account *account)
{
    pthread_mutex_lock(&service->lock);
    account->terminals--;
    service->terminals--;
    pthread_mutex_unlock(&service->lock);
}

void account_give_session(struct account *account)
{
    account->sessions--;
    account->refs--;
}

void account_give_execution(struct account *account)
{
    account->in_flight--;
    account->refs--;
}

void account_sweep(struct service *service)
{
    int64_t now = service_now(service);

    for (size_t i = 0; i < ID_TABLE_CHAINS; i++) {
        struct id_node *node = service->accounts.chains[i], *next;

        for (; node; node = next) {
            struct account *account = ID_NODE_OF(node, struct account, node);

            next = node->next;
            /* By then the bucket is full again, and dropping it loses nothing. */
            if (account->refs > 0 || now - account->work.filled_us <= FULL_AFTER_US ||
                now - account->installs.filled_us <= FULL_AFTER_US)
                continue;
            id_table_remove(&service->accounts, node);
            free(account);
        }
    }
}
