/* The volumes of a session: which directories of the host it sees, and where. */
#pragma once

#include "service/service.h"

/* Never changed once made. */
struct bindings {
    struct volume *items; /* own their strings; modes are resolved */
    size_t len;
    json_t *json; /* as clients see it */
    char *text;   /* the same for the audit log: ASCII, sorted keys, no whitespace */
};

/* Checks the request against the operator's directories and copies it; NULL if there are none. */
int bindings_new(const struct service_config *config, const struct session_request *request,
                 struct bindings **ret_bindings, struct fault *fault);
void bindings_free(struct bindings *bindings); /* accepts NULL */

/* The operator's directories as clients see them. */
json_t *bindings_allowed(const struct service_config *config);
