/* The builder: a process of its own. See main.c. */
#pragma once

/* The command word under which the binary executes itself as the builder. */
#define BUILDER_COMMAND "internal-builder"

/* How it is started: with nothing more on a host, then "inside" by itself; and with "join" to take
 * the place of one that died, in the namespaces that one made. */
#define BUILDER_INSIDE "inside"
#define BUILDER_JOIN   "join"

/* And with this word it is no builder at all but makes one root file system: template_root.c. */
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

/* enter.c: brings the process into the namespaces a builder needs. Returns 0 when it is
 * there; otherwise it has become something else and the answer is the exit code, or -errno with
 * @err filled when a builder is not to be had. */
struct gb_err;
int builder_enter(int argc, char **argv, struct gb_err *err);
