/*
 * One execution: a program in a new tenant, from the RUN message to the verdict.
 *
 * Theory of operation. A single loop polls the tenant's output pipes, its control socket, its
 * pidfd, our own input, the sink and the request to cancel, with a timeout for the nearest
 * deadline. What can end a run early is a `stop`: wall time, CPU time, memory seen by our own
 * watch, output, or a cancellation. A stop is soft first (SIGINT to the tenant's process group),
 * hard after the grace (everything in the box is killed); memory is hard at once. After the end the
 * box is emptied, what is left in the pipes is read, and the counters are read once more: the
 * verdict is made from wait(), from those counters and from our clock, never from what the tenant
 * said.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "engine/engine_internal.h"
#include "engine/execution_internal.h"
#include "engine/frame.h"
#include "engine/outbuf.h"

#include "base/banned.h"

#define GRACE_US       (1 * USEC_PER_SEC)
#define DRAIN_US       (2 * USEC_PER_SEC)
#define SEND_US        (10 * USEC_PER_SEC)
#define WATCH_US       (100 * USEC_PER_MSEC)
#define WATCH_CLOSE_US (20 * USEC_PER_MSEC) /* where our watch is the only memory limit */
#define CONTROL_MAX    (64 << 20)           /* bytes of frames that one run may send */

enum { ON_OUT, ON_ERR, ON_CONTROL, ON_TENANT, ON_INPUT, ON_CANCEL, ON_SINK, ON_COUNT };

struct pipe_in {
    int fd; /* -EBADF once closed */
    struct outbuf kept;
    int64_t total;
    bool blocked; /* the sink cannot take more now */
};

struct run {
    struct box *box;
    const struct run_spec *spec;
    struct tenant *tenant;
    struct pipe_in streams[2];
    struct frame_reader reader;
    int64_t control_bytes;
    bool control_open, done;
    struct input input;

    int64_t started_us, deadline_us, watch_us, hard_us; /* hard_us: 0 until a stop was soft */
    enum stop stop;
    bool killed, ended;
    struct cgroup_usage usage;
    enum limit_kind disk;
    int code, status; /* as waitid() told */
    struct snapshot after;
    struct outcome outcome;
};

/* ---- stopping ---- */

static void stop_hard(struct run *run)
{
    struct gb_err ignored;

    if (run->killed || run->ended)
        return;
    run->killed = true;
    if (box_kill_all(run->box, &ignored) < 0)
        (void) syscall(SYS_pidfd_send_signal, tenant_pidfd(run->tenant), SIGKILL, NULL, 0);
}

static void stop_soft(struct run *run, enum stop why)
{
    struct gb_err ignored;

    if (run->stop != STOP_NONE || run->ended)
        return;
    run->stop = why;
    run->hard_us = clock_now_us() + GRACE_US;
    /* A program that loses its output gets a broken pipe, which says more than a signal. */
    if (why != STOP_OUTPUT)
        (void) box_send_signal(run->box, tenant_group(run->tenant), SIGINT, &ignored);
}

/* ---- the streams ---- */

static void stream_close(struct pipe_in *in)
{
    gb_closep(&in->fd);
    in->fd = -EBADF;
}

static void stream_take(struct run *run, enum stream stream, const char *data, size_t len)
{
    struct pipe_in *in = &run->streams[stream];
    const struct run_sink *sink = &run->spec->sink;
    int64_t room = run->spec->limits.output_bytes - in->total;

    in->total += (int64_t) len;
    if ((int64_t) len > room)
        len = room > 0 ? (size_t) room : 0;
    (void) outbuf_add(&in->kept, data, len);
    if (len > 0 && sink->write && sink->write(sink->arg, stream, data, len) < 0)
        stream_close(in);
    if (in->total > run->spec->limits.output_bytes) {
        stop_soft(run, STOP_OUTPUT);
        stream_close(in);
    }
}

/* Reads once; closes at the end of the stream. */
static void stream_read(struct run *run, enum stream stream)
{
    struct pipe_in *in = &run->streams[stream];
    char chunk[65536];
    ssize_t n = read(in->fd, chunk, sizeof chunk);

    if (n > 0)
        stream_take(run, stream, chunk, (size_t) n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        stream_close(in);
}

/* ---- the control socket ---- */

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

static void bundle_take(struct run *run, const struct frame_msg *msg)
{
    struct outcome *o = &run->outcome;
    struct frame_field json;
    int r;

    if (!run->spec->cell || !frame_find(msg, KEY_JSON, &json))
        return; /* a script has nothing to show */
    if (msg->type == FRAME_RESULT)
        r = outcome_set_result(o, json.data, json.len);
    else
        r = outcome_add_output(o, json.data, json.len);
    if (r < 0)
        o->outputs_left_out++;
}

static void done_take(struct run *run, const struct frame_msg *msg)
{
    struct outcome *o = &run->outcome;
    int64_t left_out;

    text_keep(msg, KEY_ERROR_NAME, &o->error_name, &o->error_name_len);
    text_keep(msg, KEY_ERROR_VALUE, &o->error_value, &o->error_value_len);
    text_keep(msg, KEY_TRACEBACK, &o->error_traceback, &o->error_traceback_len);
    if (run->spec->cell && !run->done && frame_find_int(msg, KEY_LEFT_OUT, 0, INT32_MAX, &left_out))
        o->outputs_left_out += left_out;
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
        bundle_take(run, msg);
        return true;
    case FRAME_RUN:
        break;
    }
    return false;
}

/* Reads one packet. A tenant that breaks the protocol is not listened to any more; that hurts
 * nobody but its own receipt. Its end is closed, so that it does not wait for us in a send.
 * Returns whether there may be more. */
static bool control_read(struct run *run)
{
    struct frame_msg msg;
    int r = frame_recv(tenant_control(run->tenant), &run->reader, &msg);

    if (r == -EAGAIN)
        return false;
    run->control_bytes += FRAME_PACKET_MAX;
    run->control_open = r >= 0 && run->control_bytes <= CONTROL_MAX;
    if (r == 1 && !control_message(run, &msg))
        run->control_open = false;
    if (!run->control_open)
        (void) shutdown(tenant_control(run->tenant), SHUT_RD);
    return run->control_open;
}

/* ---- the watch ---- */

static void watch(struct run *run)
{
    const struct limits *limits = &run->spec->limits;
    struct gb_err ignored;

    if (box_get_usage(run->box, &run->usage, &run->disk, &ignored) < 0)
        return;
    if (limits->cpu_us && run->usage.cpu_us > limits->cpu_us)
        stop_soft(run, STOP_CPU);
    if (box_is_watched(run->box) && run->usage.memory_bytes > limits->memory_bytes) {
        run->stop = STOP_MEMORY;
        stop_hard(run);
    }
}

static void timers(struct run *run)
{
    int64_t now = clock_now_us();

    if (now >= run->deadline_us)
        stop_soft(run, STOP_WALL);
    if (run->hard_us && now >= run->hard_us)
        stop_hard(run);
    if (now >= run->watch_us) {
        watch(run);
        run->watch_us = clock_now_us() + (box_is_watched(run->box) ? WATCH_CLOSE_US : WATCH_US);
    }
}

/* ---- the loop ---- */

static int timeout_ms(const struct run *run)
{
    int64_t next = run->watch_us, left;

    if (run->stop == STOP_NONE && run->deadline_us < next)
        next = run->deadline_us;
    if (run->hard_us && !run->killed && run->hard_us < next)
        next = run->hard_us;
    left = next - clock_now_us();
    return left <= 0 ? 0 : (int) ((left + USEC_PER_MSEC - 1) / USEC_PER_MSEC);
}

/* The sink has one slot: while it blocks on one stream the other waits too, which is what a
 * terminal does. */
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
    input_poll(&run->input, &fds[ON_INPUT]);
    if (!cancelled)
        fds[ON_CANCEL].fd = run->spec->cancel_fd;
    if (sink >= 0)
        fds[ON_SINK] = (struct pollfd){ .fd = sink, .events = POLLOUT };
}

static void cancel(struct run *run)
{
    char byte;

    (void) !read(run->spec->cancel_fd, &byte, 1);
    if (run->stop == STOP_NONE)
        stop_soft(run, STOP_CANCEL);
    else
        stop_hard(run); /* asked twice */
}

static void sink_flush(struct run *run, enum stream stream)
{
    const struct run_sink *sink = &run->spec->sink;

    if (sink->flush(sink->arg, stream) < 0)
        stream_close(&run->streams[stream]);
}

static int loop(struct run *run, struct gb_err *err)
{
    struct pollfd fds[ON_COUNT];
    enum stream stream = STREAM_OUT;

    while (!run->ended) {
        poll_fill(run, fds, &stream);
        if (poll(fds, ON_COUNT, timeout_ms(run)) < 0 && errno != EINTR)
            return gb_fail(err, errno, "poll");
        if (fds[ON_SINK].revents)
            sink_flush(run, stream);
        for (int i = 0; i < 2; i++)
            if (fds[ON_OUT + i].revents)
                stream_read(run, (enum stream) i);
        if (fds[ON_CONTROL].revents)
            (void) control_read(run);
        if (fds[ON_INPUT].revents)
            input_move(&run->input);
        if (fds[ON_CANCEL].revents)
            cancel(run);
        if (fds[ON_TENANT].revents)
            run->ended = true;
        else
            timers(run);
    }
    return 0;
}

/* ---- the end ---- */

/* What is still in the pipes. Their other ends close as the last processes die. */
static void drain(struct run *run)
{
    int64_t until = clock_now_us() + DRAIN_US;

    for (int i = 0; i < 2; i++) {
        struct pipe_in *in = &run->streams[i];

        while (in->fd >= 0) {
            struct pollfd more = { .fd = in->fd, .events = POLLIN };
            int64_t left = until - clock_now_us();

            if (left <= 0 || poll(&more, 1, (int) (left / USEC_PER_MSEC) + 1) <= 0)
                break;
            stream_read(run, (enum stream) i);
        }
    }
    while (run->control_open && control_read(run))
        ;
}

static int finish(struct run *run, struct gb_err *err)
{
    int r;

    run->outcome.wall_us = clock_now_us() - run->started_us;
    r = tenant_wait(run->tenant, &run->code, &run->status);
    if (r < 0)
        return gb_fail(err, -r, "wait for the tenant");
    r = box_finish(run->box, &run->usage, &run->disk, &run->after, err);
    if (r < 0)
        return r;
    drain(run);
    return 0;
}

static void outcome_usage(struct run *run)
{
    struct outcome *o = &run->outcome;

    o->cpu_us = run->usage.cpu_us;
    o->memory_peak_bytes = run->usage.memory_peak_bytes;
    o->processes = run->usage.pids_peak;
    /* The cgroup counts ours too, our watch does not. */
    if (!box_is_watched(run->box))
        o->processes -= CGROUP_OWN_PIDS;
    if (o->processes < 1)
        o->processes = 1;
}

static int outcome_files(struct run *run, struct gb_err *err)
{
    static const struct snapshot empty;
    const struct snapshot *before = run->spec->before ? run->spec->before : &empty;

    run->outcome.files_incomplete = before->incomplete || run->after.incomplete;
    return snapshot_diff(before, &run->after, &run->outcome.files, &run->outcome.files_len, err);
}

static int outcome_make(struct run *run, struct gb_err *err)
{
    struct outcome *o = &run->outcome;
    struct verdict_facts facts = {
        .stop = run->stop,
        .code = run->code,
        .status = run->status,
        .oom_kills = run->usage.oom_kills,
        .pids_refused = run->usage.pids_refused,
        .pids_peak = run->usage.pids_peak,
        .watched = box_is_watched(run->box),
        .disk = run->disk,
        .limits = &run->spec->limits,
    };
    int r;

    outcome_usage(run);
    if ((r = outcome_files(run, err)) < 0)
        return r;
    facts.largest_file = files_largest(o->files, o->files_len);
    verdict(&facts, o);
    for (int i = 0; i < 2; i++) {
        struct pipe_in *in = &run->streams[i];
        struct stream_cut *cut = i == STREAM_OUT ? &o->out : &o->err;
        int64_t kept = in->kept.total;

        r = outbuf_take(&in->kept, cut);
        if (r < 0)
            return gb_fail(err, -r, "keep the output");
        cut->left_out += in->total - kept;
    }
    return 0;
}

/* ---- the start ---- */

static int send_program(struct run *run, struct gb_err *err)
{
    const struct run_spec *spec = run->spec;
    struct frame_out out;
    int r;

    frame_out_init(&out, FRAME_RUN);
    frame_put(&out, KEY_CODE, spec->code, spec->code_len);
    frame_put_text(&out, KEY_FILENAME, spec->filename);
    frame_put_text(&out, KEY_MODE, spec->cell ? "cell" : "script");
    if (spec->cell && spec->echo)
        frame_put_text(&out, KEY_ECHO, "1");
    for (char *const *arg = spec->argv; *arg; arg++)
        frame_put_text(&out, KEY_ARG, *arg);
    for (char *const *env = spec->env; env && *env; env++)
        frame_put_text(&out, KEY_ENV, *env);
    r = frame_send(tenant_control(run->tenant), &out, clock_now_us() + SEND_US);
    frame_out_release(&out);
    if (r == -EMSGSIZE)
        return gb_fail_plain(err, E2BIG, "the program has too many arguments");
    if (r < 0)
        return gb_fail(err, -r, "send the program");
    /* There is no other program after this one: a tenant that runs cells then ends. */
    if (spec->cell && shutdown(tenant_control(run->tenant), SHUT_WR) < 0)
        return gb_fail(err, errno, "shut the control socket");
    return 0;
}

static int start(struct run *run, struct gb_err *err)
{
    struct piped_tenant piped;
    int r = box_take_tenant(run->box, &piped, err);

    if (r < 0)
        return r;
    run->tenant = piped.tenant;
    input_init(&run->input, run->spec->stdin_fd, piped.ends[0]);
    run->streams[STREAM_OUT].fd = piped.ends[1];
    run->streams[STREAM_ERR].fd = piped.ends[2];
    if (run->spec->on_started)
        run->spec->on_started(run->spec->on_started_arg, run->tenant);
    run->control_open = true;
    run->started_us = clock_now_us();
    run->deadline_us = run->started_us + run->spec->limits.wall_us;
    run->watch_us = run->started_us + WATCH_CLOSE_US;
    return send_program(run, err);
}

int execution_run(struct box *box, const struct run_spec *spec, struct outcome *ret_outcome,
                  struct gb_err *err)
{
    struct run run = { .box = box, .spec = spec };
    int r;

    frame_reader_init(&run.reader);
    for (int i = 0; i < 2; i++) {
        run.streams[i].fd = -EBADF;
        outbuf_init(&run.streams[i].kept, spec->reply_bytes);
    }
    input_init(&run.input, -1, -EBADF);
    r = start(&run, err);
    if (r == 0)
        r = loop(&run, err);
    if (r == 0)
        r = finish(&run, err);
    if (r == 0)
        r = outcome_make(&run, err);
    snapshot_release(&run.after);
    tenant_free(run.tenant);
    input_close(&run.input);
    for (int i = 0; i < 2; i++) {
        stream_close(&run.streams[i]);
        outbuf_release(&run.streams[i].kept);
    }
    frame_reader_release(&run.reader);
    if (r < 0) {
        outcome_release(&run.outcome);
        return r;
    }
    *ret_outcome = run.outcome;
    return 0;
}
