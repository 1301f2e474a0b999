/* Two runs of the same programs, compared. */
#pragma once

#include <jansson.h>

/* All return an array with an object for each thing, "equal" in it; NULL: out of memory. */

/* Arrays of values as in MarkResponse: {"name", "before", "after", "equal"}, by name. */
json_t *compare_values(const json_t *before, const json_t *after);
/* Arrays of tables, by their place: {"title", "equal"}. */
json_t *compare_tables(const json_t *before, const json_t *after);
/* Arrays of chart specifications, by their place: {"n", "equal"}. */
json_t *compare_charts(const json_t *before, const json_t *after);
