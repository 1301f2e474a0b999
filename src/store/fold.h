/* Text in one case, for searching: the host does it, because SQLite knows the case of ASCII only.
 */
#pragma once

#include <stddef.h>

/* @text in lower case, at most about @max bytes of it, cut between characters; for free(). Bytes
 * that are not UTF-8 are left out, and so are control characters. NULL: out of memory. */
char *store_fold(const char *text, size_t max);

/* The pattern for LIKE ... ESCAPE '!' that matches texts that contain @q, which is folded first. */
char *store_like(const char *q, size_t max);
