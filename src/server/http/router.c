#include "server/http/router.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

struct node {
    const char *text; /* of a literal part, in its pattern */
    size_t len;
    struct node *literals, *param, *rest; /* children; literals are a list */
    struct node *next;                    /* the next literal */
    const struct route *routes[METHODS];
};

struct router {
    struct node root;
};

/* ---- methods ---- */

static const char *const method_names[METHODS] = { "GET",   "HEAD",   "POST",   "PUT",
                                                   "PATCH", "DELETE", "OPTIONS" };
_Static_assert(METHOD_OPTIONS == 1 << (METHODS - 1), "method_names follow enum method");

enum method method_from_name(const char *name)
{
    for (size_t i = 0; i < METHODS; i++)
        if (strcmp(method_names[i], name) == 0)
            return (enum method)(1 << i);
    return METHOD_OTHER;
}

static size_t method_index(enum method method)
{
    return (size_t) __builtin_ctz((unsigned) method);
}

const char *method_name(enum method method)
{
    return method_names[method_index(method)];
}

void methods_to_allow(unsigned methods, char buf[ROUTER_ALLOW_MAX])
{
    size_t used = 0;

    for (size_t i = 0; i + 1 < METHODS; i++)
        if (methods & (1u << i))
            used += (size_t) snprintf(buf + used, ROUTER_ALLOW_MAX - used, "%s, ", method_names[i]);
    snprintf(buf + used, ROUTER_ALLOW_MAX - used, "OPTIONS");
}

/* ---- building the tree ---- */

/* The part of a pattern at @at: its length, and the position after its slash in *@at. */
static size_t next_part(const char **at, const char **ret_part)
{
    size_t len = strcspn(*at, "/");

    *ret_part = *at;
    *at += len + ((*at)[len] == '/');
    return len;
}

static bool is_param(const char *part)
{
    return part[0] == '{';
}

static bool is_part_valid(const char *part, size_t len)
{
    size_t braces = 0;

    for (size_t i = 0; i < len; i++)
        braces += part[i] == '{' || part[i] == '}';
    if (braces == 0)
        return len > 0;
    return braces == 2 && len > 2 && part[0] == '{' && part[len - 1] == '}';
}

static struct node *add_child(struct node **slot)
{
    if (!*slot)
        *slot = calloc(1, sizeof **slot);
    return *slot;
}

static struct node *add_literal(struct node *parent, const char *text, size_t len)
{
    struct node **slot = &parent->literals;

    while (*slot && ((*slot)->len != len || memcmp((*slot)->text, text, len) != 0))
        slot = &(*slot)->next;
    if (add_child(slot)) {
        (*slot)->text = text;
        (*slot)->len = len;
    }
    return *slot;
}

static int check_pattern(const struct route *route, struct gb_err *err)
{
    const char *at = route->pattern + 1, *part = NULL, *names[ROUTE_PARAMS_MAX];
    size_t params = 0, lens[ROUTE_PARAMS_MAX], len = 0;

    if (route->pattern[0] != '/')
        return gb_fail_plain(err, EINVAL, "route %s: begin with a slash", route->pattern);
    while (*at) {
        len = next_part(&at, &part);
        if (!is_part_valid(part, len))
            return gb_fail_plain(err, EINVAL, "route %s: a part is malformed", route->pattern);
        if (!is_param(part))
            continue;
        for (size_t i = 0; i < params; i++)
            if (lens[i] == len && memcmp(names[i], part, len) == 0)
                return gb_fail_plain(err, EINVAL, "route %s: %.*s occurs twice", route->pattern,
                                     (int) len, part);
        if (params == ROUTE_PARAMS_MAX)
            return gb_fail_plain(err, EINVAL, "route %s: more than %d parameters", route->pattern,
                                 ROUTE_PARAMS_MAX);
        names[params] = part;
        lens[params++] = len;
    }
    if (route->flags & ROUTE_REST && (!part || !is_param(part)))
        return gb_fail_plain(err, EINVAL, "route %s: no parameter at its end", route->pattern);
    return 0;
}

static int add_route(struct router *router, const struct route *route, struct gb_err *err)
{
    const char *at = route->pattern + 1, *part;
    struct node *node = &router->root;
    int r = check_pattern(route, err);

    if (r < 0)
        return r;
    while (node && *at) {
        size_t len = next_part(&at, &part);

        if (!is_param(part))
            node = add_literal(node, part, len);
        else
            node = add_child(!*at && route->flags & ROUTE_REST ? &node->rest : &node->param);
    }
    if (!node)
        return gb_fail(err, ENOMEM, "create the router");
    if (node->routes[method_index(route->method)])
        return gb_fail_plain(err, EEXIST, "route %s %s: there are two", method_name(route->method),
                             route->pattern);
    node->routes[method_index(route->method)] = route;
    return 0;
}

int router_new(const struct route *table, size_t len, struct router **ret_router,
               struct gb_err *err)
{
    struct router *router = calloc(1, sizeof *router);
    int r = router ? 0 : gb_fail(err, ENOMEM, "create the router");

    for (size_t i = 0; r == 0 && i < len; i++)
        r = add_route(router, &table[i], err);
    if (r < 0) {
        router_free(router);
        return r;
    }
    *ret_router = router;
    return 0;
}

/* The recursion is as deep as the longest pattern has parts. */
static void free_children(struct node *node)
{
    struct node *children[] = { node->literals, node->param, node->rest };

    for (size_t i = 0; i < sizeof children / sizeof *children; i++)
        for (struct node *child = children[i], *next; child; child = next) {
            next = child->next;
            free_children(child);
            free(child);
        }
}

void router_free(struct router *router)
{
    if (!router)
        return;
    free_children(&router->root);
    free(router);
}

/* ---- finding ---- */

/* A path ends at @node. */
static void take_node(const struct node *node, enum method method, struct route_match *match)
{
    for (size_t i = 0; i < METHODS; i++) {
        if (!node->routes[i])
            continue;
        match->methods |= 1u << i;
        if (!match->any)
            match->any = node->routes[i];
    }
    if (match->methods & METHOD_GET) /* HEAD is supported wherever GET is */
        match->methods |= METHOD_HEAD;
    if (method == METHOD_HEAD)
        method = METHOD_GET;
    if (method != METHOD_OTHER)
        match->route = node->routes[method_index(method)];
}

/* Continues after a dead end, because "/a/{x}/b" must be found although "/a/b/c" exists, and after
 * a path that has only other methods, which Allow must name. The recursion is as deep as the
 * longest pattern has parts. */
static void walk(const struct node *node, const char *part, size_t left, enum method method,
                 struct route_match *match)
{
    if (left == 0) {
        take_node(node, method, match);
        return;
    }
    for (const struct node *child = node->literals; child && !match->route; child = child->next)
        if (strncmp(part, child->text, child->len) == 0 && part[child->len] == '\0')
            walk(child, url_next_part(part), left - 1, method, match);
    if (node->param && !match->route)
        walk(node->param, url_next_part(part), left - 1, method, match);
    if (node->rest && !match->route)
        take_node(node->rest, method, match);
}

/* @left parts, separated by slashes. */
static char *join_parts(const char *part, size_t left)
{
    const char *end = part;
    char *path;

    for (size_t i = 0; i < left; i++)
        end = url_next_part(end);
    path = malloc((size_t) (end - part) + 1); /* no parts make an empty string */
    if (!path)
        return NULL;
    memcpy(path, part, (size_t) (end - part));
    path[end - part] = '\0';
    for (char *p = path; left > 1; left--) {
        p += strlen(p);
        *p++ = '/';
    }
    return path;
}

/* The values of the parameters of the route that was found. */
static int fill_params(const struct url *url, struct route_match *match)
{
    const char *at = match->route->pattern + 1, *part, *value = url->parts;

    for (size_t left = url->parts_len; *at; left--, value = url_next_part(value)) {
        size_t len = next_part(&at, &part);
        struct route_param *param = &match->params[match->params_len];

        if (!is_param(part))
            continue;
        match->params_len++;
        *param = (struct route_param){ part + 1, len - 2, value };
        if (!*at && match->route->flags & ROUTE_REST) {
            param->value = match->rest = join_parts(value, left);
            return match->rest ? 0 : -ENOMEM;
        }
    }
    return 0;
}

int router_match(const struct router *router, enum method method, const struct url *url,
                 struct route_match *ret_match)
{
    *ret_match = (struct route_match){ 0 };
    walk(&router->root, url->parts, url->parts_len, method, ret_match);
    return ret_match->route ? fill_params(url, ret_match) : 0;
}

void route_match_release(struct route_match *match)
{
    free(match->rest);
    *match = (struct route_match){ 0 };
}

const char *route_match_param(const struct route_match *match, const char *name)
{
    for (size_t i = 0; i < match->params_len; i++)
        if (strlen(name) == match->params[i].name_len &&
            memcmp(name, match->params[i].name, match->params[i].name_len) == 0)
            return match->params[i].value;
    return NULL;
}
