#include "server/page/docs.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/autoclean.h"
#include "server/page/files.h"
#include "server/page/internal.h"
#include "server/schema/docs.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define MARKER      "<!--DOCS-->" /* in web/docs.html */
#define GZIP_WINDOW (15 + 16)     /* with the header of gzip, not of zlib */
#define ETAG_BYTES  16

struct page_docs {
    char *plain;
    unsigned char *gzip;
    size_t plain_len, gzip_len;
    char etag[2 * ETAG_BYTES + 3];
};

/* The whole of @file, for free(). */
static char *unpack(const struct page_file *file)
{
    char *text = malloc(file->plain_len + 1);
    z_stream stream = { .next_in = (Bytef *) page_file_data(file),
                        .avail_in = (uInt) file->len,
                        .next_out = (Bytef *) text,
                        .avail_out = (uInt) file->plain_len };
    int r;

    if (!text || inflateInit2(&stream, GZIP_WINDOW) != Z_OK) {
        free(text);
        return NULL;
    }
    r = inflate(&stream, Z_FINISH);
    (void) inflateEnd(&stream);
    if (r != Z_STREAM_END || stream.avail_out != 0) {
        free(text);
        return NULL;
    }
    text[file->plain_len] = '\0';
    return text;
}

static int pack(struct page_docs *docs)
{
    z_stream stream = { .next_in = (Bytef *) docs->plain, .avail_in = (uInt) docs->plain_len };
    size_t size;
    int r;

    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return -ENOMEM;
    size = deflateBound(&stream, docs->plain_len);
    docs->gzip = malloc(size);
    stream.next_out = docs->gzip;
    stream.avail_out = docs->gzip ? (uInt) size : 0;
    r = docs->gzip ? deflate(&stream, Z_FINISH) : Z_MEM_ERROR;
    docs->gzip_len = size - stream.avail_out;
    (void) deflateEnd(&stream);
    return r == Z_STREAM_END ? 0 : -ENOMEM;
}

/* The page around the reference. */
static int compose(const json_t *openapi, char **ret_text, struct gb_err *err)
{
    const struct page_file *file = page_file_find("docs.html");
    autofree char *around = file ? unpack(file) : NULL, *drawn = NULL;
    const char *marker = around ? strstr(around, MARKER) : NULL;

    if (file && !around)
        return gb_fail(err, ENOMEM, "make the docs");
    if (!marker)
        return gb_fail_plain(err, EINVAL,
                             "web/dist/docs.html is missing or has no " MARKER
                             "; build the web page again");
    drawn = docs_draw(openapi);
    if (!drawn || asprintf(ret_text, "%.*s%s%s", (int) (marker - around), around, drawn,
                           marker + sizeof MARKER - 1) < 0)
        return gb_fail(err, ENOMEM, "make the docs");
    return 0;
}

int page_docs_open(const json_t *openapi, struct page_docs **ret_docs, struct gb_err *err)
{
    struct page_docs *docs = calloc(1, sizeof *docs);
    unsigned char hash[ETAG_BYTES];
    char hex[2 * ETAG_BYTES + 1];
    int r = docs ? compose(openapi, &docs->plain, err) : gb_fail(err, ENOMEM, "make the docs");

    if (r == 0) {
        docs->plain_len = strlen(docs->plain);
        r = pack(docs) < 0 ? gb_fail(err, ENOMEM, "make the docs") : 0;
    }
    if (r < 0) {
        page_docs_close(docs);
        return r;
    }
    (void) crypto_generichash(hash, sizeof hash, (const unsigned char *) docs->plain,
                              docs->plain_len, NULL, 0);
    (void) sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
    (void) snprintf(docs->etag, sizeof docs->etag, "\"%s\"", hex);
    *ret_docs = docs;
    return 0;
}

void page_docs_close(struct page_docs *docs)
{
    if (!docs)
        return;
    free(docs->plain);
    free(docs->gzip);
    free(docs);
}

static struct MHD_Response *make(const void *what, bool gzip)
{
    const struct page_docs *docs = what;

    return gzip
               ? MHD_create_response_from_buffer(docs->gzip_len, docs->gzip, MHD_RESPMEM_PERSISTENT)
               : MHD_create_response_from_buffer(docs->plain_len, docs->plain,
                                                 MHD_RESPMEM_PERSISTENT);
}

void page_docs(struct request *rq)
{
    struct page_reply reply = { .etag = rq->server->docs->etag,
                                .media = "text/html; charset=utf-8",
                                .policy = page_policy,
                                .caching = "no-cache",
                                .make = make,
                                .what = rq->server->docs };

    page_reply(rq, &reply);
}
