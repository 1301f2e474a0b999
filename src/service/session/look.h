/* The replies of session_look(). */
#pragma once

#include <jansson.h>

#include "service/service.h"

/* The reply that says nothing: no answer came, or none could. */
json_t *look_reply_empty(enum look_op op, int64_t cursor, bool busy);

/* The reply made of the answer of a tenant, hostile text that should be JSON: only what belongs in
 * a reply is taken over, within its bounds. @text NULL: there is none. Positions in it count from
 * @offset; a completion ends at @cursor. */
json_t *look_reply(enum look_op op, const char *text, size_t len, int64_t offset, int64_t cursor);
