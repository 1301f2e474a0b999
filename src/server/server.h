/*
 * The server: HTTP over a service. This is the module's public header.
 *
 * Open it after the service and close it before; both calls come from one thread. In between
 * everything happens on threads of the server (http/http.c says which).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct mark;
struct mcp;
struct server;
struct service;
struct keys;

enum server_auth {
    SERVER_AUTH_AUTO, /* loopback and Unix sockets need no key, every other address does */
    SERVER_AUTH_KEY,  /* every address needs one */
    SERVER_AUTH_OPEN, /* no address does; must be chosen explicitly */
};

struct server_config {
    struct service *service;
    struct keys *keys; /* NULL: there are none, and every key is refused */
    struct mark *mark; /* NULL: Mark is off */

    char *const *listens; /* "127.0.0.1:8080", "[::]:80,dialect=NAME", "unix:PATH"; NULL ends */
    char *const *allowed_hosts; /* more names for the Host header; NULL-terminated, or NULL */
    enum server_auth auth;

    int64_t connections_max;             /* per address */
    int64_t connections_per_client;      /* per client address, except loopback; 0: no limit */
    int64_t header_us, body_us, idle_us; /* deadlines; http/http.c extends the second */
    int64_t keepalive_us;                /* idle time of a stream before a comment is sent */
    int64_t body_bytes_max;              /* of a JSON body */
    int64_t sockets_per_caller;          /* open WebSockets of one key */
    int64_t simple_wall_max_us;          /* maximum timeout of the simple API */
    int64_t mcp_reply_bytes;             /* of each stream in a result of MCP; 0: the default */
    void (*mcp_more)(struct mcp *mcp);   /* as in struct mcp_config */
};

/* Fills everything except service, keys and the lists. */
void server_config_default(struct server_config *config);

/* Checks the addresses against @config->auth before anything is started: -EACCES if one would be
 * reachable from other machines without a key. @have_keys: at least one key or account exists. */
int server_check(const struct server_config *config, bool have_keys, struct gb_err *err);

/* Listens on every address. @config is copied; what it points to must stay valid. */
int server_open(const struct server_config *config, struct server **ret_server, struct gb_err *err);

/* The address with index @i as a URL ("http://127.0.0.1:8080", "unix:/run/gb.sock"), or NULL. */
const char *server_url(const struct server *server, size_t i);

/* Its port; 0 for a Unix socket. */
int server_port(const struct server *server, size_t i);

/* Stops listening, closes every connection, removes socket files. Accepts NULL. */
void server_close(struct server *server);
