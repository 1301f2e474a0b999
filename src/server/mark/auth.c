/*
 * Mark's accounts over HTTP. What a handler reads here is secret: nothing of a body is logged, and
 * the body is wiped when the handler is done with it.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/text/percent.h"
#include "base/text/utf8.h"
#include "mark/mark.h"
#include "server/mark/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define FORM_BYTES_MAX 16384
#define USER_PREFIX    "user-"

/* ---- where a request comes from ---- */

/* What a proxy on this machine says about its client; NULL: there is no such proxy. Proxies append
 * to the list, or add a header, so the last entry of the last one is theirs and the others may be
 * anybody's. */
struct forwarded {
    const char *last;
    bool any;
};

static enum MHD_Result look_at_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct forwarded *forwarded = cls;

    (void) kind;
    if (strcasecmp(name, "X-Forwarded-For") == 0)
        forwarded->last = value;
    if (strncasecmp(name, "X-Forwarded-", 12) == 0 || strcasecmp(name, "Forwarded") == 0 ||
        strcasecmp(name, "X-Real-IP") == 0 || strcasecmp(name, "Via") == 0)
        forwarded->any = true;
    return MHD_YES;
}

/* One name for all that one client can easily have: of IPv6 a network of 64 bits. */
static void name_v6(const struct in6_addr *addr, char buf[INET6_ADDRSTRLEN])
{
    struct in6_addr net = *addr;

    if (IN6_IS_ADDR_V4MAPPED(addr)) {
        (void) inet_ntop(AF_INET, &addr->s6_addr[12], buf, INET6_ADDRSTRLEN);
        return;
    }
    memset(&net.s6_addr[8], 0, 8);
    (void) inet_ntop(AF_INET6, &net, buf, INET6_ADDRSTRLEN);
}

static bool name_text(const char *text, char buf[INET6_ADDRSTRLEN])
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr v6;
    struct in_addr v4;

    if (strlen(text) >= sizeof copy)
        return false;
    (void) snprintf(copy, sizeof copy, "%s", text);
    copy[strcspn(copy, " \t")] = '\0';
    if (inet_pton(AF_INET, copy, &v4) == 1)
        return inet_ntop(AF_INET, &v4, buf, INET6_ADDRSTRLEN) != NULL;
    if (inet_pton(AF_INET6, copy, &v6) != 1)
        return false;
    name_v6(&v6, buf);
    return true;
}

static bool is_loopback(const struct sockaddr_storage *addr)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) addr;

    if (addr->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *) addr)->sin_addr.s_addr) >> 24 == 127;
    return addr->ss_family == AF_UNIX ||
           (addr->ss_family == AF_INET6 &&
            (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
             (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127)));
}

static void read_peer(const struct request *rq, struct auth_peer *ret)
{
    struct forwarded forwarded = { 0 };
    struct sockaddr_storage addr = { 0 };
    socklen_t len = sizeof addr;
    const char *comma;

    _Static_assert(sizeof ret->address >= INET6_ADDRSTRLEN, "every address fits");
    *ret = (struct auth_peer){ 0 };
    (void) MHD_get_connection_values(rq->mhd, MHD_HEADER_KIND, look_at_header, &forwarded);
    if (getpeername(request_socket(rq), (struct sockaddr *) &addr, &len) < 0)
        return;
    if (addr.ss_family == AF_INET)
        (void) inet_ntop(AF_INET, &((struct sockaddr_in *) &addr)->sin_addr, ret->address,
                         sizeof ret->address);
    else if (addr.ss_family == AF_INET6)
        name_v6(&((struct sockaddr_in6 *) &addr)->sin6_addr, ret->address);
    if (!is_loopback(&addr))
        return;
    /* Behind a proxy, and by a name that leads here from elsewhere, it is not this machine. */
    ret->loopback = !forwarded.any && (rq->listener->spec.is_unix || request_host_is_loopback(rq));
    if (!forwarded.last)
        return;
    comma = strrchr(forwarded.last, ',');
    comma = comma ? comma + 1 : forwarded.last;
    (void) name_text(comma + strspn(comma, " \t"), ret->address);
}

/* ---- what the handlers share ---- */

/* The accounts; NULL: the reply has been sent. */
static struct auth *accounts(struct request *rq)
{
    if (rq->server->config.mark)
        return mark_auth(rq->server->config.mark);
    reply_problem(rq, PROBLEM_MARK_OFF, "this service runs without Mark (--mark off)");
    return NULL;
}

/* The id of the user who calls; NULL: it is a key, and the reply has been sent. */
static const char *user_of(struct request *rq)
{
    if (rq->caller.principal.kind == PRINCIPAL_USER)
        return rq->caller.principal.id + sizeof USER_PREFIX - 1;
    reply_problem(rq, PROBLEM_SIGN_IN_NEEDED,
                  "an API key has no account; sign in with POST /auth/signin and send the access "
                  "token");
    return NULL;
}

/* One line for what happened to an account: for those who look for guessing. Never an address of a
 * mailbox, which may be mistyped, or even be the password. */
static void tell(const struct request *rq, const struct auth_peer *peer, const char *what,
                 const char *user_id, const struct fault *fault)
{
    log_event(fault ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "account", LOG_TEXT("id", rq->id),
              LOG_TEXT("action", what), LOG_TEXT("user", user_id),
              LOG_TEXT("address", peer->address[0] ? peer->address : "local"),
              LOG_TEXT("problem", fault ? fault->type : NULL));
}

static void wipe(struct request *rq)
{
    if (rq->body)
        explicit_bzero(rq->body, rq->body_size);
}

/* Replies with @json, which it takes, or with the fault. */
static void finish(struct request *rq, const struct auth_peer *peer, const char *what, int r,
                   int status, json_t *json, const struct fault *fault)
{
    wipe(rq);
    tell(rq, peer, what, json_string_value(json_object_get(json, "user_id")), r < 0 ? fault : NULL);
    if (r < 0)
        reply_fault(rq, fault);
    else
        reply_json(rq, status, json);
}

/* ---- the form of OAuth2 ---- */

/* curl -d says that every body is a form; one that begins like an object is JSON, as for all other
 * routes. */
static bool is_form(const struct request *rq)
{
    static const char form[] = "application/x-www-form-urlencoded";
    const char *type = rq->headers.content_type;
    size_t blank = 0;

    while (blank < rq->body_len && strchr(" \t\r\n", rq->body[blank]) && rq->body[blank])
        blank++;
    return type && strncasecmp(type, form, sizeof form - 1) == 0 &&
           strchr("; \t", type[sizeof form - 1]) &&
           !(blank < rq->body_len && rq->body[blank] == '{');
}

/* Decodes @text in place; false if it has a bad escape, a NUL, or is not UTF-8. */
static bool form_decode(char *text)
{
    char *to = text;

    for (const char *from = text; *from; to++) {
        int byte = (unsigned char) *from;

        if (byte == '%') {
            byte = percent_byte(from, strlen(from));
            from += 2;
        } else if (byte == '+') {
            byte = ' ';
        }
        if (byte <= 0)
            return false;
        *to = (char) byte;
        from++;
    }
    *to = '\0';
    return utf8_valid(text, (size_t) (to - text));
}

/* Cuts the field at *@at; -1 if it is malformed, 0 at the end. */
static int form_next(char **at, const char **ret_name, const char **ret_value)
{
    char *field = strsep(at, "&"), *value;

    if (!field)
        return 0;
    value = strchr(field, '=');
    if (value)
        *value++ = '\0';
    if (!form_decode(field) || (value && !form_decode(value)))
        return -1;
    *ret_name = field;
    *ret_value = value ? value : "";
    return 1;
}

/* As in RFC 6749, 4.3.2: fields that mean nothing here are ignored, and none may come twice. */
static int read_form(struct request *rq, struct body_signin *ret)
{
    const char *name, *value, *grant = NULL;
    char *at = rq->body;
    int r = 1;

    *ret = (struct body_signin){ 0 };
    if (rq->body_len > FORM_BYTES_MAX) {
        reply_problem(rq, PROBLEM_BODY_TOO_LARGE, "the form has more than %d bytes",
                      FORM_BYTES_MAX);
        return -1;
    }
    if (at)
        at[rq->body_len] = '\0'; /* grow_body() has room for it */
    if (at && strlen(at) != rq->body_len)
        r = -1;
    while (r > 0 && (r = form_next(&at, &name, &value)) > 0) {
        const char **slot = strcmp(name, "username") == 0     ? &ret->email
                            : strcmp(name, "password") == 0   ? &ret->password
                            : strcmp(name, "grant_type") == 0 ? &grant
                                                              : NULL;

        if (slot && *slot)
            r = -1;
        else if (slot)
            *slot = value;
    }
    if (r < 0)
        reply_problem(rq, PROBLEM_BAD_REQUEST, "the form is malformed, or has a field twice");
    else if (grant && strcmp(grant, "password") != 0)
        reply_problem(rq, PROBLEM_BAD_REQUEST, "grant_type must be password");
    else if (!ret->email || !ret->password)
        reply_problem(rq, PROBLEM_INVALID_REQUEST, "the form needs username and password");
    else
        return 0;
    return -1;
}

/* ---- handlers ---- */

void mark_signup(struct request *rq)
{
    struct auth *auth = accounts(rq);
    struct fault fault = { 0 };
    struct auth_peer peer;
    struct body_signup body;
    json_t *json = NULL;
    int r;

    if (!auth || request_json(rq, &body) < 0)
        return;
    read_peer(rq, &peer);
    r = auth_sign_up(auth, &peer, body.email, body.password, body.name, body.invitation, &json,
                     &fault);
    finish(rq, &peer, "signup", r, MHD_HTTP_CREATED, json, &fault);
}

/* Where even this machine needs a key, being a guest is no way around it. */
static bool has_guests(const struct request *rq)
{
    struct mark *mark = rq->server->config.mark;

    return mark && !rq->listener->needs_key && llm_model_demo(mark_models(mark));
}

void mark_guest(struct request *rq)
{
    struct auth *auth = accounts(rq);
    struct fault fault = { 0 };
    struct auth_peer peer;
    json_t *json = NULL;
    int r;

    if (!auth)
        return;
    read_peer(rq, &peer);
    if (has_guests(rq))
        r = auth_guest(auth, &peer, &json, &fault);
    else
        r = fault_set(&fault, PROBLEM_GUESTS_CLOSED, NULL, "%s",
                      rq->listener->needs_key ? "this address needs a key, from guests too"
                                              : "guests use the demo model, and there is none");
    finish(rq, &peer, "guest", r, MHD_HTTP_CREATED, json, &fault);
}

void mark_auth_state(struct request *rq)
{
    struct mark *mark = rq->server->config.mark;
    struct auth_state state = { .signup = "closed" };
    struct auth_peer peer;

    read_peer(rq, &peer);
    if (mark)
        auth_get_state(mark_auth(mark), &peer, &state);
    reply_json(rq, MHD_HTTP_OK,
               json_pack("{s:s,s:b,s:s,s:b,s:b,s:b}", "mark", mark_state(mark), "accounts",
                         state.accounts, "signup", state.signup, "first", state.first, "guest",
                         state.guest && has_guests(rq), "authentication", rq->listener->needs_key));
}

void mark_signin(struct request *rq)
{
    struct auth *auth = accounts(rq);
    struct fault fault = { 0 };
    struct auth_peer peer;
    struct body_signin body;
    json_t *json = NULL;
    int r;

    if (!auth || (is_form(rq) ? read_form(rq, &body) : request_json(rq, &body)) < 0)
        return;
    read_peer(rq, &peer);
    r = auth_sign_in(auth, &peer, body.email, body.password, &json, &fault);
    finish(rq, &peer, "signin", r, MHD_HTTP_OK, json, &fault);
}

void mark_refresh(struct request *rq)
{
    struct auth *auth = accounts(rq);
    struct fault fault = { 0 };
    struct auth_peer peer;
    struct body_refresh body;
    json_t *json = NULL;
    int r;

    if (!auth || request_json(rq, &body) < 0)
        return;
    read_peer(rq, &peer);
    r = auth_refresh(auth, body.refresh_token, &json, &fault);
    finish(rq, &peer, "refresh", r, MHD_HTTP_OK, json, &fault);
}

void mark_signout(struct request *rq)
{
    struct auth *auth = accounts(rq);
    struct fault fault = { 0 }, later = { 0 };
    struct body_refresh body;
    char guest[STORE_ID_MAX];
    bool is_guest;

    if (!auth || request_json(rq, &body) < 0)
        return;
    is_guest = auth_guest_of(auth, body.refresh_token, guest);
    if (auth_sign_out(auth, body.refresh_token, &fault) < 0) {
        reply_fault(rq, &fault);
    } else {
        /* One that cannot be removed now is removed when its day is over. */
        if (is_guest && mark_delete_user(rq->server->config.mark, guest, &later) < 0)
            log_event(LOG_LEVEL_WARNING, "account", LOG_TEXT("id", rq->id),
                      LOG_TEXT("action", "signout"), LOG_TEXT("user", guest),
                      LOG_TEXT("problem", later.detail));
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
    }
    wipe(rq);
}

void mark_me(struct request *rq)
{
    const char *id = user_of(rq);
    struct fault fault = { 0 };
    json_t *json = NULL;

    if (!id)
        return;
    if (auth_me(accounts(rq), id, &json, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
}

void mark_me_change(struct request *rq)
{
    const char *id = user_of(rq);
    struct fault fault = { 0 };
    struct auth_peer peer;
    struct body_me_change body;
    json_t *json = NULL;
    int r;

    if (!id || request_json(rq, &body) < 0)
        return;
    read_peer(rq, &peer);
    r = auth_change(accounts(rq), &peer, id, body.name, body.password, body.current_password, &json,
                    &fault);
    finish(rq, &peer, body.password ? "password" : "rename", r, MHD_HTTP_OK, json, &fault);
}

/* ---- deletion ---- */

void mark_me_delete(struct request *rq)
{
    const char *id = user_of(rq);
    struct fault fault = { 0 };
    struct auth_peer peer;
    struct body_me_delete body;
    int r;

    if (!id || request_json(rq, &body) < 0)
        return;
    read_peer(rq, &peer);
    r = auth_check_password(accounts(rq), &peer, id, body.current_password, &fault);
    if (r == 0)
        r = mark_delete_user(rq->server->config.mark, id, &fault);
    wipe(rq);
    tell(rq, &peer, "delete", id, r < 0 ? &fault : NULL);
    if (r < 0)
        reply_fault(rq, &fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
}
