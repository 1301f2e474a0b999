/*
 * The loop of a run.
 *
 * Theory of operation. A single loop polls the process's output pipes, its control socket, its
 * pidfd, our own input, the sink and the request to cancel, with a timeout for the nearest
 * deadline. A run can be ended early by a `stop`: wall time, CPU time, memory or disk seen by our
 * own watch, output, a cancellation, or a protocol violation. A stop is soft first (SIGINT), hard
 * after the grace period; for memory it is hard at once. The run's table of functions implements
 * soft and hard stops, and handles the control socket.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/parse.h"
#include "engine/run/internal.h"

#include "base/banned.h"

#define WATCH_US       (100 * USEC_PER_MSEC)
#define WATCH_CLOSE_US (20 * USEC_PER_MSEC) /* if our watch is the only limit */
#define CONTROL_MAX    (64 << 20)           /* bytes of frames that one run may send */
#define PIPE_MAX       (1 << 20)            /* bytes that a program can have in a pipe */
#define CHUNK          65536
#define LATE_US        (100 * USEC_PER_MSEC) /* we are this late only when the machine stalls */
#define LATE_MAX_US    (10 * USEC_PER_SEC)   /* the most a grace period is extended */

enum { ON_OUT, ON_ERR, ON_CONTROL, ON_TENANT, ON_INPUT, ON_CANCEL, ON_SINK, ON_ASK, ON_COUNT };

void run_init(struct run *run, const struct run_ops *ops, struct box *box,
              const struct run_spec *spec)
{
    *run = (struct run){ .ops = ops, .box = box, .spec = spec, .done_code = -1 };
    for (int i = 0; i < 2; i++) {
        run->streams[i].fd = -EBADF;
        outbuf_init(&run->streams[i].kept, spec->reply_bytes);
    }
}

void run_lend(struct run *run, const struct piped_tenant *piped, const char *done_id)
{
    run->done_ends = true;
    run->done_id = done_id;
    run->tenant = piped->tenant;
    for (int i = 0; i < 2; i++) {
        run->streams[i].fd = piped->ends[i + 1];
        run->streams[i].borrowed = true;
    }
}

void run_own(struct run *run, const struct piped_tenant *piped, int input_fd)
{
    run->tenant = piped->tenant;
    run->control_open = true;
    input_init(run->input, input_fd, piped->ends[0]);
    run->streams[STREAM_OUT].fd = piped->ends[1];
    run->streams[STREAM_ERR].fd = piped->ends[2];
}

static void stream_close(struct pipe_in *in)
{
    if (!in->borrowed)
        gb_closep(&in->fd);
    in->fd = -EBADF;
}

void run_release(struct run *run)
{
    ask_drop(run);
    snapshot_release(&run->after);
    if (run->spared != run->standing)
        free(run->spared);
    for (int i = 0; i < 2; i++) {
        stream_close(&run->streams[i]);
        outbuf_release(&run->streams[i].kept);
    }
}

void run_start_clock(struct run *run)
{
    run->started_us = clock_now_us();
    run->deadline_us = run->started_us + run->spec->limits.wall_us;
    run->watch_us = run->started_us + WATCH_CLOSE_US;
}

/* Libraries that the template loaded have one thread, as its environment says. */
static void put_threads(struct frame_out *out, unsigned count)
{
    char text[64];

    for (size_t i = 0; count > 1 && i < THREAD_VARIABLES; i++) {
        snprintf(text, sizeof text, "%s=%u", thread_variables[i], count);
        frame_put_text(out, KEY_ENV, text);
    }
}

void run_put_env(struct frame_out *out, const struct box *box, char *const *env)
{
    put_threads(out, box_cpus(box));
    for (; env && *env; env++)
        frame_put_text(out, KEY_ENV, *env);
}

void run_put_program(struct frame_out *out, const struct run_spec *spec)
{
    frame_put(out, KEY_CODE, spec->code, spec->code_len);
    frame_put_text(out, KEY_FILENAME, spec->filename);
    frame_put_text(out, KEY_MODE, spec->cell ? "cell" : "script");
    if (spec->cell && spec->echo)
        frame_put_text(out, KEY_ECHO, "1");
    if (spec->cell && spec->names)
        frame_put(out, KEY_NAMES, spec->names, spec->names_len);
    if (!spec->argv)
        frame_put_text(out, KEY_ARG, "");
    for (char *const *arg = spec->argv; arg && *arg; arg++)
        frame_put_text(out, KEY_ARG, *arg);
}

/* ---- stopping ---- */

/* Whether there is nothing left to stop. A message from a process that we have killed since does
 * not count: it has exited, or will in a moment. */
static bool is_over(const struct run *run)
{
    return run->ended || (run->done && run->done_ends && !run->killed);
}

static void stop_hard(struct run *run)
{
    if (run->killed || is_over(run))
        return;
    run->killed = true;
    run->ops->hard(run);
}

void run_stop_hard(struct run *run, enum stop why)
{
    if (run->stop == STOP_NONE)
        run->stop = why;
    stop_hard(run);
}

static void stop_soft(struct run *run, enum stop why)
{
    /* A program that loses its output gets a broken pipe, which is clearer than a signal. If the
     * pipe has to stay open, there is only the signal. */
    bool told = why != STOP_OUTPUT || run->done_ends;
    int64_t now;

    if (run->stop != STOP_NONE || run->ended)
        return;
    run->stop = why;
    if (is_over(run))
        return; /* it was too much, but the process has already exited */
    if (told)
        run->ops->soft(run);
    ask_stop(run);
    now = clock_now_us(); /* signalling takes time if the box has used up its CPU quota */
    run->hard_us = now + RUN_GRACE_US;
    run->again_us = told && run->done_ends ? now + RUN_GRACE_US / 2 : 0;
}

/* When the machine stalls, the program stalls too: if we are late, the program did not get that
 * part of its grace period either, and killing it would needlessly cost a session its variables. */
static void grace_extend(struct run *run, int64_t late_us)
{
    if (run->hard_us == 0 || late_us < LATE_US || run->late_us >= LATE_MAX_US)
        return;
    run->late_us += late_us;
    run->hard_us += late_us;
    if (run->again_us)
        run->again_us += late_us;
}

/* ---- the streams ---- */

static void stream_take(struct run *run, enum stream stream, const char *data, size_t len)
{
    struct pipe_in *in = &run->streams[stream];
    const struct run_sink *sink = &run->spec->sink;
    int64_t room = run->spec->limits.output_bytes - in->total;

    in->total += (int64_t) len;
    if ((int64_t) len > room)
        len = room > 0 ? (size_t) room : 0;
    if (len > 0) {
        (void) outbuf_add(&in->kept, data, len);
        if (sink->write && !in->deaf && sink->write(sink->arg, stream, data, len) < 0) {
            in->deaf = true;
            if (!in->borrowed)
                stream_close(in);
        }
    }
    if (in->total > run->spec->limits.output_bytes) {
        stop_soft(run, STOP_OUTPUT);
        if (!in->borrowed)
            stream_close(in);
    }
}

void run_take_text(struct run *run, enum stream stream, const char *text)
{
    stream_take(run, stream, text, strlen(text));
}

/* Reads once; closes at the end of the stream. Returns the number of bytes. */
static size_t stream_read(struct run *run, enum stream stream)
{
    struct pipe_in *in = &run->streams[stream];
    char chunk[CHUNK];
    ssize_t n = read(in->fd, chunk, sizeof chunk);

    if (n > 0)
        stream_take(run, stream, chunk, (size_t) n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        stream_close(in);
    return n > 0 ? (size_t) n : 0;
}

void run_empty_pipes(struct run *run)
{
    for (int i = 0; i < 2; i++) {
        size_t n = CHUNK, total = 0;

        /* A short read means that the pipe is empty. We do not wait for a program that keeps
         * writing: anything beyond the capacity of a pipe was written after we started. */
        while (run->streams[i].fd >= 0 && n == CHUNK && total <= PIPE_MAX) {
            n = stream_read(run, (enum stream) i);
            total += n;
        }
    }
}

/* The sink has one slot: while it blocks on one stream the other waits too, as on a terminal. */
static int sink_blocked(struct run *run, enum stream *ret_stream)
{
    const struct run_sink *sink = &run->spec->sink;

    for (int i = 0; i < 2 && sink->blocked_fd; i++) {
        int fd = sink->blocked_fd(sink->arg, (enum stream) i);

        if (fd >= 0) {
            *ret_stream = (enum stream) i;
            return fd;
        }
    }
    return -1;
}

/* ---- frames ---- */

static void text_keep(const struct frame_msg *msg, enum frame_key key, char **text, size_t *len)
{
    struct frame_field field;

    if (*text || !frame_find(msg, key, &field))
        return;
    *text = malloc(field.len + 1u);
    if (!*text)
        return;
    memcpy(*text, field.data, field.len);
    (*text)[field.len] = '\0';
    *len = field.len;
}

/* How much of a stream a reader can see so far. */
static int64_t stream_position(const struct run *run, enum stream stream)
{
    int64_t total = run->streams[stream].total, most = run->spec->limits.output_bytes;

    return total < most ? total : most;
}

static void bundle_take(struct run *run, const struct frame_msg *msg)
{
    const struct run_sink *sink = &run->spec->sink;
    struct outcome *o = &run->outcome;
    bool result = msg->type == FRAME_RESULT;
    size_t had = o->outputs_len;
    struct frame_field json;
    bool kept;
    int r;

    if (!frame_find(msg, KEY_JSON, &json))
        return;
    /* What was printed before comes first. A sink that cannot take it now has its own order. */
    if (sink_blocked(run, &(enum stream){ 0 }) < 0)
        run_empty_pipes(run);
    kept = result && !o->result.json;
    r = result ? outcome_set_result(o, json.data, json.len)
               : outcome_add_output(o, json.data, json.len);
    if (r < 0)
        o->outputs_left_out++;
    if (!result && (kept = o->outputs_len > had)) {
        o->outputs[had].out = stream_position(run, STREAM_OUT);
        o->outputs[had].err = stream_position(run, STREAM_ERR);
    }
    if (!sink->bundle || !(result ? kept && o->result.json : kept))
        return;
    sink->bundle(sink->arg, result ? BUNDLE_RESULT : BUNDLE_DISPLAY,
                 result ? o->result.json : o->outputs[had].json, json.len);
}

/* The tenant waits for this before it prints more, so that what was in the pipes until now was
 * printed before the display. One that does not read it has itself to blame: a packet that does not
 * fit is not sent, and we never wait. */
static void bundle_acknowledge(struct run *run, const struct frame_msg *msg)
{
    char text[sizeof "9223372036854775807"];
    struct frame_out out;
    int64_t number;

    if (!frame_find_int(msg, KEY_ACK, 0, INT64_MAX, &number))
        return;
    snprintf(text, sizeof text, "%lld", (long long) number);
    frame_out_init(&out, FRAME_ANSWER);
    frame_put_text(&out, KEY_ACK, text);
    (void) frame_send(tenant_control(run->tenant), &out, 0);
    frame_out_release(&out);
}

/* Whether this belongs to the program that was sent last. */
static bool done_is_ours(const struct run *run, const struct frame_msg *msg)
{
    struct frame_field id;

    if (!run->done_id)
        return true;
    return frame_find(msg, KEY_EXECUTION, &id) && id.len == strlen(run->done_id) &&
           memcmp(id.data, run->done_id, id.len) == 0;
}

static void done_take(struct run *run, const struct frame_msg *msg)
{
    struct outcome *o = &run->outcome;
    int64_t left_out;

    if (!done_is_ours(run, msg))
        return;
    text_keep(msg, KEY_ERROR_NAME, &o->error_name, &o->error_name_len);
    text_keep(msg, KEY_ERROR_VALUE, &o->error_value, &o->error_value_len);
    text_keep(msg, KEY_TRACEBACK, &o->error_traceback, &o->error_traceback_len);
    if (!run->done && !frame_find_int(msg, KEY_EXIT_CODE, 0, 255, &run->done_code))
        run->done_code = -1;
    if (run->spec->cell && !run->done && frame_find_int(msg, KEY_LEFT_OUT, 0, INT32_MAX, &left_out))
        o->outputs_left_out += left_out;
    /* It was left open for answers; now the tenant may exit. */
    if (!run->done && !run->done_ends && run->spec->cell)
        (void) shutdown(tenant_control(run->tenant), SHUT_WR);
    run->done = true;
}

/* Returns whether a tenant may send this. */
static bool control_message(struct run *run, const struct frame_msg *msg)
{
    switch (msg->type) {
    case FRAME_DONE:
        done_take(run, msg);
        return true;
    case FRAME_DISPLAY:
    case FRAME_RESULT:
        if (run->spec->cell) { /* a script has no displays */
            bundle_take(run, msg);
            bundle_acknowledge(run, msg);
        }
        return true;
    case FRAME_ASK:
        return ask_take(run, msg);
    case FRAME_RUN:
    case FRAME_ANSWER:
        break;
    }
    return false;
}

/* A tenant that violates the protocol is no longer read from; that affects only its own receipt.
 * Its end is closed, so that it does not block in a send or wait for an answer. A resident has no
 * other way to report that it is done, so it is killed. */
bool run_control_frames(struct run *run)
{
    struct frame_msg msg;
    int r = frame_recv(tenant_control(run->tenant), run->reader, &msg);

    if (r == -EAGAIN)
        return false;
    run->control_bytes += FRAME_PACKET_MAX;
    run->control_open = r >= 0 && run->control_bytes <= CONTROL_MAX;
    if (r == 1 && !control_message(run, &msg))
        run->control_open = false;
    if (!run->control_open) {
        (void) shutdown(tenant_control(run->tenant), SHUT_RDWR);
        if (run->done_ends && r != -EPIPE)
            run_stop_hard(run, STOP_BROKEN);
    }
    return run->control_open;
}

/* ---- time ---- */

static void watch(struct run *run)
{
    const struct limits *limits = &run->spec->limits;

    run->ops->count(run);
    if (limits->cpu_us && run->usage.cpu_us > limits->cpu_us)
        stop_soft(run, STOP_CPU);
    if (box_is_watched(run->box) && run->usage.memory_bytes > limits->memory_bytes) {
        run->stop = STOP_MEMORY;
        stop_hard(run);
    }
}

static void watch_disk(struct run *run)
{
    enum disk_verdict verdict = disk_check(run->box, &run->allowance, false, &run->disk_stop);

    if (verdict != DISK_FITS)
        stop_soft(run, STOP_DISK);
    if (verdict == DISK_BURSTS)
        stop_hard(run);
}

/* @due_us: when we wanted to be here. */
static void timers(struct run *run, int64_t due_us)
{
    int64_t now = clock_now_us();

    grace_extend(run, now - due_us);
    if (now >= run->deadline_us)
        stop_soft(run, STOP_WALL);
    if (run->again_us && now >= run->again_us) {
        run->again_us = 0;
        if (!run->killed && !is_over(run))
            run->ops->soft(run);
    }
    if (run->hard_us && now >= run->hard_us)
        stop_hard(run);
    if (now >= run->watch_us) {
        bool closely = box_is_watched(run->box) || run->box->disk_watch;

        watch(run);
        watch_disk(run);
        run->watch_us = clock_now_us() + (closely ? WATCH_CLOSE_US : WATCH_US);
    }
}

static int64_t sooner(int64_t next, int64_t other)
{
    return other && other < next ? other : next;
}

static int timeout_ms(const struct run *run)
{
    int64_t next = run->watch_us, left;

    if (run->stop == STOP_NONE)
        next = sooner(next, run->deadline_us);
    next = sooner(next, run->again_us);
    if (!run->killed)
        next = sooner(next, run->hard_us);
    left = next - clock_now_us();
    return left <= 0 ? 0 : (int) ((left + USEC_PER_MSEC - 1) / USEC_PER_MSEC);
}

/* ---- the loop ---- */

static void poll_fill(struct run *run, struct pollfd fds[ON_COUNT], enum stream *ret_stream)
{
    int sink = sink_blocked(run, ret_stream);
    bool cancelled = run->stop == STOP_CANCEL && run->killed;

    for (int i = 0; i < ON_COUNT; i++)
        fds[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
    for (int i = 0; i < 2; i++)
        if (sink < 0)
            fds[ON_OUT + i].fd = run->streams[i].fd;
    if (run->control_open)
        fds[ON_CONTROL].fd = tenant_control(run->tenant);
    fds[ON_TENANT].fd = tenant_pidfd(run->tenant);
    if (run->input)
        input_poll(run->input, &fds[ON_INPUT]);
    fds[ON_ASK].fd = ask_fd(run);
    if (!cancelled)
        fds[ON_CANCEL].fd = run->spec->cancel_fd;
    if (sink >= 0)
        fds[ON_SINK] = (struct pollfd){ .fd = sink, .events = POLLOUT };
}

static void cancel(struct run *run)
{
    uint64_t count;

    /* In a pipe each byte is one request; an eventfd is read as a whole. */
    if (read(run->spec->cancel_fd, &count, 1) < 0 && errno == EINVAL)
        (void) !read(run->spec->cancel_fd, &count, sizeof count);
    if (run->stop == STOP_NONE)
        stop_soft(run, STOP_CANCEL);
    else
        stop_hard(run); /* the second request */
}

static void sink_flush(struct run *run, enum stream stream)
{
    const struct run_sink *sink = &run->spec->sink;

    if (sink->flush(sink->arg, stream) < 0) {
        run->streams[stream].deaf = true;
        if (!run->streams[stream].borrowed)
            stream_close(&run->streams[stream]);
    }
}

int run_loop(struct run *run, struct gb_err *err)
{
    struct pollfd fds[ON_COUNT];
    enum stream stream = STREAM_OUT;

    while (!is_over(run)) {
        int64_t due_us = clock_now_us();
        int wait_ms = timeout_ms(run);

        due_us += wait_ms * USEC_PER_MSEC;
        poll_fill(run, fds, &stream);
        if (poll(fds, ON_COUNT, wait_ms) < 0) {
            if (errno != EINTR)
                return gb_fail(err, errno, "poll");
            continue;
        }
        if (fds[ON_SINK].revents)
            sink_flush(run, stream);
        for (int i = 0; i < 2; i++)
            if (fds[ON_OUT + i].revents)
                (void) stream_read(run, (enum stream) i);
        if (fds[ON_CONTROL].revents)
            (void) run->ops->control(run);
        if (fds[ON_INPUT].revents)
            input_move(run->input);
        if (fds[ON_CANCEL].revents)
            cancel(run);
        if (fds[ON_ASK].revents)
            ask_read(run);
        if (fds[ON_TENANT].revents)
            run->ended = true;
        else
            timers(run, due_us);
    }
    return 0;
}

/* ---- the end ---- */

void run_tell_usage(struct run *run, int64_t own)
{
    struct outcome *o = &run->outcome;

    o->cpu_us = run->usage.cpu_us;
    o->memory_peak_bytes = run->usage.memory_peak_bytes;
    o->oom_kills = run->usage.oom_kills;
    o->processes = run->usage.pids_peak;
    /* The cgroup counts our own processes too, our watch does not. */
    if (!box_is_watched(run->box))
        o->processes -= own;
    if (o->processes < 1)
        o->processes = 1;
}

/* A killed child is easily missed: a pool of processes waits for it forever, a shell command just
 * ends. If the run ended as `oom`, its status says the same. */
static void tell_oom(struct run *run)
{
    const struct outcome *o = &run->outcome;
    int64_t room = run->spec->limits.output_bytes - run->streams[STREAM_ERR].total;
    char limit[FORMAT_NUMBER_MAX], text[160];

    if (o->oom_kills <= 0 || o->status == RUN_OOM)
        return;
    format_size(run->box->limits.memory_bytes, limit);
    snprintf(
        text, sizeof text,
        "glovebox: %lld process%s of this program w%s killed: the box's memory of %s was full\n",
        (long long) o->oom_kills, o->oom_kills == 1 ? "" : "es", o->oom_kills == 1 ? "as" : "ere",
        limit);
    /* The verdict is made; this must not exceed the limit on output. */
    if ((int64_t) strlen(text) <= room)
        run_take_text(run, STREAM_ERR, text);
}

int run_judge(struct run *run, struct gb_err *err)
{
    struct outcome *o = &run->outcome;
    struct verdict_facts facts = {
        .stop = run->stop,
        .code = run->code,
        .status = run->status,
        .ooms = run->usage.ooms,
        .pids_refused = run->usage.pids_refused,
        .pids_peak = run->usage.pids_peak,
        .largest_file = files_largest(o->files, o->files_len),
        .watched = box_is_watched(run->box),
        .disk = run->disk_stop != LIMIT_NONE ? run->disk_stop : run->disk,
        .limits = &run->spec->limits,
    };

    verdict(&facts, o);
    tell_oom(run);
    for (int i = 0; i < 2; i++) {
        struct pipe_in *in = &run->streams[i];
        struct stream_cut *cut = i == STREAM_OUT ? &o->out : &o->err;
        int64_t kept = in->kept.total;
        int r = outbuf_take(&in->kept, cut);

        if (r < 0)
            return gb_fail(err, -r, "keep the output");
        cut->left_out += in->total - kept;
    }
    return 0;
}
