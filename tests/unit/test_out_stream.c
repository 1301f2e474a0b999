/* Our standard output with readers that are slow, gone or a terminal. The sink is tried as the
 * engine uses it: one write, then none until nothing is blocked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "cli/terminal/out_stream.h"

#include "base/banned.h"

#define CHUNK      65536u /* what the engine reads at once */
#define PATIENCE_S 120    /* ends a test that hangs; nothing waits for it to pass */

struct rig {
    int saved[2];   /* our real standard output and error */
    int readers[2]; /* what the world reads from them */
    int writers[2]; /* what the sink writes to */
    struct out_streams *streams;
    struct run_sink sink;
};

/* ---- descriptors 1 and 2 are the rig's only while the sink is called: a failure must be seen ----
 */

static void rig_enter(struct rig *rig)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(dup2(rig->writers[i], i + 1), i + 1);
}

static void rig_leave(struct rig *rig)
{
    for (int i = 0; i < 2; i++)
        if (dup2(rig->saved[i], i + 1) < 0)
            abort();
}

static int rig_write(struct rig *rig, enum stream stream, const char *data, size_t len)
{
    int r;

    rig_enter(rig);
    r = rig->sink.write(rig->sink.arg, stream, data, len);
    rig_leave(rig);
    return r;
}

static int rig_flush(struct rig *rig, enum stream stream)
{
    int r;

    rig_enter(rig);
    r = rig->sink.flush(rig->sink.arg, stream);
    rig_leave(rig);
    return r;
}

static bool rig_blocked(struct rig *rig, enum stream stream)
{
    return rig->sink.blocked_fd(rig->sink.arg, stream) >= 0;
}

/* Whether poll() would let the engine flush now. */
static bool rig_writable(struct rig *rig, enum stream stream)
{
    struct pollfd ready = { .events = POLLOUT };
    int n;

    rig_enter(rig);
    ready.fd = rig->sink.blocked_fd(rig->sink.arg, stream);
    n = poll(&ready, 1, 0);
    rig_leave(rig);
    return n == 1;
}

static void rig_free_streams(struct rig *rig)
{
    rig_enter(rig);
    out_streams_free(rig->streams);
    rig_leave(rig);
    rig->streams = NULL;
}

static void rig_new_streams(struct rig *rig)
{
    int r;

    rig_enter(rig);
    r = out_streams_new(&rig->streams);
    rig_leave(rig);
    assert_int_equal(r, 0);
    rig->sink = out_streams_sink(rig->streams);
}

static struct rig *rig_make(void)
{
    struct rig *rig = malloc(sizeof *rig);

    if (!rig)
        abort();
    *rig = (struct rig){ .readers = { -EBADF, -EBADF }, .writers = { -EBADF, -EBADF } };
    for (int i = 0; i < 2; i++)
        rig->saved[i] = fcntl(i + 1, F_DUPFD_CLOEXEC, 3);
    (void) alarm(PATIENCE_S);
    return rig;
}

/* The smallest pipes there are. */
static int pipes_setup(void **state)
{
    struct rig *rig = rig_make();

    for (int i = 0; i < 2; i++) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[1], F_SETPIPE_SZ, 4096) < 0)
            return -1;
        rig->readers[i] = ends[0];
        rig->writers[i] = ends[1];
    }
    rig_new_streams(rig);
    *state = rig;
    return 0;
}

/* One terminal for both, as in life. */
static int terminal_setup(void **state)
{
    struct rig *rig = rig_make();
    int master, slave;
    struct termios raw;

    if (openpty(&master, &slave, NULL, NULL, NULL) < 0 || tcgetattr(slave, &raw) < 0)
        return -1;
    cfmakeraw(&raw);
    if (tcsetattr(slave, TCSANOW, &raw) < 0)
        return -1;
    rig->readers[0] = master;
    rig->writers[0] = slave;
    rig->writers[1] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
    rig_new_streams(rig);
    *state = rig;
    return 0;
}

static void hang_up(int *fd)
{
    gb_closep(fd);
    *fd = -EBADF;
}

static int rig_teardown(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < 2; i++)
        gb_closep(&rig->readers[i]);
    /* With nobody to read there is nothing to wait for. */
    if (rig->streams)
        rig_free_streams(rig);
    for (int i = 0; i < 2; i++) {
        gb_closep(&rig->writers[i]);
        gb_closep(&rig->saved[i]);
    }
    free(rig);
    (void) alarm(0);
    return 0;
}

/* ---- data whose every byte says where it belongs ---- */

static char byte_at(size_t at)
{
    return (char) ('a' + at % 23);
}

static void pattern(char *buf, size_t from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        buf[i] = byte_at(from + i);
}

/* Fills the pipe until something is held back. Returns how much was taken. */
static size_t write_until_blocked(struct rig *rig, enum stream stream)
{
    char chunk[CHUNK];

    pattern(chunk, 0, sizeof chunk);
    assert_int_equal(rig_write(rig, stream, chunk, sizeof chunk), 0);
    assert_true(rig_blocked(rig, stream));
    return sizeof chunk;
}

/* A child that reads @fd to its end; exits with 0 if it was the pattern, @total bytes long. */
static pid_t read_in_child(struct rig *rig, size_t total)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        char buf[1000];
        size_t got = 0;
        ssize_t n;

        for (int i = 0; i < 2; i++)
            gb_closep(&rig->writers[i]);
        while ((n = read(rig->readers[0], buf, sizeof buf)) > 0)
            for (ssize_t i = 0; i < n; i++)
                if (buf[i] != byte_at(got++))
                    _exit(1);
        _exit(got == total ? 0 : 2);
    }
    hang_up(&rig->readers[0]);
    return pid;
}

static void assert_child_ok(struct rig *rig, pid_t pid)
{
    int status;

    hang_up(&rig->writers[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    rig->writers[0] = fcntl(rig->writers[1], F_DUPFD_CLOEXEC, 3);
}

/* ---- tests ---- */

static void test_fast_reader(void **state)
{
    struct rig *rig = *state;
    char got[16];

    assert_int_equal(rig_write(rig, STREAM_OUT, "out", 3), 0);
    assert_int_equal(rig_write(rig, STREAM_ERR, "error", 5), 0);
    assert_false(rig_blocked(rig, STREAM_OUT));
    assert_false(rig_blocked(rig, STREAM_ERR));
    assert_int_equal(read(rig->readers[0], got, sizeof got), 3);
    assert_memory_equal(got, "out", 3);
    assert_int_equal(read(rig->readers[1], got, sizeof got), 5);
    assert_memory_equal(got, "error", 5);
    assert_int_equal(rig_write(rig, STREAM_OUT, "", 0), 0);
    assert_false(rig_blocked(rig, STREAM_OUT));
}

/* Writer and reader are one process here: a sink that waited would wait for ever. */
static void slow_reader(struct rig *rig, size_t step)
{
    const size_t total = 5 * CHUNK + 123;
    size_t written = 0, got = 0;
    char buf[CHUNK];

    while (got < total) {
        ssize_t n;

        if (rig_blocked(rig, STREAM_OUT)) {
            if (rig_writable(rig, STREAM_OUT))
                assert_int_equal(rig_flush(rig, STREAM_OUT), 0);
        } else if (written < total) {
            size_t part = total - written < CHUNK ? total - written : CHUNK;

            pattern(buf, written, part);
            assert_int_equal(rig_write(rig, STREAM_OUT, buf, part), 0);
            written += part;
        }
        n = read(rig->readers[0], buf, step);
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(buf[i], byte_at(got + (size_t) i));
        got += (size_t) n;
    }
    assert_int_equal(written, total);
    assert_int_equal(got, total);
    assert_false(rig_blocked(rig, STREAM_OUT));
}

static void test_slow_reader(void **state)
{
    static const size_t steps[] = { 1000, 4096, 5000 };

    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        slow_reader(*state, steps[i]);
}

static void test_flush_without_room(void **state)
{
    struct rig *rig = *state;

    (void) write_until_blocked(rig, STREAM_OUT);
    assert_false(rig_writable(rig, STREAM_OUT));
    assert_int_equal(rig_flush(rig, STREAM_OUT), 0);
    assert_true(rig_blocked(rig, STREAM_OUT));
    assert_int_equal(rig_flush(rig, STREAM_ERR), 0); /* nothing to do */
}

static void test_streams_do_not_share(void **state)
{
    struct rig *rig = *state;
    char got[16];

    (void) write_until_blocked(rig, STREAM_OUT);
    assert_false(rig_blocked(rig, STREAM_ERR));
    assert_int_equal(rig_write(rig, STREAM_ERR, "error", 5), 0);
    assert_false(rig_blocked(rig, STREAM_ERR));
    assert_int_equal(read(rig->readers[1], got, sizeof got), 5);
    assert_true(rig_blocked(rig, STREAM_OUT));
}

static void test_reader_gone(void **state)
{
    struct rig *rig = *state;
    char got[16];

    hang_up(&rig->readers[0]);
    assert_int_equal(rig_write(rig, STREAM_OUT, "x", 1), -EPIPE);
    assert_false(rig_blocked(rig, STREAM_OUT));
    assert_int_equal(rig_write(rig, STREAM_OUT, "x", 1), -EPIPE);
    assert_int_equal(rig_flush(rig, STREAM_OUT), 0);

    assert_int_equal(rig_write(rig, STREAM_ERR, "error", 5), 0);
    assert_int_equal(read(rig->readers[1], got, sizeof got), 5);
}

/* The word comes with the flush that poll() asks for. */
static void test_reader_leaves_in_the_middle(void **state)
{
    struct rig *rig = *state;
    char got[16];

    (void) write_until_blocked(rig, STREAM_OUT);
    assert_int_equal(read(rig->readers[0], got, sizeof got), sizeof got);
    hang_up(&rig->readers[0]);
    assert_true(rig_writable(rig, STREAM_OUT));
    assert_int_equal(rig_flush(rig, STREAM_OUT), -EPIPE);
    assert_false(rig_blocked(rig, STREAM_OUT)); /* what nobody will read holds up nobody */
    assert_int_equal(rig_write(rig, STREAM_OUT, "x", 1), -EPIPE);
    rig_free_streams(rig);
}

/* Or with the next write, when the pipes are drained after the end. */
static void test_reader_leaves_before_the_end(void **state)
{
    struct rig *rig = *state;

    (void) write_until_blocked(rig, STREAM_OUT);
    hang_up(&rig->readers[0]);
    assert_int_equal(rig_write(rig, STREAM_OUT, "x", 1), -EPIPE);
    assert_false(rig_blocked(rig, STREAM_OUT));
}

/* After the end the rest is written, however slow the reader. */
static void test_rest_is_written(void **state)
{
    struct rig *rig = *state;
    size_t taken = write_until_blocked(rig, STREAM_OUT);
    pid_t pid = read_in_child(rig, taken);

    rig_free_streams(rig);
    assert_child_ok(rig, pid);
}

/* While draining, writes come without waiting for the sink: then it waits, and loses nothing. */
static void test_drain(void **state)
{
    enum { CHUNKS = 6 };
    struct rig *rig = *state;
    size_t len = CHUNKS * CHUNK + 1;
    autofree char *data = malloc(len);
    pid_t pid;

    assert_non_null(data);
    pattern(data, 0, len);
    pid = read_in_child(rig, len);
    for (size_t at = 0; at < len; at += CHUNK) {
        size_t part = len - at < CHUNK ? len - at : CHUNK;

        assert_int_equal(rig_write(rig, STREAM_OUT, data + at, part), 0);
    }
    rig_free_streams(rig);
    assert_child_ok(rig, pid);
}

/* More than a chunk at once is cut by the sink itself. */
static void test_large_write(void **state)
{
    struct rig *rig = *state;
    size_t len = 3 * CHUNK + 7;
    autofree char *data = malloc(len);
    pid_t pid;

    assert_non_null(data);
    pattern(data, 0, len);
    pid = read_in_child(rig, len);
    assert_int_equal(rig_write(rig, STREAM_OUT, data, len), 0);
    rig_free_streams(rig);
    assert_child_ok(rig, pid);
}

/* Whoever shares the pipe with us may have made it non-blocking; the rest is written all the same.
 */
static void test_pipe_is_non_blocking(void **state)
{
    struct rig *rig = *state;
    size_t len = 2 * CHUNK;
    autofree char *data = malloc(len);
    pid_t pid;

    assert_non_null(data);
    pattern(data, 0, len);
    assert_int_equal(fcntl(rig->writers[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rig_write(rig, STREAM_OUT, data, CHUNK), 0);
    assert_true(rig_blocked(rig, STREAM_OUT));
    pid = read_in_child(rig, len);
    assert_int_equal(rig_write(rig, STREAM_OUT, data + CHUNK, CHUNK), 0);
    rig_free_streams(rig);
    assert_child_ok(rig, pid);
}

static void test_free_nothing(void **state)
{
    (void) state;
    out_streams_free(NULL);
}

static void assert_terminal_shows(struct rig *rig, const char *text)
{
    char got[128];
    ssize_t n = read(rig->readers[0], got, sizeof got - 1);

    assert_true(n >= 0);
    got[n] = '\0';
    assert_string_equal(got, text);
}

static void test_terminal_is_filtered(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(rig_write(rig, STREAM_OUT, "\x1b]0;title\x07\x1b[31mred", 18), 0);
    assert_terminal_shows(rig, "\x1b[31mred");
    assert_int_equal(rig_write(rig, STREAM_ERR, "\x1b[6n!", 5), 0);
    assert_terminal_shows(rig, "!");
    rig_free_streams(rig);
    assert_terminal_shows(rig, "\x1b[0m");
}

/* A pipe is not: bytes are bytes. */
static void test_pipe_is_not_filtered(void **state)
{
    static const char bytes[] = "\x1b]0;t\x07\0\xff\x1b[6n";
    struct rig *rig = *state;
    char got[32];

    assert_int_equal(rig_write(rig, STREAM_OUT, bytes, sizeof bytes), 0);
    assert_int_equal(read(rig->readers[0], got, sizeof got), sizeof bytes);
    assert_memory_equal(got, bytes, sizeof bytes);
}

/* poll() calls a terminal writable while it has room for a single byte. */
static void test_slow_terminal(void **state)
{
    struct rig *rig = *state;
    char chunk[CHUNK], got[97];
    size_t written = 0, shown = 0;

    pattern(chunk, 0, sizeof chunk);
    do {
        assert_int_equal(rig_write(rig, STREAM_OUT, chunk, sizeof chunk), 0);
        written += sizeof chunk;
    } while (!rig_blocked(rig, STREAM_OUT));

    /* It shows a little at a time, and mostly has room for less than we have. */
    while (shown < written) {
        ssize_t n = read(rig->readers[0], got, sizeof got);

        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(got[i], chunk[(shown + (size_t) i) % sizeof chunk]);
        shown += (size_t) n;
        assert_int_equal(rig_flush(rig, STREAM_OUT), 0);
    }
    assert_int_equal(shown, written);
    assert_false(rig_blocked(rig, STREAM_OUT));
}

#define PIPES_TEST(f)    cmocka_unit_test_setup_teardown(f, pipes_setup, rig_teardown)
#define TERMINAL_TEST(f) cmocka_unit_test_setup_teardown(f, terminal_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PIPES_TEST(test_fast_reader),
        PIPES_TEST(test_slow_reader),
        PIPES_TEST(test_flush_without_room),
        PIPES_TEST(test_streams_do_not_share),
        PIPES_TEST(test_reader_gone),
        PIPES_TEST(test_reader_leaves_in_the_middle),
        PIPES_TEST(test_reader_leaves_before_the_end),
        PIPES_TEST(test_rest_is_written),
        PIPES_TEST(test_drain),
        PIPES_TEST(test_large_write),
        PIPES_TEST(test_pipe_is_non_blocking),
        cmocka_unit_test(test_free_nothing),
        TERMINAL_TEST(test_terminal_is_filtered),
        PIPES_TEST(test_pipe_is_not_filtered),
        TERMINAL_TEST(test_slow_terminal),
    };

    (void) signal(SIGPIPE, SIG_IGN); /* as the program itself does */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
