/*
 * One connection to a proxy, from the first byte of its request to the last of the reply.
 *
 * Theory of operation. A connection carries one request: CONNECT, which becomes a tunnel, or a
 * request in absolute form, which is forwarded with "Connection: close" and whose reply ends with
 * the connection. So nothing that follows a request can be mistaken for another, on either side.
 *
 *   head -> policy: may this name be asked for? -> addresses -> policy: may this address be used?
 *        -> connect to exactly those addresses -> (TLS, secrets) -> relay.c
 *
 * A refusal says what is wrong and which setting would help, in the body and in the reason of the
 * status line: most clients show nothing else of a failed CONNECT.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "egress/egress_internal.h"
#include "egress/head.h"
#include "egress/relay.h"

#include "base/banned.h"

#define LINGER_BYTES (1024 * 1024)
#define LINGER_US    (1 * USEC_PER_SEC)
#define WHY_MAX      400
#define OUT_MAX      (HEAD_MAX + 1024)

/* The state of one connection. */
struct visit {
    struct connection *c;
    char *buf; /* HEAD_MAX bytes */
    size_t len;
    struct request_head head;
    size_t head_len;
    uint16_t port; /* where it is really sent */
    const struct secret *secrets[SECRETS_MAX];
    size_t secrets_len;
    struct upstream up;
};

/* ---- our own answers ---- */

static int send_all(struct connection *c, const char *data, size_t len)
{
    int64_t deadline_us = clock_now_us() + c->proxy->limits.head_us;

    while (len > 0) {
        struct pollfd fds[2] = { { .fd = c->client, .events = POLLOUT } };
        ssize_t n = send(c->client, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        int r;

        if (n > 0) {
            data += n;
            len -= (size_t) n;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return -errno;
        } else if ((r = proxy_wait(c->proxy, fds, 1, deadline_us)) < 0) {
            return r;
        }
    }
    return 0;
}

/* Keeps reading for a moment: closing with unread bytes resets the connection, and the client would
 * lose the answer. */
static void linger(struct connection *c)
{
    int64_t deadline_us = clock_now_us() + LINGER_US;
    char bin[4096];

    (void) shutdown(c->client, SHUT_WR);
    for (size_t total = 0; total < LINGER_BYTES;) {
        struct pollfd fds[2] = { { .fd = c->client, .events = POLLIN } };
        ssize_t n = recv(c->client, bin, sizeof bin, MSG_DONTWAIT);

        if (n > 0)
            total += (size_t) n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR) ||
                 proxy_wait(c->proxy, fds, 1, deadline_us) < 0)
            return;
    }
}

static void answer(struct connection *c, int status, const char *why)
{
    char text[2 * WHY_MAX + 256];
    int len = snprintf(text, sizeof text,
                       "HTTP/1.1 %d %s\r\n"
                       "Content-Type: text/plain; charset=utf-8\r\n"
                       "Content-Length: %zu\r\n"
                       "Connection: close\r\n"
                       "\r\n"
                       "glovebox: %s\n",
                       status, why, strlen("glovebox: \n") + strlen(why), why);

    if (len > 0 && (size_t) len < sizeof text && send_all(c, text, (size_t) len) == 0)
        linger(c);
}

static void refuse(struct visit *v, int status, const char *why)
{
    proxy_note(v->c->proxy, &v->head.host, v->port, CONTACT_REFUSED, why);
    answer(v->c, status, why);
}

static void fail(struct visit *v, int status, const char *what)
{
    char why[WHY_MAX];

    (void) snprintf(why, sizeof why, "%s:%u: %s", v->head.host.text, v->port, what);
    proxy_note(v->c->proxy, &v->head.host, v->port, CONTACT_FAILED, what);
    answer(v->c, status, why);
}

/* ---- the head ---- */

/* 0 with a head, or -errno if an error was already sent or the client is gone. */
static int head_read(struct visit *v)
{
    struct connection *c = v->c;
    int64_t deadline_us = clock_now_us() + c->proxy->limits.head_us;
    const char *why = "";

    for (;;) {
        struct pollfd fds[2] = { { .fd = c->client, .events = POLLIN } };
        ssize_t n = recv(c->client, v->buf + v->len, HEAD_MAX - v->len, MSG_DONTWAIT);
        int r;

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return -EPIPE;
        if (n < 0) {
            r = proxy_wait(c->proxy, fds, 1, deadline_us);
            if (r == -ETIMEDOUT && v->len > 0)
                answer(c, 408, "timed out reading the request head");
            if (r < 0)
                return r;
            continue;
        }
        v->len += (size_t) n;
        r = request_head_parse(v->buf, v->len, &v->head, &why);
        if (r > 0) {
            v->head_len = (size_t) r;
            return 0;
        }
        if (r < 0) {
            atomic_fetch_add(&c->proxy->egress->failed, 1);
            answer(c, -r, why);
            return -EPROTO;
        }
    }
}

/* ---- may it? ---- */

static const struct rule *rule_find(struct visit *v)
{
    struct egress_proxy *proxy = v->c->proxy;
    const struct rule *rule;
    char why[WHY_MAX];
    bool hidden;

    rule = policy_match(proxy->policy, &v->head.host, v->port,
                        v->head.connect ? NULL : v->head.method, &hidden);
    if (rule)
        return rule;
    if (hidden && v->head.connect)
        (void) snprintf(why, sizeof why,
                        "%s:%u is allowed for certain methods only, which CONNECT would hide; add "
                        "it to %s without methods",
                        v->head.host.text, v->port, proxy->egress->allow_setting);
    else if (hidden)
        (void) snprintf(why, sizeof why, "%s is not among the methods allowed for %s:%u in %s",
                        v->head.method, v->head.host.text, v->port, proxy->egress->allow_setting);
    else
        (void) snprintf(why, sizeof why,
                        "%s:%u is not allowed; this box can only reach the hosts in %s",
                        v->head.host.text, v->port, proxy->egress->allow_setting);
    refuse(v, 403, why);
    return NULL;
}

/* Keeps the addresses that may be used; sends an error if none is left. */
static int addresses_check(struct visit *v, const struct rule *rule, struct address *addresses,
                           size_t *len)
{
    struct egress_proxy *proxy = v->c->proxy;
    char text[ADDRESS_TEXT_MAX] = "", why[WHY_MAX];
    const char *what = "";
    size_t kept = 0;

    for (size_t i = 0; i < *len; i++) {
        if (policy_permits(proxy->policy, rule, &addresses[i], &what))
            addresses[kept++] = addresses[i];
        else
            address_format(&addresses[i], text);
    }
    *len = kept;
    if (kept > 0)
        return 0;
    if (rule->kind == RULE_ANY)
        (void) snprintf(why, sizeof why,
                        "%s:%u is %s, %s, and '*' covers public addresses only; the operator can "
                        "name the host in %s and the address with %s",
                        v->head.host.text, v->port, text, what, proxy->egress->allow_setting,
                        proxy->egress->address_setting);
    else
        (void) snprintf(
            why, sizeof why, "%s:%u is %s, %s; only the operator can allow that, with %s %s",
            v->head.host.text, v->port, text, what, proxy->egress->address_setting, text);
    refuse(v, 403, why);
    return -EPERM;
}

static int reach(struct visit *v, const struct rule *rule)
{
    struct egress_proxy *proxy = v->c->proxy;
    int64_t deadline_us = clock_now_us() + proxy->limits.connect_us;
    struct address addresses[ADDRESSES_PER_NAME];
    const char *why;
    size_t len;
    int r = resolve_name(proxy, &v->head.host, deadline_us, addresses, &len);

    if (r < 0) {
        if (r != -ECANCELED)
            fail(v, r == -ETIMEDOUT ? 504 : 502,
                 r == -ENOENT ? "no such host name" : "the name server did not answer");
        return r;
    }
    if ((r = addresses_check(v, rule, addresses, &len)) < 0)
        return r;
    r = upstream_connect(proxy, addresses, len, v->port, deadline_us, &v->up);
    if (r < 0) {
        if (r != -ECANCELED)
            fail(v, r == -ETIMEDOUT ? 504 : 502,
                 r == -ETIMEDOUT ? "connection timed out" : strerrordesc_np(-r));
        return r;
    }
    if (v->secrets_len == 0)
        return 0;
    r = upstream_start_tls(proxy, &v->up, &v->head.host, deadline_us, &why);
    if (r < 0 && r != -ECANCELED)
        fail(v, 502, why);
    return r;
}

/* ---- and then ---- */

static int up_send(struct visit *v, const char *data, size_t len)
{
    struct egress_proxy *proxy = v->c->proxy;
    int64_t deadline_us = clock_now_us() + proxy->limits.idle_us;

    while (len > 0) {
        struct pollfd fds[2] = { { .fd = v->up.fd, .events = POLLOUT } };
        ssize_t n = upstream_write(&v->up, data, len);
        int r;

        if (n > 0) {
            data += n;
            len -= (size_t) n;
        } else if (n < 0 && n != -EAGAIN && n != -EINTR) {
            return (int) n;
        } else if ((r = proxy_wait(proxy, fds, 1, deadline_us)) < 0) {
            return r;
        }
    }
    return 0;
}

/* The request as it is sent to the server. The text contains secrets and is wiped. */
static int request_send(struct visit *v)
{
    struct head_extra extras[SECRETS_MAX + 1];
    size_t extras_len = 0, size = OUT_MAX;
    char *text;
    int n, r;

    for (size_t i = 0; i < v->secrets_len; i++) {
        extras[extras_len++] = (struct head_extra){ v->secrets[i]->header, v->secrets[i]->value,
                                                    v->secrets[i]->value_len };
        size += EGRESS_HEADER_MAX + v->secrets[i]->value_len + 4;
    }
    if (v->secrets_len > 0) /* otherwise mask.c could not read the reply */
        extras[extras_len++] = (struct head_extra){ "Accept-Encoding", "identity", 8 };
    text = malloc(size);
    if (!text)
        return -ENOMEM;
    n = request_head_write(&v->head, extras, extras_len, v->secrets_len > 0, text, size);
    r = n < 0 ? n : up_send(v, text, (size_t) n);
    (void) proxy_count(v->c->proxy, &v->head.host, v->port, n > 0 ? n : 0, 0);
    explicit_bzero(text, size);
    free(text);
    return r;
}

static void forward(struct visit *v)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct relay relay = { .proxy = v->c->proxy,
                           .client = v->c->client,
                           .up = &v->up,
                           .host = &v->head.host,
                           .port = v->port,
                           .first = v->buf + v->head_len,
                           .first_len = v->len - v->head_len };
    int r;

    mask_init(&relay.mask, v->secrets, v->secrets_len);
    body_reader_init(&relay.body, &v->head);
    r = request_send(v);
    if (r == 0 && v->head.expect && relay.first_len == 0 && !body_reader_done(&relay.body))
        r = send_all(v->c, go_on, sizeof go_on - 1);
    if (r == 0)
        r = relay_run(&relay);
    if (r == -ECANCELED)
        return;
    if (!relay.answered && r < 0)
        answer(v->c,
               r == -EPROTO      ? 400
               : r == -EDQUOT    ? 403
               : r == -ETIMEDOUT ? 504
                                 : 502,
               r == -EPROTO   ? "the request body does not match the length or encoding in its head"
               : r == -EDQUOT ? "this box has used up its network quota (--network-bytes)"
               : r == -ETIMEDOUT ? "timed out waiting for the server"
                                 : "the server's reply was not valid HTTP or was cut off");
    else if (r < 0) /* a truncated reply must look truncated */
        (void) setsockopt(v->c->client, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
                          sizeof(struct linger));
    else
        linger(v->c);
}

static void tunnel(struct visit *v)
{
    static const char made[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    struct relay relay = { .proxy = v->c->proxy,
                           .client = v->c->client,
                           .up = &v->up,
                           .host = &v->head.host,
                           .port = v->port,
                           .tunnel = true,
                           .first = v->buf + v->head_len,
                           .first_len = v->len - v->head_len };

    if (send_all(v->c, made, sizeof made - 1) == 0 && relay_run(&relay) < 0)
        (void) setsockopt(v->c->client, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
                          sizeof(struct linger));
}

static void visit_serve(struct visit *v)
{
    struct egress_proxy *proxy = v->c->proxy;
    const struct rule *rule;
    char why[WHY_MAX];

    if (head_read(v) < 0)
        return;
    v->port = v->head.port;
    if (!v->head.connect)
        v->secrets_len = policy_secrets(proxy->policy, &v->head.host, v->head.port, v->secrets,
                                        SECRETS_MAX, &v->port);
    if (v->secrets_len == 0)
        v->port = v->head.port;
    else
        v->head.port = v->port; /* also in the Host field */
    rule = rule_find(v);
    if (!rule)
        return;
    if (!proxy_count(proxy, &v->head.host, v->port, 0, 0)) {
        (void) snprintf(why, sizeof why, "this box has used up its quota of %lld bytes (%s)",
                        (long long) proxy->limits.bytes, proxy->egress->bytes_setting);
        refuse(v, 403, why);
        return;
    }
    if (reach(v, rule) < 0)
        return;
    proxy_note(proxy, &v->head.host, v->port, CONTACT_REQUEST, "");
    if (v->head.connect)
        tunnel(v);
    else
        forward(v);
}

void connection_serve(struct connection *c)
{
    struct visit *v = calloc(1, sizeof *v);

    if (!v)
        return;
    v->c = c;
    v->up.fd = -EBADF;
    v->buf = malloc(HEAD_MAX);
    if (v->buf)
        visit_serve(v);
    upstream_close(&v->up);
    free(v->buf);
    free(v);
}
