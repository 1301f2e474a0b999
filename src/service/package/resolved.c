/* What the installer box resolved, checked: names, versions and hashes, the lists of blocked
 * packages, and the hashes of a lock. */
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/hex.h"
#include "base/text/utf8.h"
#include "service/package/installer_internal.h"
#include "service/package/lock.h"

#include "base/banned.h"

#define ABI_MAX 200

static bool hash_valid(const char *text)
{
    return text && hex_is(text, 64);
}

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* One package of the result, checked; NULL: malformed. */
static json_t *package_check(const json_t *item)
{
    const char *name = text_of(item, "name"), *version = text_of(item, "version");
    const char *sha256 = text_of(item, "sha256"), *file = text_of(item, "file");
    char normal[PACKAGE_NAME_MAX + 1];

    if (!name || !version || !hash_valid(sha256) || !file || strlen(file) > 300 ||
        strlen(version) > PACKAGE_NAME_MAX || !package_version_valid(version) ||
        !utf8_valid(file, strlen(file)))
        return NULL;
    package_normal(name, normal);
    if (!normal[0] || strcmp(normal, name) != 0)
        return NULL;
    return json_pack("{s:s,s:s,s:s,s:s}", "name", name, "version", version, "sha256", sha256,
                     "file", file);
}

static int refuse_clashes(const json_t *clashes, struct fault *fault)
{
    const json_t *first = json_array_get(clashes, 0);
    char name[60], loaded[40], wanted[40];

    if (json_array_size(clashes) == 0)
        return 0;
    installer_words(json_object_get(first, "name"), name, sizeof name);
    installer_words(json_object_get(first, "loaded"), loaded, sizeof loaded);
    installer_words(json_object_get(first, "wanted"), wanted, sizeof wanted);
    return fault_set(fault, PROBLEM_PACKAGE_PRELOADED, "packages",
                     "this needs %s %s, but the template has already loaded %s %s; request "
                     "versions that work with it, or use a template that does not preload it",
                     name, wanted, name, loaded);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(text_of(*(json_t *const *) a, "name"), text_of(*(json_t *const *) b, "name"));
}

/* The wheels, by name, and the interpreter. */
int resolved_key(struct job *job, struct fault *fault)
{
    json_t *all = json_array(), *item;
    autofree char *dump = NULL;
    size_t i;

    (void) json_array_append_new(all, json_string("2"));
    (void) json_array_append_new(all, json_string(job->abi));
    (void) json_array_append_new(all, json_string(job->shared ? "" : job->request->scope));
    json_array_foreach (job->packages, i, item)
        (void) json_array_append(all, json_object_get(item, "sha256"));
    dump = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    if (!dump)
        return fault_no_memory(fault);
    layers_hash(dump, strlen(dump), job->key);
    return 0;
}

static int package_allow(struct job *job, const json_t *package, struct fault *fault)
{
    const char *name = text_of(package, "name");
    const struct install_request *request = job->request;

    if (package_listed(job->installer->config->blocked, name))
        return fault_set(fault, PROBLEM_PACKAGE_BLOCKED, "packages",
                         "%s, a dependency, is blocked by the operator", name);
    if (request->lock &&
        !lock_has(request->lock, name, text_of(package, "version"), text_of(package, "sha256")))
        return fault_set(fault, PROBLEM_HASH_MISMATCH, "packages",
                         "the index has a file of %s %s whose hash is not in the lock file", name,
                         text_of(package, "version"));
    return 0;
}

/* Fills the set in the order of the names. */
static int packages_take(struct job *job, json_t **items, size_t len, struct fault *fault)
{
    const char *last = "";

    job->packages = json_array();
    job->links = json_array();
    job->shared = true;
    for (size_t i = 0; i < len; i++) {
        json_t *package = package_check(items[i]);

        (void) json_array_append_new(job->packages, package);
        (void) json_array_append(job->links, items[i]);
        if (strcmp(last, text_of(package, "name")) == 0)
            return fault_set(fault, PROBLEM_INSTALLER_FAILED, NULL,
                             "the installer returned malformed output; see the server log");
        last = text_of(package, "name");
        if (package_allow(job, package, fault) < 0)
            return -1;
        job->shared = job->shared && json_is_true(json_object_get(items[i], "wheel"));
    }
    return 0;
}

int resolved_take(struct job *job, struct fault *fault)
{
    const json_t *list = json_object_get(job->result, "install");
    const char *abi = text_of(job->result, "abi");
    json_t *items[INSTALL_ITEMS_MAX];
    size_t len = json_array_size(list);

    if (!json_is_array(list) || len > INSTALL_ITEMS_MAX)
        return fault_set(fault, PROBLEM_PACKAGES_TOO_LARGE, "packages",
                         "this would install more than %d packages", INSTALL_ITEMS_MAX);
    if (!abi || strlen(abi) > ABI_MAX)
        return fault_set(fault, PROBLEM_INSTALLER_FAILED, NULL,
                         "the installer returned malformed output; see the server log");
    job->abi = strdup(abi);
    if (!job->abi)
        return fault_no_memory(fault);
    for (size_t i = 0; i < len; i++) {
        json_t *package = package_check(json_array_get(list, i));

        json_decref(package);
        if (!package)
            return fault_set(fault, PROBLEM_BAD_WHEEL, "packages",
                             "the index returned a package without a valid name, version or hash");
        items[i] = json_array_get(list, i);
    }
    if (len > 0)
        qsort(items, len, sizeof *items, by_name);
    if (packages_take(job, items, len, fault) < 0 ||
        refuse_clashes(json_object_get(job->result, "clashes"), fault) < 0)
        return -1;
    return resolved_key(job, fault);
}

json_t *resolved_present(const json_t *from)
{
    json_t *to = json_object(), *value;
    const char *name;
    char normal[PACKAGE_NAME_MAX + 1];

    json_object_foreach ((json_t *) from, name, value) {
        const char *version = json_string_value(value);

        package_normal(name, normal);
        if (normal[0] && version && package_version_valid(version) && strlen(version) < 100)
            (void) json_object_set(to, normal, value);
    }
    return to;
}
