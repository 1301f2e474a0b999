/*
 * Is this exactly one request, with one length and one host? If two servers read different requests
 * from the same bytes, requests can be smuggled. The headers that matter are collected on the way.
 */
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/text/parse.h"
#include "server/server_internal.h"

#include "base/banned.h"

/* ---- headers ---- */

struct header_row {
    const char *name;
    size_t offset;
};

#define HEADER(name, member)                                                                       \
    {                                                                                              \
        name, offsetof(struct headers, member)                                                     \
    }

/* Each of these may occur only once. */
static const struct header_row header_rows[] = {
    HEADER("Host", host),
    HEADER("Authorization", authorization),
    HEADER("X-API-Key", api_key),
    HEADER("Origin", origin),
    HEADER("Sec-Fetch-Site", fetch_site),
    HEADER("Sec-Fetch-Mode", fetch_mode),
    HEADER("Content-Type", content_type),
    HEADER("Content-Length", content_length),
    HEADER("Transfer-Encoding", transfer_encoding),
    HEADER("Range", range),
    HEADER("If-Range", if_range),
    HEADER("If-None-Match", if_none_match),
    HEADER("If-Match", if_match),
    HEADER("Expect", expect),
    HEADER("Last-Event-ID", last_event_id),
    HEADER("X-Session-Id", session_id),
    HEADER("MCP-Session-Id", mcp_session),
    HEADER("MCP-Protocol-Version", mcp_version),
    HEADER("Mcp-Method", mcp_method),
    HEADER("Mcp-Name", mcp_name),
    HEADER("Upgrade", upgrade),
    HEADER("Sec-WebSocket-Key", ws_key),
    HEADER("Sec-WebSocket-Version", ws_version),
};

static enum MHD_Result collect(void *cls, enum MHD_ValueKind kind, const char *key, size_t key_size,
                               const char *value, size_t value_size)
{
    struct headers *headers = cls;

    (void) kind;
    value = value ? value : "";
    /* "Content-Length : 5" is a length to some servers and not to others. */
    if (strlen(key) != key_size || strlen(value) != value_size || strpbrk(key, " \t"))
        headers->bad = true;
    /* Several lines of these form one list; the first is enough for what we offer. */
    if (strcasecmp(key, "Accept") == 0 && !headers->accept)
        headers->accept = value;
    if (strcasecmp(key, "Accept-Encoding") == 0 && !headers->accept_encoding)
        headers->accept_encoding = value;
    if (strcasecmp(key, "Connection") == 0 && !headers->connection)
        headers->connection = value;
    if (strcasecmp(key, "Sec-WebSocket-Protocol") == 0 && !headers->ws_protocol)
        headers->ws_protocol = value;
    for (size_t i = 0; i < sizeof header_rows / sizeof *header_rows; i++) {
        const char **member = (const char **) ((char *) headers + header_rows[i].offset);

        if (strcasecmp(key, header_rows[i].name) != 0)
            continue;
        if (*member)
            headers->twice = header_rows[i].name;
        *member = value;
        break;
    }
    return MHD_YES;
}

/* A request whose length is in doubt: nothing that follows on the connection is read. */
static int refuse_framing(struct request *rq, const char *detail)
{
    rq->refusal.close = true;
    return refuse(rq, PROBLEM_BAD_FRAMING, "%s", detail);
}

int framing_check(struct request *rq)
{
    struct headers *h = &rq->headers;
    int64_t length;

    (void) MHD_get_connection_values_n(rq->mhd, MHD_HEADER_KIND, collect, h);
    if (h->bad)
        return refuse_framing(rq,
                              "a header name contains whitespace, or a value contains a NUL byte");
    if (h->twice) {
        rq->refusal.close = true;
        return refuse(rq, PROBLEM_BAD_FRAMING, "the header %s occurs twice", h->twice);
    }
    if (h->content_length && h->transfer_encoding)
        return refuse_framing(rq, "send Content-Length or Transfer-Encoding, not both");
    if (h->transfer_encoding && strcasecmp(h->transfer_encoding, "chunked") != 0)
        return refuse_framing(rq, "the only supported Transfer-Encoding is chunked");
    if (h->content_length) {
        if (parse_int(h->content_length, &length) < 0)
            return refuse_framing(rq, "Content-Length must be a plain number");
        rq->declared = length;
    } else if (!h->transfer_encoding) {
        rq->declared = 0;
    }
    return 0;
}
