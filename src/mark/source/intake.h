/* A catalogue as a connector or a box hands it over, which read it from a server or a file of
 * strangers: checked and copied member by member, with bounds on everything. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

#define INTAKE_BYTES_MAX (64u << 20)

/* {"tables": {NAME: info}, "readable": {NAME: true} or null, "left_out": n}; the caller's. Texts
 * that are too long are cut; a table without a usable name, or beyond the bounds, is left out and
 * counted. -EBADMSG: this is no catalogue. */
int intake_parse(const char *text, size_t len, json_t **ret_catalogue, struct gb_err *err);
int intake_json(const json_t *raw, json_t **ret_catalogue, struct gb_err *err);
