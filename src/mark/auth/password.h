/*
 * Passwords: which are good enough, and their hashes.
 *
 * The hash is argon2id with 64 MiB and 3 passes, the second choice of RFC 9106 and well above what
 * OWASP asks for. The first one (2 GiB) and libsodium's "moderate" (256 MiB) would let a handful of
 * people who sign in take the memory that boxes need. As hashing is what makes signing in
 * expensive, only a few hash at one time, some more wait, and the rest is refused.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/service.h"
#include "store/users.h"

#define PASSWORD_MIN     8
#define PASSWORD_LEN_MAX 1024 /* bytes */

struct hasher {
    int64_t memory_bytes, passes;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    int running, waiting;            /* under the lock */
    char nobody[STORE_PASSWORD_MAX]; /* a hash that no password has */
};

/* 0: the defaults. */
void hasher_init(struct hasher *hasher, int64_t memory_bytes, int64_t passes);
void hasher_release(struct hasher *hasher);

/* All of these wait for their turn, and may be refused (503). */
int hasher_make(struct hasher *hasher, const char *password, char ret_hash[STORE_PASSWORD_MAX],
                struct fault *fault);
/* Whether @password is the one of @hash; NULL: of nobody, which takes as long. If it is, and @hash
 * was made with other parameters, *@ret_again is a new one; else it is empty. */
int hasher_check(struct hasher *hasher, const char *password, const char *hash, bool *ret_right,
                 char ret_again[STORE_PASSWORD_MAX], struct fault *fault);

/* Fills @fault with what to change. @email is normalised. */
int password_check(const char *password, const char *email, struct fault *fault);

/* In lower case; -1 with a fault for what is no address. Only ASCII: two addresses that look the
 * same must be the same. */
int email_normalise(const char *email, char ret_email[STORE_EMAIL_MAX], struct fault *fault);
