/* What the files of this room share. */
#pragma once

#include "mark/chat/chats.h"

/* The store failed: a fault for a thing that is not there, or for our own failure. @unknown is the
 * problem of -ENOENT. */
int chat_fault(int r, const struct gb_err *err, enum problem unknown, const char *id,
               struct fault *fault);

/* A time as JSON text; NULL: out of memory. */
json_t *chat_time(int64_t time_us);

/* JSON that we wrote ourselves once, from the store; null if it is not there or damaged. */
json_t *chat_stored(const char *text);

/* The texts of a message's parts, as one; for free(). NULL: out of memory. */
char *chat_parts_text(const char *parts);
