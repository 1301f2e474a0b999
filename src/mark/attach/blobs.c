/*
 * Contents of attachments: files named by their SHA-256, in mark/files of the data directory.
 *
 * Theory of operation. A content is written under a temporary name and renamed once it is whole
 * and on the disk, so a file under a hash is always that content. The store says which are in use.
 * Whoever brings a content into use, or removes one, holds the lock of the directory (flock() on
 * the file "lock") from before the change of the store until after that of the directory; so an
 * upload and the deletion of the last attachment with the same content cannot cross, in one process
 * or in two. After a crash there may be a content that the store does not have, and temporary
 * files; the sweep at the next start removes both. A temporary file that is being written is locked
 * by its writer and stays.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/hex.h"
#include "mark/attach/internal.h"
#include "mark/dirs.h"

#include "base/banned.h"

#define DRAFT_PREFIX "tmp-"
#define LOCK_NAME    "lock"

static void name_of(const uint8_t hash[STORE_HASH_BYTES], char buf[BLOB_NAME_MAX])
{
    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        hex_put(hash[i], buf + 2 * i);
    buf[BLOB_NAME_MAX - 1] = '\0';
}

int blobs_open(const char *data_dir, struct blobs *ret_blobs, struct gb_err *err)
{
    int fd, r = mark_dir_open(data_dir, "files", true, &fd, err);

    if (r == 0)
        *ret_blobs = (struct blobs){ fd };
    return r;
}

void blobs_close(struct blobs *blobs)
{
    gb_closep(&blobs->dir_fd);
    blobs->dir_fd = -EBADF;
}

int blobs_lock(struct blobs *blobs, int *ret_fd, struct gb_err *err)
{
    return mark_dir_lock(blobs->dir_fd, LOCK_NAME, ret_fd, err);
}

/* ---- drafts ---- */

int blob_draft_begin(struct blobs *blobs, struct blob_draft *ret_draft, struct gb_err *err)
{
    autoclose int lock_fd = -EBADF;
    struct blob_draft draft = { 0 };
    uint8_t bits[16];
    int r;

    randombytes_buf(bits, sizeof bits);
    (void) snprintf(draft.name, sizeof draft.name, DRAFT_PREFIX);
    for (size_t i = 0, at = strlen(draft.name); i < sizeof bits; i++, at += 2)
        hex_put(bits[i], draft.name + at);
    /* A sweep must not find it before it is locked. */
    r = blobs_lock(blobs, &lock_fd, err);
    if (r < 0)
        return r;
    draft.fd = openat(blobs->dir_fd, draft.name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (draft.fd < 0)
        return gb_fail(err, errno, "create a file for an attachment");
    (void) flock(draft.fd, LOCK_EX | LOCK_NB);
    (void) crypto_hash_sha256_init(&draft.state);
    *ret_draft = draft;
    return 0;
}

int blob_draft_write(struct blob_draft *draft, const void *data, size_t len, struct gb_err *err)
{
    int r = io_write_all(draft->fd, data, len);

    if (r < 0)
        return gb_fail(err, -r, "write an attachment");
    (void) crypto_hash_sha256_update(&draft->state, data, len);
    draft->size += (int64_t) len;
    return 0;
}

int blob_draft_end(struct blob_draft *draft, uint8_t ret_hash[STORE_HASH_BYTES], struct gb_err *err)
{
    _Static_assert(STORE_HASH_BYTES == crypto_hash_sha256_BYTES, "the store's hashes are SHA-256");

    if (fdatasync(draft->fd) < 0)
        return gb_fail(err, errno, "write an attachment");
    (void) crypto_hash_sha256_final(&draft->state, ret_hash);
    return 0;
}

void blob_draft_release(struct blobs *blobs, struct blob_draft *draft)
{
    if (draft->name[0])
        (void) unlinkat(blobs->dir_fd, draft->name, 0);
    draft->name[0] = '\0';
    gb_closep(&draft->fd);
    draft->fd = -EBADF;
}

/* ---- keeping and removing ---- */

int blob_keep(struct blobs *blobs, struct blob_draft *draft, const uint8_t hash[STORE_HASH_BYTES],
              struct gb_err *err)
{
    char name[BLOB_NAME_MAX];
    struct stat st;

    name_of(hash, name);
    if (fstatat(blobs->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
        st.st_size == draft->size)
        return 0; /* the draft goes with its release */
    if (renameat(blobs->dir_fd, draft->name, blobs->dir_fd, name) < 0)
        return gb_fail(err, errno, "keep an attachment");
    draft->name[0] = '\0';
    if (fsync(blobs->dir_fd) < 0)
        return gb_fail(err, errno, "keep an attachment");
    return 0;
}

void blob_remove(struct blobs *blobs, const uint8_t hash[STORE_HASH_BYTES])
{
    char name[BLOB_NAME_MAX];

    name_of(hash, name);
    (void) unlinkat(blobs->dir_fd, name, 0); /* what stays is removed by the next sweep */
}

int blob_open(struct blobs *blobs, const uint8_t hash[STORE_HASH_BYTES], int *ret_fd,
              struct gb_err *err)
{
    char name[BLOB_NAME_MAX];
    int fd;

    name_of(hash, name);
    fd = openat(blobs->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return gb_fail(err, errno, "open the content of an attachment");
    *ret_fd = fd;
    return 0;
}

/* ---- the sweep ---- */

static void sweep_draft(struct blobs *blobs, const char *name)
{
    autoclose int fd = openat(blobs->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void) unlinkat(blobs->dir_fd, name, 0);
}

static int sweep_blob(struct blobs *blobs, struct store *store, const char *name,
                      struct gb_err *err)
{
    uint8_t hash[STORE_HASH_BYTES];
    bool used;
    int r;

    for (size_t i = 0; i < sizeof hash; i++)
        hash[i] = (uint8_t) (hex_value(name[2 * i]) << 4 | hex_value(name[2 * i + 1]));
    r = store_attachment_has(store, hash, &used, err);
    if (r == 0 && !used)
        blob_remove(blobs, hash);
    return r;
}

int blobs_sweep(struct blobs *blobs, struct store *store, struct gb_err *err)
{
    autoclosedir DIR *dir = NULL;
    autoclose int lock_fd = -EBADF;
    const struct dirent *entry;
    int r = blobs_lock(blobs, &lock_fd, err);

    if (r < 0)
        return r;
    r = dir_open_at(blobs->dir_fd, ".", &dir);
    if (r < 0)
        return gb_fail(err, -r, "read the directory of attachments");
    while (r == 0 && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, DRAFT_PREFIX, strlen(DRAFT_PREFIX)) == 0)
            sweep_draft(blobs, entry->d_name);
        else if (hex_is(entry->d_name, BLOB_NAME_MAX - 1))
            r = sweep_blob(blobs, store, entry->d_name, err);
    }
    return r;
}
