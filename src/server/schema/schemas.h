/* The tables that several dialects use; each dialect has its own in a schemas.h next to its
 * handlers. */
#pragma once

#include "schema/fields.h"

#define CODE_BYTES_MAX  (INT64_C(8) * 1024 * 1024)
#define INPUT_BYTES_MAX (INT64_C(8) * 1024 * 1024)
#define NAME_BYTES_MAX  200 /* of a variable, a package, a version */

extern const char *const volume_modes[]; /* by enum volume_mode */

extern const struct schema schema_limits, schema_bound, schema_problem;

/* The schemas of each dialect in /openapi.json; each list ends with NULL. */
extern const struct schema *const about_schemas[],
    *const compat_schemas[], *const v1_schemas[], *const mcp_schemas[], *const mark_schemas[],
                                                                            *const admin_schemas[];

/* Those lists and the shared one; ends with NULL. */
extern const struct schema *const *const schema_lists[];
