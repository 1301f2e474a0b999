/* The sample data set: examples/sales.csv, so that Mark can be tried without a file of one's own.
 */
#pragma once

extern const char mark_sample_csv[]; /* text, NUL-terminated */
