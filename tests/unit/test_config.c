#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/config.h"

#include "base/banned.h"

#define MIB       (INT64_C(1) << 20)
#define ARGS_MAX  32
#define LAYER_MAX 8

/* A small program of our own: `toy cook` stops at its first positional, `toy wash` does not. */

struct toy {
    bool loud, help;
    int64_t count, room, wait, cpus, cap;
    char *name, *code;
    char **items;
    int mode, oven;
};

enum { COOK = 1, WASH = 2 };

static const char *const modes[] = { "auto", "fast", "slow", NULL };

static bool no_blank(const char *text)
{
    return !strchr(text, ' ');
}

#define MEMBER(m) .offset = offsetof(struct toy, m)

static const struct config_option options[] = {
    { "loud", 'l', OPT_BOOL, MEMBER(loud), "no", .commands = COOK | WASH },
    { "count", 0, OPT_INT, MEMBER(count), "3", 1, 10, .metavar = "N", .commands = COOK },
    { "memory", 'm', OPT_SIZE, MEMBER(room), "512m", 16 * MIB, 1024 * MIB, .metavar = "SIZE",
      .aliases = { { "TOY_TEST_MB", MIB }, { "TOY_TEST_SIZE", 0 } }, .commands = COOK },
    { "wait", 0, OPT_SECONDS, MEMBER(wait), "30", 1000, 60000000, .metavar = "S",
      .commands = COOK },
    { "cpus", 0, OPT_CPUS, MEMBER(cpus), "1.0", 10, 8000, .metavar = "N", .commands = COOK },
    { "cap", 0, OPT_SIZE, MEMBER(cap), "0", 0, 1024, .metavar = "SIZE", .commands = COOK },
    { "name", 0, OPT_STRING, MEMBER(name), NULL, 1, 8, .metavar = "NAME", .valid = no_blank,
      .expected = "a name without a blank", .commands = COOK | WASH },
    { "item", 'i', OPT_LIST, MEMBER(items), .max = 3, .metavar = "PATH", .commands = COOK | WASH },
    { "mode", 0, OPT_CHOICE, MEMBER(mode), "auto", .choices = modes, .commands = COOK },
    { "oven-heat", 0, OPT_CHOICE, MEMBER(oven), "auto", .choices = modes, .commands = COOK },
    { "script", 'c', OPT_STRING, MEMBER(code), NULL, 0, 100, .metavar = "CODE", .commands = COOK,
      .flags = CONFIG_ARGS_ONLY | CONFIG_LETTER_ONLY | CONFIG_ENDS_OPTIONS },
    { "help", 'h', OPT_BOOL, MEMBER(help), "no", .commands = COOK | WASH,
      .flags = CONFIG_ARGS_ONLY | CONFIG_ENDS_OPTIONS },
};

static const struct config_command commands[] = {
    { .name = "cook", .mask = COOK, .stops = true },
    { .name = "wash", .mask = WASH },
};

static const struct config_schema schema = {
    "toy", "TOY_TEST_", options, ARRAY_LEN(options), commands, ARRAY_LEN(commands),
};

/* One loading: the arguments in one string with blanks between, variables, a file's text. */
struct layers {
    const char *args;
    const char *env[LAYER_MAX]; /* name, value, ... */
    const char *file;
    bool wash;
};

struct loaded {
    struct toy toy;
    struct gb_err err;
    int result;
    char line[4096];
    char *argv[ARGS_MAX + 1];
    int argc, next;
};

static void split(struct loaded *l, const char *args)
{
    char *at = l->line, *word;

    snprintf(l->line, sizeof l->line, "%s", args);
    while (l->argc < ARGS_MAX && (word = strsep(&at, " ")))
        if (*word)
            l->argv[l->argc++] = word;
}

static void run_layers(struct loaded *l, struct config_load *load, const struct layers *from)
{
    l->result = config_load_args(load, l->argc, l->argv, &l->next, &l->err);
    if (l->result == 0)
        l->result = config_load_env(load, &l->err);
    if (l->result == 0 && from->file)
        l->result =
            config_load_text(load, "/etc/toy.conf", from->file, strlen(from->file), &l->err);
    if (l->result == 0)
        l->result = config_load_defaults(load, &l->err);
}

static struct loaded *load_all(struct layers from)
{
    struct loaded *l = calloc(1, sizeof *l);
    struct config_load load = { .schema = &schema, .command = &commands[from.wash] };

    assert_non_null(l);
    load.target = &l->toy;
    split(l, from.args ? from.args : "");
    for (size_t i = 0; i + 1 < LAYER_MAX && from.env[i]; i += 2)
        assert_int_equal(setenv(from.env[i], from.env[i + 1], 1), 0);
    run_layers(l, &load, &from);
    for (size_t i = 0; i + 1 < LAYER_MAX && from.env[i]; i += 2)
        assert_int_equal(unsetenv(from.env[i]), 0);
    return l;
}

static void unload(struct loaded *l)
{
    config_release(&schema, &l->toy);
    free(l);
}

#define LOAD(...) load_all((struct layers){ __VA_ARGS__ })

static void assert_fails(struct loaded *l, int code, const char *message)
{
    if (l->result != -code || l->err.code != code || strcmp(l->err.msg, message) != 0)
        fail_msg("gave %d '%s' instead of '%s'", l->result, l->result ? l->err.msg : "", message);
    unload(l);
}

/* ---- where values come from ---- */

static void test_defaults(void **state)
{
    struct loaded *l = LOAD(0);

    (void) state;
    assert_int_equal(l->result, 0);
    assert_false(l->toy.loud);
    assert_int_equal(l->toy.count, 3);
    assert_int_equal(l->toy.room, 512 * MIB);
    assert_int_equal(l->toy.wait, 30000000);
    assert_int_equal(l->toy.cpus, 1000);
    assert_int_equal(l->toy.mode, 0);
    assert_null(l->toy.name);
    assert_null(l->toy.items);
    assert_int_equal(l->next, 0);
    unload(l);
}

static void test_order(void **state)
{
    static const struct {
        struct layers from;
        int64_t room;
    } cases[] = {
        { { .file = "memory = 64m" }, 64 * MIB },
        { { .file = "memory = 64m", .env = { "TOY_TEST_MB", "65" } }, 65 * MIB },
        { { .env = { "TOY_TEST_MB", "65", "TOY_TEST_SIZE", "66m" } }, 66 * MIB },
        { { .file = "memory = 64m", .env = { "TOY_TEST_MB", "65", "TOY_TEST_MEMORY", "67m" } },
          67 * MIB },
        { { .args = "--memory 68m", .file = "memory = 64m", .env = { "TOY_TEST_MEMORY", "67m" } },
          68 * MIB },
        { { .args = "--memory 68m --memory=69m" }, 69 * MIB },
        { { .file = "memory = 64m\nmemory = 70m" }, 70 * MIB },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct loaded *l = load_all(cases[i].from);

        assert_int_equal(l->result, 0);
        assert_int_equal(l->toy.room, cases[i].room);
        unload(l);
    }
}

/* The row says so: what weaker sources have comes after. */
static void test_a_list_that_adds(void **state)
{
    struct config_option rows[] = { { "model", 0, OPT_LIST, .offset = 0, .max = 3, .metavar = "M",
                                      .commands = 1, .flags = CONFIG_ADDS, .group = "G",
                                      .help = "h" } };
    static const struct config_command only[] = { { .name = "c", .mask = 1 } };
    struct config_schema adds = { .program = "toy",
                                  .env_prefix = "TOY_ADDS_",
                                  .options = rows,
                                  .options_len = 1,
                                  .commands = only,
                                  .commands_len = 1 };
    char **list = NULL, arg[] = "--model=a";
    char *argv[] = { arg, NULL };
    struct config_load load = { .schema = &adds, .command = only, .target = &list };
    struct gb_err err = { 0 };
    int next;

    (void) state;
    setenv("TOY_ADDS_MODEL", "b", 1);
    assert_int_equal(config_load_args(&load, 1, argv, &next, &err), 0);
    assert_int_equal(config_load_env(&load, &err), 0);
    assert_int_equal(config_load_text(&load, "f", "model = c\n", 10, &err), 0);
    unsetenv("TOY_ADDS_MODEL");
    assert_string_equal(list[0], "a");
    assert_string_equal(list[1], "b");
    assert_string_equal(list[2], "c");
    assert_null(list[3]);
    assert_int_equal(config_load_text(&load, "f", "model = d\n", 10, &err), -ERANGE);
    config_release(&adds, &list);
}

static void test_lists_come_from_one_source(void **state)
{
    struct loaded *l =
        LOAD(.args = "--item a -i b --item=c", .env = { "TOY_TEST_ITEM", "d" }, .file = "item = e");

    (void) state;
    assert_int_equal(l->result, 0);
    assert_string_equal(l->toy.items[0], "a");
    assert_string_equal(l->toy.items[1], "b");
    assert_string_equal(l->toy.items[2], "c");
    assert_null(l->toy.items[3]);
    unload(l);

    l = LOAD(.env = { "TOY_TEST_ITEM", "d,e f" }, .file = "item = g");
    assert_int_equal(l->result, 0);
    assert_string_equal(l->toy.items[0], "d");
    assert_string_equal(l->toy.items[1], "e f");
    assert_null(l->toy.items[2]);
    unload(l);

    l = LOAD(.file = "item = g, h\nitem=i");
    assert_int_equal(l->result, 0);
    assert_string_equal(l->toy.items[0], "g, h");
    assert_string_equal(l->toy.items[1], "i");
    assert_null(l->toy.items[2]);
    unload(l);
}

static void test_overruled_values_are_checked(void **state)
{
    (void) state;
    assert_fails(LOAD(.args = "--memory 64m", .env = { "TOY_TEST_MEMORY", "512x" }), EINVAL,
                 "TOY_TEST_MEMORY: '512x' is not valid; give a size from 16m to 1g, such as 512m");
    assert_fails(
        LOAD(.args = "--count 4", .file = "count = x"), EINVAL,
        "'/etc/toy.conf' line 1: count: 'x' is not valid; give a whole number from 1 to 10");
}

/* ---- the command line ---- */

static void test_forms(void **state)
{
    struct loaded *l =
        LOAD(.args = "--count 5 --memory=32m -m64m -l --mode fast --name x --cpus 1.5 "
                     "--wait 0.5 --cap 0 --oven-heat slow");

    (void) state;
    assert_int_equal(l->result, 0);
    assert_true(l->toy.loud);
    assert_int_equal(l->toy.count, 5);
    assert_int_equal(l->toy.room, 64 * MIB);
    assert_int_equal(l->toy.mode, 1);
    assert_int_equal(l->toy.oven, 2);
    assert_int_equal(l->toy.cpus, 1500);
    assert_int_equal(l->toy.wait, 500000);
    assert_int_equal(l->toy.cap, 0);
    assert_string_equal(l->toy.name, "x");
    assert_int_equal(l->next, l->argc);
    unload(l);

    l = LOAD(.args = "--loud=no --name=--x", .env = { "TOY_TEST_LOUD", "yes" });
    assert_int_equal(l->result, 0);
    assert_false(l->toy.loud);
    assert_string_equal(l->toy.name, "--x");
    unload(l);
}

/* What is left as positionals, told by the first of them and their number. */
static void test_positionals(void **state)
{
    static const struct {
        struct layers from;
        const char *first;
        int count;
        bool loud;
    } cases[] = {
        { { .args = "" }, NULL, 0, false },
        { { .args = "prog.py --loud -x" }, "prog.py", 3, false },
        { { .args = "-l prog.py --loud" }, "prog.py", 2, true },
        { { .args = "- --loud" }, "-", 2, false },
        { { .args = "-l -- --loud" }, "--loud", 1, true },
        { { .args = "-- -- x" }, "--", 2, false },
        { { .args = "-c pass --loud x" }, "--loud", 2, false },
        { { .args = "-l -cpass -- x" }, "--", 2, true },
        { { .args = "--help --nonsense" }, "--nonsense", 1, false },
        { { .args = "a -l b --name x c", .wash = true }, "a", 3, true },
        { { .args = "a -l -- -b", .wash = true }, "a", 2, true },
        { { .args = "- -l", .wash = true }, "-", 1, true },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct loaded *l = load_all(cases[i].from);

        assert_int_equal(l->result, 0);
        assert_int_equal(l->argc - l->next, cases[i].count);
        assert_int_equal(l->toy.loud, cases[i].loud);
        if (cases[i].first)
            assert_string_equal(l->argv[l->next], cases[i].first);
        unload(l);
    }
}

static void test_reordered(void **state)
{
    struct loaded *l = LOAD(.args = "a -l b --name x -- -c", .wash = true);
    static const char *const wanted[] = { "-l", "--name", "x", "--", "a", "b", "-c" };

    (void) state;
    assert_int_equal(l->result, 0);
    assert_int_equal(l->argc, ARRAY_LEN(wanted));
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        assert_string_equal(l->argv[i], wanted[i]);
    assert_int_equal(l->next, 4);
    unload(l);
}

struct bad_case {
    struct layers from;
    int code;
    const char *message;
};

static void check_bad(const struct bad_case *cases, size_t cases_len)
{
    for (size_t i = 0; i < cases_len; i++)
        assert_fails(load_all(cases[i].from), cases[i].code, cases[i].message);
}

static void test_bad_arguments(void **state)
{
    static const struct bad_case cases[] = {
        { { .args = "--memroy 1g" }, EINVAL, "unknown option '--memroy'; did you mean --memory?" },
        { { .args = "--memroy=1g" },
          EINVAL,
          "unknown option '--memroy=1g'; did you mean --memory?" },
        { { .args = "--mem 1g" }, EINVAL, "unknown option '--mem'; did you mean --memory?" },
        { { .args = "--xyzzy" }, EINVAL, "unknown option '--xyzzy'; 'toy cook --help' lists them" },
        { { .args = "-x" }, EINVAL, "unknown option '-x'; 'toy cook --help' lists them" },
        { { .args = "-lh" }, EINVAL, "unknown option '-lh'; 'toy cook --help' lists them" },
        { { .args = "--=x" }, EINVAL, "unknown option '--=x'; 'toy cook --help' lists them" },
        { { .args = "--script x" },
          EINVAL,
          "unknown option '--script'; 'toy cook --help' lists them" },
        { { .args = "---loud" }, EINVAL, "unknown option '---loud'; did you mean --loud?" },
        { { .args = "--a\x1b[2J" },
          EINVAL,
          "unknown option '--a\\x1b[2J'; 'toy cook --help' lists them" },
        { { .args = "--memory" }, EINVAL, "--memory: the value is missing; write --memory SIZE" },
        { { .args = "--name --loud" }, EINVAL, "--name: the value is missing; write --name NAME" },
        { { .args = "--mode" },
          EINVAL,
          "--mode: the value is missing; write --mode auto|fast|slow" },
        { { .args = "-c" }, EINVAL, "-c: the value is missing; write -c CODE" },
        { { .args = "--count 3", .wash = true }, EINVAL, "--count is an option of 'toy cook'" },
    };

    (void) state;
    check_bad(cases, ARRAY_LEN(cases));
}

static void test_bad_values(void **state)
{
    static const struct bad_case cases[] = {
        { { .args = "--memory 512x" },
          EINVAL,
          "--memory: '512x' is not valid; give a size from 16m to 1g, such as 512m" },
        { { .args = "--memory=" },
          EINVAL,
          "--memory: '' is not valid; give a size from 16m to 1g, such as 512m" },
        { { .args = "--memory 0" },
          ERANGE,
          "--memory: '0' is out of range; give a size from 16m to 1g, such as 512m" },
        { { .args = "-m 16777215" },
          ERANGE,
          "-m: '16777215' is out of range; give a size from 16m to 1g, such as 512m" },
        { { .args = "--memory 1025m" },
          ERANGE,
          "--memory: '1025m' is out of range; give a size from 16m to 1g, such as 512m" },
        { { .args = "--count -1" },
          EINVAL,
          "--count: '-1' is not valid; give a whole number from 1 to 10" },
        { { .args = "--count 0" },
          ERANGE,
          "--count: '0' is out of range; give a whole number from 1 to 10" },
        { { .args = "--count 99999999999999999999" },
          ERANGE,
          "--count: '99999999999999999999' is out of range; give a whole number from 1 to 10" },
        { { .args = "--wait 1e99" },
          EINVAL,
          "--wait: '1e99' is not valid; give seconds from 0.001 to 60, such as 30 or 0.5" },
        { { .args = "--wait 0" },
          ERANGE,
          "--wait: '0' is out of range; give seconds from 0.001 to 60, such as 30 or 0.5" },
        { { .args = "--cpus nan" },
          EINVAL,
          "--cpus: 'nan' is not valid; give a number from 0.01 to 8, such as 1.5" },
        { { .args = "--cpus 0" },
          ERANGE,
          "--cpus: '0' is out of range; give a number from 0.01 to 8, such as 1.5" },
        { { .args = "--cap 0.0001k" },
          ERANGE,
          "--cap: '0.0001k' is out of range; give a size from 0 to 1k, such as 512m" },
        { { .args = "--mode FAST" },
          EINVAL,
          "--mode: 'FAST' is not valid; give one of auto, fast, slow" },
        { { .args = "--loud=perhaps" }, EINVAL, "--loud: 'perhaps' is not valid; give yes or no" },
        { { .args = "--name=" },
          ERANGE,
          "--name: '' is out of range; give a name without a blank" },
        { { .args = "--name 123456789" },
          ERANGE,
          "--name: '123456789' is out of range; give a name without a blank" },
        { { .env = { "TOY_TEST_NAME", "a b" } },
          EINVAL,
          "TOY_TEST_NAME: 'a b' is not valid; give a name without a blank" },
        { { .args = "--item=" },
          ERANGE,
          "--item: '' is out of range; give at most 3 values, none of them empty" },
        { { .args = "-i a -i b -i c -i d" },
          ERANGE,
          "-i: 'd' is out of range; give at most 3 values, none of them empty" },
    };

    (void) state;
    check_bad(cases, ARRAY_LEN(cases));
}

/* However long and strange the input, the message is one printable line that fits. */
static void test_long_input(void **state)
{
    static const char *const starts[] = { "--", "--memory=", "--name=", "--item=", "-", "-m" };
    char arg[3000];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        for (int c = 1; c < 256; c += 3) {
            struct loaded *l;

            if (c == ' ')
                continue;
            memset(arg, c, sizeof arg);
            memcpy(arg, starts[i], strlen(starts[i]));
            arg[sizeof arg - 1] = '\0';
            l = LOAD(.args = arg);
            /* long as it is, an item of a list may be so */
            if (strcmp(starts[i], "--item=") == 0) {
                assert_int_equal(l->result, 0);
                unload(l);
                continue;
            }
            assert_true(l->result < 0);
            for (const char *p = l->err.msg; *p; p++)
                assert_in_range(*p, 0x20, 0x7e);
            assert_non_null(strstr(l->err.msg, "..."));
            unload(l);
        }
}

/* ---- the environment ---- */

static void test_bad_environment(void **state)
{
    static const struct bad_case cases[] = {
        { { .env = { "TOY_TEST_MEMORY", "0" } },
          ERANGE,
          "TOY_TEST_MEMORY: '0' is out of range; give a size from 16m to 1g, such as 512m" },
        { { .env = { "TOY_TEST_MEMORY", "" } },
          EINVAL,
          "TOY_TEST_MEMORY: '' is not valid; give a size from 16m to 1g, such as 512m" },
        { { .env = { "TOY_TEST_MEMORY", "\n\x1b]0;x\a" } },
          EINVAL,
          "TOY_TEST_MEMORY: '\\x0a\\x1b]0;x\\x07' is not valid; give a size from 16m to 1g, such "
          "as "
          "512m" },
        { { .env = { "TOY_TEST_MB", "64m" } },
          EINVAL,
          "TOY_TEST_MB: '64m' is not valid; give a whole number from 16 to 1024" },
        { { .env = { "TOY_TEST_MB", "15" } },
          ERANGE,
          "TOY_TEST_MB: '15' is out of range; give a whole number from 16 to 1024" },
        { { .env = { "TOY_TEST_MB", "9223372036854775807" } },
          ERANGE,
          "TOY_TEST_MB: '9223372036854775807' is out of range; give a whole number from 16 to "
          "1024" },
        { { .env = { "TOY_TEST_MB", "bad", "TOY_TEST_MEMORY", "64m" } },
          EINVAL,
          "TOY_TEST_MB: 'bad' is not valid; give a whole number from 16 to 1024" },
        { { .env = { "TOY_TEST_ITEM", "a,,b" } },
          ERANGE,
          "TOY_TEST_ITEM: '' is out of range; give at most 3 values, none of them empty" },
        { { .env = { "TOY_TEST_ITEM", "a,b,c,d" } },
          ERANGE,
          "TOY_TEST_ITEM: 'd' is out of range; give at most 3 values, none of them empty" },
    };

    (void) state;
    check_bad(cases, ARRAY_LEN(cases));
}

static void test_environment_of_others(void **state)
{
    /* not ours to set, of another command, unknown */
    struct loaded *l =
        LOAD(.env = { "TOY_TEST_HELP", "maybe", "TOY_TEST_SCRIPT", "pass", "TOY_TEST_COUNT", "x" },
             .wash = true);

    (void) state;
    assert_int_equal(l->result, 0);
    assert_false(l->toy.help);
    assert_null(l->toy.code);
    assert_int_equal(l->toy.count, 3);
    unload(l);
}

static void test_env_name(void **state)
{
    char buf[CONFIG_NAME_MAX];

    (void) state;
    config_env_name(&schema, &options[9], buf);
    assert_string_equal(buf, "TOY_TEST_OVEN_HEAT");
}

/* ---- files ---- */

static void test_file_forms(void **state)
{
    struct loaded *l = LOAD(.file = "# a comment\n\n   # another\n"
                                    "count=4\n"
                                    "  memory\t=  64MiB   # trailing\r\n"
                                    "name = a#b=c\n"
                                    "loud = on\n"
                                    "mode = slow");

    (void) state;
    assert_int_equal(l->result, 0);
    assert_int_equal(l->toy.count, 4);
    assert_int_equal(l->toy.room, 64 * MIB);
    assert_string_equal(l->toy.name, "a#b=c");
    assert_true(l->toy.loud);
    assert_int_equal(l->toy.mode, 2);
    unload(l);

    /* another command's settings are none of ours, but must be known */
    l = LOAD(.file = "count = x\n", .wash = true);
    assert_int_equal(l->result, 0);
    unload(l);
}

static void test_bad_files(void **state)
{
    static const struct bad_case cases[] = {
        { { .file = "count = 4\n\ncount = 11\n" },
          ERANGE,
          "'/etc/toy.conf' line 3: count: '11' is out of range; give a whole number from 1 to 10" },
        { { .file = "\nmemroy = 1g" },
          EINVAL,
          "'/etc/toy.conf' line 2: unknown option 'memroy'; did you mean 'memory'?" },
        { { .file = "xyzzy = 1g" },
          EINVAL,
          "'/etc/toy.conf' line 1: unknown option 'xyzzy'; 'toy --help' lists them" },
        { { .file = "= 1g" },
          EINVAL,
          "'/etc/toy.conf' line 1: unknown option ''; 'toy --help' lists them" },
        { { .file = "[section]" },
          EINVAL,
          "'/etc/toy.conf' line 1: '[section]' is not a setting; write name = value" },
        { { .file = "memory 1g" },
          EINVAL,
          "'/etc/toy.conf' line 1: 'memory 1g' is not a setting; write name = value" },
        { { .file = "memory =" },
          EINVAL,
          "'/etc/toy.conf' line 1: memory: '' is not valid; give a size from 16m to 1g, such as "
          "512m" },
        { { .file = "help = yes" },
          EINVAL,
          "'/etc/toy.conf' line 1: 'help' works on the command line only; remove it" },
        { { .file = "script = pass" },
          EINVAL,
          "'/etc/toy.conf' line 1: unknown option 'script'; 'toy --help' lists them" },
    };

    (void) state;
    check_bad(cases, ARRAY_LEN(cases));
}

static void test_hostile_text(void **state)
{
    struct toy toy = { 0 };
    struct config_load load = { .schema = &schema, .command = &commands[0], .target = &toy };
    struct gb_err err;
    char text[5000];

    (void) state;
    assert_int_equal(config_load_text(&load, "f", "count=4\nlo\0ud=1\n", 16, &err), -EINVAL);
    assert_string_equal(err.msg, "'f' line 2: contains a NUL byte; not a text file");
    memset(text, '#', sizeof text);
    assert_int_equal(config_load_text(&load, "f", text, 4096, &err), 0);
    assert_int_equal(config_load_text(&load, "f", text, 4097, &err), -EINVAL);
    assert_string_equal(err.msg, "'f' line 1: too long; the maximum is 4096 bytes");
    memset(text, 'p', 300);
    text[300] = '\0';
    assert_int_equal(config_load_text(&load, text, "x", 1, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "...ppp"));
    assert_non_null(strstr(err.msg, "write name = value"));
    config_release(&schema, &toy);
}

static void write_file(const char *path, const char *text, size_t len)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void test_files(void **state)
{
    char dir[] = "/tmp/gbtest-config-XXXXXX", path[64];
    autofree char *big = calloc(1, 70000);
    struct toy toy = { 0 };
    struct config_load load = { .schema = &schema, .command = &commands[0], .target = &toy };
    struct gb_err err;

    (void) state;
    assert_non_null(big);
    memset(big, '\n', 70000);
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/toy.conf", dir);
    assert_int_equal(config_load_file(&load, path, &err), -ENOENT);
    write_file(path, "count = 7\n", 10);
    assert_int_equal(config_load_file(&load, path, &err), 0);
    assert_int_equal(toy.count, 7);
    write_file(path, big, 65536);
    assert_int_equal(config_load_file(&load, path, &err), 0);
    write_file(path, big, 65537);
    assert_int_equal(config_load_file(&load, path, &err), -EFBIG);
    assert_int_equal(unlink(path), 0);
    /* a FIFO must not hang us */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(config_load_file(&load, path, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "is not a regular file"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(config_load_file(&load, dir, &err), -EINVAL);
    write_file(path, "", 0);
    snprintf(path, sizeof path, "%s/toy.conf/below", dir);
    assert_int_equal(config_load_file(&load, path, &err), -ENOENT);
    snprintf(path, sizeof path, "%s/toy.conf", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    config_release(&schema, &toy);
}

/* ---- commands, texts ---- */

static void test_commands(void **state)
{
    const struct config_command *command = NULL;
    struct gb_err err;

    (void) state;
    assert_int_equal(config_find_command(&schema, "wash", &command, &err), 0);
    assert_ptr_equal(command, &commands[1]);
    command = NULL;
    assert_int_equal(config_find_command(&schema, "cok", &command, &err), -EINVAL);
    assert_string_equal(err.msg, "unknown command 'cok'; did you mean 'cook'?");
    assert_int_equal(config_find_command(&schema, "sing\n", &command, &err), -EINVAL);
    assert_string_equal(err.msg, "unknown command 'sing\\x0a'; 'toy --help' lists them");
    assert_null(command);
}

static void test_release_twice(void **state)
{
    struct loaded *l = LOAD(.args = "-i a --name x -c y");

    (void) state;
    assert_int_equal(l->result, 0);
    config_release(&schema, &l->toy);
    assert_null(l->toy.items);
    assert_null(l->toy.name);
    unload(l);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_lists_come_from_one_source),
        cmocka_unit_test(test_a_list_that_adds),
        cmocka_unit_test(test_overruled_values_are_checked),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_positionals),
        cmocka_unit_test(test_reordered),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_long_input),
        cmocka_unit_test(test_bad_environment),
        cmocka_unit_test(test_environment_of_others),
        cmocka_unit_test(test_env_name),
        cmocka_unit_test(test_file_forms),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_release_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
