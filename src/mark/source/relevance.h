/* Which texts are about a question: BM25 over words, where an identifier is several of them. */
#pragma once

#include <stddef.h>

struct relevance;

struct relevance *relevance_new(const char *question); /* NULL: out of memory */
void relevance_free(struct relevance *relevance);      /* accepts NULL */

/* Texts are added to the document that was begun last. A word in a text of @weight 2 counts twice.
 * NULL is no text. */
void relevance_begin(struct relevance *relevance);
void relevance_add(struct relevance *relevance, const char *text, double weight);

/* The score of each document in the order of relevance_begin(), for free(); NULL: out of memory,
 * here or before. */
double *relevance_scores(struct relevance *relevance);
