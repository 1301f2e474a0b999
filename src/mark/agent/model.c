/* One call to the model: what comes is streamed to the readers, and all of it is in the trace. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/agent/stream.h"
#include "mark/agent/work.h"

#include "base/banned.h"

#define CALLS_WATCHED   8
#define TRACE_BYTES_MAX ((size_t) 1024 * 1024) /* of one exchange */
#define SAID_MAX        ((size_t) 4096)

struct watch_call {
    struct member_stream member;
    bool is_code, is_story;
    int64_t n; /* of the step */
};

struct watch {
    struct work *work;
    bool story;       /* something was streamed as one */
    struct text said; /* what that was, at least its beginning */
    struct refs_stream refs;
    struct watch_call calls[CALLS_WATCHED];
    size_t calls_len;
    int64_t steps; /* that are being written */
    /* without tools, lines are looked at before they are shown */
    struct text line;
    bool in_code, after_code;
};

/* ---- the story as it comes ---- */

static char *find_value(void *arg, const char *name)
{
    struct work *work = arg;
    const json_t *value;
    size_t i;

    json_array_foreach (work->answer->gathered.values, i, value)
        if (strcmp(json_string_value(json_object_get(value, "name")), name) == 0)
            return value_text(value);
    value = json_object_get(work->history.values, name);
    return value ? value_text(value) : NULL;
}

static void watch_story(struct watch *watch, const char *text, size_t len)
{
    struct text out = { 0 };

    if (watch->work->agent->config.strict)
        return;
    refs_feed(&watch->refs, text, len, find_value, watch->work, &out);
    if (out.len > 0) {
        answer_delta(watch->work->answer, EV_STORY, 0, false, out.data, out.len);
        watch->story = true;
        if (watch->said.len < SAID_MAX)
            text_add(&watch->said, out.data, out.len);
    }
    text_release(&out);
}

void model_story_void(struct work *work)
{
    answer_event(work->answer, EV_STORY, json_pack("{s:s, s:b}", "delta", "", "restart", 1));
}

/* It was said before a program: it belongs to the thoughts. */
static void watch_no_story(struct watch *watch)
{
    if (!watch->story)
        return;
    watch->story = false;
    model_story_void(watch->work);
    if (watch->said.len > 0)
        answer_delta(watch->work->answer, EV_THINKING, 0, false, watch->said.data,
                     text_fit(watch->said.data, watch->said.len, SAID_MAX));
    text_release(&watch->said);
}

/* ---- without tools: a fenced block is a program ---- */

static void watch_line(struct watch *watch, const char *line, size_t len)
{
    bool fence = len >= 3 && memcmp(line, "```", 3) == 0;

    if (watch->in_code) {
        if (fence) {
            watch->in_code = false;
            watch->after_code = true;
        } else {
            answer_delta(watch->work->answer, EV_STEP, watch->work->steps + 1, false, line, len);
        }
    } else if (fence && !watch->after_code && len > 5 && memcmp(line + 3, "py", 2) == 0) {
        watch->in_code = true;
        watch_no_story(watch);
    } else if (!watch->after_code) {
        watch_story(watch, line, len);
    }
}

static void watch_lines(struct watch *watch, const char *text, size_t len)
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t piece = end ? (size_t) (end - text) + 1 : len;

        text_add(&watch->line, text, piece);
        if (end && watch->line.data) {
            watch_line(watch, watch->line.data, watch->line.len);
            watch->line.len = 0;
        }
        text += piece;
        len -= piece;
    }
}

/* ---- the callbacks ---- */

static void on_text(void *arg, const char *text, size_t len)
{
    struct watch *watch = arg;

    if (watch->work->fenced)
        watch_lines(watch, text, len);
    else
        watch_story(watch, text, len);
}

static void on_thinking(void *arg, const char *text, size_t len)
{
    struct watch *watch = arg;

    answer_delta(watch->work->answer, EV_THINKING, 0, false, text, len);
}

static struct watch_call *call_at(struct watch *watch, size_t index, const char *name)
{
    struct watch_call *call;

    if (index >= CALLS_WATCHED)
        return NULL;
    while (watch->calls_len <= index) {
        call = &watch->calls[watch->calls_len++];
        *call = (struct watch_call){ 0 };
    }
    call = &watch->calls[index];
    if (!call->is_code && !call->is_story && name) {
        call->is_code = strcmp(name, "run_python") == 0;
        call->is_story = strcmp(name, "answer") == 0;
        if (call->is_code)
            call->n = watch->work->steps + ++watch->steps;
        watch_no_story(watch);
    }
    return call;
}

static void on_call(void *arg, size_t index, const char *name, const char *text, size_t len)
{
    struct watch *watch = arg;
    struct watch_call *call = call_at(watch, index, name);
    struct text out = { 0 };

    if (!call || (!call->is_code && !call->is_story))
        return;
    member_feed(&call->member, call->is_code ? "code" : "story", text, len, &out);
    if (out.len > 0 && call->is_code)
        answer_delta(watch->work->answer, EV_STEP, call->n, false, out.data, out.len);
    else if (out.len > 0)
        watch_story(watch, out.data, out.len);
    text_release(&out);
}

static void watch_reset(struct watch *watch)
{
    for (size_t i = 0; i < watch->calls_len; i++)
        member_release(&watch->calls[i].member);
    text_release(&watch->line);
    text_release(&watch->said);
    *watch = (struct watch){ .work = watch->work };
}

static void on_restart(void *arg)
{
    struct watch *watch = arg;

    for (size_t i = 0; i < watch->calls_len; i++)
        if (watch->calls[i].is_code)
            answer_event(watch->work->answer, EV_STEP,
                         json_pack("{s:I, s:s, s:b}", "n", (json_int_t) watch->calls[i].n,
                                   "code_delta", "", "restart", 1));
    if (watch->story)
        model_story_void(watch->work);
    watch_reset(watch);
}

static void on_waiting(void *arg, int64_t us, const char *why)
{
    struct watch *watch = arg;
    struct text text = { 0 };

    text_printf(&text, "(The model's server is not ready: %.120s. Trying again in %lld s.)\n", why,
                (long long) ((us + USEC_PER_SEC - 1) / USEC_PER_SEC));
    if (!text.failed)
        answer_delta(watch->work->answer, EV_THINKING, 0, false, text.data, text.len);
    text_release(&text);
}

/* What was held back is shown once nothing more comes. */
static void watch_end(struct watch *watch)
{
    struct text out = { 0 };

    if (watch->line.len > 0)
        watch_line(watch, watch->line.data, watch->line.len);
    refs_flush(&watch->refs, &out);
    if (out.len > 0 && !watch->work->agent->config.strict)
        answer_delta(watch->work->answer, EV_STORY, 0, false, out.data, out.len);
    text_release(&out);
    watch_reset(watch);
}

/* ---- what it cost, and what was said ---- */

static void add_usage(struct work *work, const struct llm_usage *usage, int64_t estimate)
{
    struct llm_usage *sum = &work->usage;
    struct agent_stats *stats = &work->agent->stats;
    struct agent_model_stats *of_model;
    int64_t prompt = usage->prompt > 0 ? usage->prompt : 0;
    int64_t completion = usage->completion > 0 ? usage->completion : 0;
    int64_t cached = usage->cached > 0 ? usage->cached : 0, tokens;

#define ADD(member)                                                                                \
    do {                                                                                           \
        if (usage->member >= 0)                                                                    \
            sum->member = (sum->member < 0 ? 0 : sum->member) + usage->member;                     \
    } while (0)
    ADD(prompt);
    ADD(completion);
    ADD(cached);
    ADD(cost);
#undef ADD
    tokens = usage->prompt >= 0 && usage->completion >= 0 ? prompt + completion : estimate;
    work->tokens += tokens;
    spending_tokens(work, tokens, usage->cost);
    (void) pthread_mutex_lock(&work->agent->lock);
    stats->prompt_tokens += prompt;
    stats->completion_tokens += completion;
    stats->cached_tokens += cached;
    stats->cost += usage->cost > 0 ? usage->cost : 0;
    stats->model_calls++;
    of_model = agent_stats_of(work->agent, work->model);
    if (of_model) {
        of_model->prompt_tokens += prompt;
        of_model->completion_tokens += completion;
        of_model->cached_tokens += cached;
        of_model->cost += usage->cost > 0 ? usage->cost : 0;
        of_model->calls++;
    }
    (void) pthread_mutex_unlock(&work->agent->lock);
}

/* An exchange that is too large is kept as its beginning and its end. */
static char *trace_text(json_t *exchange)
{
    autofree char *text = json_dumps(exchange, JSON_COMPACT);
    size_t len = text ? strlen(text) : 0;
    json_t *cut;
    char *short_text;

    if (!text || len <= TRACE_BYTES_MAX)
        return TAKE_PTR(text);
    cut = json_pack("{s:O?, s:O?, s:I, s:o}", "kind", json_object_get(exchange, "kind"), "status",
                    json_object_get(exchange, "status"), "bytes", (json_int_t) len, "cut",
                    json_text_cut(text, len, TRACE_BYTES_MAX / 4));
    short_text = cut ? json_dumps(cut, JSON_COMPACT) : NULL;
    json_decref(cut);
    return short_text;
}

static void trace_add(struct work *work, const char *kind, json_t *trace,
                      const struct llm_error *error)
{
    json_t *exchange = trace ? json_copy(trace) : json_object();
    autofree char *text = NULL;
    struct gb_err err;

    (void) json_object_set_new(exchange, "kind", json_string(kind));
    audit_request(work, json_object_get(exchange, "request"));
    if (error) {
        (void) json_object_set_new(exchange, "error", json_string(error->message));
        (void) json_object_set_new(exchange, "failure", json_integer(error->failure));
    }
    text = trace_text(exchange);
    json_decref(exchange);
    if (!text || store_trace_add(work->agent->config.store, work->answer->message_id,
                                 ++work->exchange, text, &err) < 0)
        service_log(work->agent->config.service, LOG_LEVEL_WARNING,
                    "mark: answer %s: an exchange is not in the trace: %s",
                    work->answer->message_id, text ? err.msg : "out of memory");
}

static void count_failure(struct work *work)
{
    struct agent_model_stats *of_model;

    (void) pthread_mutex_lock(&work->agent->lock);
    work->agent->stats.model_calls++;
    work->agent->stats.model_failures++;
    of_model = agent_stats_of(work->agent, work->model);
    if (of_model) {
        of_model->calls++;
        of_model->failures++;
    }
    (void) pthread_mutex_unlock(&work->agent->lock);
}

int model_ask(struct work *work, bool tools, struct llm_reply *ret_reply,
              struct llm_error *ret_error)
{
    struct watch watch = { .work = work };
    struct llm_watch callbacks = { .text = on_text,
                                   .thinking = on_thinking,
                                   .call = on_call,
                                   .restart = on_restart,
                                   .waiting = on_waiting,
                                   .arg = &watch };
    struct llm_request request = { .question = work->answer->query,
                                   .messages = work->messages,
                                   .tools =
                                       tools ? tools_all(!work->last, consult_any(work)) : NULL,
                                   .tool = tools && work->last ? "answer" : NULL,
                                   .cache_key = work->answer->chat_id };
    int r;

    *ret_reply = (struct llm_reply){ 0 };
    *ret_error = (struct llm_error){ 0 };
    work->calls++;
    r = llm_chat(work->model, &request, &callbacks, work->cancel_fd, ret_reply, ret_error);
    watch_end(&watch);
    if (r < 0) {
        count_failure(work);
        trace_add(work, "answer", ret_error->trace, ret_error);
        return r;
    }
    add_usage(work, &ret_reply->usage, tokens_estimate(work->messages));
    trace_add(work, "answer", ret_reply->trace, NULL);
    return 0;
}

char *model_ask_aside(struct work *work, const json_t *messages, int64_t max_tokens)
{
    struct llm_request request = { .messages = messages, .max_tokens = max_tokens };
    struct llm_watch nobody = { 0 };
    struct llm_error error = { 0 };
    struct llm_reply reply = { 0 };
    const char *content;
    char *text = NULL;

    if (llm_chat(work->model, &request, &nobody, work->cancel_fd, &reply, &error) < 0) {
        count_failure(work);
        trace_add(work, "summary", error.trace, &error);
        llm_error_release(&error);
        return NULL;
    }
    add_usage(work, &reply.usage, tokens_estimate(messages));
    trace_add(work, "summary", reply.trace, NULL);
    content = json_string_value(json_object_get(reply.message, "content"));
    if (reply.finish == LLM_STOP && content && content[0])
        text = strdup(content);
    llm_reply_release(&reply);
    return text;
}
