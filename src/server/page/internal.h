/* What the files of this room share. */
#pragma once

#include <stdbool.h>

struct MHD_Response;
struct request;

/* The policy of the page's own documents. */
extern const char page_policy[];

/* Something to be sent as it is, to whoever asks. */
struct page_reply {
    const char *etag; /* with its quotes */
    const char *media;
    const char *policy;  /* Content-Security-Policy; NULL: not a document */
    const char *caching; /* Cache-Control */
    /* The body of @what, gzipped or not; NULL: out of memory. */
    struct MHD_Response *(*make)(const void *what, bool gzip);
    const void *what;
};

void page_reply(struct request *rq, const struct page_reply *reply);
