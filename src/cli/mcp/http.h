/* One exchange over HTTP whose answer is JSON or server-sent events: both carry messages. */
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
    const atomic_bool *stop; /* aborts it */
    /* Each message as it arrives; not for unsuccessful answers. */
    void (*message)(void *arg, const char *text, size_t len);
    void *arg;
};

struct mcp_http_reply {
    long status;                   /* 0: no answer */
    char session[MCP_HTTP_ID_MAX]; /* MCP-Session-Id, or "" */
    char last_id[MCP_HTTP_ID_MAX]; /* of the last event, or "" */
    char error[200];               /* why there was no answer */
    char *body;                    /* of an unsuccessful answer; for free(), may be NULL */
};

/* Before any other thread is started. */
int mcp_http_init(void);

void mcp_http(const struct mcp_http_request *request, struct mcp_http_reply *ret_reply);
