/*
 * One row a limit: how requests name it, in which unit, and how messages show it. Parsing, the
 * ceiling and the way back to JSON all go by this table.
 */
#include "service/session/limits_request.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"

#include "base/banned.h"

enum wish_unit { WISH_SECONDS, WISH_SIZE, WISH_CPUS, WISH_COUNT };

struct wish_row {
    const char *name;
    size_t offset;
    enum wish_unit unit;
    bool zero_is_none; /* 0 asks for no limit, which is above every ceiling */
};

#define ROW(member) offsetof(struct limits, member)

static const struct wish_row wish_rows[] = {
    { "timeout", ROW(wall_us), WISH_SECONDS, false },
    { "cpu_time", ROW(cpu_us), WISH_SECONDS, true },
    { "memory", ROW(memory_bytes), WISH_SIZE, false },
    { "cpus", ROW(cpu_milli), WISH_CPUS, false },
    { "pids", ROW(pids), WISH_COUNT, false },
    { "disk", ROW(disk_bytes), WISH_SIZE, false },
    { "inodes", ROW(disk_inodes), WISH_COUNT, false },
    { "file_size", ROW(file_bytes), WISH_SIZE, false },
    { "open_files", ROW(open_files), WISH_COUNT, false },
    { "output", ROW(output_bytes), WISH_SIZE, false },
};

#define ROWS (sizeof wish_rows / sizeof *wish_rows)

static int64_t *member(const struct wish_row *row, struct limits *limits)
{
    return (int64_t *) ((char *) limits + row->offset);
}

static int64_t value(const struct wish_row *row, const struct limits *limits)
{
    return *(const int64_t *) ((const char *) limits + row->offset);
}

void limits_wish_init(struct limits *ret_wish)
{
    for (size_t i = 0; i < ROWS; i++)
        *member(&wish_rows[i], ret_wish) = -1;
}

static int64_t unit_one(enum wish_unit unit)
{
    switch (unit) {
    case WISH_SECONDS:
        return USEC_PER_SEC;
    case WISH_CPUS:
        return 1000;
    case WISH_SIZE:
    case WISH_COUNT:
        break;
    }
    return 1;
}

static int row_refuse(const struct wish_row *row, struct fault *fault)
{
    static const char *const wanted[] = {
        [WISH_SECONDS] = "a number of seconds, such as 30 or 0.5",
        [WISH_SIZE] = "a number of bytes, or text such as \"512m\"",
        [WISH_CPUS] = "a number of cores, such as 1 or 0.5",
        [WISH_COUNT] = "a whole number",
    };
    char loc[64];

    (void) snprintf(loc, sizeof loc, "limits.%s", row->name);
    return fault_set(fault, FAULT_INVALID, "limit-malformed", loc,
                     "%s must be %s, and not negative", row->name, wanted[row->unit]);
}

static int row_read(const struct wish_row *row, const json_t *json, int64_t *ret_value,
                    struct fault *fault)
{
    int64_t one = unit_one(row->unit), n;
    double real;

    if (row->unit == WISH_SIZE && json_is_string(json)) {
        const char *text = json_string_value(json);

        if (strlen(text) != json_string_length(json) || parse_size(text, ret_value) < 0)
            return row_refuse(row, fault);
        return 0;
    }
    if (json_is_integer(json)) {
        n = json_integer_value(json);
        if (n < 0 || n > INT64_MAX / one)
            return row_refuse(row, fault);
        *ret_value = n * one;
        return 0;
    }
    if (!json_is_real(json) || one == 1)
        return row_refuse(row, fault);
    real = json_real_value(json) * (double) one;
    /* Above zero never becomes zero, which may mean "no limit". */
    if (!isfinite(real) || real < 0 || real > 9e18 || (real > 0 && real < 1))
        return row_refuse(row, fault);
    *ret_value = (int64_t) real;
    return 0;
}

static const struct wish_row *row_find(const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(wish_rows[i].name, name) == 0)
            return &wish_rows[i];
    return NULL;
}

int limits_wish_from_json(const json_t *object, struct limits *ret_wish, struct fault *fault)
{
    struct limits wish;
    const char *name;
    json_t *json;

    limits_wish_init(&wish);
    if (object && !json_is_null(object) && !json_is_object(object))
        return fault_set(fault, FAULT_INVALID, "limit-malformed", "limits",
                         "limits must be an object, such as {\"timeout\": 30}");
    json_object_foreach ((json_t *) object, name, json) {
        const struct wish_row *row = row_find(name);

        if (!row) {
            char quoted[FORMAT_QUOTED_MAX];

            format_quoted(name, quoted);
            return fault_set(fault, FAULT_INVALID, "limit-unknown", "limits",
                             "there is no limit %s; there are timeout, cpu_time, memory, cpus, "
                             "pids, disk, inodes, file_size, open_files and output",
                             quoted);
        }
        if (row_read(row, json, member(row, &wish), fault) < 0)
            return -1;
    }
    *ret_wish = wish;
    return 0;
}

json_t *limits_to_json(const struct limits *limits)
{
    json_t *object = json_object();

    for (size_t i = 0; i < ROWS; i++) {
        const struct wish_row *row = &wish_rows[i];
        int64_t n = value(row, limits), one = unit_one(row->unit);
        json_t *json;

        if (n < 0)
            continue;
        json = n % one == 0 ? json_integer(n / one) : json_real((double) n / (double) one);
        if (json_object_set_new(object, row->name, json) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static void row_format(const struct wish_row *row, int64_t n, char buf[FORMAT_NUMBER_MAX + 8])
{
    char number[FORMAT_NUMBER_MAX];

    if (row->unit == WISH_SIZE)
        format_size(n, number);
    else
        format_fixed(n, unit_one(row->unit), number);
    (void) snprintf(buf, FORMAT_NUMBER_MAX + 8, "%s%s", number,
                    row->unit == WISH_SECONDS ? " s" : "");
}

static int row_check(const struct wish_row *row, int64_t wish, int64_t most, struct fault *fault)
{
    char loc[64], text[FORMAT_NUMBER_MAX + 8];

    if (most == 0 && row->zero_is_none)
        return 0;
    if (wish <= most && !(wish == 0 && row->zero_is_none))
        return 0;
    (void) snprintf(loc, sizeof loc, "limits.%s", row->name);
    row_format(row, most, text);
    return fault_set(fault, FAULT_INVALID, "limit-above-ceiling", loc,
                     "%s can be at most %s here; ask for less, or leave it out", row->name, text);
}

int wish_to_wall(const struct limits *wish, const struct wish_bounds *bounds, int64_t *ret_wall_us,
                 struct fault *fault)
{
    if (wish->wall_us < 0) {
        *ret_wall_us = bounds->wall_default_us;
        return 0;
    }
    if (row_check(&wish_rows[0], wish->wall_us, bounds->wall_max_us, fault) < 0)
        return -1;
    if (wish->wall_us < USEC_PER_MSEC)
        return fault_set(fault, FAULT_INVALID, "limit-malformed", "limits.timeout",
                         "timeout must be at least 0.001 s");
    *ret_wall_us = wish->wall_us;
    return 0;
}

int wish_to_limits(const struct limits *wish, const struct wish_bounds *bounds,
                   struct limits *ret_limits, struct fault *fault)
{
    struct limits limits = *bounds->defaults;
    struct gb_err err;

    if (wish_to_wall(wish, bounds, &limits.wall_us, fault) < 0)
        return -1;
    for (size_t i = 1; i < ROWS; i++) {
        const struct wish_row *row = &wish_rows[i];
        int64_t asked = value(row, wish);

        if (asked < 0)
            continue;
        if (row_check(row, asked, value(row, bounds->ceiling), fault) < 0)
            return -1;
        *member(row, &limits) = asked;
    }
    /* A file may fill the disk unless somebody said otherwise. */
    if (wish->disk_bytes >= 0 && wish->file_bytes < 0)
        limits.file_bytes = limits.disk_bytes;
    if (limits_check(&limits, &err) < 0)
        return fault_set(fault, FAULT_INVALID, "limit-out-of-range", "limits", "%s", err.msg);
    *ret_limits = limits;
    return 0;
}
