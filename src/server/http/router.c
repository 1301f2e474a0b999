/* The router: patterns of routes.def against the decoded parts of a path, one after the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/handlers.h"
#include "server/schema/schemas.h"
#include "server/server_internal.h"

#define GET    METHOD_GET
#define POST   METHOD_POST
#define PUT    METHOD_PUT
#define DELETE METHOD_DELETE

#define ROUTE(method_, pattern_, handler_, ...)                                                    \
    { .method = (method_),                                                                         \
      .pattern = (pattern_),                                                                       \
      .handle = handler_,                                                                          \
      .name = #handler_,                                                                           \
      __VA_ARGS__ },
const struct route routes[] = {
#include "server/http/routes.def"
};
#undef ROUTE

const size_t routes_len = sizeof routes / sizeof *routes;

#include "base/banned.h"

/* What a pattern's braces stand for. */
struct match {
    const char *id;
    const char *rest;
    size_t rest_parts;
};

static bool match_pattern(const char *pattern, const struct url *url, struct match *match)
{
    const char *part = url->parts;
    size_t left = url->parts_len;

    for (; *pattern == '/' && pattern[1]; part = url_next_part(part), left--) {
        size_t len = strcspn(++pattern, "/");

        if (left == 0)
            return false;
        if (len == 6 && pattern[len] == '\0' &&
            (strncmp(pattern, "{path}", len) == 0 || strncmp(pattern, "{name}", len) == 0)) {
            match->rest = part;
            match->rest_parts = left;
            return true;
        }
        if (pattern[0] == '{')
            match->id = part;
        else if (strlen(part) != len || strncmp(pattern, part, len) != 0)
            return false;
        pattern += len;
    }
    return left == 0;
}

/* Copies without the end; gives the place behind. */
static char *copy_part(char *to, const char *part)
{
    while (*part)
        *to++ = *part++;
    return to;
}

/* The parts of {path} or {name} with slashes between. */
static char *join_rest(const struct match *match)
{
    const char *part = match->rest;
    size_t len = 1, used = 0; /* of nothing there is an end, too */
    char *path;

    for (size_t i = 0; i < match->rest_parts; i++, part = url_next_part(part))
        len += strlen(part) + 1;
    path = calloc(1, len);
    part = match->rest;
    for (size_t i = 0; path && i < match->rest_parts; i++, part = url_next_part(part)) {
        used = (size_t) (copy_part(path + used, part) - path);
        path[used++] = i + 1 < match->rest_parts ? '/' : '\0';
    }
    return path;
}

/* HEAD is served wherever GET is. */
static unsigned methods_of(const struct route *route)
{
    return route->method == METHOD_GET ? METHOD_GET | METHOD_HEAD : route->method;
}

void router_allow(const struct request *rq, char buf[64])
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = { { METHOD_GET, "GET, " },
                  { METHOD_HEAD, "HEAD, " },
                  { METHOD_POST, "POST, " },
                  { METHOD_PUT, "PUT, " },
                  { METHOD_DELETE, "DELETE, " } };
    unsigned methods = 0;
    struct match match;
    size_t used = 0;

    for (size_t i = 0; i < routes_len; i++)
        if (match_pattern(routes[i].pattern, &rq->url, &match))
            methods |= methods_of(&routes[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (methods & names[i].bit)
            used += (size_t) snprintf(buf + used, 64 - used, "%s", names[i].name);
    snprintf(buf + used, 64 - used, "OPTIONS");
}

int router_find(struct request *rq)
{
    const struct route *other = NULL;
    char allow[64];

    for (size_t i = 0; i < routes_len; i++) {
        struct match match = { 0 };

        if (!match_pattern(routes[i].pattern, &rq->url, &match))
            continue;
        other = &routes[i];
        if (!(methods_of(other) & rq->method))
            continue;
        rq->route = other;
        rq->param_id = match.id;
        if (match.rest) {
            rq->path = join_rest(&match);
            if (!rq->path)
                return refuse_no_memory(rq);
        }
        return 0;
    }
    if (!other)
        return refuse(rq, PROBLEM_NO_SUCH_ROUTE,
                      "there is nothing at this path; GET /docs shows what there is");
    rq->route = other; /* for the log, and for who may ask */
    if (rq->method == METHOD_OPTIONS)
        return 0;
    router_allow(rq, allow);
    return refuse(rq, PROBLEM_METHOD_NOT_ALLOWED, "this path has no such method; it takes %s",
                  allow);
}
