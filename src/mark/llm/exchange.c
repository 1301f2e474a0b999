/*
 * A conversation with a model over HTTP: encode, send, decode while it arrives, try again.
 *
 * One call of exchange_chat() may send several requests:
 * - again without a parameter that the server has refused by name; that is remembered for the model
 *   and costs no attempt;
 * - again after a failure that may pass, after a wait (retry.c). A reply that broke in the middle
 * is asked for again too: nothing has been done with it yet, since callers act on calls only when
 * the reply is complete. What the watcher has heard of it is taken back by restart(); if it cannot
 * be told, the failure is final;
 * - the rest of a turn that the server paused.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/utf8.h"
#include "mark/llm/draft.h"
#include "mark/llm/internal.h"
#include "mark/llm/json_in.h"
#include "mark/llm/net.h"
#include "mark/llm/retry.h"
#include "mark/llm/sse.h"

#include "base/banned.h"

#define EVENT_MAX       ((size_t) 16 * 1024 * 1024)
#define ERROR_BODY_MAX  ((size_t) 64 * 1024)
#define ADAPT_MAX       8
#define PAUSES_MAX      8
#define AFTER_END_US    (USEC_PER_SEC / 2) /* for the end of a body whose last event has come */
#define TRACE_TEXT_MAX  4000
#define REPLY_BYTES_MAX (INT64_C(64) * 1024 * 1024)

struct run {
    const struct llm_model *model;
    const struct llm_request *request;
    const struct llm_watch *watch;
    const struct dialect *dialect;
    int64_t started_us;
    unsigned quirks; /* of this request; what the model's server refuses, and QUIRK_NO_MAX */
    int attempts, adapted, pauses;
    json_t *sent; /* the body of the last request */

    struct net_request net;
    struct net_reply reply;
    struct draft draft;
    struct decoder decoder;
    struct sse sse;
    enum { FORM_UNKNOWN, FORM_JSON, FORM_SSE } form;
    struct text body; /* of an error, or of a reply that is no stream */
    int broken;       /* what the decoder said */
};

enum step { STEP_DONE, STEP_GO_ON, STEP_ADAPT, STEP_RETRY, STEP_FAIL };

/* ---- receiving ---- */

static int on_event(void *arg, const char *name, const char *data, size_t len)
{
    struct run *run = arg;

    (void) name; /* the data have a type, too */
    return run->dialect->event(&run->decoder, data, len);
}

static bool take_reply(struct run *run, const char *data, size_t len)
{
    if (run->form == FORM_UNKNOWN) {
        while (len > 0 && strchr(" \t\r\n", *data) && *data) {
            data++;
            len--;
        }
        if (len == 0)
            return true;
        /* No line of an event stream begins like this. */
        run->form = *data == '{' ? FORM_JSON : FORM_SSE;
    }
    if (run->form == FORM_JSON)
        run->broken = text_add(&run->body, data, len, EVENT_MAX);
    else
        run->broken = sse_feed(&run->sse, data, len);
    if (run->decoder.done)
        run->net.idle_us = AFTER_END_US;
    return run->broken == 0;
}

static bool on_data(void *arg, int status, const char *data, size_t len)
{
    struct run *run = arg;

    if (status >= 200 && status < 300)
        return take_reply(run, data, len);
    if (len > ERROR_BODY_MAX - run->body.len)
        len = ERROR_BODY_MAX - run->body.len;
    return text_add(&run->body, data, len, ERROR_BODY_MAX) == 0 && run->body.len < ERROR_BODY_MAX;
}

/* The body has ended. */
static void end_reply(struct run *run)
{
    json_t *json;

    if (run->broken < 0 || run->reply.status < 200 || run->reply.status >= 300)
        return;
    if (run->form == FORM_JSON && run->reply.end == NET_DONE) {
        json = json_in_object(text_str(&run->body), run->body.len);
        run->broken = json ? run->dialect->body(&run->decoder, json) : -EPROTO;
        json_decref(json);
    } else if (run->form == FORM_SSE && run->reply.end == NET_DONE) {
        run->broken = sse_end(&run->sse);
    }
}

/* ---- sending ---- */

static void forget_reply(struct run *run)
{
    text_release(&run->body);
    sse_release(&run->sse);
    run->sse = (struct sse){ .event = on_event, .arg = run, .event_max = EVENT_MAX };
    run->form = FORM_UNKNOWN;
    run->broken = 0;
}

/* A new beginning: what has come so far is void. */
static void forget_all(struct run *run)
{
    forget_reply(run);
    decoder_release(&run->decoder);
    draft_release(&run->draft);
    draft_init(
        &run->draft, run->watch,
        (size_t) (run->model->reply_bytes_max > 0 ? run->model->reply_bytes_max : REPLY_BYTES_MAX));
    decoder_init(&run->decoder, run->model, &run->draft, run->request->max_tokens);
}

static int post(struct run *run)
{
    const struct llm_model *model = run->model;
    autofree char *body = NULL;
    char **headers = NULL;
    int r;

    run->dialect = dialect_of(model, run->quirks);
    run->net.url = run->quirks & QUIRK_RESPONSES ? model->responses_url : model->url;
    r = headers_make(model, run->dialect, &headers);
    json_decref(run->sent);
    run->sent = run->dialect->encode(model, run->request, run->quirks, run->decoder.blocks);
    body = run->sent ? json_dumps(run->sent, JSON_COMPACT) : NULL;
    if (r == 0 && body) {
        run->net.headers = (const char *const *) headers;
        run->net.body = body;
        run->net.body_len = strlen(body);
        run->net.idle_us = model->idle_us;
        net_exchange(model->net, &run->net, &run->reply);
        run->net.headers = NULL;
        run->net.body = NULL;
    }
    headers_free(headers);
    return r < 0 || !body ? -ENOMEM : 0;
}

/* ---- judging ---- */

/* The error object of a body, in any of the forms in use; a borrowed reference. */
static const json_t *error_of(const json_t *body)
{
    static const char *const names[] = { "error", "detail", "message" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const json_t *error = json_object_get(body, names[i]);

        if (json_is_object(error) || json_is_string(error))
            return i == 2 ? body : error;
    }
    return body;
}

static struct retry_facts facts_of(const struct run *run, int status, const json_t *error)
{
    return (struct retry_facts){
        .status = status,
        .should_retry = run->reply.should_retry[0] ? run->reply.should_retry : NULL,
        .retry_after_ms = run->reply.retry_after_ms[0] ? run->reply.retry_after_ms : NULL,
        .retry_after = run->reply.retry_after[0] ? run->reply.retry_after : NULL,
        .error = error,
    };
}

static const char *hint_for(const struct run *run, enum llm_failure failure, int status)
{
    if (failure == LLM_DENIED)
        return run->model->key ? "; check the key of this model" : "; it needs a key: --model-key";
    if (failure == LLM_UNPAID)
        return "; add credit or raise the limit at the provider";
    if (status == 404)
        return "; check the URL and the model's name";
    return "";
}

static bool says_no_tools(const json_t *error)
{
    const char *message = retry_message(error);

    return message && (strstr(message, "does not support tools") ||
                       strstr(message, "requires --enable-auto-tool-choice") ||
                       strstr(message, "tools param requires --jinja"));
}

static bool says_thoughts(const json_t *error)
{
    const char *message = retry_message(error);

    return message && strstr(message, "thinking") && !strstr(message, "tool_choice");
}

/* Between the two APIs of OpenAI: to the newer one if the server says that this model takes tools
 * only there, and back if it has not got it. */
static bool adapt_api(struct run *run, int status, const json_t *error)
{
    const char *message = retry_message(error);
    unsigned back = QUIRK_NO_RESPONSES | QUIRK_NO_EFFORT;

    if (run->model->kind != LLM_KIND_OPENAI || run->quirks & QUIRK_NO_RESPONSES)
        return false;
    if (run->quirks & QUIRK_RESPONSES) {
        if (status != 404 && status != 405 && status != 501)
            return false;
        run->quirks = (run->quirks & ~(unsigned) QUIRK_RESPONSES) | back;
        (void) atomic_fetch_and(&run->model->learned->quirks, ~(unsigned) QUIRK_RESPONSES);
        (void) atomic_fetch_or(&run->model->learned->quirks, back);
    } else {
        if (!message || !strstr(message, "/v1/responses"))
            return false;
        run->quirks |= QUIRK_RESPONSES;
        (void) atomic_fetch_or(&run->model->learned->quirks, QUIRK_RESPONSES);
    }
    run->adapted++;
    return true;
}

/* Whether the same request can do without what the server does not like. */
static bool adapt(struct run *run, int status, const json_t *error, enum llm_failure failure)
{
    unsigned quirk = 0;

    if (run->adapted >= ADAPT_MAX)
        return false;
    if (failure == LLM_TOO_LONG && run->request->max_tokens > 0 &&
        run->model->kind == LLM_KIND_OPENAI && !(run->quirks & QUIRK_NO_MAX)) {
        run->quirks |= QUIRK_NO_MAX; /* prompt and reply together may have been too long */
        run->adapted++;
        return true;
    }
    if (failure == LLM_INVALID && adapt_api(run, status, error))
        return true;
    if (failure == LLM_INVALID && run->model->kind == LLM_KIND_ANTHROPIC && says_thoughts(error) &&
        !(run->quirks & QUIRK_NO_THOUGHTS)) {
        run->quirks |= QUIRK_NO_THOUGHTS; /* they belong to a conversation that was changed */
        run->adapted++;
        return true;
    }
    if (failure == LLM_INVALID || failure == LLM_UNREACHABLE)
        quirk = quirk_for(run->model->kind, run->quirks, status, error);
    if (quirk == 0)
        return false;
    run->quirks |= quirk;
    (void) atomic_fetch_or(&run->model->learned->quirks, quirk);
    run->adapted++;
    return true;
}

/* What the server says, without the key: before it is cut, because half a key is a secret too. */
static char *words_of(const struct run *run, const json_t *error)
{
    const char *message = retry_message(error);
    char *copy = message ? strdup(message) : NULL;

    if (copy) {
        llm_redact_text(copy, run->model->key);
        llm_make_printable(copy);
    }
    return copy;
}

static enum step judge_error(struct run *run, int status, const json_t *error,
                             struct llm_error *ret_error)
{
    struct retry_facts facts = facts_of(run, status, error);
    enum llm_failure failure = retry_failure(&facts);
    autofree char *message = words_of(run, error);

    if (json_array_size(run->request->tools) > 0 && says_no_tools(error))
        atomic_store(&run->model->learned->no_tools, true);
    else if (!run->draft.told && adapt(run, status, error, failure))
        return STEP_ADAPT;
    ret_error->retry_us = retry_told_us(&facts, clock_wall_us());
    if (status >= 300 && status < 400)
        (void) llm_error_set(ret_error, LLM_INVALID, status,
                             "%s at %s redirects to '%.100s', which is not followed; use that URL",
                             run->model->model, run->model->where, run->reply.location);
    else
        (void) llm_error_set(ret_error, failure, status, "%s at %s replied %d%s%.140s%s",
                             run->model->model, run->model->where, status, message ? ": " : "",
                             message ? message : "", hint_for(run, failure, status));
    return retry_may(&facts, clock_wall_us()) ? STEP_RETRY : STEP_FAIL;
}

static enum step judge_refused(struct run *run, struct llm_error *ret_error)
{
    json_t *body = json_in_object(text_str(&run->body), run->body.len);
    const json_t *error = error_of(body);
    json_t *text = NULL;
    enum step step;

    if (!error && run->body.len > 0) /* a page of a proxy, say */
        error = text = json_stringn(text_str(&run->body), run->body.len);
    step = judge_error(run, run->reply.status, error, ret_error);
    json_decref(text);
    json_decref(body);
    return step;
}

/* The reply was accepted, and broke. */
static enum step judge_broken(struct run *run, struct llm_error *ret_error)
{
    const struct llm_model *model = run->model;

    if (run->broken == -ECONNABORTED)
        return judge_error(run, retry_status_of(run->decoder.error), run->decoder.error, ret_error);
    (void) llm_error_set(ret_error, LLM_BROKEN, run->reply.status,
                         run->broken == -EMSGSIZE ? "%s at %s sends more than fits into a reply"
                         : run->broken == -ENOMEM ? "there is no memory for the reply of %s at %s"
                                                  : "%s at %s sends what is not JSON",
                         model->model, model->where);
    return STEP_FAIL;
}

static enum step judge_unreachable(struct run *run, struct llm_error *ret_error)
{
    const struct llm_model *model = run->model;
    struct retry_facts facts = facts_of(run, 0, NULL);

    if (run->reply.end == NET_SILENT)
        (void) llm_error_set(ret_error, LLM_UNREACHABLE, run->reply.status,
                             "%s at %s has sent nothing for %d s", model->model, model->where,
                             (int) (model->idle_us / USEC_PER_SEC));
    else if (run->reply.end == NET_DONE)
        (void) llm_error_set(ret_error, LLM_UNREACHABLE, run->reply.status,
                             "the reply of %s at %s ended in the middle", model->model,
                             model->where);
    else
        (void) llm_error_set(ret_error, LLM_UNREACHABLE, run->reply.status,
                             "no connection with %s at %s: %s", model->model, model->where,
                             run->reply.why);
    return retry_may(&facts, clock_wall_us()) ? STEP_RETRY : STEP_FAIL;
}

/* Whether the reply is whole. Some servers count tokens in every chunk, so that a count came is the
 * end only of a body that has ended, too. */
static bool is_whole(const struct run *run)
{
    return run->dialect->complete(&run->decoder) &&
           (run->decoder.done || run->decoder.finish[0] || run->reply.end == NET_DONE);
}

static enum step judge(struct run *run, struct llm_error *ret_error)
{
    const struct llm_model *model = run->model;
    int status = run->reply.status;

    if (run->reply.end == NET_CANCELLED) {
        (void) llm_error_set(ret_error, LLM_CANCELLED, status, "cancelled");
        return STEP_FAIL;
    }
    if (run->reply.end == NET_NO_MEMORY) {
        (void) llm_error_set(ret_error, LLM_BROKEN, status, "there is no memory for a request");
        return STEP_FAIL;
    }
    if (status >= 300)
        return judge_refused(run, ret_error);
    if (run->broken < 0)
        return judge_broken(run, ret_error);
    if (run->reply.end == NET_TOO_LARGE) {
        (void) llm_error_set(ret_error, LLM_BROKEN, status, "%s at %s sends more than %lld bytes",
                             model->model, model->where, (long long) run->net.bytes_max);
        return STEP_FAIL;
    }
    if (is_whole(run))
        return run->dialect->paused && run->dialect->paused(&run->decoder) &&
                       run->pauses < PAUSES_MAX
                   ? STEP_GO_ON
                   : STEP_DONE;
    if (run->reply.end == NET_DONE && !run->draft.told && !run->sse.has_events && status != 0) {
        (void) llm_error_set(
            ret_error, LLM_BROKEN, status,
            "%s at %s replies with %s instead of a stream of events; check the URL", model->model,
            model->where, run->reply.content_type[0] ? run->reply.content_type : "nothing");
        return STEP_FAIL;
    }
    return judge_unreachable(run, ret_error);
}

/* ---- the loop ---- */

static double jitter(void)
{
    return (double) randombytes_uniform(1 << 20) / (double) (1 << 20);
}

/* Waits before the next attempt. STEP_FAIL: there is none. */
static enum step prepare_retry(struct run *run, struct llm_error *error)
{
    const struct llm_watch *watch = run->watch;
    struct retry_facts facts = facts_of(run, error->status, NULL);
    bool heard = run->draft.told && (watch->text || watch->thinking || watch->call);
    int64_t us;

    if (run->attempts > run->model->retries || (heard && !watch->restart))
        return STEP_FAIL;
    if (heard)
        watch->restart(watch->arg);
    us = retry_wait_us(&facts, run->attempts - 1, jitter(), clock_wall_us());
    if (watch->waiting)
        watch->waiting(watch->arg, us, error->message);
    if (llm_pause(us, run->net.cancel_fd) < 0) {
        (void) llm_error_set(error, LLM_CANCELLED, error->status, "cancelled");
        return STEP_FAIL;
    }
    forget_all(run);
    return STEP_RETRY;
}

/* The next part of a paused turn. */
static void go_on(struct run *run)
{
    run->pauses++;
    forget_reply(run);
    run->decoder.finish[0] = '\0';
    run->decoder.done = false;
    run->decoder.blocks_base = json_array_size(run->decoder.blocks);
}

static int converse(struct run *run, struct llm_error *ret_error)
{
    forget_all(run);
    for (;;) {
        enum step step;

        run->attempts++;
        if (post(run) < 0)
            return llm_error_set(ret_error, LLM_BROKEN, 0, "there is no memory for a request");
        end_reply(run);
        step = judge(run, ret_error);
        if (step == STEP_RETRY)
            step = prepare_retry(run, ret_error);
        switch (step) {
        case STEP_DONE:
            return 0;
        case STEP_FAIL:
            return -1;
        case STEP_GO_ON:
            run->attempts--;
            go_on(run);
            break;
        case STEP_ADAPT:
            run->attempts--;
            forget_all(run);
            break;
        case STEP_RETRY:
            break;
        }
    }
}

/* ---- the trace ---- */

static json_t *trace_text(const struct run *run)
{
    autofree char *copy = strdup(text_str(&run->body));
    size_t len;

    if (!copy)
        return NULL;
    llm_redact_text(copy, run->model->key);
    llm_make_printable(copy);
    len = strlen(copy);
    if (len > TRACE_TEXT_MAX)
        len = TRACE_TEXT_MAX - utf8_partial_end(copy, TRACE_TEXT_MAX);
    return json_stringn(copy, len);
}

static json_t *trace_reply(const struct run *run, const struct llm_reply *reply)
{
    json_t *out = json_object(), *body;
    const struct text *thinking = &run->draft.thinking;

    if (reply->message)
        (void) json_object_set_new(out, "message", json_deep_copy(reply->message));
    if (thinking->len > 0)
        (void) json_object_set_new(out, "thinking", json_stringn(thinking->data, thinking->len));
    if (run->decoder.finish[0])
        (void) json_object_set_new(out, "finish", json_string(run->decoder.finish));
    if (run->decoder.usage)
        (void) json_object_set_new(out, "usage", json_deep_copy(run->decoder.usage));
    if (run->decoder.error)
        (void) json_object_set_new(out, "error", json_deep_copy(run->decoder.error));
    if (!reply->message && run->body.len > 0) {
        body = json_in_object(text_str(&run->body), run->body.len);
        (void) json_object_set_new(out, "body", body ? body : trace_text(run));
    }
    (void) llm_redact_json(out, run->model->key);
    return out;
}

static json_t *trace_of(const struct run *run, const struct llm_reply *reply)
{
    const char *id = run->reply.request_id;
    json_t *out =
        json_pack("{s:O?, s:o, s:i, s:i, s:f}", "request", run->sent, "reply",
                  trace_reply(run, reply), "status", run->reply.status, "attempts", run->attempts,
                  "seconds", (double) (clock_now_us() - run->started_us) / 1e6);

    if (out && id[0])
        (void) json_object_set_new(out, "request_id", json_string(id));
    return out;
}

static int take_result(struct run *run, struct llm_reply *ret_reply, struct llm_error *ret_error)
{
    int r = draft_end(&run->draft);

    if (r == 0)
        r = run->dialect->finish(&run->decoder, ret_reply);
    if (r < 0)
        return llm_error_set(ret_error, LLM_BROKEN, run->reply.status,
                             "there is no memory for the reply of %s", run->model->model);
    (void) llm_redact_json(ret_reply->message, run->model->key);
    ret_reply->usage.cost = llm_cost(&run->model->price, &ret_reply->usage);
    if (ret_reply->usage.cost >= 0)
        ret_reply->usage.cost += run->decoder.written_cost;
    return 0;
}

int exchange_chat(const struct llm_model *model, const struct llm_request *request,
                  const struct llm_watch *watch, int cancel_fd, struct llm_reply *ret_reply,
                  struct llm_error *ret_error)
{
    struct run run = {
        .model = model,
        .request = request,
        .watch = watch,
        .started_us = clock_now_us(),
        .quirks = atomic_load(&model->learned->quirks),
        .net = { .loopback = model->loopback,
                 .connect_us = model->connect_us,
                 .idle_us = model->idle_us,
                 .bytes_max = model->reply_bytes_max,
                 .cancel_fd = cancel_fd,
                 .data = on_data },
    };
    int r;

    run.net.arg = &run;
    r = converse(&run, ret_error);
    if (r == 0)
        r = take_result(&run, ret_reply, ret_error);
    if (r == 0) {
        ret_reply->trace = trace_of(&run, ret_reply);
    } else {
        llm_redact_text(ret_error->message, model->key);
        ret_error->trace = trace_of(&run, ret_reply);
    }
    forget_reply(&run);
    decoder_release(&run.decoder);
    draft_release(&run.draft);
    json_decref(run.sent);
    return r;
}
