#include "mark/auth/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/hex.h"
#include "base/text/json_depth.h"
#include "mark/dirs.h"

#include "base/banned.h"

#define FILE_NAME  "signing-keys.json"
#define PART_NAME  "signing-keys.json.part"
#define LOCK_NAME  "signing-keys.lock"
#define FILE_MAX   16384
#define KEYS_MAX   16
#define FUTURE_MAX (86400 * USEC_PER_SEC) /* a key from a later day was made by a wrong clock */

struct held_key {
    struct jwt_key key;
    int64_t created_us;
};

struct ring {
    char *data_dir;
    int64_t rotate_us, keep_us;
    pthread_mutex_t lock;           /* guards the rest; held over the file too, which is small */
    struct held_key keys[KEYS_MAX]; /* the youngest first */
    size_t len;
    struct stat seen; /* of the file that was read last; all zero: none */
};

/* ---- reading ---- */

static int fail_file(struct gb_err *err, const char *why)
{
    return gb_fail_plain(err, EUCLEAN,
                         "the signing keys in " MARK_DIR "/" FILE_NAME " of the data directory %s; "
                         "remove the file, and everybody signs in again",
                         why);
}

static bool read_key(const json_t *json, struct held_key *ret)
{
    const char *kid = json_string_value(json_object_get(json, "kid"));
    const char *secret = json_string_value(json_object_get(json, "secret"));
    const json_t *created = json_object_get(json, "created_us");

    if (!kid || !hex_is(kid, JWT_KID_LEN) || !secret || !hex_is(secret, 2 * JWT_SECRET_BYTES) ||
        !json_is_integer(created) || json_integer_value(created) < 0)
        return false;
    memcpy(ret->key.kid, kid, sizeof ret->key.kid);
    (void) sodium_hex2bin(ret->key.secret, sizeof ret->key.secret, secret, strlen(secret), NULL,
                          NULL, NULL);
    ret->created_us = json_integer_value(created);
    return true;
}

static bool read_keys(const char *text, size_t len, struct held_key keys[KEYS_MAX], size_t *ret_len)
{
    json_t *json =
        json_too_deep(text, len, 4) ? NULL : json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *list = json_object_get(json, "keys");
    size_t count = json_array_size(list);
    bool good = json_is_array(list) && count <= KEYS_MAX;

    for (size_t i = 0; good && i < count; i++)
        good = read_key(json_array_get(list, i), &keys[i]);
    json_decref(json);
    *ret_len = count;
    return good;
}

/* Replaces the copy in memory by the file beneath @dir_fd. No file: no keys. */
static int load(struct ring *ring, int dir_fd, struct gb_err *err)
{
    autoclose int fd = openat(dir_fd, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct held_key keys[KEYS_MAX] = { 0 };
    char text[FILE_MAX];
    struct stat st;
    size_t count = 0;
    ssize_t len;
    int r = 0;

    if (fd < 0 && errno == ENOENT) {
        ring->len = 0;
        ring->seen = (struct stat){ 0 };
        return 0;
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        return gb_fail(err, errno, "open '" MARK_DIR "/" FILE_NAME "'");
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
        return fail_file(err, "can be read by others");
    len = io_read_all(fd, text, sizeof text);
    if (len < 0)
        r = gb_fail(err, (int) -len, "read '" MARK_DIR "/" FILE_NAME "'");
    else if (len == sizeof text || !read_keys(text, (size_t) len, keys, &count))
        r = fail_file(err, "are malformed");
    if (r == 0) {
        memcpy(ring->keys, keys, sizeof keys);
        ring->len = count;
        ring->seen = st;
    }
    sodium_memzero(text, sizeof text);
    sodium_memzero(keys, sizeof keys);
    return r;
}

static bool has_changed(const struct ring *ring, int dir_fd)
{
    struct stat st;

    if (fstatat(dir_fd, FILE_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0)
        st = (struct stat){ 0 };
    return st.st_ino != ring->seen.st_ino || st.st_size != ring->seen.st_size ||
           st.st_mtim.tv_sec != ring->seen.st_mtim.tv_sec ||
           st.st_mtim.tv_nsec != ring->seen.st_mtim.tv_nsec;
}

/* ---- writing ---- */

static char *keys_to_text(const struct ring *ring)
{
    json_t *list = json_array();
    char secret[2 * JWT_SECRET_BYTES + 1], *text;
    json_t *json;

    for (size_t i = 0; i < ring->len; i++) {
        (void) sodium_bin2hex(secret, sizeof secret, ring->keys[i].key.secret, JWT_SECRET_BYTES);
        (void) json_array_append_new(list, json_pack("{s:s,s:s,s:I}", "kid", ring->keys[i].key.kid,
                                                     "secret", secret, "created_us",
                                                     (json_int_t) ring->keys[i].created_us));
    }
    sodium_memzero(secret, sizeof secret);
    json = json_array_size(list) == ring->len ? json_pack("{s:O}", "keys", list) : NULL;
    text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    json_decref(list);
    json_decref(json);
    return text;
}

static int save_text(int dir_fd, const char *text, struct gb_err *err)
{
    autoclose int fd = -EBADF;
    int r;

    (void) unlinkat(dir_fd, PART_NAME, 0); /* of a process that ended in the middle */
    fd = openat(dir_fd, PART_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return gb_fail(err, errno, "create '" MARK_DIR "/" PART_NAME "'");
    r = io_write_all(fd, text, strlen(text));
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && renameat(dir_fd, PART_NAME, dir_fd, FILE_NAME) < 0)
        r = -errno;
    if (r < 0) {
        (void) unlinkat(dir_fd, PART_NAME, 0);
        return gb_fail(err, -r, "write '" MARK_DIR "/" FILE_NAME "'");
    }
    (void) fsync(dir_fd); /* if the name is lost in a power failure, everybody signs in again */
    return 0;
}

static int save(struct ring *ring, int dir_fd, struct gb_err *err)
{
    char *text = keys_to_text(ring);
    int r;

    if (!text)
        return gb_fail(err, ENOMEM, "write the signing keys");
    r = save_text(dir_fd, text, err);
    sodium_memzero(text, strlen(text));
    free(text);
    if (r == 0 && fstatat(dir_fd, FILE_NAME, &ring->seen, AT_SYMLINK_NOFOLLOW) < 0)
        ring->seen = (struct stat){ 0 };
    return r;
}

/* ---- rotation ---- */

static bool is_due(const struct ring *ring, int64_t now_us)
{
    return ring->len == 0 || now_us - ring->keys[0].created_us >= ring->rotate_us ||
           ring->keys[0].created_us - now_us > FUTURE_MAX;
}

/* Whether key @i may have signed tokens that are valid: it is the youngest, or has not had a
 * successor for long. */
static bool is_kept(const struct ring *ring, size_t i, int64_t now_us)
{
    return i == 0 || now_us - ring->keys[i - 1].created_us < ring->keep_us;
}

/* A new key at the front; those that have signed nothing that is still valid go. */
static void add_key(struct ring *ring, int64_t now_us)
{
    struct held_key key = { .created_us = now_us };
    uint8_t name[JWT_KID_LEN / 2];
    size_t kept = 0;

    while (kept < ring->len && kept < KEYS_MAX - 1 && is_kept(ring, kept, now_us))
        kept++;
    randombytes_buf(name, sizeof name);
    (void) sodium_bin2hex(key.key.kid, sizeof key.key.kid, name, sizeof name);
    randombytes_buf(key.key.secret, sizeof key.key.secret);
    memmove(&ring->keys[1], &ring->keys[0], kept * sizeof ring->keys[0]);
    ring->keys[0] = key;
    ring->len = kept + 1;
    sodium_memzero(&key, sizeof key);
    sodium_memzero(&ring->keys[ring->len], (KEYS_MAX - ring->len) * sizeof ring->keys[0]);
}

/* Under the lock of the file another process may turn out to have rotated already. */
static int rotate(struct ring *ring, int64_t now_us, struct gb_err *err)
{
    autoclose int dir_fd = -EBADF, lock_fd = -EBADF;
    int r = mark_dir_open(ring->data_dir, NULL, true, &dir_fd, err);

    if (r == 0)
        r = mark_dir_lock(dir_fd, LOCK_NAME, &lock_fd, err);
    if (r == 0)
        r = load(ring, dir_fd, err);
    if (r < 0 || !is_due(ring, now_us))
        return r;
    add_key(ring, now_us);
    r = save(ring, dir_fd, err);
    if (r < 0)
        (void) load(ring, dir_fd, NULL); /* nobody else would know the new one */
    return r;
}

/* ---- the interface ---- */

int ring_open(const char *data_dir, int64_t rotate_us, int64_t keep_us, struct ring **ret_ring,
              struct gb_err *err)
{
    struct ring *ring = calloc(1, sizeof *ring);
    autoclose int dir_fd = -EBADF;
    int r;

    if (!ring)
        return gb_fail(err, ENOMEM, "read the signing keys");
    ring->rotate_us = rotate_us;
    ring->keep_us = keep_us;
    (void) pthread_mutex_init(&ring->lock, NULL); /* cannot fail with defaults */
    ring->data_dir = strdup(data_dir);
    r = ring->data_dir ? mark_dir_open(ring->data_dir, NULL, false, &dir_fd, err)
                       : gb_fail(err, ENOMEM, "read the signing keys");
    if (r == 0)
        r = load(ring, dir_fd, err);
    else if (r == -ENOENT)
        r = 0; /* nothing of Mark is here yet */
    if (r < 0) {
        ring_close(ring);
        return r;
    }
    *ret_ring = ring;
    return 0;
}

void ring_close(struct ring *ring)
{
    if (!ring)
        return;
    (void) pthread_mutex_destroy(&ring->lock);
    free(ring->data_dir);
    sodium_memzero(ring, sizeof *ring);
    free(ring);
}

int ring_current(struct ring *ring, int64_t now_us, struct jwt_key *ret_key, struct gb_err *err)
{
    int r = 0;

    (void) pthread_mutex_lock(&ring->lock);
    if (is_due(ring, now_us))
        r = rotate(ring, now_us, err);
    if (r == 0)
        *ret_key = ring->keys[0].key;
    (void) pthread_mutex_unlock(&ring->lock);
    return r;
}

/* A key that has had a successor for too long signed nothing that is valid, even if it is still
 * in the file. */
static bool find(const struct ring *ring, const char *kid, int64_t now_us, struct jwt_key *ret_key)
{
    for (size_t i = 0; i < ring->len; i++)
        if (strcmp(ring->keys[i].key.kid, kid) == 0 && is_kept(ring, i, now_us)) {
            *ret_key = ring->keys[i].key;
            return true;
        }
    return false;
}

bool ring_find(struct ring *ring, const char *kid, int64_t now_us, struct jwt_key *ret_key)
{
    autoclose int dir_fd = -EBADF;
    bool found;

    (void) pthread_mutex_lock(&ring->lock);
    found = find(ring, kid, now_us, ret_key);
    /* Somebody else may have rotated. For a name that was made up this costs a look at a directory.
     */
    if (!found && mark_dir_open(ring->data_dir, NULL, false, &dir_fd, NULL) == 0 &&
        has_changed(ring, dir_fd) && load(ring, dir_fd, NULL) == 0)
        found = find(ring, kid, now_us, ret_key);
    (void) pthread_mutex_unlock(&ring->lock);
    return found;
}
