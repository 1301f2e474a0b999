/* Files of the page for clients that did not ask for gzip, such as curl. */
#include <microhttpd.h>
#include <stdlib.h>
#include <zlib.h>

#include "server/page/files.h"

#include "base/banned.h"

#define GZIP_WINDOW (15 + 16) /* with the header of gzip, not of zlib */
#define BLOCK_BYTES (32u * 1024)

/* The library asks for the bytes in their order, so there is nothing to seek. */
static ssize_t read_plain(void *cls, uint64_t pos, char *buf, size_t max)
{
    z_stream *stream = cls;
    int r;

    (void) pos;
    stream->next_out = (Bytef *) buf;
    stream->avail_out = (uInt) (max < BLOCK_BYTES ? max : BLOCK_BYTES);
    max = stream->avail_out;
    r = inflate(stream, Z_NO_FLUSH);
    if (max > stream->avail_out)
        return (ssize_t) (max - stream->avail_out);
    return r == Z_STREAM_END ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void free_plain(void *cls)
{
    z_stream *stream = cls;

    (void) inflateEnd(stream);
    free(stream);
}

struct MHD_Response *page_file_plain(const struct page_file *file)
{
    z_stream *stream = calloc(1, sizeof *stream);
    struct MHD_Response *response;

    if (!stream)
        return NULL;
    if (inflateInit2(stream, GZIP_WINDOW) != Z_OK) {
        free(stream);
        return NULL;
    }
    stream->next_in = (Bytef *) page_file_data(file);
    stream->avail_in = (uInt) file->len;
    response = MHD_create_response_from_callback(file->plain_len, BLOCK_BYTES, read_plain, stream,
                                                 free_plain);
    if (!response)
        free_plain(stream);
    return response;
}
