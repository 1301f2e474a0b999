#include "engine/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/autoclean.h"
#include "base/clock.h"

#include "base/banned.h"

#define KIB (INT64_C(1) << 10)
#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define TIB (INT64_C(1) << 40)
#define PIB (INT64_C(1) << 50)

#define MILLION INT64_C(1000000)
#define DAY_US  (INT64_C(86400) * USEC_PER_SEC)

enum limit_unit { UNIT_TIME, UNIT_SIZE, UNIT_MILLI, UNIT_COUNT };

/* One row a limit: the check and its message have no other source. */
struct limit_row {
    const char *name;
    size_t offset;
    enum limit_unit unit;
    int64_t min, max;
    bool zero_is_none;
};

#define ROW(member) offsetof(struct limits, member)

static const struct limit_row limit_rows[] = {
    { "wall time", ROW(wall_us), UNIT_TIME, USEC_PER_MSEC, 7 * DAY_US, false },
    /* Many cores use more than a day of CPU in a day. */
    { "CPU time", ROW(cpu_us), UNIT_TIME, USEC_PER_MSEC, 7 * 1024 * DAY_US, true },
    { "memory", ROW(memory_bytes), UNIT_SIZE, 16 * MIB, PIB, false },
    { "CPU share", ROW(cpu_milli), UNIT_MILLI, 10, 1024 * 1000, false },
    { "number of processes", ROW(pids), UNIT_COUNT, 1, MILLION, false },
    { "disk size", ROW(disk_bytes), UNIT_SIZE, 64 * KIB, PIB, false },
    { "number of inodes", ROW(disk_inodes), UNIT_COUNT, 16, INT64_C(1) << 31, false },
    { "file size", ROW(file_bytes), UNIT_SIZE, KIB, PIB, false },
    { "number of open files", ROW(open_files), UNIT_COUNT, 16, MILLION, false },
    { "output size", ROW(output_bytes), UNIT_SIZE, 0, PIB, false },
};

struct unit_step {
    int64_t size;
    const char *name;
};

static const struct unit_step time_steps[] = {
    { DAY_US, "days" }, { USEC_PER_SEC, "s" }, { USEC_PER_MSEC, "ms" }, { 1, "us" }, { 0, NULL },
};

static const struct unit_step size_steps[] = {
    { PIB, "PiB" }, { TIB, "TiB" }, { GIB, "GiB" }, { MIB, "MiB" },
    { KIB, "KiB" }, { 1, "bytes" }, { 0, NULL },
};

/* The largest unit that gives a whole number, so that the text is exact. */
static void format_steps(const struct unit_step *step, int64_t value, char *buf, size_t size)
{
    while (step[1].name && (value == 0 || value % step->size != 0))
        step++;
    snprintf(buf, size, "%" PRId64 " %s", value / step->size, step->name);
}

static void format_milli(int64_t value, char *buf, size_t size)
{
    int64_t whole = value / 1000, rest = value % 1000;
    int digits = 3;

    if (rest == 0) {
        snprintf(buf, size, "%" PRId64 " cores", whole);
        return;
    }
    if (rest < 0)
        rest = -rest;
    while (rest % 10 == 0) {
        rest /= 10;
        digits--;
    }
    /* -0.5 has no whole part to carry its sign. */
    snprintf(buf, size, "%s%" PRId64 ".%0*" PRId64 " cores", value < 0 && whole == 0 ? "-" : "",
             whole, digits, rest);
}

static void format_value(enum limit_unit unit, int64_t value, char *buf, size_t size)
{
    switch (unit) {
    case UNIT_TIME:
        format_steps(time_steps, value, buf, size);
        break;
    case UNIT_SIZE:
        format_steps(size_steps, value, buf, size);
        break;
    case UNIT_MILLI:
        format_milli(value, buf, size);
        break;
    case UNIT_COUNT:
        snprintf(buf, size, "%" PRId64, value);
        break;
    }
}

static int limit_refuse(const struct limit_row *row, int64_t value, struct gb_err *err)
{
    char min[40], max[40], got[40];

    format_value(row->unit, row->min, min, sizeof min);
    format_value(row->unit, row->max, max, sizeof max);
    format_value(row->unit, value, got, sizeof got);
    return gb_fail_plain(err, ERANGE, "the limit for %s must be %sbetween %s and %s, not %s",
                         row->name, row->zero_is_none ? "0 (none) or " : "", min, max, got);
}

const char *limit_kind_name(enum limit_kind kind)
{
    switch (kind) {
    case LIMIT_NONE:
        return NULL;
    case LIMIT_WALL_TIME:
        return "wall_time";
    case LIMIT_CPU_TIME:
        return "cpu_time";
    case LIMIT_MEMORY:
        return "memory";
    case LIMIT_PIDS:
        return "pids";
    case LIMIT_DISK_BYTES:
        return "disk_bytes";
    case LIMIT_DISK_INODES:
        return "disk_inodes";
    case LIMIT_FILE_SIZE:
        return "file_size";
    case LIMIT_OUTPUT:
        return "output";
    }
    return NULL;
}

void limits_default(struct limits *limits)
{
    *limits = (struct limits){
        .wall_us = 30 * USEC_PER_SEC,
        .cpu_us = 0,
        .memory_bytes = 512 * MIB,
        .cpu_milli = 1000,
        .pids = 64,
        .disk_bytes = 64 * MIB,
        .disk_inodes = 16384,
        .file_bytes = 64 * MIB,
        .open_files = 1024,
        .output_bytes = 64 * MIB,
    };
}

int limits_check(const struct limits *limits, struct gb_err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(limit_rows); i++) {
        const struct limit_row *row = &limit_rows[i];
        int64_t value = *(const int64_t *) ((const char *) limits + row->offset);

        if (row->zero_is_none && value == 0)
            continue;
        if (value < row->min || value > row->max)
            return limit_refuse(row, value, err);
    }
    return 0;
}
