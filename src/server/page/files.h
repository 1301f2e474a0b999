/* The files of the web page, embedded gzipped. */
#pragma once

#include <stddef.h>

struct MHD_Response;

struct page_file {
    const char *name;  /* "assets/index-BfX2.js" */
    const char *media; /* Content-Type */
    const char *etag;  /* with its quotes */
    size_t offset, len;
    size_t plain_len; /* without gzip */
};

/* The file of that name below web/dist, or NULL. */
const struct page_file *page_file_find(const char *name);

/* Its gzipped bytes. */
const void *page_file_data(const struct page_file *file);

/* A response with the file as it was before it was packed, which is inflated while it is sent: a
 * client that reads slowly, or not at all, costs a window of 32 KiB. NULL: out of memory. */
struct MHD_Response *page_file_plain(const struct page_file *file);
