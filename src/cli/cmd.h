/* The commands of glovebox: each takes its configuration and returns the exit code. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "cli/options.h"

struct package_config;
struct store;

enum { EXIT_USAGE = 2, EXIT_OURS = 125 };

int cmd_run(const struct config *cfg);
int cmd_doctor(const struct config *cfg);
int cmd_key(const struct config *cfg);
int cmd_audit(const struct config *cfg);
int cmd_pip(const struct config *cfg);
int cmd_serve(const struct config *cfg);

/* Opens the store of the service: --data, or the default place. */
int cmd_open_store(const struct config *cfg, bool must_exist, struct store **ret_store,
                   struct gb_err *err);

/* The options about packages, as the service wants them. */
void cmd_fill_packages(const struct config *cfg, struct package_config *packages);

/* The modules that a service's template loads. */
const char *cmd_preload(const struct config *cfg);

/* Prints the object on stdout, for people or for programs, and takes it; NULL is out of memory. */
int cmd_print_json(json_t *json, struct gb_err *err);

/* Says one line on stderr, "glovebox: …"; what a terminal could act on is made harmless. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
