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
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/mark.h"
#include "cli/scratch.h"
#include "mark/mark.h"
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

/* ---- Mark, for the tool ask_data ---- */

struct own_mark {
    struct mark_models models;
    struct scratch scratch;
    struct store *store;
    struct mark *mark; /* NULL: there is no model */
};

static void own_mark_close(struct own_mark *own)
{
    mark_close(own->mark);
    store_close(own->store);
    scratch_close(&own->scratch);
    mark_models_release(&own->models);
}

/* Whether there is a model at all: most who start us have none, and nothing is to be made for
 * them. The demo does not count: an assistant has no use for it. */
static int find_model(const struct llm_config *config, bool *ret_found, struct gb_err *err)
{
    struct llm_models *models = NULL;
    int r = llm_models_open(config, &models, err);

    *ret_found = r == 0 && llm_model_find(models, NULL);
    llm_models_close(models);
    return r;
}

static int own_mark_open(const struct config *cfg, struct service *service, struct own_mark *own,
                         struct gb_err *err)
{
    struct mark_config config = { .service = service };
    struct store_config store = { .exclusive = true };
    autofree char *dir = NULL;
    bool found;
    int r;

    if (cfg->mark == MARK_OFF)
        return 0;
    if ((r = mark_models_read(cfg, &own->models, err)) < 0)
        return r;
    mark_fill(cfg, &own->models, &config);
    config.models.demo = false;
    if ((r = find_model(&config.models, &found, err)) < 0 || !found)
        return r;
    if ((r = cmd_sub_dir(cfg, "ask", &dir, err)) < 0 ||
        (r = scratch_open(dir, &own->scratch, err)) < 0)
        return r;
    store.dir = config.data_dir = own->scratch.path;
    if ((r = data_open(&store, &own->store, err)) < 0)
        return r;
    config.store = own->store;
    return mark_open(&config, &own->mark, err);
}

static int serve(const struct config *cfg, struct service *service, struct mark *mark, int stop_fd,
                 struct gb_err *err)
{
    struct mcp_config config;
    struct mcp *mcp = NULL;
    int r;

    mcp_config_default(&config);
    config.service = service;
    config.mark = mark;
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
    struct own_mark own = { .scratch = SCRATCH_INIT };
    struct service *service = NULL;
    autofree char *dir = NULL, *base = NULL;
    pthread_t warm;
    bool warms;
    int r = cmd_sub_dir(cfg, "mcp", &dir, err);

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
    r = own_mark_open(cfg, service, &own, err);
    if (r == 0)
        r = serve(cfg, service, own.mark, stop_fd, err);
    if (warms)
        pthread_join(warm, NULL);
    own_mark_close(&own);
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
