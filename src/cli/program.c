#include "cli/program.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/utf8.h"
#include "engine/engine.h"

#include "base/banned.h"

#define ARGUMENTS_MAX 9000 /* fits into a RUN message, with room to spare */

static int read_all(int fd, const char *name, struct program *program, struct gb_err *err)
{
    size_t cap = 65536;
    ssize_t n;

    for (;;) {
        char *more = realloc(program->code, cap + 1);

        if (!more)
            return gb_fail(err, ENOMEM, "read %s", name);
        program->code = more;
        n = io_read_all(fd, program->code + program->len, cap - program->len);
        if (n < 0)
            return gb_fail(err, (int) -n, "read %s", name);
        program->len += (size_t) n;
        if (program->len < cap)
            return 0;
        if (cap > PROGRAM_MAX)
            return gb_fail_plain(err, EFBIG,
                                 "the program is larger than 8 MiB: put its data into a file and "
                                 "pass that with --file");
        cap *= 2;
    }
}

static int read_file(const char *path, struct program *program, struct gb_err *err)
{
    /* A pipe is fine (process substitution), but one without a writer must not hang us. */
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0)
        return gb_fail(err, errno, "read '%s'", path);
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        return gb_fail_plain(err, EISDIR, "'%s' is a directory: name a Python file", path);
    (void) fcntl(fd, F_SETFL, 0);
    return read_all(fd, path, program, err);
}

/* PEP 263: a program may say in its first two lines that it is not UTF-8. */
static bool declares_coding(const struct program *program)
{
    const char *end = program->code + program->len, *line = program->code;

    for (int i = 0; i < 2 && line < end; i++) {
        const char *next = memchr(line, '\n', (size_t) (end - line));
        size_t len = next ? (size_t) (next - line) : (size_t) (end - line);

        if (memchr(line, '#', len) &&
            (memmem(line, len, "coding:", 7) || memmem(line, len, "coding=", 7)))
            return true;
        line += len + 1;
    }
    return false;
}

/* Where the text stops being UTF-8; its length when it never does. */
static size_t utf8_length(const char *text, size_t len)
{
    size_t at = 0, unit;

    while (at < len && utf8_next(text + at, len - at, &unit) == UTF8_CHAR)
        at += unit;
    return at;
}

static int check(const struct program *program, const char *name, struct gb_err *err)
{
    const char *nul;
    size_t valid;

    if (program->len == 0)
        return gb_fail_plain(err, EINVAL, "the program (%s) is empty: nothing to run", name);
    if (program->len > PROGRAM_MAX)
        return gb_fail_plain(err, EFBIG,
                             "the program is larger than 8 MiB: put its data into a "
                             "file and pass that with --file");
    nul = memchr(program->code, '\0', program->len);
    if (nul)
        return gb_fail_plain(err, EINVAL,
                             "the program has a NUL byte at offset %zu: is it a text file?",
                             (size_t) (nul - program->code));
    valid = utf8_length(program->code, program->len);
    if (valid < program->len && !declares_coding(program))
        return gb_fail_plain(err, EILSEQ,
                             "the program is not UTF-8 at offset %zu: convert it, or declare its "
                             "encoding in the first line (# coding: latin-1)",
                             valid);
    return 0;
}

static int make_argv(const struct config *cfg, struct program *program, const char *first,
                     struct gb_err *err)
{
    int skip = cfg->code ? 0 : 1; /* FILE is one of the positionals, CODE is not */
    int more = cfg->args_len - skip;

    if (more > ARGUMENTS_MAX)
        return gb_fail_plain(err, E2BIG, "more than %d arguments: pass them in a file",
                             ARGUMENTS_MAX);
    program->argv = calloc((size_t) more + 2, sizeof *program->argv);
    if (!program->argv)
        return gb_fail(err, ENOMEM, "pass the arguments");
    program->argv[0] = (char *) first;
    for (int i = 0; i < more; i++)
        program->argv[i + 1] = cfg->args[skip + i];
    return 0;
}

int program_load(const struct config *cfg, struct program *ret_program, struct gb_err *err)
{
    struct program program = { 0 };
    const char *first = cfg->code ? "-c" : cfg->args[0];
    int r;

    if (cfg->code) {
        program.code = strdup(cfg->code);
        program.len = strlen(cfg->code);
        program.filename = "<string>";
        r = program.code ? 0 : gb_fail(err, ENOMEM, "read the program");
    } else if (strcmp(first, "-") == 0) {
        program.filename = "<stdin>";
        r = read_all(STDIN_FILENO, "standard input", &program, err);
    } else {
        const char *slash = strrchr(first, '/');

        program.filename = first = slash ? slash + 1 : first;
        r = read_file(cfg->args[0], &program, err);
    }
    if (r == 0)
        r = check(&program, program.filename, err);
    if (r == 0)
        r = make_argv(cfg, &program, first, err);
    if (r < 0) {
        program_release(&program);
        return r;
    }
    *ret_program = program;
    return 0;
}

void program_release(struct program *program)
{
    free(program->code);
    free(program->argv);
    *program = (struct program){ 0 };
}

/* ---- what to preload ---- */

static bool is_word_byte(char c)
{
    return isalnum((unsigned char) c) || c == '_';
}

static bool names(const struct program *program, const char *word)
{
    const char *at = program->code, *end = program->code + program->len;
    size_t len = strlen(word);

    while ((at = memmem(at, (size_t) (end - at), word, len))) {
        bool starts = at == program->code || !is_word_byte(at[-1]);
        bool ends = at + len == end || !is_word_byte(at[len]);

        if (starts && ends)
            return true;
        at += len;
    }
    return false;
}

static int add_name(char *buf, size_t size, size_t *used, const char *name, size_t len)
{
    if (*used + len + 2 > size)
        return -E2BIG;
    if (*used > 0)
        buf[(*used)++] = ' ';
    memcpy(buf + *used, name, len);
    *used += len;
    buf[*used] = '\0';
    return 0;
}

/* A dotted module is wanted if its last part is named and its first part is too. */
static bool wants(const struct program *program, const char *module, size_t len)
{
    char name[64];
    char *dot;

    snprintf(name, sizeof name, "%.*s", (int) len, module);
    dot = strrchr(name, '.');
    if (!dot)
        return names(program, name);
    *dot = '\0';
    return names(program, name) && names(program, dot + 1);
}

static bool has_name(const char *list, const char *name, size_t len)
{
    for (const char *at = list; *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == len && strncmp(at, name, len) == 0)
            return true;
    return false;
}

int program_preload(const struct program *program, const char *which, const char *all, char *buf,
                    size_t size, struct gb_err *err)
{
    bool automatic = strcmp(which, "auto") == 0;
    const char *at = automatic || strcmp(which, "all") == 0 ? all : which;
    size_t used = 0;

    buf[0] = '\0';
    if (strcmp(which, "none") == 0)
        return 0;
    if (!at)
        at = engine_preload_all;
    while (*at) {
        size_t len = strcspn(at, " ,");

        if (len > 0 && (!automatic || wants(program, at, len)) && !has_name(buf, at, len) &&
            add_name(buf, size, &used, at, len) < 0)
            return gb_fail_plain(err, E2BIG, "--preload names too many modules");
        at += len + (at[len] != '\0');
    }
    return 0;
}
