/* Text of strangers as text and nothing else. */
#pragma once

#include <stddef.h>

/* A copy for free() without anything that a terminal acts on or that changes the order in which
 * text is read: no escape sequences, not even colours, no control characters except newline and
 * tab, no bidirectional overrides. What is not UTF-8 becomes U+FFFD. Unlike term_filter.h, which
 * serves programs that draw on the terminal, it leaves no way to write over earlier lines: what a
 * model says must not look like what we say. NULL: out of memory. */
char *plain_text(const char *text, size_t len);

/* The columns that @text takes, which is UTF-8 without control characters. */
size_t plain_columns(const char *text, size_t len);

/* The bytes of @text that fit into @columns. */
size_t plain_fit(const char *text, size_t len, size_t columns);
