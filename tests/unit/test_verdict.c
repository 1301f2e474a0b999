#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>

#include "base/autoclean.h"
#include "engine/run/oneshot.h"

#include "base/banned.h"

#define FILE_LIMIT INT64_C(1000)
#define PIDS_LIMIT INT64_C(8)
#define UNKNOWN    INT64_C(-1) /* a counter that the host does not keep */

static const struct limits limits = { .file_bytes = FILE_LIMIT, .pids = PIDS_LIMIT };

#define EXITED(n)   .code = CLD_EXITED, .status = (n)
#define KILLED(sig) .code = CLD_KILLED, .status = (sig)
#define DUMPED(sig) .code = CLD_DUMPED, .status = (sig)

struct verdict_case {
    const char *name;
    struct verdict_facts facts;
    enum run_status status;
    enum limit_kind limit;
    int exit_code;
};

/* What we did ourselves outranks all else, and how the program then ended does not matter. */
static const struct verdict_case stop_cases[] = {
    { "wall, died of it",
      { .stop = STOP_WALL, KILLED(SIGKILL) },
      RUN_TIMEOUT,
      LIMIT_WALL_TIME,
      124 },
    { "wall, left in the grace",
      { .stop = STOP_WALL, EXITED(0) },
      RUN_TIMEOUT,
      LIMIT_WALL_TIME,
      124 },
    { "wall, KeyboardInterrupt",
      { .stop = STOP_WALL, KILLED(SIGINT) },
      RUN_TIMEOUT,
      LIMIT_WALL_TIME,
      124 },
    { "CPU, died of it", { .stop = STOP_CPU, KILLED(SIGKILL) }, RUN_TIMEOUT, LIMIT_CPU_TIME, 124 },
    { "CPU, left in the grace", { .stop = STOP_CPU, EXITED(0) }, RUN_TIMEOUT, LIMIT_CPU_TIME, 124 },
    { "memory", { .stop = STOP_MEMORY, KILLED(SIGKILL) }, RUN_OOM, LIMIT_MEMORY, 137 },
    { "memory, ended meanwhile", { .stop = STOP_MEMORY, EXITED(0) }, RUN_OOM, LIMIT_MEMORY, 137 },
    { "cancelled", { .stop = STOP_CANCEL, KILLED(SIGINT) }, RUN_CANCELLED, LIMIT_NONE, 130 },
    { "cancelled, left in the grace",
      { .stop = STOP_CANCEL, EXITED(0) },
      RUN_CANCELLED,
      LIMIT_NONE,
      130 },
    { "output, broken pipe", { .stop = STOP_OUTPUT, EXITED(120) }, RUN_OUTPUT, LIMIT_OUTPUT, 120 },
    { "output, did not notice", { .stop = STOP_OUTPUT, EXITED(0) }, RUN_OUTPUT, LIMIT_OUTPUT, 0 },
    { "output, died of it",
      { .stop = STOP_OUTPUT, KILLED(SIGPIPE) },
      RUN_OUTPUT,
      LIMIT_OUTPUT,
      141 },
    { "output, killed", { .stop = STOP_OUTPUT, KILLED(SIGKILL) }, RUN_OUTPUT, LIMIT_OUTPUT, 137 },
    { "wall outranks every counter",
      { .stop = STOP_WALL,
        KILLED(SIGKILL),
        .ooms = 3,
        .pids_refused = 3,
        .disk = LIMIT_DISK_BYTES,
        .largest_file = FILE_LIMIT },
      RUN_TIMEOUT,
      LIMIT_WALL_TIME,
      124 },
    { "output outranks every counter",
      { .stop = STOP_OUTPUT,
        EXITED(1),
        .ooms = 3,
        .pids_refused = 3,
        .disk = LIMIT_DISK_BYTES,
        .largest_file = FILE_LIMIT },
      RUN_OUTPUT,
      LIMIT_OUTPUT,
      1 },
    { "cancel outranks every counter",
      { .stop = STOP_CANCEL,
        KILLED(SIGKILL),
        .ooms = 1,
        .pids_refused = 1,
        .disk = LIMIT_DISK_INODES },
      RUN_CANCELLED,
      LIMIT_NONE,
      130 },
};

/* A limit that was merely touched is no verdict. */
static const struct verdict_case ok_cases[] = {
    { "nothing special", { EXITED(0) }, RUN_OK, LIMIT_NONE, 0 },
    { "lost a child to memory", { EXITED(0), .ooms = 1 }, RUN_OK, LIMIT_NONE, 0 },
    { "could not fork once", { EXITED(0), .pids_refused = 1 }, RUN_OK, LIMIT_NONE, 0 },
    { "as many as there may be",
      { EXITED(0), .watched = true, .pids_peak = PIDS_LIMIT },
      RUN_OK,
      LIMIT_NONE,
      0 },
    { "full disk", { EXITED(0), .disk = LIMIT_DISK_BYTES }, RUN_OK, LIMIT_NONE, 0 },
    { "no inodes left", { EXITED(0), .disk = LIMIT_DISK_INODES }, RUN_OK, LIMIT_NONE, 0 },
    { "largest file", { EXITED(0), .largest_file = FILE_LIMIT }, RUN_OK, LIMIT_NONE, 0 },
};

static const struct verdict_case memory_cases[] = {
    { "killed by the kernel", { KILLED(SIGKILL), .ooms = 1 }, RUN_OOM, LIMIT_MEMORY, 137 },
    { "a child was, and it failed", { EXITED(1), .ooms = 1 }, RUN_OOM, LIMIT_MEMORY, 137 },
    { "before processes", { EXITED(1), .ooms = 1, .pids_refused = 9 }, RUN_OOM, LIMIT_MEMORY, 137 },
    { "before the disk",
      { EXITED(1), .ooms = 1, .disk = LIMIT_DISK_BYTES },
      RUN_OOM,
      LIMIT_MEMORY,
      137 },
    { "SIGKILL alone is no proof", { KILLED(SIGKILL) }, RUN_KILLED, LIMIT_NONE, 137 },
    { "exit 137 alone neither", { EXITED(137) }, RUN_ERROR, LIMIT_NONE, 137 },
    { "no such counter", { KILLED(SIGKILL), .ooms = UNKNOWN }, RUN_KILLED, LIMIT_NONE, 137 },
};

static const struct verdict_case pids_cases[] = {
    { "refused", { EXITED(1), .pids_refused = 1 }, RUN_PIDS, LIMIT_PIDS, 1 },
    { "refused, then a signal", { KILLED(SIGABRT), .pids_refused = 1 }, RUN_PIDS, LIMIT_PIDS, 134 },
    { "none refused, though all there were",
      { EXITED(1), .pids_peak = PIDS_LIMIT },
      RUN_ERROR,
      LIMIT_NONE,
      1 },
    { "no such counter", { EXITED(1), .pids_refused = UNKNOWN }, RUN_ERROR, LIMIT_NONE, 1 },
    { "watched, all there were",
      { EXITED(1), .watched = true, .pids_peak = PIDS_LIMIT },
      RUN_PIDS,
      LIMIT_PIDS,
      1 },
    { "watched, more",
      { EXITED(1), .watched = true, .pids_peak = PIDS_LIMIT + 1 },
      RUN_PIDS,
      LIMIT_PIDS,
      1 },
    { "watched, one less",
      { EXITED(1), .watched = true, .pids_peak = PIDS_LIMIT - 1 },
      RUN_ERROR,
      LIMIT_NONE,
      1 },
    { "watched, saw nothing",
      { EXITED(1), .watched = true, .pids_peak = UNKNOWN },
      RUN_ERROR,
      LIMIT_NONE,
      1 },
    { "before the disk",
      { EXITED(1), .pids_refused = 1, .disk = LIMIT_DISK_BYTES },
      RUN_PIDS,
      LIMIT_PIDS,
      1 },
};

static const struct verdict_case disk_cases[] = {
    { "full", { EXITED(1), .disk = LIMIT_DISK_BYTES }, RUN_DISK, LIMIT_DISK_BYTES, 1 },
    { "full, bus error",
      { DUMPED(SIGBUS), .disk = LIMIT_DISK_BYTES },
      RUN_DISK,
      LIMIT_DISK_BYTES,
      135 },
    { "no inodes left", { EXITED(1), .disk = LIMIT_DISK_INODES }, RUN_DISK, LIMIT_DISK_INODES, 1 },
    { "largest file", { EXITED(1), .largest_file = FILE_LIMIT }, RUN_DISK, LIMIT_FILE_SIZE, 1 },
    { "SIGXFSZ", { KILLED(SIGXFSZ), .largest_file = FILE_LIMIT }, RUN_DISK, LIMIT_FILE_SIZE, 153 },
    { "one byte less", { EXITED(1), .largest_file = FILE_LIMIT - 1 }, RUN_ERROR, LIMIT_NONE, 1 },
    { "the disk before the file",
      { EXITED(1), .disk = LIMIT_DISK_BYTES, .largest_file = FILE_LIMIT },
      RUN_DISK,
      LIMIT_DISK_BYTES,
      1 },
    { "SIGXFSZ alone is no proof", { KILLED(SIGXFSZ) }, RUN_KILLED, LIMIT_NONE, 153 },
};

static const struct verdict_case own_cases[] = {
    { "a traceback", { EXITED(1) }, RUN_ERROR, LIMIT_NONE, 1 },
    { "sys.exit(3)", { EXITED(3) }, RUN_ERROR, LIMIT_NONE, 3 },
    { "the largest code", { EXITED(255) }, RUN_ERROR, LIMIT_NONE, 255 },
    { "our code for a timeout, stolen", { EXITED(124) }, RUN_ERROR, LIMIT_NONE, 124 },
    { "our code for a cancellation, stolen", { EXITED(130) }, RUN_ERROR, LIMIT_NONE, 130 },
    { "killed itself", { KILLED(SIGKILL) }, RUN_KILLED, LIMIT_NONE, 137 },
    { "SIGTERM", { KILLED(SIGTERM) }, RUN_KILLED, LIMIT_NONE, 143 },
    { "SIGINT that was not ours", { KILLED(SIGINT) }, RUN_KILLED, LIMIT_NONE, 130 },
    { "SIGALRM is no timeout", { KILLED(SIGALRM) }, RUN_KILLED, LIMIT_NONE, 142 },
    { "SIGXCPU is no timeout", { KILLED(SIGXCPU) }, RUN_KILLED, LIMIT_NONE, 152 },
    { "segmentation fault", { KILLED(SIGSEGV) }, RUN_KILLED, LIMIT_NONE, 139 },
    { "with a core", { DUMPED(SIGSEGV) }, RUN_KILLED, LIMIT_NONE, 139 },
    { "a call that seccomp forbids", { DUMPED(SIGSYS) }, RUN_KILLED, LIMIT_NONE, 159 },
    { "signal 64", { KILLED(64) }, RUN_KILLED, LIMIT_NONE, 192 },
};

static void check_cases(const struct verdict_case *cases, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const struct verdict_case *c = &cases[i];
        struct verdict_facts facts = c->facts;
        /* Each starts from an outcome that is wrong in all three. */
        struct outcome outcome = { .status = RUN_SYSTEM,
                                   .limit = (enum limit_kind) 77,
                                   .exit_code = -77 };

        facts.limits = &limits;
        verdict(&facts, &outcome);
        if (outcome.status != c->status || outcome.limit != c->limit ||
            outcome.exit_code != c->exit_code)
            fail_msg("%s: %s, limit %d, exit code %d", c->name, run_status_name(outcome.status),
                     outcome.limit, outcome.exit_code);
    }
}

static void test_stops(void **state)
{
    (void) state;
    check_cases(stop_cases, ARRAY_LEN(stop_cases));
}

static void test_ok(void **state)
{
    (void) state;
    check_cases(ok_cases, ARRAY_LEN(ok_cases));
}

static void test_memory(void **state)
{
    (void) state;
    check_cases(memory_cases, ARRAY_LEN(memory_cases));
}

static void test_pids(void **state)
{
    (void) state;
    check_cases(pids_cases, ARRAY_LEN(pids_cases));
}

static void test_disk(void **state)
{
    (void) state;
    check_cases(disk_cases, ARRAY_LEN(disk_cases));
}

static void test_own_doing(void **state)
{
    (void) state;
    check_cases(own_cases, ARRAY_LEN(own_cases));
}

/* A verdict is three members; what was measured before it stays. */
static void test_rest_is_untouched(void **state)
{
    struct verdict_facts facts = { EXITED(1), .limits = &limits };
    struct outcome outcome = { .wall_us = 5, .cpu_us = 6, .processes = 7, .files_len = 8 };

    (void) state;
    verdict(&facts, &outcome);
    assert_int_equal(outcome.status, RUN_ERROR);
    assert_int_equal(outcome.wall_us, 5);
    assert_int_equal(outcome.cpu_us, 6);
    assert_int_equal(outcome.processes, 7);
    assert_int_equal(outcome.files_len, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_ok),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_pids),
        cmocka_unit_test(test_disk),
        cmocka_unit_test(test_own_doing),
        cmocka_unit_test(test_rest_is_untouched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
