/*
 * `glovebox pip`: the default sets of packages, on this machine's own store. install does what a
 * client's request does, in a separate service without clients; a running service picks up the
 * change.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "cli/cmd.h"
#include "cli/teller.h"
#include "service/access/data.h"
#include "service/package/layers.h"
#include "service/service.h"
#include "service/template/templates.h"

#include "base/banned.h"

#define DEFAULT_ADDRESS "127.0.0.1:8080"

enum { EXIT_FAILED = 1 };

/* The owner of the set: an address contains a colon or a slash, the id of a key does not. */
static int caller_of(const struct config *cfg, struct caller *ret_caller, struct gb_err *err)
{
    const char *who = cfg->pip_for ? cfg->pip_for : DEFAULT_ADDRESS;

    *ret_caller = (struct caller){ .listener = who, .limits = { -1, -1, -1 } };
    if (strpbrk(who, ":/"))
        return 0;
    if (principal_from_key(who, &ret_caller->principal) < 0)
        return gb_fail_plain(err, EINVAL, "--for takes an address or the id of a key");
    return 0;
}

static int data_dir(const struct config *cfg, char **ret_dir, struct gb_err *err)
{
    if (!cfg->data_dir)
        return data_default_dir(ret_dir, err);
    *ret_dir = strdup(cfg->data_dir);
    return *ret_dir ? 0 : gb_fail(err, ENOMEM, "find the data directory");
}

/* ---- install ---- */

static int print_installed(const struct config *cfg, json_t *result, struct gb_err *err)
{
    cmd_say_warnings(result);
    if (cfg->json)
        return cmd_print_json(result, err);
    printf("%s\n", json_string_value(json_object_get(result, "message")));
    json_decref(result);
    return fflush(stdout) != 0 ? gb_fail(err, EIO, "print the installed packages") : 0;
}

/* @dir exists and is ours: opening the store ensures that. */
static int pip_install(const struct config *cfg, const struct caller *caller, const char *dir,
                       struct gb_err *err)
{
    const char *const *wanted = (const char *const *) cfg->args;
    struct template_entry entry = { 0 };
    struct teller teller;
    const struct install_order order = { .wanted = wanted,
                                         .newest = cfg->pip_upgrade,
                                         .remove = cfg->action == ACTION_PIP_UNINSTALL,
                                         .watch = { teller_tell, &teller },
                                         .cancel_fd = -1 };
    struct service *service = NULL;
    struct fault fault = { 0 };
    json_t *result = NULL;
    struct template_def template;
    int r = cmd_default_template(cfg, dir, &entry, err);

    if (r < 0)
        return r;
    template = template_entry_def(&entry);
    template.preload = cmd_preload(cfg, &entry);
    teller_init(&teller, NULL);
    cmd_show_progress(order.remove ? "removing" : "installing");
    r = cmd_open_installer(cfg, dir, &template, wanted, &service, err);
    if (r == 0 && packages_install(service, caller, NULL, &order, &result, &fault) < 0)
        r = gb_fail_plain(err, ECANCELED, "%.190s", fault.detail);
    service_close(service);
    template_entry_release(&entry);
    cmd_hide_progress();
    return r < 0 ? r : print_installed(cfg, result, err);
}

/* ---- looking ---- */

struct view {
    const struct config *cfg;
    struct layers *layers;
    const char *only; /* NULL: all sets */
    json_t *json;     /* of --json */
    bool found;
};

static void print_package(const struct view *view, const json_t *package)
{
    const char *name = json_string_value(json_object_get(package, "name"));
    const char *version = json_string_value(json_object_get(package, "version"));
    const char *sha256 = json_string_value(json_object_get(package, "sha256"));

    if (view->cfg->action == ACTION_PIP_FREEZE)
        printf("%s==%s --hash=sha256:%s\n", name, version, sha256);
    else
        printf("  %-30s  %-16s  sha256:%.12s\n", name, version, sha256);
}

static int show_set(void *arg, const char *name, json_t *set)
{
    const char *key = json_string_value(json_object_get(set, "key"));
    struct view *view = arg;
    struct layer *layer = NULL;
    const json_t *packages = NULL;
    struct gb_err ignored;
    json_t *item;
    size_t i;

    if (view->only && strcmp(view->only, name) != 0)
        return 0;
    view->found = true;
    if (key && key[0] && layer_get(view->layers, key, &layer, &ignored) == 0)
        packages = json_object_get(layer_record(layer), "packages");
    if (view->json) {
        (void) json_array_append_new(view->json,
                                     json_pack("{s:s,s:O,s:O,s:O?}", "set", name, "requirements",
                                               json_object_get(set, "requirements"), "layer",
                                               json_object_get(set, "key"), "packages", packages));
    } else {
        if (view->cfg->action == ACTION_PIP_LIST)
            printf("%s\n", name);
        json_array_foreach ((json_t *) packages, i, item)
            print_package(view, item);
    }
    layer_unref(layer);
    return 0;
}

static int pip_show(const struct config *cfg, const struct caller *caller, struct layers *layers,
                    struct gb_err *err)
{
    char name[SET_NAME_MAX];
    struct view view = { .cfg = cfg, .layers = layers };
    int r;

    set_name(&caller->principal, caller->listener, name);
    if (cfg->pip_for || cfg->action == ACTION_PIP_FREEZE)
        view.only = name;
    if (cfg->json)
        view.json = json_array();
    r = set_each(layers, show_set, &view, err);
    if (r == 0 && view.json)
        return cmd_print_json(json_pack("{s:o}", "sets", view.json), err);
    if (r == 0 && !view.found)
        say("nothing has been installed%s%s", view.only ? " for " : "", view.only ? view.only : "");
    if (r == 0 && fflush(stdout) != 0)
        r = gb_fail(err, EIO, "print the packages");
    return r;
}

static int pip_reset(const struct config *cfg, const struct caller *caller, struct layers *layers,
                     struct gb_err *err)
{
    char name[SET_NAME_MAX];
    int r;

    set_name(&caller->principal, caller->listener, name);
    r = set_remove(layers, name, err);
    if (r == -ENOENT)
        r = 0; /* already empty */
    if (r == 0 && cfg->json)
        return cmd_print_json(json_pack("{s:s,s:b}", "set", name, "reset", 1), err);
    if (r == 0)
        say("the set %s is now empty", name);
    return r;
}

int cmd_pip(const struct config *cfg)
{
    autofree char *dir = NULL;
    struct gb_err err = { 0 };
    struct layers *layers = NULL;
    struct store *store = NULL;
    struct caller caller;
    bool changes = cfg->action == ACTION_PIP_INSTALL || cfg->action == ACTION_PIP_UNINSTALL;
    int r = caller_of(cfg, &caller, &err);

    if (r == 0)
        r = data_dir(cfg, &dir, &err);
    /* Creates the data directory, or checks its owner. */
    if (r == 0)
        r = cmd_open_store(cfg, !changes, &store, &err);
    store_close(store);
    if (r == 0 && changes)
        r = pip_install(cfg, &caller, dir, &err);
    else if (r == 0 && (r = layers_open(dir, &layers, &err)) == 0)
        r = cfg->action == ACTION_PIP_RESET ? pip_reset(cfg, &caller, layers, &err)
                                            : pip_show(cfg, &caller, layers, &err);
    layers_close(layers);
    if (r == 0)
        return 0;
    say("%s", err.msg);
    if (r == -EINVAL)
        return EXIT_USAGE;
    return r == -ECANCELED ? EXIT_FAILED : EXIT_OURS;
}
