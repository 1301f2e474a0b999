/* Shared by the builder's files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/box/box.h"
#include "engine/shared/wire.h"

/* A request being served: its descriptors, and the reply. */
struct exchange {
    const struct builder_request *request;
    const int *fds;
    size_t fds_len;
    struct builder_reply reply;
    int reply_fds[WIRE_FDS_MAX];
    size_t reply_fds_len;
    bool reply_fds_owned; /* to be closed once sent */
    bool fds_kept;        /* the handler took the descriptors of the request */
    int dead;             /* on failure: a child of the supervisor to reap, or -EBADF */
};

/* enter.c: brings the process into the namespaces a builder needs. Returns 0 when it is the
 * builder; otherwise it has become another process and the result is the exit code, or -errno with
 * @err filled if there can be no builder. */
int builder_enter(int argc, char **argv, struct gb_err *err);

/* serve_session.c: the requests of sessions, and those about files. */
int builder_serve_session(struct cgroup_root *cgroups, struct box_entry *box, struct exchange *x,
                          struct gb_err *err);
int builder_serve_file(struct box_entry *box, struct exchange *x, struct gb_err *err);

/* Terminates the strings of a request. */
void builder_end_strings(struct builder_request *request);
