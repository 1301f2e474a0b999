/*
 * OpenAI's Responses API, for models that take no tools over Chat Completions.
 *
 * Nobody configures it: a server that says so in its refusal is asked here from then on
 * (exchange.c). Nothing is stored at the vendor, so reasoning goes back as the encrypted items that
 * came, within a loop of tools.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/llm/draft.h"
#include "mark/llm/internal.h"
#include "mark/llm/json_in.h"

#include "base/banned.h"

#define ITEMS_MAX 256

static bool is(const char *word, const char *other)
{
    return word && strcmp(word, other) == 0;
}

/* ---- requests ---- */

static int add_call(json_t *input, const json_t *call)
{
    json_t *arguments = llm_call_arguments(call);
    autofree char *text = arguments ? json_dumps(arguments, JSON_COMPACT) : NULL;

    json_decref(arguments);
    return json_array_append_new(input, json_pack("{s:s, s:O, s:O, s:s}", "type", "function_call",
                                                  "call_id", json_object_get(call, "id"), "name",
                                                  json_object_get(call, "name"), "arguments",
                                                  text ? text : "{}"));
}

static int add_assistant(json_t *input, const struct llm_model *model, const json_t *message,
                         bool in_loop)
{
    const json_t *raw = json_object_get(message, "raw"), *call;
    const char *content = json_in_string(message, "content");
    json_t *items = json_object_get(raw, "items");
    size_t i;
    int r = 0;

    if (in_loop && json_is_array(items) && is(json_in_string(raw, "model"), model->model))
        r = json_array_extend(input, items);
    if (r == 0 && content && *content)
        r = json_array_append_new(input,
                                  json_pack("{s:s, s:s}", "role", "assistant", "content", content));
    json_array_foreach (json_object_get(message, "tool_calls"), i, call)
        if (r == 0)
            r = add_call(input, call);
    return r;
}

static int add_message(json_t *input, const struct llm_model *model, const json_t *message,
                       bool in_loop)
{
    const char *role = json_in_string(message, "role");

    if (is(role, "assistant"))
        return add_assistant(input, model, message, in_loop);
    if (is(role, "tool"))
        return json_array_append_new(input,
                                     json_pack("{s:s, s:O, s:O}", "type", "function_call_output",
                                               "call_id", json_object_get(message, "tool_call_id"),
                                               "output", json_object_get(message, "content")));
    return json_array_append_new(input, json_pack("{s:s, s:O}", "role", role, "content",
                                                  json_object_get(message, "content")));
}

static json_t *encode_input(const struct llm_model *model, const json_t *messages)
{
    json_t *clean = llm_history_clean(messages), *input = json_array(), *message;
    size_t i, last_user = 0;
    int r = clean && input ? 0 : -1;

    json_array_foreach (clean, i, message)
        if (is(json_in_string(message, "role"), "user"))
            last_user = i;
    json_array_foreach (clean, i, message)
        if (r == 0)
            r = add_message(input, model, message, i > last_user);
    json_decref(clean);
    if (r == 0)
        return input;
    json_decref(input);
    return NULL;
}

static void add_tools(json_t *body, const struct llm_request *request, unsigned quirks)
{
    json_t *tools = json_array(), *tool;
    size_t i;

    json_array_foreach (request->tools, i, tool)
        (void) json_array_append_new(tools,
                                     json_pack("{s:s, s:O, s:O*, s:O*, s:b}", "type", "function",
                                               "name", json_object_get(tool, "name"), "description",
                                               json_object_get(tool, "description"), "parameters",
                                               json_object_get(tool, "parameters"), "strict", 0));
    (void) json_object_set_new(body, "tools", tools);
    if (request->tool && !(quirks & QUIRK_NO_CHOICE))
        (void) json_object_set_new(
            body, "tool_choice",
            json_pack("{s:s, s:s}", "type", "function", "name", request->tool));
    if (!(quirks & QUIRK_NO_PARALLEL))
        (void) json_object_set_new(body, "parallel_tool_calls", json_false());
}

static json_t *encode(const struct llm_model *model, const struct llm_request *request,
                      unsigned quirks, const json_t *blocks)
{
    json_t *input = encode_input(model, request->messages), *body;

    (void) blocks;
    if (!input)
        return NULL;
    body = json_pack("{s:s, s:o, s:b, s:b}", "model", model->model, "input", input, "stream", 1,
                     "store", 0);
    if (!body)
        return NULL;
    if (!(quirks & QUIRK_NO_INCLUDE))
        (void) json_object_set_new(body, "include",
                                   json_pack("[s]", "reasoning.encrypted_content"));
    if (json_array_size(request->tools) > 0)
        add_tools(body, request, quirks);
    if (request->max_tokens > 0 && !(quirks & QUIRK_NO_MAX))
        (void) json_object_set_new(body, "max_output_tokens", json_integer(request->max_tokens));
    if (request->cache_key && model->vendor && !(quirks & QUIRK_NO_CACHE))
        (void) json_object_set_new(body, "prompt_cache_key", json_string(request->cache_key));
    return body;
}

/* ---- events ---- */

static size_t call_at(const struct decoder *decoder, const json_t *event)
{
    const json_t *index = json_object_get(event, "output_index");
    size_t i = decoder->draft->calls_len;

    while (json_is_integer(index) && i > 0)
        if (decoder->draft->calls[--i].index == json_integer_value(index))
            return i;
    return SIZE_MAX;
}

static int new_call(struct decoder *decoder, const json_t *event, const json_t *item,
                    size_t *ret_call)
{
    const json_t *index = json_object_get(event, "output_index");

    return draft_call_new(decoder->draft, json_is_integer(index) ? json_integer_value(index) : -1,
                          json_in_string(item, "call_id"), json_in_string(item, "name"), ret_call);
}

/* All of the arguments, unless they have come in pieces. */
static int whole_arguments(struct decoder *decoder, size_t call, const json_t *arguments)
{
    if (!json_is_string(arguments) || decoder->draft->calls[call].arguments.len > 0)
        return 0;
    return draft_call_add(decoder->draft, call, json_string_value(arguments),
                          json_string_length(arguments));
}

static int keep_reasoning(struct decoder *decoder, const json_t *item)
{
    if (!decoder->blocks)
        decoder->blocks = json_array();
    if (json_array_size(decoder->blocks) >= ITEMS_MAX)
        return -EMSGSIZE;
    return json_array_append_new(decoder->blocks,
                                 json_pack("{s:s, s:O*, s:O, s:O*}", "type", "reasoning", "id",
                                           json_object_get(item, "id"), "summary",
                                           json_object_get(item, "summary"), "encrypted_content",
                                           json_object_get(item, "encrypted_content")));
}

static int item_done(struct decoder *decoder, const json_t *event, const json_t *item)
{
    const char *type = json_in_string(item, "type");
    size_t call = call_at(decoder, event);
    int r = 0;

    if (is(type, "reasoning") && json_is_string(json_object_get(item, "encrypted_content")) &&
        json_is_array(json_object_get(item, "summary")))
        return keep_reasoning(decoder, item);
    if (!is(type, "function_call"))
        return 0;
    if (call == SIZE_MAX)
        r = new_call(decoder, event, item, &call);
    return r < 0 ? r : whole_arguments(decoder, call, json_object_get(item, "arguments"));
}

static int take_end(struct decoder *decoder, const json_t *response)
{
    const char *reason = json_in_string(json_object_get(response, "incomplete_details"), "reason");
    json_t *usage = json_object_get(response, "usage");

    (void) snprintf(decoder->finish, sizeof decoder->finish, "%s", reason ? reason : "completed");
    if (json_is_object(usage)) {
        json_decref(decoder->usage);
        decoder->usage = json_incref(usage);
    }
    decoder->done = true;
    return 0;
}

static int take_error(struct decoder *decoder, json_t *error)
{
    decoder->error = json_is_object(error) ? json_incref(error) : json_object();
    return -ECONNABORTED;
}

/* Pieces of text; 1: it is another event. */
static int take_delta(struct decoder *decoder, const json_t *event, const char *type)
{
    const json_t *delta = json_object_get(event, "delta");
    const char *text = json_string_value(delta);
    size_t len = json_string_length(delta), call;

    if (!text)
        return 1;
    if (is(type, "response.output_text.delta"))
        return draft_text(decoder->draft, text, len);
    if (is(type, "response.refusal.delta"))
        return draft_refusal(decoder->draft, text, len);
    if (is(type, "response.reasoning_summary_text.delta") ||
        is(type, "response.reasoning_text.delta"))
        return draft_thinking(decoder->draft, text, len);
    if (!is(type, "response.function_call_arguments.delta"))
        return 1;
    call = call_at(decoder, event);
    return call == SIZE_MAX ? -EPROTO : draft_call_add(decoder->draft, call, text, len);
}

static int take_event(struct decoder *decoder, json_t *event)
{
    const char *type = json_in_string(event, "type");
    json_t *item = json_object_get(event, "item"), *response = json_object_get(event, "response");
    size_t call;
    int r = take_delta(decoder, event, type);

    if (r <= 0)
        return r;
    if (is(type, "response.output_item.added") && is(json_in_string(item, "type"), "function_call"))
        return call_at(decoder, event) == SIZE_MAX ? new_call(decoder, event, item, &call) : 0;
    if (is(type, "response.output_item.done"))
        return item_done(decoder, event, item);
    if (is(type, "response.completed") || is(type, "response.incomplete"))
        return take_end(decoder, response);
    if (is(type, "response.failed"))
        return take_error(decoder, json_object_get(response, "error"));
    if (is(type, "error"))
        return take_error(decoder, event);
    if (!type && json_object_get(event, "error"))
        return take_error(decoder, json_object_get(event, "error"));
    return 0;
}

static int on_event(struct decoder *decoder, const char *data, size_t len)
{
    json_t *event = len > 0 ? json_in_object(data, len) : NULL;
    int r = 0;

    if (event)
        r = take_event(decoder, event);
    else if (len > 0 && !(len == 6 && memcmp(data, "[DONE]", 6) == 0))
        r = -EPROTO;
    json_decref(event);
    return r;
}

/* ---- a whole reply ---- */

static int body_message(struct decoder *decoder, const json_t *item)
{
    const json_t *part;
    size_t i;
    int r = 0;

    json_array_foreach (json_object_get(item, "content"), i, part) {
        const char *text = json_in_string(part, "text");
        const char *refusal = json_in_string(part, "refusal");

        if (r == 0 && text)
            r = draft_text(decoder->draft, text, strlen(text));
        if (r == 0 && refusal)
            r = draft_refusal(decoder->draft, refusal, strlen(refusal));
    }
    return r;
}

static int on_body(struct decoder *decoder, const json_t *body)
{
    const json_t *output = json_object_get(body, "output"), *item;
    json_t *error = json_object_get(body, "error");
    size_t i;
    int r = 0;

    if (json_is_object(error))
        return take_error(decoder, error);
    if (!json_is_array(output))
        return -EPROTO;
    json_array_foreach (output, i, item)
        if (r == 0)
            r = is(json_in_string(item, "type"), "message") ? body_message(decoder, item)
                                                            : item_done(decoder, NULL, item);
    return r < 0 ? r : take_end(decoder, body);
}

/* ---- the end ---- */

static bool is_complete(const struct decoder *decoder)
{
    return decoder->done;
}

static int on_finish(struct decoder *decoder, struct llm_reply *ret_reply)
{
    const struct draft *draft = decoder->draft;
    bool length = is(decoder->finish, "max_output_tokens");
    bool cut;
    json_t *message = draft_message(draft, length, &cut);
    int r = message ? 0 : -ENOMEM;

    ret_reply->usage.prompt = json_in_count(decoder->usage, "input_tokens");
    ret_reply->usage.completion = json_in_count(decoder->usage, "output_tokens");
    ret_reply->usage.cached =
        json_in_count(json_object_get(decoder->usage, "input_tokens_details"), "cached_tokens");
    if (ret_reply->usage.cached > ret_reply->usage.prompt)
        ret_reply->usage.cached = ret_reply->usage.prompt;
    if (r == 0 && json_array_size(decoder->blocks) > 0 && draft->calls_len > 0)
        r = json_object_set_new(message, "raw",
                                json_pack("{s:s, s:s, s:O}", "provider", "openai", "model",
                                          decoder->model->model, "items", decoder->blocks));
    if (r < 0) {
        json_decref(message);
        return -ENOMEM;
    }
    ret_reply->message = message;
    ret_reply->finish = draft_finish(draft, length || cut, is(decoder->finish, "content_filter"));
    return 0;
}

const struct dialect responses_dialect = {
    .name = "responses",
    .encode = encode,
    .event = on_event,
    .body = on_body,
    .complete = is_complete,
    .finish = on_finish,
    .headers = (const char *const[]){ NULL },
    .key_headers = (const char *const[]){ "Authorization: Bearer %s", NULL },
    .key_headers_others = (const char *const[]){ "Authorization: Bearer %s", NULL },
};
