/* MIME bundles of a tenant: parsed and checked. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "engine/outcome.h"

/* Deducts the nodes of the bundle from *@nodes_left. The caller owns both objects. Returns 0,
 * -E2BIG if too few are left, -EBADMSG if it is not a bundle. */
int bundle_parse(const struct bundle *bundle, size_t *nodes_left, json_t **ret_data,
                 json_t **ret_metadata);
