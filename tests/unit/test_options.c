#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/parse.h"
#include "cli/mark.h"
#include "cli/options/help.h"
#include "cli/options/options.h"
#include "engine/host.h"
#include "engine/limits.h"

#include "base/banned.h"

#define MIB      (INT64_C(1) << 20)
#define ARGS_MAX 16

struct loaded {
    struct config cfg;
    struct gb_err err;
    int result;
    char line[512];
    char *argv[ARGS_MAX + 1];
};

/* @args are the words after "glovebox", with blanks between. */
static struct loaded *load(const char *args)
{
    struct loaded *l = calloc(1, sizeof *l);
    char *at, *word;
    int argc = 0;

    assert_non_null(l);
    snprintf(l->line, sizeof l->line, "glovebox %s", args);
    at = l->line;
    while (argc < ARGS_MAX && (word = strsep(&at, " ")))
        if (*word)
            l->argv[argc++] = word;
    l->result = options_load(argc, l->argv, &l->cfg, &l->err);
    return l;
}

static void unload(struct loaded *l)
{
    options_release(&l->cfg);
    free(l);
}

/* The files of whoever runs the tests are not ours to read. */
static int clean_environment(void **state)
{
    (void) state;
    for (size_t i = 0; i < options_schema.options_len; i++) {
        const struct config_option *option = &options_schema.options[i];
        char name[CONFIG_NAME_MAX];

        config_env_name(&options_schema, option, name);
        unsetenv(name);
        for (size_t k = 0; k < ARRAY_LEN(option->aliases); k++)
            if (option->aliases[k].variable)
                unsetenv(option->aliases[k].variable);
    }
    return setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
}

/* Each limit: the default and the ceiling are numbers in one column and text in another. */
static void test_defaults_are_the_engine_s(void **state)
{
    struct loaded *l = load("run x.py"), *serve = load("serve");
    struct limits limits, ceiling;

    (void) state;
    limits_default(&limits);
    limits.file_bytes = 0; /* as --disk */
    limits_ceiling_default(&ceiling);
    assert_int_equal(l->result, 0);
    assert_int_equal(serve->result, 0);
    assert_int_equal(l->cfg.command, COMMAND_RUN);
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        const struct limit_row *row = &limit_rows[i];
        int64_t max = limit_get(&serve->cfg.max, row);

        assert_int_equal(limit_get(&l->cfg.limits, row), limit_get(&limits, row));
        if (max != 0)
            assert_int_equal(max, limit_get(&ceiling, row));
    }
    assert_int_equal(serve->cfg.max.memory_bytes, ceiling.memory_bytes);
    assert_int_equal(l->cfg.cgroups, CGROUP_AUTO);
    assert_int_equal(l->cfg.landlock, LANDLOCK_ON);
    assert_string_equal(l->cfg.preload, "auto");
    assert_null(l->cfg.code);
    assert_null(l->cfg.files);
    assert_null(l->cfg.out_dir);
    unload(serve);
    unload(l);
}

static void test_run(void **state)
{
    struct loaded *l = load("run --json -q --file a --file b --cgroups none --landlock=off "
                            "--preload numpy,os.path prog.py --json");

    (void) state;
    assert_int_equal(l->result, 0);
    assert_true(l->cfg.json && l->cfg.quiet);
    assert_string_equal(l->cfg.files[1], "b");
    assert_int_equal(l->cfg.cgroups, CGROUP_OFF);
    assert_int_equal(l->cfg.landlock, LANDLOCK_OFF);
    assert_int_equal(l->cfg.args_len, 2);
    assert_string_equal(l->cfg.args[0], "prog.py");
    assert_string_equal(l->cfg.args[1], "--json");
    unload(l);

    l = load("run --cpu-time 0 --file-size 0 -c pass -x");
    assert_int_equal(l->result, 0);
    assert_string_equal(l->cfg.code, "pass");
    assert_int_equal(l->cfg.args_len, 1);
    unload(l);
}

static void test_actions(void **state)
{
    struct loaded *l = load("key --data /d create --name me --sessions 3 --executions 2 --rate 9");

    (void) state;
    assert_int_equal(l->result, 0);
    assert_int_equal(l->cfg.command, COMMAND_KEY);
    assert_int_equal(l->cfg.action, ACTION_KEY_CREATE);
    assert_string_equal(l->cfg.data_dir, "/d");
    assert_string_equal(l->cfg.key_name, "me");
    assert_int_equal(l->cfg.key_sessions, 3);
    assert_int_equal(l->cfg.key_executions, 2);
    assert_int_equal(l->cfg.key_rate, 9);
    unload(l);

    l = load("key revoke --json 3f9c2a7d51e0");
    assert_int_equal(l->result, 0);
    assert_int_equal(l->cfg.action, ACTION_KEY_REVOKE);
    assert_int_equal(l->cfg.args_len, 1);
    assert_string_equal(l->cfg.args[0], "3f9c2a7d51e0");
    assert_true(l->cfg.json);
    unload(l);

    l = load("user add a@b --name me --password-file - --json --data /d");
    assert_int_equal(l->result, 0);
    assert_int_equal(l->cfg.command, COMMAND_USER);
    assert_int_equal(l->cfg.action, ACTION_USER_ADD);
    assert_string_equal(l->cfg.args[0], "a@b");
    assert_string_equal(l->cfg.key_name, "me");
    assert_string_equal(l->cfg.password_file, "-");
    unload(l);
    l = load("user invite --valid 2h");
    assert_int_equal(l->result, 0);
    assert_int_equal(l->cfg.invite_us, INT64_C(7200000000));
    unload(l);

    setenv("GLOVEBOX_DATA", "/e", 1);
    setenv("GLOVEBOX_LAST", "5", 1); /* of the command line only */
    l = load("audit show --since 2h --session s-1");
    clean_environment(NULL);
    assert_int_equal(l->result, 0);
    assert_int_equal(l->cfg.action, ACTION_AUDIT_SHOW);
    assert_string_equal(l->cfg.data_dir, "/e");
    assert_int_equal(l->cfg.audit_last, 0);
    assert_string_equal(l->cfg.audit_since, "2h");
    assert_string_equal(l->cfg.audit_session, "s-1");
    unload(l);
}

static void test_ask(void **state)
{
    struct loaded *l = load("ask why --file a.csv --file b.csv --model big --mark-strict --chart "
                            "c.png --mark-cost 0.25 -q");

    (void) state;
    assert_int_equal(l->result, 0);
    assert_int_equal(l->cfg.command, COMMAND_ASK);
    assert_int_equal(l->cfg.args_len, 1);
    assert_string_equal(l->cfg.args[0], "why");
    assert_string_equal(l->cfg.files[1], "b.csv");
    assert_string_equal(l->cfg.models[0], "big");
    assert_string_equal(l->cfg.ask_chart, "c.png");
    assert_true(l->cfg.mark_strict && l->cfg.quiet && !l->cfg.ask_trace);
    assert_int_equal(l->cfg.mark_cost, 250);
    assert_int_equal(l->cfg.mark_steps, 12);
    assert_int_equal(l->cfg.mark_us, 300000000);
    assert_int_equal(l->cfg.mark_tokens, 200000);
    assert_int_equal(l->cfg.attachment_bytes, 100 * MIB);
    unload(l);
}

static void test_models(void **state)
{
    struct mark_models models = { 0 };
    struct gb_err err = { 0 };
    struct loaded *l;

    (void) state;
    setenv("GLOVEBOX_MODEL", "b=openai:y@http://h/v1,a=openai:z@http://h/v1,none,c=demo", 1);
    setenv("GLOVEBOX_MODEL_KEY", "b=/b,c=/c,a=/a2", 1);
    l = load("serve --mark off --signup invite --mark-audit whole --model b --model "
             "a=anthropic:x@http://h --model-key a=/a");
    clean_environment(NULL);
    assert_int_equal(l->result, 0);
    assert_int_equal(l->cfg.mark, MARK_OFF);
    assert_int_equal(l->cfg.signup, 2);
    assert_int_equal(l->cfg.mark_audit, 1);
    assert_int_equal(mark_models_read(&l->cfg, &models, &err), 0);
    assert_string_equal(models.use, "b");
    assert_string_equal(models.models[0], "a=anthropic:x@http://h");
    assert_string_equal(models.models[1], "b=openai:y@http://h/v1");
    assert_null(models.models[2]); /* nothing after none */
    assert_string_equal(models.keys[0], "a=/a");
    assert_string_equal(models.keys[1], "b=/b");
    assert_null(models.keys[2]);
    assert_false(models.others);
    mark_models_release(&models);
    unload(l);

    l = load("serve");
    assert_int_equal(l->cfg.mark, MARK_ON);
    assert_int_equal(mark_models_read(&l->cfg, &models, &err), 0);
    assert_null(models.models);
    assert_null(models.use);
    assert_true(models.others);
    mark_models_release(&models);
    unload(l);
}

static void test_aliases(void **state)
{
    struct loaded *l;

    (void) state;
    setenv("MAX_EXECUTION_TIME", "120", 1);
    setenv("MAX_MEMORY_MB", "256", 1);
    setenv("MAX_OUTPUT_SIZE", "10000", 1);
    l = load("run x.py");
    clean_environment(NULL);
    assert_int_equal(l->result, 0);
    assert_int_equal(l->cfg.limits.wall_us, 120000000);
    assert_int_equal(l->cfg.limits.memory_bytes, 256 * MIB);
    assert_int_equal(l->cfg.reply_bytes, 10000);
    assert_int_equal(l->cfg.limits.output_bytes, 64 * MIB); /* a long output is cut, not killed */
    unload(l);
}

static void test_help_needs_nothing(void **state)
{
    static const char *const cases[] = {
        "--help",    "-h",    "run --help", "run -h --bogus", "run --memory 1g --help x",
        "--version", "run -V"
    };

    (void) state;
    setenv("GLOVEBOX_MEMORY", "512x", 1);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct loaded *l = load(cases[i]);

        assert_int_equal(l->result, 0);
        assert_true(l->cfg.help != l->cfg.version);
        unload(l);
    }
    clean_environment(NULL);
}

static void test_bad(void **state)
{
    static const struct {
        const char *args, *message;
    } cases[] = {
        { "", "no command; try glovebox run FILE, or glovebox --help" },
        { "rn x", "unknown command 'rn'; did you mean 'run'?" },
        { "prog.py", "'prog.py' is not a command; write glovebox run 'prog.py'" },
        { "serfe", "unknown command 'serfe'; did you mean 'serve'?" },
        { "serve x", "too many arguments; leave out 'x'" },
        { "serve --listen", "--listen: the value is missing; write --listen ADDR:PORT" },
        { "serve --log-level loud",
          "--log-level: 'loud' is not valid; give one of error, warning, info, debug" },
        { "serve --timeout 5", "--timeout is an option of 'glovebox run'" },
        { "run --listen :0 x", "--listen is an option of 'glovebox serve'" },
        { "--json run x", "--json is an option of 'glovebox run'; write it after the command" },
        { "run", "no program; give a FILE, - for standard input, or -c CODE" },
        { "run --json", "no program; give a FILE, - for standard input, or -c CODE" },
        { "version x", "too many arguments; leave out 'x'" },
        { "help run x", "too many arguments; leave out 'x'" },
        { "run --preload numpy,, x", "--preload: 'numpy,,' is not valid; give auto, all, none or "
                                     "module names such as numpy,pandas" },
        { "key", "no subcommand; write glovebox key create|list|revoke [OPTIONS] [ID]" },
        { "key make",
          "glovebox key has no subcommand 'make'; it takes one of: create list revoke" },
        { "audit list", "glovebox audit has no subcommand 'list'; it takes one of: verify show" },
        { "key revoke", "no ID; 'glovebox key list' shows them" },
        { "key revoke a b", "too many arguments; leave out 'b'" },
        { "key create a", "too many arguments; leave out 'a'" },
        { "key list --rate 5", "--name, --sessions, --executions and --rate are for key create" },
        { "mark sample --since 1h", "--since is for mark export-feedback" },
        { "audit verify --last 5", "--since, --last and --session are for audit show" },
        { "audit show --head 0000000000000000000000000000000000000000000000000000000000000000",
          "--head is for audit verify" },
        { "serve --model =openai:x@y",
          "--model: '=openai:x@y' is not valid; give NAME=openai:MODEL@URL, "
          "NAME=anthropic:MODEL@URL, NAME=demo, a NAME or none" },
        { "serve --model a=", "--model: 'a=' is not valid; give NAME=openai:MODEL@URL, "
                              "NAME=anthropic:MODEL@URL, NAME=demo, a NAME or none" },
        { "serve --model a=openai:",
          "--model: 'a=openai:' is not valid; give NAME=openai:MODEL@URL, "
          "NAME=anthropic:MODEL@URL, NAME=demo, a NAME or none" },
        { "serve --model a=gemini:x@y",
          "--model: 'a=gemini:x@y' is not valid; give NAME=openai:MODEL@URL, "
          "NAME=anthropic:MODEL@URL, NAME=demo, a NAME or none" },
        { "serve --model a=Demo", "--model: 'a=Demo' is not valid; give NAME=openai:MODEL@URL, "
                                  "NAME=anthropic:MODEL@URL, NAME=demo, a NAME or none" },
        { "serve --model-key a=", "--model-key: 'a=' is not valid; give NAME=FILE, such as "
                                  "big=/etc/glovebox/big.key" },
        { "serve --signup maybe",
          "--signup: 'maybe' is not valid; give one of auto, open, invite, closed" },
        { "serve --mark yes", "--mark: 'yes' is not valid; give one of off, on" },
        { "ask --mark off x", "--mark is an option of 'glovebox serve'" },
        { "ask", "no question; give one, or - for standard input" },
        { "ask which one", "the question is one argument; put it between quotes" },
        { "serve --mark-cost -1",
          "--mark-cost: '-1' is not valid; give dollars from 0 to 1000, such as 0.25" },
        { "run --preload ../x x", "--preload: '../x' is not valid; give auto, all, none or "
                                  "module names such as numpy,pandas" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct loaded *l = load(cases[i].args);

        assert_int_equal(l->result, -EINVAL);
        assert_string_equal(l->err.msg, cases[i].message);
        unload(l);
    }
}

/* Zero has no meaning for these, and is not "no limit". */
static void test_zero_is_refused(void **state)
{
    static const char *const names[] = { "timeout", "memory",     "cpus",   "pids", "disk",
                                         "inodes",  "open-files", "output", "reply" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char args[64];
        struct loaded *l;

        snprintf(args, sizeof args, "run --%s 0 x.py", names[i]);
        l = load(args);
        assert_int_equal(l->result, -ERANGE);
        assert_non_null(strstr(l->err.msg, names[i]));
        unload(l);
    }
}

static void test_passwords_are_hidden(void **state)
{
    static const char *const cases[][2] = {
        { "postgresql://u:secret@h/d", "postgresql://u:******@h/d" },
        { "--database=postgres://u:secret@h:5432/d?x=y",
          "--database=postgres://u:******@h:5432/d?x=y" },
        { "postgresql://u@h/d?password=secret&x=y", "postgresql://u@h/d?password=******&x=y" },
        { "postgresql://h/d?user=u&sslpassword=a&password=b",
          "postgresql://h/d?user=u&sslpassword=*&password=*" },
        { "postgresql://u:se@ret@h/d", "postgresql://u:******@h/d" }, /* of a source */
        { "postgresql://u:se?ret@h/d", "postgresql://u:******@h/d" }, /* to libpq */
        { "postgresql://h:5432/d?user=a@b", "postgresql://h:5432/d?user=a@b" },
        { "postgresql://u@h/d", "postgresql://u@h/d" },
        { "u:secret@h", "u:secret@h" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[100];

        (void) snprintf(text, sizeof text, "%s", cases[i][0]);
        assert_int_equal(options_hide_password(text), strcmp(cases[i][0], cases[i][1]) != 0);
        assert_string_equal(text, cases[i][1]);
    }
}

/* The table alone: what the generators rely on. */
static void test_table(void **state)
{
    const char *group = "";

    (void) state;
    for (size_t i = 0; i < options_schema.options_len; i++) {
        const struct config_option *a = &options_schema.options[i];

        assert_true(a->name && a->group && a->help && a->commands);
        assert_true(strlen(a->name) < WORD_MAX);
        assert_true(a->type == OPT_BOOL || a->metavar || a->choices);
        for (size_t k = 0; k < i; k++) {
            const struct config_option *b = &options_schema.options[k];

            assert_string_not_equal(a->name, b->name);
            assert_true(!a->letter || a->letter != b->letter);
            /* a group that was left is not come back to */
            if (strcmp(a->group, group) != 0)
                assert_string_not_equal(a->group, b->group);
        }
        group = a->group;
    }
}

static void test_help_fits(void **state)
{
    (void) state;
    for (size_t i = 0; i <= options_schema.commands_len; i++) {
        autofree char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        char *at, *line;

        assert_non_null(out);
        assert_int_equal(help_write(out, &options_schema,
                                    i == 0 ? &options_global : &options_schema.commands[i - 1]),
                         0);
        assert_int_equal(fclose(out), 0);
        at = text;
        while ((line = strsep(&at, "\n")))
            if (strlen(line) > 80)
                fail_msg("too wide: %s", line);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_the_engine_s),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_actions),
        cmocka_unit_test(test_ask),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_help_needs_nothing),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_zero_is_refused),
        cmocka_unit_test(test_passwords_are_hidden),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_help_fits),
    };

    return cmocka_run_group_tests(tests, clean_environment, NULL);
}
