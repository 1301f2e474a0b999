/*
 * What the files of the server share: the request on its way from the socket to its handler, the
 * table of routes, and the replies. http/http.c tells how a request lives.
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
#include "server/http/url.h"
#include "server/server.h"
#include "service/access/keys.h"
#include "service/service.h"

/* How JSON is written. Fifteen digits: what we measured then reads as it was meant, 0.0091 and not
 * 0.0091000000000000004. */
#define REPLY_JSON (JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))

#define REQUEST_ID_MAX 32

enum method {
    METHOD_OTHER = 0,
    METHOD_GET = 1 << 0,
    METHOD_HEAD = 1 << 1,
    METHOD_POST = 1 << 2,
    METHOD_PUT = 1 << 3,
    METHOD_DELETE = 1 << 4,
    METHOD_OPTIONS = 1 << 5,
};

/* ---- routes ---- */

struct request;

enum route_auth {
    ROUTE_OPEN, /* needs no key anywhere */
    ROUTE_KEY,
    ROUTE_PAGE, /* needs no key, and a link on another site may lead here */
};

enum route_body {
    ROUTE_NO_BODY,
    ROUTE_JSON,      /* collected, then parsed by the handler with request_json() */
    ROUTE_RAW,       /* streamed to what begin() has set up */
    ROUTE_MULTIPART, /* likewise */
};

enum route_flag {
    ROUTE_LENIENT = 1 << 0,    /* a dialect: unknown fields are ignored */
    ROUTE_STREAMS = 1 << 1,    /* may answer with a stream of events */
    ROUTE_LABEL = 1 << 2,      /* X-Session-Id names the session */
    ROUTE_TWO_SHAPES = 1 << 3, /* refusals carry what clients of the locals API read, too */
    ROUTE_JSONRPC = 1 << 4,    /* refusals are errors of JSON-RPC */
};

struct route {
    enum method method;
    const char *pattern; /* "{id}" is one part, "{path}" and "{name}" all the rest */
    void (*handle)(struct request *rq);
    int (*begin)(struct request *rq); /* of streamed bodies; on failure it has called refuse() */
    enum route_auth auth;
    enum route_body body;
    unsigned flags;
    const struct schema *query, *request, *response;
    int success;       /* the status of success */
    const char *media; /* of success, when it is not JSON */
    const char *tag, *name, *summary, *help;
};

extern const struct route routes[];
extern const size_t routes_len;

/* Finds the route of @rq and fills its parameters; refuses with 404 or 405. */
int router_find(struct request *rq);

/* "GET, HEAD, OPTIONS" of what @rq's path has. */
void router_allow(const struct request *rq, char buf[64]);

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
    bool local_client;
    _Atomic int64_t deadline_us; /* 0: none */
};

struct server {
    struct server_config config;
    struct listener *listeners;
    size_t listeners_len;

    pthread_t watch_thread;
    bool watch_runs;
    pthread_mutex_t lock; /* conns, stop */
    pthread_cond_t wake;
    struct conn conns; /* head of a ring */
    bool stop;

    _Atomic int64_t body_bytes; /* of JSON bodies in memory */
    _Atomic uint64_t request_count;
    _Atomic int64_t replies[6]; /* by the status's first digit */
    _Atomic int64_t streams;
    uint32_t id_salt;

    struct labels *labels; /* of the dialects */
    struct mcp *mcp;

    char *openapi; /* made once */
    size_t openapi_len;
};

/* ---- requests ---- */

/* The headers that mean something to us; NULL when absent. */
struct headers {
    const char *host, *authorization, *api_key, *origin, *fetch_site, *fetch_mode, *accept;
    const char *content_type, *range, *if_range, *if_none_match, *if_match, *expect;
    const char *transfer_encoding, *content_length, *last_event_id, *session_id;
    const char *mcp_session, *mcp_version, *mcp_method, *mcp_name;
    const char *twice; /* the name of one that may come once and came again */
    bool bad;          /* a blank in a name, a NUL in a value */
};

/* Where a streamed body goes. */
struct sink {
    int (*write)(struct request *rq, const char *data, size_t len); /* refuses on failure */
    void (*abort)(struct request *rq); /* the request ends, whatever became of it */
    void *state;
};

/* Why a request is not served; told once its body is out of the way. */
struct refusal {
    enum problem problem;
    int status; /* 0: none */
    int retry_after_s;
    const char *type;
    char loc[64];
    char detail[320];
    bool close; /* the connection cannot be trusted to be in step */
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
    struct url url;
    struct headers headers;
    const struct route *route;
    const char *param_id; /* {id} */
    char *path;           /* {path} or {name}, or NULL */
    struct caller caller;

    bool seen;        /* its headers were handled */
    bool uploads;     /* the body goes into a file, and the caller was let in */
    int64_t declared; /* Content-Length; -1: not told */
    int64_t received, body_started_us;
    char *body;
    size_t body_len, body_size;
    json_t *json; /* what request_json() has parsed */
    struct sink sink;
    struct refusal refusal;

    bool queued;
    int status;
    char session_id[SESSION_ID_MAX], execution_id[EXECUTION_ID_MAX]; /* for the log */
};

/* Notes why the request is refused; the first reason counts. Returns -1. */
int refuse(struct request *rq, enum problem problem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int refuse_no_memory(struct request *rq);
int refuse_fault(struct request *rq, const struct fault *fault);

/* Reads the query into @ret; on failure the reply has been sent. */
int request_query(struct request *rq, void *ret);

/* Parses the body by the route's schema into @ret; on failure the reply has been sent. Texts in
 * @ret live as long as the request. */
int request_json(struct request *rq, void *ret);

/* Finds the session {id} of the caller; on failure the reply has been sent. */
int request_session(struct request *rq, struct session **ret_session);

/* The client's socket. */
int request_socket(const struct request *rq);

/* "https://box.example.com", as the client has it; an empty text where there is no name. */
void request_origin(const struct request *rq, char *buf, size_t size);

/* For the log line. */
void request_note(struct request *rq, const char *session_id, const char *execution_id);

/* ---- the gate (http/authenticate.c) ---- */

/* Collects the headers, and refuses what is malformed or was meant for another host. */
int gate_check(struct request *rq);

/* Who calls, once the route is known: fills rq->caller, or refuses with 401 or 403. */
int gate_authenticate(struct request *rq);

/* ---- replies (http/reply.c); exactly one a request ---- */

void reply_json(struct request *rq, int status, json_t *json); /* takes @json, which may be NULL */
void reply_json_text(struct request *rq, int status, char *text, size_t len); /* takes @text */
void reply_json_at(struct request *rq, int status, json_t *json, const char *location);
void reply_text(struct request *rq, int status, const char *media, const char *text, size_t len);
void reply_empty(struct request *rq, int status);
void reply_redirect(struct request *rq, const char *location);
void reply_fault(struct request *rq, const struct fault *fault);
void reply_problem(struct request *rq, enum problem problem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void reply_no_memory(struct request *rq);
void reply_invalid(struct request *rq, json_t *errors); /* 422; takes @errors */
void reply_refusal(struct request *rq);

/* Adds what every reply carries, sends it and frees it. */
void reply_send(struct request *rq, int status, struct MHD_Response *response);
void reply_header(struct MHD_Response *response, const char *name, const char *value);

/* ---- streams (v1/stream.c) ---- */

/* Answers with the events of @execution, from @cursor on, as @media has it. Takes the reference.
 * @cancel: interrupt it when the client leaves. */
void stream_events(struct request *rq, enum media media, struct execution *execution,
                   const struct event_cursor *cursor, bool cancel);

enum client { CLIENT_THERE, CLIENT_SILENT, CLIENT_GONE };

/* CLIENT_SILENT: it will send nothing more; it may still read. */
enum client client_look(int fd);

/* Text of a stream on its way; NULL: none. */
struct pending {
    char *text;
    size_t len, used;
};

/* Takes as much of it as there is room for; what is used up is freed. */
ssize_t pending_read(struct pending *pending, char *buf, size_t max);

/* ---- streams of MCP (mcp/stream.c) ---- */

struct mcp_call;
struct mcp_peer;

/* Answers with what @call says, as events; @first, for free(), was fetched already, or is NULL.
 * Takes the reference. @claim and @pos are those of mcp_call_read(), @number that of the call, or
 * below 0 when it is not kept. */
void mcp_stream_call(struct request *rq, struct mcp_call *call, int number, unsigned claim,
                     uint64_t pos, char *first);

/* Answers with what is in the peer's outbox from @pos on. Takes the reference. @endpoint: the peer
 * is this connection, and this is where it is told to send its messages; NULL otherwise. */
void mcp_stream_outbox(struct request *rq, struct mcp_peer *peer, uint64_t pos,
                       const char *endpoint);

/* ---- made once ---- */

json_t *openapi_make(void);

/* ---- handlers ---- */

#define ROUTE(method, pattern, handler, ...) void handler(struct request *rq);
#include "server/http/routes.def"
#undef ROUTE
