/*
 * The proxy of one box, and state shared by all proxies.
 *
 * Theory of operation. A proxy has one thread that accepts, and one for each connection, which
 * lives as long as the connection: straight-line code that waits in one place, proxy_wait(). Every
 * wait has a deadline and also watches the proxy's stop_fd, so stopping a proxy takes no longer
 * than waking its threads: no name server and no slow host can delay it.
 *
 * Bounds. A box has at most limits.connections at a time. Further ones wait in the kernel's queue
 * of the listening socket, in the box's namespace; when that is full, connects from the box hang,
 * and use only the box's own descriptors and memory. All boxes together have at most
 * config.connections_max, but each may have two in any case: a hostile neighbour can slow a box
 * down, but not lock it out. Buffers are fixed, contacts are bounded, bytes are counted as they
 * pass.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "egress/egress_internal.h"

#include "base/banned.h"

#define CONNECTIONS_MAX_DEFAULT 1024
#define EACH_AT_LEAST           2
#define STACK_BYTES             (256u * 1024)
#define BUSY_WAIT_US            (50 * USEC_PER_MSEC) /* until others have closed some */

/* ---- shared state ---- */

static char *copy(const char *text, bool *failed)
{
    char *made = text ? strdup(text) : NULL;

    *failed = *failed || (text && !made);
    return made;
}

int egress_open(const struct egress_config *config, struct egress **ret_egress, struct gb_err *err)
{
    struct egress *egress = calloc(1, sizeof *egress);
    bool failed = false;

    if (!egress)
        return gb_fail(err, ENOMEM, "prepare the network");
    egress->config = *config;
    pthread_mutex_init(&egress->tls_lock, NULL);
    if (egress->config.connections_max <= 0)
        egress->config.connections_max = CONNECTIONS_MAX_DEFAULT;
    egress->config.resolver = egress->resolver = copy(config->resolver, &failed);
    egress->config.ca_file = egress->ca_file = copy(config->ca_file, &failed);
    egress->allow_setting =
        copy(config->allow_setting ? config->allow_setting : "network.allow", &failed);
    egress->address_setting =
        copy(config->address_setting ? config->address_setting : "--network-address", &failed);
    egress->bytes_setting =
        copy(config->bytes_setting ? config->bytes_setting : "--network-bytes", &failed);
    if (failed) {
        egress_close(egress);
        return gb_fail(err, ENOMEM, "prepare the network");
    }
    *ret_egress = egress;
    return 0;
}

void egress_close(struct egress *egress)
{
    if (!egress)
        return;
    upstream_forget(egress);
    pthread_mutex_destroy(&egress->tls_lock);
    free(egress->resolver);
    free(egress->ca_file);
    free(egress->allow_setting);
    free(egress->address_setting);
    free(egress->bytes_setting);
    free(egress);
}

void egress_get_stats(struct egress *egress, struct egress_stats *ret_stats)
{
    *ret_stats = (struct egress_stats){
        .connections_live = atomic_load(&egress->live),
        .connections = atomic_load(&egress->connections),
        .requests = atomic_load(&egress->requests),
        .refused = atomic_load(&egress->refused),
        .failed = atomic_load(&egress->failed),
        .bytes_sent = atomic_load(&egress->sent),
        .bytes_received = atomic_load(&egress->received),
    };
}

/* ---- called by connections ---- */

int proxy_wait(struct egress_proxy *proxy, struct pollfd *fds, size_t len, int64_t deadline_us)
{
    for (;;) {
        int64_t left = deadline_us - clock_now_us();
        int r;

        if (left <= 0)
            return -ETIMEDOUT;
        fds[len] = (struct pollfd){ .fd = proxy->stop_fd, .events = POLLIN };
        left = (left + USEC_PER_MSEC - 1) / USEC_PER_MSEC;
        r = poll(fds, len + 1, left > 60000 ? 60000 : (int) left);
        if (r < 0 && errno != EINTR)
            return -errno;
        if (r > 0)
            return fds[len].revents ? -ECANCELED : 0;
    }
}

static void note_log(struct egress_proxy *proxy, const struct host *host, uint16_t port,
                     enum contact_event event, const char *why)
{
    const struct egress_config *config = &proxy->egress->config;
    char line[512];

    if (!config->log)
        return;
    if (event == CONTACT_REQUEST)
        (void) snprintf(line, sizeof line, "%s: reached %s:%u", proxy->label, host->text, port);
    else
        (void) snprintf(line, sizeof line, "%s: %s %s:%u: %s", proxy->label,
                        event == CONTACT_REFUSED ? "refused" : "could not reach", host->text, port,
                        why);
    config->log(config->log_arg, LOG_LEVEL_INFO, line);
}

void proxy_note(struct egress_proxy *proxy, const struct host *host, uint16_t port,
                enum contact_event event, const char *why)
{
    struct egress *egress = proxy->egress;
    struct egress_contact *contact;
    int64_t *count;
    bool first;

    pthread_mutex_lock(&proxy->lock);
    contact = contacts_get(&proxy->contacts, host->text, port, event == CONTACT_REFUSED);
    count = event == CONTACT_REQUEST   ? &contact->requests
            : event == CONTACT_REFUSED ? &contact->refused
                                       : &contact->failed;
    first = ++*count == 1;
    pthread_mutex_unlock(&proxy->lock);
    atomic_fetch_add(event == CONTACT_REQUEST   ? &egress->requests
                     : event == CONTACT_REFUSED ? &egress->refused
                                                : &egress->failed,
                     1);
    if (first) /* the receipt has the number; a box must not be able to flood the log */
        note_log(proxy, host, port, event, why);
}

bool proxy_count(struct egress_proxy *proxy, const struct host *host, uint16_t port, int64_t sent,
                 int64_t received)
{
    struct egress_contact *contact;

    if (sent + received > 0) {
        atomic_fetch_add(&proxy->egress->sent, sent);
        atomic_fetch_add(&proxy->egress->received, received);
        pthread_mutex_lock(&proxy->lock);
        contact = contacts_get(&proxy->contacts, host->text, port, false);
        contact->bytes_sent += sent;
        contact->bytes_received += received;
        pthread_mutex_unlock(&proxy->lock);
    }
    return atomic_fetch_sub(&proxy->bytes_left, sent + received) - (sent + received) > 0;
}

/* ---- connections ---- */

static void *connection_main(void *arg)
{
    struct connection *c = arg;
    struct egress_proxy *proxy = c->proxy;
    uint64_t one = 1;

    connection_serve(c);
    (void) close(c->client);
    atomic_fetch_sub(&proxy->egress->live, 1);
    pthread_mutex_lock(&proxy->lock);
    TAILQ_REMOVE(&proxy->live, c, in_list);
    TAILQ_INSERT_TAIL(&proxy->ended, c, in_list);
    proxy->live_len--;
    (void) !write(proxy->wake_fd, &one, sizeof one);
    pthread_mutex_unlock(&proxy->lock);
    return NULL;
}

/* Our threads block all signals: they are for the program that uses this module. */
static int thread_start(pthread_t *ret_thread, void *(*main)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int r;

    if ((r = pthread_attr_init(&attr)) != 0)
        return -r;
    (void) pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(ret_thread, &attr, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -r;
}

static void connection_start(struct egress_proxy *proxy, int client)
{
    struct connection *c = calloc(1, sizeof *c);
    int r;

    if (!c) {
        (void) close(client);
        return;
    }
    c->proxy = proxy;
    c->client = client;
    atomic_fetch_add(&proxy->egress->live, 1);
    atomic_fetch_add(&proxy->egress->connections, 1);
    pthread_mutex_lock(&proxy->lock);
    r = thread_start(&c->thread, connection_main, c);
    if (r == 0) {
        TAILQ_INSERT_TAIL(&proxy->live, c, in_list);
        proxy->live_len++;
    }
    pthread_mutex_unlock(&proxy->lock);
    if (r < 0) {
        atomic_fetch_sub(&proxy->egress->live, 1);
        (void) close(client);
        free(c);
    }
}

static void ended_collect(struct egress_proxy *proxy)
{
    struct connection *c;

    for (;;) {
        pthread_mutex_lock(&proxy->lock);
        c = TAILQ_FIRST(&proxy->ended);
        if (c)
            TAILQ_REMOVE(&proxy->ended, c, in_list);
        pthread_mutex_unlock(&proxy->lock);
        if (!c)
            return;
        pthread_join(c->thread, NULL);
        free(c);
    }
}

enum room { ROOM, ROOM_WHEN_OWN_END, ROOM_WHEN_OTHERS_END };

static enum room room_for_one(struct egress_proxy *proxy)
{
    int64_t own;

    pthread_mutex_lock(&proxy->lock);
    own = proxy->live_len;
    pthread_mutex_unlock(&proxy->lock);
    if (own >= proxy->limits.connections)
        return ROOM_WHEN_OWN_END;
    if (own >= EACH_AT_LEAST &&
        atomic_load(&proxy->egress->live) >= proxy->egress->config.connections_max)
        return ROOM_WHEN_OTHERS_END;
    return ROOM;
}

static void *acceptor_main(void *arg)
{
    struct egress_proxy *proxy = arg;
    enum room room = ROOM;
    bool exhausted = false;

    for (;;) {
        struct pollfd fds[3] = { { .fd = proxy->wake_fd, .events = POLLIN },
                                 { .fd = room == ROOM && !exhausted ? proxy->listen_fd : -1,
                                   .events = POLLIN } };
        bool later = exhausted || room == ROOM_WHEN_OTHERS_END;
        int64_t wait_us = later ? BUSY_WAIT_US : 3600 * USEC_PER_SEC;
        uint64_t count;
        int client;

        if (proxy_wait(proxy, fds, 2, clock_now_us() + wait_us) == -ECANCELED)
            return NULL;
        if (fds[0].revents)
            (void) !read(proxy->wake_fd, &count, sizeof count);
        ended_collect(proxy);
        exhausted = false;
        room = room_for_one(proxy);
        if (room != ROOM)
            continue;
        client = accept4(proxy->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client >= 0)
            connection_start(proxy, client);
        else
            exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
        room = room_for_one(proxy);
    }
}

/* ---- life ---- */

static void limits_fill(struct egress_limits *ret, const struct egress_limits *given)
{
    static const struct egress_limits defaults = { .connections = 32,
                                                   .bytes = INT64_C(1) << 30,
                                                   .head_us = 10 * USEC_PER_SEC,
                                                   .connect_us = 15 * USEC_PER_SEC,
                                                   .idle_us = 120 * USEC_PER_SEC };

    *ret = given ? *given : defaults;
    ret->connections = ret->connections > 0 ? ret->connections : defaults.connections;
    ret->bytes = ret->bytes > 0 ? ret->bytes : defaults.bytes;
    ret->head_us = ret->head_us > 0 ? ret->head_us : defaults.head_us;
    ret->connect_us = ret->connect_us > 0 ? ret->connect_us : defaults.connect_us;
    ret->idle_us = ret->idle_us > 0 ? ret->idle_us : defaults.idle_us;
}

static void proxy_free(struct egress_proxy *proxy)
{
    gb_closep(&proxy->listen_fd);
    gb_closep(&proxy->stop_fd);
    gb_closep(&proxy->wake_fd);
    pthread_mutex_destroy(&proxy->lock);
    egress_policy_free(proxy->policy);
    free(proxy);
}

int egress_serve(struct egress *egress, int listen_fd, struct egress_policy *policy,
                 const struct egress_limits *limits, const char *label,
                 struct egress_proxy **ret_proxy, struct gb_err *err)
{
    struct egress_proxy *proxy = calloc(1, sizeof *proxy);
    int flags = fcntl(listen_fd, F_GETFL), r = 0;

    if (!proxy) {
        (void) close(listen_fd);
        egress_policy_free(policy);
        return gb_fail(err, ENOMEM, "start the proxy of a box");
    }
    proxy->egress = egress;
    proxy->policy = policy;
    proxy->listen_fd = listen_fd;
    proxy->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    proxy->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    limits_fill(&proxy->limits, limits);
    atomic_init(&proxy->bytes_left, proxy->limits.bytes);
    (void) snprintf(proxy->label, sizeof proxy->label, "%s", label);
    pthread_mutex_init(&proxy->lock, NULL);
    TAILQ_INIT(&proxy->live);
    TAILQ_INIT(&proxy->ended);
    if (proxy->stop_fd < 0 || proxy->wake_fd < 0 || flags < 0 ||
        fcntl(listen_fd, F_SETFL, flags | O_NONBLOCK) < 0)
        r = -errno;
    if (r == 0)
        r = thread_start(&proxy->acceptor, acceptor_main, proxy);
    if (r < 0) {
        proxy_free(proxy);
        return gb_fail(err, -r, "start the proxy of a box");
    }
    *ret_proxy = proxy;
    return 0;
}

void egress_end(struct egress_proxy *proxy)
{
    uint64_t one = 1;
    struct connection *c;

    if (!proxy)
        return;
    (void) !write(proxy->stop_fd, &one, sizeof one);
    pthread_join(proxy->acceptor, NULL);
    for (;;) {
        pthread_mutex_lock(&proxy->lock);
        c = TAILQ_FIRST(&proxy->live); /* its thread moves it to the other list */
        pthread_mutex_unlock(&proxy->lock);
        if (!c)
            break;
        pthread_join(c->thread, NULL);
        pthread_mutex_lock(&proxy->lock);
        TAILQ_REMOVE(&proxy->ended, c, in_list);
        pthread_mutex_unlock(&proxy->lock);
        free(c);
    }
    ended_collect(proxy);
    proxy_free(proxy);
}
