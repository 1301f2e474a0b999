/*
 * Every box runs under its own host id, so that even a process that broke out of its namespaces
 * could not signal or read another box.
 *
 * In the initial user namespace all ids exist and we take a block far above those of users,
 * containers and systemd's dynamic services. In any other namespace /proc/self/uid_map lists the
 * ids: a range of subordinate ids, or a single one. Two engines must not take the same block; the
 * lock is an abstract socket whose name is the block's host id: it leaves no file behind and
 * disappears with its owner.
 */
#include "engine/box/ids.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/autoclean.h"

#include "base/banned.h"

#define HOST_FIRST 1900000000u
#define HOST_COUNT 524288u
#define BLOCK      4096u
#define BLOCK_MIN  256u
#define BLOCKS_MIN 64u

struct extent {
    uint32_t inside, outside, count;
};

/* The largest range of the map without id 0. */
static int extent_find(const char *path, struct extent *ret_extent)
{
    struct extent best = { 0 };
    unsigned inside, outside, count;
    FILE *map = fopen(path, "re");

    if (!map)
        return -errno;
    while (fscanf(map, "%u %u %u", &inside, &outside, &count) == 3) {
        if (inside == 0 && count > 0) {
            inside++;
            outside++;
            count--;
        }
        if (count > best.count)
            best = (struct extent){ inside, outside, count };
    }
    (void) fclose(map);
    *ret_extent = best;
    return 0;
}

static bool extent_is_all(const struct extent *extent)
{
    return extent->inside == extent->outside && extent->outside < HOST_FIRST &&
           extent->count >= HOST_FIRST + HOST_COUNT;
}

static int block_lock(uint32_t host_id, int *ret_fd)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    autoclose int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int len;

    if (fd < 0)
        return -errno;
    len = snprintf(addr.sun_path + 1, sizeof addr.sun_path - 1, "glovebox-ids-%u", host_id);
    if (bind(fd, (struct sockaddr *) &addr,
             (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) len)) < 0)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* A small range is split into smaller blocks: many engines with fewer boxes each, rather than few
 * engines. */
static uint32_t block_size(uint32_t count)
{
    uint32_t size = count / BLOCKS_MIN;

    if (size < BLOCK_MIN)
        size = count < BLOCK_MIN ? count : BLOCK_MIN;
    return size < BLOCK ? size : BLOCK;
}

/* Tries the blocks of the extent, starting at a random one. */
static int block_take(struct id_pool *pool, const struct extent *extent, struct gb_err *err)
{
    uint32_t size = block_size(extent->count);
    uint32_t blocks = extent->count / size, start = 0;

    (void) !getrandom(&start, sizeof start, 0);
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t at = (start % blocks + i) % blocks * size;
        int r = block_lock(extent->outside + at, &pool->lock_fd);

        if (r == -EADDRINUSE)
            continue;
        if (r < 0)
            return gb_fail(err, -r, "reserve ids");
        pool->first = extent->inside + at;
        pool->count = size;
        return 0;
    }
    return gb_fail_plain(err, EAGAIN, "all blocks of ids are in use: too many engines are running");
}

int id_pool_open(struct id_pool *pool, struct gb_err *err)
{
    struct extent uids = { 0 }, gids = { 0 };
    int r;

    *pool = (struct id_pool){ .lock_fd = -EBADF };
    if ((r = extent_find("/proc/self/uid_map", &uids)) < 0 ||
        (r = extent_find("/proc/self/gid_map", &gids)) < 0)
        return gb_fail(err, -r, "read /proc/self/uid_map");
    if (extent_is_all(&uids) && extent_is_all(&gids)) {
        pool->mode = ID_ROOT;
        uids = (struct extent){ HOST_FIRST, HOST_FIRST, HOST_COUNT };
    } else {
        pool->mode = ID_RANGE;
        /* One number serves as uid and gid of a box: use only ids that are in both maps. */
        if (gids.inside != uids.inside)
            uids.count = 0;
        else if (gids.count < uids.count)
            uids.count = gids.count;
    }
    if (uids.count == 0) {
        pool->mode = ID_SINGLE;
        return 0;
    }
    r = block_take(pool, &uids, err);
    if (r < 0)
        return r;
    pool->used = calloc((pool->count + 63) / 64, sizeof *pool->used);
    return pool->used ? 0 : gb_fail(err, ENOMEM, "reserve ids");
}

void id_pool_release(struct id_pool *pool)
{
    free(pool->used);
    pool->used = NULL;
    gb_closep(&pool->lock_fd);
    pool->lock_fd = -EBADF;
}

int id_take(struct id_pool *pool, uint32_t *ret_id)
{
    if (pool->mode == ID_SINGLE) {
        *ret_id = 0;
        return 0;
    }
    /* The one after the last, so that an id stays unused as long as possible before its next
     * box. */
    for (uint32_t i = 0; i < pool->count; i++) {
        uint32_t at = (pool->next + i) % pool->count;
        uint64_t bit = UINT64_C(1) << (at % 64);

        if (pool->used[at / 64] & bit)
            continue;
        pool->used[at / 64] |= bit;
        pool->next = at + 1;
        *ret_id = pool->first + at;
        return 0;
    }
    return -EAGAIN;
}

void id_give_back(struct id_pool *pool, uint32_t id)
{
    uint32_t at = id - pool->first;

    if (pool->mode != ID_SINGLE && at < pool->count)
        pool->used[at / 64] &= ~(UINT64_C(1) << (at % 64));
}
