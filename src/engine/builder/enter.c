/*
 * How a builder enters its namespaces.
 *
 * Real root needs none. Everyone else needs two namespaces first: an outer user namespace, to be
 * root in, and a PID namespace that belongs to it, because a template can return from a box's PID
 * namespace only to one that its own user namespace owns. A process cannot enter a PID namespace;
 * it must be created in it. So there are three processes:
 *
 *   - the one that the supervisor executed. It creates the namespaces and the other two, closes
 *     everything and stays only to reap the keeper, and to undo its changes to the cgroup that
 *     it and the supervisor are in (cgroup/v2.c).
 *   - the keeper, PID 1 of that namespace: it does nothing but exit when the supervisor and the
 *     builder are both gone, and with it everything that could still be running there.
 *   - the builder, executed once more so that its memory belongs to the new user namespace. It is a
 *     sibling of the first one, a child of the supervisor.
 *
 * A builder that takes over joins both namespaces instead; the keeper stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/err.h"
#include "engine/builder.h"
#include "engine/builder/internal.h"
#include "engine/builder/user_namespace.h"
#include "engine/cgroup/cgroup.h"
#include "engine/seal/seal.h"
#include "engine/seal/seccomp.h"
#include "engine/shared/caller.h"
#include "engine/shared/wire.h"

#include "base/banned.h"

static _Noreturn void keeper_main(int lifeline)
{
    char byte;

    (void) prctl(PR_SET_NAME, "glovebox-keep", 0, 0, 0);
    (void) signal(SIGCHLD, SIG_IGN); /* orphans are reaped automatically */
    if (dup2(lifeline, 0) < 0 || syscall(SYS_close_range, 1, ~0U, 0) < 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || seal_caps(0) < 0 || seal_no_new_privs() < 0 ||
        seal_seccomp_load(SECCOMP_POLICY_INIT) < 0)
        _exit(1);
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        ;
    _exit(0);
}

/* Executes the builder proper, as a sibling of the caller. */
static int start_inside(char **argv, int keeper, struct gb_err *err)
{
    char *const again[] = { argv[0], argv[1], (char *) BUILDER_INSIDE, NULL };
    struct clone_args args = { .flags = CLONE_PARENT };
    pid_t pid = (pid_t) syscall(SYS_clone3, &args, sizeof args);

    if (pid < 0)
        return gb_fail(err, errno, "clone the builder");
    if (pid > 0)
        return 0;
    /* dup2 also clears CLOEXEC; if the number is already right, that must be done explicitly. */
    if (keeper == BUILDER_KEEPER_FD)
        (void) fcntl(keeper, F_SETFD, 0);
    else if (dup2(keeper, BUILDER_KEEPER_FD) < 0)
        _exit(127);
    (void) syscall(SYS_close_range, BUILDER_KEEPER_FD + 1, ~0U, 0);
    execv("/proc/self/exe", again);
    _exit(127);
}

/* Which cgroups the first request will ask for; it stays in the socket for the builder. */
static enum cgroup_mode wanted_cgroups(void)
{
    struct builder_request request;
    ssize_t n;

    do {
        n = recv(BUILDER_CONTROL_FD, &request, sizeof request, MSG_PEEK);
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t) sizeof request || request.op != BUILDER_SETUP)
        return CGROUP_OFF;
    return (enum cgroup_mode) request.setup.cgroup_mode;
}

/* Namespaces, keeper, builder. */
static int enter_make(char **argv, pid_t *ret_keeper, struct gb_err *err)
{
    int lifeline[2], r;
    pid_t keeper;

    r = caller_is_privileged() ? 0 : outer_enter(err);
    if (r < 0)
        return r;
    if (pipe2(lifeline, O_CLOEXEC) < 0)
        return gb_fail(err, errno, "create a pipe");
    if (unshare(CLONE_NEWPID) < 0)
        return gb_fail(err, errno, "create a PID namespace");
    keeper = fork();
    if (keeper == 0)
        keeper_main(lifeline[0]);
    if (keeper < 0)
        return gb_fail(err, errno, "start the keeper");
    r = start_inside(argv, lifeline[1], err);
    if (r == 0)
        *ret_keeper = keeper;
    return r;
}

/* The first start. */
static int enter_first(char **argv, struct gb_err *err)
{
    enum cgroup_mode wanted = wanted_cgroups();
    bool may_move = wanted == CGROUP_AUTO || wanted == CGROUP_V2;
    autoclose int group = may_move ? cgroup_step_aside() : -EBADF;
    pid_t keeper = -1;
    int r = enter_make(argv, &keeper, err);

    if (r == 0) {
        /* The lifeline and the socket belong to the other two now. */
        if (group >= 0)
            (void) syscall(SYS_close_range, 0, (unsigned) group - 1, 0);
        (void) syscall(SYS_close_range, group >= 0 ? (unsigned) group + 1 : 0, ~0U, 0);
        while (waitpid(keeper, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (group >= 0)
        cgroup_step_back(group);
    return r < 0 ? r : 1;
}

static int enter_join(char **argv, struct gb_err *err)
{
    int r;

    if (setns(BUILDER_USER_NS_FD, CLONE_NEWUSER) < 0 || setns(BUILDER_PID_NS_FD, CLONE_NEWPID) < 0)
        return gb_fail(err, errno, "join the builder's namespaces");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return gb_fail(err, errno, "become root of the user namespace");
    r = start_inside(argv, BUILDER_KEEPER_FD, err);
    return r < 0 ? r : 1;
}

int builder_enter(int argc, char **argv, struct gb_err *err)
{
    const char *how = argc > 2 ? argv[2] : "";
    int r = outer_check_seccomp(err);

    if (r < 0)
        return r;
    for (int fd = BUILDER_CONTROL_FD; fd < BUILDER_FDS_END; fd++)
        (void) fcntl(fd, F_SETFD, fd == BUILDER_CONTROL_FD ? 0 : FD_CLOEXEC);
    if (strcmp(how, BUILDER_JOIN) == 0)
        return enter_join(argv, err);
    if (strcmp(how, BUILDER_INSIDE) != 0) {
        (void) syscall(SYS_close_range, BUILDER_KEEPER_FD, ~0U, 0);
        if (!caller_is_privileged() || !outer_owns_pid_namespace())
            return enter_first(argv, err);
    } else if (!caller_is_privileged()) {
        return gb_fail_plain(err, EPERM, "the user namespace gives no privileges");
    }
    (void) fcntl(BUILDER_CONTROL_FD, F_SETFD, FD_CLOEXEC);
    return 0;
}
