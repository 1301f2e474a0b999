/* Mark over HTTP: exports of chats, answers and tables. What is sent is a file, complete before the
 * first byte; a browser saves it and never shows it as a page of ours. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mark/export/export.h"

#include "mark/mark.h"
#include "server/mark/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

/* RFC 6266: a name in ASCII for those that know no better, and the whole one (RFC 8187). */
static void add_disposition(struct MHD_Response *response, const char *name)
{
    char value[4 * EXPORT_NAME_MAX + 64] = "attachment; filename=\"";
    size_t used = strlen(value);

    for (const unsigned char *p = (const unsigned char *) name; *p; p++)
        if (*p < 128)
            value[used++] = *p == '"' || *p == '\\' || *p == '%' || *p < ' ' ? '_' : (char) *p;
        else if (*p >= 0xc0) /* the first byte of a character */
            value[used++] = '_';
    used += (size_t) snprintf(value + used, sizeof value - used, "\"; filename*=UTF-8''");
    for (const unsigned char *p = (const unsigned char *) name; *p && used + 4 < sizeof value;
         p++) {
        bool plain = (*p >= '0' && *p <= '9') || ((*p | 32) >= 'a' && (*p | 32) <= 'z') ||
                     (*p < 128 && strchr("-._~", *p));

        used += (size_t) snprintf(value + used, sizeof value - used, plain ? "%c" : "%%%02X", *p);
    }
    reply_header(response, "Content-Disposition", value);
}

static void on_fetched(void *turn)
{
    export_fetched(turn);
}

static void send_file(struct request *rq, const struct export_file *file)
{
    struct MHD_Response *response = MHD_create_response_from_fd64((uint64_t) file->size, file->fd);

    rq->done = on_fetched;
    rq->done_arg = file->turn;
    if (!response) {
        (void) close(file->fd);
    } else {
        reply_header(response, "Content-Type", file->media_type);
        add_disposition(response, file->name);
        reply_header(response, "Content-Security-Policy", "sandbox; default-src 'none'");
        reply_header(response, "Cache-Control", "private, no-store");
        if (file->differs)
            reply_header(response, "Glovebox-Differs", "true");
    }
    reply_send(rq, MHD_HTTP_OK, response);
}

static void export_as(struct request *rq,
                      int (*make)(struct exports *exports, const struct caller *caller,
                                  const char *id, enum export_format format,
                                  struct export_file *ret_file, struct fault *fault))
{
    struct query_export query;
    struct export_file file;
    struct fault fault = { 0 };

    if (request_query(rq, &query) < 0)
        return;
    if (make(mark_exports(rq->server->config.mark), &rq->caller, request_param(rq, "id"),
             (enum export_format) query.format, &file, &fault) < 0)
        reply_fault(rq, &fault);
    else
        send_file(rq, &file);
}

void mark_chat_export(struct request *rq)
{
    export_as(rq, export_chat);
}

void mark_message_export(struct request *rq)
{
    export_as(rq, export_message);
}

/* A number from 1 as we write it; 0: it is none. */
static int64_t number_of(const char *text)
{
    int64_t n = 0;

    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || n > INT32_MAX || (p == text && *p == '0'))
            return 0;
        n = n * 10 + (*p - '0');
    }
    return n;
}

void mark_table_export(struct request *rq)
{
    struct query_table_export query;
    struct export_file file;
    struct fault fault = { 0 };

    if (request_query(rq, &query) < 0)
        return;
    if (export_table(mark_exports(rq->server->config.mark), &rq->caller, request_param(rq, "id"),
                     number_of(request_param(rq, "n")), (enum export_table_format) query.format,
                     query.changed, &file, &fault) < 0)
        reply_fault(rq, &fault);
    else
        send_file(rq, &file);
}
