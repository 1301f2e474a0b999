/* A look at JSON before it is parsed: parsers are recursive, and a few kilobytes of "[" would use
 * up a stack; and an empty object takes a hundred times the memory of its text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether an array or object in @text is nested deeper than @max, even if @text is not valid
 * JSON. */
bool json_too_deep(const char *text, size_t len, unsigned max);

/* Whether @text has more than @max arrays and objects, even if it is not valid JSON. */
bool json_too_many(const char *text, size_t len, size_t max);
