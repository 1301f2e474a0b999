#include "mark/auth/throttle.h"

#include <sodium.h>
#include <string.h>

#include "base/banned.h"

_Static_assert(THROTTLE_KEY == crypto_shorthash_KEYBYTES, "a key of the hash");

void throttle_init(struct throttle *throttle, int64_t burst, int64_t interval_us)
{
    *throttle = (struct throttle){ .burst = burst, .interval_us = interval_us };
    (void) pthread_mutex_init(&throttle->lock, NULL); /* cannot fail with defaults */
    randombytes_buf(throttle->key, sizeof throttle->key);
}

void throttle_release(struct throttle *throttle)
{
    (void) pthread_mutex_destroy(&throttle->lock);
}

static uint64_t number_of(const struct throttle *throttle, const char *name)
{
    uint8_t hash[crypto_shorthash_BYTES];
    uint64_t number;

    (void) crypto_shorthash(hash, (const unsigned char *) name, strlen(name), throttle->key);
    memcpy(&number, hash, sizeof number);
    return number + (number == 0);
}

static struct throttle_place *find(struct throttle *throttle, uint64_t number)
{
    struct throttle_place *set = throttle->places[number % THROTTLE_SETS];

    for (size_t i = 0; i < THROTTLE_WAYS; i++)
        if (set[i].name == number)
            return &set[i];
    return NULL;
}

/* The place of @name, or one for it: a free one, or the one that is forgotten. */
static struct throttle_place *place_of(struct throttle *throttle, const char *name, int64_t now_us)
{
    uint64_t number = number_of(throttle, name);
    struct throttle_place *set = throttle->places[number % THROTTLE_SETS];
    struct throttle_place *place = find(throttle, number);
    int64_t latest_us = now_us + throttle->burst * throttle->interval_us;

    if (place) {
        /* A clock that was set back must not keep somebody out for long. */
        if (place->full_us > latest_us)
            place->full_us = latest_us;
        return place;
    }
    place = &set[0];
    for (size_t i = 1; i < THROTTLE_WAYS; i++)
        if (set[i].full_us < place->full_us)
            place = &set[i];
    *place = (struct throttle_place){ .name = number, .full_us = now_us };
    return place;
}

int64_t throttle_take(struct throttle *throttle, const char *name, int64_t now_us)
{
    struct throttle_place *place;
    int64_t after_us, wait_us;

    (void) pthread_mutex_lock(&throttle->lock);
    place = place_of(throttle, name, now_us);
    after_us = (place->full_us > now_us ? place->full_us : now_us) + throttle->interval_us;
    wait_us = after_us - now_us - throttle->burst * throttle->interval_us;
    if (wait_us <= 0)
        place->full_us = after_us;
    (void) pthread_mutex_unlock(&throttle->lock);
    return wait_us > 0 ? wait_us : 0;
}

void throttle_give(struct throttle *throttle, const char *name, int64_t now_us)
{
    struct throttle_place *place;

    (void) pthread_mutex_lock(&throttle->lock);
    place = place_of(throttle, name, now_us);
    place->full_us -= throttle->interval_us;
    (void) pthread_mutex_unlock(&throttle->lock);
}

bool throttle_used(struct throttle *throttle, const char *name, int64_t now_us)
{
    const struct throttle_place *place;
    bool used;

    (void) pthread_mutex_lock(&throttle->lock);
    place = find(throttle, number_of(throttle, name));
    used = place && place->full_us > now_us;
    (void) pthread_mutex_unlock(&throttle->lock);
    return used;
}
