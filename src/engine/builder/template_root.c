/*
 * A root file system for the boxes of one template.
 *
 * Theory of operation. The builder has left the host's file system for good, so it cannot reach an
 * interpreter that the operator names later. This process can: the supervisor executes it for one
 * request, in its own mount namespace, so that it sees the host as it is now. As an ordinary user
 * it joins the outer user namespace first, which gives it the right to mount. It creates a skeleton
 * with the template's files and directories in it (rootfs.c), hands its mount namespace to the
 * supervisor, and exits. The namespace lives on in that descriptor; the builder enters it for a
 * moment whenever it clones a box or a template that belongs there.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/builder.h"
#include "engine/builder/rootfs.h"
#include "engine/builder/template_root.h"
#include "engine/shared/wire.h"

#include "base/banned.h"

static int join_outer(struct gb_err *err)
{
    if (fcntl(BUILDER_KEEPER_FD, F_GETFD) < 0)
        return 0; /* real root needs none */
    if (setns(BUILDER_KEEPER_FD, CLONE_NEWUSER) < 0)
        return gb_fail(err, errno, "join the outer user namespace");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return gb_fail(err, errno, "become root of the user namespace");
    return 0;
}

static int root_make(const struct root_request *request, int *ret_fd, struct gb_err *err)
{
    struct skeleton_more more = { .venv_lib = request->venv_lib,
                                  .packages = request->packages,
                                  .locales = request->locales };
    int unused = -EBADF, r;

    if (request->count > ROOT_BINDS_MAX)
        return gb_fail_plain(err, EPROTO, "too many files and directories for a template");
    for (uint32_t i = 0; i < request->count; i++)
        more.binds[i] = request->binds[i];
    if (more.venv_lib[0] && !venv_lib_valid(more.venv_lib))
        return gb_fail_plain(err, EPROTO, "not a directory of a Python's libraries");
    if ((r = join_outer(err)) < 0 ||
        (r = skeleton_enter("", &more, &unused, -EBADF, NULL, NULL, NULL, 0, err)) < 0)
        return r;
    *ret_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    return *ret_fd < 0 ? gb_fail(err, errno, "open the new mount namespace") : 0;
}

int root_main(void)
{
    autofree struct root_request *request = malloc(sizeof *request);
    struct root_reply reply = { 0 };
    struct gb_err err = { 0 };
    autoclose int made = -EBADF;
    int fds[WIRE_FDS_MAX], r;
    size_t fds_len;

    if (!request || wire_recv(BUILDER_CONTROL_FD, request, sizeof *request, fds, &fds_len) < 0)
        return EXIT_FAILURE;
    wire_close_fds(fds, fds_len);
    for (size_t i = 0; i < ROOT_BINDS_MAX; i++)
        request->binds[i][WIRE_PATH_MAX - 1] = '\0';
    request->packages[WIRE_PATH_MAX - 1] = '\0';
    request->venv_lib[VENV_LIB_MAX - 1] = '\0';
    request->locales[WIRE_PATH_MAX - 1] = '\0';
    r = root_make(request, &made, &err);
    reply.error = -r;
    if (r < 0)
        memcpy(reply.msg, err.msg, sizeof reply.msg);
    r = wire_send(BUILDER_CONTROL_FD, &reply, sizeof reply, &made, made >= 0);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
