/* Sockets in the network namespace of a box. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/box/box.h"

#include "base/banned.h"

#define BACKLOG 64 /* the kernel refuses further connections */

/* A socket belongs forever to the namespace in which it was created. */
static int listen_here(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *) &address, sizeof address) < 0 ||
        listen(fd, BACKLOG) < 0)
        return -errno;
    return TAKE_FD(fd);
}

int entry_listen_inside(const struct box_entry *box, uint16_t port, int *ret_fd, struct gb_err *err)
{
    autoclose int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int fd;

    if (own < 0 || setns(box->pidfd, CLONE_NEWNET) < 0)
        return gb_fail(err, errno, "enter the network of box %u", box->id);
    fd = listen_here(port);
    if (setns(own, CLONE_NEWNET) < 0)
        _exit(125); /* this builder's next actions would happen in that box */
    if (fd < 0)
        return gb_fail(err, -fd, "listen on port %u of box %u", port, box->id);
    *ret_fd = fd;
    return 0;
}
