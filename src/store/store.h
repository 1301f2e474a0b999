/*
 * The store: data that outlives the service. Each subject has its own header and file: API keys
 * (keys.h), records of sessions (sessions.h), the audit log (audit.h).
 *
 * All calls may come from any thread, and several processes may have one store open. A call that
 * writes is one transaction: it happens completely or not at all. None belongs on the path of an
 * execution: callers keep in memory what they need often.
 *
 * Times are microseconds of the wall clock since 1970, UTC; 0 is "never". Ids and names are
 * NUL-terminated. A value that is too long or malformed is refused with -EINVAL, never cut.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define STORE_ID_MAX     65 /* of an id, with its NUL: [A-Za-z0-9._-], not empty */
#define STORE_HASH_BYTES 32

struct store;

struct store_config {
    const char *dir; /* the data directory, created if it does not exist (0700) */
    /* postgresql://...: the store is in that database, and the directory has only files; whoever is
     * not exclusive does not need the directory then. NULL: it is a file in the directory. */
    const char *database;
    const char *database_password_file; /* or NULL */
    bool must_exist;                    /* -ENOENT instead of creating anything */
    bool exclusive;                     /* for the service: one process at a time, else -EBUSY */
};

/* Refuses files that others own or can write to, and a store of a newer version
 * (-EPROTONOSUPPORT). */
int store_open(const struct store_config *config, struct store **ret_store, struct gb_err *err);

/* No call may be under way. Accepts NULL. */
void store_close(struct store *store);

/* Whether @text is a valid id; NULL is not. */
bool store_id_valid(const char *text);
