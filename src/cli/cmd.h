/* The commands of glovebox: each takes its configuration and returns the exit code. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "cli/options/options.h"

struct limits;
struct package_config;
struct service;
struct store;
struct template_def;
struct template_entry;

enum { EXIT_USAGE = 2, EXIT_OURS = 125 };

int cmd_run(const struct config *cfg);
int cmd_ask(const struct config *cfg);
int cmd_doctor(const struct config *cfg);
int cmd_key(const struct config *cfg);
int cmd_audit(const struct config *cfg);
int cmd_pip(const struct config *cfg);
int cmd_serve(const struct config *cfg);
int cmd_shell(const struct config *cfg);
int cmd_store(const struct config *cfg);
int cmd_source(const struct config *cfg);
int cmd_mark(const struct config *cfg);
int cmd_eval(const struct config *cfg); /* of cmd_mark() */
int cmd_mcp(const struct config *cfg);
int cmd_template(const struct config *cfg);
int cmd_user(const struct config *cfg);

/* ---- parts of `glovebox mark` ---- */
int cmd_mark_export(const struct config *cfg);
int cmd_mark_verify(const struct config *cfg);

/* ---- parts of `glovebox mcp` ---- */
int mcp_print_config(const struct config *cfg, struct gb_err *err);
/* Carries messages between standard input and output and the service at cfg->mcp_url, until the
 * client hangs up or @stop_fd can be read. */
int mcp_forward(const struct config *cfg, int stop_fd, struct gb_err *err);

/* `glovebox template add`: what the options of @cfg describe, under the name args[0]. */
int cmd_template_add(const struct config *cfg, const char *data_dir, struct gb_err *err);

/* The data directory: --data, or the default place. The caller frees it. */
int cmd_data_dir(const struct config *cfg, char **ret_dir, struct gb_err *err);

/* A directory of that name in the data directory, next to what the service has there; created if it
 * does not exist. The caller frees it. */
int cmd_sub_dir(const struct config *cfg, const char *name, char **ret_dir, struct gb_err *err);

/* The template of --default-template in that data directory, ready for use; the caller releases it.
 * If auto has to do without the better one, says why. */
int cmd_default_template(const struct config *cfg, const char *data_dir,
                         struct template_entry *ret_entry, struct gb_err *err);

/* Checks --template-alias. */
int cmd_check_aliases(const struct config *cfg, struct gb_err *err);

/* Opens the store of the service: --database, --data, or the default place. */
int cmd_open_store(const struct config *cfg, bool must_exist, struct store **ret_store,
                   struct gb_err *err);

/* --since as a time; 0: from the first. */
int64_t cmd_since(const struct config *cfg);

/* The limits of a box of the service; @disk_bytes is the size of its workspace, which one file may
 * fill. */
void cmd_fill_limits(const struct config *cfg, struct limits *limits, int64_t disk_bytes);

/* The most a request may ask for: --max-memory and the like, but never less than the default of a
 * request. */
void cmd_fill_ceiling(const struct config *cfg, struct limits *ceiling);

/* The options about packages, as the service wants them. */
void cmd_fill_packages(const struct config *cfg, struct package_config *packages);

/* A service without clients, to install with: checks the requirements first, which needs no
 * service; @wanted may be NULL. Its boxes are those of @template. */
int cmd_open_installer(const struct config *cfg, const char *data_dir,
                       const struct template_def *template, const char *const *wanted,
                       struct service **ret_service, struct gb_err *err);

/* About so many bytes, for people: "12 kB", "250 MB", "1.7 GB". */
#define CMD_BYTES_MAX 32
const char *cmd_bytes(int64_t bytes, char buf[CMD_BYTES_MAX]);

/* How many answers are computed at a time: --jobs, or one for each processor. */
size_t cmd_jobs(const struct config *cfg);

/* On a terminal: shows a progress line, and clears it. */
void cmd_show_progress(const char *what);
void cmd_hide_progress(void);

/* Prints the warnings in the result of an install. */
void cmd_say_warnings(const json_t *result);

/* "numpy,pandas", as people write it, becomes "numpy pandas", as templates read it. */
void cmd_preload_split(char *list);

/* The modules that a service's default template loads. */
const char *cmd_preload(const struct config *cfg, const struct template_entry *template);

/* Says which modules were not preloaded and why: the lines of a template_report. */
void cmd_say_left_out(const char *lines);

/* Prints the object on stdout, for people or for programs, and takes it; NULL is out of memory. */
int cmd_print_json(json_t *json, struct gb_err *err);

/* Prints one line on stderr, "glovebox: …"; control characters are replaced. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
