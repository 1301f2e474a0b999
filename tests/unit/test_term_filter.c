#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "cli/terminal/term_filter.h"

#include "base/banned.h"

#define R UTF8_REPLACEMENT

struct filter_case {
    const char *name, *in, *out;
};

static const struct filter_case filter_cases[] = {
    { "text", "hello, w\xc3\xb6rld \xe2\x82\xac \xf0\x9f\x98\x80\n", NULL },
    { "the four controls", "a\r\nb\tc\b", NULL },
    { "other controls",
      "a\x01\x05\x07\x0b\x0c\x0e\x0f\x11\x7f"
      "b",
      "ab" },
    { "colour", "\x1b[1;31mred\x1b[0m", NULL },
    { "true colour", "\x1b[38;2;255;255;255mx\x1b[m", NULL },
    { "colour with colons", "\x1b[38:5:1mx\x1b[0m", NULL },
    { "movement", "\x1b[A\x1b[2B\x1b[3C\x1b[4D\x1b[E\x1b[F\x1b[9G\x1b[1;2H\x1b[f", NULL },
    { "erase", "\x1b[J\x1b[0J\x1b[1J\x1b[2J\x1b[K\x1b[2K", NULL },
    { "cursor off and on", "\x1b[?25lx\x1b[?25h", NULL },

    { "scrollback", "a\x1b[3Jb", "ab" },
    { "scrollback, padded", "a\x1b[03Jb", "ab" },
    { "long number", "a\x1b[999999Ab", "ab" },
    { "longest number", "\x1b[99999A", NULL },
    { "too many parameters", "a\x1b[1;38;2;255;255;255;1mb", "ab" },
    { "endless parameters", "a\x1b[111111111111111111111111111111111111111111111111111111mb",
      "ab" },
    { "colons elsewhere", "a\x1b[1:2Hb", "ab" },
    { "device status", "a\x1b[6nb\x1b[5nc", "abc" },
    { "device attributes", "a\x1b[cb\x1b[>cd\x1b[=ce", "abde" },
    { "window", "a\x1b[21tb\x1b[8;1;1tc", "abc" },
    { "modes", "a\x1b[?1049hb\x1b[?1000hc\x1b[4hd\x1b[?25;1049he", "abcde" },
    { "cursor mode, padded", "a\x1b[?025hb\x1b[?25sc", "abc" },
    { "key mapping", "a\x1b[>4;2mb\x1b[?4mc", "abc" },
    { "scroll, insert, delete", "a\x1b[2Sb\x1b[2Tc\x1b[2Ld\x1b[2Me\x1b[2@f", "abcdef" },
    { "repeat", "a\x1b[99999bb", "ab" },
    { "scroll region, save", "a\x1b[1;2rb\x1b[sc\x1b[ud", "abcd" },
    { "intermediates", "a\x1b[!pb\x1b[2 qc\x1b[1$md", "abcd" },
    { "parameter after intermediate", "a\x1b[ 1mb", "ab" },
    { "media copy", "a\x1b[5ib\x1b[?5ic", "abc" },
    { "console function key", "a\x1b[[Ab", "aAb" },

    { "title, BEL", "a\x1b]0;owned\ab", "ab" },
    { "title, ST", "a\x1b]2;owned\x1b\\b", "ab" },
    { "clipboard", "a\x1b]52;c;cm0gLXJm\x1b\\b", "ab" },
    { "link", "\x1b]8;;http://x/\x1b\\t\x1b]8;;\x1b\\", "t" },
    { "title without end", "a\x1b]0;owned\nb", "a\nb" },
    { "title cancelled",
      "a\x1b]0;owned\x18"
      "b",
      "ab" },
    { "title cut by a colour", "a\x1b]0;owned\x1b[31mb", "a\x1b[31mb" },
    { "title with text", "a\x1b]0;\xe2\x82\xac\xc2\x9c\x9c\ab", "ab" },
    { "device control", "a\x1bP$q\"p\x1b\\b", "ab" },
    { "device control over lines", "a\x1bPq#0\n#1\n\x1b\\b", "ab" },
    { "APC, PM, SOS", "a\x1b_G\x1b\\b\x1b^p\x1b\\c\x1bXs\x1b\\d", "abcd" },
    { "ESC ESC in a string", "a\x1b]0;x\x1b\x1b\\b", "ab" },

    { "reset",
      "a\x1b"
      "cb",
      "ab" },
    { "save, restore, keypad",
      "a\x1b"
      "7b\x1b"
      "8c\x1b=d\x1b>e",
      "abcde" },
    { "index, reverse index",
      "a\x1b"
      "Db\x1bMc\x1b"
      "Ed",
      "abcd" },
    { "identify", "a\x1bZb", "ab" },
    { "character sets", "a\x1b(0b\x1b)Bc\x1b%Gd\x1b#8e", "abcde" },
    { "ESC ESC [", "a\x1b\x1b[31mb", "a\x1b[31mb" },
    { "control inside a sequence", "a\x1b[3\n1mb", "a\n1mb" },
    { "ESC inside a sequence", "a\x1b[3\x1b[31mb", "a\x1b[31mb" },
    { "DEL inside a sequence",
      "a\x1b[3\x7f"
      "1mb",
      "a1mb" },
    { "character inside a sequence", "a\x1b[3\xc3\xa9mb", "a\xc3\xa9mb" },

    { "C1 as a byte",
      "a\x9b"
      "31mb",
      "a" R "31mb" },
    { "C1 as a character",
      "a\xc2\x9b"
      "31mb\xc2\x85"
      "c",
      "a31mbc" },
    { "C1 string",
      "a\xc2\x9d"
      "0;t\ab",
      "a0;tb" },
    { "after C1", "\xc2\xa0", NULL },
    { "overlong ESC", "a\xc0\x9b[31mb", "a" R R "[31mb" },
    { "surrogate", "\xed\xa0\x80", R R R },
    { "broken character, then text", "\xe2\x82z", R "z" },
    { "broken character, then a sequence", "\xf0\x9f\x98\x1b[0m", R "\x1b[0m" },
    { "broken character, then another", "\xf0\x9f\x98\xc3\xa9\xff", R "\xc3\xa9" R },
};

/* Runs one chunk in a block of exactly the promised size, so that a sanitizer sees one byte more.
 */
static size_t run_chunk(struct term_filter *f, const char *in, size_t len, char *out)
{
    autofree char *room = malloc(TERM_FILTER_OUT_SIZE(len));
    size_t n;

    assert_non_null(room);
    n = term_filter_run(f, in, len, room);
    assert_true(n <= TERM_FILTER_OUT_SIZE(len));
    assert_true(utf8_valid(room, n));
    memcpy(out, room, n);
    return n;
}

static void check(const struct filter_case *c, const char *got, size_t n, size_t a, size_t b)
{
    const char *want = c->out ? c->out : c->in;

    if (n != strlen(want) || memcmp(got, want, n) != 0)
        fail_msg("%s, split at %zu and %zu: got '%.*s'", c->name, a, b, (int) n, got);
}

static void test_cases(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(filter_cases); i++) {
        const struct filter_case *c = &filter_cases[i];
        size_t len = strlen(c->in);

        for (size_t a = 0; a <= len; a++) {
            for (size_t b = a; b <= len; b++) {
                struct term_filter f;
                char out[512];
                size_t n;

                term_filter_init(&f);
                n = run_chunk(&f, c->in, a, out);
                n += run_chunk(&f, c->in + a, b - a, out + n);
                n += run_chunk(&f, c->in + b, len - b, out + n);
                check(c, out, n, a, b);
            }
        }
    }
}

static void test_byte_by_byte(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(filter_cases); i++) {
        const struct filter_case *c = &filter_cases[i];
        size_t len = strlen(c->in), n = 0;
        struct term_filter f;
        char out[512];

        term_filter_init(&f);
        for (size_t pos = 0; pos < len; pos++)
            n += run_chunk(&f, c->in + pos, 1, out + n);
        check(c, out, n, 1, 1);
    }
}

/* The largest output a chunk can have: a held sequence, then nothing but invalid bytes. */
static void test_room(void **state)
{
    static const char held[] = "\x1b[38;2;255;255;255";
    char in[65], out[512];
    struct term_filter f;

    (void) state;
    memset(in, '\xff', sizeof in);
    in[0] = 'm';
    term_filter_init(&f);
    assert_int_equal(run_chunk(&f, held, sizeof held - 1, out), 0);
    assert_int_equal(run_chunk(&f, in, sizeof in, out), TERM_FILTER_OUT_SIZE(sizeof in));
}

static void test_nul(void **state)
{
    struct term_filter f;
    char out[64];

    (void) state;
    term_filter_init(&f);
    assert_int_equal(run_chunk(&f, "a\0b\x1b[\0mc", 9, out), 4);
    assert_memory_equal(out, "abmc", 4);
}

/* A string that never ends hides a bounded amount of what follows. */
static void test_endless_string(void **state)
{
    enum { LEN = 2 * 1024 * 1024 };
    autofree char *in = malloc(LEN), *out = malloc(TERM_FILTER_OUT_SIZE((size_t) LEN));
    struct term_filter f;
    size_t n;

    (void) state;
    assert_non_null(in);
    assert_non_null(out);
    memset(in, 'x', LEN);
    term_filter_init(&f);
    assert_int_equal(term_filter_run(&f, "\x1bP", 2, out), 0);
    n = term_filter_run(&f, in, LEN, out);
    assert_int_equal(n, LEN - 1024 * 1024);
    assert_int_equal(term_filter_run(&f, "\x1b[0m", 4, out), 4);
}

struct end_case {
    const char *in, *end;
};

static const struct end_case end_cases[] = {
    { "text", "" },
    { "\x1b[31mred", "\x1b[0m" },
    { "\x1b[31mred\x1b[0m", "" },
    { "\x1b[31mred\x1b[m", "" },
    { "\x1b[?25l", "\x1b[?25h" },
    { "\x1b[?25l\x1b[?25h", "" },
    { "\x1b[?25l\x1b[1m\xe2\x82", R "\x1b[0m\x1b[?25h" },
    { "\x1b[31", "" },
    { "\x1b]0;t", "" },
};

static void test_end(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(end_cases); i++) {
        const struct end_case *c = &end_cases[i];
        char out[64], end[TERM_FILTER_SLACK];
        struct term_filter f;
        size_t n;

        term_filter_init(&f);
        (void) run_chunk(&f, c->in, strlen(c->in), out);
        n = term_filter_end(&f, end);
        if (n != strlen(c->end) || memcmp(end, c->end, n) != 0)
            fail_msg("case %zu: wrong end of %zu bytes", i, n);
        assert_int_equal(term_filter_end(&f, end), 0);
    }
}

/* Whether @p starts with a sequence that may pass, by a second reading of the rule. */
static size_t allowed_sequence(const char *p, size_t len)
{
    size_t i = 2;

    if (len < 3 || p[1] != '[')
        return 0;
    if (len >= 6 && (memcmp(p + 2, "?25h", 4) == 0 || memcmp(p + 2, "?25l", 4) == 0))
        return 6;
    while (i < len && (strchr(";:0123456789", p[i]) && p[i] != '\0'))
        i++;
    return i < len && p[i] != '\0' && strchr("mABCDEFGHfJK", p[i]) ? i + 1 : 0;
}

/* Random bytes from an alphabet of trouble: whatever comes, only allowed sequences leave. */
static void test_random(void **state)
{
    static const char alphabet[] = "\x1b\x1b\x1b\x1b[[[[]P_^X\\\a\x18\n;:?>! 0123mmmHJKhlnctq"
                                   "\xc2\x9b\x9d\xe2\x82\xac\xf0\xff"
                                   "a25";
    uint64_t x = 0x9e3779b97f4a7c15u;

    (void) state;
    for (int round = 0; round < 20000; round++) {
        char in[64], out[TERM_FILTER_OUT_SIZE(64)];
        struct term_filter f;
        size_t n, i;

        for (i = 0; i < sizeof in; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            in[i] = alphabet[(x >> 20) % (sizeof alphabet - 1)];
        }
        term_filter_init(&f);
        n = run_chunk(&f, in, sizeof in, out);
        for (i = 0; i < n; i++) {
            if (out[i] == '\x1b') {
                size_t seq = allowed_sequence(out + i, n - i);

                if (seq == 0)
                    fail_msg("round %d: a sequence got through", round);
                i += seq - 1;
            } else if ((unsigned char) out[i] < ' ') {
                assert_non_null(strchr("\n\r\t\b", out[i]));
            } else if (out[i] == '\xc2') {
                assert_true(i + 1 < n && (unsigned char) out[i + 1] >= 0xa0);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),          cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_room),           cmocka_unit_test(test_nul),
        cmocka_unit_test(test_endless_string), cmocka_unit_test(test_end),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
