/*
 * The tools: one row each, with the words that a model reads.
 *
 * A description says what the box can do, what it has and where its limits are, since that is all a
 * model ever learns of it. Arguments are checked against the row's schema before a tool sees them;
 * what is wrong with them is told to the model as a tool's error and not to the program around it.
 */
#include "mcp/catalog/tools.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"

#include "base/banned.h"

#define SESSION                                                                                    \
    "\"session_id\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":64,\"description\":\"The "  \
    "session to use, from create_session. Without it: the one of this conversation, or a fresh "   \
    "box for this call alone where the connection keeps none.\"}"
#define TIMEOUT                                                                                    \
    "\"timeout\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":{timeout_max},"           \
    "\"description\":\"Seconds it may take; {timeout} without it, at most {timeout_max}.\"}"
#define FILE_PATH                                                                                  \
    "\"path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4000,\"description\":\"Beneath "  \
    "/workspace, such as data/sales.csv\"}"
#define OBJECT(properties, required)                                                               \
    "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required                 \
    "],\"additionalProperties\":false}"

#define RUN_OUTPUT                                                                                 \
    "{\"type\":\"object\",\"properties\":{"                                                        \
    "\"status\":{\"type\":\"string\",\"description\":\"ok, error (an exception or a non-zero "     \
    "exit "                                                                                        \
    "code), timeout, oom, killed, pids, disk, output, cancelled\"},"                               \
    "\"success\":{\"type\":\"boolean\"},\"exit_code\":{\"type\":\"integer\"},"                     \
    "\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},"                           \
    "\"result\":{\"type\":[\"string\",\"null\"],\"description\":\"the value of the last "          \
    "expression\"},"                                                                               \
    "\"displays\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"what was " \
    "shown, as text\"},"                                                                           \
    "\"images\":{\"type\":\"integer\",\"description\":\"figures, which follow as images\"},"       \
    "\"error\":{\"type\":[\"object\",\"null\"],\"properties\":{\"name\":{\"type\":\"string\"},"    \
    "\"value\":{\"type\":\"string\"},\"traceback\":{\"type\":\"string\"}}},"                       \
    "\"files\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"path\":"       \
    "{\"type\":\"string\"},\"size\":{\"type\":\"integer\"},\"change\":{\"type\":\"string\"}}},"    \
    "\"description\":\"what it created, changed or deleted\"},"                                    \
    "\"execution_time\":{\"type\":\"number\"},"                                                    \
    "\"truncated\":{\"type\":\"object\",\"description\":\"bytes left out of stdout and stderr\"}," \
    "\"session_id\":{\"type\":[\"string\",\"null\"]},"                                             \
    "\"hint\":{\"type\":\"string\",\"description\":\"what to do about a failure\"}},"              \
    "\"required\":[\"status\",\"success\",\"exit_code\",\"stdout\",\"stderr\",\"result\","         \
    "\"displays\",\"images\",\"error\",\"files\",\"execution_time\",\"truncated\","                \
    "\"session_id\"]}"

#define FILES_OUTPUT                                                                               \
    "{\"type\":\"object\",\"properties\":{\"session_id\":{\"type\":\"string\"},\"files\":{"        \
    "\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"path\":{\"type\":"        \
    "\"string\"},\"kind\":{\"type\":\"string\"},\"size\":{\"type\":\"integer\"},\"mtime\":"        \
    "{\"type\":\"number\"}},\"required\":[\"path\"]}},\"more\":{\"type\":\"boolean\","             \
    "\"description"                                                                                \
    "\":\"there are others\"}},\"required\":[\"session_id\",\"files\",\"more\"]}"

#define HINTS(read_only, destructive, idempotent)                                                  \
    "{\"readOnlyHint\":" read_only ",\"destructiveHint\":" destructive                             \
    ",\"idempotentHint\":" idempotent ",\"openWorldHint\":false}"

static const struct mcp_tool tools[] = {
    { "execute_python", "Run Python",
      "Runs Python 3 in a sealed Linux box and gives back what it printed, the value of its last "
      "expression as a notebook would, every matplotlib figure as an image, the files it "
      "changed, or the exception with its traceback. Installed: numpy, pandas, scipy, "
      "scikit-learn, matplotlib, plotly, openpyxl, Pillow, requests and the standard library. The "
      "working directory is /workspace. There is no network. Limits: {timeout} s unless timeout "
      "says more (at most {timeout_max}), {memory} of memory, {disk} of disk; of stdout and stderr "
      "the first and last part, {reply} bytes each, and the whole as a resource. Draw with "
      "matplotlib; figures need no savefig: show them, or leave them open. In a session variables, "
      "imports and files stay for "
      "the next call.",
      OBJECT("\"code\":{\"type\":\"string\",\"maxLength\":8388608,\"description\":\"The program. "
             "End it with an expression to see its value.\"}," TIMEOUT "," SESSION,
             "\"code\""),
      RUN_OUTPUT, HINTS("false", "false", "false"), tool_execute_python },
    { "run_command", "Run a shell command",
      "Runs a command with /bin/sh in the box, in /workspace, beside the Python of the same "
      "session: files are shared, variables are not. No network, no root. Limits as those of "
      "execute_python.",
      OBJECT("\"command\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":8388608,"
             "\"description\":\"Such as: ls -l; head -n 5 data.csv\"}," TIMEOUT "," SESSION,
             "\"command\""),
      RUN_OUTPUT, HINTS("false", "false", "false"), tool_run_command },
    { "pip_install", "Install a package",
      "Adds a Python package from PyPI: to the session, where it can be imported at once, or "
      "without "
      "one to every later fresh box. Look first whether it is there already: see execute_python "
      "for "
      "what is installed.",
      OBJECT("\"package\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":200,\"description\":"
             "\"Its name, such as polars; extras as in httpx[http2]\"},"
             "\"version\":{\"type\":\"string\",\"maxLength\":200,\"description\":\"Such as 1.2.3; "
             "latest, or nothing, for the newest\"}," SESSION,
             "\"package\""),
      "{\"type\":\"object\",\"properties\":{\"success\":{\"type\":\"boolean\"},\"message\":{"
      "\"type\":\"string\"},\"installed_version\":{\"type\":[\"string\",\"null\"]},"
      "\"installation_time\":{\"type\":\"number\"},\"warnings\":{\"type\":\"array\","
      "\"items\":{\"type\":\"string\"}}},\"required\":[\"success\",\"message\","
      "\"installed_version\",\"installation_time\"]}",
      "{\"readOnlyHint\":false,\"destructiveHint\":false,\"idempotentHint\":true,"
      "\"openWorldHint\":true}",
      tool_pip_install },
    { "create_session", "Make a session",
      "Makes a box of its own, in which variables, imports and files stay from call to call, and "
      "gives its session_id to pass to the other tools. It ends with close_session, or when it was "
      "not used for {idle} s.",
      OBJECT("\"idle_timeout\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"description\":"
             "\"Seconds without use before it is ended; {idle} without it\"}",
             ""),
      "{\"type\":\"object\",\"properties\":{\"session_id\":{\"type\":\"string\"},\"idle_timeout\":{"
      "\"type\":\"number\"},\"limits\":{\"type\":\"object\"}},\"required\":[\"session_id\","
      "\"idle_timeout\",\"limits\"]}",
      HINTS("false", "false", "false"), tool_create_session },
    { "close_session", "End a session",
      "Ends a session: stops what runs in it and removes its variables and files. Without a "
      "session_id, that of this conversation; the next call then begins with a fresh one.",
      OBJECT(SESSION, ""),
      "{\"type\":\"object\",\"properties\":{\"closed\":{\"type\":\"string\"}},\"required\":["
      "\"closed\"]}",
      HINTS("false", "true", "true"), tool_close_session },
    { "interrupt", "Stop what runs",
      "Stops what runs in a session, as Ctrl-C does; variables and files stay. For a cell that "
      "another call has started and that takes too long.",
      OBJECT(SESSION, ""),
      "{\"type\":\"object\",\"properties\":{\"interrupted\":{\"type\":\"integer\",\"description\":"
      "\"how many were asked to stop\"},\"session_id\":{\"type\":\"string\"}},\"required\":["
      "\"interrupted\",\"session_id\"]}",
      HINTS("false", "false", "true"), tool_interrupt },
    { "upload_file", "Put a file into the box",
      "Writes a file beneath /workspace of a session, where execute_python finds it under the same "
      "path. Directories are made; a file of that name is replaced. Give content for text, or "
      "content_base64 for anything else.",
      OBJECT(FILE_PATH ",\"content\":{\"type\":\"string\",\"description\":\"The file as text\"},"
                       "\"content_base64\":{\"type\":\"string\",\"description\":\"The file's bytes "
                       "in base64, instead of content\"}," SESSION,
             "\"path\""),
      "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"size\":{\"type\":"
      "\"integer\"},\"created\":{\"type\":\"boolean\"},\"session_id\":{\"type\":\"string\"}},"
      "\"required\":[\"path\",\"size\",\"created\",\"session_id\"]}",
      HINTS("false", "true", "true"), tool_upload_file },
    { "read_file", "Read a file of the box",
      "Reads a file beneath /workspace of a session: text as text, images as images, anything else "
      "in base64. Large files come in parts; say offset and limit for the next one.",
      OBJECT(FILE_PATH ",\"offset\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"Byte to "
                       "begin at; 0 without it\"},\"limit\":{\"type\":\"integer\",\"minimum\":1,"
                       "\"maximum\":1048576,\"description\":\"Most bytes to read; 65536 without "
                       "it\"}," SESSION,
             "\"path\""),
      "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"size\":{\"type\":"
      "\"integer\"},\"offset\":{\"type\":\"integer\"},\"next\":{\"type\":[\"integer\",\"null\"],"
      "\"description\":\"the offset of the next "
      "part\"},\"encoding\":{\"type\":\"string\",\"enum\":["
      "\"utf-8\",\"base64\",\"image\"]},\"content\":{\"type\":\"string\"},\"mime_type\":{\"type\":"
      "\"string\"},\"session_id\":{\"type\":\"string\"}},\"required\":[\"path\",\"size\","
      "\"offset\","
      "\"next\",\"encoding\",\"content\",\"session_id\"]}",
      HINTS("true", "false", "true"), tool_read_file },
    { "list_files", "List files of the box",
      "Lists what is in /workspace of a session, or in a directory beneath it.",
      OBJECT("\"path\":{\"type\":\"string\",\"maxLength\":4000,\"description\":\"The directory; "
             "/workspace without it\"},\"recursive\":{\"type\":\"boolean\",\"description\":\"Also "
             "what is in directories beneath\"}," SESSION,
             ""),
      FILES_OUTPUT, HINTS("true", "false", "true"), tool_list_files },
};

void tools_register(struct mcp *mcp)
{
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        registry_add_tool(mcp, &tools[i]);
}

/* ---- methods ---- */

void method_tools_list(struct mcp_call *call)
{
    if (call_text(call, "cursor", false)) {
        call_fail(call, MCP_INVALID_PARAMS, "this cursor is not ours: all tools are on one page");
        return;
    }
    call_reply(call, json_pack("{s:o}", "tools", registry_tools_to_json(call->mcp)));
}

/* Models say null for what they leave out. */
static json_t *without_nulls(const json_t *arguments)
{
    json_t *copy = json_object(), *value;
    const char *key;

    json_object_foreach ((json_t *) arguments, key, value) {
        if (!json_is_null(value))
            (void) json_object_set(copy, key, value);
    }
    return copy;
}

void method_tools_call(struct mcp_call *call)
{
    json_t *given = json_object_get(call->params, "arguments"), *arguments;
    const char *name = call_text(call, "name", true);
    const struct mcp_tool *tool;
    char why[256] = "";

    if (!name)
        return;
    tool = registry_tool(call->mcp, name);
    if (!tool) {
        call_fail(call, MCP_INVALID_PARAMS, "there is no tool of this name; tools/list has them");
        return;
    }
    if (given && !json_is_object(given)) {
        call_fail(call, MCP_INVALID_PARAMS, "arguments must be an object");
        return;
    }
    arguments = without_nulls(given);
    if (schema_check(registry_tool_input(call->mcp, tool), arguments, why, sizeof why))
        tool->handle(call, arguments);
    else
        tool_fail(call, "The arguments of %s are not right: %s", tool->name, why);
    json_decref(arguments);
}

/* ---- results ---- */

void tool_reply(struct mcp_call *call, json_t *structured, json_t *content, bool is_error)
{
    autofree char *text = structured ? json_dumps(structured, MCP_JSON) : NULL;
    json_t *all = json_array(), *result;

    if (!text) {
        json_decref(structured);
        json_decref(content);
        json_decref(all);
        call_reply(call, NULL);
        return;
    }
    (void) json_array_append_new(all, json_pack("{s:s, s:s}", "type", "text", "text", text));
    if (content)
        (void) json_array_extend(all, content);
    json_decref(content);
    result = json_pack("{s:o, s:o, s:b}", "content", all, "structuredContent", structured,
                       "isError", is_error);
    call_reply(call, result);
}

void tool_fail(struct mcp_call *call, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    call_reply(call, json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text",
                               n < 0 ? "" : text, "isError", 1));
}

void tool_fail_fault(struct mcp_call *call, const struct fault *fault)
{
    if (fault->retry_after_s > 0)
        tool_fail(call, "%s (%s). Try again in %d s.", fault->detail,
                  fault->type ? fault->type : "error", fault->retry_after_s);
    else
        tool_fail(call, "%s (%s)", fault->detail, fault->type ? fault->type : "error");
}

void tool_add_link(struct mcp_call *call, json_t *content, const char *uri, const char *name,
                   const char *description, const char *mime, int64_t size)
{
    bool links = call->era == MCP_MODERN || (call->peer && call->peer->version &&
                                             strcmp(call->peer->version, "2025-06-18") >= 0);
    json_t *json;

    if (!uri)
        return;
    if (links) {
        json = json_pack("{s:s, s:s, s:s, s:s, s:s}", "type", "resource_link", "uri", uri, "name",
                         name, "description", description, "mimeType",
                         mime ? mime : "application/octet-stream");
        if (json && size >= 0)
            (void) json_object_set_new(json, "size", json_integer(size));
    } else {
        json = json_pack("{s:s, s:s++++}", "type", "text", "text", description, ": ", name, " at ",
                         uri);
    }
    if (json)
        (void) json_array_append_new(content, json);
}

const char *tool_text(const json_t *arguments, const char *name)
{
    return json_string_value(json_object_get(arguments, name));
}

int tool_session(struct mcp_call *call, const json_t *arguments, struct session **ret_session)
{
    struct fault fault = { 0 };

    if (call_session(call, tool_text(arguments, "session_id"), ret_session, &fault) < 0) {
        tool_fail_fault(call, &fault);
        return -1;
    }
    if (!*ret_session) {
        tool_fail(call, "This needs a session: make one with create_session and pass its "
                        "session_id. On this connection every other call has a fresh box.");
        return -1;
    }
    return 0;
}
