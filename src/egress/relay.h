/* Forwards bytes between a client and a server, in both directions at once, until the exchange is
 * over. */
#pragma once

#include "egress/egress_internal.h"
#include "egress/head.h"
#include "egress/mask.h"

struct relay {
    struct egress_proxy *proxy;
    int client;
    struct upstream *up;
    const struct host *host; /* for the count */
    uint16_t port;
    bool tunnel;       /* bytes both ways; else a request's body and one reply */
    const char *first; /* what the client sent after the head */
    size_t first_len;
    struct body_reader body; /* not of a tunnel */
    struct mask mask;

    bool answered; /* out: something was sent to the client */
};

/* 0 at the end; -EPROTO: the body is malformed; -EDQUOT: too many bytes; -ETIMEDOUT, -ECANCELED, or
 * another -errno if either side broke the connection. */
int relay_run(struct relay *relay);
