/* Ids of Mark's things: random UUIDs (version 4). */
#pragma once

#include <stdbool.h>

#define MARK_ID_MAX 37 /* with its NUL */

void mark_id_make(char buf[MARK_ID_MAX]);

/* Whether @text is a UUID in lower case; NULL is not. */
bool mark_id_valid(const char *text);
