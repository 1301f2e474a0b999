/* What a supervisor does with a box, and the tenants in it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "engine/seal_report.h"
#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

#define SEAL_WAIT_MS 30000

struct tenant {
    struct box *box;
    int pidfd, control;
    pid_t group;
    bool waited;
    int code, status;
};

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

int box_mount_shelf(struct box *box, unsigned shelf, const char *name, unsigned place,
                    struct gb_err *err)
{
    struct builder_request request = { .op = BOX_SHELF, .box = box->id };
    struct builder_reply reply;

    if (name[0] && !shelf_name_valid(name))
        return gb_fail_plain(err, EINVAL, "this cannot be on a shelf");
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
        return gb_fail(err, ENAMETOOLONG, "a name in the workspace");
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
            return gb_fail(err, ENOMEM, "make a directory");
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

pid_t box_init_pid(const struct box *box)
{
    return pidfd_pid(box->pidfd);
}

/* ---- tenants ---- */

/* The first packet on the control socket: sealed, or the step that failed. The process cannot lie
 * yet, it has not seen a user byte. */
static int seal_wait(struct tenant *tenant, struct gb_err *err)
{
    struct pollfd news[] = { { .fd = tenant->control, .events = POLLIN } };
    struct seal_report report;
    int r;

    do
        r = poll(news, 1, SEAL_WAIT_MS);
    while (r < 0 && errno == EINTR);
    if (r <= 0)
        return gb_fail_plain(err, ETIMEDOUT, "the tenant was not sealed in time");
    if (recv(tenant->control, &report, sizeof report, MSG_DONTWAIT) != sizeof report ||
        report.magic != SEAL_MAGIC)
        return gb_fail_plain(err, EPROTO, "the tenant ended before it was sealed");
    if (report.step != SEAL_DONE)
        return gb_fail(err, report.error, "sealing failed at '%s'", seal_step_name(report.step));
    tenant->group = report.pid;
    return 0;
}

int tenant_spawn(struct box *box, const int stdio[3], struct tenant **ret_tenant,
                 struct gb_err *err)
{
    const struct engine_config *config = engine_get_config(box->engine);
    struct clone_request request = {
        .limits = box->limits,
        .cgroup_fds = (uint32_t) box->cgroup_fds_len,
        .cgroup_into = box->cgroup_into,
        .landlock = config->landlock,
        .cgroups = engine_get_cgroup_mode(box->engine) != CGROUP_OFF,
    };
    struct tenant *tenant = calloc(1, sizeof *tenant);
    int fds[CLONE_FDS_FIXED + CGROUP_FDS_MAX], pair[2], r;
    struct clone_reply reply;

    if (!tenant)
        return gb_fail(err, ENOMEM, "clone a tenant");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        r = gb_fail(err, errno, "socketpair");
        free(tenant);
        return r;
    }
    *tenant = (struct tenant){ .box = box, .pidfd = -EBADF, .control = pair[0] };
    /* Room for the largest DONE while we are busy; a host that gives less merely has it wait. */
    (void) setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &(int){ 4 * FRAME_PACKET_MAX }, sizeof(int));
    fds[0] = box->pidfd;
    memcpy(fds + 1, stdio, sizeof(int) * 3);
    fds[4] = pair[1];
    memcpy(fds + CLONE_FDS_FIXED, box->cgroup_fds, sizeof(int) * box->cgroup_fds_len);
    r = template_clone(box->template, &request, fds, CLONE_FDS_FIXED + box->cgroup_fds_len, &reply,
                       &tenant->pidfd, err);
    (void) close(pair[1]);
    if (r == 0)
        r = seal_wait(tenant, err);
    if (r < 0) {
        tenant_free(tenant);
        return r;
    }
    *ret_tenant = tenant;
    return 0;
}

int tenant_adopt(struct box *box, int pidfd, int control, struct tenant **ret_tenant,
                 struct gb_err *err)
{
    struct tenant *tenant = calloc(1, sizeof *tenant);
    int r;

    if (!tenant) {
        /* Its lifeline: the seal fails, and it ends; but nobody can collect it. */
        (void) close(control);
        (void) close(pidfd);
        return gb_fail(err, ENOMEM, "keep a process");
    }
    *tenant = (struct tenant){ .box = box, .pidfd = pidfd, .control = control };
    r = seal_wait(tenant, err);
    if (r < 0) {
        tenant_free(tenant);
        return r;
    }
    *ret_tenant = tenant;
    return 0;
}

int tenant_wait(struct tenant *tenant, int *ret_code, int *ret_status)
{
    siginfo_t info = { 0 };

    if (!tenant->waited) {
        while (waitid(P_PIDFD, (id_t) tenant->pidfd, &info, WEXITED) < 0)
            if (errno != EINTR)
                return -errno;
        tenant->waited = true;
        tenant->code = info.si_code;
        tenant->status = info.si_status;
    }
    *ret_code = tenant->code;
    *ret_status = tenant->status;
    return 0;
}

void tenant_free(struct tenant *tenant)
{
    int code, status;

    if (!tenant)
        return;
    if (tenant->pidfd >= 0 && !tenant->waited) {
        (void) syscall(SYS_pidfd_send_signal, tenant->pidfd, SIGKILL, NULL, 0);
        (void) tenant_wait(tenant, &code, &status);
    }
    gb_closep(&tenant->pidfd);
    gb_closep(&tenant->control);
    free(tenant);
}

int tenant_pidfd(const struct tenant *tenant)
{
    return tenant->pidfd;
}

int tenant_control(const struct tenant *tenant)
{
    return tenant->control;
}

pid_t tenant_group(const struct tenant *tenant)
{
    return tenant->group;
}

pid_t tenant_pid(const struct tenant *tenant)
{
    return pidfd_pid(tenant->pidfd);
}

/* ---- tenants with pipes ---- */

int pipes_make(int ours[3], int theirs[3], struct gb_err *err)
{
    for (int i = 0; i < 3; i++) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
            return gb_fail(err, errno, "pipe");
        ours[i] = i == 0 ? ends[1] : ends[0];
        theirs[i] = i == 0 ? ends[0] : ends[1];
        (void) fcntl(ours[i], F_SETFL, O_NONBLOCK);
        /* The pipe is ours, the tenant has another id: /dev/stdout must open all the same. */
        (void) fchmod(theirs[i], 0666);
    }
    return 0;
}

static int spawn_piped(struct box *box, struct piped_tenant *ret_tenant, struct gb_err *err)
{
    struct piped_tenant made = { .ends = { -EBADF, -EBADF, -EBADF } };
    int theirs[3] = { -EBADF, -EBADF, -EBADF };
    int r = pipes_make(made.ends, theirs, err);

    if (r == 0)
        r = tenant_spawn(box, theirs, &made.tenant, err);
    for (int i = 0; i < 3; i++) {
        gb_closep(&theirs[i]);
        if (r < 0)
            gb_closep(&made.ends[i]);
    }
    if (r == 0)
        *ret_tenant = made;
    return r;
}

int box_prepare(struct box *box, struct gb_err *err)
{
    return spawn_piped(box, &box->spare, err);
}

int box_take_tenant(struct box *box, struct piped_tenant *ret_tenant, struct gb_err *err)
{
    static const struct piped_tenant none = { .ends = { -EBADF, -EBADF, -EBADF } };

    if (!box->spare.tenant)
        return spawn_piped(box, ret_tenant, err);
    *ret_tenant = box->spare;
    box->spare = none;
    return 0;
}
