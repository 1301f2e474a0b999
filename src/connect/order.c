/*
 * The order and the messages: lengths and JSON on CONNECT_CONTROL_FD.
 *
 * Everything that leaves goes through scrub(): text of a server becomes printable UTF-8 of a
 * bounded length, and the secrets of the order, should a server repeat them, become "***".
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/json_depth.h"
#include "base/text/utf8.h"
#include "connect/internal.h"

#include "base/banned.h"

#define ORDER_DEPTH     32
#define RECEIVE_SECONDS 30 /* the broker writes the order at once */
#define SECRETS_MAX     8
#define SECRET_MIN      4 /* shorter ones are in every other word */
#define TEXT_MAX        4096
#define ROWS_DEFAULT    INT64_C(5000000)
#define BYTES_DEFAULT   (INT64_C(1) << 30)
#define MS_DEFAULT      INT64_C(300000)
#define MS_MAX          INT64_C(86400000)
#define ALARM_GRACE_US  (6 * USEC_PER_SEC) /* a driver that polls has ended by then */

static const char *const words[] = {
#define CONNECT_WORD(name, text) [CONNECT_##name] = text,
    CONNECT_WORDS(CONNECT_WORD)
#undef CONNECT_WORD
};

static char *secrets[SECRETS_MAX];
static size_t secrets_len;

/* ---- secrets ---- */

void order_secret(const char *text)
{
    if (strlen(text) >= SECRET_MIN && secrets_len < SECRETS_MAX &&
        (secrets[secrets_len] = strdup(text)))
        secrets_len++;
}

static void secret_add(const json_t *source, const char *name)
{
    const char *text = json_string_value(json_object_get(source, name));

    if (text)
        order_secret(text);
}

static void secret_hide(char *text, const char *secret)
{
    size_t len = strlen(secret);

    for (char *at = strstr(text, secret); at; at = strstr(at + 3, secret)) {
        memset(at, '*', 3); /* a secret has at least SECRET_MIN bytes */
        memmove(at + 3, at + len, strlen(at + len) + 1);
    }
}

/* A copy of @text that can be shown: no control characters but newlines and tabs, valid UTF-8, not
 * longer than TEXT_MAX, without secrets. */
static char *text_clean(const char *text)
{
    size_t used, len = strlen(text), out_len;
    char *out = malloc(3 * (len < TEXT_MAX ? len : TEXT_MAX) + 1);

    if (!out)
        return NULL;
    out_len = utf8_replace(text, len < TEXT_MAX ? len : TEXT_MAX, out,
                           3 * (len < TEXT_MAX ? len : TEXT_MAX), &used);
    out[out_len] = '\0';
    for (char *p = out; *p; p++)
        if (((unsigned char) *p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)
            *p = ' ';
    while (out_len > 0 && (out[out_len - 1] == '\n' || out[out_len - 1] == ' '))
        out[--out_len] = '\0';
    for (size_t i = 0; i < secrets_len; i++)
        secret_hide(out, secrets[i]);
    return out;
}

static json_t *scrub(const json_t *value);

static json_t *scrub_object(const json_t *object)
{
    json_t *copy = json_object(), *item;
    const char *key;

    json_object_foreach ((json_t *) object, key, item) {
        /* The token that the connector was given by the source: that is what it says. */
        bool own = strcmp(key, "token") == 0 && json_is_string(item);

        if (json_object_set_new(copy, key, own ? json_deep_copy(item) : scrub(item)) < 0)
            break;
    }
    return copy;
}

static json_t *scrub(const json_t *value)
{
    json_t *copy = NULL, *item;
    size_t i;

    if (json_is_object(value))
        return scrub_object(value);
    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach ((json_t *) value, i, item)
            (void) json_array_append_new(copy, scrub(item));
        return copy;
    }
    if (json_is_string(value)) {
        autofree char *clean = text_clean(json_string_value(value));

        return clean ? json_string(clean) : NULL;
    }
    return json_deep_copy(value);
}

/* ---- messages ---- */

static int send_text(int fd, const char *text, size_t len)
{
    uint8_t head[4] = { (uint8_t) len, (uint8_t) (len >> 8), (uint8_t) (len >> 16),
                        (uint8_t) (len >> 24) };
    int r;

    if (len > CONNECT_MESSAGE_MAX)
        return -EMSGSIZE;
    r = io_write_all(fd, head, sizeof head);
    return r < 0 ? r : io_write_all(fd, text, len);
}

/* Takes @body. */
static int message_send(const struct order *order, const char *message, json_t *body)
{
    json_t *clean = body ? scrub(body) : json_object();
    autofree char *text = NULL;
    int r;

    json_decref(body);
    if (clean && json_object_set_new(clean, "message", json_string(message)) == 0)
        text = json_dumps(clean, JSON_COMPACT);
    json_decref(clean);
    if (!text)
        return -ENOMEM;
    r = send_text(order->control_fd, text, strlen(text));
    return r;
}

int order_end(const struct order *order, json_t *done, struct driver_error *error)
{
    json_t *body;
    int r;

    if (done) {
        r = message_send(order, "done", done);
        if (r != -EMSGSIZE)
            return r;
        (void) driver_fail(error, CONNECT_TOO_LARGE,
                           "the description of the result is larger than %u bytes; select fewer "
                           "columns",
                           CONNECT_MESSAGE_MAX);
    }
    body = json_pack("{s:s, s:s}", "word", words[error->word], "text", "");
    if (body) {
        autofree char *clean = text_clean(error->text);

        (void) json_object_set_new(body, "text", json_string(clean ? clean : ""));
        if (error->estimate)
            (void) json_object_set(body, "estimate", error->estimate);
    }
    return message_send(order, "error", body);
}

/* ---- the deadline, even for what does not poll ---- */

static char last_words[512];
static size_t last_words_len;

static void on_alarm(int sig)
{
    const char *at = last_words;
    size_t left = last_words_len;

    (void) sig;
    while (left > 0) {
        ssize_t n = send(CONNECT_CONTROL_FD, at, left, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n <= 0)
            break;
        at += n;
        left -= (size_t) n;
    }
    _exit(0);
}

void order_arm(const struct order *order)
{
    static const char text[] = "{\"message\":\"error\",\"word\":\"timeout\",\"text\":\"the source "
                               "did not answer in time\"}";
    int64_t us = order->deadline_us - clock_now_us() + ALARM_GRACE_US;
    struct itimerval timer = { .it_value = { .tv_sec = us / USEC_PER_SEC,
                                             .tv_usec = us % USEC_PER_SEC } };
    struct sigaction action = { .sa_handler = on_alarm };
    size_t len = sizeof text - 1;

    last_words[0] = (char) len;
    memcpy(last_words + 4, text, len);
    last_words_len = 4 + len;
    (void) sigaction(SIGALRM, &action, NULL);
    if (us <= 0)
        timer.it_value = (struct timeval){ .tv_usec = 1 };
    (void) setitimer(ITIMER_REAL, &timer, NULL);
}

/* ---- the order ---- */

static int64_t limit_of(const json_t *limits, const char *name, int64_t otherwise, int64_t max)
{
    const json_t *value = json_object_get(limits, name);
    int64_t number = json_is_integer(value) ? json_integer_value(value) : otherwise;

    return number < 0 ? 0 : number > max ? max : number;
}

static void order_limits(struct order *order, int64_t start_us)
{
    const json_t *limits = json_object_get(order->json, "limits");
    const json_t *cost = json_object_get(limits, "cost");

    order->rows_max = limit_of(limits, "rows", ROWS_DEFAULT, INT64_MAX / 2);
    order->bytes_max = limit_of(limits, "bytes", BYTES_DEFAULT, INT64_MAX / 4);
    order->columns_max = limit_of(limits, "columns", RESULT_COLUMNS_MAX, RESULT_COLUMNS_MAX);
    order->deadline_us = start_us + limit_of(limits, "ms", MS_DEFAULT, MS_MAX) * USEC_PER_MSEC;
    order->cost_max = json_is_number(cost) ? json_number_value(cost) : -1;
}

static int check_shape(const json_t *json, struct driver_error *error)
{
    const json_t *params = json_object_get(json, "params");
    const json_t *masked = json_object_get(json, "masked");

    if (!json_is_object(json) || !json_is_object(json_object_get(json, "source")) ||
        !json_is_string(json_object_get(json, "op")))
        return driver_fail(error, CONNECT_INTERNAL, "the order has no op or source");
    if (params && !json_is_null(params) && !json_is_array(params) && !json_is_object(params))
        return driver_fail(error, CONNECT_UNSUPPORTED,
                           "params must be a list of values, or a mapping of names to values");
    if (masked && !json_is_null(masked) && !json_is_array(masked))
        return driver_fail(error, CONNECT_INTERNAL, "masked is not a list");
    if (strcmp(json_string_value(json_object_get(json, "op")), "query") == 0 &&
        !json_string_length(json_object_get(json, "sql")))
        return driver_fail(error, CONNECT_SQL, "there is no SQL to run");
    return 0;
}

/* Reads exactly @len bytes before @end_us. */
static int receive_all(int fd, char *to, size_t len, int64_t end_us)
{
    while (len > 0) {
        struct pollfd item = { .fd = fd, .events = POLLIN };
        int64_t left_us = end_us - clock_now_us();
        ssize_t n;

        if (left_us <= 0)
            return -ETIMEDOUT;
        if (poll(&item, 1, (int) (left_us / USEC_PER_MSEC) + 1) <= 0)
            continue;
        n = read(fd, to, len);
        if (n == 0)
            return -EPIPE;
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        if (n > 0) {
            to += n;
            len -= (size_t) n;
        }
    }
    return 0;
}

/* The broker's word that the estimate is fine: one frame, or the end of the socket. What it says is
 * not looked at, for a broker that does not want the query hangs up. */
static void wait_for_go(const struct order *order)
{
    uint8_t head[4];
    char text[256];
    size_t len;

    if (receive_all(order->control_fd, (char *) head, sizeof head, order->deadline_us) < 0)
        return;
    len = (size_t) head[0] | (size_t) head[1] << 8;
    if (len <= sizeof text && !head[2] && !head[3])
        (void) receive_all(order->control_fd, text, len, order->deadline_us);
}

void order_tell(const struct order *order, const char *message, json_t *body)
{
    if (message_send(order, message, body) < 0)
        return; /* a broker that left shows at the next poll */
    if (strcmp(message, "estimate") == 0 && json_is_true(json_object_get(order->json, "confirm")))
        wait_for_go(order);
}

bool order_cancelled(const struct order *order)
{
    struct pollfd item = { .fd = order->control_fd, .events = POLLIN };

    return poll(&item, 1, 0) > 0;
}

static json_t *order_parse(const char *text, size_t len, struct driver_error *error)
{
    json_error_t why;
    json_t *json;

    if (json_too_deep(text, len, ORDER_DEPTH)) {
        (void) driver_fail(error, CONNECT_UNSUPPORTED, "params are nested deeper than %d levels",
                           ORDER_DEPTH);
        return NULL;
    }
    json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (json)
        return json;
    if (json_error_code(&why) == json_error_null_character)
        (void) driver_fail(error, CONNECT_UNSUPPORTED,
                           "the statement or a parameter has a NUL character, which no source "
                           "accepts in text");
    else
        (void) driver_fail(error, CONNECT_INTERNAL, "the order is not JSON");
    return NULL;
}

static int order_read(int fd, json_t **ret_json, struct driver_error *error)
{
    int64_t end_us = clock_now_us() + RECEIVE_SECONDS * USEC_PER_SEC;
    autofree char *text = NULL;
    uint8_t head[4];
    size_t len;
    int r = receive_all(fd, (char *) head, sizeof head, end_us);

    if (r < 0)
        return r;
    len =
        (size_t) head[0] | (size_t) head[1] << 8 | (size_t) head[2] << 16 | (size_t) head[3] << 24;
    if (len > CONNECT_ORDER_MAX) {
        (void) driver_fail(error, CONNECT_UNSUPPORTED,
                           "the statement and its parameters are larger than %u bytes",
                           CONNECT_ORDER_MAX);
        return 0;
    }
    text = malloc(len + 1);
    if (!text)
        return -ENOMEM;
    r = receive_all(fd, text, len, end_us);
    if (r == 0)
        *ret_json = order_parse(text, len, error);
    explicit_bzero(text, len);
    return r;
}

int order_receive(struct order *order, json_t **ret_json, struct driver_error *error)
{
    static const char *const secret_names[] = { "password", "token", "assertion" };
    int64_t start_us = clock_now_us();
    json_t *json = NULL;
    int r = order_read(order->control_fd, &json, error);

    if (r < 0)
        return -EPIPE;
    if (!json)
        return -EINVAL;
    *ret_json = json;
    order->json = json;
    if (check_shape(json, error) < 0)
        return -EINVAL;
    for (size_t i = 0; i < ARRAY_LEN(secret_names); i++)
        secret_add(json_object_get(json, "source"), secret_names[i]);
    order_limits(order, start_us);
    return 0;
}

void order_forget(json_t *json)
{
    for (size_t i = 0; i < secrets_len; i++) {
        explicit_bzero(secrets[i], strlen(secrets[i]));
        free(secrets[i]);
    }
    secrets_len = 0;
    json_decref(json);
}
