/* What the files of this room share. */
#pragma once

#include "mark/verify/verify.h"

struct verify {
    struct verify_config config;
};

/* Whether @caller is an operator: the local caller of a command, or a user who is one. */
bool verify_is_operator(struct verify *verify, const struct caller *caller);
/* Whether the caller may use all sources that the case needs. */
bool verify_may_use(struct verify *verify, const struct caller *caller, const json_t *json);
/* The fault of a store's error. */
int verify_fault(struct verify *verify, int r, const struct gb_err *err, struct fault *fault);
/* One that the caller may run: its own, or any of an operator; with its content in *@ret_case. */
int verify_get(struct verify *verify, const struct caller *caller, const char *id,
               struct store_verified *ret_verified, json_t **ret_case, struct fault *fault);

/* ---- report.c: what changed, in words ---- */

/* Lines about what is not equal in a result of agent_recheck(). */
void report_differences(json_t *lines, const json_t *result);
/* Lines about other versions of packages and another template. */
void report_context(json_t *lines, const json_t *result);
/* The same for two texts. */
void report_change(json_t *lines, const char *what, const char *before, const char *after);
/* What the values that the story of @json shows have become in @response, compared by name and
 * number. */
void report_values(json_t *lines, const json_t *json, const json_t *response);
