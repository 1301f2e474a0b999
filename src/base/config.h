/*
 * One table of options, four sources.
 *
 * A program describes its options as rows of a table; the command line, the environment, files,
 * --help, the manual and the completions are all derived from it. Sources are loaded from the
 * strongest to the weakest: command line, environment, files, defaults. A weaker source never
 * replaces a value from a stronger one (lists are not merged either: a list comes from one source,
 * unless its row says otherwise), but its values are checked all the same. --help therefore needs
 * nothing but the command line.
 *
 * Everything read here is hostile until it is parsed: an error is one printable line that names
 * where the value came from, the value, and what would be right. Nothing exits, nothing logs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CONFIG_ROWS_MAX 192
#define CONFIG_NAME_MAX 48 /* of an option or a variable, with its NUL */
#define CONFIG_TEXT_MAX 96 /* of a description, with its NUL */

enum config_type {
    OPT_BOOL,    /* bool */
    OPT_INT,     /* int64_t */
    OPT_SIZE,    /* int64_t, bytes */
    OPT_SECONDS, /* int64_t, microseconds */
    OPT_CPUS,    /* int64_t, thousandths */
    OPT_STRING,  /* char *, owned; choices, if any, are only suggestions */
    OPT_LIST,    /* char **, owned, ends with NULL; NULL when empty */
    OPT_CHOICE,  /* int, the index into choices */
};

enum config_flag {
    CONFIG_ARGS_ONLY = 1 << 0,    /* not accepted in the environment or a file */
    CONFIG_LETTER_ONLY = 1 << 1,  /* has no long form; the name is for messages */
    CONFIG_ENDS_OPTIONS = 1 << 2, /* everything after it on the command line is positional */
    CONFIG_ADDS = 1 << 3,         /* a list to which weaker sources add, at its end */
};

/* A variable of another program that is honoured too. */
struct config_alias {
    const char *variable;
    int64_t unit; /* 0: same syntax as the option; else a whole number in this unit */
};

struct config_option {
    const char *name;
    char letter; /* 0: none */
    enum config_type type;
    size_t offset;              /* of the member in the caller's struct */
    const char *fallback;       /* the default as text; NULL: zero */
    int64_t min, max;           /* in the member's unit; bytes of a string, items of a list */
    const char *metavar;        /* "PATH" completes files, "DIR" directories; NULL: the choices */
    const char *const *choices; /* ends with NULL */
    bool (*valid)(const char *text); /* a further check of a string or item; NULL: none */
    const char *expected;            /* describes valid values, where the type does not */
    struct config_alias aliases[2];
    unsigned commands; /* mask */
    unsigned flags;
    const char *group; /* heading in --help and the manual; rows of a group are together */
    const char *help;
};

enum config_args { CONFIG_ARGS_NONE, CONFIG_ARGS_FILES, CONFIG_ARGS_COMMANDS, CONFIG_ARGS_WORDS };

struct config_command {
    const char *name;
    unsigned mask; /* one bit */
    const char *synopsis;
    const char *summary;     /* half a line */
    const char *description; /* a paragraph */
    const char *examples;    /* lines as they are */
    enum config_args args;   /* what its positionals are */
    const char *words;       /* CONFIG_ARGS_WORDS: values of the first one, separated by spaces */
    bool stops;              /* options end at the first positional */
};

struct config_schema {
    const char *program;
    const char *env_prefix;
    const struct config_option *options;
    size_t options_len;
    const struct config_command *commands;
    size_t commands_len;
};

/* One loading of a struct, from all its sources. */
struct config_load {
    const struct config_schema *schema;
    const struct config_command *command; /* only its rows are loaded */
    void *target;                         /* zeroed by the caller before the first source */
    bool set[CONFIG_ROWS_MAX];            /* rows that a stronger source has set */
    bool set_here[CONFIG_ROWS_MAX];       /* rows that the current source has set */
};

/* Each of these four loads one source; call them in this order. After an error the caller releases
 * the target as usual. @argv begins with the first argument, not the program's name; @ret_next is
 * the index of the first positional (@argc if none). Where the command does not stop at it, @argv
 * is reordered so that the positionals come last. */
int config_load_args(struct config_load *load, int argc, char **argv, int *ret_next,
                     struct gb_err *err);
int config_load_env(struct config_load *load, struct gb_err *err);
/* -ENOENT if the file does not exist, or is in a directory that we may not enter. */
int config_load_file(struct config_load *load, const char *path, struct gb_err *err);
int config_load_defaults(struct config_load *load, struct gb_err *err);

/* Loads the file's content, as config_load_file() does; @path is for messages. */
int config_load_text(struct config_load *load, const char *path, const char *text, size_t len,
                     struct gb_err *err);

/* Frees strings and lists and sets them to NULL; accepts a half-filled target. */
void config_release(const struct config_schema *schema, void *target);

/* Finds a command; the error suggests the nearest one. */
int config_find_command(const struct config_schema *schema, const char *name,
                        const struct config_command **ret_command, struct gb_err *err);

/* "GLOVEBOX_CPU_TIME" */
void config_env_name(const struct config_schema *schema, const struct config_option *option,
                     char buf[CONFIG_NAME_MAX]);

/* "a size from 16m to 1t, such as 512m" */
void config_describe(const struct config_option *option, char buf[CONFIG_TEXT_MAX]);

/* "auto|v2", "SIZE", or "" for an option without a value */
void config_metavar(const struct config_option *option, char buf[CONFIG_TEXT_MAX]);
