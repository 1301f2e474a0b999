/*
 * gen_docs man|bash|zsh|fish|markdown OUT [PROSE]: a build-time program that writes the manual and
 * the completions.
 *
 * Everything the option table contains is generated from it, so that it cannot be wrong. The rest
 * is prose: docs/glovebox.1.md, whose sections are inserted into the manual at their places. The
 * prose is a small subset of Markdown (headings, paragraphs, lists, blocks of code, `code` and
 * **bold**); anything else is an error that names the line, never a defect on the page.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/err.h"
#include "cli/options/help.h"
#include "gen_docs/gen_docs.h"

#include "base/banned.h"

#define PROSE_BYTES_MAX    (1 << 20)
#define PROSE_SECTIONS_MAX 24

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
        return gb_fail_about(err, ENOMEM, "prose");
    while ((line = strsep(&at, "\n"))) {
        for (const char *p = line; *p; p++)
            if (*p < 0x20 || *p > 0x7e)
                return prose_fail(err, prose->lines_len + 1, "a character that is not ASCII text");
        prose->lines[prose->lines_len++] = line;
    }
    return 0;
}

/* Whether @line starts a block of code, optionally with a language after the fence, or ends one. */
static bool is_fence(const char *line, bool in_code)
{
    if (strncmp(line, "```", 3) != 0)
        return false;
    line += 3;
    return !line[in_code ? 0 : strspn(line, "abcdefghijklmnopqrstuvwxyz")];
}

/* A comment on one line: the tests of the documents read it (tests/system/doc_kit.py). */
static bool is_comment(const char *line)
{
    size_t len = strlen(line);

    return len > 8 && strncmp(line, "<!-- ", 5) == 0 && strcmp(line + len - 4, " -->") == 0;
}

static int prose_find_sections(struct prose *prose, struct gb_err *err)
{
    struct prose_section *section = NULL;
    bool code = false;

    for (size_t i = 0; i < prose->lines_len; i++) {
        char *line = prose->lines[i];

        if (is_fence(line, code))
            code = !code;
        else if (!code && strncmp(line, "```", 3) == 0)
            return prose_fail(err, i + 1, "a code fence with more than a language after it");
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
            return prose_fail(err, number, "unsupported markup; put it in `code`");
        } else {
            roff_char(out, *text);
        }
    }
    fputc('\n', out);
    return code || bold ? prose_fail(err, number, "`code` or **bold** without an end") : 0;
}

enum prose_state { PROSE_BETWEEN, PROSE_PARAGRAPH, PROSE_ITEM, PROSE_CODE };

/* Writes one line; @state is the state after the previous line. */
static int prose_line(FILE *out, const char *line, size_t number, enum prose_state *state,
                      struct gb_err *err)
{
    if (is_fence(line, *state == PROSE_CODE)) {
        fputs(*state == PROSE_CODE ? ".EE\n.RE\n" : ".PP\n.RS 4\n.EX\n", out);
        *state = *state == PROSE_CODE ? PROSE_BETWEEN : PROSE_CODE;
        return 0;
    }
    if (*state == PROSE_CODE) {
        roff_text(out, line);
        fputc('\n', out);
        return 0;
    }
    if (!*line || is_comment(line)) {
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
    if (*state == PROSE_ITEM || strchr(" #>+=", *line))
        return prose_fail(err, number, "an unsupported block");
    if (*state == PROSE_BETWEEN)
        fputs(".PP\n", out);
    *state = PROSE_PARAGRAPH;
    return prose_inline(out, line, number, err);
}

/* Inserts the section @title, which must exist. */
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
            return prose_fail(err, prose->sections[i].line - 1, "an unknown section");
    return 0;
}

/* ---- the manual ---- */

static void man_head(FILE *out)
{
    fprintf(out, ".\\\" %s\n.TH GLOVEBOX 1 \"\" \"glovebox %s\" \"User Commands\"\n", generated,
            GLOVEBOX_VERSION);
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
    fputs("\nSame as ", out);
    roff_font(out, 'B', name);
    if (alias->unit == 1 << 20)
        fputs(", as an integer in MiB", out);
    else if (alias->unit)
        fprintf(out, ", as an integer in units of %lld", (long long) alias->unit);
    fputs(". Ignored if the GLOVEBOX_ variable is set.\n", out);
}

static void man_environment(FILE *out)
{
    fputs(
        ".SH ENVIRONMENT\nEvery long option except \\fB\\-\\-help\\fR and "
        "\\fB\\-\\-version\\fR can be set with an environment variable: the name of the option in "
        "upper case, with underscores instead of dashes, prefixed with ",
        out);
    roff_font(out, 'B', schema->env_prefix);
    fputs(".\nA variable with an invalid or empty value is an error.\n"
          "These variables are read, too:\n",
          out);
    for (size_t i = 0; i < schema->options_len; i++)
        for (size_t k = 0; k < ARRAY_LEN(schema->options[i].aliases); k++)
            if (schema->options[i].aliases[k].variable)
                man_alias(out, &schema->options[i], &schema->options[i].aliases[k]);
    fputs(".TP\n\\fBXDG_CONFIG_HOME\\fR, \\fBHOME\\fR\nLocation of the user\\(aqs configuration "
          "file.\n",
          out);
}

static void man_see_also(FILE *out)
{
    fputs(".SH \"SEE ALSO\"\n.BR python3 (1),\n.BR namespaces (7),\n.BR cgroups (7),\n"
          ".BR seccomp (2),\n.BR landlock (7)\n",
          out);
}

/* The sections of the page in order: from the prose, or generated. */
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
    { "ASKING", NULL },
    { "ASSISTANTS", NULL },
    { "TERMINALS", NULL },
    { "CONFIGURATION", NULL },
    { NULL, man_environment },
    { "FILES", NULL },
    { "RECEIPTS AND STATUSES", NULL },
    { "DOCTOR", NULL },
    { "KEYS", NULL },
    { "ACCOUNTS", NULL },
    { "DATA SOURCES", NULL },
    { "TEMPLATES", NULL },
    { "AUDIT LOG", NULL },
    { "STORE", NULL },
    { "RATINGS", NULL },
    { "EXPORTS", NULL },
    { "VERIFIED ANSWERS", NULL },
    { "EVALUATION", NULL },
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
        (void) remove(argv[2]); /* an incomplete page must not be used */
        return 1;
    }
    return 0;
}
