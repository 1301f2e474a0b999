#include "mark/guests.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/thread.h"
#include "mark/mark.h"

#include "base/banned.h"

#define EVERY_S 60

struct guests {
    struct mark *mark;
    pthread_t thread;
    pthread_mutex_t lock; /* guards stop */
    pthread_cond_t wake;
    bool stop;
};

static bool is_stopping(struct guests *guests)
{
    bool stop;

    (void) pthread_mutex_lock(&guests->lock);
    stop = guests->stop;
    (void) pthread_mutex_unlock(&guests->lock);
    return stop;
}

/* One that cannot be removed is tried again the next time; nobody can sign in as it meanwhile. */
static void remove_some(struct guests *guests)
{
    autofree char(*ids)[STORE_ID_MAX] = NULL;
    struct service *service = mark_service(guests->mark);
    struct fault fault = { 0 };
    size_t len = 0;

    if (auth_guests_over(mark_auth(guests->mark), &ids, &len, &fault) < 0)
        service_log(service, LOG_LEVEL_WARNING, "guests cannot be listed: %s", fault.detail);
    for (size_t i = 0; i < len && !is_stopping(guests); i++) {
        fault = (struct fault){ 0 };
        if (mark_delete_user(guests->mark, ids[i], &fault) < 0)
            service_log(service, LOG_LEVEL_WARNING, "a guest cannot be removed: %s", fault.detail);
    }
}

static void *guests_main(void *arg)
{
    struct guests *guests = arg;
    struct timespec until;

    while (!is_stopping(guests)) {
        remove_some(guests);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += EVERY_S;
        (void) pthread_mutex_lock(&guests->lock);
        while (!guests->stop &&
               pthread_cond_timedwait(&guests->wake, &guests->lock, &until) != ETIMEDOUT)
            ;
        (void) pthread_mutex_unlock(&guests->lock);
    }
    return NULL;
}

int guests_open(struct mark *mark, struct guests **ret_guests, struct gb_err *err)
{
    struct guests *guests = calloc(1, sizeof *guests);
    int r;

    if (!guests)
        return gb_fail(err, ENOMEM, "start Mark");
    guests->mark = mark;
    (void) pthread_mutex_init(&guests->lock, NULL);
    cond_init(&guests->wake);
    r = pthread_create(&guests->thread, NULL, guests_main, guests);
    if (r != 0) {
        (void) pthread_cond_destroy(&guests->wake);
        (void) pthread_mutex_destroy(&guests->lock);
        free(guests);
        return gb_fail(err, r, "start a thread");
    }
    *ret_guests = guests;
    return 0;
}

void guests_close(struct guests *guests)
{
    if (!guests)
        return;
    (void) pthread_mutex_lock(&guests->lock);
    guests->stop = true;
    (void) pthread_cond_signal(&guests->wake);
    (void) pthread_mutex_unlock(&guests->lock);
    (void) pthread_join(guests->thread, NULL);
    (void) pthread_cond_destroy(&guests->wake);
    (void) pthread_mutex_destroy(&guests->lock);
    free(guests);
}
