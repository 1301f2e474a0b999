#include "server/http/sse.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/server_internal.h"

#include "base/banned.h"

#define BLOCK_BYTES 16384

struct sse {
    struct server *server;
    struct MHD_Connection *mhd;
    int fd;
    const struct sse_source *source;
    void *arg;
    int64_t quiet_since_us;

    char *text; /* being sent; NULL: none */
    size_t len, used;
};

char *sse_event(const char *id, const char *event, const char *data)
{
    char *text = NULL;

    if (asprintf(&text, "%s%s%s%s%s%sdata: %s\n\n", id ? "id: " : "", id ? id : "", id ? "\n" : "",
                 event ? "event: " : "", event ? event : "", event ? "\n" : "", data) < 0)
        return NULL;
    return text;
}

enum client client_look(int fd)
{
    struct pollfd p = { fd, POLLRDHUP, 0 };

    if (poll(&p, 1, 0) <= 0)
        return CLIENT_THERE;
    return p.revents & (POLLHUP | POLLERR | POLLNVAL) ? CLIENT_GONE : CLIENT_SILENT;
}

/* Waits for the next text, or for a reason to send a keep-alive or to end. */
static enum sse_next wait_text(struct sse *s)
{
    enum sse_next next;

    while ((next = s->source->next(s->arg, &s->text)) == SSE_NOTHING) {
        enum client client = client_look(s->fd);

        if (client == CLIENT_GONE)
            return SSE_BROKEN;
        if (client == CLIENT_SILENT ||
            clock_now_us() - s->quiet_since_us >= s->server->config.keepalive_us) {
            s->text = strdup(s->source->keepalive ? s->source->keepalive : ": keep-alive\n\n");
            next = SSE_TEXT;
            break;
        }
    }
    if (next == SSE_TEXT && !s->text)
        return SSE_BROKEN;
    return next;
}

static ssize_t on_read(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct sse *s = cls;
    enum sse_next next;
    size_t len;

    (void) pos;
    if (!s->text) {
        /* While we wait, the library must not consider the connection idle. */
        (void) MHD_set_connection_option(s->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
        next = wait_text(s);
        (void) MHD_set_connection_option(s->mhd, MHD_CONNECTION_OPTION_TIMEOUT,
                                         (unsigned) (s->server->config.idle_us / USEC_PER_SEC));
        if (next != SSE_TEXT)
            return next == SSE_END ? MHD_CONTENT_READER_END_OF_STREAM
                                   : MHD_CONTENT_READER_END_WITH_ERROR;
        s->len = strlen(s->text);
        s->used = 0;
    }
    s->quiet_since_us = clock_now_us();
    len = s->len - s->used < max ? s->len - s->used : max;
    memcpy(buf, s->text + s->used, len);
    s->used += len;
    if (s->used == s->len) {
        free(s->text);
        s->text = NULL;
    }
    return (ssize_t) len;
}

static void on_free(void *cls)
{
    struct sse *s = cls;

    s->source->free(s->arg);
    atomic_fetch_sub(&s->server->streams, 1);
    free(s->text);
    free(s);
}

void sse_reply(struct request *rq, const struct sse_source *source, void *arg, const char *header,
               const char *value)
{
    struct sse *s = calloc(1, sizeof *s);
    struct MHD_Response *response;

    if (!s) {
        source->free(arg);
        reply_no_memory(rq);
        return;
    }
    s->server = rq->server;
    s->mhd = rq->mhd;
    s->fd = request_socket(rq);
    s->source = source;
    s->arg = arg;
    s->quiet_since_us = clock_now_us();
    atomic_fetch_add(&s->server->streams, 1);
    response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, s, on_free);
    if (!response) {
        on_free(s);
        return;
    }
    reply_header(response, "Content-Type", source->media ? source->media : "text/event-stream");
    reply_header(response, "Cache-Control", "no-cache, no-transform");
    reply_header(response, "X-Accel-Buffering", "no"); /* proxies must not buffer it */
    if (header)
        reply_header(response, header, value);
    reply_send(rq, MHD_HTTP_OK, response);
}
