#include "engine/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/words/units.h"

#include "base/banned.h"

#define DAY_US (INT64_C(86400) * USEC_PER_SEC)

#define ZERO_UNLIMITED true
#define ZERO_REFUSED   false

const struct limit_row limit_rows[LIMIT_ROWS] = {
#define LIMIT(member, unit, words, json, standard, session, ceiling, min, max, zero, ...)          \
    { #member, offsetof(struct limits, member), LIMIT_##unit, words, json, min, max, ZERO_##zero },
#include "base/words/limits.def"
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
    /* The whole part of -0.5 is 0 and has no sign. */
    snprintf(buf, size, "%s%" PRId64 ".%0*" PRId64 " cores", value < 0 && whole == 0 ? "-" : "",
             whole, digits, rest);
}

static void format_value(enum limit_unit unit, int64_t value, char *buf, size_t size)
{
    switch (unit) {
    case LIMIT_SECONDS:
        format_steps(time_steps, value, buf, size);
        break;
    case LIMIT_SIZE:
        format_steps(size_steps, value, buf, size);
        break;
    case LIMIT_CPUS:
        format_milli(value, buf, size);
        break;
    case LIMIT_COUNT:
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
                         row->words, row->zero_is_none ? "0 (none) or " : "", min, max, got);
}

const char *limit_kind_name(enum limit_kind kind)
{
    switch (kind) {
    case LIMIT_NONE:
        return NULL;
#define LIMIT_END(name, word, text)                                                                \
    case LIMIT_##name:                                                                             \
        return word;
#include "base/words/limits.def"
    }
    return NULL;
}

const char *limit_kind_text(enum limit_kind kind)
{
    switch (kind) {
    case LIMIT_NONE:
        return NULL;
#define LIMIT_END(name, word, text)                                                                \
    case LIMIT_##name:                                                                             \
        return text;
#include "base/words/limits.def"
    }
    return NULL;
}

void limits_default(struct limits *limits)
{
    *limits = (struct limits){
#define LIMIT(member, unit, words, json, standard, ...) .member = (standard),
#include "base/words/limits.def"
    };
}

void limits_session_default(struct limits *limits)
{
    *limits = (struct limits){
#define LIMIT(member, unit, words, json, standard, session, ...) .member = (session),
#include "base/words/limits.def"
    };
}

void limits_ceiling_default(struct limits *limits)
{
    *limits = (struct limits){
#define LIMIT(member, unit, words, json, standard, session, ceiling, ...) .member = (ceiling),
#include "base/words/limits.def"
    };
}

int limits_check(const struct limits *limits, struct gb_err *err)
{
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        const struct limit_row *row = &limit_rows[i];
        int64_t value = limit_get(limits, row);

        if (row->zero_is_none && value == 0)
            continue;
        if (value < row->min || value > row->max)
            return limit_refuse(row, value, err);
    }
    return 0;
}
