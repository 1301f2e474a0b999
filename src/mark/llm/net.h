/*
 * HTTP for models, over libcurl.
 *
 * An exchange runs on the caller's thread. Connections are kept for the next one: a pool has a few
 * idle multi handles, each of which is used by one thread at a time. Certificates are verified, no
 * redirect is followed (a key must not go where the operator did not send it), and bodies are not
 * compressed, so that what is counted is what has come. Proxies are those of the environment, as
 * curl reads it, but not for loopback addresses.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mark/llm/text.h"

struct net;

enum net_end {
    NET_DONE,      /* the reply is complete */
    NET_CANCELLED, /* by the descriptor */
    NET_STOPPED,   /* data() did not want more */
    NET_TOO_LARGE, /* more than bytes_max */
    NET_SILENT,    /* nothing came for idle_us */
    NET_BROKEN,    /* no connection, or it broke */
    NET_NO_MEMORY,
};

struct net_request {
    const char *url;
    const char *const *headers; /* "Name: value", ends with NULL */
    const char *body;           /* NULL: GET */
    size_t body_len;
    bool loopback;
    int64_t connect_us, idle_us;
    int64_t total_us; /* 0: no limit */
    int64_t bytes_max;
    int cancel_fd; /* below 0: none */
    /* A piece of the body; the status is known by then. false ends the exchange. */
    bool (*data)(void *arg, int status, const char *data, size_t len);
    void *arg;
};

#define NET_HEADER_MAX 256

struct net_reply {
    enum net_end end;
    int status; /* 0: no reply */
    char retry_after[NET_HEADER_MAX], retry_after_ms[NET_HEADER_MAX], should_retry[NET_HEADER_MAX];
    char request_id[NET_HEADER_MAX], content_type[NET_HEADER_MAX], server[NET_HEADER_MAX];
    char location[NET_HEADER_MAX];
    char why[256]; /* what broke, in curl's words */
};

struct net *net_new(void); /* NULL if out of memory */
void net_free(struct net *net);

void net_exchange(struct net *net, const struct net_request *request, struct net_reply *ret_reply);

/* Several short requests to servers of this machine at once, for at most @total_us. A body of a
 * fetch that failed is empty. */
struct net_fetch {
    char url[300];
    const char *post; /* NULL: GET */
    struct text body;
    int status;
};
void net_fetch_all(struct net *net, struct net_fetch *fetches, size_t len, int64_t total_us);

/* Splits a URL of http or https: whether it is one, its host and port for messages, and whether
 * that is this machine. Credentials in it are refused. @where is "host:port" or "host". */
struct net_url {
    char where[300];
    char host[256];
    bool tls, loopback, has_path;
};
int net_url_read(const char *text, struct net_url *ret_url, const char **ret_why);
