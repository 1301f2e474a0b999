/*
 * Tenants: processes in a box that the supervisor started and reaps.
 *
 * A tenant is created by a source that clones itself into the box (struct tenant_source); a
 * template is one. The clone is our own child: it seals itself, reports that over its control
 * socket, and only then is a tenant. A command (run/command.c) is started by the builder, and
 * adopted here once it is sealed too.
 */
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
#include "engine/shared/seal_report.h"
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

/* ---- creation ---- */

/* The first packet on the control socket: sealed, or the step that failed. The process cannot lie
 * yet: it has not read any user data. */
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
        return gb_fail_plain(err, EPROTO, "the tenant exited before it was sealed");
    if (report.step != SEAL_DONE)
        return gb_fail(err, report.error, "seal the box: step '%s' failed",
                       seal_step_name(report.step));
    tenant->group = report.pid;
    return 0;
}

/* The end of the creation, after a clone with result @r: waits for the seal and returns the
 * tenant. */
static int tenant_begin(struct tenant *tenant, int r, struct tenant **ret_tenant,
                        struct gb_err *err)
{
    if (r == 0)
        r = seal_wait(tenant, err);
    if (r < 0) {
        tenant_free(tenant);
        return r;
    }
    *ret_tenant = tenant;
    return 0;
}

/* A tenant that has its process but is not sealed yet. */
static struct tenant *tenant_new(struct box *box, int pidfd, int control)
{
    struct tenant *tenant = calloc(1, sizeof *tenant);

    if (tenant)
        *tenant = (struct tenant){ .box = box, .pidfd = pidfd, .control = control };
    return tenant;
}

static int spawn_from(struct tenant_source *source, struct box *box, const int stdio[3],
                      struct tenant **ret_tenant, struct gb_err *err)
{
    const struct engine_config *config = engine_get_config(box->engine);
    struct clone_request request = {
        .limits = box->limits,
        .cgroup_fds = (uint32_t) box->cgroup_fds_len,
        .cgroup_into = box->cgroup_into,
        .landlock = config->landlock,
        .cgroups = engine_get_cgroup_mode(box->engine) != CGROUP_OFF,
    };
    int fds[CLONE_FDS_FIXED + CGROUP_FDS_MAX], pair[2], r;
    struct tenant *tenant;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return gb_fail(err, errno, "create a socket pair");
    tenant = tenant_new(box, -EBADF, pair[0]);
    if (!tenant) {
        (void) close(pair[0]);
        (void) close(pair[1]);
        return gb_fail(err, ENOMEM, "clone a tenant");
    }
    /* Room for the largest DONE while we are busy; on a host that allows less, the tenant merely
     * waits. */
    (void) setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &(int){ 4 * FRAME_PACKET_MAX }, sizeof(int));
    fds[0] = box->pidfd;
    memcpy(fds + 1, stdio, sizeof(int) * 3);
    fds[4] = pair[1];
    memcpy(fds + CLONE_FDS_FIXED, box->cgroup_fds, sizeof(int) * box->cgroup_fds_len);
    r = source->clone(source, &request, fds, CLONE_FDS_FIXED + box->cgroup_fds_len, &tenant->pidfd,
                      err);
    (void) close(pair[1]);
    return tenant_begin(tenant, r, ret_tenant, err);
}

int tenant_spawn(struct box *box, const int stdio[3], struct tenant **ret_tenant,
                 struct gb_err *err)
{
    return spawn_from(&box->template->source, box, stdio, ret_tenant, err);
}

int tenant_adopt(struct box *box, int pidfd, int control, struct tenant **ret_tenant,
                 struct gb_err *err)
{
    struct tenant *tenant = tenant_new(box, pidfd, control);

    if (!tenant) {
        /* Its lifeline: the seal fails, and it exits; but nobody can reap it. */
        (void) close(control);
        (void) close(pidfd);
        return gb_fail(err, ENOMEM, "track a process");
    }
    return tenant_begin(tenant, 0, ret_tenant, err);
}

/* ---- life and exit ---- */

bool tenant_is_alive(const struct tenant *tenant)
{
    struct pollfd gone = { .fd = tenant->pidfd, .events = POLLIN };

    return poll(&gone, 1, 0) == 0;
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

/* ---- pipes ---- */

int pipes_make(int ours[3], int theirs[3], struct gb_err *err)
{
    for (int i = 0; i < 3; i++) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
            return gb_fail(err, errno, "create a pipe");
        ours[i] = i == 0 ? ends[1] : ends[0];
        theirs[i] = i == 0 ? ends[0] : ends[1];
        (void) fcntl(ours[i], F_SETFL, O_NONBLOCK);
        /* The pipe is ours, and the tenant has another id: opening /dev/stdout must work all the
         * same. */
        (void) fchmod(theirs[i], 0666);
    }
    return 0;
}

int tenant_spawn_piped(struct box *box, struct piped_tenant *ret_tenant, struct gb_err *err)
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
