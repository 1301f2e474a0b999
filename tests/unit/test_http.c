/*
 * The HTTP layer over a fake service, through raw sockets: framing, who may come in, bodies,
 * replies, streams, files, deadlines.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/io.h"
#include "base/log.h"
#include "fake_service.h"
#include "server/server.h"

#include "base/banned.h"

#define REPLY_MAX (8 * 1024 * 1024)

static struct service *service;
static struct server *server;
static char socket_path[64], unix_listen[80];
static int port, locked_port, hasty_port;
static char reply[REPLY_MAX + 1];
static size_t reply_len;

/* ---- a client ---- */

static int dial(int to)
{
    struct sockaddr_in addr = { .sin_family = AF_INET,
                                .sin_port = htons((uint16_t) to),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *) &addr, sizeof addr), 0);
    return fd;
}

static void read_to_end(int fd)
{
    reply_len = 0;
    for (;;) {
        struct pollfd p = { fd, POLLIN, 0 };
        ssize_t n;

        assert_int_equal(poll(&p, 1, 120000), 1); /* a hang is a failure */
        n = read(fd, reply + reply_len, REPLY_MAX - reply_len);
        if (n <= 0)
            break;
        reply_len += (size_t) n;
    }
    reply[reply_len] = '\0';
}

/* Reads until @text was seen. */
static void read_until(int fd, const char *text)
{
    reply_len = 0;
    reply[0] = '\0';
    while (!strstr(reply, text)) {
        struct pollfd p = { fd, POLLIN, 0 };
        ssize_t n;

        assert_int_equal(poll(&p, 1, 120000), 1);
        n = read(fd, reply + reply_len, REPLY_MAX - reply_len);
        if (n <= 0)
            fail_msg("the stream ended before '%s': %s", text, reply);
        reply_len += (size_t) n;
        reply[reply_len] = '\0';
    }
}

static int status_of(void)
{
    int status = 0;

    (void) sscanf(reply, "HTTP/1.%*d %d", &status);
    return status;
}

static int send_bytes(int to, const char *data, size_t len)
{
    int fd = dial(to);

    /* A server that has seen enough may close while we write. */
    (void) io_write_all(fd, data, len);
    read_to_end(fd);
    close(fd);
    return status_of();
}

static int send_raw(const char *text)
{
    return send_bytes(port, text, strlen(text));
}

/* A request of one line, headers and a body. */
static int ask(const char *line, const char *headers, const char *body)
{
    char text[65536];

    snprintf(
        text, sizeof text,
        "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n%s",
        line, strlen(body), headers, body);
    return send_raw(text);
}

static const char *body_of(void)
{
    const char *body = strstr(reply, "\r\n\r\n");

    return body ? body + 4 : "";
}

static bool has(const char *text)
{
    return strcasestr(reply, text) != NULL;
}

/* The reply is a problem of this status that says what to change. */
static void assert_problem(int status)
{
    json_t *json;

    assert_int_equal(status_of(), status);
    assert_true(has("Content-Type: application/problem+json"));
    assert_true(has("X-Request-Id: req_"));
    json = json_loads(body_of(), 0, NULL);
    assert_non_null(json);
    assert_int_equal(json_integer_value(json_object_get(json, "status")), status);
    assert_true(json_string_length(json_object_get(json, "detail")) > 0);
    assert_true(json_string_length(json_object_get(json, "title")) > 0);
    assert_true(json_string_length(json_object_get(json, "type")) > 0);
    if (status == 422)
        assert_true(json_array_size(json_object_get(json, "errors")) > 0);
    json_decref(json);
}

static void make_session(char id[32])
{
    json_t *json;

    assert_int_equal(ask("POST /v1/sessions", "", ""), 201);
    json = json_loads(body_of(), 0, NULL);
    snprintf(id, 32, "%s", json_string_value(json_object_get(json, "session_id")));
    json_decref(json);
}

static void end_session(const char *id)
{
    char line[128];

    snprintf(line, sizeof line, "DELETE /v1/sessions/%s", id);
    assert_int_equal(ask(line, "", ""), 204);
}

/* ---- framing ---- */

static void test_framing(void **state)
{
    static const struct {
        const char *text;
        int status; /* 0: the library's own page, or a closed connection; never 5xx */
    } cases[] = {
        { "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200 },
        { "GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n", 200 },
        { "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", 0 },
        { "GET /health HTTP/1.0\r\n\r\n", 400 },
        { "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400 },
        { "GET /health HTTP/1.1\r\nHost:\r\n\r\n", 400 },
        { "GET /health HTTP/1.1\r\nHost: a b\r\n\r\n", 0 },
        { "GET /health HTTP/1.1\r\nHost: localhost:x\r\n\r\n", 400 },
        { "POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
          "Content-Length: 2\r\n\r\n{}",
          400 },
        { "POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
          "Content-Length: 40\r\n\r\n{}",
          400 },
        { "POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
          "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          400 },
        { "POST /execute HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 400 },
        { "POST /execute HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
          "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          400 },
        { "POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 0 },
        { "POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2x\r\n\r\n{}", 0 },
        { "POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: +2\r\n\r\n{}", 0 },
        { "GET  HTTP/1.1\r\nHost: localhost\r\n\r\n", 0 },
        { "\r\n\r\n\r\n\x01\x02\x03", 0 },
        { "GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", 0 },
        { "GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
          400 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = dial(port);

        (void) io_write_all(fd, cases[i].text, strlen(cases[i].text));
        shutdown(fd, SHUT_WR); /* a half-closed client still gets its answer */
        read_to_end(fd);
        close(fd);
        if (cases[i].status == 400)
            assert_problem(400);
        else if (cases[i].status)
            assert_int_equal(status_of(), cases[i].status);
        else /* 505 is the library's word for a version that is none */
            assert_true(status_of() < 500 || status_of() == 505);
    }
}

static void test_bad_urls(void **state)
{
    static const char *const bad[] = {
        "/%00", "/a/../b", "/v1/%2e%2e/x", "/%zz", "/\xff\xfe", "//"
    };
    char *line = malloc(6000);

    (void) state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(line, 6000, "GET %s", bad[i]);
        (void) ask(line, "", "");
        assert_problem(400);
    }
    memset(line, 'a', 5005);
    memcpy(line, "GET /", 5);
    line[5005] = '\0';
    (void) ask(line, "", "");
    assert_problem(414);
    free(line);
}

static void test_pipelined(void **state)
{
    static const char two[] =
        "POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n"
        "\r\n{\"code\": \"echo one\"}"
        "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
        "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    const char *one;

    (void) state;
    assert_int_equal(send_raw(two), 200);
    one = strstr(reply, "\"stdout\":\"one\"");
    assert_non_null(one);
    one = strstr(one, "healthy");
    assert_non_null(one);
    one = strstr(one, "no-such-route");
    assert_non_null(one);
    assert_non_null(strstr(one, "\"ready\":true"));
}

static void test_slow_header(void **state)
{
    static const char slow[] =
        "GET /health HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    int fd = dial(hasty_port);

    (void) state;
    /* A few bytes a second: the server's deadline for headers is two. */
    for (size_t i = 0; i < sizeof slow; i++) {
        struct pollfd p = { fd, POLLIN | POLLRDHUP, 0 };

        if (send(fd, slow + i, 1, MSG_NOSIGNAL) < 0 || poll(&p, 1, 300) == 1)
            break;
        assert_true(i < sizeof slow - 2);
    }
    close(fd);
}

static void test_slow_body(void **state)
{
    static const char head[] =
        "POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n";
    int fd = dial(hasty_port), i;

    (void) state;
    (void) io_write_all(fd, head, strlen(head)); /* we may be too slow for that already */
    for (i = 0; i < 60; i++) {
        struct pollfd p = { fd, POLLIN | POLLRDHUP, 0 };

        if (send(fd, "x", 1, MSG_NOSIGNAL) < 0 || poll(&p, 1, 300) == 1)
            break;
    }
    assert_true(i < 60);
    close(fd);
}

/* ---- who may come in ---- */

static void test_gate(void **state)
{
    static const struct {
        const char *host, *headers;
        int status;
    } cases[] = {
        { "localhost", "", 200 },
        { "LOCALHOST:99", "", 200 },
        { "127.0.0.1", "", 200 },
        { "[::1]:80", "", 200 },
        { "box.example", "", 200 }, /* --allowed-host */
        { "evil.example", "", 421 },
        { "127.0.0.1.evil.example", "", 421 },
        { "localhost.evil.example", "", 421 },
        { "8.8.8.8", "", 421 },
        { "localhost:80", "Origin: http://localhost:80\r\n", 200 },
        { "localhost:80", "Origin: https://localhost:80\r\n", 200 },
        { "localhost:80", "Origin: http://localhost:81\r\n", 403 },
        { "localhost:80", "Origin: http://evil.example\r\n", 403 },
        { "localhost:80", "Origin: null\r\n", 403 },
        { "localhost", "Sec-Fetch-Site: cross-site\r\n", 403 },
        { "localhost", "Sec-Fetch-Site: same-site\r\n", 403 },
        { "localhost", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", 403 },
        { "localhost", "Sec-Fetch-Site: same-origin\r\n", 200 },
        { "localhost", "Sec-Fetch-Site: none\r\n", 200 },
    };
    char text[512];

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text,
                 "GET /v1/sessions HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n",
                 cases[i].host, cases[i].headers);
        assert_int_equal(send_raw(text), cases[i].status);
        if (cases[i].status >= 400)
            assert_problem(cases[i].status);
    }
    /* A link on another site may lead to the docs, but nowhere else. */
    assert_int_equal(
        ask("GET /docs", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", ""), 200);
}

static void test_keys(void **state)
{
    static const struct {
        const char *headers;
        int status;
    } cases[] = {
        { "", 401 },
        { "Authorization: Bearer " FAKE_KEY "\r\n", 200 },
        { "authorization: bearer   " FAKE_KEY "\r\n", 200 },
        { "X-API-Key: " FAKE_KEY "\r\n", 200 },
        { "X-API-Key: wrong\r\n", 401 },
        { "Authorization: Basic " FAKE_KEY "\r\n", 401 },
        { "Authorization: Bearer \r\n", 401 },
        { "Authorization: Bearer a\r\nAuthorization: Bearer " FAKE_KEY "\r\n", 400 },
    };
    char text[512];

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text,
                 "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n",
                 cases[i].headers);
        assert_int_equal(send_bytes(locked_port, text, strlen(text)), cases[i].status);
        if (cases[i].status >= 400)
            assert_problem(cases[i].status);
        if (cases[i].status == 401)
            assert_true(has("WWW-Authenticate: Bearer"));
    }
    /* Open without a key even here; and a key that is wrong is refused even where none is needed.
     */
    snprintf(text, sizeof text,
             "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_int_equal(send_bytes(locked_port, text, strlen(text)), 200);
    assert_int_equal(ask("GET /v1/sessions", "X-API-Key: wrong\r\n", ""), 401);
}

/* This server has no Mark: its routes say so to everybody, and a token of it is a key that nobody
 * knows. */
static void test_mark_off(void **state)
{
    static const char *const lines[] = { "POST /auth/signup",  "POST /auth/signin",
                                         "POST /auth/refresh", "POST /auth/signout",
                                         "GET /auth/me",       "PATCH /auth/me",
                                         "DELETE /auth/me",    "GET /admin/v1/overview" };

    (void) state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(ask(lines[i], "X-API-Key: " FAKE_KEY "\r\n", "{}"), 404);
        assert_problem(404);
        assert_true(has("mark-off"));
    }
    assert_int_equal(ask("GET /v1/sessions", "Authorization: Bearer eyJ.eyJ.x\r\n", ""), 401);
    assert_true(has("key-unknown"));
}

static void test_ownership(void **state)
{
    char id[32], line[128];

    (void) state;
    make_session(id);
    snprintf(line, sizeof line, "GET /v1/sessions/%s", id);
    assert_int_equal(ask(line, "", ""), 200);
    assert_int_equal(ask(line, "X-API-Key: " FAKE_KEY "\r\n", ""), 404);
    end_session(id);
    assert_int_equal(ask(line, "", ""), 404);
}

/* ---- bodies ---- */

static void test_bodies(void **state)
{
    static const struct {
        const char *body;
        int status;
    } cases[] = {
        { "{\"code\": \"echo hi\"}", 200 },
        { "{\"code\": \"echo hi\", \"timeout\": 5}", 200 },
        { "", 422 },
        { "{}", 422 },
        { "nonsense", 400 },
        { "{\"code\": \"x\"", 400 },
        { "{\"code\": \"x\"} trailing", 400 },
        { "{\"code\": \"\xff\"}", 400 },
        { "{\"code\": \"a\\u0000b\"}", 422 },
        { "{\"code\": \"a\", \"code\": \"b\"}", 400 },
        { "{\"code\": 5}", 422 },
        { "{\"code\": \"x\", \"timeout\": \"5\"}", 422 },
        { "{\"code\": \"x\", \"timeout\": 1e9}", 422 },
        { "{\"code\": \"x\", \"limits\": {\"memory\": \"9t\"}}", 422 },
        { "{\"code\": \"x\", \"timeout\": 5, \"colour\": \"red\"}", 422 },
        { "[]", 422 },
        { "null", 422 },
        { "{\"code\": \"fault 429\"}", 429 },
        { "{\"code\": \"fault 503\"}", 503 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ask("POST /v1/execute",
                             "Content-Type: application/x-www-form-urlencoded\r\n", cases[i].body),
                         cases[i].status);
        if (cases[i].status != 200)
            assert_problem(cases[i].status);
    }
    /* The simple API ignores what it does not know, and gives less time. */
    assert_int_equal(ask("POST /execute", "", "{\"code\": \"echo hi\", \"colour\": \"red\"}"), 200);
    assert_true(has("\"stdout\":\"hi\""));
    assert_int_equal(ask("POST /execute", "", "{\"code\": \"echo hi\", \"timeout\": 121}"), 422);
    assert_int_equal(ask("POST /execute/", "", "{\"code\": \"echo hi\", \"session_id\": \"no\"}"),
                     404);
}

static void test_deep_json(void **state)
{
    char *body = malloc(40001);

    (void) state;
    memset(body, '[', 40000);
    body[40000] = '\0';
    (void) ask("POST /v1/execute", "", body);
    assert_problem(400);
    free(body);
}

static void test_large_bodies(void **state)
{
    size_t len = 30 * 1024 * 1024;
    char *text = malloc(len + 4096);
    int head;

    (void) state;
    /* Announced: read, thrown away, answered. */
    head = snprintf(text, 4096,
                    "POST /v1/execute HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    "Content-Length: %zu\r\n\r\n",
                    len);
    memset(text + head, 'x', len);
    (void) send_bytes(port, text, (size_t) head + len);
    assert_problem(413);
    /* In one chunk, unannounced. */
    head = snprintf(text, 4096,
                    "POST /v1/execute HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n%zx\r\n",
                    len);
    memset(text + head, 'x', len);
    memcpy(text + head + len, "\r\n0\r\n\r\n", 7);
    (void) send_bytes(port, text, (size_t) head + len + 7);
    assert_problem(413);
    free(text);
    /* Announced and far too large, or waited with: answered at once. */
    assert_int_equal(send_raw("POST /v1/execute HTTP/1.1\r\nHost: localhost\r\n"
                              "Content-Length: 99999999999\r\n\r\n"),
                     413);
    assert_int_equal(send_raw("POST /v1/execute HTTP/1.1\r\nHost: localhost\r\n"
                              "Content-Length: 50000000\r\nExpect: 100-continue\r\n\r\n"),
                     413);
}

static void test_methods(void **state)
{
    (void) state;
    assert_int_equal(ask("PUT /v1/sessions", "", ""), 405);
    assert_true(has("Allow: GET, HEAD, POST, OPTIONS"));
    assert_problem(405);
    assert_int_equal(ask("BREW /health", "", ""), 405);
    assert_int_equal(ask("OPTIONS /v1/sessions", "", ""), 204);
    assert_true(has("Allow: GET, HEAD, POST, OPTIONS"));
    assert_int_equal(ask("HEAD /health", "", ""), 200);
    assert_string_equal(body_of(), "");
    assert_int_equal(ask("GET /nothing/here", "", ""), 404);
    assert_problem(404);
    assert_int_equal(ask("GET /v1/sessions/", "", ""), 200);
    assert_int_equal(ask("GET /v1/sessions?limit=0", "", ""), 422);
    assert_int_equal(ask("GET /v1/sessions?nonsense=1", "", ""), 422);
}

static void test_about(void **state)
{
    json_t *json;

    (void) state;
    assert_int_equal(ask("GET /", "", ""), 200);
    assert_true(has("Code execution sandbox is running"));
    assert_int_equal(ask("GET /", "Accept: text/html,*/*;q=0.8\r\n", ""), 200);
    assert_true(has("<title>Glovebox</title>"));
    assert_int_equal(ask("GET /docs", "", ""), 200);
    assert_true(has("Content-Security-Policy: default-src 'none'; script-src 'self';"));
    assert_true(has("id=\"v1_execute\""));
    assert_false(has("<!--DOCS-->"));
    assert_int_equal(ask("GET /metrics", "", ""), 200);
    assert_true(has("sandbox_executions_total{status=\"ok\"}"));
    assert_int_equal(ask("GET /v1/limits", "", ""), 200);
    assert_int_equal(ask("GET /v1/stats", "", ""), 200);
    assert_true(has("by_status"));
    assert_int_equal(ask("GET /openapi.json", "", ""), 200);
    assert_true(has("session-expired") && has("out-of-memory")); /* the problem types */
    json = json_loads(body_of(), 0, NULL);
    assert_non_null(json);
    assert_true(json_object_size(json_object_get(json, "paths")) > 15);
    json_decref(json);
}

/* ---- sessions and executions ---- */

static void test_sessions(void **state)
{
    char ids[8][32], line[128];

    (void) state;
    for (int i = 0; i < 8; i++)
        make_session(ids[i]);
    assert_true(has("Location: /v1/sessions/"));
    assert_int_equal(ask("POST /v1/sessions", "", "{}"), 429);
    assert_true(has("Retry-After: 7"));
    assert_int_equal(ask("GET /v1/sessions?limit=3", "", ""), 200);
    assert_true(has("\"more\":true"));
    for (int i = 0; i < 8; i++)
        end_session(ids[i]);
    assert_int_equal(ask("POST /v1/sessions", "",
                         "{\"files\": [{\"path\": \"a.txt\", \"base64\": \"aGVsbG8=\"}]}"),
                     201);
    snprintf(line, sizeof line, "GET /v1/sessions/%s/files/a.txt", ids[0]);
    assert_int_equal(ask(line, "", ""), 200);
    assert_string_equal(body_of(), "hello");
    end_session(ids[0]);
    assert_int_equal(ask("POST /v1/sessions", "", "{\"files\": [{\"path\": \"a\"}]}"), 422);
    assert_int_equal(
        ask("POST /v1/sessions", "", "{\"files\": [{\"path\": \"a\", \"base64\": \"***\"}]}"), 422);
    assert_int_equal(ask("POST /v1/sessions", "", "{\"idle_timeout\": \"x\"}"), 422);
    /* A session whose files were refused is not left behind. */
    assert_int_equal(ask("GET /v1/sessions", "", ""), 200);
    assert_true(has("\"sessions\":[]"));
}

static void test_looks(void **state)
{
    static const struct {
        const char *body;
        int status;
    } cases[] = {
        { "{\"code\": \"a.b\", \"cursor\": 2}", 200 },
        { "{\"code\": \"\"}", 200 },
        { "{}", 422 },
        { "", 422 },
        { "nonsense", 400 },
        { "{\"code\": 5}", 422 },
        { "{\"code\": \"a\\u0000b\"}", 422 },
        { "{\"code\": \"a\", \"cursor\": -1}", 422 },
        { "{\"code\": \"a\", \"cursor\": 1.5}", 422 },
        { "{\"code\": \"a\", \"cursor\": \"1\"}", 422 },
        { "{\"code\": \"a\", \"cursor\": 262145}", 422 },
        { "{\"code\": \"a\", \"colour\": \"red\"}", 422 },
    };
    char id[32], line[128];

    (void) state;
    make_session(id);
    for (int inspects = 0; inspects < 2; inspects++) {
        snprintf(line, sizeof line, "POST /v1/sessions/%s/%s", id,
                 inspects ? "inspect" : "complete");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            assert_int_equal(ask(line, "", cases[i].body), cases[i].status);
            if (cases[i].status != 200)
                assert_problem(cases[i].status);
        }
        assert_int_equal(ask(line, "", cases[0].body), 200);
        assert_true(has(inspects ? "\"op\":\"inspect\"" : "\"op\":\"complete\""));
        assert_true(has("\"code\":\"a.b\",\"cursor\":2"));
        assert_int_equal(ask(line, "", cases[1].body), 200);
        assert_true(has("\"cursor\":-1")); /* at the end */
    }
    snprintf(line, sizeof line, "GET /v1/sessions/%s/variables", id);
    assert_int_equal(ask(line, "", ""), 200);
    assert_true(has("\"op\":\"variables\""));
    assert_int_equal(ask("GET /v1/sessions/ses_no/variables", "", ""), 404);
    end_session(id);
}

static void test_shares(void **state)
{
    (void) state;
    assert_int_equal(ask("POST /v1/shares", "", "{\"notebook\": {}, \"title\": \"A\"}"), 201);
    assert_true(has("\"title\":\"A\",\"notebook\":{}"));
    assert_int_equal(ask("POST /v1/shares", "", "{\"notebook\": {}}"), 201);
    assert_true(has("\"title\":\"Untitled notebook\""));
    assert_int_equal(ask("POST /v1/shares", "", "{\"notebook\": []}"), 422);
    assert_int_equal(ask("POST /v1/shares", "", "{\"notebook\": {}, \"title\": 5}"), 422);
    assert_int_equal(ask("POST /v1/shares", "", "{\"title\": \"A\"}"), 422);
    assert_int_equal(ask("GET /v1/shares", "", ""), 200);
    assert_int_equal(ask("GET /v1/shares/shr_1", "", ""), 200);
    assert_string_equal(body_of(), "{}");
    assert_int_equal(ask("GET /v1/shares/shr_2", "", ""), 404);
    assert_problem(404);
    assert_int_equal(ask("DELETE /v1/shares/shr_1", "", ""), 204);
    assert_int_equal(ask("DELETE /v1/shares/shr_2", "", ""), 404);
}

static void test_detach_and_output(void **state)
{
    char line[128], id[64];
    json_t *json;

    (void) state;
    assert_int_equal(
        ask("POST /v1/execute", "", "{\"code\": \"echo gr\xc3\xbc\xc3\x9f\", \"detach\": true}"),
        202);
    json = json_loads(body_of(), 0, NULL);
    snprintf(id, sizeof id, "%s", json_string_value(json_object_get(json, "execution_id")));
    json_decref(json);
    snprintf(line, sizeof line, "GET /v1/executions/%s?wait=5", id);
    assert_int_equal(ask(line, "", ""), 200);
    assert_true(has("gr\xc3\xbc\xc3\x9f"));
    /* The page ends inside of a character, which is left for the next. */
    snprintf(line, sizeof line, "GET /v1/executions/%s/output?offset=0&limit=5", id);
    assert_int_equal(ask(line, "", ""), 200);
    assert_true(has("\"text\":\"gr\xc3\xbc\"") && has("\"next\":4"));
    snprintf(line, sizeof line, "GET /v1/executions/%s/output?offset=4", id);
    assert_int_equal(ask(line, "", ""), 200);
    assert_true(has("\"text\":\"\xc3\x9f\"") && has("\"done\":true"));
    snprintf(line, sizeof line, "GET /v1/executions/%s/output?stream=nope", id);
    assert_int_equal(ask(line, "", ""), 422);
    assert_int_equal(ask("GET /v1/executions/none", "", ""), 404);
}

/* ---- streams ---- */

static int open_stream(const char *accept, const char *body)
{
    int fd = dial(port);
    char text[512];

    snprintf(text, sizeof text,
             "POST /v1/execute HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             accept, strlen(body), body);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    return fd;
}

static void test_sse(void **state)
{
    int fd = open_stream("text/event-stream", "{\"code\": \"ticks 2\"}"), again;
    char request[256], id[64];

    (void) state;
    read_until(fd, "event: start");
    assert_true(has("Content-Type: text/event-stream"));
    assert_int_equal(
        sscanf(strstr(reply, "\"execution_id\":\""), "\"execution_id\":\"%63[^\"]", id), 1);
    fake_tick(service);
    read_until(fd, "tick"); /* while it runs */
    read_until(fd, ": keep-alive");
    /* A second reader comes, from where the first is. */
    again = dial(port);
    snprintf(request, sizeof request,
             "GET /v1/executions/%s/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 5-0-0\r\n"
             "Connection: close\r\n\r\n",
             id);
    assert_int_equal(io_write_all(again, request, strlen(request)), 0);
    read_until(again, "event: start");
    fake_tick(service);
    read_until(fd, "event: receipt");
    close(fd);
    read_to_end(again);
    close(again);
    assert_true(has("\"offset\":5") && has("event: receipt"));
    assert_false(has("\"offset\":0"));
    assert_int_equal(fake_interrupts(service), 0);
}

static void test_ndjson(void **state)
{
    int fd = open_stream("application/x-ndjson", "{\"code\": \"echo hi\"}");

    (void) state;
    read_until(fd, "\"event\":\"receipt\"");
    assert_true(has("application/x-ndjson"));
    assert_true(has("{\"event\":\"stdout\",\"data\":{\"text\":\"hi\",\"offset\":0,\"next\":2}}\n"));
    close(fd);
}

static void test_leaving(void **state)
{
    int before = fake_executions(service), fd;

    (void) state;
    /* Half-closed: it still reads. */
    fd = open_stream("text/event-stream", "{\"code\": \"wait\"}");
    read_until(fd, "event: start");
    shutdown(fd, SHUT_WR);
    read_until(fd, ": keep-alive");
    read_until(fd, ": keep-alive");
    close(fd);
    assert_int_equal(fake_interrupts(service), 0);
    /* Gone, and had asked for that. */
    fd = open_stream("text/event-stream", "{\"code\": \"wait\", \"cancel_on_disconnect\": true}");
    read_until(fd, "event: start");
    close(fd);
    assert_true(fake_wait_interrupt(service));
    assert_int_equal(fake_interrupts(service), 1);
    assert_int_equal(fake_executions(service), before + 2);
}

/* ---- files ---- */

static void test_put_and_get(void **state)
{
    char id[32], line[128];

    (void) state;
    make_session(id);
    snprintf(line, sizeof line, "PUT /v1/sessions/%s/files/a%%20b.txt", id);
    assert_int_equal(ask(line, "", "0123456789"), 201);
    assert_int_equal(ask(line, "", "0123456789"), 200);
    assert_int_equal(ask(line, "", "FULL"), 413);
    snprintf(line, sizeof line, "GET /v1/sessions/%s/files/a%%20b.txt", id);
    assert_int_equal(ask(line, "", ""), 200);
    assert_string_equal(body_of(), "0123456789"); /* the refused one did not replace it */
    assert_true(has("Content-Disposition: attachment; filename*=UTF-8''a%20b.txt"));
    assert_true(has("ETag: \"e10\""));
    assert_int_equal(ask(line, "If-None-Match: \"e10\"\r\n", ""), 304);
    assert_int_equal(ask(line, "Range: bytes=2-4\r\n", ""), 206);
    assert_string_equal(body_of(), "234");
    assert_true(has("Content-Range: bytes 2-4/10"));
    assert_int_equal(ask(line, "Range: bytes=-2\r\n", ""), 206);
    assert_string_equal(body_of(), "89");
    assert_int_equal(ask(line, "Range: bytes=10-\r\n", ""), 416);
    assert_true(has("Content-Range: bytes */10"));
    assert_int_equal(ask(line, "Range: bytes=2-4\r\nIf-Range: \"other\"\r\n", ""), 200);
    snprintf(line, sizeof line, "HEAD /v1/sessions/%s/files/a%%20b.txt", id);
    assert_int_equal(ask(line, "", ""), 200);
    assert_true(has("Content-Length: 10"));
    snprintf(line, sizeof line, "DELETE /v1/sessions/%s/files/a%%20b.txt", id);
    assert_int_equal(ask(line, "", ""), 204);
    assert_int_equal(ask(line, "", ""), 404);
    snprintf(line, sizeof line, "PUT /v1/sessions/%s/files/empty", id);
    assert_int_equal(ask(line, "", ""), 201);
    snprintf(line, sizeof line, "GET /v1/sessions/%s/files/empty", id);
    assert_int_equal(ask(line, "", ""), 200);
    assert_int_equal(ask("PUT /v1/sessions/none/files/x", "", "abc"), 404);
    end_session(id);
}

static int post_parts(const char *id, const char *type, const char *body)
{
    char line[128], headers[256];

    snprintf(line, sizeof line, "POST /v1/sessions/%s/files", id);
    snprintf(headers, sizeof headers, "Content-Type: %s\r\n", type);
    return ask(line, headers, body);
}

#define PART(name, text)                                                                           \
    "--bound12\r\nContent-Disposition: form-data; name=\"file\"" name                              \
    "\r\nContent-Type: text/plain\r\n\r\n" text "\r\n"

static void test_multipart(void **state)
{
    static const char type[] = "multipart/form-data; boundary=bound12";
    char id[32], line[128];

    (void) state;
    make_session(id);
    assert_int_equal(post_parts(id, type,
                                PART("; filename=\"one\"", "1") PART("; filename=\"two\"", "2\r\n2")
                                    PART("; filename=\"none\"", "") "--bound12--\r\n"),
                     201);
    assert_true(has("\"path\":\"one\"") && has("\"path\":\"two\"") && has("\"path\":\"none\""));
    snprintf(line, sizeof line, "GET /v1/sessions/%s/files/two", id);
    assert_int_equal(ask(line, "", ""), 200);
    assert_string_equal(body_of(), "2\r\n2");
    /* Broken off: what was whole is there, the rest is not. */
    assert_int_equal(
        post_parts(id, type, PART("; filename=\"three\"", "3") "--bound12\r\nContent-Dis"), 400);
    assert_problem(400);
    assert_int_equal(post_parts(id, type, ""), 400);
    assert_int_equal(post_parts(id, type, "no parts at all"), 400);
    assert_int_equal(post_parts(id, type, PART("", "1") "--bound12--\r\n"), 422);
    assert_int_equal(post_parts(id, type, PART("; filename=\"../x\"", "1") "--bound12--\r\n"), 400);
    assert_int_equal(post_parts(id, type, PART("; filename=\"\xff\"", "1") "--bound12--\r\n"), 400);
    assert_int_equal(post_parts(id, type, PART("; filename=\"big\"", "FULL") "--bound12--\r\n"),
                     413);
    assert_int_equal(post_parts(id, "multipart/form-data", "x"), 400);
    assert_int_equal(post_parts(id, "text/plain", "x"), 415);
    assert_int_equal(post_parts("none", type, PART("; filename=\"one\"", "1") "--bound12--\r\n"),
                     404);
    end_session(id);
}

/* In chunks of one byte: no border may fall where the parser does not expect it. */
static void test_multipart_bytewise(void **state)
{
    static const char body[] = PART("; filename=\"one\"", "1\r\n-") PART("; filename=\"two\"", "")
        PART("; filename=\"three\"", "333") "--bound12--\r\n";
    char id[32], *text = malloc(8 * sizeof body + 512);
    size_t used;

    (void) state;
    make_session(id);
    used = (size_t) snprintf(text, 512,
                             "POST /v1/sessions/%s/files HTTP/1.1\r\nHost: localhost\r\n"
                             "Content-Type: multipart/form-data; boundary=bound12\r\n"
                             "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
                             id);
    for (size_t i = 0; i < sizeof body - 1; i++) {
        memcpy(text + used, "1\r\nX\r\n", 6);
        text[used + 3] = body[i];
        used += 6;
    }
    memcpy(text + used, "0\r\n\r\n", 5);
    assert_int_equal(send_bytes(port, text, used + 5), 201);
    assert_true(has("{\"files\":[{\"path\":\"one\",\"kind\":\"file\",\"size\":4},"
                    "{\"path\":\"two\",\"kind\":\"file\",\"size\":0},"
                    "{\"path\":\"three\",\"kind\":\"file\",\"size\":3}]}"));
    end_session(id);
    free(text);
}

static void test_archive(void **state)
{
    char id[32], line[128], text[256];
    int fd;

    (void) state;
    make_session(id);
    snprintf(line, sizeof line, "GET /v1/sessions/%s/archive", id);
    assert_int_equal(ask(line, "", ""), 200);
    assert_true(reply_len > 4 * 1024 * 1024 && has("application/gzip"));
    snprintf(line, sizeof line, "GET /v1/sessions/%s/archive?dir=none", id);
    assert_int_equal(ask(line, "", ""), 404);
    snprintf(line, sizeof line, "GET /v1/sessions/%s/archive?dir=breaks", id);
    assert_int_equal(ask(line, "", ""), 200);
    assert_null(strstr(reply + reply_len - 8, "0\r\n\r\n")); /* visibly incomplete */
    /* A client that leaves in the middle. */
    fd = dial(port);
    snprintf(text, sizeof text, "GET /v1/sessions/%s/archive HTTP/1.1\r\nHost: localhost\r\n\r\n",
             id);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    read_until(fd, "zzzz");
    close(fd);
    end_session(id);
}

static void test_unix_socket(void **state)
{
    static const char text[] =
        "GET /health HTTP/1.1\r\nHost: whatever\r\nConnection: close\r\n\r\n";
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un addr = { .sun_family = AF_UNIX };

    (void) state;
    memcpy(addr.sun_path, socket_path, sizeof socket_path);
    assert_int_equal(connect(fd, (struct sockaddr *) &addr, sizeof addr), 0);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    read_to_end(fd);
    close(fd);
    assert_int_equal(status_of(), 200);
}

/* ---- many at once: for the thread sanitizer ---- */

static void *client_main(void *arg)
{
    static const char text[] = "POST /v1/execute HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Length: 19\r\n\r\n{\"code\": \"echo hi\"}";
    int fd = dial(port);
    char buf[4096];

    for (int i = 0; i < 5; i++) {
        size_t len = 0;

        if (io_write_all(fd, text, strlen(text)) < 0)
            break;
        do {
            ssize_t n = read(fd, buf + len, sizeof buf - 1 - len);

            if (n <= 0)
                break;
            len += (size_t) n;
            buf[len] = '\0';
        } while (!strstr(buf, "\"stdout\":\"hi\""));
        *(int *) arg += strstr(buf, "\"stdout\":\"hi\"") != NULL;
    }
    close(fd);
    return NULL;
}

static void test_many(void **state)
{
    pthread_t threads[6];
    int good[6] = { 0 };

    (void) state;
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, client_main, &good[i]), 0);
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(good[i], 5);
    }
}

static void test_check(void **state)
{
    static const struct {
        const char *listen;
        enum server_auth auth;
        bool keys;
        int result;
    } cases[] = {
        { "127.0.0.1:1", SERVER_AUTH_AUTO, false, 0 },
        { "unix:/x", SERVER_AUTH_AUTO, false, 0 },
        { "0.0.0.0:1", SERVER_AUTH_AUTO, false, -EACCES },
        { "0.0.0.0:1", SERVER_AUTH_AUTO, true, 0 },
        { "0.0.0.0:1", SERVER_AUTH_OPEN, false, 0 },
        { "[::]:1", SERVER_AUTH_AUTO, false, -EACCES },
        { "example.com:1", SERVER_AUTH_AUTO, false, -EACCES },
        { "127.0.0.1:1,dialect=nope", SERVER_AUTH_AUTO, false, -EINVAL },
        { "127.0.0.1:1,dialect=simple", SERVER_AUTH_AUTO, false, -EINVAL },
        { "127.0.0.1:1,dialect=locals", SERVER_AUTH_AUTO, false, 0 },
        { "unix:/x,dialect=code-session", SERVER_AUTH_AUTO, false, 0 },
        { "0.0.0.0:1,dialect=locals", SERVER_AUTH_AUTO, false, -EACCES },
        { "rubbish", SERVER_AUTH_AUTO, false, -EINVAL },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *const listens[] = { (char *) cases[i].listen, NULL };
        struct server_config config = { .listens = listens, .auth = cases[i].auth };
        struct gb_err err = { 0 };

        assert_int_equal(server_check(&config, cases[i].keys, &err), cases[i].result);
    }
}

/* ---- set up ---- */

static struct server *locked, *hasty;

static int set_up(void **state)
{
    static char *const hosts[] = { "box.example", NULL };
    static char *listens[] = { "127.0.0.1:0", unix_listen, NULL };
    static char *const locked_listens[] = { "127.0.0.1:0", NULL };
    struct server_config config;
    struct gb_err err;

    (void) state;
    snprintf(socket_path, sizeof socket_path, "/tmp/gb-http-%d.sock", (int) getpid());
    snprintf(unix_listen, sizeof unix_listen, "unix:%s", socket_path);
    service = fake_service_new();
    server_config_default(&config);
    config.service = service;
    config.keys = (struct keys *) service;
    config.listens = listens;
    config.allowed_hosts = hosts;
    config.keepalive_us = 1000000;
    if (log_open(LOG_LEVEL_DEBUG, LOG_FORMAT_JSON, "/dev/null", &err) < 0 ||
        server_open(&config, &server, &err) < 0) {
        print_error("%s\n", err.msg);
        return -1;
    }
    port = server_port(server, 0);
    config.listens = locked_listens;
    config.auth = SERVER_AUTH_KEY;
    if (server_open(&config, &locked, &err) < 0)
        return -1;
    locked_port = server_port(locked, 0);
    /* Deadlines that a test can wait for; in the others nobody is late on a machine that stalls. */
    config.auth = SERVER_AUTH_AUTO;
    config.header_us = 2000000;
    config.body_us = 2000000;
    if (server_open(&config, &hasty, &err) < 0)
        return -1;
    hasty_port = server_port(hasty, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void) state;
    server_close(server);
    server_close(locked);
    server_close(hasty);
    fake_service_free(service);
    log_close();
    return access(socket_path, F_OK) == 0 ? -1 : 0; /* the socket file is gone */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_framing),   cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_pipelined), cmocka_unit_test(test_slow_header),
        cmocka_unit_test(test_slow_body), cmocka_unit_test(test_gate),
        cmocka_unit_test(test_keys),      cmocka_unit_test(test_mark_off),
        cmocka_unit_test(test_ownership), cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_deep_json), cmocka_unit_test(test_large_bodies),
        cmocka_unit_test(test_methods),   cmocka_unit_test(test_about),
        cmocka_unit_test(test_sessions),  cmocka_unit_test(test_looks),
        cmocka_unit_test(test_shares),    cmocka_unit_test(test_detach_and_output),
        cmocka_unit_test(test_sse),       cmocka_unit_test(test_ndjson),
        cmocka_unit_test(test_leaving),   cmocka_unit_test(test_put_and_get),
        cmocka_unit_test(test_multipart), cmocka_unit_test(test_multipart_bytewise),
        cmocka_unit_test(test_archive),   cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_many),      cmocka_unit_test(test_check),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
