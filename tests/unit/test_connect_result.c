/* The file of a result: its bytes, its bounds, and values that are not what their column is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "connect/result.h"

#include "base/banned.h"

static struct result_column *columns_of(const enum result_type *types, size_t len)
{
    struct result_column *columns = calloc(len ? len : 1, sizeof *columns);
    char name[16];

    assert_non_null(columns);
    for (size_t i = 0; i < len; i++) {
        snprintf(name, sizeof name, "c%zu", i);
        columns[i].name = strdup(name);
        columns[i].source_type = strdup("x");
        columns[i].type = types[i];
    }
    return columns;
}

static uint64_t word_at(const uint8_t *data, size_t at)
{
    uint64_t word;

    memcpy(&word, data + at, sizeof word);
    return word;
}

static void test_bytes(void **state)
{
    static const enum result_type types[] = { RESULT_INT, RESULT_TEXT };
    autoclose int fd = memfd_create("result", MFD_CLOEXEC);
    struct result *result = NULL;
    uint8_t data[4096];
    int64_t size;
    size_t at;

    (void) state;
    assert_int_equal(result_new(fd, 1 << 20, columns_of(types, 2), 2, &result), 0);
    assert_int_equal(result_put_int(result, -5), 0);
    assert_int_equal(result_put_text(result, "hey", 3), 0);
    assert_int_equal(result_end_row(result), 0);
    assert_int_equal(result_put_null(result), 0);
    assert_int_equal(result_put_null(result), 0);
    assert_int_equal(result_end_row(result), 0);
    assert_int_equal(result_rows(result), 2);
    assert_int_equal(result_finish(result, &size), 0);
    result_free(result);
    assert_int_equal(pread(fd, data, sizeof data, 0), size);
    assert_memory_equal(data, "GBRESULTSCHM\0\0\0\0", 16);
    at = 24 + ((word_at(data, 16) + 7) & ~UINT64_C(7));
    assert_memory_equal(data + at, "BTCH\0\0\0\0", 8);
    /* rows; nulls, mask, values; nulls, mask, three ends, bytes */
    assert_int_equal(word_at(data, at + 8), 8 + (8 + 8 + 16) + (8 + 8 + 24 + 8));
    at += 16;
    assert_int_equal(word_at(data, at), 2);
    assert_int_equal(word_at(data, at + 8), 1);
    assert_memory_equal(data + at + 16, "\0\1\0\0\0\0\0\0", 8);
    assert_int_equal((int64_t) word_at(data, at + 24), -5);
    assert_int_equal(word_at(data, at + 40), 1);
    assert_int_equal(word_at(data, at + 56), 0);
    assert_int_equal(word_at(data, at + 64), 3);
    assert_int_equal(word_at(data, at + 72), 3);
    assert_memory_equal(data + at + 80, "hey\0\0\0\0\0", 8);
    assert_memory_equal(data + at + 88, "END \0\0\0\0", 8);
    assert_int_equal(size, (int64_t) at + 88 + 16 + 16);
}

static void test_wrong_values(void **state)
{
    static const enum result_type types[] = { RESULT_BOOL, RESULT_FLOAT, RESULT_TEXT };
    autoclose int fd = memfd_create("result", MFD_CLOEXEC);
    struct result *result = NULL;
    int64_t size;

    (void) state;
    assert_int_equal(result_new(fd, 1 << 20, columns_of(types, 3), 3, &result), 0);
    assert_int_equal(result_put_int(result, 2), -EINVAL);
    assert_int_equal(result_put_text(result, "x", 1), -EINVAL);
    assert_int_equal(result_put_float(result, 1), -EINVAL);
    assert_int_equal(result_end_row(result), -EINVAL);
    assert_int_equal(result_put_int(result, 1), 0);
    assert_int_equal(result_put_int(result, 1), -EINVAL);
    assert_int_equal(result_put_float(result, 1), 0);
    assert_int_equal(result_put_text(result, "\xff", 1), -EILSEQ);
    assert_int_equal(result_finish(result, &size), -EINVAL); /* in the middle of a row */
    result_free(result);
}

static void test_bounds(void **state)
{
    static const enum result_type types[] = { RESULT_TEXT };
    autoclose int fd = memfd_create("result", MFD_CLOEXEC);
    struct result_column *columns;
    struct result *result = NULL;
    char text[1000] = { 0 };
    struct stat st;
    int r = 0;

    (void) state;
    memset(text, 'x', sizeof text);
    assert_int_equal(result_new(fd, 100000, columns_of(types, 1), 1, &result), 0);
    assert_int_equal(result_put_text(result, text, SIZE_MAX / 2), -EFBIG);
    for (int i = 0; i < 1000 && r == 0; i++) {
        r = result_put_text(result, text, sizeof text);
        if (r == 0)
            r = result_end_row(result);
    }
    assert_int_equal(r, -EFBIG);
    assert_true(result_rows(result) > 80);
    result_free(result);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(st.st_size <= 100000);
    /* Not even the description fits. */
    assert_int_equal(result_new(fd, 10, columns_of(types, 1), 1, &result), -EFBIG);
    assert_int_equal(result_new(fd, 1 << 20, calloc(RESULT_COLUMNS_MAX + 1, sizeof *columns),
                                RESULT_COLUMNS_MAX + 1, &result),
                     -E2BIG);
}

static void test_many_batches(void **state)
{
    static const enum result_type types[] = { RESULT_INT, RESULT_TEXT };
    autoclose int fd = memfd_create("result", MFD_CLOEXEC);
    struct result *result = NULL;
    struct stat st;
    int64_t size;

    (void) state;
    assert_int_equal(result_new(fd, 1 << 28, columns_of(types, 2), 2, &result), 0);
    for (int i = 0; i < 200000; i++) {
        assert_int_equal(result_put_int(result, i), 0);
        assert_int_equal(result_put_text(result, "some text", 9), 0);
        assert_int_equal(result_end_row(result), 0);
    }
    assert_int_equal(result_finish(result, &size), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, size);
    result_free(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_many_batches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
