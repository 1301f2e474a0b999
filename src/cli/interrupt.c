#include "cli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/banned.h"

static void *signals_main(void *arg)
{
    struct interrupt *interrupt = arg;
    struct pollfd fds[] = { { interrupt->signal_fd, POLLIN, 0 },
                            { interrupt->quit_fd, POLLIN, 0 } };
    struct signalfd_siginfo info;

    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[1].revents)
            return NULL;
        if (!(fds[0].revents & POLLIN) ||
            read(interrupt->signal_fd, &info, sizeof info) != sizeof info)
            continue;
        if (atomic_load(&interrupt->signal))
            _exit(128 + (int) info.ssi_signo);
        atomic_store(&interrupt->signal, (int) info.ssi_signo);
        if (interrupt->first)
            interrupt->first(interrupt->arg);
    }
}

int interrupt_open(struct interrupt *interrupt, void (*first)(void *arg), void *arg,
                   struct gb_err *err)
{
    sigset_t set;

    interrupt->first = first;
    interrupt->arg = arg;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return gb_fail_plain(err, EINVAL, "cannot block signals");
    interrupt->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    interrupt->quit_fd = eventfd(0, EFD_CLOEXEC);
    if (interrupt->signal_fd < 0 || interrupt->quit_fd < 0)
        return gb_fail(err, errno, "wait for signals");
    if (pthread_create(&interrupt->thread, NULL, signals_main, interrupt) != 0)
        return gb_fail(err, ENOMEM, "wait for signals");
    interrupt->running = true;
    return 0;
}

void interrupt_close(struct interrupt *interrupt)
{
    uint64_t one = 1;

    if (interrupt->running) {
        (void) !write(interrupt->quit_fd, &one, sizeof one);
        pthread_join(interrupt->thread, NULL);
    }
    if (interrupt->signal_fd >= 0)
        (void) close(interrupt->signal_fd);
    if (interrupt->quit_fd >= 0)
        (void) close(interrupt->quit_fd);
    interrupt->running = false;
    interrupt->signal_fd = interrupt->quit_fd = -EBADF;
}
