/*
 * An install on a thread of its own, with one reader. The thread keeps only the last progress; the
 * result waits until it is fetched. Both sides hold a reference: the reader may leave first, which
 * cancels the install.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/strv.h"
#include "service/package/internal.h"
#include "service/session/session.h"

#include "base/banned.h"

/* The engine's loop has buffers of 64 KiB. A sanitizer has its own data on each stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TASK_STACK (4u * 1024 * 1024)
#else
#define TASK_STACK (512u * 1024)
#endif

#define NAME_MOST 64

struct install_task {
    struct service *service;
    struct caller caller;
    struct session *session; /* or NULL */
    char **wanted, *package, *version, *listener;
    bool newest, remove;
    int cancel[2]; /* a pipe: the end of the second end cancels */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned refs;
    struct install_progress progress;
    char name[NAME_MOST];      /* of the progress */
    char told_name[NAME_MOST]; /* of the one that the reader has */
    uint64_t number, read;     /* of the progress, and of the last that was read */
    bool done, finished;       /* by the thread; by the reader */
    json_t *json;
    struct fault fault;
};

static void task_unref(struct install_task *task)
{
    unsigned left;

    pthread_mutex_lock(&task->lock);
    left = --task->refs;
    pthread_mutex_unlock(&task->lock);
    if (left > 0)
        return;
    pthread_mutex_destroy(&task->lock);
    pthread_cond_destroy(&task->changed);
    gb_closep(&task->cancel[0]);
    gb_closep(&task->cancel[1]);
    json_decref(task->json);
    session_unref(task->session);
    strv_free(task->wanted);
    free(task->package);
    free(task->version);
    free(task->listener);
    free(task);
}

static void on_progress(void *arg, const struct install_progress *progress)
{
    struct install_task *task = arg;

    pthread_mutex_lock(&task->lock);
    task->progress = *progress;
    snprintf(task->name, sizeof task->name, "%s", progress->name);
    task->number++;
    pthread_cond_broadcast(&task->changed);
    pthread_mutex_unlock(&task->lock);
}

static void *task_main(void *arg)
{
    struct install_task *task = arg;
    struct service *service = task->service;
    const struct install_watch watch = { on_progress, task };
    const struct install_order order = { .wanted = (const char *const *) task->wanted,
                                         .newest = task->newest,
                                         .remove = task->remove,
                                         .watch = watch,
                                         .cancel_fd = task->cancel[0] };
    struct fault fault = { 0 };
    json_t *json = NULL;

    if (task->package)
        (void) packages_install_named(service, &task->caller, task->session, task->package,
                                      task->version, &order, &json, &fault);
    else
        (void) packages_install(service, &task->caller, task->session, &order, &json, &fault);
    pthread_mutex_lock(&task->lock);
    task->json = json;
    task->fault = fault;
    task->done = true;
    pthread_cond_broadcast(&task->changed);
    pthread_mutex_unlock(&task->lock);
    task_unref(task);
    service_worker_count(service, -1); /* the last use of the service */
    return NULL;
}

static int text_copy(const char *text, char **ret_copy)
{
    *ret_copy = text ? strdup(text) : NULL;
    return !text || *ret_copy ? 0 : -ENOMEM;
}

static int thread_start(struct install_task *task)
{
    struct service *service = task->service;
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void) pthread_attr_setstacksize(&attr, TASK_STACK);
    task->refs++;
    service_worker_count(service, 1);
    r = pthread_create(&thread, &attr, task_main, task);
    pthread_attr_destroy(&attr);
    if (r != 0) {
        service_worker_count(service, -1);
        task->refs--;
    }
    return -r;
}

int install_task_start(struct service *service, const struct caller *caller,
                       struct session *session, const struct install_order *order,
                       const char *package, const char *version, struct install_task **ret_task,
                       struct fault *fault)
{
    struct install_task *task = calloc(1, sizeof *task);
    pthread_condattr_t attr;

    if (!task)
        return fault_no_memory(fault);
    task->service = service;
    task->caller = *caller;
    task->session = session ? session_ref(session) : NULL;
    task->newest = order->newest;
    task->remove = order->remove;
    task->cancel[0] = task->cancel[1] = -EBADF;
    task->refs = 1;
    pthread_mutex_init(&task->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&task->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (strv_copy(order->wanted, &task->wanted) < 0 || text_copy(package, &task->package) < 0 ||
        text_copy(version, &task->version) < 0 ||
        text_copy(caller->listener, &task->listener) < 0 || pipe2(task->cancel, O_CLOEXEC) < 0) {
        task_unref(task);
        return fault_no_memory(fault);
    }
    task->caller.listener = task->listener;
    if (thread_start(task) < 0) {
        task_unref(task);
        return fault_set(fault, PROBLEM_OUT_OF_THREADS, NULL,
                         "the service is out of threads; try again later");
    }
    *ret_task = task;
    return 0;
}

static bool is_news(const struct install_task *task)
{
    return task->done || task->number != task->read;
}

static void event_fill(struct install_task *task, struct install_event *ret_event)
{
    *ret_event = (struct install_event){ .last = task->number == task->read };
    if (ret_event->last) {
        ret_event->json = TAKE_PTR(task->json);
        ret_event->fault = task->fault;
        task->finished = true;
        return;
    }
    task->read = task->number;
    memcpy(task->told_name, task->name, sizeof task->told_name);
    ret_event->progress = task->progress;
    ret_event->progress.name = task->told_name;
}

int install_task_next(struct install_task *task, int64_t timeout_us,
                      struct install_event *ret_event)
{
    int64_t until = clock_now_us() + timeout_us;
    struct timespec at = { .tv_sec = (time_t) (until / USEC_PER_SEC),
                           .tv_nsec = (long) (until % USEC_PER_SEC * 1000) };
    bool news;

    if (task->finished)
        return -1;
    pthread_mutex_lock(&task->lock);
    while (!is_news(task))
        if (pthread_cond_timedwait(&task->changed, &task->lock, &at) == ETIMEDOUT)
            break;
    news = is_news(task);
    if (news)
        event_fill(task, ret_event);
    pthread_mutex_unlock(&task->lock);
    return news;
}

void install_task_free(struct install_task *task)
{
    if (!task)
        return;
    pthread_mutex_lock(&task->lock);
    gb_closep(&task->cancel[1]);
    task->cancel[1] = -EBADF;
    pthread_mutex_unlock(&task->lock);
    task_unref(task);
}
