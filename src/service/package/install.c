/*
 * An install: from requirements as text to a layer of packages in a session, in a caller's default
 * set, or just in the store.
 *
 * Installing into a session means to find or make the layer of the new set and to mount it over
 * the previous one. Versions stay unless a requirement needs others; modules that are already
 * imported stay in memory, whatever becomes of their files. An install into a session holds the
 * session's packages_lock and one into a set holds a lock on that set, both while pip runs.
 * Installs count as work in flight, so draining waits for them; they are cut short when draining
 * has waited long enough.
 *
 * struct install_job carries an install through all of this.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/strv.h"
#include "service/access/audit.h"
#include "service/package/internal.h"
#include "service/package/lock.h"
#include "service/session/session.h"

#include "base/banned.h"

#define MOUNTS_MAX 64 /* in one session */
#define NOBODY                                                                                     \
    "(nobody)" /* scope of the operator's own installs: no caller's set has this name              \
                */

/* ---- requirements ---- */

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
                         "%s is not on the operator's list of allowed packages", ret_item->name);
    return 0;
}

static int wanted_parse(const struct package_config *config, const char *const *wanted,
                        struct requirement **ret_items, size_t *ret_len, struct fault *fault)
{
    size_t len = strv_len(wanted);
    struct requirement *items;

    if (len == 0)
        return fault_set(fault, PROBLEM_REQUIREMENT_MISSING, "packages",
                         "name at least one package");
    if (len > REQUIREMENTS_MAX)
        return fault_set(fault, PROBLEM_TOO_MANY_REQUIREMENTS, "packages",
                         "at most %d packages per request", REQUIREMENTS_MAX);
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

/* ---- the job ---- */

/* Names of packages to remove. */
static int names_parse(const char *const *wanted, struct requirement **ret_items, size_t *ret_len,
                       struct fault *fault)
{
    static const struct package_config any = { .blocked = NULL };

    if (wanted_parse(&any, wanted, ret_items, ret_len, fault) < 0)
        return -1;
    for (size_t i = 0; i < *ret_len; i++)
        if (strcmp((*ret_items)[i].text, (*ret_items)[i].name) != 0) {
            free(*ret_items);
            return fault_set(fault, PROBLEM_REQUIREMENT_MALFORMED, "packages",
                             "name the packages to remove, without versions");
        }
    return 0;
}

int install_job_init(struct install_job *job, struct service *service,
                     const struct install_order *order, struct fault *fault)
{
    *job = (struct install_job){ .service = service,
                                 .scope = NOBODY,
                                 .newest = order->newest,
                                 .removes = order->remove,
                                 .watch = order->watch,
                                 .cancel_fd = order->cancel_fd,
                                 .begun_us = clock_now_us() };
    return order->remove ? names_parse(order->wanted, &job->items, &job->len, fault)
                         : wanted_parse(&service->config.packages, order->wanted, &job->items,
                                        &job->len, fault);
}

void install_job_release(struct install_job *job)
{
    engine_template_put(job->template);
    free(job->environment);
    layer_unref(job->before);
    install_result_release(&job->result);
    free(job->items);
}

static int on_trial(void *arg, const struct layer *layer, struct fault *fault)
{
    return trial_run(arg, layer, fault);
}

/* The end of the service and that of the request, as one descriptor. */
static int stop_fd(const struct install_job *job)
{
    const int fds[] = { job->service->packages->stop[0], job->cancel_fd };
    int all = epoll_create1(EPOLL_CLOEXEC);

    for (size_t i = 0; i < ARRAY_LEN(fds) && all >= 0; i++) {
        struct epoll_event event = { .events = EPOLLIN };

        if (fds[i] >= 0 && epoll_ctl(all, EPOLL_CTL_ADD, fds[i], &event) < 0) {
            (void) close(all);
            return -1;
        }
    }
    return all;
}

/* The names that are there to be removed; a fault if there are none. */
static json_t *names_there(const struct install_job *job, struct fault *fault)
{
    const json_t *packages =
        job->before ? json_object_get(layer_record(job->before), "packages") : NULL;
    json_t *names = json_array(), *item;
    size_t n;

    for (size_t i = 0; i < job->len; i++)
        json_array_foreach ((json_t *) packages, n, item) {
            const json_t *name = json_object_get(item, "name");

            if (strcmp(json_string_value(name), job->items[i].normal) == 0)
                (void) json_array_append(names, (json_t *) name);
        }
    if (json_array_size(names) > 0)
        return names;
    json_decref(names);
    (void) fault_set(fault, PROBLEM_PACKAGE_NOT_INSTALLED, "packages",
                     "%s is not installed here; packages that every box has cannot be removed",
                     job->items[0].name);
    return NULL;
}

static int job_remove(struct install_job *job, struct install_request *request, struct fault *fault)
{
    json_t *names = names_there(job, fault);
    int r;

    if (!names)
        return -1;
    r = install_without(&job->service->packages->installer, request, names, &job->result, fault);
    json_decref(names);
    return r;
}

int install_job_resolve(struct install_job *job, const json_t *requirements, struct fault *fault)
{
    json_t *kept = requirements_kept(job, requirements);
    autoclose int cancel = stop_fd(job);
    struct install_request request = { .items = job->items,
                                       .len = job->len,
                                       .base = job->before ? layer_record(job->before) : NULL,
                                       .kept = kept,
                                       .newest = job->newest,
                                       .isolated = job->isolated,
                                       .lock = job->lock,
                                       .template = job->template,
                                       .environment = job->environment,
                                       .scope = job->scope,
                                       .cancel_fd = cancel,
                                       .watch = job->watch };
    int r;

    if (!kept || cancel < 0) {
        json_decref(kept);
        return fault_no_memory(fault);
    }
    if (!job->isolated) {
        request.trial = on_trial;
        request.trial_arg = job;
    }
    r = job->removes ? job_remove(job, &request, fault)
                     : install(&job->service->packages->installer, &request, &job->result, fault);
    json_decref(kept);
    if (r == 0 && !job->result.layer && job->before)
        job->result.layer = layer_ref(job->before);
    return r;
}

/* ---- into a session ---- */

int packages_mount(struct service *service, struct box *box, const struct layer *layer,
                   struct fault *fault)
{
    struct gb_err err;

    if (box_mount_shelf(box, 0, layer_key(layer), 0, &err) < 0)
        return fault_from_engine(service, "the packages could not be mounted", &err, fault);
    return 0;
}

/* A caller's set is made for the default interpreter. */
bool packages_template_fits(const struct service *service, const char *template)
{
    return !template[0] || strcmp(template, service_template_name(service)) == 0;
}

int install_job_adopt(struct install_job *job, struct box *box, const char *template,
                      struct fault *fault)
{
    int r;

    job->template = box_get_template(box);
    if (!job->template)
        return 0;
    r = engine_template_environment(job->template, &job->environment);
    if (r == -EOPNOTSUPP)
        return fault_set(fault, PROBLEM_PACKAGE_TEMPLATE, "packages",
                         "packages cannot be installed in boxes of the template %s, whose Python "
                         "has its own; ask the operator to add them to it, or use another template",
                         template);
    return r < 0 ? fault_no_memory(fault) : 0;
}

static int session_change(struct session *session, struct install_job *job, struct fault *fault)
{
    struct layer *layer = job->result.layer;

    if (layer && layer != session->layer) {
        if (session->mounts >= MOUNTS_MAX)
            return fault_set(fault, PROBLEM_TOO_MANY_INSTALLS, NULL,
                             "this session has reached its limit of %d installs; create a new "
                             "session with all the packages",
                             MOUNTS_MAX);
        if (packages_mount(session->service, session->lodging.box, layer, fault) < 0)
            return -1;
        session->mounts++;
        layer_unref(session->layer);
        session->layer = layer_ref(layer);
    }
    if (!session->requirements)
        session->requirements = requirements_kept(job, NULL);
    requirements_change(session->requirements, job);
    return 0;
}

static int install_into_session(struct install_job *job, struct session *session,
                                struct fault *fault)
{
    int r;

    r = session_use_begin(session, fault);
    if (r < 0)
        return r;
    pthread_mutex_lock(&session->packages_lock);
    job->live = true;
    job->before = layer_ref(session->layer);
    r = install_job_adopt(job, session->lodging.box, session->template, fault);
    if (r == 0)
        r = install_job_resolve(job, session->requirements, fault);
    if (r == 0)
        r = session_change(session, job, fault);
    pthread_mutex_unlock(&session->packages_lock);
    session_use_end(session);
    return r;
}

/* ---- into a default set ---- */

/* Takes over @requirements, the set's list so far. */
static int set_keep(struct install_job *job, json_t *requirements, struct fault *fault)
{
    struct packages *packages = job->service->packages;
    char python[PYTHON_STAMP_MAX];
    struct gb_err err = { 0 };
    json_t *set;
    int r = 0;

    if (!json_is_array(requirements)) {
        json_decref(requirements);
        requirements = requirements_kept(job, NULL);
    }
    requirements_change(requirements, job);
    python_stamp(&packages->installer, python);
    set = json_pack("{s:o,s:s,s:s}", "requirements", requirements, "key",
                    job->result.layer ? layer_key(job->result.layer) : "", "python", python);
    if (!set)
        r = fault_no_memory(fault);
    else if (set_put(packages->installer.layers, job->scope, set, &err) < 0)
        r = fault_from_engine(job->service, "the default packages cannot be saved", &err, fault);
    json_decref(set);
    return r;
}

static int install_into_set(struct install_job *job, struct fault *fault)
{
    struct layers *layers = job->service->packages->installer.layers;
    char hash[LAYER_KEY_MAX], label[SET_NAME_MAX + 8];
    autoclose int lock = -EBADF;
    json_t *set = NULL;
    struct gb_err err;
    int r;

    snprintf(label, sizeof label, "set %s", job->scope);
    layers_hash(label, strlen(label), hash);
    if (layers_lock(layers, "set", hash, &lock, &err) < 0)
        return fault_from_engine(job->service, "the default packages cannot be changed", &err,
                                 fault);
    if (set_get(layers, job->scope, &set) < 0)
        set = NULL;
    job->before = set ? set_layer(job->service, job->scope, set) : NULL;
    r = install_job_resolve(job, json_object_get(set, "requirements"), fault);
    if (r == 0)
        r = set_keep(job, json_deep_copy(json_object_get(set, "requirements")), fault);
    json_decref(set);
    return r;
}

/* ---- around an install, wherever it goes ---- */

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
                         "the service is shutting down; retry later or elsewhere");
    return 0;
}

static void install_end(struct service *service)
{
    pthread_mutex_lock(&service->lock);
    if (--service->in_flight == 0)
        pthread_cond_broadcast(&service->idle);
    pthread_mutex_unlock(&service->lock);
}

static void count(const struct install_job *job, bool ok)
{
    struct service *service = job->service;

    if (!ok)
        atomic_fetch_add(&service->installs_failed, 1);
    else if (job->result.cached)
        atomic_fetch_add(&service->installs_cached, 1);
    if (ok)
        atomic_fetch_add(&service->installs, 1);
}

/* Installs are recorded in the same log as executions. */
static int audit_allows(struct service *service, struct fault *fault)
{
    struct gb_err err;

    if (service->audit && audit_check(service->audit, &err) < 0)
        return fault_from_engine(service, "the audit log cannot be written", &err, fault);
    return 0;
}

static void audit_install(const struct install_job *job, const struct caller *caller,
                          const char *session_id, bool ok)
{
    struct service *service = job->service;
    char text[REQUIREMENTS_MAX * 64] = "", id[EXECUTION_ID_MAX];
    struct audit_entry entry = { .who = principal_text(&caller->principal),
                                 .session_id = session_id,
                                 .execution_id = id,
                                 .kind = "install",
                                 .limits = service->config.oneshot,
                                 .status = ok ? RUN_OK : RUN_ERROR,
                                 .exit_code = ok ? 0 : 1,
                                 .wall_us = clock_now_us() - job->begun_us,
                                 .cpu_us = -1,
                                 .memory_peak_bytes = -1 };
    struct gb_err err;
    size_t used = 0;

    for (size_t i = 0; i < job->len && used < sizeof text - 1; i++)
        used += (size_t) snprintf(text + used, sizeof text - used, "%s%s%s", i ? "\n" : "",
                                  job->removes ? "-" : "", job->items[i].text);
    if (job->lock)
        snprintf(text, sizeof text, "(lock file)");
    used = strlen(text);
    service_log(service, LOG_LEVEL_INFO, "install%s%s: %s: %s", session_id ? " session " : "",
                session_id ? session_id : "", text, ok ? "ok" : "failed");
    if (!service->audit || id_new("pkg_", id, sizeof id) < 0)
        return;
    entry.limits.wall_us = service->config.packages.timeout_us;
    entry.code_bytes = (int64_t) used;
    audit_hash_code(text, used, entry.code_hash);
    if (audit_write(service->audit, &entry, &err) < 0)
        service_log(service, LOG_LEVEL_ERROR, "cannot write an install to the audit log: %s",
                    err.msg);
}

/* Where an install goes: into a session, a default set, or, with neither, just into the store. */
struct place {
    struct session *session;
    bool set;
};

static int job_run(struct install_job *job, const struct caller *caller, const struct place *place,
                   struct fault *fault)
{
    char name[SET_NAME_MAX];
    int r;

    if (audit_allows(job->service, fault) < 0 || install_begin(job->service, caller, fault) < 0)
        return -1;
    set_name(&caller->principal, caller->listener, name);
    if (place->session || place->set)
        job->scope = name;
    r = place->session ? install_into_session(job, place->session, fault)
        : place->set   ? install_into_set(job, fault)
                       : install_job_resolve(job, NULL, fault);
    job->scope = NULL; /* @name goes */
    count(job, r == 0);
    audit_install(job, caller, place->session ? place->session->id : NULL, r == 0);
    install_end(job->service);
    return r;
}

/* ---- the calls ---- */

/* Counts a failure before it begins, too. */
static int job_begin(struct install_job *job, struct service *service,
                     const struct install_order *order, struct fault *fault)
{
    if (install_job_init(job, service, order, fault) == 0)
        return 0;
    atomic_fetch_add(&service->installs_failed, 1);
    return -1;
}

int packages_install(struct service *service, const struct caller *caller, struct session *session,
                     const struct install_order *order, json_t **ret_json, struct fault *fault)
{
    const struct place place = { .session = session, .set = true };
    struct install_job job;
    int r;

    if (job_begin(&job, service, order, fault) < 0)
        return -1;
    r = job_run(&job, caller, &place, fault);
    if (r == 0)
        *ret_json = install_to_json(&job);
    install_job_release(&job);
    return r < 0 || *ret_json ? r : fault_no_memory(fault);
}

int packages_make_layer(struct service *service, const struct layer_order *order,
                        struct layer **ret_layer, json_t **ret_json, struct fault *fault)
{
    const struct install_order wanted = { .wanted = order->wanted,
                                          .watch = order->watch,
                                          .cancel_fd = -1 };
    const struct caller caller = { .limits = { -1, -1, -1 } };
    struct install_job job;
    struct gb_err err;
    size_t ignored;
    int r;

    if (order->lock && lock_check(order->lock, &ignored, &err) < 0)
        return fault_set(fault, PROBLEM_REQUIREMENT_MALFORMED, "packages", "%s", err.msg);
    if (order->lock)
        job = (struct install_job){ .service = service,
                                    .scope = NOBODY,
                                    .lock = order->lock,
                                    .watch = order->watch,
                                    .cancel_fd = -1,
                                    .begun_us = clock_now_us() };
    else if (job_begin(&job, service, &wanted, fault) < 0)
        return -1;
    job.isolated = true;
    r = job_run(&job, &caller, &(struct place){ 0 }, fault);
    if (r == 0)
        *ret_json = install_to_json(&job);
    if (r == 0 && *ret_json)
        *ret_layer = layer_ref(job.result.layer);
    install_job_release(&job);
    return r < 0 || *ret_json ? r : fault_no_memory(fault);
}

/* What the caller's default set was requested with; NULL: unknown. */
static json_t *set_requirements(struct service *service, const char *name)
{
    json_t *set = NULL, *list;

    if (set_get(service->packages->installer.layers, name, &set) < 0)
        return NULL;
    list = json_deep_copy(json_object_get(set, "requirements"));
    json_decref(set);
    return list;
}

int packages_move_in(struct session *session, const struct caller *caller,
                     const char *const *wanted, struct fault *fault)
{
    const struct install_order order = { .wanted = wanted, .cancel_fd = -1 };
    struct service *service = session->service;
    char name[SET_NAME_MAX];
    json_t *ignored = NULL;
    int r;

    if (!service->packages)
        return 0;
    set_name(&caller->principal, caller->listener, name);
    if (packages_template_fits(session->service, session->template))
        session->layer = packages_default(service, name);
    if (session->layer && packages_mount(service, session->lodging.box, session->layer, fault) < 0)
        return -1;
    session->mounts = session->layer != NULL;
    if (session->layer)
        session->requirements = set_requirements(service, name);
    if (!wanted || !wanted[0])
        return 0;
    r = packages_install(service, caller, session, &order, &ignored, fault);
    json_decref(ignored);
    return r;
}
