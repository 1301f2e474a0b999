/*
 * Presets: sets of packages that come with Glovebox, each with a lock file that has the exact
 * versions and the hashes of the wheels (package/lock.h). They are part of the binary; the files
 * are in presets/ of the source.
 */
#pragma once

#include "base/err.h"

struct preset {
    const char *name;
    const char *about;   /* in a few words */
    const char *wanted;  /* requirements, one per line, with comments */
    const char *lock;    /* text of the lock file */
    const char *preload; /* modules, separated by spaces */
};

/* The last has no name. */
extern const struct preset presets[];

/* NULL: there is none of that name. */
const struct preset *preset_find(const char *name);

/* "data, minimal, ml" */
#define PRESET_NAMES_MAX 128
const char *preset_names(char buf[PRESET_NAMES_MAX]);

/* The requirements in such a text, NULL-terminated; free with templates_names_free(). */
int preset_wanted(const char *text, char ***ret_wanted, struct gb_err *err);

/* Whether the locks of the presets have wheels for a Python 3.@minor. */
#define PRESET_MINOR_MIN 11
#define PRESET_MINOR_MAX 14
