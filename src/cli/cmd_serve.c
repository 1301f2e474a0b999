/*
 * `glovebox serve`: the service and its server, from the start to the last reply.
 *
 * The main thread starts everything, then only waits for signals, which all other threads have
 * blocked. The first SIGTERM or SIGINT drains: a separate thread waits for running programs, so
 * that the main thread can receive a second signal, which stops us at once. Any boxes left then die
 * with us: their lifelines close.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/text/parse.h"
#include "cli/cmd.h"
#include "cli/mark.h"
#include "cli/network.h"
#include "cli/source_roots.h"
#include "mark/mark.h"
#include "server/server.h"
#include "service/access/data.h"
#include "service/access/keys.h"
#include "service/service.h"
#include "service/template/templates.h"

#include "base/banned.h"

/* --reply applies to both HTTP and MCP, but their defaults differ. */
#define REPLY_BYTES_DEFAULT (1024 * 1024)

struct serve {
    const struct config *cfg;
    struct store *store;
    struct keys *keys;
    struct service *service;
    struct mark_models models;
    struct mark *mark; /* NULL: --mark off */
    struct server *server;
    struct server_config server_config;
    struct egress_policy *network;  /* what sessions may ask for; NULL: no network */
    char *data_dir;                 /* the default one */
    struct template_entry template; /* the default one */
    struct source_roots roots;      /* that boxes may mount */
    int signal_fd, drained_fd;
    bool progress_shown;
    bool mark_refused; /* its options are wrong */
};

/* ---- from options to configurations ---- */

/* A limit that is only an option of `run` does not change the defaults of a service. */
#define SERVE_HAS_RUN   0
#define SERVE_HAS_EVERY 1

static int check_ceilings(const struct config *cfg, struct gb_err *err)
{
    const struct {
        const char *name, *ceiling;
        int64_t value, most;
    } rows[] = {
#define LIMIT_CAPPED(max_option, max_standard, max_help, member, unit, words, json, standard,      \
                     session, ceiling_, min, max_, zero, option, option_standard, option_min,      \
                     where, ...)                                                                   \
    { option, max_option, SERVE_HAS_##where ? cfg->limits.member : 0, cfg->max.member },
#include "base/words/limits.def"
        { "session-disk", "max-disk", cfg->session_disk_bytes, cfg->max.disk_bytes },
        { "default-timeout", "max-timeout", cfg->default_timeout_us, cfg->max.wall_us },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].value > rows[i].most)
            return gb_fail_plain(err, EINVAL, "--%s is larger than --%s; raise the latter",
                                 rows[i].name, rows[i].ceiling);
    if (cfg->no_auth && cfg->require_key)
        return gb_fail_plain(err, EINVAL, "--no-auth and --require-key contradict each other");
    return 0;
}

static void show_progress(void *arg, unsigned done, unsigned total, const char *name)
{
    struct serve *serve = arg;

    if (!isatty(STDERR_FILENO))
        return;
    serve->progress_shown = true;
    fprintf(stderr, "\r\033[Kglovebox: warming up, %u of %u: %s", done, total, name);
    (void) fflush(stderr);
}

static void on_service_log(void *arg, enum log_level level, const char *line)
{
    (void) arg;
    log_event(level, "service", LOG_TEXT("message", line));
}

static void on_code(void *arg, const char *execution_id, const char *code)
{
    (void) arg;
    log_event(LOG_LEVEL_INFO, "code", LOG_TEXT("execution", execution_id), LOG_TEXT("code", code));
}

static void fill_service(struct serve *serve, struct service_config *config)
{
    const struct config *cfg = serve->cfg;

    service_config_default(config);
    config->template = &serve->template;
    config->engine.preload = cmd_preload(cfg, &serve->template);
    cmd_fill_packages(cfg, &config->packages);
    config->engine.cgroups = (enum cgroup_mode) cfg->cgroups;
    config->engine.landlock = cfg->landlock == LANDLOCK_ON;
    config->engine.pool_boxes = (unsigned) cfg->pool;
    config->engine.pool_tenants = true;
    config->engine.progress = show_progress;
    config->engine.progress_arg = serve;
    source_roots_fill(&serve->roots, config);
    config->store = serve->store;
    config->keys = serve->keys;
    config->data_dir = serve->data_dir;
    config->template_aliases = (const char *const *) cfg->template_aliases;
    config->engine.templates_idle = (unsigned) cfg->idle_templates;
    config->engine.template_wait_us = cfg->template_wait_us;
    cmd_fill_limits(cfg, &config->oneshot, cfg->limits.disk_bytes);
    cmd_fill_limits(cfg, &config->session, cfg->session_disk_bytes);
    cmd_fill_ceiling(cfg, &config->ceiling);
    config->wall_default_us = cfg->default_timeout_us;
    config->wall_max_us = cfg->max.wall_us > cfg->simple_max_timeout_us
                              ? cfg->max.wall_us
                              : cfg->simple_max_timeout_us;
    config->command_wall_max_us = cfg->max.wall_us;
    if (config->command_wall_default_us > cfg->max.wall_us)
        config->command_wall_default_us = cfg->max.wall_us;
    config->sessions_max = cfg->max_sessions;
    config->idle_us = cfg->idle_us;
    if (config->idle_max_us < cfg->idle_us)
        config->idle_max_us = cfg->idle_us;
    config->sweep_us = cfg->sweep_us;
    config->grace_us = cfg->grace_us;
    config->reply_bytes = cfg->reply_bytes;
    if (config->reply_bytes_max < cfg->reply_bytes)
        config->reply_bytes_max = cfg->reply_bytes;
    config->network = serve->network;
    config->egress = network_config(cfg);
    config->network_limits = network_limits(cfg);
    config->log_code = cfg->log_code ? on_code : NULL;
    config->log = on_service_log;
}

static void fill_server(struct serve *serve)
{
    static char *const default_listens[] = { "127.0.0.1:8080", NULL };
    struct server_config *config = &serve->server_config;
    const struct config *cfg = serve->cfg;

    server_config_default(config);
    config->listens = cfg->listens ? cfg->listens : default_listens;
    config->allowed_hosts = cfg->allowed_hosts;
    config->auth = cfg->no_auth       ? SERVER_AUTH_OPEN
                   : cfg->require_key ? SERVER_AUTH_KEY
                                      : SERVER_AUTH_AUTO;
    config->connections_max = cfg->connections;
    config->connections_per_client = cfg->connections_per_client;
    config->simple_wall_max_us = cfg->simple_max_timeout_us;
    config->mcp_more = cfg->mcp_more;
    if (cfg->reply_bytes != REPLY_BYTES_DEFAULT)
        config->mcp_reply_bytes = cfg->reply_bytes;
}

/* ---- starting ---- */

/* Connections, boxes and files each take a few descriptors; the default limit of 1024 is soon
 * reached. At most half of them are for connections, so that idle clients cannot prevent boxes from
 * being created. */
static void raise_descriptors(struct serve *serve)
{
    int64_t *connections = &serve->server_config.connections_max;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
        (void) getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur != RLIM_INFINITY && *connections > (int64_t) (limit.rlim_cur / 2))
        *connections = (int64_t) (limit.rlim_cur / 2);
}

/* Before any thread is started, so that no thread receives a signal. */
static int catch_signals(struct serve *serve, struct gb_err *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return gb_fail_plain(err, EINVAL, "cannot block signals");
    serve->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    serve->drained_fd = eventfd(0, EFD_CLOEXEC);
    if (serve->signal_fd < 0 || serve->drained_fd < 0)
        return gb_fail(err, errno, "wait for signals");
    return 0;
}

static int open_store(struct serve *serve, struct gb_err *err)
{
    struct store_config config = { .dir = serve->cfg->data_dir,
                                   .database = serve->cfg->database,
                                   .database_password_file = serve->cfg->database_password_file,
                                   .exclusive = true };
    int r;

    if (config.dir)
        serve->data_dir = strdup(config.dir);
    else if (data_default_dir(&serve->data_dir, err) < 0)
        return -err->code;
    if (!serve->data_dir)
        return gb_fail(err, ENOMEM, "open the data directory");
    config.dir = serve->data_dir;
    r = data_open(&config, &serve->store, err);
    if (r == 0 && serve->cfg->mark == MARK_ON)
        r = source_roots_add(serve->cfg, serve->store, &serve->roots, err);
    if (r == 0)
        r = cmd_default_template(serve->cfg, serve->data_dir, &serve->template, err);
    return r < 0 ? r : keys_open(serve->store, &serve->keys, err);
}

static int write_port_file(const struct serve *serve, struct gb_err *err)
{
    const char *path = serve->cfg->port_file;
    autofree char *temp = NULL;
    char text[512] = "";
    size_t used = 0;
    int fd, r;

    if (!path)
        return 0;
    for (size_t i = 0; server_url(serve->server, i); i++)
        if (server_port(serve->server, i) != 0 && used < sizeof text - 8)
            used += (size_t) snprintf(text + used, sizeof text - used, "%d\n",
                                      server_port(serve->server, i));
    if (asprintf(&temp, "%s.tmp", path) < 0) {
        temp = NULL;
        return gb_fail(err, ENOMEM, "write the port file");
    }
    /* Renamed into place, so that a reader never sees a half-written one. */
    fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    r = fd < 0 ? -errno : io_write_all(fd, text, used);
    if (fd >= 0)
        (void) close(fd);
    if (r == 0 && rename(temp, path) < 0)
        r = -errno;
    return r < 0 ? gb_fail(err, -r, "write the port file '%s'", path) : 0;
}

static void print_welcome(const struct serve *serve)
{
    const char *url = server_url(serve->server, 0);
    bool is_unix = strncmp(url, "unix:", 5) == 0;
    char grace[FORMAT_NUMBER_MAX];

    format_fixed(serve->cfg->grace_us, USEC_PER_SEC, grace);
    printf("glovebox %s listening at", GLOVEBOX_VERSION);
    for (size_t i = 0; server_url(serve->server, i); i++)
        printf("%s %s", i ? "," : "", server_url(serve->server, i));
    printf("\n\n");
    if (is_unix)
        printf("  try it   curl --unix-socket %s -d '{\"code\": \"6 * 7\"}' "
               "http://localhost/v1/execute\n",
               url + 5);
    else
        printf("  open     %s/ in a browser: ask about data, or run code at %s/play\n"
               "  try it   curl -d '{\"code\": \"6 * 7\"}' %s/v1/execute\n"
               "  docs     %s/docs\n",
               url, url, url, url);
    if (serve->mark)
        mark_print_welcome(serve->mark);
    printf("  stop     Ctrl-C; running programs get %s seconds to finish\n\n", grace);
    (void) fflush(stdout);
}

static int start_mark(struct serve *serve, struct gb_err *err)
{
    struct mark_config config = { .service = serve->service,
                                  .store = serve->store,
                                  .data_dir = serve->data_dir };
    int r;

    if (serve->cfg->mark == MARK_OFF)
        return 0;
    mark_fill(serve->cfg, &serve->models, &config);
    config.guests = true;
    r = mark_open(&config, &serve->mark, err);
    serve->mark_refused = r < 0 && mark_options_are_wrong(err);
    return r;
}

static int start(struct serve *serve, struct gb_err *err)
{
    struct service_config config = { 0 };
    int r;

    fill_service(serve, &config);
    r = service_open(&config, &serve->service, err);
    if (r == 0)
        r = service_wait_ready(serve->service, err);
    if (serve->progress_shown)
        fprintf(stderr, "\r\033[K");
    if (r == 0)
        r = start_mark(serve, err);
    if (r < 0)
        return r;
    serve->server_config.service = serve->service;
    serve->server_config.mark = serve->mark;
    serve->server_config.keys = serve->keys;
    r = server_open(&serve->server_config, &serve->server, err);
    if (r == 0)
        r = write_port_file(serve, err);
    if (r < 0)
        return r;
    if (serve->cfg->no_auth)
        log_event(LOG_LEVEL_WARNING, "no-auth",
                  LOG_TEXT("message",
                           "no key is required: anyone who can reach an address can run code"));
    for (size_t i = 0; server_url(serve->server, i); i++)
        log_event(LOG_LEVEL_INFO, "listening", LOG_TEXT("url", server_url(serve->server, i)));
    print_welcome(serve);
    return 0;
}

/* ---- stopping ---- */

static void *drain_main(void *arg)
{
    struct serve *serve = arg;
    uint64_t one = 1;

    mark_drain(serve->mark);
    service_drain(serve->service);
    (void) !write(serve->drained_fd, &one, sizeof one);
    return NULL;
}

static int read_signal(const struct serve *serve)
{
    struct signalfd_siginfo info;

    return read(serve->signal_fd, &info, sizeof info) == sizeof info ? (int) info.ssi_signo : 0;
}

/* A second signal: do not wait any longer. */
static _Noreturn void leave_now(const struct serve *serve, int sig)
{
    for (size_t i = 0; server_url(serve->server, i); i++)
        if (strncmp(server_url(serve->server, i), "unix:", 5) == 0)
            (void) unlink(server_url(serve->server, i) + 5);
    if (serve->cfg->port_file)
        (void) unlink(serve->cfg->port_file);
    _exit(128 + sig);
}

static void wait_for_end(struct serve *serve)
{
    struct pollfd fds[] = { { serve->signal_fd, POLLIN, 0 }, { serve->drained_fd, POLLIN, 0 } };
    pthread_t thread;
    int sig = read_signal(serve);

    log_event(LOG_LEVEL_INFO, "draining", LOG_TEXT("signal", sig == SIGINT ? "SIGINT" : "SIGTERM"));
    if (isatty(STDERR_FILENO))
        say("waiting for running programs to finish; press Ctrl-C again to stop at once");
    if (pthread_create(&thread, NULL, drain_main, serve) != 0) {
        (void) drain_main(serve);
        return;
    }
    while (!(fds[1].revents & POLLIN)) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[0].revents & POLLIN)
            leave_now(serve, read_signal(serve));
    }
    pthread_join(thread, NULL);
}

static void stop(struct serve *serve)
{
    if (serve->server && serve->cfg->port_file)
        (void) unlink(serve->cfg->port_file);
    server_close(serve->server);
    mark_close(serve->mark);
    mark_models_release(&serve->models);
    service_close(serve->service);
    keys_close(serve->keys);
    store_close(serve->store);
    egress_policy_free(serve->network);
    template_entry_release(&serve->template);
    source_roots_release(&serve->roots);
    free(serve->data_dir);
    if (serve->signal_fd >= 0)
        (void) close(serve->signal_fd);
    if (serve->drained_fd >= 0)
        (void) close(serve->drained_fd);
}

/* With signals as they were: an interrupt ends us, and the next start goes on where it was. A
 * failure is told, and no reason not to serve. */
static void set_up(const struct config *cfg)
{
    char *name[] = { (char *) TEMPLATE_DATA, NULL };
    struct config copy = *cfg;
    autofree char *dir = NULL;
    struct gb_err err = { 0 };
    int r = cmd_data_dir(cfg, &dir, &err);

    if (r == 0 && templates_has(dir, TEMPLATE_DATA))
        return;
    copy.args = name;
    copy.args_len = 1;
    copy.preload = (char *) "auto";
    if (r == 0) {
        say("setting up the template data, once: this takes about a minute and 3 GB of disk");
        r = cmd_template_add(&copy, dir, &err);
        if (r < 0 && templates_has(dir, TEMPLATE_DATA))
            return; /* another process was faster */
    }
    if (r < 0)
        say("the template data could not be set up: %s", err.msg);
    if (r < 0)
        say("serving the system's Python instead; the next start goes on where this one ended");
}

/* Errors the user can fix; the store is opened only after the addresses have been parsed. */
static int prepare(struct serve *serve, struct gb_err *err)
{
    const struct config *cfg = serve->cfg;
    int r = check_ceilings(cfg, err);

    for (char **root = cfg->volume_roots; root && *root; root++)
        volume_root_parse(*root, &serve->roots.items[serve->roots.len++]);
    if (r == 0)
        r = volume_roots_check(serve->roots.items, serve->roots.len, err);
    if (r < 0 || (r = cmd_check_aliases(cfg, err)) < 0 ||
        (r = mark_models_read(cfg, &serve->models, err)) < 0 ||
        (r = network_policy(cfg, cfg->network_allow, &serve->network, err)) < 0)
        return r;
    if (serve->network || cfg->mark == MARK_ON)
        network_no_core(); /* sessions may bring secrets, and models have keys */
    fill_server(serve);
    r = server_check(&serve->server_config, true, err);
    if (r < 0)
        return r;
    return log_open((enum log_level) cfg->log_level, (enum log_format) cfg->log_format,
                    cfg->log_file, err);
}

/* Whether anybody can come in where credentials are needed: with a key, or an account of Mark. */
static bool has_callers(struct serve *serve)
{
    struct auth_config config = { .store = serve->store, .data_dir = serve->data_dir };
    struct auth *auth = NULL;
    bool any = keys_any(serve->keys);

    if (!any && serve->cfg->mark == MARK_ON && auth_open(&config, &auth, NULL) == 0)
        any = auth_any(auth);
    auth_close(auth);
    return any;
}

/* Returns the exit code of a failure, or 0 once the service is running. */
static int begin(struct serve *serve, struct gb_err *err)
{
    if (catch_signals(serve, err) < 0 || open_store(serve, err) < 0)
        return EXIT_OURS;
    if (server_check(&serve->server_config, has_callers(serve), err) < 0)
        return EXIT_USAGE;
    if (start(serve, err) < 0)
        return serve->mark_refused ? EXIT_USAGE : EXIT_OURS;
    return 0;
}

int cmd_serve(const struct config *cfg)
{
    struct serve serve = { .cfg = cfg, .signal_fd = -1, .drained_fd = -1 };
    struct gb_err err = { 0 };
    int code;

    if (prepare(&serve, &err) < 0) {
        say("%s", err.msg);
        mark_models_release(&serve.models);
        return EXIT_USAGE;
    }
    raise_descriptors(&serve);
    if (cfg->set_up)
        set_up(cfg);
    code = begin(&serve, &err);
    if (code == 0)
        wait_for_end(&serve);
    else
        say("%s", err.msg);
    stop(&serve);
    if (code == 0)
        log_event(LOG_LEVEL_INFO, "stopped", LOG_INT("code", 0));
    log_close();
    return code;
}
