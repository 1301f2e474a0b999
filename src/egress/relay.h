/* Bytes between a client and a server, both ways at once, until the exchange is over. */
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
    const char *first; /* what the client had sent behind the head */
    size_t first_len;
    struct body_reader body; /* not of a tunnel */
    struct mask mask;

    bool answered; /* out: the client has got something */
};

/* 0 at the end; -EPROTO: the body is malformed; -EDQUOT: too many bytes; -ETIMEDOUT, -ECANCELED, or
 * another -errno when one of the two broke off. */
int relay_run(struct relay *relay);
