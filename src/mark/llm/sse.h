/*
 * Server-sent events, byte by byte: what arrives may be cut anywhere, also inside a character.
 *
 * Lines end with LF, CRLF or CR. Lines that start with ':' are comments, several "data:" lines are
 * joined by LF, and an event whose last blank line is missing counts when the stream ends: some
 * servers close the connection right after the last line. "id:" and "retry:" are ignored.
 */
#pragma once

#include "mark/llm/text.h"

#define SSE_NAME_MAX 64

struct sse {
    /* An event with at least one "data:" line. @name is "" if it has none; names that are too long
     * are cut. A negative result ends the parsing and is what sse_feed() returns. */
    int (*event)(void *arg, const char *name, const char *data, size_t len);
    void *arg;
    size_t event_max; /* bytes of one line, and of the data of one event */

    struct text line, data;
    char name[SSE_NAME_MAX];
    bool has_data, after_cr, started;
    bool has_events; /* any has come */
};

/* 0, -EMSGSIZE for a line or event that is too long, -ENOMEM, or what event() returned. After a
 * failure only sse_release() may follow. */
int sse_feed(struct sse *sse, const char *data, size_t len);
int sse_end(struct sse *sse);
void sse_release(struct sse *sse);
