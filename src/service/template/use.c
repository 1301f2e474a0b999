/* Templates in requests: resolving the name and preparing the template. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "service/package/packages.h"
#include "service/service_internal.h"
#include "service/template/templates.h"

#include "base/banned.h"

int template_wish(struct service *service, const char *wanted, char ret_name[TEMPLATE_NAME_MAX],
                  struct fault *fault)
{
    const struct service_config *config = &service->config;
    struct gb_err err;

    if (!wanted)
        wanted = TEMPLATE_DEFAULT;
    if (templates_resolve(config->data_dir, config->template_aliases, wanted, ret_name, &err) < 0)
        return fault_set(fault, PROBLEM_TEMPLATE_UNKNOWN, "template", "%s", err.msg);
    return 0;
}

int template_open(struct service *service, const char *name, struct template **ret_template,
                  struct fault *fault)
{
    struct template_entry entry = { 0 };
    struct template_def def;
    struct gb_err err;
    int r;

    *ret_template = NULL;
    if (strcmp(name, TEMPLATE_DEFAULT) == 0)
        return 0;
    r = templates_load(service->config.data_dir, name, &entry, &err);
    if (r == -ENOENT)
        return fault_set(fault, PROBLEM_TEMPLATE_UNKNOWN, "template", "%s", err.msg);
    if (r == 0)
        r = template_furnish(packages_layers(service), &entry, &err);
    if (r == 0) {
        def = template_entry_def(&entry);
        r = engine_template_get(service->engine, &def, ret_template, &err);
    }
    template_entry_release(&entry);
    if (r == 0)
        return 0;
    /* Internal errors are for the operator only. */
    service_log(service, LOG_LEVEL_ERROR, "template %s: %s", name, err.msg);
    (void) fault_set(fault, PROBLEM_TEMPLATE_UNUSABLE, "template",
                     "the template \"%s\" failed to start; the operator can find out why with: "
                     "glovebox template check %s",
                     name, name);
    fault->retry_after_s = 30;
    return -1;
}

/* Broken templates are left out: the operator has to repair them, and no client can use them. */
static json_t *entry_to_json(struct service *service, const char *name)
{
    struct template_entry entry = { 0 };
    struct gb_err ignored;
    json_t *json = NULL, *packages;

    if (templates_load(service->config.data_dir, name, &entry, &ignored) < 0)
        return NULL;
    if (template_furnish(packages_layers(service), &entry, &ignored) == 0)
        json = json_pack("{s:s, s:s, s:s}", "name", name, "kind", template_kind_name(entry.kind),
                         "preload", entry.preload);
    if (json && entry.packages && (packages = json_array())) {
        for (char *const *text = entry.packages; *text; text++)
            (void) json_array_append_new(packages, json_string(*text));
        (void) json_object_set_new(json, "packages", packages);
    }
    template_entry_release(&entry);
    return json;
}

json_t *service_templates_to_json(struct service *service)
{
    const struct service_config *config = &service->config;
    const char *const *alias = config->template_aliases;
    json_t *list = json_array(), *aliases = json_array();
    struct gb_err ignored;
    char **names = NULL;

    (void) json_array_append_new(
        list, json_pack("{s:s, s:s, s:s}", "name", TEMPLATE_DEFAULT, "kind", "python", "preload",
                        config->engine.preload ? config->engine.preload : ""));
    if (templates_names(config->data_dir, &names, &ignored) == 0)
        for (size_t i = 0; names[i]; i++)
            (void) json_array_append_new(list, entry_to_json(service, names[i]));
    templates_names_free(names);
    for (; alias && *alias; alias++)
        (void) json_array_append_new(aliases, json_string(*alias));
    for (alias = template_own_aliases; *alias; alias++)
        (void) json_array_append_new(aliases, json_string(*alias));
    return json_pack("{s:o, s:o}", "templates", list, "aliases", aliases);
}
