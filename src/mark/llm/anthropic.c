/*
 * The stream of Anthropic's Messages API.
 *
 * Blocks arrive one after the other: start, deltas, stop. They are joined in their own form too,
 * because thoughts go back unchanged with their signatures, and a paused turn goes back whole. An
 * error may come after a 200, pings at any time.
 */
#include "mark/llm/anthropic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/grow.h"
#include "mark/llm/draft.h"
#include "mark/llm/json_in.h"
#include "mark/llm/text.h"

#include "base/banned.h"

#define BLOCKS_MAX        512
#define CACHE_WRITE_EXTRA 0.25 /* of the price of a prompt, for the cache of five minutes */

static bool is(const char *word, const char *other)
{
    return word && strcmp(word, other) == 0;
}

/* ---- blocks ---- */

static json_t *block_at(const struct decoder *decoder, const json_t *event)
{
    const json_t *index = json_object_get(event, "index");
    json_int_t i = json_integer_value(index);

    if (!json_is_integer(index) || i < 0 || i >= BLOCKS_MAX)
        return NULL;
    return json_array_get(decoder->blocks, decoder->blocks_base + (size_t) i);
}

static struct text *partial_at(struct decoder *decoder, const json_t *event)
{
    size_t i = decoder->blocks_base + (size_t) json_integer_value(json_object_get(event, "index"));

    return i < decoder->partial_len ? &decoder->partial[i] : NULL;
}

static int add_partial(struct decoder *decoder)
{
    struct text *grown =
        reallocarray(decoder->partial, decoder->partial_len + 1, sizeof *decoder->partial);

    if (!grown)
        return -ENOMEM;
    decoder->partial = grown;
    grown[decoder->partial_len++] = (struct text){ 0 };
    return 0;
}

static int told(struct decoder *decoder, const json_t *block)
{
    const char *type = json_in_string(block, "type");
    const json_t *text = json_object_get(block, "text");
    const json_t *thinking = json_object_get(block, "thinking");

    if (is(type, "text") && json_is_string(text))
        return draft_text(decoder->draft, json_string_value(text), json_string_length(text));
    if (is(type, "thinking") && json_is_string(thinking))
        return draft_thinking(decoder->draft, json_string_value(thinking),
                              json_string_length(thinking));
    return 0;
}

static int block_start(struct decoder *decoder, const json_t *event)
{
    json_t *block = json_object_get(event, "content_block");
    const char *type = json_in_string(block, "type");
    size_t call;
    int r;

    if (!decoder->blocks)
        decoder->blocks = json_array();
    if (!json_is_object(block) || block_at(decoder, event) ||
        json_array_size(decoder->blocks) >= BLOCKS_MAX)
        return -EPROTO;
    if (json_array_append_new(decoder->blocks, json_deep_copy(block)) < 0)
        return -ENOMEM;
    r = add_partial(decoder);
    if (r == 0)
        r = told(decoder, block);
    if (r == 0 && is(type, "tool_use"))
        r = draft_call_new(decoder->draft, (int64_t) json_array_size(decoder->blocks) - 1,
                           json_in_string(block, "id"), json_in_string(block, "name"), &call);
    return r;
}

/* The call of the block that @event is about. */
static size_t call_of(const struct decoder *decoder, const json_t *event)
{
    int64_t index =
        (int64_t) decoder->blocks_base + json_integer_value(json_object_get(event, "index"));
    size_t i = decoder->draft->calls_len;

    while (i > 0)
        if (decoder->draft->calls[--i].index == index)
            return i;
    return SIZE_MAX;
}

static int keep(struct decoder *decoder, const json_t *event, const json_t *text)
{
    struct text *partial = partial_at(decoder, event);

    if (!partial || !json_is_string(text))
        return -EPROTO;
    return text_add(partial, json_string_value(text), json_string_length(text),
                    decoder->draft->bytes_max);
}

static int block_delta(struct decoder *decoder, const json_t *event)
{
    const json_t *delta = json_object_get(event, "delta"), *text;
    json_t *block = block_at(decoder, event);
    const char *type = json_in_string(delta, "type");
    size_t call;
    int r;

    if (!block)
        return -EPROTO;
    call = call_of(decoder, event); /* whose index is one of ours */
    if (is(type, "text_delta"))
        text = json_object_get(delta, "text");
    else if (is(type, "input_json_delta"))
        text = json_object_get(delta, "partial_json");
    else if (is(type, "thinking_delta"))
        text = json_object_get(delta, "thinking");
    else if (is(type, "signature_delta"))
        return json_object_set(block, "signature", json_object_get(delta, "signature"));
    else
        return 0; /* citations, and what comes later */
    r = keep(decoder, event, text);
    if (r < 0)
        return r;
    if (is(type, "text_delta"))
        return draft_text(decoder->draft, json_string_value(text), json_string_length(text));
    if (is(type, "thinking_delta"))
        return draft_thinking(decoder->draft, json_string_value(text), json_string_length(text));
    return call == SIZE_MAX ? 0
                            : draft_call_add(decoder->draft, call, json_string_value(text),
                                             json_string_length(text));
}

/* Puts what was joined into the block. */
static int join(json_t *block, const struct text *partial)
{
    const char *type = json_in_string(block, "type");
    const char *key = is(type, "text") ? "text" : is(type, "thinking") ? "thinking" : NULL;
    struct text whole = { 0 };
    json_t *input;
    int r;

    if (!key && json_object_get(block, "input")) {
        input = partial->len > 0 ? json_in_object(partial->data, partial->len) : NULL;
        return input ? json_object_set_new(block, "input", input) : 0;
    }
    if (!key || partial->len == 0)
        return 0;
    if (json_in_string(block, key))
        r = text_add(&whole, json_in_string(block, key), strlen(json_in_string(block, key)),
                     SIZE_MAX - 1);
    else
        r = 0;
    if (r == 0)
        r = text_add(&whole, partial->data, partial->len, SIZE_MAX - 1);
    if (r == 0)
        r = json_object_set_new(block, key, json_stringn(whole.data, whole.len));
    text_release(&whole);
    return r;
}

/* ---- the message ---- */

static int take_usage(struct decoder *decoder, const json_t *usage)
{
    if (!json_is_object(usage))
        return 0;
    if (!decoder->usage)
        decoder->usage = json_object();
    /* Counts are cumulative: what comes later counts. */
    return json_object_update(decoder->usage, (json_t *) usage);
}

static void take_stop(struct decoder *decoder, const json_t *message)
{
    const char *reason = json_in_string(message, "stop_reason");

    if (reason && *reason)
        (void) snprintf(decoder->finish, sizeof decoder->finish, "%s", reason);
}

static int take_error(struct decoder *decoder, const json_t *event)
{
    json_t *error = json_object_get(event, "error");

    decoder->error = error ? json_incref(error) : json_object();
    return -ECONNABORTED;
}

static int take_event(struct decoder *decoder, const json_t *event)
{
    const char *type = json_in_string(event, "type");

    if (is(type, "content_block_delta"))
        return block_delta(decoder, event);
    if (is(type, "content_block_start"))
        return block_start(decoder, event);
    if (is(type, "message_start"))
        return take_usage(decoder, json_object_get(json_object_get(event, "message"), "usage"));
    if (is(type, "message_delta")) {
        take_stop(decoder, json_object_get(event, "delta"));
        return take_usage(decoder, json_object_get(event, "usage"));
    }
    if (is(type, "message_stop"))
        decoder->done = true;
    if (is(type, "error") || (!type && json_object_get(event, "error")))
        return take_error(decoder, event);
    return 0; /* ping, content_block_stop, and what comes later */
}

static int on_event(struct decoder *decoder, const char *data, size_t len)
{
    json_t *event = len > 0 ? json_in_object(data, len) : NULL;
    int r = 0;

    if (event)
        r = take_event(decoder, event);
    else if (len > 0 && !(len == 6 && memcmp(data, "[DONE]", 6) == 0)) /* of gateways */
        r = -EPROTO;
    json_decref(event);
    return r;
}

static int body_block(struct decoder *decoder, const json_t *block, size_t i)
{
    json_t *event =
        json_pack("{s:I, s:O}", "index", (json_int_t) i, "content_block", (json_t *) block);
    const json_t *input = json_object_get(block, "input");
    autofree char *text = json_is_object(input) ? json_dumps(input, JSON_COMPACT) : NULL;
    int r = event ? block_start(decoder, event) : -ENOMEM;
    size_t call = event ? call_of(decoder, event) : SIZE_MAX;

    if (r == 0 && text && call != SIZE_MAX && json_object_size(input) > 0)
        r = draft_call_add(decoder->draft, call, text, strlen(text));
    json_decref(event);
    return r;
}

static int on_body(struct decoder *decoder, const json_t *body)
{
    const json_t *content = json_object_get(body, "content"), *block;
    size_t i;
    int r;

    if (json_is_object(json_object_get(body, "error")))
        return take_error(decoder, body);
    if (!json_is_array(content))
        return -EPROTO;
    take_stop(decoder, body);
    r = take_usage(decoder, json_object_get(body, "usage"));
    json_array_foreach (content, i, block)
        if (r == 0)
            r = body_block(decoder, block, i);
    decoder->done = r == 0;
    return r;
}

static bool is_complete(const struct decoder *decoder)
{
    return decoder->done || decoder->finish[0];
}

static int join_all(const struct decoder *decoder)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < decoder->partial_len; i++) {
        r = join(json_array_get(decoder->blocks, i), &decoder->partial[i]);
        decoder->partial[i].len = 0; /* once only: a paused turn is joined twice */
    }
    return r;
}

static bool is_paused(const struct decoder *decoder)
{
    return is(decoder->finish, "pause_turn") && json_array_size(decoder->blocks) > 0 &&
           join_all(decoder) == 0;
}

/* ---- the end ---- */

static int64_t or_zero(int64_t count)
{
    return count > 0 ? count : 0;
}

static void read_usage(struct decoder *decoder, struct llm_usage *ret_usage)
{
    int64_t input = json_in_count(decoder->usage, "input_tokens");
    int64_t cached = json_in_count(decoder->usage, "cache_read_input_tokens");
    int64_t written = json_in_count(decoder->usage, "cache_creation_input_tokens");

    /* Theirs does not count what came from the cache; ours does. */
    ret_usage->prompt = input < 0 ? -1 : input + or_zero(cached) + or_zero(written);
    ret_usage->cached = cached;
    ret_usage->completion = json_in_count(decoder->usage, "output_tokens");
    if (decoder->model->price.prompt > 0)
        decoder->written_cost =
            (double) or_zero(written) * decoder->model->price.prompt * CACHE_WRITE_EXTRA / 1e6;
}

/* Whether the blocks say more than the neutral message can. */
static bool is_rich(const json_t *blocks)
{
    const json_t *block;
    size_t i;

    json_array_foreach (blocks, i, block)
        if (!is(json_in_string(block, "type"), "text") &&
            !is(json_in_string(block, "type"), "tool_use"))
            return true;
    return false;
}

static int on_finish(struct decoder *decoder, struct llm_reply *ret_reply)
{
    bool length =
        is(decoder->finish, "max_tokens") || is(decoder->finish, "model_context_window_exceeded");
    bool cut;
    json_t *message;
    int r = join_all(decoder);

    read_usage(decoder, &ret_reply->usage);
    message = draft_message(decoder->draft, length, &cut);
    if (r == 0 && message && !length && !cut && is_rich(decoder->blocks))
        r = json_object_set_new(message, "raw",
                                json_pack("{s:s, s:s, s:O}", "provider", "anthropic", "model",
                                          decoder->model->model, "content", decoder->blocks));
    if (r < 0 || !message) {
        json_decref(message);
        return -ENOMEM;
    }
    ret_reply->message = message;
    ret_reply->finish = length || cut                    ? LLM_LENGTH
                        : is(decoder->finish, "refusal") ? LLM_REFUSED
                                                         : LLM_STOP;
    return 0;
}

const struct dialect anthropic_dialect = {
    .name = "anthropic",
    .encode = anthropic_encode,
    .event = on_event,
    .body = on_body,
    .complete = is_complete,
    .paused = is_paused,
    .finish = on_finish,
    .headers = (const char *const[]){ "anthropic-version: 2023-06-01", NULL },
    .key_headers = (const char *const[]){ "x-api-key: %s", NULL },
    .key_headers_others =
        (const char *const[]){ "x-api-key: %s", "Authorization: Bearer %s", NULL },
};
