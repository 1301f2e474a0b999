/*
 * What the tools share. Each tool is a row with its tables in the file of its handler; tools.c has
 * the list of them.
 */
#pragma once

#include "mcp/mcp_internal.h"

extern const struct mcp_tool tool_execute_python, tool_run_command, tool_pip_install,
    tool_create_session, tool_close_session, tool_interrupt, tool_upload_file, tool_read_file,
    tool_list_files, tool_ask_data;

/* ---- tables ---- */

#define OUT_TEXT(name, ...)                                                                        \
    {                                                                                              \
        name, FIELD_TEXT, FIELD_REQUIRED, .help = __VA_ARGS__                                      \
    }
#define OUT_INT(name, ...)                                                                         \
    {                                                                                              \
        name, FIELD_INT, FIELD_REQUIRED, .help = __VA_ARGS__                                       \
    }
#define OUT_NUMBER(name, ...)                                                                      \
    {                                                                                              \
        name, FIELD_NUMBER, FIELD_REQUIRED, .help = __VA_ARGS__                                    \
    }
#define OUT_BOOL(name, ...)                                                                        \
    {                                                                                              \
        name, FIELD_BOOL, FIELD_REQUIRED, .help = __VA_ARGS__                                      \
    }
#define OUT_SESSION OUT_TEXT("session_id", "the session that was used")

#define SESSION_WORD_MAX 64 /* longer than any id, so that a wrong one gets "no such session" */

#define SESSION_ID_FIELD(args)                                                                     \
    {                                                                                              \
        "session_id", FIELD_TEXT, 0, offsetof(struct args, session_id), 1, SESSION_WORD_MAX,       \
            .help = "Session to use, as returned by create_session. If omitted, the session of "   \
                    "this conversation; if the connection has none, a fresh sandbox for this "     \
                    "call only."                                                                   \
    }

#define FILE_PATH_FIELD(args)                                                                      \
    {                                                                                              \
        "path", FIELD_TEXT, FIELD_REQUIRED, offsetof(struct args, path), 1, FILE_PATH_MAX,         \
            .help = "Path of the file, relative to /workspace, for example data/sales.csv"         \
    }

/* ---- results ---- */

/* Ends the call with a tool's result: @structured, which is taken, as it is and as text, followed
 * by @content (taken too, may be NULL). */
void tool_reply(struct mcp_call *call, json_t *structured, json_t *content, bool is_error);

/* Ends the call with an error that a model can act on. */
void tool_fail(struct mcp_call *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tool_fail_fault(struct mcp_call *call, const struct fault *fault);

/* Adds a link to @content, or text if the client's revision has no links. @size below 0:
 * unknown. */
void tool_add_link(struct mcp_call *call, json_t *content, const char *uri, const char *name,
                   const char *description, const char *mime, int64_t size);

/* @path relative to the workspace, whichever of its names it begins with. */
const char *tool_beneath(const char *path);

/* The session for a tool that needs one; on failure the call has ended. @id may be NULL. */
int tool_session(struct mcp_call *call, const char *id, struct session **ret_session);
