/* Templates in requests: resolving the name and preparing the template. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "service/package/packages.h"
#include "service/package/requirement.h"
#include "service/service_internal.h"
#include "service/template/templates.h"

#include "base/banned.h"

const char *service_template_name(const struct service *service)
{
    return service->config.template ? service->config.template->name : TEMPLATE_SYSTEM;
}

const char *service_packages_text(const struct service *service)
{
    return service->packages_text;
}

/* ---- what the default template has ---- */

static const char *version_of(const json_t *versions, const char *name)
{
    json_t *item;
    size_t i;

    json_array_foreach ((json_t *) versions, i, item)
        if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0)
            return json_string_value(json_object_get(item, "version"));
    return NULL;
}

static void text_add(struct service *service, const json_t *versions, const char *requirement)
{
    size_t used = strlen(service->packages_text), room = sizeof service->packages_text - used;
    const char *version;
    struct requirement item;
    struct gb_err ignored;

    if (requirement_parse(requirement, true, &item, &ignored) < 0 ||
        !(version = version_of(versions, item.normal)) ||
        strlen(item.normal) + strlen(version) + 4 > room)
        return;
    snprintf(service->packages_text + used, room, "%s%s %s", used ? ", " : "", item.normal,
             version);
}

/* Of a set those that were asked for, not what they need; of another Python what models use. */
void template_describe(struct service *service)
{
    static const char *const popular[] = { "numpy",      "pandas",  "scipy",    "scikit-learn",
                                           "matplotlib", "seaborn", "plotly",   "pyarrow",
                                           "polars",     "sympy",   "openpyxl", "pillow",
                                           "requests",   "lxml",    "pyyaml",   NULL };
    const struct template_entry *entry = service->config.template;
    struct template_entry system = { 0 };
    const char *const *names = popular;
    struct gb_err ignored;
    json_t *versions;

    if (!entry && template_system(&system, &ignored) < 0)
        return;
    if (entry && entry->packages)
        names = (const char *const *) entry->packages;
    versions = template_versions(entry ? entry : &system);
    for (; *names; names++)
        text_add(service, versions, *names);
    json_decref(versions);
    template_entry_release(&system);
}

/* ---- in requests ---- */

int template_wish(struct service *service, const char *wanted, char ret_name[TEMPLATE_NAME_MAX],
                  struct fault *fault)
{
    const struct service_config *config = &service->config;
    struct gb_err err;

    if (templates_resolve(config->data_dir, config->template_aliases,
                          service_template_name(service), wanted ? wanted : TEMPLATE_DEFAULT,
                          ret_name, &err) < 0)
        return fault_set(fault, PROBLEM_TEMPLATE_UNKNOWN, "template", "%s", err.msg);
    return 0;
}

static int entry_load(struct service *service, const char *name, struct template_entry *ret_entry,
                      struct gb_err *err)
{
    int r;

    if (strcmp(name, TEMPLATE_SYSTEM) == 0)
        return template_system(ret_entry, err);
    r = templates_load(service->config.data_dir, name, ret_entry, err);
    return r < 0 ? r : template_furnish(packages_layers(service), ret_entry, err);
}

void template_log_left_out(struct service *service, const char *name, struct template *template)
{
    struct template_report report;
    char *rest = report.left_out, *line;

    if (!engine_template_news(service->engine, template, &report))
        return;
    while ((line = strsep(&rest, "\n")))
        if (*line)
            service_log(service, LOG_LEVEL_WARNING,
                        "template %s: not preloaded: %s; programs can still import it", name, line);
}

int template_open(struct service *service, const char *name, struct template **ret_template,
                  struct fault *fault)
{
    struct template_entry entry = { 0 };
    struct template_def def;
    struct gb_err err;
    int r;

    *ret_template = NULL;
    if (strcmp(name, service_template_name(service)) == 0)
        return 0;
    r = entry_load(service, name, &entry, &err);
    if (r == -ENOENT)
        return fault_set(fault, PROBLEM_TEMPLATE_UNKNOWN, "template", "%s", err.msg);
    if (r == 0) {
        def = template_entry_def(&entry);
        r = engine_template_get(service->engine, &def, ret_template, &err);
    }
    template_entry_release(&entry);
    if (r == 0) {
        template_log_left_out(service, name, *ret_template);
        return 0;
    }
    /* Internal errors are for the operator only. */
    service_log(service, LOG_LEVEL_ERROR, "template %s: %s", name, err.msg);
    (void) fault_set(fault, PROBLEM_TEMPLATE_UNUSABLE, "template",
                     "the template \"%s\" failed to start; the operator can find out why with: "
                     "glovebox template check %s",
                     name, name);
    fault->retry_after_s = 30;
    return -1;
}

/* ---- the list ---- */

static json_t *strings_to_json(char *const *list)
{
    json_t *array = json_array();

    for (; *list; list++)
        (void) json_array_append_new(array, json_string(*list));
    return array;
}

static json_t *entry_to_json(struct service *service, const struct template_entry *entry)
{
    const char *preload = service->config.engine.preload;
    bool standard = strcmp(entry->name, service_template_name(service)) == 0;
    json_t *json = json_pack("{s:s, s:s, s:b, s:s, s:o}", "name", entry->name, "kind",
                             template_kind_name(entry->kind), "default", standard, "preload",
                             standard && preload ? preload : entry->preload, "packages",
                             template_versions(entry));

    if (json && entry->packages)
        (void) json_object_set_new(json, "requirements", strings_to_json(entry->packages));
    return json;
}

/* Broken templates are left out: the operator has to repair them, and no client can use them. The
 * default one is shown as it was when the service started. */
static void list_add(struct service *service, const char *name, json_t *list)
{
    const struct template_entry *standard = service->config.template;
    struct template_entry entry = { 0 };
    struct gb_err ignored;

    if (standard && strcmp(name, standard->name) == 0)
        (void) json_array_append_new(list, entry_to_json(service, standard));
    else if (entry_load(service, name, &entry, &ignored) == 0)
        (void) json_array_append_new(list, entry_to_json(service, &entry));
    template_entry_release(&entry);
}

json_t *service_templates_to_json(struct service *service)
{
    const struct service_config *config = &service->config;
    const char *const *alias = config->template_aliases;
    json_t *list = json_array(), *aliases = json_array();
    const char *standard = service_template_name(service);
    struct gb_err ignored;
    char **names = NULL;

    list_add(service, standard, list);
    if (strcmp(standard, TEMPLATE_SYSTEM) != 0)
        list_add(service, TEMPLATE_SYSTEM, list);
    if (templates_names(config->data_dir, &names, &ignored) == 0)
        for (size_t i = 0; names[i]; i++)
            if (strcmp(names[i], standard) != 0)
                list_add(service, names[i], list);
    templates_names_free(names);
    for (; alias && *alias; alias++)
        (void) json_array_append_new(aliases, json_string(*alias));
    for (alias = template_own_aliases; *alias; alias++)
        (void) json_array_append_new(aliases, json_string(*alias));
    return json_pack("{s:o, s:o}", "templates", list, "aliases", aliases);
}
