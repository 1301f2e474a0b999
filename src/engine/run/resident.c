/*
 * A resident: a tenant that runs cell after cell.
 *
 * Theory of operation. Each cell is a RUN message with its own number, and the DONE with the same
 * number ends it; any other DONE is ignored. There is no process to wait for, so the exit code of a
 * cell is the tenant's claim. Its output is in the pipes before it sends DONE, so they are emptied
 * then and not read until end of file: children may hold them open.
 *
 * An interrupt can arrive too late and stay pending in the tenant. The supervisor knows when it has
 * sent one, since it sends it itself and the signal is pending at once; it then says so in the next
 * RUN (KEY_CALM), and the runner discards any interrupt from before that message.
 *
 * When the tenant exits, all other processes in the box are killed too: nothing could reach them
 * any more.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/strv.h"
#include "engine/run/internal.h"

#include "base/banned.h"

/* ---- open and close ---- */

int resident_open(struct box *box, char *const *env, struct resident **ret_resident,
                  struct gb_err *err)
{
    struct resident *resident;
    int r;

    if (box->limits.cpu_us != 0)
        return gb_fail_plain(
            err, EINVAL, "a session's box cannot have a CPU time limit; set it for each execution");
    resident = calloc(1, sizeof *resident);
    if (!resident || strv_copy((const char *const *) env, &resident->env) < 0) {
        free(resident);
        return gb_fail(err, ENOMEM, "open a resident");
    }
    resident->box = box;
    frame_reader_init(&resident->reader);
    r = box_take_tenant(box, &resident->piped, err);
    if (r < 0) {
        strv_free(resident->env);
        free(resident);
        return r;
    }
    /* Descriptor 0 is always at end of file; a cell's input is sent with the cell. */
    gb_closep(&resident->piped.ends[0]);
    resident->piped.ends[0] = -EBADF;
    standing_add(box, resident->piped.tenant, false);
    *ret_resident = resident;
    return 0;
}

void resident_free(struct resident *resident)
{
    if (!resident)
        return;
    standing_remove(resident->box, resident->piped.tenant);
    tenant_free(resident->piped.tenant);
    for (int i = 0; i < 3; i++)
        gb_closep(&resident->piped.ends[i]);
    frame_reader_release(&resident->reader);
    outcome_release(&resident->early);
    strv_free(resident->env);
    free(resident);
}

bool resident_is_alive(const struct resident *resident)
{
    return tenant_is_alive(resident->piped.tenant);
}

/* ---- a cell ---- */

void resident_kill(struct box *box, struct tenant *tenant)
{
    struct gb_err ignored;

    if (box_kill_all(box, &ignored) < 0)
        (void) syscall(SYS_pidfd_send_signal, tenant_pidfd(tenant), SIGKILL, NULL, 0);
}

static void resident_hard(struct run *run)
{
    resident_kill(run->box, run->tenant);
}

int resident_send(struct resident *resident, struct frame_out *out, const char *id,
                  int64_t until_us)
{
    int r;

    if (!resident->told)
        run_put_env(out, resident->box, resident->env);
    frame_put_text(out, KEY_EXECUTION, id);
    if (resident->interrupted)
        frame_put_text(out, KEY_CALM, "1");
    r = frame_send(tenant_control(resident->piped.tenant), out, until_us);
    if (r == -EMSGSIZE || r == -ENOMEM)
        return r; /* nothing was sent */
    strv_free(resident->env);
    resident->env = NULL;
    resident->told = true;
    return r;
}

static int cell_send(struct resident *resident, const struct run *run)
{
    int64_t until = clock_now_us() + RUN_SEND_US;
    struct frame_out out;
    int r;

    frame_out_init(&out, FRAME_RUN);
    run_put_program(&out, run->spec);
    if (run->spec->input)
        frame_put(&out, KEY_STDIN, run->spec->input, run->spec->input_len);
    for (char *const *item = run->spec->env; item && *item; item++)
        frame_put_text(&out, KEY_CELL_ENV, *item);
    r = resident_send(resident, &out, run->done_id,
                      run->deadline_us < until ? run->deadline_us : until);
    frame_out_release(&out);
    return r;
}

static int resident_start(struct run *run, struct gb_err *err)
{
    struct resident *resident = run->owner;
    int r;

    run->control_open = true;
    r = cell_send(resident, run);
    if (r == -EMSGSIZE)
        return gb_fail_plain(err, E2BIG,
                             "code, input and environment of a cell together are too large");
    if (r == -ENOMEM)
        return gb_fail(err, ENOMEM, "send the cell");
    resident->interrupted = false;
    /* The loop notices a tenant that is gone. One that does not read violates the protocol. */
    if (r < 0 && r != -EPIPE && r != -ECONNRESET)
        run_stop_hard(run, STOP_BROKEN);
    return 0;
}

static const struct run_ops resident_ops = {
    .start = resident_start,
    .ended = resident_hard, /* kills what it left behind */
    .soft = standing_soft,
    .hard = resident_hard,
    .count = standing_count,
    .control = run_control_frames,
};

/* Displays that threads sent since the last cell and that a look has read. */
static void early_pass_on(struct outcome *early, struct run *run)
{
    const struct run_sink *sink = &run->spec->sink;

    for (size_t i = 0; sink->bundle && i < early->outputs_len; i++)
        sink->bundle(sink->arg, BUNDLE_DISPLAY, early->outputs[i].json, early->outputs[i].len);
    run->outcome.outputs = early->outputs;
    run->outcome.outputs_len = early->outputs_len;
    run->outcome.outputs_bytes = early->outputs_bytes;
    run->outcome.outputs_left_out = early->outputs_left_out;
    *early = (struct outcome){ 0 };
}

int resident_run(struct resident *resident, const struct run_spec *spec,
                 struct outcome *ret_outcome, struct gb_err *err)
{
    struct run run;
    char id[24];
    int r;

    if (!spec->cell)
        return gb_fail_plain(err, EINVAL, "a resident runs cells");
    if (!resident_is_alive(resident))
        return gb_fail_plain(err, ECHILD, "the interpreter exited between two executions");
    run_init(&run, &resident_ops, resident->box, spec);
    snprintf(id, sizeof id, "%llu", (unsigned long long) ++resident->count);
    run_lend(&run, &resident->piped, id);
    run.owner = resident;
    run.reader = &resident->reader;
    early_pass_on(&resident->early, &run);
    r = standing_run(&run, ret_outcome, err);
    resident->interrupted = run.signalled;
    resident->looking = false; /* it does one thing after the other */
    return r;
}
