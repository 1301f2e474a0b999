/*
 * Signals that end a command which answers questions. They go to a thread of their own. The first
 * calls a function, which stops what is under way, so that the command ends with what there is; the
 * second ends the process at once: boxes die with us, and a scratch directory is removed by the
 * next one who opens one.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"

struct interrupt {
    void (*first)(void *arg); /* on the thread of the signals; may be NULL */
    void *arg;
    atomic_int signal; /* the first; 0: none came */
    pthread_t thread;
    bool running;
    int signal_fd, quit_fd;
};

#define INTERRUPT_INIT                                                                             \
    {                                                                                              \
        .signal_fd = -EBADF, .quit_fd = -EBADF                                                     \
    }

/* Before any other thread is made, so that none receives a signal. The caller closes it, also after
 * a failure. */
int interrupt_open(struct interrupt *interrupt, void (*first)(void *arg), void *arg,
                   struct gb_err *err);
/* When it returns, first() is not running, and will not. */
void interrupt_close(struct interrupt *interrupt);
