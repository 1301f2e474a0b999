/* One exchange over HTTP in which the answer is JSON or server-sent events: messages, either way.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define MCP_HTTP_ID_MAX 64

struct mcp_http_request {
    const char *url;         /* where messages go */
    const char *unix_path;   /* of the socket, or NULL */
    const char *method;      /* "POST", "GET", "DELETE" */
    const char *body;        /* NULL: none */
    char *const *headers;    /* ends with NULL */
    const atomic_bool *stop; /* breaks it off */
    /* Each message as it comes; not for answers that are no success. */
    void (*message)(void *arg, const char *text, size_t len);
    void *arg;
};

struct mcp_http_reply {
    long status;                   /* 0: none came */
    char session[MCP_HTTP_ID_MAX]; /* MCP-Session-Id, or "" */
    char last_id[MCP_HTTP_ID_MAX]; /* of the last event, or "" */
    char error[200];               /* why none came */
    char *body;                    /* of an answer that is no success; for free(), may be NULL */
};

/* Before any other thread is started. */
int mcp_http_init(void);

void mcp_http(const struct mcp_http_request *request, struct mcp_http_reply *ret_reply);
