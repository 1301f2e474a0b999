#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "engine/outbuf.h"

#include "base/banned.h"

struct cut_case {
    const char *name;
    size_t budget;
    const char *in, *head, *tail;
    int64_t left_out;
};

static const struct cut_case cut_cases[] = {
    { "nothing", 8, "", "", "", 0 },
    { "less than the head", 8, "abc", "abc", "", 0 },
    { "into the ring", 8, "abcdef", "abcdef", "", 0 },
    { "exactly the budget", 8, "abcdefgh", "abcdefgh", "", 0 },
    { "one more", 8, "abcdefghi", "abcd", "fghi", 1 },
    { "many more", 8, "abcdefghijklmnopqrstuvwxyz", "abcd", "wxyz", 18 },
    { "odd budget", 7, "abcdefghij", "abc", "ghij", 3 },
    { "budget of one", 1, "abc", "", "c", 2 },
    { "no budget", 0, "abc", "", "", 3 },
    { "head ends in a character", 8, "ab\xe2\x82\xac_______wxyz", "ab", "wxyz", 10 },
    { "head ends with a character", 8, "a\xe2\x82\xac_______wxyz", "a\xe2\x82\xac", "wxyz", 7 },
    { "tail starts in a character", 8, "abcd______\xe2\x82\xacz", "abcd", "\xe2\x82\xacz", 6 },
    { "tail starts at the second byte", 8, "abcd____\xe2\x82\xacyz", "abcd", "yz", 7 },
    { "tail starts at the third byte", 8, "abcd_____\xe2\x82\xacxyz", "abcd", "xyz", 8 },
    { "tail of four bytes fits", 8, "abcd_____\xf0\x9f\x98\x80", "abcd", "\xf0\x9f\x98\x80", 5 },
    { "tail starts inside four", 8, "abcd_____\xf0\x9f\x98\x80z", "abcd", "z", 9 },
    { "bytes that are no text stay", 8, "ab\xff\xff_____\xff\xfeyz", "ab\xff\xff", "\xff\xfeyz",
      5 },
    { "whole stream is not trimmed", 8, "abcd\xe2\x82", "abcd\xe2\x82", "", 0 },
};

static void cut_release(struct stream_cut *cut)
{
    free(cut->head);
    free(cut->tail);
}

static void check_cut(const struct cut_case *c, const struct stream_cut *cut, size_t step)
{
    if (cut->head_len != strlen(c->head) || cut->tail_len != strlen(c->tail) ||
        (cut->head_len > 0 && memcmp(cut->head, c->head, cut->head_len) != 0) ||
        (cut->tail_len > 0 && memcmp(cut->tail, c->tail, cut->tail_len) != 0) ||
        cut->left_out != c->left_out)
        fail_msg("%s, steps of %zu: head '%.*s' tail '%.*s' left out %lld", c->name, step,
                 (int) cut->head_len, cut->head ? cut->head : "", (int) cut->tail_len,
                 cut->tail ? cut->tail : "", (long long) cut->left_out);
}

/* The size of the pieces in which the stream comes must not matter. */
static void test_cuts(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cut_cases); i++) {
        const struct cut_case *c = &cut_cases[i];
        size_t len = strlen(c->in);

        for (size_t step = 1; step <= len + 1; step++) {
            struct stream_cut cut;
            struct outbuf buf;

            outbuf_init(&buf, c->budget);
            for (size_t pos = 0; pos < len; pos += step) {
                size_t part = len - pos < step ? len - pos : step;

                assert_int_equal(outbuf_add(&buf, c->in + pos, part), 0);
            }
            assert_int_equal(buf.total, len);
            assert_int_equal(outbuf_take(&buf, &cut), 0);
            check_cut(c, &cut, step);
            cut_release(&cut);
            outbuf_release(&buf);
        }
    }
}

/* A large stream costs the budget and no more, and its two ends are the right ones. */
static void test_large_stream(void **state)
{
    enum { BUDGET = 100000, STEPS = 5000, STEP = 977 };
    struct stream_cut cut;
    struct outbuf buf;
    char chunk[STEP];

    (void) state;
    outbuf_init(&buf, BUDGET);
    for (int64_t i = 0; i < STEPS; i++) {
        for (int64_t j = 0; j < STEP; j++)
            chunk[j] = (char) ('a' + (i * STEP + j) % 26);
        assert_int_equal(outbuf_add(&buf, chunk, sizeof chunk), 0);
        assert_true(buf.cap <= BUDGET);
    }
    assert_int_equal(outbuf_take(&buf, &cut), 0);
    assert_int_equal(cut.head_len, BUDGET / 2);
    assert_int_equal(cut.tail_len, BUDGET / 2);
    assert_int_equal(cut.left_out, (int64_t) STEPS * STEP - BUDGET);
    for (int64_t i = 0; i < BUDGET / 2; i++) {
        int64_t at = (int64_t) STEPS * STEP - BUDGET / 2 + i;

        assert_int_equal(cut.head[i], 'a' + i % 26);
        assert_int_equal(cut.tail[i], 'a' + at % 26);
    }
    cut_release(&cut);
    outbuf_release(&buf);
}

/* Memory grows with the stream and not with the budget. */
static void test_small_stream_is_small(void **state)
{
    struct outbuf buf;

    (void) state;
    outbuf_init(&buf, SIZE_MAX / 4);
    assert_null(buf.data);
    assert_int_equal(outbuf_add(&buf, "hello", 5), 0);
    assert_true(buf.cap <= 65536);
    outbuf_release(&buf);
    assert_null(buf.data);
}

static void test_taken_buffer_starts_anew(void **state)
{
    struct stream_cut cut;
    struct outbuf buf;

    (void) state;
    outbuf_init(&buf, 4);
    assert_int_equal(outbuf_add(&buf, "0123456789", 10), 0);
    assert_int_equal(outbuf_take(&buf, &cut), 0);
    cut_release(&cut);
    assert_int_equal(outbuf_add(&buf, "abcd", 4), 0);
    assert_int_equal(outbuf_take(&buf, &cut), 0);
    assert_int_equal(cut.left_out, 0);
    assert_int_equal(cut.head_len, 4);
    assert_memory_equal(cut.head, "abcd", 4);
    cut_release(&cut);
}

static void test_outcome(void **state)
{
    static const char *const names[] = { "ok",   "error", "timeout", "oom",       "killed",
                                         "pids", "disk",  "output",  "cancelled", "system" };
    struct outcome o = { .files_len = 2 };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_string_equal(run_status_name((enum run_status) i), names[i]);
    assert_string_equal(run_status_name((enum run_status) 99), "system");

    outcome_release(&o); /* the list was announced but never allocated */
    o.files = calloc(2, sizeof *o.files);
    o.files_len = 2;
    o.files[0].path = strdup("a"); /* the second has no path yet */
    o.out.head = strdup("x");
    o.error_value = strdup("y");
    outcome_release(&o);
    assert_null(o.files);
    assert_null(o.out.head);
    outcome_release(&o);
    outcome_release(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_large_stream),
        cmocka_unit_test(test_small_stream_is_small),
        cmocka_unit_test(test_taken_buffer_starts_anew),
        cmocka_unit_test(test_outcome),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
