/*
 * Unpacks what an installer box packed. Anybody may have made the content of the box: paths are
 * checked, everything is counted, and files are only ever created, in a directory that nobody else
 * writes to, so that no path can lead elsewhere.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "service/package/trees.h"

#include "base/banned.h"

#define BUFFER    (256u << 10)
#define PATH_MOST 1024u
#define PART_MOST 255u
#define DEPTH_MAX 40u

#define SIGN_FILE "GBTF"
#define SIGN_END  "GBTE"

struct header {
    char sign[4];
    uint8_t executable;
    uint16_t path_len; /* little-endian, like the size */
    uint64_t size;
} __attribute__((packed));

struct unpacker {
    int pack, dir;
    struct tree_room *room;
    char *buf;
    size_t at, have;            /* in @buf */
    char parent[PATH_MOST + 1]; /* the directory that was made last */
};

static int fill(struct unpacker *u)
{
    ssize_t n;

    do
        n = read(u->pack, u->buf, BUFFER);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    u->at = 0;
    u->have = (size_t) n;
    return n == 0 ? -EPROTO : 0;
}

static int take(struct unpacker *u, void *to, size_t len)
{
    char *at = to;

    while (len > 0) {
        size_t n = u->have - u->at;

        if (n == 0) {
            int r = fill(u);

            if (r < 0)
                return r;
            continue;
        }
        n = n < len ? n : len;
        memcpy(at, u->buf + u->at, n);
        u->at += n;
        at += n;
        len -= n;
    }
    return 0;
}

/* Relative, without empty parts, "." and "..", without control characters. */
static bool path_valid(const char *path, size_t len)
{
    size_t start = 0, depth = 0;

    for (size_t i = 0; i <= len; i++) {
        size_t part = i - start;

        if (i < len && ((unsigned char) path[i] < ' ' || path[i] == 0x7f || path[i] == '\\'))
            return false;
        if (i < len && path[i] != '/')
            continue;
        if (part == 0 || part > PART_MOST || ++depth > DEPTH_MAX ||
            (part == 1 && path[start] == '.') ||
            (part == 2 && path[start] == '.' && path[start + 1] == '.'))
            return false;
        start = i + 1;
    }
    return true;
}

/* Makes the directories above @path. Files of one directory come together. */
static int parents_make(struct unpacker *u, const char *path)
{
    const char *last = strrchr(path, '/');
    size_t len = last ? (size_t) (last - path) : 0;
    char part[PATH_MOST + 1];

    if (len == 0 || (strncmp(u->parent, path, len) == 0 && u->parent[len] == '\0'))
        return 0;
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdirat(u->dir, part, 0755) < 0 && errno != EEXIST)
            return -errno;
    }
    memcpy(u->parent, path, len);
    u->parent[len] = '\0';
    return 0;
}

static int content_copy(struct unpacker *u, int to, uint64_t size)
{
    while (size > 0) {
        size_t n = u->have - u->at;
        int r;

        if (n == 0) {
            if ((r = fill(u)) < 0)
                return r;
            continue;
        }
        n = n < size ? n : (size_t) size;
        r = io_write_all(to, u->buf + u->at, n);
        if (r < 0)
            return r;
        u->at += n;
        size -= n;
    }
    return 0;
}

static int file_take(struct unpacker *u, const struct header *header)
{
    uint64_t size = le64toh(header->size);
    size_t len = le16toh(header->path_len);
    char path[PATH_MOST + 1];
    autoclose int to = -EBADF;
    int r;

    if (len == 0 || len > PATH_MOST || header->executable > 1)
        return -EPROTO;
    r = take(u, path, len);
    if (r < 0)
        return r;
    path[len] = '\0';
    if (strlen(path) != len || !path_valid(path, len))
        return -EPROTO;
    if (--u->room->files < 0)
        return -E2BIG;
    if (size > INT64_MAX || (u->room->bytes -= (int64_t) size) < 0)
        return -EFBIG;
    r = parents_make(u, path);
    if (r < 0)
        return r;
    to = openat(u->dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = to < 0 ? -errno : content_copy(u, to, size);
    if (r == 0 && fchmod(to, header->executable ? 0755 : 0644) < 0)
        r = -errno;
    return r;
}

int tree_unpack(int pack, int dir, struct tree_room *room, struct gb_err *err)
{
    autofree char *buf = malloc(BUFFER);
    struct unpacker u = { .pack = pack, .dir = dir, .room = room, .buf = buf };
    struct header header;
    int r = buf ? 0 : -ENOMEM;

    while (r == 0) {
        r = take(&u, &header, sizeof header);
        if (r == 0 && memcmp(header.sign, SIGN_END, sizeof header.sign) == 0)
            return 0;
        if (r == 0)
            r = memcmp(header.sign, SIGN_FILE, sizeof header.sign) == 0 ? file_take(&u, &header)
                                                                        : -EPROTO;
    }
    return gb_fail(err, -r, "unpack a package");
}
