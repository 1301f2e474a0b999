/*
 * Shelves: directories of the host of which boxes are given parts, read-only, also while code runs
 * in them. The first is that of package layers, the others are the operator's wheel directories.
 */
#pragma once

#include <stdbool.h>

#define SHELVES_MAX    5
#define SHELF_NAME_MAX 128
/* Where in a box: the first place covers all others. */
#define SHELF_PLACE "/packages"

/* A name that can be on a shelf: letters, digits and . _ - in it, not a dot in front. */
bool shelf_name_valid(const char *name);
