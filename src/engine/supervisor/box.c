/* Operations of the supervisor on a box. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/pidfd.h"
#include "engine/frame.h"
#include "engine/shared/seal_report.h"
#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

int box_get_usage(struct box *box, struct cgroup_usage *ret_usage, enum limit_kind *ret_disk,
                  struct gb_err *err)
{
    struct builder_request request = { .op = BOX_USAGE, .box = box->id };
    struct builder_reply reply;
    int r;

    request.usage.template_anon = template_anon(box->template);
    r = engine_call(box->engine, &request, NULL, 0, &reply, NULL, NULL, err);
    if (r < 0)
        return r;
    *ret_usage = reply.usage.counters;
    if (ret_disk)
        *ret_disk = (enum limit_kind) reply.usage.disk;
    return 0;
}

bool box_is_watched(const struct box *box)
{
    return engine_get_cgroup_mode(box->engine) == CGROUP_OFF;
}

unsigned box_cpus(const struct box *box)
{
    int64_t wanted = (box->limits.cpu_milli + 999) / 1000;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0 && wanted > CPU_COUNT(&set))
        wanted = CPU_COUNT(&set);
    return wanted > 1 ? (unsigned) wanted : 1;
}

int box_finish(struct box *box, struct cgroup_usage *ret_usage, enum limit_kind *ret_disk,
               struct snapshot *ret_files, struct gb_err *err)
{
    struct builder_request request = { .op = BOX_FINISH, .box = box->id };
    struct builder_reply reply;
    int fds[WIRE_FDS_MAX];
    size_t fds_len = 0;
    int r;

    request.usage.template_anon = template_anon(box->template);
    r = engine_call(box->engine, &request, NULL, 0, &reply, fds, &fds_len, err);
    if (r == 0)
        r = snapshot_map(&reply, fds, fds_len, ret_files, err);
    if (r < 0)
        return r;
    *ret_usage = reply.usage.counters;
    *ret_disk = (enum limit_kind) reply.usage.disk;
    return 0;
}

int box_mount_shelf(struct box *box, unsigned shelf, const char *name, unsigned place,
                    struct gb_err *err)
{
    struct builder_request request = { .op = BOX_SHELF, .box = box->id };
    struct builder_reply reply;

    if (name[0] && !shelf_name_valid(name))
        return gb_fail_plain(err, EINVAL, "invalid package directory or mount point");
    request.shelf.shelf = shelf;
    request.shelf.place = place;
    memcpy(request.shelf.name, name, strlen(name) + 1);
    return engine_call(box->engine, &request, NULL, 0, &reply, NULL, NULL, err);
}

int box_send_signal(struct box *box, pid_t pgid, int sig, struct gb_err *err)
{
    struct builder_request request = { .op = BOX_SIGNAL, .box = box->id };
    struct builder_reply reply;

    request.signal.pgid = pgid;
    request.signal.signal = sig;
    return engine_call(box->engine, &request, NULL, 0, &reply, NULL, NULL, err);
}

int box_kill_all(struct box *box, struct gb_err *err)
{
    struct builder_request request = { .op = BOX_KILL, .box = box->id };
    struct builder_reply reply;

    return engine_call(box->engine, &request, NULL, 0, &reply, NULL, NULL, err);
}

static int file_call(struct box *box, const char *path, int flags, mode_t mode, int *ret_fd,
                     struct gb_err *err)
{
    struct builder_request request = { .op = BOX_OPEN, .box = box->id };
    size_t path_len = strlen(path);
    struct builder_reply reply;
    int fds[WIRE_FDS_MAX], r;
    size_t fds_len = 0;

    if (path_len >= sizeof request.file.path)
        return gb_fail_about(err, ENAMETOOLONG, "a name in the workspace");
    memcpy(request.file.path, path, path_len);
    request.file.flags = flags;
    request.file.mode = mode;
    if (flags != O_RDONLY && (r = disk_room(box, 0, err)) < 0)
        return r;
    r = engine_call(box->engine, &request, NULL, 0, &reply, fds, &fds_len, err);
    if (flags != O_RDONLY)
        (void) __atomic_add_fetch(&box->files_changed, 1, __ATOMIC_RELEASE);
    if (r < 0)
        return r;
    if (fds_len != 1) {
        wire_close_fds(fds, fds_len);
        return gb_fail_plain(err, EPROTO, "the builder sent no file");
    }
    *ret_fd = fds[0];
    return 0;
}

int box_open_read(struct box *box, const char *path, int *ret_fd, struct gb_err *err)
{
    return file_call(box, path, O_RDONLY, 0, ret_fd, err);
}

int box_open_new(struct box *box, const char *path, mode_t mode, int *ret_fd, struct gb_err *err)
{
    const char *slash = strrchr(path, '/');

    if (slash) {
        autofree char *parent = strndup(path, (size_t) (slash - path));
        int r;

        if (!parent)
            return gb_fail(err, ENOMEM, "create a directory");
        if ((r = box_file_mkdir(box, parent, true, err)) < 0)
            return r;
    }
    return file_call(box, path, O_WRONLY | O_CREAT | O_EXCL, mode, ret_fd, err);
}

int box_listen(struct box *box, uint16_t port, int *ret_fd, struct gb_err *err)
{
    struct builder_request request = { .op = BOX_LISTEN, .box = box->id, .listen.port = port };
    struct builder_reply reply;
    int fds[WIRE_FDS_MAX], r;
    size_t fds_len = 0;

    r = engine_call(box->engine, &request, NULL, 0, &reply, fds, &fds_len, err);
    if (r < 0)
        return r;
    if (fds_len != 1) {
        wire_close_fds(fds, fds_len);
        return gb_fail_plain(err, EPROTO, "the builder sent no socket");
    }
    *ret_fd = fds[0];
    return 0;
}

int box_prepare(struct box *box, struct gb_err *err)
{
    return tenant_spawn_piped(box, &box->spare, err);
}

int box_take_tenant(struct box *box, struct piped_tenant *ret_tenant, struct gb_err *err)
{
    static const struct piped_tenant none = { .ends = { -EBADF, -EBADF, -EBADF } };

    if (!box->spare.tenant)
        return tenant_spawn_piped(box, ret_tenant, err);
    *ret_tenant = box->spare;
    box->spare = none;
    return 0;
}
