/* MIME bundles of a tenant: parsed and checked. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/outcome.h"

/* Deducts the nodes of the bundle from *@nodes_left. The caller owns both objects. Returns 0,
 * -E2BIG if too few are left, -EBADMSG if it is not a bundle. */
int bundle_parse(const struct bundle *bundle, size_t *nodes_left, json_t **ret_data,
                 json_t **ret_metadata);

/* One output of a receipt: the bundle that was shown there at first, and that which is at the end,
 * as indices. */
struct bundle_place {
    size_t first, last;
};

/* How much of each stream was printed before the program cleared its output; -1: it did not. */
struct bundle_cleared {
    int64_t out, err;
};

/* What is left of displays that were updated or cleared, in @ret, which has room for all. Returns
 * how many there are, or -ENOMEM. Malformed bundles keep their places. */
int bundle_fold(const struct outcome *outcome, struct bundle_place *ret,
                struct bundle_cleared *ret_cleared);
