/*
 * PID 1 of a box.
 *
 * Theory of operation. The builder clones a process into new mount, PID, network, IPC and UTS
 * namespaces. It sets up the box (mounts, loopback), changes to the box's host id, creates the user
 * namespace in which that id is 1000, drops everything it does not need, hides itself (undumpable)
 * and then waits on its lifeline, a socket whose other end the builder and the supervisor hold.
 * When the last of them is gone the read returns, PID 1 exits, and the kernel kills everything in
 * the PID namespace. Orphans need no reaping: SIGCHLD is ignored.
 *
 * The other namespaces are created before the user namespace and so belong to the one above it:
 * whatever capabilities a process might have inside the box, they give it no power over its mounts
 * and its network.
 *
 * The code runs in a clone of the builder, without exec: no malloc, no locks, no logging.
 */
#include "engine/seal/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/seal/seal.h"
#include "engine/seal/seccomp.h"
#include "engine/shared/wire.h"

#include "engine/shared/banned_after_clone.h"

#include "base/banned.h"

#define LIFELINE_FD 3

struct box_step {
    const char *name;
    int (*run)(const struct box_spec *spec); /* 0 or -errno */
};

static int init_cgroup(const struct box_spec *spec)
{
    for (int i = 0; i < spec->cgroup_fds_len; i++)
        if (write(spec->cgroup_fds[i], "0", 1) != 1)
            return -errno;
    /* Only now: a cgroup namespace is rooted in the cgroup of the process that creates it. */
    return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

static int init_loopback(const struct box_spec *spec)
{
    autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };

    (void) spec;
    if (fd < 0)
        return -errno;
    return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

int box_take_ids(uint32_t host_id)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    /* Creating a user namespace needs privileges on some hosts: keep ours across the change. */
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return -errno;
    if (setresgid(host_id, host_id, host_id) < 0 || setresuid(host_id, host_id, host_id) < 0)
        return -errno;
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    data[0].effective = data[0].permitted;
    data[1].effective = data[1].permitted;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int init_ids(const struct box_spec *spec)
{
    return box_take_ids(spec->host_id);
}

/* A process may map its own id into the namespace it created, without any privilege. */
int box_user_namespace(int proc_self, uint32_t uid, uint32_t gid, uint32_t host_id)
{
    char map[48];
    int r;

    if (unshare(CLONE_NEWUSER) < 0)
        return -errno;
    /* /proc/self belongs to root while a process is undumpable, which it is after the change of
     * ids. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return -errno;
    if ((r = io_write_text_at(proc_self, "setgroups", "deny")) < 0)
        return r;
    snprintf(map, sizeof map, "%u %u 1", uid, host_id);
    if ((r = io_write_text_at(proc_self, "uid_map", map)) < 0)
        return r;
    snprintf(map, sizeof map, "%u %u 1", gid, host_id);
    if ((r = io_write_text_at(proc_self, "gid_map", map)) < 0)
        return r;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

static int init_user_namespace(const struct box_spec *spec)
{
    return box_user_namespace(spec->proc_self, BOX_UID, BOX_GID, spec->host_id);
}

static int init_signals(const struct box_spec *spec)
{
    sigset_t none;

    (void) spec;
    if (setsid() < 0)
        return -errno;
    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGKILL && sig != SIGSTOP)
            (void) signal(sig, SIG_IGN); /* SIGCHLD too: orphans are reaped automatically */
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

/* Tells the builder that the box is ready, with the descriptor of the root directory attached, and
 * keeps only the lifeline. The last steps follow without a report: if one fails PID 1 exits, which
 * cannot go unnoticed. */
static int init_report(const struct box_spec *spec)
{
    struct box_report report = { .step = BOX_READY };
    autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (root < 0)
        return -errno;
    if ((r = wire_send(spec->lifeline, &report, sizeof report, &root, 1)) < 0)
        return r;
    if (spec->lifeline != LIFELINE_FD && dup3(spec->lifeline, LIFELINE_FD, O_CLOEXEC) < 0)
        return -errno;
    (void) syscall(SYS_close_range, 0, LIFELINE_FD - 1, 0);
    return syscall(SYS_close_range, LIFELINE_FD + 1, ~0U, 0) < 0 ? -errno : 0;
}

static int init_seal(const struct box_spec *spec)
{
    int r;

    (void) spec;
    if ((r = seal_caps(0)) < 0 || (r = seal_no_new_privs()) < 0)
        return r;
    return seal_seccomp_load(SECCOMP_POLICY_INIT);
}

static const struct box_step steps[] = {
    { "cgroup", init_cgroup },
    { "loopback", init_loopback },
    { "mounts", box_mount_all },
    { "ids", init_ids },
    { "user namespace", init_user_namespace },
    { "signals", init_signals },
    { "report", init_report },
    { "seal", init_seal },
};

const char *box_step_name(uint32_t step)
{
    return step < ARRAY_LEN(steps) ? steps[step].name : "?";
}

/* Executes a command that has an answer; returns false for one without. */
static bool obey(const struct box_command *command, int32_t *answer)
{
    if (command->op == BOX_OP_KILL) {
        if (kill(-1, SIGKILL) < 0 && errno != ESRCH)
            *answer = errno;
        return true;
    }
    if (command->op == BOX_OP_SIGNAL_SOME) {
        for (uint32_t i = 0; i < command->pids_len && i < BOX_PIDS_MAX; i++)
            if (command->pids[i] > 1)
                (void) kill(command->pids[i], command->signal); /* it may be gone by now */
        return true;
    }
    if (command->op == BOX_OP_SIGNAL && command->pgid > 1)
        (void) kill(-command->pgid, command->signal);
    return false;
}

static _Noreturn void serve(void)
{
    struct box_command command;

    for (;;) {
        ssize_t n = recv(LIFELINE_FD, &command, sizeof command, 0);
        int32_t answer = 0;

        if (n < 0 && errno == EINTR)
            continue;
        if (n != sizeof command)
            _exit(0); /* the lifeline was closed */
        if (obey(&command, &answer))
            (void) !send(LIFELINE_FD, &answer, sizeof answer, MSG_NOSIGNAL);
    }
}

_Noreturn void box_init_main(const struct box_spec *spec)
{
    struct box_spec own = *spec;

    /* Opened for our own id maps while the builder's /proc is visible: the box's is read-only. */
    own.proc_self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (uint32_t i = 0; i < ARRAY_LEN(steps); i++) {
        int r = steps[i].run(&own);
        struct box_report report = { .step = i, .error = -r };

        if (r >= 0)
            continue;
        (void) !send(spec->lifeline, &report, sizeof report, MSG_NOSIGNAL);
        _exit(126);
    }
    serve();
}
