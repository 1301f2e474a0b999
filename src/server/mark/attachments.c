/*
 * Mark over HTTP: attachments.
 *
 * An upload is a multipart body with one file, in the field "file"; other fields are ignored. Its
 * bytes go to the disk as they come. The reply comes when the profile is there, which takes a box
 * some seconds for a large file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/text/parse.h"
#include "mark/mark.h"
#include "server/handlers.h"
#include "server/mark/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define PARSER_BYTES   32768
#define FORM_FIELD     "file"
#define OVERHEAD_BYTES 4096 /* of a multipart body around its file, roughly */

static struct attachments *attachments_of(struct request *rq)
{
    return mark_attachments(rq->server->config.mark);
}

/* ---- uploads ---- */

struct attaching {
    struct request *rq;
    struct MHD_PostProcessor *parser;
    struct attachment_upload *upload; /* once the file has begun */
    int64_t bytes;                    /* of it */
    char *filename;                   /* of it; may be NULL */
    bool skips;                       /* in a field that does not count */
};

static void attaching_abort(struct request *rq)
{
    struct attaching *at = rq->sink.state;

    rq->sink = (struct sink){ 0 };
    if (!at)
        return;
    /* Ends the parser first: it may still call on_part() with the rest. */
    rq->refusal.status = rq->refusal.status ? rq->refusal.status : MHD_HTTP_BAD_REQUEST;
    if (at->parser)
        (void) MHD_destroy_post_processor(at->parser);
    attachment_upload_abort(at->upload);
    free(at->filename);
    free(at);
}

static int begin_part(struct attaching *at, const char *key, const char *filename)
{
    struct fault fault = { 0 };

    at->skips = !key || strcmp(key, FORM_FIELD) != 0;
    if (at->skips)
        return 0;
    if (at->upload)
        return refuse(at->rq, PROBLEM_INVALID_REQUEST, "send one file at a time");
    if (attachment_upload_begin(attachments_of(at->rq), &at->rq->caller, filename, -1, &at->upload,
                                &fault) < 0)
        return refuse_fault(at->rq, &fault);
    at->filename = filename ? strdup(filename) : NULL;
    return 0;
}

/* The parser reports the start of a part twice if no byte of it has arrived yet. After an empty
 * file there may be another part, which is not it. */
static bool is_same_part(const struct attaching *at, const char *key, const char *filename)
{
    return at->upload && at->bytes == 0 && !at->skips && key && strcmp(key, FORM_FIELD) == 0 &&
           strcmp(filename ? filename : "", at->filename ? at->filename : "") == 0;
}

static enum MHD_Result on_part(void *cls, enum MHD_ValueKind kind, const char *key,
                               const char *filename, const char *type, const char *encoding,
                               const char *data, uint64_t offset, size_t size)
{
    struct attaching *at = cls;
    struct fault fault = { 0 };

    (void) kind;
    (void) type;
    (void) encoding;
    if (at->rq->refusal.status != 0)
        return MHD_NO;
    if (offset == 0 && !is_same_part(at, key, filename) && begin_part(at, key, filename) < 0)
        return MHD_NO;
    if (at->skips || size == 0)
        return MHD_YES;
    at->bytes += (int64_t) size;
    if (attachment_upload_write(at->upload, data, size, &fault) < 0) {
        (void) refuse_fault(at->rq, &fault);
        return MHD_NO;
    }
    return MHD_YES;
}

static int attaching_write(struct request *rq, const char *data, size_t len)
{
    struct attaching *at = rq->sink.state;

    if (MHD_post_process(at->parser, data, len) != MHD_YES)
        return upload_refuse_form(rq); /* unless on_part() has given a better reason */
    return 0;
}

int mark_attachment_add_begin(struct request *rq)
{
    const char *type = rq->headers.content_type;
    struct attachment_upload *probe;
    struct fault fault = { 0 };
    struct attaching *at;

    if (!type || strncasecmp(type, "multipart/form-data", 19) != 0)
        return refuse(rq, PROBLEM_NOT_MULTIPART,
                      "send multipart/form-data with the file in the field " FORM_FIELD
                      ", as curl -F file=@PATH does");
    /* A body that is announced as too large is refused before it is sent. */
    if (attachment_upload_begin(attachments_of(rq), &rq->caller, "",
                                rq->declared > OVERHEAD_BYTES ? rq->declared - OVERHEAD_BYTES : -1,
                                &probe, &fault) < 0)
        return refuse_fault(rq, &fault);
    attachment_upload_abort(probe);
    at = calloc(1, sizeof *at);
    if (!at)
        return refuse_no_memory(rq);
    at->rq = rq;
    rq->sink.state = at;
    rq->sink.abort = attaching_abort;
    at->parser = MHD_create_post_processor(rq->mhd, PARSER_BYTES, on_part, at);
    if (!at->parser)
        return refuse(rq, PROBLEM_BAD_MULTIPART, "the Content-Type has no usable boundary");
    rq->sink.write = attaching_write;
    return 0;
}

void mark_attachment_add(struct request *rq)
{
    struct attaching *at = rq->sink.state;
    struct store_attachment attachment;
    struct fault fault = { 0 };
    char location[96];
    bool whole = MHD_destroy_post_processor(TAKE_PTR(at->parser)) == MHD_YES;

    if (!whole)
        (void) upload_refuse_form(rq);
    else if (rq->refusal.status == 0 && !at->upload)
        (void) refuse(rq, PROBLEM_NO_FILE,
                      "the body contains no file; send it as the field " FORM_FIELD);
    if (rq->refusal.status != 0) {
        reply_refusal(rq);
        return;
    }
    if (attachment_upload_commit(TAKE_PTR(at->upload), &attachment, &fault) < 0) {
        reply_fault(rq, &fault);
        return;
    }
    snprintf(location, sizeof location, "/api/v1/attachments/%s", attachment.id);
    reply_json_at(rq, MHD_HTTP_CREATED, attachment_to_json(&attachment), location);
    store_attachment_release(&attachment);
}

/* ---- the others ---- */

void mark_attachment_list(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json;

    if (request_query(rq, NULL) < 0)
        return;
    if (attachment_list(attachments_of(rq), &rq->caller, &json, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
}

void mark_attachment_get(struct request *rq)
{
    struct store_attachment attachment;
    struct fault fault = { 0 };

    if (request_query(rq, NULL) < 0)
        return;
    if (attachment_get(attachments_of(rq), &rq->caller, request_param(rq, "id"), &attachment,
                       &fault) < 0) {
        reply_fault(rq, &fault);
        return;
    }
    reply_json(rq, MHD_HTTP_OK, attachment_to_json(&attachment));
    store_attachment_release(&attachment);
}

/* The bytes are hostile: a browser must neither show nor run them as a page of ours. */
static void add_headers(struct MHD_Response *response, const char *name)
{
    char disposition[3 * STORE_FILE_NAME_MAX + 64] = "attachment; filename*=UTF-8''";
    size_t used = strlen(disposition);

    for (const unsigned char *p = (const unsigned char *) name; *p && used + 4 < sizeof disposition;
         p++) {
        bool plain = (*p >= '0' && *p <= '9') || ((*p | 32) >= 'a' && (*p | 32) <= 'z') ||
                     (*p < 128 && strchr("-._~", *p));

        used += (size_t) snprintf(disposition + used, sizeof disposition - used,
                                  plain ? "%c" : "%%%02X", *p);
    }
    reply_header(response, "Content-Type", "application/octet-stream");
    reply_header(response, "Content-Disposition", disposition);
    reply_header(response, "Content-Security-Policy", "sandbox; default-src 'none'");
    reply_header(response, "Cache-Control", "private, no-store");
}

void mark_attachment_content(struct request *rq)
{
    struct store_attachment attachment;
    struct MHD_Response *response;
    struct fault fault = { 0 };
    struct gb_err err;
    int fd, r;

    if (request_query(rq, NULL) < 0)
        return;
    if (attachment_get(attachments_of(rq), &rq->caller, request_param(rq, "id"), &attachment,
                       &fault) < 0) {
        reply_fault(rq, &fault);
        return;
    }
    r = attachment_open(attachments_of(rq), attachment.sha256, &fd, &err);
    if (r < 0) {
        reply_problem(rq, PROBLEM_ATTACHMENT_UNKNOWN, "the attachment was deleted");
    } else {
        response = MHD_create_response_from_fd64((uint64_t) attachment.size, fd);
        if (response)
            add_headers(response, attachment.name);
        else
            (void) close(fd);
        reply_send(rq, MHD_HTTP_OK, response);
    }
    store_attachment_release(&attachment);
}

void mark_artifact_content(struct request *rq)
{
    struct store_artifact artifact;
    struct MHD_Response *response;
    struct fault fault = { 0 };
    int64_t n = 0;
    int fd;

    if (request_query(rq, NULL) < 0)
        return;
    if (parse_int(request_param(rq, "n"), &n) < 0)
        n = 0;
    if (artifact_open(attachments_of(rq), &rq->caller, request_param(rq, "id"), n, &artifact, &fd,
                      &fault) < 0) {
        reply_fault(rq, &fault);
        return;
    }
    response = MHD_create_response_from_fd64((uint64_t) artifact.size, fd);
    if (response)
        add_headers(response,
                    strrchr(artifact.name, '/') ? strrchr(artifact.name, '/') + 1 : artifact.name);
    else
        (void) close(fd);
    reply_send(rq, MHD_HTTP_OK, response);
    store_artifact_release(&artifact);
}

void mark_attachment_delete(struct request *rq)
{
    struct fault fault = { 0 };

    if (request_query(rq, NULL) < 0)
        return;
    if (attachment_delete(attachments_of(rq), &rq->caller, request_param(rq, "id"), &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
}
