/*
 * Cleanup by scope: `autoclose int fd = -EBADF;` closes, `autofree char *p = NULL;` frees, and
 * TAKE_FD / TAKE_PTR hand the resource on so that the scope no longer owns it.
 */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void gb_closep(int *fd)
{
    /* Never retried: after EINTR the number may already belong to another thread. */
    if (*fd >= 0) {
        int saved = errno;

        (void) close(*fd);
        errno = saved;
    }
}

static inline void gb_freep(void *p)
{
    free(*(void **) p);
}

static inline void gb_fclosep(FILE **file)
{
    if (*file)
        (void) fclose(*file);
}

static inline void gb_closedirp(DIR **dir)
{
    if (*dir)
        (void) closedir(*dir);
}

#define autoclose    __attribute__((cleanup(gb_closep)))
#define autofree     __attribute__((cleanup(gb_freep)))
#define autofclose   __attribute__((cleanup(gb_fclosep)))
#define autoclosedir __attribute__((cleanup(gb_closedirp)))

#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int taken_ = (fd);                                                                         \
        (fd) = -EBADF;                                                                             \
        taken_;                                                                                    \
    })

#define TAKE_PTR(p)                                                                                \
    ({                                                                                             \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
