#include "mark/llm/net.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/autoclean.h"
#include "base/clock.h"

#include "base/banned.h"

#define IDLE_MAX  16
#define FETCH_MAX ((size_t) 1024 * 1024)

struct net {
    pthread_mutex_t lock; /* protects the members below */
    CURLM *idle[IDLE_MAX];
    size_t idle_len;
};

struct exchange {
    const struct net_request *request;
    struct net_reply *reply;
    CURL *curl;
    int64_t bytes, heard_us;
    curl_off_t sent;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void curl_start(void)
{
    (void) curl_global_init(CURL_GLOBAL_DEFAULT);
}

struct net *net_new(void)
{
    struct net *net = calloc(1, sizeof *net);

    (void) pthread_once(&curl_once, curl_start);
    if (net)
        pthread_mutex_init(&net->lock, NULL);
    return net;
}

void net_free(struct net *net)
{
    if (!net)
        return;
    for (size_t i = 0; i < net->idle_len; i++)
        curl_multi_cleanup(net->idle[i]);
    pthread_mutex_destroy(&net->lock);
    free(net);
}

static CURLM *take_multi(struct net *net)
{
    CURLM *multi = NULL;

    pthread_mutex_lock(&net->lock);
    if (net->idle_len > 0)
        multi = net->idle[--net->idle_len];
    pthread_mutex_unlock(&net->lock);
    if (multi)
        return multi;
    multi = curl_multi_init();
    if (multi)
        curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 2L);
    return multi;
}

static void give_multi(struct net *net, CURLM *multi)
{
    pthread_mutex_lock(&net->lock);
    if (net->idle_len < IDLE_MAX) {
        net->idle[net->idle_len++] = multi;
        multi = NULL;
    }
    pthread_mutex_unlock(&net->lock);
    if (multi)
        curl_multi_cleanup(multi);
}

/* ---- what curl calls ---- */

/* Children of the service must not inherit connections. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void) arg;
    (void) purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int status_of(struct exchange *x)
{
    long status = 0;

    curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    return (int) status;
}

static void keep_header(const char *line, size_t len, const char *name, char out[NET_HEADER_MAX])
{
    size_t name_len = strlen(name), n = 0;

    if (len <= name_len || strncasecmp(line, name, name_len) != 0 || line[name_len] != ':')
        return;
    for (size_t i = name_len + 1; i < len && n + 1 < NET_HEADER_MAX; i++)
        if ((n > 0 || line[i] != ' ') && line[i] >= ' ' && line[i] < 0x7f)
            out[n++] = line[i];
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
}

static size_t on_header(char *line, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    struct net_reply *reply = x->reply;
    size_t len = size * count;

    x->heard_us = clock_now_us();
    keep_header(line, len, "retry-after", reply->retry_after);
    keep_header(line, len, "retry-after-ms", reply->retry_after_ms);
    keep_header(line, len, "x-should-retry", reply->should_retry);
    keep_header(line, len, "x-request-id", reply->request_id);
    keep_header(line, len, "request-id", reply->request_id);
    keep_header(line, len, "content-type", reply->content_type);
    keep_header(line, len, "server", reply->server);
    keep_header(line, len, "location", reply->location);
    return len;
}

static size_t on_data(char *data, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    size_t len = size * count;

    x->heard_us = clock_now_us();
    if ((int64_t) len > x->request->bytes_max - x->bytes) {
        x->reply->end = NET_TOO_LARGE;
        return 0;
    }
    x->bytes += (int64_t) len;
    if (!x->request->data(x->request->arg, status_of(x), data, len)) {
        x->reply->end = NET_STOPPED;
        return 0;
    }
    return len;
}

/* A large request on a slow line is no silence. */
static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t sent)
{
    struct exchange *x = arg;

    (void) a;
    (void) b;
    (void) c;
    if (sent != x->sent) {
        x->sent = sent;
        x->heard_us = clock_now_us();
    }
    return 0;
}

/* ---- an exchange ---- */

static void set_up(struct exchange *x, struct curl_slist *headers)
{
    const struct net_request *rq = x->request;
    CURL *curl = x->curl;

    curl_easy_setopt(curl, CURLOPT_URL, rq->url);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long) (rq->connect_us / USEC_PER_MSEC));
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, x->reply->why);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "glovebox/" GLOVEBOX_VERSION);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, x);
    if (rq->loopback)
        curl_easy_setopt(curl, CURLOPT_PROXY, "");
    if (rq->body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) rq->body_len);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, rq->body);
    }
}

/* Whether the transfer has ended; sets how. */
static bool has_ended(struct exchange *x, CURLM *multi)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        x->reply->status = status_of(x);
        if (message->data.result == CURLE_OK)
            x->reply->end = NET_DONE;
        else if (message->data.result == CURLE_OUT_OF_MEMORY)
            x->reply->end = NET_NO_MEMORY;
        /* else NET_BROKEN, or what on_data() has set */
        if (x->reply->end == NET_BROKEN && !x->reply->why[0])
            (void) snprintf(x->reply->why, sizeof x->reply->why, "%s",
                            curl_easy_strerror(message->data.result));
        return true;
    }
    return false;
}

static bool is_cancelled(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* How long to wait for the next event; 0: time is up. */
static int64_t patience_us(const struct exchange *x, int64_t started_us)
{
    const struct net_request *rq = x->request;
    int64_t now = clock_now_us(), left = rq->idle_us - (now - x->heard_us);

    if (rq->total_us > 0 && rq->total_us - (now - started_us) < left)
        left = rq->total_us - (now - started_us);
    return left > 0 ? left : 0;
}

static void drive(struct exchange *x, CURLM *multi)
{
    struct curl_waitfd cancel = { .fd = x->request->cancel_fd, .events = CURL_WAIT_POLLIN };
    int64_t started_us = clock_now_us();
    int running, none;

    for (;;) {
        int64_t left_us;

        if (curl_multi_perform(multi, &running) != CURLM_OK)
            return;
        if (has_ended(x, multi))
            return;
        left_us = patience_us(x, started_us);
        if (left_us == 0) {
            x->reply->status = status_of(x);
            x->reply->end = NET_SILENT;
            return;
        }
        if (left_us > USEC_PER_SEC)
            left_us = USEC_PER_SEC;
        (void) curl_multi_poll(multi, &cancel, cancel.fd >= 0 ? 1 : 0,
                               (int) (left_us / USEC_PER_MSEC) + 1, &none);
        if (is_cancelled(cancel.fd)) {
            x->reply->end = NET_CANCELLED;
            return;
        }
    }
}

void net_exchange(struct net *net, const struct net_request *request, struct net_reply *ret_reply)
{
    struct exchange x = { .request = request, .reply = ret_reply, .heard_us = clock_now_us() };
    /* "Expect: 100-continue" would cost a second with servers that do not know it. */
    struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
    CURLM *multi = take_multi(net);

    *ret_reply = (struct net_reply){ .end = NET_NO_MEMORY };
    x.curl = curl_easy_init();
    for (const char *const *h = request->headers; headers && h && *h; h++) {
        struct curl_slist *longer = curl_slist_append(headers, *h);

        if (!longer)
            curl_slist_free_all(headers);
        headers = longer;
    }
    if (x.curl && multi && headers) {
        ret_reply->end = NET_BROKEN;
        set_up(&x, headers);
        if (curl_multi_add_handle(multi, x.curl) == CURLM_OK) {
            drive(&x, multi);
            curl_multi_remove_handle(multi, x.curl);
        }
    }
    if (x.curl)
        curl_easy_cleanup(x.curl);
    curl_slist_free_all(headers);
    if (multi)
        give_multi(net, multi);
}

/* ---- many at once ---- */

static size_t on_fetched(char *data, size_t size, size_t count, void *arg)
{
    struct net_fetch *fetch = arg;

    return text_add(&fetch->body, data, size * count, FETCH_MAX) == 0 ? size * count : 0;
}

static CURL *fetch_start(struct net_fetch *fetch, CURLM *multi, int64_t total_us)
{
    CURL *curl = curl_easy_init();

    if (!curl)
        return NULL;
    curl_easy_setopt(curl, CURLOPT_URL, fetch->url);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long) (total_us / USEC_PER_MSEC) + 1);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_fetched);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, fetch);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, fetch);
    if (fetch->post)
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, fetch->post);
    if (curl_multi_add_handle(multi, curl) == CURLM_OK)
        return curl;
    curl_easy_cleanup(curl);
    return NULL;
}

static void fetches_read(CURLM *multi)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(multi, &left))) {
        struct net_fetch *fetch = NULL;
        long status = 0;

        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &fetch);
        curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
        if (message->msg == CURLMSG_DONE && message->data.result == CURLE_OK)
            fetch->status = (int) status;
    }
}

void net_fetch_all(struct net *net, struct net_fetch *fetches, size_t len, int64_t total_us)
{
    CURLM *multi = take_multi(net);
    CURL **curls = calloc(len > 0 ? len : 1, sizeof(CURL *));
    int running = 1, none;

    for (size_t i = 0; multi && curls && i < len; i++)
        curls[i] = fetch_start(&fetches[i], multi, total_us);
    while (multi && curls && running > 0 && curl_multi_perform(multi, &running) == CURLM_OK) {
        fetches_read(multi);
        if (running > 0)
            (void) curl_multi_poll(multi, NULL, 0, 100, &none);
    }
    for (size_t i = 0; i < len; i++) {
        if (curls && curls[i]) {
            curl_multi_remove_handle(multi, curls[i]);
            curl_easy_cleanup(curls[i]);
        }
        if (fetches[i].status == 0)
            text_release(&fetches[i].body);
    }
    free(curls);
    if (multi)
        give_multi(net, multi);
}

/* ---- URLs ---- */

static char *url_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;

    return curl_url_get(url, part, &text, 0) == CURLUE_OK ? text : NULL;
}

/* By its form: a name that only resolves to this machine may resolve to another tomorrow. */
static bool is_loopback(const char *host)
{
    size_t len = strlen(host);
    struct in_addr address;

    return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127) ||
           (len > 10 && strcasecmp(host + len - 10, ".localhost") == 0);
}

static const char *read_parts(CURLU *url, struct net_url *out)
{
    char *scheme = url_part(url, CURLUPART_SCHEME), *host = url_part(url, CURLUPART_HOST);
    char *port = url_part(url, CURLUPART_PORT), *path = url_part(url, CURLUPART_PATH);
    char *user = url_part(url, CURLUPART_USER), *password = url_part(url, CURLUPART_PASSWORD);
    char *query = url_part(url, CURLUPART_QUERY), *fragment = url_part(url, CURLUPART_FRAGMENT);
    const char *why = NULL;

    if (!scheme || !host || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        why = "it must begin with http:// or https:// and have a host";
    else if (user || password)
        why = "it has a user or password; put the key into a file and use --model-key";
    else if (query || fragment)
        why = "it must not have a query or fragment";
    else if (strlen(host) >= sizeof out->host)
        why = "its host is too long";
    if (!why) {
        out->tls = strcmp(scheme, "https") == 0;
        out->loopback = is_loopback(host);
        out->has_path = path && strcmp(path, "/") != 0 && *path;
        (void) snprintf(out->host, sizeof out->host, "%s", host);
        (void) snprintf(out->where, sizeof out->where, "%s%s%s", host, port ? ":" : "",
                        port ? port : "");
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(path);
    curl_free(user);
    curl_free(password);
    curl_free(query);
    curl_free(fragment);
    return why;
}

int net_url_read(const char *text, struct net_url *ret_url, const char **ret_why)
{
    CURLU *url = curl_url();
    const char *why = "there is no memory";

    *ret_url = (struct net_url){ 0 };
    if (url)
        why = curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK ? read_parts(url, ret_url)
                                                                     : "it is not a URL";
    curl_url_cleanup(url);
    *ret_why = why;
    return why ? -EINVAL : 0;
}
