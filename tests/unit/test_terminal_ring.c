#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "service/terminal/ring.h"

#include "base/banned.h"

#define SIZE 16

static char data[SIZE];

static struct ring empty(void)
{
    memset(data, 0, sizeof data);
    return (struct ring){ .data = data, .size = SIZE };
}

static void put(struct ring *ring, const char *text)
{
    ring_write(ring, text, strlen(text));
}

/* Everything from @offset on, in pieces of @step. */
static void check(const struct ring *ring, int64_t offset, size_t step, const char *want)
{
    char all[4 * SIZE] = "";
    size_t len = 0, n;

    while ((n = ring_read(ring, &offset, all + len, step)) > 0)
        len += n;
    assert_int_equal(len, strlen(want));
    assert_memory_equal(all, want, len);
    assert_int_equal(offset, ring->total);
}

static void test_small(void **state)
{
    struct ring ring = empty();

    (void) state;
    check(&ring, 0, 4, "");
    put(&ring, "");
    assert_int_equal(ring.total, 0);
    put(&ring, "abc");
    put(&ring, "def");
    for (size_t step = 1; step < 9; step++)
        check(&ring, 0, step, "abcdef");
    check(&ring, 4, 3, "ef");
    check(&ring, 6, 3, "");
    assert_int_equal(ring_start(&ring), 0);
}

static void test_the_oldest_goes(void **state)
{
    struct ring ring = empty();

    (void) state;
    put(&ring, "0123456789");
    put(&ring, "abcdefghij");
    assert_int_equal(ring.total, 20);
    assert_int_equal(ring_start(&ring), 4);
    for (size_t step = 1; step < 20; step++)
        check(&ring, 4, step, "456789abcdefghij");
    check(&ring, 0, 5, "456789abcdefghij"); /* gone by now: skipped */
    put(&ring, "a text that is longer than the whole ring");
    assert_int_equal(ring.total, 61);
    check(&ring, 0, 7, "n the whole ring");
    put(&ring, "0123456789abcdef"); /* exactly as long */
    check(&ring, 0, 16, "0123456789abcdef");
}

static void test_seek(void **state)
{
    struct ring ring = empty();

    (void) state;
    assert_int_equal(ring_seek(&ring, -1), 0);
    assert_int_equal(ring_seek(&ring, 0), 0);
    assert_int_equal(ring_seek(&ring, 1), 0);
    assert_int_equal(ring_seek(&ring, INT64_MAX), 0);
    put(&ring, "0123456789");
    assert_int_equal(ring_seek(&ring, -1), 0);
    assert_int_equal(ring_seek(&ring, 7), 7);
    assert_int_equal(ring_seek(&ring, 10), 10);
    assert_int_equal(ring_seek(&ring, 11), 10);
    put(&ring, "0123456789");
    assert_int_equal(ring_seek(&ring, -1), 4);
    assert_int_equal(ring_seek(&ring, INT64_MIN), 4);
    assert_int_equal(ring_seek(&ring, 3), 4);
    assert_int_equal(ring_seek(&ring, 4), 4);
    assert_int_equal(ring_seek(&ring, 5), 5);
}

/* What is left begins with a whole character; where a reader asks for is never changed. */
static void test_characters(void **state)
{
    struct ring ring = empty();

    (void) state;
    put(&ring, "\xf0\x9f\x99\x82"
               "abcdefghijklm"); /* 17 bytes: the first is gone */
    assert_int_equal(ring_start(&ring), 1);
    assert_int_equal(ring_seek(&ring, -1), 4);
    assert_int_equal(ring_seek(&ring, 0), 4);
    assert_int_equal(ring_seek(&ring, 2), 2);
    ring = empty();
    /* Not UTF-8 at all: no more than three bytes are left out. */
    for (int i = 0; i < 40; i++)
        put(&ring, "\x80");
    assert_int_equal(ring_seek(&ring, -1), 40 - SIZE + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_the_oldest_goes),
        cmocka_unit_test(test_seek),
        cmocka_unit_test(test_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
