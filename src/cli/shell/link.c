#include "cli/shell/link.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/autoclean.h"
#include "base/clock.h"

#include "base/banned.h"

#define CONNECT_S     10L
#define TOTAL_S       60L
#define REPLY_MAX     ((size_t) 1 << 20)
#define HEAD_MAX      16384
#define LOOK_MS       100 /* for signals */
#define HELLO_US      (20 * USEC_PER_SEC)
#define READ_BYTES    16384
#define RECEIVE_BYTES (64 * 1024)

int link_open(struct link *link, const char *url, const char *key, struct gb_err *err)
{
    size_t len = strlen(url);

    *link = (struct link){ .key = key, .fd = -1 };
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || sodium_init() < 0)
        return gb_fail_plain(err, EIO, "libcurl or libsodium could not be initialised");
    while (len > 0 && url[len - 1] == '/')
        len--;
    link->pending = malloc(LINK_PENDING_MAX);
    if (strncmp(url, "unix:", 5) == 0) {
        link->unix_path = url + 5;
        link->url = strdup("http://localhost");
    } else {
        link->url = strndup(url, len);
    }
    return link->url && link->pending ? 0 : gb_fail(err, ENOMEM, "connect to the service");
}

void link_release(struct link *link)
{
    link_detach(link);
    free(link->url);
    free(link->pending);
    link->url = link->pending = NULL;
}

/* ---- requests ---- */

struct reply {
    char *text;
    size_t len;
};

static size_t on_data(char *data, size_t one, size_t len, void *arg)
{
    struct reply *reply = arg;
    char *grown;

    (void) one;
    if (len > REPLY_MAX - reply->len)
        return 0;
    grown = realloc(reply->text, reply->len + len + 1);
    if (!grown)
        return 0;
    memcpy(grown + reply->len, data, len);
    reply->text = grown;
    reply->len += len;
    return len;
}

/* Signals wait until they are read (catch_signals() in cmd_shell.c), but a user who wants to leave
 * does not. */
static bool is_leaving(void)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    sigset_t set;

    for (size_t i = 0; sigpending(&set) == 0 && i < ARRAY_LEN(signals); i++)
        if (sigismember(&set, signals[i]) == 1)
            return true;
    return false;
}

static int on_progress(void *arg, curl_off_t down, curl_off_t down_now, curl_off_t up,
                       curl_off_t up_now)
{
    (void) arg;
    (void) down;
    (void) down_now;
    (void) up;
    (void) up_now;
    return is_leaving();
}

static CURL *curl_new(struct link *link, const char *url, char *error)
{
    CURL *curl = curl_easy_init();

    if (!curl)
        return NULL;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    if (link->unix_path)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, link->unix_path);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    return curl;
}

static struct curl_slist *headers_make(const struct link *link)
{
    struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
    char text[600];

    if (list && link->key) {
        snprintf(text, sizeof text, "Authorization: Bearer %s", link->key);
        list = curl_slist_append(list, text);
        explicit_bzero(text, sizeof text);
    }
    return list;
}

/* The service's own words, if it has some. */
static int refused(long status, json_t *json, struct gb_err *err)
{
    const char *detail = json_string_value(json_object_get(json, "detail"));

    return gb_fail_plain(err, status == 404 ? ENOENT : EIO, "%.200s%s",
                         detail ? detail : "the service refused the request",
                         status == 401 ? " (--api-key, or GLOVEBOX_API_KEY)" : "");
}

int link_call(struct link *link, const char *method, const char *path, const char *body,
              json_t **ret_json, struct gb_err *err)
{
    autofree char *url = NULL;
    char error[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = headers_make(link);
    struct reply reply = { 0 };
    json_t *json = NULL;
    CURL *curl = NULL;
    long status = 0;
    int r = 0;

    if (asprintf(&url, "%s%s", link->url, path) < 0)
        url = NULL;
    curl = url && headers ? curl_new(link, url, error) : NULL;
    if (!curl) {
        curl_slist_free_all(headers);
        return gb_fail(err, ENOMEM, "connect to the service");
    }
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, TOTAL_S);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &reply);
    if (body)
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    if (curl_easy_perform(curl) != CURLE_OK)
        r = gb_fail_plain(err, ECONNREFUSED, "cannot reach the service at %.100s: %.120s",
                          link->unix_path ? link->unix_path : link->url, error);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (r == 0 && reply.len > 0)
        json = json_loadb(reply.text, reply.len, 0, NULL);
    if (r == 0 && (status < 200 || status > 299))
        r = refused(status, json, err);
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
    free(reply.text);
    if (r == 0 && ret_json)
        *ret_json = json;
    else
        json_decref(json);
    return r;
}

/* ---- the socket ---- */

/* Waits until the socket can be read, or written. */
static bool socket_wait(const struct link *link, short events, int64_t until)
{
    struct pollfd p = { .fd = link->fd, .events = events };
    int ready = 0;

    while (ready == 0 && clock_now_us() < until && !is_leaving())
        ready = poll(&p, 1, LOOK_MS);
    return ready > 0;
}

static int hello_send(struct link *link, const char *path, int64_t until, struct gb_err *err)
{
    const char *host = strstr(link->url, "://");
    unsigned char bytes[16];
    char key[32], *text = NULL;
    size_t at = 0, sent;
    int len;

    host = host ? host + 3 : link->url;
    randombytes_buf(bytes, sizeof bytes);
    (void) sodium_bin2base64(key, sizeof key, bytes, sizeof bytes, sodium_base64_VARIANT_ORIGINAL);
    len = asprintf(&text,
                   "GET %s%s HTTP/1.1\r\nHost: %.*s\r\nConnection: Upgrade\r\n"
                   "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n"
                   "%s%s%s\r\n",
                   host + strcspn(host, "/"), path, (int) strcspn(host, "/"), host, key,
                   link->key ? "Authorization: Bearer " : "", link->key ? link->key : "",
                   link->key ? "\r\n" : "");
    if (len < 0)
        return gb_fail(err, ENOMEM, "connect to the service");
    while (at < (size_t) len) {
        CURLcode code = curl_easy_send(link->socket, text + at, (size_t) len - at, &sent);

        if (code == CURLE_OK)
            at += sent;
        else if (code != CURLE_AGAIN || !socket_wait(link, POLLOUT, until))
            break;
    }
    explicit_bzero(text, (size_t) len);
    free(text);
    return at == (size_t) len ? 0 : gb_fail_plain(err, ECONNREFUSED, "the connection broke");
}

/* Too many clients, of which one may be our own that broke; or a proxy without its service. */
static bool is_passing(const char *head)
{
    static const char *const statuses[] = { "429", "502", "503", "504" };

    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        if (strncmp(head, "HTTP/1.1 ", 9) == 0 && strncmp(head + 9, statuses[i], 3) == 0)
            return true;
    return false;
}

/* Reads byte by byte until the empty line, so that frames that follow stay in the socket. */
static int hello_receive(struct link *link, int64_t until, struct gb_err *err)
{
    char head[HEAD_MAX + 1];
    size_t len = 0, n;

    while (len < HEAD_MAX && (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0)) {
        CURLcode code = curl_easy_recv(link->socket, head + len, 1, &n);

        if (code == CURLE_OK && n == 1)
            len++;
        else if (code != CURLE_AGAIN || !socket_wait(link, POLLIN, until))
            return gb_fail_plain(err, ECONNREFUSED, "the connection broke");
    }
    head[len] = '\0';
    if (strncmp(head, "HTTP/1.1 101 ", 13) == 0)
        return 0;
    if (strncmp(head, "HTTP/1.1 404 ", 13) == 0)
        return gb_fail_plain(err, ENOENT, "no such terminal, or it has ended");
    return gb_fail_plain(err, is_passing(head) ? ECONNREFUSED : EIO,
                         "the service does not open the terminal: %.*s", (int) strcspn(head, "\r"),
                         head);
}

/* Output that waits in buffers is still shown after an interrupt, so there is little of it. */
static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
    int size = RECEIVE_BYTES;

    (void) arg;
    (void) purpose;
    (void) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    return CURL_SOCKOPT_OK;
}

int link_attach(struct link *link, const char *path, struct gb_err *err)
{
    char error[CURL_ERROR_SIZE] = "";
    int64_t until = clock_now_us() + HELLO_US;
    curl_socket_t fd = CURL_SOCKET_BAD;
    int r;

    link_detach(link);
    link->socket = curl_new(link, link->url, error);
    if (!link->socket)
        return gb_fail(err, ENOMEM, "connect to the service");
    curl_easy_setopt(link->socket, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(link->socket, CURLOPT_SOCKOPTFUNCTION, on_socket);
    if (curl_easy_perform(link->socket) != CURLE_OK ||
        curl_easy_getinfo(link->socket, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK ||
        fd == CURL_SOCKET_BAD) {
        link_detach(link);
        return gb_fail_plain(err, ECONNREFUSED, "cannot reach the service at %.100s: %.120s",
                             link->unix_path ? link->unix_path : link->url, error);
    }
    link->fd = fd;
    if ((r = hello_send(link, path, until, err)) < 0 || (r = hello_receive(link, until, err)) < 0)
        link_detach(link);
    /* The buffer is on this stack. */
    if (link->socket)
        curl_easy_setopt(link->socket, CURLOPT_ERRORBUFFER, NULL);
    return r;
}

void link_detach(struct link *link)
{
    if (link->socket)
        curl_easy_cleanup(link->socket);
    link->socket = NULL;
    link->fd = -1;
    link->more = false;
    link->pending_len = 0;
    frames_release(&link->frames);
}

bool link_send(struct link *link, enum frame_kind kind, char *data, size_t len)
{
    uint8_t head[FRAME_HEAD_MAX], mask[4];
    size_t head_len;

    if (!link->socket || len + FRAME_HEAD_MAX > LINK_PENDING_MAX - link->pending_len)
        return false;
    randombytes_buf(mask, sizeof mask);
    head_len = frame_wrap(kind, data, len, mask, head);
    memcpy(link->pending + link->pending_len, head, head_len);
    if (len > 0)
        memcpy(link->pending + link->pending_len + head_len, data, len);
    link->pending_len += head_len + len;
    return true;
}

int link_flush(struct link *link)
{
    while (link->pending_len > 0) {
        size_t sent = 0;
        CURLcode code = curl_easy_send(link->socket, link->pending, link->pending_len, &sent);

        if (code == CURLE_AGAIN)
            return 0;
        if (code != CURLE_OK)
            return -EPIPE;
        link->pending_len -= sent;
        memmove(link->pending, link->pending + sent, link->pending_len);
    }
    return 0;
}

int link_read(struct link *link,
              int (*each)(void *arg, enum frame_kind kind, const char *data, size_t len), void *arg)
{
    char buf[READ_BYTES];
    size_t n;
    CURLcode code = curl_easy_recv(link->socket, buf, sizeof buf, &n);

    /* What the library keeps for itself cannot be polled for. */
    link->more = code == CURLE_OK;
    if (code == CURLE_AGAIN)
        return 0;
    if (code != CURLE_OK || n == 0)
        return -EPIPE;
    return frames_feed(&link->frames, buf, n, each, arg);
}
