/* Prompts that people pick from a menu, and completion of what they and templates ask for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define COMPLETIONS_MAX 100
#define WALK_MAX        1000

/* ---- prompts ---- */

/* Ends the call with one message of the user; takes @text. */
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
                 "Analyse the file %s, which is in the box's /workspace, with execute_python.\n\n"
                 "1. Load it and say what it is: size, columns and their types, missing values, "
                 "duplicates, ranges, what one row stands for.\n"
                 "2. Check it before you trust it: dates that are text, numbers with units, "
                 "outliers, categories that differ only in spelling.\n"
                 "3. %s%s\n"
                 "4. Draw the one or two charts that show it best.\n\n"
                 "Work in small steps and look at each result. End with a short summary in plain "
                 "words: what was found, how sure it is, and what the data cannot tell. If the "
                 "file is not there, say so and ask for it (upload_file puts it there).",
                 path,
                 question ? "Answer this question with numbers from the data: "
                          : "Find the three to five things in it that are most worth knowing, with "
                            "numbers.",
                 question ? question : "") < 0)
        text = NULL;
    reply_prompt(call, "Analyse a file in the box", text);
}

static void chart(struct mcp_call *call, const json_t *arguments)
{
    char *text = NULL;

    if (asprintf(
            &text,
            "Draw a chart with execute_python and matplotlib.\n\nData: %s\nIt should show: %s\n\n"
            "Choose the kind of chart that answers this best. Give it a title that says what is "
            "to be seen, label the axes with units, sort categories by value unless they have "
            "an order of their own, start bars at zero, and leave out what does not help. Look "
            "at the image that comes back; if labels overlap or something is cut off, mend it "
            "and draw it again. Then say in one or two sentences what the chart shows.",
            argument(arguments, "data", "what we have been working with"),
            argument(arguments, "show", "what matters most in it")) < 0)
        text = NULL;
    reply_prompt(call, "Draw a chart", text);
}

static const struct mcp_prompt_argument analyse_arguments[] = {
    { "path", "The file beneath /workspace, such as sales.csv", true },
    { "question", "What you want to know; without it, what is most worth knowing", false },
    { NULL, NULL, false },
};

static const struct mcp_prompt_argument chart_arguments[] = {
    { "data", "A file beneath /workspace, a variable, or a few words", true },
    { "show", "What the chart should show", false },
    { NULL, NULL, false },
};

static const struct mcp_prompt prompts[] = {
    { "analyse_file", "Analyse a file", "Look a data file over, check it, and say what is in it.",
      analyse_arguments, analyse_file },
    { "chart", "Draw a chart", "Draw a chart that answers a question, and look at it.",
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
        call_fail(call, MCP_INVALID_PARAMS, "this cursor is not ours: all are on one page");
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
        call_fail(call, MCP_INVALID_PARAMS,
                  "there is no prompt of this name; prompts/list has them");
        return;
    }
    if (arguments && !json_is_object(arguments)) {
        call_fail(call, MCP_INVALID_PARAMS, "arguments must be an object");
        return;
    }
    json_object_foreach (arguments, key, value) {
        if (!json_is_string(value)) {
            call_fail(call, MCP_INVALID_PARAMS, "arguments of prompts are texts");
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
    value = json_string(text); /* NULL where a name is not UTF-8 */
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

/* Files of the session that the context names, else of those that the client has made. */
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
                  "ref must have a type, and argument a name and a value, all of them texts");
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
