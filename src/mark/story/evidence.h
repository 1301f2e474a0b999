/* The evidence as story.c asks it; see story.h. */
#pragma once

#include "mark/numeral/numeral.h"
#include "mark/story/story.h"

/* Which reading of 1.203 the story's other numerals suggest. */
enum evidence_style {
    EVIDENCE_POINT, /* also if they suggest none */
    EVIDENCE_COMMA,
    EVIDENCE_MIXED, /* both: an ambiguous numeral has no reading */
};

/* Sorts what was added since the last time; call it before the functions below. */
void evidence_sort(struct evidence *evidence);

/* Where a number was found. The texts belong to the evidence. */
struct origin {
    const char *where;      /* "value", "table", "output", "query", "data", "question" */
    const char *message_id; /* of an earlier answer; NULL: this one */
    int64_t step, line;     /* from 1; 0: not known, as the rest */
    int64_t table, row, column;
};

/* Whether something computed or given is what the numeral says, within its own precision, and where
 * the best of what does came from: a value of this answer before a table, an output, the number of
 * rows of a query, a value of an earlier answer, the data, the question. @ret_origin may be NULL.
 */
bool evidence_finds(const struct evidence *evidence, const struct numeral *numeral,
                    enum evidence_style style, struct origin *ret_origin);

/* The value of that name, and whether it counts: *@ret_counts is false if it stands in the code.
 * NULL: there is none. Belongs to the evidence. */
const json_t *evidence_value(const struct evidence *evidence, const char *name, bool *ret_counts);
