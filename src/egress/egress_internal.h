/* Shared by the parts of a proxy. */
#pragma once

#include <gnutls/gnutls.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "egress/policy.h"

#define LABEL_MAX 48

struct egress {
    struct egress_config config; /* its strings are copies */
    char *resolver, *ca_file, *allow_setting, *address_setting, *bytes_setting;
    _Atomic int64_t live, connections, requests, refused, failed, sent, received;
    pthread_mutex_t tls_lock;
    gnutls_certificate_credentials_t credentials; /* NULL until first needed */
};

/* ---- proxy.c ---- */

struct connection {
    struct egress_proxy *proxy;
    TAILQ_ENTRY(connection) in_list;
    pthread_t thread;
    int client;
};

TAILQ_HEAD(connection_list, connection);

struct contacts {
    struct egress_contact items[EGRESS_CONTACTS_MAX + 1]; /* the last is for all others */
    size_t len, only_refused;
};

struct egress_proxy {
    struct egress *egress;
    struct egress_policy *policy;
    struct egress_limits limits;
    char label[LABEL_MAX];
    int listen_fd;
    int stop_fd; /* an eventfd; stays readable once the proxy is to stop */
    int wake_fd; /* an eventfd for the acceptor: a connection has ended */
    pthread_t acceptor;
    _Atomic int64_t bytes_left;

    pthread_mutex_t lock;
    struct connection_list live, ended;
    int64_t live_len;
    struct contacts contacts;
};

/* Waits until one of the @len descriptors is ready; the array must have room for one more. 0,
 * -ETIMEDOUT, or -ECANCELED when the proxy is to stop. */
int proxy_wait(struct egress_proxy *proxy, struct pollfd *fds, size_t len, int64_t deadline_us);

enum contact_event { CONTACT_REQUEST, CONTACT_REFUSED, CONTACT_FAILED };

/* Records it for the receipt, counts it, and logs the first event of its kind. */
void proxy_note(struct egress_proxy *proxy, const struct host *host, uint16_t port,
                enum contact_event event, const char *why);

/* Counts bytes; false once the box has used up its quota. */
bool proxy_count(struct egress_proxy *proxy, const struct host *host, uint16_t port, int64_t sent,
                 int64_t received);

/* ---- contacts.c ---- */

/* The entry of that host, a new one, or the one for all others. */
struct egress_contact *contacts_get(struct contacts *contacts, const char *host, uint16_t port,
                                    bool refused);

/* ---- connection.c ---- */

/* Serves one client to its end, on its own thread. */
void connection_serve(struct connection *c);

/* ---- resolve.c ---- */

#define ADDRESSES_PER_NAME 16

/* The addresses of a name: 0 with at least one, -ENOENT, -EAGAIN (no answer), -ETIMEDOUT or
 * -ECANCELED. */
int resolve_name(struct egress_proxy *proxy, const struct host *host, int64_t deadline_us,
                 struct address ret_addresses[ADDRESSES_PER_NAME], size_t *ret_len);

/* ---- upstream.c ---- */

struct upstream {
    int fd;
    gnutls_session_t tls; /* NULL: plain */
};

/* Connects to the first of these addresses that answers, and to nothing else. 0 or -errno. */
int upstream_connect(struct egress_proxy *proxy, const struct address *addresses, size_t len,
                     uint16_t port, int64_t deadline_us, struct upstream *ret_upstream);

/* TLS, with the name checked against the certificate. *@ret_why says why it failed. */
int upstream_start_tls(struct egress_proxy *proxy, struct upstream *up, const struct host *host,
                       int64_t deadline_us, const char **ret_why);

/* Like recv(2) and send(2), but return -errno and never block. */
ssize_t upstream_read(struct upstream *up, void *buf, size_t len);
ssize_t upstream_write(struct upstream *up, const void *buf, size_t len);
/* Whether TLS holds bytes that poll() does not know of. */
bool upstream_pending(const struct upstream *up);
void upstream_finish(struct upstream *up); /* nothing more will be written */
void upstream_close(struct upstream *up);

/* Frees state shared by all upstreams. */
void upstream_forget(struct egress *egress);
