/*
 * Conversations as servers want them.
 *
 * The APIs refuse a conversation in which a call has no result, or a result no call; that happens
 * when an answer was stopped in the middle, or when the history was shortened. Ids and names that
 * one server made are refused by the next. All of that is mended here, once for every dialect.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/llm/internal.h"
#include "mark/llm/json_in.h"

#include "base/banned.h"

#define WORD_CHARS_MAX 64
#define WRAPPED_MAX    4000

/* Letters, digits, '_' and '-', at most 64: what the strictest of the servers takes. */
static json_t *clean_word(const char *word, const char *fallback)
{
    char out[WORD_CHARS_MAX + 1];
    size_t len = 0;

    for (; word && *word && len < WORD_CHARS_MAX; word++) {
        char c = *word;
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-';

        out[len++] = good ? c : '_';
    }
    out[len] = '\0';
    return json_string(len > 0 ? out : fallback);
}

json_t *llm_call_arguments(const json_t *call)
{
    json_t *arguments = json_object_get(call, "arguments");
    const char *text = json_in_string(call, "arguments_text");
    size_t len = text ? strlen(text) : 0;
    json_t *wrapped;

    if (json_is_object(arguments))
        return json_incref(arguments);
    if (len > WRAPPED_MAX) /* a whole character ends here */
        for (len = WRAPPED_MAX; len > 0 && ((unsigned char) text[len] & 0xc0) == 0x80;)
            len--;
    wrapped = json_object();
    if (text && wrapped)
        (void) json_object_set_new(wrapped, "invalid_json", json_stringn(text, len));
    return wrapped;
}

static json_t *clean_call(const json_t *call)
{
    return json_pack("{s:o, s:o, s:o}", "id", clean_word(json_in_string(call, "id"), "call_0"),
                     "name", clean_word(json_in_string(call, "name"), "unknown"), "arguments",
                     llm_call_arguments(call));
}

/* The result for @id among the tool messages that follow message @at. */
static const json_t *find_result(const json_t *messages, size_t at, const char *id)
{
    for (size_t i = at + 1; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        const char *role = json_in_string(message, "role"), *of;

        if (!role || strcmp(role, "tool") != 0)
            return NULL;
        of = json_in_string(message, "tool_call_id");
        if (of && id && strcmp(of, id) == 0)
            return message;
    }
    return NULL;
}

static int add_result(json_t *out, const json_t *cleaned, const json_t *result)
{
    const char *content = json_in_string(result, "content");
    json_t *message =
        json_pack("{s:s, s:O, s:O, s:s}", "role", "tool", "tool_call_id",
                  json_object_get(cleaned, "id"), "name", json_object_get(cleaned, "name"),
                  "content", result ? (content ? content : "") : "(stopped before it was run)");

    if (message && (!result || json_is_true(json_object_get(result, "error"))))
        (void) json_object_set_new(message, "error", json_true());
    return json_array_append_new(out, message);
}

static int add_assistant(json_t *out, const json_t *messages, size_t at)
{
    const json_t *message = json_array_get(messages, at), *call;
    json_t *copy =
        json_pack("{s:s, s:s}", "role", "assistant", "content",
                  json_in_string(message, "content") ? json_in_string(message, "content") : "");
    json_t *calls = json_array(), *raw = json_object_get(message, "raw");
    size_t i;
    int r = copy && calls ? 0 : -1;

    json_array_foreach (json_object_get(message, "tool_calls"), i, call)
        if (r == 0)
            r = json_array_append_new(calls, clean_call(call));
    if (r == 0 && json_array_size(calls) > 0)
        r = json_object_set(copy, "tool_calls", calls);
    if (r == 0 && json_is_object(raw))
        r = json_object_set(copy, "raw", raw);
    if (r == 0)
        r = json_array_append(out, copy);
    json_array_foreach (json_object_get(message, "tool_calls"), i, call)
        if (r == 0)
            r = add_result(out, json_array_get(calls, i),
                           find_result(messages, at, json_in_string(call, "id")));
    json_decref(copy);
    json_decref(calls);
    return r;
}

/* Whether the tool message @at belongs to a call of the assistant's message before it. */
static bool has_call(const json_t *messages, size_t at)
{
    const char *id = json_in_string(json_array_get(messages, at), "tool_call_id");
    const json_t *call;
    size_t i;

    while (at > 0) {
        const json_t *message = json_array_get(messages, --at);
        const char *role = json_in_string(message, "role");

        if (role && strcmp(role, "tool") == 0)
            continue;
        json_array_foreach (json_object_get(message, "tool_calls"), i, call) {
            const char *of = json_in_string(call, "id");

            if (id && of && strcmp(id, of) == 0)
                return true;
        }
        return false;
    }
    return false;
}

static int add_message(json_t *out, const json_t *messages, size_t at)
{
    const json_t *message = json_array_get(messages, at);
    const char *role = json_in_string(message, "role");
    const char *content = json_in_string(message, "content");

    if (!role)
        return 0;
    if (strcmp(role, "assistant") == 0)
        return add_assistant(out, messages, at);
    if (strcmp(role, "tool") == 0 && has_call(messages, at))
        return 0; /* is where its call is */
    if (strcmp(role, "tool") == 0)
        role = "user";
    return json_array_append_new(out, json_pack("{s:s, s:s}", "role", role, "content",
                                                content && *content ? content : "(empty)"));
}

json_t *llm_history_clean(const json_t *messages)
{
    json_t *out = json_array();

    for (size_t i = 0; out && i < json_array_size(messages); i++)
        if (add_message(out, messages, i) < 0) {
            json_decref(out);
            return NULL;
        }
    return out;
}
