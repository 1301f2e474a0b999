/* JSON that is passed on unchanged, because a parser would change it (integers of any size). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether @text is one object according to RFC 8259, in UTF-8, nested at most 256 levels deep. */
bool json_text_is_object(const char *text, size_t len);
