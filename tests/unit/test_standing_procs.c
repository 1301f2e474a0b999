/* The list of a box's processes, as the builder sends it: one that cannot be read is no empty one.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/autoclean.h"
#include "engine/run/internal.h"

#include "base/banned.h"

static const struct proc_record records[] = { { .pid = 7, .ppid = 1, .start = 3 },
                                              { .pid = 9, .ppid = 7, .start = 4 } };

static int file_of(const void *data, size_t len)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    return fd;
}

static void test_list(void **state)
{
    autoclose int fd = file_of(records, sizeof records), empty = file_of("", 0);
    struct proc_record *list = NULL;
    size_t len = 99;

    (void) state;
    assert_int_equal(standing_read_procs(fd, &list, &len), 0);
    assert_int_equal(len, ARRAY_LEN(records));
    assert_memory_equal(list, records, sizeof records);
    free(list);
    assert_int_equal(standing_read_procs(empty, &list, &len), 0);
    assert_int_equal(len, 0);
    free(list);
}

static void assert_refused(int fd, int error)
{
    struct proc_record *list = NULL;
    size_t len = 99;

    assert_int_equal(standing_read_procs(fd, &list, &len), -error);
    assert_null(list);
    assert_int_equal(len, 99);
}

static void test_unreadable(void **state)
{
    autoclose int fd = file_of(records, sizeof records), cut = -EBADF, write_only = -EBADF;
    char path[64];
    int ends[2];

    (void) state;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    write_only = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(write_only >= 0);
    assert_refused(write_only, EBADF);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_refused(ends[0], ESPIPE);
    (void) close(ends[0]);
    (void) close(ends[1]);
    cut = file_of(records, sizeof records - 1);
    assert_refused(cut, EPROTO);
    assert_refused(-1, EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_list),
                                        cmocka_unit_test(test_unreadable) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
