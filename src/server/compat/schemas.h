/* The tables of the simple, the code-session and the locals API, and the structs that they fill. */
#pragma once

#include "schema/fields.h"

struct body_execute_code { /* code-session and locals API */
    const char *code;
    const json_t *local_dict; /* also NULL for null, which is not the same as absent here */
};

struct body_pip {
    const char *package, *version, *session_id;
};

/* schema_simple_execute fills a struct body_execute of v1/schemas.h. */
extern const struct schema schema_simple_execute, schema_execute_code, schema_pip_install;

extern const struct schema schema_pip_installed, schema_message, schema_names, schema_locals,
    schema_locals_uploaded;
