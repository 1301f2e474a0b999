/* The commands of glovebox: each takes its configuration and returns the exit code. */
#pragma once

#include "base/err.h"
#include "cli/options.h"

enum { EXIT_USAGE = 2, EXIT_OURS = 125 };

int cmd_run(const struct config *cfg);
int cmd_doctor(const struct config *cfg);

/* Says one line on stderr, "glovebox: …"; what a terminal could act on is made harmless. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
