/* Of `glovebox shell`: frames of a WebSocket, and the filter of control strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/shell/filter.h"
#include "cli/shell/frames.h"

#include "base/banned.h"

/* ---- frames ---- */

static char told[4096];
static size_t told_len;

static int note(void *arg, enum frame_kind kind, const char *data, size_t len)
{
    (void) arg;
    told_len += (size_t) snprintf(told + told_len, sizeof told - told_len, "%d:%.*s;", (int) kind,
                                  (int) (len > 20 ? 20 : len), data ? data : "");
    return 0;
}

/* Fed in pieces of @step bytes. */
static int feed(const char *data, size_t len, size_t step)
{
    struct frames frames = { 0 };
    int r = 0;

    told_len = 0;
    told[0] = '\0';
    for (size_t at = 0; r == 0 && at < len; at += step)
        r = frames_feed(&frames, data + at, len - at < step ? len - at : step, note, NULL);
    frames_release(&frames);
    return r;
}

static void test_frames(void **state)
{
    static const char good[] = "\x81\x02hi"
                               "\x82\x00"
                               "\x89\x01p"
                               "\x02\x02"
                               "ab"
                               "\x8a\x00"
                               "\x80\x01"
                               "c"
                               "\x82\x7e\x00\x03xyz"
                               "\x82\x7f\x00\x00\x00\x00\x00\x00\x00\x01q"
                               "\x88\x02\x03\xe8";

    (void) state;
    for (size_t step = 1; step < sizeof good; step++) {
        assert_int_equal(feed(good, sizeof good - 1, step), 0);
        assert_string_equal(told, "1:hi;2:;9:p;10:;2:abc;2:xyz;2:q;8:\x03\xe8;");
    }
}

static void test_bad_frames(void **state)
{
    static const struct {
        const char *data;
        size_t len;
        int error;
    } cases[] = {
        { "\x83\x00", 2, -EPROTO },         /* no such kind */
        { "\x8b\x00", 2, -EPROTO },         /* nor of control frames */
        { "\xc2\x00", 2, -EPROTO },         /* reserved bits */
        { "\x82\x81", 2, -EPROTO },         /* masked */
        { "\x80\x00", 2, -EPROTO },         /* the rest of nothing */
        { "\x02\x00\x82\x00", 4, -EPROTO }, /* a message in a message */
        { "\x09\x00", 2, -EPROTO },         /* a control frame in pieces */
        { "\x89\x7e\x00\x7e", 4, -EPROTO }, /* or too long */
        { "\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", 10, -EMSGSIZE },
        { "\x82\x7f\x00\x00\x00\x00\x00\x40\x00\x01", 10, -EMSGSIZE },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(feed(cases[i].data, cases[i].len, 1), cases[i].error);
        assert_int_equal(feed(cases[i].data, cases[i].len, cases[i].len), cases[i].error);
    }
}

static void test_wrap(void **state)
{
    static const uint8_t mask[4] = { 1, 2, 3, 4 };
    static const struct {
        size_t len, head_len;
        uint8_t second;
    } cases[] = {
        { 0, 6, 0x80 }, { 125, 6, 0xfd }, { 126, 8, 0xfe }, { 65535, 8, 0xfe }, { 65536, 14, 0xff }
    };
    static char data[65536];
    uint8_t head[FRAME_HEAD_MAX];

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(data, 0, sizeof data);
        assert_int_equal(frame_wrap(FRAME_BINARY, data, cases[i].len, mask, head),
                         cases[i].head_len);
        assert_int_equal(head[0], 0x82);
        assert_int_equal(head[1], cases[i].second);
        assert_memory_equal(head + cases[i].head_len - 4, mask, 4);
        for (size_t j = 0; j < cases[i].len; j++)
            assert_int_equal(data[j], mask[j % 4]);
    }
}

/* ---- the filter ---- */

static void test_filter(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "plain text\r\n\t\a", "plain text\r\n\t\a" },
        { "\033[31mred\033[0m\033[?1049h\033[2J\033[1;1H",
          "\033[31mred\033[0m\033[?1049h\033[2J\033[1;1H" },
        { "\033(B\033=\0337\033M", "\033(B\033=\0337\033M" },
        { "n\xc3\xa9\xe2\x82\xac\xc2\xa7\xc2\xa0", "n\xc3\xa9\xe2\x82\xac\xc2\xa7\xc2\xa0" },
        { "a\033]0;title\007b", "ab" },
        { "a\033]52;c;ZXZpbA==\033\\b", "ab" },
        { "a\033P+q544e\033\\b\033_x\033\\c\033^y\033\\d\033Xz\033\\e", "abcde" },
        { "a\xc2\x9d"
          "0;title\xc2\x9c"
          "b\xc2\x90q\007c",
          "abc" },
        { "a\033]0;never ended", "a" },
        { "a\033]0;x\030b", "ab" },             /* cancelled */
        { "a\033]0;x\033[31mb", "a\033[31mb" }, /* another sequence ends it */
        { "a\033]0;x\033]0;y\007b", "ab" },
        { "a\033\033]0;x\007b", "ab" },
        { "a\033]0;\xc2\xa7\xc2\007b", "ab" },
        /* terminals execute controls within a sequence, and go on with it */
        { "a\033\n]52;c;x\007b", "a\nb" },
        { "a\033\t\177]52;c;x\007b", "a\t\177b" },
        /* halves that would become one with what follows */
        { "a\xc2\xc2\x9d"
          "52;c;x\007b",
          "ab" },
        { "a\033\xc2\x9d"
          "52;c;x\007b",
          "ab" },
        { "a\xc2\033]x\007\x9d"
          "b",
          "ab" },
        { "a\033\xe2\x9d\xa4]52;c;x", "a\xe2\x9d\xa4]52;c;x" },
        { "a\033\xff]52;c;x", "a\xff]52;c;x" },
        { "a\xc2]\xc2\xe2\x82\xac", "a]\xe2\x82\xac" },
        /* of screen and tmux */
        { "a\033ktitle\033\\b", "ab" },
        /* controls of one byte, which are parts of characters elsewhere */
        { "a\x9d"
          "52;c;x\x9c"
          "b\x9b"
          "31m",
          "a52;c;xb31m" },
        { "\xe2\x9d\xa4\xf0\x9f\x98\x9d\xc3\x9d\xe2\x9d\x9d\x9d",
          "\xe2\x9d\xa4\xf0\x9f\x98\x9d\xc3\x9d\xe2\x9d\x9d" },
        { "\xf0\x9f"
          "a\x98",
          "\xf0\x9f"
          "a" },
        /* encodings in which those parts would be controls */
        { "a\033%@b\033%Gc\033%/@d\033%\033[me\033%\n@f", "abcd\033[me\nf" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t len = strlen(cases[i].in);

        for (size_t step = 1; step <= len; step++) {
            struct shell_filter filter = { 0 };
            char out[256] = "";
            size_t used = 0;

            for (size_t at = 0; at < len; at += step) {
                char piece[129];
                size_t part = len - at < step ? len - at : step, n;

                n = shell_filter(&filter, cases[i].in + at, part, piece);
                assert_true(n <= part + 1);
                memcpy(out + used, piece, n);
                used += n;
            }
            out[used] = '\0';
            assert_string_equal(out, cases[i].out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_bad_frames),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_filter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
