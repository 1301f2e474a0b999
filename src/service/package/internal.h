/* What the files about packages share. */
#pragma once

#include "service/package/installer.h"
#include "service/package/packages.h"
#include "service/service_internal.h"

#define SETS_KEPT 64 /* default sets that are looked up without reading a file */

struct packages {
    struct installer installer;
    int stop[2]; /* a pipe; its end tells installs to stop */
    pthread_mutex_t lock;
    struct kept_set {
        char name[SET_NAME_MAX];
        int64_t stamp;
        struct layer *layer;
    } kept[SETS_KEPT];
    size_t kept_next;
};

/* The layer of a default set as stored: a reference, or NULL. */
struct layer *set_layer(struct service *service, const char *name, const json_t *set);

/* ---- install.c ---- */

/* One install, from the request to the reply. */
struct install_job {
    struct service *service;
    const char *scope; /* whose install it is; for layers that are not shared */
    struct requirement *items;
    size_t len;
    bool newest; /* items without a version are to be the newest, not just installed */
    int64_t begun_us;
    struct install_watch watch;
    int cancel_fd; /* readable: stop, besides the service's own end. -1: none */
    bool isolated; /* as in struct install_request, like the next three */
    const char *lock;
    struct template *template; /* a reference */
    char *environment;
    bool removes;         /* the items are to be removed: names only */
    bool live;            /* it goes into a session, which may have imported what changes */
    struct layer *before; /* what it adds to, a reference; NULL: nothing */
    struct install_result result;
};

/* Parses and checks the requirements. Release it unless this fails. */
int install_job_init(struct install_job *job, struct service *service,
                     const struct install_order *order, struct fault *fault);
void install_job_release(struct install_job *job);

/* Finds or makes the layer that has the previous packages and the items. @requirements are those
 * that the previous packages were requested with; may be NULL. */
int install_job_resolve(struct install_job *job, const json_t *requirements, struct fault *fault);

/* ---- trial.c ---- */

/* Imports the items of a new layer in a box of its own. What cannot be imported is a fault. */
int trial_run(struct install_job *job, const struct layer *layer, struct fault *fault);

/* Whether boxes of that template have the default sets of callers. */
bool packages_template_fits(const struct service *service, const char *template);

/* For packages that go over those of the template of @box, whose name is @template. */
int install_job_adopt(struct install_job *job, struct box *box, const char *template,
                      struct fault *fault);

/* For one-shots: installs into the box of the execution, and nothing else. */
int packages_install_here(struct execution *x, const struct install_order *order, json_t **ret_json,
                          struct fault *fault);

/* ---- json.c ---- */

/* Adds the items of the job to a list of requirements, replacing those of the same name, or
 * removes them. */
void requirements_change(json_t *list, const struct install_job *job);

/* The requirements of the list that are for other packages than the items; NULL: out of memory. */
json_t *requirements_kept(const struct install_job *job, const json_t *list);

/* The result of packages_install(); NULL: out of memory. */
json_t *install_to_json(const struct install_job *job);

/* As packages_list() returns it. Both may be NULL. */
json_t *layer_to_json(const struct layer *layer, const json_t *requirements);

/* The interpreter that a set is for. */
#define PYTHON_STAMP_MAX 4200
void python_stamp(const struct installer *installer, char ret_stamp[PYTHON_STAMP_MAX]);
