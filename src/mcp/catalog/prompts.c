/* Prompts that users pick from a menu, and completion of arguments for them and for resource
 * templates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define COMPLETIONS_MAX 100
#define WALK_MAX        1000

/* ---- prompts ---- */

/* Ends the call with one user message; takes @text. */
static void reply_prompt(struct mcp_call *call, const char *description, char *text)
{
    call_reply(call,
               text ? json_pack("{s:s, s:[{s:s, s:{s:s, s:s}}]}", "description", description,
                                "messages", "role", "user", "content", "type", "text", "text", text)
                    : NULL);
    free(text);
}

static const char *argument(const json_t *arguments, const char *name, const char *fallback)
{
    const char *value = json_string_value(json_object_get(arguments, name));

    return value && *value ? value : fallback;
}

static void analyse_file(struct mcp_call *call, const json_t *arguments)
{
    const char *path = argument(arguments, "path", ""),
               *question = argument(arguments, "question", NULL);
    char *text = NULL;

    if (asprintf(&text,
                 "Analyse the file %s in /workspace with execute_python.\n\n"
                 "1. Load it and describe it: size, columns and their types, missing values, "
                 "duplicates, ranges, and what one row represents.\n"
                 "2. Check its quality before you rely on it: dates stored as text, numbers with "
                 "units, outliers, categories that differ only in spelling.\n"
                 "3. %s%s\n"
                 "4. Draw the one or two charts that show it best.\n\n"
                 "Work in small steps and look at each result. Finish with a short summary in "
                 "plain language: what you found, how certain it is, and what the data cannot "
                 "answer. If the file does not exist, say so and ask for it; upload_file adds it.",
                 path,
                 question ? "Answer this question with numbers from the data: "
                          : "Find the three to five most important facts in it, and back them with "
                            "numbers.",
                 question ? question : "") < 0)
        text = NULL;
    reply_prompt(call, "Analyse a file in /workspace", text);
}

static void chart(struct mcp_call *call, const json_t *arguments)
{
    char *text = NULL;

    if (asprintf(
            &text,
            "Draw a chart with execute_python and matplotlib.\n\nData: %s\nIt should show: %s\n\n"
            "Choose the type of chart that shows this best. Give it a title that states the main "
            "point, label the axes with units, sort categories by value unless they have a "
            "natural order, start bars at zero, and leave out everything that does not help. Look "
            "at the image that is returned; if labels overlap or something is cut off, fix it and "
            "draw the chart again. Then say in one or two sentences what it shows.",
            argument(arguments, "data", "the data we have been working with"),
            argument(arguments, "show", "the most important point")) < 0)
        text = NULL;
    reply_prompt(call, "Draw a chart", text);
}

static const struct mcp_prompt_argument analyse_arguments[] = {
    { "path", "The file in /workspace, for example sales.csv", true },
    { "question", "What you want to know. Default: the most important facts.", false },
    { NULL, NULL, false },
};

static const struct mcp_prompt_argument chart_arguments[] = {
    { "data", "A file in /workspace, a variable, or a short description", true },
    { "show", "What the chart should show", false },
    { NULL, NULL, false },
};

static const struct mcp_prompt prompts[] = {
    { "analyse_file", "Analyse a file",
      "Examine a data file, check its quality and summarise what it contains.", analyse_arguments,
      analyse_file },
    { "chart", "Draw a chart", "Draw a chart that answers a question, and check how it looks.",
      chart_arguments, chart },
};

void prompts_register(struct mcp *mcp)
{
    for (size_t i = 0; i < ARRAY_LEN(prompts); i++)
        registry_add_prompt(mcp, &prompts[i]);
}

void method_prompts_list(struct mcp_call *call)
{
    if (call_text(call, "cursor", false))
        call_fail(call, MCP_INVALID_PARAMS, "invalid cursor: everything is on one page");
    else
        call_reply(call, json_pack("{s:o}", "prompts", registry_prompts_to_json(call->mcp)));
}

void method_prompts_get(struct mcp_call *call)
{
    json_t *arguments = json_object_get(call->params, "arguments"), *value;
    const char *name = call_text(call, "name", true), *key;
    const struct mcp_prompt *prompt = name ? registry_prompt(call->mcp, name) : NULL;

    if (!name)
        return;
    if (!prompt) {
        call_fail(call, MCP_INVALID_PARAMS, "unknown prompt; prompts/list returns all of them");
        return;
    }
    if (arguments && !json_is_object(arguments)) {
        call_fail(call, MCP_INVALID_PARAMS, "arguments must be an object");
        return;
    }
    json_object_foreach (arguments, key, value) {
        if (!json_is_string(value)) {
            call_fail(call, MCP_INVALID_PARAMS, "the arguments of a prompt must be strings");
            return;
        }
    }
    for (const struct mcp_prompt_argument *a = prompt->arguments; a && a->name; a++)
        if (a->required && !json_object_get(arguments, a->name)) {
            call_fail(call, MCP_INVALID_PARAMS, "the argument %s is required", a->name);
            return;
        }
    prompt->handle(call, arguments);
}

/* ---- completion ---- */

static void add_value(json_t *values, const char *text, const char *prefix)
{
    json_t *value;

    if (strncmp(text, prefix, strlen(prefix)) != 0 || json_array_size(values) >= COMPLETIONS_MAX)
        return;
    value = json_string(text); /* NULL if a name is not UTF-8 */
    if (value)
        (void) json_array_append_new(values, value);
}

static void complete_sessions(struct mcp_call *call, json_t *values, const char *prefix)
{
    char ids[MCP_PEER_SESSIONS][SESSION_ID_MAX];
    size_t len = call->peer ? peer_sessions(call->peer, ids, MCP_PEER_SESSIONS) : 0;

    for (size_t i = 0; i < len; i++)
        add_value(values, ids[i], prefix);
}

/* Files of the session in the context, otherwise of the sessions that the client has created. */
static void complete_paths(struct mcp_call *call, json_t *values, const char *prefix)
{
    const json_t *context = message_object(message_object(call->params, "context"), "arguments");
    const char *named = json_string_value(json_object_get(context, "session_id"));
    char ids[MCP_PEER_SESSIONS][SESSION_ID_MAX];
    size_t len = call->peer && !named ? peer_sessions(call->peer, ids, MCP_PEER_SESSIONS) : 0;

    if (named && strlen(named) < SESSION_ID_MAX) {
        snprintf(ids[0], SESSION_ID_MAX, "%s", named);
        len = 1;
    }
    for (size_t i = 0; i < len; i++) {
        struct fault fault = { 0 };
        struct session *session;
        struct file_list files;

        if (session_find(call->mcp->config.service, &call->caller, ids[i], &session, &fault) < 0)
            continue;
        if (files_list(session, "", 0, true, "", 0, WALK_MAX, &files, &fault) == 0) {
            for (size_t k = 0; k < files.len; k++)
                if (files.items[k].kind == FILE_REGULAR)
                    add_value(values, files.items[k].path, prefix);
            file_list_release(&files);
        }
        session_unref(session);
    }
}

void method_complete(struct mcp_call *call)
{
    const json_t *ref = message_object(call->params, "ref");
    const json_t *arg = message_object(call->params, "argument");
    const char *type = json_string_value(json_object_get(ref, "type"));
    const char *name = json_string_value(json_object_get(arg, "name"));
    const char *value = json_string_value(json_object_get(arg, "value"));
    json_t *values;

    if (!type || !name || !value) {
        call_fail(call, MCP_INVALID_PARAMS,
                  "ref.type, argument.name and argument.value must be strings");
        return;
    }
    values = json_array();
    if (strcmp(name, "session_id") == 0) {
        complete_sessions(call, values, value);
    } else if (strcmp(name, "path") == 0 || strcmp(name, "data") == 0) {
        complete_paths(call, values, value);
    } else if (strcmp(name, "stream") == 0) {
        add_value(values, "stdout", value);
        add_value(values, "stderr", value);
    }
    call_reply(call, json_pack("{s:{s:o, s:b}}", "completion", "values", values, "hasMore",
                               json_array_size(values) >= COMPLETIONS_MAX));
}
