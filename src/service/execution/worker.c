/*
 * Workers. A worker is a thread for one execution: for streams, for clients that come back later,
 * and for executions that end when their client disconnects. There are never more of them than
 * executions in flight, which the service limits.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/text/strv.h"
#include "service/execution/execution.h"

#include "base/banned.h"

/* The engine's loop has buffers of 64 KiB. A sanitizer has its own data on each stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WORKER_STACK (4u * 1024 * 1024)
#else
#define WORKER_STACK (512u * 1024)
#endif

static int text_keep(const char **text, size_t len, char **ret_own)
{
    if (!*text)
        return 0;
    *ret_own = malloc(len + 1);
    if (!*ret_own)
        return -ENOMEM;
    memcpy(*ret_own, *text, len);
    (*ret_own)[len] = 0;
    *text = *ret_own;
    return 0;
}

/* The worker outlives the call that brought the request: it gets copies of the strings. */
static int texts_keep(struct execution *x)
{
    struct run_spec *spec = &x->spec;

    if (text_keep(&spec->code, spec->code_len, &x->own.code) < 0 ||
        text_keep(&spec->filename, spec->filename ? strlen(spec->filename) : 0, &x->own.filename) <
            0 ||
        text_keep(&spec->names, spec->names_len, &x->own.names) < 0 ||
        text_keep(&spec->input, spec->input_len, &x->own.input) < 0 ||
        (spec->env && strv_copy((const char *const *) spec->env, &x->own.env) < 0))
        return -ENOMEM;
    spec->env = x->own.env;
    return 0;
}

void service_worker_count(struct service *service, int by)
{
    pthread_mutex_lock(&service->lock);
    service->workers += by;
    if (service->workers == 0)
        pthread_cond_broadcast(&service->idle);
    pthread_mutex_unlock(&service->lock);
}

static void *worker_main(void *arg)
{
    struct execution *x = arg;
    struct service *service = x->service;
    struct fault fault = { 0 };

    /* An execution that was refused while queued is kept too: its reader wants to know why. */
    (void) execution_go(x, true, &fault);
    execution_unref(x);
    /* The last use of the service by this thread: it may be closed now. */
    service_worker_count(service, -1);
    return NULL;
}

static int worker_spawn(struct execution *x)
{
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void) pthread_attr_setstacksize(&attr, WORKER_STACK);
    service_worker_count(x->service, 1);
    r = pthread_create(&thread, &attr, worker_main, execution_ref(x));
    pthread_attr_destroy(&attr);
    if (r != 0) {
        service_worker_count(x->service, -1);
        execution_unref(x);
    }
    return -r;
}

/* The done descriptor, if wanted, must exist before the worker starts. */
static int start(struct service *service, const struct caller *caller, struct session *session,
                 const struct execution_request *request, bool done_fd,
                 struct execution **ret_execution, struct fault *fault)
{
    struct fault ignored;
    struct execution *x;
    int r;

    if (execution_begin(service, caller, session, request, &x, fault) < 0)
        return -1;
    r = texts_keep(x);
    if (done_fd)
        x->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r == 0 && (!done_fd || x->done_fd >= 0) && worker_spawn(x) == 0) {
        *ret_execution = x;
        return 0;
    }
    /* It is queued already: let it end as if it had been interrupted. */
    atomic_store(&x->interrupted, true);
    (void) execution_go(x, false, &ignored);
    execution_unref(x);
    (void) fault_set(fault, PROBLEM_OUT_OF_THREADS, NULL,
                     "the service is out of threads; retry in a moment");
    fault->retry_after_s = 1;
    return -1;
}

int execution_start(struct service *service, const struct caller *caller, struct session *session,
                    const struct execution_request *request, struct execution **ret_execution,
                    struct fault *fault)
{
    if (start(service, caller, session, request, false, ret_execution, fault) == 0)
        return 0;
    atomic_fetch_add(&service->refused, 1);
    return -1;
}

/* A worker runs it, and we wait for the execution to end or the client to disconnect. */
static int run_watched(struct service *service, const struct caller *caller,
                       struct session *session, const struct execution_request *request,
                       struct execution **ret_execution, struct fault *fault)
{
    struct fault ignored;
    struct execution *x;
    struct pollfd fds[2];

    if (start(service, caller, session, request, true, &x, fault) < 0)
        return -1;
    fds[0] = (struct pollfd){ .fd = x->done_fd, .events = POLLIN };
    fds[1] = (struct pollfd){ .fd = request->hangup_fd, .events = POLLRDHUP };
    while (!execution_wait(x, 0)) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].fd >= 0 && fds[1].revents) {
            (void) execution_interrupt(x, &ignored);
            fds[1].fd = -1;
            fds[1].revents = 0;
        }
    }
    (void) execution_wait(x, -1);
    if (x->fault.kind != FAULT_NONE) {
        *fault = x->fault;
        execution_unref(x);
        return -1;
    }
    *ret_execution = x;
    return 0;
}

int execution_run_watched(struct service *service, const struct caller *caller,
                          struct session *session, const struct execution_request *request,
                          struct execution **ret_execution, struct fault *fault)
{
    if (run_watched(service, caller, session, request, ret_execution, fault) == 0)
        return 0;
    atomic_fetch_add(&service->refused, 1);
    return -1;
}
