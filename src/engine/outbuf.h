/*
 * Keeps the head and the tail of a stream within a budget while it is read, so that a program that
 * prints a gigabyte costs us no more than the budget.
 *
 * Half of the budget is the head, half is a ring of the newest bytes. As long as the stream is not
 * larger than the budget nothing is lost.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/outcome.h"

struct outbuf {
    char *data; /* allocated on the first byte, grows up to the budget */
    size_t cap, budget;
    size_t head_len; /* bytes in the head half */
    size_t ring_start, ring_len;
    int64_t total; /* bytes received */
};

void outbuf_init(struct outbuf *buf, size_t budget);
void outbuf_release(struct outbuf *buf);

/* Takes bytes; 0 or -ENOMEM. */
int outbuf_add(struct outbuf *buf, const void *data, size_t len);

/* Moves the contents out as a cut: the ends at the gap are trimmed so that no UTF-8 character is
 * split there (the trimmed bytes count as left out). 0 or -ENOMEM. */
int outbuf_take(struct outbuf *buf, struct stream_cut *ret_cut);
