#include "mark/llm/draft.h"

#include <jansson.h>
#include <sodium.h>
#include <stdio.h>

#include "base/text/utf8.h"
#include "mark/llm/json_in.h"

#include "base/banned.h"

#define THINK          "<think>"
#define THINK_END      "</think>"
#define WORD_BYTES_MAX 200 /* of a name or an id */

void draft_init(struct draft *draft, const struct llm_watch *watch, size_t bytes_max)
{
    *draft = (struct draft){ .watch = watch, .bytes_max = bytes_max };
}

void draft_release(struct draft *draft)
{
    text_release(&draft->text);
    text_release(&draft->thinking);
    text_release(&draft->refusal);
    text_release(&draft->held);
    for (size_t i = 0; i < draft->calls_len; i++) {
        free(draft->calls[i].id);
        free(draft->calls[i].name);
        text_release(&draft->calls[i].arguments);
    }
    free(draft->calls);
    *draft = (struct draft){ 0 };
}

static int keep(struct draft *draft, struct text *text, const char *data, size_t len)
{
    if (len > draft->bytes_max - draft->bytes)
        return -EMSGSIZE;
    draft->bytes += len;
    return text_add(text, data, len, draft->bytes_max);
}

/* ---- text ---- */

static int tell_text(struct draft *draft, const char *text, size_t len)
{
    int r = len > 0 ? keep(draft, &draft->text, text, len) : 0;

    if (r < 0 || len == 0)
        return r;
    draft->told = true;
    if (draft->watch && draft->watch->text)
        draft->watch->text(draft->watch->arg, text, len);
    return 0;
}

int draft_thinking(struct draft *draft, const char *text, size_t len)
{
    int r = len > 0 ? keep(draft, &draft->thinking, text, len) : 0;

    if (r < 0 || len == 0)
        return r;
    draft->told = true;
    if (draft->watch && draft->watch->thinking)
        draft->watch->thinking(draft->watch->arg, text, len);
    return 0;
}

int draft_refusal(struct draft *draft, const char *text, size_t len)
{
    return keep(draft, &draft->refusal, text, len);
}

static size_t skip_blanks(const char *text, size_t len)
{
    size_t i = 0;

    while (i < len && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t'))
        i++;
    return i;
}

/* The longest end of @text that is a beginning of @tag, which is ASCII. */
static size_t tag_begun(const char *text, size_t len, const char *tag)
{
    size_t most = strlen(tag) - 1;

    for (size_t n = len < most ? len : most; n > 0; n--)
        if (memcmp(text + len - n, tag, n) == 0)
            return n;
    return 0;
}

/* Nothing but blanks came so far: does a thought begin? */
static int decide_tag(struct draft *draft)
{
    size_t blanks = skip_blanks(draft->held.data, draft->held.len);
    size_t len = draft->held.len - blanks, most = strlen(THINK);
    size_t common = len < most ? len : most;
    const char *text = draft->held.data + blanks;
    struct text held;
    int r;

    if (memcmp(text, THINK, common) == 0) {
        if (common < most)
            return 0; /* not known yet */
        draft->tag = THINK_IN;
    } else {
        draft->tag = THINK_NO;
    }
    held = draft->held;
    draft->held = (struct text){ 0 };
    if (draft->tag == THINK_IN)
        r = draft_text(draft, text + most, len - most);
    else
        r = tell_text(draft, held.data, held.len);
    text_release(&held);
    return r;
}

/* In a thought: passes on what cannot be part of the end mark. */
static int scan_thought(struct draft *draft)
{
    char *end = strstr(draft->held.data, THINK_END);
    size_t out = end ? (size_t) (end - draft->held.data)
                     : draft->held.len - tag_begun(draft->held.data, draft->held.len, THINK_END);
    struct text held = draft->held;
    int r = draft_thinking(draft, held.data, out);

    draft->held = (struct text){ 0 };
    if (r == 0 && end) {
        const char *rest = end + strlen(THINK_END);

        draft->tag = THINK_NO;
        rest += skip_blanks(rest, strlen(rest));
        r = tell_text(draft, rest, strlen(rest));
    } else if (r == 0 && out < held.len) {
        r = text_add(&draft->held, held.data + out, held.len - out, SIZE_MAX - 1);
    }
    text_release(&held);
    return r;
}

int draft_text(struct draft *draft, const char *text, size_t len)
{
    int r;

    if (len == 0)
        return 0;
    if (draft->tag == THINK_NO)
        return tell_text(draft, text, len);
    r = text_add(&draft->held, text, len, draft->bytes_max);
    if (r < 0)
        return r;
    return draft->tag == THINK_IN ? scan_thought(draft) : decide_tag(draft);
}

int draft_end(struct draft *draft)
{
    struct text held = draft->held;
    int r = 0;

    draft->held = (struct text){ 0 };
    if (draft->tag == THINK_IN)
        r = draft_thinking(draft, text_str(&held), held.len);
    else if (skip_blanks(text_str(&held), held.len) < held.len)
        r = tell_text(draft, held.data, held.len);
    text_release(&held);
    for (size_t i = 0; r == 0 && i < draft->calls_len; i++)
        if (!draft->calls[i].name)
            r = draft_call_name(draft, i, "unknown");
    return r;
}

/* ---- calls ---- */

static void tell_call(struct draft *draft, size_t i, const char *text, size_t len)
{
    struct draft_call *call = &draft->calls[i];

    draft->told = true;
    call->told = true;
    if (draft->watch && draft->watch->call)
        draft->watch->call(draft->watch->arg, i, call->name, text, len);
}

static char *copy_word(const char *word, size_t len)
{
    if (len > WORD_BYTES_MAX) {
        len = WORD_BYTES_MAX;
        len -= utf8_partial_end(word, len);
    }
    return strndup(word, len);
}

int draft_call_name(struct draft *draft, size_t i, const char *name)
{
    struct draft_call *call = &draft->calls[i];
    /* gpt-oss behind a template that does not know it leaves its marks in names. */
    const char *mark = strstr(name, "<|");
    char *copy = copy_word(name, mark && mark > name ? (size_t) (mark - name) : strlen(name));

    if (!copy)
        return -ENOMEM;
    free(call->name);
    call->name = copy;
    tell_call(draft, i, text_str(&call->arguments), call->arguments.len);
    return 0;
}

int draft_call_id(struct draft *draft, size_t i, const char *id)
{
    char *copy = copy_word(id, strlen(id));

    if (!copy)
        return -ENOMEM;
    free(draft->calls[i].id);
    draft->calls[i].id = copy;
    return 0;
}

int draft_call_new(struct draft *draft, int64_t index, const char *id, const char *name,
                   size_t *ret_call)
{
    struct draft_call *grown;
    size_t i = draft->calls_len;
    int r = 0;

    if (i >= DRAFT_CALLS_MAX)
        return -EMSGSIZE;
    grown = grow(draft->calls, &draft->calls_cap, i + 1, sizeof *grown, 4);
    if (!grown)
        return -ENOMEM;
    draft->calls = grown;
    draft->calls[i] = (struct draft_call){ .index = index };
    draft->calls_len++;
    *ret_call = i;
    if (id && *id)
        r = draft_call_id(draft, i, id);
    if (r == 0 && name && *name)
        r = draft_call_name(draft, i, name);
    return r;
}

int draft_call_add(struct draft *draft, size_t i, const char *text, size_t len)
{
    int r = len > 0 ? keep(draft, &draft->calls[i].arguments, text, len) : 0;

    if (r == 0 && len > 0 && draft->calls[i].name)
        tell_call(draft, i, text, len);
    return r;
}

/* ---- the message ---- */

/* The arguments as an object, or NULL. Some gateways send the whole of them a second time at the
 * end, some servers encode them twice. */
static json_t *read_arguments(const struct text *text)
{
    size_t half = text->len / 2;
    json_t *json, *string;

    if (skip_blanks(text_str(text), text->len) == text->len)
        return json_object();
    json = json_in_object(text->data, text->len);
    if (!json && text->len % 2 == 0 && memcmp(text->data, text->data + half, half) == 0)
        json = json_in_object(text->data, half);
    if (!json && text->data[0] == '"') {
        string = json_loadb(text->data, text->len, JSON_DECODE_ANY, NULL);
        if (json_is_string(string))
            json = json_in_object(json_string_value(string), json_string_length(string));
        json_decref(string);
    }
    return json;
}

static json_t *call_json(const struct draft_call *call, bool cut, bool *ret_cut)
{
    const struct text *text = &call->arguments;
    json_t *arguments = cut && text->len == 0 ? NULL : read_arguments(text);
    char made[40];
    const char *id = call->id;

    if (!id || !*id) {
        (void) snprintf(made, sizeof made, "call_%08x%08x", randombytes_random(),
                        randombytes_random());
        id = made;
    }
    if (arguments)
        return json_pack("{s:s, s:s, s:o}", "id", id, "name", call->name, "arguments", arguments);
    if (json_in_is_cut(text_str(text), text->len))
        *ret_cut = true;
    return json_pack("{s:s, s:s, s:s%}", "id", id, "name", call->name, "arguments_text",
                     text_str(text), text->len);
}

json_t *draft_message(const struct draft *draft, bool cut, bool *ret_cut)
{
    const struct text *content = draft->text.len > 0 ? &draft->text : &draft->refusal;
    json_t *message =
        json_pack("{s:s, s:s%}", "role", "assistant", "content", text_str(content), content->len);
    json_t *calls = json_array();
    int r = message && calls ? 0 : -1;

    *ret_cut = false;
    for (size_t i = 0; r == 0 && i < draft->calls_len; i++)
        r = json_array_append_new(
            calls, call_json(&draft->calls[i], cut && i + 1 == draft->calls_len, ret_cut));
    if (r == 0 && draft->calls_len > 0)
        r = json_object_set(message, "tool_calls", calls);
    json_decref(calls);
    if (r == 0)
        return message;
    json_decref(message);
    return NULL;
}

enum llm_finish draft_finish(const struct draft *draft, bool cut, bool filtered)
{
    if (cut)
        return LLM_LENGTH;
    if (filtered || (draft->refusal.len > 0 && draft->calls_len == 0 && draft->text.len == 0))
        return LLM_REFUSED;
    return LLM_STOP;
}
