/*
 * The router: a tree of the patterns' parts, walked with the decoded parts of a path.
 *
 * If several patterns match, a literal part takes precedence over a parameter, and a parameter over
 * one that takes the rest; the order of the rows does not matter.
 */
#pragma once

#include "base/err.h"
#include "server/http/route.h"
#include "server/http/url.h"

#define ROUTER_ALLOW_MAX 64

struct router;

/* A parameter of a pattern and its value. */
struct route_param {
    const char *name; /* in the pattern: not NUL-terminated */
    size_t name_len;
    const char *value;
};

struct route_match {
    const struct route *route; /* NULL: the path does not have this method, or does not exist */
    const struct route *any;   /* a route of the path, whatever its method; NULL: no such path */
    unsigned methods;          /* the methods of the path; 0: no such path */
    struct route_param params[ROUTE_PARAMS_MAX];
    size_t params_len;
    char *rest; /* owns the value of a parameter that takes the rest */
};

/* Checks the patterns: -EINVAL for a malformed one, -EEXIST for two rows with the same method and
 * path. @table must stay valid. */
int router_new(const struct route *table, size_t len, struct router **ret_router,
               struct gb_err *err);
void router_free(struct router *router); /* accepts NULL */

/* Returns 0 even if nothing was found, or -ENOMEM. The values live as long as @url. */
int router_match(const struct router *router, enum method method, const struct url *url,
                 struct route_match *ret_match);
void route_match_release(struct route_match *match);

/* NULL if the pattern has no such parameter. */
const char *route_match_param(const struct route_match *match, const char *name);

/* METHOD_OTHER for an unknown name. */
enum method method_from_name(const char *name);
const char *method_name(enum method method); /* one bit */

/* "GET, HEAD, OPTIONS" */
void methods_to_allow(unsigned methods, char buf[ROUTER_ALLOW_MAX]);
