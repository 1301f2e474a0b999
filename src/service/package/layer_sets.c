/* Default sets of packages, and pruning: layers stay if they are in use or belong to a set or a
 * template, and of the rest the most recently used. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/io.h"
#include "engine/disk/disk.h"
#include "service/package/layers_internal.h"
#include "service/package/trees.h"
#include "service/template/templates.h"

#include "base/banned.h"

#define SUFFIX        ".json"
#define REQUESTS_AGE  (INT64_C(400) * 86400) /* seconds: longer than any refresh interval */
#define TEMPS_AGE     3600                   /* seconds: longer than it takes to write a file */
#define LISTENER_SIGN "listener-"

/* ---- sets ---- */

void set_name(const struct principal *principal, const char *listener, char ret_name[SET_NAME_MAX])
{
    const char *from = principal_record(principal);
    size_t n = 0;

    if (principal_is_local(principal)) {
        const char *address = listener ? listener : "", *scheme = strstr(address, "://");

        from = scheme ? scheme + 3 : address;
        n = (size_t) snprintf(ret_name, SET_NAME_MAX, LISTENER_SIGN);
    }
    for (; *from && n < SET_NAME_MAX - 1; from++) {
        bool plain = ((*from | 32) >= 'a' && (*from | 32) <= 'z') || (*from >= '0' && *from <= '9');

        ret_name[n++] = plain || strchr("._-", *from) ? *from : '-';
    }
    ret_name[n] = '\0';
    if (ret_name[0] == '.')
        ret_name[0] = '-';
}

int set_get(struct layers *layers, const char *name, json_t **ret_json)
{
    char file[NAME_MAX + 1];

    layers_json_name(name, file);
    return layers_json_read(layers->dirs[DIR_SETS], file, ret_json);
}

int set_put(struct layers *layers, const char *name, json_t *json, struct gb_err *err)
{
    char file[NAME_MAX + 1];
    int r;

    layers_json_name(name, file);
    r = layers_json_write(layers->dirs[DIR_SETS], file, json);
    return r < 0 ? gb_fail(err, -r, "save the set of packages") : 0;
}

int set_remove(struct layers *layers, const char *name, struct gb_err *err)
{
    char file[NAME_MAX + 1];

    layers_json_name(name, file);
    if (unlinkat(layers->dirs[DIR_SETS], file, 0) < 0)
        return gb_fail(err, errno, "remove the set of packages");
    return 0;
}

int64_t set_stamp(struct layers *layers, const char *name)
{
    char file[NAME_MAX + 1];
    struct stat st;

    layers_json_name(name, file);
    if (fstatat(layers->dirs[DIR_SETS], file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    /* A file is replaced, never rewritten, so its inode number changes too. */
    return (int64_t) st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec + (int64_t) st.st_ino;
}

int layers_each_json(int dir, int (*each)(void *arg, const char *name), void *arg)
{
    autoclosedir DIR *stream = NULL;
    struct dirent *entry;
    int r = dir_open_at(dir, ".", &stream);

    while (r == 0 && (entry = readdir(stream))) {
        size_t len = strlen(entry->d_name);

        if (len <= strlen(SUFFIX) || strcmp(entry->d_name + len - strlen(SUFFIX), SUFFIX) != 0 ||
            entry->d_name[0] == '.')
            continue;
        entry->d_name[len - strlen(SUFFIX)] = '\0';
        r = each(arg, entry->d_name);
    }
    return r;
}

struct set_walk {
    struct layers *layers;
    int (*each)(void *arg, const char *name, json_t *json);
    void *arg;
};

static int set_visit(void *arg, const char *name)
{
    struct set_walk *walk = arg;
    json_t *json = NULL;
    int r;

    if (set_get(walk->layers, name, &json) < 0)
        return 0; /* gone in the meantime, or not ours */
    r = walk->each(walk->arg, name, json);
    json_decref(json);
    return r;
}

int set_each(struct layers *layers, int (*each)(void *arg, const char *name, json_t *json),
             void *arg, struct gb_err *err)
{
    struct set_walk walk = { layers, each, arg };
    int r = layers_each_json(layers->dirs[DIR_SETS], set_visit, &walk);

    return r < 0 ? gb_fail(err, -r, "read the sets of packages") : r;
}

/* ---- pruning ---- */

struct candidate {
    char key[LAYER_KEY_MAX];
    int64_t used; /* seconds since 1970 */
    json_t *record;
};

/* Files that several layers have in common count once. */
struct prune {
    struct layers *layers;
    struct candidate *items;
    size_t len, cap;
    json_t *uses; /* {tree: how many layers have it} */
    int64_t bytes;
};

/* Counts the layer's trees in (@step 1) or out (-1). */
static void prune_count(struct prune *prune, const json_t *record, int step)
{
    const json_t *packages = json_object_get(record, "packages");
    bool linked = false;
    json_t *item;
    size_t i;

    json_array_foreach ((json_t *) packages, i, item) {
        const char *tree = json_string_value(json_object_get(item, "tree"));
        json_int_t before = tree ? json_integer_value(json_object_get(prune->uses, tree)) : 0;

        if (!tree)
            continue;
        linked = true;
        (void) json_object_set_new(prune->uses, tree, json_integer(before + step));
        if ((before == 0 && step > 0) || (before == 1 && step < 0))
            prune->bytes += step * json_integer_value(json_object_get(item, "bytes"));
    }
    if (!linked)
        prune->bytes += step * json_integer_value(json_object_get(record, "bytes"));
}

static void prune_release(struct prune *prune)
{
    for (size_t i = 0; i < prune->len; i++)
        json_decref(prune->items[i].record);
    free(prune->items);
    json_decref(prune->uses);
}

static int candidate_add(void *arg, const char *name)
{
    struct prune *prune = arg;
    struct candidate *items, *item;
    char file[NAME_MAX + 1];
    json_t *record = NULL;
    struct stat st;

    layers_json_name(name, file);
    if (!layer_key_valid(name) ||
        fstatat(prune->layers->dirs[DIR_RECORDS], file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    items = grow(prune->items, &prune->cap, prune->len + 1, sizeof *items, 64);
    if (!items)
        return -ENOMEM;
    prune->items = items;
    item = &prune->items[prune->len++];
    *item = (struct candidate){ .used = st.st_mtime };
    memcpy(item->key, name, sizeof item->key);
    if (layers_json_read(prune->layers->dirs[DIR_RECORDS], file, &record) == 0) {
        item->record = record;
        prune_count(prune, record, 1);
    }
    return 0;
}

/* Returns 1 if the set names the layer whose key is @arg. */
static int set_keeps(void *arg, const char *name, json_t *json)
{
    const char *key = json_string_value(json_object_get(json, "key"));

    (void) name;
    return key && strcmp(key, arg) == 0;
}

/* Whether a set or a template names it; if that cannot be determined, true. */
static bool layer_is_named(struct layers *layers, const char *key)
{
    struct gb_err ignored;

    return set_each(layers, set_keeps, (void *) key, &ignored) != 0 ||
           templates_name_layer(layers->data, key);
}

static int by_use(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;

    return (left->used > right->used) - (left->used < right->used);
}

static void record_unlink(struct layers *layers, const char *key)
{
    char file[NAME_MAX + 1];

    layers_json_name(key, file);
    (void) unlinkat(layers->dirs[DIR_RECORDS], file, 0);
}

/* The lock on the key keeps out processes that are storing the layer. The exclusive lock on the
 * directory proves that no process uses it, and makes new users wait. Whatever adds a layer to a
 * set or a template holds the layer until that is written, so the check counts only after locking;
 * before, it only spares others the wait. The directory is removed first: if we are killed in
 * between, a record without a directory is recognised as a leftover. */
static bool layer_remove(struct layers *layers, const char *key)
{
    autoclose int lock = -EBADF, fd = -EBADF;

    if (layer_is_named(layers, key) || layers_try_lock(layers, LOCK_LAYER, key, &lock) < 0)
        return false;
    fd = openat(layers->dirs[DIR_LAYERS], key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return false;
    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) < 0 || layer_is_named(layers, key) ||
                    disk_trash_put(layers->dirs[DIR_WORK], layers->dirs[DIR_LAYERS], key) < 0))
        return false;
    record_unlink(layers, key);
    return true;
}

void layer_discard(struct layer *layer)
{
    struct layers *layers = layer->layers;
    char key[LAYER_KEY_MAX];

    memcpy(key, layer->key, sizeof key);
    layer_unref(layer);
    if (layer_remove(layers, key))
        layers_rubbish_empty(layers);
}

static bool layer_is_missing(const struct layers *layers, const char *key)
{
    return faccessat(layers->dirs[DIR_LAYERS], key, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
           errno == ENOENT;
}

/* Removes the record if it has no layer, and nobody is about to store one: whoever wrote it or
 * removed the layer was killed, or the layer was deleted by hand. */
static bool leftover_remove(struct layers *layers, const char *key)
{
    autoclose int lock = -EBADF;

    if (!layer_is_missing(layers, key) || layers_try_lock(layers, LOCK_LAYER, key, &lock) < 0 ||
        !layer_is_missing(layers, key))
        return false;
    record_unlink(layers, key);
    return true;
}

/* Removes files that somebody was killed over while writing them (layers_json_write()). */
static void temps_sweep(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    struct stat st;

    if (!stream) {
        gb_closep(&fd);
        return;
    }
    while ((entry = readdir(stream)))
        if (entry->d_name[0] == '.' && fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && time(NULL) - st.st_mtime > TEMPS_AGE)
            (void) unlinkat(fd, entry->d_name, 0);
    (void) closedir(stream);
}

static int request_age(void *arg, const char *name)
{
    struct layers *layers = arg;
    char file[NAME_MAX + 1];
    struct stat st;

    layers_json_name(name, file);
    if (fstatat(layers->dirs[DIR_REQUESTS], file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        time(NULL) - st.st_mtime > REQUESTS_AGE)
        (void) unlinkat(layers->dirs[DIR_REQUESTS], file, 0);
    return 0;
}

int layers_prune(struct layers *layers, int64_t bytes, int64_t age_us, unsigned *ret_removed,
                 struct gb_err *err)
{
    struct prune prune = { .layers = layers, .uses = json_object() };
    int64_t now = (int64_t) time(NULL), loose = trees_loose_bytes(layers);
    unsigned removed = 0;
    int r = layers_each_json(layers->dirs[DIR_RECORDS], candidate_add, &prune);

    if (r < 0) {
        prune_release(&prune);
        return gb_fail(err, -r, "list the layers");
    }
    /* Trees that no layer has are the first to go. */
    trees_prune(layers, prune.bytes + loose > bytes);
    if (prune.len > 0)
        qsort(prune.items, prune.len, sizeof *prune.items, by_use);
    for (size_t i = 0; i < prune.len; i++) {
        const struct candidate *item = &prune.items[i];
        bool stays = prune.bytes <= bytes && now - item->used <= age_us / USEC_PER_SEC;

        if (stays ? leftover_remove(layers, item->key) : layer_remove(layers, item->key)) {
            prune_count(&prune, item->record, -1);
            removed++;
        }
    }
    prune_release(&prune);
    if (removed > 0)
        trees_prune(layers, true);
    layers_work_sweep(layers);
    (void) layers_each_json(layers->dirs[DIR_REQUESTS], request_age, layers);
    temps_sweep(layers->dirs[DIR_RECORDS]);
    temps_sweep(layers->dirs[DIR_REQUESTS]);
    temps_sweep(layers->dirs[DIR_SETS]);
    if (ret_removed)
        *ret_removed = removed;
    return 0;
}

void layers_get_stats(struct layers *layers, struct layers_stats *ret_stats)
{
    struct prune prune = { .layers = layers, .uses = json_object() };

    (void) layers_each_json(layers->dirs[DIR_RECORDS], candidate_add, &prune);
    *ret_stats = (struct layers_stats){ .count = (int64_t) prune.len, .bytes = prune.bytes };
    prune_release(&prune);
}
