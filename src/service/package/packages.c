/*
 * Packages: what sessions and callers have, and how they get more.
 *
 * A session has one layer at a time: the whole set of what was installed into it. To install more
 * is to make, or find, the layer of the larger set and to mount it over the first; versions that
 * were there are kept as they are, so what is imported already stays right. A caller without a
 * session has a default set, a file in the store (layers.h), which all his fresh boxes begin with.
 *
 * Who installs into a session has its packages_lock, who installs into a set has a lock on the set;
 * both are held while pip runs. Installs count as work in flight, so that draining waits for them,
 * and are cut short when draining has waited long enough.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/parse.h"
#include "service/package/installer.h"
#include "service/package/internal.h"
#include "service/service_internal.h"

#include "base/banned.h"

#define SETS_KEPT  64         /* default sets that are looked up without reading a file */
#define MOUNTS_MAX 64         /* in one session */
#define NOBODY     "(nobody)" /* scope of what the operator installs: no caller's set is called so */

struct kept_set {
    char name[SET_NAME_MAX];
    int64_t stamp;
    struct layer *layer;
};

struct packages {
    struct installer installer;
    int stop[2]; /* a pipe; its end is the order to stop */
    pthread_mutex_t lock;
    struct kept_set kept[SETS_KEPT];
    size_t kept_next;
};

/* ---- start and end ---- */

static void on_log(void *arg, int priority, const char *line)
{
    service_log(arg, priority, "%s", line);
}

int packages_open(struct service *service, struct engine_config *engine, struct gb_err *err)
{
    const struct package_config *config = &service->config.packages;
    const struct pip_options options = { config->index_url, config->extra_indexes, config->wheels };
    struct packages *packages = calloc(1, sizeof *packages);
    struct installer *installer;
    int r;

    if (!packages)
        return gb_fail(err, ENOMEM, "open the packages");
    installer = &packages->installer;
    installer_init(installer);
    pthread_mutex_init(&packages->lock, NULL);
    packages->stop[0] = packages->stop[1] = -EBADF;
    service->packages = packages;
    r = layers_open(service->config.data_dir, &installer->layers, err);
    if (r == 0)
        r = pip_config_load(&options, &installer->pip, err);
    if (r == 0 && pipe2(packages->stop, O_CLOEXEC) < 0)
        r = gb_fail(err, errno, "pipe");
    if (r < 0)
        return r;
    if (installer->pip->note[0])
        service_log(service, LOG_WARNING, "packages: %s", installer->pip->note);
    installer->config = config;
    installer->preload = engine->preload;
    installer->python = engine->python;
    installer->log = on_log;
    installer->log_arg = service;
    engine->shelves[0] = layers_dir(installer->layers);
    for (size_t i = 0; i + 1 < SHELVES_MAX && installer->pip->dirs[i]; i++)
        engine->shelves[i + 1] = installer->pip->dirs[i];
    return 0;
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
        service_log(service, LOG_WARNING, "packages: %s", err.msg);
    if (removed > 0)
        service_log(service, LOG_INFO, "packages: %u layers pruned", removed);
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

/* ---- what is wanted ---- */

static int parse_one(const struct package_config *config, const char *text,
                     struct requirement *ret_item, struct fault *fault)
{
    struct gb_err err;

    if (requirement_parse(text, config->urls, ret_item, &err) < 0)
        return fault_set(fault,
                         err.code == EPERM ? PROBLEM_PACKAGE_URL : PROBLEM_REQUIREMENT_MALFORMED,
                         "packages", "%s", err.msg);
    if (package_listed(config->blocked, ret_item->normal))
        return fault_set(fault, PROBLEM_PACKAGE_BLOCKED, "packages",
                         "%s is blocked by the operator", ret_item->name);
    if (config->allowed && !package_listed(config->allowed, ret_item->normal))
        return fault_set(fault, PROBLEM_PACKAGE_NOT_ALLOWED, "packages",
                         "%s is not among the packages that the operator allows", ret_item->name);
    return 0;
}

int wanted_parse(const struct package_config *config, const char *const *wanted,
                 struct requirement **ret_items, size_t *ret_len, struct fault *fault)
{
    struct requirement *items;
    size_t len = 0;

    while (wanted[len])
        len++;
    if (len == 0)
        return fault_set(fault, PROBLEM_REQUIREMENT_MISSING, "packages",
                         "name at least one package");
    if (len > REQUIREMENTS_MAX)
        return fault_set(fault, PROBLEM_TOO_MANY_REQUIREMENTS, "packages",
                         "at most %d packages can be asked for at a time", REQUIREMENTS_MAX);
    items = calloc(len, sizeof *items);
    if (!items)
        return fault_no_memory(fault);
    for (size_t i = 0; i < len; i++)
        if (parse_one(config, wanted[i], &items[i], fault) < 0) {
            free(items);
            return -1;
        }
    *ret_items = items;
    *ret_len = len;
    return 0;
}

int packages_check(const struct package_config *config, const char *const *wanted,
                   struct fault *fault)
{
    struct requirement *items;
    size_t len;

    if (wanted_parse(config, wanted, &items, &len, fault) < 0)
        return -1;
    free(items);
    return 0;
}

/* ---- mounting ---- */

int packages_mount(struct service *service, struct box *box, const struct layer *layer,
                   struct fault *fault)
{
    struct gb_err err;

    if (box_mount_shelf(box, 0, layer_key(layer), 0, &err) < 0)
        return fault_from_engine(service, "the packages could not be mounted", &err, fault);
    return 0;
}

/* ---- an install, wherever it goes ---- */

static int install_begin(struct service *service, const struct caller *caller, struct fault *fault)
{
    bool draining;

    if (account_take_install(service, caller, fault) < 0)
        return -1;
    pthread_mutex_lock(&service->lock);
    draining = service->draining;
    if (!draining)
        service->in_flight++;
    pthread_mutex_unlock(&service->lock);
    if (draining)
        return fault_set(fault, PROBLEM_DRAINING, NULL,
                         "the service is stopping; try another or come back");
    return 0;
}

static void install_end(struct service *service)
{
    pthread_mutex_lock(&service->lock);
    if (--service->in_flight == 0)
        pthread_cond_broadcast(&service->idle);
    pthread_mutex_unlock(&service->lock);
}

int packages_resolve(struct service *service, const char *scope, const struct requirement *items,
                     size_t len, const struct layer *base, bool newest,
                     struct install_result *ret_result, struct fault *fault)
{
    struct install_request request = { .items = items,
                                       .len = len,
                                       .base = base ? layer_record(base) : NULL,
                                       .newest = newest,
                                       .scope = scope,
                                       .cancel_fd = service->packages->stop[0] };
    int r;

    service->packages->installer.engine = service->engine;
    service->packages->installer.egress = service->egress;
    service->packages->installer.network = service->config.network;
    service->packages->installer.disk = service->disk;
    r = install(&service->packages->installer, &request, ret_result, fault);
    if (r == 0 && !ret_result->layer && base)
        ret_result->layer = layer_ref((struct layer *) base);
    return r;
}

static void counted(struct service *service, const struct install_result *result, bool ok)
{
    if (!ok)
        atomic_fetch_add(&service->installs_failed, 1);
    else if (result->cached)
        atomic_fetch_add(&service->installs_cached, 1);
    if (ok)
        atomic_fetch_add(&service->installs, 1);
}

/* The log of what was installed by whom is the same as of what was run. */
static int audit_allows(struct service *service, struct fault *fault)
{
    struct gb_err err;

    if (service->audit && audit_check(service->audit, &err) < 0)
        return fault_from_engine(service, "the audit log cannot be written", &err, fault);
    return 0;
}

static void audit_install(struct service *service, const struct caller *caller,
                          const char *session_id, const struct requirement *items, size_t len,
                          int64_t begun_us, bool ok)
{
    char text[REQUIREMENTS_MAX * 64] = "", id[EXECUTION_ID_MAX];
    struct audit_entry entry = { .who = caller->key_id[0] ? caller->key_id : AUDIT_WHO_LOCAL,
                                 .session_id = session_id,
                                 .execution_id = id,
                                 .kind = "install",
                                 .limits = service->config.oneshot,
                                 .status = ok ? RUN_OK : RUN_ERROR,
                                 .exit_code = ok ? 0 : 1,
                                 .wall_us = clock_now_us() - begun_us,
                                 .cpu_us = -1,
                                 .memory_peak_bytes = -1 };
    struct gb_err err;
    size_t used = 0;

    for (size_t i = 0; i < len && used < sizeof text - 1; i++)
        used += (size_t) snprintf(text + used, sizeof text - used, "%s%s", i ? "\n" : "",
                                  items[i].text);
    used = strlen(text);
    service_log(service, LOG_INFO, "install%s%s: %s: %s", session_id ? " session " : "",
                session_id ? session_id : "", text, ok ? "ok" : "failed");
    if (!service->audit || id_new("pkg_", id, sizeof id) < 0)
        return;
    entry.limits.wall_us = service->config.packages.timeout_us;
    entry.code_bytes = (int64_t) used;
    audit_hash_code(text, used, entry.code_hash);
    if (audit_write(service->audit, &entry, &err) < 0)
        service_log(service, LOG_ERR, "an install is not in the audit log: %s", err.msg);
}

/* ---- into a session ---- */

/* A set is made for the default interpreter. */
bool packages_template_fits(const char *template)
{
    return !template[0] || strcmp(template, "default") == 0;
}

int packages_template_refuse(const char *template, struct fault *fault)
{
    return fault_set(fault, PROBLEM_PACKAGE_TEMPLATE, "packages",
                     "packages are installed for the default template only; the operator can add "
                     "them to %s, or use another session",
                     template);
}

static int session_change(struct session *session, struct install_result *result,
                          const struct requirement *items, size_t len, struct fault *fault)
{
    if (result->layer && result->layer != session->layer) {
        if (session->mounts >= MOUNTS_MAX)
            return fault_set(fault, PROBLEM_TOO_MANY_INSTALLS, NULL,
                             "a session takes %d installs; make a new one with all its packages",
                             MOUNTS_MAX);
        if (packages_mount(session->service, session->lodging.box, result->layer, fault) < 0)
            return -1;
        session->mounts++;
        layer_unref(session->layer);
        session->layer = layer_ref(result->layer);
    }
    if (!session->requirements)
        session->requirements = json_array();
    requirements_add(session->requirements, items, len);
    return 0;
}

static int install_session(struct session *session, const char *scope,
                           const struct requirement *items, size_t len, bool newest,
                           struct install_result *ret_result, struct layer **ret_before,
                           struct fault *fault)
{
    int r;

    if (!packages_template_fits(session->template))
        return packages_template_refuse(session->template, fault);
    r = session_use_begin(session, fault);
    if (r < 0)
        return r;
    pthread_mutex_lock(&session->packages_lock);
    *ret_before = layer_ref(session->layer);
    r = packages_resolve(session->service, scope, items, len, session->layer, newest, ret_result,
                         fault);
    if (r == 0)
        r = session_change(session, ret_result, items, len, fault);
    pthread_mutex_unlock(&session->packages_lock);
    session_use_end(session);
    return r;
}

/* ---- the default set ---- */

/* Of another interpreter, what is in it may not fit. */
static bool set_fits(struct service *service, const json_t *set)
{
    const char *python = json_string_value(json_object_get(set, "python"));
    char now[PYTHON_STAMP_MAX];

    python_stamp(&service->packages->installer, now);
    return python && strcmp(python, now) == 0;
}

static struct layer *set_layer(struct service *service, const char *name, const json_t *set)
{
    const char *key = json_string_value(json_object_get(set, "key"));
    struct layer *layer = NULL;
    struct gb_err err;

    if (!key || !key[0])
        return NULL;
    if (!set_fits(service, set))
        service_log(service, LOG_WARNING,
                    "packages: the set %s is of another Python; install it anew", name);
    else if (layer_get(service->packages->installer.layers, key, &layer, &err) < 0)
        service_log(service, LOG_WARNING, "packages: the set %s: %s", name, err.msg);
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

int set_install(struct service *service, const char *name, const struct requirement *items,
                size_t len, bool newest, struct install_result *ret_result,
                struct layer **ret_before, struct fault *fault)
{
    struct layers *layers = service->packages->installer.layers;
    char hash[LAYER_KEY_MAX], label[SET_NAME_MAX + 8], python[PYTHON_STAMP_MAX];
    autoclose int lock = -EBADF;
    json_t *set = NULL, *requirements;
    struct gb_err err;
    int r;

    snprintf(label, sizeof label, "set %s", name);
    layers_hash(label, strlen(label), hash);
    if (layers_lock(layers, "set", hash, &lock, &err) < 0)
        return fault_from_engine(service, "the default packages cannot be changed", &err, fault);
    if (set_get(layers, name, &set) < 0)
        set = NULL;
    *ret_before = set ? set_layer(service, name, set) : NULL;
    r = packages_resolve(service, name, items, len, *ret_before, newest, ret_result, fault);
    if (r == 0) {
        requirements = json_deep_copy(json_object_get(set, "requirements"));
        if (!json_is_array(requirements)) {
            json_decref(requirements);
            requirements = json_array();
        }
        requirements_add(requirements, items, len);
        python_stamp(&service->packages->installer, python);
        json_decref(set);
        set = json_pack("{s:o,s:s,s:s}", "requirements", requirements, "key",
                        ret_result->layer ? layer_key(ret_result->layer) : "", "python", python);
        if (!set || set_put(layers, name, set, &err) < 0)
            r = fault_from_engine(service, "the default packages cannot be kept", &err, fault);
    }
    json_decref(set);
    return r;
}

/* ---- the calls ---- */

/* Where an install goes: into a session, a default set, or, with neither, just into the store. */
struct place {
    struct session *session;
    bool set;
};

static int place_install(struct service *service, const struct place *place, const char *name,
                         const struct requirement *items, size_t len, bool newest,
                         struct install_result *ret_result, struct layer **ret_before,
                         struct fault *fault)
{
    if (place->session)
        return install_session(place->session, name, items, len, newest, ret_result, ret_before,
                               fault);
    if (place->set)
        return set_install(service, name, items, len, newest, ret_result, ret_before, fault);
    return packages_resolve(service, NOBODY, items, len, NULL, newest, ret_result, fault);
}

/* *@ret_layer is a reference to what it came to, or NULL; @ret_layer itself may be NULL. */
static int install_checked(struct service *service, const struct caller *caller,
                           const struct place *place, const struct requirement *items, size_t len,
                           bool newest, struct layer **ret_layer, json_t **ret_json,
                           struct fault *fault)
{
    struct install_result result = { 0 };
    struct layer *before = NULL;
    int64_t begun = clock_now_us();
    char name[SET_NAME_MAX];
    int r;

    if (audit_allows(service, fault) < 0 || install_begin(service, caller, fault) < 0)
        return -1;
    set_name(caller->key_id, caller->listener ? caller->listener : "", name);
    r = place_install(service, place, name, items, len, newest, &result, &before, fault);
    if (r == 0) {
        *ret_json = install_to_json(&result, before, items, len, clock_now_us() - begun);
        if (!*ret_json)
            r = fault_no_memory(fault);
    }
    counted(service, &result, r == 0);
    audit_install(service, caller, place->session ? place->session->id : NULL, items, len, begun,
                  r == 0);
    if (r == 0 && ret_layer)
        *ret_layer = layer_ref(result.layer);
    layer_unref(before);
    install_result_release(&result);
    install_end(service);
    return r;
}

static int install_wanted(struct service *service, const struct caller *caller,
                          const struct place *place, const char *const *wanted, bool newest,
                          struct layer **ret_layer, json_t **ret_json, struct fault *fault)
{
    struct requirement *items = NULL;
    size_t len = 0;
    int r;

    if (wanted_parse(&service->config.packages, wanted, &items, &len, fault) < 0) {
        atomic_fetch_add(&service->installs_failed, 1);
        return -1;
    }
    r = install_checked(service, caller, place, items, len, newest, ret_layer, ret_json, fault);
    free(items);
    return r;
}

int packages_install(struct service *service, const struct caller *caller, struct session *session,
                     const char *const *wanted, bool newest, json_t **ret_json, struct fault *fault)
{
    const struct place place = { .session = session, .set = true };

    return install_wanted(service, caller, &place, wanted, newest, NULL, ret_json, fault);
}

int packages_make_layer(struct service *service, const char *const *wanted,
                        struct layer **ret_layer, json_t **ret_json, struct fault *fault)
{
    const struct caller caller = { .key_id = "", .listener = "", .limits = { -1, -1, -1 } };

    return install_wanted(service, &caller, &(struct place){ 0 }, wanted, false, ret_layer,
                          ret_json, fault);
}

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
        set_name(caller->key_id, caller->listener ? caller->listener : "", name);
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

    set_name(caller->key_id, caller->listener ? caller->listener : "", name);
    if (set_remove(service->packages->installer.layers, name, &err) < 0 && err.code != ENOENT)
        return fault_from_engine(service, "the default packages cannot be changed", &err, fault);
    return 0;
}

int packages_move_in(struct session *session, const struct caller *caller,
                     const char *const *wanted, struct fault *fault)
{
    struct service *service = session->service;
    char name[SET_NAME_MAX];
    json_t *ignored = NULL;
    int r;

    if (!service->packages)
        return 0;
    set_name(caller->key_id, caller->listener ? caller->listener : "", name);
    if (packages_template_fits(session->template))
        session->layer = packages_default(service, name);
    if (session->layer && packages_mount(service, session->lodging.box, session->layer, fault) < 0)
        return -1;
    session->mounts = session->layer != NULL;
    if (!wanted || !wanted[0])
        return 0;
    r = packages_install(service, caller, session, wanted, false, &ignored, fault);
    json_decref(ignored);
    return r;
}
