/* Addresses to listen at: their text, and their sockets. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/err.h"

#define LISTEN_NAME_MAX 256 /* of a host, a dialect */

struct listen_spec {
    bool is_unix;
    char host[LISTEN_NAME_MAX]; /* without brackets */
    int port;
    char path[108]; /* of a Unix socket */
    char dialect[32];
};

/* "HOST:PORT", "[V6]:PORT", ":PORT", "PORT" or "unix:PATH", each with ",dialect=NAME" or not. Only
 * loopback is meant where no host is named. */
int listen_parse(const char *text, struct listen_spec *ret_spec, struct gb_err *err);

/* Whether only this machine can reach it. A name other than localhost counts as reachable. */
bool listen_is_local(const struct listen_spec *spec);

/* A listening socket; @ret_addr is what it is bound to. A file that a dead server left in place of
 * a Unix socket is replaced; one where somebody listens is not. */
int listen_socket(const struct listen_spec *spec, int *ret_fd, struct sockaddr_storage *ret_addr,
                  struct gb_err *err);
