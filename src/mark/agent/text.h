/* A text that grows. The first failure is kept: add what you like, and look once at the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct text {
    char *data; /* NUL-terminated once something was added */
    size_t len, cap;
    bool failed; /* out of memory */
};

void text_add(struct text *text, const char *data, size_t len);
void text_puts(struct text *text, const char *string);
void text_printf(struct text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* At most @max bytes of @data: its head and its tail, with a line between them that says how much
 * is missing. Cut at whole characters. */
void text_add_cut(struct text *text, const char *data, size_t len, size_t max);
/* The string, for free(), never NULL unless out of memory; @text is empty afterwards. */
char *text_take(struct text *text);
void text_release(struct text *text);

/* How much of @data, at most @max bytes, ends with a whole character. */
size_t text_fit(const char *data, size_t len, size_t max);
