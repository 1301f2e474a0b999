#include "base/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/parse.h"
#include "base/text/strv.h"

#include "base/banned.h"

#define FILE_BYTES_MAX 65536
#define LINE_BYTES_MAX 4096
#define LABEL_MAX      (FORMAT_QUOTED_MAX + CONFIG_NAME_MAX + 24)

static const char blanks[] = " \t\r\v\f";

/* ---- words for people ---- */

/* The end of a long path says more than its beginning. */
static void quote_path(const char *path, char buf[FORMAT_QUOTED_MAX])
{
    char end[FORMAT_QUOTED_MAX - 8];
    size_t len = strlen(path), most = sizeof end - 4;

    snprintf(end, sizeof end, "%s%s", len > most ? "..." : "",
             len > most ? path + len - most : path);
    format_quoted(end, buf);
}

static void format_number(const struct config_option *option, int64_t value,
                          char buf[FORMAT_NUMBER_MAX])
{
    if (option->type == OPT_SIZE)
        format_size(value, buf);
    else if (option->type == OPT_SECONDS)
        format_fixed(value, USEC_PER_SEC, buf);
    else
        format_fixed(value, option->type == OPT_CPUS ? 1000 : 1, buf);
}

static void join(const char *const *words, const char *between, char buf[CONFIG_TEXT_MAX])
{
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; words[i] && used < CONFIG_TEXT_MAX; i++)
        used += (size_t) snprintf(buf + used, CONFIG_TEXT_MAX - used, "%s%s", i ? between : "",
                                  words[i]);
}

static void describe_range(const struct config_option *option, const char *what,
                           const char *example, char buf[CONFIG_TEXT_MAX])
{
    char min[FORMAT_NUMBER_MAX], max[FORMAT_NUMBER_MAX];

    format_number(option, option->min, min);
    format_number(option, option->max, max);
    snprintf(buf, CONFIG_TEXT_MAX, "%s from %s to %s%s", what, min, max, example);
}

void config_describe(const struct config_option *option, char buf[CONFIG_TEXT_MAX])
{
    char words[CONFIG_TEXT_MAX];

    if (option->expected) {
        snprintf(buf, CONFIG_TEXT_MAX, "%s", option->expected);
        return;
    }
    switch (option->type) {
    case OPT_BOOL:
        snprintf(buf, CONFIG_TEXT_MAX, "yes or no");
        break;
    case OPT_INT:
        describe_range(option, "a whole number", "", buf);
        break;
    case OPT_SIZE:
        describe_range(option, "a size", ", such as 512m", buf);
        break;
    case OPT_SECONDS:
        describe_range(option, "seconds", ", such as 30 or 0.5", buf);
        break;
    case OPT_CPUS:
        describe_range(option, "a number", ", such as 1.5", buf);
        break;
    case OPT_CHOICE:
        join(option->choices, ", ", words);
        snprintf(buf, CONFIG_TEXT_MAX, "one of %.80s", words);
        break;
    case OPT_STRING:
        snprintf(buf, CONFIG_TEXT_MAX, "a text of %lld to %lld bytes", (long long) option->min,
                 (long long) option->max);
        break;
    case OPT_LIST:
        snprintf(buf, CONFIG_TEXT_MAX, "at most %lld values, none of them empty",
                 (long long) option->max);
        break;
    }
}

void config_metavar(const struct config_option *option, char buf[CONFIG_TEXT_MAX])
{
    buf[0] = '\0';
    if (option->metavar)
        snprintf(buf, CONFIG_TEXT_MAX, "%s", option->metavar);
    else if (option->choices)
        join(option->choices, "|", buf);
}

void config_env_name(const struct config_schema *schema, const struct config_option *option,
                     char buf[CONFIG_NAME_MAX])
{
    snprintf(buf, CONFIG_NAME_MAX, "%s%s", schema->env_prefix, option->name);
    for (char *p = buf + strlen(schema->env_prefix); *p; p++) {
        if (*p == '-')
            *p = '_';
        else if (*p >= 'a' && *p <= 'z')
            *p = (char) (*p - 'a' + 'A');
    }
}

/* ---- near misses ---- */

static const char *suggest_option(const struct config_load *load, const char *given)
{
    const char *best = NULL;
    size_t best_cost = 3;

    for (size_t i = 0; i < load->schema->options_len; i++) {
        const struct config_option *option = &load->schema->options[i];
        size_t cost;

        if (option->flags & CONFIG_LETTER_ONLY || !(option->commands & load->command->mask))
            continue;
        cost = word_miss(given, option->name);
        if (cost < best_cost) {
            best_cost = cost;
            best = option->name;
        }
    }
    return best;
}

int config_find_command(const struct config_schema *schema, const char *name,
                        const struct config_command **ret_command, struct gb_err *err)
{
    const struct config_command *best = NULL;
    size_t best_cost = 3;
    char quoted[FORMAT_QUOTED_MAX];

    for (size_t i = 0; i < schema->commands_len; i++) {
        size_t cost = word_miss(name, schema->commands[i].name);

        if (strcmp(name, schema->commands[i].name) == 0) {
            *ret_command = &schema->commands[i];
            return 0;
        }
        if (cost < best_cost) {
            best_cost = cost;
            best = &schema->commands[i];
        }
    }
    format_quoted(name, quoted);
    if (best)
        return gb_fail_plain(err, EINVAL, "unknown command %s; did you mean '%s'?", quoted,
                             best->name);
    return gb_fail_plain(err, EINVAL, "unknown command %s; '%s --help' lists them", quoted,
                         schema->program);
}

/* ---- one value ---- */

static int choice_parse(const struct config_option *option, const char *text, int64_t *ret_index)
{
    for (int64_t i = 0; option->choices[i]; i++)
        if (strcmp(option->choices[i], text) == 0) {
            *ret_index = i;
            return 0;
        }
    return -EINVAL;
}

static int string_check(const struct config_option *option, const char *text)
{
    int64_t len = (int64_t) strlen(text);
    int64_t min = option->type == OPT_LIST ? 1 : option->min;
    int64_t max = option->type == OPT_LIST ? LINE_BYTES_MAX : option->max;

    if (len < min || len > max)
        return -ERANGE;
    return option->valid && !option->valid(text) ? -EINVAL : 0;
}

static int number_parse(const struct config_option *option, const char *text, int64_t unit,
                        int64_t *ret_number)
{
    int64_t number = 0;
    int r;

    if (unit || option->type == OPT_INT)
        r = parse_int(text, &number);
    else if (option->type == OPT_SIZE)
        r = parse_size(text, &number);
    else if (option->type == OPT_SECONDS)
        r = parse_seconds(text, &number);
    else
        r = parse_cpus(text, &number);
    if (r < 0)
        return r;
    if (unit && __builtin_mul_overflow(number, unit, &number))
        return -ERANGE;
    if (number < option->min || number > option->max)
        return -ERANGE;
    *ret_number = number;
    return 0;
}

static int value_parse(const struct config_option *option, const char *text, int64_t unit,
                       int64_t *ret_number)
{
    bool yes;
    int r;

    switch (option->type) {
    case OPT_BOOL:
        r = parse_bool(text, &yes);
        if (r == 0)
            *ret_number = yes;
        return r;
    case OPT_CHOICE:
        return choice_parse(option, text, ret_number);
    case OPT_STRING:
    case OPT_LIST:
        return string_check(option, text);
    case OPT_INT:
    case OPT_SIZE:
    case OPT_SECONDS:
    case OPT_CPUS:
        return number_parse(option, text, unit, ret_number);
    }
    return -EINVAL;
}

static int value_refuse(const struct config_option *option, const char *label, const char *text,
                        int64_t unit, int why, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX], right[CONFIG_TEXT_MAX];

    format_quoted(text, quoted);
    config_describe(option, right);
    if (unit)
        snprintf(right, sizeof right, "a whole number from %lld to %lld",
                 (long long) ((option->min + unit - 1) / unit), (long long) (option->max / unit));
    return gb_fail_plain(err, -why, "%s: %s is %s; give %s", label, quoted,
                         why == -ERANGE ? "out of range" : "not valid", right);
}

static int list_append(const struct config_option *option, char ***list, const char *text)
{
    if ((int64_t) strv_len((const char *const *) *list) >= option->max)
        return -ERANGE;
    return strv_add(list, text);
}

static int string_store(char **member, const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        return -ENOMEM;
    free(*member);
    *member = copy;
    return 0;
}

static int value_store(const struct config_option *option, void *target, const char *text,
                       int64_t number)
{
    void *member = (char *) target + option->offset;

    switch (option->type) {
    case OPT_BOOL:
        *(bool *) member = number != 0;
        return 0;
    case OPT_CHOICE:
        *(int *) member = (int) number;
        return 0;
    case OPT_STRING:
        return string_store(member, text);
    case OPT_LIST:
        return list_append(option, member, text);
    case OPT_INT:
    case OPT_SIZE:
    case OPT_SECONDS:
    case OPT_CPUS:
        *(int64_t *) member = number;
        return 0;
    }
    return -EINVAL;
}

/* Checks @text, and stores it unless a stronger source has set the option. @label names the
 * source. */
static int value_apply(struct config_load *load, const struct config_option *option,
                       const char *label, const char *text, int64_t unit, struct gb_err *err)
{
    ptrdiff_t row = option - load->schema->options;
    int64_t number = 0;
    int r;

    r = value_parse(option, text, unit, &number);
    if (r < 0)
        return value_refuse(option, label, text, unit, r, err);
    if (load->set[row] && !(option->flags & CONFIG_ADDS))
        return 0;
    load->set_here[row] = true;
    r = value_store(option, load->target, text, number);
    if (r == -ERANGE)
        return value_refuse(option, label, text, unit, r, err);
    return r < 0 ? gb_fail_about(err, -r, "%s", label) : 0;
}

static int source_done(struct config_load *load)
{
    for (size_t i = 0; i < load->schema->options_len; i++)
        load->set[i] |= load->set_here[i];
    memset(load->set_here, 0, sizeof(load->set_here));
    return 0;
}

/* ---- the command line ---- */

struct args {
    int argc;
    char **argv;
    int at; /* the next argument */
};

static const struct config_option *find_long(const struct config_schema *schema, const char *name,
                                             size_t len)
{
    for (size_t i = 0; i < schema->options_len; i++) {
        const struct config_option *option = &schema->options[i];

        if (!(option->flags & CONFIG_LETTER_ONLY) && strlen(option->name) == len &&
            memcmp(option->name, name, len) == 0)
            return option;
    }
    return NULL;
}

static const struct config_option *find_letter(const struct config_schema *schema, char letter)
{
    for (size_t i = 0; i < schema->options_len; i++)
        if (schema->options[i].letter == letter)
            return &schema->options[i];
    return NULL;
}

static int option_unknown(const struct config_load *load, const char *arg, struct gb_err *err)
{
    const char *program = load->schema->program, *name = load->command->name, *near = NULL;
    char quoted[FORMAT_QUOTED_MAX], word[WORD_MAX];
    size_t len = strcspn(arg, "=");

    format_quoted(arg, quoted);
    if (strncmp(arg, "--", 2) == 0 && len - 2 < WORD_MAX) {
        snprintf(word, sizeof word, "%.*s", (int) (len - 2), arg + 2);
        near = suggest_option(load, word);
    }
    if (near)
        return gb_fail_plain(err, EINVAL, "unknown option %s; did you mean --%s?", quoted, near);
    return gb_fail_plain(err, EINVAL, "unknown option %s; '%s%s%s --help' lists them", quoted,
                         program, *name ? " " : "", name);
}

/* The option exists, but belongs to another command. */
static int option_misplaced(const struct config_load *load, const struct config_option *option,
                            const char *label, struct gb_err *err)
{
    const struct config_schema *schema = load->schema;

    for (size_t i = 0; i < schema->commands_len; i++)
        if (option->commands & schema->commands[i].mask)
            return gb_fail_plain(err, EINVAL, "%s is an option of '%s %s'%s", label,
                                 schema->program, schema->commands[i].name,
                                 *load->command->name ? "" : "; write it after the command");
    return option_unknown(load, label, err);
}

/* Reads the value that follows in the next argument. */
static int value_next(struct args *args, const struct config_option *option, const char *label,
                      const char **ret_value, struct gb_err *err)
{
    const char *value;
    char metavar[CONFIG_TEXT_MAX];

    config_metavar(option, metavar);
    if (args->at >= args->argc)
        return gb_fail_plain(err, EINVAL, "%s: the value is missing; write %s %s", label, label,
                             metavar);
    value = args->argv[args->at];
    /* In "--out --json" the directory was most likely forgotten; few directories have such a
     * name. */
    if (label[1] == '-' && strncmp(value, "--", 2) == 0)
        return gb_fail_plain(err, EINVAL, "%s: the value is missing; write %s %s", label, label,
                             metavar);
    args->at++;
    *ret_value = value;
    return 0;
}

static int option_take(struct config_load *load, struct args *args,
                       const struct config_option *option, const char *label, const char *value,
                       struct gb_err *err)
{
    int r;

    if (!(option->commands & load->command->mask))
        return option_misplaced(load, option, label, err);
    if (!value && option->type == OPT_BOOL)
        value = "yes";
    if (!value) {
        r = value_next(args, option, label, &value, err);
        if (r < 0)
            return r;
    }
    r = value_apply(load, option, label, value, 0, err);
    if (r < 0)
        return r;
    return (option->flags & CONFIG_ENDS_OPTIONS) != 0;
}

static int long_take(struct config_load *load, struct args *args, const char *arg,
                     struct gb_err *err)
{
    const char *name = arg + 2, *equals = strchr(name, '=');
    size_t len = equals ? (size_t) (equals - name) : strlen(name);
    const struct config_option *option = find_long(load->schema, name, len);
    char label[CONFIG_NAME_MAX];

    if (!option)
        return option_unknown(load, arg, err);
    snprintf(label, sizeof label, "--%s", option->name);
    return option_take(load, args, option, label, equals ? equals + 1 : NULL, err);
}

static int letter_take(struct config_load *load, struct args *args, const char *arg,
                       struct gb_err *err)
{
    const struct config_option *option = find_letter(load->schema, arg[1]);
    char label[] = { '-', arg[1], '\0' };

    /* "-cCODE" means "-c CODE"; "-qh" is not two options. */
    if (!option || (arg[2] && option->type == OPT_BOOL))
        return option_unknown(load, arg, err);
    return option_take(load, args, option, label, arg[2] ? arg + 2 : NULL, err);
}

static bool is_option(const char *arg)
{
    return arg[0] == '-' && arg[1]; /* "-" alone stands for standard input */
}

/* Walks the arguments. @kept gets the options and their values, @rest the positionals. */
static int args_walk(struct config_load *load, struct args *args, char **kept, int *kept_len,
                     char **rest, int *rest_len, struct gb_err *err)
{
    while (args->at < args->argc) {
        int first = args->at, r = 0;
        char *arg = args->argv[first];

        if (!is_option(arg)) {
            if (load->command->stops)
                return 0;
            rest[(*rest_len)++] = arg;
            args->at++;
            continue;
        }
        args->at++;
        if (strcmp(arg, "--") == 0)
            r = 1;
        else if (arg[1] == '-')
            r = long_take(load, args, arg, err);
        else
            r = letter_take(load, args, arg, err);
        if (r < 0)
            return r;
        for (int i = first; i < args->at; i++)
            kept[(*kept_len)++] = args->argv[i];
        if (r > 0)
            return 0;
    }
    return 0;
}

int config_load_args(struct config_load *load, int argc, char **argv, int *ret_next,
                     struct gb_err *err)
{
    struct args args = { .argc = argc, .argv = argv };
    autofree char **kept = calloc((size_t) argc + 1, sizeof *kept);
    autofree char **rest = calloc((size_t) argc + 1, sizeof *rest);
    int kept_len = 0, rest_len = 0, r;

    if (!kept || !rest)
        return gb_fail(err, ENOMEM, "read the command line");
    r = args_walk(load, &args, kept, &kept_len, rest, &rest_len, err);
    if (r < 0)
        return r;
    /* Arguments that the walk did not reach are positional and already in place. */
    for (int i = 0; i < kept_len; i++)
        argv[i] = kept[i];
    for (int i = 0; i < rest_len; i++)
        argv[kept_len + i] = rest[i];
    *ret_next = kept_len;
    return source_done(load);
}

/* ---- the environment ---- */

/* A list is one variable with commas in it. */
static int env_apply_list(struct config_load *load, const struct config_option *option,
                          const char *variable, const char *text, struct gb_err *err)
{
    autofree char *copy = strdup(text);
    char *at = copy, *item;

    if (!copy)
        return gb_fail_about(err, ENOMEM, "%s", variable);
    while ((item = strsep(&at, ","))) {
        int r = value_apply(load, option, variable, item, 0, err);

        if (r < 0)
            return r;
    }
    return 0;
}

static int env_apply(struct config_load *load, const struct config_option *option,
                     const char *variable, int64_t unit, struct gb_err *err)
{
    const char *text = getenv(variable);

    if (!text)
        return 0;
    if (option->type == OPT_LIST)
        return env_apply_list(load, option, variable, text, err);
    return value_apply(load, option, variable, text, unit, err);
}

static bool is_settable(const struct config_load *load, const struct config_option *option)
{
    return (option->commands & load->command->mask) && !(option->flags & CONFIG_ARGS_ONLY);
}

int config_load_env(struct config_load *load, struct gb_err *err)
{
    const struct config_schema *schema = load->schema;
    int r;

    for (size_t i = 0; i < schema->options_len; i++) {
        const struct config_option *option = &schema->options[i];
        char variable[CONFIG_NAME_MAX];

        if (!is_settable(load, option))
            continue;
        /* Aliases first, then our own name: within one source the last value wins. */
        for (size_t k = 0; k < ARRAY_LEN(option->aliases); k++) {
            if (!option->aliases[k].variable)
                continue;
            r = env_apply(load, option, option->aliases[k].variable, option->aliases[k].unit, err);
            if (r < 0)
                return r;
        }
        config_env_name(schema, option, variable);
        r = env_apply(load, option, variable, 0, err);
        if (r < 0)
            return r;
    }
    return source_done(load);
}

/* ---- files ---- */

static char *trim(char *text)
{
    size_t len;

    text += strspn(text, blanks);
    for (len = strlen(text); len > 0 && strchr(blanks, text[len - 1]); len--)
        text[len - 1] = '\0';
    return text;
}

/* A '#' at the start of a line or after a blank begins a comment. */
static void drop_comment(char *line)
{
    for (char *p = line; *p; p++)
        if (*p == '#' && (p == line || strchr(blanks, p[-1]))) {
            *p = '\0';
            return;
        }
}

static int line_unknown(const struct config_load *load, const char *where, const char *name,
                        struct gb_err *err)
{
    const char *near = suggest_option(load, name);
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(name, quoted);
    if (near)
        return gb_fail_plain(err, EINVAL, "%s: unknown option %s; did you mean '%s'?", where,
                             quoted, near);
    return gb_fail_plain(err, EINVAL, "%s: unknown option %s; '%s --help' lists them", where,
                         quoted, load->schema->program);
}

static int line_apply(struct config_load *load, const char *where, char *line, struct gb_err *err)
{
    const struct config_option *option;
    char *name, *equals, quoted[FORMAT_QUOTED_MAX], label[LABEL_MAX];

    drop_comment(line);
    name = trim(line);
    if (!*name)
        return 0;
    equals = strchr(name, '=');
    if (!equals) {
        format_quoted(name, quoted);
        return gb_fail_plain(err, EINVAL, "%s: %s is not a setting; write name = value", where,
                             quoted);
    }
    *equals = '\0';
    name = trim(name);
    option = find_long(load->schema, name, strlen(name));
    if (!option)
        return line_unknown(load, where, name, err);
    if (option->flags & CONFIG_ARGS_ONLY)
        return gb_fail_plain(err, EINVAL, "%s: '%s' works on the command line only; remove it",
                             where, option->name);
    if (!is_settable(load, option))
        return 0; /* an option of another command: all commands read the file */
    snprintf(label, sizeof label, "%s: %s", where, option->name);
    return value_apply(load, option, label, trim(equals + 1), 0, err);
}

int config_load_text(struct config_load *load, const char *path, const char *text, size_t len,
                     struct gb_err *err)
{
    char line[LINE_BYTES_MAX + 1], quoted[FORMAT_QUOTED_MAX], where[FORMAT_QUOTED_MAX + 24];
    size_t number = 0;

    quote_path(path, quoted);
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t part = end ? (size_t) (end - text) : len;
        int r;

        snprintf(where, sizeof where, "%s line %zu", quoted, ++number);
        if (part > LINE_BYTES_MAX)
            return gb_fail_plain(err, EINVAL, "%s: too long; the maximum is %d bytes", where,
                                 LINE_BYTES_MAX);
        if (memchr(text, '\0', part))
            return gb_fail_plain(err, EINVAL, "%s: contains a NUL byte; not a text file", where);
        memcpy(line, text, part);
        line[part] = '\0';
        r = line_apply(load, where, line, err);
        if (r < 0)
            return r;
        part += end != NULL;
        text += part;
        len -= part;
    }
    return source_done(load);
}

/* A file that exists but cannot be read is an error. A file that we could not even see is not: a
 * HOME that belongs to another user must not stop us. */
static int file_open_failed(const char *path, const char *quoted, int error, struct gb_err *err)
{
    struct stat st;

    if (error == ENOTDIR || (error == EACCES && stat(path, &st) < 0))
        error = ENOENT;
    return gb_fail(err, error, "open %s", quoted);
}

int config_load_file(struct config_load *load, const char *path, struct gb_err *err)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    autofree char *text = NULL;
    char quoted[FORMAT_QUOTED_MAX];
    struct stat st;
    ssize_t n;

    quote_path(path, quoted);
    if (fd < 0)
        return file_open_failed(path, quoted, errno, err);
    if (fstat(fd, &st) < 0)
        return gb_fail(err, errno, "stat %s", quoted);
    if (!S_ISREG(st.st_mode))
        return gb_fail_plain(err, EINVAL, "%s is not a regular file", quoted);
    text = malloc(FILE_BYTES_MAX + 1);
    if (!text)
        return gb_fail(err, ENOMEM, "read %s", quoted);
    n = io_read_all(fd, text, FILE_BYTES_MAX + 1);
    if (n < 0)
        return gb_fail(err, (int) -n, "read %s", quoted);
    if (n > FILE_BYTES_MAX)
        return gb_fail_plain(err, EFBIG, "%s is too long; the maximum is %d bytes", quoted,
                             FILE_BYTES_MAX);
    return config_load_text(load, path, text, (size_t) n, err);
}

/* ---- defaults, the end ---- */

int config_load_defaults(struct config_load *load, struct gb_err *err)
{
    const struct config_schema *schema = load->schema;

    if (schema->options_len > CONFIG_ROWS_MAX)
        return gb_fail_plain(err, E2BIG, "the option table has more than %d rows", CONFIG_ROWS_MAX);
    for (size_t i = 0; i < schema->options_len; i++) {
        const struct config_option *option = &schema->options[i];
        char label[CONFIG_NAME_MAX];
        int r;

        if (!option->fallback)
            continue;
        snprintf(label, sizeof label, "default of %s", option->name);
        r = value_apply(load, option, label, option->fallback, 0, err);
        if (r < 0)
            return r;
    }
    return source_done(load);
}

static void list_free(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

void config_release(const struct config_schema *schema, void *target)
{
    for (size_t i = 0; i < schema->options_len; i++) {
        const struct config_option *option = &schema->options[i];
        void *member = (char *) target + option->offset;

        if (option->type == OPT_STRING) {
            free(*(char **) member);
            *(char **) member = NULL;
        } else if (option->type == OPT_LIST) {
            list_free(*(char ***) member);
            *(char ***) member = NULL;
        }
    }
}
