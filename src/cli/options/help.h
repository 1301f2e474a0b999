/* The option table as text for people: --help, and a reference in Markdown. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/config.h"

/* Writes the help of @command (&options_global: of glovebox itself) in at most 80 columns. Returns
 * 0, or -errno when the stream failed. */
int help_write(FILE *out, const struct config_schema *schema, const struct config_command *command);

/* Writes all commands and options as Markdown tables. Returns 0. */
int help_write_markdown(FILE *out);

/* Whether a reference lists @option under @command: options that every command has are listed once,
 * under `glovebox` itself. */
bool help_tells(const struct config_option *option, const struct config_command *command);
