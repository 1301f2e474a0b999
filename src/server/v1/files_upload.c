/*
 * Uploads: a body that goes piece by piece into files, raw or as multipart/form-data.
 *
 * Nothing is buffered. A raw body is one file; of a multipart body each part with a filename is
 * one. A file appears only once it is complete: a part when the next begins or the body ends
 * properly, so an aborted body leaves the parts that were complete and nothing else. The library's
 * parser reads the parts; what it does not check (that there is an end, that a part has a filename)
 * is checked here.
 *
 * Forms of the dialects have one part that counts, "file"; other parts are ignored.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "server/handlers.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

#define PARSER_BYTES 32768
#define PARTS_MAX    1000
#define FORM_FIELD   "file"

struct uploading {
    struct session *session;
    struct file_upload *file; /* the file being received */
    int64_t file_bytes;
    char *path; /* of that file */

    /* multipart only */
    struct MHD_PostProcessor *parser;
    struct request *rq;
    char *dir;
    json_t *done; /* files that were committed */

    /* forms only */
    bool is_form, skips;
    char *target; /* the path of the file; NULL: its own name */
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
    free(up->target);
    free(up);
}

/* Gives @rq a sink; on failure it is refused. Takes @session. */
static struct uploading *uploading_new(struct request *rq, struct session *session)
{
    struct uploading *up = calloc(1, sizeof *up);

    if (!up) {
        session_unref(session);
        (void) refuse_no_memory(rq);
        return NULL;
    }
    up->session = session;
    up->rq = rq;
    rq->sink.state = up;
    rq->sink.abort = uploading_abort;
    return up;
}

/* The same for the session of the path. */
static struct uploading *uploading_begin(struct request *rq)
{
    struct session *session;
    struct fault fault = { 0 };

    if (session_find(rq->server->config.service, &rq->caller, request_param(rq, "id"), &session,
                     &fault) < 0) {
        (void) refuse_fault(rq, &fault);
        return NULL;
    }
    request_note(rq, session_id(session), NULL);
    return uploading_new(rq, session);
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
    const char *path = request_param(rq, "path");
    struct fault fault = { 0 };

    if (!up)
        return -1;
    if (rq->headers.range || rq->url.params_len > 0)
        return refuse(rq, PROBLEM_BAD_REQUEST,
                      "an upload takes neither a query nor a range; send the whole file");
    if (files_upload_begin(up->session, path, strlen(path), rq->declared, &up->file, &fault) < 0)
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
                   json_pack("{s:s,s:s,s:I}", "path", request_param(rq, "path"), "kind", "file",
                             "size", (json_int_t) up->file_bytes));
}

/* ---- multipart ---- */

/* The current file is complete: commits it. */
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
    if (!up->target && (!filename || !*filename))
        return refuse(rq, PROBLEM_NO_FILENAME,
                      "every part must have a filename, as curl -F file=@PATH sends it");
    if (filename && !utf8_valid(filename, strlen(filename)))
        return refuse(rq, PROBLEM_BAD_FILENAME, "a filename is not UTF-8");
    if (json_array_size(up->done) >= PARTS_MAX)
        return refuse(rq, PROBLEM_TOO_MANY_FILES, "at most %d files in one upload", PARTS_MAX);
    free(up->path);
    if (asprintf(&up->path, "%s%s%s", up->dir, *up->dir ? "/" : "",
                 up->target ? up->target : filename) < 0) {
        up->path = NULL;
        return refuse_no_memory(rq);
    }
    up->file_bytes = 0;
    if (files_upload_begin(up->session, up->path, strlen(up->path), -1, &up->file, &fault) < 0)
        return refuse_fault(rq, &fault);
    return 0;
}

/* Whether this part of a form is the one that counts. A second one is refused. */
static int begin_form_part(struct uploading *up, const char *key, const char *filename)
{
    up->skips = !key || strcmp(key, FORM_FIELD) != 0;
    if (up->skips)
        return finish_part(up);
    if (up->file || json_array_size(up->done) > 0)
        return refuse(up->rq, PROBLEM_INVALID_REQUEST, "send one file at a time");
    return begin_part(up, filename);
}

/* The parser reports the start of a part twice if no byte of it has arrived yet. */
static bool is_same_part(const struct uploading *up, const char *key, const char *filename)
{
    size_t dir = *up->dir ? strlen(up->dir) + 1 : 0;

    if (up->is_form)
        return up->file && up->file_bytes == 0 && !up->skips && key && strcmp(key, FORM_FIELD) == 0;
    return up->file && up->file_bytes == 0 && filename && strcmp(up->path + dir, filename) == 0;
}

static enum MHD_Result on_part(void *cls, enum MHD_ValueKind kind, const char *key,
                               const char *filename, const char *type, const char *encoding,
                               const char *data, uint64_t offset, size_t size)
{
    struct uploading *up = cls;
    struct fault fault = { 0 };
    int r = 0;

    (void) kind;
    (void) type;
    (void) encoding;
    if (up->rq->refusal.status != 0)
        return MHD_NO;
    if (offset == 0 && !is_same_part(up, key, filename))
        r = up->is_form ? begin_form_part(up, key, filename) : begin_part(up, filename);
    if (r < 0)
        return MHD_NO;
    if (up->skips)
        return MHD_YES;
    up->file_bytes += (int64_t) size;
    if (size > 0 && files_upload_write(up->file, data, size, &fault) < 0) {
        (void) refuse_fault(up->rq, &fault);
        return MHD_NO;
    }
    return MHD_YES;
}

int upload_refuse_form(struct request *rq)
{
    return refuse(rq, PROBLEM_BAD_MULTIPART,
                  "the body is not complete multipart/form-data; send it as curl -F file=@PATH "
                  "does");
}

static int multipart_write(struct request *rq, const char *data, size_t len)
{
    struct uploading *up = rq->sink.state;

    if (MHD_post_process(up->parser, data, len) != MHD_YES)
        return upload_refuse_form(rq); /* unless on_part() has given a better reason */
    return 0;
}

static int multipart_begin(struct request *rq, struct uploading *up, const char *dir)
{
    const char *type = rq->headers.content_type;

    if (!type || strncasecmp(type, "multipart/form-data", 19) != 0)
        return refuse(rq, PROBLEM_NOT_MULTIPART,
                      "send multipart/form-data, or a single file with PUT to its path");
    up->dir = strdup(dir ? dir : "");
    up->done = json_array();
    up->parser = MHD_create_post_processor(rq->mhd, PARSER_BYTES, on_part, up);
    if (!up->dir || !up->done)
        return refuse_no_memory(rq);
    if (!up->parser)
        return refuse(rq, PROBLEM_BAD_MULTIPART, "the Content-Type has no usable boundary");
    rq->sink.write = multipart_write;
    return 0;
}

int v1_files_upload_begin(struct request *rq)
{
    struct uploading *up = uploading_begin(rq);
    const char *dir = url_param(&rq->url, "dir");

    if (!up)
        return -1;
    if (rq->url.params_len > (dir ? 1 : 0))
        return refuse(rq, PROBLEM_INVALID_REQUEST, "the only query parameter of an upload is dir");
    return multipart_begin(rq, up, dir);
}

/* The body has ended. On failure the reply has been sent. */
static int multipart_end(struct request *rq, struct uploading *up)
{
    bool whole = MHD_destroy_post_processor(TAKE_PTR(up->parser)) == MHD_YES;

    if (!whole)
        (void) upload_refuse_form(rq);
    else if (rq->refusal.status == 0 && !up->file && json_array_size(up->done) == 0)
        (void) refuse(rq, up->is_form ? PROBLEM_NO_FILE : PROBLEM_BAD_MULTIPART,
                      "the body contains no file%s",
                      up->is_form ? "; send it as the field " FORM_FIELD : "");
    else if (rq->refusal.status == 0)
        (void) finish_part(up);
    if (rq->refusal.status == 0)
        return 0;
    reply_refusal(rq);
    return -1;
}

void v1_files_upload(struct request *rq)
{
    struct uploading *up = rq->sink.state;

    if (multipart_end(rq, up) == 0)
        reply_json(rq, MHD_HTTP_CREATED, json_pack("{s:O}", "files", up->done));
}

/* ---- forms ---- */

int upload_form_begin(struct request *rq, struct session *session, const char *path)
{
    struct uploading *up = uploading_new(rq, session);

    if (!up)
        return -1;
    up->is_form = true;
    up->target = path ? strdup(path) : NULL;
    if (path && !up->target)
        return refuse_no_memory(rq);
    return multipart_begin(rq, up, NULL);
}

int upload_form_end(struct request *rq, struct uploaded *ret_file)
{
    struct uploading *up = rq->sink.state;

    if (multipart_end(rq, up) < 0)
        return -1;
    *ret_file = (struct uploaded){ up->session, up->path, up->file_bytes };
    return 0;
}
