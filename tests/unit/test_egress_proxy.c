/* A proxy without a box: what ends waiting, what is bounded, and that nothing is left of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "egress/egress.h"

#include "base/banned.h"

#define LONG_US (600 * USEC_PER_SEC)
#define WAIT_US (60 * USEC_PER_SEC) /* only ends what hangs */

static int bound_socket(int type, uint16_t *ret_port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &at, sizeof at), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &at, &len), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static int client_open(uint16_t port, const char *text)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *) &to, sizeof to), 0);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t) strlen(text));
    return fd;
}

/* Everything until the end. */
static void client_read(int fd, char *buf, size_t size)
{
    size_t len = 0;
    ssize_t n;

    while (len + 1 < size && (n = recv(fd, buf + len, size - 1 - len, 0)) > 0)
        len += (size_t) n;
    buf[len] = '\0';
}

static unsigned threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    unsigned count = 0;

    assert_non_null(dir);
    for (struct dirent *at; (at = readdir(dir));)
        count += at->d_name[0] != '.';
    (void) closedir(dir);
    return count;
}

struct place {
    struct egress *egress;
    struct egress_proxy *proxy;
    uint16_t port;          /* of the proxy */
    int silent_fd, deaf_fd; /* a server and a name server that never say a word */
    uint16_t silent_port, deaf_port;
};

static void place_open(struct place *p, const struct egress_limits *limits, int64_t most)
{
    char resolver[32], entry[64];
    struct egress_policy *policy;
    struct gb_err err;

    p->silent_fd = bound_socket(SOCK_STREAM, &p->silent_port);
    p->deaf_fd = bound_socket(SOCK_DGRAM, &p->deaf_port);
    snprintf(resolver, sizeof resolver, "127.0.0.1:%u", p->deaf_port);
    assert_int_equal(
        egress_open(&(struct egress_config){ .resolver = resolver, .connections_max = most },
                    &p->egress, &err),
        0);
    assert_int_equal(egress_policy_new(&policy, &err), 0);
    snprintf(entry, sizeof entry, "127.0.0.1:%u", p->silent_port);
    assert_int_equal(egress_policy_allow(policy, entry, true, &err), 0);
    assert_int_equal(egress_policy_allow(policy, "*.example", true, &err), 0);
    assert_int_equal(egress_serve(p->egress, bound_socket(SOCK_STREAM, &p->port), policy, limits,
                                  "test", &p->proxy, &err),
                     0);
}

static void place_close(struct place *p)
{
    egress_end(p->proxy);
    egress_close(p->egress);
    (void) close(p->silent_fd);
    (void) close(p->deaf_fd);
}

static int64_t count_of(struct place *p, bool live)
{
    struct egress_stats stats;

    egress_get_stats(p->egress, &stats);
    return live ? stats.connections_live : stats.connections;
}

/* Until so many are, or have been, served. */
static void wait_count(struct place *p, bool live, int64_t wanted)
{
    int64_t until_us = clock_now_us() + WAIT_US;

    while (count_of(p, live) != wanted) {
        if (clock_now_us() > until_us)
            fail_msg("%lld connections instead of %lld", (long long) count_of(p, live),
                     (long long) wanted);
        (void) poll(NULL, 0, 5);
    }
}

/* Each deadline by itself: a machine can be slow, and only the one that is meant may pass. */
static void ask(const struct egress_limits *limits, const char *text, char *reply, size_t size)
{
    char request[128];
    struct place p;
    int fd;

    place_open(&p, limits, 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(request, sizeof request, text, p.silent_port);
#pragma GCC diagnostic pop
    fd = client_open(p.port, request);
    client_read(fd, reply, size);
    (void) close(fd);
    place_close(&p);
}

static void test_deadlines(void **state)
{
    static const struct egress_limits head = { 0, 0, 300 * USEC_PER_MSEC, LONG_US, LONG_US };
    static const struct egress_limits connect = { 0, 0, LONG_US, 300 * USEC_PER_MSEC, LONG_US };
    static const struct egress_limits idle = { 0, 0, LONG_US, LONG_US, 300 * USEC_PER_MSEC };
    char reply[1024];

    (void) state;
    ask(&head, "GET http://127.0", reply, sizeof reply); /* and not a byte more */
    /* Nothing at all if even that came too late. */
    assert_true(reply[0] == '\0' || strncmp(reply, "HTTP/1.1 408 ", 13) == 0);
    ask(&connect, "GET http://name.example/ HTTP/1.1\r\n\r\n", reply, sizeof reply);
    assert_memory_equal(reply, "HTTP/1.1 504 ", 13);
    assert_non_null(strstr(reply, "name server"));
    ask(&idle, "GET http://127.0.0.1:%u/ HTTP/1.1\r\n\r\n", reply, sizeof reply);
    assert_memory_equal(reply, "HTTP/1.1 504 ", 13);
}

static void test_the_end_waits_for_nobody(void **state)
{
    static const struct egress_limits limits = { .head_us = LONG_US,
                                                 .connect_us = LONG_US,
                                                 .idle_us = LONG_US };
    unsigned before = threads();
    char text[128], packet[512];
    struct place p;
    int fds[5];

    (void) state;
    place_open(&p, &limits, 0);
    fds[0] = client_open(p.port, "");
    fds[1] = client_open(p.port, "GET http:");
    fds[2] = client_open(p.port, "CONNECT name.example:443 HTTP/1.1\r\n\r\n");
    snprintf(text, sizeof text, "CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n", p.silent_port);
    fds[3] = client_open(p.port, text);
    snprintf(text, sizeof text, "GET http://127.0.0.1:%u/ HTTP/1.1\r\n\r\n", p.silent_port);
    fds[4] = client_open(p.port, text);
    /* The one is known to be asking, the others to be connected. */
    assert_true(recv(p.deaf_fd, packet, sizeof packet, 0) > 0);
    (void) close(accept(p.silent_fd, NULL, NULL));
    wait_count(&p, false, 5);
    place_close(&p);
    /* One that was joined is in /proc for a moment longer. */
    for (int64_t until_us = clock_now_us() + WAIT_US; threads() != before;) {
        assert_true(clock_now_us() < until_us);
        (void) poll(NULL, 0, 5);
    }
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        (void) close(fds[i]);
}

static void test_connections_are_bounded(void **state)
{
    static const struct egress_limits limits = { .connections = 3, .head_us = LONG_US };
    struct place p;
    int fds[10];

    (void) state;
    place_open(&p, &limits, 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = client_open(p.port, "GET ");
    wait_count(&p, true, 3);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        (void) close(fds[i]); /* each makes room for the next */
        assert_true(count_of(&p, true) <= 3);
    }
    wait_count(&p, false, ARRAY_LEN(fds));
    wait_count(&p, true, 0);
    place_close(&p);
}

static void test_everybody_has_two(void **state)
{
    static const struct egress_limits limits = { .head_us = LONG_US };
    struct egress_proxy *second;
    struct egress_policy *policy;
    struct gb_err err;
    struct place p;
    uint16_t port;
    int fds[8];

    (void) state;
    place_open(&p, &limits, 1); /* the least that a supervisor may have */
    assert_int_equal(egress_policy_new(&policy, &err), 0);
    assert_int_equal(egress_serve(p.egress, bound_socket(SOCK_STREAM, &port), policy, &limits,
                                  "second", &second, &err),
                     0);
    for (size_t i = 0; i < 5; i++)
        fds[i] = client_open(p.port, "GET ");
    wait_count(&p, true, 2);
    for (size_t i = 5; i < ARRAY_LEN(fds); i++)
        fds[i] = client_open(port, "GET ");
    wait_count(&p, true, 4);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        (void) close(fds[i]);
    wait_count(&p, false, ARRAY_LEN(fds));
    egress_end(second);
    place_close(&p);
}

static void test_contacts(void **state)
{
    struct egress_contact *contacts;
    char text[128], reply[1024];
    struct place p;
    size_t len;
    int fd;

    (void) state;
    place_open(&p, NULL, 0);
    for (int i = 0; i < 100; i++) { /* names that are only refused push out nobody */
        snprintf(text, sizeof text, "CONNECT h%d.invalid:443 HTTP/1.1\r\n\r\n", i);
        fd = client_open(p.port, text);
        client_read(fd, reply, sizeof reply);
        assert_memory_equal(reply, "HTTP/1.1 403 ", 13);
        assert_non_null(strstr(reply, "network.allow"));
        (void) close(fd);
    }
    snprintf(text, sizeof text, "CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n", p.silent_port);
    fd = client_open(p.port, text);
    assert_true(recv(fd, reply, sizeof reply, 0) > 0);
    assert_memory_equal(reply, "HTTP/1.1 200 ", 13);
    assert_int_equal(egress_take_contacts(p.proxy, &contacts, &len), 0);
    assert_int_equal(len, 18);
    assert_string_equal(contacts[0].host, "(others)");
    assert_int_equal(contacts[0].refused, 84);
    assert_string_equal(contacts[1].host, "127.0.0.1");
    assert_int_equal(contacts[1].requests, 1);
    free(contacts);
    assert_int_equal(egress_take_contacts(p.proxy, &contacts, &len), 0);
    assert_int_equal(len, 0);
    assert_null(contacts);
    (void) close(fd);
    place_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_the_end_waits_for_nobody),
        cmocka_unit_test(test_connections_are_bounded),
        cmocka_unit_test(test_everybody_has_two),
        cmocka_unit_test(test_contacts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
