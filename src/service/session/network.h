/*
 * The network of one box: its socket in the box and the proxy that serves it.
 *
 * Used by everything that opens a box: sessions and one-shots (engine_calls.c), the installer of
 * packages, and `glovebox run`. Without a policy, or with an empty one, nothing is opened and the
 * box has no network.
 */
#pragma once

#include <jansson.h>

#include "egress/egress.h"
#include "engine/engine.h"

struct fault;
struct service;

struct network {
    struct egress_proxy *proxy; /* NULL: closed */
    char **env;                 /* HTTP_PROXY and so on, NULL-terminated; NULL: closed */
};

#define NETWORK_LABEL_MAX 64 /* "session ID" or "execution ID", for the log */

/* Opens the socket in the box and serves it with @policy, which is taken over, even on failure.
 * @policy may be NULL. @limits may be NULL. */
int network_open(struct egress *egress, struct box *box, struct egress_policy *policy,
                 const struct egress_limits *limits, const char *label, struct network *ret_network,
                 struct gb_err *err);

/* Call it before the box is released. Accepts one that is all zero. */
void network_close(struct network *network);

/* The network that a session asks for: {"allow": [...], "secrets": [{host, port, header, value}]},
 * within the operator's ceiling. *@ret_policy is NULL if that is nothing. Values of secrets are
 * wiped from @object. */
int network_policy_from_json(struct service *service, json_t *object,
                             struct egress_policy **ret_policy, struct fault *fault);

/* {"allow": [...], "secrets": ["HOST:PORT HEADER"]}, for display: never a value. @policy may be
 * NULL. NULL: out of memory. */
json_t *network_policy_to_json(const struct egress_policy *policy);
