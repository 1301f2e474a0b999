#include "mark/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/autoclean.h"

#include "base/banned.h"

static int dir_open(int above_fd, const char *name, bool make, int *ret_fd, struct gb_err *err)
{
    int fd;

    if (make && mkdirat(above_fd, name, 0700) < 0 && errno != EEXIST)
        return gb_fail(err, errno, "create the directory '%s' in the data directory", name);
    fd = openat(above_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return gb_fail(err, errno, "open the directory '%s' in the data directory", name);
    *ret_fd = fd;
    return 0;
}

int mark_dir_open(const char *data_dir, const char *name, bool make, int *ret_fd,
                  struct gb_err *err)
{
    autoclose int data_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), mark_fd = -EBADF;
    int r;

    if (data_fd < 0)
        return gb_fail(err, errno, "open the data directory '%s'", data_dir);
    r = dir_open(data_fd, MARK_DIR, make, &mark_fd, err);
    if (r == 0 && name)
        return dir_open(mark_fd, name, make, ret_fd, err);
    if (r == 0)
        *ret_fd = TAKE_FD(mark_fd);
    return r;
}

int mark_dir_lock(int dir_fd, const char *name, int *ret_fd, struct gb_err *err)
{
    autoclose int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r;

    if (fd < 0)
        return gb_fail(err, errno, "open '%s' in the data directory", name);
    do
        r = flock(fd, LOCK_EX);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return gb_fail(err, errno, "lock '%s' in the data directory", name);
    *ret_fd = TAKE_FD(fd);
    return 0;
}
