/*
 * A workspace as tar.gz, created while it is sent.
 *
 * The tree is listed page by page and each file is read from its own descriptor, so memory use does
 * not depend on the size. Code may run at the same time: a file that has disappeared is left out,
 * one that shrinks is padded with zeros (its size is in the header before it), one that grows is
 * cut there.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "service/session/files_internal.h"

#include "base/banned.h"

#define PAGE_ENTRIES 500u
#define BUFFER       ((size_t) 64 * 1024)

struct pack {
    struct session *session;
    struct archive *tar, *gzip;
    struct archive_entry *entry;
    char *buf;
    size_t strip; /* of each path: the directory that was requested */
    int (*write)(void *arg, const void *data, size_t len);
    void *arg;
    bool reader_gone;
    bool mute; /* nothing more is passed on */
};

static la_ssize_t gzip_write(struct archive *archive, void *arg, const void *data, size_t len)
{
    struct pack *pack = arg;

    (void) archive;
    if (!pack->mute && pack->write(pack->arg, data, len) < 0)
        pack->reader_gone = pack->mute = true;
    return (la_ssize_t) len;
}

static la_ssize_t tar_write(struct archive *archive, void *arg, const void *data, size_t len)
{
    struct pack *pack = arg;

    (void) archive;
    if (!pack->mute && archive_write_data(pack->gzip, data, len) != (la_ssize_t) len)
        pack->mute = true;
    return (la_ssize_t) len;
}

static void entry_fill(struct pack *pack, const struct file_info *info)
{
    struct archive_entry *entry = pack->entry;
    bool dir = info->kind == FILE_DIRECTORY;

    archive_entry_clear(entry);
    archive_entry_set_pathname(entry, info->path + pack->strip);
    archive_entry_set_filetype(entry, dir ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(entry, info->mode & 0777);
    archive_entry_set_size(entry, dir ? 0 : info->size);
    archive_entry_set_mtime(entry, (time_t) (info->mtime_ns / 1000000000),
                            (long) (info->mtime_ns % 1000000000));
}

static int data_add(struct pack *pack, int fd, int64_t size)
{
    int64_t done = 0;

    while (done < size) {
        size_t want = size - done < (int64_t) BUFFER ? (size_t) (size - done) : BUFFER;
        ssize_t n = read(fd, pack->buf, want);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* libarchive pads the rest */
        if (archive_write_data(pack->tar, pack->buf, (size_t) n) < 0 || pack->mute)
            return -EIO;
        done += n;
    }
    return 0;
}

static int file_add(struct pack *pack, const struct file_info *info)
{
    autoclose int fd = -EBADF;
    struct gb_err err;

    if (info->kind == FILE_LINK || info->kind == FILE_OTHER)
        return 0;
    if (info->kind == FILE_REGULAR &&
        box_open_read(pack->session->lodging.box, info->path, &fd, &err) < 0)
        return 0;
    entry_fill(pack, info);
    if (archive_write_header(pack->tar, pack->entry) < ARCHIVE_WARN || pack->mute)
        return -EIO;
    return info->kind == FILE_REGULAR ? data_add(pack, fd, info->size) : 0;
}

/* One page of the tree; *@after is moved on, and NULL at the end. */
static int page_add(struct pack *pack, const char *dir, char **after, struct fault *fault)
{
    struct file_list list = { 0 };
    struct gb_err err;
    char *last = NULL;
    int r = 0;

    if (box_file_list(pack->session->lodging.box, dir, true, *after, PAGE_ENTRIES, &list, &err) < 0)
        return files_fault(pack->session, &err, fault);
    for (size_t i = 0; r == 0 && i < list.len; i++)
        r = file_add(pack, &list.items[i]);
    if (r == 0 && list.more && list.len > 0) {
        last = strdup(list.items[list.len - 1].path);
        r = last ? 0 : -ENOMEM;
    }
    file_list_release(&list);
    free(*after);
    *after = last;
    if (r == 0)
        return 0;
    if (pack->reader_gone)
        return fault_set(fault, PROBLEM_READER_GONE, NULL,
                         "the client stopped reading the archive");
    return fault_set(fault, PROBLEM_ARCHIVE_FAILED, NULL, "the archive could not be written");
}

static int gzip_open(struct pack *pack)
{
    if (archive_write_add_filter_gzip(pack->gzip) != ARCHIVE_OK ||
        archive_write_set_format_raw(pack->gzip) != ARCHIVE_OK ||
        archive_write_set_options(pack->gzip, "compression-level=1") != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(pack->gzip, (int) BUFFER) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(pack->gzip, 1) != ARCHIVE_OK ||
        archive_write_open(pack->gzip, pack, NULL, gzip_write, NULL) != ARCHIVE_OK)
        return -EIO;
    archive_entry_set_filetype(pack->entry, AE_IFREG);
    return archive_write_header(pack->gzip, pack->entry) == ARCHIVE_OK ? 0 : -EIO;
}

static int tar_open(struct pack *pack)
{
    /* Names need not be UTF-8, and this format stores them as they are. pax would need a header
     * that GNU tar warns about. */
    if (archive_write_set_format_gnutar(pack->tar) != ARCHIVE_OK ||
        archive_write_open(pack->tar, pack, NULL, tar_write, NULL) != ARCHIVE_OK)
        return -EIO;
    return 0;
}

static int pack_open(struct pack *pack)
{
    pack->buf = malloc(BUFFER);
    pack->entry = archive_entry_new();
    pack->tar = archive_write_new();
    pack->gzip = archive_write_new();
    if (!pack->buf || !pack->entry || !pack->tar || !pack->gzip)
        return -ENOMEM;
    return gzip_open(pack) < 0 || tar_open(pack) < 0 ? -EIO : 0;
}

/* Closes both in any case; 0 if everything was passed on. */
static int pack_close(struct pack *pack, bool whole)
{
    int tar, gzip;

    if (!whole)
        pack->mute = true;
    tar = pack->tar ? archive_write_close(pack->tar) : ARCHIVE_FATAL;
    gzip = pack->gzip ? archive_write_close(pack->gzip) : ARCHIVE_FATAL;
    if (pack->tar)
        (void) archive_write_free(pack->tar);
    if (pack->gzip)
        (void) archive_write_free(pack->gzip);
    archive_entry_free(pack->entry);
    free(pack->buf);
    return tar == ARCHIVE_OK && gzip == ARCHIVE_OK && !pack->mute ? 0 : -EIO;
}

int files_archive(struct session *session, const char *dir, size_t dir_len,
                  int (*write)(void *arg, const void *data, size_t len), void *arg,
                  struct fault *fault)
{
    struct pack pack = {
        .session = session, .strip = dir_len > 0 ? dir_len + 1 : 0, .write = write, .arg = arg
    };
    autofree char *path = NULL;
    char *after = NULL;
    int r;

    if (path_copy(dir, dir_len, true, "dir", &path, fault) < 0 ||
        session_use_begin(session, fault) < 0)
        return -1;
    r = pack_open(&pack);
    if (r < 0)
        (void) fault_set(fault, PROBLEM_ARCHIVE_FAILED, NULL, "the archive could not be started");
    while (r == 0) {
        r = page_add(&pack, path, &after, fault);
        if (!after)
            break;
    }
    free(after);
    if (pack_close(&pack, r == 0) < 0 && r == 0)
        r = fault_set(fault, PROBLEM_ARCHIVE_FAILED, NULL, "the archive could not be finished");
    session_use_end(session);
    return r;
}
