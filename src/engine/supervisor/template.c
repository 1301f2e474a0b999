/*
 * One template in the supervisor; template_list.c has the list.
 *
 * Theory of operation. Each has a connection with a lock, and each request waits for its answer. It
 * is started by the builder and reports while it imports; its output meanwhile is kept, to show why
 * it failed. One that died is started again at the next clone; its clones do not need it. One that
 * a module has made unfit for cloning is started again at once, without that module (preload.c).
 *
 * If the interpreter is not in /usr, or there are packages, a template and its boxes have a
 * separate root file system: a mount namespace that a helper process creates
 * (builder/template_root.c). We hold it and send it with each request to the builder, so the
 * builder keeps no reference to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/pidfd.h"
#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

#define AT_START         "startup"
#define EXIT_WAIT_MS     1000 /* for one whose socket is closed */
#define FAMILY_ROUNDS    4    /* children, and their orphans */
#define TEMPLATE_WAIT_US (120 * USEC_PER_SEC)

/* ---- ending ---- */

/* Kills what modules have started: its process group, and its children in any other, to which all
 * orphans come, as it is their reaper. It is stopped, so none of their numbers is used again. */
static void family_kill(const struct template *t)
{
    char path[64], text[4096];
    siginfo_t info;

    (void) syscall(SYS_pidfd_send_signal, t->peer.pidfd, SIGSTOP, NULL, 0);
    if (waitid(P_PIDFD, (id_t) t->peer.pidfd, &info, WSTOPPED | WEXITED | WNOWAIT) < 0)
        return;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", t->peer.pid, t->peer.pid);
    for (int round = 0; round < FAMILY_ROUNDS; round++) {
        char *next = text, *pid;

        if (io_read_text_at(AT_FDCWD, path, text, sizeof text) <= 0)
            break;
        while ((pid = strsep(&next, " ")))
            if (*pid)
                (void) kill((pid_t) strtol(pid, NULL, 10), SIGKILL);
        (void) usleep(1000);
    }
    if (getpgid(t->peer.pid) == t->peer.pid)
        (void) kill(-t->peer.pid, SIGKILL);
}

static void template_end(struct template *t)
{
    __atomic_store_n(&t->runs, false, __ATOMIC_RELEASE);
    if (!t->ready && t->peer.pidfd >= 0 && t->peer.pid > 1)
        family_kill(t);
    peer_end(&t->peer, true);
}

/* ---- its definition ---- */

static size_t strings_len(const char *const *list)
{
    size_t len = 0;

    while (list && list[len])
        len++;
    return len;
}

static bool strings_equal(const char *const *a, const char *const *b)
{
    size_t len = strings_len(a);

    if (len != strings_len(b))
        return false;
    for (size_t i = 0; i < len; i++)
        if (strcmp(a[i], b[i]) != 0)
            return false;
    return true;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

void template_free(struct template *t)
{
    if (!t)
        return;
    template_end(t);
    gb_closep(&t->said);
    gb_closep(&t->root);
    gb_closep(&t->packages_fd);
    pthread_mutex_destroy(&t->peer.lock);
    for (size_t i = 0; t->binds && t->binds[i]; i++)
        free(t->binds[i]);
    free(t->binds);
    free(t->name);
    free(t->python);
    free(t->preload);
    free(t->packages);
    free(t);
}

static int template_clone(struct tenant_source *source, const struct clone_request *request,
                          const int *fds, size_t fds_len, int *ret_pidfd, struct gb_err *err);

struct template *template_new(struct engine *engine, const struct template_def *def)
{
    struct template *t = calloc(1, sizeof *t);
    size_t binds = strings_len(def->binds);
    bool ok;

    if (!t)
        return NULL;
    t->engine = engine;
    t->source.clone = template_clone;
    t->peer.socket = t->peer.pidfd = t->said = t->root = t->packages_fd = -EBADF;
    pthread_mutex_init(&t->peer.lock, NULL);
    t->name = strdup(or_empty(def->name));
    t->python = strdup(def->python);
    t->preload = strdup(or_empty(def->preload));
    t->packages = strdup(or_empty(def->packages.dir));
    snprintf(t->venv_lib, sizeof t->venv_lib, "%s", or_empty(def->packages.lib));
    t->binds = calloc(binds + 1, sizeof *t->binds);
    ok = t->name && t->python && t->preload && t->packages && t->binds;
    if (ok && def->packages.dir)
        ok = (t->packages_fd = fcntl(def->packages.fd, F_DUPFD_CLOEXEC, 0)) >= 0;
    for (size_t i = 0; ok && i < binds; i++)
        ok = (t->binds[i] = strdup(def->binds[i])) != NULL;
    if (!ok) {
        template_free(t);
        return NULL;
    }
    preload_begin(t);
    return t;
}

/* A directory that was removed and created again is a different one, though its path is the
 * same. */
static bool packages_same(const struct template *t, const struct template_packages *packages)
{
    struct stat ours, theirs;

    if (strcmp(t->venv_lib, or_empty(packages->lib)) != 0)
        return false;
    if (!packages->dir)
        return !t->packages[0];
    return strcmp(t->packages, packages->dir) == 0 && fstat(t->packages_fd, &ours) == 0 &&
           fstat(packages->fd, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

bool template_is(const struct template *t, const struct template_def *def)
{
    return strcmp(t->name, or_empty(def->name)) == 0 && strcmp(t->python, def->python) == 0 &&
           strcmp(t->preload, or_empty(def->preload)) == 0 &&
           strings_equal((const char *const *) t->binds, def->binds) &&
           packages_same(t, &def->packages);
}

int template_def_check(const struct template_def *def, struct gb_err *err)
{
    if (def->python[0] != '/' || strlen(def->python) >= WIRE_PATH_MAX)
        return gb_fail_plain(err, EINVAL, "the interpreter needs an absolute path");
    if (strlen(or_empty(def->preload)) >= PRELOAD_MAX)
        return gb_fail_plain(err, E2BIG, "too many modules to preload");
    if (strings_len(def->binds) > ROOT_BINDS_MAX)
        return gb_fail_plain(err, E2BIG, "a template can have at most %d files and directories",
                             ROOT_BINDS_MAX);
    for (size_t i = 0; def->binds && def->binds[i]; i++)
        if (def->binds[i][0] != '/' || strlen(def->binds[i]) >= WIRE_PATH_MAX)
            return gb_fail_plain(err, EINVAL, "a template's directories need absolute paths");
    if (def->packages.lib && !venv_lib_valid(def->packages.lib))
        return gb_fail_plain(err, EINVAL, "'%.40s' is not a directory of a Python's libraries",
                             def->packages.lib);
    if (def->packages.dir && (!def->packages.lib || def->packages.dir[0] != '/' ||
                              strlen(def->packages.dir) >= WIRE_PATH_MAX))
        return gb_fail_plain(err, EINVAL, "a template's packages need an absolute path");
    return 0;
}

/* ---- its environment ---- */

static void env_add(char *block, size_t size, size_t *used, const char *name, const char *value)
{
    size_t need = strlen(name) + strlen(value) + 2;

    if (*used + need + 1 > size)
        return;
    snprintf(block + *used, size - *used, "%s=%s", name, value);
    *used += need;
}

/* Programs of the same interpreter (pip, ipython) are found before those of the system. */
static void path_add(const struct template *t, char *block, size_t size, size_t *used)
{
    static const char usual[] = "/usr/local/bin:/usr/bin:/bin:" SHELF_PLACE "/bin:" BOX_BIN;
    const char *slash = strrchr(t->python, '/');
    int len = (int) (slash - t->python);
    char path[1024];

    /* Scripts of packages are in their directory, because it is read-only and shared. */
    if (t->venv_lib[0])
        snprintf(path, sizeof path, VENV_PLACE "/bin:" VENV_PLACE "/lib/%s/site-packages/bin:%s",
                 t->venv_lib, usual);
    else if (strncmp(t->python, "/usr/bin/", 9) == 0 || strchr(t->python, ':') ||
             snprintf(path, sizeof path, "%.*s:%s", len, t->python, usual) >= (int) sizeof path)
        snprintf(path, sizeof path, "%s", usual);
    env_add(block, size, used, "PATH", path);
}

/* Libraries that would otherwise start a thread for each CPU of the host. */
const char *const thread_variables[THREAD_VARIABLES] = {
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
};

/* The whole environment of a tenant; the template must not have another one. */
void template_tenant_env(const struct template *t, unsigned threads, char *block, size_t size)
{
    static const char *const fixed[][2] = {
        { "PYTHONPATH", SHELF_PLACE }, /* for programs; the template itself ignores it */
        { "HOME", "/workspace" },
        { "USER", "user" },
        { "LOGNAME", "user" },
        { "SHELL", "/bin/sh" },
        { "TERM", "dumb" },
        { "TMPDIR", "/tmp" },
        { "XDG_CACHE_HOME", "/tmp/.cache" },
        { "XDG_CONFIG_HOME", "/tmp/.config" },
        { "MPLBACKEND", "Agg" },
        { "MPLCONFIGDIR", "/tmp/.config/matplotlib" },
    };
    const char *locales = locales_place(t->engine->locales, t->engine->lang);
    char count[16];
    size_t used = 0;

    memset(block, 0, size);
    path_add(t, block, size, &used);
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        env_add(block, size, &used, fixed[i][0], fixed[i][1]);
    snprintf(count, sizeof count, "%u", threads);
    for (size_t i = 0; i < THREAD_VARIABLES; i++)
        env_add(block, size, &used, thread_variables[i], count);
    env_add(block, size, &used, "LANG", t->engine->lang);
    if (locales)
        env_add(block, size, &used, "LOCPATH", locales);
    if (t->engine->tz)
        env_add(block, size, &used, "TZ", t->engine->tz);
}

/* ---- its root file system ---- */

static int root_ask(int control, const struct template *t, int *ret_root, struct gb_err *err)
{
    autofree struct root_request *request = calloc(1, sizeof *request);
    struct root_reply reply = { 0 };
    int fds[WIRE_FDS_MAX], r;
    size_t fds_len = 0;

    if (!request)
        return gb_fail(err, ENOMEM, "create a root for a template");
    for (; t->binds[request->count]; request->count++)
        snprintf(request->binds[request->count], WIRE_PATH_MAX, "%s", t->binds[request->count]);
    snprintf(request->packages, WIRE_PATH_MAX, "%s", t->packages);
    snprintf(request->venv_lib, VENV_LIB_MAX, "%s", t->venv_lib);
    snprintf(request->locales, WIRE_PATH_MAX, "%s", locales_mount(t->engine->locales));
    r = wire_send(control, request, sizeof *request, NULL, 0);
    if (r == 0)
        r = wire_recv(control, &reply, sizeof reply, fds, &fds_len);
    if (r < 0)
        return gb_fail(err, -r, "create a root for a template");
    reply.msg[sizeof reply.msg - 1] = '\0';
    if (reply.error || fds_len != 1) {
        wire_close_fds(fds, fds_len);
        return gb_fail_plain(err, reply.error ? reply.error : EPROTO, "%s", reply.msg);
    }
    *ret_root = fds[0];
    return 0;
}

/* Creates it if there is none yet. The template's lock is held. */
static int root_ensure(struct template *t, struct gb_err *err)
{
    struct peer maker = { .socket = -EBADF, .pidfd = -EBADF };
    int root = -EBADF, r;

    if ((!t->binds[0] && !t->venv_lib[0]) || t->root >= 0)
        return 0;
    r = builder_spawn_root(t->engine, &maker, err);
    if (r < 0)
        return r;
    r = root_ask(maker.socket, t, &root, err);
    peer_end(&maker, r < 0);
    if (r == 0)
        t->root = root;
    return r;
}

/* ---- starting ---- */

bool template_runs(const struct template *t)
{
    return __atomic_load_n(&t->runs, __ATOMIC_ACQUIRE);
}

/* Starts it; it imports in the background. The template's lock is held. */
int template_begin(struct template *t, struct gb_err *err)
{
    struct builder_request request = { .op = BUILDER_TEMPLATE };
    struct template_setup setup = { 0 };
    struct builder_reply reply;
    autoclose int theirs = -EBADF, ours = -EBADF, said_theirs = -EBADF, said = -EBADF;
    int pair[2], got[WIRE_FDS_MAX], sent[3], r = root_ensure(t, err);
    size_t got_len = 0;

    t->blame = (struct blame){ .index = BLAME_NOBODY };
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return gb_fail(err, errno, "create a socket pair");
    ours = pair[0];
    theirs = pair[1];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return gb_fail(err, errno, "create a pipe");
    said = pair[0];
    said_theirs = pair[1];
    (void) fcntl(said, F_SETFL, O_NONBLOCK);
    snprintf(request.template.python, sizeof request.template.python, "%s", t->python);
    /* Threads cannot be cloned. */
    template_tenant_env(t, 1, request.template.env, sizeof request.template.env);
    snprintf(setup.preload, sizeof setup.preload, "%s", t->modules.names);
    request.template.root = t->root >= 0;
    sent[0] = theirs;
    sent[1] = said_theirs;
    sent[2] = t->root;
    r = engine_call(t->engine, &request, sent, 2 + request.template.root, &reply, got, &got_len,
                    err);
    if (r < 0)
        return r;
    if (got_len != 1) {
        wire_close_fds(got, got_len);
        return gb_fail_plain(err, EPROTO, "the builder sent no template");
    }
    t->peer.pidfd = got[0];
    t->peer.pid = pidfd_pid(got[0]);
    t->ready = false;
    t->anon = 0;
    t->said_len = 0;
    memset(&t->report, 0, sizeof t->report);
    snprintf(t->at, sizeof t->at, AT_START);
    gb_closep(&t->said);
    t->said = TAKE_FD(said);
    r = wire_send(ours, &setup, sizeof setup, NULL, 0);
    if (r < 0)
        return gb_fail_about(err, -r, "the template exited immediately");
    t->peer.socket = TAKE_FD(ours);
    __atomic_store_n(&t->runs, true, __ATOMIC_RELEASE);
    return 0;
}

/* Keeps the end of its output while it starts. */
static void said_read(struct template *t)
{
    char chunk[4096];
    ssize_t n;

    while ((n = read(t->said, chunk, sizeof chunk)) > 0) {
        size_t room = sizeof t->report.said - 1, len = (size_t) n;
        const char *from = chunk;

        if (len > room) {
            from += len - room;
            len = room;
        }
        if (t->said_len + len > room) {
            size_t drop = t->said_len + len - room;

            memmove(t->report.said, t->report.said + drop, t->said_len - drop);
            t->said_len -= drop;
        }
        memcpy(t->report.said + t->said_len, from, len);
        t->said_len += len;
        t->report.said[t->said_len] = '\0';
    }
}

/* The last line of its output, where Python says what is wrong. */
static void said_last(const struct template *t, char line[100])
{
    const char *end = t->report.said + t->said_len, *start;

    while (end > t->report.said && (end[-1] == '\n' || end[-1] == ' '))
        end--;
    for (start = end; start > t->report.said && start[-1] != '\n';)
        start--;
    snprintf(line, 100, "%.*s", (int) (end - start < 99 ? end - start : 99), start);
}

static int template_fail(struct template *t, int code, const char *what, struct gb_err *err)
{
    char line[100];

    said_read(t);
    said_last(t, line);
    if (!line[0] && !t->report.version[0] && strcmp(t->at, AT_START) == 0)
        snprintf(line, sizeof line, "is it Python 3.9 or later?");
    return gb_fail_plain(err, code, "%.60s %s %.60s%s%.60s", t->python, what, t->at,
                         line[0] ? ": " : "", line);
}

static void missing_add(struct template *t, const char *text)
{
    size_t used = strlen(t->report.missing), room = sizeof t->report.missing - used;

    if (strlen(text) + 2 <= room)
        snprintf(t->report.missing + used, room, "%s\n", text);
}

/* Its socket is closed: how did it end? */
static void exit_explain(struct template *t)
{
    struct pollfd end = { t->peer.pidfd, POLLIN, 0 };
    siginfo_t info = { 0 };
    const char *name;

    if (poll(&end, 1, EXIT_WAIT_MS) <= 0 ||
        waitid(P_PIDFD, (id_t) t->peer.pidfd, &info, WEXITED | WNOWAIT) < 0) {
        snprintf(t->blame.why, sizeof t->blame.why, "it closed a descriptor of the template");
    } else if (info.si_code == CLD_EXITED) {
        snprintf(t->blame.why, sizeof t->blame.why, "it ended the interpreter with exit code %d",
                 info.si_status);
    } else {
        name = sigabbrev_np(info.si_status);
        snprintf(t->blame.why, sizeof t->blame.why, "it ended the interpreter with signal %d (%s)",
                 info.si_status, name ? name : "?");
    }
}

static void blame_set(struct template *t, const struct template_event *event)
{
    if (event->done < PRELOAD_MAX && preload_has(&t->modules, event->done))
        t->blame.index = (int) event->done;
}

/* Handles an event other than progress. */
static int event_special(struct template *t, const struct template_event *event, struct gb_err *err)
{
    switch (event->error) {
    case TEMPLATE_MISSING:
        missing_add(t, event->text);
        return 0;
    case TEMPLATE_LEFT_OUT:
        preload_note(&t->modules, event->done, event->text);
        return 0;
    case TEMPLATE_USES:
        blame_set(t, event);
        return 0;
    case TEMPLATE_CULPRIT:
        blame_set(t, event);
        break;
    default: /* unfit; if it has imported something, nobody knows what it was */
        if (t->blame.index != BLAME_NOBODY)
            t->blame.index = BLAME_ALL;
        break;
    }
    snprintf(t->blame.why, sizeof t->blame.why, "%s", event->text);
    return gb_fail_plain(err, EIO, "%.60s: %s", t->python, event->text);
}

/* Handles one event. Returns 1 when it is ready. */
static int event_take(struct template *t, struct gb_err *err)
{
    const struct engine_config *config = &t->engine->config;
    struct template_event event;
    int fds[WIRE_FDS_MAX];
    size_t fds_len;

    if (wire_recv(t->peer.socket, &event, sizeof event, fds, &fds_len) < 0) {
        exit_explain(t);
        return template_fail(t, EPIPE, "exited during", err);
    }
    wire_close_fds(fds, fds_len);
    event.text[sizeof event.text - 1] = '\0';
    if (event.error)
        return event_special(t, &event, err);
    if (event.done == event.total) {
        snprintf(t->report.version, sizeof t->report.version, "%.30s", event.text);
        return 1;
    }
    blame_set(t, &event);
    snprintf(t->at, sizeof t->at, "import %s", event.text);
    if (config->progress && t == t->engine->first)
        config->progress(config->progress_arg, event.done, event.total, event.text);
    return 0;
}

static int template_late(struct template *t, int64_t wait_us, struct gb_err *err)
{
    t->blame.slow = true;
    snprintf(t->blame.why, sizeof t->blame.why, "it took longer than %lld seconds",
             (long long) ((wait_us + USEC_PER_SEC - 1) / USEC_PER_SEC));
    return template_fail(t, ETIMEDOUT, "timed out during", err);
}

/* Waits until it has imported everything. The template's lock is held. */
static int template_finish(struct template *t, struct gb_err *err)
{
    int64_t wait_us = t->engine->config.template_wait_us > 0 ? t->engine->config.template_wait_us
                                                             : TEMPLATE_WAIT_US;
    int64_t until = clock_now_us() + wait_us;
    struct pollfd news[] = { { t->peer.socket, POLLIN, 0 }, { t->said, POLLIN, 0 } };
    int r = t->ready;

    while (r == 0) {
        int64_t left = until - clock_now_us();

        r = poll(news, 2, left > 0 ? (int) (left / USEC_PER_MSEC) + 1 : 0);
        if (r < 0 && errno == EINTR) {
            r = 0;
            continue;
        }
        if (r <= 0)
            return template_late(t, wait_us, err);
        if (news[1].revents & POLLIN)
            said_read(t);
        else if (news[1].revents)
            news[1].fd = -1; /* closed: no more output */
        r = news[0].revents ? event_take(t, err) : 0;
    }
    if (r > 0 && !t->ready) {
        said_read(t);
        gb_closep(&t->said);
        t->said = -EBADF;
        t->ready = true;
    }
    return r < 0 ? r : 0;
}

/* Whether it can be started again, without the modules that are to blame for its end. */
static bool template_mend(struct template *t)
{
    const struct blame *blame = &t->blame;
    bool mended;

    if (!blame->why[0] || blame->index == BLAME_NOBODY)
        return false;
    mended = blame->index == BLAME_ALL
                 ? preload_drop_all(&t->modules, blame->why)
                 : preload_drop(&t->modules, (size_t) blame->index, blame->slow, blame->why);
    if (mended) {
        t->modules.told = false;
        preload_remember(t);
    }
    return mended;
}

/* A working template, restarted if necessary. Its lock is held. */
static int template_ensure(struct template *t, struct gb_err *err)
{
    int r;

    do {
        r = 0;
        if (t->peer.socket < 0) {
            template_end(t);
            r = template_begin(t, err);
        }
        if (r == 0)
            r = template_finish(t, err);
        if (r < 0)
            template_end(t);
    } while (r < 0 && template_mend(t));
    return r;
}

int template_wait(struct template *t, struct gb_err *err)
{
    int r;

    pthread_mutex_lock(&t->peer.lock);
    r = template_ensure(t, err);
    pthread_mutex_unlock(&t->peer.lock);
    return r;
}

/* ---- cloning ---- */

static int template_exchange(struct template *t, const struct clone_request *request,
                             const int *fds, size_t fds_len, struct clone_reply *reply,
                             int *ret_pidfd)
{
    int got[WIRE_FDS_MAX];
    size_t got_len = 0;
    int r = wire_send(t->peer.socket, request, sizeof *request, fds, fds_len);

    if (r == 0)
        r = wire_recv(t->peer.socket, reply, sizeof *reply, got, &got_len);
    if (r < 0)
        return r;
    *ret_pidfd = -EBADF;
    if (got_len == 1)
        *ret_pidfd = got[0];
    else
        wire_close_fds(got, got_len);
    return 0;
}

/* One clone request; replaces a template that died and tries once more. */
static int template_clone(struct tenant_source *source, const struct clone_request *request,
                          const int *fds, size_t fds_len, int *ret_pidfd, struct gb_err *err)
{
    struct template *t = (struct template *) ((char *) source - offsetof(struct template, source));
    struct clone_reply reply;
    int r = 0;

    pthread_mutex_lock(&t->peer.lock);
    for (int attempt = 0; attempt < 2; attempt++) {
        r = template_ensure(t, err);
        if (r < 0)
            break;
        r = template_exchange(t, request, fds, fds_len, &reply, ret_pidfd);
        if (r == 0 && reply.error != EDEADLK)
            break;
        (void) gb_fail_about(err, -r, "the template exited");
        template_end(t);
        if (r == 0) { /* a thread that started late: nobody knows which module it belongs to */
            t->blame = (struct blame){ .index = BLAME_ALL,
                                       .why = "a thread was started after the imports" };
            (void) template_mend(t);
        }
    }
    pthread_mutex_unlock(&t->peer.lock);
    if (r < 0)
        return r;
    if (reply.error)
        return gb_fail(err, reply.error, "clone a tenant (%.31s)", reply.what);
    return *ret_pidfd >= 0 ? 0 : gb_fail_plain(err, EPROTO, "the template sent no tenant");
}

/* Memory that clones share with it until they write; needed without cgroup counters. */
int64_t template_anon(struct template *t)
{
    char path[48], text[4096];
    const char *at;

    if (t == t->engine->first || t->engine->cgroup_mode != CGROUP_OFF)
        return 0; /* the builder knows the first itself */
    pthread_mutex_lock(&t->peer.lock);
    if (t->anon == 0 && t->ready && t->peer.pidfd >= 0) {
        snprintf(path, sizeof path, "/proc/%d/status", t->peer.pid);
        if (io_read_text_at(AT_FDCWD, path, text, sizeof text) > 0 &&
            (at = strstr(text, "RssAnon:")))
            t->anon = strtoll(at + strlen("RssAnon:"), NULL, 10) * 1024;
    }
    pthread_mutex_unlock(&t->peer.lock);
    return t->anon;
}
