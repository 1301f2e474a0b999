#include "engine/seal/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/seal/seccomp.h"

#include "engine/shared/banned_after_clone.h"

#include "base/banned.h"

enum seal_need { SEAL_REQUIRED, SEAL_IF_SUPPORTED };

struct seal_step {
    const char *name;
    int (*run)(const struct seal_spec *spec); /* 0 or -errno */
    enum seal_need need;
};

static int step_cgroup(const struct seal_spec *spec)
{
    for (unsigned i = 0; i < spec->cgroup_fds_len; i++)
        if (write(spec->cgroup_fds[i], "0", 1) != 1)
            return -errno;
    return 0;
}

/* When the host runs out of memory, tenants should be killed first. */
static int step_oom(const struct seal_spec *spec)
{
    autoclose int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (write(fd, "1000", 4) != 4)
        return -errno;
    /* Not earlier, as /proc/self would no longer be ours; and not after the join, where others have
     * the same id. */
    if (spec->exec && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    return 0;
}

static int step_join(const struct seal_spec *spec)
{
    /* The PID namespace came with the clone. The kernel checks our capabilities before any of these
     * takes effect, so one call can join the user namespace together with the others. */
    int spaces =
        CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

    return setns(spec->box_pidfd, spaces) < 0 ? -errno : 0;
}

static int step_descriptors(const struct seal_spec *spec)
{
    for (int i = 0; i < 3; i++)
        if (dup2(spec->stdio[i], i) < 0)
            return -errno;
    if (dup3(spec->control, SEAL_CONTROL_FD, O_CLOEXEC) < 0)
        return -errno;
    return syscall(SYS_close_range, SEAL_CONTROL_FD + 1, ~0U, 0) < 0 ? -errno : 0;
}

static int step_place(const struct seal_spec *spec)
{
    (void) spec;
    if (setsid() < 0)
        return -errno;
    umask(022);
    return chdir("/workspace") < 0 ? -errno : 0;
}

static int step_ids(const struct seal_spec *spec)
{
    (void) spec;
    /* Supplementary groups: the template has none, and setgroups is denied in the box. Not through
     * the C library, which would tell threads that the template once had, and wait for them. */
    if (syscall(SYS_setresgid, BOX_GID, BOX_GID, BOX_GID) < 0 ||
        syscall(SYS_setresuid, BOX_UID, BOX_UID, BOX_UID) < 0)
        return -errno;
    return 0;
}

static int limit_set(int resource, int64_t value)
{
    struct rlimit now, limit = { .rlim_cur = (rlim_t) value, .rlim_max = (rlim_t) value };

    /* Lower limits of the host are kept. */
    if (getrlimit((__rlimit_resource_t) resource, &now) < 0)
        return -errno;
    if (limit.rlim_max > now.rlim_max)
        limit.rlim_cur = limit.rlim_max = now.rlim_max;
    return setrlimit((__rlimit_resource_t) resource, &limit) < 0 ? -errno : 0;
}

static int step_limits(const struct seal_spec *spec)
{
    const struct limits *l = &spec->limits;
    /* PID 1 counts too. With cgroups, their limit must be hit first: it counts refusals, which the
     * verdict is based on. */
    int64_t processes = l->pids + 1 + (spec->cgroups ? 16 : 0);
    int64_t cpu_s = l->cpu_us ? l->cpu_us / 1000000 + 2 : 0;
    int r;

    if ((r = limit_set(RLIMIT_NOFILE, l->open_files)) < 0 ||
        (r = limit_set(RLIMIT_FSIZE, l->file_bytes)) < 0 || (r = limit_set(RLIMIT_CORE, 0)) < 0 ||
        (r = limit_set(RLIMIT_NPROC, processes)) < 0 ||
        (r = limit_set(RLIMIT_MEMLOCK, 65536)) < 0 || (r = limit_set(RLIMIT_MSGQUEUE, 65536)) < 0 ||
        (r = limit_set(RLIMIT_NICE, 0)) < 0 || (r = limit_set(RLIMIT_RTPRIO, 0)) < 0 ||
        (r = limit_set(RLIMIT_SIGPENDING, 1024)) < 0)
        return r;
    return cpu_s ? limit_set(RLIMIT_CPU, cpu_s) : 0;
}

static int step_caps(const struct seal_spec *spec)
{
    (void) spec;
    return seal_caps(0);
}

/* The change of ids made the process undumpable, which would hide /proc/self from the program. An
 * exec resets it. */
static int step_dumpable(const struct seal_spec *spec)
{
    return prctl(PR_SET_DUMPABLE, spec->exec ? 0 : 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int step_no_new_privs(const struct seal_spec *spec)
{
    (void) spec;
    return seal_no_new_privs();
}

/* A shell must be able to kill processes that others of its session started, and each of them is a
 * separate domain. Namespaces limit its reach, for signals as well as for abstract sockets. */
static int step_landlock(const struct seal_spec *spec)
{
    return spec->landlock ? seal_landlock(!spec->exec) : 0;
}

/* An interrupt may be sent as soon as the seal is reported. If it hit the interpreter before the
 * program runs, it would be lost in a fork hook, or kill the tenant; so it is blocked, and the
 * runner unblocks it. A program that is executed starts with all signals unblocked. */
static int step_signals(const struct seal_spec *spec)
{
    sigset_t set;

    sigemptyset(&set);
    if (!spec->exec)
        sigaddset(&set, SIGINT);
    return sigprocmask(SIG_SETMASK, &set, NULL) < 0 ? -errno : 0;
}

static int step_seccomp(const struct seal_spec *spec)
{
    return seal_seccomp_load(spec->cgroups ? SECCOMP_POLICY_LAST : SECCOMP_POLICY_LAST_NOCGROUP);
}

static const struct seal_step seal_steps[] = {
    { "cgroup", step_cgroup, SEAL_REQUIRED }, /* its files are not visible after the join */
    { "oom score", step_oom, SEAL_REQUIRED }, /* so is the host's /proc */
    { "join", step_join, SEAL_REQUIRED },
    { "descriptors", step_descriptors, SEAL_REQUIRED },
    { "place", step_place, SEAL_REQUIRED },
    { "ids", step_ids, SEAL_REQUIRED },
    { "limits", step_limits, SEAL_REQUIRED },
    { "capabilities", step_caps, SEAL_REQUIRED },
    { "dumpable", step_dumpable, SEAL_REQUIRED }, /* after the ids, which clear it */
    { "no_new_privs", step_no_new_privs, SEAL_REQUIRED },
    { "landlock", step_landlock, SEAL_IF_SUPPORTED },
    { "signals", step_signals, SEAL_REQUIRED },
    { "seccomp", step_seccomp, SEAL_REQUIRED }, /* last: it forbids the above */
};

const char *seal_step_name(uint32_t step)
{
    return step < ARRAY_LEN(seal_steps) ? seal_steps[step].name : "?";
}

/* ---- the holder ---- */

#define HOLDER_STACK 16384

static int holder_main(void *arg)
{
    (void) arg;
    (void) syscall(SYS_close_range, 0, ~0U, 0);
    while (syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0) < 0)
        ;
    return 0;
}

/* Tearing down a large address space is a good part of the exit of a short program, and whoever
 * waits for the program waits for that too. So a second process shares the same memory: the tenant
 * exits at once, and the memory is freed when the box is emptied, which nobody waits for. It has no
 * descriptors, sleeps with all signals blocked, and is sealed like the tenant. Its exit signal of 0
 * hides it from wait(): the program finds no child that it did not start. If it cannot be created,
 * or the program kills it, exits merely take longer. */
static void memory_hold(void)
{
    static char stack[HOLDER_STACK] __attribute__((aligned(16)));
    sigset_t all, before;

    sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, &before);
    (void) clone(holder_main, stack + sizeof stack, CLONE_VM, NULL);
    (void) sigprocmask(SIG_SETMASK, &before, NULL);
}

static void report_send(int fd, uint32_t step, int error)
{
    struct seal_report report = {
        .magic = SEAL_MAGIC, .step = step, .error = error, .pid = (int32_t) getpid()
    };

    (void) !send(fd, &report, sizeof report, MSG_NOSIGNAL);
}

void seal_tenant(const struct seal_spec *spec)
{
    for (uint32_t i = 0; i < ARRAY_LEN(seal_steps); i++) {
        int r = seal_steps[i].run(spec);

        if (r >= 0 || (r == -EOPNOTSUPP && seal_steps[i].need == SEAL_IF_SUPPORTED))
            continue;
        /* The socket has its old number until the descriptors are moved, then the new one. */
        report_send(spec->control, i, -r);
        report_send(SEAL_CONTROL_FD, i, -r);
        _exit(126);
    }
    /* If our own watch counts memory it would count this twice; and a program executed next has
     * separate memory. */
    if (spec->cgroups && !spec->exec)
        memory_hold();
    report_send(SEAL_CONTROL_FD, SEAL_DONE, 0);
}
