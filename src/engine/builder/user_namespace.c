/*
 * Rootless: one outer user namespace, created once, in which the builder is root.
 *
 * A range of ids needs newuidmap and newgidmap (set-uid helpers of Debian's uidmap package), which
 * must run in the parent namespace while the child waits. Without them, or without an entry in
 * /etc/subuid, a single id is mapped: that always works, but all boxes then share the user's own id
 * and its supplementary groups cannot be dropped.
 */
#include "engine/builder/user_namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/shared/caller.h"

#include "base/banned.h"

int outer_check_seccomp(struct gb_err *err)
{
    uint32_t action = SECCOMP_RET_ERRNO;

    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
        return 0;
    return gb_fail_plain(
        err, errno,
        "seccomp filters are not available (%s): the kernel needs CONFIG_SECCOMP_FILTER, "
        "and a container's profile must allow seccomp(2)",
        strerrorname_np(errno));
}

bool outer_owns_pid_namespace(void)
{
    autoclose int pid_ns = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    autoclose int owner = pid_ns < 0 ? -1 : ioctl(pid_ns, NS_GET_USERNS);
    struct stat ours, its;

    /* EPERM means that the owner is not visible to us: above us. */
    return owner >= 0 && fstat(owner, &its) == 0 && stat("/proc/self/ns/user", &ours) == 0 &&
           its.st_dev == ours.st_dev && its.st_ino == ours.st_ino;
}

/* Runs a map helper; true when it has set the map. */
static bool map_helper(const char *tool, const char *pid, const char *own, const char *first,
                       const char *count)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        (void) dup2(null, 0);
        (void) dup2(null, 1);
        (void) dup2(null, 2); /* its messages would be taken for the program's */
        execlp(tool, tool, pid, "0", own, "1", "1", first, count, (char *) NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* The child that stays outside: waits for the signal to start, then maps its parent. */
static _Noreturn void map_from_outside(int go_fd, pid_t target, uid_t uid, gid_t gid)
{
    char pid[16], own_uid[16], own_gid[16], first[2][24], count[2][24], go;
    struct passwd *pw = getpwuid(uid);
    const char *user = pw ? pw->pw_name : NULL;

    snprintf(pid, sizeof pid, "%d", target);
    snprintf(own_uid, sizeof own_uid, "%u", uid);
    snprintf(own_gid, sizeof own_gid, "%u", gid);
    if (!caller_subid_range("/etc/subuid", user, uid, first[0], count[0], sizeof first[0]) ||
        !caller_subid_range("/etc/subgid", user, uid, first[1], count[1], sizeof first[1]))
        _exit(1);
    if (read(go_fd, &go, 1) != 1)
        _exit(1);
    if (!map_helper("newuidmap", pid, own_uid, first[0], count[0]))
        _exit(2);
    _exit(map_helper("newgidmap", pid, own_gid, first[1], count[1]) ? 0 : 2);
}

static int map_single(uid_t uid, gid_t gid, struct gb_err *err)
{
    autoclose int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char map[32];
    int r;

    if (self < 0)
        return gb_fail(err, errno, "open /proc/self");
    if ((r = io_write_text_at(self, "setgroups", "deny")) < 0)
        return gb_fail(err, -r, "write /proc/self/setgroups");
    snprintf(map, sizeof map, "0 %u 1", uid);
    if ((r = io_write_text_at(self, "uid_map", map)) < 0)
        return gb_fail(err, -r, "write /proc/self/uid_map");
    snprintf(map, sizeof map, "0 %u 1", gid);
    if ((r = io_write_text_at(self, "gid_map", map)) < 0)
        return gb_fail(err, -r, "write /proc/self/gid_map");
    return 0;
}

static int enter_failed(struct gb_err *err, int code)
{
    char why[140];

    caller_explain_no_userns(why, sizeof why);
    return gb_fail_plain(err, code, "cannot create a user namespace (%s): %s",
                         strerrorname_np(code), why);
}

bool outer_is_host_root(void)
{
    char map[128];
    unsigned inside, outside, count;

    if (geteuid() != 0)
        return false;
    if (io_read_text_at(AT_FDCWD, "/proc/self/uid_map", map, sizeof map) < 0)
        return true;
    return sscanf(map, "%u %u %u", &inside, &outside, &count) != 3 || outside == 0;
}

int outer_enter(struct gb_err *err)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    pid_t self = getpid(), helper;
    int go[2], status = 0, r = 0;
    struct gb_err map_err = { 0 };

    if (outer_is_host_root())
        return gb_fail_plain(
            err, EPERM,
            "root without its capabilities cannot isolate programs: run glovebox as an ordinary "
            "user, or give it CAP_SYS_ADMIN and the other capabilities");
    if (pipe2(go, O_CLOEXEC) < 0)
        return gb_fail(err, errno, "create a pipe");
    helper = fork();
    if (helper == 0) {
        (void) close(go[1]);
        map_from_outside(go[0], self, uid, gid);
    }
    (void) close(go[0]);
    if (helper < 0)
        r = gb_fail(err, errno, "fork");
    else if (unshare(CLONE_NEWUSER) < 0)
        r = enter_failed(err, errno);
    else
        (void) !write(go[1], "g", 1); /* SIGPIPE is ignored; a helper that has exited has failed */
    (void) close(go[1]);
    if (helper > 0)
        (void) waitpid(helper, &status, 0);
    if (r < 0)
        return r;
    if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0) && map_single(uid, gid, &map_err) < 0)
        return enter_failed(err, map_err.code);
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return enter_failed(err, errno);
    return 0;
}
