/* The server side of a connection: TCP to an address that was checked, and TLS if a secret is
 * sent. */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "egress/egress_internal.h"

#include "base/banned.h"

#define EACH_CONNECT_US (5 * USEC_PER_SEC) /* while there are others to try */

static int connect_one(struct egress_proxy *proxy, const struct address *address, uint16_t port,
                       int64_t deadline_us, int *ret_fd)
{
    autoclose int fd = socket(address->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_storage to;
    socklen_t to_len = address_to_sockaddr(address, port, &to), error_len = sizeof(int);
    struct pollfd fds[2] = { { .fd = fd, .events = POLLOUT } };
    int error = 0, r;

    if (fd < 0)
        return -errno;
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    if (connect(fd, (struct sockaddr *) &to, to_len) < 0) {
        if (errno != EINPROGRESS)
            return -errno;
        if ((r = proxy_wait(proxy, fds, 1, deadline_us)) < 0)
            return r;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) < 0)
            return -errno;
        if (error)
            return -error;
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int upstream_connect(struct egress_proxy *proxy, const struct address *addresses, size_t len,
                     uint16_t port, int64_t deadline_us, struct upstream *ret_upstream)
{
    int r = -ENOENT, fd = -EBADF;

    for (size_t i = 0; i < len; i++) {
        int64_t until_us = clock_now_us() + EACH_CONNECT_US;

        r = connect_one(proxy, &addresses[i], port,
                        i + 1 < len && until_us < deadline_us ? until_us : deadline_us, &fd);
        if (r == 0) {
            *ret_upstream = (struct upstream){ .fd = fd };
            return 0;
        }
        if (r == -ECANCELED || clock_now_us() >= deadline_us)
            break;
    }
    return r;
}

/* ---- TLS ---- */

static int credentials_get(struct egress *egress, gnutls_certificate_credentials_t *ret)
{
    gnutls_certificate_credentials_t made = NULL;
    int r = 0;

    pthread_mutex_lock(&egress->tls_lock);
    if (!egress->credentials && gnutls_certificate_allocate_credentials(&made) == 0) {
        r = egress->ca_file
                ? gnutls_certificate_set_x509_trust_file(made, egress->ca_file, GNUTLS_X509_FMT_PEM)
                : gnutls_certificate_set_x509_system_trust(made);
        if (r > 0)
            egress->credentials = made;
        else
            gnutls_certificate_free_credentials(made);
    }
    *ret = egress->credentials;
    pthread_mutex_unlock(&egress->tls_lock);
    return *ret ? 0 : -ENOENT;
}

void upstream_forget(struct egress *egress)
{
    if (egress->credentials)
        gnutls_certificate_free_credentials(egress->credentials);
    egress->credentials = NULL;
}

static int handshake(struct egress_proxy *proxy, struct upstream *up, int64_t deadline_us)
{
    int r;

    while ((r = gnutls_handshake(up->tls)) < 0 && !gnutls_error_is_fatal(r)) {
        struct pollfd fds[2] = {
            { .fd = up->fd, .events = gnutls_record_get_direction(up->tls) ? POLLOUT : POLLIN }
        };
        int waited;

        if (r != GNUTLS_E_AGAIN)
            continue;
        if ((waited = proxy_wait(proxy, fds, 1, deadline_us)) < 0)
            return waited;
    }
    return r < 0 ? -EPROTO : 0;
}

int upstream_start_tls(struct egress_proxy *proxy, struct upstream *up, const struct host *host,
                       int64_t deadline_us, const char **ret_why)
{
    static const gnutls_datum_t http = { (unsigned char *) "http/1.1", 8 };
    gnutls_certificate_credentials_t credentials;
    int r;

    *ret_why = "the proxy has no trusted CA certificates";
    if (credentials_get(proxy->egress, &credentials) < 0)
        return -ENOENT;
    *ret_why = "TLS could not be initialized";
    if (gnutls_init(&up->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0) {
        up->tls = NULL;
        return -ENOMEM;
    }
    gnutls_transport_set_int(up->tls, up->fd);
    if (gnutls_set_default_priority(up->tls) < 0 ||
        gnutls_credentials_set(up->tls, GNUTLS_CRD_CERTIFICATE, credentials) < 0 ||
        (!host->literal &&
         gnutls_server_name_set(up->tls, GNUTLS_NAME_DNS, host->text, strlen(host->text)) < 0) ||
        gnutls_alpn_set_protocols(up->tls, &http, 1, 0) < 0)
        return -ENOMEM;
    gnutls_session_set_verify_cert(up->tls, host->text, 0);
    r = handshake(proxy, up, deadline_us);
    if (r == -EPROTO && gnutls_session_get_verify_cert_status(up->tls) != 0)
        *ret_why = "its certificate is not valid for this name, or not signed by a trusted CA";
    else if (r < 0)
        *ret_why = r == -ETIMEDOUT ? "the TLS handshake timed out" : "the TLS handshake failed";
    return r;
}

/* ---- bytes ---- */

static ssize_t tls_result(ssize_t r)
{
    if (r >= 0)
        return r;
    if (!gnutls_error_is_fatal((int) r))
        return -EAGAIN;
    /* Many servers close without a close_notify. */
    return r == GNUTLS_E_PREMATURE_TERMINATION ? 0 : -EIO;
}

ssize_t upstream_read(struct upstream *up, void *buf, size_t len)
{
    ssize_t n;

    if (up->tls)
        return tls_result(gnutls_record_recv(up->tls, buf, len));
    n = recv(up->fd, buf, len, MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

ssize_t upstream_write(struct upstream *up, const void *buf, size_t len)
{
    ssize_t n;

    if (up->tls) {
        n = gnutls_record_send(up->tls, buf, len);
        return n < 0 ? (gnutls_error_is_fatal((int) n) ? -EIO : -EAGAIN) : n;
    }
    n = send(up->fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

bool upstream_pending(const struct upstream *up)
{
    return up->tls && gnutls_record_check_pending(up->tls) > 0;
}

void upstream_finish(struct upstream *up)
{
    if (!up->tls)
        (void) shutdown(up->fd, SHUT_WR);
}

void upstream_close(struct upstream *up)
{
    if (up->tls) {
        (void) gnutls_bye(up->tls, GNUTLS_SHUT_WR);
        gnutls_deinit(up->tls);
    }
    gb_closep(&up->fd);
    *up = (struct upstream){ .fd = -EBADF };
}
