/*
 * One execution: a program in a new tenant, from the RUN message to the verdict. The loop is in
 * run.c.
 *
 * A stop is SIGINT to the tenant's process group, then SIGKILL to everything in the box. At the end
 * the remaining processes are killed, the rest of the pipes is read, and the counters are read once
 * more: the verdict is based on wait(), on those counters and on our clock, never on the tenant's
 * claims.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "engine/run/internal.h"

#include "base/banned.h"

#define DRAIN_US   (2 * USEC_PER_SEC)
#define DRAIN_LATE 4 /* reads after that */

static void oneshot_soft(struct run *run)
{
    struct gb_err ignored;

    (void) box_send_signal(run->box, tenant_group(run->tenant), SIGINT, &ignored);
}

static void oneshot_hard(struct run *run)
{
    struct gb_err ignored;

    if (box_kill_all(run->box, &ignored) < 0)
        (void) syscall(SYS_pidfd_send_signal, tenant_pidfd(run->tenant), SIGKILL, NULL, 0);
}

static void oneshot_count(struct run *run)
{
    struct gb_err ignored;

    (void) box_get_usage(run->box, &run->usage, &run->disk, &ignored);
}

static const struct run_ops oneshot_ops = {
    .soft = oneshot_soft,
    .hard = oneshot_hard,
    .count = oneshot_count,
    .control = run_control_frames,
};

/* ---- the end ---- */

/* Reads the rest of the pipes. Their other ends close as the last processes die. When time is up,
 * what is there by then is read all the same: no output may be lost because the machine stalls. */
static void drain(struct run *run)
{
    int64_t until = clock_now_us() + DRAIN_US;

    for (int late = 0; late < DRAIN_LATE;) {
        struct pollfd more[2] = { { .fd = run->streams[STREAM_OUT].fd, .events = POLLIN },
                                  { .fd = run->streams[STREAM_ERR].fd, .events = POLLIN } };
        int64_t left = until - clock_now_us();

        if ((more[0].fd < 0 && more[1].fd < 0) ||
            poll(more, 2, left > 0 ? (int) (left / USEC_PER_MSEC) + 1 : 0) <= 0)
            break;
        run_empty_pipes(run);
        late += left <= 0;
    }
    while (run->control_open && run_control_frames(run))
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
    if (run->stop == STOP_NONE &&
        disk_check(run->box, &run->allowance, true, &run->disk_stop) != DISK_FITS)
        run->stop = STOP_DISK;
    return 0;
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
    int r;

    run_tell_usage(run, CGROUP_OWN_PIDS);
    r = outcome_files(run, err);
    return r < 0 ? r : run_judge(run, err);
}

/* ---- the start ---- */

static int send_program(struct run *run, struct gb_err *err)
{
    const struct run_spec *spec = run->spec;
    struct frame_out out;
    int r;

    frame_out_init(&out, FRAME_RUN);
    run_put_program(&out, spec);
    run_put_env(&out, run->box, spec->env);
    r = frame_send(tenant_control(run->tenant), &out, clock_now_us() + RUN_SEND_US);
    frame_out_release(&out);
    if (r == -EMSGSIZE)
        return gb_fail_plain(err, E2BIG,
                             "the program has too many arguments or environment variables");
    if (r < 0)
        return gb_fail(err, -r, "send the program");
    return 0;
}

static int start(struct run *run, int input_fd, struct gb_err *err)
{
    struct piped_tenant piped;
    int r = disk_allow(run->box, &run->allowance, err);

    if (r < 0 || (r = box_take_tenant(run->box, &piped, err)) < 0)
        return r;
    run_own(run, &piped, input_fd);
    if (run->spec->on_started)
        run->spec->on_started(run->spec->on_started_arg, run->tenant);
    run_start_clock(run);
    return send_program(run, err);
}

int oneshot_run(struct box *box, const struct run_spec *spec, struct outcome *ret_outcome,
                struct gb_err *err)
{
    autoclose int own_input = -EBADF;
    struct frame_reader reader;
    struct input input;
    struct run run;
    int r = 0;

    run_init(&run, &oneshot_ops, box, spec);
    frame_reader_init(&reader);
    input_init(&input, -1, -EBADF);
    run.reader = &reader;
    run.input = &input;
    if (spec->input)
        r = input_file(spec, &own_input, err);
    if (r == 0)
        r = start(&run, spec->input ? own_input : spec->stdin_fd, err);
    if (r == 0)
        r = run_loop(&run, err);
    if (r == 0)
        r = finish(&run, err);
    if (r == 0)
        r = outcome_make(&run, err);
    tenant_free(run.tenant);
    input_close(&input);
    run_release(&run);
    frame_reader_release(&reader);
    if (r < 0) {
        outcome_release(&run.outcome);
        return r;
    }
    *ret_outcome = run.outcome;
    return 0;
}
