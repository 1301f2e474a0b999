/*
 * Resolves names with c-ares: unlike getaddrinfo(3) it can be cancelled and has a deadline.
 *
 * A name is looked up as it is, without search domains: the name that is resolved is the name that
 * was checked. Nothing is cached. The answer is used for one connection and the name is not looked
 * up again, so changing it between the check and the connect (DNS rebinding) has no effect.
 */
#include <ares.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "base/clock.h"
#include "egress/egress_internal.h"

#include "base/banned.h"

#define TRY_MS 2500
#define TRIES  3

struct question {
    bool done;
    int status;
    struct address *addresses;
    size_t len;
};

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
    struct question *question = arg;

    (void) timeouts;
    question->done = true;
    question->status = status;
    if (status != ARES_SUCCESS || !info)
        return;
    for (const struct ares_addrinfo_node *node = info->nodes;
         node && question->len < ADDRESSES_PER_NAME; node = node->ai_next)
        if (address_from_sockaddr(node->ai_addr, &question->addresses[question->len]) == 0)
            question->len++;
    ares_freeaddrinfo(info);
}

static int channel_open(const struct egress *egress, ares_channel *ret_channel)
{
    struct ares_options options = { .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
                                    .timeout = TRY_MS,
                                    .tries = TRIES };
    int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES;
    char only_dns[] = "b";

    if (egress->resolver) {
        options.lookups = only_dns;
        mask |= ARES_OPT_LOOKUPS;
    }
    if (ares_init_options(ret_channel, &options, mask) != ARES_SUCCESS)
        return -ENOMEM;
    if (egress->resolver &&
        ares_set_servers_ports_csv(*ret_channel, egress->resolver) != ARES_SUCCESS) {
        ares_destroy(*ret_channel);
        return -EINVAL;
    }
    return 0;
}

/* Waits once for the descriptors of c-ares. */
static int channel_step(struct egress_proxy *proxy, ares_channel channel, int64_t deadline_us)
{
    struct pollfd fds[ARES_GETSOCK_MAXNUM + 1];
    ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
    struct timeval most = { .tv_sec = TRY_MS / 1000 }, left;
    const struct timeval *timeout = ares_timeout(channel, &most, &left);
    int64_t until_us = clock_now_us() + (int64_t) timeout->tv_sec * USEC_PER_SEC + timeout->tv_usec;
    int bits = ares_getsock(channel, sockets, ARES_GETSOCK_MAXNUM), r;
    size_t len = 0;

    for (unsigned i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
        /* Like ARES_GETSOCK_READABLE and _WRITABLE, which shift into the sign bit. */
        bool in = (unsigned) bits >> i & 1;
        bool out = (unsigned) bits >> (i + ARES_GETSOCK_MAXNUM) & 1;

        if (in || out)
            fds[len++] =
                (struct pollfd){ .fd = sockets[i],
                                 .events = (short) ((in ? POLLIN : 0) | (out ? POLLOUT : 0)) };
    }
    r = proxy_wait(proxy, fds, len, until_us < deadline_us ? until_us : deadline_us);
    if (r == -ETIMEDOUT && until_us < deadline_us) {
        ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        return 0;
    }
    if (r < 0)
        return r;
    for (size_t i = 0; i < len; i++)
        if (fds[i].revents)
            ares_process_fd(channel,
                            fds[i].revents & (POLLIN | POLLERR | POLLHUP) ? fds[i].fd
                                                                          : ARES_SOCKET_BAD,
                            fds[i].revents & POLLOUT ? fds[i].fd : ARES_SOCKET_BAD);
    return 0;
}

static int ask(struct egress_proxy *proxy, const struct host *host, int64_t deadline_us,
               struct question *question)
{
    static const struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC,
                                                      .ai_socktype = SOCK_STREAM };
    ares_channel channel;
    int r = channel_open(proxy->egress, &channel);

    if (r < 0)
        return r;
    ares_getaddrinfo(channel, host->text, NULL, &hints, on_answer, question);
    while (!question->done && r == 0)
        r = channel_step(proxy, channel, deadline_us);
    ares_destroy(channel); /* calls on_answer() if that has not happened yet */
    return r;
}

int resolve_name(struct egress_proxy *proxy, const struct host *host, int64_t deadline_us,
                 struct address ret_addresses[ADDRESSES_PER_NAME], size_t *ret_len)
{
    struct question question = { .addresses = ret_addresses };
    int r;

    if (host->literal) {
        ret_addresses[0] = host->address;
        *ret_len = 1;
        return 0;
    }
    if (host_is_localhost(host)) {
        (void) address_parse("127.0.0.1", &ret_addresses[0]);
        (void) address_parse("::1", &ret_addresses[1]);
        *ret_len = 2;
        return 0;
    }
    if ((r = ask(proxy, host, deadline_us, &question)) < 0)
        return r;
    *ret_len = question.len;
    if (question.len > 0)
        return 0;
    return question.status == ARES_ENOTFOUND || question.status == ARES_ENODATA ||
                   question.status == ARES_EBADNAME || question.status == ARES_SUCCESS
               ? -ENOENT
               : -EAGAIN;
}
