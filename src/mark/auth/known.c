#include "mark/auth/known.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#include "base/banned.h"

#define CHECK_US USEC_PER_SEC

void known_init(struct known *known, struct store *store)
{
    known->store = store;
    (void) pthread_mutex_init(&known->lock, NULL); /* cannot fail with defaults */
    known->generation = known->count_generation = -1;
    known->checked_us = INT64_MIN;
}

void known_release(struct known *known)
{
    (void) pthread_mutex_destroy(&known->lock);
}

void known_changed(struct known *known)
{
    (void) pthread_mutex_lock(&known->lock);
    known->checked_us = INT64_MIN;
    (void) pthread_mutex_unlock(&known->lock);
}

/* Under the lock, over one short read: whoever waits needs the answer too. The clock may go back.
 */
static int check(struct known *known, int64_t now_us, struct gb_err *err)
{
    int64_t generation;
    int r;

    if (known->checked_us != INT64_MIN && now_us >= known->checked_us &&
        now_us - known->checked_us < CHECK_US)
        return 0;
    r = store_user_generation(known->store, &generation, err);
    if (r < 0)
        return r;
    known->generation = generation;
    known->checked_us = now_us;
    return 0;
}

/* FNV-1a: the ids are ours, and nobody can choose one. */
static size_t place_of(const char *id)
{
    uint32_t hash = 2166136261u;

    for (; *id; id++)
        hash = (hash ^ (unsigned char) *id) * 16777619u;
    return hash % KNOWN_PLACES;
}

static int read_user(struct known *known, const char *id, struct known_user *ret_user,
                     struct gb_err *err)
{
    struct store_user user;
    int r = store_user_get(known->store, id, &user, err);

    if (r < 0 && r != -ENOENT)
        return r;
    *ret_user = (struct known_user){ .exists = r == 0 };
    (void) snprintf(ret_user->id, sizeof ret_user->id, "%s", id);
    if (r == 0) {
        ret_user->is_operator = user.is_operator;
        ret_user->is_guest = store_user_is_guest(&user);
        ret_user->created_us = user.created_us;
        ret_user->stamp = user.valid_from_us;
    }
    return 0;
}

/* The generation is read first: a change in between is noticed the next time. */
int known_get(struct known *known, const char *id, int64_t now_us, struct known_user *ret_user,
              struct gb_err *err)
{
    size_t place = place_of(id);
    int r;

    (void) pthread_mutex_lock(&known->lock);
    r = check(known, now_us, err);
    if (r == 0 && (known->places[place].generation != known->generation ||
                   strcmp(known->places[place].user.id, id) != 0)) {
        r = read_user(known, id, &known->places[place].user, err);
        known->places[place].generation = r == 0 ? known->generation : -1;
    }
    if (r == 0)
        *ret_user = known->places[place].user;
    (void) pthread_mutex_unlock(&known->lock);
    return r;
}

int known_any(struct known *known, int64_t now_us, bool *ret_any, struct gb_err *err)
{
    int64_t count;
    int r;

    (void) pthread_mutex_lock(&known->lock);
    r = check(known, now_us, err);
    if (r == 0 && known->count_generation != known->generation) {
        r = store_user_count(known->store, &count, err);
        if (r == 0) {
            known->any = count > 0;
            known->count_generation = known->generation;
        }
    }
    if (r == 0)
        *ret_any = known->any;
    (void) pthread_mutex_unlock(&known->lock);
    return r;
}
