/* What a file is, from its bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How much of each end of a file is looked at. */
#define SNIFF_HEAD_BYTES ((size_t) 64 * 1024)
#define SNIFF_TAIL_BYTES ((size_t) 64 * 1024)

enum sniff_kind {
    SNIFF_TABLE,   /* data that a box can profile, by its own reader of profile.py */
    SNIFF_OPAQUE,  /* kept as it is */
    SNIFF_REFUSED, /* not taken */
};

struct sniffed {
    enum sniff_kind kind;
    const char *format; /* "csv": a word of profile.py */
    const char *media_type;
    const char *extension; /* of a file without a name */
    const char *refusal;   /* what to do instead; NULL unless it is refused */
};

/* @head and @tail are the ends of a file of @size bytes; they may overlap. @name only decides
 * between kinds of text: a text whose name ends in .csv is one with a single column. */
struct sniffed sniff(const void *head, size_t head_len, const void *tail, size_t tail_len,
                     int64_t size, const char *name);
