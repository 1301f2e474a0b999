/* Percent-encoding, as in URLs (RFC 3986). */
#pragma once

#include <stddef.h>

/* The byte that the escape at the start of @text stands for, such as 0x2f for "%2F"; -1 unless
 * @text has a '%' and two hexadecimal digits within @len bytes. Callers decide about 0. */
int percent_byte(const char *text, size_t len);
