#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define R UTF8_REPLACEMENT

struct replace_case {
    const char *name, *in, *out;
};

/* What is its own replacement is valid. */
static const struct replace_case replace_cases[] = {
    { "ascii", "abc\x7f\x01", "abc\x7f\x01" },
    { "first of two bytes", "\xc2\x80", "\xc2\x80" },
    { "last of two bytes", "\xdf\xbf", "\xdf\xbf" },
    { "first of three bytes", "\xe0\xa0\x80", "\xe0\xa0\x80" },
    { "before the surrogates", "\xed\x9f\xbf", "\xed\x9f\xbf" },
    { "after the surrogates", "\xee\x80\x80", "\xee\x80\x80" },
    { "noncharacter U+FFFF", "\xef\xbf\xbf", "\xef\xbf\xbf" },
    { "first of four bytes", "\xf0\x90\x80\x80", "\xf0\x90\x80\x80" },
    { "U+10FFFF", "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
    { "lone continuation", "a\x80z", "a" R "z" },
    { "two continuations", "\x80\xbf", R R },
    { "overlong slash, two bytes", "\xc0\xaf", R R },
    { "overlong C1", "\xc1\xbf", R R },
    { "overlong slash, three bytes", "\xe0\x80\xaf", R R R },
    { "overlong slash, four bytes", "\xf0\x80\x80\xaf", R R R R },
    { "largest overlong, three bytes", "\xe0\x9f\xbf", R R R },
    { "largest overlong, four bytes", "\xf0\x8f\xbf\xbf", R R R R },
    { "surrogate D800", "\xed\xa0\x80", R R R },
    { "surrogate DFFF", "\xed\xbf\xbf", R R R },
    { "U+110000", "\xf4\x90\x80\x80", R R R R },
    { "F5", "\xf5\x80\x80\x80", R R R R },
    { "five byte form", "\xf8\x88\x80\x80\x80", R R R R R },
    { "FE FF", "\xfe\xff", R R },
    { "truncated two", "\xc3", R },
    { "truncated three", "\xe2\x82", R },
    { "truncated four", "\xf0\x9f\x98", R },
    { "truncated, then text", "\xe2\x82z", R "z" },
    { "truncated, then a character", "\xf0\x9f\xc3\xa9", R "\xc3\xa9" },
    /* Table 3-8 of the standard, chapter 3.9. */
    { "overlong forms of the standard", "\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41",
      R R R R R R R R "A" },
    { "surrogates of the standard", "\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", R R R R R R R R "A" },
    { "others of the standard", "\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", R R R R R "A" R R "B" },
    { "truncated of the standard", "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A" },
};

static void test_replace_and_valid(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(replace_cases); i++) {
        const struct replace_case *c = &replace_cases[i];
        size_t len = strlen(c->in), used = 0, n;
        char out[64];

        n = utf8_replace(c->in, len, out, sizeof out, &used);
        if (n != strlen(c->out) || memcmp(out, c->out, n) != 0 || used != len)
            fail_msg("%s: wrong replacement (%zu bytes for %zu)", c->name, n, used);
        if (utf8_valid(c->in, len) != (strcmp(c->in, c->out) == 0))
            fail_msg("%s: wrong verdict", c->name);
        if (!utf8_valid(out, n))
            fail_msg("%s: the replacement is not valid", c->name);
    }
}

static void test_nul_and_empty(void **state)
{
    size_t used = 9;
    char out[8];

    (void) state;
    assert_true(utf8_valid("", 0));
    assert_true(utf8_valid("a\0b", 3));
    assert_int_equal(utf8_replace("", 0, out, sizeof out, &used), 0);
    assert_int_equal(used, 0);
    assert_int_equal(utf8_replace("a\0b", 3, out, sizeof out, &used), 3);
    assert_memory_equal(out, "a\0b", 3);
}

/* For every room the output stays in it, is whole, and stands for what was used. */
static void test_replace_bounded(void **state)
{
    static const char in[] = "a\xff\xe2\x82\xac\xf0\x9f\x98\x80\xe2\x82";
    static const char all[] = "a" R "\xe2\x82\xac\xf0\x9f\x98\x80" R;
    static const size_t used_for[] = { 0, 1, 1, 1, 2, 2, 2, 5, 5, 5, 5, 9, 9, 9, 11, 11 };

    (void) state;
    for (size_t size = 0; size < ARRAY_LEN(used_for); size++) {
        char out[32];
        size_t used, n;

        memset(out, '#', sizeof out);
        n = utf8_replace(in, sizeof in - 1, out, size, &used);
        assert_true(n <= size);
        assert_int_equal(used, used_for[size]);
        assert_memory_equal(out, all, n);
        assert_true(utf8_valid(out, n));
        for (size_t i = n; i < sizeof out; i++)
            assert_int_equal(out[i], '#');
    }
}

struct partial_case {
    const char *in;
    size_t partial;
};

static const struct partial_case partial_cases[] = {
    { "", 0 },
    { "a", 0 },
    { "\xc3", 1 },
    { "a\xc3", 1 },
    { "\xc3\xa9", 0 },
    { "\xe2\x82", 2 },
    { "\xe2\x82\xac", 0 },
    { "x\xf0\x9f\x98", 3 },
    { "\xf0\x9f\x98\x80", 0 },
    { "\xf0\x9f", 2 },
    { "\x80\x80\x80", 0 },
    { "\xff", 0 },
    { "\xe0\x80", 0 }, /* no character begins so */
    { "\xed\xa0", 0 },
    { "\xf4\x90", 0 },
    { "\xc0", 0 },
};

static void test_partial_end(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(partial_cases); i++) {
        const struct partial_case *c = &partial_cases[i];

        if (utf8_partial_end(c->in, strlen(c->in)) != c->partial)
            fail_msg("case %zu: expected %zu", i, c->partial);
    }
}

/* Every code point, encoded by hand, against the verdict. */
static void test_all_code_points(void **state)
{
    (void) state;
    for (uint32_t cp = 0x10000; cp < 0x200000; cp++) {
        char b[4] = { (char) (0xf0 | cp >> 18), (char) (0x80 | (cp >> 12 & 0x3f)),
                      (char) (0x80 | (cp >> 6 & 0x3f)), (char) (0x80 | (cp & 0x3f)) };

        if (utf8_valid(b, 4) != (cp <= 0x10ffff))
            fail_msg("U+%X", cp);
    }
    for (uint32_t cp = 0; cp < 0x10000; cp++) {
        char b[3] = { (char) (0xe0 | cp >> 12), (char) (0x80 | (cp >> 6 & 0x3f)),
                      (char) (0x80 | (cp & 0x3f)) };

        if (utf8_valid(b, 3) != (cp >= 0x800 && (cp < 0xd800 || cp > 0xdfff)))
            fail_msg("U+%X", cp);
    }
    for (uint32_t cp = 0; cp < 0x800; cp++) {
        char b[2] = { (char) (0xc0 | cp >> 6), (char) (0x80 | (cp & 0x3f)) };

        if (utf8_valid(b, 2) != (cp >= 0x80))
            fail_msg("U+%X", cp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replace_and_valid), cmocka_unit_test(test_nul_and_empty),
        cmocka_unit_test(test_replace_bounded),   cmocka_unit_test(test_partial_end),
        cmocka_unit_test(test_all_code_points),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
