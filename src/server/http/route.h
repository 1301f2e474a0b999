/* A route: one row of a routes.def. The router, /openapi.json and /docs are made from the rows. */
#pragma once

#include <stddef.h>

struct request;
struct schema;

enum method {
    METHOD_OTHER = 0,
    METHOD_GET = 1 << 0,
    METHOD_HEAD = 1 << 1,
    METHOD_POST = 1 << 2,
    METHOD_PUT = 1 << 3,
    METHOD_PATCH = 1 << 4,
    METHOD_DELETE = 1 << 5,
    METHOD_OPTIONS = 1 << 6,
};

#define METHODS 7 /* known ones */

enum route_auth {
    ROUTE_OPEN, /* needs no key on any address */
    ROUTE_KEY,
    ROUTE_PAGE,     /* needs no key, and a link on another site may lead here */
    ROUTE_ASSET,    /* a file of the web page, the same for everyone: any site may read it */
    ROUTE_MARK,     /* Mark's: needs an access token or a key, on loopback too */
    ROUTE_OPERATOR, /* needs an access token of an account that is an operator's */
};

enum route_body {
    ROUTE_NO_BODY,
    ROUTE_JSON,      /* collected, then parsed by the handler with request_json() */
    ROUTE_RAW,       /* streamed to the sink that begin() has set up */
    ROUTE_MULTIPART, /* likewise */
};

enum route_flag {
    ROUTE_LENIENT = 1 << 0,    /* a dialect: unknown fields are ignored */
    ROUTE_STREAMS = 1 << 1,    /* may reply with a stream of events */
    ROUTE_LABEL = 1 << 2,      /* X-Session-Id names the session */
    ROUTE_TWO_SHAPES = 1 << 3, /* refusals also have the members of the locals API */
    ROUTE_JSONRPC = 1 << 4,    /* refusals are errors of JSON-RPC */
    ROUTE_SOCKET = 1 << 6,     /* becomes a WebSocket */
    ROUTE_REST = 1 << 5,       /* the last parameter takes all remaining parts */
    ROUTE_UNLISTED = 1 << 8,   /* of the web page, not of the API */
    ROUTE_FORM = 1 << 7,       /* the body may also be application/x-www-form-urlencoded */
};

#define ROUTE_PARAMS_MAX 4

struct route {
    enum method method;
    const char *pattern; /* "/v1/sessions/{id}/files/{path}" */
    void (*handle)(struct request *rq);
    int (*begin)(struct request *rq); /* of streamed bodies; on failure it has called refuse() */
    enum route_auth auth;
    enum route_body body;
    unsigned flags;
    const struct schema *query, *request, *response;
    const struct schema *event; /* of a stream; NULL: an execution's */
    int success;                /* the status of success */
    const char *media;          /* media types of success, if it is not JSON alone */
    const char *tag, *name, *summary, *help;
};

extern const struct route routes[]; /* the server's routes (http/routes.c) */
extern const size_t routes_len;
