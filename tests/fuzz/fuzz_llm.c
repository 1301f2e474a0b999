/*
 * Replies of a model's server. The first byte selects the dialect and how the rest is cut into
 * pieces: its two lowest bits are 0 for Chat Completions, 1 for Messages and 2 for Responses, the
 * others are the size of a piece, 0 for all at once. However it is cut, it must mean the same; what
 * is told to the watcher must be valid UTF-8 and what the message has; and the message must go back
 * to the server as a request.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "llm_harness.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void on_text(void *arg, const char *text, size_t len)
{
    must(utf8_valid(text, len) && len > 0 && !memchr(text, '\0', len));
    must(text_add(arg, text, len, FEED_MAX) == 0);
}

static void on_thinking(void *arg, const char *text, size_t len)
{
    (void) arg;
    must(utf8_valid(text, len));
}

static void on_call(void *arg, size_t index, const char *name, const char *text, size_t len)
{
    (void) arg;
    must(index < DRAFT_CALLS_MAX && *name && utf8_valid(text, len));
}

static void check_message(const struct feed *feed, const struct llm_reply *reply,
                          const struct text *heard)
{
    json_t *messages = json_pack("[{s:s, s:s}, O]", "role", "user", "content", "x", reply->message);
    struct llm_request request = { .messages = messages };
    json_t *body = feed->dialect->encode(&feed->model, &request, 0, NULL);
    char *text = json_dumps(body, 0);

    must(messages && body && text);
    if (feed->draft.text.len > 0)
        must(strcmp(text_str(heard), json_in_string(reply->message, "content")) == 0);
    must(reply->usage.prompt >= -1 && reply->usage.completion >= -1);
    free(text);
    json_decref(body);
    json_decref(messages);
}

/* Returns what came of it; the text of the message in @ret_text. */
static int run(const char *data, size_t size, const struct dialect *dialect, size_t piece,
               struct text *ret_text)
{
    struct text heard = { 0 };
    struct llm_watch watch = {
        .text = on_text, .thinking = on_thinking, .call = on_call, .arg = &heard
    };
    struct llm_reply reply;
    struct feed feed;
    const char *content;
    int r;

    feed_init(&feed, dialect, &watch);
    for (size_t i = 0; i < size; i += piece)
        feed_data(&feed, data + i, size - i < piece ? size - i : piece);
    r = feed_end(&feed, &reply);
    if (r == 0) {
        check_message(&feed, &reply, &heard);
        content = json_in_string(reply.message, "content");
        must(text_add(ret_text, content, strlen(content), FEED_MAX * 2) == 0);
    }
    llm_reply_release(&reply);
    feed_release(&feed);
    text_release(&heard);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const struct dialect *const dialects[] = { &openai_dialect, &anthropic_dialect,
                                                      &responses_dialect, &openai_dialect };
    const char *data = (const char *) input + 1;
    struct text whole = { 0 }, cut = { 0 };
    const struct dialect *dialect;
    size_t piece;

    if (size < 2 || size > 100000)
        return 0;
    dialect = dialects[input[0] & 3];
    piece = input[0] >> 2 ? input[0] >> 2 : size;
    must(run(data, size - 1, dialect, size, &whole) == run(data, size - 1, dialect, piece, &cut));
    must(strcmp(text_str(&whole), text_str(&cut)) == 0);
    text_release(&whole);
    text_release(&cut);
    return 0;
}
