/*
 * `glovebox mcp`: the Model Context Protocol on standard input and output.
 *
 * With --url it carries messages to a service and back (mcp/forward.c). Without it, it is itself a
 * service, for the one client that started it: no store, no keys, no audit log, and boxes that end
 * with the client. The interpreter warms up on a thread while the client initializes; code sent
 * before that waits.
 *
 * Standard output belongs to the protocol. Our own messages go to stderr.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "cli/cmd.h"
#include "mcp/mcp.h"
#include "service/access/data.h"
#include "service/service.h"
#include "service/template/templates.h"

#include "base/banned.h"

#define POOL_BOXES          2
#define GRACE_US            USEC_PER_SEC
#define REPLY_BYTES_DEFAULT (1024 * 1024) /* of --reply, which means something else for run */

/* All signals that could terminate us; the client closing its end is not a signal. */
static int catch_signals(struct gb_err *err)
{
    sigset_t set;
    int fd;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return gb_fail_plain(err, EINVAL, "cannot block signals");
    fd = signalfd(-1, &set, SFD_CLOEXEC);
    return fd < 0 ? gb_fail(err, errno, "wait for signals") : fd;
}

/* Only problems: clients show this stream to users. */
static void on_log(void *arg, enum log_level level, const char *line)
{
    (void) arg;
    if (level <= LOG_LEVEL_WARNING)
        say("%s", line);
}

/* A directory next to the service's. Several processes may share it: each engine locks its own
 * part. */
static int data_dir(const struct config *cfg, char **ret_dir, struct gb_err *err)
{
    autofree char *base = NULL;
    char *dir = NULL;

    if (cfg->data_dir)
        base = strdup(cfg->data_dir);
    else if (data_default_dir(&base, err) < 0)
        return -err->code;
    if (!base || asprintf(&dir, "%s/mcp", base) < 0)
        return gb_fail(err, ENOMEM, "find the data directory");
    for (char *p = dir + 1;; p++) {
        char end = *p;
        int code;

        if (end != '/' && end != '\0')
            continue;
        *p = '\0';
        code = mkdir(dir, 0700) < 0 && errno != EEXIST ? errno : 0;
        *p = end;
        if (code != 0) {
            free(dir);
            return gb_fail(err, code, "create the data directory (choose another with --data)");
        }
        if (end == '\0')
            break;
    }
    *ret_dir = dir;
    return 0;
}

static void at_least(int64_t *most, int64_t value)
{
    if (*most < value)
        *most = value;
}

static void fill_service(const struct config *cfg, const char *dir,
                         const struct template_entry *template, struct service_config *config)
{
    service_config_default(config);
    config->template = template;
    config->engine.preload = cmd_preload(cfg, template);
    cmd_fill_packages(cfg, &config->packages);
    config->engine.cgroups = (enum cgroup_mode) cfg->cgroups;
    config->engine.landlock = cfg->landlock == LANDLOCK_ON;
    config->engine.pool_boxes = POOL_BOXES;
    config->engine.pool_tenants = true;
    config->data_dir = dir;
    cmd_fill_limits(cfg, &config->oneshot, cfg->limits.disk_bytes);
    cmd_fill_limits(cfg, &config->session, cfg->session_disk_bytes);
    cmd_fill_ceiling(cfg, &config->ceiling);
    at_least(&config->wall_max_us, cfg->simple_max_timeout_us);
    at_least(&config->command_wall_max_us, cfg->simple_max_timeout_us);
    config->idle_us = cfg->idle_us;
    at_least(&config->idle_max_us, cfg->idle_us);
    config->grace_us = GRACE_US;
    config->log = on_log;
}

static void *warm_main(void *arg)
{
    struct gb_err err = { 0 };

    if (service_wait_ready(arg, &err) < 0)
        say("%s", err.msg);
    return NULL;
}

static int serve(const struct config *cfg, struct service *service, int stop_fd, struct gb_err *err)
{
    struct mcp_config config;
    struct mcp *mcp = NULL;
    int r;

    mcp_config_default(&config);
    config.service = service;
    config.wall_max_us = cfg->simple_max_timeout_us;
    config.more = cfg->mcp_more;
    if (cfg->reply_bytes != REPLY_BYTES_DEFAULT)
        config.reply_bytes = cfg->reply_bytes;
    r = mcp_open(&config, &mcp, err);
    if (r == 0)
        r = mcp_stdio(mcp, STDIN_FILENO, STDOUT_FILENO, stop_fd, err);
    mcp_close(mcp);
    return r;
}

static int run_here(const struct config *cfg, int stop_fd, struct gb_err *err)
{
    struct template_entry template = { 0 };
    struct service_config config = { 0 };
    struct service *service = NULL;
    autofree char *dir = NULL, *base = NULL;
    pthread_t warm;
    bool warms;
    int r = data_dir(cfg, &dir, err);

    /* Templates are where the service has its own. */
    if (r < 0 || (r = cmd_data_dir(cfg, &base, err)) < 0 ||
        (r = cmd_default_template(cfg, base, &template, err)) < 0)
        return r;
    fill_service(cfg, dir, &template, &config);
    r = service_open(&config, &service, err);
    if (r < 0) {
        template_entry_release(&template);
        return r;
    }
    warms = pthread_create(&warm, NULL, warm_main, service) == 0;
    r = serve(cfg, service, stop_fd, err);
    if (warms)
        pthread_join(warm, NULL);
    service_close(service);
    template_entry_release(&template);
    return r;
}

int cmd_mcp(const struct config *cfg)
{
    struct gb_err err = { 0 };
    autoclose int stop_fd = -EBADF;
    int r;

    if (cfg->mcp_client) {
        r = mcp_print_config(cfg, &err);
    } else {
        r = stop_fd = catch_signals(&err);
        if (r >= 0)
            r = cfg->mcp_url ? mcp_forward(cfg, stop_fd, &err) : run_here(cfg, stop_fd, &err);
    }
    if (r < 0)
        say("%s", err.msg);
    return r < 0 ? EXIT_OURS : 0;
}
