#include "service/package/installer.h"

#include <errno.h>
#include <glob.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/utf8.h"
#include "service/package/installer_internal.h"

#include "base/banned.h"

#define RUNNING_MAX 2 /* installer boxes at one time: they are large */
#define FOREVER_US  INT64_MAX

void installer_init(struct installer *installer)
{
    pthread_mutex_init(&installer->lock, NULL);
    pthread_cond_init(&installer->free, NULL);
    pthread_mutex_init(&installer->tool.lock, NULL);
    installer->tool.fd = -EBADF;
    installer->running = 0;
}

void installer_release(struct installer *installer)
{
    pthread_mutex_destroy(&installer->lock);
    pthread_cond_destroy(&installer->free);
    pthread_mutex_destroy(&installer->tool.lock);
    gb_closep(&installer->tool.fd);
    installer->tool.fd = -EBADF;
}

void install_result_release(struct install_result *result)
{
    layer_unref(result->layer);
    json_decref(result->present);
    json_decref(result->older);
    *result = (struct install_result){ 0 };
}

void installer_log(const struct installer *installer, enum log_level level, const char *fmt, ...)
{
    char line[1024];
    va_list args;

    if (!installer->log)
        return;
    va_start(args, fmt);
    (void) vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    installer->log(installer->log_arg, level, line);
}

/* ---- what a request means ---- */

static void add_text(json_t *list, const char *text)
{
    (void) json_array_append_new(list, json_string(text ? text : ""));
}

static void add_stamp(json_t *list, const char *path)
{
    struct stat st;
    char text[64] = "";

    if (stat(path, &st) == 0)
        snprintf(text, sizeof text, "%lld.%ld %lld", (long long) st.st_mtim.tv_sec,
                 st.st_mtim.tv_nsec, (long long) st.st_size);
    add_text(list, text);
}

static void add_stamps(json_t *list, const char *pattern)
{
    glob_t found;

    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            add_stamp(list, found.gl_pathv[i]);
    globfree(&found);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Sorted: the order of the requirements does not matter. */
static json_t *sorted(const char **texts, size_t len)
{
    json_t *list = json_array();

    if (len > 0)
        qsort(texts, len, sizeof *texts, by_text);
    for (size_t i = 0; i < len; i++)
        add_text(list, texts[i]);
    return list;
}

static json_t *list_of(char *const *texts)
{
    json_t *list = json_array();

    for (; *texts; texts++)
        add_text(list, *texts);
    return list;
}

/* "name==version" of each package in a layer. */
static json_t *pins_of(const json_t *record)
{
    json_t *list = json_array(), *item;
    char text[2 * PACKAGE_NAME_MAX + 8];
    size_t i;

    json_array_foreach (json_object_get(record, "packages"), i, item) {
        snprintf(text, sizeof text, "%s==%s", json_string_value(json_object_get(item, "name")),
                 json_string_value(json_object_get(item, "version")));
        add_text(list, text);
    }
    return list;
}

static const char *python_of(const struct installer *installer)
{
    return installer->python ? installer->python : "/usr/bin/python3";
}

/* Everything that the result depends on, except for the current content of the index. */
static int request_hash(const struct installer *installer, const struct install_request *request,
                        char ret_hash[LAYER_KEY_MAX])
{
    char texts[REQUIREMENTS_MAX][REQUIREMENT_MAX + 1];
    const char *sortable[REQUIREMENTS_MAX];
    json_t *all = json_array();
    char *dump;

    for (size_t i = 0; i < request->len; i++) {
        const struct requirement *item = &request->items[i];

        /* However the name is spelled. */
        snprintf(texts[i], sizeof texts[i], "%s%s", item->normal, item->text + strlen(item->name));
        sortable[i] = texts[i];
    }
    add_text(all, "2");
    add_text(all, request->environment);
    add_text(all, request->isolated ? "isolated" : "");
    add_text(all, request->lock);
    add_text(all, python_of(installer));
    add_stamp(all, python_of(installer));
    if (installer->venv) {
        add_text(all, installer->venv);
    } else {
        add_stamp(all, "/usr/lib/python3/dist-packages");
        add_stamps(all, "/usr/local/lib/python3*/dist-packages");
    }
    add_text(all, installer->preload);
    add_text(all, installer->pip->index_url);
    (void) json_array_append_new(all, list_of(installer->pip->extra_indexes));
    (void) json_array_append_new(all, list_of(installer->pip->find_links));
    (void) json_array_append_new(all, list_of(installer->pip->dirs));
    add_text(all, installer->config->builds ? request->scope : "");
    add_text(all, request->newest ? "newest" : "");
    (void) json_array_append_new(all, pins_of(request->base));
    (void) json_array_append_new(all, sorted(sortable, request->len));
    if (request->kept)
        (void) json_array_append(all, request->kept);
    dump = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    if (!dump)
        return -ENOMEM;
    layers_hash(dump, strlen(dump), ret_hash);
    free(dump);
    return 0;
}

/* Exact versions do not expire. */
static int64_t age_allowed(const struct installer *installer, const struct install_request *request)
{
    if (request->lock)
        return FOREVER_US;
    for (size_t i = 0; i < request->len; i++)
        if (!strstr(request->items[i].text, "=="))
            return installer->config->refresh_us;
    return FOREVER_US;
}

/* A package requested by name or by exactly the base's version is already installed. */
static bool base_has(const json_t *base, const struct requirement *item)
{
    char text[REQUIREMENT_MAX + 1];
    json_t *package;
    size_t i;

    json_array_foreach (json_object_get(base, "packages"), i, package) {
        const char *name = json_string_value(json_object_get(package, "name"));

        if (!name || strcmp(name, item->normal) != 0)
            continue;
        snprintf(text, sizeof text, "%s==%s", item->name,
                 json_string_value(json_object_get(package, "version")));
        return strcmp(item->text, item->name) == 0 || strcmp(item->text, text) == 0;
    }
    return false;
}

static bool base_has_all(const struct install_request *request)
{
    for (size_t i = 0; i < request->len; i++)
        if ((request->newest && !request->items[i].versioned) ||
            !base_has(request->base, &request->items[i]))
            return false;
    return request->len > 0;
}

/* ---- cached results ---- */

static int known_get(struct installer *installer, const char *hash, int64_t age_us,
                     struct install_result *ret_result)
{
    json_t *json = NULL;
    const char *key;
    struct gb_err ignored;
    int r = layers_request_get(installer->layers, hash, age_us, &json);

    if (r < 0)
        return r;
    *ret_result = (struct install_result){ .cached = true };
    key = json_string_value(json_object_get(json, "key"));
    if (key && key[0])
        r = layer_get(installer->layers, key, &ret_result->layer, &ignored);
    if (r == 0) {
        ret_result->present = json_incref(json_object_get(json, "present"));
        ret_result->older = json_incref(json_object_get(json, "older"));
    }
    json_decref(json);
    return r;
}

static void known_put(struct installer *installer, const char *hash,
                      const struct install_result *result)
{
    json_t *json = json_pack("{s:s,s:O,s:O?}", "key", result->layer ? layer_key(result->layer) : "",
                             "present", result->present, "older", result->older);
    struct gb_err err;

    if (!json || layers_request_put(installer->layers, hash, json, &err) < 0)
        installer_log(installer, LOG_LEVEL_WARNING, "packages: %s",
                      json ? err.msg : "out of memory");
    json_decref(json);
}

/* Whoever asks for the newest once more, with what came of it, asks for the same. */
static void known_put_next(struct installer *installer, const struct install_request *request,
                           const struct install_result *result)
{
    struct install_request next = *request;
    char hash[LAYER_KEY_MAX];

    if (!request->newest || !result->layer)
        return;
    next.base = layer_record(result->layer);
    if (request_hash(installer, &next, hash) == 0)
        known_put(installer, hash, result);
}

/* ---- one at a time ---- */

static void slot_take(struct installer *installer)
{
    pthread_mutex_lock(&installer->lock);
    while (installer->running >= RUNNING_MAX)
        pthread_cond_wait(&installer->free, &installer->lock);
    installer->running++;
    pthread_mutex_unlock(&installer->lock);
}

static void slot_give(struct installer *installer)
{
    pthread_mutex_lock(&installer->lock);
    installer->running--;
    pthread_cond_signal(&installer->free);
    pthread_mutex_unlock(&installer->lock);
}

/* With the lock on this request. */
static int install_new(struct installer *installer, const struct install_request *request,
                       const char *hash, struct install_result *ret_result, struct fault *fault)
{
    int r;

    if (!pip_config_any(installer->pip))
        r = fault_set(fault, PROBLEM_NO_INDEX, NULL,
                      "no package index is configured: set --index-url, or set --wheels to a "
                      "directory of wheels");
    else {
        slot_take(installer);
        r = installer_box_run(installer, request, ret_result, fault);
        slot_give(installer);
    }
    if (r == 0 && ret_result->layer && request->trial) {
        r = request->trial(request->trial_arg, ret_result->layer, fault);
        if (r < 0) {
            layer_discard(TAKE_PTR(ret_result->layer));
            install_result_release(ret_result);
            return r;
        }
    }
    if (r == 0) {
        known_put(installer, hash, ret_result);
        known_put_next(installer, request, ret_result);
        return 0;
    }
    /* If the index is unreachable, an older result is better than none. */
    if (fault->kind == FAULT_UNAVAILABLE &&
        known_get(installer, hash, FOREVER_US, ret_result) == 0) {
        ret_result->stale = true;
        return 0;
    }
    return r;
}

int install(struct installer *installer, const struct install_request *request,
            struct install_result *ret_result, struct fault *fault)
{
    int64_t age_us = age_allowed(installer, request);
    autoclose int lock = -EBADF;
    char hash[LAYER_KEY_MAX];
    struct gb_err err;

    if (base_has_all(request)) {
        *ret_result = (struct install_result){ .present = json_object(), .cached = true };
        return ret_result->present ? 0 : fault_no_memory(fault);
    }
    if (request_hash(installer, request, hash) < 0)
        return fault_no_memory(fault);
    if (known_get(installer, hash, age_us, ret_result) == 0)
        return 0;
    if (layers_lock(installer->layers, "request", hash, &lock, &err) < 0) {
        installer_log(installer, LOG_LEVEL_ERROR, "packages: %s", err.msg);
        return fault_set(fault, PROBLEM_PACKAGES_STORE, NULL,
                         "the package store is unavailable; see the server log");
    }
    /* The previous holder of the lock may have made the layer. */
    if (known_get(installer, hash, age_us, ret_result) == 0)
        return 0;
    return install_new(installer, request, hash, ret_result, fault);
}
