/* The program to run, and the modules its text names. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "cli/options/options.h"

#define PROGRAM_MAX (8u << 20)

struct program {
    char *code;
    size_t len;
    const char *filename; /* for tracebacks; owned by the configuration */
    char **argv;          /* sys.argv, NULL-terminated */
};

/* Reads the program that the command line names. Every error is the user's (exit 2). */
int program_load(const struct config *cfg, struct program *ret_program, struct gb_err *err);
void program_release(struct program *program);

/* Writes into @buf which modules to preload: as --preload says. "all" are those of the template
 * (@all: names with blanks between; NULL: the default one), and "auto" those of them that the
 * program's text names. */
int program_preload(const struct program *program, const char *which, const char *all, char *buf,
                    size_t size, struct gb_err *err);
