/* The table of routes, and how a request finds its route. */
#include <stddef.h>

#include "server/about/schemas.h"
#include "server/admin/schemas.h"
#include "server/compat/schemas.h"
#include "server/handlers.h"
#include "server/mark/schemas.h"
#include "server/mcp/schemas.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"

#define GET    METHOD_GET
#define POST   METHOD_POST
#define PUT    METHOD_PUT
#define PATCH  METHOD_PATCH
#define DELETE METHOD_DELETE

#define ROUTE(method_, pattern_, handler_, ...)                                                    \
    { .method = (method_),                                                                         \
      .pattern = (pattern_),                                                                       \
      .handle = handler_,                                                                          \
      .name = #handler_,                                                                           \
      __VA_ARGS__ },
const struct route routes[] = {
#include "server/routes.def"
};
#undef ROUTE

const size_t routes_len = sizeof routes / sizeof *routes;

#include "base/banned.h"

int request_route(struct request *rq)
{
    char allow[ROUTER_ALLOW_MAX];

    if (router_match(rq->server->router, rq->method, &rq->url, &rq->match) < 0)
        return refuse_no_memory(rq);
    rq->route = rq->match.route;
    if (rq->route)
        return 0;
    rq->route = rq->match.any; /* for the log, and for authentication */
    if (!rq->route)
        return refuse(rq, PROBLEM_NO_SUCH_ROUTE,
                      "there is no route at this path; GET /docs lists all routes");
    if (rq->method == METHOD_OPTIONS)
        return 0;
    methods_to_allow(rq->match.methods, allow);
    return refuse(rq, PROBLEM_METHOD_NOT_ALLOWED,
                  "this path does not support the method; it allows %s", allow);
}
