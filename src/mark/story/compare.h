/*
 * Two runs of the same programs, compared (recheck).
 *
 * Whole numbers and texts are equal if they are the same, other numbers if they differ by no more
 * than one part in 10^9, which summing in another order can do; missing is equal to missing. Tables
 * are compared by columns, number of rows, and cells in order. Of a chart its traces count, and the
 * titles in its layout; ids that are made anew each time do not.
 *
 * Pure functions over memory. What they are given may be hostile: they look no deeper than
 * COMPARE_DEPTH_MAX, and what they tell is bounded.
 */
#pragma once

#include <jansson.h>

#define COMPARE_DEPTH_MAX       64
#define COMPARE_DIFFERENCES_MAX 20 /* that are told of one table or chart */

/* All return an array with an object for each thing, "equal" in it, and "missing": "before" or
 * "after" if it is only on the other side; NULL: out of memory. */

/* Arrays of values as in MarkResponse: {"name", "before", "after", "equal"}, by name. */
json_t *compare_values(const json_t *before, const json_t *after);
/* Arrays of tables, by their place: {"n", "title", "equal", "differences": [text]}. */
json_t *compare_tables(const json_t *before, const json_t *after);
/* Arrays of plotly specifications, by their place: {"n", "title", "equal", "differences"}. */
json_t *compare_charts(const json_t *before, const json_t *after);
