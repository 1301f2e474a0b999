/*
 * The supervisor's side of the engine: the builder, and how it is replaced.
 *
 * Theory of operation. There is one socket to the builder and one to each template (template.c);
 * each has a lock, and each request waits for its answer. All processes that they start are our
 * children, so only we wait for them, always by pidfd and never for "any child". We hold copies of
 * all descriptors of a box; when the connection to the builder breaks we execute a new one and hand
 * them over.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/pidfd.h"
#include "engine/builder.h"
#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

#define DESCRIPTORS_MIN 64

const char engine_preload_all[] =
    "numpy pandas matplotlib matplotlib.pyplot plotly plotly.graph_objects plotly.express IPython";

const struct engine_config *engine_get_config(const struct engine *engine)
{
    return &engine->config;
}

enum cgroup_mode engine_get_cgroup_mode(const struct engine *engine)
{
    return (enum cgroup_mode) engine->cgroup_mode;
}

struct disk *engine_get_disk(const struct engine *engine)
{
    return engine->disk;
}

void pid_reap(int pidfd)
{
    siginfo_t info;

    while (waitid(P_PIDFD, (id_t) pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
}

/* Closes the connection, which makes the peer exit, and reaps it. */
void peer_end(struct peer *peer, bool kill_it)
{
    gb_closep(&peer->socket);
    peer->socket = -EBADF;
    if (peer->pidfd < 0)
        return;
    if (kill_it)
        (void) syscall(SYS_pidfd_send_signal, peer->pidfd, SIGKILL, NULL, 0);
    pid_reap(peer->pidfd);
    gb_closep(&peer->pidfd);
    peer->pidfd = -EBADF;
}

static int socket_pair(int *ret_ours, int *ret_theirs)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    *ret_ours = pair[0];
    *ret_theirs = pair[1];
    return 0;
}

/* ---- the builder ---- */

/* The executable of the builder: our own. PID 1 of a box, which is a clone of the builder, runs
 * under a filter that the thread sanitizer does not survive; both have one thread, so a sanitized
 * build, which is never installed, may name an unsanitized build instead (tools/tsan.sh does). An
 * ordinary build ignores the variable. */
static const char *builder_program(void)
{
#if defined(__SANITIZE_THREAD__)
    const char *plain = getenv("GLOVEBOX_PLAIN_BUILDER");

    if (plain)
        return plain;
#endif
    return "/proc/self/exe";
}

/* @fds are moved to the numbers from BUILDER_CONTROL_FD on; all of them are above
 * BUILDER_FDS_END. */
static int builder_spawn_at(const char *how, const int *fds, size_t fds_len, pid_t *ret_pid)
{
    char *const argv[] = { (char *) "glovebox", (char *) BUILDER_COMMAND, (char *) how, NULL };
    /* Nothing from our environment: neither builder nor template may hold a secret. PATH is for
     * newuidmap. */
    static char *const envp[] = {
        (char *) "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL
    };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int r;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    for (size_t i = 0; i < fds_len; i++)
        posix_spawn_file_actions_adddup2(&actions, fds[i], BUILDER_CONTROL_FD + (int) i);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    /* A new session: the terminal's Ctrl-C is for us, the builder has to clean up. */
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    r = posix_spawn(ret_pid, builder_program(), &actions, &attr, argv, envp);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* Executes this program in the role that @how names, with a socket and @with. */
static int peer_spawn(const char *how, const int *with, size_t with_len, struct peer *peer,
                      struct gb_err *err)
{
    autoclose int ours = -EBADF, theirs = -EBADF;
    int fds[1 + OUTER_FDS];
    size_t fds_len = 1 + with_len;
    int r = socket_pair(&ours, &theirs);

    if (r < 0)
        return gb_fail(err, -r, "create a socket pair");
    fds[0] = theirs;
    for (size_t i = 0; i < with_len; i++)
        fds[1 + i] = with[i];
    for (size_t i = 0; i < fds_len; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, BUILDER_FDS_END);
        if (fds[i] < 0) {
            r = -errno;
            wire_close_fds(fds, i);
            return gb_fail(err, -r, "copy a descriptor");
        }
    }
    r = builder_spawn_at(how, fds, fds_len, &peer->pid);
    wire_close_fds(fds, fds_len);
    if (r < 0)
        return gb_fail(err, -r, "start the builder");
    peer->pidfd = (int) syscall(SYS_pidfd_open, peer->pid, 0);
    if (peer->pidfd < 0)
        return gb_fail(err, errno, "open a pidfd of the builder");
    peer->socket = TAKE_FD(ours);
    return 0;
}

static int builder_spawn(struct engine *engine, struct gb_err *err)
{
    bool again = engine->outer[0] >= 0;

    return peer_spawn(again ? BUILDER_JOIN : NULL, engine->outer, again ? OUTER_FDS : 0,
                      &engine->builder, err);
}

int builder_spawn_root(struct engine *engine, struct peer *ret_peer, struct gb_err *err)
{
    int user = -EBADF, r;

    /* A builder that is being replaced holds these. */
    pthread_mutex_lock(&engine->builder.lock);
    if (engine->outer[OUTER_USER] >= 0)
        user = fcntl(engine->outer[OUTER_USER], F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&engine->builder.lock);
    r = peer_spawn(BUILDER_ROOT, &user, user >= 0, ret_peer, err);
    gb_closep(&user);
    return r;
}

/* One request and its answer on a working connection; the lock is held. */
static int builder_exchange(struct engine *engine, const struct builder_request *request,
                            const int *sent, size_t sent_len, struct builder_reply *reply,
                            int *ret_fds, size_t *ret_fds_len)
{
    int got[WIRE_FDS_MAX];
    size_t got_len = 0;
    int r = wire_send(engine->builder.socket, request, sizeof *request, sent, sent_len);

    if (r == 0)
        r = wire_recv(engine->builder.socket, reply, sizeof *reply, got, &got_len);
    if (r < 0)
        return r;
    if (ret_fds && !reply->error) {
        memcpy(ret_fds, got, sizeof(int) * got_len);
        *ret_fds_len = got_len;
        return 0;
    }
    /* A partial failure leaves a dead child of ours. */
    for (size_t i = 0; i < got_len && reply->error; i++)
        pid_reap(got[i]);
    wire_close_fds(got, got_len);
    if (ret_fds_len)
        *ret_fds_len = 0;
    return 0;
}

/* Stores the descriptors that came with the answer to BUILDER_SETUP. */
static void builder_keep(struct engine *engine, const struct builder_reply *reply, const int *fds)
{
    int executed = engine->builder.pidfd;

    engine->builder.pidfd = *fds++;
    engine->builder.pid = pidfd_pid(engine->builder.pidfd);
    if (!reply->setup.keeper) {
        (void) close(executed); /* it is the builder itself */
    } else if (engine->outer[0] < 0) {
        engine->keeper_pidfd = executed;
        memcpy(engine->outer, fds, sizeof engine->outer);
    } else {
        pid_reap(executed); /* it only joined the namespaces */
        (void) close(executed);
        wire_close_fds(fds, OUTER_FDS);
    }
    if (reply->setup.keeper)
        fds += OUTER_FDS;
    for (int32_t i = 0; i < reply->setup.locks; i++) {
        if (engine->lock_fds_len < ARRAY_LEN(engine->lock_fds))
            engine->lock_fds[engine->lock_fds_len++] = fds[i];
        else
            (void) close(fds[i]);
    }
}

static int builder_setup(struct engine *engine, struct gb_err *err)
{
    struct builder_request request = { .op = BUILDER_SETUP };
    struct builder_reply reply;
    autoclose int list = -EBADF;
    int fds[WIRE_FDS_MAX], sent[2 + SHELVES_MAX];
    size_t fds_len = 0, sent_len = 0;
    int r = volume_roots_list(engine->volumes, &list, err);

    if (r < 0)
        return r;
    request.setup.template = engine->first->ready;
    request.setup.volumes = list >= 0;
    if (engine->first->ready)
        sent[sent_len++] = engine->first->peer.pidfd;
    if (list >= 0)
        sent[sent_len++] = list;
    for (size_t i = 0; i < engine->shelves_len; i++)
        sent[sent_len++] = engine->shelves[i];
    request.setup.shelves = (int32_t) engine->shelves_len;
    request.setup.cgroup_mode =
        engine->cgroup_name[0] ? engine->cgroup_mode : (int32_t) engine->config.cgroups;
    snprintf(request.setup.cgroup_name, sizeof request.setup.cgroup_name, "%s",
             engine->cgroup_name);
    snprintf(request.setup.disk_name, sizeof request.setup.disk_name, "%s", engine->disk_name);
    snprintf(request.setup.disk_dir, sizeof request.setup.disk_dir, "%s", disk_path(engine->disk));
    snprintf(request.setup.locales, sizeof request.setup.locales, "%s",
             locales_mount(engine->locales));
    r = builder_exchange(engine, &request, sent, sent_len, &reply, fds, &fds_len);
    if (r < 0)
        return gb_fail_about(err, -r, "the builder exited during startup");
    if (reply.error)
        return gb_fail_plain(err, reply.error, "%s", reply.msg);
    engine->id_mode = reply.setup.id_mode;
    engine->cgroup_mode = reply.setup.cgroup_mode;
    memcpy(engine->cgroup_name, reply.setup.cgroup_name, sizeof engine->cgroup_name);
    memcpy(engine->disk_name, reply.setup.disk_name, sizeof engine->disk_name);
    memcpy(engine->note, reply.setup.note, sizeof engine->note);
    engine->disk_name[sizeof engine->disk_name - 1] = '\0';
    engine->cgroup_name[sizeof engine->cgroup_name - 1] = '\0';
    engine->note[sizeof engine->note - 1] = '\0';
    if (fds_len != 1u + (reply.setup.keeper ? OUTER_FDS : 0) + (size_t) reply.setup.locks) {
        wire_close_fds(fds, fds_len);
        return gb_fail_plain(err, EPROTO, "the builder sent an incomplete reply");
    }
    builder_keep(engine, &reply, fds);
    return 0;
}

/* Kills a builder that could not be set up. A rootless one has a sibling of which we have no
 * descriptor yet; both are in the process group of the first one. */
static void builder_abandon(struct engine *engine)
{
    siginfo_t info;

    gb_closep(&engine->builder.socket);
    gb_closep(&engine->builder.pidfd);
    engine->builder.socket = engine->builder.pidfd = -EBADF;
    while (waitid(P_PGID, (id_t) engine->builder.pid, &info, WEXITED) == 0 || errno == EINTR)
        ;
}

static int builder_start(struct engine *engine, struct gb_err *err)
{
    int r = builder_spawn(engine, err);

    if (r < 0)
        return r;
    r = builder_setup(engine, err);
    if (r < 0)
        builder_abandon(engine);
    return r;
}

static int builder_adopt_all(struct engine *engine, struct gb_err *err)
{
    int r = 0;

    pthread_mutex_lock(&engine->boxes_lock);
    for (struct box *box = engine->boxes; box && r == 0; box = box->next) {
        struct builder_request request = { .op = BOX_ADOPT, .box = box->id };
        int fds[3] = { box->pidfd, box->lifeline, box->root };
        struct builder_reply reply;

        request.make.limits = box->limits;
        request.make.host_id = box->host_id;
        request.make.disk = box->disk;
        r = builder_exchange(engine, &request, fds, 3, &reply, NULL, NULL);
        if (r == 0 && reply.error)
            r = gb_fail_plain(err, reply.error, "%s", reply.msg);
    }
    pthread_mutex_unlock(&engine->boxes_lock);
    return r;
}

static int builder_replace(struct engine *engine, struct gb_err *err)
{
    int r;

    peer_end(&engine->builder, true);
    if ((r = builder_start(engine, err)) < 0)
        return r;
    return builder_adopt_all(engine, err);
}

int engine_call(struct engine *engine, const struct builder_request *request, const int *sent,
                size_t sent_len, struct builder_reply *ret_reply, int *ret_fds, size_t *ret_fds_len,
                struct gb_err *err)
{
    int r = -EPIPE;

    pthread_mutex_lock(&engine->builder.lock);
    if (engine->builder.socket >= 0)
        r = builder_exchange(engine, request, sent, sent_len, ret_reply, ret_fds, ret_fds_len);
    if (r < 0) {
        r = builder_replace(engine, err);
        if (r == 0) {
            r = builder_exchange(engine, request, sent, sent_len, ret_reply, ret_fds, ret_fds_len);
            if (r < 0)
                (void) gb_fail_about(err, -r, "the builder exited twice");
        }
    }
    pthread_mutex_unlock(&engine->builder.lock);
    if (r < 0)
        return r;
    return ret_reply->error ? gb_fail_plain(err, ret_reply->error, "%s", ret_reply->msg) : 0;
}

/* ---- the engine ---- */

static void engine_init(struct engine *engine)
{
    engine->builder.socket = engine->builder.pidfd = -EBADF;
    engine->keeper_pidfd = -EBADF;
    for (size_t i = 0; i < OUTER_FDS; i++)
        engine->outer[i] = -EBADF;
    pthread_mutex_init(&engine->builder.lock, NULL);
    pthread_mutex_init(&engine->templates_lock, NULL);
    pthread_mutex_init(&engine->boxes_lock, NULL);
    pthread_cond_init(&engine->pool_wanted, NULL);
}

static bool engine_copy_config(struct engine *engine, const struct engine_config *config)
{
    engine->config = *config;
    engine->config.disk_dir = NULL; /* disk and volumes have their own copies */
    engine->config.volume_roots = NULL;
    engine->config.volume_roots_len = 0;
    locales_find(engine->locales, sizeof engine->locales);
    engine->lang = strdup(config->lang ? config->lang : "C.UTF-8");
    engine->tz = config->tz ? strdup(config->tz) : NULL;
    return engine->lang && (engine->tz || !config->tz);
}

/* Descriptors of processes arrive over sockets; if one is lost because no number is free, nobody
 * can wait for that child. So there must be plenty before anything is started. */
static int descriptors_check(struct gb_err *err)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return gb_fail(err, errno, "read the limit on open files");
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < DESCRIPTORS_MIN)
        return gb_fail_plain(err, EMFILE,
                             "the limit on open files is %llu, but %d are needed: ulimit -n 1024",
                             (unsigned long long) limit.rlim_cur, DESCRIPTORS_MIN);
    return 0;
}

static int shelves_open(struct engine *engine, struct gb_err *err)
{
    for (size_t i = 0; i < SHELVES_MAX && engine->config.shelves[i]; i++) {
        const char *path = engine->config.shelves[i];
        int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

        engine->config.shelves[i] = NULL; /* the caller's */
        if (fd < 0)
            return gb_fail(err, errno, "open '%s'", path);
        engine->shelves[engine->shelves_len++] = fd;
    }
    return 0;
}

int engine_open(const struct engine_config *config, struct engine **ret_engine, struct gb_err *err)
{
    const struct template_def first = {
        .python = config->python ? config->python : "/usr/bin/python3",
        .preload = config->preload,
        .binds = config->binds,
        .packages = config->packages,
    };
    struct engine *engine;
    int r = descriptors_check(err);

    if (r < 0)
        return r;
    engine = calloc(1, sizeof *engine);
    if (!engine)
        return gb_fail(err, ENOMEM, "start the engine");
    engine_init(engine);
    if (!engine_copy_config(engine, config))
        r = gb_fail(err, ENOMEM, "start the engine");
    else if ((r = shelves_open(engine, err)) == 0 &&
             (r = volume_roots_open(config->volume_roots, config->volume_roots_len,
                                    &engine->volumes, err)) == 0 &&
             (r = disk_open(config->disk_dir, config->disk_kind, &engine->disk, err)) == 0 &&
             (r = templates_open(engine, &first, err)) == 0 &&
             (r = builder_start(engine, err)) == 0 && (r = templates_start(engine, err)) == 0) {
        disk_sweep_start(engine, engine->disk);
        r = pool_start(engine, err);
    }
    if (r < 0) {
        engine_close(engine);
        return r;
    }
    *ret_engine = engine;
    return 0;
}

void engine_close(struct engine *engine)
{
    if (!engine)
        return;
    pool_end(engine);
    while (engine->boxes)
        box_release(engine->boxes);
    templates_close(engine);
    peer_end(&engine->builder, false);
    for (size_t i = 0; i < OUTER_FDS; i++)
        gb_closep(&engine->outer[i]);
    if (engine->keeper_pidfd >= 0)
        pid_reap(engine->keeper_pidfd);
    gb_closep(&engine->keeper_pidfd);
    wire_close_fds(engine->lock_fds, engine->lock_fds_len);
    wire_close_fds(engine->shelves, engine->shelves_len);
    disk_close(engine->disk);
    volume_roots_close(engine->volumes);
    pthread_cond_destroy(&engine->pool_wanted);
    pthread_mutex_destroy(&engine->boxes_lock);
    pthread_mutex_destroy(&engine->templates_lock);
    pthread_mutex_destroy(&engine->builder.lock);
    free(engine->lang);
    free(engine->tz);
    free(engine);
}

void engine_get_info(struct engine *engine, struct engine_info *ret_info)
{
    *ret_info = (struct engine_info){
        .id_mode = (enum id_mode) engine->id_mode,
        .cgroup_mode = (enum cgroup_mode) engine->cgroup_mode,
        .builder_pid = engine->builder.pid,
        .templates = templates_running(engine),
        .disk_kind = disk_kind_of(engine->disk),
    };
    memcpy(ret_info->note, engine->note, sizeof ret_info->note);
    pthread_mutex_lock(&engine->boxes_lock);
    for (const struct box *box = engine->boxes; box; box = box->next) {
        ret_info->boxes_live++;
        ret_info->boxes_ready += box->ready;
    }
    pthread_mutex_unlock(&engine->boxes_lock);
    snprintf(ret_info->disk_note, sizeof ret_info->disk_note, "%s", disk_note(engine->disk));
}
