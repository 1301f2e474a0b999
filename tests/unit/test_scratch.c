/* Temporary directories: gone after their owner, however it ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/scratch.h"

#include "base/banned.h"

static char base[64];

static int set_up(void **state)
{
    (void) state;
    snprintf(base, sizeof base, "/tmp/test-scratch-XXXXXX");
    return mkdtemp(base) ? 0 : -1;
}

static size_t entries(void)
{
    DIR *dir = opendir(base);
    struct dirent *entry;
    size_t count = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        count += entry->d_name[0] != '.';
    (void) closedir(dir);
    return count;
}

static int tear_down(void **state)
{
    (void) state;
    assert_int_equal(entries(), 0);
    return rmdir(base);
}

static void put_file(const struct scratch *scratch, const char *name)
{
    int fd = openat(scratch->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    (void) close(fd);
}

static void test_removed_with_everything(void **state)
{
    struct scratch scratch = SCRATCH_INIT;
    struct gb_err err = { 0 };
    struct stat st;

    (void) state;
    assert_int_equal(scratch_open(base, &scratch, &err), 0);
    assert_int_equal(stat(scratch.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(mkdirat(scratch.fd, "deep", 0700), 0);
    assert_int_equal(mkdirat(scratch.fd, "deep/deeper", 0700), 0);
    put_file(&scratch, "deep/deeper/file");
    assert_int_equal(symlinkat("/", scratch.fd, "link"), 0);
    scratch_close(&scratch);
    assert_int_equal(entries(), 0);
    scratch_close(&scratch); /* again */
}

/* Those of the living stay; that of a killed one goes with the next that is opened. */
static void test_left_by_the_dead(void **state)
{
    struct scratch mine = SCRATCH_INIT, next = SCRATCH_INIT;
    struct gb_err err = { 0 };
    int ready[2], status;
    char byte;
    pid_t pid;

    (void) state;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct scratch scratch = SCRATCH_INIT;

        if (scratch_open(base, &scratch, &err) < 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(scratch_open(base, &mine, &err), 0);
    assert_int_equal(entries(), 2);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(scratch_open(base, &next, &err), 0);
    assert_int_equal(entries(), 2);
    assert_int_equal(access(mine.path, F_OK), 0);
    scratch_close(&mine);
    scratch_close(&next);
    (void) close(ready[0]);
    (void) close(ready[1]);
}

static void test_no_base(void **state)
{
    struct scratch scratch = SCRATCH_INIT;
    struct gb_err err = { 0 };

    (void) state;
    assert_int_equal(scratch_open("/nonexistent/x", &scratch, &err), -ENOENT);
    scratch_close(&scratch);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_removed_with_everything),
        cmocka_unit_test(test_left_by_the_dead),
        cmocka_unit_test(test_no_base),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
