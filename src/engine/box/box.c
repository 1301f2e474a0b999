#include "engine/box/box.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "engine/disk/disk.h"
#include "engine/seal/init.h"
#include "engine/shared/caller.h"
#include "engine/shared/walk.h"
#include "engine/shared/wire.h"

#include "base/banned.h"

#define END_WAIT_US    (5 * USEC_PER_SEC)
#define ANSWER_WAIT_MS 10000 /* PID 1 shares the box's CPU quota with busy programs */

/* Clones PID 1. Its parent is the supervisor, as ours is: then a builder that replaces this one
 * need not care who waits for it. */
static pid_t clone_init(int cgroup_fd, int *ret_pidfd)
{
    struct clone_args args = {
        .flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                 CLONE_PARENT | CLONE_PIDFD,
        .pidfd = (uint64_t) (uintptr_t) ret_pidfd,
    };

    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t) cgroup_fd;
    }
    return (pid_t) syscall(SYS_clone3, &args, sizeof args);
}

/* Waits for the report of PID 1 and takes the root directory from it. */
static int report_wait(int lifeline, int *ret_root, struct gb_err *err)
{
    struct box_report report;
    int fds[WIRE_FDS_MAX];
    size_t fds_len;
    int r = wire_recv(lifeline, &report, sizeof report, fds, &fds_len);

    if (r < 0)
        return gb_fail_about(err, -r, "PID 1 of the box did not report");
    if (report.step == BOX_READY && fds_len == 1) {
        *ret_root = fds[0];
        return 0;
    }
    wire_close_fds(fds, fds_len);
    if (report.error == EPERM && strcmp(box_step_name(report.step), "mounts") == 0)
        return gb_fail_plain(
            err, EPERM,
            "the box cannot mount its own /proc: in a container, run glovebox "
            "with an unmasked /proc (docker run --security-opt systempaths=unconfined)");
    if (strcmp(box_step_name(report.step), "user namespace") == 0) {
        char why[140];

        caller_explain_no_userns(why, sizeof why);
        return gb_fail_plain(err, report.error ? report.error : EPROTO,
                             "cannot create a user namespace (%s): %s",
                             strerrorname_np(report.error), why);
    }
    return gb_fail(err, report.error ? report.error : EPROTO, "create a box: step '%s' failed",
                   box_step_name(report.step));
}

static int workspace_open(struct box_entry *box)
{
    box->workspace = openat(box->root, "workspace", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return box->workspace < 0 ? -errno : 0;
}

static void entry_init(struct box_entry *box, uint32_t id, const struct limits *limits,
                       enum disk_kind disk)
{
    *box = (struct box_entry){ .id = id,
                               .pidfd = -EBADF,
                               .lifeline = -EBADF,
                               .root = -EBADF,
                               .workspace = -EBADF,
                               .disk = disk,
                               .limits = *limits };
    for (size_t i = 0; i < CGROUP_FDS_MAX; i++)
        box->cgroup.dir_fds[i] = -EBADF;
}

static void entry_close(struct box_entry *box)
{
    gb_closep(&box->pidfd);
    gb_closep(&box->lifeline);
    gb_closep(&box->workspace);
    gb_closep(&box->root);
    box->pidfd = box->lifeline = box->workspace = box->root = -EBADF;
}

static void cgroup_name_of(uint32_t id, char name[CGROUP_NAME_MAX])
{
    snprintf(name, CGROUP_NAME_MAX, "box-%u", id);
}

int box_root_enter(const struct box_root *root, struct gb_err *err)
{
    if (root->mounts >= 0 && setns(root->mounts, CLONE_NEWNS) < 0)
        return gb_fail(err, errno, "enter the root of a template");
    return 0;
}

void box_root_leave(const struct box_root *root)
{
    if (root->mounts >= 0 && setns(root->own, CLONE_NEWNS) < 0)
        _exit(125); /* the next box would see files that are not for it */
}

static int start_init(struct cgroup_root *cgroups, struct box_entry *box, int workspace,
                      const struct box_volumes *volumes, const struct box_root *root,
                      struct gb_err *err)
{
    struct box_spec spec = { .limits = box->limits,
                             .host_id = box->host_id,
                             .workspace = workspace,
                             .volumes = volumes,
                             .proc_self = -EBADF };
    autoclose int inner = -EBADF;
    int pair[2], error, r;
    pid_t pid;

    spec.cgroup_fds_len = cgroup_open_procs(cgroups, &box->cgroup, spec.cgroup_fds, err);
    if (spec.cgroup_fds_len < 0)
        return spec.cgroup_fds_len;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        wire_close_fds(spec.cgroup_fds, (size_t) spec.cgroup_fds_len);
        return gb_fail(err, errno, "create a socket pair");
    }
    box->lifeline = pair[0];
    spec.lifeline = inner = pair[1];
    r = box_root_enter(root, err);
    if (r < 0) {
        wire_close_fds(spec.cgroup_fds, (size_t) spec.cgroup_fds_len);
        return r;
    }
    pid = clone_init(cgroup_clone_fd(cgroups, &box->cgroup), &box->pidfd);
    if (pid == 0)
        box_init_main(&spec);
    error = errno;
    box_root_leave(root);
    wire_close_fds(spec.cgroup_fds, (size_t) spec.cgroup_fds_len);
    if (pid < 0) {
        box->pidfd = -EBADF;
        return gb_fail(err, error, "clone the box's PID 1");
    }
    gb_closep(&inner); /* so that the stream ends if PID 1 dies */
    inner = -EBADF;
    return report_wait(box->lifeline, &box->root, err);
}

/* The mount that becomes the workspace of a box on disk; -EBADF for one in memory. */
static int disk_mount(struct disk_vault *vault, const struct box_entry *box, int image,
                      int *ret_mount, struct gb_err *err)
{
    if (box->disk == DISK_WATCHED)
        return disk_vault_make(vault, box->id, box->host_id, ret_mount, err);
    if (box->disk != DISK_IMAGE)
        return 0;
    if (fchownat(image, "", box->host_id, box->host_id, AT_EMPTY_PATH) < 0)
        return gb_fail(err, errno, "pass an image to a box");
    *ret_mount = fcntl(image, F_DUPFD_CLOEXEC, 0);
    return *ret_mount < 0 ? gb_fail(err, errno, "copy a descriptor") : 0;
}

int entry_make(struct cgroup_root *cgroups, struct id_pool *ids, uint32_t id,
               const struct box_plan *plan, struct disk_vault *vault, struct volume_trees *trees,
               struct box_entry *ret_box, int *ret_dead, struct gb_err *err)
{
    struct box_volumes volumes = { 0 };
    autoclose int mount = -EBADF;
    struct box_entry box;
    char name[CGROUP_NAME_MAX];
    int r;

    entry_init(&box, id, plan->limits, plan->disk);
    r = plan->own_id ? 0 : id_take(ids, &box.host_id);
    if (r < 0)
        return gb_fail_plain(err, -r, "no free host id for another box");
    cgroup_name_of(id, name);
    r = cgroup_make(cgroups, name, plan->limits, &box.cgroup, err);
    if (r < 0) {
        id_give_back(ids, box.host_id);
        return r;
    }
    r = disk_mount(vault, &box, plan->image, &mount, err);
    if (r == 0 && plan->volumes >= 0)
        r = box_volumes_open(trees, plan->volumes, box.host_id, &volumes, err);
    if (r == 0)
        r = start_init(cgroups, &box, mount, &volumes, &plan->root, err);
    box_volumes_close(&volumes);
    if (r == 0)
        r = workspace_open(&box);
    if (r < 0) {
        struct gb_err ignored;

        if (box.pidfd >= 0)
            *ret_dead = fcntl(box.pidfd, F_DUPFD_CLOEXEC, 0);
        (void) entry_end(cgroups, ids, vault, &box, &ignored);
        return r;
    }
    *ret_box = box;
    return 0;
}

int entry_adopt(struct cgroup_root *cgroups, uint32_t id, uint32_t host_id,
                const struct limits *limits, enum disk_kind disk, const int fds[3],
                struct box_entry *ret_box, struct gb_err *err)
{
    struct box_entry box;
    char name[CGROUP_NAME_MAX];
    int r;

    entry_init(&box, id, limits, disk);
    cgroup_name_of(id, name);
    r = cgroup_adopt(cgroups, name, &box.cgroup, err);
    if (r < 0)
        return r;
    box.host_id = host_id;
    box.pidfd = fds[0];
    box.lifeline = fds[1];
    box.root = fds[2];
    r = workspace_open(&box);
    if (r < 0)
        return gb_fail(err, -r, "open the workspace of a box");
    *ret_box = box;
    return 0;
}

void entry_leave(struct box_entry *box)
{
    gb_closep(&box->workspace);
    box->workspace = -EBADF;
}

int entry_end(struct cgroup_root *cgroups, struct id_pool *ids, struct disk_vault *vault,
              struct box_entry *box, struct gb_err *err)
{
    struct pollfd gone = { .fd = box->pidfd, .events = POLLIN };
    int r;

    if (box->pidfd >= 0) {
        (void) syscall(SYS_pidfd_send_signal, box->pidfd, SIGKILL, NULL, 0);
        (void) poll(&gone, 1, (int) (END_WAIT_US / USEC_PER_MSEC));
    }
    entry_close(box);
    if (box->disk == DISK_WATCHED)
        disk_vault_drop(vault, box->id);
    r = cgroup_remove(cgroups, &box->cgroup, END_WAIT_US);
    /* An id under which processes may still run is not used again. */
    if (r == 0)
        id_give_back(ids, box->host_id);
    return r < 0 ? gb_fail(err, -r, "remove the cgroup of box %u", box->id) : 0;
}

/* A command to PID 1 and its answer. */
static int init_call(const struct box_entry *box, const struct box_command *command,
                     struct gb_err *err)
{
    struct pollfd answered = { .fd = box->lifeline, .events = POLLIN };
    int32_t answer;

    if (send(box->lifeline, command, sizeof *command, MSG_NOSIGNAL) < 0)
        return gb_fail(err, errno, "ask PID 1 of box %u to kill its processes", box->id);
    if (poll(&answered, 1, ANSWER_WAIT_MS) <= 0)
        return gb_fail_plain(err, ETIMEDOUT, "PID 1 of box %u did not respond", box->id);
    if (recv(box->lifeline, &answer, sizeof answer, MSG_DONTWAIT) != sizeof answer)
        return gb_fail_plain(err, EPIPE, "PID 1 of box %u is gone", box->id);
    return answer ? gb_fail(err, answer, "kill the processes of box %u", box->id) : 0;
}

int entry_kill(const struct box_entry *box, struct gb_err *err)
{
    struct box_command command = { .op = BOX_OP_KILL };

    return init_call(box, &command, err);
}

int entry_signal_some(const struct box_entry *box, const int32_t *pids, size_t pids_len, int sig,
                      struct gb_err *err)
{
    struct box_command command = { .op = BOX_OP_SIGNAL_SOME, .signal = sig };
    int r = 0;

    while (r == 0 && pids_len > 0) {
        command.pids_len = pids_len < BOX_PIDS_MAX ? (uint32_t) pids_len : BOX_PIDS_MAX;
        memcpy(command.pids, pids, command.pids_len * sizeof *pids);
        r = init_call(box, &command, err);
        pids += command.pids_len;
        pids_len -= command.pids_len;
    }
    return r;
}

int entry_signal(const struct box_entry *box, pid_t pgid, int sig)
{
    struct box_command command = { .op = BOX_OP_SIGNAL, .pgid = pgid, .signal = sig };

    return send(box->lifeline, &command, sizeof command, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void peak_raise(int64_t *peak, int64_t now)
{
    if (now > *peak)
        *peak = now;
}

void entry_usage(const struct cgroup_root *cgroups, struct box_entry *box, int64_t template_anon,
                 struct cgroup_usage *ret_usage)
{
    struct cgroup_usage usage;

    if (cgroup_root_mode(cgroups) == CGROUP_OFF) {
        entry_watch(box, template_anon, &usage);
    } else if (cgroup_usage(cgroups, &box->cgroup, &usage) < 0) {
        usage = (struct cgroup_usage){ -1, -1, -1, -1, -1, -1, -1, -1 };
    }
    /* Some kernels record no peak: then it is the highest value that we saw. */
    peak_raise(&box->peak.cpu_us, usage.cpu_us);
    peak_raise(&box->peak.memory_peak_bytes, usage.memory_bytes);
    peak_raise(&box->peak.pids_peak, usage.pids);
    peak_raise(&usage.cpu_us, box->peak.cpu_us);
    peak_raise(&usage.memory_peak_bytes, box->peak.memory_peak_bytes);
    peak_raise(&usage.pids_peak, box->peak.pids_peak);
    *ret_usage = usage;
}

enum limit_kind entry_disk_full(const struct box_entry *box)
{
    return walk_disk_full(box->root,
                          box->disk == DISK_IMAGE ? disk_image_slack(box->limits.disk_bytes) : 0);
}
