/* JSON that is passed on as it came, because a parser would change it (whole numbers of any size).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether @text is one object as RFC 8259 has it, in UTF-8, nested no deeper than 256. */
bool json_text_is_object(const char *text, size_t len);
