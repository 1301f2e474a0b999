/*
 * The builder.
 *
 * Theory of operation. The supervisor has threads and secrets and must never clone; so it executes
 * this binary again, with an empty environment and one socket, as a small single-threaded process
 * that does nothing but make boxes, start templates and open files in boxes, one request after the
 * other. As an ordinary user it first enters the outer user namespace and executes itself once more
 * inside it. Then it leaves the host's file system for the skeleton and drops the capabilities it
 * does not need.
 *
 * All processes that it starts are children of the supervisor (CLONE_PARENT): the supervisor waits
 * for them, and they survive the death of a builder. The next builder adopts the boxes. When the
 * supervisor dies, the socket closes; the builder then kills all remaining processes, removes the
 * cgroups and exits.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/pidfd.h"
#include "engine/box/box.h"
#include "engine/box/ids.h"
#include "engine/builder.h"
#include "engine/builder/internal.h"
#include "engine/builder/rootfs.h"
#include "engine/builder/template_root.h"
#include "engine/builder/template_start.h"
#include "engine/builder/user_namespace.h"
#include "engine/cgroup/cgroup.h"
#include "engine/disk/disk.h"
#include "engine/seal/seal.h"
#include "engine/shared/wire.h"
#include "engine/volumes.h"

#include "base/banned.h"

#define SWEEP_US     (20 * USEC_PER_MSEC) /* per request: others wait meanwhile */
#define SWEEP_BUDGET 50                   /* entries between two clock readings */

struct builder {
    bool has_keeper; /* rootless: BUILDER_KEEPER_FD is open */
    struct cgroup_root *cgroups;
    struct id_pool ids;
    struct disk_vault vault;
    struct shelf_set shelves;
    struct volume_trees volumes;
    struct box_entry *boxes;
    size_t boxes_len, boxes_cap;
    int64_t template_anon; /* of the newest template; 0 until asked for */
    int template_pidfd;
    int own_mounts; /* our mount namespace, to return to */
};

static const uint64_t builder_caps =
    UINT64_C(1) << CAP_SYS_ADMIN | UINT64_C(1) << CAP_SYS_PTRACE | UINT64_C(1) << CAP_SYS_CHROOT |
    UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID | UINT64_C(1) << CAP_SETPCAP |
    UINT64_C(1) << CAP_KILL | UINT64_C(1) << CAP_NET_ADMIN | UINT64_C(1) << CAP_CHOWN |
    UINT64_C(1) << CAP_DAC_OVERRIDE | UINT64_C(1) << CAP_SETFCAP |
    UINT64_C(1) << CAP_FOWNER; /* a tenant's sticky directories are ours to empty */

static struct box_entry *box_find(struct builder *builder, uint32_t id)
{
    for (size_t i = 0; i < builder->boxes_len; i++)
        if (builder->boxes[i].id == id)
            return &builder->boxes[i];
    return NULL;
}

static int box_slot(struct builder *builder, struct gb_err *err)
{
    struct box_entry *boxes =
        grow(builder->boxes, &builder->boxes_cap, builder->boxes_len + 1, sizeof *boxes, 16);

    if (!boxes)
        return gb_fail(err, ENOMEM, "allocate a box");
    builder->boxes = boxes;
    return 0;
}

/* The descriptors that the supervisor keeps: the locks on ids and cgroups (without them another
 * engine would consider ours dead while a builder is being replaced) and, if there is a keeper,
 * everything that a replacement builder needs. */
static int setup_fds(struct builder *builder, struct exchange *x, struct gb_err *err)
{
    int *fds = x->reply_fds, locks[CGROUP_FDS_MAX + 2];
    size_t locks_len = (size_t) cgroup_root_lock_fds(builder->cgroups, locks);

    x->reply_fds_owned = true;
    fds[x->reply_fds_len++] = (int) syscall(SYS_pidfd_open, getpid(), 0);
    if (builder->has_keeper) {
        x->reply.setup.keeper = 1;
        fds[x->reply_fds_len++] = fcntl(BUILDER_KEEPER_FD, F_DUPFD_CLOEXEC, 0);
        fds[x->reply_fds_len++] = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
        fds[x->reply_fds_len++] = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    }
    if (builder->ids.lock_fd >= 0)
        locks[locks_len++] = builder->ids.lock_fd;
    if (builder->vault.dir >= 0)
        locks[locks_len++] = builder->vault.dir;
    for (size_t i = 0; i < locks_len; i++)
        fds[x->reply_fds_len++] = fcntl(locks[i], F_DUPFD_CLOEXEC, 0);
    x->reply.setup.locks = (int32_t) locks_len;
    for (size_t i = 0; i < x->reply_fds_len; i++)
        if (fds[i] < 0)
            return gb_fail_plain(err, EMFILE, "the builder cannot open its own namespaces");
    return 0;
}

/* Leaves the host's file system, except the directories of workspaces, volumes and packages. */
static int setup_place(struct builder *builder, const struct exchange *x, struct gb_err *err)
{
    const struct builder_request *request = x->request;
    size_t shelves = (size_t) request->setup.shelves;
    size_t before = (request->setup.template != 0) + (request->setup.volumes != 0);
    struct skeleton_more more = { .venv_lib = "",
                                  .packages = "",
                                  .locales = request->setup.locales };
    int list = request->setup.volumes ? x->fds[before - 1] : -EBADF, tree = -EBADF;
    int r = skeleton_isolate(err);

    if (r == 0)
        r = skeleton_enter(request->setup.disk_dir, &more, &tree, list, &builder->volumes,
                           &builder->shelves, x->fds + before, shelves, err);
    if (r == 0) {
        builder->own_mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        if (builder->own_mounts < 0)
            r = gb_fail(err, errno, "open the builder's mount namespace");
    }
    if (r == 0 && tree >= 0)
        r = disk_vault_open(&builder->vault, tree, request->setup.disk_name, err);
    return r;
}

static int serve_setup(struct builder *builder, struct exchange *x, struct gb_err *err)
{
    const char *name = x->request->setup.cgroup_name;
    enum cgroup_mode mode = (enum cgroup_mode) x->request->setup.cgroup_mode;
    int r;

    if (builder->cgroups)
        return gb_fail_plain(err, EALREADY, "the builder is already set up");
    if (x->request->setup.shelves < 0 || x->request->setup.shelves > SHELVES_MAX ||
        x->fds_len != (size_t) (x->request->setup.template != 0) +
                          (x->request->setup.volumes != 0) + (size_t) x->request->setup.shelves)
        return gb_fail_plain(err, EPROTO, "descriptors are missing");
    r = name[0] ? cgroup_root_reopen(mode, name, &builder->cgroups, err)
                : cgroup_root_open(mode, &builder->cgroups, err);
    if (r < 0 || (r = id_pool_open(&builder->ids, err)) < 0)
        return r;
    if (builder->ids.mode == ID_SINGLE && outer_is_host_root())
        return gb_fail_plain(
            err, EPERM,
            "the only id of this user namespace is the host's root: map a range of "
            "ids, or start glovebox as an ordinary user");
    if ((r = setup_place(builder, x, err)) < 0)
        return r;
    /* If the kernel lets us: with a single id the host's groups stay (documented). */
    if (builder->ids.mode != ID_SINGLE && setgroups(0, NULL) < 0)
        return gb_fail(err, errno, "drop supplementary groups");
    r = seal_caps(builder_caps);
    if (r < 0)
        return gb_fail(err, -r, "drop capabilities");
    if (x->request->setup.template)
        builder->template_pidfd = fcntl(x->fds[0], F_DUPFD_CLOEXEC, 0);
    x->reply.setup.id_mode = (int32_t) builder->ids.mode;
    x->reply.setup.cgroup_mode = (int32_t) cgroup_root_mode(builder->cgroups);
    snprintf(x->reply.setup.cgroup_name, sizeof x->reply.setup.cgroup_name, "%s",
             cgroup_root_name(builder->cgroups));
    snprintf(x->reply.setup.disk_name, sizeof x->reply.setup.disk_name, "%s", builder->vault.name);
    snprintf(x->reply.setup.note, sizeof x->reply.setup.note, "%s",
             cgroup_root_note(builder->cgroups));
    return setup_fds(builder, x, err);
}

static int serve_template(struct builder *builder, struct exchange *x, struct gb_err *err)
{
    struct box_root root = { -EBADF, builder->own_mounts };
    bool own = x->request->template.root == 0;
    int r;

    if (x->fds_len != (own ? 2u : 3u))
        return gb_fail_plain(err, EPROTO, "a template needs two descriptors, or three");
    if (!own)
        root.mounts = x->fds[2];
    r = box_root_enter(&root, err);
    if (r < 0)
        return r;
    r = template_start(x->request->template.python, x->request->template.env, x->fds[0], x->fds[1],
                       &x->reply_fds[0], &x->dead, err);
    box_root_leave(&root);
    if (r < 0)
        return r;
    gb_closep(&builder->template_pidfd);
    builder->template_pidfd = fcntl(x->reply_fds[0], F_DUPFD_CLOEXEC, 0);
    builder->template_anon = 0;
    x->reply_fds_len = 1;
    x->reply_fds_owned = true;
    return 0;
}

static int serve_make(struct builder *builder, struct exchange *x, struct gb_err *err)
{
    size_t image = x->request->make.disk == DISK_IMAGE, root = x->request->make.root != 0;
    int cgroup_fd, cgroup_fds[CGROUP_FDS_MAX], count = 0;
    size_t volumes = x->request->make.volumes != 0;
    struct box_plan plan = { .limits = &x->request->make.limits,
                             .disk = (enum disk_kind) x->request->make.disk,
                             .root = { -EBADF, builder->own_mounts },
                             .own_id = x->request->make.own_id != 0 };
    struct box_entry *box;
    int r = box_slot(builder, err);

    if (r < 0)
        return r;
    /* Id 0 is the user who started us, which may be root. */
    if (x->fds_len != image + volumes + root || (plan.own_id && builder->ids.mode == ID_ROOT))
        return gb_fail_plain(err, EPROTO, "unknown way to create a box");
    plan.image = image ? x->fds[0] : -EBADF;
    plan.volumes = volumes ? x->fds[image] : -EBADF;
    if (root)
        plan.root.mounts = x->fds[image + volumes];
    box = &builder->boxes[builder->boxes_len];
    r = entry_make(builder->cgroups, &builder->ids, x->request->box, &plan, &builder->vault,
                   &builder->volumes, box, &x->dead, err);
    if (r < 0)
        return r;
    builder->boxes_len++;
    x->reply_fds[0] = fcntl(box->pidfd, F_DUPFD_CLOEXEC, 0);
    x->reply_fds[1] = fcntl(box->lifeline, F_DUPFD_CLOEXEC, 0);
    x->reply_fds[2] = fcntl(box->root, F_DUPFD_CLOEXEC, 0);
    x->reply_fds_len = 3;
    x->reply_fds_owned = true;
    cgroup_fd = cgroup_clone_fd(builder->cgroups, &box->cgroup);
    if (cgroup_fd >= 0) {
        x->reply.box.cgroup_into = 1;
        x->reply_fds[x->reply_fds_len++] = fcntl(cgroup_fd, F_DUPFD_CLOEXEC, 0);
    } else {
        count = cgroup_open_procs(builder->cgroups, &box->cgroup, cgroup_fds, err);
        if (count < 0)
            return count;
        memcpy(x->reply_fds + 3, cgroup_fds, sizeof(int) * (size_t) count);
        x->reply_fds_len += (size_t) count;
    }
    x->reply.box.host_id = box->host_id;
    for (size_t i = 0; i < x->reply_fds_len; i++)
        if (x->reply_fds[i] < 0)
            return gb_fail_plain(err, EMFILE, "too many open files for another box");
    return 0;
}

static int serve_adopt(struct builder *builder, struct exchange *x, struct gb_err *err)
{
    int r = box_slot(builder, err);

    if (r < 0)
        return r;
    if (x->fds_len != 3)
        return gb_fail_plain(err, EPROTO, "adopting a box needs three descriptors");
    r = entry_adopt(builder->cgroups, x->request->box, x->request->make.host_id,
                    &x->request->make.limits, (enum disk_kind) x->request->make.disk, x->fds,
                    &builder->boxes[builder->boxes_len], err);
    if (r < 0)
        return r;
    builder->boxes_len++;
    x->fds_kept = true;
    return 0;
}

/* Anonymous memory of the template, which its clones share until they write. */
static int64_t template_anon_bytes(struct builder *builder)
{
    char path[48], text[4096];
    const char *at;

    if (builder->template_anon || builder->template_pidfd < 0)
        return builder->template_anon;
    snprintf(path, sizeof path, "/proc/%d/status", pidfd_pid(builder->template_pidfd));
    if (io_read_text_at(AT_FDCWD, path, text, sizeof text) > 0 && (at = strstr(text, "RssAnon:")))
        builder->template_anon = strtoll(at + strlen("RssAnon:"), NULL, 10) * 1024;
    return builder->template_anon;
}

static int serve_scan(struct box_entry *box, struct exchange *x, struct gb_err *err)
{
    bool incomplete;
    int r = entry_scan(box, &x->reply_fds[0], &x->reply.usage.files, &incomplete, err);

    if (r < 0)
        return r;
    x->reply.usage.files_incomplete = incomplete;
    x->reply_fds_len = 1;
    x->reply_fds_owned = true;
    return 0;
}

static void serve_usage(struct builder *builder, struct box_entry *box, struct exchange *x)
{
    int64_t anon = x->request->usage.template_anon;

    entry_usage(builder->cgroups, box, anon ? anon : template_anon_bytes(builder),
                &x->reply.usage.counters);
    x->reply.usage.disk = (int32_t) entry_disk_full(box);
}

static int serve_disk(struct box_entry *box, struct exchange *x, struct gb_err *err)
{
    struct disk_usage usage;
    int r = disk_count_box(box->root, &box->limits, &usage);

    if (r < 0)
        return gb_fail(err, -r, "count the files of a workspace");
    x->reply.disk.bytes = usage.bytes;
    x->reply.disk.inodes = usage.inodes;
    x->reply.disk.deep = usage.deep;
    return 0;
}

static int serve_sweep(struct builder *builder, struct exchange *x, struct gb_err *err)
{
    int64_t until_us = clock_now_us() + SWEEP_US;
    bool more = builder->vault.dir >= 0;
    int r = 0;

    while (r == 0 && more && clock_now_us() < until_us)
        r = disk_trash_empty(builder->vault.dir, SWEEP_BUDGET, &more);
    x->reply.usage.files_incomplete = more;
    return r < 0 ? gb_fail(err, -r, "remove old workspaces") : 0;
}

/* Without cgroup counters, usage is also taken before the kill: afterwards the processes are
 * gone. */
static int serve_finish(struct builder *builder, struct box_entry *box, struct exchange *x,
                        struct gb_err *err)
{
    int r;

    if (cgroup_root_mode(builder->cgroups) == CGROUP_OFF)
        serve_usage(builder, box, x);
    r = entry_kill(box, err);
    if (r < 0)
        return r;
    serve_usage(builder, box, x);
    return serve_scan(box, x, err);
}

static int serve_box(struct builder *builder, struct box_entry *box, struct exchange *x,
                     struct gb_err *err)
{
    const struct builder_request *request = x->request;
    int r;

    switch ((enum builder_op) request->op) {
    case BOX_USAGE:
        serve_usage(builder, box, x);
        return 0;
    case BOX_SIGNAL:
        r = entry_signal(box, request->signal.pgid, request->signal.signal);
        return r < 0 ? gb_fail(err, -r, "signal box %u", box->id) : 0;
    case BOX_KILL:
        return entry_kill(box, err);
    case BOX_END:
        r = entry_end(builder->cgroups, &builder->ids, &builder->vault, box, err);
        *box = builder->boxes[--builder->boxes_len];
        return r;
    case BOX_LEAVE:
        entry_leave(box);
        return 0;
    case BOX_SHELF:
        return shelf_mount(&builder->shelves, request->shelf.shelf, request->shelf.name, box->pidfd,
                           request->shelf.place, err);
    case BOX_DISK:
        return serve_disk(box, x, err);
    case BOX_SCAN:
        return serve_scan(box, x, err);
    case BOX_FINISH:
        return serve_finish(builder, box, x, err);
    case BOX_METERS:
    case BOX_PROCS:
    case BOX_SIGNAL_NEW:
    case BOX_SIGNAL_SESSION:
    case BOX_COMMAND:
    case BOX_LISTEN:
        return builder_serve_session(builder->cgroups, box, x, err);
    case BOX_OPEN:
    case BOX_MKDIR:
    case BOX_STAT:
    case BOX_LIST:
    case BOX_REMOVE:
    case BOX_RENAME:
    case BOX_LINK:
        return builder_serve_file(box, x, err);
    case BUILDER_SETUP:
    case BUILDER_TEMPLATE:
    case BUILDER_SWEEP:
    case BOX_MAKE:
    case BOX_ADOPT:
        break;
    }
    return gb_fail_plain(err, EPROTO, "unknown request %u", request->op);
}

static int serve_request(struct builder *builder, struct exchange *x, struct gb_err *err)
{
    struct box_entry *box;

    if (x->request->op == BUILDER_SETUP)
        return serve_setup(builder, x, err);
    if (!builder->cgroups)
        return gb_fail_plain(err, EPROTO, "the builder is not set up");
    if (x->request->op == BUILDER_TEMPLATE)
        return serve_template(builder, x, err);
    if (x->request->op == BUILDER_SWEEP)
        return serve_sweep(builder, x, err);
    box = box_find(builder, x->request->box);
    if (x->request->op == BOX_MAKE || x->request->op == BOX_ADOPT) {
        if (box)
            return gb_fail_plain(err, EEXIST, "box %u already exists", x->request->box);
        return x->request->op == BOX_MAKE ? serve_make(builder, x, err)
                                          : serve_adopt(builder, x, err);
    }
    if (!box)
        return gb_fail_plain(err, ENOENT, "there is no box %u", x->request->box);
    return serve_box(builder, box, x, err);
}

/* Serves one request; returns 0, or -EPIPE when the supervisor is gone. */
static int serve_one(struct builder *builder)
{
    struct builder_request request;
    struct exchange x = { .request = &request, .dead = -EBADF };
    struct gb_err err = { 0 };
    int fds[WIRE_FDS_MAX];
    int r = wire_recv(BUILDER_CONTROL_FD, &request, sizeof request, fds, &x.fds_len);

    if (r < 0)
        return r;
    x.fds = fds;
    builder_end_strings(&request);
    r = serve_request(builder, &x, &err);
    x.reply.error = -r;
    snprintf(x.reply.msg, sizeof x.reply.msg, "%s", r < 0 ? err.msg : "");
    if (r < 0)
        r = wire_send(BUILDER_CONTROL_FD, &x.reply, sizeof x.reply, &x.dead, x.dead >= 0);
    else
        r = wire_send(BUILDER_CONTROL_FD, &x.reply, sizeof x.reply, x.reply_fds, x.reply_fds_len);
    gb_closep(&x.dead);
    if (x.reply_fds_owned)
        wire_close_fds(x.reply_fds, x.reply_fds_len);
    if (!x.fds_kept)
        wire_close_fds(fds, x.fds_len);
    return r;
}

/* The supervisor is gone: nothing may be left behind. */
static void sweep(struct builder *builder)
{
    struct gb_err ignored;

    while (builder->boxes_len > 0)
        (void) entry_end(builder->cgroups, &builder->ids, &builder->vault,
                         &builder->boxes[--builder->boxes_len], &ignored);
    gb_closep(&builder->template_pidfd);
    gb_closep(&builder->own_mounts);
    cgroup_root_close(builder->cgroups);
    id_pool_release(&builder->ids);
    disk_vault_close(&builder->vault);
    shelf_close(&builder->shelves);
    volume_trees_close(&builder->volumes);
    free(builder->boxes);
}

/* An error before the first request is the reply to it. */
static int refuse(const struct gb_err *err)
{
    struct builder_request request;
    struct builder_reply reply = { .error = err->code };
    int fds[WIRE_FDS_MAX];
    size_t fds_len;

    if (wire_recv(BUILDER_CONTROL_FD, &request, sizeof request, fds, &fds_len) == 0) {
        wire_close_fds(fds, fds_len);
        snprintf(reply.msg, sizeof reply.msg, "%s", err->msg);
        (void) wire_send(BUILDER_CONTROL_FD, &reply, sizeof reply, NULL, 0);
    }
    return EXIT_FAILURE;
}

int builder_main(int argc, char **argv)
{
    struct builder builder = { .ids.lock_fd = -EBADF,
                               .vault = DISK_VAULT_NONE,
                               .shelves = SHELF_SET_NONE,
                               .template_pidfd = -EBADF,
                               .own_mounts = -EBADF };
    struct gb_err err = { 0 };
    int r;

    (void) signal(SIGPIPE, SIG_IGN);
    (void) syscall(SYS_close_range, BUILDER_FDS_END, ~0U, 0);
    if (fcntl(BUILDER_CONTROL_FD, F_GETFD) < 0) {
        fprintf(stderr, "glovebox: '%s' is for internal use by glovebox\n", BUILDER_COMMAND);
        return 2;
    }
    if (argc > 2 && strcmp(argv[2], BUILDER_ROOT) == 0)
        return root_main();
    r = builder_enter(argc, argv, &err);
    if (r < 0)
        return refuse(&err);
    if (r > 0)
        return EXIT_SUCCESS;
    builder.has_keeper = argc > 2;
    (void) prctl(PR_SET_NAME, "glovebox-build", 0, 0, 0);
    umask(022);
    while (serve_one(&builder) == 0)
        ;
    sweep(&builder);
    return EXIT_SUCCESS;
}
