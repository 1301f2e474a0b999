/* The tables of bodies and queries of Mark, and the structs that they fill. */
#pragma once

#include "schema/fields.h"

/* ---- accounts ---- */

struct body_signup {
    const char *email, *password, *name, *invitation;
};

struct body_signin {
    const char *email, *password;
};

struct body_refresh {
    const char *refresh_token;
};

struct body_me_change {
    const char *name, *password, *current_password;
};

struct body_me_delete {
    const char *current_password;
};

extern const struct schema schema_signup, schema_signin, schema_signin_form, schema_refresh,
    schema_me_change, schema_me_delete, schema_signed_in, schema_auth_state, schema_me,
    schema_me_changed;

/* ---- chats and messages (schemas_chats.c) ---- */

struct query_chats {
    const char *q, *after;
    int64_t limit;
};

struct query_messages {
    int64_t after, limit;
};

struct body_chat_change {
    const char *title;
};

enum rating { RATING_UP, RATING_DOWN };

struct body_feedback {
    int rating; /* enum rating */
    const json_t *reasons;
    const char *text;
};

extern const struct schema schema_chats_query, schema_messages_query, schema_chat_change,
    schema_feedback, schema_chat_created, schema_chat, schema_chat_page, schema_rating,
    schema_mark_message, schema_message_page;

/* ---- asking (schemas_ask.c) ---- */

struct body_ask {
    const char *query, *chat_id, *model;
    const json_t *attachments, *sources;
};

struct body_edit {
    const char *query, *model;
    const json_t *attachments, *sources;
};

struct body_regenerate {
    const char *model;
};
struct body_recheck {
    bool live;
};

struct query_mark_events {
    int64_t after;
};

extern const struct schema schema_ask, schema_edit, schema_regenerate_body, schema_recheck_body,
    schema_mark_events_query, schema_mark_query, schema_mark_column, schema_mark_chart,
    schema_mark_table, schema_mark_step, schema_mark_value, schema_mark_place, schema_mark_numbers,
    schema_mark_artifact, schema_mark_usage, schema_mark_response, schema_mark_event,
    schema_stopped, schema_recheck_item, schema_recheck_error, schema_recheck, schema_exchange,
    schema_trace, schema_price, schema_model, schema_model_page, schema_mark_amounts,
    schema_mark_limits, schema_mark_budget, schema_mark_spent;

/* ---- exports (schemas_exports.c) ---- */

struct query_export {
    int format; /* enum export_format */
};

struct query_table_export {
    int format; /* enum export_table_format */
    bool changed;
};

extern const struct schema schema_export_query, schema_table_export_query;

/* ---- attachments (schemas_chats.c) ---- */

extern const struct schema schema_profile_column, schema_profile_table, schema_profile,
    schema_attachment, schema_attachment_brief, schema_attachment_list;

/* ---- verified answers (schemas_verify.c) ---- */

struct body_verify {
    const char *note;
    bool shared;
};

struct query_verified {
    const char *after;
    int64_t limit;
};

extern const struct schema schema_verify, schema_verified_query, schema_verified,
    schema_verified_page, schema_verified_check, schema_verified_brief;

/* ---- data sources (schemas_sources.c) ---- */

/* The fields are checked here for their types, and read from the JSON by mark/source/settings.c. */
struct body_source {
    const char *name, *kind, *url, *password, *ca, *role, *description, *project, *dataset,
        *location, *directory;
    const json_t *schemas, *variables, *access, *limits, *credentials, *price, *joins, *examples;
    bool samples;
};

struct query_source_add {
    bool no_sync;
};

struct query_tables {
    const char *q;
};

struct body_table_change {
    const char *description;
    const json_t *synonyms, *columns;
};

extern const struct schema schema_source_limits, schema_source_access, schema_source_join,
    schema_source_example, schema_source_add, schema_source_change, schema_source_add_query,
    schema_source, schema_source_list, schema_source_synced, schema_source_check,
    schema_source_checked, schema_tables_query, schema_table_column, schema_source_table,
    schema_source_tables, schema_column_change, schema_table_change;
