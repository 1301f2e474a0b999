/*
 * Limits in requests: parsing, the ceiling and conversion to JSON. The rows are those of
 * base/words/limits.def.
 */
#include "service/session/limits_request.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/parse.h"

#include "base/banned.h"

void limits_wish_init(struct limits *ret_wish)
{
    for (size_t i = 0; i < LIMIT_ROWS; i++)
        limit_put(ret_wish, &limit_rows[i], -1);
}

bool wish_beyond_time(const struct limits *wish)
{
    for (size_t i = 0; i < LIMIT_ROWS; i++)
        if (i != LIMIT_ROW_wall_us && limit_get(wish, &limit_rows[i]) >= 0)
            return true;
    return false;
}

static int64_t unit_one(enum limit_unit unit)
{
    switch (unit) {
    case LIMIT_SECONDS:
        return USEC_PER_SEC;
    case LIMIT_CPUS:
        return 1000;
    case LIMIT_SIZE:
    case LIMIT_COUNT:
        break;
    }
    return 1;
}

static int row_refuse(const struct limit_row *row, struct fault *fault)
{
    static const char *const wanted[] = {
        [LIMIT_SECONDS] = "a number of seconds, such as 30 or 0.5",
        [LIMIT_SIZE] = "a number of bytes, or text such as \"512m\"",
        [LIMIT_CPUS] = "a number of cores, such as 1 or 0.5",
        [LIMIT_COUNT] = "a whole number",
    };
    char loc[64];

    (void) snprintf(loc, sizeof loc, "limits.%s", row->json);
    return fault_set(fault, PROBLEM_LIMIT_MALFORMED, loc, "%s must be %s, and not negative",
                     row->json, wanted[row->unit]);
}

static int row_read(const struct limit_row *row, const json_t *json, int64_t *ret_value,
                    struct fault *fault)
{
    int64_t one = unit_one(row->unit), n;
    double real;

    if (row->unit == LIMIT_SIZE && json_is_string(json)) {
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
    /* A value above zero never becomes zero, which may mean "no limit". */
    if (!isfinite(real) || real < 0 || real > 9e18 || (real > 0 && real < 1))
        return row_refuse(row, fault);
    *ret_value = (int64_t) real;
    return 0;
}

static const struct limit_row *row_find(const char *name)
{
    for (size_t i = 0; i < LIMIT_ROWS; i++)
        if (strcmp(limit_rows[i].json, name) == 0)
            return &limit_rows[i];
    return NULL;
}

static int refuse_unknown(const char *name, struct fault *fault)
{
    static const char known[] =
#define LIMIT(member, unit, words, json, ...) ", " json
#include "base/words/limits.def"
        ;
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(name, quoted);
    return fault_set(fault, PROBLEM_LIMIT_UNKNOWN, "limits", "unknown limit %s; the limits are %s",
                     quoted, known + strlen(", "));
}

int limits_wish_from_json(const json_t *object, struct limits *ret_wish, struct fault *fault)
{
    struct limits wish;
    const char *name;
    json_t *json;

    limits_wish_init(&wish);
    if (object && !json_is_null(object) && !json_is_object(object))
        return fault_set(fault, PROBLEM_LIMIT_MALFORMED, "limits",
                         "limits must be an object, such as {\"timeout\": 30}");
    json_object_foreach ((json_t *) object, name, json) {
        const struct limit_row *row = row_find(name);
        int64_t asked;

        if (!row)
            return refuse_unknown(name, fault);
        if (row_read(row, json, &asked, fault) < 0)
            return -1;
        limit_put(&wish, row, asked);
    }
    *ret_wish = wish;
    return 0;
}

json_t *limits_to_json(const struct limits *limits)
{
    json_t *object = json_object();

    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        const struct limit_row *row = &limit_rows[i];
        int64_t n = limit_get(limits, row), one = unit_one(row->unit);
        json_t *json;

        if (n < 0)
            continue;
        json = n % one == 0 ? json_integer(n / one) : json_real((double) n / (double) one);
        if (json_object_set_new(object, row->json, json) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static void row_format(const struct limit_row *row, int64_t n, char buf[FORMAT_NUMBER_MAX + 8])
{
    char number[FORMAT_NUMBER_MAX];

    if (row->unit == LIMIT_SIZE)
        format_size(n, number);
    else
        format_fixed(n, unit_one(row->unit), number);
    (void) snprintf(buf, FORMAT_NUMBER_MAX + 8, "%s%s", number,
                    row->unit == LIMIT_SECONDS ? " s" : "");
}

static int row_check(const struct limit_row *row, int64_t wish, int64_t most, struct fault *fault)
{
    char loc[64], text[FORMAT_NUMBER_MAX + 8];

    if (most == 0 && row->zero_is_none)
        return 0;
    if (wish <= most && !(wish == 0 && row->zero_is_none))
        return 0;
    (void) snprintf(loc, sizeof loc, "limits.%s", row->json);
    row_format(row, most, text);
    return fault_set(fault, PROBLEM_LIMIT_ABOVE_CEILING, loc,
                     "%s can be at most %s here; ask for less, or leave it out", row->json, text);
}

int wish_to_wall(const struct limits *wish, const struct wish_bounds *bounds, int64_t *ret_wall_us,
                 struct fault *fault)
{
    if (wish->wall_us < 0) {
        *ret_wall_us = bounds->wall_default_us;
        return 0;
    }
    if (row_check(&limit_rows[LIMIT_ROW_wall_us], wish->wall_us, bounds->wall_max_us, fault) < 0)
        return -1;
    if (wish->wall_us < USEC_PER_MSEC)
        return fault_set(fault, PROBLEM_LIMIT_MALFORMED, "limits.timeout",
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
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        const struct limit_row *row = &limit_rows[i];
        int64_t asked = limit_get(wish, row);

        if (asked < 0 || i == LIMIT_ROW_wall_us)
            continue;
        if (row_check(row, asked, limit_get(bounds->ceiling, row), fault) < 0)
            return -1;
        limit_put(&limits, row, asked);
    }
    /* A single file may fill the disk unless the request limits it. */
    if (wish->disk_bytes >= 0 && wish->file_bytes < 0)
        limits.file_bytes = limits.disk_bytes;
    if (limits_check(&limits, &err) < 0)
        return fault_set(fault, PROBLEM_LIMIT_OUT_OF_RANGE, "limits", "%s", err.msg);
    *ret_limits = limits;
    return 0;
}
