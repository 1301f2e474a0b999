/*
 * `glovebox shell SESSION`: a terminal in a session of a service, in the user's own.
 *
 * One loop: keys become input of the terminal in the box, its output is written here. If the
 * connection breaks it is opened again, with the offset of what was seen, so that nothing is lost
 * or shown twice; the terminal in the box does not notice. Enter, then ~ and . leaves it running.
 *
 * The service and the program are not trusted with the user's terminal: see shell/filter.h.
 */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "cli/cmd.h"
#include "cli/shell/filter.h"
#include "cli/shell/link.h"
#include "cli/shell/tty.h"

#include "base/banned.h"

#define URL_DEFAULT  "http://127.0.0.1:8080"
#define KEYS_BYTES   4096
#define SILENCE_US   (75 * USEC_PER_SEC) /* the service sends a ping after 15 */
#define ANSWER_US    USEC_PER_SEC        /* for a terminal */
#define RETRY_US     (60 * USEC_PER_SEC) /* how long to try to get back */
#define RETRY_MIN_US (250 * USEC_PER_MSEC)
#define RETRY_MAX_US (5 * USEC_PER_SEC)
#define ID_MAX       64
#define EXIT_KILLED  137
#define SIGNALS      6 /* that we wait for */

enum ending {
    GOES_ON,
    ENDED,    /* the program, with exit_code */
    DETACHED, /* by the user */
    SIGNALLED,
    FAILED,
};

struct shell_run {
    struct link link;
    char session[ID_MAX], terminal[ID_MAX];
    bool own_session; /* made by --new */
    bool own_terminal;
    int64_t offset; /* what was seen */
    bool attached;
    bool old; /* what was printed before we came is being shown */
    int64_t old_end, old_until_us;
    size_t answer; /* how much of the answer that ends it has come */
    enum ending ending;
    int exit_code, signal;
    int signal_fd;
    struct shell_filter filter;
    int escape; /* 1: at the beginning of a line, 2: after ~ there */
    int64_t heard_us;
    struct gb_err *err;
};

/* ---- output ---- */

/* All that was printed earlier is shown: asks the terminal whether it works, to know from the
 * answer that those to older questions have come (old_drop()). */
static int old_ask(struct shell_run *run)
{
    static const char question[] = "\033[5n";

    if (!run->old || run->old_until_us > 0 || run->offset < run->old_end)
        return 0;
    run->old_until_us = clock_now_us() + ANSWER_US;
    return io_write_all(STDOUT_FILENO, question, sizeof question - 1);
}

static int output_take(struct shell_run *run, const char *data, size_t len)
{
    autofree char *shown = malloc(len + 1);
    size_t shown_len;
    int r;

    if (!shown)
        return -ENOMEM;
    run->offset += (int64_t) len;
    shown_len = shell_filter(&run->filter, data, len, shown);
    tty_note(shown, shown_len);
    r = io_write_all(STDOUT_FILENO, shown, shown_len);
    return r < 0 ? r : old_ask(run);
}

static int size_send(struct shell_run *run)
{
    int64_t cols, rows;
    char text[96];
    int len;

    tty_size(&cols, &rows);
    len = snprintf(text, sizeof text, "{\"type\":\"resize\",\"cols\":%lld,\"rows\":%lld}",
                   (long long) cols, (long long) rows);
    return link_send(&run->link, FRAME_TEXT, text, (size_t) len) ? 0 : -EAGAIN;
}

static int message_take(struct shell_run *run, const char *data, size_t len)
{
    json_t *json = json_loadb(data, len, 0, NULL);
    const char *type = json_string_value(json_object_get(json, "type"));
    int r = 0;

    if (type && strcmp(type, "attached") == 0) {
        int64_t offset = json_integer_value(json_object_get(json, "offset"));

        if (offset != run->offset)
            run->filter = (struct shell_filter){ 0 }; /* what it was in the middle of is gone */
        run->offset = offset;
        run->old_end = json_integer_value(json_object_get(json, "end"));
        run->attached = true;
        r = size_send(run);
        if (r == 0)
            r = old_ask(run);
    } else if (type && strcmp(type, "exit") == 0) {
        run->exit_code = (int) json_integer_value(json_object_get(json, "exit_code")) & 0xff;
        run->ending = ENDED;
    }
    json_decref(json);
    return r;
}

static int on_frame(void *arg, enum frame_kind kind, const char *data, size_t len)
{
    struct shell_run *run = arg;
    char answer[125];

    switch (kind) {
    case FRAME_BINARY:
        return output_take(run, data, len);
    case FRAME_TEXT:
        return message_take(run, data, len);
    case FRAME_PING:
        if (len > 0)
            memcpy(answer, data, len);
        (void) link_send(&run->link, FRAME_PONG, answer, len);
        return 0;
    case FRAME_CLOSE:
        return -EPIPE;
    case FRAME_PONG:
    case FRAME_MORE:
        break;
    }
    return 0;
}

/* ---- keys ---- */

/* Whether the user wants to leave. Keeps back a ~ at the beginning of a line until it is clear what
 * it is for: ~~ is one ~. Returns how many bytes are in @out, which has room for twice @len. */
static size_t keys_take(struct shell_run *run, const char *keys, size_t len, char *out)
{
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        char c = keys[i];

        if (run->escape == 2) {
            run->escape = 0;
            if (c == '.') {
                run->ending = DETACHED;
                return used;
            }
            if (c != '~')
                out[used++] = '~';
        } else if (run->escape == 1 && c == '~') {
            run->escape = 2;
            continue;
        }
        out[used++] = c;
        run->escape = c == '\r' || c == '\n';
    }
    return used;
}

/* What programs asked the terminal before we came was answered then, or was not; the answers that
 * it gives now, when it is shown that again, are for nobody. Returns how many bytes of @keys to
 * drop. */
static size_t old_drop(struct shell_run *run, const char *keys, size_t len)
{
    static const char answer[] = "\033[0n";

    for (size_t i = 0; run->old && i < len; i++) {
        if (run->old_until_us > 0 && clock_now_us() > run->old_until_us) {
            run->old = false; /* it does not answer */
            return i;
        }
        run->answer = keys[i] == answer[run->answer] ? run->answer + 1 : keys[i] == answer[0];
        if (answer[run->answer] == '\0') {
            run->old = false;
            return i + 1;
        }
    }
    return run->old ? len : 0;
}

/* At the end: the answers are not for the shell that we return to either. */
static void old_wait(struct shell_run *run)
{
    int64_t left;

    while (run->old && (left = run->old_until_us - clock_now_us()) > 0) {
        struct pollfd p = { STDIN_FILENO, POLLIN, 0 };
        char keys[KEYS_BYTES];
        ssize_t n = poll(&p, 1, (int) (left / USEC_PER_MSEC) + 1) > 0
                        ? read(STDIN_FILENO, keys, sizeof keys)
                        : 0;

        if (n <= 0)
            return;
        (void) old_drop(run, keys, (size_t) n);
    }
}

static void keys_read(struct shell_run *run)
{
    char keys[KEYS_BYTES], out[2 * KEYS_BYTES];
    ssize_t n = read(STDIN_FILENO, keys, sizeof keys);
    size_t len, dropped;

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        run->ending = DETACHED; /* the window is gone */
        return;
    }
    dropped = old_drop(run, keys, (size_t) n);
    len = keys_take(run, keys + dropped, (size_t) n - dropped, out);
    /* Without a connection they are lost, as on a line that is down. */
    if (len > 0)
        (void) link_send(&run->link, FRAME_BINARY, out, len);
}

static void signals_read(struct shell_run *run)
{
    struct signalfd_siginfo info;

    if (read(run->signal_fd, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo == SIGCONT)
        tty_again();
    if (info.ssi_signo == SIGCONT || info.ssi_signo == SIGWINCH) {
        if (run->attached)
            (void) size_send(run);
        return;
    }
    run->signal = (int) info.ssi_signo;
    run->ending = SIGNALLED;
}

/* ---- the loop ---- */

/* Waits for keys, signals and the service; negative: the connection is lost. */
static int turn(struct shell_run *run, int64_t wait_us)
{
    struct link *link = &run->link;
    bool room = link->pending_len < LINK_PENDING_MAX / 2;
    struct pollfd p[3] = { { run->signal_fd, POLLIN, 0 },
                           { room ? STDIN_FILENO : -1, POLLIN, 0 },
                           { link->fd, (short) (POLLIN | (link->pending_len ? POLLOUT : 0)), 0 } };
    int r = poll(p, 3, link->more ? 0 : (int) (wait_us / USEC_PER_MSEC));

    if (r < 0)
        return 0;
    if (p[0].revents)
        signals_read(run);
    if (p[1].revents && run->ending == GOES_ON)
        keys_read(run);
    if (p[2].revents)
        run->heard_us = clock_now_us();
    if ((p[2].revents || link->more) && (r = link_read(link, on_frame, run)) < 0)
        return r;
    if (link->socket && (r = link_flush(link)) < 0)
        return r;
    return link->socket && clock_now_us() - run->heard_us > SILENCE_US ? -ETIMEDOUT : 0;
}

static int attach(struct shell_run *run, struct gb_err *err)
{
    char path[256];
    int r;

    snprintf(path, sizeof path, "/v1/sessions/%s/terminals/%s/stream?offset=%lld", run->session,
             run->terminal, (long long) run->offset);
    if (run->offset == 0)
        *strchr(path, '?') = '\0'; /* all that is kept */
    run->heard_us = clock_now_us();
    r = link_attach(&run->link, path, err);
    return r;
}

/* Until there is a connection again, or it makes no sense to go on. Keys and signals are read. */
static void come_back(struct shell_run *run)
{
    int64_t until = clock_now_us() + RETRY_US, pause = RETRY_MIN_US, next = clock_now_us();
    static const char lost[] = "\r\n\033[m[glovebox: the connection is lost; trying again]\r\n";
    static const char back[] = "[glovebox: connected again]\r\n";
    struct gb_err err;
    int r;

    run->attached = false;
    link_detach(&run->link);
    (void) io_write_all(STDERR_FILENO, lost, sizeof lost - 1);
    while (run->ending == GOES_ON) {
        int64_t now = clock_now_us();

        if (now < next) {
            (void) turn(run, next - now);
            continue;
        }
        r = attach(run, &err);
        if (r == 0) {
            (void) io_write_all(STDERR_FILENO, back, sizeof back - 1);
            return;
        }
        if (r != -ECONNREFUSED || now > until) {
            *run->err = err;
            run->ending = FAILED;
        }
        next = now + pause;
        pause = pause * 2 < RETRY_MAX_US ? pause * 2 : RETRY_MAX_US;
    }
}

static void follow(struct shell_run *run)
{
    while (run->ending == GOES_ON) {
        int r = turn(run, USEC_PER_SEC);

        if (r == -EIO || r == -ENOMEM) { /* our own terminal, or memory */
            (void) gb_fail(run->err, -r, "show the output");
            run->ending = FAILED;
        } else if (r < 0 && run->ending == GOES_ON) {
            come_back(run);
        }
    }
}

/* ---- what to attach to ---- */

static int id_take(const json_t *json, const char *name, char id[ID_MAX], struct gb_err *err)
{
    const char *text = json_string_value(json_object_get(json, name));

    if (!text || strlen(text) >= ID_MAX ||
        strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789") != strlen(text))
        return gb_fail_plain(err, EPROTO, "the service sent no %s", name);
    snprintf(id, ID_MAX, "%s", text);
    return 0;
}

static int session_new(struct shell_run *run, struct gb_err *err)
{
    json_t *json = NULL;
    int r = link_call(&run->link, "POST", "/v1/sessions", "{}", &json, err);

    if (r == 0)
        r = id_take(json, "session_id", run->session, err);
    json_decref(json);
    run->own_session = r == 0;
    return r;
}

static int terminal_new(struct shell_run *run, char *const *command, struct gb_err *err)
{
    json_t *body = json_object(), *list, *json = NULL;
    autofree char *text = NULL;
    int64_t cols, rows;
    char path[128];
    int r;

    tty_size(&cols, &rows);
    (void) json_object_set_new(body, "cols", json_integer(cols));
    (void) json_object_set_new(body, "rows", json_integer(rows));
    if (command && *command) {
        list = json_array();
        for (; *command; command++)
            (void) json_array_append_new(list, json_string(*command));
        (void) json_object_set_new(body, "command", list);
    }
    text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    if (!text)
        return gb_fail(err, ENOMEM, "open a terminal");
    snprintf(path, sizeof path, "/v1/sessions/%s/terminals", run->session);
    r = link_call(&run->link, "POST", path, text, &json, err);
    if (r == 0)
        r = id_take(json, "terminal_id", run->terminal, err);
    json_decref(json);
    run->own_terminal = r == 0;
    return r;
}

/* The newest terminal whose program runs. */
static int terminal_last(struct shell_run *run, struct gb_err *err)
{
    json_t *json = NULL, *item, *found = NULL;
    char path[128];
    size_t i;
    int r;

    snprintf(path, sizeof path, "/v1/sessions/%s/terminals", run->session);
    r = link_call(&run->link, "GET", path, NULL, &json, err);
    if (r < 0)
        return r;
    json_array_foreach (json_object_get(json, "terminals"), i, item) {
        const char *status = json_string_value(json_object_get(item, "status"));

        if (status && strcmp(status, "running") == 0)
            found = item;
    }
    r = found ? id_take(found, "terminal_id", run->terminal, err)
              : gb_fail_plain(err, ENOENT, "the session has no terminal that runs; open one");
    json_decref(json);
    return r;
}

static int id_copy(const char *text, char id[ID_MAX], const char *what, struct gb_err *err)
{
    if (strlen(text) >= ID_MAX || !text[0] ||
        strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789") != strlen(text))
        return gb_fail_plain(err, EINVAL, "'%.60s' is not the id of a %s", text, what);
    snprintf(id, ID_MAX, "%s", text);
    return 0;
}

static int prepare(const struct config *cfg, struct shell_run *run, struct gb_err *err)
{
    char *const *rest = cfg->args;
    int r;

    if (cfg->shell_new)
        r = session_new(run, err);
    else
        r = id_copy(*rest++, run->session, "session", err);
    if (r < 0)
        return r;
    if (!cfg->shell_attach)
        return terminal_new(run, rest, err);
    run->old = true;
    if (strcmp(cfg->shell_attach, "last") == 0)
        return terminal_last(run, err);
    return id_copy(cfg->shell_attach, run->terminal, "terminal", err);
}

/* ---- the command ---- */

static int catch_signals(struct gb_err *err)
{
    static const int signals[SIGNALS] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT };
    sigset_t set;
    int fd;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        sigaddset(&set, signals[i]);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return gb_fail_plain(err, EINVAL, "cannot block signals");
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? gb_fail(err, errno, "wait for signals") : fd;
}

static void session_end(struct shell_run *run)
{
    struct gb_err ignored;
    char path[128];

    snprintf(path, sizeof path, "/v1/sessions/%s", run->session);
    (void) link_call(&run->link, "DELETE", path, NULL, NULL, &ignored);
}

static void terminal_end(struct shell_run *run)
{
    struct gb_err ignored;
    char path[256];

    snprintf(path, sizeof path, "/v1/sessions/%s/terminals/%s", run->session, run->terminal);
    (void) link_call(&run->link, "DELETE", path, NULL, NULL, &ignored);
}

/* Why it was killed, if its session has ended: it expired, perhaps. */
static void session_tell_end(struct shell_run *run)
{
    struct gb_err err;
    char path[128];

    snprintf(path, sizeof path, "/v1/sessions/%s", run->session);
    if (link_call(&run->link, "GET", path, NULL, NULL, &err) == -ENOENT)
        say("%s", err.msg);
}

/* It could not be opened, perhaps because the user did not want to wait. Returns the exit code. */
static int give_up(struct shell_run *run)
{
    for (int i = 0; run->signal == 0 && i < SIGNALS; i++)
        signals_read(run);
    if (run->signal == 0)
        say("%s", run->err->msg);
    if (run->own_session)
        session_end(run);
    else if (run->own_terminal)
        terminal_end(run);
    if (run->signal != 0)
        return 128 + run->signal;
    return run->err->code == EINVAL ? EXIT_USAGE : EXIT_OURS;
}

/* After the terminal is ours again. Returns the exit code. */
static int conclude(const struct config *cfg, struct shell_run *run)
{
    const char *url = cfg->mcp_url;

    if (run->ending == ENDED && run->exit_code == EXIT_KILLED)
        session_tell_end(run);
    if (run->own_session && run->ending == ENDED)
        session_end(run);
    if (run->ending == FAILED)
        say("%s", run->err->msg);
    if (run->ending != ENDED && run->err->code != ENOENT)
        say("%s; to come back: glovebox shell%s%s --attach %s %s",
            run->attached ? "the terminal still runs" : "the terminal may still run",
            url ? " --url " : "", url ? url : "", run->terminal, run->session);
    switch (run->ending) {
    case ENDED:
        return run->exit_code;
    case SIGNALLED:
        return 128 + run->signal;
    case FAILED:
        return EXIT_OURS;
    case GOES_ON:
    case DETACHED:
        break;
    }
    return 0;
}

int cmd_shell(const struct config *cfg)
{
    struct gb_err err = { 0 };
    struct shell_run run = { .signal_fd = -1, .escape = 1, .err = &err };
    int r, code;

    if (!tty_is_there()) {
        say("shell needs a terminal; to run a command without one, use POST "
            "/v1/sessions/{id}/commands");
        return EXIT_USAGE;
    }
    r = link_open(&run.link, cfg->mcp_url ? cfg->mcp_url : URL_DEFAULT, cfg->mcp_key, &err);
    if (r == 0)
        r = run.signal_fd = catch_signals(&err);
    if (r >= 0 && (r = prepare(cfg, &run, &err)) == 0 && (r = attach(&run, &err)) == 0)
        r = tty_raw(&err);
    if (r < 0) {
        code = give_up(&run);
    } else {
        follow(&run);
        old_wait(&run);
        tty_restore();
        code = conclude(cfg, &run);
    }
    if (run.signal_fd >= 0)
        (void) close(run.signal_fd);
    link_release(&run.link);
    return code;
}
