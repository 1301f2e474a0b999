/*
 * Commands: programs that the builder starts in a box (box/command.c), each a separate run.
 *
 * It ends when its process exits, with the status from wait(). It has its own pipes, so processes
 * that it leaves in the background find them closed afterwards. A stop affects the command and the
 * processes it started, and nothing else in the box.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/run/internal.h"
#include "engine/shared/seal_report.h"

#include "base/banned.h"

#define TEXT_MAX 131071u /* the kernel's limit for one argument */

/* ---- starting ---- */

static size_t name_len(const char *variable)
{
    return strcspn(variable, "=");
}

static bool env_has(char *const *env, const char *variable)
{
    size_t len = name_len(variable);

    for (; env && *env; env++)
        if (name_len(*env) == len && strncmp(*env, variable, len) == 0)
            return true;
    return false;
}

static int string_put(int fd, const char *text, uint32_t *count)
{
    (*count)++;
    return io_write_all(fd, text, strlen(text) + 1);
}

/* argv, then the environment: that of every tenant, and @env over it. */
static int strings_put(struct box *box, int fd, char *const *argv, char *const *env,
                       struct builder_request *request)
{
    char base[WIRE_TEXT_MAX];
    int r = 0;

    template_tenant_env(box->template, box_cpus(box), base, sizeof base);
    for (; r == 0 && *argv; argv++)
        r = string_put(fd, *argv, &request->command.argc);
    for (const char *at = base; r == 0 && *at; at += strlen(at) + 1)
        if (!env_has(env, at))
            r = string_put(fd, at, &request->command.envc);
    for (; r == 0 && env && *env; env++)
        if (!env_has(env + 1, *env)) /* the last of two with the same name wins */
            r = string_put(fd, *env, &request->command.envc);
    return r;
}

int command_call(struct box *box, const struct command_start *start, int *ret_pidfd,
                 struct gb_err *err)
{
    struct builder_request request = { .op = BOX_COMMAND, .box = box->id };
    autoclose int strings = memfd_create("glovebox-command", MFD_CLOEXEC);
    int sent[5] = { start->stdio[0], start->stdio[1], start->stdio[2], start->control, strings };
    struct builder_reply reply;
    int got[WIRE_FDS_MAX], r;
    size_t got_len = 0;

    if (strings < 0)
        return gb_fail(err, errno, "create a memory file");
    if (start->cwd && strlen(start->cwd) >= sizeof request.command.cwd)
        return gb_fail_about(err, ENAMETOOLONG, "the directory of a command");
    r = strings_put(box, strings, start->argv, start->env, &request);
    if (r < 0)
        return gb_fail(err, -r, "write a memory file");
    request.command.keep_control = start->keep_control;
    request.command.landlock = engine_get_config(box->engine)->landlock;
    request.command.terminal = start->terminal;
    request.command.cols = start->cols;
    request.command.rows = start->rows;
    snprintf(request.command.cwd, sizeof request.command.cwd, "%s", start->cwd ? start->cwd : "");
    r = engine_call(box->engine, &request, sent, 5, &reply, got, &got_len, err);
    if (r < 0)
        return r;
    if (got_len != 1) {
        wire_close_fds(got, got_len);
        return gb_fail_plain(err, EPROTO, "the builder sent no process");
    }
    *ret_pidfd = got[0];
    return 0;
}

int command_spawn(struct box *box, char *const *argv, char *const *env, const char *cwd,
                  bool keep_control, struct piped_tenant *ret_command, struct gb_err *err)
{
    struct piped_tenant made = { .ends = { -EBADF, -EBADF, -EBADF } };
    struct command_start start = { .argv = argv,
                                   .env = env,
                                   .cwd = cwd,
                                   .keep_control = keep_control,
                                   .stdio = { -EBADF, -EBADF, -EBADF } };
    int pair[2] = { -EBADF, -EBADF }, pidfd = -EBADF;
    int r = pipes_make(made.ends, start.stdio, err);

    if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        r = gb_fail(err, errno, "create a socket pair");
    start.control = pair[1];
    if (r == 0)
        r = command_call(box, &start, &pidfd, err);
    for (int i = 0; i < 3; i++)
        gb_closep(&start.stdio[i]);
    gb_closep(&pair[1]);
    if (r == 0)
        r = tenant_adopt(box, pidfd, TAKE_FD(pair[0]), &made.tenant, err);
    gb_closep(&pair[0]);
    if (r < 0) {
        for (int i = 0; i < 3; i++)
            gb_closep(&made.ends[i]);
        return r;
    }
    *ret_command = made;
    return 0;
}

/* ---- running ---- */

/* State of a command in addition to its run_spec. */
struct command_request {
    char *const *env;
    const char *cwd;
    int input_fd; /* not owned */
};

/* After the seal there is at most one more report: that the program could not be executed. */
static bool command_control(struct run *run)
{
    struct seal_report report;
    char text[120];
    ssize_t n = recv(tenant_control(run->tenant), &report, sizeof report, MSG_DONTWAIT);

    run->control_open = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n != sizeof report || report.magic != SEAL_MAGIC)
        return false;
    snprintf(text, sizeof text, "glovebox: %s: %s\n",
             report.step == SEAL_CWD ? "cannot enter its directory" : "cannot execute",
             strerror(report.error));
    run_take_text(run, STREAM_ERR, text);
    return false;
}

static void command_hard(struct run *run)
{
    standing_kill_started(run, true);
}

static int command_check(const struct run_spec *spec, struct gb_err *err)
{
    if (spec->argv)
        return spec->argv[0] ? 0 : gb_fail_plain(err, EINVAL, "a command needs a name");
    if (memchr(spec->code, '\0', spec->code_len))
        return gb_fail_plain(err, EINVAL, "a command cannot contain null bytes");
    if (spec->code_len > TEXT_MAX)
        return gb_fail_plain(err, E2BIG, "the command is longer than %u bytes: put it into a file",
                             TEXT_MAX);
    return 0;
}

/* A box that has reached its limit of processes or memory cannot start a command: that is an
 * ordinary outcome. Returns as run_ops.start does. */
static int refused(struct run *run, int r, struct gb_err *err)
{
    struct outcome *o = &run->outcome;

    standing_count(run);
    if (r == -EAGAIN) {
        run->usage.pids_refused = 1;
        o->status = RUN_PIDS;
        o->limit = LIMIT_PIDS;
        o->exit_code = 126;
    } else if (r == -EPROTO && run->usage.ooms > 0) {
        o->status = RUN_OOM;
        o->limit = LIMIT_MEMORY;
        o->exit_code = 137;
    } else {
        return r;
    }
    run_take_text(run, STREAM_ERR, "glovebox: the box has no room for the command\n");
    o->cpu_us = run->usage.cpu_us;
    o->memory_peak_bytes = run->usage.memory_peak_bytes;
    o->processes = 1;
    r = outbuf_take(&run->streams[STREAM_ERR].kept, &o->err);
    return r < 0 ? gb_fail(err, -r, "keep the output") : 1;
}

static int command_start(struct run *run, struct gb_err *err)
{
    const struct command_request *request = run->owner;
    autofree char *text = strndup(run->spec->code ? run->spec->code : "", run->spec->code_len);
    char *shell[] = { (char *) "/bin/sh", (char *) "-c", text, NULL };
    struct piped_tenant piped;
    int r;

    if (!text)
        return gb_fail(err, ENOMEM, "start a command");
    r = command_spawn(run->box, run->spec->argv ? run->spec->argv : shell, request->env,
                      request->cwd, false, &piped, err);
    if (r < 0)
        return refused(run, r, err);
    run_own(run, &piped, request->input_fd);
    return 0;
}

static const struct run_ops command_ops = {
    .start = command_start,
    .soft = standing_soft,
    .hard = command_hard,
    .count = standing_count,
    .control = command_control,
};

int box_command(struct box *box, const struct run_spec *spec, char *const *env, const char *cwd,
                struct outcome *ret_outcome, struct gb_err *err)
{
    struct command_request request = { .env = env, .cwd = cwd, .input_fd = spec->stdin_fd };
    autoclose int own_input = -EBADF;
    struct input input;
    struct run run;
    int r = command_check(spec, err);

    if (r == 0 && spec->input && (r = input_file(spec, &own_input, err)) == 0)
        request.input_fd = own_input;
    if (r < 0)
        return r;
    run_init(&run, &command_ops, box, spec);
    input_init(&input, -1, -EBADF);
    run.input = &input;
    run.owner = &request;
    r = standing_run(&run, ret_outcome, err);
    tenant_free(run.tenant);
    input_close(&input);
    return r;
}
