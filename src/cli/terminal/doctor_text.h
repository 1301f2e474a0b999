/* The doctor's report for people and for programs. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include "engine/doctor/doctor.h"

#define DOCTOR_COLUMNS 100

/* Writes the report as a table of at most DOCTOR_COLUMNS columns. @models is an array of {name,
 * provider, model, source, reachable, reason}, or NULL: then there is nothing about models. @hint
 * says what to do if it is empty. @store is {kind, where, ok, reason}, or NULL. Returns 0, or
 * -errno when the stream failed. */
int doctor_write(FILE *out, const struct doctor_report *report, const json_t *models,
                 const json_t *store, const char *hint, bool colours);

/* The report as a JSON object, which the caller owns; NULL when out of memory. Takes @models
 * and @store, which may be NULL. */
json_t *doctor_to_json(const struct doctor_report *report, json_t *models, json_t *store);
