/*
 * Who may use the service: checks the name in Host, the web page behind the request, and the key or
 * the access token of Mark.
 *
 * A browser sends the page's origin, the host it was told to connect to, and how the two relate; a
 * page from elsewhere that drives us fails on at least one of them, with DNS rebinding on the host
 * name. authenticate_host() is called before a route is looked up, authenticate_caller() after.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/parse.h"
#include "mark/mark.h"
#include "server/server_internal.h"

#include "base/banned.h"

/* ---- Host ---- */

/* The name in a Host header or an origin: without the port and the brackets, otherwise
 * unchanged. */
static int host_name(const char *text, char buf[LISTEN_NAME_MAX])
{
    const char *end;
    size_t len;

    if (text[0] == '[') {
        end = strchr(text, ']');
        text++;
        if (!end || (end[1] != '\0' && end[1] != ':'))
            return -EINVAL;
        len = (size_t) (end - text);
        end++;
    } else {
        len = strcspn(text, ":");
        end = text + len;
    }
    if (len == 0 || len >= LISTEN_NAME_MAX)
        return -EINVAL;
    if (*end == ':' && end[1 + strspn(end + 1, "0123456789")] != '\0')
        return -EINVAL;
    memcpy(buf, text, len);
    buf[len] = '\0';
    if (buf[len - 1] == '.' && len > 1)
        buf[len - 1] = '\0'; /* example.com. is the same name */
    return 0;
}

static bool is_loopback_name(const char *name)
{
    struct listen_spec spec = { 0 };

    snprintf(spec.host, sizeof spec.host, "%s", name);
    return listen_is_local(&spec);
}

/* Whether @name is, in digits, the local address of this very connection. */
static bool is_own_address(const struct request *rq, const char *name)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    struct in6_addr v6;
    struct in_addr v4;

    if (getsockname(request_socket(rq), (struct sockaddr *) &addr, &len) < 0)
        return false;
    if (addr.ss_family == AF_INET && inet_pton(AF_INET, name, &v4) == 1)
        return memcmp(&v4, &((struct sockaddr_in *) &addr)->sin_addr, sizeof v4) == 0;
    if (addr.ss_family == AF_INET6 && inet_pton(AF_INET6, name, &v6) == 1)
        return memcmp(&v6, &((struct sockaddr_in6 *) &addr)->sin6_addr, sizeof v6) == 0;
    return false;
}

static bool is_allowed_host(const struct request *rq, const char *name)
{
    char *const *more = rq->server->config.allowed_hosts;

    if (is_loopback_name(name) || strcasecmp(name, rq->listener->host) == 0)
        return true;
    for (; more && *more; more++)
        if (strcasecmp(*more, name) == 0 || strcmp(*more, "*") == 0)
            return true;
    return is_own_address(rq, name);
}

bool request_host_is_loopback(const struct request *rq)
{
    char name[LISTEN_NAME_MAX];

    return rq->headers.host && host_name(rq->headers.host, name) == 0 && is_loopback_name(name);
}

int authenticate_host(struct request *rq)
{
    char name[LISTEN_NAME_MAX], quoted[FORMAT_QUOTED_MAX];

    if (!rq->headers.host)
        return refuse(rq, PROBLEM_NO_HOST, "send a Host header");
    /* Browsers do not use Unix sockets, and there is no name to compare with. */
    if (rq->listener->spec.is_unix)
        return 0;
    if (host_name(rq->headers.host, name) < 0)
        return refuse(rq, PROBLEM_BAD_HOST,
                      "the Host header must be a name or address, with :PORT or without");
    if (is_allowed_host(rq, name))
        return 0;
    format_quoted(name, quoted);
    return refuse(rq, PROBLEM_HOST_NOT_ALLOWED,
                  "the Host header names %s, which is not allowed; use the address that the server "
                  "listens on, or start it with --allowed-host NAME",
                  quoted);
}

/* ---- web pages ---- */

static int check_origin(struct request *rq)
{
    const char *origin = rq->headers.origin, *site = rq->headers.fetch_site;
    const char *rest;
    bool page = rq->route && rq->route->auth == ROUTE_PAGE && rq->headers.fetch_mode &&
                strcmp(rq->headers.fetch_mode, "navigate") == 0;

    if (site && strcmp(site, "none") != 0 && strcmp(site, "same-origin") != 0 && !page)
        return refuse(rq, PROBLEM_CROSS_SITE,
                      "web pages of other sites may not use this service; call it from a program");
    if (!origin)
        return 0;
    rest = strncmp(origin, "http://", 7) == 0    ? origin + 7
           : strncmp(origin, "https://", 8) == 0 ? origin + 8
                                                 : NULL;
    if (rest && rq->headers.host && strcasecmp(rest, rq->headers.host) == 0)
        return 0;
    return refuse(rq, PROBLEM_CROSS_ORIGIN,
                  "the Origin header names another site; call this service from a program");
}

/* ---- keys and access tokens ---- */

#define SOCKET_TOKEN_MAX 2048 /* with its NUL */
#define USER_PREFIX      "user-"

static const char *token_of(const struct request *rq)
{
    const char *authorization = rq->headers.authorization;

    if (!authorization)
        return rq->headers.api_key;
    if (strncasecmp(authorization, "Bearer ", 7) != 0)
        return "";
    return authorization + 7 + strspn(authorization + 7, " ");
}

/* The token of a web page that opens a WebSocket, where it cannot set a header; NULL: none. */
static int socket_token(struct request *rq, char buf[SOCKET_TOKEN_MAX], const char **ret_token)
{
    int r = 0;

    if (rq->route->flags & ROUTE_SOCKET)
        r = ws_hello_bearer(rq->headers.ws_protocol, buf, SOCKET_TOKEN_MAX);
    if (r < 0)
        return refuse(rq, PROBLEM_BAD_HANDSHAKE,
                      "offer one subprotocol " WS_PROTOCOL_BEARER "TOKEN at most");
    *ret_token = r > 0 ? buf : NULL;
    return 0;
}

_Static_assert(STORE_LIMIT_DEFAULT == -1, "the same value means the default in both");

/* Somebody that we know, and who is not an operator. */
static int refuse_stranger(struct request *rq)
{
    return refuse(rq, PROBLEM_NOT_OPERATOR,
                  "only the account of an operator may do this; sign in as one");
}

static int authenticate_key(struct request *rq, const char *token)
{
    struct keys_info key;
    struct gb_err err = { 0 };
    int r =
        rq->server->config.keys ? keys_verify(rq->server->config.keys, token, &key, &err) : -EACCES;

    if (r == -EACCES)
        return refuse(rq, PROBLEM_KEY_UNKNOWN, "this key is unknown or was revoked");
    if (r < 0)
        return refuse(rq, PROBLEM_KEYS_UNAVAILABLE,
                      "keys cannot be checked at the moment; retry later");
    (void) principal_from_key(key.id, &rq->caller.principal); /* an id always fits */
    rq->caller.limits.sessions = key.sessions;
    rq->caller.limits.in_flight = key.executions;
    rq->caller.limits.rate_per_minute = key.rate_per_minute;
    return rq->route->auth == ROUTE_OPERATOR ? refuse_stranger(rq) : 0;
}

/* A user has the quotas of a key without its own, a guest smaller ones. */
static int authenticate_user(struct request *rq, const char *token)
{
    struct auth_user user;
    struct fault fault = { 0 };

    if (auth_verify(mark_auth(rq->server->config.mark), token, &user, &fault) < 0)
        return refuse_fault(rq, &fault);
    (void) principal_from_user(user.id, &rq->caller.principal);
    rq->user_stamp = user.stamp;
    if (user.is_guest) {
        rq->caller.is_guest = true;
        rq->caller.limits = (struct key_limits){ .sessions = AUTH_GUEST_SESSIONS,
                                                 .in_flight = AUTH_GUEST_EXECUTIONS,
                                                 .rate_per_minute = AUTH_GUEST_RATE };
    }
    return rq->route->auth == ROUTE_OPERATOR && !user.is_operator ? refuse_stranger(rq) : 0;
}

/* There is no token. */
static int authenticate_nobody(struct request *rq)
{
    /* Which methods a path has is no secret where a route without an account could be used. */
    if (rq->method == METHOD_OPTIONS && !rq->listener->needs_key)
        return 0;
    if (rq->route->auth == ROUTE_OPERATOR)
        return refuse(rq, PROBLEM_SIGN_IN_NEEDED,
                      "sign in as an operator with POST /auth/signin and send the access token: "
                      "Authorization: Bearer TOKEN");
    if (rq->route->auth == ROUTE_MARK)
        return auth_any(mark_auth(rq->server->config.mark))
                   ? refuse(rq, PROBLEM_SIGN_IN_NEEDED,
                            "sign in with POST /auth/signin and send the access token: "
                            "Authorization: Bearer TOKEN; or send an API key")
                   : refuse(rq, PROBLEM_SIGN_IN_NEEDED,
                            "nobody has an account yet: create the first with POST /auth/signup "
                            "(email, password) and send the access token: Authorization: Bearer "
                            "TOKEN; or send an API key");
    if (!rq->listener->needs_key || rq->route->auth != ROUTE_KEY)
        return 0;
    return refuse(rq, PROBLEM_KEY_NEEDED,
                  "send a key: Authorization: Bearer KEY, or X-API-Key: KEY; the operator creates "
                  "one with: glovebox key create");
}

/* With the @token that came with the request, or without one (NULL). */
static int authenticate_token(struct request *rq, const char *token)
{
    if (!token)
        return authenticate_nobody(rq);
    if (rq->route->auth == ROUTE_OPEN || rq->route->auth == ROUTE_PAGE)
        return 0;
    return rq->server->config.mark && auth_is_access_token(token) ? authenticate_user(rq, token)
                                                                  : authenticate_key(rq, token);
}

int authenticate_caller(struct request *rq)
{
    char offered[SOCKET_TOKEN_MAX] = "";
    const char *token = token_of(rq);
    int r;

    rq->caller = (struct caller){ .listener = rq->listener->url, .limits = { -1, -1, -1 } };
    if (rq->route->auth == ROUTE_ASSET)
        return 0;
    if (check_origin(rq) < 0)
        return -1;
    if ((rq->route->auth == ROUTE_MARK || rq->route->auth == ROUTE_OPERATOR) &&
        !rq->server->config.mark)
        return refuse(rq, PROBLEM_MARK_OFF, "this service runs without Mark (--mark off)");
    if (!token && socket_token(rq, offered, &token) < 0)
        return -1;
    r = authenticate_token(rq, token);
    explicit_bzero(offered, sizeof offered);
    return r;
}

bool authenticate_stands(const struct request *rq)
{
    const struct server_config *config = &rq->server->config;
    const struct principal *principal = &rq->caller.principal;

    switch (principal->kind) {
    case PRINCIPAL_LOCAL:
        break;
    case PRINCIPAL_KEY:
        return keys_stands(config->keys, principal->id);
    case PRINCIPAL_USER:
        return auth_stands(mark_auth(config->mark), principal->id + strlen(USER_PREFIX),
                           rq->user_stamp);
    }
    return true;
}
