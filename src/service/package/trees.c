#include "service/package/trees.h"

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
#include "base/grow.h"
#include "base/io.h"
#include "engine/disk/disk.h"
#include "service/package/layers_internal.h"

#include "base/banned.h"

#define SITE        "site"
#define INFO        "info.json"
#define LOOSE_AGE_S 86400 /* how long the trees of an interrupted install stay */
#define DEPTH_MAX   48    /* of directories: more than a pack may have */
#define COMPARE     65536u

struct tree_work {
    struct layer_work work;
    char key[LAYER_KEY_MAX];
};

void tree_key(const char *sha256, const char *abi, const char *scope, char ret_key[LAYER_KEY_MAX])
{
    autofree char *text = NULL;

    if (asprintf(&text, "tree 1\n%s\n%s\n%s", sha256, abi, scope) < 0)
        text = NULL;
    layers_hash(text ? text : "", text ? strlen(text) : 0, ret_key);
}

/* ---- in use ---- */

static int tree_open(struct layers *layers, const char *key, struct tree *ret_tree)
{
    int dir = layers->dirs[DIR_TREES];
    autoclose int fd = openat(dir, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    json_t *info = NULL;
    int r;

    if (fd < 0)
        return -errno;
    r = layers_lock_shared(dir, key, fd);
    if (r == 0)
        r = layers_json_read(fd, INFO, &info);
    if (r < 0)
        return r;
    memmove(ret_tree->key, key, sizeof ret_tree->key); /* @key may be that of @ret_tree */
    ret_tree->bytes = json_integer_value(json_object_get(info, "bytes"));
    ret_tree->files = json_integer_value(json_object_get(info, "files"));
    json_decref(info);
    (void) futimens(fd, NULL);
    ret_tree->fd = TAKE_FD(fd);
    return 0;
}

int tree_get(struct layers *layers, const char *key, struct tree *ret_tree, struct gb_err *err)
{
    int r = layer_key_valid(key) ? tree_open(layers, key, ret_tree) : -EINVAL;

    return r < 0 ? gb_fail(err, -r, "open an unpacked package") : 0;
}

void tree_put(struct tree *tree)
{
    gb_closep(&tree->fd);
    tree->fd = -EBADF;
}

/* ---- making them ---- */

static int site_fill(struct layer_work *work, int pack, struct tree_room *room, struct gb_err *err)
{
    const struct tree_room before = *room;
    autoclose int site = -EBADF;
    json_t *info;
    int r = mkdirat(work->fd, SITE, 0755) < 0 ? -errno : 0;

    if (r == 0)
        site = openat(work->fd, SITE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r < 0 || site < 0)
        return gb_fail(err, r < 0 ? -r : errno, "create a directory for a package");
    r = tree_unpack(pack, site, room, err);
    if (r < 0)
        return r;
    info = json_pack("{s:I,s:I}", "bytes", (json_int_t) (before.bytes - room->bytes), "files",
                     (json_int_t) (before.files - room->files));
    r = info ? layers_json_write(work->fd, INFO, info) : -ENOMEM;
    json_decref(info);
    return r < 0 ? gb_fail(err, -r, "describe a package") : 0;
}

int tree_batch_add(struct tree_batch *batch, const char *key, int pack, struct tree_room *room,
                   struct gb_err *err)
{
    struct tree_work *items = grow(batch->items, &batch->cap, batch->len + 1, sizeof *items, 16);
    struct tree_work *item;
    int r;

    if (!items)
        return gb_fail(err, ENOMEM, "unpack a package");
    batch->items = items;
    item = &items[batch->len];
    *item = (struct tree_work){ .work = { .fd = -EBADF } };
    if (!layer_key_valid(key))
        return gb_fail_plain(err, EINVAL, "not the key of a package");
    memcpy(item->key, key, sizeof item->key);
    r = layer_work_begin(batch->layers, &item->work, err);
    if (r < 0)
        return r;
    batch->len++;
    return site_fill(&item->work, pack, room, err);
}

static int publish_one(struct layers *layers, struct tree_work *item)
{
    if (renameat(layers->dirs[DIR_WORK], item->work.name, layers->dirs[DIR_TREES], item->key) < 0)
        return errno == EEXIST || errno == ENOTEMPTY ? 0 : -errno;
    gb_closep(&item->work.fd);
    item->work.fd = -EBADF;
    return 0;
}

int tree_batch_publish(struct tree_batch *batch, struct gb_err *err)
{
    int r = 0;

    if (batch->len > 0 && syncfs(batch->items[0].work.fd) < 0)
        r = -errno;
    for (size_t i = 0; i < batch->len && r == 0; i++)
        r = publish_one(batch->layers, &batch->items[i]);
    return r < 0 ? gb_fail(err, -r, "store a package") : 0;
}

void tree_batch_release(struct tree_batch *batch)
{
    for (size_t i = 0; i < batch->len; i++)
        layer_work_abort(&batch->items[i].work);
    free(batch->items);
    batch->items = NULL;
    batch->len = batch->cap = 0;
}

/* ---- composing a layer ---- */

static int file_same(int a, int b, bool *ret_same)
{
    char left[COMPARE / 2], right[COMPARE / 2];
    struct stat sa, sb;
    ssize_t n = 1, m = 1;

    if (fstat(a, &sa) < 0 || fstat(b, &sb) < 0)
        return -errno;
    *ret_same = sa.st_size == sb.st_size && S_ISREG(sa.st_mode) && S_ISREG(sb.st_mode);
    while (*ret_same && n > 0) {
        n = io_read_all(a, left, sizeof left);
        m = io_read_all(b, right, sizeof right);
        if (n < 0 || m < 0)
            return (int) (n < 0 ? n : m);
        *ret_same = n == m && memcmp(left, right, (size_t) n) == 0;
    }
    return 0;
}

/* Two packages have a file of this name: that of the later one stays. */
static int clash_settle(int from, int to, const char *name, char clash[CLASH_MAX])
{
    autoclose int a = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    autoclose int b = openat(to, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool same = false;
    int r = a < 0 || b < 0 ? -errno : file_same(a, b, &same);

    if (r < 0 || same)
        return r;
    if (!clash[0])
        snprintf(clash, CLASH_MAX, "%.150s", name);
    if (unlinkat(to, name, 0) < 0)
        return errno == EISDIR ? -ENOTDIR : -errno;
    return linkat(from, name, to, name, 0) < 0 ? -errno : 0;
}

/* For file systems without hard links, and files that have as many as there can be. */
static int copy_file(int from, int to, const char *name)
{
    autoclose int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), out = -EBADF;
    autofree char *buf = malloc(COMPARE);
    struct stat st;
    ssize_t n = 1;
    int r = 0;

    if (in < 0 || fstat(in, &st) < 0)
        return -errno;
    out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0 || !buf)
        return out < 0 ? -errno : -ENOMEM;
    while (r == 0 && (n = io_read_all(in, buf, COMPARE)) > 0)
        r = io_write_all(out, buf, (size_t) n);
    if (r == 0 && n < 0)
        r = (int) n;
    return r == 0 && fchmod(out, st.st_mode & 0777) < 0 ? -errno : r;
}

static int link_file(int from, int to, const char *name, char clash[CLASH_MAX])
{
    if (linkat(from, name, to, name, 0) == 0)
        return 0;
    if (errno == EEXIST)
        return clash_settle(from, to, name, clash);
    if (errno == EMLINK || errno == EPERM || errno == EOPNOTSUPP || errno == EXDEV)
        return copy_file(from, to, name);
    return -errno;
}

static int link_dir(int from, int to, unsigned depth, char clash[CLASH_MAX]);

static int link_entry(int from, int to, const struct dirent *entry, unsigned depth,
                      char clash[CLASH_MAX])
{
    const char *name = entry->d_name;
    autoclose int in = -EBADF, out = -EBADF;
    struct stat st;
    bool is_dir = entry->d_type == DT_DIR;

    if (entry->d_type == DT_UNKNOWN) {
        if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        is_dir = S_ISDIR(st.st_mode);
    }
    if (!is_dir)
        return link_file(from, to, name, clash);
    if (depth >= DEPTH_MAX)
        return -ELOOP;
    if (mkdirat(to, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return in < 0 || out < 0 ? -errno : link_dir(in, out, depth + 1, clash);
}

static int link_dir(int from, int to, unsigned depth, char clash[CLASH_MAX])
{
    autoclosedir DIR *dir = NULL;
    struct dirent *entry;
    int r = dir_open_at(from, ".", &dir);

    while (r == 0 && (errno = 0, entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = link_entry(from, to, entry, depth, clash);
    return r == 0 && errno ? -errno : r;
}

int trees_compose(const struct tree *trees, size_t len, int dir, char ret_clash[CLASH_MAX],
                  struct gb_err *err)
{
    int r = 0;

    ret_clash[0] = '\0';
    for (size_t i = 0; i < len && r == 0; i++) {
        autoclose int site =
            openat(trees[i].fd, SITE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        r = site < 0 ? -errno : link_dir(site, dir, 0, ret_clash);
    }
    if (r == -ENOTDIR || r == -EISDIR)
        return gb_fail_plain(err, ENOTDIR, "one package has a file where another has a directory");
    return r < 0 ? gb_fail(err, -r, "put the packages together") : 0;
}

/* ---- pruning ---- */

static int names_collect(void *arg, const char *name)
{
    struct layers *layers = ((void **) arg)[0];
    json_t *names = ((void **) arg)[1], *record = NULL, *item;
    char file[NAME_MAX + 1];
    size_t i;

    layers_json_name(name, file);
    if (layers_json_read(layers->dirs[DIR_RECORDS], file, &record) < 0)
        return 0; /* gone in the meantime */
    json_array_foreach (json_object_get(record, "packages"), i, item) {
        const char *key = json_string_value(json_object_get(item, "tree"));

        if (key)
            (void) json_object_set_new(names, key, json_true());
    }
    json_decref(record);
    return 0;
}

/* {key: true} of all trees that a record names; NULL: unknown. */
static json_t *names_read(struct layers *layers)
{
    json_t *names = json_object();
    void *arg[2] = { layers, names };

    if (names && layers_each_json(layers->dirs[DIR_RECORDS], names_collect, arg) == 0)
        return names;
    json_decref(names);
    return NULL;
}

/* Calls @each for all trees that no record names. */
static void loose_each(struct layers *layers, const json_t *names,
                       void (*each)(struct layers *layers, const char *key, void *arg), void *arg)
{
    autoclosedir DIR *dir = NULL;
    struct dirent *entry;

    if (!names || dir_open_at(layers->dirs[DIR_TREES], ".", &dir) < 0)
        return;
    while ((entry = readdir(dir)))
        if (layer_key_valid(entry->d_name) && !json_object_get(names, entry->d_name))
            each(layers, entry->d_name, arg);
}

static void loose_count(struct layers *layers, const char *key, void *arg)
{
    char path[LAYER_KEY_MAX + sizeof INFO + 1];
    json_t *info = NULL;

    snprintf(path, sizeof path, "%s/" INFO, key);
    if (layers_json_read(layers->dirs[DIR_TREES], path, &info) == 0)
        *(int64_t *) arg += json_integer_value(json_object_get(info, "bytes"));
    json_decref(info);
}

int64_t trees_loose_bytes(struct layers *layers)
{
    json_t *names = names_read(layers);
    int64_t bytes = 0;

    loose_each(layers, names, loose_count, &bytes);
    json_decref(names);
    return bytes;
}

/* The exclusive lock proves that nobody is composing a layer of it, and makes new users wait. Such
 * a layer's record is written before its maker unlocks the tree, so only names that were read after
 * locking count. */
static void loose_remove(struct layers *layers, const char *key, void *arg)
{
    const bool *squeeze = arg;
    autoclose int fd =
        openat(layers->dirs[DIR_TREES], key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    json_t *names;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || (!*squeeze && time(NULL) - st.st_mtime <= LOOSE_AGE_S) ||
        flock(fd, LOCK_EX | LOCK_NB) < 0)
        return;
    names = names_read(layers);
    if (names && !json_object_get(names, key))
        (void) disk_trash_put(layers->dirs[DIR_WORK], layers->dirs[DIR_TREES], key);
    json_decref(names);
}

void trees_prune(struct layers *layers, bool squeeze)
{
    json_t *names = names_read(layers);

    loose_each(layers, names, loose_remove, &squeeze);
    json_decref(names);
}
