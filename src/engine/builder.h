/* The builder as others see it: a process of its own. See builder/main.c. */
#pragma once

/* The command word under which the binary executes itself as the builder. */
#define BUILDER_COMMAND "internal-builder"

/* How it is started: with nothing more on a host, then "inside" by itself; and with "join" to take
 * the place of one that died, in the namespaces that one made. */
#define BUILDER_INSIDE "inside"
#define BUILDER_JOIN   "join"

/* And with this word it is no builder at all but makes one root file system:
 * builder/template_root.c. Its descriptors are the socket and, for an ordinary user, the outer user
 * namespace, at BUILDER_CONTROL_FD and the number after it. */
#define BUILDER_ROOT "root"

/* Its descriptors. The last two come with "join" only. */
enum {
    BUILDER_CONTROL_FD = 3,
    BUILDER_KEEPER_FD, /* our share of the keeper's lifeline, where there is a keeper */
    BUILDER_USER_NS_FD,
    BUILDER_PID_NS_FD,
    BUILDER_FDS_END,
};

/* main() of the builder. */
int builder_main(int argc, char **argv);
