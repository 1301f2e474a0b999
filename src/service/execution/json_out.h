/*
 * A JSON writer: the same calls build a tree, or write the text without one.
 *
 * The first failure (out of memory) is remembered and reported at the end, so callers need no
 * checks in between. Keys are constants that need no escapes; the key is NULL in an array and for
 * the root.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_OUT_DEPTH 8

struct json_out {
    bool tree; /* else text */
    bool failed;
    bool comma; /* text: a value precedes this position */
    size_t depth;
    json_t *open[JSON_OUT_DEPTH]; /* tree: open containers; each is owned by its parent */
    char closing[JSON_OUT_DEPTH]; /* text */
    json_t *root;
    char *text;
    size_t len, cap;
};

/* A piece of text. */
struct span {
    const char *data;
    size_t len;
};

void json_out_init(struct json_out *out, bool tree);

void json_out_object(struct json_out *out, const char *key);
void json_out_array(struct json_out *out, const char *key);
void json_out_end(struct json_out *out); /* closes the innermost of these */

void json_out_null(struct json_out *out, const char *key);
void json_out_bool(struct json_out *out, const char *key, bool value);
void json_out_int(struct json_out *out, const char *key, int64_t value);
/* A number of seconds, not negative. */
void json_out_seconds(struct json_out *out, const char *key, int64_t us);
/* The spans as one string; every unit that is not UTF-8 becomes U+FFFD. */
void json_out_text(struct json_out *out, const char *key, const struct span *spans, size_t len);
/* A C string; NULL is null. */
void json_out_word(struct json_out *out, const char *key, const char *word);
/* Takes @value; NULL is a failure. */
void json_out_json(struct json_out *out, const char *key, json_t *value);

/* Finish: 0 and the result, which the caller frees, or -ENOMEM. Call the one that matches
 * json_out_init(). */
int json_out_take_tree(struct json_out *out, json_t **ret_json);
int json_out_take_text(struct json_out *out, char **ret_text, size_t *ret_len);

/* The size of the unit at the start of @text within a JSON string; its length in @ret_len. */
size_t json_unit_cost(struct span text, size_t *ret_len);
