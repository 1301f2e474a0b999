/* Lock files: what is one, and which hashes it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "service/package/lock.h"

#include "base/banned.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

static const char good[] = "# a comment\n"
                           "click==8.5.1 \\\n"
                           "    --hash=sha256:" A " \\\n"
                           "    --hash=sha256:" B "\n"
                           "    # via nobody\n"
                           "\n"
                           "Foo_Bar[x,y]==1.0rc1 ; python_full_version < '3.12' \\\r\n"
                           "    --hash=sha256:" C "\r\n";

static void test_good(void **state)
{
    struct gb_err err;
    size_t len = 0;

    (void) state;
    assert_int_equal(lock_check(good, &len, &err), 0);
    assert_int_equal(len, 2);
    assert_true(lock_has(good, "click", "8.5.1", A));
    assert_true(lock_has(good, "click", "8.5.1", B));
    assert_true(lock_has(good, "foo-bar", "1.0rc1", C));
    assert_false(lock_has(good, "click", "8.5.1", C));
    assert_false(lock_has(good, "click", "8.5.2", A));
    assert_false(lock_has(good, "foo-bar", "1.0rc1", A));
    assert_false(lock_has(good, "foo_bar", "1.0rc1", C)); /* not the normal name */
    assert_false(lock_has("", "click", "8.5.1", A));
}

static void test_bad(void **state)
{
    static const char *const bad[] = {
        "",
        "# nothing\n",
        "click==8.5.1\n",
        "click>=8 \\\n    --hash=sha256:" A "\n",
        "click===8 \\\n    --hash=sha256:" A "\n",
        "click \\\n    --hash=sha256:" A "\n",
        "click==8 \\\n    --hash=sha256:" A "x\n",
        "click==8 \\\n    --hash=sha256:aa\n",
        "click==8 \\\n    --hash=md5:" A "\n",
        "click==8 --hash=sha256:" A "\n", /* on one line: not as pip and uv write it */
        "click==8 ; x == '' --index-url=http://evil \\\n    --hash=sha256:" A "\n",
        "--index-url http://evil\nclick==8 \\\n    --hash=sha256:" A "\n",
        "-r other.txt\n",
        "-e .\n",
        "x @ http://evil/x.whl \\\n    --hash=sha256:" A "\n",
        "    --hash=sha256:" A "\n",
        "a==1\nb==2 \\\n    --hash=sha256:" A "\n",
        "a==1 \\\n    --hash=sha256:" A "\nb==2\n",
        "a==../1 \\\n    --hash=sha256:" A "\n",
        "../a==1 \\\n    --hash=sha256:" A "\n",
        "    a==1 \\\n    --hash=sha256:" A "\n",
    };
    struct gb_err err;
    size_t len;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (lock_check(bad[i], &len, &err) != -EINVAL)
            fail_msg("accepted: %s", bad[i]);
}

static void test_long_line(void **state)
{
    autofree char *text = malloc(1 << 16);
    struct gb_err err;
    size_t len;

    (void) state;
    memset(text, 'x', 1 << 16);
    text[(1 << 16) - 1] = '\0';
    assert_int_equal(lock_check(text, &len, &err), -EINVAL);
    assert_false(lock_has(text, "x", "1", A));
}

int main(void)
{
    static const struct CMUnitTest tests[] = { cmocka_unit_test(test_good),
                                               cmocka_unit_test(test_bad),
                                               cmocka_unit_test(test_long_line) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
