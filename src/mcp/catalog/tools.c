/*
 * The list of tools, calling one of them, and what their results have in common.
 *
 * Arguments are checked against the tool's table before its handler sees them. Invalid arguments
 * are an error of the tool, which the model can read, not one of the protocol, which it cannot.
 */
#include "mcp/catalog/tools.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/mark.h"

#include "base/banned.h"

static const struct mcp_tool *const tools[] = {
    &tool_execute_python, &tool_run_command,   &tool_pip_install,
    &tool_create_session, &tool_close_session, &tool_interrupt,
    &tool_upload_file,    &tool_read_file,     &tool_list_files,
};

/* The demo is for people who try out Mark: for an assistant its answers would be noise. */
static bool mark_can_answer(struct mark *mark)
{
    const struct llm_model *model = mark ? llm_model_find(mark_models(mark), NULL) : NULL;

    return model && !llm_model_is_demo(model);
}

void tools_register(struct mcp *mcp)
{
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        registry_add_tool(mcp, tools[i]);
    if (mark_can_answer(mcp->config.mark))
        registry_add_tool(mcp, &tool_ask_data);
}

/* ---- methods ---- */

void method_tools_list(struct mcp_call *call)
{
    if (call_text(call, "cursor", false)) {
        call_fail(call, MCP_INVALID_PARAMS, "invalid cursor: all tools are on one page");
        return;
    }
    call_reply(call, json_pack("{s:o}", "tools", registry_tools_to_json(call->mcp)));
}

/* "timeout must be above 0 and at most 120; colour is not a known field" */
static void fail_arguments(struct mcp_call *call, const char *name, const json_t *errors)
{
    char text[500];
    size_t used = 0, i;
    json_t *item;

    json_array_foreach (errors, i, item) {
        const char *field = json_string_value(json_array_get(json_object_get(item, "loc"), 1));
        const char *msg = json_string_value(json_object_get(item, "msg"));

        if (used < sizeof text)
            used += (size_t) snprintf(text + used, sizeof text - used, "%s%s %s", i ? "; " : "",
                                      field, msg);
    }
    tool_fail(call, "Invalid arguments for %s: %s", name, text);
}

/* Fills the struct of the tool's table and passes it to the tool. */
static void call_with_table(struct mcp_call *call, const struct tool_entry *entry,
                            const json_t *given)
{
    json_t *errors = json_array();
    void *arguments = malloc(entry->input->size);

    if (!arguments)
        call_reply(call, NULL);
    else if (fields_read_body(entry->input, given, true, arguments, errors) < 0)
        fail_arguments(call, entry->tool->name, errors);
    else
        entry->tool->handle(call, arguments);
    free(arguments);
    json_decref(errors);
}

void method_tools_call(struct mcp_call *call)
{
    json_t *given = json_object_get(call->params, "arguments");
    const char *name = call_text(call, "name", true);
    struct tool_entry entry;

    if (!name)
        return;
    if (!registry_tool(call->mcp, name, &entry)) {
        call_fail(call, MCP_INVALID_PARAMS, "unknown tool; tools/list returns all of them");
        return;
    }
    if (given && !json_is_object(given)) {
        call_fail(call, MCP_INVALID_PARAMS, "arguments must be an object");
        return;
    }
    given = given ? json_incref(given) : json_object();
    if (entry.input)
        call_with_table(call, &entry, given);
    else
        entry.tool->handle(call, given);
    json_decref(given);
}

/* ---- results ---- */

void tool_reply(struct mcp_call *call, json_t *structured, json_t *content, bool is_error)
{
    autofree char *text = structured ? json_dumps(structured, MCP_JSON) : NULL;
    json_t *all = text ? json_pack("[{s:s, s:s}]", "type", "text", "text", text) : NULL;

    json_decref(structured);
    if (all && content)
        (void) json_array_extend(all, content);
    json_decref(content);
    call_reply_with(call, all ? json_pack("{s:o, s:b}", "content", all, "isError", is_error) : NULL,
                    "structuredContent", text);
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

int tool_session(struct mcp_call *call, const char *id, struct session **ret_session)
{
    struct fault fault = { 0 };

    if (call_session(call, id, ret_session, &fault) < 0) {
        tool_fail_fault(call, &fault);
        return -1;
    }
    if (!*ret_session) {
        tool_fail(call, "This tool needs a session. Create one with create_session and pass its "
                        "session_id: on this connection calls do not share one.");
        return -1;
    }
    return 0;
}
