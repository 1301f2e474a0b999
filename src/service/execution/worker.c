/*
 * Who runs an execution: the thread that asked for it, or a worker.
 *
 * A worker is a thread for one execution, for streams and for those who come back later. There are
 * never more of them than executions in flight, which the service bounds.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/autoclean.h"
#include "base/strv.h"
#include "service/service_internal.h"
#include "service/session/env.h"

#include "base/banned.h"

/* The engine's loop has buffers of 64 KiB. A sanitizer has its own data on each stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WORKER_STACK (4u * 1024 * 1024)
#else
#define WORKER_STACK (512u * 1024)
#endif

/* A request that outlives the call that brought it. */
struct execution_copy {
    struct execution_request request;
    char *code, *input, *filename, *names;
    char **env;
};

void execution_copy_free(struct execution_copy *copy)
{
    if (!copy)
        return;
    free(copy->code);
    free(copy->input);
    free(copy->filename);
    free(copy->names);
    strv_free(copy->env);
    free(copy);
}

static char *bytes_copy(const char *data, size_t len)
{
    char *copy = malloc(len + 1);

    if (!copy)
        return NULL;
    if (len > 0)
        memcpy(copy, data, len);
    copy[len] = 0;
    return copy;
}

static struct execution_copy *copy_new(const struct execution_request *request)
{
    struct execution_copy *copy = calloc(1, sizeof *copy);
    bool ok;

    if (!copy)
        return NULL;
    copy->code = bytes_copy(request->code, request->code_len);
    ok = copy->code && strv_copy(request->env, &copy->env) == 0;
    if (ok && request->input) {
        copy->input = bytes_copy(request->input, request->input_len);
        ok = copy->input != NULL;
    }
    if (ok && request->names) {
        copy->names = bytes_copy(request->names, request->names_len);
        ok = copy->names != NULL;
    }
    if (ok && request->filename) {
        copy->filename = strdup(request->filename);
        ok = copy->filename != NULL;
    }
    if (!ok) {
        execution_copy_free(copy);
        return NULL;
    }
    copy->request = *request;
    copy->request.code = copy->code;
    copy->request.input = copy->input;
    copy->request.filename = copy->filename;
    copy->request.names = copy->names;
    copy->request.env = (const char *const *) copy->env;
    copy->request.template = NULL; /* it is known by now */
    copy->request.network = NULL;  /* likewise */
    copy->request.hangup_fd = -1;
    return copy;
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

    /* One that was refused in line is kept too: its reader wants to know why. */
    (void) execution_go(x, &x->copy->request, true, &fault);
    execution_unref(x);
    /* The last that this thread does with the service: it may be closed now. */
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

/* The done descriptor, if wanted, must be there before the worker is. */
static int start(struct service *service, const struct caller *caller, struct session *session,
                 const struct execution_request *request, bool done_fd,
                 struct execution **ret_execution, struct fault *fault)
{
    struct execution_copy *copy;
    struct fault ignored;
    struct execution *x;

    if (execution_begin(service, caller, session, request, &x, fault) < 0)
        return -1;
    copy = copy_new(request);
    x->copy = copy;
    if (done_fd)
        x->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (copy && (!done_fd || x->done_fd >= 0) && worker_spawn(x) == 0) {
        *ret_execution = x;
        return 0;
    }
    /* It is in line already: let it leave as one that was interrupted. */
    atomic_store(&x->interrupted, true);
    (void) execution_go(x, request, false, &ignored);
    execution_unref(x);
    (void) fault_set(fault, PROBLEM_OUT_OF_THREADS, NULL,
                     "the service has too much to do; try again in a moment");
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

/* A worker runs it, and we wait for its end and for the client's. */
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

int execution_run_here(struct service *service, const struct caller *caller,
                       struct session *session, const struct execution_request *request,
                       struct execution **ret_execution, struct fault *fault)
{
    struct execution *x;
    int r;

    if (request->hangup_fd >= 0) {
        r = run_watched(service, caller, session, request, ret_execution, fault);
        if (r < 0)
            atomic_fetch_add(&service->refused, 1);
        return r;
    }
    if (execution_begin(service, caller, session, request, &x, fault) < 0) {
        atomic_fetch_add(&service->refused, 1);
        return -1;
    }
    r = execution_go(x, request, false, fault);
    if (r < 0) {
        execution_unref(x);
        return r;
    }
    *ret_execution = x;
    return 0;
}
