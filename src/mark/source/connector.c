/*
 * Runs a connector: our own executable once more, for one order.
 *
 * What it sends is not trusted further than what its own query is about. It has read what a server
 * sent, and a server may have taken it over; so sizes, counts, depth and time are bounded here too,
 * and its texts are cut and searched for the secrets of the order. Whatever happens, when
 * connector_run() returns there is no process any more: it is asked to end by the end of its
 * socket, gets a moment to cancel its query at the source, and is killed.
 */
#include "mark/source/connector.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/json_depth.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define FDS_END        10                 /* above all numbers that the connector gets */
#define GRACE_US       (3 * USEC_PER_SEC) /* to cancel the query at its source */
#define LOOK_MS        500                /* how often the result file is looked at */
#define DEPTH_MAX      64
#define MESSAGES_MAX   100000
#define BYTES_DEFAULT  (INT64_C(1) << 30)
#define SECRET_LEN_MIN 4

struct connection {
    const struct connector_call *call;
    pid_t pid;
    int pidfd, socket, result_fd;
    int64_t bytes_max, messages;
    bool unbound; /* it writes more than it may */
    char *buf;    /* of messages that are not complete yet */
    size_t len, cap;
};

void connector_failure_release(struct connector_failure *failure)
{
    json_decref(failure->estimate);
    *failure = (struct connector_failure){ 0 };
}

static int fail(struct connector_failure *failure, const char *word, const char *text)
{
    *failure = (struct connector_failure){ 0 };
    (void) snprintf(failure->word, sizeof failure->word, "%s", word);
    (void) snprintf(failure->text, sizeof failure->text, "%s", text);
    return -1;
}

static int fail_memory(struct connector_failure *failure)
{
    return fail(failure, "internal", "the service is out of memory; try again in a moment");
}

static int fail_broken(struct connector_failure *failure)
{
    return fail(failure, "broken",
                "the connection to the source ended in a way that cannot be explained; try again");
}

/* ---- texts ---- */

/* Replaces each @secret in @text, which gets no longer: a secret has at least as many bytes. */
static void redact(char *text, const char *secret)
{
    size_t len = strlen(secret);
    char *at = text;

    while (len >= SECRET_LEN_MIN && (at = strstr(at, secret))) {
        memset(at, '*', 3);
        memmove(at + 3, at + len, strlen(at + len) + 1);
        at += 3;
    }
}

static void redact_order(char *text, const json_t *order)
{
    static const char *const names[] = { "password", "token", "assertion", "private_key" };
    const json_t *source = json_object_get(order, "source");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *secret = json_string_value(json_object_get(source, names[i]));

        if (secret)
            redact(text, secret);
    }
}

/* Whole characters, no control characters but line ends. */
void connector_text(const json_t *order, const json_t *json, char *buf, size_t size)
{
    autofree char *copy = NULL;
    size_t len;

    buf[0] = '\0';
    if (!json_is_string(json))
        return;
    /* Before it is cut: half a secret is not recognised. */
    copy = strdup(json_string_value(json));
    if (!copy)
        return;
    redact_order(copy, order);
    len = strlen(copy);
    if (len >= size) {
        len = size - 1;
        while (len > 0 && ((unsigned char) copy[len] & 0xc0) == 0x80)
            len--;
    }
    memcpy(buf, copy, len);
    buf[len] = '\0';
    for (char *p = buf; *p; p++)
        if (((unsigned char) *p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)
            *p = ' ';
}

json_t *connector_estimate_clean(const json_t *estimate)
{
    static const char *const names[] = { "cost", "rows", "bytes", "money" };
    json_t *clean = json_object();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(estimate, names[i]);
        double number = json_number_value(value);

        if (json_is_number(value) && isfinite(number) && number >= 0)
            (void) json_object_set(clean, names[i], (json_t *) value);
        else
            (void) json_object_set_new(clean, names[i], json_null());
    }
    return clean;
}

/* ---- the process ---- */

static int spawn_at(const char *program, int control_fd, int result_fd, pid_t *ret_pid)
{
    char *const argv[] = { (char *) "glovebox", (char *) CONNECT_COMMAND, NULL };
    static char *const envp[] = { NULL };
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
    posix_spawn_file_actions_adddup2(&actions, control_fd, CONNECT_CONTROL_FD);
    posix_spawn_file_actions_adddup2(&actions, result_fd, CONNECT_RESULT_FD);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    /* A new session: the terminal's Ctrl-C is for us. */
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    r = posix_spawn(ret_pid, program ? program : "/proc/self/exe", &actions, &attr, argv, envp);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

static int start(struct connection *c)
{
    autoclose int ours = -EBADF, theirs = -EBADF, control_fd = -EBADF, result_fd = -EBADF;
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ours = pair[0];
    theirs = pair[1];
    control_fd = fcntl(theirs, F_DUPFD_CLOEXEC, FDS_END);
    result_fd = fcntl(c->result_fd, F_DUPFD_CLOEXEC, FDS_END);
    if (control_fd < 0 || result_fd < 0)
        return -errno;
    r = spawn_at(c->call->program, control_fd, result_fd, &c->pid);
    if (r < 0)
        return r;
    c->socket = TAKE_FD(ours);
    c->pidfd = (int) syscall(SYS_pidfd_open, c->pid, 0);
    if (c->pidfd < 0) {
        r = -errno;
        (void) kill(c->pid, SIGKILL); /* ours, and not reaped yet: nobody else has that number */
        (void) waitpid(c->pid, NULL, 0);
    }
    return c->pidfd < 0 ? r : 0;
}

/* Ends it: it is told by the end of its socket. One that does not keep to its bounds gets no time.
 */
static void stop(struct connection *c)
{
    struct pollfd gone = { .fd = c->pidfd, .events = POLLIN };
    int64_t until_us = c->unbound ? 0 : clock_now_us() + GRACE_US;
    siginfo_t info;
    int r;

    gb_closep(&c->socket);
    c->socket = -EBADF;
    if (c->pidfd < 0)
        return;
    do {
        int64_t left_us = until_us - clock_now_us();

        r = left_us > 0 ? poll(&gone, 1, (int) (left_us / USEC_PER_MSEC) + 1) : 0;
    } while (r < 0 && errno == EINTR);
    if (r <= 0)
        (void) syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
    while (waitid((idtype_t) P_PIDFD, (id_t) c->pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
    gb_closep(&c->pidfd);
    c->pidfd = -EBADF;
}

/* ---- waiting ---- */

/* Waits for @events of the socket: 0, or a negative number and @failure. */
static int wait_for(struct connection *c, short events, struct connector_failure *failure)
{
    struct pollfd fds[2] = { { .fd = c->socket, .events = events },
                             { .fd = c->call->cancel_fd, .events = POLLIN } };

    for (;;) {
        int64_t left_us = c->call->deadline_us - clock_now_us();
        struct stat st;
        int ms = left_us > LOOK_MS * USEC_PER_MSEC ? LOOK_MS : (int) (left_us / USEC_PER_MSEC) + 1;

        if (left_us <= 0)
            return fail(failure, "timeout",
                        "the source did not answer in time; ask for less, or for an aggregate");
        if (poll(fds, 2, ms) < 0 && errno != EINTR)
            return fail(failure, "internal", "the service failed; see the server log");
        if (fds[1].revents)
            return fail(failure, "cancelled", "the query was cancelled");
        if (fstat(c->result_fd, &st) == 0 && st.st_size > c->bytes_max) {
            c->unbound = true;
            return fail(failure, "too-large",
                        "the result is larger than it may be; select fewer rows or columns, or "
                        "aggregate in SQL");
        }
        if (fds[0].revents)
            return 0;
    }
}

static int send_all(struct connection *c, const char *data, size_t len,
                    struct connector_failure *failure)
{
    while (len > 0) {
        ssize_t n = send(c->socket, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (wait_for(c, POLLOUT, failure) < 0)
                return -1;
            continue;
        }
        if (n < 0)
            return fail_broken(failure);
        data += n;
        len -= (size_t) n;
    }
    return 0;
}

static int send_json(struct connection *c, const json_t *json, struct connector_failure *failure)
{
    size_t len = json_dumpb(json, NULL, 0, JSON_COMPACT);
    char *frame;
    int r;

    if (len == 0 || len > CONNECT_ORDER_MAX)
        return fail(failure, "unsupported", "the query is too long");
    frame = malloc(len + 4);
    if (!frame)
        return fail_memory(failure);
    for (unsigned i = 0; i < 4; i++)
        frame[i] = (char) (unsigned char) (len >> (8 * i));
    (void) json_dumpb(json, frame + 4, len, JSON_COMPACT);
    r = send_all(c, frame, len + 4, failure);
    sodium_memzero(frame, len + 4);
    free(frame);
    return r;
}

/* ---- messages ---- */

static size_t frame_len(const char *data)
{
    size_t len = 0;

    for (unsigned i = 0; i < 4; i++)
        len |= (size_t) (unsigned char) data[i] << (8 * i);
    return len;
}

static json_t *frame_parse(const char *data, size_t len)
{
    json_t *json =
        json_too_deep(data, len, DEPTH_MAX) ? NULL : json_loadb(data, len, JSON_ALLOW_NUL, NULL);

    if (json_is_object(json) && json_is_string(json_object_get(json, "message")))
        return json;
    json_decref(json);
    return NULL;
}

/* The next message, or NULL and @failure. */
static json_t *receive(struct connection *c, struct connector_failure *failure)
{
    for (;;) {
        size_t len = c->len >= 4 ? frame_len(c->buf) : 0;
        json_t *json;
        ssize_t n;

        if (len > CONNECT_MESSAGE_MAX || (c->len >= 4 && len == 0)) {
            (void) fail_broken(failure);
            return NULL;
        }
        if (c->len >= 4 && c->len >= 4 + len) {
            json = frame_parse(c->buf + 4, len);
            c->len -= 4 + len;
            memmove(c->buf, c->buf + 4 + len, c->len);
            if (!json || ++c->messages > MESSAGES_MAX)
                (void) fail_broken(failure);
            if (json && c->messages > MESSAGES_MAX) {
                json_decref(json);
                json = NULL;
            }
            return json;
        }
        /* Before each read: one that never stops sending is bound by time and cancelled, too. */
        if (wait_for(c, POLLIN, failure) < 0)
            return NULL;
        n = recv(c->socket, c->buf + c->len, c->cap - c->len, MSG_DONTWAIT);
        if (n > 0) {
            c->len += (size_t) n;
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            (void) fail_broken(failure);
            return NULL;
        }
    }
}

static void take_error(const struct connection *c, const json_t *message,
                       struct connector_failure *failure)
{
#define CONNECT_TEXT(name, text) text,
    static const char *const words[] = { CONNECT_WORDS(CONNECT_TEXT) };
#undef CONNECT_TEXT
    const char *word = json_string_value(json_object_get(message, "word"));
    const json_t *estimate = json_object_get(message, "estimate");

    (void) fail(failure, "internal", "");
    for (size_t i = 0; word && i < CONNECT_WORD_COUNT; i++)
        if (strcmp(words[i], word) == 0)
            (void) fail(failure, words[i], "");
    connector_text(c->call->order, json_object_get(message, "text"), failure->text,
                   sizeof failure->text);
    if (!failure->text[0])
        (void) snprintf(failure->text, sizeof failure->text, "the source gave no reason");
    if (json_is_object(estimate))
        failure->estimate = connector_estimate_clean(estimate);
}

/* Passes it on, and lets the query run if that waits for it. */
static int tell(struct connection *c, const char *word, const json_t *message, bool *told,
                struct connector_failure *failure)
{
    bool estimate = strcmp(word, "estimate") == 0;
    json_t *go;
    int r;

    if (estimate && *told)
        return fail_broken(failure);
    *told |= estimate;
    if (c->call->tell && c->call->tell(c->call->arg, word, message) < 0)
        return fail(failure, "cancelled", "the query was not run");
    if (!estimate || !json_is_true(json_object_get(c->call->order, "confirm")))
        return 0;
    go = json_pack("{s:b}", "go", 1);
    r = go ? send_json(c, go, failure) : fail_memory(failure);
    json_decref(go);
    return r;
}

static int follow(struct connection *c, json_t **ret_done, struct connector_failure *failure)
{
    bool told = false;

    for (;;) {
        json_t *message = receive(c, failure);
        const char *word = json_string_value(json_object_get(message, "message"));
        int r;

        if (!message)
            return -1;
        if (strcmp(word, "done") == 0) {
            *ret_done = message;
            return 0;
        }
        if (strcmp(word, "estimate") == 0 || strcmp(word, "progress") == 0) {
            r = tell(c, word, message, &told, failure);
        } else if (strcmp(word, "error") == 0) {
            take_error(c, message, failure);
            r = -1;
        } else {
            r = fail_broken(failure);
        }
        json_decref(message);
        if (r < 0)
            return r;
    }
}

/* ---- the whole ---- */

static int converse(struct connection *c, json_t **ret_done, struct connector_failure *failure)
{
    int r;

    c->cap = CONNECT_MESSAGE_MAX + 4;
    c->buf = malloc(c->cap);
    if (!c->buf)
        return fail_memory(failure);
    if (start(c) < 0)
        r = fail(failure, "internal", "the service could not start a connector; try again");
    else
        r = send_json(c, c->call->order, failure);
    if (r == 0)
        r = follow(c, ret_done, failure);
    stop(c);
    free(c->buf);
    return r;
}

/* Once nobody writes to it any more. */
static int check_result(const struct connection *c, struct connector_failure *failure)
{
    struct stat st;

    if (fstat(c->result_fd, &st) < 0 || lseek(c->result_fd, 0, SEEK_SET) < 0)
        return fail(failure, "internal", "the result could not be read");
    if (st.st_size > c->bytes_max)
        return fail(failure, "too-large",
                    "the result is larger than it may be; select fewer rows or columns");
    return 0;
}

int connector_run(const struct connector_call *call, int *ret_fd, json_t **ret_done,
                  struct connector_failure *failure)
{
    autoclose int fd = call->result_fd;
    struct connection c = { .call = call,
                            .pidfd = -EBADF,
                            .socket = -EBADF,
                            .bytes_max = call->bytes_max > 0 ? call->bytes_max : BYTES_DEFAULT };
    json_t *done = NULL;
    int r;

    *failure = (struct connector_failure){ 0 };
    if (fd < 0)
        fd = memfd_create("result", MFD_CLOEXEC);
    if (fd < 0)
        return fail(failure, "internal", "the service has no room for a result");
    c.result_fd = fd;
    r = converse(&c, &done, failure);
    if (r == 0)
        r = check_result(&c, failure);
    if (r < 0) {
        json_decref(done);
        return r;
    }
    *ret_fd = TAKE_FD(fd);
    *ret_done = done;
    return 0;
}
