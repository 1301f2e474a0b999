/*
 * Counts attempts per something (an account, an address) and says when there were too many.
 *
 * Each has a bucket of @burst attempts, which refills by one every @interval_us. An attempt is
 * counted before it is tried, so that many at once cannot all be tried, and given back if it turns
 * out to be no guess. The table is bounded: it has places for keyed hashes of the names, so nobody
 * can choose names that meet in one place, and where all are taken the one that is fullest again is
 * forgotten.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define THROTTLE_SETS 512
#define THROTTLE_WAYS 8
#define THROTTLE_KEY  16

struct throttle_place {
    uint64_t name;   /* its hash; 0: free */
    int64_t full_us; /* when the bucket is full again; below now: it is */
};

struct throttle {
    pthread_mutex_t lock;
    int64_t burst, interval_us;
    uint8_t key[THROTTLE_KEY];
    struct throttle_place places[THROTTLE_SETS][THROTTLE_WAYS];
};

void throttle_init(struct throttle *throttle, int64_t burst, int64_t interval_us);
void throttle_release(struct throttle *throttle);

/* Counts one attempt. 0, or if there were too many, after how many microseconds the next may be
 * made; then it is not counted. */
int64_t throttle_take(struct throttle *throttle, const char *name, int64_t now_us);

/* Gives one back. */
void throttle_give(struct throttle *throttle, const char *name, int64_t now_us);

/* Whether an attempt is counted that the bucket has not got back yet. Changes nothing. */
bool throttle_used(struct throttle *throttle, const char *name, int64_t now_us);
