#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/autoclean.h"
#include "engine/limits.h"

#include "base/banned.h"

#define MIB (INT64_C(1) << 20)
#define PIB (INT64_C(1) << 50)
#define DAY (INT64_C(86400) * 1000000)

static void test_defaults(void **state)
{
    struct limits l;

    (void) state;
    memset(&l, 0xff, sizeof l);
    limits_default(&l);
    assert_int_equal(l.wall_us, 30000000);
    assert_int_equal(l.cpu_us, 0);
    assert_int_equal(l.memory_bytes, 512 * MIB);
    assert_int_equal(l.cpu_milli, 1000);
    assert_int_equal(l.pids, 64);
    assert_int_equal(l.disk_bytes, 64 * MIB);
    assert_int_equal(l.disk_inodes, 16384);
    assert_int_equal(l.file_bytes, l.disk_bytes);
    assert_int_equal(l.open_files, 1024);
    assert_int_equal(l.output_bytes, 64 * MIB);
    assert_int_equal(limits_check(&l, NULL), 0);
}

static const struct range_case {
    size_t offset;
    int64_t value;
    const char *refused; /* the whole message; NULL when the value is good */
} range_cases[] = {
#define AT(member) offsetof(struct limits, member)
    { AT(wall_us), 1000, NULL },
    { AT(wall_us), 7 * DAY, NULL },
    { AT(wall_us), 999, "the limit for wall time must be between 1 ms and 7 days, not 999 us" },
    { AT(wall_us), 0, "the limit for wall time must be between 1 ms and 7 days, not 0 us" },
    { AT(wall_us), -1000000, "the limit for wall time must be between 1 ms and 7 days, not -1 s" },
    { AT(wall_us), 8 * DAY, "the limit for wall time must be between 1 ms and 7 days, not 8 days" },
    { AT(cpu_us), 0, NULL },
    { AT(cpu_us), 1000, NULL },
    { AT(cpu_us), 1,
      "the limit for CPU time must be 0 (none) or between 1 ms and 7168 days, not 1 us" },
    { AT(memory_bytes), 16 * MIB, NULL },
    { AT(memory_bytes), PIB, NULL },
    { AT(memory_bytes), 16 * MIB - 1,
      "the limit for memory must be between 16 MiB and 1 PiB, not 16777215 bytes" },
    { AT(memory_bytes), 2 * PIB,
      "the limit for memory must be between 16 MiB and 1 PiB, not 2 PiB" },
    { AT(memory_bytes), INT64_MAX,
      "the limit for memory must be between 16 MiB and 1 PiB, not 9223372036854775807 bytes" },
    { AT(cpu_milli), 10, NULL },
    { AT(cpu_milli), 1024000, NULL },
    { AT(cpu_milli), 9,
      "the limit for CPU share must be between 0.01 cores and 1024 cores, not 0.009 cores" },
    { AT(cpu_milli), -500,
      "the limit for CPU share must be between 0.01 cores and 1024 cores, not -0.5 cores" },
    { AT(cpu_milli), -1250,
      "the limit for CPU share must be between 0.01 cores and 1024 cores, not -1.25 cores" },
    { AT(cpu_milli), 1024001,
      "the limit for CPU share must be between 0.01 cores and 1024 cores, not 1024.001 cores" },
    { AT(pids), 1, NULL },
    { AT(pids), 1000000, NULL },
    { AT(pids), 0, "the limit for number of processes must be between 1 and 1000000, not 0" },
    { AT(pids), INT64_MIN,
      "the limit for number of processes must be between 1 and 1000000, not "
      "-9223372036854775808" },
    { AT(disk_bytes), 65536, NULL },
    { AT(disk_bytes), 65535,
      "the limit for disk size must be between 64 KiB and 1 PiB, not 65535 bytes" },
    { AT(disk_inodes), 16, NULL },
    { AT(disk_inodes), INT64_C(1) << 31, NULL },
    { AT(disk_inodes), 15,
      "the limit for number of inodes must be between 16 and 2147483648, not 15" },
    { AT(disk_inodes), (INT64_C(1) << 31) + 1,
      "the limit for number of inodes must be between 16 and 2147483648, not 2147483649" },
    { AT(file_bytes), 1024, NULL },
    { AT(file_bytes), 0, "the limit for file size must be between 1 KiB and 1 PiB, not 0 bytes" },
    { AT(open_files), 16, NULL },
    { AT(open_files), 15,
      "the limit for number of open files must be between 16 and 1000000, not 15" },
    { AT(output_bytes), 0, NULL },
    { AT(output_bytes), -1,
      "the limit for output size must be between 0 bytes and 1 PiB, not -1 bytes" },
};

static void test_ranges(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(range_cases); i++) {
        const struct range_case *c = &range_cases[i];
        struct gb_err err = { 0 };
        struct limits l;

        limits_default(&l);
        memcpy((char *) &l + c->offset, &c->value, sizeof c->value);
        assert_int_equal(limits_check(&l, &err), c->refused ? -ERANGE : 0);
        assert_string_equal(err.msg, c->refused ? c->refused : "");
        assert_int_equal(limits_check(&l, NULL), c->refused ? -ERANGE : 0);
    }
}

static void test_kind_names(void **state)
{
    (void) state;
    assert_null(limit_kind_name(LIMIT_NONE));
    assert_string_equal(limit_kind_name(LIMIT_WALL_TIME), "wall_time");
    assert_string_equal(limit_kind_name(LIMIT_CPU_TIME), "cpu_time");
    assert_string_equal(limit_kind_name(LIMIT_MEMORY), "memory");
    assert_string_equal(limit_kind_name(LIMIT_PIDS), "pids");
    assert_string_equal(limit_kind_name(LIMIT_DISK_BYTES), "disk_bytes");
    assert_string_equal(limit_kind_name(LIMIT_DISK_INODES), "disk_inodes");
    assert_string_equal(limit_kind_name(LIMIT_FILE_SIZE), "file_size");
    assert_string_equal(limit_kind_name(LIMIT_OUTPUT), "output");
    assert_null(limit_kind_name((enum limit_kind) 99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_kind_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
