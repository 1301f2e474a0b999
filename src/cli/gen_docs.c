/*
 * gen_docs man|bash|zsh|fish|markdown OUT [PROSE]: a program of the build that writes the manual
 * and the completions.
 *
 * What can be told from the option table is told from it, so that it cannot be wrong. What cannot
 * is prose: docs/glovebox.1.md, whose sections are woven into the manual at their places. The
 * prose is a small part of Markdown (headings, paragraphs, lists, blocks of code, `code` and
 * **bold**); anything else is an error that names the line, never a blot on the page.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/err.h"
#include "cli/help.h"
#include "cli/options.h"

#include "base/banned.h"

#ifndef GB_VERSION
#define GB_VERSION "" /* built by hand */
#endif

#define PROSE_BYTES_MAX    (1 << 20)
#define PROSE_SECTIONS_MAX 16

static const char generated[] = "written by gen_docs from the option table; do not edit";
static const struct config_schema *const schema = &options_schema;

static bool is_shown(const struct config_option *option, const struct config_command *command)
{
    return !(option->flags & CONFIG_HIDDEN) && (option->commands & command->mask);
}

static bool has_long(const struct config_option *option)
{
    return !(option->flags & CONFIG_LETTER_ONLY);
}

static bool is_number(const struct config_option *option)
{
    return option->type == OPT_INT || option->type == OPT_SIZE || option->type == OPT_SECONDS ||
           option->type == OPT_CPUS;
}

static bool takes_value(const struct config_option *option)
{
    return option->type != OPT_BOOL;
}

static void write_choices(FILE *out, const struct config_option *option)
{
    for (size_t i = 0; option->choices[i]; i++)
        fprintf(out, "%s%s", i ? " " : "", option->choices[i]);
}

static void write_commands(FILE *out)
{
    for (size_t i = 0; i < schema->commands_len; i++)
        fprintf(out, "%s%s", i ? " " : "", schema->commands[i].name);
}

/* The commands with `glovebox` itself before them. */
static const struct config_command *command_at(size_t i)
{
    return i == 0 ? &options_global : &schema->commands[i - 1];
}

#define FOR_EACH_OPTION(option, command)                                                           \
    for (const struct config_option *option = schema->options;                                     \
         option < schema->options + schema->options_len; option++)                                 \
        if (is_shown(option, command))

/* ---- roff ---- */

static void roff_char(FILE *out, char c)
{
    static const char special[] = "\\-'`^~";
    static const char *const escaped[] = { "\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti" };
    const char *found = strchr(special, c);

    if (found)
        fputs(escaped[found - special], out);
    else
        fputc(c, out);
}

/* A dot at the start of a line would be a request. */
static void roff_text(FILE *out, const char *text)
{
    fputs(*text == '.' ? "\\&" : "", out);
    for (; *text; text++)
        roff_char(out, *text);
}

static void roff_sentence(FILE *out, const char *text)
{
    fputc(toupper((unsigned char) *text), out);
    roff_text(out, text + 1);
    fputs(".\n", out);
}

static void roff_font(FILE *out, char font, const char *text)
{
    fprintf(out, "\\f%c\\%%", font); /* a name is not hyphenated */
    roff_text(out, text);
    fputs("\\fR", out);
}

/* ---- prose ---- */

struct prose_section {
    const char *title;
    size_t line;
    char **lines;
    size_t lines_len;
    bool used;
};

struct prose {
    char *text;
    char **lines;
    size_t lines_len;
    struct prose_section sections[PROSE_SECTIONS_MAX];
    size_t sections_len;
};

static void prose_release(struct prose *prose)
{
    free(prose->text);
    free(prose->lines);
}

static int prose_fail(struct gb_err *err, size_t line, const char *what)
{
    return gb_fail_plain(err, EINVAL, "prose line %zu: %s", line, what);
}

static int prose_split(struct prose *prose, struct gb_err *err)
{
    char *at = prose->text, *line;

    prose->lines = calloc(strlen(prose->text) + 2, sizeof *prose->lines);
    if (!prose->lines)
        return gb_fail(err, ENOMEM, "prose");
    while ((line = strsep(&at, "\n"))) {
        for (const char *p = line; *p; p++)
            if (*p < 0x20 || *p > 0x7e)
                return prose_fail(err, prose->lines_len + 1, "a character that is not ASCII text");
        prose->lines[prose->lines_len++] = line;
    }
    return 0;
}

static int prose_find_sections(struct prose *prose, struct gb_err *err)
{
    struct prose_section *section = NULL;
    bool code = false;

    for (size_t i = 0; i < prose->lines_len; i++) {
        char *line = prose->lines[i];

        if (strncmp(line, "```", 3) == 0)
            code = !code;
        if (!code && strncmp(line, "# ", 2) == 0) {
            if (prose->sections_len == PROSE_SECTIONS_MAX)
                return prose_fail(err, i + 1, "too many sections");
            section = &prose->sections[prose->sections_len++];
            *section = (struct prose_section){ .title = line + 2,
                                               .line = i + 2,
                                               .lines = &prose->lines[i + 1] };
        } else if (section) {
            section->lines_len++;
        } else if (*line) {
            return prose_fail(err, i + 1, "text before the first '# ' heading");
        }
    }
    return code ? prose_fail(err, prose->lines_len, "a block of code without an end") : 0;
}

static int prose_read(const char *path, struct prose *ret, struct gb_err *err)
{
    FILE *in = fopen(path, "re");
    size_t n;
    bool failed;
    int r;

    if (!in)
        return gb_fail(err, errno, "open %s", path);
    ret->text = calloc(1, PROSE_BYTES_MAX + 1);
    n = ret->text ? fread(ret->text, 1, PROSE_BYTES_MAX, in) : 0;
    failed = !ret->text || ferror(in) || !feof(in) || memchr(ret->text, '\0', n);
    fclose(in);
    if (failed)
        return gb_fail_plain(err, EIO, "%s: not a readable text of at most 1 MiB", path);
    r = prose_split(ret, err);
    return r < 0 ? r : prose_find_sections(ret, err);
}

/* Writes a line of running text: `code` and **bold**, and nothing else that Markdown would see. */
static int prose_inline(FILE *out, const char *text, size_t number, struct gb_err *err)
{
    bool code = false, bold = false;

    fputs(*text == '.' ? "\\&" : "", out);
    for (; *text; text++) {
        if (*text == '`' && !bold) {
            code = !code;
            fputs(code ? "\\fB\\%" : "\\fR", out);
        } else if (!code && strncmp(text, "**", 2) == 0) {
            bold = !bold;
            fputs(bold ? "\\fB" : "\\fR", out);
            text++;
        } else if (!code && strchr("*_[]<>|\\", *text) && !bold) {
            return prose_fail(err, number, "markup that is not known here; put it in `code`");
        } else {
            roff_char(out, *text);
        }
    }
    fputc('\n', out);
    return code || bold ? prose_fail(err, number, "`code` or **bold** without an end") : 0;
}

enum prose_state { PROSE_BETWEEN, PROSE_PARAGRAPH, PROSE_ITEM, PROSE_CODE };

/* Writes one line; @state is what the line before left behind. */
static int prose_line(FILE *out, const char *line, size_t number, enum prose_state *state,
                      struct gb_err *err)
{
    if (strcmp(line, "```") == 0) {
        fputs(*state == PROSE_CODE ? ".EE\n.RE\n" : ".PP\n.RS 4\n.EX\n", out);
        *state = *state == PROSE_CODE ? PROSE_BETWEEN : PROSE_CODE;
        return 0;
    }
    if (*state == PROSE_CODE) {
        roff_text(out, line);
        fputc('\n', out);
        return 0;
    }
    if (!*line) {
        *state = PROSE_BETWEEN;
        return 0;
    }
    if (strncmp(line, "## ", 3) == 0) {
        fputs(".SS ", out);
        *state = PROSE_BETWEEN;
        return prose_inline(out, line + 3, number, err);
    }
    if (strncmp(line, "- ", 2) == 0) {
        fputs(".IP \\(bu 2\n", out);
        *state = PROSE_ITEM;
        return prose_inline(out, line + 2, number, err);
    }
    if (*state == PROSE_ITEM && strncmp(line, "  ", 2) == 0 && line[2] != ' ')
        return prose_inline(out, line + 2, number, err);
    if (*state == PROSE_ITEM || strchr(" #>+=", *line) || strncmp(line, "```", 3) == 0)
        return prose_fail(err, number, "a block that is not known here");
    if (*state == PROSE_BETWEEN)
        fputs(".PP\n", out);
    *state = PROSE_PARAGRAPH;
    return prose_inline(out, line, number, err);
}

/* Weaves in the section @title, which must be there. */
static int prose_write(FILE *out, struct prose *prose, const char *title, struct gb_err *err)
{
    enum prose_state state = PROSE_BETWEEN;

    for (size_t i = 0; i < prose->sections_len; i++) {
        struct prose_section *section = &prose->sections[i];

        if (strcmp(section->title, title) != 0)
            continue;
        if (section->used)
            return prose_fail(err, section->line - 1, "a second section of that name");
        section->used = true;
        fprintf(out, ".SH \"%s\"\n", title);
        for (size_t k = 0; k < section->lines_len; k++) {
            int r = prose_line(out, section->lines[k], section->line + k, &state, err);

            if (r < 0)
                return r;
        }
        return 0;
    }
    return gb_fail_plain(err, EINVAL, "the prose has no section '# %s'", title);
}

static int prose_check_used(const struct prose *prose, struct gb_err *err)
{
    for (size_t i = 0; i < prose->sections_len; i++)
        if (!prose->sections[i].used)
            return prose_fail(err, prose->sections[i].line - 1, "a section without a place");
    return 0;
}

/* ---- the manual ---- */

static void man_head(FILE *out)
{
    fprintf(out, ".\\\" %s\n.TH GLOVEBOX 1 \"\" \"glovebox %s\" \"User Commands\"\n", generated,
            GB_VERSION);
    fputs(".SH NAME\nglovebox \\- ", out);
    roff_text(out, options_global.summary);
    fputc('\n', out);
}

static void man_synopsis(FILE *out)
{
    fputs(".SH SYNOPSIS\n", out);
    for (size_t i = 0; i <= schema->commands_len; i++) {
        const struct config_command *command = command_at(i);

        fputs(i ? ".br\n" : "", out);
        roff_font(out, 'B', schema->program);
        fputs(*command->name ? " " : "", out);
        roff_font(out, 'B', command->name);
        fputc(' ', out);
        roff_text(out, command->synopsis);
        fputc('\n', out);
    }
}

static void man_option_names(FILE *out, const struct config_option *option)
{
    char metavar[CONFIG_TEXT_MAX], name[CONFIG_NAME_MAX];

    config_metavar(option, metavar);
    fputs(".TP\n", out);
    if (option->letter) {
        snprintf(name, sizeof name, "-%c", option->letter);
        roff_font(out, 'B', name);
    }
    if (has_long(option)) {
        fputs(option->letter ? ", " : "", out);
        snprintf(name, sizeof name, "--%s", option->name);
        roff_font(out, 'B', name);
    }
    if (takes_value(option)) {
        fputc(' ', out);
        roff_font(out, 'I', metavar);
    }
    fputc('\n', out);
}

static void man_option(FILE *out, const struct config_option *option)
{
    char right[CONFIG_TEXT_MAX], variable[CONFIG_NAME_MAX];

    man_option_names(out, option);
    roff_sentence(out, option->help);
    if (is_number(option)) {
        config_describe(option, right);
        roff_sentence(out, right);
    }
    if (option->fallback && takes_value(option)) {
        fputs("Default: ", out);
        roff_font(out, 'B', option->fallback);
        fputs(".\n", out);
    }
    if (!(option->flags & CONFIG_ARGS_ONLY)) {
        config_env_name(schema, option, variable);
        fputs("Environment: ", out);
        roff_font(out, 'B', variable);
        fputs(".\n", out);
    }
}

static void man_options(FILE *out)
{
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i <= schema->commands_len; i++) {
        const struct config_command *command = command_at(i);
        const char *group = "";

        fprintf(out, ".SS \"%s%s%s\"\n", schema->program, *command->name ? " " : "", command->name);
        roff_text(out, command->description);
        fputc('\n', out);
        FOR_EACH_OPTION(option, command)
        {
            if (!help_tells(option, command))
                continue;
            if (strcmp(group, option->group) != 0)
                fprintf(out, ".PP\n%s:\n", option->group);
            group = option->group;
            man_option(out, option);
        }
    }
}

static void man_alias(FILE *out, const struct config_option *option,
                      const struct config_alias *alias)
{
    char name[CONFIG_NAME_MAX];

    snprintf(name, sizeof name, "--%s", option->name);
    fputs(".TP\n", out);
    roff_font(out, 'B', alias->variable);
    fputs("\nMeans ", out);
    roff_font(out, 'B', name);
    if (alias->unit == 1 << 20)
        fputs(", as a whole number of MiB", out);
    else if (alias->unit)
        fprintf(out, ", as a whole number of %lld", (long long) alias->unit);
    fputs(", unless the variable of our own name is set.\n", out);
}

static void man_environment(FILE *out)
{
    fputs(".SH ENVIRONMENT\nEvery long option but \\fB\\-\\-help\\fR and \\fB\\-\\-version\\fR can "
          "be "
          "set by a variable: its name in capitals, with underscores for dashes, after ",
          out);
    roff_font(out, 'B', schema->env_prefix);
    fputs(".\nA variable that is set to a bad value, or to nothing, is an error.\n"
          "These are honoured too:\n",
          out);
    for (size_t i = 0; i < schema->options_len; i++)
        for (size_t k = 0; k < ARRAY_LEN(schema->options[i].aliases); k++)
            if (schema->options[i].aliases[k].variable)
                man_alias(out, &schema->options[i], &schema->options[i].aliases[k]);
    fputs(".TP\n\\fBXDG_CONFIG_HOME\\fR, \\fBHOME\\fR\nWhere the user\\(aqs file is found.\n", out);
}

static void man_see_also(FILE *out)
{
    fputs(".SH \"SEE ALSO\"\n.BR python3 (1),\n.BR namespaces (7),\n.BR cgroups (7),\n"
          ".BR seccomp (2),\n.BR landlock (7)\n",
          out);
}

/* The page in its order: a section of the prose, or one that we write. */
static const struct {
    const char *prose;
    void (*write)(FILE *out);
} man_parts[] = {
    { NULL, man_head },
    { NULL, man_synopsis },
    { "DESCRIPTION", NULL },
    { NULL, man_options },
    { "CELLS", NULL },
    { "SERVING", NULL },
    { "ASSISTANTS", NULL },
    { "CONFIGURATION", NULL },
    { NULL, man_environment },
    { "FILES", NULL },
    { "RECEIPTS AND STATUSES", NULL },
    { "DOCTOR", NULL },
    { "KEYS", NULL },
    { "TEMPLATES", NULL },
    { "AUDIT LOG", NULL },
    { "EXIT STATUS", NULL },
    { "EXAMPLES", NULL },
    { NULL, man_see_also },
};

static int man_write(FILE *out, const char *prose_path, struct gb_err *err)
{
    __attribute__((cleanup(prose_release))) struct prose prose = { 0 };
    int r;

    if (!prose_path)
        return gb_fail_plain(err, EINVAL, "man needs the prose: gen_docs man OUT PROSE");
    r = prose_read(prose_path, &prose, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(man_parts); i++) {
        if (man_parts[i].write)
            man_parts[i].write(out);
        else
            r = prose_write(out, &prose, man_parts[i].prose, err);
    }
    return r < 0 ? r : prose_check_used(&prose, err);
}

/* ---- bash ---- */

static bool any_option(const struct config_option *option)
{
    return option != NULL;
}

static bool ends_options(const struct config_option *option)
{
    return takes_value(option) && (option->flags & CONFIG_ENDS_OPTIONS);
}

static bool wants_file(const struct config_option *option)
{
    return option->metavar && strcmp(option->metavar, "PATH") == 0;
}

static bool wants_dir(const struct config_option *option)
{
    return option->metavar && strcmp(option->metavar, "DIR") == 0;
}

/* NAME=' --memory -c ', with blanks around every word so that a search finds whole ones. */
static void bash_words(FILE *out, const char *name, const struct config_command *command,
                       bool (*wanted)(const struct config_option *))
{
    fprintf(out, "\n        %s=' ", name);
    FOR_EACH_OPTION(option, command)
    {
        if (!wanted(option))
            continue;
        if (has_long(option))
            fprintf(out, "--%s ", option->name);
        if (option->letter)
            fprintf(out, "-%c ", option->letter);
    }
    fputc('\'', out);
}

static void bash_command(FILE *out, const struct config_command *command)
{
    static const char *const args[] = {
        [CONFIG_ARGS_NONE] = "",
        [CONFIG_ARGS_FILES] = "files=-f",
        [CONFIG_ARGS_COMMANDS] = "words=$commands",
        [CONFIG_ARGS_WORDS] = "words=",
    };

    fprintf(out, "    '%s')", command->name);
    bash_words(out, "options", command, any_option);
    bash_words(out, "values", command, takes_value);
    bash_words(out, "enders", command, ends_options);
    bash_words(out, "paths", command, wants_file);
    bash_words(out, "dirs", command, wants_dir);
    fprintf(out, "\n        stops='%s' %s", command->stops ? "yes" : "", args[command->args]);
    if (command->args == CONFIG_ARGS_WORDS)
        fprintf(out, "'%s'", command->words);
    fputs(" ;;\n", out);
}

static const char bash_script[] =
    "_glovebox() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} command='' pending='' ended='' word i=1\n"
    "    local words files options values enders paths dirs stops\n"
    "    COMPREPLY=()\n"
    "    _glovebox_table ''\n"
    "    while (( i < COMP_CWORD )) && [[ ! $ended ]]; do\n"
    "        word=${COMP_WORDS[i++]}\n"
    "        if [[ $word == = ]]; then\n"
    "            (( i++ ))\n"
    "        elif [[ $values == *\" $word \"* ]]; then\n"
    "            [[ ${COMP_WORDS[i]} == = ]] && (( i < COMP_CWORD )) && (( i++ ))\n"
    "            (( i >= COMP_CWORD )) && pending=$word && break\n"
    "            (( i++ ))\n"
    "            [[ $enders == *\" $word \"* ]] && ended=yes\n"
    "        elif [[ $word == -- ]]; then\n"
    "            ended=yes\n"
    "        elif [[ $word != -?* && ! $command ]]; then\n"
    "            command=$word\n"
    "            _glovebox_table \"$command\"\n"
    "        elif [[ $word != -?* && $stops ]]; then\n"
    "            ended=yes\n"
    "        fi\n"
    "    done\n"
    "    [[ $cur == = ]] && cur=''\n"
    "    if [[ $pending ]]; then\n"
    "        words='' files=''\n"
    "        [[ $paths == *\" $pending \"* ]] && files=-f\n"
    "        [[ $dirs == *\" $pending \"* ]] && files=-d\n"
    "        _glovebox_choices\n"
    "    elif [[ ! $ended && $cur == -* ]]; then\n"
    "        words=$options files=''\n"
    "    fi\n"
    "    if [[ $files ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen $files -- \"$cur\")\n"
    "    elif [[ $words ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
    "    fi\n"
    "}\n"
    "complete -F _glovebox glovebox\n";

static int bash_write(FILE *out)
{
    fprintf(out, "# bash completion for glovebox; %s\n_glovebox_table() {\n", generated);
    fputs("    local commands='", out);
    write_commands(out);
    fputs("'\n    options='' values='' enders='' paths='' dirs='' stops='' words='' files=''\n    "
          "case $1 in\n",
          out);
    for (size_t i = 0; i <= schema->commands_len; i++)
        bash_command(out, command_at(i));
    fputs("    esac\n}\n\n_glovebox_choices() {\n    case $command,$pending in\n", out);
    for (size_t i = 0; i <= schema->commands_len; i++)
        FOR_EACH_OPTION(option, command_at(i))
        {
            if (!option->choices)
                continue;
            fprintf(out, "    %s,--%s) words='", command_at(i)->name, option->name);
            write_choices(out, option);
            fputs("' ;;\n", out);
        }
    fprintf(out, "    esac\n}\n\n%s", bash_script);
    return 0;
}

/* ---- zsh ---- */

/* Text inside single quotes and [brackets] of an _arguments specification. */
static void zsh_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static void zsh_value(FILE *out, const struct config_option *option)
{
    if (!takes_value(option))
        return;
    fprintf(out, ":%s:", option->metavar ? option->metavar : option->name);
    if (option->choices) {
        fputc('(', out);
        write_choices(out, option);
        fputc(')', out);
    } else if (wants_file(option)) {
        fputs("_files", out);
    } else if (wants_dir(option)) {
        fputs("_directories", out);
    } else {
        fputc(' ', out);
    }
}

static void zsh_option(FILE *out, const struct config_option *option, const char *name,
                       bool is_long)
{
    fprintf(out, " \\\n            '%s%s%s[", option->type == OPT_LIST ? "*" : "", name,
            takes_value(option) ? (is_long ? "=" : "+") : "");
    zsh_text(out, option->help);
    fputc(']', out);
    zsh_value(out, option);
    fputc('\'', out);
}

static void zsh_options(FILE *out, const struct config_command *command)
{
    char name[CONFIG_NAME_MAX];

    FOR_EACH_OPTION(option, command)
    {
        if (option->letter) {
            snprintf(name, sizeof name, "-%c", option->letter);
            zsh_option(out, option, name, false);
        }
        if (has_long(option)) {
            snprintf(name, sizeof name, "--%s", option->name);
            zsh_option(out, option, name, true);
        }
    }
}

static void zsh_positionals(FILE *out, const struct config_command *command)
{
    static const char *const positionals[] = {
        [CONFIG_ARGS_NONE] = "",
        [CONFIG_ARGS_FILES] = " \\\n            '*:file:_files'",
        [CONFIG_ARGS_COMMANDS] = " \\\n            '1:command:_glovebox_commands'",
    };

    if (command->args == CONFIG_ARGS_WORDS)
        fprintf(out, " \\\n            '1:action:(%s)' '*:argument: '", command->words);
    else
        fputs(positionals[command->args], out);
}

static int zsh_write(FILE *out)
{
    fprintf(out, "#compdef glovebox\n# zsh completion for glovebox; %s\n", generated);
    fputs("_glovebox_commands() {\n    local -a commands=(", out);
    for (size_t i = 0; i < schema->commands_len; i++) {
        fprintf(out, "\n        '%s:", schema->commands[i].name);
        zsh_text(out, schema->commands[i].summary);
        fputc('\'', out);
    }
    fputs("\n    )\n    _describe command commands\n}\n\n_glovebox() {\n"
          "    local curcontext=$curcontext state state_descr line\n"
          "    typeset -A opt_args\n"
          "    _arguments -C -A '-*'",
          out);
    zsh_options(out, &options_global);
    fputs(" \\\n            '1:command:_glovebox_commands' '*::argument:->argument' && return\n"
          "    [[ $state == argument ]] || return\n    case $words[1] in\n",
          out);
    for (size_t i = 0; i < schema->commands_len; i++) {
        const struct config_command *command = &schema->commands[i];

        fprintf(out, "    %s)\n        _arguments -S%s", command->name,
                command->stops ? " -A '-*'" : "");
        zsh_options(out, command);
        zsh_positionals(out, command);
        fputs("\n        ;;\n", out);
    }
    fputs("    esac\n}\n\n"
          "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n    _glovebox \"$@\"\n"
          "else\n    compdef _glovebox glovebox\nfi\n",
          out);
    return 0;
}

/* ---- fish ---- */

static void fish_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++)
        fprintf(out, strchr("'\\", *text) ? "\\%c" : "%c", *text);
    fputc('\'', out);
}

static void fish_option(FILE *out, const struct config_command *command,
                        const struct config_option *option)
{
    fputs("complete -c glovebox -n ", out);
    if (*command->name)
        fprintf(out, "'__fish_seen_subcommand_from %s'", command->name);
    else
        fputs("__fish_use_subcommand", out);
    if (option->letter)
        fprintf(out, " -s %c", option->letter);
    if (has_long(option))
        fprintf(out, " -l %s", option->name);
    if (option->choices) {
        fputs(" -xa '", out);
        write_choices(out, option);
        fputc('\'', out);
    } else if (wants_file(option)) {
        fputs(" -rF", out);
    } else if (wants_dir(option)) {
        fputs(" -xa '(__fish_complete_directories)'", out);
    } else if (takes_value(option)) {
        fputs(" -x", out);
    }
    fputs(" -d ", out);
    fish_quoted(out, option->help);
    fputc('\n', out);
}

static int fish_write(FILE *out)
{
    fprintf(out, "# fish completion for glovebox; %s\ncomplete -c glovebox -f\n", generated);
    for (size_t i = 0; i < schema->commands_len; i++) {
        const struct config_command *command = &schema->commands[i];

        fprintf(out, "complete -c glovebox -n __fish_use_subcommand -a %s -d ", command->name);
        fish_quoted(out, command->summary);
        fputc('\n', out);
        if (command->args == CONFIG_ARGS_FILES)
            fprintf(out, "complete -c glovebox -n '__fish_seen_subcommand_from %s' -F\n",
                    command->name);
        if (command->args == CONFIG_ARGS_WORDS)
            fprintf(out, "complete -c glovebox -n '__fish_seen_subcommand_from %s' -a '%s'\n",
                    command->name, command->words);
        if (command->args == CONFIG_ARGS_COMMANDS) {
            fprintf(out, "complete -c glovebox -n '__fish_seen_subcommand_from %s' -a '",
                    command->name);
            write_commands(out);
            fputs("'\n", out);
        }
    }
    for (size_t i = 0; i <= schema->commands_len; i++)
        FOR_EACH_OPTION(option, command_at(i))
        {
            fish_option(out, command_at(i), option);
        }
    return 0;
}

/* ---- the program ---- */

static int document_write(const char *kind, FILE *out, const char *prose, struct gb_err *err)
{
    static const struct {
        const char *kind;
        int (*write)(FILE *out);
    } others[] = {
        { "bash", bash_write },
        { "zsh", zsh_write },
        { "fish", fish_write },
        { "markdown", help_write_markdown },
    };

    if (strcmp(kind, "man") == 0)
        return man_write(out, prose, err);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (strcmp(kind, others[i].kind) == 0)
            return others[i].write(out);
    return gb_fail_plain(err, EINVAL, "unknown document '%s'", kind);
}

int main(int argc, char **argv)
{
    struct gb_err err = { 0 };
    FILE *out;
    int r;

    if (argc < 3 || argc > 4) {
        fputs("usage: gen_docs man|bash|zsh|fish|markdown OUT [PROSE]\n", stderr);
        return 2;
    }
    out = fopen(argv[2], "we");
    if (!out) {
        fprintf(stderr, "gen_docs: %s: %s\n", argv[2], strerror(errno));
        return 1;
    }
    r = document_write(argv[1], out, argc > 3 ? argv[3] : NULL, &err);
    if (fclose(out) != 0 && r == 0)
        r = gb_fail(&err, errno, "write %s", argv[2]);
    if (r < 0) {
        fprintf(stderr, "gen_docs: %s\n", err.msg);
        (void) remove(argv[2]); /* half a page must not pass for a whole one */
        return 1;
    }
    return 0;
}
