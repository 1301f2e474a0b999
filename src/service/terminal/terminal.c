/* The thread of a terminal; internal.h has the theory. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/thread.h"
#include "service/access/audit.h"
#include "service/session/volumes_request.h"
#include "service/terminal/internal.h"

#include "base/banned.h"

#define READ_BYTES   16384
#define WRITE_BYTES  4096
#define DRAIN_BYTES  (80 * 1024)           /* after the end; a terminal holds less than that */
#define GRACE_US     (1 * USEC_PER_SEC)    /* from the hang-up to the kill */
#define HANG_US      (100 * USEC_PER_MSEC) /* how often to look at one that nobody has open */
#define LAG_LOOK_US  (250 * USEC_PER_MSEC) /* how often to look for clients that do not move */
#define WINDOW_US    (10 * USEC_PER_MSEC)
#define WINDOW_BYTES ((int64_t) 256 * 1024) /* for clients: about 25 MB per second */
#define WINDOW_ALONE ((int64_t) 32 * 1024)  /* for nobody */

void terminal_wake(struct terminal *terminal)
{
    uint64_t one = 1;

    (void) !write(terminal->wake_fd, &one, sizeof one);
}

/* ---- output and input ---- */

/* Returns whether there may be more. */
static bool read_some(struct terminal *t)
{
    char buf[READ_BYTES];
    ssize_t n = read(pty_fd(t->pty), buf, sizeof buf);
    int64_t now = clock_now_us();

    if (n <= 0)
        return n < 0 && errno == EINTR;
    if (now - t->window_us >= WINDOW_US) {
        t->window_us = now;
        t->window_bytes = 0;
    }
    t->window_bytes += n;
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < t->clients_len; i++)
        if (t->clients[i]->position == t->ring.total)
            t->clients[i]->moved_us = now;
    ring_write(&t->ring, buf, (size_t) n);
    if (t->window_bytes >= (t->clients_len > 0 ? WINDOW_BYTES : WINDOW_ALONE))
        t->quiet_us = t->window_us + WINDOW_US;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return true;
}

static void write_some(struct terminal *t)
{
    char buf[WRITE_BYTES];
    size_t len;
    ssize_t n;

    pthread_mutex_lock(&t->lock);
    len = t->input_len < sizeof buf ? t->input_len : sizeof buf;
    memcpy(buf, t->input + t->input_at, len);
    pthread_mutex_unlock(&t->lock);
    n = write(pty_fd(t->pty), buf, len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        n = (ssize_t) len; /* nobody has it open: there is nobody to read it */
    pthread_mutex_lock(&t->lock);
    if (t->input_len > TERMINAL_INPUT_BYTES && t->input_len - (size_t) n <= TERMINAL_INPUT_BYTES) {
        t->room++;
        pthread_cond_broadcast(&t->changed);
    }
    t->input_at += (size_t) n;
    t->input_len -= (size_t) n;
    if (t->input_len == 0)
        t->input_at = 0;
    pthread_mutex_unlock(&t->lock);
}

/* ---- waiting ---- */

/* With the lock held: whether a client is so far behind that the program must wait; drops those
 * that do not move. */
static bool clients_lag(struct terminal *t, int64_t now)
{
    bool lag = false;

    for (size_t i = 0; i < t->clients_len; i++) {
        struct terminal_client *client = t->clients[i];

        if (client->slow || t->ring.total - client->position < (int64_t) LAG_BYTES)
            continue;
        client->slow = now - client->moved_us > SLOW_US;
        lag = lag || !client->slow;
    }
    return lag;
}

static void until(int64_t now, int64_t when, int64_t *wait_us)
{
    int64_t left = when > now ? when - now : 0;

    if (*wait_us < 0 || left < *wait_us)
        *wait_us = left;
}

/* What to wait for; returns the timeout of poll(). */
static int plan(struct terminal *t, short *ret_events)
{
    int64_t now = clock_now_us(), wait_us = -1;
    bool reads = true, quiet = now < t->quiet_us;

    pthread_mutex_lock(&t->lock);
    if (quiet)
        until(now, t->quiet_us, &wait_us);
    t->blocked = clients_lag(t, now);
    if (t->blocked)
        until(now, now + LAG_LOOK_US, &wait_us);
    reads = !quiet && !t->blocked;
    if (t->kill_us > 0)
        until(now, t->kill_us, &wait_us);
    *ret_events = (short) ((reads ? POLLIN : 0) | (t->input_len > 0 ? POLLOUT : 0));
    if (t->blocked)
        pthread_cond_broadcast(&t->changed); /* for those that were dropped */
    pthread_mutex_unlock(&t->lock);
    return wait_us < 0 ? -1 : (int) ((wait_us + USEC_PER_MSEC - 1) / USEC_PER_MSEC);
}

/* Does what clients asked for. Returns whether, and how, it is to stop. */
static enum terminal_stop take_wishes(struct terminal *t)
{
    enum terminal_stop stop;
    bool resized, typed;
    uint16_t cols, rows;
    uint64_t count;

    (void) !read(t->wake_fd, &count, sizeof count);
    pthread_mutex_lock(&t->lock);
    resized = t->resized;
    typed = t->typed;
    t->resized = t->typed = false;
    cols = t->cols;
    rows = t->rows;
    stop = t->stop;
    pthread_mutex_unlock(&t->lock);
    if (resized)
        (void) pty_resize(t->pty, cols, rows);
    if (typed)
        session_touch(t->session);
    return stop;
}

/* Asks its processes to end. A stopped one is continued, so that it can. */
static void hang_up(struct terminal *t)
{
    struct gb_err ignored;

    if (t->kill_us > 0)
        return;
    (void) pty_signal(t->pty, SIGHUP, &ignored);
    (void) pty_signal(t->pty, SIGCONT, &ignored);
    t->kill_us = clock_now_us() + GRACE_US;
}

/* No process has the terminal open, so nobody will read what was typed. */
static void input_drop(struct terminal *t)
{
    pthread_mutex_lock(&t->lock);
    if (t->input_len > TERMINAL_INPUT_BYTES) {
        t->room++;
        pthread_cond_broadcast(&t->changed);
    }
    t->input_at = t->input_len = 0;
    pthread_mutex_unlock(&t->lock);
}

/* One round; false when it has ended, or has to. */
static bool turn(struct terminal *t)
{
    struct pollfd p[3] = { { t->wake_fd, POLLIN, 0 },
                           { pty_pidfd(t->pty), POLLIN, 0 },
                           { pty_fd(t->pty), 0, 0 } };
    int timeout_ms = plan(t, &p[2].events);
    enum terminal_stop stop;

    if (p[2].events == 0)
        p[2].fd = -1; /* a hang-up would be reported at once, again and again */
    if (poll(p, 3, timeout_ms) < 0 && errno != EINTR)
        return false;
    stop = take_wishes(t);
    if (p[2].revents & POLLOUT)
        write_some(t);
    if (p[2].revents & POLLIN)
        (void) read_some(t);
    else if (p[2].revents & (POLLHUP | POLLERR | POLLNVAL)) {
        t->quiet_us = clock_now_us() + HANG_US;
        input_drop(
            t); /* else we would wait for POLLOUT, and be told of the hang-up at once, again */
    }
    if (stop == TERMINAL_HANG_UP)
        hang_up(t);
    return stop != TERMINAL_KILL && !(p[1].revents & POLLIN) &&
           (t->kill_us == 0 || clock_now_us() < t->kill_us);
}

/* ---- the end ---- */

void terminal_audit(const struct terminal *t, const char *kind)
{
    const struct session *session = t->session;
    struct audit_entry entry = {
        .who = principal_text(&session->principal),
        .session_id = session->id,
        .execution_id = t->id,
        .kind = kind,
        .code_bytes = t->code_bytes,
        .limits = session->limits,
        .status = t->exit_code == 0 ? RUN_OK : RUN_ERROR,
        .exit_code = t->exit_code,
        .wall_us = clock_now_us() - t->created_us,
        .cpu_us = -1,
        .memory_peak_bytes = -1,
        .output_bytes = t->ring.total,
        .volumes = session->bindings ? session->bindings->text : NULL,
    };
    struct gb_err err;

    if (!t->service->audit)
        return;
    memcpy(entry.code_hash, t->code_hash, sizeof entry.code_hash);
    if (audit_write(t->service->audit, &entry, &err) < 0)
        service_log(t->service, LOG_LEVEL_ERROR,
                    "terminal %s: cannot be written to the audit log: %s", t->id, err.msg);
}

/* Takes what was printed before the end. Others may go on printing, so there is a limit; with it
 * the ring still has all that the slowest client lacks. */
static void drain(struct terminal *t)
{
    int64_t most = t->ring.total + DRAIN_BYTES;

    _Static_assert(LAG_BYTES + DRAIN_BYTES + 2 * READ_BYTES <= TERMINAL_KEPT_BYTES,
                   "else it loses");
    while (t->ring.total < most && read_some(t))
        ;
}

static void finish(struct terminal *t)
{
    struct gb_err err;
    int code = 137;

    /* Those that outlive a hang-up; a terminal whose program has exited by itself leaves its jobs
     * in the background alone, and at the end of a session the whole box goes. */
    if (t->kill_us > 0 && pty_signal(t->pty, SIGKILL, &err) < 0)
        service_log(t->service, LOG_LEVEL_WARNING, "terminal %s: processes may be left: %s", t->id,
                    err.msg);
    (void) pty_end(t->pty, &code);
    drain(t);
    pty_free(t->pty);
    t->pty = NULL;
    t->exit_code = code; /* nobody looks at it yet */
    terminal_audit(t, "terminal_end");
    service_log(t->service, LOG_LEVEL_INFO, "terminal %s ended with %d", t->id, code);
    account_give_terminal(t->service, t->session->account);
    pthread_mutex_lock(&t->lock);
    t->exited = true;
    free(t->input); /* the output is kept for as long as it is listed, which may be long */
    t->input = NULL;
    t->input_at = t->input_len = 0;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void *terminal_main(void *arg)
{
    struct terminal *t = arg;
    struct service *service = t->service;

    while (turn(t))
        ;
    finish(t);
    terminal_unref(t);
    service_worker_count(service, -1);
    return NULL;
}

int terminal_start(struct terminal *t)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_t thread;
    int r;

    (void) terminal_ref(t);
    service_worker_count(t->service, 1);
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    (void) pthread_attr_init(&attr);
    (void) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    r = pthread_create(&thread, &attr, terminal_main, t);
    (void) pthread_attr_destroy(&attr);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0) {
        service_worker_count(t->service, -1);
        terminal_unref(t);
    }
    return -r;
}

void terminal_stop(struct terminal *t, enum terminal_stop stop)
{
    pthread_mutex_lock(&t->lock);
    if (stop > t->stop)
        t->stop = stop;
    pthread_mutex_unlock(&t->lock);
    terminal_wake(t);
}

void terminal_wait_exit(struct terminal *t)
{
    pthread_mutex_lock(&t->lock);
    while (!t->exited)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}
