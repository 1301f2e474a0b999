/*
 * Lock files: requirements with hashes, as pip and uv write them.
 *
 *   name==version ; marker \
 *       --hash=sha256:HEX \
 *       --hash=sha256:HEX
 *
 * Pure functions; the text may be anything.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define LOCK_BYTES_MAX (4u << 20)

/* Whether it has nothing but exact versions with hashes, markers and comments. The error names the
 * line. *@ret_len is how many packages there are. */
int lock_check(const char *text, size_t *ret_len, struct gb_err *err);

/* Whether it has this hash for this package; @name is normal, in the sense of PEP 503. */
bool lock_has(const char *text, const char *name, const char *version, const char *sha256);
