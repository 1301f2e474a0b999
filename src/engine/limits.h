/*
 * The limits of a run. Plain data: filled from the option table, checked once, then copied to the
 * builder and the template unchanged.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct limits {
#define LIMIT(member, ...) int64_t member;
#include "base/words/limits.def"
};

enum limit_unit { LIMIT_SECONDS, LIMIT_SIZE, LIMIT_CPUS, LIMIT_COUNT };

/* A row of base/words/limits.def, without the columns that only options and schemas need. */
struct limit_row {
    const char *member; /* its name in struct limits */
    size_t offset;
    enum limit_unit unit;
    const char *words, *json;
    int64_t min, max;
    bool zero_is_none;
};

enum {
#define LIMIT(member, ...) LIMIT_ROW_##member,
#include "base/words/limits.def"
    LIMIT_ROWS
};

extern const struct limit_row limit_rows[LIMIT_ROWS];

static inline int64_t limit_get(const struct limits *limits, const struct limit_row *row)
{
    return *(const int64_t *) ((const char *) limits + row->offset);
}

static inline void limit_put(struct limits *limits, const struct limit_row *row, int64_t value)
{
    *(int64_t *) ((char *) limits + row->offset) = value;
}

/* The limit that stopped a run. */
enum limit_kind {
    LIMIT_NONE,
#define LIMIT_END(name, ...) LIMIT_##name,
#include "base/words/limits.def"
};

/* The name used in receipts, such as "wall_time"; NULL for LIMIT_NONE. */
const char *limit_kind_name(enum limit_kind kind);

/* What `glovebox run` prints when that limit stopped a run; NULL for LIMIT_NONE. */
const char *limit_kind_text(enum limit_kind kind);

/* The defaults of a one-shot run and of a session, and the default maximum of a request. */
void limits_default(struct limits *limits);
void limits_session_default(struct limits *limits);
void limits_ceiling_default(struct limits *limits);

/* Refuses values out of range; the message names the limit and the range. */
int limits_check(const struct limits *limits, struct gb_err *err);
