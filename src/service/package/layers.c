#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/hex.h"
#include "engine/disk/disk.h"
#include "service/package/layers_internal.h"

#include "base/banned.h"

#define JSON_FILE_MAX (4 << 20)
#define NAME_TRIES    10
#define TOUCH_S       60 /* times of use need not be exact */
#define WORK_PREFIX   "new-"

static const char *const dir_names[DIRS] = { "layers",   "trees", "tools", "records",
                                             "requests", "sets",  "work",  "locks" };

/* ---- files ---- */

bool layer_key_valid(const char *text)
{
    return hex_is(text, LAYER_KEY_MAX - 1);
}

void layers_hash(const void *data, size_t len, char ret_hex[LAYER_KEY_MAX])
{
    unsigned char hash[crypto_hash_sha256_BYTES];

    (void) crypto_hash_sha256(hash, data, len);
    (void) sodium_bin2hex(ret_hex, LAYER_KEY_MAX, hash, sizeof hash);
}

int layers_json_read(int dir, const char *name, json_t **ret_json)
{
    autoclose int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    autofree char *text = NULL;
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size > JSON_FILE_MAX)
        return -EINVAL;
    text = malloc((size_t) st.st_size + 1);
    if (!text)
        return -ENOMEM;
    n = io_read_all(fd, text, (size_t) st.st_size);
    if (n < 0)
        return (int) n;
    *ret_json = json_loadb(text, (size_t) n, 0, NULL);
    if (json_is_object(*ret_json))
        return 0;
    json_decref(*ret_json);
    return -EINVAL;
}

/* Complete or not at all, even if the disk is full or we are killed. */
int layers_json_write(int dir, const char *name, const json_t *json)
{
    autofree char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    char temp[NAME_MAX + 1];
    autoclose int fd = -EBADF;
    uint32_t salt = 0;
    int r;

    if (!text)
        return -ENOMEM;
    if (getrandom(&salt, sizeof salt, 0) != sizeof salt)
        return -EIO;
    snprintf(temp, sizeof temp, ".%.200s.%08x", name, salt);
    fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    r = io_write_all(fd, text, strlen(text));
    if (r == 0 && renameat(dir, temp, dir, name) < 0)
        r = -errno;
    if (r < 0)
        (void) unlinkat(dir, temp, 0);
    return r;
}

void layers_json_name(const char *name, char buf[NAME_MAX + 1])
{
    snprintf(buf, NAME_MAX + 1, "%.200s.json", name);
}

/* ---- opening ---- */

/* Empties the trash. Nobody else uses it, and pruning limits its size. */
void layers_rubbish_empty(struct layers *layers)
{
    bool more = true;

    while (more && disk_trash_empty(layers->dirs[DIR_WORK], INT_MAX, &more) == 0)
        ;
}

void layers_work_sweep(struct layers *layers)
{
    autoclosedir DIR *dir = NULL;
    struct dirent *entry;

    if (dir_open_at(layers->dirs[DIR_WORK], ".", &dir) < 0)
        return;
    while ((entry = readdir(dir))) {
        autoclose int work = -EBADF;

        if (strncmp(entry->d_name, WORK_PREFIX, strlen(WORK_PREFIX)) != 0)
            continue;
        work = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (work >= 0 && flock(work, LOCK_EX | LOCK_NB) == 0)
            (void) disk_trash_put(layers->dirs[DIR_WORK], layers->dirs[DIR_WORK], entry->d_name);
    }
    layers_rubbish_empty(layers);
}

static int directory(int base, const char *name, mode_t mode)
{
    int fd;

    if (mkdirat(base, name, mode) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int layers_open(const char *data_dir, struct layers **ret_layers, struct gb_err *err)
{
    autofree char *real = realpath(data_dir, NULL);
    autoclose int base = -EBADF, data = -EBADF;
    struct layers *layers;

    if (sodium_init() < 0)
        return gb_fail_plain(err, EIO, "libsodium could not be initialized");
    data = real ? open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    base = data >= 0 ? directory(data, "packages", 0700) : -errno;
    if (base < 0)
        return gb_fail(err, -base, "create %.80s/packages", data_dir);
    layers = calloc(1, sizeof *layers);
    if (!layers)
        return gb_fail(err, ENOMEM, "open the package store");
    pthread_mutex_init(&layers->lock, NULL);
    for (size_t i = 0; i < DIRS; i++)
        layers->dirs[i] = -EBADF;
    if (asprintf(&layers->path, "%s/packages/%s", real, dir_names[DIR_LAYERS]) < 0)
        layers->path = NULL;
    if (asprintf(&layers->tools, "%s/packages/%s", real, dir_names[DIR_TOOLS]) < 0)
        layers->tools = NULL;
    layers->data = TAKE_PTR(real);
    for (size_t i = 0; i < DIRS && layers->path && layers->tools; i++) {
        bool shown = i == DIR_LAYERS || i == DIR_TOOLS; /* parts of it are mounted into boxes */

        layers->dirs[i] = directory(base, dir_names[i], shown ? 0755 : 0700);
        if (layers->dirs[i] < 0) {
            int r =
                gb_fail(err, -layers->dirs[i], "create %.80s/packages/%s", data_dir, dir_names[i]);

            layers_close(layers);
            return r;
        }
    }
    if (!layers->path || !layers->tools) {
        layers_close(layers);
        return gb_fail(err, ENOMEM, "open the package store");
    }
    layers_work_sweep(layers);
    *ret_layers = layers;
    return 0;
}

void layers_close(struct layers *layers)
{
    if (!layers)
        return;
    for (size_t i = 0; i < DIRS; i++)
        gb_closep(&layers->dirs[i]);
    pthread_mutex_destroy(&layers->lock);
    free(layers->data);
    free(layers->path);
    free(layers->tools);
    free(layers);
}

const char *layers_dir(const struct layers *layers)
{
    return layers->path;
}

const char *layers_tools_dir(const struct layers *layers)
{
    return layers->tools;
}

/* ---- layers in use ---- */

/* Whether this directory still has that name. */
static int is_there(int dir, const char *name, int fd)
{
    struct stat held, now;

    if (fstat(fd, &held) < 0 || fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return held.st_ino == now.st_ino && held.st_dev == now.st_dev ? 0 : -ENOENT;
}

static int lock_wait(int fd, int operation)
{
    while (flock(fd, operation) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

/* A lock keeps the directory, so only a check made after locking is reliable. We wait for the lock:
 * pruning holds it for a few file operations, and may decide that the layer stays. */
int layers_lock_shared(int dir, const char *name, int fd)
{
    int r = lock_wait(fd, LOCK_SH);

    return r < 0 ? r : is_there(dir, name, fd);
}

static int layer_open(struct layers *layers, const char *key, struct layer **ret_layer)
{
    autoclose int fd =
        openat(layers->dirs[DIR_LAYERS], key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char name[NAME_MAX + 1];
    struct layer *layer;
    json_t *record = NULL;
    int r;

    if (fd < 0)
        return -errno;
    r = layers_lock_shared(layers->dirs[DIR_LAYERS], key, fd);
    if (r < 0)
        return r;
    layers_json_name(key, name);
    r = layers_json_read(layers->dirs[DIR_RECORDS], name, &record);
    if (r < 0)
        return r;
    layer = calloc(1, sizeof *layer);
    if (!layer) {
        json_decref(record);
        return -ENOMEM;
    }
    layer->layers = layers;
    layer->record = record;
    layer->lock_fd = TAKE_FD(fd);
    layer->refs = 1;
    memcpy(layer->key, key, sizeof layer->key);
    *ret_layer = layer;
    return 0;
}

/* Updates its time of use, for pruning. */
static void layer_touch(struct layers *layers, const char *key)
{
    char name[NAME_MAX + 1];
    struct stat st;

    layers_json_name(key, name);
    if (fstatat(layers->dirs[DIR_RECORDS], name, &st, 0) == 0 && time(NULL) - st.st_mtime > TOUCH_S)
        (void) utimensat(layers->dirs[DIR_RECORDS], name, NULL, 0);
}

static void layer_free(struct layer *layer)
{
    if (!layer)
        return;
    gb_closep(&layer->lock_fd);
    json_decref(layer->record);
    free(layer);
}

/* One more reference to a layer that we have in use, or NULL; under the store's lock. One that was
 * deleted by hand stays usable only for those who hold it. */
static struct layer *live_ref(struct layers *layers, const char *key)
{
    struct layer *layer;

    LIST_FOREACH(layer, &layers->live, entry)
    if (strcmp(layer->key, key) == 0 &&
        is_there(layers->dirs[DIR_LAYERS], key, layer->lock_fd) == 0) {
        layer->refs++;
        return layer;
    }
    return NULL;
}

int layer_get(struct layers *layers, const char *key, struct layer **ret_layer, struct gb_err *err)
{
    struct layer *layer, *opened = NULL;
    int r;

    if (!layer_key_valid(key))
        return gb_fail_plain(err, EINVAL, "not a layer key");
    pthread_mutex_lock(&layers->lock);
    layer = live_ref(layers, key);
    pthread_mutex_unlock(&layers->lock);
    if (!layer) {
        r = layer_open(layers, key, &opened);
        if (r < 0)
            return gb_fail(err, -r, "open layer %.12s", key);
        pthread_mutex_lock(&layers->lock);
        layer = live_ref(layers, key); /* another thread's: there is one of each */
        if (!layer) {
            layer = TAKE_PTR(opened);
            LIST_INSERT_HEAD(&layers->live, layer, entry);
        }
        pthread_mutex_unlock(&layers->lock);
        layer_free(opened);
    }
    layer_touch(layers, key);
    *ret_layer = layer;
    return 0;
}

struct layer *layer_ref(struct layer *layer)
{
    if (!layer)
        return NULL;
    pthread_mutex_lock(&layer->layers->lock);
    layer->refs++;
    pthread_mutex_unlock(&layer->layers->lock);
    return layer;
}

void layer_unref(struct layer *layer)
{
    struct layers *layers = layer ? layer->layers : NULL;

    if (!layer)
        return;
    pthread_mutex_lock(&layers->lock);
    if (--layer->refs > 0)
        layer = NULL;
    else
        LIST_REMOVE(layer, entry);
    pthread_mutex_unlock(&layers->lock);
    if (!layer)
        return;
    layer_touch(layers, layer->key);
    layer_free(layer);
}

const char *layer_key(const struct layer *layer)
{
    return layer->key;
}

int layer_open_dir(const struct layer *layer)
{
    int fd = fcntl(layer->lock_fd, F_DUPFD_CLOEXEC, 0); /* a copy has the same lock */

    return fd < 0 ? -errno : fd;
}

const json_t *layer_record(const struct layer *layer)
{
    return layer->record;
}

/* ---- requests ---- */

int layers_request_get(struct layers *layers, const char *hash, int64_t age_us, json_t **ret_json)
{
    char name[NAME_MAX + 1];
    struct stat st;

    layers_json_name(hash, name);
    if (!layer_key_valid(hash) ||
        fstatat(layers->dirs[DIR_REQUESTS], name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        time(NULL) - st.st_mtime > age_us / USEC_PER_SEC)
        return -ENOENT;
    return layers_json_read(layers->dirs[DIR_REQUESTS], name, ret_json) < 0 ? -ENOENT : 0;
}

int layers_request_put(struct layers *layers, const char *hash, json_t *json, struct gb_err *err)
{
    char name[NAME_MAX + 1];
    int r;

    layers_json_name(hash, name);
    r = layer_key_valid(hash) ? layers_json_write(layers->dirs[DIR_REQUESTS], name, json) : -EINVAL;
    return r < 0 ? gb_fail(err, -r, "record what was installed") : 0;
}

static int lock_take(struct layers *layers, const char *kind, const char *hash, int operation,
                     int *ret_fd)
{
    autoclose int fd = -EBADF;
    char name[32];
    int r;

    snprintf(name, sizeof name, "%.16s-%.2s", kind, hash);
    fd = openat(layers->dirs[DIR_LOCKS], name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = lock_wait(fd, operation);
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

int layers_lock(struct layers *layers, const char *kind, const char *hash, int *ret_fd,
                struct gb_err *err)
{
    int r = lock_take(layers, kind, hash, LOCK_EX, ret_fd);

    return r < 0 ? gb_fail(err, -r, "lock an install") : 0;
}

int layers_try_lock(struct layers *layers, const char *kind, const char *hash, int *ret_fd)
{
    return lock_take(layers, kind, hash, LOCK_EX | LOCK_NB, ret_fd);
}

/* ---- making one ---- */

/* The lock shows others that somebody works on it. Until it is ours one of them may take the
 * directory for a dead process's and sweep it away. -EEXIST: use another name. */
static int work_make(struct layer_work *work)
{
    int dir = work->layers->dirs[DIR_WORK], r;
    uint64_t salt;

    if (getrandom(&salt, sizeof salt, 0) != sizeof salt)
        return -EIO;
    snprintf(work->name, sizeof work->name, WORK_PREFIX "%016llx", (unsigned long long) salt);
    if (mkdirat(dir, work->name, 0755) < 0)
        return -errno;
    work->fd = openat(dir, work->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (work->fd < 0)
        return errno == ENOENT ? -EEXIST : -errno;
    r = layers_lock_shared(dir, work->name, work->fd);
    if (r == -ENOENT) {
        gb_closep(&work->fd);
        work->fd = -EBADF;
        return -EEXIST;
    }
    return r == 0 && fchmod(work->fd, 0755) < 0 ? -errno : r;
}

int layer_work_begin(struct layers *layers, struct layer_work *ret_work, struct gb_err *err)
{
    struct layer_work work = { .layers = layers, .fd = -EBADF };
    int r = -EEXIST;

    for (int i = 0; i < NAME_TRIES && r == -EEXIST; i++)
        r = work_make(&work);
    if (r < 0) {
        layer_work_abort(&work);
        return gb_fail(err, -r, "create a directory for a layer");
    }
    *ret_work = work;
    return 0;
}

void layer_work_abort(struct layer_work *work)
{
    if (work->fd < 0)
        return;
    gb_closep(&work->fd);
    work->fd = -EBADF;
    (void) disk_trash_put(work->layers->dirs[DIR_WORK], work->layers->dirs[DIR_WORK], work->name);
    layers_rubbish_empty(work->layers);
}

/* The record is written first: a layer without one could never be used. A directory that is in the
 * way has lost its record; it is as good as ours. */
static int work_store(struct layer_work *work, const char *key, const json_t *record)
{
    struct layers *layers = work->layers;
    char name[NAME_MAX + 1];
    int r;

    layers_json_name(key, name);
    r = layers_json_write(layers->dirs[DIR_RECORDS], name, record);
    if (r == 0 && syncfs(work->fd) < 0)
        r = -errno;
    if (r < 0)
        return r;
    if (renameat(layers->dirs[DIR_WORK], work->name, layers->dirs[DIR_LAYERS], key) < 0)
        return errno == EEXIST || errno == ENOTEMPTY ? 0 : -errno;
    gb_closep(&work->fd);
    work->fd = -EBADF;
    return 0;
}

int layer_work_publish(struct layer_work *work, const char *key, json_t *record,
                       struct layer **ret_layer, struct gb_err *err)
{
    struct layers *layers = work->layers;
    autoclose int lock = -EBADF;
    int r;

    /* Until we have it in use, its record and its directory are nobody's, and pruning would take
     * them: the lock keeps that away, from before the record to after the last layer_get(). */
    if (!layer_key_valid(key))
        r = gb_fail_plain(err, EINVAL, "not a layer key");
    else
        r = layers_lock(layers, LOCK_LAYER, key, &lock, err);
    if (r == 0 && layer_get(layers, key, ret_layer, err) < 0) {
        r = work_store(work, key, record);
        r = r < 0 ? gb_fail(err, -r, "store a layer") : layer_get(layers, key, ret_layer, err);
    }
    gb_closep(&lock);
    lock = -EBADF;
    layer_work_abort(work);
    return r;
}
