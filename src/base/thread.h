/* Helpers for pthreads. */
#pragma once

#include <pthread.h>
#include <time.h>

/* A condition whose timed waits use the monotonic clock (base/clock.h), so that setting the wall
 * clock neither shortens nor prolongs a wait. */
static inline void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    /* None of these can fail with the attributes that Linux has. */
    (void) pthread_condattr_init(&attr);
    (void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void) pthread_cond_init(cond, &attr);
    (void) pthread_condattr_destroy(&attr);
}
