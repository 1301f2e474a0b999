/*
 * A program in a box, started by the builder: a shell, a command.
 *
 * Theory of operation. The builder switches to the box's PID namespace for its children, clones
 * once and switches back at once, as a template does (python/template_ext.c). The child loads the
 * large filter, which a tenant inherits from its template, and then seals itself by the same steps
 * as a tenant. The program it executes after that is confined in the same way. It reports over the
 * control socket: sealed, or the step that failed; and once more when the program could not be
 * executed. Otherwise the exec closes the socket, unless the program inherits it.
 *
 * A program with a terminal opens it itself, when it is sealed and has the ids of the box: so it is
 * one of the box's own file system, owned by the box's user. Our side of it is sent over the
 * control socket, before any user code runs; that is the only descriptor that ever comes from a
 * box.
 *
 * Between clone and exec: no malloc, no locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/box/box.h"
#include "engine/seal/seal.h"
#include "engine/seal/seccomp.h"

#include "base/banned.h"

/* Reports, in place of the program, why it could not be executed. */
static _Noreturn void die(int fd, uint32_t step, int error)
{
    struct seal_report report = { .magic = SEAL_MAGIC, .step = step, .error = error };

    (void) !send(fd, &report, sizeof report, MSG_NOSIGNAL);
    _exit(error == ENOENT ? 127 : 126);
}

/* A name without a slash is searched for in fixed directories, not by an environment variable. */
static void execute(const struct command *command)
{
    static const char *const places[] = { "/usr/local/bin", "/usr/bin", "/bin", BOX_BIN };
    const char *name = command->argv[0];
    char path[256];

    if (strchr(name, '/')) {
        (void) execve(name, command->argv, command->envp);
        return;
    }
    errno = ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(places) && errno == ENOENT; i++) {
        if (snprintf(path, sizeof path, "%s/%s", places[i], name) >= (int) sizeof path)
            return;
        (void) execve(path, command->argv, command->envp);
    }
}

/* Makes a terminal of the box the controlling one, with descriptors 0 to 2, and sends our side of
 * it. The seal has begun a new session. */
static void terminal_enter(const struct command *command)
{
    struct seal_report report = { .magic = SEAL_MAGIC, .step = SEAL_TERMINAL };
    struct winsize size = { .ws_row = command->rows, .ws_col = command->cols };
    int master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC), slave, r;
    int locked = 0;
    struct termios mode;

    if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
        die(SEAL_CONTROL_FD, SEAL_TERMINAL, errno);
    slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0 || tcgetattr(slave, &mode) < 0)
        die(SEAL_CONTROL_FD, SEAL_TERMINAL, errno);
    mode.c_iflag |= IUTF8; /* backspace removes a character, not a byte */
    if (tcsetattr(slave, TCSANOW, &mode) < 0 || ioctl(slave, TIOCSWINSZ, &size) < 0 ||
        ioctl(slave, TIOCSCTTY, 0) < 0)
        die(SEAL_CONTROL_FD, SEAL_TERMINAL, errno);
    for (int i = 0; i < 3; i++)
        if (dup2(slave, i) < 0)
            die(SEAL_CONTROL_FD, SEAL_TERMINAL, errno);
    r = wire_send(SEAL_CONTROL_FD, &report, sizeof report, &master, 1);
    if (r < 0)
        die(SEAL_CONTROL_FD, SEAL_TERMINAL, -r);
    (void) close(master);
    (void) close(slave);
}

static _Noreturn void command_main(const struct seal_spec *spec, const struct command *command)
{
    int r;

    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGKILL && sig != SIGSTOP)
            (void) signal(sig, SIG_DFL);
    if ((r = seal_no_new_privs()) < 0 || (r = seal_seccomp_load(SECCOMP_POLICY_BASE)) < 0)
        die(spec->control, SEAL_FILTER, -r);
    seal_tenant(spec);
    if (command->terminal)
        terminal_enter(command);
    if (command->cwd[0] && chdir(command->cwd) < 0)
        die(SEAL_CONTROL_FD, SEAL_CWD, errno);
    if (command->keep_control && fcntl(SEAL_CONTROL_FD, F_SETFD, 0) < 0)
        die(SEAL_CONTROL_FD, SEAL_EXEC, errno);
    execute(command);
    die(SEAL_CONTROL_FD, SEAL_EXEC, errno);
}

static pid_t clone_into(int cgroup_fd, int *ret_pidfd)
{
    struct clone_args args = {
        .flags = CLONE_PARENT | CLONE_PIDFD,
        .pidfd = (uint64_t) (uintptr_t) ret_pidfd,
    };

    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t) cgroup_fd;
    }
    return (pid_t) syscall(SYS_clone3, &args, sizeof args);
}

/* Clones into the box's PID namespace. Returns in the builder only. */
static pid_t spawn(const struct seal_spec *spec, const struct command *command, int cgroup_fd,
                   int *ret_pidfd, int *ret_errno)
{
    autoclose int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    sigset_t all, before;
    pid_t pid;

    if (own < 0 || setns(spec->box_pidfd, CLONE_NEWPID) < 0) {
        *ret_errno = errno;
        return -1;
    }
    sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, &before);
    pid = clone_into(cgroup_fd, ret_pidfd);
    if (pid == 0)
        command_main(spec, command);
    *ret_errno = errno;
    (void) sigprocmask(SIG_SETMASK, &before, NULL);
    if (setns(own, CLONE_NEWPID) < 0)
        _exit(125); /* the next box would be created inside this one */
    return pid;
}

int entry_start_command(const struct cgroup_root *cgroups, const struct box_entry *box,
                        const struct command *command, int *ret_pidfd, struct gb_err *err)
{
    struct seal_spec spec = {
        .box_pidfd = box->pidfd,
        .stdio = { command->stdio[0], command->stdio[1], command->stdio[2] },
        .control = command->control,
        .landlock = command->landlock,
        .exec = true,
        .cgroups = cgroup_root_mode(cgroups) != CGROUP_OFF,
        .limits = box->limits,
    };
    int count = cgroup_open_procs(cgroups, &box->cgroup, spec.cgroup_fds, err), error = 0;
    pid_t pid;

    if (count < 0)
        return count;
    spec.cgroup_fds_len = (unsigned) count;
    pid = spawn(&spec, command, cgroup_clone_fd(cgroups, &box->cgroup), ret_pidfd, &error);
    wire_close_fds(spec.cgroup_fds, spec.cgroup_fds_len);
    return pid < 0 ? gb_fail(err, error, "start a command in box %u", box->id) : 0;
}
