/*
 * Boxes in the supervisor: created, listed, taken, terminated; and the pool.
 *
 * Theory of operation. Every box of an engine is in one list, under one lock, so that a builder
 * that replaces a dead one can be handed them all. The pool is a thread that keeps some of them
 * ready, optionally each with a sealed tenant in it that waits for its program: cloning a large
 * interpreter is most of a short run, and a request for a box should not wait for it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

/* ---- boxes ---- */

static void box_close(struct box *box)
{
    gb_closep(&box->pidfd);
    gb_closep(&box->lifeline);
    gb_closep(&box->root);
    wire_close_fds(box->cgroup_fds, box->cgroup_fds_len);
    standing_state_free(box->standing_state);
    disk_watch_free(box->disk_watch);
    engine_template_put(box->template);
    free(box);
}

static int box_new(struct engine *engine, const struct limits *limits,
                   const struct box_options *options, struct box **ret_box, struct gb_err *err)
{
    struct builder_request request = { .op = BOX_MAKE };
    autoclose int image = -EBADF, volumes = -EBADF;
    struct box *box;
    struct builder_reply reply;
    struct template *template = options->template ? options->template : engine->first;
    int sent[3], fds[WIRE_FDS_MAX], r = 0;
    size_t sent_len = 0, fds_len = 0;

    if (options->disk && (r = disk_prepare(engine->disk, limits, &image, err)) < 0)
        return r;
    if (options->volumes_len > 0) {
        r = volumes_list(engine->volumes, options->volumes, options->volumes_len, &volumes, err);
        if (r < 0)
            return r;
        /* If mounts cannot translate ids, only our own id works. */
        request.make.own_id = engine->id_mode != ID_ROOT && geteuid() != 0;
        request.make.volumes = 1;
    }
    if (image >= 0)
        sent[sent_len++] = image;
    if (volumes >= 0)
        sent[sent_len++] = volumes;
    box = calloc(1, sizeof *box);
    if (!box)
        return gb_fail(err, ENOMEM, "create a box");
    request.make.disk = options->disk ? disk_kind_of(engine->disk) : DISK_NONE;
    request.box = __atomic_add_fetch(&engine->next_box, 1, __ATOMIC_RELAXED);
    request.make.limits = *limits;
    request.make.root = template->root >= 0;
    if (request.make.root)
        sent[sent_len++] = template->root;
    r = engine_call(engine, &request, sent, sent_len, &reply, fds, &fds_len, err);
    if (r < 0 || fds_len < 3 || fds_len > 3 + CGROUP_FDS_MAX) {
        if (r == 0) {
            wire_close_fds(fds, fds_len);
            r = gb_fail_plain(err, EPROTO, "the builder sent no box");
        }
        free(box);
        return r;
    }
    *box = (struct box){ .engine = engine,
                         .template = template_ref(template),
                         .id = request.box,
                         .host_id = reply.box.host_id,
                         .limits = *limits,
                         .disk = (enum disk_kind) request.make.disk,
                         .pidfd = fds[0],
                         .lifeline = fds[1],
                         .root = fds[2],
                         .cgroup_fds_len = fds_len - 3,
                         .cgroup_into = reply.box.cgroup_into,
                         .spare.ends = { -EBADF, -EBADF, -EBADF } };
    memcpy(box->cgroup_fds, fds + 3, sizeof(int) * (fds_len - 3));
    *ret_box = box;
    return 0;
}

static void box_link(struct box *box)
{
    struct engine *engine = box->engine;

    pthread_mutex_lock(&engine->boxes_lock);
    box->next = engine->boxes;
    engine->boxes = box;
    pthread_mutex_unlock(&engine->boxes_lock);
}

static void box_unlink(struct box *box)
{
    struct engine *engine = box->engine;

    pthread_mutex_lock(&engine->boxes_lock);
    for (struct box **at = &engine->boxes; *at; at = &(*at)->next) {
        if (*at == box) {
            *at = box->next;
            break;
        }
    }
    pthread_mutex_unlock(&engine->boxes_lock);
}

/* Whether a box that was created with @made is suitable. We count time and output for each
 * execution; a tenant that was cloned in advance may have its own limit on CPU time. */
static bool limits_fit(const struct limits *made, const struct limits *wanted)
{
    struct limits same = *wanted;

    same.wall_us = made->wall_us;
    same.output_bytes = made->output_bytes;
    if (made->cpu_us == 0)
        same.cpu_us = 0;
    return memcmp(made, &same, sizeof same) == 0;
}

static struct box *pool_take(struct engine *engine, const struct limits *limits)
{
    struct box *found = NULL;

    pthread_mutex_lock(&engine->boxes_lock);
    for (struct box *box = engine->boxes; box && !found; box = box->next)
        if (box->ready && limits_fit(&box->limits, limits))
            found = box;
    if (found) {
        found->ready = false;
        found->limits = *limits;
    }
    pthread_mutex_unlock(&engine->boxes_lock);
    return found;
}

int box_acquire(struct engine *engine, const struct limits *limits, struct box **ret_box,
                struct gb_err *err)
{
    return box_acquire_with(engine, limits, NULL, ret_box, err);
}

int box_acquire_with(struct engine *engine, const struct limits *limits,
                     const struct box_options *options, struct box **ret_box, struct gb_err *err)
{
    const struct box_options plain = { 0 };
    bool special = options && (options->disk || options->volumes_len > 0 ||
                               (options->template && options->template != engine->first));
    struct box *box = special ? NULL : pool_take(engine, limits);
    int r;

    if (box) {
        *ret_box = box;
        return 0;
    }
    r = box_new(engine, limits, special ? options : &plain, &box, err);
    if (r < 0)
        return r;
    box_link(box);
    if (box->disk == DISK_WATCHED && (r = disk_watch_new(&box->disk_watch)) < 0) {
        box_release(box);
        return gb_fail(err, -r, "watch a workspace");
    }
    *ret_box = box;
    return 0;
}

void box_release(struct box *box)
{
    struct builder_request request = { .op = BOX_END };
    struct builder_reply reply;
    struct gb_err ignored;

    if (!box)
        return;
    request.box = box->id;
    tenant_free(box->spare.tenant);
    if (box->disk == DISK_IMAGE) {
        /* Unwritten data is written when the last reference to it is dropped: that should be PID 1,
         * whose exit only we wait for, and not the builder, which everybody waits for. */
        request.op = BOX_LEAVE;
        (void) engine_call(box->engine, &request, NULL, 0, &reply, NULL, NULL, &ignored);
        request.op = BOX_END;
    }
    for (int i = 0; i < 3; i++)
        gb_closep(&box->spare.ends[i]);
    /* We may signal it ourselves: as root, or as the owner of the outer user namespace. */
    (void) syscall(SYS_pidfd_send_signal, box->pidfd, SIGKILL, NULL, 0);
    pid_reap(box->pidfd);
    (void) engine_call(box->engine, &request, NULL, 0, &reply, NULL, NULL, &ignored);
    box_unlink(box);
    disk_sweep_box(box);
    /* Only now is the pool refilled: creating a box while this one was in use would have delayed
     * its requests to the builder. */
    pthread_cond_signal(&box->engine->pool_wanted);
    box_close(box);
}

/* ---- the pool ---- */

static unsigned pool_ready(const struct engine *engine)
{
    unsigned ready = 0;

    for (const struct box *box = engine->boxes; box; box = box->next)
        ready += box->ready;
    return ready;
}

static void *pool_main(void *arg)
{
    struct engine *engine = arg;

    pthread_mutex_lock(&engine->boxes_lock);
    while (!engine->pool_stop) {
        struct gb_err ignored;
        struct box *box = NULL;
        int r;

        if (pool_ready(engine) >= engine->config.pool_boxes) {
            pthread_cond_wait(&engine->pool_wanted, &engine->boxes_lock);
            continue;
        }
        pthread_mutex_unlock(&engine->boxes_lock);
        r = box_new(engine, &engine->config.pool_limits, &(struct box_options){ 0 }, &box,
                    &ignored);
        if (r == 0) {
            box_link(box);
            if (engine->config.pool_tenants)
                r = box_prepare(box, &ignored);
            if (r < 0)
                box_release(box);
        }
        pthread_mutex_lock(&engine->boxes_lock);
        if (r == 0)
            box->ready = true;
        else if (!engine->pool_stop) /* the next request makes its own box and sees the error */
            pthread_cond_wait(&engine->pool_wanted, &engine->boxes_lock);
    }
    pthread_mutex_unlock(&engine->boxes_lock);
    return NULL;
}

int pool_start(struct engine *engine, struct gb_err *err)
{
    sigset_t all, before;
    int r;

    if (engine->config.pool_boxes == 0)
        return 0;
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&engine->pool_thread, NULL, pool_main, engine);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0)
        return gb_fail(err, r, "start the pool");
    engine->pool_running = true;
    return 0;
}

void pool_end(struct engine *engine)
{
    if (!engine->pool_running)
        return;
    pthread_mutex_lock(&engine->boxes_lock);
    engine->pool_stop = true;
    pthread_cond_signal(&engine->pool_wanted);
    pthread_mutex_unlock(&engine->boxes_lock);
    pthread_join(engine->pool_thread, NULL);
}
