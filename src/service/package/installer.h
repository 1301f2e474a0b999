/*
 * Making layers: an installer box, uv or pip in it, and the result.
 *
 * Theory of operation. A request is a set of requirements and the layer that it adds to. Its hash
 * is looked up first: a set that was requested before is known within a millisecond. Otherwise,
 * with a lock on that hash, a box is made that can reach the indexes and nothing else (egress.h),
 * and installer.py runs in it. First it resolves: which wheels, with which hashes. These determine
 * the layer's key; if that layer exists we are done. Otherwise the wheels that no earlier install
 * has left in the store (trees.h) are fetched and unpacked in the box, and copied out, batch by
 * batch; then the layer is composed of all of them (layer_make.c).
 *
 * Only wheels are accepted, so no code of a package runs while it is installed. If the operator
 * allows packages to be built, it does, in the box; what is made there is not shared with other
 * callers, because a build can modify everything that is installed with it.
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

/* uv: in /usr, where boxes see it, or a copy in the store (tool.c). */
struct tool {
    bool none;        /* it is not to be used */
    const char *path; /* in /usr, or NULL */
    char name[80];    /* in tools/ of the store, if @fd is open */
    int fd;           /* with a shared lock */
    int64_t again_us; /* when to try again to fetch it */
    pthread_mutex_t lock;
};

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

    struct tool tool;
    pthread_mutex_t lock;
    pthread_cond_t free;
    unsigned running;
};

/* The caller fills everything above the tool, and owns it. */
void installer_init(struct installer *installer);
void installer_release(struct installer *installer);

/* ---- tool.c ---- */

/* Looks for uv, once the configuration and the store are known. Fails only if the operator named
 * one that cannot be used. */
int installer_tool_find(struct installer *installer, struct gb_err *err);

/* ---- an install ---- */

struct install_request {
    const struct requirement *items;
    size_t len;
    const json_t *base; /* record of the layer to add to, or NULL: its versions are preferred */
    json_t *kept;       /* list of the requirements that @base was made of and that still hold, as
                           text; may be NULL */
    bool newest;        /* items without a version must be the newest, not just installed */
    bool isolated;      /* nothing counts as installed: for boxes that do not see the host's */
    const char *lock;   /* text of a lock file (lock.h) that says it all: no items; may be NULL */
    struct template *template; /* of the box; NULL: the default one */
    const char *environment;   /* what @template is: part of what the request means; may be NULL */
    const char *scope;         /* whose request it is; for layers that are not shared */
    int cancel_fd;             /* readable: stop. -1: never */
    struct install_watch watch;
    /* Called with a layer that was resolved now; a fault means that nobody is to get it. May be
     * NULL. */
    int (*trial)(void *arg, const struct layer *layer, struct fault *fault);
    void *trial_arg;
};

/* The result. @layer is NULL if everything was installed already. */
struct install_result {
    struct layer *layer;
    json_t *present; /* {name: version} of wanted packages that boxes have anyway */
    json_t *older;   /* list of {"name", "version", "newest"}, from a box; may be NULL */
    bool cached;     /* no index was asked */
    bool stale;      /* the index is unreachable; this is an earlier result */
    bool made;       /* the layer is new */
};
void install_result_release(struct install_result *result);

int install(struct installer *installer, const struct install_request *request,
            struct install_result *ret_result, struct fault *fault);

/* Finds or makes the layer that has all packages of request->base but those in @names, a list of
 * normal names. No index is asked. */
int install_without(struct installer *installer, const struct install_request *request,
                    const json_t *names, struct install_result *ret_result, struct fault *fault);
