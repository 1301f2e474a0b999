/*
 * HTTP of the BigQuery driver: libcurl, one request at a time, with the control socket watched.
 *
 * Certificates are verified with the CAs of the system. Redirects are not followed, proxies not
 * used, bodies bounded. What Google's own clients retry is retried here, a few times and not beyond
 * the deadline of the order: a line that broke, 429, 5xx, and some reasons of 403. All requests can
 * be sent twice: the one that starts a job names it itself.
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/text/json_depth.h"
#include "connect/bigquery.h"

#include "base/banned.h"

#define DEFAULT_URL     "https://bigquery.googleapis.com"
#define TRIES_MAX       6
#define TRIES_AWAY_MAX  3 /* while nobody is there at all */
#define CONNECT_US      (20 * USEC_PER_SEC)
#define SILENCE_US      (60 * USEC_PER_SEC) /* a reply comes within 10 s, or says "not yet" */
#define BACKOFF_US      (100 * USEC_PER_MSEC)
#define BACKOFF_MAX_US  (8 * USEC_PER_SEC)
#define RETRY_AFTER_MAX 60
#define TOKEN_MAX       8192
#define TOKEN_BODY_MAX  ((size_t) 1 << 20)

enum end {
    END_DONE,
    END_CANCELLED,
    END_DEADLINE,
    END_AWAY,   /* no connection */
    END_BROKEN, /* it broke, or nothing came */
    END_TLS,
    END_TOO_LARGE,
    END_NO_MEMORY,
};

struct reply {
    enum end end;
    int status;
    int64_t retry_after_us; /* below 0: not told */
    char *body;
    size_t len, cap, max;
    int64_t heard_us;
    bool has_head; /* all of it: curl takes a line that breaks in it for the end of the body */
    char why[CURL_ERROR_SIZE];
};

/* ---- what curl calls ---- */

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void) arg;
    (void) purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t on_header(char *line, size_t size, size_t count, void *arg)
{
    static const char name[] = "retry-after:";
    struct reply *reply = arg;
    size_t len = size * count, i = sizeof name - 1;
    int64_t seconds = 0;

    reply->heard_us = clock_now_us();
    reply->has_head = len == 2 && line[0] == '\r';
    if (len <= i || strncasecmp(line, name, i) != 0)
        return len;
    while (i < len && line[i] == ' ')
        i++;
    for (; i < len && line[i] >= '0' && line[i] <= '9' && seconds <= RETRY_AFTER_MAX; i++)
        seconds = seconds * 10 + (line[i] - '0');
    reply->retry_after_us = seconds * USEC_PER_SEC;
    return len;
}

static size_t on_data(char *data, size_t size, size_t count, void *arg)
{
    struct reply *reply = arg;
    size_t len = size * count;
    char *grown;

    reply->heard_us = clock_now_us();
    if (len > reply->max - reply->len) {
        reply->end = END_TOO_LARGE;
        return 0;
    }
    grown = grow(reply->body, &reply->cap, reply->len + len, 1, 65536);
    if (!grown) {
        reply->end = END_NO_MEMORY;
        return 0;
    }
    reply->body = grown;
    memcpy(reply->body + reply->len, data, len);
    reply->len += len;
    return len;
}

/* ---- one exchange ---- */

static void set_up(CURL *curl, const char *url, struct curl_slist *headers, const char *body,
                   struct reply *reply)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long) (CONNECT_US / USEC_PER_MSEC));
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reply->why);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "glovebox/" GLOVEBOX_VERSION);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, reply);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, reply);
    if (body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) strlen(body));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    }
}

static enum end end_of(CURLcode code)
{
    switch ((int) code) {
    case CURLE_OK:
        return END_DONE;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
        return END_AWAY;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return END_TLS;
    case CURLE_OUT_OF_MEMORY:
        return END_NO_MEMORY;
    default:
        return END_BROKEN;
    }
}

static bool has_ended(CURLM *multi, CURL *curl, struct reply *reply)
{
    CURLMsg *message;
    long status = 0;
    int left;

    while ((message = curl_multi_info_read(multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        reply->status = (int) status;
        if (reply->end == END_BROKEN) /* not set by on_data() */
            reply->end = end_of(message->data.result);
        if (reply->end == END_DONE && !reply->has_head) {
            reply->end = END_BROKEN;
            (void) snprintf(reply->why, sizeof reply->why, "the server hung up");
        }
        if (!reply->why[0])
            (void) snprintf(reply->why, sizeof reply->why, "%s",
                            curl_easy_strerror(message->data.result));
        return true;
    }
    return false;
}

static int64_t deadline_of(const struct bigquery *bq)
{
    return bq->cancelling ? bq->cancel_deadline_us : bq->order->deadline_us;
}

static bool is_cancelled(const struct bigquery *bq)
{
    return !bq->cancelling && order_cancelled(bq->order);
}

static void drive(struct bigquery *bq, CURL *curl, struct reply *reply)
{
    struct curl_waitfd control = { .fd = bq->order->control_fd, .events = CURL_WAIT_POLLIN };
    int running, none;

    for (;;) {
        int64_t now, left_us;

        if (curl_multi_perform(bq->multi, &running) != CURLM_OK ||
            has_ended(bq->multi, curl, reply))
            return;
        if (is_cancelled(bq)) {
            reply->end = END_CANCELLED;
            return;
        }
        now = clock_now_us();
        if (now >= deadline_of(bq)) {
            reply->end = END_DEADLINE;
            return;
        }
        left_us = reply->heard_us + SILENCE_US - now;
        if (left_us <= 0) {
            (void) snprintf(reply->why, sizeof reply->why, "the server sent nothing for %d seconds",
                            (int) (SILENCE_US / USEC_PER_SEC));
            return;
        }
        if (deadline_of(bq) - now < left_us)
            left_us = deadline_of(bq) - now;
        if (left_us > USEC_PER_SEC)
            left_us = USEC_PER_SEC;
        (void) curl_multi_poll(bq->multi, &control, bq->cancelling ? 0 : 1,
                               (int) (left_us / USEC_PER_MSEC) + 1, &none);
    }
}

static struct curl_slist *make_headers(const char *token, const char *content)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:"), *longer;
    autofree char *line = NULL;

    if (list && content) {
        longer = curl_slist_append(list, content);
        if (!longer)
            curl_slist_free_all(list);
        list = longer;
    }
    if (list && token) {
        longer = asprintf(&line, "Authorization: Bearer %s", token) < 0
                     ? NULL
                     : curl_slist_append(list, line);
        if (!longer)
            curl_slist_free_all(list);
        list = longer;
    }
    return list;
}

/* @body NULL: GET. @reply has its max; its body is the caller's. */
static void exchange(struct bigquery *bq, const char *url, const char *token, const char *content,
                     const char *body, struct reply *reply)
{
    struct curl_slist *headers = make_headers(token, content);
    CURL *curl = curl_easy_init();

    reply->end = END_NO_MEMORY;
    reply->retry_after_us = -1;
    reply->heard_us = clock_now_us();
    if (curl && headers) {
        reply->end = END_BROKEN;
        set_up(curl, url, headers, body, reply);
        if (curl_multi_add_handle(bq->multi, curl) == CURLM_OK) {
            drive(bq, curl, reply);
            curl_multi_remove_handle(bq->multi, curl);
        }
    }
    if (curl)
        curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
}

/* ---- waiting ---- */

static int too_late(const struct bigquery *bq, struct driver_error *error)
{
    (void) bq;
    return driver_fail(error, CONNECT_TIMEOUT,
                       "BigQuery did not answer within the time that a query has here; ask for "
                       "less, or have the limit raised");
}

int bigquery_wait(struct bigquery *bq, int64_t us, struct driver_error *error)
{
    int64_t end_us = clock_now_us() + us;

    for (;;) {
        struct pollfd p = { .fd = bq->order->control_fd, .events = POLLIN };
        int64_t now = clock_now_us(), left_us = end_us - now;

        if (is_cancelled(bq))
            return driver_fail(error, CONNECT_CANCELLED, "the query was cancelled");
        if (now >= deadline_of(bq))
            return too_late(bq, error);
        if (left_us <= 0)
            return 0;
        if (deadline_of(bq) - now < left_us)
            left_us = deadline_of(bq) - now;
        (void) poll(&p, bq->cancelling ? 0 : 1, (int) (left_us / USEC_PER_MSEC) + 1);
    }
}

/* Before try @n + 1: twice as long each time, and not all clients at once. */
static int back_off(struct bigquery *bq, int n, const struct reply *reply,
                    struct driver_error *error)
{
    int64_t us = BACKOFF_US << (n < 8 ? n : 8);

    if (reply->retry_after_us >= 0)
        return bigquery_wait(bq, reply->retry_after_us + 10 * USEC_PER_MSEC, error);
    if (us > BACKOFF_MAX_US)
        us = BACKOFF_MAX_US;
    return bigquery_wait(bq, us / 2 + clock_now_us() % 1000 * us / 1000, error);
}

/* ---- replies ---- */

static json_t *parse(const struct reply *reply)
{
    json_t *json;

    if (reply->len == 0 || json_too_deep(reply->body, reply->len, BIGQUERY_JSON_DEPTH))
        return NULL;
    json = json_loadb(reply->body, reply->len, JSON_ALLOW_NUL, NULL);
    if (json_is_object(json))
        return json;
    json_decref(json);
    return NULL;
}

static void read_refusal(const struct reply *reply, struct bigquery_refusal *ret)
{
    json_t *json = parse(reply);
    const json_t *about = json_object_get(json, "error");
    const char *text = bigquery_text(about, "message");
    const char *reason =
        bigquery_text(json_array_get(json_object_get(about, "errors"), 0), "reason");

    *ret = (struct bigquery_refusal){ .status = reply->status };
    if (json_is_string(about)) { /* of the token endpoint */
        reason = json_string_value(about);
        text = bigquery_text(json, "error_description");
    }
    (void) snprintf(ret->reason, sizeof ret->reason, "%s", reason ? reason : "");
    if (text)
        (void) snprintf(ret->text, sizeof ret->text, "%s", text);
    else
        (void) snprintf(ret->text, sizeof ret->text, "HTTP status %d", reply->status);
    json_decref(json);
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static bool can_retry(const struct bigquery_refusal *refusal)
{
    static const char *const reasons[] = { "backendError",  "rateLimitExceeded",
                                           "internalError", "jobRateLimitExceeded",
                                           "badGateway",    NULL };
    int status = refusal->status;

    return status == 429 || status == 500 || status == 502 || status == 503 || status == 504 ||
           is_one_of(refusal->reason, reasons);
}

static const struct {
    const char *reason;
    enum connect_word word;
    const char *text; /* what to do; %s is what BigQuery says */
} meanings[] = {
    { "invalidQuery", CONNECT_SQL, "" },
    { "invalid", CONNECT_SQL, "" },
    { "notFound", CONNECT_SQL, "" },
    { "duplicate", CONNECT_SQL, "" },
    { "accessDenied", CONNECT_DENIED, "the service account may not do this: " },
    { "forbidden", CONNECT_DENIED, "the service account may not do this: " },
    { "authError", CONNECT_DENIED, "BigQuery refused the credentials: " },
    { "required", CONNECT_DENIED, "BigQuery refused the credentials: " },
    { "billingNotEnabled", CONNECT_DENIED, "" },
    { "blocked", CONNECT_DENIED, "" },
    { "bytesBilledLimitExceeded", CONNECT_TOO_EXPENSIVE, "it was stopped and is not billed: " },
    { "billingTierLimitExceeded", CONNECT_TOO_EXPENSIVE, "" },
    { "quotaExceeded", CONNECT_TOO_EXPENSIVE, "a quota of the project is used up: " },
    { "responseTooLarge", CONNECT_TOO_LARGE, "select fewer rows or columns: " },
    { "resourcesExceeded", CONNECT_TOO_LARGE, "simplify the query: " },
    { "stopped", CONNECT_CANCELLED, "the job was stopped at BigQuery: " },
    { "timeout", CONNECT_TIMEOUT, "" },
    { "rateLimitExceeded", CONNECT_UNREACHABLE, "BigQuery has too much to do; try again later: " },
    { "jobRateLimitExceeded", CONNECT_UNREACHABLE,
      "BigQuery has too much to do; try again later: " },
    { "backendError", CONNECT_UNREACHABLE, "BigQuery failed; try again later: " },
    { "internalError", CONNECT_UNREACHABLE, "BigQuery failed; try again later: " },
    { "jobBackendError", CONNECT_UNREACHABLE, "BigQuery failed; try again later: " },
    { "jobInternalError", CONNECT_UNREACHABLE, "BigQuery failed; try again later: " },
};

int bigquery_refused(const struct bigquery_refusal *refusal, struct driver_error *error)
{
    int status = refusal->status;

    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (strcmp(meanings[i].reason, refusal->reason) == 0)
            return driver_fail(error, meanings[i].word, "%s%s", meanings[i].text, refusal->text);
    if (status == 401 || status == 403)
        return driver_fail(error, CONNECT_DENIED, "BigQuery refused the credentials: %s",
                           refusal->text);
    if (status == 429 || status >= 500)
        return driver_fail(error, CONNECT_UNREACHABLE, "BigQuery failed; try again later: %s",
                           refusal->text);
    if (status == 400 || status == 404)
        return driver_fail(error, CONNECT_SQL, "%s", refusal->text);
    return driver_fail(error, CONNECT_BROKEN, "BigQuery's reply is not valid: %s", refusal->text);
}

static int failed(const struct bigquery *bq, const struct reply *reply, struct driver_error *error)
{
    switch (reply->end) {
    case END_CANCELLED:
        return driver_fail(error, CONNECT_CANCELLED, "the query was cancelled");
    case END_DEADLINE:
        return too_late(bq, error);
    case END_AWAY:
        return driver_fail(error, CONNECT_UNREACHABLE, "cannot reach BigQuery: %s", reply->why);
    case END_TLS:
        return driver_fail(error, CONNECT_UNREACHABLE,
                           "BigQuery's certificate or TLS was refused: %s", reply->why);
    case END_TOO_LARGE:
        return driver_fail(error, CONNECT_BROKEN,
                           "BigQuery's reply is not valid: it is larger than %zu MiB",
                           reply->max >> 20);
    case END_NO_MEMORY:
        return driver_fail(error, CONNECT_INTERNAL, "out of memory");
    case END_DONE:
    case END_BROKEN:
        break;
    }
    return driver_fail(error, CONNECT_BROKEN, "the connection to BigQuery broke: %s", reply->why);
}

/* ---- signing in ---- */

static bool is_token(const char *text)
{
    size_t len = text ? strlen(text) : 0;

    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return len > 0 && len <= TOKEN_MAX;
}

static void set_token(struct bigquery *bq, const char *token)
{
    if (bq->token)
        explicit_bzero(bq->token, strlen(bq->token));
    free(bq->token);
    bq->token = token ? strdup(token) : NULL;
}

/* Whether the line broke, and another try may help. */
static bool broke_only(const struct reply *reply, int tries)
{
    return (reply->end == END_AWAY && tries < TRIES_AWAY_MAX) ||
           (reply->end == END_BROKEN && tries < TRIES_MAX);
}

/* What @reply of the token endpoint means; 1: try again. */
static int take_token(struct bigquery *bq, const struct reply *reply, int tries,
                      struct driver_error *error)
{
    struct bigquery_refusal refusal;
    json_t *json;

    if (reply->end != END_DONE)
        return broke_only(reply, tries) ? 1 : failed(bq, reply, error);
    if (reply->status / 100 != 2) {
        read_refusal(reply, &refusal);
        if (can_retry(&refusal))
            return tries >= TRIES_MAX ? bigquery_refused(&refusal, error) : 1;
        return driver_fail(error, CONNECT_DENIED,
                           "Google refused to sign the service account in (%s: %s); check that its "
                           "key is not revoked, and the clock of this machine",
                           refusal.reason, refusal.text);
    }
    json = parse(reply);
    if (!is_token(bigquery_text(json, "access_token"))) {
        json_decref(json);
        return driver_fail(error, CONNECT_BROKEN, "Google's token endpoint sent no token");
    }
    set_token(bq, bigquery_text(json, "access_token"));
    bq->expires_in_s = bigquery_count(json, "expires_in");
    bq->token_is_new = true;
    json_decref(json);
    if (!bq->token)
        return driver_fail(error, CONNECT_INTERNAL, "out of memory");
    order_secret(bq->token);
    return 0;
}

static bool url_is_safe(const char *text);

static int sign_in(struct bigquery *bq, struct driver_error *error)
{
    const char *assertion = bigquery_text(bq->source, "assertion");
    const char *uri = bigquery_text(bq->source, "token_uri");
    autofree char *escaped = assertion ? bigquery_escape(assertion) : NULL;
    autofree char *form = NULL;
    int r = 1;

    if (!escaped || !uri || !url_is_safe(uri) ||
        asprintf(&form,
                 "grant_type=urn%%3Aietf%%3Aparams%%3Aoauth%%3Agrant-type%%3Ajwt-bearer"
                 "&assertion=%s",
                 escaped) < 0)
        return driver_fail(error, CONNECT_DENIED,
                           "the access token is not valid any more, and there is no other");
    for (int n = 0; r == 1; n++) {
        struct reply reply = { .max = TOKEN_BODY_MAX };

        exchange(bq, uri, NULL, "Content-Type: application/x-www-form-urlencoded", form, &reply);
        r = take_token(bq, &reply, bq->cancelling ? TRIES_MAX : n + 1, error);
        if (reply.body)
            explicit_bzero(reply.body, reply.len);
        free(reply.body);
        if (r == 1 && back_off(bq, n, &reply, error) < 0)
            r = -1;
    }
    explicit_bzero(form, strlen(form));
    return r;
}

void bigquery_tell_token(const struct bigquery *bq, json_t *done)
{
    if (!bq->token_is_new || bq->expires_in_s <= 0)
        return;
    (void) json_object_set_new(done, "token", json_string(bq->token));
    (void) json_object_set_new(done, "expires_in", json_integer(bq->expires_in_s));
}

/* ---- calls ---- */

/* What @reply means: 0 done, 1 try again, 2 @refusal is final, below 0 @error. */
static int judge(struct bigquery *bq, const struct reply *reply, int tries, json_t **ret_json,
                 struct bigquery_refusal *refusal, struct driver_error *error)
{
    bool mended = bq->token_is_new;

    if (reply->end != END_DONE)
        return broke_only(reply, tries) ? 1 : failed(bq, reply, error);
    if (reply->status / 100 == 2) {
        *ret_json = parse(reply);
        return *ret_json ? 0
                         : driver_fail(error, CONNECT_BROKEN,
                                       "BigQuery's reply is not valid: it is no JSON object, or "
                                       "nested too deeply");
    }
    read_refusal(reply, refusal);
    if (reply->status == 401 && !mended)
        return sign_in(bq, error) < 0 ? -1 : 1;
    if (can_retry(refusal))
        return tries >= TRIES_MAX ? bigquery_refused(refusal, error) : 1;
    return 2;
}

int bigquery_call(struct bigquery *bq, const char *path, const json_t *body, json_t **ret_reply,
                  struct bigquery_refusal *refusal, struct driver_error *error)
{
    autofree char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    autofree char *url = NULL;
    struct bigquery_refusal own;
    int r = 1;

    if ((body && !text) || asprintf(&url, "%s/bigquery/v2/projects/%s", bq->url, path) < 0)
        return driver_fail(error, CONNECT_INTERNAL, "out of memory");
    if (!bq->token && sign_in(bq, error) < 0)
        return -1;
    for (int n = 0; r == 1; n++) {
        struct reply reply = { .max = BIGQUERY_BODY_MAX };
        bool old = !bq->token_is_new;

        exchange(bq, url, bq->token, "Content-Type: application/json", text, &reply);
        r = judge(bq, &reply, bq->cancelling ? TRIES_MAX : n + 1, ret_reply,
                  refusal ? refusal : &own, error);
        free(reply.body);
        if (r == 1 && old && bq->token_is_new)
            n = -1; /* at once, with the new token */
        else if (r == 1 && back_off(bq, n, &reply, error) < 0)
            r = -1;
    }
    if (r == 2)
        return refusal ? 1 : bigquery_refused(&own, error);
    return r;
}

/* ---- beginning and end ---- */

static bool is_this_machine(const char *host)
{
    struct in_addr address;

    return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

/* The token must not go over a line that others read. */
static bool url_is_safe(const char *text)
{
    CURLU *url = curl_url();
    char *scheme = NULL, *host = NULL;
    bool safe =
        url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        (strcmp(scheme, "https") == 0 || (strcmp(scheme, "http") == 0 && is_this_machine(host)));

    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(url);
    return safe;
}

char *bigquery_escape(const char *text)
{
    char *escaped = curl_easy_escape(NULL, text, 0);
    char *copy = escaped ? strdup(escaped) : NULL;

    curl_free(escaped);
    return copy;
}

static bool is_id(const char *text, bool may_lack)
{
    return text ? *text && strlen(text) <= BIGQUERY_ID_MAX : may_lack;
}

int bigquery_open(const struct order *order, struct bigquery *ret_bq, struct driver_error *error)
{
    const json_t *source = json_object_get(order->json, "source");
    const char *url = bigquery_text(source, "url"), *token = bigquery_text(source, "token");
    struct bigquery *bq = ret_bq;

    *bq = (struct bigquery){ .order = order, .source = source };
    bq->project = bigquery_text(source, "project");
    bq->dataset = bigquery_text(source, "dataset");
    bq->location = bigquery_text(source, "location");
    if (!is_id(bq->project, false) || !is_id(bq->dataset, true) || !is_id(bq->location, true))
        return driver_fail(error, CONNECT_INTERNAL, "the source has no project");
    if (!url || !*url)
        url = DEFAULT_URL;
    if (!url_is_safe(url))
        return driver_fail(error, CONNECT_UNREACHABLE,
                           "the URL of the source must begin with https://");
    (void) curl_global_init(CURL_GLOBAL_DEFAULT);
    bq->multi = curl_multi_init();
    bq->url = strdup(url);
    if (token && is_token(token))
        set_token(bq, token);
    if (!bq->multi || !bq->url)
        return driver_fail(error, CONNECT_INTERNAL, "out of memory");
    curl_multi_setopt(bq->multi, CURLMOPT_MAXCONNECTS, 2L);
    for (size_t len = strlen(bq->url); len > 0 && bq->url[len - 1] == '/'; len--)
        bq->url[len - 1] = '\0';
    return 0;
}

void bigquery_close(struct bigquery *bq)
{
    set_token(bq, NULL);
    if (bq->multi)
        curl_multi_cleanup(bq->multi);
    free(bq->url);
    free(bq->job_location);
}
