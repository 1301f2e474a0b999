/*
 * Numbers in a story: filled in from values that were computed, or looked for in what was.
 *
 * Evidence is everything that the code of one answer computed: values that it handed over
 * (mark.value), cells and shapes of tables, numbers that it printed. A story refers to a value as
 * {{name}} and gets its text from the evidence. A numeral that the model typed itself is looked for
 * in the evidence, with the tolerance of its own rounding and unit ("1.2 M" is 1,203,411); one that
 * is found nowhere is unsupported.
 *
 * What a model merely wrote into its code is no evidence: a number that is printed or handed over
 * and stands as a literal of three digits or more in the code counts only if the question or the
 * data has it too (evidence_add_given()). That is no proof against code that hides a constant in
 * arithmetic; the code is shown.
 *
 * Pure functions over memory: no I/O, no clock, no locale. Everything in here is hostile.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct evidence;

struct evidence *evidence_new(void);           /* NULL: out of memory */
void evidence_free(struct evidence *evidence); /* accepts NULL */

/* All return 0 or -ENOMEM; what is beyond the bounds (numbers, bytes) is left out. The code of a
 * step is added before what it put out: a number counts unless it is among the literals so far, and
 * a literal that repeats what an earlier step computed is none. */

/* A value: {"name", "value", "unit"?, "format"?, "step", "line"?} as in MarkResponse, and
 * "message_id" if it is of an earlier answer. A later one of the same name replaces it. */
int evidence_add_value(struct evidence *evidence, const json_t *value);
/* {"title", "columns", "rows", "row_count", "step"?, "line"?} as in MarkResponse: its cells, shape
 * and column sums are not evidence, only cells and shape. Marks name it by the order of the calls,
 * from 1. */
int evidence_add_table(struct evidence *evidence, const json_t *table);
/* Which step the outputs and queries that are added from now on are of. */
void evidence_set_step(struct evidence *evidence, int64_t step);
/* What a program printed or displayed as text. */
int evidence_add_output(struct evidence *evidence, const char *text, size_t len);
/* Source code of a step: its literals are suspicious. */
int evidence_add_code(struct evidence *evidence, const char *code, size_t len);
/* What the person asked, the data says (profile), or we counted ourselves of a query: may be
 * repeated in the story. */
enum evidence_given { EVIDENCE_QUESTION, EVIDENCE_DATA, EVIDENCE_QUERY };
int evidence_add_given(struct evidence *evidence, enum evidence_given given, const char *text,
                       size_t len);

struct story {
    char *text;          /* with references filled in; markdown as the model wrote it */
    size_t checked;      /* numerals that are filled in or found */
    json_t *unsupported; /* texts of those that are not, in order, without repetition */
    json_t *unknown;     /* names of references that no value has; shown as "[name?]" in the text,
                            and unsupported too */
    json_t *marks; /* [{"start", "end", "kind": "value"|"found"|"unsupported", "name"?}]: where
                      they are in the text, in bytes of UTF-8, for the page; and where they come
                      from, as far as that is known: "where" (as in struct origin; of one that is
                      found), "step", "line", "message_id" (an earlier answer), "table", "row",
                      "column", all from 1 */
};

void story_release(struct story *story);

/* -ENOMEM, -E2BIG: more than STORY_BYTES_MAX, than STORY_REFERENCES_MAX references or as many
 * numerals, or than STORY_TEXT_MAX bytes when it is filled in. Sorts the evidence. */
#define STORY_BYTES_MAX      (256 * 1024)
#define STORY_TEXT_MAX       (1024 * 1024)
#define STORY_REFERENCES_MAX 10000
int story_check(struct evidence *evidence, const char *text, struct story *ret_story);

/* The text of a value: its number with thousands separators and a sensible rounding, by its
 * "format" (a Python format specification such as ".1%" or ",.2f" of the kinds that are documented)
 * and with its unit. Never depends on the locale. For free(); NULL: out of memory. */
char *value_text(const json_t *value);
/* The same for Markdown: what is text in it cannot be markup. @format, if it is not NULL and can be
 * read, is used instead of the value's. */
char *value_markdown(const json_t *value, const char *format);
