/*
 * Making layers: an installer box, pip in it, and its result.
 *
 * Theory of operation. A request is a set of requirements and the layer that it adds to. Its hash
 * is looked up first: a set that was requested before is known within a millisecond. Otherwise,
 * with a lock on that hash, a box is made that can reach the indexes and nothing else (egress.h),
 * and installer.py runs in it twice. First pip resolves: which wheels, with which hashes. These
 * determine the layer's key; if that layer exists we are done. Otherwise the wheels are fetched and
 * unpacked in the box and copied out into a new directory, which becomes the layer in one step.
 *
 * Only wheels are accepted, so no code of a package runs while it is installed. If the operator
 * allows packages to be built, it does, in the box; such a layer is not shared with other callers,
 * because a build can modify everything that is installed with it.
 */
#pragma once

#include <jansson.h>
#include <pthread.h>

#include "engine/engine.h"
#include "service/package/layers.h"
#include "service/package/pip_config.h"
#include "service/package/requirement.h"
#include "service/service.h"

struct egress;
struct egress_policy;

struct installer {
    struct engine *engine;
    struct egress *egress;
    const struct egress_policy
        *network; /* the operator's, for its addresses and secrets; NULL: none */
    struct layers *layers;
    struct pip_config *pip;
    const struct package_config *config;
    const char *preload; /* of the template: part of what a request means */
    const char *python;  /* NULL: the system's */
    const char *venv;    /* names the packages of the template's own environment; NULL: it has
                            none, and sees those of the system */
    bool disk;           /* boxes may have workspaces on disk */
    void (*log)(void *arg, enum log_level level, const char *line); /* may be NULL */
    void *log_arg;

    pthread_mutex_t lock;
    pthread_cond_t free;
    unsigned running;
};

/* The caller fills everything above the lock, and owns it. */
void installer_init(struct installer *installer);
void installer_release(struct installer *installer);

struct install_request {
    const struct requirement *items;
    size_t len;
    const json_t *base; /* record of the layer to add to, or NULL */
    bool newest;        /* items without a version must be the newest, not just installed */
    const char *scope;  /* whose request it is; for layers that are not shared */
    int cancel_fd;      /* readable: stop. -1: never */
};

/* The result. @layer is NULL if everything was installed already. */
struct install_result {
    struct layer *layer;
    json_t *present; /* {name: version} of wanted packages that boxes have anyway */
    bool cached;     /* no index was asked */
    bool stale;      /* the index is unreachable; this is an earlier result */
};
void install_result_release(struct install_result *result);

int install(struct installer *installer, const struct install_request *request,
            struct install_result *ret_result, struct fault *fault);

/* ---- layer_copy.c ---- */

/* Copies everything below @tree of the box's workspace into directory @dir. EFBIG, E2BIG: too much.
 */
int layer_copy(struct box *box, const char *tree, int dir, int64_t bytes_max, int64_t *ret_bytes,
               int64_t *ret_files, struct gb_err *err);
