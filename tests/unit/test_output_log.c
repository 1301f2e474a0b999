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

#include "service/execution/output_log.h"

#include "base/banned.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char dir[] = "/tmp/glovebox-test-XXXXXX";

/* Bytes by which each place in the stream is known. */
static void fill(char *buf, size_t len, int64_t offset)
{
    for (size_t i = 0; i < len; i++)
        buf[i] = (char) ((offset + (int64_t) i) * 7 % 251);
}

static void append(struct output_log *log, size_t len)
{
    char *buf = malloc(len);

    assert_non_null(buf);
    fill(buf, len, log->total);
    output_log_append(log, buf, len);
    free(buf);
}

static void check_all(struct output_log *log, size_t step)
{
    char is[4096], want[4096];
    int64_t offset = 0;
    ssize_t n;

    while ((n = output_log_read(log, offset, is, step)) > 0) {
        fill(want, (size_t) n, offset);
        assert_memory_equal(is, want, (size_t) n);
        offset += n;
    }
    assert_int_equal(n, 0);
    assert_int_equal(offset, log->kept);
}

static void test_small_stays_in_memory(void **state)
{
    struct output_log log;
    char buf[8];

    (void) state;
    output_log_init(&log, &lock, dir, NULL, NULL, 1000);
    assert_int_equal(output_log_read(&log, 0, buf, sizeof buf), 0);
    append(&log, 1);
    append(&log, OUTPUT_LOG_MEMORY - 1);
    assert_int_equal(log.fd, -1);
    assert_int_equal(log.total, OUTPUT_LOG_MEMORY);
    check_all(&log, 1000);
    assert_int_equal(output_log_read(&log, -1, buf, sizeof buf), 0);
    assert_int_equal(output_log_read(&log, log.total + 5, buf, sizeof buf), 0);
    output_log_release(&log);
}

static void test_large_goes_to_a_file(void **state)
{
    struct output_budget budget = { .disk_max = INT64_C(1) << 30 };
    struct output_log log;
    struct stat st;

    (void) state;
    output_log_init(&log, &lock, dir, &budget, NULL, 1000);
    append(&log, 100);
    append(&log, OUTPUT_LOG_MEMORY);
    append(&log, 1000000);
    assert_true(log.fd >= 0);
    assert_null(log.mem);
    assert_int_equal(fstat(log.fd, &st), 0);
    assert_int_equal(st.st_nlink, 0);
    assert_int_equal(st.st_size, log.total);
    assert_int_equal(log.kept, log.total);
    assert_int_equal(budget.disk_used, log.total);
    check_all(&log, 4096);
    check_all(&log, 777);
    output_log_release(&log);
    assert_int_equal(budget.disk_used, 0);
}

static void test_budgets(void **state)
{
    struct output_budget wide = { .disk_max = 1000000 }, narrow = { .disk_max = 300000 };
    struct output_log a, b;

    (void) state;
    output_log_init(&a, &lock, dir, &narrow, &wide, 1000);
    output_log_init(&b, &lock, dir, NULL, &wide, 1000);
    append(&a, 200000);
    append(&a, 200000); /* no room: counted, and nothing after it is kept */
    append(&a, 10);
    assert_int_equal(a.total, 400010);
    assert_int_equal(a.kept, 200000);
    assert_int_equal(narrow.disk_used, 200000);
    assert_int_equal(wide.disk_used, 200000);
    check_all(&a, 4096);
    append(&b, 800000);
    append(&b, 1);
    assert_int_equal(b.kept, 800000);
    assert_int_equal(b.total, 800001);
    output_log_release(&a);
    output_log_release(&b);
    assert_int_equal(narrow.disk_used, 0);
    assert_int_equal(wide.disk_used, 0);
}

/* A directory that is not there is like a disk that is full. */
static void test_no_disk(void **state)
{
    struct output_budget budget = { .disk_max = 1000000 };
    struct output_log log;

    (void) state;
    output_log_init(&log, &lock, "/nonexistent/dir", &budget, NULL, 1000);
    append(&log, 1000);
    append(&log, OUTPUT_LOG_MEMORY);
    assert_int_equal(log.kept, 1000);
    assert_int_equal(log.total, 1000 + OUTPUT_LOG_MEMORY);
    assert_int_equal(budget.disk_used, 0);
    check_all(&log, 100);
    output_log_release(&log);
}

/* ---- what the receipt shows ---- */

/* Text with characters of one to four bytes, so that cuts meet the middle of some. */
static void fill_text(char *buf, size_t len, int64_t offset)
{
    static const char period[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x8d";
    size_t n = sizeof period - 1;

    for (size_t i = 0; i < len; i++)
        buf[i] = period[((size_t) offset + i) % n];
}

static void assert_cut_equal(const struct stream_cut *is, const struct stream_cut *want)
{
    assert_int_equal(is->head_len, want->head_len);
    assert_int_equal(is->tail_len, want->tail_len);
    assert_int_equal(is->left_out, want->left_out);
    if (want->head_len > 0)
        assert_memory_equal(is->head, want->head, want->head_len);
    if (want->tail_len > 0)
        assert_memory_equal(is->tail, want->tail, want->tail_len);
}

/* The same as one that sees every byte and keeps nothing else, wherever the log has its bytes. */
static void check_cut(const char *where, int64_t disk_max, size_t total, size_t piece,
                      size_t reply_bytes)
{
    struct output_budget budget = { .disk_max = disk_max };
    struct stream_cut is = { 0 }, want = { 0 };
    struct output_log log;
    struct outbuf outbuf;
    char *buf = malloc(piece);
    bool shared;

    assert_non_null(buf);
    output_log_init(&log, &lock, where, &budget, NULL, reply_bytes);
    outbuf_init(&outbuf, reply_bytes);
    for (size_t done = 0, len; done < total; done += len) {
        len = total - done < piece ? total - done : piece;
        fill_text(buf, len, (int64_t) done);
        output_log_append(&log, buf, len);
        assert_int_equal(outbuf_add(&outbuf, buf, len), 0);
    }
    assert_int_equal(output_log_cut(&log, &is), 0);
    assert_int_equal(outbuf_take(&outbuf, &want), 0);
    assert_cut_equal(&is, &want);
    shared = is.head && is.head == log.mem;
    assert_int_equal(shared, total > 0 && log.fd < 0 && !log.stopped && total <= reply_bytes);
    if (!shared)
        free(is.head);
    free(is.tail);
    free(want.head);
    free(want.tail);
    output_log_release(&log);
    free(buf);
}

static void test_cut(void **state)
{
    static const size_t totals[] = { 0, 1, 99, 100, 101, 65536, 65537, 70000, 200001 };
    static const size_t replies[] = { 0, 1, 7, 100, 1001, 65536, 69999, 150000, 1 << 20 };
    static const size_t pieces[] = { 1000, 70001 };

    (void) state;
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        for (size_t k = 0; k < sizeof replies / sizeof *replies; k++)
            for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
                check_cut(dir, 1 << 30, totals[i], pieces[p], replies[k]);
                check_cut(dir, 100000, totals[i], pieces[p], replies[k]); /* stops half-way */
                check_cut("/nonexistent/dir", 1 << 30, totals[i], pieces[p], replies[k]);
            }
}

static int setup(void **state)
{
    (void) state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void) state;
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_stays_in_memory),
        cmocka_unit_test(test_large_goes_to_a_file),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_no_disk),
        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
