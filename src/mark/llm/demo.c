/*
 * The demo model as a provider: what demo_turn.c decides, said piece by piece as a model would say
 * it, so that a person sees the product work before they have a key.
 *
 * Its pauses are short (PAUSES_US in all for each reply) and end at once when it is cancelled.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/llm/demo.h"

#include "base/banned.h"

#define PIECE_BYTES 24
#define PAUSE_US    (2 * USEC_PER_MSEC)
#define PAUSES_US   (80 * USEC_PER_MSEC)

struct speech {
    const struct llm_watch *watch;
    const char *tool; /* NULL: text */
    int cancel_fd;
};

static void say(const struct speech *speech, const char *text, size_t len)
{
    const struct llm_watch *watch = speech->watch;

    if (!watch)
        return;
    if (speech->tool && watch->call)
        watch->call(watch->arg, 0, speech->tool, text, len);
    else if (!speech->tool && watch->text)
        watch->text(watch->arg, text, len);
}

/* Returns -ECANCELED as soon as somebody wants it to end. */
static int say_slowly(const struct speech *speech, const char *text)
{
    size_t len = strlen(text), pieces = len / PIECE_BYTES + 1;
    int64_t pause_us =
        PAUSES_US / (int64_t) pieces < PAUSE_US ? PAUSES_US / (int64_t) pieces : PAUSE_US;

    for (size_t at = 0; at < len;) {
        size_t end = at + PIECE_BYTES < len ? at + PIECE_BYTES : len;
        struct pollfd cancel = { .fd = speech->cancel_fd, .events = POLLIN };
        struct timespec pause = { .tv_nsec = (long) (pause_us * 1000) };

        while (end < len && ((unsigned char) text[end] & 0xc0) == 0x80)
            end++; /* not in the middle of a character */
        say(speech, text + at, end - at);
        at = end;
        if (ppoll(&cancel, 1, &pause, NULL) > 0)
            return -ECANCELED;
    }
    return 0;
}

static int fail(struct llm_error *error, enum llm_failure failure, const char *why)
{
    *error = (struct llm_error){ .failure = failure };
    (void) snprintf(error->message, sizeof(error->message), "%s", why);
    return failure == LLM_CANCELLED ? -ECANCELED : -ENOMEM;
}

static json_t *message_of(const struct demo_turn *turn, size_t number)
{
    char id[32];

    if (!turn->tool)
        return json_pack("{s:s, s:O}", "role", "assistant", "content",
                         json_object_get(turn->arguments, "text"));
    (void) snprintf(id, sizeof(id), "demo_%zu", number);
    return json_pack("{s:s, s:s, s:[{s:s, s:s, s:O}]}", "role", "assistant", "content", "",
                     "tool_calls", "id", id, "name", turn->tool, "arguments", turn->arguments);
}

static json_t *trace_of(const struct llm_request *request, json_t *message, int64_t since_us)
{
    json_t *messages = json_deep_copy(request->messages);
    json_t *sent = messages ? json_pack("{s:s, s:o}", "model", "demo", "messages", messages) : NULL;

    if (!sent)
        return NULL;
    if (request->tools && json_object_set_new(sent, "tools", json_deep_copy(request->tools)) < 0) {
        json_decref(sent);
        return NULL;
    }
    return json_pack("{s:o, s:O, s:i, s:i, s:f, s:n}", "request", sent, "reply", message, "status",
                     200, "attempts", 1, "seconds",
                     (double) (clock_now_us() - since_us) / (double) USEC_PER_SEC, "request_id");
}

static int speak(const struct demo_turn *turn, const struct llm_watch *watch, int cancel_fd)
{
    struct speech speech = { .watch = watch, .tool = turn->tool, .cancel_fd = cancel_fd };
    autofree char *text = turn->tool
                              ? json_dumps(turn->arguments, JSON_COMPACT)
                              : strdup(json_string_value(json_object_get(turn->arguments, "text")));

    if (!text)
        return -ENOMEM;
    if (turn->thought && watch && watch->thinking)
        watch->thinking(watch->arg, turn->thought, strlen(turn->thought));
    return say_slowly(&speech, text);
}

int demo_chat(const struct llm_request *request, const struct llm_watch *watch, int cancel_fd,
              struct llm_reply *ret_reply, struct llm_error *ret_error)
{
    bool has_tools = json_array_size(request->tools) > 0;
    int64_t since_us = clock_now_us();
    struct demo_turn turn;
    struct llm_reply reply;
    int r;

    r = demo_next(request->messages, has_tools, request->tool, &turn);
    if (r == 0)
        r = speak(&turn, watch, cancel_fd);
    if (r < 0) {
        json_decref(turn.arguments);
        return r == -ECANCELED ? fail(ret_error, LLM_CANCELLED, "cancelled")
                               : fail(ret_error, LLM_BROKEN, "out of memory");
    }
    /* Nobody pays for a script, and it has no tokens. */
    reply = (struct llm_reply){ .finish = LLM_STOP, .usage = { 0 } };
    reply.message = message_of(&turn, json_array_size(request->messages));
    reply.trace = reply.message ? trace_of(request, reply.message, since_us) : NULL;
    json_decref(turn.arguments);
    if (!reply.trace) {
        json_decref(reply.message);
        return fail(ret_error, LLM_BROKEN, "out of memory");
    }
    *ret_reply = reply;
    return 0;
}
