/*
 * The broker: the results' directory, and who may run a connector now.
 *
 * A connector is a process with a connection to somebody's database, so there are few of them, and
 * one owner has only a part of them. Whoever has to wait is let in before all who have more of them
 * already, and in the order of coming among those who have as many; so the queries of one owner do
 * not keep those of all others waiting.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/thread.h"
#include "mark/broker/internal.h"

#include "base/banned.h"

#define CONNECTORS_DEFAULT  16
#define PER_OWNER_DEFAULT   4
#define OWNER_BYTES_DEFAULT (INT64_C(2) << 30)
#define LOOK_US             (200 * USEC_PER_MSEC) /* how often one that waits looks whether it still should */

int broker_open(const struct broker_config *config, struct broker **ret_broker, struct gb_err *err)
{
    struct broker *broker = calloc(1, sizeof *broker);
    struct gb_err swept = { 0 };
    int r;

    if (!broker)
        return gb_fail(err, ENOMEM, "start the query broker");
    broker->config = *config;
    if (broker->config.connectors_max <= 0)
        broker->config.connectors_max = CONNECTORS_DEFAULT;
    if (broker->config.per_owner_max <= 0)
        broker->config.per_owner_max = PER_OWNER_DEFAULT;
    if (broker->config.owner_bytes_max <= 0)
        broker->config.owner_bytes_max = OWNER_BYTES_DEFAULT;
    broker->results_fd = -EBADF;
    (void) pthread_mutex_init(&broker->lock, NULL);
    cond_init(&broker->changed);
    r = results_open(config->data_dir, &broker->results_fd, err);
    if (r < 0) {
        broker_close(broker);
        return r;
    }
    if (results_sweep(broker, &swept) < 0 && config->service)
        service_log(config->service, LOG_LEVEL_WARNING, "unused results of queries remain: %s",
                    swept.msg);
    *ret_broker = broker;
    return 0;
}

void broker_close(struct broker *broker)
{
    if (!broker)
        return;
    while (broker->holding) {
        struct holding *next = broker->holding->next;

        free(broker->holding);
        broker->holding = next;
    }
    (void) pthread_cond_destroy(&broker->changed);
    (void) pthread_mutex_destroy(&broker->lock);
    gb_closep(&broker->results_fd);
    free(broker);
}

int broker_names(struct broker *broker, const struct caller *caller, const char *const *wanted,
                 char ***ret_names, struct fault *fault)
{
    const struct broker_config *config = &broker->config;

    return config->calls.names(config->sources, caller, wanted, ret_names, fault);
}

int result_open(struct broker *broker, const uint8_t sha256[STORE_HASH_BYTES], int *ret_fd,
                struct gb_err *err)
{
    return result_open_at(broker->results_fd, sha256, ret_fd, err);
}

int results_lock(struct broker *broker, int *ret_fd, struct gb_err *err)
{
    return results_lock_at(broker->results_fd, ret_fd, err);
}

int results_remove(struct broker *broker, const uint8_t *hashes, size_t len, struct gb_err *err)
{
    return results_remove_at(broker->results_fd, broker->config.store, hashes, len, err);
}

int results_sweep(struct broker *broker, struct gb_err *err)
{
    return results_sweep_at(broker->results_fd, broker->config.store, err);
}

/* ---- shares; all with the lock ---- */

static struct holding *holding_of(struct broker *broker, const char *owner)
{
    struct holding *holding = broker->holding;

    while (holding && strcmp(holding->owner, owner) != 0)
        holding = holding->next;
    return holding;
}

static int64_t count_of(struct broker *broker, const char *owner)
{
    const struct holding *holding = holding_of(broker, owner);

    return holding ? holding->count : 0;
}

/* Who is next, or NULL if nobody can be let in. */
static const struct waiting *next_of(struct broker *broker)
{
    const struct waiting *best = NULL;
    int64_t least = broker->config.per_owner_max;

    if (broker->connectors >= broker->config.connectors_max)
        return NULL;
    for (const struct waiting *w = broker->waiting; w; w = w->next) {
        int64_t count = count_of(broker, w->owner);

        if (count < least) {
            least = count;
            best = w;
        }
    }
    return best;
}

static int take(struct broker *broker, const char *owner)
{
    struct holding *holding = holding_of(broker, owner);

    if (!holding) {
        holding = calloc(1, sizeof *holding);
        if (!holding)
            return -ENOMEM;
        (void) snprintf(holding->owner, sizeof holding->owner, "%s", owner);
        holding->next = broker->holding;
        broker->holding = holding;
    }
    holding->count++;
    broker->connectors++;
    return 0;
}

static void leave(struct broker *broker, const struct waiting *self)
{
    struct waiting **place = &broker->waiting;

    while (*place != self)
        place = &(*place)->next;
    *place = self->next;
}

bool reader_is_gone(int fd)
{
    struct pollfd poll_fd = { .fd = fd };

    return poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLERR | POLLHUP));
}

int broker_take(struct broker *broker, const char *owner, int cancel_fd, int64_t deadline_us)
{
    struct waiting self = { .owner = owner }, **last = &broker->waiting;
    int r = 0;

    (void) pthread_mutex_lock(&broker->lock);
    while (*last)
        last = &(*last)->next;
    *last = &self;
    while (r == 0 && next_of(broker) != &self) {
        int64_t until_us = clock_now_us() + LOOK_US;
        struct timespec until = { until_us / USEC_PER_SEC, until_us % USEC_PER_SEC * 1000 };

        (void) pthread_cond_timedwait(&broker->changed, &broker->lock, &until);
        if (reader_is_gone(cancel_fd))
            r = -ECANCELED;
        else if (clock_now_us() >= deadline_us)
            r = -ETIMEDOUT;
    }
    if (r == 0)
        r = take(broker, owner);
    leave(broker, &self);
    (void) pthread_cond_broadcast(&broker->changed); /* the next one may come in too */
    (void) pthread_mutex_unlock(&broker->lock);
    return r;
}

void broker_give(struct broker *broker, const char *owner)
{
    struct holding **place = &broker->holding;

    (void) pthread_mutex_lock(&broker->lock);
    while (strcmp((*place)->owner, owner) != 0)
        place = &(*place)->next;
    broker->connectors--;
    if (--(*place)->count == 0) {
        struct holding *empty = *place;

        *place = empty->next;
        free(empty);
    }
    (void) pthread_cond_broadcast(&broker->changed);
    (void) pthread_mutex_unlock(&broker->lock);
}
