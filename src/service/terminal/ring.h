/* The newest bytes of a stream: a ring of fixed size, and how much there was in total. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ring {
    char *data; /* belongs to the owner of the ring */
    size_t size;
    int64_t total; /* bytes since the beginning; the ring has the last of them */
};

/* Adds bytes; the oldest make room. */
void ring_write(struct ring *ring, const char *data, size_t len);

/* The offset of the oldest byte that is kept. */
int64_t ring_start(const struct ring *ring);

/* Where a reader that wants everything from @offset on (negative: all) begins: never before the
 * oldest byte and never after the last. If older bytes are gone, not within a character of UTF-8
 * either. */
int64_t ring_seek(const struct ring *ring, int64_t offset);

/* Copies up to @size bytes from @offset on, which is one that ring_seek() might return or where
 * another read ended; returns how many. Bytes that are gone by now are skipped: *@offset is moved
 * to what follows the copied ones. */
size_t ring_read(const struct ring *ring, int64_t *offset, char *buf, size_t size);
