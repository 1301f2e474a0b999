/*
 * What is remembered about users, so that checking an access token does not ask the store: whether
 * the user exists, the stamp, and the role.
 *
 * The store counts changes of users (store_user_generation()); it is asked for that number at most
 * once per second, and what was read before the number changed is read again when it is needed. So
 * an account that any process removes is refused within about a second, and one that this process
 * removes at once (known_changed()).
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/users.h"

#define KNOWN_PLACES 1024

struct known_user {
    char id[STORE_ID_MAX];
    bool exists, is_operator, is_guest;
    int64_t stamp, created_us;
};

struct known {
    struct store *store;
    pthread_mutex_t lock;
    int64_t generation;       /* -1: not asked yet */
    int64_t checked_us;       /* when the store was asked */
    int64_t count_generation; /* of the next */
    bool any;                 /* whether there is a user who is no guest */
    struct {
        struct known_user user;
        int64_t generation;
    } places[KNOWN_PLACES]; /* by hash of the id; a later one takes the place of an earlier */
};

void known_init(struct known *known, struct store *store);
void known_release(struct known *known);

/* Reads the user if need be; one that does not exist is no error. */
int known_get(struct known *known, const char *id, int64_t now_us, struct known_user *ret_user,
              struct gb_err *err);
/* Whether there is any user who is no guest. */
int known_any(struct known *known, int64_t now_us, bool *ret_any, struct gb_err *err);
/* The store was changed by this process: asks it the next time. */
void known_changed(struct known *known);
