/* Packages: the interface for the other rooms of the service. */
#pragma once

#include "service/package/layers.h"
#include "service/service.h"

struct box;
struct engine_config;

/* ---- packages.c ---- */

/* Opens the store and reads pip's configuration, before the engine is opened: fills the shelves of
 * @engine. */
int packages_open(struct service *service, struct engine_config *engine, struct gb_err *err);
/* Once engine and egress are open. */
void packages_attach(struct service *service);
/* From now on installs are cut short. */
void packages_stop(struct service *service);
void packages_close(struct service *service);
void packages_sweep(struct service *service);
struct layers *packages_layers(struct service *service);
void packages_get_stats(struct service *service, struct service_stats *stats);

/* The caller's default packages: a reference, or NULL. */
struct layer *packages_default(struct service *service, const char *set_name);

/* ---- install.c ---- */

/* Mounts the layer in a box that nobody has used yet. */
int packages_mount(struct service *service, struct box *box, const struct layer *layer,
                   struct fault *fault);

/* For a session that is being created: the caller's default set, and the requested packages. */
int packages_move_in(struct session *session, const struct caller *caller,
                     const char *const *wanted, struct fault *fault);

/* Installs into the store and nowhere else, for boxes that do not have the host's packages: all
 * dependencies are in it. *@ret_layer is a reference to the result. */
struct layer_order {
    const char *const *wanted; /* requirements, NULL-terminated; or NULL */
    const char *lock; /* or the text of a lock file (lock.h): exactly those wheels of it that
                         are for this interpreter, each by one of its hashes */
    struct install_watch watch;
};
int packages_make_layer(struct service *service, const struct layer_order *order,
                        struct layer **ret_layer, json_t **ret_json, struct fault *fault);

/* ---- cell_request.c ---- */

/* As run_spec.ask, for requests about packages; @arg is the execution. */
int packages_ask(void *arg, const char *json, size_t len);

/* Before and after a one-shot: the caller's default packages are mounted in its box, and while it
 * runs it may install more. */
int packages_furnish(struct execution *x, struct box *box, struct fault *fault);
void packages_leave(struct execution *x);
