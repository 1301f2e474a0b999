/* Shared by the parts of gen_docs: access to the option table. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "cli/options/options.h"

static const char generated[] = "written by gen_docs from the option table; do not edit";
static const struct config_schema *const schema = &options_schema;

static inline bool is_shown(const struct config_option *option,
                            const struct config_command *command)
{
    return option->commands & command->mask;
}

static inline bool has_long(const struct config_option *option)
{
    return !(option->flags & CONFIG_LETTER_ONLY);
}

static inline bool is_number(const struct config_option *option)
{
    return option->type == OPT_INT || option->type == OPT_SIZE || option->type == OPT_SECONDS ||
           option->type == OPT_CPUS;
}

static inline bool takes_value(const struct config_option *option)
{
    return option->type != OPT_BOOL;
}

static inline void write_choices(FILE *out, const struct config_option *option)
{
    for (size_t i = 0; option->choices[i]; i++)
        fprintf(out, "%s%s", i ? " " : "", option->choices[i]);
}

static inline void write_commands(FILE *out)
{
    for (size_t i = 0; i < schema->commands_len; i++)
        fprintf(out, "%s%s", i ? " " : "", schema->commands[i].name);
}

/* The commands, preceded by `glovebox` itself. */
static inline const struct config_command *command_at(size_t i)
{
    return i == 0 ? &options_global : &schema->commands[i - 1];
}

#define FOR_EACH_OPTION(option, command)                                                           \
    for (const struct config_option *option = schema->options;                                     \
         option < schema->options + schema->options_len; option++)                                 \
        if (is_shown(option, command))

/* tools/gen_docs/completions.c */
int bash_write(FILE *out);
int zsh_write(FILE *out);
int fish_write(FILE *out);
