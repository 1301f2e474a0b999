#include "cli/options/help.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/autoclean.h"
#include "cli/options/options.h"

#include "base/banned.h"

#define COLUMNS     80
#define TEXT_COLUMN 26
#define CELL_MAX    (CONFIG_NAME_MAX + CONFIG_TEXT_MAX + 8)
#define HELP_MAX    512

/* Writes @text word by word; the cursor is at @at, and later lines begin at @indent. */
static void write_wrapped(FILE *out, const char *text, size_t at, size_t indent)
{
    bool first = true;

    while (*text) {
        size_t len = strcspn(text, " ");

        if (!first && at + 1 + len > COLUMNS) {
            fprintf(out, "\n%*s", (int) indent, "");
            at = indent;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", (int) len, text);
        at += len + !first;
        first = false;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void write_row(FILE *out, const char *cell, const char *text)
{
    int width = fprintf(out, "  %s", cell);

    if (width < 0)
        return;
    if (width + 2 > TEXT_COLUMN)
        fprintf(out, "\n%*s", TEXT_COLUMN, "");
    else
        fprintf(out, "%*s", TEXT_COLUMN - width, "");
    write_wrapped(out, text, TEXT_COLUMN, TEXT_COLUMN);
}

static void write_option(FILE *out, const struct config_option *option)
{
    char metavar[CONFIG_TEXT_MAX], cell[CELL_MAX], text[HELP_MAX];
    const char *fallback = option->type == OPT_BOOL ? NULL : option->fallback;

    config_metavar(option, metavar);
    if (option->flags & CONFIG_LETTER_ONLY)
        snprintf(cell, sizeof cell, "-%c %s", option->letter, metavar);
    else
        snprintf(cell, sizeof cell, "%c%c%s--%s%s%s", option->letter ? '-' : ' ',
                 option->letter ? option->letter : ' ', option->letter ? ", " : "  ", option->name,
                 *metavar ? " " : "", metavar);
    if (fallback)
        snprintf(text, sizeof text, "%s (default: %s)", option->help, fallback);
    else
        snprintf(text, sizeof text, "%s", option->help);
    write_row(out, cell, text);
}

static void write_options(FILE *out, const struct config_schema *schema,
                          const struct config_command *command)
{
    const char *group = "";

    for (size_t i = 0; i < schema->options_len; i++) {
        const struct config_option *option = &schema->options[i];

        if (!(option->commands & command->mask))
            continue;
        if (strcmp(group, option->group) != 0)
            fprintf(out, "\n%s:\n", option->group);
        group = option->group;
        write_option(out, option);
    }
}

static void write_commands(FILE *out, const struct config_schema *schema)
{
    fputs("\nCommands:\n", out);
    for (size_t i = 0; i < schema->commands_len; i++)
        write_row(out, schema->commands[i].name, schema->commands[i].summary);
}

int help_write(FILE *out, const struct config_schema *schema, const struct config_command *command)
{
    bool global = !*command->name;

    fprintf(out, "Usage: %s%s%s%s%s\n\n", schema->program, global ? "" : " ", command->name,
            *command->synopsis ? " " : "", command->synopsis);
    write_wrapped(out, command->description, 0, 0);
    if (global)
        write_commands(out, schema);
    write_options(out, schema, command);
    fprintf(out, "\nExamples:\n%s\n", command->examples);
    if (global)
        write_wrapped(out,
                      "The options of a command come after its name; 'glovebox COMMAND --help' "
                      "lists them.",
                      0, 0);
    else
        write_wrapped(out,
                      "Long options are also read from the environment (--cpu-time as "
                      "GLOVEBOX_CPU_TIME) and from glovebox.conf; see glovebox(1).",
                      0, 0);
    if (fflush(out) != 0 || ferror(out))
        return errno ? -errno : -EIO;
    return 0;
}

bool help_tells(const struct config_option *option, const struct config_command *command)
{
    if (!(option->commands & command->mask))
        return false;
    return command == &options_global || !(option->commands & options_global.mask);
}

static void markdown_cell(FILE *out, const char *text)
{
    for (; *text; text++)
        fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

static void markdown_option(FILE *out, const struct config_option *option)
{
    char metavar[CONFIG_TEXT_MAX], variable[CONFIG_NAME_MAX];
    bool named = !(option->flags & CONFIG_LETTER_ONLY);

    config_metavar(option, metavar);
    config_env_name(&options_schema, option, variable);
    fputs("| `", out);
    if (option->letter)
        fprintf(out, "-%c%s", option->letter, named ? ", " : "");
    if (named)
        fprintf(out, "--%s", option->name);
    fputs(*metavar ? " " : "", out);
    markdown_cell(out, metavar);
    fprintf(out, "` | %s | ", option->type != OPT_BOOL && option->fallback ? option->fallback : "");
    if (!(option->flags & CONFIG_ARGS_ONLY))
        fprintf(out, "`%s`", variable);
    for (size_t k = 0; k < ARRAY_LEN(option->aliases); k++)
        if (option->aliases[k].variable)
            fprintf(out, ", `%s`", option->aliases[k].variable);
    fputs(" | ", out);
    markdown_cell(out, option->help);
    fputs(" |\n", out);
}

int help_write_markdown(FILE *out)
{
    fputs("<!-- written by gen_docs from the option table; do not edit -->\n", out);
    for (size_t i = 0; i <= options_schema.commands_len; i++) {
        const struct config_command *command =
            i == 0 ? &options_global : &options_schema.commands[i - 1];
        bool first = true;

        fprintf(out, "\n## `%s%s%s%s%s`\n\n%s\n", options_schema.program, *command->name ? " " : "",
                command->name, *command->synopsis ? " " : "", command->synopsis,
                command->description);
        for (size_t k = 0; k < options_schema.options_len; k++) {
            const struct config_option *option = &options_schema.options[k];

            if (!help_tells(option, command))
                continue;
            if (first)
                fputs("\n| option | default | environment | meaning |\n|---|---|---|---|\n", out);
            first = false;
            markdown_option(out, option);
        }
    }
    return 0;
}
