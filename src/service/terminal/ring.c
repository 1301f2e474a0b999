#include "service/terminal/ring.h"

#include <string.h>

#include "base/banned.h"

#define UTF8_TAIL_MAX 3

void ring_write(struct ring *ring, const char *data, size_t len)
{
    size_t at, first;

    if (len > ring->size) {
        ring->total += (int64_t) (len - ring->size);
        data += len - ring->size;
        len = ring->size;
    }
    at = (size_t) (ring->total % (int64_t) ring->size);
    first = len < ring->size - at ? len : ring->size - at;
    memcpy(ring->data + at, data, first);
    memcpy(ring->data, data + first, len - first);
    ring->total += (int64_t) len;
}

int64_t ring_start(const struct ring *ring)
{
    return ring->total > (int64_t) ring->size ? ring->total - (int64_t) ring->size : 0;
}

int64_t ring_seek(const struct ring *ring, int64_t offset)
{
    int64_t start = ring_start(ring);

    if (offset > ring->total)
        return ring->total;
    if (offset >= start || start == 0)
        return offset < start ? start : offset;
    for (int i = 0; i < UTF8_TAIL_MAX && start < ring->total; i++, start++)
        if ((ring->data[start % (int64_t) ring->size] & 0xc0) != 0x80)
            break;
    return start;
}

size_t ring_read(const struct ring *ring, int64_t *offset, char *buf, size_t size)
{
    int64_t start = ring_start(ring);
    size_t at, first, len;

    if (*offset < start)
        *offset = start;
    len = (size_t) (ring->total - *offset);
    if (len > size)
        len = size;
    at = (size_t) (*offset % (int64_t) ring->size);
    first = len < ring->size - at ? len : ring->size - at;
    memcpy(buf, ring->data + at, first);
    memcpy(buf + first, ring->data, len - first);
    *offset += (int64_t) len;
    return len;
}
