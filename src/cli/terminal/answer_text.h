/* An answer of Mark as text: its story, its tables. Everything in it comes from a model or from
 * data, so all of it passes through plain_text.h. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* What follows a number that nobody computed. */
#define ANSWER_UNSUPPORTED "[?]"

/* Writes @text, which is Markdown: for a terminal with bold headings and the like (@styled), else
 * as it is. @marks, of MarkResponse's numbers, may be NULL: unsupported numbers get
 * ANSWER_UNSUPPORTED. Returns 0 or -ENOMEM. */
int answer_write_story(FILE *out, const char *text, const json_t *marks, bool styled);

/* Writes a table of MarkResponse in aligned columns, at most @rows_max rows of it. */
int answer_write_table(FILE *out, const json_t *table, size_t rows_max, bool styled);

/* Writes it as CSV (RFC 4180), whole. */
int answer_write_csv(FILE *out, const json_t *table);
