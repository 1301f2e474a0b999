/* Messages between our own processes, over real sockets: what arrives, and what never leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/shared/wire.h"

#include "base/banned.h"

#define UNSET 77u

struct pair {
    int ours, theirs;
    int file; /* something to send */
    size_t open_at_start;
};

static size_t count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static int pair_setup(void **state)
{
    struct pair *pair = malloc(sizeof *pair);
    int fds[2], file = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (!pair || file < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
        free(pair);
        return -1;
    }
    *pair = (struct pair){ .ours = fds[0], .theirs = fds[1], .file = file };
    pair->open_at_start = count_descriptors();
    *state = pair;
    return 0;
}

static int pair_teardown(void **state)
{
    struct pair *pair = *state;

    gb_closep(&pair->ours);
    gb_closep(&pair->theirs);
    gb_closep(&pair->file);
    free(pair);
    return 0;
}

static void hang_up(int *fd)
{
    assert_int_equal(close(*fd), 0);
    *fd = -EBADF;
}

static void fill(int *fds, size_t len, int fd)
{
    for (size_t i = 0; i < len; i++)
        fds[i] = fd;
}

/* As a peer would that does not keep to WIRE_FDS_MAX. */
static void send_raw(int fd, const void *data, size_t len, const int *fds, size_t fds_len)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(64 * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { .iov_base = (void *) data, .iov_len = len };
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = CMSG_SPACE(fds_len * sizeof(int)) };
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

    assert_true(fds_len <= 64);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(fds_len * sizeof(int));
    memcpy(CMSG_DATA(cmsg), fds, fds_len * sizeof(int));
    assert_int_equal(sendmsg(fd, &msg, 0), len);
}

static bool same_file(int a, int b)
{
    struct stat first, second;

    assert_int_equal(fstat(a, &first), 0);
    assert_int_equal(fstat(b, &second), 0);
    return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/* The same open file, in the order in which it was sent, and not for a program that we execute. */
static void test_round_trip_with_descriptors(void **state)
{
    static const size_t counts[] = { 0, 1, 2, 3, CLONE_FDS_FIXED, WIRE_FDS_MAX - 1, WIRE_FDS_MAX };
    struct pair *pair = *state;

    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        struct builder_request sent = { .op = BOX_OPEN, .box = 7 }, got;
        int fds[WIRE_FDS_MAX] = { 0 }, arrived[WIRE_FDS_MAX];
        size_t len = UNSET;

        for (size_t j = 0; j < counts[i]; j++)
            fds[j] = j % 2 ? pair->file : pair->theirs;
        memset(sent.file.path, 'p', sizeof sent.file.path);
        memset(&got, 0, sizeof got);
        assert_int_equal(wire_send(pair->theirs, &sent, sizeof sent, fds, counts[i]), 0);
        assert_int_equal(wire_recv(pair->ours, &got, sizeof got, arrived, &len), 0);
        assert_memory_equal(&got, &sent, sizeof got);
        assert_int_equal(len, counts[i]);
        for (size_t j = 0; j < len; j++) {
            assert_true(same_file(arrived[j], fds[j]));
            assert_true(fcntl(arrived[j], F_GETFD) & FD_CLOEXEC);
        }
        assert_int_equal(count_descriptors(), pair->open_at_start + len);
        wire_close_fds(arrived, len);
        assert_int_equal(count_descriptors(), pair->open_at_start);
    }
}

/* Packets are not run together, and each keeps its own descriptors. */
static void test_packets_stay_apart(void **state)
{
    struct pair *pair = *state;
    int got, fds[WIRE_FDS_MAX];
    size_t len;

    for (int i = 0; i < 3; i++)
        assert_int_equal(wire_send(pair->theirs, &i, sizeof i, &pair->file, i == 1), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wire_recv(pair->ours, &got, sizeof got, fds, &len), 0);
        assert_int_equal(got, i);
        assert_int_equal(len, i == 1);
        wire_close_fds(fds, len);
    }
}

static void test_wrong_size(void **state)
{
    static const struct {
        size_t sent, fds;
    } cases[] = {
        { 7, 0 }, { 7, 1 }, { 7, WIRE_FDS_MAX }, { 9, 0 }, { 9, 1 }, { 9, WIRE_FDS_MAX },
        { 1, 1 }, { 0, 1 }, { 4096, 3 },
    };
    struct pair *pair = *state;
    char data[4096] = "", got[8];
    int fds[WIRE_FDS_MAX], arrived[WIRE_FDS_MAX];

    fill(fds, WIRE_FDS_MAX, pair->file);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t len = UNSET;
        int r;

        assert_int_equal(wire_send(pair->theirs, data, cases[i].sent, fds, cases[i].fds), 0);
        r = wire_recv(pair->ours, got, sizeof got, arrived, &len);
        if (r != -EPROTO || len != UNSET || count_descriptors() != pair->open_at_start)
            fail_msg("%zu bytes, %zu descriptors: %d, %zu descriptors left open", cases[i].sent,
                     cases[i].fds, r, count_descriptors() - pair->open_at_start);
    }
    /* The packet was taken as a whole; the next one is sound. */
    assert_int_equal(wire_send(pair->theirs, data, sizeof got, NULL, 0), 0);
    assert_int_equal(wire_recv(pair->ours, got, sizeof got, arrived, &(size_t){ 0 }), 0);
}

/* The kernel hands out as many as there is room for, and only says that there were more. */
static void test_too_many_descriptors_arrive(void **state)
{
    static const size_t counts[] = { WIRE_FDS_MAX + 1, WIRE_FDS_MAX + 2, 64 };
    struct pair *pair = *state;
    int fds[64], arrived[WIRE_FDS_MAX];
    char got[8];

    fill(fds, ARRAY_LEN(fds), pair->file);
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        size_t len = UNSET;

        send_raw(pair->theirs, "8 bytes", sizeof got, fds, counts[i]);
        assert_int_equal(wire_recv(pair->ours, got, sizeof got, arrived, &len), -EPROTO);
        assert_int_equal(len, UNSET);
        assert_int_equal(count_descriptors(), pair->open_at_start);
    }
}

static void test_too_many_descriptors_are_not_sent(void **state)
{
    struct pair *pair = *state;
    int fds[WIRE_FDS_MAX + 1];
    char byte;

    fill(fds, ARRAY_LEN(fds), pair->file);
    assert_int_equal(wire_send(pair->theirs, "x", 1, fds, ARRAY_LEN(fds)), -EINVAL);
    assert_int_equal(recv(pair->ours, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

static void test_bad_descriptor_is_not_sent(void **state)
{
    struct pair *pair = *state;
    int fds[] = { pair->file, -EBADF };
    char byte;

    assert_int_equal(wire_send(pair->theirs, "x", 1, fds, ARRAY_LEN(fds)), -EBADF);
    assert_int_equal(recv(pair->ours, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

static void test_peer_gone(void **state)
{
    struct pair *pair = *state;
    int fds[WIRE_FDS_MAX];
    size_t len = UNSET;
    char got[8];

    /* What it had sent still arrives. */
    assert_int_equal(wire_send(pair->theirs, "8 bytes", sizeof got, &pair->file, 1), 0);
    hang_up(&pair->theirs);
    assert_int_equal(wire_recv(pair->ours, got, sizeof got, fds, &len), 0);
    assert_int_equal(len, 1);
    wire_close_fds(fds, len);

    len = UNSET;
    assert_int_equal(wire_recv(pair->ours, got, sizeof got, fds, &len), -EPIPE);
    assert_int_equal(len, UNSET);
    assert_int_equal(wire_send(pair->ours, "x", 1, &pair->file, 1), -EPIPE);
    assert_int_equal(count_descriptors(), pair->open_at_start - 1);
}

/* A peer that dies with our message unread resets the connection. */
static void test_peer_gone_without_reading(void **state)
{
    struct pair *pair = *state;
    int fds[WIRE_FDS_MAX];
    size_t len = UNSET;
    char got[8];

    assert_int_equal(wire_send(pair->ours, "x", 1, NULL, 0), 0);
    hang_up(&pair->theirs);
    assert_int_equal(wire_recv(pair->ours, got, sizeof got, fds, &len), -EPIPE);
    assert_int_equal(len, UNSET);
}

static void test_errors_of_the_socket(void **state)
{
    struct pair *pair = *state;
    int fds[WIRE_FDS_MAX], small = 1;
    size_t len = UNSET;
    char got[8], big[65536] = "";

    assert_int_equal(wire_recv(-EBADF, got, sizeof got, fds, &len), -EBADF);
    assert_int_equal(wire_send(-EBADF, got, sizeof got, NULL, 0), -EBADF);
    assert_int_equal(wire_recv(pair->file, got, sizeof got, fds, &len), -ENOTSOCK);
    assert_int_equal(setsockopt(pair->ours, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    assert_int_equal(wire_send(pair->ours, big, sizeof big, NULL, 0), -EMSGSIZE);
    assert_int_equal(fcntl(pair->ours, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(wire_recv(pair->ours, got, sizeof got, fds, &len), -EAGAIN);
    assert_int_equal(len, UNSET);
}

#define PAIR_TEST(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(test_round_trip_with_descriptors),
        PAIR_TEST(test_packets_stay_apart),
        PAIR_TEST(test_wrong_size),
        PAIR_TEST(test_too_many_descriptors_arrive),
        PAIR_TEST(test_too_many_descriptors_are_not_sent),
        PAIR_TEST(test_bad_descriptor_is_not_sent),
        PAIR_TEST(test_peer_gone),
        PAIR_TEST(test_peer_gone_without_reading),
        PAIR_TEST(test_errors_of_the_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
