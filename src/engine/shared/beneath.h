/* Opening files beneath a directory with hostile contents. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* A FIFO must not block us, links and other file systems are not entered. Returns a descriptor or
 * -errno. */
static inline int beneath_open(int dir_fd, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (uint64_t) (flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
        .mode = mode,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    int fd;

    if (flags & O_PATH) /* which allows only these flags */
        how.flags = (uint64_t) (flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW)) | O_CLOEXEC;
    fd = (int) syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
    return fd < 0 ? -errno : fd;
}
