/*
 * Calls: from the incoming message to the response.
 *
 * receive_request() determines era, peer and method, and starts the method. Most calls end there.
 * One that takes time leaves a step function behind, which the driver calls again and again through
 * mcp_call_next(); in between it fetches the messages that the step has put into call->out.
 * Messages are serialised where they are created and stay text from there on. Only cancelling and
 * answering come from other threads, and only they need call->lock.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/thread.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

/* ---- creation and release ---- */

struct mcp_call *call_new(struct mcp *mcp, const struct mcp_arrival *arrival)
{
    struct mcp_call *call = calloc(1, sizeof *call);

    if (!call)
        return NULL;
    call->mcp = mcp;
    call->refs = 1;
    call->transport = arrival->transport;
    call->era = MCP_LEGACY;
    call->caller = *arrival->caller;
    call->log_level = MCP_LOG_OFF;
    call->status = 200;
    call->progress = -1;
    call->number = -1;
    call->out_end = &call->out;
    pthread_mutex_init(&call->lock, NULL);
    pthread_mutex_init(&call->drive, NULL);
    cond_init(&call->wake);
    return call;
}

/* The oldest queued message, or NULL. */
static char *take_message(struct mcp_call *call)
{
    struct queued *first = call->out;
    char *text;

    if (!first)
        return NULL;
    text = first->text;
    call->out = first->next;
    if (!call->out)
        call->out_end = &call->out;
    free(first);
    return text;
}

struct mcp_call *mcp_call_ref(struct mcp_call *call)
{
    atomic_fetch_add(&call->refs, 1);
    return call;
}

void mcp_call_unref(struct mcp_call *call)
{
    char *text;

    if (!call || atomic_fetch_sub(&call->refs, 1) > 1)
        return;
    if (call->work_free)
        call->work_free(call->work);
    execution_unref(call->execution);
    json_decref(call->message);
    json_decref(call->request_state);
    while ((text = take_message(call)))
        free(text);
    free(call->response);
    json_decref(call->answer);
    outbox_free(call->log);
    mcp_peer_unref(call->peer);
    pthread_cond_destroy(&call->wake);
    pthread_mutex_destroy(&call->drive);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

struct mcp *call_mcp(const struct mcp_call *call)
{
    return call->mcp;
}

/* ---- ending a call ---- */

bool call_is_over(const struct mcp_call *call)
{
    return call->over;
}

/* Members of every result of the new era. */
static void add_marks(struct mcp_call *call, json_t *result)
{
    const struct mcp_method *method = call->method;
    json_t *meta = message_object(result, "_meta");

    if (!json_object_get(result, "resultType"))
        (void) json_object_set_new(result, "resultType", json_string("complete"));
    if (!meta) {
        meta = json_object();
        (void) json_object_set_new(result, "_meta", meta);
    }
    (void) json_object_set_new(meta, MCP_META "serverInfo", mcp_server_info());
    if (method && method->ttl_ms >= 0) {
        (void) json_object_set_new(result, "ttlMs", json_integer(method->ttl_ms));
        (void) json_object_set_new(result, "cacheScope", json_string(method->scope));
    }
}

void call_reply_text(struct mcp_call *call, char *text)
{
    if (call->over) {
        free(text);
        return;
    }
    call->response = text;
    call->over = true;
}

void call_reply_with(struct mcp_call *call, json_t *result, const char *name, const char *json)
{
    if (call->over) {
        json_decref(result);
        return;
    }
    if (!result) {
        call_fail(call, MCP_INTERNAL, "out of memory; try again later");
        return;
    }
    if (call->era == MCP_MODERN)
        add_marks(call, result);
    call_reply_text(call, message_response(call->id, "result", result, name, json));
}

void call_reply(struct mcp_call *call, json_t *result)
{
    call_reply_with(call, result, NULL, NULL);
}

static int status_of(enum mcp_era era, int code)
{
    if (code == MCP_PARSE_ERROR || code == MCP_INVALID_REQUEST || code == MCP_HEADER_MISMATCH ||
        code == MCP_NO_CAPABILITY || code == MCP_NO_VERSION)
        return 400;
    if (code == MCP_NO_SESSION)
        return 404;
    return code == MCP_NO_METHOD && era == MCP_MODERN ? 404 : 200;
}

__attribute__((format(printf, 4, 0))) static void fail(struct mcp_call *call, int code,
                                                       json_t *data, const char *fmt, va_list ap)
{
    json_t *error;
    char text[512];

    if (call->over) {
        json_decref(data);
        return;
    }
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        text[0] = '\0';
    /* json_pack() refuses text that is not UTF-8, such as text that was cut within a character. */
    error = json_pack("{s:i, s:s}", "code", code, "message", text);
    if (!error)
        error = json_pack("{s:i, s:s}", "code", code, "message", "the request failed");
    if (data)
        (void) json_object_set_new(error, "data", data);
    call->failed = true;
    call->status = status_of(call->era, code);
    call_reply_text(call, message_response(call->id, "error", error, NULL, NULL));
}

void call_fail(struct mcp_call *call, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fail(call, code, NULL, fmt, ap);
    va_end(ap);
}

void call_fail_data(struct mcp_call *call, int code, json_t *data, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fail(call, code, data, fmt, ap);
    va_end(ap);
}

void call_fail_fault(struct mcp_call *call, const struct fault *fault)
{
    int code = fault->kind >= FAULT_INTERNAL || fault->kind == FAULT_TOO_MANY ? MCP_INTERNAL
                                                                              : MCP_INVALID_PARAMS;

    call_fail(call, code, "%s", fault->detail);
}

/* ---- messages before the end ---- */

void call_put(struct mcp_call *call, char *text)
{
    struct queued *queued = text ? malloc(sizeof *queued) : NULL;

    if (!queued) {
        free(text);
        return;
    }
    *queued = (struct queued){ NULL, text };
    *call->out_end = queued;
    call->out_end = &queued->next;
}

void call_notify(struct mcp_call *call, const char *method, json_t *params)
{
    json_t *message = message_notification(method, params);

    call_put(call, message ? json_dumps(message, MCP_JSON) : NULL);
    json_decref(message);
}

void call_log(struct mcp_call *call, enum log_level level, const char *logger, const char *text,
              size_t len)
{
    if ((int) level <= call->log_level)
        call_notify(call, "notifications/message",
                    json_pack("{s:s, s:s, s:s%}", "level", log_level_names[level], "logger", logger,
                              "data", text, len));
}

void call_progress(struct mcp_call *call, double progress, double total, const char *message)
{
    json_t *params;

    if (!call->progress_token || progress <= call->progress)
        return;
    call->progress = progress;
    params = json_pack("{s:O, s:f}", "progressToken", call->progress_token, "progress", progress);
    if (params && total >= 0)
        (void) json_object_set_new(params, "total", json_real(total));
    if (params && message)
        (void) json_object_set_new(params, "message", json_string(message));
    call_notify(call, "notifications/progress", params);
}

/* ---- work that takes time ---- */

void call_continue(struct mcp_call *call, void (*step)(struct mcp_call *call, int64_t timeout_us),
                   void *work, void (*work_free)(void *work))
{
    call->step = step;
    call->work = work;
    call->work_free = work_free;
}

void *call_work(const struct mcp_call *call)
{
    return call->work;
}

/* ---- events from outside ---- */

void call_wait(struct mcp_call *call, int64_t timeout_us)
{
    int64_t deadline = clock_now_us() + timeout_us;
    struct timespec until = { deadline / USEC_PER_SEC, deadline % USEC_PER_SEC * 1000 };

    pthread_mutex_lock(&call->lock);
    if (!call->cancelled && !call->answer)
        (void) pthread_cond_timedwait(&call->wake, &call->lock, &until);
    pthread_mutex_unlock(&call->lock);
}

void call_set_execution(struct mcp_call *call, struct execution *execution)
{
    struct fault fault;
    bool cancelled;

    pthread_mutex_lock(&call->lock);
    execution_unref(call->execution);
    call->execution = execution_ref(execution);
    cancelled = call->cancelled;
    pthread_mutex_unlock(&call->lock);
    snprintf(call->execution_id, sizeof call->execution_id, "%s", execution_id(execution));
    if (cancelled)
        (void) execution_interrupt(execution, &fault);
}

void mcp_call_cancel(struct mcp_call *call)
{
    struct execution *execution;
    struct fault fault;

    pthread_mutex_lock(&call->lock);
    execution =
        call->cancelled || call->ended || !call->execution ? NULL : execution_ref(call->execution);
    call->cancelled = true;
    pthread_cond_broadcast(&call->wake);
    pthread_mutex_unlock(&call->lock);
    if (execution)
        (void) execution_interrupt(execution, &fault);
    execution_unref(execution);
}

bool mcp_call_is_cancelled(struct mcp_call *call)
{
    bool cancelled;

    pthread_mutex_lock(&call->lock);
    cancelled = call->cancelled;
    pthread_mutex_unlock(&call->lock);
    return cancelled;
}

/* ---- for its method ---- */

const char *call_text(struct mcp_call *call, const char *name, bool required)
{
    const json_t *value = json_object_get(call->params, name);

    if (json_is_string(value))
        return json_string_value(value);
    if (value || required)
        call_fail(call, MCP_INVALID_PARAMS, "%s must be a string", name);
    return NULL;
}

int call_session(struct mcp_call *call, const char *id, struct session **ret_session,
                 struct fault *fault)
{
    int r = 0;

    *ret_session = NULL;
    if (id)
        r = session_find(call->mcp->config.service, &call->caller, id, ret_session, fault);
    else if (call->peer && call->peer->keeps)
        r = peer_session(call->peer, &call->caller, ret_session, fault);
    if (r == 0 && *ret_session)
        snprintf(call->session_id, sizeof call->session_id, "%s", session_id(*ret_session));
    return r;
}

/* ---- driving ---- */

static void release_work(struct mcp_call *call)
{
    struct execution *execution;

    if (call->work_free)
        call->work_free(call->work);
    call->work = NULL;
    call->work_free = NULL;
    pthread_mutex_lock(&call->lock);
    execution = TAKE_PTR(call->execution);
    pthread_mutex_unlock(&call->lock);
    execution_unref(execution);
}

int mcp_call_next(struct mcp_call *call, int64_t timeout_us, char **ret_text)
{
    int64_t deadline = clock_now_us() + timeout_us, left = timeout_us;
    char *text;

    while (!(text = take_message(call)) && !call->over) {
        if (left < 0)
            return 0;
        call->step(call, left);
        left = deadline - clock_now_us();
    }
    if (!text) {
        if (call->told) {
            release_work(call); /* a kept call must not hold a session */
            return -1;
        }
        call->told = true;
        peer_leave(call);
        text = TAKE_PTR(call->response);
        if (!text)
            return -1;
    }
    *ret_text = text;
    return 1;
}

bool mcp_call_is_done(const struct mcp_call *call)
{
    return call->told;
}

int mcp_call_status(const struct mcp_call *call)
{
    return call->status;
}

bool mcp_call_takes_time(const struct mcp_call *call)
{
    return call->step && !call->over;
}

bool mcp_call_is_modern(const struct mcp_call *call)
{
    return call->era == MCP_MODERN;
}

struct mcp_peer *mcp_call_peer(const struct mcp_call *call)
{
    return call->peer;
}

const char *mcp_call_new_session(const struct mcp_call *call)
{
    return call->begins_session && call->over && !call->failed ? call->peer->id : NULL;
}

const char *mcp_call_session_id(const struct mcp_call *call)
{
    return call->session_id;
}

const char *mcp_call_execution_id(const struct mcp_call *call)
{
    return call->execution_id;
}

void call_close_stream(struct mcp_call *call)
{
    pthread_mutex_lock(&call->lock);
    call->close_stream = true;
    pthread_mutex_unlock(&call->lock);
}

bool mcp_call_wants_close(struct mcp_call *call)
{
    bool wants;

    pthread_mutex_lock(&call->lock);
    wants = call->close_stream;
    call->close_stream = false;
    pthread_mutex_unlock(&call->lock);
    return wants;
}

/* ---- kept messages ---- */

int mcp_call_keep(struct mcp_call *call)
{
    if (!call->peer || call->number < 0)
        return -1;
    if (!call->log)
        call->log = outbox_new();
    return call->log ? call->number : -1;
}

unsigned mcp_call_claim(struct mcp_call *call)
{
    return atomic_fetch_add(&call->claim, 1) + 1;
}

int mcp_call_read(struct mcp_call *call, unsigned claim, uint64_t *pos, int64_t timeout_us,
                  char **ret_text)
{
    unsigned inner = 0;
    char *text;
    int r = 1;

    pthread_mutex_lock(&call->drive);
    if (claim != atomic_load(&call->claim)) {
        pthread_mutex_unlock(&call->drive);
        return -1;
    }
    if (!outbox_has(call->log, *pos)) {
        r = mcp_call_next(call, timeout_us, &text);
        if (r > 0)
            (void) outbox_put(call->log, text, PUT_FORCE);
    }
    if (r > 0) {
        inner = outbox_claim(call->log);
        r = outbox_next(call->log, inner, pos, 0, ret_text) > 0 ? 1 : -1;
    }
    pthread_mutex_unlock(&call->drive);
    return r;
}

void mcp_call_forget(struct mcp_call *call)
{
    if (call->peer && call->log)
        peer_forget(call);
}

/* ---- on a separate thread ---- */

static int start_thread(struct mcp_call *call, void *(*run)(void *call))
{
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    peer_detached(call->mcp, 1, NULL);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    r = pthread_create(&thread, &attr, run, call);
    pthread_attr_destroy(&attr);
    return -r;
}

static void *detached_main(void *arg)
{
    struct mcp_call *call = arg;
    char *text;
    int r;

    while ((r = mcp_call_next(call, USEC_PER_SEC, &text)) >= 0) {
        if (r == 0)
            continue;
        if (call->told && mcp_call_is_cancelled(call))
            free(text); /* no client waits for it any more */
        else
            (void) outbox_put(call->peer->outbox, text, call->told ? PUT_WAIT : PUT_MAY);
    }
    peer_detached(call->mcp, -1, call);
    return NULL;
}

void mcp_call_detach(struct mcp_call *call)
{
    char *text;

    if (start_thread(call, detached_main) == 0)
        return;
    mcp_call_cancel(call);
    call_fail(call, MCP_INTERNAL, "too many requests are running; try again later");
    while (mcp_call_next(call, 0, &text) > 0)
        (void) outbox_put(call->peer->outbox, text, PUT_MAY);
    peer_detached(call->mcp, -1, call);
}

/* Only the response is kept, because nobody reads the messages before it. */
static void *parked_main(void *arg)
{
    struct mcp_call *call = arg;
    unsigned claim = mcp_call_claim(call);
    char *text;
    int r = 0;

    while (r >= 0) {
        pthread_mutex_lock(&call->drive);
        r = claim == atomic_load(&call->claim) ? mcp_call_next(call, USEC_PER_SEC, &text) : -1;
        if (r > 0 && call->told)
            (void) outbox_put(call->log, text, PUT_FORCE);
        else if (r > 0)
            free(text);
        pthread_mutex_unlock(&call->drive);
    }
    peer_detached(call->mcp, -1, call);
    return NULL;
}

void mcp_call_park(struct mcp_call *call)
{
    if (start_thread(call, parked_main) == 0)
        return;
    mcp_call_cancel(call);
    peer_leave(call);
    peer_detached(call->mcp, -1, call);
}
