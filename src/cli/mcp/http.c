#include "cli/mcp/http.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"

#include "base/banned.h"

#define CONNECT_S 10L
#define TEXT_MAX  ((size_t) 64 * 1024 * 1024)

struct exchange {
    const struct mcp_http_request *request;
    struct mcp_http_reply *reply;
    CURL *curl;
    bool events;
    char *text; /* a line of an event stream, or the whole body of any other type */
    size_t len, size;
    char *data; /* of the current event */
    size_t data_len;
};

int mcp_http_init(void)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -1;
}

static bool append(char **text, size_t *len, const char *more, size_t more_len)
{
    char *grown;

    if (*len + more_len > TEXT_MAX)
        return false;
    grown = realloc(*text, *len + more_len + 1);
    if (!grown)
        return false;
    memcpy(grown + *len, more, more_len);
    *text = grown;
    *len += more_len;
    grown[*len] = '\0';
    return true;
}

/* ---- headers ---- */

/* The value of the header @name in @line, cut to @size. */
static bool header_value(const char *line, size_t len, const char *name, char *buf, size_t size)
{
    size_t n = strlen(name);

    if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
        return false;
    line += n + 1;
    len -= n + 1;
    while (len > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        len--;
    }
    while (len > 0 && strchr(" \t\r\n", line[len - 1]))
        len--;
    if (len >= size)
        return false;
    memcpy(buf, line, len);
    buf[len] = '\0';
    return true;
}

static size_t on_header(char *data, size_t one, size_t len, void *arg)
{
    struct exchange *x = arg;
    char type[64];

    (void) one;
    if (header_value(data, len, "Content-Type", type, sizeof type))
        x->events = strncasecmp(type, "text/event-stream", 17) == 0;
    (void) header_value(data, len, "MCP-Session-Id", x->reply->session, sizeof x->reply->session);
    return len;
}

/* ---- the body ---- */

/* A line of an event stream, without its end. */
static bool take_line(struct exchange *x, const char *line, size_t len)
{
    if (len > 0 && line[len - 1] == '\r')
        len--;
    if (len == 0) {
        if (x->data_len > 0)
            x->request->message(x->request->arg, x->data, x->data_len);
        x->data_len = 0;
        return true;
    }
    if (len >= 5 && strncmp(line, "data:", 5) == 0) {
        size_t skip = len > 5 && line[5] == ' ' ? 6 : 5;

        return append(&x->data, &x->data_len, line + skip, len - skip);
    }
    (void) header_value(line, len, "id", x->reply->last_id, sizeof x->reply->last_id);
    return true;
}

static size_t on_data(char *data, size_t one, size_t len, void *arg)
{
    struct exchange *x = arg;
    size_t left = len;
    long status = 0;
    char *end;

    (void) one;
    curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    if (!x->events || status >= 300)
        return append(&x->text, &x->len, data, len) ? len : 0;
    while ((end = memchr(data, '\n', left))) {
        size_t part = (size_t) (end - data);

        if (!append(&x->text, &x->len, data, part) || !take_line(x, x->text, x->len))
            return 0;
        x->len = 0;
        data = end + 1;
        left -= part + 1;
    }
    return append(&x->text, &x->len, data, left) ? len : 0;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct exchange *x = arg;

    (void) a;
    (void) b;
    (void) c;
    (void) d;
    return x->request->stop && atomic_load(x->request->stop);
}

/* ---- the exchange ---- */

static void set_up(struct exchange *x, struct curl_slist *headers, char *error)
{
    const struct mcp_http_request *rq = x->request;
    CURL *curl = x->curl;

    curl_easy_setopt(curl, CURLOPT_URL, rq->url);
    if (rq->unix_path)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, rq->unix_path);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, x);
    if (rq->body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) strlen(rq->body));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, rq->body);
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, rq->method);
}

static void finish(struct exchange *x)
{
    const struct mcp_http_request *rq = x->request;

    if (x->reply->status >= 300)
        x->reply->body = TAKE_PTR(x->text);
    else if (!x->events && x->len > 0)
        rq->message(rq->arg, x->text, x->len);
}

void mcp_http(const struct mcp_http_request *request, struct mcp_http_reply *ret_reply)
{
    struct exchange x = { .request = request, .reply = ret_reply };
    struct curl_slist *headers = NULL;
    char error[CURL_ERROR_SIZE] = "";
    CURLcode code;

    *ret_reply = (struct mcp_http_reply){ 0 };
    x.curl = curl_easy_init();
    for (char *const *h = request->headers; *h; h++)
        headers = curl_slist_append(headers, *h);
    if (!x.curl || !headers) {
        snprintf(ret_reply->error, sizeof ret_reply->error, "out of memory");
    } else {
        set_up(&x, headers, error);
        code = curl_easy_perform(x.curl);
        curl_easy_getinfo(x.curl, CURLINFO_RESPONSE_CODE, &ret_reply->status);
        if (code == CURLE_OK)
            finish(&x);
        else
            snprintf(ret_reply->error, sizeof ret_reply->error, "%.190s",
                     error[0] ? error : curl_easy_strerror(code));
        if (code != CURLE_OK && ret_reply->status < 300)
            ret_reply->status = 0;
    }
    curl_slist_free_all(headers);
    if (x.curl)
        curl_easy_cleanup(x.curl);
    free(x.text);
    free(x.data);
}
