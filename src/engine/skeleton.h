/* The read-only root file system that builder, templates and all boxes share. */
#pragma once

#include "base/err.h"

/* Of builder, templates and boxes alike. */
#define SKELETON_HOSTNAME "glovebox"

/* Directory of the skeleton that hides other directories. */
#define SKELETON_EMPTY "/.empty"

/* Moves the calling process (single-threaded) into new mount, network, IPC and UTS namespaces whose
 * root is a fresh tmpfs with nothing but what programs need; afterwards no path of the host can be
 * reached but /usr. */
int skeleton_enter(struct gb_err *err);
