/* What the tools share. */
#pragma once

#include "mcp/mcp_internal.h"

/* Ends the call with a tool's result: @structured is taken and stands in it as it is and as text;
 * @content, taken too, follows (NULL: nothing). */
void tool_reply(struct mcp_call *call, json_t *structured, json_t *content, bool is_error);

/* A reason that a model can act on. */
void tool_fail(struct mcp_call *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tool_fail_fault(struct mcp_call *call, const struct fault *fault);

/* Adds a link to @content, or words where the client's revision has no links. @size below 0: not
 * known. */
void tool_add_link(struct mcp_call *call, json_t *content, const char *uri, const char *name,
                   const char *description, const char *mime, int64_t size);

/* Text among the arguments; NULL when absent. They have been checked. */
const char *tool_text(const json_t *arguments, const char *name);

/* The session for a tool that makes no sense without one; on failure the call has ended. */
int tool_session(struct mcp_call *call, const json_t *arguments, struct session **ret_session);

void tool_execute_python(struct mcp_call *call, json_t *arguments);
void tool_run_command(struct mcp_call *call, json_t *arguments);
void tool_pip_install(struct mcp_call *call, json_t *arguments);
void tool_create_session(struct mcp_call *call, json_t *arguments);
void tool_close_session(struct mcp_call *call, json_t *arguments);
void tool_interrupt(struct mcp_call *call, json_t *arguments);
void tool_upload_file(struct mcp_call *call, json_t *arguments);
void tool_read_file(struct mcp_call *call, json_t *arguments);
void tool_list_files(struct mcp_call *call, json_t *arguments);
