/*
 * Packages: the sets of sessions and callers. Installing more is in install.c.
 *
 * A session has one layer at a time: the whole set of packages that were installed into it. A
 * caller without a session has a default set, a file in the store (layers.h); every fresh box of
 * that caller starts with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/parse.h"
#include "service/access/audit.h"
#include "service/package/installer.h"
#include "service/package/internal.h"
#include "service/session/session.h"

#include "base/banned.h"

/* ---- start and end ---- */

static void on_log(void *arg, enum log_level level, const char *line)
{
    service_log(arg, level, "%s", line);
}

int packages_open(struct service *service, struct engine_config *engine, struct gb_err *err)
{
    const struct package_config *config = &service->config.packages;
    const struct pip_options options = { config->index_url, config->extra_indexes, config->wheels };
    struct packages *packages = calloc(1, sizeof *packages);
    struct installer *installer;
    int r;

    if (!packages)
        return gb_fail(err, ENOMEM, "open the package store");
    installer = &packages->installer;
    installer_init(installer);
    pthread_mutex_init(&packages->lock, NULL);
    packages->stop[0] = packages->stop[1] = -EBADF;
    service->packages = packages;
    r = layers_open(service->config.data_dir, &installer->layers, err);
    if (r == 0)
        r = pip_config_load(&options, &installer->pip, err);
    if (r == 0 && pipe2(packages->stop, O_CLOEXEC) < 0)
        r = gb_fail(err, errno, "create a pipe");
    if (r < 0)
        return r;
    if (installer->pip->note[0])
        service_log(service, LOG_LEVEL_WARNING, "packages: %s", installer->pip->note);
    installer->config = config;
    installer->preload = engine->preload;
    if (engine->packages.lib) {
        const char *slash = engine->packages.dir ? strrchr(engine->packages.dir, '/') : NULL;

        installer->venv = slash ? slash + 1 : "empty"; /* a layer's key */
    } else
        installer->python = engine->python;
    installer->log = on_log;
    installer->log_arg = service;
    r = installer_tool_find(installer, err);
    if (r < 0)
        return r;
    engine->shelves[0] = layers_dir(installer->layers);
    engine->shelves[1] = layers_tools_dir(installer->layers);
    for (size_t i = 0; installer->pip->dirs[i]; i++)
        engine->shelves[i + 2] = installer->pip->dirs[i];
    return 0;
}

void packages_attach(struct service *service)
{
    struct installer *installer = &service->packages->installer;

    installer->engine = service->engine;
    installer->egress = service->egress;
    installer->network = service->config.network;
    installer->disk = service->disk;
}

void packages_stop(struct service *service)
{
    struct packages *packages = service->packages;

    if (!packages)
        return;
    pthread_mutex_lock(&packages->lock);
    gb_closep(&packages->stop[1]);
    packages->stop[1] = -EBADF;
    pthread_mutex_unlock(&packages->lock);
}

void packages_close(struct service *service)
{
    struct packages *packages = service->packages;

    if (!packages)
        return;
    for (size_t i = 0; i < SETS_KEPT; i++)
        layer_unref(packages->kept[i].layer);
    pip_config_free(packages->installer.pip);
    layers_close(packages->installer.layers);
    installer_release(&packages->installer);
    gb_closep(&packages->stop[0]);
    gb_closep(&packages->stop[1]);
    pthread_mutex_destroy(&packages->lock);
    free(packages);
    service->packages = NULL;
}

/* A set that was changed or reset must not keep its old layer in use. */
static void kept_sweep(struct packages *packages)
{
    pthread_mutex_lock(&packages->lock);
    for (size_t i = 0; i < SETS_KEPT; i++) {
        struct kept_set *kept = &packages->kept[i];

        if (!kept->name[0] || set_stamp(packages->installer.layers, kept->name) == kept->stamp)
            continue;
        layer_unref(kept->layer);
        *kept = (struct kept_set){ 0 };
    }
    pthread_mutex_unlock(&packages->lock);
}

void packages_sweep(struct service *service)
{
    const struct package_config *config = &service->config.packages;
    unsigned removed = 0;
    struct gb_err err;

    if (!service->packages)
        return;
    kept_sweep(service->packages);
    if (layers_prune(service->packages->installer.layers, config->store_bytes, config->store_age_us,
                     &removed, &err) < 0)
        service_log(service, LOG_LEVEL_WARNING, "packages: %s", err.msg);
    if (removed > 0)
        service_log(service, LOG_LEVEL_INFO, "packages: %u layers pruned", removed);
}

void packages_get_stats(struct service *service, struct service_stats *stats)
{
    struct layers_stats layers = { 0 };

    if (service->packages)
        layers_get_stats(service->packages->installer.layers, &layers);
    stats->installs = atomic_load(&service->installs);
    stats->installs_cached = atomic_load(&service->installs_cached);
    stats->installs_failed = atomic_load(&service->installs_failed);
    stats->layers = layers.count;
    stats->layers_bytes = layers.bytes;
}

/* ---- the default set ---- */

/* Packages for another interpreter may not work. */
static bool set_fits(struct service *service, const json_t *set)
{
    const char *python = json_string_value(json_object_get(set, "python"));
    char now[PYTHON_STAMP_MAX];

    python_stamp(&service->packages->installer, now);
    return python && strcmp(python, now) == 0;
}

struct layer *set_layer(struct service *service, const char *name, const json_t *set)
{
    const char *key = json_string_value(json_object_get(set, "key"));
    struct layer *layer = NULL;
    struct gb_err err;

    if (!key || !key[0])
        return NULL;
    if (!set_fits(service, set))
        service_log(service, LOG_LEVEL_WARNING,
                    "packages: the set %s was installed for another Python; install it again",
                    name);
    else if (layer_get(service->packages->installer.layers, key, &layer, &err) < 0)
        service_log(service, LOG_LEVEL_WARNING, "packages: the set %s: %s", name, err.msg);
    return layer;
}

struct layer *packages_default(struct service *service, const char *set_name)
{
    struct packages *packages = service->packages;
    struct kept_set *kept = NULL;
    struct layer *layer = NULL;
    json_t *set = NULL;
    int64_t stamp;

    if (!packages || !set_name[0])
        return NULL;
    stamp = set_stamp(packages->installer.layers, set_name);
    if (stamp == 0)
        return NULL;
    pthread_mutex_lock(&packages->lock);
    for (size_t i = 0; i < SETS_KEPT && !kept; i++)
        if (strcmp(packages->kept[i].name, set_name) == 0)
            kept = &packages->kept[i];
    if (kept && kept->stamp == stamp)
        layer = layer_ref(kept->layer);
    pthread_mutex_unlock(&packages->lock);
    if (kept && layer)
        return layer;
    if (set_get(packages->installer.layers, set_name, &set) < 0)
        return NULL;
    layer = set_layer(service, set_name, set);
    json_decref(set);
    pthread_mutex_lock(&packages->lock);
    if (!kept || strcmp(kept->name, set_name) != 0)
        kept = &packages->kept[packages->kept_next++ % SETS_KEPT];
    layer_unref(kept->layer);
    snprintf(kept->name, sizeof kept->name, "%s", set_name);
    kept->stamp = stamp;
    kept->layer = layer_ref(layer);
    pthread_mutex_unlock(&packages->lock);
    return layer;
}

/* ---- the calls ---- */

struct layers *packages_layers(struct service *service)
{
    return service->packages->installer.layers;
}

int packages_list(struct service *service, const struct caller *caller, struct session *session,
                  json_t **ret_json, struct fault *fault)
{
    char name[SET_NAME_MAX];
    struct layer *layer;
    json_t *set = NULL;

    if (session) {
        pthread_mutex_lock(&session->packages_lock);
        *ret_json = layer_to_json(session->layer, session->requirements);
        pthread_mutex_unlock(&session->packages_lock);
    } else {
        set_name(&caller->principal, caller->listener, name);
        if (set_get(service->packages->installer.layers, name, &set) < 0)
            set = NULL;
        layer = set ? set_layer(service, name, set) : NULL;
        *ret_json = layer_to_json(layer, json_object_get(set, "requirements"));
        layer_unref(layer);
        json_decref(set);
    }
    return *ret_json ? 0 : fault_no_memory(fault);
}

int packages_reset(struct service *service, const struct caller *caller, struct fault *fault)
{
    char name[SET_NAME_MAX];
    struct gb_err err;

    set_name(&caller->principal, caller->listener, name);
    if (set_remove(service->packages->installer.layers, name, &err) < 0 && err.code != ENOENT)
        return fault_from_engine(service, "the default packages cannot be changed", &err, fault);
    return 0;
}
