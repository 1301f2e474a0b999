/*
 * One allocation holds both halves: the head at the start, the ring behind it. Until the budget is
 * used up the two are one contiguous run of bytes, so a stream that fits is returned without a
 * copy. After that the ring is full and the oldest of its bytes are overwritten; ring_start is the
 * oldest.
 */
#include "engine/outbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

#include "base/banned.h"

#define OUTBUF_FIRST_BYTES 4096u

static size_t outbuf_head_room(const struct outbuf *buf)
{
    return buf->budget / 2;
}

static size_t outbuf_ring_room(const struct outbuf *buf)
{
    return buf->budget - outbuf_head_room(buf);
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

void outbuf_init(struct outbuf *buf, size_t budget)
{
    *buf = (struct outbuf){ .budget = budget };
}

void outbuf_release(struct outbuf *buf)
{
    free(buf->data);
    outbuf_init(buf, buf->budget);
}

/* Makes room for @more bytes, or for all of the budget if that is less. */
static int outbuf_grow(struct outbuf *buf, size_t more)
{
    size_t held = buf->head_len + buf->ring_len;
    size_t need = held + min_size(more, buf->budget - held), cap;
    char *data;

    if (need <= buf->cap)
        return 0;
    cap = buf->cap > buf->budget / 2 ? buf->budget : buf->cap * 2;
    if (cap < OUTBUF_FIRST_BYTES)
        cap = OUTBUF_FIRST_BYTES;
    if (cap < need)
        cap = need;
    cap = min_size(cap, buf->budget);

    data = realloc(buf->data, cap);
    if (!data)
        return -ENOMEM;
    buf->data = data;
    buf->cap = cap;
    return 0;
}

/* Overwrites the oldest bytes of a full ring. */
static void outbuf_turn(struct outbuf *buf, const char *data, size_t len)
{
    char *ring = buf->data + outbuf_head_room(buf);
    size_t room = outbuf_ring_room(buf);

    if (len > room) {
        data += len - room;
        len = room;
    }
    while (len > 0) {
        size_t part = min_size(len, room - buf->ring_start);

        memcpy(ring + buf->ring_start, data, part);
        buf->ring_start = (buf->ring_start + part) % room;
        data += part;
        len -= part;
    }
}

int outbuf_add(struct outbuf *buf, const void *data, size_t len)
{
    const char *p = data;
    size_t part;
    int r;

    if (len == 0)
        return 0;
    r = outbuf_grow(buf, len);
    if (r < 0)
        return r;
    buf->total += (int64_t) len;

    part = min_size(len, outbuf_head_room(buf) - buf->head_len);
    if (part > 0)
        memcpy(buf->data + buf->head_len, p, part);
    buf->head_len += part;
    p += part;
    len -= part;

    part = min_size(len, outbuf_ring_room(buf) - buf->ring_len);
    if (part > 0)
        memcpy(buf->data + outbuf_head_room(buf) + buf->ring_len, p, part);
    buf->ring_len += part;
    p += part;
    len -= part;

    if (len > 0 && buf->budget > 0)
        outbuf_turn(buf, p, len);
    return 0;
}

/* The newest bytes in order, in separate memory. */
static int outbuf_unroll(const struct outbuf *buf, char **ret_tail)
{
    const char *ring = buf->data + outbuf_head_room(buf);
    size_t first = buf->ring_len - buf->ring_start;
    char *tail;

    tail = malloc(buf->ring_len);
    if (!tail)
        return -ENOMEM;
    memcpy(tail, ring + buf->ring_start, first);
    memcpy(tail + first, ring, buf->ring_start);
    *ret_tail = tail;
    return 0;
}

/* Continuation bytes at the start whose character began in the gap: a character has three at
 * most. */
static size_t outbuf_orphans(const char *tail, size_t len)
{
    size_t n = 0;

    while (n < 3 && n < len && ((unsigned char) tail[n] & 0xc0) == 0x80)
        n++;
    return n;
}

int outbuf_take(struct outbuf *buf, struct stream_cut *ret_cut)
{
    size_t held = buf->head_len + buf->ring_len;
    struct stream_cut cut = { .left_out = buf->total - (int64_t) held };

    if (cut.left_out == 0) {
        cut.head_len = held;
    } else if (held > 0) {
        size_t orphans;
        int r = outbuf_unroll(buf, &cut.tail);

        if (r < 0)
            return r;
        orphans = outbuf_orphans(cut.tail, buf->ring_len);
        cut.tail_len = buf->ring_len - orphans;
        memmove(cut.tail, cut.tail + orphans, cut.tail_len);
        cut.head_len = buf->head_len - utf8_partial_end(buf->data, buf->head_len);
        cut.left_out = buf->total - (int64_t) (cut.head_len + cut.tail_len);
    }

    cut.head = buf->data;
    buf->data = NULL;
    outbuf_release(buf);
    *ret_cut = cut;
    return 0;
}
