/*
 * Shelves: directories of the host, parts of which are mounted into boxes read-only, also while
 * code runs in them. The first holds the package layers, the second programs for the installer's
 * box, the others are the operator's wheel directories.
 */
#pragma once

#include <stdbool.h>

#define SHELVES_MAX    6
#define SHELF_NAME_MAX 128
/* Where in a box: a mount at the first place hides all others. */
#define SHELF_PLACE "/packages"

/* A virtual environment over the system's Python, which exists only in the root file system of a
 * template with packages and of its boxes: they see the packages in it, and none of those that the
 * host has in /usr. */
#define VENV_PLACE  "/opt/python"
#define VENV_PYTHON VENV_PLACE "/bin/python3"
/* Of the name of its directory of libraries, such as "python3.11", with the NUL. */
#define VENV_LIB_MAX 16

bool venv_lib_valid(const char *lib);

/* A valid name of a directory on a shelf: letters, digits and . _ - without a leading dot. */
bool shelf_name_valid(const char *name);
