/* Addresses to listen on: their text form, and their sockets. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/err.h"

#define LISTEN_NAME_MAX 256 /* size of a host, a dialect */

struct listen_spec {
    bool is_unix;
    char host[LISTEN_NAME_MAX]; /* without brackets */
    int port;
    char path[108]; /* of a Unix socket */
    char dialect[32];
};

/* "HOST:PORT", "[V6]:PORT", ":PORT", "PORT" or "unix:PATH", each optionally with ",dialect=NAME".
 * Without a host it is loopback. */
int listen_parse(const char *text, struct listen_spec *ret_spec, struct gb_err *err);

/* Whether only this machine can reach it. A name other than localhost counts as reachable by
 * others. */
bool listen_is_local(const struct listen_spec *spec);

/* A listening socket; @ret_addr is the address it is bound to. A socket file left by a dead server
 * is replaced; one on which somebody listens is not. */
int listen_socket(const struct listen_spec *spec, int *ret_fd, struct sockaddr_storage *ret_addr,
                  struct gb_err *err);
