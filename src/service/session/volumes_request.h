/* The volumes of a session: which directories of the host it has, and where. */
#pragma once

#include "service/service.h"

/* Never changed once made. */
struct bindings {
    struct volume *items; /* with strings of their own; modes are settled */
    size_t len;
    json_t *json; /* as clients see it */
    char *text;   /* the same for the audit log: ASCII, keys in order, no blanks */
};

/* Checks what was asked for against the operator's directories and copies it; NULL for nothing. */
int bindings_new(const struct service_config *config, const struct session_request *request,
                 struct bindings **ret_bindings, struct fault *fault);
void bindings_free(struct bindings *bindings); /* accepts NULL */

/* The operator's directories as clients see them. */
json_t *bindings_allowed(const struct service_config *config);
