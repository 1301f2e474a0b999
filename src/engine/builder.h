/* The builder: a process of its own. See builder_main.c. */
#pragma once

/* The command word under which the binary executes itself as the builder. */
#define BUILDER_COMMAND "internal-builder"

/* The descriptor of its control socket. */
#define BUILDER_CONTROL_FD 3

/* main() of the builder. */
int builder_main(int argc, char **argv);
