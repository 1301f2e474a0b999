/*
 * WebSockets of the server over a fake service, through raw sockets: who may have one, bad frames,
 * silence, clients that do not read, and a server that stops.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/io.h"
#include "base/log.h"
#include "fake_service.h"
#include "server/server.h"

#include "base/banned.h"

#define SOCKETS_MAX 3
#define HELLO                                                                                      \
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"                   \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static struct service *service;
static struct server *server, *locked, *hasty;
static int port, locked_port, hasty_port;
static char reply[65536];

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

/* One byte; -1 at the end. A hang is a failure. */
static int read_byte(int fd)
{
    struct pollfd p = { fd, POLLIN, 0 };
    unsigned char byte;

    assert_int_equal(poll(&p, 1, 120000), 1);
    return read(fd, &byte, 1) == 1 ? byte : -1;
}

/* The status of a reply whose headers have been read into reply[], and no byte more. */
static int read_head(int fd)
{
    int status = 0;
    size_t len = 0;

    while (len < 4 || memcmp(reply + len - 4, "\r\n\r\n", 4) != 0) {
        int byte = read_byte(fd);

        if (byte < 0 || len + 1 >= sizeof reply)
            break;
        reply[len++] = (char) byte;
    }
    reply[len] = '\0';
    (void) sscanf(reply, "HTTP/1.1 %d", &status);
    return status;
}

static int begin(int to, const char *line, const char *headers)
{
    int fd = dial(to);
    char text[2048];

    snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", line, headers);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    return fd;
}

/* Starts a program and gives its id. */
static void run(int to, const char *code, char id[64])
{
    char body[256], headers[512];
    const char *found;
    int fd, len;

    len = snprintf(body, sizeof body, "{\"code\": \"%s\", \"detach\": true}", code);
    snprintf(headers, sizeof headers,
             "Connection: close\r\nX-API-Key: " FAKE_KEY "\r\nContent-Length: %d\r\n", len);
    fd = begin(to, "POST /v1/execute", headers);
    assert_int_equal(io_write_all(fd, body, (size_t) len), 0);
    assert_int_equal(read_head(fd), 202);
    found = strcasestr(reply, "X-Execution-Id: ");
    assert_non_null(found);
    assert_int_equal(sscanf(found + 16, "%63[^\r]", id), 1);
    close(fd);
}

static int open_socket_at(int to, const char *id, const char *headers)
{
    char line[128];

    snprintf(line, sizeof line, "GET /v1/executions/%s/stream", id);
    return begin(to, line, headers);
}

static int open_socket(const char *id, const char *headers)
{
    return open_socket_at(port, id, headers);
}

static int connect_socket_at(int to, const char *id)
{
    int fd = open_socket_at(to, id, HELLO "X-API-Key: " FAKE_KEY "\r\n");

    assert_int_equal(read_head(fd), 101);
    assert_non_null(
        strcasestr(reply, "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    assert_non_null(strcasestr(reply, "\r\nUpgrade: websocket\r\n"));
    assert_non_null(strcasestr(reply, "\r\nConnection: Upgrade\r\n"));
    return fd;
}

static int connect_socket(const char *id)
{
    return connect_socket_at(port, id);
}

/* The next frame's payload in reply[], its opcode; -1 at the end. */
static int read_frame(int fd, size_t *ret_len)
{
    int head = read_byte(fd);
    size_t len, more;

    if (head < 0)
        return -1;
    assert_int_equal(head & 0xf0, 0x80); /* whole, no reserved bits */
    len = (size_t) read_byte(fd);
    assert_true(len < 127); /* no mask, and nothing that large here */
    if (len == 126) {
        more = (size_t) read_byte(fd) << 8;
        len = more | (size_t) read_byte(fd);
    }
    assert_true(len < sizeof reply);
    for (size_t i = 0; i < len; i++)
        reply[i] = (char) read_byte(fd);
    reply[len] = '\0';
    *ret_len = len;
    return head & 15;
}

/* The next message; pings are passed over. */
static void read_message(int fd, const char *part)
{
    size_t len;
    int opcode;

    while ((opcode = read_frame(fd, &len)) == 9)
        ;
    assert_int_equal(opcode, 1);
    assert_non_null(strstr(reply, part));
}

/* Whatever comes before it is passed over. The code of the close, 1005 for one without, 1006 at the
 * end of the connection. */
static int read_close(int fd)
{
    size_t len = 0;
    int opcode;

    while ((opcode = read_frame(fd, &len)) >= 0)
        if (opcode == 8)
            return len >= 2 ? (unsigned char) reply[0] * 256 + (unsigned char) reply[1] : 1005;
    return 1006;
}

/* A masked frame; the mask is zeros. */
static void send_frame(int fd, unsigned char head, const char *payload)
{
    size_t len = strlen(payload);
    char frame[256] = { (char) head, (char) (0x80 | len) };

    assert_true(len < 126);
    memcpy(frame + 6, payload, len);
    assert_int_equal(io_write_all(fd, frame, len + 6), 0);
}

/* ---- tests ---- */

static void test_refused(void **state)
{
    static const struct {
        const char *headers;
        int status;
    } cases[] = {
        { "", 426 },
        { "Connection: close\r\n", 426 },
        { "Connection: Upgrade\r\nUpgrade: h2c\r\n", 426 },
        { "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n"
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
          426 },
        { "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", 400 },
        { "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
          "Sec-WebSocket-Key: short\r\n",
          400 },
        { HELLO "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 400 },
        { HELLO "Sec-WebSocket-Version: 13\r\n", 400 },
        { HELLO "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", 400 },
        { HELLO "Origin: https://elsewhere.example\r\n", 403 },
        { HELLO "Sec-Fetch-Site: cross-site\r\n", 403 },
        { HELLO "X-API-Key: nope\r\n", 401 },
        { HELLO "Origin: null\r\n", 403 },
    };
    char id[64];

    (void) state;
    run(port, "wait", id);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char headers[1024];
        int fd;

        snprintf(headers, sizeof headers, "%s%s", cases[i].headers,
                 cases[i].status == 401 ? "" : "X-API-Key: " FAKE_KEY "\r\n");
        fd = open_socket(id, headers);
        assert_int_equal(read_head(fd), cases[i].status);
        if (cases[i].status == 426) {
            assert_non_null(strcasestr(reply, "\r\nUpgrade: websocket\r\n"));
            assert_non_null(strcasestr(reply, "\r\nSec-WebSocket-Version: 13\r\n"));
        }
        close(fd);
    }
}

/* What is refused to every request is refused here too. */
static void test_refused_early(void **state)
{
    char id[64], text[512];
    int fd;

    (void) state;
    run(port, "wait", id);
    snprintf(text, sizeof text,
             "GET /v1/executions/%s/stream HTTP/1.1\r\nHost: evil.example\r\n" HELLO "\r\n", id);
    fd = dial(port);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(read_head(fd), 421);
    close(fd);
    fd = open_socket("nope", HELLO);
    assert_int_equal(read_head(fd), 404);
    close(fd);
    snprintf(text, sizeof text, "GET /v1/executions/%s/stream", id);
    fd = begin(locked_port, text, HELLO);
    assert_int_equal(read_head(fd), 401);
    close(fd);
    snprintf(text, sizeof text, "POST /v1/executions/%s/stream", id);
    fd = begin(port, text, HELLO "Content-Length: 0\r\n");
    assert_int_equal(read_head(fd), 405);
    close(fd);
    fd = open_socket(id, HELLO "X-API-Key: " FAKE_KEY "\r\nContent-Length: 2\r\n");
    assert_int_equal(io_write_all(fd, "{}", 2), 0);
    assert_int_equal(read_head(fd), 400);
    close(fd);
    snprintf(text, sizeof text,
             "GET /v1/executions/%s/stream HTTP/1.0\r\nHost: localhost\r\n" HELLO
             "X-API-Key: " FAKE_KEY "\r\n\r\n",
             id);
    fd = dial(port);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(read_head(fd), 400);
    close(fd);
}

static void test_events(void **state)
{
    char id[64], line[128];
    int fd;

    (void) state;
    run(port, "ticks 2", id);
    fd = connect_socket(id);
    read_message(fd, "{\"event\":\"start\",\"data\":{\"execution_id\":\"");
    fake_tick(service);
    read_message(fd, "\"event\":\"stdout\"");
    send_frame(fd, 0x89, "ping me");
    fake_tick(service);
    assert_int_equal(read_close(fd), 1000); /* after the receipt */
    send_frame(fd, 0x88, "\x03\xe8");
    assert_int_equal(read_byte(fd), -1);
    close(fd);
    /* From where another reader was. */
    snprintf(line, sizeof line, "GET /v1/executions/%s/stream?stdout=5", id);
    fd = begin(port, line, HELLO "X-API-Key: " FAKE_KEY "\r\n");
    assert_int_equal(read_head(fd), 101);
    read_message(fd, "start");
    read_message(fd, "\"offset\":5");
    read_message(fd, "\"event\":\"receipt\"");
    assert_int_equal(read_close(fd), 1000);
    close(fd);
}

static void test_interrupt(void **state)
{
    int before = fake_interrupts(service), fd;
    char id[64];

    (void) state;
    run(port, "wait", id);
    fd = connect_socket(id);
    read_message(fd, "start");
    /* in two fragments, with a pong between that nobody asked for */
    send_frame(fd, 0x01, "{\"type\": ");
    send_frame(fd, 0x8a, "");
    send_frame(fd, 0x80, "\"interrupt\"}");
    read_message(fd, "\"event\":\"receipt\"");
    assert_int_equal(read_close(fd), 1000);
    assert_int_equal(fake_interrupts(service), before + 1);
    close(fd);
}

/* Messages that are none of ours, and frames that are none at all. */
static void test_bad_messages(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        int code;
    } cases[] = {
        { "\x81\x82\0\0\0\0{}", 8, 1008 },
        { "\x81\x80\0\0\0\0", 6, 1008 },
        { "\x81\x83\0\0\0\0[[[", 9, 1008 },
        { "\x81\x90\0\0\0\0{\"type\": \"kill\"}", 22, 1008 },
        { "\x82\x81\0\0\0\0x", 7, 1003 },
        { "\x81\x02{}", 4, 1002 },
        { "\xf1\x82\0\0\0\0{}", 8, 1002 },
        { "\x80\x82\0\0\0\0{}", 8, 1002 },
        { "\x81\x82\0\0\0\0\xc3\x28", 8, 1007 },
        { "\x81\xff\0\0\0\0\0\x01\0\x01\0\0\0\0x", 15, 1009 },
        { "\x09\x80\0\0\0\0", 6, 1005 },
        { "GET / HTTP/1.1\r\n\r\n", 18, 1005 },
        { "\x88\x80\0\0\0\0", 6, 1005 },
    };
    char id[64];

    (void) state;
    run(port, "wait", id);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = connect_socket(id), code;

        assert_int_equal(io_write_all(fd, cases[i].bytes, cases[i].len), 0);
        code = read_close(fd);
        if (code != cases[i].code && !(cases[i].bytes[0] == 'G' && code == 1002))
            fail_msg("case %zu: closed with %d", i, code);
        close(fd);
    }
}

/* Frames right behind the request, before the 101 was seen. */
static void test_hasty(void **state)
{
    char id[64], text[1024];
    int fd = dial(port), len;

    (void) state;
    run(port, "wait", id);
    len = snprintf(text, sizeof text,
                   "GET /v1/executions/%s/stream HTTP/1.1\r\nHost: localhost\r\n" HELLO
                   "X-API-Key: " FAKE_KEY "\r\n\r\n\x89\x81%c%c%c%cp",
                   id, 1, 1, 1, 1);
    assert_int_equal(io_write_all(fd, text, (size_t) len), 0);
    assert_int_equal(read_head(fd), 101);
    for (;;) {
        size_t frame_len;
        int opcode = read_frame(fd, &frame_len);

        assert_true(opcode >= 0);
        if (opcode == 10)
            break; /* the pong */
    }
    assert_string_equal(reply, "q");
    close(fd);
}

/* A client that sends nothing gets pings, and is closed when it answers none. One that answers
 * stays. */
static void test_silence(void **state)
{
    int fd, pings = 0, opcode;
    char id[64];
    size_t len;

    (void) state;
    run(hasty_port, "wait", id);
    fd = connect_socket_at(hasty_port, id);
    while ((opcode = read_frame(fd, &len)) != 8) {
        assert_true(opcode == 1 || opcode == 9);
        pings += opcode == 9;
    }
    assert_true(pings > 0);
    assert_int_equal((unsigned char) reply[0] * 256 + (unsigned char) reply[1], 1011);
    close(fd);
    fd = connect_socket_at(hasty_port, id);
    for (int answers = 0; answers < pings + 10;) { /* beyond what silence is given */
        opcode = read_frame(fd, &len);
        assert_true(opcode == 1 || opcode == 9);
        if (opcode == 9) {
            send_frame(fd, 0x8a, "");
            answers++;
        }
    }
    close(fd);
}

/* A handshake that stops half-way is ended by the deadline for headers; see test_http. A client
 * that pings and never reads is not read any more, and ended in the end. */
static void test_no_reader(void **state)
{
    char id[64], pings[6 * 1000];
    size_t sent = 0;
    int fd, size = 4096;

    (void) state;
    for (size_t i = 0; i < sizeof pings; i += 6)
        memcpy(pings + i, "\x89\x80\0\0\0\0", 6);
    run(hasty_port, "wait", id);
    fd = connect_socket_at(hasty_port, id);
    (void) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    for (;;) {
        struct pollfd p = { fd, POLLOUT, 0 };
        ssize_t n;

        assert_int_equal(poll(&p, 1, 120000), 1);
        n = send(fd, pings, sizeof pings, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n < 0)
            break; /* it was closed */
        /* Far more than the buffers hold: the server does not go on reading, not even at the end.
         */
        sent += (size_t) n;
        assert_true(sent < (size_t) 1 << 28);
    }
    close(fd);
}

static void test_limit(void **state)
{
    static const char headers[] = HELLO "X-API-Key: " FAKE_KEY "\r\n";
    int fds[SOCKETS_MAX], fd, status;
    char id[64];

    (void) state;
    run(locked_port, "wait", id);
    for (int i = 0; i < SOCKETS_MAX; i++)
        fds[i] = connect_socket_at(locked_port, id);
    fd = open_socket_at(locked_port, id, headers);
    assert_int_equal(read_head(fd), 429);
    assert_non_null(strcasestr(reply, "Retry-After"));
    close(fd);
    /* at another address the count is another */
    fd = connect_socket(id);
    close(fd);
    /* a place is free once one has left */
    close(fds[0]);
    do {
        fd = open_socket_at(locked_port, id, headers);
        status = read_head(fd);
        if (status != 101)
            close(fd);
    } while (status == 429);
    assert_int_equal(status, 101);
    close(fd);
    for (int i = 1; i < SOCKETS_MAX; i++)
        close(fds[i]);
}

/* ---- beginning and end ---- */

static void configure(struct server_config *config)
{
    static char *const listens[] = { "127.0.0.1:0", NULL };

    server_config_default(config);
    config->service = service;
    config->keys = (struct keys *) service; /* the fake ones look at no more than the token */
    config->listens = (char *const *) listens;
}

static int start(void **state)
{
    struct server_config config;
    struct gb_err err = { 0 };

    (void) state;
    service = fake_service_new();
    configure(&config);
    if (!service || log_open(LOG_LEVEL_DEBUG, LOG_FORMAT_JSON, "/dev/null", &err) < 0 ||
        server_open(&config, &server, &err) < 0)
        return -1;
    port = server_port(server, 0);
    config.auth = SERVER_AUTH_KEY;
    config.sockets_per_caller = SOCKETS_MAX;
    if (server_open(&config, &locked, &err) < 0)
        return -1;
    locked_port = server_port(locked, 0);
    /* Deadlines that a test can wait for. */
    config.sockets_per_caller = 64;
    config.keepalive_us = 100000;
    config.idle_us = 3000000;
    if (server_open(&config, &hasty, &err) < 0)
        return -1;
    hasty_port = server_port(hasty, 0);
    return 0;
}

static int stop(void **state)
{
    (void) state;
    server_close(server);
    server_close(locked);
    server_close(hasty);
    fake_service_free(service);
    return 0;
}

/* The server stops while sockets are open: each is told, and none is left. */
static void test_stop(void **state)
{
    struct server_config config;
    struct server *other;
    struct gb_err err = { 0 };
    int first, second;
    char id[64];

    (void) state;
    configure(&config);
    assert_int_equal(server_open(&config, &other, &err), 0);
    run(port, "wait", id);
    first = connect_socket_at(server_port(other, 0), id);
    second = connect_socket_at(server_port(other, 0), id);
    read_message(first, "start");
    server_close(other);
    assert_int_equal(read_close(first), 1001);
    assert_int_equal(read_byte(first), -1);
    assert_int_equal(read_close(second), 1001);
    close(first);
    close(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_refused_early),
        cmocka_unit_test(test_events),       cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_bad_messages), cmocka_unit_test(test_hasty),
        cmocka_unit_test(test_silence),      cmocka_unit_test(test_no_reader),
        cmocka_unit_test(test_limit),        cmocka_unit_test(test_stop),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
