/*
 * Requests of the Chat Completions API, as OpenAI and its many imitators take them.
 *
 * Optional parameters are sent until a server refuses them by name (quirk_for()).
 */
#include <string.h>

#include "base/autoclean.h"
#include "mark/llm/internal.h"
#include "mark/llm/json_in.h"
#include "mark/llm/openai.h"

#include "base/banned.h"

static json_t *encode_call(const json_t *call)
{
    json_t *object = llm_call_arguments(call);
    autofree char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

    json_decref(object);
    return json_pack("{s:O, s:s, s:{s:O, s:s}}", "id", json_object_get(call, "id"), "type",
                     "function", "function", "name", json_object_get(call, "name"), "arguments",
                     text ? text : "{}");
}

static json_t *encode_assistant(const json_t *message, bool in_loop)
{
    const char *content = json_in_string(message, "content");
    json_t *calls = json_object_get(message, "tool_calls"), *out, *list, *call, *raw, *thought;
    size_t i;

    out = json_pack("{s:s, s:s}", "role", "assistant", "content", content ? content : "");
    if (json_array_size(calls) > 0) {
        if (!content || !*content)
            (void) json_object_set_new(out, "content", json_null());
        list = json_array();
        json_array_foreach (calls, i, call)
            (void) json_array_append_new(list, encode_call(call));
        (void) json_object_set_new(out, "tool_calls", list);
    }
    /* DeepSeek refuses a tool loop whose thoughts are missing; nobody wants them later. */
    raw = json_object_get(message, "raw");
    thought = json_object_get(raw, "reasoning_content");
    if (in_loop && json_is_string(thought))
        (void) json_object_set(out, "reasoning_content", thought);
    return out;
}

static json_t *encode_message(const json_t *message, bool in_loop)
{
    const char *role = json_in_string(message, "role");

    if (strcmp(role, "assistant") == 0)
        return encode_assistant(message, in_loop);
    if (strcmp(role, "tool") == 0)
        return json_pack("{s:s, s:O, s:O}", "role", "tool", "tool_call_id",
                         json_object_get(message, "tool_call_id"), "content",
                         json_object_get(message, "content"));
    return json_pack("{s:s, s:O}", "role", role, "content", json_object_get(message, "content"));
}

static json_t *encode_messages(const json_t *messages)
{
    json_t *clean = llm_history_clean(messages), *out = json_array(), *message;
    size_t i, last_user = 0;

    json_array_foreach (clean, i, message)
        if (strcmp(json_in_string(message, "role"), "user") == 0)
            last_user = i;
    json_array_foreach (clean, i, message)
        (void) json_array_append_new(out, encode_message(message, i > last_user));
    if (!clean || json_array_size(out) != json_array_size(clean)) {
        json_decref(out);
        out = NULL;
    }
    json_decref(clean);
    return out;
}

static json_t *encode_tools(const json_t *tools)
{
    json_t *out = json_array(), *tool;
    size_t i;

    json_array_foreach (tools, i, tool)
        (void) json_array_append_new(out,
                                     json_pack("{s:s, s:O}", "type", "function", "function", tool));
    return out;
}

static void add_tools(json_t *body, const struct llm_request *request, unsigned quirks)
{
    if (json_array_size(request->tools) == 0)
        return;
    (void) json_object_set_new(body, "tools", encode_tools(request->tools));
    if (request->tool && !(quirks & QUIRK_NO_CHOICE))
        (void) json_object_set_new(
            body, "tool_choice",
            json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", request->tool));
    /* Cells run one after the other, and the second is better written after the first's output. */
    if (!(quirks & QUIRK_NO_PARALLEL))
        (void) json_object_set_new(body, "parallel_tool_calls", json_false());
    if (quirks & QUIRK_NO_EFFORT)
        (void) json_object_set_new(body, "reasoning_effort", json_string("none"));
}

json_t *openai_encode(const struct llm_model *model, const struct llm_request *request,
                      unsigned quirks, const json_t *blocks)
{
    bool completion = model->vendor != ((quirks & QUIRK_OTHER_MAX) != 0);
    json_t *messages = encode_messages(request->messages);
    json_t *body =
        json_pack("{s:s, s:o*, s:b}", "model", model->model, "messages", messages, "stream", 1);

    (void) blocks;
    if (!messages || !body) {
        json_decref(body);
        return NULL;
    }
    if (!(quirks & QUIRK_NO_USAGE))
        (void) json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    add_tools(body, request, quirks);
    if (request->max_tokens > 0 && !(quirks & QUIRK_NO_MAX))
        (void) json_object_set_new(body, completion ? "max_completion_tokens" : "max_tokens",
                                   json_integer(request->max_tokens));
    if (model->vendor) {
        (void) json_object_set_new(body, "store", json_false());
        if (request->cache_key && !(quirks & QUIRK_NO_CACHE))
            (void) json_object_set_new(body, "prompt_cache_key", json_string(request->cache_key));
    }
    return body;
}

/* ---- what to do without ---- */

static bool names(const json_t *error, const char *parameter)
{
    const char *param = json_in_string(error, "param");
    const char *message =
        json_is_string(error) ? json_string_value(error) : json_in_string(error, "message");

    return (param && strstr(param, parameter)) || (message && strstr(message, parameter));
}

unsigned quirk_for(enum llm_kind kind, unsigned quirks, int status, const json_t *error)
{
    static const struct {
        const char *parameter;
        unsigned quirk;
        bool anthropic, openai;
    } table[] = {
        { "reasoning_effort", QUIRK_NO_EFFORT, false, true },
        { "max_completion_tokens", QUIRK_OTHER_MAX, false, true },
        { "max_tokens", QUIRK_OTHER_MAX, false, true },
        { "stream_options", QUIRK_NO_USAGE, false, true },
        { "parallel_tool_calls", QUIRK_NO_PARALLEL, false, true },
        { "disable_parallel_tool_use", QUIRK_NO_PARALLEL, true, false },
        { "tool_choice", QUIRK_NO_CHOICE, true, true },
        { "cache_control", QUIRK_NO_CACHE, true, false },
        { "prompt_cache_key", QUIRK_NO_CACHE, false, true },
    };

    if (quirks & QUIRK_RESPONSES && !(quirks & QUIRK_NO_INCLUDE) && status == 400 &&
        (names(error, "include") || names(error, "Encrypted content")))
        return QUIRK_NO_INCLUDE;
    /* 422 is what FastAPI servers say, 501 and 500 some that know no more than the name. */
    if (status != 400 && status != 422 && status != 500 && status != 501)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if ((kind == LLM_KIND_ANTHROPIC ? table[i].anthropic : table[i].openai) &&
            !(quirks & table[i].quirk) && names(error, table[i].parameter))
            return table[i].quirk;
    return 0;
}
