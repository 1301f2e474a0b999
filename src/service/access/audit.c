/* The queue and its writer; audit_chain.c has the format of entries and reads the log. */
#include "service/access/audit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/thread.h"
#include "service/access/audit_internal.h"

#include "base/banned.h"

#define QUEUE_LEN 1024
#define BATCH_LEN 256                  /* most entries per commit */
#define GATHER_US (50 * USEC_PER_MSEC) /* how long the writer lets a batch grow */
#define RETRY_US  USEC_PER_SEC         /* after a failed commit */

struct audit {
    struct store *store;
    pthread_t writer;
    pthread_mutex_t lock; /* guards all that follows except failing */
    pthread_cond_t work;  /* for the writer */
    pthread_cond_t room;  /* for callers that wait to queue an entry */
    pthread_cond_t done;  /* for callers that wait for a commit */
    struct audit_slot *queue;
    size_t first, len;       /* the part of the ring that is filled */
    int64_t queued, written; /* entries since the start */
    int64_t attempts;        /* commits that succeeded or failed */
    unsigned flushing;       /* callers waiting in audit_flush() */
    bool closing;
    int64_t lost;
    struct gb_err failure; /* of the last commit, while it is failing */
    atomic_bool failing;

    /* the writer's own */
    struct audit_slot *batch;
    size_t batch_len;
    struct store_head head;
};

/* ---- the writer ---- */

/* Waits on @cond until it is signalled or the time has passed. */
static void wait_for(struct audit *audit, pthread_cond_t *cond, int64_t until_us)
{
    struct timespec until = { until_us / USEC_PER_SEC, until_us % USEC_PER_SEC * 1000 };

    (void) pthread_cond_timedwait(cond, &audit->lock, &until);
}

/* Waits for entries, lets more gather unless a caller waits for the commit, and takes a batch out
 * of the queue. False once the log is being closed and the queue is empty. */
static bool take_batch(struct audit *audit)
{
    int64_t until_us;

    while (audit->len == 0 && !audit->closing)
        (void) pthread_cond_wait(&audit->work, &audit->lock);
    until_us = clock_now_us() + GATHER_US;
    while (audit->len < BATCH_LEN && !audit->closing && !audit->flushing &&
           clock_now_us() < until_us)
        wait_for(audit, &audit->work, until_us);
    audit->batch_len = audit->len < BATCH_LEN ? audit->len : BATCH_LEN;
    for (size_t i = 0; i < audit->batch_len; i++)
        audit->batch[i] = audit->queue[(audit->first + i) % QUEUE_LEN];
    audit->first = (audit->first + audit->batch_len) % QUEUE_LEN;
    audit->len -= audit->batch_len;
    (void) pthread_cond_broadcast(&audit->room);
    return audit->batch_len > 0;
}

/* Chains the batch to @audit->head and appends it. */
static int append_batch(struct audit *audit, struct gb_err *err)
{
    struct store_audit *rows = calloc(audit->batch_len, sizeof *rows);
    struct store_head head = audit->head;
    int r = rows ? 0 : gb_fail(err, ENOMEM, "write the audit log");

    for (size_t i = 0; r == 0 && i < audit->batch_len; i++)
        r = audit_slot_chain(&audit->batch[i], &head, &rows[i], err);
    if (r == 0)
        r = store_audit_append(audit->store, rows, audit->batch_len, err);
    if (r == 0)
        audit->head = head;
    store_audit_free(rows, audit->batch_len);
    return r;
}

/* Another process may have written to the log in the meantime; then the head is read again. */
static int commit_batch(struct audit *audit, struct gb_err *err)
{
    int r;

    for (int i = 0; i < 3; i++) {
        r = append_batch(audit, err);
        if (r != -ESTALE)
            return r;
        r = store_audit_head(audit->store, &audit->head, err);
        if (r < 0)
            return r;
    }
    return gb_fail_plain(err, ESTALE, "other processes keep writing to the audit log");
}

static void note_attempt(struct audit *audit, int r, const struct gb_err *err)
{
    audit->attempts++;
    if (r < 0)
        audit->failure = *err;
    else
        audit->written += (int64_t) audit->batch_len;
    audit->failing = r < 0;
    (void) pthread_cond_broadcast(&audit->done);
}

/* Commits the batch however long it takes; gives up only when the log is being closed. */
static bool write_batch(struct audit *audit)
{
    struct gb_err err;

    for (;;) {
        bool last = audit->closing;
        int r;

        (void) pthread_mutex_unlock(&audit->lock);
        r = commit_batch(audit, &err);
        (void) pthread_mutex_lock(&audit->lock);
        note_attempt(audit, r, &err);
        if (r == 0)
            return true;
        if (last)
            return false;
        if (!audit->closing)
            wait_for(audit, &audit->work, clock_now_us() + RETRY_US);
    }
}

static void *writer_main(void *arg)
{
    struct audit *audit = arg;

    (void) pthread_mutex_lock(&audit->lock);
    while (take_batch(audit)) {
        bool written = write_batch(audit);

        if (!written)
            audit->lost = (int64_t) (audit->batch_len + audit->len);
        for (size_t i = 0; i < audit->batch_len; i++)
            audit_slot_release(&audit->batch[i]);
        if (!written)
            break;
    }
    (void) pthread_mutex_unlock(&audit->lock);
    return NULL;
}

/* ---- opening and closing ---- */

static void audit_free(struct audit *audit)
{
    (void) pthread_mutex_destroy(&audit->lock);
    (void) pthread_cond_destroy(&audit->work);
    (void) pthread_cond_destroy(&audit->room);
    (void) pthread_cond_destroy(&audit->done);
    for (size_t i = 0; audit->queue && i < audit->len; i++)
        audit_slot_release(&audit->queue[(audit->first + i) % QUEUE_LEN]);
    free(audit->queue);
    free(audit->batch);
    free(audit);
}

static struct audit *audit_new(struct store *store)
{
    struct audit *audit = calloc(1, sizeof *audit);

    if (!audit)
        return NULL;
    audit->store = store;
    (void) pthread_mutex_init(&audit->lock, NULL);
    cond_init(&audit->work);
    (void) pthread_cond_init(&audit->room, NULL);
    (void) pthread_cond_init(&audit->done, NULL);
    audit->queue = calloc(QUEUE_LEN, sizeof *audit->queue);
    audit->batch = calloc(BATCH_LEN, sizeof *audit->batch);
    if (audit->queue && audit->batch)
        return audit;
    audit_free(audit);
    return NULL;
}

/* Signals are handled by other threads. */
static int start_writer(struct audit *audit)
{
    sigset_t all, before;
    int r;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&audit->writer, NULL, writer_main, audit);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}

int audit_open(struct store *store, struct audit **ret_audit, struct gb_err *err)
{
    struct audit *audit;
    int r;

    if (sodium_init() < 0)
        return gb_fail_plain(err, EIO, "libsodium could not be initialised");
    audit = audit_new(store);
    if (!audit)
        return gb_fail(err, ENOMEM, "open the audit log");
    r = store_audit_head(store, &audit->head, err);
    if (r == 0) {
        r = start_writer(audit);
        if (r < 0)
            (void) gb_fail(err, -r, "start the audit log's writer thread");
    }
    if (r < 0) {
        audit_free(audit);
        return r;
    }
    *ret_audit = audit;
    return 0;
}

int audit_close(struct audit *audit, struct gb_err *err)
{
    struct gb_err failure;
    int64_t lost;

    if (!audit)
        return 0;
    (void) pthread_mutex_lock(&audit->lock);
    audit->closing = true;
    (void) pthread_cond_signal(&audit->work);
    (void) pthread_mutex_unlock(&audit->lock);
    (void) pthread_join(audit->writer, NULL);
    lost = audit->lost;
    failure = audit->failure;
    audit_free(audit);
    if (lost > 0)
        return gb_fail_plain(err, failure.code, "%lld audit log entries were lost: %.120s",
                             (long long) lost, failure.msg);
    return 0;
}

/* ---- the callers ---- */

int audit_write(struct audit *audit, const struct audit_entry *entry, struct gb_err *err)
{
    struct audit_slot slot;
    int r = audit_slot_fill(&slot, entry, err);

    if (r < 0)
        return r;
    (void) pthread_mutex_lock(&audit->lock);
    while (audit->len == QUEUE_LEN)
        (void) pthread_cond_wait(&audit->room, &audit->lock);
    audit->queue[(audit->first + audit->len) % QUEUE_LEN] = slot;
    audit->len++;
    audit->queued++;
    /* Otherwise the writer is awake already, or about to be. */
    if (audit->len == 1 || audit->len == BATCH_LEN)
        (void) pthread_cond_signal(&audit->work);
    (void) pthread_mutex_unlock(&audit->lock);
    return 0;
}

int audit_flush(struct audit *audit, struct gb_err *err)
{
    int64_t target, attempts;
    int r = 0;

    (void) pthread_mutex_lock(&audit->lock);
    target = audit->queued;
    attempts = audit->attempts;
    audit->flushing++;
    (void) pthread_cond_signal(&audit->work);
    while (audit->written < target && !(audit->failing && audit->attempts > attempts))
        (void) pthread_cond_wait(&audit->done, &audit->lock);
    if (audit->written < target) {
        r = -audit->failure.code;
        if (err)
            *err = audit->failure;
    }
    audit->flushing--;
    (void) pthread_mutex_unlock(&audit->lock);
    return r;
}

int audit_check(struct audit *audit, struct gb_err *err)
{
    int r = 0;

    if (!audit->failing)
        return 0;
    (void) pthread_mutex_lock(&audit->lock);
    if (audit->failing)
        r = gb_fail_plain(err, audit->failure.code, "cannot write to the audit log: %.150s",
                          audit->failure.msg);
    (void) pthread_mutex_unlock(&audit->lock);
    return r;
}
