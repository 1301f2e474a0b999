/*
 * Uploads: a body that goes piece by piece into files, raw or as multipart/form-data.
 *
 * Nothing is collected. A raw body is one file; of a multipart body each part with a filename is
 * one. A file takes its place only once all of it has come: a part when the next begins or the body
 * ends well, so a body that breaks off leaves what was whole and nothing else. The library's parser
 * reads the parts; what it does not check itself (that there is an end, that a part has a filename)
 * is checked here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/utf8.h"
#include "server/api.h"
#include "server/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define PARSER_BYTES 32768
#define PARTS_MAX    1000

struct uploading {
    struct session *session;
    struct file_upload *file; /* the one under way */
    int64_t file_bytes;
    char *path; /* of the one under way */

    /* multipart only */
    struct MHD_PostProcessor *parser;
    struct request *rq;
    char *dir;
    json_t *done; /* what is in its place */
};

static void uploading_abort(struct request *rq)
{
    struct uploading *up = rq->sink.state;

    rq->sink = (struct sink){ 0 };
    if (!up)
        return;
    /* Ends the parser first: it may still call on_part() with the rest. */
    rq->refusal.status = rq->refusal.status ? rq->refusal.status : MHD_HTTP_BAD_REQUEST;
    if (up->parser)
        (void) MHD_destroy_post_processor(up->parser);
    files_upload_abort(up->file);
    session_unref(up->session);
    json_decref(up->done);
    free(up->path);
    free(up->dir);
    free(up);
}

/* Finds the session and gives @rq a sink; on failure it is refused. */
static struct uploading *uploading_begin(struct request *rq)
{
    struct uploading *up = calloc(1, sizeof *up);
    struct fault fault = { 0 };

    if (!up) {
        (void) refuse(rq, MHD_HTTP_SERVICE_UNAVAILABLE, "no-memory", "try again later");
        return NULL;
    }
    if (session_find(rq->server->config.service, &rq->caller, rq->param_id, &up->session, &fault) <
        0) {
        (void) refuse_fault(rq, &fault);
        free(up);
        return NULL;
    }
    request_note(rq, session_id(up->session), NULL);
    up->rq = rq;
    rq->sink.state = up;
    rq->sink.abort = uploading_abort;
    return up;
}

/* ---- raw ---- */

static int put_write(struct request *rq, const char *data, size_t len)
{
    struct uploading *up = rq->sink.state;
    struct fault fault = { 0 };

    up->file_bytes += (int64_t) len;
    if (files_upload_write(up->file, data, len, &fault) < 0)
        return refuse_fault(rq, &fault);
    return 0;
}

int v1_file_put_begin(struct request *rq)
{
    struct uploading *up = uploading_begin(rq);
    struct fault fault = { 0 };

    if (!up)
        return -1;
    if (rq->headers.range || rq->url.params_len > 0)
        return refuse(rq, MHD_HTTP_BAD_REQUEST, "bad-request",
                      "an upload takes neither a query nor a range; send the whole file");
    if (files_upload_begin(up->session, rq->path, strlen(rq->path), rq->declared, &up->file,
                           &fault) < 0)
        return refuse_fault(rq, &fault);
    rq->sink.write = put_write;
    return 0;
}

void v1_file_put(struct request *rq)
{
    struct uploading *up = rq->sink.state;
    struct fault fault = { 0 };
    bool created;

    if (files_upload_commit(TAKE_PTR(up->file), &created, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, created ? MHD_HTTP_CREATED : MHD_HTTP_OK,
                   json_pack("{s:s,s:s,s:I}", "path", rq->path, "kind", "file", "size",
                             (json_int_t) up->file_bytes));
}

/* ---- multipart ---- */

/* The file under way is whole: it takes its place. */
static int finish_part(struct uploading *up)
{
    struct fault fault = { 0 };
    bool created;

    if (!up->file)
        return 0;
    if (files_upload_commit(TAKE_PTR(up->file), &created, &fault) < 0)
        return refuse_fault(up->rq, &fault);
    (void) json_array_append_new(up->done, json_pack("{s:s,s:s,s:I}", "path", up->path, "kind",
                                                     "file", "size", (json_int_t) up->file_bytes));
    return 0;
}

static int begin_part(struct uploading *up, const char *filename)
{
    struct request *rq = up->rq;
    struct fault fault = { 0 };

    if (finish_part(up) < 0)
        return -1;
    if (!filename || !*filename)
        return refuse(rq, MHD_HTTP_UNPROCESSABLE_CONTENT, "no-filename",
                      "every part must have a filename, as curl -F file=@PATH sends it");
    if (!utf8_valid(filename, strlen(filename)))
        return refuse(rq, MHD_HTTP_BAD_REQUEST, "bad-filename", "a filename is not UTF-8");
    if (json_array_size(up->done) >= PARTS_MAX)
        return refuse(rq, MHD_HTTP_CONTENT_TOO_LARGE, "too-many-files",
                      "at most %d files in one upload", PARTS_MAX);
    free(up->path);
    if (asprintf(&up->path, "%s%s%s", up->dir, *up->dir ? "/" : "", filename) < 0) {
        up->path = NULL;
        return refuse(rq, MHD_HTTP_SERVICE_UNAVAILABLE, "no-memory", "try again later");
    }
    up->file_bytes = 0;
    if (files_upload_begin(up->session, up->path, strlen(up->path), -1, &up->file, &fault) < 0)
        return refuse_fault(rq, &fault);
    return 0;
}

/* The parser tells of a part's beginning twice when no byte of it has come yet. */
static bool is_same_part(const struct uploading *up, const char *filename)
{
    size_t dir = *up->dir ? strlen(up->dir) + 1 : 0;

    return up->file && up->file_bytes == 0 && filename && strcmp(up->path + dir, filename) == 0;
}

static enum MHD_Result on_part(void *cls, enum MHD_ValueKind kind, const char *key,
                               const char *filename, const char *type, const char *encoding,
                               const char *data, uint64_t offset, size_t size)
{
    struct uploading *up = cls;
    struct fault fault = { 0 };

    (void) kind;
    (void) key;
    (void) type;
    (void) encoding;
    if (up->rq->refusal.status != 0)
        return MHD_NO;
    if (offset == 0 && !is_same_part(up, filename) && begin_part(up, filename) < 0)
        return MHD_NO;
    up->file_bytes += (int64_t) size;
    if (size > 0 && files_upload_write(up->file, data, size, &fault) < 0) {
        (void) refuse_fault(up->rq, &fault);
        return MHD_NO;
    }
    return MHD_YES;
}

static int bad_multipart(struct request *rq)
{
    return refuse(rq, MHD_HTTP_BAD_REQUEST, "bad-multipart",
                  "the body is not complete multipart/form-data; send it as curl -F file=@PATH "
                  "does");
}

static int multipart_write(struct request *rq, const char *data, size_t len)
{
    struct uploading *up = rq->sink.state;

    if (MHD_post_process(up->parser, data, len) != MHD_YES)
        return bad_multipart(rq); /* unless on_part() has said more */
    return 0;
}

int v1_files_upload_begin(struct request *rq)
{
    struct uploading *up = uploading_begin(rq);
    const char *type = rq->headers.content_type;
    const char *dir = url_param(&rq->url, "dir");

    if (!up)
        return -1;
    if (!type || strncasecmp(type, "multipart/form-data", 19) != 0)
        return refuse(rq, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "not-multipart",
                      "send multipart/form-data, or a single file with PUT to its path");
    if (rq->url.params_len > (dir ? 1 : 0))
        return refuse(rq, MHD_HTTP_UNPROCESSABLE_CONTENT, "invalid-request",
                      "the only query parameter of an upload is dir");
    up->dir = strdup(dir ? dir : "");
    up->done = json_array();
    up->parser = MHD_create_post_processor(rq->mhd, PARSER_BYTES, on_part, up);
    if (!up->dir || !up->done)
        return refuse(rq, MHD_HTTP_SERVICE_UNAVAILABLE, "no-memory", "try again later");
    if (!up->parser)
        return refuse(rq, MHD_HTTP_BAD_REQUEST, "bad-multipart",
                      "the Content-Type names no usable boundary");
    rq->sink.write = multipart_write;
    return 0;
}

void v1_files_upload(struct request *rq)
{
    struct uploading *up = rq->sink.state;
    bool whole = MHD_destroy_post_processor(TAKE_PTR(up->parser)) == MHD_YES;

    if (!whole)
        (void) bad_multipart(rq);
    else if (rq->refusal.status == 0 && !up->file && json_array_size(up->done) == 0)
        (void) refuse(rq, MHD_HTTP_BAD_REQUEST, "bad-multipart", "the body holds no file");
    else if (rq->refusal.status == 0)
        (void) finish_part(up);
    if (rq->refusal.status != 0)
        reply_refusal(rq);
    else
        reply_json(rq, MHD_HTTP_CREATED, json_pack("{s:O}", "files", up->done));
}
