/*
 * Kept results of queries: files named by their SHA-256, in mark/results of the data directory.
 *
 * Theory of operation. A connector writes into a draft, a file without a name where the file system
 * can do that. Once the connector is gone, the draft is hashed; keeping it makes the row of the
 * store and the name of the file under the lock of the directory (flock() on the file "lock"). The
 * sweep holds the same lock when it looks for files that no row names; so in one process or in two,
 * a file that an answer has never vanishes, and one that nobody has does not stay.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/hex.h"
#include "mark/broker/internal.h"
#include "mark/dirs.h"

#include "base/banned.h"

#define DRAFT_PREFIX "tmp-"
#define LOCK_NAME    "lock"
#define HASH_BYTES   ((size_t) 256 * 1024)

_Static_assert(STORE_HASH_BYTES == crypto_hash_sha256_BYTES, "the store's hashes are SHA-256");

void hash_to_text(const uint8_t hash[STORE_HASH_BYTES], char buf[HASH_TEXT_MAX])
{
    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        hex_put(hash[i], buf + 2 * i);
    buf[HASH_TEXT_MAX - 1] = '\0';
}

int results_open(const char *data_dir, int *ret_fd, struct gb_err *err)
{
    return mark_dir_open(data_dir, "results", true, ret_fd, err);
}

int results_lock_at(int dir_fd, int *ret_fd, struct gb_err *err)
{
    return mark_dir_lock(dir_fd, LOCK_NAME, ret_fd, err);
}

/* ---- drafts ---- */

/* Where files without a name are not possible. A sweep must not find it before it is locked. */
static int draft_named(int dir_fd, struct result_draft *draft, struct gb_err *err)
{
    autoclose int lock_fd = -EBADF;
    uint8_t bits[16];
    int r = results_lock_at(dir_fd, &lock_fd, err);

    if (r < 0)
        return r;
    randombytes_buf(bits, sizeof bits);
    (void) snprintf(draft->name, sizeof draft->name, DRAFT_PREFIX);
    for (size_t i = 0, at = strlen(draft->name); i < sizeof bits; i++, at += 2)
        hex_put(bits[i], draft->name + at);
    draft->fd = openat(dir_fd, draft->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (draft->fd < 0)
        return gb_fail(err, errno, "create a file for a result");
    (void) flock(draft->fd, LOCK_EX | LOCK_NB);
    return 0;
}

int result_draft_begin(int dir_fd, struct result_draft *ret_draft, struct gb_err *err)
{
    struct result_draft draft = { .fd = openat(dir_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600) };
    int r = 0;

    if (draft.fd < 0 && errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
        return gb_fail(err, errno, "create a file for a result");
    if (draft.fd < 0)
        r = draft_named(dir_fd, &draft, err);
    if (r == 0)
        *ret_draft = draft;
    return r;
}

void result_draft_release(int dir_fd, struct result_draft *draft)
{
    if (draft->name[0])
        (void) unlinkat(dir_fd, draft->name, 0);
    draft->name[0] = '\0';
    gb_closep(&draft->fd);
    draft->fd = -EBADF;
}

int result_draft_hash(const struct result_draft *draft, uint8_t ret_hash[STORE_HASH_BYTES],
                      int64_t *ret_size, struct gb_err *err)
{
    autofree unsigned char *buf = malloc(HASH_BYTES);
    crypto_hash_sha256_state state;
    int64_t size = 0;
    ssize_t n;

    if (!buf)
        return gb_fail(err, ENOMEM, "read a result");
    (void) crypto_hash_sha256_init(&state);
    while ((n = pread(draft->fd, buf, HASH_BYTES, size)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gb_fail(err, errno, "read a result");
        (void) crypto_hash_sha256_update(&state, buf, (unsigned long long) n);
        size += n;
    }
    (void) crypto_hash_sha256_final(&state, ret_hash);
    *ret_size = size;
    return 0;
}

/* ---- keeping ---- */

static int name_give(int dir_fd, struct result_draft *draft, const char *name, struct gb_err *err)
{
    char path[sizeof "/proc/self/fd/" + 12];
    struct stat st;
    int r;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0; /* the same content */
    if (fdatasync(draft->fd) < 0)
        return gb_fail(err, errno, "write a result");
    if (draft->name[0]) {
        r = renameat(dir_fd, draft->name, dir_fd, name);
        draft->name[0] = '\0';
    } else {
        (void) snprintf(path, sizeof path, "/proc/self/fd/%d", draft->fd);
        r = linkat(AT_FDCWD, path, dir_fd, name, AT_SYMLINK_FOLLOW);
    }
    if (r < 0 || fsync(dir_fd) < 0)
        return gb_fail(err, errno, "keep a result");
    return 0;
}

int result_keep(int dir_fd, struct store *store, struct result_draft *draft,
                const struct store_result *row, int64_t bytes_max, struct gb_err *err)
{
    autoclose int lock_fd = -EBADF;
    char name[HASH_TEXT_MAX];
    struct gb_err ignored;
    int r = results_lock_at(dir_fd, &lock_fd, err);

    if (r < 0)
        return r;
    r = store_result_add(store, row, bytes_max, err);
    if (r < 0 || !draft)
        return r;
    hash_to_text(row->sha256, name);
    r = name_give(dir_fd, draft, name, err);
    if (r < 0)
        (void) store_result_drop(store, row->owner, row->message_id, row->n, &ignored);
    return r;
}

int result_open_at(int dir_fd, const uint8_t hash[STORE_HASH_BYTES], int *ret_fd,
                   struct gb_err *err)
{
    char name[HASH_TEXT_MAX];
    int fd;

    hash_to_text(hash, name);
    fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return gb_fail(err, errno, "open the result of a query");
    *ret_fd = fd;
    return 0;
}

int result_open_in(const char *data_dir, const uint8_t sha256[STORE_HASH_BYTES], int *ret_fd,
                   struct gb_err *err)
{
    autoclose int dir_fd = -EBADF;
    int r = results_open(data_dir, &dir_fd, err);

    return r < 0 ? r : result_open_at(dir_fd, sha256, ret_fd, err);
}

/* ---- the sweep ---- */

static void sweep_draft(int dir_fd, const char *name)
{
    autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void) unlinkat(dir_fd, name, 0);
}

static int sweep_hash(int dir_fd, struct store *store, const uint8_t hash[STORE_HASH_BYTES],
                      struct gb_err *err)
{
    char name[HASH_TEXT_MAX];
    bool used;
    int r = store_result_has(store, hash, &used, err);

    hash_to_text(hash, name);
    if (r == 0 && !used)
        (void) unlinkat(dir_fd, name, 0); /* what stays is removed by the next sweep */
    return r;
}

int results_remove_at(int dir_fd, struct store *store, const uint8_t *hashes, size_t len,
                      struct gb_err *err)
{
    autoclose int lock_fd = -EBADF;
    int r = results_lock_at(dir_fd, &lock_fd, err);

    for (size_t i = 0; r == 0 && i < len; i++)
        r = sweep_hash(dir_fd, store, hashes + i * STORE_HASH_BYTES, err);
    return r;
}

static int sweep_one(int dir_fd, struct store *store, const char *name, struct gb_err *err)
{
    uint8_t hash[STORE_HASH_BYTES];

    for (size_t i = 0; i < sizeof hash; i++)
        hash[i] = (uint8_t) (hex_value(name[2 * i]) << 4 | hex_value(name[2 * i + 1]));
    return sweep_hash(dir_fd, store, hash, err);
}

int results_sweep_at(int dir_fd, struct store *store, struct gb_err *err)
{
    autoclosedir DIR *dir = NULL;
    autoclose int lock_fd = -EBADF;
    const struct dirent *entry;
    int r = results_lock_at(dir_fd, &lock_fd, err);

    if (r < 0)
        return r;
    r = dir_open_at(dir_fd, ".", &dir);
    if (r < 0)
        return gb_fail(err, -r, "read the directory of results");
    while (r == 0 && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, DRAFT_PREFIX, strlen(DRAFT_PREFIX)) == 0)
            sweep_draft(dir_fd, entry->d_name);
        else if (hex_is(entry->d_name, HASH_TEXT_MAX - 1))
            r = sweep_one(dir_fd, store, entry->d_name, err);
    }
    return r;
}
