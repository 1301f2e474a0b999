/* The interface of the builder, a separate process. See builder/main.c. */
#pragma once

/* The command word under which the binary executes itself as the builder. */
#define BUILDER_COMMAND "internal-builder"

/* How it is started: without arguments on the host, then by itself with "inside"; and with "join"
 * to replace one that died, in the namespaces that one created. */
#define BUILDER_INSIDE "inside"
#define BUILDER_JOIN   "join"

/* With this word it is not a builder but creates one root file system: builder/template_root.c. Its
 * descriptors are the socket and, for an ordinary user, the outer user namespace, at
 * BUILDER_CONTROL_FD and the number after it. */
#define BUILDER_ROOT "root"

/* Its descriptors. The last two come with "join" only. */
enum {
    BUILDER_CONTROL_FD = 3,
    BUILDER_KEEPER_FD, /* our end of the keeper's lifeline, if there is a keeper */
    BUILDER_USER_NS_FD,
    BUILDER_PID_NS_FD,
    BUILDER_FDS_END,
};

/* main() of the builder. */
int builder_main(int argc, char **argv);
