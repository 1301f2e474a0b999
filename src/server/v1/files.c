/* Native API: files of a session. Uploads are in files_upload.c, archives in files_archive.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "server/handlers.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

#define LIST_DEFAULT 1000

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static json_t *list_to_json(const struct file_list *list)
{
    json_t *files = json_array();

    for (size_t i = 0; i < list->len; i++)
        (void) json_array_append_new(files, file_info_to_json(&list->items[i]));
    return json_pack("{s:o,s:b,s:b}", "files", files, "more", list->more, "incomplete",
                     list->incomplete);
}

void v1_files_list(struct request *rq)
{
    struct fault fault = { 0 };
    struct query_files query;
    struct session *session;
    struct file_list list;
    const char *dir, *after;

    if (request_query(rq, &query) < 0 || request_session(rq, &session) < 0)
        return;
    dir = or_empty(query.dir);
    after = or_empty(query.after);
    if (files_list(session, dir, strlen(dir), query.recursive, after, strlen(after),
                   query.limit == FIELD_ABSENT ? LIST_DEFAULT : (size_t) query.limit, &list,
                   &fault) < 0) {
        reply_fault(rq, &fault);
    } else {
        reply_json(rq, MHD_HTTP_OK, list_to_json(&list));
        file_list_release(&list);
    }
    session_unref(session);
}

/* ---- download ---- */

/* Files of the workspace are hostile: a browser must neither show nor run them as a page of
 * ours. */
static void add_file_headers(struct MHD_Response *response, const struct request *rq,
                             const struct file_reader *file)
{
    const char *path = request_param(rq, "path"), *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char disposition[3 * 255 + 64] = "attachment; filename*=UTF-8''";
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
    reply_header(response, "Accept-Ranges", "bytes");
    reply_header(response, "ETag", file->etag);
    reply_header(response, "Cache-Control", "private, no-cache");
}

static void reply_not_modified(struct request *rq, const struct file_reader *file)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);

    if (response) {
        reply_header(response, "ETag", file->etag);
        reply_header(response, "Cache-Control", "private, no-cache");
    }
    reply_send(rq, MHD_HTTP_NOT_MODIFIED, response);
}

static void reply_bad_range(struct request *rq, const struct file_reader *file)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    char range[48];

    snprintf(range, sizeof range, "bytes */%lld", (long long) file->size);
    if (response)
        reply_header(response, "Content-Range", range);
    reply_send(rq, MHD_HTTP_RANGE_NOT_SATISFIABLE, response);
}

/* Takes the descriptor in @file. The length is fixed here; if the file shrinks while it is sent,
 * the connection is closed, because the length was announced. */
static void send_file(struct request *rq, struct file_reader *file)
{
    long long first = 0, last = file->size - 1;
    const char *range = rq->headers.range;
    struct MHD_Response *response;
    char text[96];
    bool part;

    if (range && rq->headers.if_range && strcmp(rq->headers.if_range, file->etag) != 0)
        range = NULL;
    switch (negotiate_range(range, file->size, &first, &last)) {
    case RANGE_UNSATISFIABLE:
        (void) close(file->fd);
        reply_bad_range(rq, file);
        return;
    case RANGE_ONE:
        part = true;
        break;
    case RANGE_NONE:
    default:
        part = false;
        break;
    }
    response = MHD_create_response_from_fd_at_offset64((uint64_t) (last - first + 1), file->fd,
                                                       (uint64_t) first);
    if (!response) {
        (void) close(file->fd);
        return;
    }
    add_file_headers(response, rq, file);
    if (part) {
        snprintf(text, sizeof text, "bytes %lld-%lld/%lld", first, last, (long long) file->size);
        reply_header(response, "Content-Range", text);
    }
    reply_send(rq, part ? MHD_HTTP_PARTIAL_CONTENT : MHD_HTTP_OK, response);
}

void v1_file_get(struct request *rq)
{
    const char *match = rq->headers.if_none_match, *path = request_param(rq, "path");
    struct file_reader file;
    struct fault fault = { 0 };
    struct session *session;

    if (request_query(rq, NULL) < 0 || request_session(rq, &session) < 0)
        return;
    if (files_open(session, path, strlen(path), &file, &fault) < 0) {
        reply_fault(rq, &fault);
    } else if (match && negotiate_etag(match, file.etag)) {
        (void) close(file.fd);
        reply_not_modified(rq, &file);
    } else {
        send_file(rq, &file);
    }
    session_unref(session);
}

/* ---- changes ---- */

void v1_file_delete(struct request *rq)
{
    const char *path = request_param(rq, "path");
    struct fault fault = { 0 };
    struct query_delete query;
    struct session *session;

    if (request_query(rq, &query) < 0 || request_session(rq, &session) < 0)
        return;
    if (files_delete(session, path, strlen(path), query.recursive, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
    session_unref(session);
}

void v1_files_move(struct request *rq)
{
    struct fault fault = { 0 };
    struct session *session;
    struct body_move body = { 0 };

    if (request_json(rq, &body) < 0 || request_session(rq, &session) < 0)
        return;
    if (files_move(session, body.from, strlen(body.from), body.to, strlen(body.to), body.replace,
                   &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json_pack("{s:s,s:s}", "from", body.from, "to", body.to));
    session_unref(session);
}

void v1_files_mkdir(struct request *rq)
{
    struct fault fault = { 0 };
    struct session *session;
    struct body_mkdir body = { 0 };

    if (request_json(rq, &body) < 0 || request_session(rq, &session) < 0)
        return;
    if (files_mkdir(session, body.path, strlen(body.path), &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_CREATED,
                   json_pack("{s:s,s:s}", "path", body.path, "kind", "directory"));
    session_unref(session);
}
