/*
 * A look: a question about the state of a resident, between two cells. Completion, help and the
 * list of variables are such questions.
 *
 * Theory of operation. A look is a RUN message with KEY_LOOK, and the DONE with its number has the
 * answer. It is not an execution: there are no counters, no snapshot of files, no verdict, and the
 * pipes are not read, because output between two cells belongs to the next cell. So do displays,
 * which we cannot leave in the socket; they are kept for that cell.
 *
 * Answering may run code of the program (__dir__, __repr__), which may never end. So there is a
 * deadline: first an interrupt, after which the runner answers with what it has; later we give up.
 * We never kill for that, since nobody should lose variables to a completion. The resident stays
 * busy with the look: the next cell is sent nevertheless, waits in the socket, and has a timeout of
 * its own, and the next look is refused until the answer to this one has come.
 *
 * The message fits into one packet, so it is sent as a whole or not at all, and a resident that
 * does not read (a task of its event loop blocks it) does no harm.
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
#include "engine/run/internal.h"

#include "base/banned.h"

#define LOOK_GRACE_US  (3 * USEC_PER_SEC)
#define LOOK_AGAIN_US  (500 * USEC_PER_MSEC) /* between interrupts */
#define LOOK_BYTES_MAX (64 << 20)            /* of frames; displays of threads are among them */

struct look {
    struct resident *resident;
    char id[24];
    size_t bytes;
    bool answered;
    char *json;
    size_t len;
};

static void look_begin(struct look *look, struct resident *resident)
{
    *look = (struct look){ .resident = resident };
    snprintf(look->id, sizeof look->id, "%llu", (unsigned long long) resident->count);
}

/* ---- what the tenant sends ---- */

static void done_take(struct look *look, const struct frame_msg *msg)
{
    struct frame_field id, json;

    if (look->answered || !frame_find(msg, KEY_EXECUTION, &id) || id.len != strlen(look->id) ||
        memcmp(id.data, look->id, id.len) != 0)
        return;
    look->answered = true;
    look->resident->looking = false;
    if (!frame_find(msg, KEY_JSON, &json) || json.len > LOOK_REPLY_MAX)
        return;
    look->json = malloc(json.len + 1u);
    if (!look->json)
        return;
    memcpy(look->json, json.data, json.len);
    look->json[json.len] = '\0';
    look->len = json.len;
}

/* Returns whether a tenant may send this. */
static bool message_take(struct look *look, const struct frame_msg *msg)
{
    struct frame_field json;

    switch (msg->type) {
    case FRAME_DONE:
        done_take(look, msg);
        return true;
    case FRAME_DISPLAY:
        if (frame_find(msg, KEY_JSON, &json) &&
            outcome_add_output(&look->resident->early, json.data, json.len) < 0)
            look->resident->early.outputs_left_out++;
        return true;
    case FRAME_RESULT:
    case FRAME_ASK: /* there is no cell that could ask */
        return true;
    case FRAME_RUN:
    case FRAME_ANSWER:
        break;
    }
    return false;
}

/* Takes what has come, until the answer. 0, or -EPROTO or the like for a tenant that is gone or
 * cheats. */
static int messages_take(struct look *look)
{
    struct resident *resident = look->resident;
    struct frame_msg msg;
    int r = 0;

    while (!look->answered) {
        r = frame_recv(tenant_control(resident->piped.tenant), &resident->reader, &msg);
        if (r == -EAGAIN)
            return 0;
        look->bytes += FRAME_PACKET_MAX;
        if (r < 0)
            return r;
        if (look->bytes > LOOK_BYTES_MAX || (r == 1 && !message_take(look, &msg)))
            return -EPROTO;
    }
    return 0;
}

/* ---- waiting ---- */

/* To the thread that runs cells; standing_soft() says why. */
static void interrupt(struct resident *resident)
{
    pid_t pid = tenant_pid(resident->piped.tenant);

    resident->interrupted = true;
    (void) syscall(SYS_tgkill, pid, pid, SIGINT);
}

static int wait_ms(int64_t until_us)
{
    int64_t left = until_us - clock_now_us();

    return left <= 0 ? 0 : (int) ((left + USEC_PER_MSEC - 1) / USEC_PER_MSEC);
}

/* Waits for the answer. -EBUSY: there is none, but the tenant is alive. */
static int answer_wait(struct look *look, const struct look_spec *spec)
{
    struct tenant *tenant = look->resident->piped.tenant;
    int64_t soft_us = clock_now_us() + spec->wall_us, hard_us = soft_us + LOOK_GRACE_US;
    struct pollfd fds[3];

    while (!look->answered) {
        int64_t now = clock_now_us();
        int r;

        if (now >= hard_us)
            return -EBUSY;
        if (now >= soft_us) {
            interrupt(look->resident);
            soft_us = now + LOOK_AGAIN_US;
        }
        fds[0] = (struct pollfd){ .fd = tenant_control(tenant), .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = tenant_pidfd(tenant), .events = POLLIN };
        fds[2] = (struct pollfd){ .fd = spec->cancel_fd, .events = POLLIN };
        if (poll(fds, 3, wait_ms(soft_us < hard_us ? soft_us : hard_us)) < 0 && errno != EINTR)
            return -errno;
        if (fds[0].revents && (r = messages_take(look)) < 0)
            return r;
        if (look->answered)
            break;
        if (fds[1].revents)
            return -ECHILD;
        if (fds[2].revents) {
            interrupt(look->resident);
            return -EBUSY;
        }
    }
    return 0;
}

/* ---- one look ---- */

static int look_send(struct look *look, const struct look_spec *spec)
{
    struct resident *resident = look->resident;
    const struct run_spec program = { .code = spec->code ? spec->code : "",
                                      .code_len = spec->code ? spec->code_len : 0,
                                      .filename = "<look>",
                                      .cell = true };
    bool told = resident->told;
    struct frame_out out;
    int r;

    frame_out_init(&out, FRAME_RUN);
    run_put_program(&out, &program);
    frame_put_text(&out, KEY_LOOK, spec->json);
    r = resident_send(resident, &out, look->id, clock_now_us() + spec->wall_us);
    frame_out_release(&out);
    if (r == 0) {
        resident->looking = true;
        resident->interrupted = false;
    }
    /* Only the first message can be larger than a packet, with its environment. */
    return r == -ETIMEDOUT && told ? -EBUSY : r;
}

/* Whether the resident has answered the look before this one. */
static int settle(struct resident *resident)
{
    struct look look;
    int r;

    look_begin(&look, resident);
    r = messages_take(&look);
    free(look.json);
    return r < 0 || look.answered ? r : -EBUSY;
}

int resident_look(struct resident *resident, const struct look_spec *spec, char **ret_json,
                  size_t *ret_len, struct gb_err *err)
{
    struct look look = { 0 };
    int r = 0;

    if (!resident_is_alive(resident))
        return gb_fail_plain(err, ECHILD, "the interpreter exited between two executions");
    if (resident->looking)
        r = settle(resident);
    if (r == 0) {
        resident->count++;
        look_begin(&look, resident);
        r = look_send(&look, spec);
    }
    if (r == 0)
        r = answer_wait(&look, spec);
    if (r == -EBUSY)
        return gb_fail_plain(err, EBUSY, "the interpreter is still busy with a question");
    if (r == -ENOMEM || r == -EMSGSIZE)
        return gb_fail(err, -r, "ask the interpreter"); /* nothing was sent */
    if (r < 0) {
        free(look.json);
        resident_kill(resident->box, resident->piped.tenant);
        return gb_fail_plain(err, ECHILD, "the interpreter exited");
    }
    *ret_json = look.json;
    *ret_len = look.len;
    return 0;
}
