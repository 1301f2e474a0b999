/*
 * Terminals: a program in a box with a pseudo-terminal of the box.
 *
 * The process that becomes the program opens the terminal in the box (box/command.c) and sends us
 * our side of it: after it is sealed and before any user code runs. So the box's own limit counts
 * it, and we never open a terminal of the host. That descriptor is checked and is the last that is
 * accepted. A program can do no more to our side than to any terminal's: fill it, leave it unread,
 * hang it up. All calls on it return at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/run/internal.h"
#include "engine/shared/seal_report.h"

#include "base/banned.h"

#define START_WAIT_MS 10000
#define PTMX_MAJOR    5u
#define PTMX_MINOR    2u

struct pty {
    struct box *box;
    struct tenant *tenant;
    int master;
};

/* ---- starting ---- */

static bool is_master(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && major(st.st_rdev) == PTMX_MAJOR &&
           minor(st.st_rdev) == PTMX_MINOR;
}

static int packet_wait(int control, struct gb_err *err)
{
    struct pollfd news = { .fd = control, .events = POLLIN };
    int r;

    do
        r = poll(&news, 1, START_WAIT_MS);
    while (r < 0 && errno == EINTR);
    return r > 0 ? 0 : gb_fail_plain(err, ETIMEDOUT, "the terminal was not started in time");
}

/* Takes our side of the terminal. */
static int master_take(struct pty *pty, struct gb_err *err)
{
    int control = tenant_control(pty->tenant), fds[WIRE_FDS_MAX], r;
    struct seal_report report = { 0 };
    size_t fds_len = 0;

    if ((r = packet_wait(control, err)) < 0)
        return r;
    r = wire_recv(control, &report, sizeof report, fds, &fds_len);
    if (r < 0)
        return gb_fail_plain(err, EPROTO, "the terminal ended before it was started");
    if (report.magic == SEAL_MAGIC && report.step == SEAL_TERMINAL && report.error == 0 &&
        fds_len == 1 && is_master(fds[0])) {
        pty->master = fds[0];
        return 0;
    }
    wire_close_fds(fds, fds_len);
    return gb_fail(err, report.error > 0 ? report.error : EPROTO, "open a terminal in the box");
}

/* The exec closes the socket; otherwise there is one more report. */
static int exec_wait(struct pty *pty, struct gb_err *err)
{
    int control = tenant_control(pty->tenant), r = packet_wait(control, err);
    struct seal_report report;
    ssize_t n;

    if (r < 0)
        return r;
    n = recv(control, &report, sizeof report, MSG_DONTWAIT);
    if (n == 0)
        return 0;
    if (n != sizeof report || report.magic != SEAL_MAGIC || report.error <= 0)
        return gb_fail_plain(err, EPROTO, "the terminal was not started");
    return gb_fail(err, report.error, "%s",
                   report.step == SEAL_CWD ? "enter the directory of the program"
                                           : "execute the program");
}

static int spawn(struct pty *pty, struct command_start *start, struct gb_err *err)
{
    autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int pair[2], pidfd = -EBADF, r;

    if (null < 0)
        return gb_fail(err, errno, "open /dev/null");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return gb_fail(err, errno, "create a socket pair");
    start->stdio[0] = start->stdio[1] = start->stdio[2] = null;
    start->control = pair[1];
    r = command_call(pty->box, start, &pidfd, err);
    (void) close(pair[1]);
    if (r < 0) {
        (void) close(pair[0]);
        return r;
    }
    return tenant_adopt(pty->box, pidfd, pair[0], &pty->tenant, err);
}

int pty_open(struct box *box, char *const *argv, char *const *env, const char *cwd, uint16_t cols,
             uint16_t rows, struct pty **ret_pty, struct gb_err *err)
{
    struct command_start start = {
        .argv = argv, .env = env, .cwd = cwd, .terminal = true, .cols = cols, .rows = rows
    };
    struct pty *pty = calloc(1, sizeof *pty);
    int r;

    if (!pty)
        return gb_fail(err, ENOMEM, "open a terminal");
    *pty = (struct pty){ .box = box, .master = -EBADF };
    if ((r = spawn(pty, &start, err)) < 0 || (r = master_take(pty, err)) < 0 ||
        (r = exec_wait(pty, err)) < 0) {
        pty_free(pty);
        return r;
    }
    *ret_pty = pty;
    return 0;
}

/* ---- while it runs ---- */

int pty_fd(const struct pty *pty)
{
    return pty->master;
}

int pty_pidfd(const struct pty *pty)
{
    return tenant_pidfd(pty->tenant);
}

int pty_resize(struct pty *pty, uint16_t cols, uint16_t rows)
{
    struct winsize size = { .ws_row = rows, .ws_col = cols };

    return ioctl(pty->master, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

int pty_signal(struct pty *pty, int sig, struct gb_err *err)
{
    struct builder_request request = { .op = BOX_SIGNAL_SESSION, .box = pty->box->id };
    struct builder_reply reply;

    request.signal.pgid = tenant_group(pty->tenant);
    request.signal.signal = sig;
    return engine_call(pty->box->engine, &request, NULL, 0, &reply, NULL, NULL, err);
}

int pty_end(struct pty *pty, int *ret_exit_code)
{
    int code, status, r;

    (void) syscall(SYS_pidfd_send_signal, tenant_pidfd(pty->tenant), SIGKILL, NULL, 0);
    r = tenant_wait(pty->tenant, &code, &status);

    if (r == 0)
        *ret_exit_code = code == CLD_EXITED ? status : 128 + status;
    return r;
}

void pty_free(struct pty *pty)
{
    if (!pty)
        return;
    gb_closep(&pty->master); /* hangs up */
    tenant_free(pty->tenant);
    free(pty);
}
