#include "service/session/volumes_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service/service_internal.h"

#include "base/banned.h"

static const char *mode_name(bool writable)
{
    return writable ? "rw" : "ro";
}

void bindings_free(struct bindings *bindings)
{
    if (!bindings)
        return;
    for (size_t i = 0; i < bindings->len; i++) {
        free((char *) bindings->items[i].source);
        free((char *) bindings->items[i].target);
    }
    free(bindings->items);
    json_decref(bindings->json);
    free(bindings->text);
    free(bindings);
}

/* How many of the operator's directories are for clients; the others come after them. */
static size_t outer_roots(const struct service_config *config)
{
    return config->engine.volume_roots_len - config->inner_roots_len;
}

static int settle(const struct service_config *config, bool inner, struct bindings *bindings,
                  struct fault *fault)
{
    struct gb_err err;
    int r = volumes_settle(config->engine.volume_roots,
                           inner ? config->engine.volume_roots_len : outer_roots(config),
                           bindings->items, bindings->len, NULL, &err);

    if (r == 0)
        return 0;
    return fault_set(fault, r == -EACCES ? PROBLEM_VOLUME_NOT_ALLOWED : PROBLEM_VOLUME_MALFORMED,
                     "volumes", "%s", err.msg);
}

static int fill(const struct service_config *config, const struct session_request *request,
                struct bindings *bindings, struct fault *fault)
{
    bindings->items = calloc(request->volumes_len, sizeof *bindings->items);
    bindings->json = json_array();
    if (!bindings->items || !bindings->json)
        return fault_no_memory(fault);
    for (size_t i = 0; i < request->volumes_len; i++) {
        struct volume *volume = &bindings->items[i];

        bindings->len = i + 1;
        volume->source = strdup(request->volumes[i].source);
        volume->target = strdup(request->volumes[i].target);
        volume->mode = request->volumes[i].mode;
        if (!volume->source || !volume->target)
            return fault_no_memory(fault);
    }
    if (settle(config, request->inner_volumes, bindings, fault) < 0)
        return -1;
    for (size_t i = 0; i < bindings->len; i++) {
        const struct volume *volume = &bindings->items[i];

        if (json_array_append_new(bindings->json,
                                  json_pack("{s:s,s:s,s:s}", "source", volume->source, "target",
                                            volume->target, "mode",
                                            mode_name(volume->mode == VOLUME_RW))) < 0)
            return fault_no_memory(fault);
    }
    bindings->text = json_dumps(bindings->json, JSON_ENSURE_ASCII | JSON_COMPACT | JSON_SORT_KEYS);
    return bindings->text ? 0 : fault_no_memory(fault);
}

int bindings_new(const struct service_config *config, const struct session_request *request,
                 struct bindings **ret_bindings, struct fault *fault)
{
    struct bindings *bindings;

    *ret_bindings = NULL;
    if (request->volumes_len == 0)
        return 0;
    bindings = calloc(1, sizeof *bindings);
    if (!bindings)
        return fault_no_memory(fault);
    if (fill(config, request, bindings, fault) < 0) {
        bindings_free(bindings);
        return -1;
    }
    *ret_bindings = bindings;
    return 0;
}

int session_may_mount(struct service *service, const char *directory, bool inner,
                      struct fault *fault)
{
    struct volume volume = { directory, "/data", VOLUME_RO };
    struct bindings bindings = { .items = &volume, .len = 1 };

    return settle(&service->config, inner, &bindings, fault);
}

json_t *bindings_allowed(const struct service_config *config)
{
    json_t *list = json_array();

    for (size_t i = 0; i < outer_roots(config); i++) {
        const struct volume_root *root = &config->engine.volume_roots[i];

        /* A name that is not UTF-8 cannot be requested either. */
        (void) json_array_append_new(
            list, json_pack("{s:s,s:s}", "source", root->path, "mode", mode_name(root->writable)));
    }
    return list;
}
