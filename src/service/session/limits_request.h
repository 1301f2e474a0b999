/* Limits in requests, beyond service.h: requested limits become effective limits, or a fault. */
#pragma once

#include "service/service.h"

struct wish_bounds {
    const struct limits *defaults, *ceiling; /* their wall_us is not used */
    int64_t wall_default_us, wall_max_us;
};

/* Fills in values that were not requested. A value above the ceiling is refused, never lowered. */
int wish_to_limits(const struct limits *wish, const struct wish_bounds *bounds,
                   struct limits *ret_limits, struct fault *fault);

/* Only the wall time, which is all that may be requested within a session. */
int wish_to_wall(const struct limits *wish, const struct wish_bounds *bounds, int64_t *ret_wall_us,
                 struct fault *fault);

/* Whether anything but the wall time was requested. */
bool wish_beyond_time(const struct limits *wish);
