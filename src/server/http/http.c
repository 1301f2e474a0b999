/*
 * HTTP over libmicrohttpd: the life of connections and requests.
 *
 * Each address has a daemon of the library: one thread that accepts, and one thread per connection,
 * which reads, parses, calls us and writes. Handlers are straight-line code on that thread and may
 * wait. A handler never runs on the accepting thread.
 *
 * A request begins in on_target() with the raw target, goes through on_request() once when its
 * headers are complete, once for each piece of its body, once when it is complete, and ends in
 * on_completed(), which frees everything and writes the log line. If a request is refused because
 * of its headers, the reply is sent after its body has been read and discarded, so that a client
 * that writes first and reads later sees the reply instead of a reset. If the body is huge, or the
 * client waits for "100 Continue", or the length of the request is in doubt, the reply is sent at
 * once and the connection is closed.
 *
 * Time. The library closes a connection that is idle for idle_us; this is disabled while a handler
 * or a stream waits, and limits clients that do not read. A client that sends one byte per second
 * is not idle, so once per second a watch thread looks for connections whose headers or body have
 * missed their deadline, and shuts their sockets down. The deadline of a body is extended by the
 * bytes received, so large uploads get the time they need at BODY_RATE bytes per second.
 *
 * Memory. A JSON body is in memory as a whole; all of them together are limited to BODIES_MAX.
 * Uploads and downloads go piece by piece through the library's buffer of POOL_BYTES.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/parse.h"
#include "base/thread.h"
#include "mcp/mcp.h"
#include "server/compat/labels.h"
#include "server/page/docs.h"
#include "server/server_internal.h"

#include "base/banned.h"

/* A connection's buffer. The library clears all of it between requests: 64 KiB cost 1 µs, 512 KiB
 * 15 µs, and uploads are no faster. */
#define POOL_BYTES     (64u * 1024)
#define POOL_INCREMENT (16u * 1024)
#define BODIES_MAX     (INT64_C(256) * 1024 * 1024)
#define DISCARD_MAX    (INT64_C(128) * 1024 * 1024)
#define DISCARD_UPLOAD (INT64_C(4) * 1024 * 1024 * 1024)
#define BODY_RATE      4096 /* bytes per second that a sender must reach on average */

/* Enough stack for a handler and its callees; only touched pages count. Sanitizers need more. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_BYTES (4u * 1024 * 1024)
#else
#define STACK_BYTES (512u * 1024)
#endif

/* ---- connections and their watch ---- */

static void set_deadline(struct conn *conn, int64_t deadline_us)
{
    if (conn)
        atomic_store_explicit(&conn->deadline_us, deadline_us, memory_order_relaxed);
}

static void *watch_main(void *arg)
{
    struct server *server = arg;
    struct timespec until;

    pthread_mutex_lock(&server->lock);
    while (!server->stop) {
        int64_t now = clock_now_us();

        for (struct conn *c = server->conns.next; c != &server->conns; c = c->next) {
            int64_t deadline = atomic_load_explicit(&c->deadline_us, memory_order_relaxed);

            /* The descriptor is not closed before on_connection() has removed it from the ring. */
            if (deadline != 0 && now > deadline)
                (void) shutdown(c->fd, SHUT_RDWR);
        }
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        (void) pthread_cond_timedwait(&server->wake, &server->lock, &until);
    }
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

static void conn_begin(struct server *server, struct MHD_Connection *mhd, void **slot)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct conn *conn = calloc(1, sizeof *conn);

    *slot = conn;
    if (!conn || !info) {
        free(conn);
        *slot = NULL;
        return; /* on_request() closes it */
    }
    conn->fd = info->connect_fd;
    set_deadline(conn, clock_now_us() + server->config.header_us);
    pthread_mutex_lock(&server->lock);
    conn->prev = server->conns.prev;
    conn->next = &server->conns;
    conn->prev->next = conn;
    server->conns.prev = conn;
    pthread_mutex_unlock(&server->lock);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **slot,
                          enum MHD_ConnectionNotificationCode what)
{
    struct listener *listener = cls;
    struct server *server = listener->server;
    struct conn *conn = *slot;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        conn_begin(server, mhd, slot);
        return;
    }
    if (!conn)
        return;
    pthread_mutex_lock(&server->lock);
    conn->prev->next = conn->next;
    conn->next->prev = conn->prev;
    server->upgraded -= conn->upgraded;
    pthread_cond_broadcast(&server->emptied);
    pthread_mutex_unlock(&server->lock);
    free(conn);
    *slot = NULL;
}

/* ---- the course of a request ---- */

static void *on_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
    struct listener *listener = cls;
    struct request *rq = calloc(1, sizeof *rq);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    const char *why = NULL;
    int r;

    if (!rq)
        return NULL;
    rq->server = listener->server;
    rq->listener = listener;
    rq->mhd = mhd;
    rq->conn = info ? info->socket_context : NULL;
    rq->declared = -1;
    rq->started_us = clock_now_us();
    snprintf(rq->id, sizeof rq->id, "req_%08x%08llx", listener->server->id_salt,
             (unsigned long long) atomic_fetch_add(&listener->server->request_count, 1));
    r = url_parse(target, &rq->url, &why);
    if (r < 0)
        (void) refuse_no_memory(rq);
    else if (r > 0)
        (void) refuse(rq, r == MHD_HTTP_URI_TOO_LONG ? PROBLEM_URL_TOO_LONG : PROBLEM_BAD_URL, "%s",
                      why);
    return rq;
}

/* How much of a body is read although it will be discarded. Clients that upload send all of it
 * before they look for a reply, so authenticated ones may. */
static int64_t discard_max(const struct request *rq)
{
    return rq->uploads ? DISCARD_UPLOAD : DISCARD_MAX;
}

static bool may_discard(const struct request *rq)
{
    return !rq->refusal.close && !rq->headers.expect && rq->declared <= discard_max(rq);
}

static void begin_body(struct request *rq)
{
    const struct route *route = rq->route;
    int64_t most = rq->server->config.body_bytes_max;

    rq->uploads = route->body == ROUTE_RAW || route->body == ROUTE_MULTIPART;
    if (rq->uploads) {
        (void) route->begin(rq);
        return;
    }
    if (rq->declared > most) {
        char size[FORMAT_NUMBER_MAX];

        format_size(most, size);
        (void) refuse(rq, PROBLEM_BODY_TOO_LARGE,
                      "the body has %lld bytes; the limit is %s. Upload files with "
                      "PUT /v1/sessions/{id}/files/{path}",
                      (long long) rq->declared, size);
    }
}

/* The headers are complete: refuses everything that can be refused without the body. */
static void handle_headers(struct request *rq, const char *method)
{
    snprintf(rq->method_name, sizeof rq->method_name, "%s", method);
    rq->method = method_from_name(method);
    if (framing_check(rq) < 0 || authenticate_host(rq) < 0 || rq->refusal.status != 0)
        return;
    if (request_route(rq) < 0 || authenticate_caller(rq) < 0)
        return;
    if (rq->method != METHOD_OPTIONS)
        begin_body(rq);
}

static int grow_body(struct request *rq, size_t more)
{
    size_t need = rq->body_len + more + 1, size = rq->body_size ? rq->body_size : 1024;
    struct server *server = rq->server;
    char *grown;

    if ((int64_t) (rq->body_len + more) > server->config.body_bytes_max)
        return refuse(rq, PROBLEM_BODY_TOO_LARGE, "the body is larger than %lld bytes",
                      (long long) server->config.body_bytes_max);
    if (need <= rq->body_size)
        return 0;
    if (rq->declared > 0 && (size_t) rq->declared + 1 >= need)
        size = (size_t) rq->declared + 1;
    while (size < need)
        size *= 2;
    if (atomic_fetch_add(&server->body_bytes, (int64_t) (size - rq->body_size)) > BODIES_MAX) {
        atomic_fetch_sub(&server->body_bytes, (int64_t) (size - rq->body_size));
        rq->refusal.retry_after_s = 1;
        return refuse(rq, PROBLEM_BUSY, "too many large requests are in progress; try again");
    }
    grown = realloc(rq->body, size);
    if (!grown) {
        atomic_fetch_sub(&server->body_bytes, (int64_t) (size - rq->body_size));
        return refuse_no_memory(rq);
    }
    rq->body = grown;
    rq->body_size = size;
    return 0;
}

/* A piece of the body. Returns -1 if the rest should not be read. */
static int handle_piece(struct request *rq, const char *data, size_t len)
{
    rq->received += (int64_t) len;
    set_deadline(rq->conn, rq->body_started_us + rq->server->config.body_us +
                               rq->received / BODY_RATE * USEC_PER_SEC);
    if (rq->refusal.status != 0)
        return rq->received > discard_max(rq) ? -1 : 0;
    if (rq->sink.write)
        (void) rq->sink.write(rq, data, len);
    else if (grow_body(rq, len) == 0) {
        memcpy(rq->body + rq->body_len, data, len);
        rq->body_len += len;
    }
    return 0;
}

static void answer_options(struct request *rq)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    char allow[ROUTER_ALLOW_MAX];

    methods_to_allow(rq->match.methods, allow);
    if (response)
        reply_header(response, "Allow", allow);
    reply_send(rq, MHD_HTTP_NO_CONTENT, response);
}

/* The request is complete. While the handler waits, the library must not consider the connection
 * idle. */
static void handle_whole(struct request *rq)
{
    struct server *server = rq->server;

    (void) MHD_set_connection_option(rq->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    if (rq->refusal.status != 0)
        reply_refusal(rq);
    else if (rq->method == METHOD_OPTIONS)
        answer_options(rq);
    else
        rq->route->handle(rq);
    (void) MHD_set_connection_option(rq->mhd, MHD_CONNECTION_OPTION_TIMEOUT,
                                     (unsigned) (server->config.idle_us / USEC_PER_SEC));
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *len, void **slot)
{
    struct request *rq = *slot;

    (void) cls;
    (void) mhd;
    (void) url;
    if (!rq || !rq->conn)
        return MHD_NO;
    if (!rq->seen) {
        rq->seen = true;
        rq->is_http_1_1 = strcmp(version, "HTTP/1.1") == 0;
        rq->body_started_us = clock_now_us();
        set_deadline(rq->conn, rq->body_started_us + rq->server->config.body_us);
        handle_headers(rq, method);
        if (rq->refusal.status != 0 && !may_discard(rq)) {
            rq->refusal.close = true;
            set_deadline(rq->conn, 0);
            reply_refusal(rq);
            return rq->queued ? MHD_YES : MHD_NO;
        }
        return MHD_YES;
    }
    if (*len > 0) {
        int r = handle_piece(rq, data, *len);

        *len = 0;
        return r < 0 ? MHD_NO : MHD_YES;
    }
    if (rq->queued)
        return MHD_YES;
    set_deadline(rq->conn, 0);
    handle_whole(rq);
    return rq->queued ? MHD_YES : MHD_NO;
}

static void log_request(const struct request *rq)
{
    const char *path = rq->route ? rq->route->pattern : "-";
    bool local = principal_is_local(&rq->caller.principal);

    if (!log_wants(LOG_LEVEL_INFO))
        return;
    log_event(rq->status >= 500 ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, "request",
              LOG_TEXT("id", rq->id), LOG_TEXT("method", rq->method_name), LOG_TEXT("path", path),
              LOG_INT("status", rq->status), LOG_MSEC("ms", clock_now_us() - rq->started_us),
              LOG_TEXT("key", local ? NULL : principal_text(&rq->caller.principal)),
              LOG_TEXT("session", rq->session_id[0] ? rq->session_id : NULL),
              LOG_TEXT("execution", rq->execution_id[0] ? rq->execution_id : NULL),
              LOG_TEXT("problem", rq->refusal.status ? rq->refusal.type : NULL));
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **slot,
                         enum MHD_RequestTerminationCode how)
{
    struct request *rq = *slot;
    struct server *server;

    (void) cls;
    (void) mhd;
    (void) how;
    if (!rq)
        return;
    *slot = NULL;
    server = rq->server;
    if (rq->sink.abort)
        rq->sink.abort(rq);
    if (rq->done)
        rq->done(rq->done_arg);
    ws_free(rq->ws);
    /* The next request may take as long as an idle connection may stay open, plus the time for its
     * headers. */
    set_deadline(rq->conn, clock_now_us() + server->config.idle_us + server->config.header_us);
    if (rq->status >= 100 && rq->status < 600)
        atomic_fetch_add_explicit(&server->replies[rq->status / 100], 1, memory_order_relaxed);
    if (rq->seen)
        log_request(rq);
    atomic_fetch_sub(&server->body_bytes, (int64_t) rq->body_size);
    json_decref(rq->json);
    free(rq->body);
    route_match_release(&rq->match);
    url_release(&rq->url);
    free(rq);
}

/* ---- opening and closing ---- */

void server_config_default(struct server_config *config)
{
    *config = (struct server_config){
        .connections_max = 4096,
        .connections_per_client = 256,
        .header_us = 20 * USEC_PER_SEC,
        .body_us = 30 * USEC_PER_SEC,
        .idle_us = 75 * USEC_PER_SEC,
        .keepalive_us = 15 * USEC_PER_SEC,
        .body_bytes_max = INT64_C(20) * 1024 * 1024,
        .sockets_per_caller = 64,
        .simple_wall_max_us = 120 * USEC_PER_SEC,
    };
}

int server_check(const struct server_config *config, bool have_keys, struct gb_err *err)
{
    for (size_t i = 0; config->listens[i]; i++) {
        struct listen_spec spec;
        int r = listen_parse(config->listens[i], &spec, err);

        if (r < 0)
            return r;
        if (spec.dialect[0] && strcmp(spec.dialect, "code-session") != 0 &&
            strcmp(spec.dialect, "locals") != 0)
            return gb_fail_plain(err, EINVAL,
                                 "unknown dialect '%s'; use code-session or locals, or omit "
                                 "it",
                                 spec.dialect);
        if (!listen_is_local(&spec) && config->auth != SERVER_AUTH_OPEN && !have_keys)
            return gb_fail_plain(err, EACCES,
                                 "%.40s can be reached from other machines, and no API key exists; "
                                 "run 'glovebox key create', or for people 'glovebox user add', or "
                                 "use --no-auth to allow access without keys",
                                 config->listens[i]);
    }
    return 0;
}

static void name_listener(struct listener *l, const struct sockaddr_storage *addr)
{
    bool v6 = addr->ss_family == AF_INET6;

    if (l->spec.is_unix) {
        snprintf(l->url, sizeof l->url, "unix:%s", l->spec.path);
        return;
    }
    l->port = ntohs(v6 ? ((const struct sockaddr_in6 *) addr)->sin6_port
                       : ((const struct sockaddr_in *) addr)->sin_port);
    snprintf(l->host, sizeof l->host, "%s", l->spec.host);
    snprintf(l->url, sizeof l->url, strchr(l->host, ':') ? "http://[%s]:%d" : "http://%s:%d",
             l->host, l->port);
}

static void on_library_log(void *cls, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

/* The library's own messages are about misbehaving clients. */
static void on_library_log(void *cls, const char *fmt, va_list ap)
{
    char text[256];

    (void) cls;
    if (!log_wants(LOG_LEVEL_DEBUG) || vsnprintf(text, sizeof text, fmt, ap) < 0)
        return;
    text[strcspn(text, "\n")] = '\0';
    log_event(LOG_LEVEL_DEBUG, "http", LOG_TEXT("message", text));
}

static int listener_bind(struct server *server, const char *text, struct gb_err *err)
{
    struct listener *l = &server->listeners[server->listeners_len];
    const struct server_config *config = &server->config;
    struct sockaddr_storage addr;
    int r = listen_parse(text, &l->spec, err);

    if (r == 0)
        r = listen_socket(&l->spec, &l->fd, &addr, err);
    if (r < 0)
        return r;
    l->server = server;
    l->local = listen_is_local(&l->spec);
    l->needs_key =
        config->auth == SERVER_AUTH_KEY || (config->auth == SERVER_AUTH_AUTO && !l->local);
    name_listener(l, &addr);
    server->listeners_len++;
    return 0;
}

static int listener_start(struct listener *l, struct gb_err *err)
{
    const struct server_config *config = &l->server->config;

    /* clang-format off */
    l->daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
            MHD_USE_ITC | MHD_USE_ERROR_LOG | MHD_ALLOW_UPGRADE,
        0, NULL, NULL, on_request, l,
        MHD_OPTION_EXTERNAL_LOGGER, on_library_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, l->fd,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, l,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, l,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, l,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned) config->connections_max,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT,
            l->local ? 0u : (unsigned) config->connections_per_client,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) (config->idle_us / USEC_PER_SEC),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) POOL_BYTES,
        MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t) POOL_INCREMENT,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t) STACK_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_END);
    /* clang-format on */
    if (!l->daemon)
        return gb_fail_plain(err, EIO, "serve %.150s: libmicrohttpd refused", l->url);
    return 0;
}

static void listener_close(struct listener *l)
{
    if (l->spec.is_unix)
        (void) unlink(l->spec.path);
    if (l->daemon)
        MHD_stop_daemon(l->daemon); /* closes the socket too */
    else
        (void) close(l->fd);
}

static int watch_open(struct server *server, struct gb_err *err)
{
    int r;

    server->conns.prev = server->conns.next = &server->conns;
    pthread_mutex_init(&server->lock, NULL);
    cond_init(&server->wake);
    cond_init(&server->emptied);
    r = pthread_create(&server->watch_thread, NULL, watch_main, server);
    server->watch_runs = r == 0;
    return r == 0 ? 0 : gb_fail(err, r, "start a thread");
}

static int make_openapi(struct server *server, struct gb_err *err)
{
    json_t *json = openapi_make();

    int r;

    server->openapi = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
    if (!server->openapi) {
        json_decref(json);
        return gb_fail(err, ENOMEM, "generate openapi.json");
    }
    server->openapi_len = strlen(server->openapi);
    r = page_docs_open(json, &server->docs, err);
    json_decref(json);
    return r;
}

static int open_mcp(struct server *server, struct gb_err *err)
{
    const struct server_config *config = &server->config;
    struct mcp_config mcp;

    mcp_config_default(&mcp);
    mcp.service = config->service;
    mcp.mark = config->mark;
    mcp.wall_max_us = config->simple_wall_max_us;
    mcp.more = config->mcp_more;
    if (config->mcp_reply_bytes > 0)
        mcp.reply_bytes = config->mcp_reply_bytes;
    return mcp_open(&mcp, &server->mcp, err);
}

int server_open(const struct server_config *config, struct server **ret_server, struct gb_err *err)
{
    struct server *server = calloc(1, sizeof *server);
    size_t count = 0;
    int r;

    while (config->listens[count])
        count++;
    if (!server || !(server->listeners = calloc(count + 1, sizeof *server->listeners))) {
        free(server);
        return gb_fail(err, ENOMEM, "start the server");
    }
    server->config = *config;
    (void) !getrandom(&server->id_salt, sizeof server->id_salt, 0);
    r = watch_open(server, err);
    server->labels = labels_new();
    if (r == 0 && !server->labels)
        r = gb_fail(err, ENOMEM, "start the server");
    if (r == 0)
        r = router_new(routes, routes_len, &server->router, err);
    if (r == 0)
        r = make_openapi(server, err);
    if (r == 0)
        r = open_mcp(server, err);
    /* All are bound before the first is served, so handlers see a complete server. */
    for (size_t i = 0; r == 0 && i < count; i++)
        r = listener_bind(server, config->listens[i], err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = listener_start(&server->listeners[i], err);
    if (r < 0) {
        server_close(server);
        return r;
    }
    *ret_server = server;
    return 0;
}

const char *server_url(const struct server *server, size_t i)
{
    return i < server->listeners_len ? server->listeners[i].url : NULL;
}

int server_port(const struct server *server, size_t i)
{
    return i < server->listeners_len ? server->listeners[i].port : 0;
}

void server_close(struct server *server)
{
    if (!server)
        return;
    mcp_stop(server->mcp); /* its streams end by themselves */
    ws_stop(server);
    for (size_t i = 0; i < server->listeners_len; i++)
        listener_close(&server->listeners[i]);
    if (server->watch_runs) {
        pthread_mutex_lock(&server->lock);
        server->stop = true;
        pthread_cond_signal(&server->wake);
        pthread_mutex_unlock(&server->lock);
        pthread_join(server->watch_thread, NULL);
    }
    pthread_cond_destroy(&server->wake);
    pthread_cond_destroy(&server->emptied);
    pthread_mutex_destroy(&server->lock);
    labels_free(server->labels);
    mcp_close(server->mcp);
    router_free(server->router);
    free(server->listeners);
    free(server->openapi);
    page_docs_close(server->docs);
    free(server);
}
