/*
 * The stream of the Chat Completions API, as OpenAI documents it and as others send it.
 *
 * What others do: tool calls whole in one chunk, all with index 0 (Ollama); arguments as an object;
 * no id; thoughts in "reasoning_content" or "reasoning"; finish_reason missing, null, "stop" after
 * a call, or "tool_calls" on a call that max_tokens cut (vLLM); usage in no chunk, in one with
 * choices, or wrong; errors as data of a stream that began with 200; a plain JSON body although a
 * stream was asked for. So a turn is one of calls if calls have come, whatever the reason says; and
 * calls are kept by index and id.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/llm/draft.h"
#include "mark/llm/internal.h"
#include "mark/llm/json_in.h"
#include "mark/llm/openai.h"

#include "base/banned.h"

/* ---- calls ---- */

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* The call that a fragment continues, or calls_len. */
static size_t find_call(const struct draft *draft, int64_t index, const char *id, const char *name)
{
    size_t i = draft->calls_len;
    const struct draft_call *call;

    if (id) /* said again, with the same index or none */
        while (i > 0) {
            call = &draft->calls[--i];
            if (same(call->id, id) && (index < 0 || call->index < 0 || call->index == index))
                return i;
        }
    i = draft->calls_len;
    while (i > 0) {
        call = &draft->calls[--i];
        if (index >= 0 && call->index != index)
            continue;
        /* A second id or name here is the next call, of a server that does not count. */
        if ((id && call->id) || (name && call->name))
            return draft->calls_len;
        return i;
    }
    return draft->calls_len;
}

static int take_arguments(struct draft *draft, size_t call, const json_t *arguments)
{
    autofree char *text = NULL;

    if (json_is_string(arguments))
        return draft_call_add(draft, call, json_string_value(arguments),
                              json_string_length(arguments));
    if (!json_is_object(arguments))
        return 0;
    text = json_dumps(arguments, JSON_COMPACT);
    return text ? draft_call_add(draft, call, text, strlen(text)) : -ENOMEM;
}

static const char *unless_empty(const char *text)
{
    return text && *text ? text : NULL;
}

static int take_call(struct draft *draft, const json_t *fragment, const json_t *function)
{
    const json_t *number = json_object_get(fragment, "index");
    int64_t index = json_is_integer(number) ? json_integer_value(number) : -1;
    const char *id = unless_empty(json_in_string(fragment, "id"));
    const char *name = unless_empty(json_in_string(function, "name"));
    size_t call = find_call(draft, index, id, name);
    int r = 0;

    if (call == draft->calls_len) {
        if (!id && !name && json_string_length(json_object_get(function, "arguments")) == 0 &&
            !json_is_object(json_object_get(function, "arguments")))
            return 0; /* an empty fragment is no call */
        r = draft_call_new(draft, index, id, name, &call);
    } else {
        if (id && !draft->calls[call].id)
            r = draft_call_id(draft, call, id);
        if (r == 0 && name && !draft->calls[call].name)
            r = draft_call_name(draft, call, name);
    }
    return r < 0 ? r : take_arguments(draft, call, json_object_get(function, "arguments"));
}

static int take_calls(struct draft *draft, const json_t *delta)
{
    const json_t *calls = json_object_get(delta, "tool_calls"), *call;
    const json_t *old = json_object_get(delta, "function_call");
    size_t i;
    int r = 0;

    json_array_foreach (calls, i, call) {
        r = json_is_object(call) ? take_call(draft, call, json_object_get(call, "function")) : 0;
        if (r < 0)
            return r;
    }
    return json_is_object(old) ? take_call(draft, NULL, old) : 0;
}

/* ---- text ---- */

typedef int taker(struct draft *draft, const char *text, size_t len);

/* A string, or a list of parts with texts. */
static int take_text(struct draft *draft, const json_t *value, taker *take)
{
    const json_t *part;
    size_t i;
    int r = 0;

    if (json_is_string(value))
        return take(draft, json_string_value(value), json_string_length(value));
    json_array_foreach (value, i, part) {
        const json_t *text = json_object_get(part, "text");

        if (r == 0 && json_is_string(text))
            r = take(draft, json_string_value(text), json_string_length(text));
    }
    return r;
}

static int take_delta(struct draft *draft, const json_t *delta)
{
    const json_t *thought = json_object_get(delta, "reasoning_content");
    int r;

    if (!json_is_string(thought)) /* some send both */
        thought = json_object_get(delta, "reasoning");
    r = take_text(draft, thought, draft_thinking);
    if (r == 0)
        r = take_text(draft, json_object_get(delta, "content"), draft_text);
    if (r == 0)
        r = take_text(draft, json_object_get(delta, "refusal"), draft_refusal);
    return r < 0 ? r : take_calls(draft, delta);
}

/* ---- chunks ---- */

static int take_choice(struct decoder *decoder, const json_t *choice)
{
    const char *finish = json_in_string(choice, "finish_reason");
    const json_t *delta = json_object_get(choice, "delta");

    if (json_integer_value(json_object_get(choice, "index")) != 0)
        return 0; /* we asked for one */
    if (unless_empty(finish))
        (void) snprintf(decoder->finish, sizeof decoder->finish, "%s", finish);
    if (!json_is_object(delta))
        delta = json_object_get(choice, "message");
    return take_delta(decoder->draft, delta);
}

static int take_chunk(struct decoder *decoder, const json_t *chunk)
{
    json_t *error = json_object_get(chunk, "error"), *usage = json_object_get(chunk, "usage");
    const json_t *choices = json_object_get(chunk, "choices"), *choice;
    size_t i;

    if (error && !json_is_null(error)) {
        decoder->error = json_incref(error);
        return -ECONNABORTED;
    }
    if (json_is_object(usage)) {
        json_decref(decoder->usage);
        decoder->usage = json_incref(usage);
    }
    json_array_foreach (choices, i, choice) {
        int r = take_choice(decoder, choice);

        if (r < 0)
            return r;
    }
    return 0;
}

static int on_event(struct decoder *decoder, const char *data, size_t len)
{
    json_t *chunk;
    int r;

    if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
        decoder->done = true;
        return 0;
    }
    if (len == 0)
        return 0;
    chunk = json_in_object(data, len);
    r = chunk ? take_chunk(decoder, chunk) : -EPROTO;
    json_decref(chunk);
    return r;
}

static int on_body(struct decoder *decoder, const json_t *body)
{
    int r = take_chunk(decoder, body);

    if (r == 0 && json_array_size(json_object_get(body, "choices")) == 0)
        return -EPROTO;
    decoder->done = r == 0;
    return r;
}

static bool is_complete(const struct decoder *decoder)
{
    return decoder->done || decoder->finish[0] || decoder->usage;
}

/* ---- the end ---- */

static void read_usage(const struct decoder *decoder, struct llm_usage *ret_usage)
{
    const json_t *usage = decoder->usage;

    ret_usage->prompt = json_in_count(usage, "prompt_tokens");
    ret_usage->completion = json_in_count(usage, "completion_tokens");
    ret_usage->cached =
        json_in_count(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
    if (ret_usage->cached < 0) /* DeepSeek */
        ret_usage->cached = json_in_count(usage, "prompt_cache_hit_tokens");
    if (ret_usage->cached > ret_usage->prompt)
        ret_usage->cached = ret_usage->prompt;
}

/* Thoughts that the server may want back while the loop of tools goes on. */
static int keep_thoughts(const struct draft *draft, json_t *message)
{
    if (draft->thinking.len == 0 || draft->calls_len == 0)
        return 0;
    return json_object_set_new(message, "raw",
                               json_pack("{s:s, s:s%}", "provider", "openai", "reasoning_content",
                                         draft->thinking.data, draft->thinking.len));
}

static int on_finish(struct decoder *decoder, struct llm_reply *ret_reply)
{
    const struct draft *draft = decoder->draft;
    bool length = same(decoder->finish, "length") || same(decoder->finish, "max_tokens");
    bool cut;
    json_t *message;

    read_usage(decoder, &ret_reply->usage);
    message = draft_message(draft, length, &cut);
    if (!message || keep_thoughts(draft, message) < 0) {
        json_decref(message);
        return -ENOMEM;
    }
    ret_reply->message = message;
    ret_reply->finish = draft_finish(draft, length || cut, same(decoder->finish, "content_filter"));
    return 0;
}

const struct dialect openai_dialect = {
    .name = "openai",
    .encode = openai_encode,
    .event = on_event,
    .body = on_body,
    .complete = is_complete,
    .finish = on_finish,
    .headers = (const char *const[]){ NULL },
    .key_headers = (const char *const[]){ "Authorization: Bearer %s", NULL },
    .key_headers_others = (const char *const[]){ "Authorization: Bearer %s", NULL },
};
