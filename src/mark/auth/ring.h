/*
 * The ring of keys that sign access tokens.
 *
 * The keys are in DATA/mark/signing-keys.json (0600), the youngest first; it signs. Once it is
 * older than the rotation, whoever signs next adds another. Older keys stay as long as tokens that
 * they signed may be valid, and then go. The file is replaced as a whole, under a lock, because
 * several processes may share it; each has a copy in memory, and reads the file again when it meets
 * a name that it does not know and the file has changed.
 *
 * Removing the file voids all access tokens.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "mark/auth/jwt.h"

struct ring;

/* @keep_us: how long a key is good for after it has a successor. A file that is malformed, or that
 * others may read, is refused. No file is made before a key is needed. */
int ring_open(const char *data_dir, int64_t rotate_us, int64_t keep_us, struct ring **ret_ring,
              struct gb_err *err);
void ring_close(struct ring *ring); /* accepts NULL; wipes the keys */

/* The key to sign with. */
int ring_current(struct ring *ring, int64_t now_us, struct jwt_key *ret_key, struct gb_err *err);

/* The key of that name; false if there is none. */
bool ring_find(struct ring *ring, const char *kid, int64_t now_us, struct jwt_key *ret_key);
