/* Shared by several commands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/parse.h"
#include "cli/cmd.h"
#include "engine/engine.h"
#include "service/access/data.h"
#include "service/service.h"
#include "service/template/templates.h"

#include "base/banned.h"

int cmd_open_store(const struct config *cfg, bool must_exist, struct store **ret_store,
                   struct gb_err *err)
{
    struct store_config config = { .dir = cfg->data_dir,
                                   .database = cfg->database,
                                   .database_password_file = cfg->database_password_file,
                                   .must_exist = must_exist };

    autofree char *dir = NULL;
    struct gb_err ignored = { 0 };
    int r = data_open(&config, ret_store, err);

    if (r != -ENOENT || !must_exist || cfg->database || cmd_data_dir(cfg, &dir, &ignored) < 0)
        return r;
    return gb_fail_plain(err, ENOENT,
                         "there is no store in '%s' yet: nothing was served or added there; "
                         "--data names another directory",
                         dir);
}

int64_t cmd_since(const struct config *cfg)
{
    int64_t us;

    if (!cfg->audit_since)
        return 0;
    if (parse_utc(cfg->audit_since, &us) == 0)
        return us;
    (void) parse_seconds(cfg->audit_since, &us); /* checked by the option table */
    return us < clock_wall_us() ? clock_wall_us() - us : 0;
}

#define SERVED_EVERY true
#define SERVED_RUN   false

/* Whether serve and mcp have the option too. */
static const bool limit_served[LIMIT_ROWS] = {
#define LIMIT(member, unit, words, json, standard, session, ceiling, min, max, zero, option,       \
              option_standard, option_min, commands, ...)                                          \
    [LIMIT_ROW_##member] = SERVED_##commands,
#include "base/words/limits.def"
};

void cmd_fill_limits(const struct config *cfg, struct limits *limits, int64_t disk_bytes)
{
    for (size_t i = 0; i < LIMIT_ROWS; i++)
        if (limit_served[i])
            limit_put(limits, &limit_rows[i], limit_get(&cfg->limits, &limit_rows[i]));
    limits->disk_bytes = disk_bytes;
    limits->file_bytes = disk_bytes;
}

void cmd_fill_ceiling(const struct config *cfg, struct limits *ceiling)
{
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        const struct limit_row *row = &limit_rows[i];
        int64_t max = limit_get(&cfg->max, row);
        int64_t own = limit_served[i] ? limit_get(&cfg->limits, row) : 0;

        if (max > 0)
            limit_put(ceiling, row, max);
        else if (limit_get(ceiling, row) < own)
            limit_put(ceiling, row, own);
    }
    if (ceiling->disk_bytes < cfg->session_disk_bytes)
        ceiling->disk_bytes = cfg->session_disk_bytes;
    ceiling->file_bytes = ceiling->disk_bytes;
}

void cmd_fill_packages(const struct config *cfg, struct package_config *packages)
{
    packages->blocked = cfg->blocked_packages ? cfg->blocked_packages : PACKAGES_BLOCKED;
    packages->allowed =
        cfg->allowed_packages && cfg->allowed_packages[0] ? cfg->allowed_packages : NULL;
    packages->builds = cfg->package_builds;
    packages->urls = cfg->package_urls;
    packages->uv = cfg->uv;
    packages->index_url = cfg->index_url;
    packages->extra_indexes = cfg->extra_indexes;
    packages->wheels = cfg->wheels;
    packages->hosts = cfg->package_hosts;
    packages->set_bytes = cfg->package_bytes;
    packages->timeout_us = cfg->package_timeout_us;
    packages->refresh_us = cfg->package_refresh_us;
    if (cfg->command == COMMAND_SERVE || cfg->command == COMMAND_MCP) {
        packages->rate_per_minute = cfg->package_rate;
        packages->store_bytes = cfg->packages_bytes;
        packages->store_age_us = cfg->packages_age_us;
    }
}

static void on_install_log(void *arg, enum log_level level, const char *line)
{
    (void) arg;
    if (level <= LOG_LEVEL_ERROR)
        say("%s", line);
}

int cmd_open_installer(const struct config *cfg, const char *data_dir,
                       const struct template_def *template, const char *const *wanted,
                       struct service **ret_service, struct gb_err *err)
{
    struct service_config config;
    struct service *service = NULL;
    struct fault fault = { 0 };
    int r;

    service_config_default(&config);
    cmd_fill_packages(cfg, &config.packages);
    config.packages.rate_per_minute = SERVICE_NO_LIMIT;
    config.engine.python = template->python;
    config.engine.preload = template->preload;
    config.engine.binds = template->binds;
    config.engine.packages = template->packages;
    config.engine.cgroups = (enum cgroup_mode) cfg->cgroups;
    config.engine.landlock = true;
    config.data_dir = data_dir;
    config.log = on_install_log;
    if (wanted && packages_check(&config.packages, wanted, &fault) < 0)
        return gb_fail_plain(err, EINVAL, "%.190s", fault.detail);
    r = service_open(&config, &service, err);
    if (r == 0)
        r = service_wait_ready(service, err);
    if (r < 0) {
        service_close(service);
        return r;
    }
    *ret_service = service;
    return 0;
}

const char *cmd_bytes(int64_t bytes, char buf[CMD_BYTES_MAX])
{
    static const char *const units[] = { "kB", "MB", "GB", "TB" };
    double amount = (double) bytes / 1000;
    size_t unit = 0;

    while (amount >= 999.5 && unit + 1 < ARRAY_LEN(units)) {
        amount /= 1000;
        unit++;
    }
    snprintf(buf, CMD_BYTES_MAX, amount < 9.95 ? "%.1f %s" : "%.0f %s", amount, units[unit]);
    return buf;
}

size_t cmd_jobs(const struct config *cfg)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    return cfg->mark_jobs > 0 ? (size_t) cfg->mark_jobs : cpus > 0 ? (size_t) cpus : 1;
}

void cmd_show_progress(const char *what)
{
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[Kglovebox: %s", what);
    (void) fflush(stderr);
}

void cmd_hide_progress(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

void cmd_say_warnings(const json_t *result)
{
    json_t *item;
    size_t i;

    json_array_foreach (json_object_get(result, "warnings"), i, item)
        say("%s", json_string_value(item));
}

void cmd_preload_split(char *list)
{
    for (char *p = list; *p; p++)
        if (*p == ',')
            *p = ' ';
}

const char *cmd_preload(const struct config *cfg, const struct template_entry *template)
{
    bool none = strcmp(cfg->preload, "none") == 0;
    bool all = strcmp(cfg->preload, "all") == 0 || strcmp(cfg->preload, "auto") == 0;

    if (none || all)
        return none ? "" : template->preload;
    cmd_preload_split(cfg->preload);
    return cfg->preload;
}

int cmd_default_template(const struct config *cfg, const char *data_dir,
                         struct template_entry *ret_entry, struct gb_err *err)
{
    struct gb_err note;
    int r = template_default(data_dir, cfg->default_template, ret_entry, &note, err);

    if (r == 0 && note.msg[0])
        say("%s; using the system's Python instead", note.msg);
    return r;
}

void cmd_say_left_out(const char *lines)
{
    while (*lines) {
        size_t len = strcspn(lines, "\n");

        say("not preloaded: %.*s; programs can still import it", (int) len, lines);
        lines += len + (lines[len] == '\n');
    }
}

int cmd_data_dir(const struct config *cfg, char **ret_dir, struct gb_err *err)
{
    if (!cfg->data_dir)
        return data_default_dir(ret_dir, err);
    *ret_dir = strdup(cfg->data_dir);
    return *ret_dir ? 0 : gb_fail(err, ENOMEM, "find the data directory");
}

/* Creates @dir and what is missing above it. */
static int make_dirs(char *dir, struct gb_err *err)
{
    for (char *p = dir + 1;; p++) {
        char end = *p;
        int code;

        if (end != '/' && end != '\0')
            continue;
        *p = '\0';
        code = mkdir(dir, 0700) < 0 && errno != EEXIST ? errno : 0;
        *p = end;
        if (code != 0)
            return gb_fail(err, code, "create the data directory (choose another with --data)");
        if (end == '\0')
            return 0;
    }
}

int cmd_sub_dir(const struct config *cfg, const char *name, char **ret_dir, struct gb_err *err)
{
    autofree char *base = NULL, *dir = NULL;
    int r = cmd_data_dir(cfg, &base, err);

    if (r < 0)
        return r;
    if (asprintf(&dir, "%s/%s", base, name) < 0) {
        dir = NULL;
        return gb_fail(err, ENOMEM, "find the data directory");
    }
    r = make_dirs(dir, err);
    if (r == 0)
        *ret_dir = TAKE_PTR(dir);
    return r;
}

int cmd_check_aliases(const struct config *cfg, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];

    for (char *const *alias = cfg->template_aliases; alias && *alias; alias++)
        if (!template_alias_valid(*alias)) {
            format_quoted(*alias, quoted);
            return gb_fail_plain(err, EINVAL,
                                 "--template-alias: %s is not ALIAS=NAME, such as "
                                 "python:3.12*=py312",
                                 quoted);
        }
    return 0;
}

int cmd_print_json(json_t *json, struct gb_err *err)
{
    int r = 0;

    if (!json)
        return gb_fail(err, ENOMEM, "print JSON");
    if (json_dumpf(json, stdout, isatty(STDOUT_FILENO) ? JSON_INDENT(2) : 0) < 0 ||
        putchar('\n') == EOF || fflush(stdout) != 0)
        r = gb_fail(err, EIO, "print JSON");
    json_decref(json);
    return r;
}
