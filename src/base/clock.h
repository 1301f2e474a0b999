/* Times are microseconds in an int64_t, on the monotonic clock unless the name says "wall". */
#pragma once

#include <stdint.h>
#include <time.h>

#define USEC_PER_SEC  INT64_C(1000000)
#define USEC_PER_MSEC INT64_C(1000)

static inline int64_t clock_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * USEC_PER_SEC + ts.tv_nsec / 1000;
}

/* Since 1970, UTC; may jump. Only for values that outlive this process or are shown to people. */
static inline int64_t clock_wall_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t) ts.tv_sec * USEC_PER_SEC + ts.tv_nsec / 1000;
}
