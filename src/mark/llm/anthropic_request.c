/*
 * Requests of Anthropic's Messages API.
 *
 * System text is apart from the messages; results of tools are blocks at the beginning of a user's
 * message, all those of one turn in one message. Thinking blocks go back as they came, in their
 * place among the others: they are signed. What is the same in every request (tools, then system)
 * is marked for the cache, and so is the end of the conversation, for the next step of a loop.
 */
#include <string.h>

#include "base/autoclean.h"
#include "mark/llm/anthropic.h"
#include "mark/llm/internal.h"
#include "mark/llm/json_in.h"

#include "base/banned.h"

#define OUTPUT_DEFAULT 16384

static json_t *text_block(const char *text)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", text);
}

static bool is_role(const json_t *message, const char *role)
{
    return strcmp(json_in_string(message, "role"), role) == 0;
}

/* ---- the assistant's ---- */

static json_t *encode_assistant(const struct llm_model *model, const json_t *message,
                                unsigned quirks)
{
    json_t *raw = json_object_get(message, "raw"), *call, *blocks;
    const char *provider = json_in_string(raw, "provider"), *of = json_in_string(raw, "model");
    const char *content = json_in_string(message, "content");
    size_t i;

    /* Signatures are worth something to the model that made them, and to no other. */
    if (!(quirks & QUIRK_NO_THOUGHTS) && provider && strcmp(provider, "anthropic") == 0 && of &&
        strcmp(of, model->model) == 0 && json_array_size(json_object_get(raw, "content")) > 0)
        return json_incref(json_object_get(raw, "content"));
    blocks = json_array();
    if (content && content[strspn(content, " \t\r\n")])
        (void) json_array_append_new(blocks, text_block(content));
    json_array_foreach (json_object_get(message, "tool_calls"), i, call)
        (void) json_array_append_new(blocks, json_pack("{s:s, s:O, s:O, s:O}", "type", "tool_use",
                                                       "id", json_object_get(call, "id"), "name",
                                                       json_object_get(call, "name"), "input",
                                                       json_object_get(call, "arguments")));
    if (json_array_size(blocks) == 0)
        (void) json_array_append_new(blocks, text_block("(nothing)"));
    return blocks;
}

/* ---- the user's ---- */

static json_t *result_block(const json_t *message)
{
    const char *content = json_in_string(message, "content");
    json_t *block = json_pack("{s:s, s:O, s:s}", "type", "tool_result", "tool_use_id",
                              json_object_get(message, "tool_call_id"), "content",
                              content && *content ? content : "(nothing)");

    if (json_is_true(json_object_get(message, "error")))
        (void) json_object_set_new(block, "is_error", json_true());
    return block;
}

/* Appends to the last message if it has the same role, so that roles alternate and results come
 * before the text that follows them. */
static int add_blocks(json_t *out, const char *role, json_t *blocks)
{
    json_t *last = json_array_get(out, json_array_size(out) - 1);
    int r;

    if (last && is_role(last, role)) {
        r = json_array_extend(json_object_get(last, "content"), blocks);
        json_decref(blocks);
        return r;
    }
    return json_array_append_new(out, json_pack("{s:s, s:o}", "role", role, "content", blocks));
}

static int add_message(json_t *out, const struct llm_model *model, const json_t *message,
                       unsigned quirks)
{
    const char *content = json_in_string(message, "content");
    json_t *blocks, *copy;

    if (is_role(message, "assistant")) {
        blocks = encode_assistant(model, message, quirks);
        copy = json_copy(blocks); /* raw blocks belong to the caller */
        json_decref(blocks);
        return add_blocks(out, "assistant", copy);
    }
    blocks = json_array();
    (void) json_array_append_new(blocks, is_role(message, "tool")
                                             ? result_block(message)
                                             : text_block(content && *content ? content : "-"));
    return add_blocks(out, "user", blocks);
}

/* ---- the whole ---- */

static json_t *cache_mark(void)
{
    return json_pack("{s:s}", "type", "ephemeral");
}

static json_t *encode_system(const json_t *messages, unsigned quirks)
{
    json_t *blocks = json_array(), *message, *last;
    size_t i;

    json_array_foreach (messages, i, message)
        if (is_role(message, "system"))
            (void) json_array_append_new(blocks, text_block(json_in_string(message, "content")));
    last = json_array_get(blocks, json_array_size(blocks) - 1);
    if (last && !(quirks & QUIRK_NO_CACHE))
        (void) json_object_set_new(last, "cache_control", cache_mark());
    return blocks;
}

/* Marks the end, unless it is not ours to change. */
static void mark_end(json_t *out)
{
    json_t *last = json_array_get(out, json_array_size(out) - 1);
    json_t *blocks = json_object_get(last, "content");

    if (last && is_role(last, "user"))
        (void) json_object_set_new(json_array_get(blocks, json_array_size(blocks) - 1),
                                   "cache_control", cache_mark());
}

static json_t *encode_messages(const struct llm_model *model, const json_t *messages,
                               unsigned quirks, const json_t *paused)
{
    json_t *out = json_array(), *message;
    size_t i;
    int r = out ? 0 : -1;

    json_array_foreach (messages, i, message) {
        if (r < 0 || is_role(message, "system"))
            continue;
        if (json_array_size(out) == 0 && !is_role(message, "user"))
            r = json_array_append_new(
                out, json_pack("{s:s, s:[o]}", "role", "user", "content", text_block("-")));
        if (r == 0)
            r = add_message(out, model, message, quirks);
    }
    if (r == 0 && !(quirks & QUIRK_NO_CACHE))
        mark_end(out);
    if (r == 0 && json_array_size(paused) > 0)
        r = add_blocks(out, "assistant", json_copy((json_t *) paused));
    if (r == 0)
        return out;
    json_decref(out);
    return NULL;
}

static void add_tools(json_t *body, const struct llm_request *request, unsigned quirks)
{
    json_t *tools = json_array(), *choice = json_object(), *tool;
    size_t i;

    json_array_foreach (request->tools, i, tool)
        (void) json_array_append_new(
            tools, json_pack("{s:O, s:O*, s:O*}", "name", json_object_get(tool, "name"),
                             "description", json_object_get(tool, "description"), "input_schema",
                             json_object_get(tool, "parameters")));
    (void) json_object_set_new(body, "tools", tools);
    if (request->tool && !(quirks & QUIRK_NO_CHOICE)) {
        (void) json_object_set_new(choice, "type", json_string("tool"));
        (void) json_object_set_new(choice, "name", json_string(request->tool));
    } else {
        (void) json_object_set_new(choice, "type", json_string("auto"));
    }
    if (!(quirks & QUIRK_NO_PARALLEL)) {
        (void) json_object_set_new(choice, "disable_parallel_tool_use", json_true());
        (void) json_object_set(body, "tool_choice", choice);
    } else if (request->tool && !(quirks & QUIRK_NO_CHOICE)) {
        (void) json_object_set(body, "tool_choice", choice);
    }
    json_decref(choice);
}

json_t *anthropic_encode(const struct llm_model *model, const struct llm_request *request,
                         unsigned quirks, const json_t *paused)
{
    int64_t longest = model->output_max > 0 ? model->output_max : OUTPUT_DEFAULT;
    int64_t max_tokens = request->max_tokens > 0 ? request->max_tokens : OUTPUT_DEFAULT;
    json_t *clean = llm_history_clean(request->messages);
    json_t *messages = clean ? encode_messages(model, clean, quirks, paused) : NULL;
    json_t *system = clean ? encode_system(clean, quirks) : NULL, *body;

    json_decref(clean);
    if (!messages || !system) {
        json_decref(messages);
        json_decref(system);
        return NULL;
    }
    if (model->output_max > 0 && max_tokens > longest)
        max_tokens = longest;
    body = json_pack("{s:s, s:I, s:b, s:o, s:o}", "model", model->model, "max_tokens",
                     (json_int_t) max_tokens, "stream", 1, "system", system, "messages", messages);
    if (body && json_array_size(json_object_get(body, "system")) == 0)
        (void) json_object_del(body, "system");
    if (body && json_array_size(request->tools) > 0)
        add_tools(body, request, quirks);
    return body;
}
