#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "cli/program.h"
#include "engine/engine.h"

#include "base/banned.h"

#define LITERAL(s) (s), sizeof(s) - 1

static char dir[128];  /* of this test's own */
static char path[160]; /* the program in it */

static int dir_setup(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void) state;
    snprintf(dir, sizeof dir, "%s/glovebox-test-program-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/prog.py", dir);
    return 0;
}

static int dir_teardown(void **state)
{
    (void) state;
    (void) unlink(path);
    return rmdir(dir);
}

static void file_write(const char *data, size_t len)
{
    autoclose int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, data, len), 0);
}

static int load_path(const char *name, struct program *program, struct gb_err *err)
{
    char *args[] = { (char *) name, NULL };
    struct config cfg = { .args = args, .args_len = 1 };

    return program_load(&cfg, program, err);
}

/* An error leaves the caller's program alone and is one line that says what is wrong. */
static void assert_refused(int r, const struct program *program, const struct gb_err *err, int code,
                           const char *says)
{
    if (r != -code || err->code != code || !strstr(err->msg, says) || strchr(err->msg, '\n'))
        fail_msg("%d, '%s', not '%s'", r, err->msg, says);
    assert_null(program->code);
    assert_null(program->argv);
}

/* ---- program_load ---- */

static const struct text_case {
    const char *name, *data;
    size_t len;
    int error;
    const char *says;
} text_cases[] = {
    { "one statement", LITERAL("print(1)\n"), 0, NULL },
    { "no newline at the end", LITERAL("print(1)"), 0, NULL },
    { "a single byte", LITERAL("0"), 0, NULL },
    { "only a newline", LITERAL("\n"), 0, NULL },
    { "UTF-8", LITERAL("print('\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80')\n"), 0, NULL },
    { "a byte order mark", LITERAL("\xef\xbb\xbfprint(1)\n"), 0, NULL },
    { "empty", LITERAL(""), EINVAL, "empty" },
    { "NUL", LITERAL("print(1)\0"), EINVAL, "NUL byte at offset 8" },
    { "NUL first", LITERAL("\0print(1)"), EINVAL, "NUL byte at offset 0" },
    { "NUL behind a cookie", LITERAL("# coding: utf-16\n\0"), EINVAL, "NUL byte at offset 17" },
    { "Latin-1", LITERAL("x = '\xe9'\n"), EILSEQ, "not UTF-8 at offset 5" },
    { "ends inside a character", LITERAL("x = '\xe2\x82"), EILSEQ, "not UTF-8 at offset 5" },
    { "overlong", LITERAL("\xc0\xaf"), EILSEQ, "not UTF-8 at offset 0" },
    { "a surrogate", LITERAL("#\n\xed\xa0\x80"), EILSEQ, "not UTF-8 at offset 2" },
    { "cookie", LITERAL("# coding: latin-1\nx = '\xe9'\n"), 0, NULL },
    { "cookie of Emacs", LITERAL("# -*- coding: latin-1 -*-\n\xe9"), 0, NULL },
    { "cookie of Vim", LITERAL("# vim: set fileencoding=latin-1 :\n\xe9"), 0, NULL },
    { "cookie in the second line", LITERAL("#!/usr/bin/python3\n# coding=latin-1\n\xe9"), 0, NULL },
    { "cookie and nothing else", LITERAL("# coding: latin-1 \xe9"), 0, NULL },
    { "cookie in the third line", LITERAL("#\n#\n# coding: latin-1\n\xe9"), EILSEQ,
      "not UTF-8 at offset 22" },
    { "no comment", LITERAL("coding: latin-1\n\xe9"), EILSEQ, "not UTF-8 at offset 16" },
    { "comment and cookie apart", LITERAL("#\ncoding: latin-1\n\xe9"), EILSEQ,
      "not UTF-8 at offset 18" },
    { "not quite a cookie", LITERAL("# coding latin-1\n\xe9"), EILSEQ, "not UTF-8 at offset 17" },
};

static void test_texts(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(text_cases); i++) {
        const struct text_case *c = &text_cases[i];
        struct program program = { 0 };
        struct gb_err err = { 0 };
        int r;

        file_write(c->data, c->len);
        r = load_path(path, &program, &err);
        if (c->error) {
            assert_refused(r, &program, &err, c->error, c->says);
            continue;
        }
        if (r != 0 || program.len != c->len || memcmp(program.code, c->data, c->len) != 0)
            fail_msg("%s: %d, %zu bytes; %s", c->name, r, program.len, err.msg);
        assert_string_equal(program.filename, "prog.py");
        assert_string_equal(program.argv[0], "prog.py");
        assert_null(program.argv[1]);
        program_release(&program);
        assert_null(program.code);
    }
}

/* Sizes around those at which the buffer grows, and around the largest that is taken. */
static void test_sizes(void **state)
{
    static const size_t sizes[] = { 65535,       65536,           65537,           131072,
                                    PROGRAM_MAX, PROGRAM_MAX + 1, 2 * PROGRAM_MAX, 50u << 20 };
    autofree char *data = malloc(50u << 20);

    (void) state;
    assert_non_null(data);
    for (size_t i = 0; i < 50u << 20; i++)
        data[i] = (char) ('a' + i % 23);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct program program = { 0 };
        struct gb_err err = { 0 };
        int r;

        file_write(data, sizes[i]);
        r = load_path(path, &program, &err);
        if (sizes[i] > PROGRAM_MAX) {
            assert_refused(r, &program, &err, EFBIG, "larger than 8 MiB");
            continue;
        }
        assert_int_equal(r, 0);
        assert_int_equal(program.len, sizes[i]);
        assert_memory_equal(program.code, data, sizes[i]);
        program_release(&program);
    }
}

static void test_no_such_file(void **state)
{
    struct program program = { 0 };
    struct gb_err err = { 0 };
    char below[256];

    (void) state;
    file_write("1", 1);
    assert_refused(load_path(dir, &program, &err), &program, &err, EISDIR, "is a directory");
    snprintf(below, sizeof below, "%s/missing.py", dir);
    assert_refused(load_path(below, &program, &err), &program, &err, ENOENT, "missing.py");
    snprintf(below, sizeof below, "%s/below.py", path);
    assert_refused(load_path(below, &program, &err), &program, &err, ENOTDIR, "below.py");
    assert_refused(load_path("", &program, &err), &program, &err, ENOENT, "cannot read ''");
}

static void test_arguments(void **state)
{
    char *args[] = { path, "-x", "", "two words", NULL };
    struct config cfg = { .args = args, .args_len = 4 };
    struct program program = { 0 };
    struct gb_err err;

    (void) state;
    file_write("1", 1);
    assert_int_equal(program_load(&cfg, &program, &err), 0);
    assert_string_equal(program.argv[0],
                        "prog.py"); /* a path of the host is none of its business */
    assert_string_equal(program.argv[1], "-x");
    assert_string_equal(program.argv[2], "");
    assert_string_equal(program.argv[3], "two words");
    assert_null(program.argv[4]);
    program_release(&program);
    program_release(&program); /* twice does no harm */
}

static void test_code(void **state)
{
    char *args[] = { "file.py", "-", NULL };
    struct config cfg = { .code = "print('\xc3\xa9')", .args = args, .args_len = 2 };
    struct program program = { 0 };
    struct gb_err err = { 0 };

    (void) state;
    assert_int_equal(program_load(&cfg, &program, &err), 0);
    assert_int_equal(program.len, strlen(cfg.code));
    assert_string_equal(program.code, cfg.code);
    assert_ptr_not_equal(program.code, cfg.code);
    assert_string_equal(program.filename, "<string>");
    /* All positionals are the program's: none is a file of ours. */
    assert_string_equal(program.argv[0], "-c");
    assert_string_equal(program.argv[1], "file.py");
    assert_string_equal(program.argv[2], "-");
    assert_null(program.argv[3]);
    program_release(&program);

    cfg = (struct config){ .code = "", .args = args + 2 };
    assert_refused(program_load(&cfg, &program, &err), &program, &err, EINVAL, "empty");
    cfg.code = "\xff";
    assert_refused(program_load(&cfg, &program, &err), &program, &err, EILSEQ, "offset 0");
    cfg.code = "1";
    assert_int_equal(program_load(&cfg, &program, &err), 0);
    assert_string_equal(program.argv[0], "-c");
    assert_null(program.argv[1]);
    program_release(&program);
}

/* Loads "-" from what @fd reads. */
static int load_stdin(int fd, struct program *program, struct gb_err *err)
{
    autoclose int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int r;

    assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    r = load_path("-", program, err);
    if (saved >= 0)
        assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
    else
        assert_int_equal(close(STDIN_FILENO), 0);
    return r;
}

static void test_standard_input(void **state)
{
    struct program program = { 0 };
    struct gb_err err = { 0 };
    int ends[2];

    (void) state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "1+1\n", 4), 4);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(load_stdin(ends[0], &program, &err), 0);
    assert_int_equal(program.len, 4);
    assert_memory_equal(program.code, "1+1\n", 4);
    assert_string_equal(program.filename, "<stdin>");
    assert_string_equal(program.argv[0], "-");
    assert_null(program.argv[1]);
    program_release(&program);

    /* It is at its end now. */
    assert_refused(load_stdin(ends[0], &program, &err), &program, &err, EINVAL, "empty");
    assert_int_equal(close(ends[0]), 0);

    ends[0] = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(ends[0] >= 0);
    assert_refused(load_stdin(ends[0], &program, &err), &program, &err, EISDIR, "standard input");
    assert_int_equal(close(ends[0]), 0);
}

/* ---- program_preload ---- */

static const struct preload_case {
    const char *name, *which, *code, *expected;
} preload_cases[] = {
    { "nothing named", "auto", "print(1)", "" },
    { "import", "auto", "import numpy", "numpy" },
    { "import as", "auto", "import numpy as np\nnp.zeros(3)", "numpy" },
    { "in the template's order", "auto", "import pandas, numpy", "numpy pandas" },
    { "at both ends", "auto", "numpy", "numpy" },
    { "only part of a word", "auto", "mynumpy = numpyx = _numpy = numpy_ = numpy2 = 1", "" },
    { "part of a word, then whole", "auto", "numpyx = 1; numpynumpy; import numpy", "numpy" },
    { "other bytes end a word", "auto", "(numpy.zeros)", "numpy" },
    { "case matters", "auto", "NumPy Pandas", "" },
    { "mentioned is enough", "auto", "importlib.import_module('pandas')", "pandas" },
    { "dotted", "auto", "import matplotlib.pyplot as plt", "matplotlib matplotlib.pyplot" },
    { "from", "auto", "from matplotlib import pyplot", "matplotlib matplotlib.pyplot" },
    { "only the first part", "auto", "import matplotlib", "matplotlib" },
    { "only the last part", "auto", "pyplot = express = graph_objects = 1", "" },
    { "only one of the dotted", "auto", "import plotly.express as px", "plotly plotly.express" },
    { "last part inside a word", "auto", "import plotly; expression = 1", "plotly" },
    { "all of them", "auto", "numpy pandas plotly.graph_objects plotly.express matplotlib.pyplot",
      "numpy pandas matplotlib matplotlib.pyplot plotly plotly.graph_objects plotly.express" },
    { "all", "all", "print(1)",
      "numpy pandas matplotlib matplotlib.pyplot plotly plotly.graph_objects plotly.express "
      "IPython" },
    { "a display", "auto", "from IPython.display import HTML", "IPython" },
    { "none", "none", "import numpy", "" },
    { "a list", "json,numpy", "print(1)", "json numpy" },
    { "a list, not of ours", "foo.bar", "print(1)", "foo.bar" },
    { "a list, with blanks", "json, re", "print(1)", "json re" },
    { "a list of commas", ",,json,,", "print(1)", "json" },
    { "an empty list", "", "import numpy", "" },
    { "not the word auto", "auto,none", "import numpy", "auto none" },
};

/* The text is not NUL-terminated: its copy ends where its block does. */
static struct program program_of(const char *code)
{
    struct program program = { .len = strlen(code) };

    program.code = malloc(program.len);
    assert_non_null(program.code);
    memcpy(program.code, code, program.len);
    return program;
}

static void test_preload(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(preload_cases); i++) {
        const struct preload_case *c = &preload_cases[i];
        struct program program = program_of(c->code);
        char buf[PRELOAD_MAX] = "unset";
        struct gb_err err;

        assert_int_equal(program_preload(&program, c->which, NULL, buf, sizeof buf, &err), 0);
        if (strcmp(buf, c->expected) != 0)
            fail_msg("%s: '%s'", c->name, buf);
        program_release(&program);
    }
}

/* The table above spells the list out, so that a change of it is one of these lines too. */
static void test_preload_all_is_known(void **state)
{
    (void) state;
    assert_string_equal(engine_preload_all, "numpy pandas matplotlib matplotlib.pyplot plotly "
                                            "plotly.graph_objects plotly.express IPython");
}

/* Too long is refused, whatever the size; what is written stays inside. */
static void test_preload_too_long(void **state)
{
    static const char list[] = "aaaa,bbbb,cccc", joined[] = "aaaa bbbb cccc";
    struct program program = program_of("print(1)");

    (void) state;
    for (size_t size = 1; size <= sizeof joined + 1; size++) {
        autofree char *buf = malloc(size);
        struct gb_err err = { 0 };
        int r;

        assert_non_null(buf);
        r = program_preload(&program, list, NULL, buf, size, &err);
        if (size >= sizeof joined) {
            assert_int_equal(r, 0);
            assert_string_equal(buf, joined);
        } else {
            assert_int_equal(r, -E2BIG);
            assert_int_equal(err.code, E2BIG);
            assert_non_null(strstr(err.msg, "--preload"));
        }
    }
    program_release(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_no_such_file),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_code),
        cmocka_unit_test(test_standard_input),
        cmocka_unit_test(test_preload),
        cmocka_unit_test(test_preload_all_is_known),
        cmocka_unit_test(test_preload_too_long),
    };

    return cmocka_run_group_tests(tests, dir_setup, dir_teardown);
}
