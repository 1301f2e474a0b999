/* Limits in requests, beyond what service.h tells: wishes become limits, or a fault. */
#pragma once

#include "service/service.h"

struct wish_bounds {
    const struct limits *defaults, *ceiling; /* their wall_us is not looked at */
    int64_t wall_default_us, wall_max_us;
};

/* Fills what was not asked for. What is above the ceiling is refused, never lowered. */
int wish_to_limits(const struct limits *wish, const struct wish_bounds *bounds,
                   struct limits *ret_limits, struct fault *fault);

/* The wall time alone: all that may be asked for within a session. */
int wish_to_wall(const struct limits *wish, const struct wish_bounds *bounds, int64_t *ret_wall_us,
                 struct fault *fault);

/* Whether anything but the wall time was asked for. */
bool wish_beyond_time(const struct limits *wish);
