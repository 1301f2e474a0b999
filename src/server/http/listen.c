#include "server/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/text/parse.h"

#include "base/banned.h"

#define BACKLOG 1024

static const char expected[] = "127.0.0.1:8080, [::1]:8080 or unix:/run/glovebox.sock, "
                               "optionally followed by ,dialect=NAME";

static int not_an_address(const char *text, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(text, quoted);
    return gb_fail_plain(err, EINVAL, "%s is not a valid listen address; use %s", quoted, expected);
}

static int parse_tcp(const char *text, size_t len, struct listen_spec *spec)
{
    const char *colon = memrchr(text, ':', len), *port = colon ? colon + 1 : text;
    const char *host = text;
    size_t host_len = colon ? (size_t) (colon - text) : 0;
    char digits[6] = "";
    int64_t value;

    if (len == 0 || (size_t) (text + len - port) >= sizeof digits)
        return -EINVAL;
    memcpy(digits, port, (size_t) (text + len - port));
    if (parse_int(digits, &value) < 0 || value > 65535)
        return -EINVAL;
    if (host_len >= 2 && host[0] == '[' && host[host_len - 1] == ']') {
        host++;
        host_len -= 2;
        if (host_len == 0)
            return -EINVAL;
    } else if (memchr(host, ':', host_len)) {
        return -EINVAL; /* an IPv6 address needs brackets */
    }
    if (host_len >= sizeof spec->host)
        return -EINVAL;
    snprintf(spec->host, sizeof spec->host, "%.*s", (int) host_len, host_len ? host : "");
    if (host_len == 0)
        snprintf(spec->host, sizeof spec->host, "127.0.0.1");
    if (spec->host[strspn(spec->host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789.:-_%")] != '\0')
        return -EINVAL;
    spec->port = (int) value;
    return 0;
}

int listen_parse(const char *text, struct listen_spec *ret_spec, struct gb_err *err)
{
    static const char option[] = ",dialect=";
    const char *tail = strstr(text, option);
    size_t len = tail ? (size_t) (tail - text) : strlen(text);
    struct listen_spec spec = { 0 };

    if (tail) {
        tail += sizeof option - 1;
        if (!*tail || strlen(tail) >= sizeof spec.dialect ||
            tail[strspn(tail, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0')
            return not_an_address(text, err);
        snprintf(spec.dialect, sizeof spec.dialect, "%s", tail);
    }
    if (len > 5 && strncmp(text, "unix:", 5) == 0) {
        if (len - 5 >= sizeof spec.path)
            return gb_fail_plain(err, ENAMETOOLONG,
                                 "the path of a Unix socket can have at most %zu bytes",
                                 sizeof spec.path - 1);
        spec.is_unix = true;
        memcpy(spec.path, text + 5, len - 5);
    } else if (parse_tcp(text, len, &spec) < 0) {
        return not_an_address(text, err);
    }
    *ret_spec = spec;
    return 0;
}

bool listen_is_local(const struct listen_spec *spec)
{
    struct in6_addr v6;
    struct in_addr v4;

    if (spec->is_unix || strcasecmp(spec->host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, spec->host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, spec->host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* A socket file on which nobody listens was left by a dead server. */
static int remove_stale(const struct sockaddr_un *addr, struct gb_err *err)
{
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;

    if (lstat(addr->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : gb_fail(err, errno, "inspect '%s'", addr->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return gb_fail_plain(err, EEXIST, "'%s' exists and is not a socket; choose another path",
                             addr->sun_path);
    if (fd < 0)
        return gb_fail(err, errno, "create a socket");
    if (connect(fd, (const struct sockaddr *) addr, sizeof *addr) == 0 || errno != ECONNREFUSED)
        return gb_fail_plain(err, EADDRINUSE, "another server is already listening on '%s'",
                             addr->sun_path);
    if (unlink(addr->sun_path) < 0 && errno != ENOENT)
        return gb_fail(err, errno, "remove the stale socket '%s'", addr->sun_path);
    return 0;
}

static int listen_unix(const struct listen_spec *spec, int *ret_fd,
                       struct sockaddr_storage *ret_addr, struct gb_err *err)
{
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int r;

    if (fd < 0)
        return gb_fail(err, errno, "create a socket");
    memcpy(addr.sun_path, spec->path, sizeof addr.sun_path);
    r = remove_stale(&addr, err);
    if (r < 0)
        return r;
    /* The mode of the file is that of the socket at bind(), so it is never more accessible, not
     * even for a moment. */
    if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *) &addr, sizeof addr) < 0)
        return gb_fail(err, errno, "bind '%s'", spec->path);
    if (chmod(spec->path, 0600) < 0 || listen(fd, BACKLOG) < 0) {
        int code = errno;

        (void) unlink(spec->path);
        return gb_fail(err, code, "listen on '%s'", spec->path);
    }
    memset(ret_addr, 0, sizeof *ret_addr);
    memcpy(ret_addr, &addr, sizeof addr);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int bind_one(const struct addrinfo *info, int *ret_fd, struct sockaddr_storage *ret_addr)
{
    autoclose int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof *ret_addr;
    int on = 1;

    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        (info->ai_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0))
        return -errno;
    /* Connections inherit it. */
    (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    if (getsockname(fd, (struct sockaddr *) ret_addr, &len) < 0)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int listen_socket(const struct listen_spec *spec, int *ret_fd, struct sockaddr_storage *ret_addr,
                  struct gb_err *err)
{
    struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    struct addrinfo *infos;
    char port[8];
    int r;

    if (spec->is_unix)
        return listen_unix(spec, ret_fd, ret_addr, err);
    snprintf(port, sizeof port, "%d", spec->port);
    r = getaddrinfo(spec->host, port, &hints, &infos);
    if (r != 0)
        return gb_fail_plain(err, EADDRNOTAVAIL, "look up '%.100s': %s", spec->host,
                             gai_strerror(r));
    r = bind_one(infos, ret_fd, ret_addr);
    freeaddrinfo(infos);
    if (r == -EADDRINUSE)
        return gb_fail_plain(
            err, EADDRINUSE,
            "port %d of %.100s is in use; choose another with --listen %.100s:PORT", spec->port,
            spec->host, spec->host);
    return r < 0 ? gb_fail(err, -r, "listen on %.100s port %d", spec->host, spec->port) : 0;
}
