/*
 * What the files of the server share: the request on its way from the socket to its handler, the
 * table of routes, and the replies. http/http.c describes the life of a request.
 */
#pragma once

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "schema/fields.h"
#include "server/http/listen.h"
#include "server/http/negotiate.h"
#include "server/http/router.h"
#include "server/http/url.h"
#include "server/http/ws.h"
#include "server/server.h"
#include "service/access/keys.h"
#include "service/service.h"

/* How JSON is written. With fifteen digits a measured value reads as intended: 0.0091, not
 * 0.0091000000000000004. */
#define REPLY_JSON (JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))

struct page_docs;

#define REQUEST_ID_MAX 32

/* ---- the server ---- */

struct listener {
    struct server *server;
    struct listen_spec spec;
    int fd;
    struct MHD_Daemon *daemon;
    char url[LISTEN_NAME_MAX + 32];
    char host[LISTEN_NAME_MAX]; /* as in a Host header, without the port */
    int port;
    bool local, needs_key;
};

/* One connection, as the watch sees it. */
struct conn {
    struct conn *prev, *next;
    int fd;
    bool upgraded;               /* to a WebSocket; under the server's lock */
    _Atomic int64_t deadline_us; /* 0: none */
};

struct server {
    struct server_config config;
    struct listener *listeners;
    size_t listeners_len;

    pthread_t watch_thread;
    bool watch_runs;
    pthread_mutex_t lock; /* guards all of these */
    pthread_cond_t wake, emptied;
    struct conn conns; /* head of a ring */
    bool stop;
    struct ws *sockets; /* of requests under way */
    size_t upgraded;    /* connections that the library has not got back yet */
    bool stops_sockets;

    _Atomic int64_t body_bytes; /* of JSON bodies in memory */
    _Atomic uint64_t request_count;
    _Atomic int64_t replies[6]; /* by first digit of the status */
    _Atomic int64_t streams;
    uint32_t id_salt;

    struct labels *labels; /* of the dialects */
    struct mcp *mcp;

    struct router *router;
    char *openapi; /* made once */
    size_t openapi_len;
    struct page_docs *docs; /* likewise */
};

/* ---- requests ---- */

/* The headers that we use; NULL when absent. */
struct headers {
    const char *host, *authorization, *api_key, *origin, *fetch_site, *fetch_mode, *accept;
    const char *accept_encoding;
    const char *content_type, *range, *if_range, *if_none_match, *if_match, *expect;
    const char *transfer_encoding, *content_length, *last_event_id, *session_id;
    const char *mcp_session, *mcp_version, *mcp_method, *mcp_name;
    const char *upgrade, *connection, *ws_key, *ws_version, *ws_protocol;
    const char *twice; /* the name of a header that occurs twice but may not */
    bool bad;          /* a space in a name, a NUL in a value */
};

/* Receives a streamed body. */
struct sink {
    int (*write)(struct request *rq, const char *data, size_t len); /* refuses on failure */
    void (*abort)(struct request *rq); /* called when the request ends, successful or not */
    void *state;
};

/* Why a request is refused; sent once its body has been read. */
struct refusal {
    enum problem problem;
    int status; /* 0: none */
    int retry_after_s;
    const char *type;
    char loc[64];
    char detail[320];
    bool close; /* the connection may be out of step: close it */
};

struct request {
    struct server *server;
    struct listener *listener;
    struct conn *conn;
    struct MHD_Connection *mhd;
    char id[REQUEST_ID_MAX];
    int64_t started_us;

    enum method method;
    char method_name[16];
    bool is_http_1_1;
    struct url url;
    struct headers headers;
    const struct route *route;
    struct route_match match;
    struct caller caller;
    int64_t user_stamp; /* of a caller with an account */

    bool seen;        /* its headers have been handled */
    bool uploads;     /* the body goes into a file, and the caller is authenticated */
    int64_t declared; /* Content-Length; -1: unknown */
    int64_t received, body_started_us;
    char *body;
    size_t body_len, body_size;
    json_t *json; /* what request_json() has parsed */
    struct sink sink;
    struct ws *ws;                /* once the upgrade was accepted */
    void (*done)(void *done_arg); /* if set: once the reply was sent, or will not be */
    void *done_arg;
    struct refusal refusal;

    bool queued;
    int status;
    char session_id[SESSION_ID_MAX], execution_id[EXECUTION_ID_MAX]; /* for the log */
};

/* Records why the request is refused; the first reason counts. Returns -1. */
int refuse(struct request *rq, enum problem problem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int refuse_no_memory(struct request *rq);
int refuse_fault(struct request *rq, const struct fault *fault);

/* Finds the route of @rq and its parameters; refuses with 404 or 405. */
int request_route(struct request *rq);

/* The value of {name} in the route's pattern, which must have it. */
const char *request_param(const struct request *rq, const char *name);

/* Reads the query into @ret; on failure the reply has been sent. */
int request_query(struct request *rq, void *ret);

/* Parses the body by the route's schema into @ret; on failure the reply has been sent. Strings in
 * @ret live as long as the request. */
int request_json(struct request *rq, void *ret);

/* Finds the session {id} of the caller; on failure the reply has been sent. */
int request_session(struct request *rq, struct session **ret_session);

/* The same for an id from elsewhere. */
int request_session_named(struct request *rq, const char *id, struct session **ret_session);

/* The client's socket. */
int request_socket(const struct request *rq);

/* "https://box.example.com", as the client sees it; empty if there is no name. */
void request_origin(const struct request *rq, char *buf, size_t size);

/* For the log line. */
void request_note(struct request *rq, const char *session_id, const char *execution_id);

/* ---- access (http/framing.c, http/authenticate.c) ---- */

/* Collects the headers, and refuses a request whose length is in doubt. */
int framing_check(struct request *rq);

/* Refuses a request that was meant for another host. */
int authenticate_host(struct request *rq);

/* Whether the Host header names this machine by a name that only it uses. */
bool request_host_is_loopback(const struct request *rq);

/* Authenticates the caller, once the route is known: fills rq->caller, or refuses with 401 or
 * 403. */
int authenticate_caller(struct request *rq);

/* Whether the caller of a request that stays open would still be let in: the key was not revoked,
 * the account not removed. */
bool authenticate_stands(const struct request *rq);

/* ---- replies (http/reply.c): exactly one per request ---- */

void reply_json(struct request *rq, int status, json_t *json); /* takes @json, which may be NULL */
void reply_json_text(struct request *rq, int status, char *text, size_t len); /* takes @text */
void reply_json_at(struct request *rq, int status, json_t *json, const char *location);
void reply_text(struct request *rq, int status, const char *media, const char *text, size_t len);
void reply_empty(struct request *rq, int status);
void reply_fault(struct request *rq, const struct fault *fault);
/* With @json, which it takes, if @r is a success, else with the fault. */
void reply_either(struct request *rq, int r, int status, json_t *json, const struct fault *fault);
void reply_problem(struct request *rq, enum problem problem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void reply_no_memory(struct request *rq);
void reply_invalid(struct request *rq, json_t *errors); /* 422; takes @errors */
void reply_refusal(struct request *rq);

/* Adds the headers that every reply has, sends it and frees it. */
void reply_send(struct request *rq, int status, struct MHD_Response *response);
void reply_header(struct MHD_Response *response, const char *name, const char *value);

/* ---- streams of MCP (mcp/stream.c) ---- */

struct mcp_call;
struct mcp_peer;

/* Replies with the messages of @call, as events; @first, for free(), was fetched already, or is
 * NULL. Takes the reference. @claim and @pos are those of mcp_call_read(), @number that of the
 * call, or below 0 if it is not kept. */
void mcp_stream_call(struct request *rq, struct mcp_call *call, int number, unsigned claim,
                     uint64_t pos, char *first);

/* Replies with the messages in the peer's outbox from @pos on. Takes the reference. @endpoint: the
 * peer is this connection, and this is the address for its messages; NULL otherwise. */
void mcp_stream_outbox(struct request *rq, struct mcp_peer *peer, uint64_t pos,
                       const char *endpoint);

/* ---- made once ---- */

json_t *openapi_make(void);

/* ---- handlers ---- */

#define ROUTE(method, pattern, handler, ...) void handler(struct request *rq);
#include "server/routes.def"
#undef ROUTE
