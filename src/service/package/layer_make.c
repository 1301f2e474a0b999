/*
 * Makes a layer: of each package the tree that the store has, or one that is fetched and unpacked
 * in the installer box now, then all of them linked together. Trees are stored batch by batch, so
 * an install that is interrupted continues where it was.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/autoclean.h"
#include "service/package/installer_internal.h"

#include "base/banned.h"

#define MB 1000000

static int too_large(const struct job *job, int64_t bytes, struct fault *fault)
{
    long long most = (long long) job->installer->config->set_bytes / MB;

    if (bytes > 0)
        return fault_set(fault, PROBLEM_PACKAGES_TOO_LARGE, "packages",
                         "these packages take more than %lld MB; the operator allows %lld MB with "
                         "--package-size",
                         (long long) (bytes / MB), most);
    return fault_set(fault, PROBLEM_PACKAGES_TOO_LARGE, "packages",
                     "these packages take more than the %lld MB that the operator allows with "
                     "--package-size, or have more than %d files",
                     most, INSTALL_FILES_MAX);
}

static const char *text_at(const json_t *list, size_t i, const char *name)
{
    const char *text = json_string_value(json_object_get(json_array_get(list, i), name));

    return text ? text : "";
}

/* Takes the trees that the store has; the rest has no descriptor afterwards. */
static void trees_find(struct job *job)
{
    struct gb_err ignored;

    for (size_t i = 0; i < json_array_size(job->packages); i++) {
        struct tree *tree = &job->trees[i];

        if (tree->fd >= 0)
            continue;
        *tree = (struct tree){ .fd = -EBADF };
        tree_key(text_at(job->packages, i, "sha256"), job->abi,
                 job->shared ? "" : job->request->scope, tree->key);
        (void) tree_get(job->installer->layers, tree->key, tree, &ignored);
    }
}

/* What is left to fetch. */
static json_t *links_missing(const struct job *job)
{
    json_t *list = json_array();

    for (size_t i = 0; i < json_array_size(job->packages); i++)
        if (job->trees[i].fd < 0)
            (void) json_array_append(list, json_array_get(job->links, i));
    return list;
}

static int64_t trees_bytes(const struct job *job, struct tree_room *room)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < json_array_size(job->packages); i++)
        if (job->trees[i].fd >= 0) {
            bytes += job->trees[i].bytes;
            room->files -= job->trees[i].files;
        }
    room->bytes -= bytes;
    return bytes;
}

static int unpack_fault(struct job *job, const struct gb_err *err, struct fault *fault)
{
    switch (err->code) {
    case EFBIG:
    case E2BIG:
        return too_large(job, 0, fault);
    case EPROTO:
    case EEXIST:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
        return fault_set(fault, PROBLEM_BAD_WHEEL, "packages",
                         "invalid wheel: it contains names of files that contradict each other");
    default:
        return installer_ours(job, "could not store the packages", err, fault);
    }
}

/* The missing package with this hash, or -1: the box may name any. */
static int package_find(const struct job *job, const char *sha256)
{
    for (size_t i = 0; i < json_array_size(job->packages); i++)
        if (job->trees[i].fd < 0 && strcmp(text_at(job->packages, i, "sha256"), sha256) == 0)
            return (int) i;
    return -1;
}

/* Stores what the box has unpacked. */
static int batch_store(struct job *job, struct tree_room *room, struct fault *fault)
{
    struct tree_batch batch = { .layers = job->installer->layers };
    const json_t *list = json_object_get(job->result, "trees");
    struct gb_err err = { 0 };
    int r = 0;

    for (size_t i = 0; i < json_array_size(list) && i < INSTALL_ITEMS_MAX && r == 0; i++) {
        int n = package_find(job, text_at(list, i, "sha256"));
        autoclose int pack = -EBADF;
        char path[100];

        if (n < 0)
            continue;
        snprintf(path, sizeof path, "packs/%s.pack", text_at(job->packages, (size_t) n, "sha256"));
        r = box_open_read(job->box, path, &pack, &err);
        if (r == 0)
            r = tree_batch_add(&batch, job->trees[n].key, pack, room, &err);
    }
    if (r == 0)
        r = tree_batch_publish(&batch, &err);
    tree_batch_release(&batch);
    if (r < 0)
        return unpack_fault(job, &err, fault);
    trees_find(job);
    return 0;
}

/* One run of the installer. What it could fetch is stored, even if the rest failed. */
static int batch_fetch(struct job *job, json_t *links, json_t *done, struct tree_room *room,
                       struct fault *fault)
{
    const json_t *why;

    if (installer_phase(job, "fetch", json_pack("{s:o,s:o}", "install", links, "done", done),
                        fault) < 0 ||
        batch_store(job, room, fault) < 0)
        return -1;
    why = json_object_get(job->result, "failed");
    return why ? installer_failed(job, why, fault) : 0;
}

static int trees_fetch(struct job *job, struct tree_room *room, struct fault *fault)
{
    size_t all = 0, left;
    json_t *links = links_missing(job);
    int64_t bytes = 0;

    for (all = left = json_array_size(links); left > 0;) {
        size_t before = left;
        json_t *done =
            json_pack("{s:I,s:I}", "files", (json_int_t) (all - left), "bytes", (json_int_t) bytes);

        if (batch_fetch(job, links, done, room, fault) < 0)
            return -1;
        bytes += json_integer_value(json_object_get(job->result, "fetched"));
        links = links_missing(job);
        left = json_array_size(links);
        if (left >= before) {
            json_decref(links);
            return fault_set(fault, PROBLEM_INSTALLER_FAILED, NULL,
                             "the installer returned no packages; see the server log");
        }
    }
    json_decref(links);
    return 0;
}

/* For a set that is made of another, whose trees the store keeps as long as it has that layer. */
static int trees_all(const struct job *job, struct fault *fault)
{
    for (size_t i = 0; i < json_array_size(job->packages); i++)
        if (job->trees[i].fd < 0)
            return fault_set(fault, PROBLEM_PACKAGES_STORE, NULL,
                             "%s is no longer in the store; install it again",
                             text_at(job->packages, i, "name"));
    return 0;
}

/* The record of the layer: each package knows its tree. */
static json_t *record_make(struct job *job)
{
    int64_t bytes = 0, files = 0;
    json_t *item;
    size_t i;

    json_array_foreach (job->packages, i, item) {
        (void) json_object_set_new(item, "tree", json_string(job->trees[i].key));
        (void) json_object_set_new(item, "bytes", json_integer(job->trees[i].bytes));
        bytes += job->trees[i].bytes;
        files += job->trees[i].files;
    }
    return json_pack("{s:s,s:s,s:O,s:I,s:I,s:I,s:b}", "key", job->key, "abi", job->abi, "packages",
                     job->packages, "bytes", (json_int_t) bytes, "files", (json_int_t) files,
                     "made", (json_int_t) time(NULL), "shared", job->shared);
}

static int layer_compose(struct job *job, struct layer **ret_layer, struct fault *fault)
{
    struct layer_work work = { .fd = -EBADF };
    char clash[CLASH_MAX];
    struct gb_err err = { 0 };
    json_t *record;
    int r = layer_work_begin(job->installer->layers, &work, &err);

    if (r == 0)
        r = trees_compose(job->trees, json_array_size(job->packages), work.fd, clash, &err);
    if (r < 0) {
        layer_work_abort(&work);
        if (r == -ENOTDIR)
            return fault_set(fault, PROBLEM_PACKAGE_CONFLICT, "packages",
                             "these packages cannot be installed together: %s", err.msg);
        return installer_ours(job, "could not store the packages", &err, fault);
    }
    if (clash[0])
        installer_log(job->installer, LOG_LEVEL_INFO,
                      "packages: several packages of layer %.12s have a file %s; the last one's is "
                      "used",
                      job->key, clash);
    record = record_make(job);
    r = record ? layer_work_publish(&work, job->key, record, ret_layer, &err)
               : gb_fail(&err, ENOMEM, "describe a layer");
    layer_work_abort(&work);
    json_decref(record);
    return r < 0 ? installer_ours(job, "could not store the packages", &err, fault) : 0;
}

int layer_make(struct job *job, struct layer **ret_layer, struct fault *fault)
{
    struct tree_room room = { .bytes = job->installer->config->set_bytes,
                              .files = INSTALL_FILES_MAX };
    size_t len = json_array_size(job->packages);
    int64_t bytes;

    job->trees = calloc(len + 1, sizeof *job->trees);
    if (!job->trees)
        return fault_no_memory(fault);
    for (size_t i = 0; i < len; i++)
        job->trees[i].fd = -EBADF;
    trees_find(job);
    bytes = trees_bytes(job, &room);
    if (room.bytes < 0)
        return too_large(job, bytes, fault);
    /* If packages may be built, code of one may have run in the box already: what everybody shares
     * is unpacked in another. */
    if (job->installer->config->builds && job->shared && job->box) {
        installer_box_close(job);
        if (installer_box_open(job, fault) < 0)
            return -1;
    }
    if (job->box ? trees_fetch(job, &room, fault) < 0 : trees_all(job, fault) < 0)
        return -1;
    return layer_compose(job, ret_layer, fault);
}

/* ---- without some packages ---- */

static bool listed(const json_t *names, const char *name)
{
    json_t *item;
    size_t i;

    json_array_foreach ((json_t *) names, i, item)
        if (strcmp(json_string_value(item), name) == 0)
            return true;
    return false;
}

static int remaining_take(struct job *job, const json_t *names, struct fault *fault)
{
    const json_t *base = job->request->base, *abi = json_object_get(base, "abi");
    json_t *item;
    size_t i;

    job->packages = json_array();
    job->links = json_array();
    job->abi = strdup(json_is_string(abi) ? json_string_value(abi) : "");
    job->shared = !json_is_false(json_object_get(base, "shared"));
    if (!job->abi)
        return fault_no_memory(fault);
    json_array_foreach (json_object_get(base, "packages"), i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));

        if (name && !listed(names, name))
            (void) json_array_append_new(job->packages, json_deep_copy(item));
    }
    return resolved_key(job, fault);
}

int install_without(struct installer *installer, const struct install_request *request,
                    const json_t *names, struct install_result *ret_result, struct fault *fault)
{
    struct install_result result = { .present = json_object(), .cached = true };
    struct job job = { .installer = installer, .request = request };
    struct gb_err ignored;
    int r = remaining_take(&job, names, fault);

    /* Even an empty layer: it is mounted over the previous one. */
    if (r == 0 && layer_get(installer->layers, job.key, &result.layer, &ignored) < 0)
        r = layer_make(&job, &result.layer, fault);
    installer_job_release(&job);
    if (r < 0)
        install_result_release(&result);
    else
        *ret_result = result;
    return r;
}
