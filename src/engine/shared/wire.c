#include "engine/shared/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/shared/banned_after_clone.h"

#include "base/banned.h"

union control_space {
    char bytes[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
    struct cmsghdr align;
};

int wire_send(int fd, const void *data, size_t len, const int *fds, size_t fds_len)
{
    union control_space control = { 0 };
    struct iovec iov = { .iov_base = (void *) data, .iov_len = len };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t n;

    if (fds_len > WIRE_FDS_MAX)
        return -EINVAL;
    if (fds_len > 0) {
        struct cmsghdr *cmsg;

        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds_len);
        cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * fds_len);
        memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * fds_len);
    }
    do
        n = sendmsg(fd, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t) n == len ? 0 : -EIO;
}

void wire_close_fds(const int *fds, size_t fds_len)
{
    for (size_t i = 0; i < fds_len; i++)
        (void) close(fds[i]);
}

static size_t take_fds(struct msghdr *msg, int fds[WIRE_FDS_MAX])
{
    size_t count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (n > WIRE_FDS_MAX - count)
            n = WIRE_FDS_MAX - count;
        memcpy(fds + count, CMSG_DATA(c), n * sizeof(int));
        count += n;
    }
    return count;
}

int wire_recv(int fd, void *data, size_t len, int fds[WIRE_FDS_MAX], size_t *ret_fds_len)
{
    union control_space control = { 0 };
    struct iovec iov = { .iov_base = data, .iov_len = len };
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = control.bytes,
                          .msg_controllen = sizeof control.bytes };
    size_t count;
    ssize_t n;

    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == ECONNRESET ? -EPIPE : -errno;
    count = take_fds(&msg, fds);
    if (n == 0 && count == 0)
        return -EPIPE;
    if ((size_t) n != len || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        wire_close_fds(fds, count);
        return -EPROTO;
    }
    *ret_fds_len = count;
    return 0;
}
