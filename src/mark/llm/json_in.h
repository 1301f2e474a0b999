/* JSON from a model's server. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define JSON_IN_DEPTH_MAX 100

/* Parses an object. Invalid UTF-8, halves of surrogate pairs (servers that cut text by UTF-16 units
 * send them) and \u0000 become U+FFFD, so that all strings are valid text without a NUL. NULL if it
 * is no object, too deep, or out of memory. */
json_t *json_in_object(const char *data, size_t len);

/* Whether @text ends in the middle of an object, array or string: the beginning of JSON, cut. */
bool json_in_is_cut(const char *text, size_t len);

/* A member that is a string, or NULL. */
const char *json_in_string(const json_t *object, const char *key);

/* A member that is a number of tokens: -1 unless it is an integer from 0 to 1e12. */
int64_t json_in_count(const json_t *object, const char *key);
