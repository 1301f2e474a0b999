/*
 * The API for tools, prompts and resources: how they are registered, and what they can do with
 * their call.
 *
 * A handler either ends its call before it returns, with call_reply() or call_fail(), or it hands
 * the call over to a step function with call_continue(). The step runs on the thread that drives
 * the call, again and again until it has ended the call; it must not block longer than @timeout_us.
 * Before the end a call can send log messages and progress, and ask the client for something.
 *
 * Only the thread that runs the handler or the step may use these functions on a call.
 */
#pragma once

#include "base/log.h"
#include "mcp/mcp.h"
#include "schema/fields.h"

enum mcp_code {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_NO_METHOD = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL = -32603,
    MCP_NO_SESSION = -32001,
    MCP_HEADER_MISMATCH = -32020,
    MCP_NO_CAPABILITY = -32021,
    MCP_NO_VERSION = -32022,
};

/* ---- registering ---- */

/* Hints of a tool about itself, for clients that ask before they call it. */
enum mcp_hint {
    TOOL_READ_ONLY = 1 << 0,
    TOOL_DESTRUCTIVE = 1 << 1,
    TOOL_IDEMPOTENT = 1 << 2,
    TOOL_OPEN_WORLD = 1 << 3, /* reaches beyond the sandbox */
};

/* As the maximum of a field: the longest time that the configuration allows for a call. */
#define MCP_WALL_MAX INT64_MAX

/* The texts may contain {timeout}, {timeout_max}, {memory}, {disk}, {reply} and {idle}, which are
 * replaced with the configured numbers, and {packages}, the most important ones with versions. */
struct mcp_tool {
    const char *name, *title, *description;
    const struct schema *input;  /* checks the arguments and fills the struct that @handle gets */
    const struct schema *output; /* of structuredContent; NULL: none */
    unsigned hints;              /* enum mcp_hint */
    void (*handle)(struct mcp_call *call, const void *arguments);

    /* Instead of @input: JSON Schema as text, for what a table cannot express. Then nothing is
     * checked, and @handle gets the arguments unchanged, a json_t object. */
    const char *input_text;
};

struct mcp_prompt_argument {
    const char *name, *description;
    bool required;
};

struct mcp_prompt {
    const char *name, *title, *description;
    const struct mcp_prompt_argument *arguments; /* ends with a NULL name; may be NULL */
    void (*handle)(struct mcp_call *call, const json_t *arguments);
};

/* A resource, or a template for several: @uri then contains braces. */
struct mcp_resource {
    const char *uri, *name, *title, *description, *mime;
    bool template;
    /* Returns false if @uri is not one of these; otherwise the call has ended or continues. */
    bool (*read)(struct mcp_call *call, const char *uri);
};

/* Rows must outlive @mcp. Clients are notified when tools or prompts are added or removed;
 * resources must be added before the first client connects and cannot be removed. */
void registry_add_tool(struct mcp *mcp, const struct mcp_tool *tool);
void registry_remove_tool(struct mcp *mcp, const char *name);
void registry_add_prompt(struct mcp *mcp, const struct mcp_prompt *prompt);
void registry_remove_prompt(struct mcp *mcp, const char *name);
void registry_add_resource(struct mcp *mcp, const struct mcp_resource *resource);

/* ---- ending a call ---- */

/* Ends it with a result, which is taken; NULL means out of memory. */
void call_reply(struct mcp_call *call, json_t *result);

/* Ends it with an error. */
void call_fail(struct mcp_call *call, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void call_fail_data(struct mcp_call *call, int code, json_t *data, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

bool call_is_over(const struct mcp_call *call);

/* The transport of the call. */
struct mcp *call_mcp(const struct mcp_call *call);

/* ---- calls that take time ---- */

/* Continues with @step, which waits at most @timeout_us each time. call_work() returns @work;
 * @work_free (may be NULL) is called once the call is over. */
void call_continue(struct mcp_call *call, void (*step)(struct mcp_call *call, int64_t timeout_us),
                   void *work, void (*work_free)(void *work));
void *call_work(const struct mcp_call *call);

/* Waits until the call is cancelled, or an answer of the client arrives. */
void call_wait(struct mcp_call *call, int64_t timeout_us);

/* Sent only if the client wants messages of this level. */
void call_log(struct mcp_call *call, enum log_level level, const char *logger, const char *text,
              size_t len);

/* Sent only if the client asked for progress. Progress must rise; a value that does not is left
 * out. @total below 0: unknown. */
void call_progress(struct mcp_call *call, double progress, double total, const char *message);

/* Closes the stream on which the client waits for the response. The call continues; the client
 * reconnects after a moment and receives the rest, as described in revision 2025-11-25. For calls
 * so long that holding a connection open for them is not worth it. Has no effect if the stream
 * cannot be resumed. */
void call_close_stream(struct mcp_call *call);

/* ---- asking the client ----
 *
 * For the user's input, for a completion by the client's model, for its roots. Up to 2025-11-25
 * that is a request to the client while the call is under way: call_ask(). From 2026-07-28 on the
 * call ends with the question, and the client repeats it with the answer: call_require_input(),
 * then call_input() and call_state(). mcp_call_is_modern() says which. */

#define MCP_ASK_US (INT64_C(300) * 1000000) /* how long a client may take to answer */

/* Whether the client declared the capability. call_needs_capability() ends the call without it. */
bool call_has_capability(const struct mcp_call *call, const char *name);
bool call_needs_capability(struct mcp_call *call, const char *name);

/* Sends a request; takes @params. call_take_answer() later returns the whole response, for
 * json_decref(); NULL until it arrives. */
void call_ask(struct mcp_call *call, const char *method, json_t *params);
json_t *call_take_answer(struct mcp_call *call);

/* Ends the call with @requests ({KEY: {method, params}}) for the client to answer. @state (may be
 * NULL) comes back with the answers; it is authenticated, but not encrypted. Takes both. */
void call_require_input(struct mcp_call *call, json_t *requests, json_t *state);

/* The answer to the request KEY, an object; NULL if there is none. */
const json_t *call_input(const struct mcp_call *call, const char *key);

/* The state that was passed to call_require_input() in the previous round, or NULL. */
const json_t *call_state(const struct mcp_call *call);
