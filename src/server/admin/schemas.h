/* The tables of bodies and queries of the operator's API, and the structs that they fill. */
#pragma once

#include "schema/fields.h"

struct query_admin_page {
    const char *after;
    int64_t limit;
};

struct query_admin_keys {
    const char *after;
    bool active;
    int64_t limit;
};

struct query_admin_series {
    int64_t minutes;
};

enum admin_state { ADMIN_LIVE, ADMIN_FINISHED, ADMIN_STOPPED };

struct query_admin_executions {
    int state;  /* enum admin_state */
    int status; /* enum run_status */
    int64_t limit;
};

struct query_admin_users {
    const char *after, *q;
    int64_t limit;
};

struct query_admin_audit {
    const char *since, *until, *who, *session_id, *kind;
    int status; /* enum run_status */
    int64_t before, limit;
};

struct body_admin_key {
    const char *name;
    int64_t sessions, executions, rate_per_minute;
};

enum admin_role { ADMIN_ROLE_OPERATOR, ADMIN_ROLE_USER };

struct body_admin_user {
    int role; /* enum admin_role */
};

struct body_admin_budget {
    int64_t bytes, tokens;
    const json_t *cost, *seconds;
};

struct body_admin_invite {
    int64_t hours;
};

extern const struct schema schema_admin_page_query, schema_admin_keys_query,
    schema_admin_series_query, schema_admin_executions_query, schema_admin_users_query,
    schema_admin_audit_query, schema_admin_key_create, schema_admin_user_change,
    schema_admin_budget, schema_admin_invite;

extern const struct schema schema_admin_overview, schema_admin_series, schema_admin_sessions,
    schema_admin_executions, schema_admin_key, schema_admin_keys, schema_admin_user,
    schema_admin_users, schema_admin_password, schema_admin_invitation, schema_admin_audit,
    schema_admin_chain, schema_admin_packages, schema_admin_sources, schema_admin_models;
