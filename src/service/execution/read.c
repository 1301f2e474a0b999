/*
 * Executions as others see them: found by id, waited for, interrupted, read.
 *
 * A reader has a cursor and asks for the next event. Nothing is queued for it: text comes from the
 * logs, displays from the list, the rest from the outcome, so a reader may come late, be slow,
 * leave and come back, and costs the run at most a wake-up. Data is copied, or read from a file,
 * outside the execution's lock; JSON is parsed outside of it too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/utf8.h"
#include "engine/frame.h"
#include "service/execution/bundle.h"
#include "service/execution/execution.h"
#include "service/execution/receipt.h"
#include "service/session/session.h"

#include "base/banned.h"

#define CHUNK ((size_t) 16 * 1024)

int execution_find(struct service *service, const struct caller *caller, const char *id,
                   struct execution **ret_execution, struct fault *fault)
{
    struct execution *x = NULL;
    struct id_node *node;

    pthread_mutex_lock(&service->lock);
    node = id_table_find(&service->executions, id);
    if (node) {
        x = ID_NODE_OF(node, struct execution, node);
        if (principal_equal(&x->principal, &caller->principal))
            execution_ref(x);
        else
            x = NULL;
    }
    pthread_mutex_unlock(&service->lock);
    if (!x)
        return fault_set(fault, PROBLEM_EXECUTION_UNKNOWN, "execution_id",
                         "no such execution; check the id. Executions are kept only for a while "
                         "after they end");
    *ret_execution = x;
    return 0;
}

const char *execution_id(const struct execution *x)
{
    return x->id;
}

const char *execution_session_id(const struct execution *x)
{
    return x->session_id[0] ? x->session_id : NULL;
}

enum execution_state execution_state(struct execution *x)
{
    enum execution_state state;

    pthread_mutex_lock(&x->lock);
    state = x->state;
    pthread_mutex_unlock(&x->lock);
    return state;
}

/* With the lock held: waits for a change; false on timeout. A negative deadline means none. */
static bool news_wait(struct execution *x, int64_t deadline_us)
{
    struct timespec ts;
    int r;

    x->readers++;
    if (deadline_us < 0) {
        r = pthread_cond_wait(&x->cond, &x->lock);
    } else {
        ts.tv_sec = deadline_us / USEC_PER_SEC;
        ts.tv_nsec = deadline_us % USEC_PER_SEC * 1000;
        r = pthread_cond_timedwait(&x->cond, &x->lock, &ts);
    }
    x->readers--;
    return r != ETIMEDOUT;
}

static int64_t deadline_after(int64_t timeout_us)
{
    int64_t now = clock_now_us();

    if (timeout_us < 0 || timeout_us > INT64_MAX - now)
        return -1;
    return now + timeout_us;
}

bool execution_wait(struct execution *x, int64_t timeout_us)
{
    int64_t deadline = deadline_after(timeout_us);
    bool done;

    pthread_mutex_lock(&x->lock);
    while (x->state != EXECUTION_DONE && timeout_us != 0 && news_wait(x, deadline))
        ;
    done = x->state == EXECUTION_DONE;
    pthread_mutex_unlock(&x->lock);
    return done;
}

int execution_interrupt(struct execution *x, struct fault *fault)
{
    struct session *session = NULL;
    uint64_t one = 1;
    bool done;

    pthread_mutex_lock(&x->lock);
    done = x->state == EXECUTION_DONE;
    if (!done)
        atomic_store(&x->interrupted, true);
    if (x->cancel_fd >= 0)
        (void) !write(x->cancel_fd, &one, sizeof one);
    else if (x->state == EXECUTION_WAITING && x->session)
        session = session_ref(x->session);
    pthread_mutex_unlock(&x->lock);
    if (session) {
        turn_wake(session, x);
        session_unref(session);
    }
    if (done)
        return fault_set(fault, PROBLEM_EXECUTION_ENDED, NULL, "this execution has already ended");
    return 0;
}

void execution_interrupt_all(struct service *service)
{
    struct execution **list, *x;
    struct fault ignored;
    size_t len = 0;

    /* Called without the lock: the last reference to a session may be dropped on the way. */
    pthread_mutex_lock(&service->lock);
    list = calloc((size_t) service->in_flight + 1, sizeof *list);
    TAILQ_FOREACH_REVERSE(x, &service->live, execution_list, in_list)
    if (list)
        list[len++] = execution_ref(x);
    pthread_mutex_unlock(&service->lock);
    /* Newest first: an execution that waits must not get the turn of one that is stopped. */
    for (size_t i = 0; i < len; i++) {
        (void) execution_interrupt(list[i], &ignored);
        execution_unref(list[i]);
    }
    free(list);
}

/* ---- the receipt ---- */

static json_t *progress_to_json(struct execution *x, enum execution_state state, int64_t out,
                                int64_t err, int64_t started_us)
{
    double seconds = 0;

    if (state == EXECUTION_RUNNING)
        seconds = (double) (clock_now_us() - started_us) / USEC_PER_SEC;
    return json_pack("{s:s, s:s, s:s?, s:f, s:{s:I, s:I}}", "status",
                     state == EXECUTION_RUNNING ? "running" : "waiting", "execution_id", x->id,
                     "session_id", execution_session_id(x), "execution_time", seconds, "output",
                     "stdout", (json_int_t) out, "stderr", (json_int_t) err);
}

/* After DONE nothing changes. */
static struct receipt_ids ids_of(struct execution *x)
{
    return (struct receipt_ids){
        .session_id = execution_session_id(x),
        .execution_id = x->id,
        .execution_count = x->session_id[0] ? x->execution_count : 1,
        .template = x->template,
        .session_lost = x->session_lost,
        .shell_lost = x->shell_lost,
        .contacts = x->contacts,
        .contacts_len = x->contacts_len,
    };
}

bool execution_receipt_text(struct execution *x, char **ret_text, size_t *ret_len)
{
    struct receipt_ids ids;
    bool good;

    pthread_mutex_lock(&x->lock);
    good = x->state == EXECUTION_DONE && x->fault.kind == FAULT_NONE;
    pthread_mutex_unlock(&x->lock);
    if (!good)
        return false;
    ids = ids_of(x);
    return receipt_to_text(&x->outcome, &ids, ret_text, ret_len) == 0;
}

int execution_receipt(struct execution *x, json_t **ret_json, struct fault *fault)
{
    struct receipt_ids ids;
    int64_t out, err_total, started;
    enum execution_state state;
    struct gb_err err;
    json_t *json;

    pthread_mutex_lock(&x->lock);
    state = x->state;
    out = x->logs[STREAM_OUT].total;
    err_total = x->logs[STREAM_ERR].total;
    started = x->started_us;
    pthread_mutex_unlock(&x->lock);
    if (state != EXECUTION_DONE) {
        json = progress_to_json(x, state, out, err_total, started);
        if (!json)
            return fault_no_memory(fault);
        *ret_json = json;
        return 0;
    }
    if (x->fault.kind != FAULT_NONE) {
        *fault = x->fault;
        return -1;
    }
    ids = ids_of(x);
    if (receipt_to_json(&x->outcome, &ids, ret_json, &err) < 0)
        return fault_no_memory(fault);
    return 0;
}

/* ---- events ---- */

const char *event_kind_name(enum event_kind kind)
{
    static const char *const names[] = {
        [EVENT_STDOUT] = "stdout", [EVENT_STDERR] = "stderr",   [EVENT_DISPLAY] = "display",
        [EVENT_RESULT] = "result", [EVENT_RECEIPT] = "receipt", [EVENT_FAULT] = "fault",
    };

    return names[kind];
}

void event_release(struct event *event)
{
    json_decref(event->json);
    event->json = NULL;
}

/* What a reader can see at one moment. */
struct view {
    bool done;
    bool has_display;
    struct bundle display;
    int64_t limit[2]; /* up to here before the next display */
    int64_t kept[2];
};

static void view_take(struct execution *x, const struct event_cursor *cursor, struct view *ret_view)
{
    struct view view = { .done = x->state == EXECUTION_DONE,
                         .has_display = cursor->displays < x->displays_len };

    if (view.has_display)
        view.display = x->displays[cursor->displays];
    for (size_t i = 0; i < 2; i++) {
        view.limit[i] = x->logs[i].total;
        view.kept[i] = x->logs[i].kept;
    }
    if (view.has_display) {
        view.limit[STREAM_OUT] = view.display.out;
        view.limit[STREAM_ERR] = view.display.err;
    }
    *ret_view = view;
}

static void event_gap(enum stream stream, int64_t from, int64_t to, char *buf,
                      struct event *ret_event)
{
    *ret_event = (struct event){ .kind = stream == STREAM_OUT ? EVENT_STDOUT : EVENT_STDERR,
                                 .offset = to,
                                 .next = to,
                                 .left_out = to - from,
                                 .text = buf };
}

/* Text of one stream between the cursor and the limit: 1 with an event, 0 if there is none now. An
 * incomplete character waits for its remaining bytes, unless the stream has ended. */
static int stream_event(struct execution *x, enum stream stream, const struct view *view,
                        int64_t *pos, char *buf, size_t size, struct event *ret_event)
{
    int64_t limit = view->limit[stream], from = *pos;
    bool last = view->done && !view->has_display;
    char raw[CHUNK];
    size_t want = size < CHUNK ? size : CHUNK, used, len;
    ssize_t n;

    if (from >= limit)
        return 0;
    if ((int64_t) want > limit - from)
        want = (size_t) (limit - from);
    n = output_log_read(&x->logs[stream], from, raw, want);
    if (n <= 0) {
        /* Not kept: reported once nothing more can come before it. */
        if (!view->done && !view->has_display)
            return 0;
        *pos = limit;
        event_gap(stream, from, limit, buf, ret_event);
        return 1;
    }
    if (!(last && from + n >= limit))
        n -= (ssize_t) utf8_partial_end(raw, (size_t) n);
    if (n == 0)
        return 0;
    len = utf8_replace(raw, (size_t) n, buf, size, &used);
    *pos = from + (int64_t) used;
    *ret_event = (struct event){ .kind = stream == STREAM_OUT ? EVENT_STDOUT : EVENT_STDERR,
                                 .offset = from,
                                 .next = *pos,
                                 .text = buf,
                                 .text_len = len };
    return 1;
}

/* A bundle as the receipt shows it; NULL if it is malformed. */
static json_t *bundle_to_json(const struct bundle *bundle, bool display)
{
    size_t nodes = FRAME_DISPLAYS_NODES;
    json_t *data, *metadata;

    if (!bundle->json || bundle_parse(bundle, &nodes, &data, &metadata) < 0)
        return NULL;
    if (display)
        return json_pack("{s:o, s:o, s:I, s:I}", "data", data, "metadata", metadata,
                         "stdout_offset", (json_int_t) bundle->out, "stderr_offset",
                         (json_int_t) bundle->err);
    json_decref(metadata);
    return data;
}

static int end_event(struct execution *x, struct event_cursor *cursor, struct event *ret_event)
{
    struct event event = { 0 };

    if (!cursor->result) {
        cursor->result = true;
        event.kind = EVENT_RESULT;
        event.json = bundle_to_json(&x->outcome.result, false);
        if (event.json) {
            *ret_event = event;
            return 1;
        }
    }
    if (cursor->last)
        return -1;
    cursor->last = true;
    event.kind = EVENT_RECEIPT;
    if (execution_receipt(x, &event.json, &event.fault) < 0)
        event.kind = EVENT_FAULT;
    *ret_event = event;
    return 1;
}

/* The next event of the view for this reader: 1, 0 if it must wait, -1 after the last. */
static int view_event(struct execution *x, const struct view *view, struct event_cursor *cursor,
                      char *buf, size_t size, struct event *ret_event)
{
    if (stream_event(x, STREAM_OUT, view, &cursor->out, buf, size, ret_event) > 0 ||
        stream_event(x, STREAM_ERR, view, &cursor->err, buf, size, ret_event) > 0)
        return 1;
    if (view->has_display) {
        json_t *json = bundle_to_json(&view->display, true);

        cursor->displays++;
        if (!json)
            return 0; /* it was malformed; the receipt counts it */
        *ret_event = (struct event){ .kind = EVENT_DISPLAY, .json = json };
        return 1;
    }
    return view->done ? end_event(x, cursor, ret_event) : 0;
}

/* With the lock held: whether there is more than the view had. */
static bool view_is_stale(struct execution *x, const struct view *view,
                          const struct event_cursor *cursor)
{
    return view->has_display || cursor->displays < x->displays_len ||
           view->done != (x->state == EXECUTION_DONE) ||
           x->logs[STREAM_OUT].total != view->limit[STREAM_OUT] ||
           x->logs[STREAM_ERR].total != view->limit[STREAM_ERR];
}

int execution_next_event(struct execution *x, struct event_cursor *cursor, char *buf, size_t size,
                         int64_t timeout_us, struct event *ret_event)
{
    int64_t deadline = deadline_after(timeout_us);
    struct view view;
    bool in_time = true;
    int r;

    for (;;) {
        pthread_mutex_lock(&x->lock);
        view_take(x, cursor, &view);
        pthread_mutex_unlock(&x->lock);
        r = view_event(x, &view, cursor, buf, size, ret_event);
        if (r != 0)
            return r;
        if (!in_time)
            return 0;
        pthread_mutex_lock(&x->lock);
        while (in_time && !view_is_stale(x, &view, cursor))
            in_time = timeout_us != 0 && news_wait(x, deadline);
        pthread_mutex_unlock(&x->lock);
    }
}

int execution_read_output(struct execution *x, enum stream stream, int64_t offset, char *buf,
                          size_t size, size_t *ret_len, int64_t *ret_total, int64_t *ret_kept,
                          bool *ret_done, struct fault *fault)
{
    struct output_log *log = &x->logs[stream];
    int64_t total, kept;
    bool done;
    ssize_t n;

    if (offset < 0)
        return fault_set(fault, PROBLEM_OFFSET_MALFORMED, "offset", "offset must not be negative");
    pthread_mutex_lock(&x->lock);
    total = log->total;
    kept = log->kept;
    done = x->state == EXECUTION_DONE;
    pthread_mutex_unlock(&x->lock);
    if (offset > total)
        return fault_set(fault, PROBLEM_OFFSET_BEYOND_END, "offset",
                         "offset is beyond the end: the stream has %lld bytes so far",
                         (long long) total);
    n = output_log_read(log, offset, buf, size);
    if (n < 0)
        return fault_set(fault, PROBLEM_OUTPUT_UNREADABLE, NULL,
                         "the stored output could not be read");
    *ret_len = (size_t) n;
    *ret_total = total;
    *ret_kept = kept;
    *ret_done = done;
    return 0;
}
