/*
 * Text as it comes, before it is complete.
 *
 * The arguments of a tool call arrive as pieces of JSON text, cut anywhere. member_feed() reads
 * them and passes on the decoded string of one member of the object. refs_feed() replaces {{name}}
 * by the text of that value. What both pass on is a draft: the complete text is read again,
 * properly, at its end.
 */
#pragma once

#include <jansson.h>

#include "mark/agent/text.h"

struct member_stream {
    int state, depth;
    bool wanted, in_string, escaped;
    char key[32];
    size_t key_len;
    char hex[5];
    size_t hex_len;
    unsigned high;       /* surrogate that waits for its other half */
    struct text partial; /* bytes of a character that is not complete */
};

/* Adds to @out what is new of the string under @name. */
void member_feed(struct member_stream *stream, const char *name, const char *json, size_t len,
                 struct text *out);
void member_release(struct member_stream *stream);

#define REFS_HOLD_MAX 72

struct refs_stream {
    char hold[REFS_HOLD_MAX];
    size_t len;
};

/* @find returns the text of a value, for free(), or NULL. */
void refs_feed(struct refs_stream *stream, const char *text, size_t len,
               char *(*find)(void *arg, const char *name), void *arg, struct text *out);
/* What was held back. */
void refs_flush(struct refs_stream *stream, struct text *out);
