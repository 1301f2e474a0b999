/* The outer user namespace of a rootless engine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Moves the caller (single-threaded, unprivileged) into a new user namespace in which it is root:
 * with a range of subordinate ids if newuidmap provides one, else with its single id. The caller
 * must exec itself afterwards, so that its memory belongs to the new namespace. */
int outer_enter(struct gb_err *err);

/* Whether the caller's PID namespace belongs to its user namespace. A template must return to its
 * own PID namespace after each clone, which the kernel allows only then. */
bool outer_owns_pid_namespace(void);

/* Whether our uid 0 is the host's (or that of the namespace above us): with a single id a box would
 * then run as root of the host. */
bool outer_is_host_root(void);

/* Whether the kernel has seccomp filters; @err names what is missing. */
int outer_check_seccomp(struct gb_err *err);
