/* Time as we count it: microseconds of the monotonic clock, in an int64_t. */
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
