/*
 * Templates that are a set of packages over the system's Python.
 *
 * Theory of operation. The set is installed once, when the template is added, into a layer of the
 * store (package/layers.h), and the definition names that layer: so it is not pruned, and every
 * start of the template has the same files. Template and boxes run in a virtual environment that
 * has the layer as its site-packages and nothing of what the system has (engine/shelf.h): two
 * machines with the same set and the same Python have the same box. A layer is made for one
 * interpreter. If the system's has changed, or the layer is gone, the template does not start: half
 * of it would be worse than none.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "service/package/packages.h"
#include "service/package/requirement.h"
#include "service/service_internal.h"
#include "service/template/templates.h"

#include "base/banned.h"

#define PYTHON       "/usr/bin/python3"
#define MADE_FOR_MAX (PATH_MAX + 48)
#define SAID_BYTES   65536
#define WALL_US      (60 * USEC_PER_SEC)
#define MODULE_MAX   128
#define MODULES_MAX  64

/* ---- the interpreter ---- */

/* python3 is a link to python3.11, say, and the minor version decides whether a compiled package
 * works. If it has no such name, any change of the file counts. */
static void python_name(char ret_name[MADE_FOR_MAX])
{
    char real[PATH_MAX];
    struct stat st;

    if (!realpath(PYTHON, real))
        snprintf(real, sizeof real, "no Python");
    snprintf(ret_name, MADE_FOR_MAX, "%s", real);
    if (!strstr(real, "/python3.") && stat(real, &st) == 0)
        snprintf(ret_name, MADE_FOR_MAX, "%s %lld %lld", real, (long long) st.st_mtime,
                 (long long) st.st_size);
}

/* The minor version is in the name of the file that python3 leads to; the directory of libraries
 * has the same name. */
int template_venv_lib(char ret_lib[VENV_LIB_MAX], struct gb_err *err)
{
    char real[PATH_MAX];
    const char *name;

    if (!realpath(PYTHON, real))
        return gb_fail_about(err, errno, "'" PYTHON "'");
    name = strrchr(real, '/') + 1;
    if (!venv_lib_valid(name))
        return gb_fail_plain(err, EINVAL,
                             PYTHON " leads to '%.60s', whose name does not say which version it "
                                    "is (such as python3.11)",
                             real);
    snprintf(ret_lib, VENV_LIB_MAX, "%s", name);
    return 0;
}

/* ---- preparing them ---- */

static int made_for_check(const struct template_entry *entry, struct gb_err *err)
{
    char now[MADE_FOR_MAX];

    python_name(now);
    if (strcmp(entry->made_for, now) == 0)
        return 0;
    return gb_fail_plain(err, ESTALE,
                         "the packages of template '%s' are for %.40s, but " PYTHON
                         " is %.40s now: add it again with --replace",
                         entry->name, entry->made_for, now);
}

static int layer_take(struct layers *layers, const struct layer *layer,
                      struct template_entry *entry, struct gb_err *err)
{
    int fd = layer_open_dir(layer);

    if (fd < 0)
        return gb_fail(err, -fd, "open the packages of a template");
    if (asprintf(&entry->packages_dir, "%s/%s", layers_dir(layers), layer_key(layer)) < 0) {
        entry->packages_dir = NULL;
        gb_closep(&fd);
        return gb_fail(err, ENOMEM, "open the packages of a template");
    }
    entry->packages_fd = fd;
    entry->packages_bytes = json_integer_value(json_object_get(layer_record(layer), "bytes"));
    return 0;
}

int template_furnish(struct layers *layers, struct template_entry *entry, struct gb_err *err)
{
    struct layer *layer = NULL;
    int r;

    if (entry->kind != TEMPLATE_KIND_PACKAGES)
        return 0;
    if ((r = made_for_check(entry, err)) < 0 || (r = template_venv_lib(entry->venv_lib, err)) < 0)
        return r;
    r = layer_get(layers, entry->layer, &layer, err);
    if (r == -ENOENT)
        return gb_fail_plain(err, ESTALE,
                             "the packages of template '%s' are gone from the store (layer %.12s): "
                             "add it again with --replace",
                             entry->name, entry->layer);
    if (r == 0)
        r = layer_take(layers, layer, entry, err);
    layer_unref(layer);
    return r;
}

int template_furnish_from(const char *data_dir, struct template_entry *entry, struct gb_err *err)
{
    struct layers *layers = NULL;
    int r;

    if (entry->kind != TEMPLATE_KIND_PACKAGES)
        return 0;
    r = made_for_check(entry, err); /* opening the store may create it */
    if (r == 0)
        r = layers_open(data_dir, &layers, err);
    if (r == 0)
        r = template_furnish(layers, entry, err);
    layers_close(layers);
    return r;
}

/* ---- their modules ---- */

/* The first line of input is modules, the second names of packages. The modules of a package are
 * its outermost packages and modules; one in a namespace, such as google.cloud.storage, has the
 * full name. Names with a leading underscore are left out, because their owners import them, and so
 * are modules that packages often install by mistake. */
static const char modules_code[] =
    "import importlib.util, inspect, json, re, sys\n"
    "from importlib import metadata\n"
    "from pathlib import PurePosixPath\n"
    "STRAY = {'test', 'tests', 'doc', 'docs', 'example', 'examples', 'benchmarks', 'scripts'}\n"
    "def known(name):\n"
    "    try:\n"
    "        return importlib.util.find_spec(name) is not None\n"
    "    except Exception:\n"
    "        return False\n"
    "def roots(files):\n"
    "    made = {f.parent for f in files if inspect.getmodulename(f.name) == '__init__'}\n"
    "    yield from (d.parts for d in made if not made & set(d.parents))\n"
    "    for f in files:\n"
    "        if len(f.parts) == 1 and inspect.getmodulename(f.name):\n"
    "            yield (inspect.getmodulename(f.name),)\n"
    "def modules(package):\n"
    "    try:\n"
    "        about = metadata.distribution(package)\n"
    "    except metadata.PackageNotFoundError:\n"
    "        return []\n"
    "    found = set(roots([PurePosixPath(str(f)) for f in about.files or []]))\n"
    "    found = found or {(n,) for n in (about.read_text('top_level.txt') or '').split()}\n"
    "    return ['.'.join(parts) for parts in sorted(found) if parts[0] not in STRAY\n"
    "            and all(re.fullmatch('[A-Za-z][A-Za-z0-9_]*', part) for part in parts)]\n"
    "names = [name for name in sys.stdin.readline().split() if known(name)]\n"
    "for package in sys.stdin.readline().split():\n"
    "    names += modules(package)\n"
    "print(json.dumps(list(dict.fromkeys(names))))\n";

/* Output of a box is hostile. */
static bool module_valid(const char *name)
{
    bool start = true;

    if (strlen(name) >= MODULE_MAX)
        return false;
    for (; *name; name++) {
        bool letter = ((*name | 32) >= 'a' && (*name | 32) <= 'z') || *name == '_';

        if (!letter && (start || (*name != '.' && !(*name >= '0' && *name <= '9'))))
            return false;
        start = *name == '.';
    }
    return !start;
}

/* As many as fit; the others are merely not preloaded. */
static char *modules_join(const json_t *list)
{
    char text[PRELOAD_MAX] = "";
    size_t i, used = 0;
    json_t *item;

    json_array_foreach ((json_t *) list, i, item) {
        const char *name = json_string_value(item);

        if (i < MODULES_MAX && name && module_valid(name) && used + strlen(name) + 2 < sizeof text)
            used +=
                (size_t) snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", name);
    }
    return strdup(text);
}

/* "MODULES\nNAME NAME …\n" */
static char *modules_question(const char *modules, char *const *packages)
{
    char names[REQUIREMENTS_MAX * (PACKAGE_NAME_MAX + 1) + 1] = "";
    struct requirement item;
    struct gb_err ignored;
    size_t used = 0;
    char *text;

    for (; *packages; packages++)
        if (requirement_parse(*packages, true, &item, &ignored) == 0 &&
            used + strlen(item.normal) + 2 < sizeof names)
            used += (size_t) snprintf(names + used, sizeof names - used, "%s ", item.normal);
    return asprintf(&text, "%s\n%s\n", modules, names) < 0 ? NULL : text;
}

static int modules_ask(struct box *box, const struct limits *limits, const char *question,
                       json_t **ret_list, struct gb_err *err)
{
    struct run_spec spec = { .code = modules_code,
                             .code_len = strlen(modules_code),
                             .filename = "<string>",
                             .limits = *limits,
                             .reply_bytes = SAID_BYTES,
                             .input = question,
                             .input_len = strlen(question),
                             .stdin_fd = -1,
                             .cancel_fd = -1 };
    struct outcome outcome = { 0 };
    int r = oneshot_run(box, &spec, &outcome, err);

    if (r == 0) {
        *ret_list = outcome.out.head_len > 0
                        ? json_loadb(outcome.out.head, outcome.out.head_len, 0, NULL)
                        : NULL;
        if (!json_is_array(*ret_list))
            r = gb_fail_plain(err, EIO, "could not determine which modules these packages contain");
    }
    outcome_release(&outcome);
    return r;
}

/* In a box that has the packages, because their content cannot be trusted. */
static int modules_find(struct service *service, const struct layer *layer, const char *modules,
                        char *const *packages, struct template_entry *entry, struct fault *fault)
{
    autofree char *question = modules_question(modules, packages);
    struct limits limits = service->config.oneshot;
    struct box *box = NULL;
    json_t *list = NULL;
    struct gb_err err;
    int r;

    if (!question)
        return fault_no_memory(fault);
    limits.wall_us = WALL_US;
    r = box_acquire(service->engine, &limits, &box, &err);
    if (r == 0 && packages_mount(service, box, layer, fault) < 0) {
        box_release(box);
        return -1;
    }
    if (r == 0)
        r = modules_ask(box, &limits, question, &list, &err);
    box_release(box);
    if (r < 0)
        return fault_from_engine(service, "the packages could not be inspected", &err, fault);
    free(entry->preload);
    entry->preload = modules_join(list);
    json_decref(list);
    return entry->preload ? 0 : fault_no_memory(fault);
}

/* ---- creating one ---- */

static char **strings_copy(const char *const *list)
{
    size_t len = 0;
    char **copy;

    while (list[len])
        len++;
    copy = calloc(len + 1, sizeof *copy);
    for (size_t i = 0; copy && i < len; i++)
        if (!(copy[i] = strdup(list[i]))) {
            templates_names_free(copy);
            return NULL;
        }
    return copy;
}

static int entry_fill(struct layers *layers, const char *const *wanted, const struct layer *layer,
                      struct template_entry *entry, struct gb_err *err)
{
    char made_for[MADE_FOR_MAX];
    int r = template_venv_lib(entry->venv_lib, err);

    if (r < 0)
        return r;
    if (!layer)
        return gb_fail_plain(err, EINVAL, "none of these packages applies to this Python");
    python_name(made_for);
    entry->kind = TEMPLATE_KIND_PACKAGES;
    entry->source = strdup(PYTHON);
    entry->python = strdup(VENV_PYTHON);
    entry->preload = strdup("");
    entry->binds = calloc(1, sizeof *entry->binds);
    entry->packages = strings_copy(wanted);
    entry->made_for = strdup(made_for);
    if (!entry->source || !entry->python || !entry->preload || !entry->binds || !entry->packages ||
        !entry->made_for)
        return gb_fail(err, ENOMEM, "add a template");
    snprintf(entry->layer, sizeof entry->layer, "%s", layer_key(layer));
    return layer_take(layers, layer, entry, err);
}

/* Of a lock file only the usual modules: most of its packages are there because others need them.
 */
static int preload_find(struct service *service, const struct template_order *order,
                        const struct layer *layer, struct template_entry *entry,
                        struct fault *fault)
{
    char *const nothing[] = { NULL };

    if (order->preload) {
        free(entry->preload);
        entry->preload = strdup(order->preload);
        return entry->preload ? 0 : fault_no_memory(fault);
    }
    if (!order->modules)
        return 0;
    return modules_find(service, layer, order->modules, order->lock ? nothing : entry->packages,
                        entry, fault);
}

int template_install(struct service *service, const struct template_order *order,
                     struct template_entry *ret_entry, json_t **ret_json, struct fault *fault)
{
    struct layer_order layers = { .wanted = order->lock ? NULL : order->wanted,
                                  .lock = order->lock };
    struct template_entry entry = { 0 };
    struct layer *layer = NULL;
    json_t *json = NULL;
    struct gb_err err;
    int r;

    if (order->watch)
        layers.watch = *order->watch;
    r = packages_make_layer(service, &layers, &layer, &json, fault);
    if (r < 0)
        return r;
    if (entry_fill(packages_layers(service), order->wanted, layer, &entry, &err) < 0)
        r = fault_set(fault, PROBLEM_INSTALL_FAILED, "packages", "%s", err.msg);
    if (r == 0)
        r = preload_find(service, order, layer, &entry, fault);
    layer_unref(layer);
    if (r < 0) {
        template_entry_release(&entry);
        json_decref(json);
        return r;
    }
    *ret_entry = entry;
    *ret_json = json;
    return 0;
}
