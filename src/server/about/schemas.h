/* Responses of the routes about the service. */
#pragma once

#include "schema/fields.h"

extern const struct schema schema_root, schema_health, schema_ready, schema_limits_info,
    schema_templates, schema_stats;
