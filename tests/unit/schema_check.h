/* Whether values are as a JSON Schema has them. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* What is wrong is written to @why. */
bool schema_check(const json_t *schema, const json_t *value, char *why, size_t size);
