/*
 * The sample data, so that Mark can be tried without data of one's own: examples/sales.csv, and
 * products.csv and regions.csv that can be joined with it; and the same for a PostgreSQL, as
 * scripts for psql. The data is in the binary once: the script takes it from the CSV files.
 */
#pragma once

#include <stdio.h>

/* Which there are, with blanks between: "sales products regions sql sql-roles". */
extern const char mark_sample_names[];

/* Writes the one with this name, NULL meaning the first. -ENOENT: there is none; -EIO: it cannot be
 * written, with errno. */
int mark_sample_print(const char *name, FILE *out);
