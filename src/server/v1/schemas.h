/* The tables of bodies and queries of /v1, and the structs that they fill. */
#pragma once

#include "schema/fields.h"

/* ---- requests ---- */

/* Fields that all executions share, also in the simple API. */
struct body_execute {
    const char *code; /* or the command */
    const char *stdin_text;
    const char *filename;
    int64_t timeout_us;
    int64_t reply_bytes;
    const json_t *limits, *env, *files;
    const json_t *network;
    const char *template;
    int mode; /* enum execute_mode */
    bool shell, detach, cancel, accept_loss;
    const char *session_id; /* simple API */
};

enum execute_mode { MODE_CELL, MODE_SCRIPT };

extern const struct schema schema_execute, schema_session_execute, schema_command;

struct body_packages {
    const json_t *packages;
    bool newest;
};

extern const struct schema schema_packages_add;

struct body_look {
    const char *code;
    int64_t cursor;
};

extern const struct schema schema_complete, schema_inspect;

struct body_share {
    const char *title;
    const json_t *notebook;
};

extern const struct schema schema_share_create;

struct body_session {
    const json_t *limits, *env, *files, *packages, *volumes;
    const json_t *network;
    int64_t idle_us;
    const char *template;
};

extern const struct schema schema_session_create;

struct body_file { /* an element of "files" */
    const char *path, *text, *base64;
};

extern const struct schema schema_new_file;

struct body_volume { /* an element of "volumes" */
    const char *source, *target;
    int mode; /* enum volume_mode */
};

extern const struct schema schema_volume;

struct body_move {
    const char *from, *to;
    bool replace;
};

extern const struct schema schema_move;

struct body_mkdir {
    const char *path;
};

extern const struct schema schema_mkdir;

struct body_stream_message { /* over a WebSocket */
    int type;                /* 0: interrupt */
};

extern const struct schema schema_stream_message;

struct body_terminal {
    int64_t cols, rows;
    const json_t *command, *env;
};

extern const struct schema schema_terminal_open;

struct body_terminal_message { /* over a WebSocket */
    int type;                  /* 0: resize */
    int64_t cols, rows;
};

extern const struct schema schema_terminal_message;

/* ---- queries ---- */

struct query_page {
    const char *after;
    int64_t limit;
};

struct query_files {
    const char *dir, *after;
    int64_t limit;
    bool recursive;
};

struct query_dir {
    const char *dir;
};

struct query_delete {
    bool recursive;
};

struct query_output {
    int stream;
    int64_t offset, limit;
};

struct query_events {
    int64_t out, err, displays;
};

struct query_wait {
    int64_t wait_us;
};

struct query_terminal {
    int64_t offset;
};

struct query_interrupt {
    bool all;
};

extern const struct schema schema_page_query, schema_files_query, schema_upload_query,
    schema_archive_query, schema_delete_query, schema_output_query, schema_events_query,
    schema_wait_query, schema_interrupt_query, schema_terminal_query;

/* ---- responses ---- */

extern const struct schema schema_receipt, schema_progress, schema_interrupted, schema_output,
    schema_event, schema_session, schema_session_page, schema_file_page, schema_file,
    schema_uploaded, schema_moved, schema_packages_added, schema_package_list, schema_match,
    schema_completion, schema_inspection, schema_variable, schema_variable_list, schema_share,
    schema_share_content, schema_share_list, schema_terminal, schema_terminal_list;
