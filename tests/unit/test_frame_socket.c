/* The frame protocol over real sockets: round trips, and peers that die, flood, stall or cheat. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "engine/frame.h"

#include "base/banned.h"

#define PAYLOAD_MAX  (FRAME_PACKET_MAX - FRAME_HEADER_SIZE)
#define FIELD_HEADER 6u
#define FAR_AWAY_US  (60 * USEC_PER_SEC)

struct pair {
    int ours, theirs;
    struct frame_reader reader; /* of what comes out of ours */
};

static int pair_setup(void **state)
{
    struct pair *pair = malloc(sizeof *pair);
    int fds[2];

    if (!pair || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
        free(pair);
        return -1;
    }
    *pair = (struct pair){ .ours = fds[0], .theirs = fds[1] };
    frame_reader_init(&pair->reader);
    *state = pair;
    return 0;
}

static int pair_teardown(void **state)
{
    struct pair *pair = *state;

    gb_closep(&pair->ours);
    gb_closep(&pair->theirs);
    frame_reader_release(&pair->reader);
    free(pair);
    return 0;
}

static void assert_stuck(struct pair *pair, int error)
{
    struct frame_msg msg;

    assert_int_equal(pair->reader.error, error);
    assert_null(pair->reader.data);
    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), error);
}

static void pair_hang_up(struct pair *pair)
{
    assert_int_equal(close(pair->theirs), 0);
    pair->theirs = -EBADF;
}

/* Waits for each packet and reads until a message is complete or something fails. */
static int recv_message(struct pair *pair, struct frame_msg *ret_msg, size_t *ret_packets)
{
    struct pollfd pfd = { .fd = pair->ours, .events = POLLIN };
    size_t packets = 0;
    int r;

    do {
        assert_int_equal(poll(&pfd, 1, -1), 1);
        r = frame_recv(pair->ours, &pair->reader, ret_msg);
        packets++;
    } while (r == 0);

    *ret_packets = packets;
    return r;
}

/* A child of ours sends, since a large message does not fit into the socket. */
static pid_t send_in_child(struct pair *pair, const struct frame_out *out)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(frame_send(pair->theirs, out, clock_now_us() + FAR_AWAY_US) == 0 ? 0 : 1);
    return pid;
}

static void assert_child_ok(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_round_trips(void **state)
{
    static const struct {
        size_t payload, packets;
    } cases[] = {
        { 0, 1 },
        { FIELD_HEADER, 1 },
        { 100, 1 },
        { PAYLOAD_MAX - 1, 1 },
        { PAYLOAD_MAX, 1 },
        { PAYLOAD_MAX + 1, 2 },
        { 2 * PAYLOAD_MAX, 2 },
        { 2 * PAYLOAD_MAX + 1, 3 },
        { 40 * PAYLOAD_MAX, 40 },
    };
    struct pair *pair = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct frame_out out;
        struct frame_msg msg;
        size_t packets;
        pid_t pid;

        frame_out_init(&out, FRAME_DISPLAY);
        if (cases[i].payload > 0) {
            size_t len = cases[i].payload - FIELD_HEADER;
            autofree uint8_t *data = malloc(len + 1);

            assert_non_null(data);
            for (size_t j = 0; j < len; j++)
                data[j] = (uint8_t) (j * 31 + j / 251);
            frame_put(&out, KEY_JSON, data, len);
        }
        assert_int_equal(out.len, cases[i].payload);

        pid = send_in_child(pair, &out);
        assert_int_equal(recv_message(pair, &msg, &packets), 1);
        assert_child_ok(pid);
        assert_int_equal(packets, cases[i].packets);
        assert_int_equal(msg.type, FRAME_DISPLAY);
        assert_int_equal(msg.len, out.len);
        if (out.len > 0)
            assert_memory_equal(msg.payload, out.data, out.len);
        frame_out_release(&out);
    }
}

static void test_send_header_bytes(void **state)
{
    static const uint8_t want[] = { 1, 1, 0, 0, 10, 0, 0, 0,   10,  0,   0,
                                    0, 3, 0, 4, 0,  0, 0, 'c', 'e', 'l', 'l' };
    struct pair *pair = *state;
    struct frame_out out;
    uint8_t wire[64];

    frame_out_init(&out, FRAME_RUN);
    frame_put_text(&out, KEY_MODE, "cell");
    assert_int_equal(frame_send(pair->ours, &out, 0), 0);
    assert_int_equal(recv(pair->theirs, wire, sizeof wire, 0), sizeof want);
    assert_memory_equal(wire, want, sizeof want);
    frame_out_release(&out);
}

static void test_recv_nothing_and_end(void **state)
{
    struct pair *pair = *state;
    struct frame_msg msg;

    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), -EAGAIN);
    assert_int_equal(pair->reader.error, 0);
    pair_hang_up(pair);
    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), -EPIPE);
    assert_stuck(pair, -EPIPE);
}

static void test_idle_gives_memory_back(void **state)
{
    static const uint8_t data[2 * FRAME_PACKET_MAX];
    struct pair *pair = *state;
    struct frame_out out;
    struct frame_msg msg;
    size_t packets;
    pid_t pid;

    frame_out_init(&out, FRAME_DISPLAY);
    frame_put(&out, KEY_JSON, data, sizeof data);
    pid = send_in_child(pair, &out);
    assert_int_equal(recv_message(pair, &msg, &packets), 1);
    assert_child_ok(pid);

    assert_true(pair->reader.cap > FRAME_PACKET_MAX);
    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), -EAGAIN);
    assert_true(pair->reader.cap <= FRAME_PACKET_MAX);
    frame_out_release(&out);
}

static void test_recv_end_within_message(void **state)
{
    /* 4 of 10 bytes. */
    static const uint8_t wire[] = { 1, FRAME_DONE, 1, 0, 4, 0, 0, 0, 10, 0, 0, 0, 9, 0, 4, 0 };
    struct pair *pair = *state;
    struct frame_msg msg;

    assert_int_equal(send(pair->theirs, wire, sizeof wire, 0), sizeof wire);
    pair_hang_up(pair);

    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), 0);
    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), -EPIPE);
    assert_stuck(pair, -EPIPE);
}

/* A tenant that dies without having read everything must not take its last message with it. */
static void test_recv_after_reset(void **state)
{
    struct pair *pair = *state;
    struct frame_out out;
    struct frame_msg msg;
    int64_t code;

    assert_int_equal(send(pair->ours, "unread", 6, 0), 6);
    frame_out_init(&out, FRAME_DONE);
    frame_put_text(&out, KEY_EXIT_CODE, "3");
    assert_int_equal(frame_send(pair->theirs, &out, 0), 0);
    pair_hang_up(pair);

    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), 1);
    assert_true(frame_find_int(&msg, KEY_EXIT_CODE, 0, 255, &code));
    assert_int_equal(code, 3);
    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), -EPIPE);
    frame_out_release(&out);
}

static void test_recv_empty_packet(void **state)
{
    struct pair *pair = *state;
    struct frame_msg msg;

    assert_int_equal(send(pair->theirs, "", 0, 0), 0);
    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), -EPROTO);
    assert_stuck(pair, -EPROTO);
}

static void send_first_part(struct pair *pair, size_t len)
{
    /* PAYLOAD_MAX of FRAME_MESSAGE_MAX bytes: sound, unless the packet itself is too large. */
    static const uint8_t header[] = { 1, FRAME_DONE, 1, 0, 0xf4, 0xff, 0, 0, 0, 0, 0, 2 };
    autofree uint8_t *wire = calloc(1, len);

    assert_non_null(wire);
    memcpy(wire, header, sizeof header);
    assert_int_equal(send(pair->theirs, wire, len, 0), len);
}

static void test_recv_oversized_packet(void **state)
{
    struct pair *pair = *state;
    struct frame_msg msg;

    send_first_part(pair, FRAME_PACKET_MAX);
    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), 0);

    /* Cut to size, this one would look like the next part. */
    send_first_part(pair, FRAME_PACKET_MAX + 1);
    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), -EMSGSIZE);
    assert_stuck(pair, -EMSGSIZE);
}

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

static void send_with_descriptors(int fd, const void *wire, size_t len, const int *fds, size_t n)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { .iov_base = (void *) wire, .iov_len = len };
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

    assert_true(n <= 8);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(cmsg), fds, n * sizeof(int));
    assert_int_equal(sendmsg(fd, &msg, 0), len);
}

static void test_recv_descriptors(void **state)
{
    static const uint8_t wire[FRAME_HEADER_SIZE] = { 1, FRAME_DONE };
    struct pair *pair = *state;
    struct frame_msg msg;
    size_t before;
    int ends[2], fds[8];
    char byte;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = ends[1];
    send_with_descriptors(pair->theirs, wire, sizeof wire, fds, ARRAY_LEN(fds));
    assert_int_equal(close(ends[1]), 0);

    before = count_descriptors();
    assert_int_equal(frame_recv(pair->ours, &pair->reader, &msg), -EPROTO);
    assert_stuck(pair, -EPROTO);
    assert_int_equal(count_descriptors(), before);

    /* End of file: the kernel holds no copy of the writing end either. */
    assert_int_equal(read(ends[0], &byte, 1), 0);
    assert_int_equal(close(ends[0]), 0);
}

static void test_send_deadline(void **state)
{
    struct pair *pair = *state;
    autofree uint8_t *data = calloc(1, FRAME_MESSAGE_MAX / 2);
    struct frame_out out;

    assert_non_null(data);
    frame_out_init(&out, FRAME_RUN);
    frame_put(&out, KEY_CODE, data, FRAME_MESSAGE_MAX / 2);

    /* Nobody reads, so either send returns by its deadline or the test never ends. */
    assert_int_equal(fcntl(pair->ours, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(frame_send(pair->ours, &out, clock_now_us() + 20 * USEC_PER_MSEC), -ETIMEDOUT);
    assert_int_equal(fcntl(pair->ours, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(frame_send(pair->ours, &out, 0), -ETIMEDOUT);
    assert_int_equal(frame_send(pair->ours, &out, INT64_MIN), -ETIMEDOUT);
    frame_out_release(&out);
}

static void test_send_to_nobody(void **state)
{
    struct pair *pair = *state;
    struct frame_out out;

    frame_out_init(&out, FRAME_RUN);
    frame_put_text(&out, KEY_MODE, "cell");
    assert_int_equal(frame_send(pair->ours, &out, 0), 0);
    pair_hang_up(pair); /* with a packet unread, which is a reset first */
    assert_int_equal(frame_send(pair->ours, &out, clock_now_us() + FAR_AWAY_US), -EPIPE);
    assert_int_equal(frame_send(pair->ours, &out, clock_now_us() + FAR_AWAY_US), -EPIPE);
    assert_int_equal(frame_send(-1, &out, 0), -EBADF);
    frame_out_release(&out);
}

#define over_socket(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        over_socket(test_round_trips),
        over_socket(test_send_header_bytes),
        over_socket(test_recv_nothing_and_end),
        over_socket(test_idle_gives_memory_back),
        over_socket(test_recv_end_within_message),
        over_socket(test_recv_after_reset),
        over_socket(test_recv_empty_packet),
        over_socket(test_recv_oversized_packet),
        over_socket(test_recv_descriptors),
        over_socket(test_send_deadline),
        over_socket(test_send_to_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
