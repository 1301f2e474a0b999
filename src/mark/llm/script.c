/*
 * A model that says what a file tells it to: NAME=script:FILE, for tests and benches.
 *
 * The file is JSON: a list of replies, or an object
 *
 *   {"replies": [...],
 *    "tools": true,          false: the model has no tool calls, so the fenced-code protocol is
 * used "context": 32000,       tokens "piece": 24,            bytes of one piece of a stream
 *    "repeat": false}        whether the replies in order start again at the end
 *
 * A reply, all of it optional:
 *
 *   {"asked": "revenue",     only if the last message of the user has this
 *    "when": "KeyError",     only if the last message, whosever it is, has this
 *    "text": "...",
 *    "thinking": "...",
 *    "calls": [{"name": "run_python", "arguments": {"code": "..."}, "id": "c1"},
 *              {"name": "run_python", "arguments_text": "{\"code\": not JSON"}],
 *    "finish": "stop",       or "length", "refused"
 *    "usage": {"prompt": 100, "completion": 20, "cached": 0, "cost": 0.01},
 *    "delay_ms": 0,          before the first piece
 *    "piece_ms": 0,          before each further piece
 *    "restart": true,        streams all of it, takes it back, and streams it again
 *    "error": {"failure": "busy", "status": 429, "message": "...", "retry_ms": 1000}}
 *                            instead of a reply, or after its pieces: cancelled, unreachable, busy,
 *                            denied, unpaid, too_long, invalid, broken
 *
 * Which reply? Those with "asked" or "when" come first: of those that match, the n-th if the
 * assistant has spoken n times (from 0) since the last message of the user, and the last of them
 * when there are no more. Else those without conditions in order: the n-th if the assistant has
 * spoken n times in the conversation. Nothing is remembered, so any number of conversations can run
 * at once, and the same conversation gets the same reply. In "text", and in strings of "arguments",
 * "$LAST" stands for the content of the last message.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/utf8.h"
#include "mark/llm/draft.h"
#include "mark/llm/internal.h"
#include "mark/llm/json_in.h"

#include "base/banned.h"

#define FILE_BYTES_MAX (INT64_C(64) * 1024 * 1024)
#define REPLY_MAX      ((size_t) 64 * 1024 * 1024)
#define PIECE          24
#define LAST           "$LAST"

struct script {
    json_t *replies;
    bool tools, repeat;
    int64_t context;
    size_t piece;
};

/* ---- the file ---- */

static json_t *read_file(const char *path, struct gb_err *err)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    autofree char *text = NULL;
    json_error_t error;
    struct stat st;
    ssize_t n;
    json_t *json;

    if (fd < 0 || fstat(fd, &st) < 0) {
        (void) gb_fail(err, errno, "open the script '%s'", path);
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX) {
        (void) gb_fail_plain(err, EINVAL, "the script '%s' is not a file of at most 64m", path);
        return NULL;
    }
    text = malloc((size_t) st.st_size + 1);
    n = text ? io_read_all(fd, text, (size_t) st.st_size) : -ENOMEM;
    if (n < 0) {
        (void) gb_fail(err, (int) -n, "read the script '%s'", path);
        return NULL;
    }
    json = json_loadb(text, (size_t) n, 0, &error);
    if (!json)
        (void) gb_fail_plain(err, EINVAL, "the script '%s' is not JSON: line %d: %s", path,
                             error.line, error.text);
    return json;
}

int script_open(const char *path, struct script **ret_script, struct gb_err *err)
{
    json_t *json = read_file(path, err), *replies, *reply;
    struct script *script = json ? calloc(1, sizeof *script) : NULL;
    size_t i;
    int r = 0;

    if (!json)
        return -EINVAL;
    replies = json_is_array(json) ? json : json_object_get(json, "replies");
    if (!json_is_array(replies))
        r = gb_fail_plain(err, EINVAL, "the script '%s' has no list of replies", path);
    json_array_foreach (replies, i, reply)
        if (r == 0 && !json_is_object(reply))
            r = gb_fail_plain(err, EINVAL, "the script '%s': reply %zu is not an object", path, i);
    if (r == 0 && !script)
        r = gb_fail(err, ENOMEM, "read the script '%s'", path);
    if (r == 0) {
        script->replies = json_incref(replies);
        script->tools = !json_is_false(json_object_get(json, "tools"));
        script->repeat = json_is_true(json_object_get(json, "repeat"));
        script->context = json_in_count(json, "context");
        script->piece =
            json_in_count(json, "piece") > 0 ? (size_t) json_in_count(json, "piece") : PIECE;
        *ret_script = TAKE_PTR(script);
    }
    free(script);
    json_decref(json);
    return r;
}

void script_free(struct script *script)
{
    if (!script)
        return;
    json_decref(script->replies);
    free(script);
}

bool script_has_tools(const struct script *script)
{
    return script->tools;
}

int64_t script_context(const struct script *script)
{
    return script->context > 0 ? script->context : 0;
}

/* ---- which reply ---- */

struct scene {
    const char *last, *asked;    /* contents, "" if there is none */
    size_t spoken, spoken_since; /* messages of the assistant: in all, since the user's last */
};

static struct scene look(const json_t *messages)
{
    struct scene scene = { .last = "", .asked = "" };
    const json_t *message;
    size_t i;

    json_array_foreach (messages, i, message) {
        const char *role = json_in_string(message, "role");
        const char *content = json_in_string(message, "content");

        scene.last = content ? content : "";
        if (role && strcmp(role, "assistant") == 0) {
            scene.spoken++;
            scene.spoken_since++;
        } else if (role && strcmp(role, "user") == 0) {
            scene.asked = scene.last;
            scene.spoken_since = 0;
        }
    }
    return scene;
}

static bool has_condition(const json_t *reply)
{
    return json_object_get(reply, "asked") || json_object_get(reply, "when");
}

static bool matches(const json_t *reply, const struct scene *scene)
{
    const char *asked = json_in_string(reply, "asked"), *when = json_in_string(reply, "when");

    return has_condition(reply) && (!asked || strstr(scene->asked, asked)) &&
           (!when || strstr(scene->last, when));
}

static const json_t *choose(const struct script *script, const struct scene *scene)
{
    const json_t *reply, *matching = NULL;
    size_t i, n = 0, plain = 0, wanted = scene->spoken;

    json_array_foreach (script->replies, i, reply) {
        if (matches(reply, scene) && n++ <= scene->spoken_since)
            matching = reply;
        plain += has_condition(reply) ? 0 : 1;
    }
    if (matching || plain == 0)
        return matching;
    if (script->repeat)
        wanted %= plain;
    json_array_foreach (script->replies, i, reply)
        if (!has_condition(reply) && wanted-- == 0)
            return reply;
    return NULL;
}

/* ---- saying it ---- */

struct saying {
    size_t piece;
    const char *last; /* what $LAST stands for; NULL: it is no word of ours */
    const json_t *reply;
    struct draft draft;
    int cancel_fd;
    int64_t piece_us;
    bool begun;
};

/* @text with what $LAST stands for. */
static char *fill(const char *text, const char *last)
{
    struct text out = { 0 };
    const char *mark;
    int r = 0;

    while (r == 0 && last && (mark = strstr(text, LAST))) {
        r = text_add(&out, text, (size_t) (mark - text), REPLY_MAX);
        if (r == 0)
            r = text_add(&out, last, strlen(last), REPLY_MAX);
        text = mark + strlen(LAST);
    }
    if (r == 0)
        r = text_add(&out, text, strlen(text), REPLY_MAX);
    if (r < 0)
        text_release(&out);
    return out.data;
}

static json_t *fill_json(const json_t *json, const char *last)
{
    json_t *out, *value;
    autofree char *text = NULL;
    const char *key;
    size_t i;

    if (json_is_string(json)) {
        text = fill(json_string_value(json), last);
        return text ? json_string(text) : NULL;
    }
    out = json_copy((json_t *) json);
    json_object_foreach (out, key, value)
        (void) json_object_set_new(out, key, fill_json(value, last));
    json_array_foreach (out, i, value)
        (void) json_array_set_new(out, i, fill_json(value, last));
    return out;
}

/* Calls @put with pieces of whole characters. */
static int in_pieces(struct saying *say, const char *text,
                     int (*put)(struct saying *say, const char *text, size_t len))
{
    size_t len = strlen(text);
    int r = 0;

    while (r == 0 && len > 0) {
        size_t n = len < say->piece ? len : say->piece, more;

        n -= utf8_partial_end(text, n);
        if (n == 0) /* the first character is longer than a piece */
            n = utf8_next(text, len, &more) == UTF8_CHAR ? more : 1;
        if (say->begun && say->piece_us > 0)
            r = llm_pause(say->piece_us, say->cancel_fd);
        say->begun = true;
        if (r == 0)
            r = put(say, text, n);
        text += n;
        len -= n;
    }
    return r;
}

static int put_text(struct saying *say, const char *text, size_t len)
{
    return draft_text(&say->draft, text, len);
}

static int put_thinking(struct saying *say, const char *text, size_t len)
{
    return draft_thinking(&say->draft, text, len);
}

static int put_call(struct saying *say, const char *text, size_t len)
{
    return draft_call_add(&say->draft, say->draft.calls_len - 1, text, len);
}

static int say_call(struct saying *say, const json_t *call)
{
    const char *name = json_in_string(call, "name");
    const json_t *arguments = json_object_get(call, "arguments");
    json_t *filled = arguments ? fill_json(arguments, say->last) : NULL;
    autofree char *text = filled ? json_dumps(filled, JSON_COMPACT)
                                 : strdup(json_in_string(call, "arguments_text")
                                              ? json_in_string(call, "arguments_text")
                                              : "");
    size_t number;
    int r = text ? draft_call_new(&say->draft, -1, json_in_string(call, "id"),
                                  name ? name : "unknown", &number)
                 : -ENOMEM;

    json_decref(filled);
    return r < 0 ? r : in_pieces(say, text, put_call);
}

static int say_all(struct saying *say)
{
    const char *thinking = json_in_string(say->reply, "thinking");
    const char *text = json_in_string(say->reply, "text");
    autofree char *filled = text ? fill(text, say->last) : NULL;
    const json_t *call;
    size_t i;
    int r = text && !filled ? -ENOMEM : 0;

    if (r == 0 && thinking)
        r = in_pieces(say, thinking, put_thinking);
    if (r == 0 && text)
        r = in_pieces(say, filled, put_text);
    json_array_foreach (json_object_get(say->reply, "calls"), i, call)
        if (r == 0)
            r = say_call(say, call);
    return r < 0 ? r : draft_end(&say->draft);
}

/* ---- the end ---- */

static int say_error(const json_t *error, struct llm_error *ret_error)
{
    static const char *const names[] = {
        [LLM_CANCELLED] = "cancelled", [LLM_UNREACHABLE] = "unreachable",
        [LLM_BUSY] = "busy",           [LLM_DENIED] = "denied",
        [LLM_UNPAID] = "unpaid",       [LLM_TOO_LONG] = "too_long",
        [LLM_INVALID] = "invalid",     [LLM_BROKEN] = "broken",
    };
    const char *name = json_in_string(error, "failure"),
               *message = json_in_string(error, "message");
    enum llm_failure failure = LLM_BROKEN;

    for (size_t i = 1; name && i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            failure = (enum llm_failure) i;
    ret_error->retry_us = json_integer_value(json_object_get(error, "retry_ms")) * USEC_PER_MSEC;
    return llm_error_set(ret_error, failure,
                         (int) json_integer_value(json_object_get(error, "status")), "%s",
                         message ? message : "the script says so");
}

static int take_result(struct saying *say, struct llm_reply *ret_reply)
{
    const char *finish = json_in_string(say->reply, "finish");
    const json_t *usage = json_object_get(say->reply, "usage");
    const json_t *cost = json_object_get(usage, "cost");
    bool length = finish && strcmp(finish, "length") == 0, cut;

    ret_reply->message = draft_message(&say->draft, length, &cut);
    ret_reply->finish = length ? LLM_LENGTH : LLM_STOP;
    if (finish && strcmp(finish, "refused") == 0)
        ret_reply->finish = LLM_REFUSED;
    ret_reply->usage =
        (struct llm_usage){ .prompt = json_in_count(usage, "prompt"),
                            .completion = json_in_count(usage, "completion"),
                            .cached = json_in_count(usage, "cached"),
                            .cost = json_is_number(cost) ? json_number_value(cost) : -1 };
    return ret_reply->message ? 0 : -ENOMEM;
}

static json_t *trace_of(const struct llm_request *request, const struct llm_reply *reply)
{
    return json_pack("{s:{s:O?, s:O?}, s:{s:O?}, s:i, s:i}", "request", "messages",
                     (json_t *) request->messages, "tools", (json_t *) request->tools, "reply",
                     "message", reply->message, "status", 200, "attempts", 1);
}

static int say_reply(struct saying *say, const struct llm_watch *watch, struct llm_reply *ret_reply,
                     struct llm_error *ret_error)
{
    const json_t *error = json_object_get(say->reply, "error");
    int64_t delay_us = json_integer_value(json_object_get(say->reply, "delay_ms")) * USEC_PER_MSEC;
    int r = llm_pause(delay_us, say->cancel_fd);

    if (r == 0)
        r = say_all(say);
    if (r == 0 && json_is_true(json_object_get(say->reply, "restart"))) {
        if (watch->restart)
            watch->restart(watch->arg);
        draft_release(&say->draft);
        draft_init(&say->draft, watch, REPLY_MAX);
        r = say_all(say);
    }
    if (r == 0 && json_is_object(error))
        return say_error(error, ret_error);
    if (r == 0)
        r = take_result(say, ret_reply);
    if (r == -ECANCELED)
        return llm_error_set(ret_error, LLM_CANCELLED, 0, "cancelled");
    return r < 0 ? llm_error_set(ret_error, LLM_BROKEN, 0, "the reply of the script is too large")
                 : 0;
}

int script_chat(const struct script *script, const struct llm_request *request,
                const struct llm_watch *watch, int cancel_fd, struct llm_reply *ret_reply,
                struct llm_error *ret_error)
{
    struct scene scene = look(request->messages);
    const json_t *reply = choose(script, &scene);

    if (!reply)
        return llm_error_set(ret_error, LLM_INVALID, 0,
                             "the script has no reply for message %zu of this conversation",
                             scene.spoken);
    return script_say(reply, scene.last, script->piece, request, watch, cancel_fd, ret_reply,
                      ret_error);
}

int script_say(const json_t *reply, const char *last, size_t piece,
               const struct llm_request *request, const struct llm_watch *watch, int cancel_fd,
               struct llm_reply *ret_reply, struct llm_error *ret_error)
{
    struct saying say = { .piece = piece, .last = last, .reply = reply, .cancel_fd = cancel_fd };
    int r;

    say.piece_us = json_integer_value(json_object_get(reply, "piece_ms")) * USEC_PER_MSEC;
    draft_init(&say.draft, watch, REPLY_MAX);
    r = say_reply(&say, watch, ret_reply, ret_error);
    draft_release(&say.draft);
    if (r == 0)
        ret_reply->trace = trace_of(request, ret_reply);
    return r;
}
