/*
 * `glovebox mcp --url`: from standard input to a service over HTTP, and back.
 *
 * Messages are parsed only as far as necessary. The main thread reads lines. It sends `initialize`
 * and notifications itself, in order; every other request has its own thread, since it may take
 * long and others must not wait for it. Once there is a session, one more thread receives its
 * messages that do not belong to a call. In protocol revisions without sessions, a client cancels
 * over HTTP by closing the connection; so here a `notifications/cancelled` closes that exchange. A
 * request that could not be forwarded is answered with our own error, so that no client waits
 * forever.
 */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/base64.h"
#include "base/thread.h"
#include "cli/cmd.h"
#include "cli/mcp/http.h"

#include "base/banned.h"

#define LINE_MAX_BYTES ((size_t) 16 * 1024 * 1024)
#define THREADS_MAX    64
#define HEADERS_MAX    10
#define META           "io.modelcontextprotocol/"
#define GRACE_US       USEC_PER_SEC

struct trip {
    struct trip *next;
    struct forward *f;
    json_t *message;
    char *line;
    atomic_bool stop;
    bool answered;
};

struct forward {
    char *url;
    const char *unix_path, *key;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t idle;
    struct trip *trips;
    int threads;
    bool failed; /* the client no longer reads */
    char session[MCP_HTTP_ID_MAX], version[32];

    pthread_mutex_t out_lock;
    atomic_bool ending;
    pthread_t listener;
    bool listens;
};

/* ---- out ---- */

static bool is_ending(void *arg)
{
    struct forward *f = arg;

    return atomic_load(&f->ending);
}

static void write_line(struct forward *f, const char *text, size_t len)
{
    pthread_mutex_lock(&f->out_lock);
    if (!f->failed && (io_write_patiently(STDOUT_FILENO, text, len, is_ending, f) < 0 ||
                       io_write_patiently(STDOUT_FILENO, "\n", 1, is_ending, f) < 0))
        f->failed = true; /* half a line may have been written: nothing can follow it */
    pthread_mutex_unlock(&f->out_lock);
}

/* A message from the service. If it contains line breaks, as JSON may, it is serialized again
 * without them. */
static void on_message(void *arg, const char *text, size_t len)
{
    struct trip *trip = arg;
    json_t *json = json_loadb(text, len, 0, NULL);
    autofree char *flat = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;

    if (flat) {
        if (!json_object_get(json, "method"))
            trip->answered = true;
        write_line(trip->f, flat, strlen(flat));
    }
    json_decref(json);
}

__attribute__((format(printf, 3, 4))) static void answer_error(struct forward *f, const json_t *id,
                                                               const char *fmt, ...)
{
    char text[400];
    autofree char *line = NULL;
    json_t *json;
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    json = json_pack("{s:s, s:O?, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", (json_t *) id, "error",
                     "code", -32603, "message", text);
    line = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (line)
        write_line(f, line, strlen(line));
    json_decref(json);
}

/* ---- headers ---- */

struct headers {
    char *items[HEADERS_MAX + 1];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void add_header(struct headers *h, const char *fmt,
                                                             ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (h->len < HEADERS_MAX && vasprintf(&text, fmt, ap) >= 0)
        h->items[h->len++] = text;
    va_end(ap);
}

static void headers_release(struct headers *h)
{
    for (size_t i = 0; i < h->len; i++) {
        explicit_bzero(h->items[i], strlen(h->items[i]));
        free(h->items[i]);
    }
}

/* As the specification requires for values that a header cannot hold. */
static void add_name(struct headers *h, const char *name)
{
    size_t len = strlen(name);
    bool plain = len > 0 && name[0] != ' ' && name[len - 1] != ' ' && strncmp(name, "=?", 2) != 0;
    autofree char *text = NULL;

    for (const char *p = name; *p; p++)
        plain &= *p >= 0x20 && *p < 0x7f;
    if (plain) {
        add_header(h, "Mcp-Name: %s", name);
    } else if ((text = base64_encode(name, len))) {
        add_header(h, "Mcp-Name: =?base64?%s?=", text);
    }
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if (*text <= 0x20 || *text >= 0x7f)
            return false;
    return true;
}

static const char *method_of(const json_t *message)
{
    return json_string_value(json_object_get(message, "method"));
}

/* The revision that the message itself claims, or NULL. */
static const char *claim_of(const json_t *message)
{
    const json_t *meta = json_object_get(json_object_get(message, "params"), "_meta");
    const char *version = json_string_value(json_object_get(meta, META "protocolVersion"));

    return version && is_plain(version) ? version : NULL;
}

static void add_message_headers(struct forward *f, struct headers *h, const json_t *message)
{
    const json_t *params = json_object_get(message, "params");
    const char *claim = claim_of(message), *method = method_of(message), *name;

    if (claim) {
        add_header(h, "MCP-Protocol-Version: %s", claim);
        if (method && is_plain(method))
            add_header(h, "Mcp-Method: %s", method);
        name = json_string_value(json_object_get(params, "name"));
        if (!name && method && strcmp(method, "resources/read") == 0)
            name = json_string_value(json_object_get(params, "uri"));
        if (name)
            add_name(h, name);
        return;
    }
    pthread_mutex_lock(&f->lock);
    if (f->session[0])
        add_header(h, "MCP-Session-Id: %s", f->session);
    if (f->version[0])
        add_header(h, "MCP-Protocol-Version: %s", f->version);
    pthread_mutex_unlock(&f->lock);
}

static void add_common(struct forward *f, struct headers *h)
{
    add_header(h, "Content-Type: application/json");
    add_header(h, "Accept: application/json, text/event-stream");
    add_header(h, "Expect:"); /* no waiting for a 100 */
    if (f->key)
        add_header(h, "Authorization: Bearer %s", f->key);
}

/* ---- one message ---- */

/* The error of the service in place of an answer: its own words, with the id of the request. */
static void answer_failure(struct trip *trip, const struct mcp_http_reply *reply)
{
    json_t *id = json_object_get(trip->message, "id");
    json_t *body = reply->body ? json_loads(reply->body, 0, NULL) : NULL;
    json_t *error = json_object_get(body, "error"), *answer;
    autofree char *line = NULL;

    if (json_is_object(error)) {
        answer = json_pack("{s:s, s:O, s:O}", "jsonrpc", "2.0", "id", id, "error", error);
        line = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
        if (line)
            write_line(trip->f, line, strlen(line));
        json_decref(answer);
    } else if (reply->status != 0) {
        answer_error(trip->f, id, "the service at %s answered with HTTP status %ld", trip->f->url,
                     reply->status);
    } else {
        answer_error(trip->f, id, "the service at %s cannot be reached: %s", trip->f->url,
                     reply->error[0] ? reply->error : "no answer");
    }
    json_decref(body);
}

static void carry(struct trip *trip)
{
    struct forward *f = trip->f;
    struct headers headers = { 0 };
    struct mcp_http_reply reply;
    struct mcp_http_request request = { .url = f->url,
                                        .unix_path = f->unix_path,
                                        .method = "POST",
                                        .body = trip->line,
                                        .headers = headers.items,
                                        .stop = &trip->stop,
                                        .message = on_message,
                                        .arg = trip };
    bool wants = json_object_get(trip->message, "id") && method_of(trip->message);

    add_common(f, &headers);
    add_message_headers(f, &headers, trip->message);
    mcp_http(&request, &reply);
    if (reply.session[0]) {
        pthread_mutex_lock(&f->lock);
        memcpy(f->session, reply.session, sizeof f->session);
        pthread_mutex_unlock(&f->lock);
    }
    if (wants && !trip->answered && !atomic_load(&trip->stop))
        answer_failure(trip, &reply);
    free(reply.body);
    headers_release(&headers);
}

static void trip_free(struct trip *trip)
{
    json_decref(trip->message);
    free(trip->line);
    free(trip);
}

static void *trip_main(void *arg)
{
    struct trip *trip = arg;
    struct forward *f = trip->f;

    carry(trip);
    pthread_mutex_lock(&f->lock);
    for (struct trip **p = &f->trips; *p; p = &(*p)->next)
        if (*p == trip) {
            *p = trip->next;
            break;
        }
    f->threads--;
    pthread_cond_broadcast(&f->idle);
    pthread_mutex_unlock(&f->lock);
    trip_free(trip);
    return NULL;
}

/* ---- messages of the session ---- */

static void *listen_main(void *arg)
{
    struct trip trip = { .f = arg };
    struct forward *f = arg;
    char last_id[MCP_HTTP_ID_MAX] = "";
    struct mcp_http_reply reply;
    struct timespec second = { 1, 0 };

    while (!atomic_load(&f->ending)) {
        struct headers headers = { 0 };
        struct mcp_http_request request = { .url = f->url,
                                            .unix_path = f->unix_path,
                                            .method = "GET",
                                            .headers = headers.items,
                                            .stop = &f->ending,
                                            .message = on_message,
                                            .arg = &trip };

        add_header(&headers, "Accept: text/event-stream");
        if (f->key)
            add_header(&headers, "Authorization: Bearer %s", f->key);
        add_message_headers(f, &headers, NULL);
        if (last_id[0])
            add_header(&headers, "Last-Event-ID: %s", last_id);
        mcp_http(&request, &reply);
        headers_release(&headers);
        free(reply.body);
        if (reply.last_id[0])
            memcpy(last_id, reply.last_id, sizeof last_id);
        if (reply.status >= 400)
            break; /* not supported, or the session has ended */
        if (!atomic_load(&f->ending))
            (void) nanosleep(&second, NULL); /* as a client waits before it reconnects */
    }
    return NULL;
}

/* ---- in ---- */

static void cancel_trip(struct forward *f, const json_t *message)
{
    const json_t *id = json_object_get(json_object_get(message, "params"), "requestId");

    pthread_mutex_lock(&f->lock);
    for (struct trip *trip = f->trips; trip; trip = trip->next)
        if (claim_of(trip->message) && json_equal(json_object_get(trip->message, "id"), id))
            atomic_store(&trip->stop, true);
    pthread_mutex_unlock(&f->lock);
}

/* Begins a session: from here on messages carry the session id and version. */
static void carry_initialize(struct trip *trip)
{
    struct forward *f = trip->f;
    const json_t *params = json_object_get(trip->message, "params");
    const char *version = json_string_value(json_object_get(params, "protocolVersion"));

    carry(trip);
    pthread_mutex_lock(&f->lock);
    /* The agreed revision is for the client to read; every revision with sessions accepts this
     * one. */
    snprintf(f->version, sizeof f->version, "%s",
             f->session[0] && version && strcmp(version, "2025-06-18") >= 0 &&
                     strcmp(version, "2025-11-25") <= 0
                 ? version
                 : "");
    pthread_mutex_unlock(&f->lock);
    if (f->session[0] && !f->listens)
        f->listens = pthread_create(&f->listener, NULL, listen_main, f) == 0;
}

static void send_away(struct trip *trip)
{
    struct forward *f = trip->f;
    pthread_attr_t attr;
    pthread_t thread;
    int r = EAGAIN;

    pthread_mutex_lock(&f->lock);
    if (f->threads < THREADS_MAX) {
        trip->next = f->trips;
        f->trips = trip;
        f->threads++;
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        r = pthread_create(&thread, &attr, trip_main, trip);
        pthread_attr_destroy(&attr);
        if (r != 0) {
            f->trips = trip->next;
            f->threads--;
        }
    }
    pthread_mutex_unlock(&f->lock);
    if (r == 0)
        return;
    answer_error(f, json_object_get(trip->message, "id"), "too many requests in progress");
    trip_free(trip);
}

static void take_line(struct forward *f, const char *line, size_t len)
{
    struct trip *trip;
    const char *method;

    while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' '))
        len--;
    trip = len > 0 ? calloc(1, sizeof *trip) : NULL;
    if (!trip)
        return;
    trip->f = f;
    trip->line = strndup(line, len);
    trip->message = json_loadb(line, len, 0, NULL);
    method = method_of(trip->message);
    if (!trip->message)
        answer_error(f, NULL, "the message is not JSON");
    if (!trip->message || !trip->line) {
        trip_free(trip);
        return;
    }
    if (method && strcmp(method, "notifications/cancelled") == 0)
        cancel_trip(f, trip->message);
    if (method && json_object_get(trip->message, "id") && strcmp(method, "initialize") != 0) {
        send_away(trip);
        return;
    }
    if (method && strcmp(method, "initialize") == 0)
        carry_initialize(trip);
    else
        carry(trip);
    trip_free(trip);
}

/* Takes the whole lines out of @buf; returns what is left of it. */
static size_t take_lines(struct forward *f, char *buf, size_t len, bool *too_long)
{
    char *start = buf, *end;

    while ((end = memchr(start, '\n', len - (size_t) (start - buf)))) {
        if (!*too_long)
            take_line(f, start, (size_t) (end - start));
        *too_long = false;
        start = end + 1;
    }
    len -= (size_t) (start - buf);
    memmove(buf, start, len);
    if (len == LINE_MAX_BYTES) {
        if (!*too_long)
            answer_error(f, NULL, "the message is larger than %zu bytes", LINE_MAX_BYTES);
        *too_long = true;
        len = 0;
    }
    return len;
}

/* 1 when the client has closed its end, 0 when asked to stop. */
static int read_all(struct forward *f, int stop_fd, char *buf)
{
    struct pollfd fds[] = { { STDIN_FILENO, POLLIN, 0 }, { stop_fd, POLLIN, 0 } };
    bool too_long = false;
    size_t len = 0;

    for (;;) {
        ssize_t n;

        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return -errno;
        if (fds[1].revents)
            return 0;
        if (!fds[0].revents)
            continue;
        n = read(STDIN_FILENO, buf + len, LINE_MAX_BYTES - len);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (n == 0)
            break;
        if (n > 0)
            len = take_lines(f, buf, len + (size_t) n, &too_long);
    }
    if (!too_long)
        take_line(f, buf, len);
    return 1;
}

/* ---- main loop ---- */

static int find_url(struct forward *f, const char *text, struct gb_err *err)
{
    size_t len = strlen(text);

    if (strncmp(text, "unix:", 5) == 0) {
        f->unix_path = text + 5;
        f->url = strdup("http://localhost/mcp");
    } else {
        while (len > 0 && text[len - 1] == '/')
            len--;
        if (len > 4 && strncmp(text + len - 4, "/mcp", 4) == 0)
            len -= 4;
        if (asprintf(&f->url, "%.*s/mcp", (int) len, text) < 0)
            f->url = NULL;
    }
    return f->url ? 0 : gb_fail(err, ENOMEM, "forward to a service");
}

/* Waits for exchanges in progress, then aborts them. */
static void finish_trips(struct forward *f, int64_t grace_us)
{
    int64_t deadline = clock_now_us() + grace_us;
    struct timespec until = { deadline / USEC_PER_SEC, deadline % USEC_PER_SEC * 1000 };

    pthread_mutex_lock(&f->lock);
    while (f->threads > 0 && pthread_cond_timedwait(&f->idle, &f->lock, &until) == 0)
        ;
    for (struct trip *trip = f->trips; trip; trip = trip->next)
        atomic_store(&trip->stop, true);
    atomic_store(&f->ending, true);
    while (f->threads > 0)
        (void) pthread_cond_wait(&f->idle, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

static void end_session(struct forward *f)
{
    struct headers headers = { 0 };
    struct trip trip = { .f = f };
    struct mcp_http_reply reply;
    struct mcp_http_request request = { .url = f->url,
                                        .unix_path = f->unix_path,
                                        .method = "DELETE",
                                        .headers = headers.items,
                                        .message = on_message,
                                        .arg = &trip };

    if (!f->session[0])
        return;
    add_common(f, &headers);
    add_message_headers(f, &headers, NULL);
    mcp_http(&request, &reply);
    free(reply.body);
    headers_release(&headers);
}

int mcp_forward(const struct config *cfg, int stop_fd, struct gb_err *err)
{
    struct forward f = { .key = cfg->mcp_key };
    autofree char *buf = malloc(LINE_MAX_BYTES);
    int r;

    if (!buf || mcp_http_init() < 0)
        return gb_fail(err, ENOMEM, "forward to a service");
    r = find_url(&f, cfg->mcp_url, err);
    if (r < 0)
        return r;
    pthread_mutex_init(&f.lock, NULL);
    pthread_mutex_init(&f.out_lock, NULL);
    cond_init(&f.idle);
    r = read_all(&f, stop_fd, buf);
    finish_trips(&f, r > 0 ? GRACE_US : 0);
    end_session(&f);
    if (f.listens)
        pthread_join(f.listener, NULL);
    pthread_cond_destroy(&f.idle);
    pthread_mutex_destroy(&f.out_lock);
    pthread_mutex_destroy(&f.lock);
    free(f.url);
    return r < 0 ? gb_fail(err, -r, "read from standard input") : 0;
}
