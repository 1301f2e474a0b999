/* Starting an interpreter as a template; the builder's side. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "engine/shared/wire.h"

/* Executes @python in a clone of the caller whose parent is the caller's parent. @env is a block of
 * NAME=value strings, each ended by NUL, with an empty one at the end. @control becomes its
 * descriptor 3 and @said its stderr. When the exec fails, @ret_dead is the pidfd of a dead process
 * that the supervisor must reap. */
int template_start(const char *python, const char *env, int control, int said, int *ret_pidfd,
                   int *ret_dead, struct gb_err *err);
