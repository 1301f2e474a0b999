/* What the builder's files share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/box/box.h"
#include "engine/shared/wire.h"

/* A request while it is served: what came with it and what goes back. */
struct exchange {
    const struct builder_request *request;
    const int *fds;
    size_t fds_len;
    struct builder_reply reply;
    int reply_fds[WIRE_FDS_MAX];
    size_t reply_fds_len;
    bool reply_fds_owned; /* to be closed once sent */
    bool fds_kept;        /* the handler took what came with the request */
    int dead;             /* on failure: a child of the supervisor to collect, or -EBADF */
};

/* enter.c: brings the process into the namespaces a builder needs. Returns 0 when it is
 * there; otherwise it has become something else and the answer is the exit code, or -errno with
 * @err filled when a builder is not to be had. */
int builder_enter(int argc, char **argv, struct gb_err *err);

/* serve_session.c: the requests of sessions, and those about files. */
int builder_serve_session(struct cgroup_root *cgroups, struct box_entry *box, struct exchange *x,
                          struct gb_err *err);
int builder_serve_file(struct box_entry *box, struct exchange *x, struct gb_err *err);

/* Sees to it that the strings of a request end. */
void builder_end_strings(struct builder_request *request);
