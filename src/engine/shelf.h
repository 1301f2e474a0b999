/*
 * Shelves: directories of the host, parts of which are mounted into boxes read-only, also while
 * code runs in them. The first holds the package layers, the others are the operator's wheel
 * directories.
 */
#pragma once

#include <stdbool.h>

#define SHELVES_MAX    5
#define SHELF_NAME_MAX 128
/* Where in a box: a mount at the first place hides all others. */
#define SHELF_PLACE "/packages"

/* A valid name of a directory on a shelf: letters, digits and . _ - without a leading dot. */
bool shelf_name_valid(const char *name);
