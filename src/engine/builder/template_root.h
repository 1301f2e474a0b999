/* Root file systems of templates: a request to a process of its own. See template_root.c. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "engine/wire.h"

#define ROOT_BINDS_MAX 16

struct root_request {
    uint32_t count;
    char binds[ROOT_BINDS_MAX][WIRE_PATH_MAX]; /* absolute, without links in them */
    char packages[WIRE_PATH_MAX];              /* likewise, to be at SHELF_PLACE; "": none */
};

/* fd: the mount namespace */
struct root_reply {
    int32_t error;
    char msg[sizeof((struct gb_err *) 0)->msg];
};

/* main() of that process; its descriptors are the socket and, for an ordinary user, the outer user
 * namespace, at BUILDER_CONTROL_FD and the number after it. */
int root_main(void);
