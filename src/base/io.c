#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/banned.h"

int io_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        len -= (size_t) n;
    }
    return 0;
}

int io_write_patiently(int fd, const void *data, size_t len, bool (*give_up)(void *arg), void *arg)
{
    struct pollfd p = { fd, POLLOUT, 0 };

    while (len > 0) {
        /* A writable pipe has room for PIPE_BUF bytes, and a write of no more never blocks. */
        size_t part = len < PIPE_BUF ? len : PIPE_BUF;
        int ready = poll(&p, 1, 200);
        ssize_t n;

        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready <= 0) {
            if (give_up(arg))
                return -ETIMEDOUT;
            continue;
        }
        n = write(fd, data, part);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (n > 0) {
            data = (const char *) data + n;
            len -= (size_t) n;
        }
    }
    return 0;
}

ssize_t io_read_all(int fd, void *buf, size_t len)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = read(fd, (char *) buf + got, len - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        got += (size_t) n;
    }
    return (ssize_t) got;
}

ssize_t io_read_text_at(int dir_fd, const char *name, char *buf, size_t size)
{
    autoclose int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -errno;
    n = io_read_all(fd, buf, size);
    if (n < 0)
        return n;
    if ((size_t) n == size)
        return -E2BIG;
    if (n > 0 && buf[n - 1] == '\n')
        n--;
    buf[n] = '\0';
    return n;
}

int dir_open_fd(int fd, DIR **ret_dir)
{
    DIR *dir = fdopendir(fd);

    if (!dir) {
        int r = -errno;

        (void) close(fd);
        return r;
    }
    *ret_dir = dir;
    return 0;
}

int dir_open_at(int dir_fd, const char *name, DIR **ret_dir)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : dir_open_fd(fd, ret_dir);
}

int io_write_text_at(int dir_fd, const char *name, const char *text)
{
    autoclose int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
    size_t len = strlen(text);
    ssize_t n;

    if (fd < 0)
        return -errno;
    n = write(fd, text, len);
    if (n < 0)
        return -errno;
    return (size_t) n == len ? 0 : -EIO;
}
