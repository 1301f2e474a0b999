#include "service/execution/output_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/grow.h"

#include "base/banned.h"

void output_log_init(struct output_log *log, pthread_mutex_t *lock, const char *dir,
                     struct output_budget *own, struct output_budget *shared, size_t reply_bytes)
{
    *log = (struct output_log){
        .lock = lock, .dir = dir, .budgets = { own, shared }, .fd = -1, .reply_bytes = reply_bytes
    };
}

static void budget_give(struct output_log *log, int64_t bytes)
{
    for (size_t i = 0; i < 2; i++)
        if (log->budgets[i])
            atomic_fetch_sub(&log->budgets[i]->disk_used, bytes);
}

static bool budget_take(struct output_log *log, int64_t bytes)
{
    for (size_t i = 0; i < 2; i++) {
        struct output_budget *budget = log->budgets[i];

        if (!budget)
            continue;
        if (atomic_fetch_add(&budget->disk_used, bytes) + bytes <= budget->disk_max)
            continue;
        for (size_t k = 0; k <= i; k++)
            if (log->budgets[k])
                atomic_fetch_sub(&log->budgets[k]->disk_used, bytes);
        return false;
    }
    return true;
}

void output_log_release(struct output_log *log)
{
    if (log->fd >= 0) {
        (void) close(log->fd);
        budget_give(log, log->kept);
    }
    free(log->mem);
    log->mem = NULL;
    log->fd = -1;
    outbuf_release(&log->ends);
}

/* An unnamed file; if the file system does not support those, one that is unlinked at once. */
static int file_open(const char *dir)
{
    autofree char *path = NULL;
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd < 0 ? -errno : fd;
    if (asprintf(&path, "%s/output.XXXXXX", dir) < 0) {
        path = NULL;
        return -ENOMEM;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    (void) unlink(path);
    return fd;
}

static int file_write(int fd, const char *data, size_t len, int64_t offset)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ENOSPC;
        data += n;
        len -= (size_t) n;
        offset += n;
    }
    return 0;
}

/* Under the lock. */
static int memory_add(struct output_log *log, const void *data, size_t len)
{
    char *mem = grow(log->mem, &log->mem_cap, (size_t) log->kept + len, 1, 512);

    if (!mem)
        return -ENOMEM;
    log->mem = mem;
    memcpy(log->mem + log->kept, data, len);
    return 0;
}

/* Moves what is in memory to a new file. Only the appending thread comes here, and it alone changes
 * the members, so it may read them without the lock. */
static int log_spill(struct output_log *log)
{
    autoclose int fd = -EBADF;
    char *mem;
    int r;

    if (!budget_take(log, log->kept))
        return -EDQUOT;
    fd = file_open(log->dir);
    r = fd < 0 ? fd : file_write(fd, log->mem, (size_t) log->kept, 0);
    if (r < 0) {
        budget_give(log, log->kept);
        return r;
    }
    pthread_mutex_lock(log->lock);
    log->fd = TAKE_FD(fd);
    mem = log->mem;
    log->mem = NULL;
    log->mem_cap = 0;
    pthread_mutex_unlock(log->lock);
    free(mem);
    return 0;
}

static int file_add(struct output_log *log, const void *data, size_t len)
{
    int r = log->fd < 0 ? log_spill(log) : 0;

    if (r < 0)
        return r;
    if (!budget_take(log, (int64_t) len))
        return -EDQUOT;
    r = file_write(log->fd, data, len, log->kept);
    if (r < 0)
        budget_give(log, (int64_t) len);
    return r;
}

/* Bytes that cannot be read back or stored count as left out. */
static void ends_add(struct output_log *log, int64_t from, size_t len)
{
    char buf[16 * 1024];

    while (len > 0) {
        ssize_t n = output_log_read(log, from, buf, len < sizeof buf ? len : sizeof buf);

        if (n <= 0 || outbuf_add(&log->ends, buf, (size_t) n) < 0)
            break;
        from += n;
        len -= (size_t) n;
    }
    log->ends.total += (int64_t) len;
}

/* Starts the ends (beginning and end of the stream) as if everything kept so far had been added to
 * them. */
static void ends_begin(struct output_log *log)
{
    size_t head = log->reply_bytes / 2;
    int64_t gap = log->kept - (int64_t) log->reply_bytes;

    outbuf_init(&log->ends, log->reply_bytes);
    if (gap <= 0) {
        ends_add(log, 0, (size_t) log->kept);
        return;
    }
    ends_add(log, 0, head);
    log->ends.total += gap;
    ends_add(log, (int64_t) head + gap, log->reply_bytes - head);
}

int output_log_cut(struct output_log *log, struct stream_cut *ret_cut)
{
    if (log->fd < 0 && !log->stopped && (size_t) log->kept <= log->reply_bytes) {
        *ret_cut = (struct stream_cut){ .head = log->mem, .head_len = (size_t) log->kept };
        return 0;
    }
    if (!log->stopped)
        ends_begin(log);
    return outbuf_take(&log->ends, ret_cut);
}

void output_log_append(struct output_log *log, const void *data, size_t len)
{
    bool small = log->fd < 0 && (size_t) log->kept + len <= OUTPUT_LOG_MEMORY;
    bool stopped = log->stopped;
    int r = 0;

    if (!log->stopped && !small)
        r = file_add(log, data, len);
    pthread_mutex_lock(log->lock);
    if (!log->stopped && small)
        r = memory_add(log, data, len);
    if (r < 0)
        log->stopped = true;
    if (!log->stopped)
        log->kept += (int64_t) len;
    log->total += (int64_t) len;
    pthread_mutex_unlock(log->lock);
    if (!log->stopped)
        return;
    if (!stopped)
        ends_begin(log);
    (void) outbuf_add(&log->ends, data, len);
}

ssize_t output_log_read(struct output_log *log, int64_t offset, char *buf, size_t size)
{
    int64_t left;
    ssize_t n;
    int fd;

    pthread_mutex_lock(log->lock);
    left = offset < 0 ? 0 : log->kept - offset;
    if (left <= 0)
        size = 0;
    else if ((uint64_t) left < size)
        size = (size_t) left;
    fd = log->fd;
    if (fd < 0 && size > 0)
        memcpy(buf, log->mem + offset, size);
    pthread_mutex_unlock(log->lock);
    if (fd < 0 || size == 0)
        return (ssize_t) size;
    do
        n = pread(fd, buf, size, offset);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}
