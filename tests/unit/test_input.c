/* Our standard input to the tenant's, over real pipes. The tenant's is non-blocking on our side, as
 * the engine makes it: nothing here may wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/run/oneshot.h"

#include "base/banned.h"

struct pipes {
    int user;    /* writes what our standard input brings */
    int from;    /* our standard input */
    int program; /* the tenant's standard input */
    struct input input;
};

static int pipes_setup(void **state)
{
    struct pipes *p = malloc(sizeof *p);
    int in[2], out[2];

    if (!p || pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
        fcntl(out[1], F_SETFL, O_NONBLOCK) < 0) {
        free(p);
        return -1;
    }
    p->user = in[1];
    p->from = in[0];
    p->program = out[0];
    input_init(&p->input, p->from, out[1]);
    *state = p;
    return 0;
}

static int pipes_teardown(void **state)
{
    struct pipes *p = *state;

    input_close(&p->input);
    gb_closep(&p->user);
    gb_closep(&p->from);
    gb_closep(&p->program);
    free(p);
    return 0;
}

static void hang_up(int *fd)
{
    assert_int_equal(close(*fd), 0);
    *fd = -EBADF;
}

/* The engine's loop in small: moves only if poll() says so. Returns whether it moved. */
static bool step(struct input *input)
{
    struct pollfd ready = { .fd = -1 };

    input_poll(input, &ready);
    if (poll(&ready, 1, 0) != 1)
        return false;
    errno = EAGAIN; /* of some earlier call: what succeeds must not look at it */
    input_move(input);
    return true;
}

static void assert_waits_for(const struct input *input, int fd, short events)
{
    struct pollfd ready = { .fd = -1 };

    input_poll(input, &ready);
    assert_int_equal(ready.fd, fd);
    assert_int_equal(ready.events, events);
}

static void assert_program_reads(struct pipes *p, const char *text)
{
    char got[64];

    assert_int_equal(read(p->program, got, sizeof got), strlen(text));
    assert_memory_equal(got, text, strlen(text));
}

static void test_lines_as_they_come(void **state)
{
    struct pipes *p = *state;

    assert_waits_for(&p->input, p->from, POLLIN);
    assert_false(step(&p->input));
    assert_int_equal(write(p->user, "one\n", 4), 4);
    assert_true(step(&p->input));
    assert_program_reads(p, "one\n");
    assert_waits_for(&p->input, p->from, POLLIN);
    assert_int_equal(write(p->user, "\0\xff", 2), 2);
    assert_true(step(&p->input));
    assert_int_equal(read(p->program, (char[4]){ 0 }, 4), 2);
}

static void test_end_of_file(void **state)
{
    struct pipes *p = *state;
    int to = p->input.to;

    assert_int_equal(write(p->user, "last", 4), 4);
    hang_up(&p->user);
    while (step(&p->input))
        ;
    assert_program_reads(p, "last");
    assert_program_reads(p, "");
    assert_int_equal(p->input.to, -EBADF);
    assert_int_equal(fcntl(to, F_GETFD), -1);
    /* Ours is not ours to close. */
    assert_int_not_equal(fcntl(p->from, F_GETFD), -1);
    /* Nothing to wait for: the caller's entry stays as it was. */
    assert_waits_for(&p->input, -1, 0);
}

static void test_no_input(void **state)
{
    struct pipes *p = *state;
    struct input *input = malloc(sizeof *input);
    int ends[2];

    assert_non_null(input);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    input_init(input, -1, ends[1]);
    assert_int_equal(input->to, -EBADF);
    assert_int_equal(read(ends[0], (char[1]){ 0 }, 1), 0); /* the end at once */
    assert_waits_for(input, -1, 0);
    input_close(input);
    assert_int_equal(close(ends[0]), 0);

    /* As an execution has it before its tenant is there. */
    input_init(input, -1, -EBADF);
    input_close(input);
    assert_int_equal(input->to, -EBADF);
    free(input);
    assert_int_not_equal(fcntl(p->input.to, F_GETFD), -1); /* the other one was left alone */
}

/* Moves until neither side can; a pipe of the smallest size makes every write a partial one. */
static void pump(struct pipes *p, size_t total, size_t read_size)
{
    size_t written = 0, got = 0;
    char chunk[8192];

    assert_true(read_size <= sizeof chunk);
    assert_int_equal(fcntl(p->user, F_SETFL, O_NONBLOCK), 0);
    while (got < total) {
        size_t part = total - written < sizeof chunk ? total - written : sizeof chunk;
        ssize_t n;

        for (size_t i = 0; i < part; i++)
            chunk[i] = (char) ((written + i) % 251);
        n = write(p->user, chunk, part);
        if (n > 0)
            written += (size_t) n;
        while (step(&p->input))
            ;
        n = read(p->program, chunk, read_size);
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal((unsigned char) chunk[i], (got + (size_t) i) % 251);
        got += (size_t) n;
    }
    assert_int_equal(got, total);
    assert_int_equal(p->input.len, 0);
}

static void test_partial_writes(void **state)
{
    static const size_t read_sizes[] = { 1000, 4096, 5000 };
    struct pipes *p = *state;

    assert_true(fcntl(p->program, F_SETPIPE_SZ, 4096) >= 4096);
    for (size_t i = 0; i < ARRAY_LEN(read_sizes); i++)
        pump(p, 300000, read_sizes[i]);
}

/* A program that does not read holds up nobody but itself: we wait for it and take no more. */
static void test_full_pipe(void **state)
{
    struct pipes *p = *state;
    char chunk[16384] = "";
    int size = fcntl(p->program, F_SETPIPE_SZ, 4096);

    assert_true(size > 0 && (size_t) size < sizeof chunk);
    assert_int_equal(write(p->user, chunk, sizeof chunk), sizeof chunk);
    while (step(&p->input))
        ;
    assert_int_equal(p->input.len, sizeof chunk - (size_t) size);
    assert_waits_for(&p->input, p->input.to, POLLOUT);
    /* Even if it is asked to, against poll()'s advice. */
    input_move(&p->input);
    assert_int_equal(p->input.len, sizeof chunk - (size_t) size);
    assert_true(p->input.to >= 0);

    hang_up(&p->user);
    assert_false(step(&p->input)); /* the end comes after what is held */
    assert_int_equal(read(p->program, chunk, sizeof chunk), size);
    assert_true(step(&p->input));
    assert_int_equal(p->input.len, sizeof chunk - 2 * (size_t) size);
}

static void test_reader_gone(void **state)
{
    struct pipes *p = *state;

    hang_up(&p->program);
    assert_false(step(&p->input)); /* nothing to bring yet, so nobody missed */
    assert_int_equal(write(p->user, "x", 1), 1);
    assert_true(step(&p->input));
    assert_int_equal(p->input.to, -EBADF);
    assert_waits_for(&p->input, -1, 0);
}

static void test_reader_gone_with_a_full_pipe(void **state)
{
    struct pipes *p = *state;
    char chunk[16384] = "";

    assert_true(fcntl(p->program, F_SETPIPE_SZ, 4096) > 0);
    assert_int_equal(write(p->user, chunk, sizeof chunk), sizeof chunk);
    while (step(&p->input))
        ;
    hang_up(&p->program);
    assert_true(step(&p->input)); /* poll() tells of the error */
    assert_int_equal(p->input.to, -EBADF);
}

/* An input that cannot be read is an empty one. */
static void test_unreadable(void **state)
{
    struct pipes *p = *state;
    autoclose int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(dir >= 0);
    p->input.from = dir;
    input_move(&p->input);
    assert_int_equal(p->input.to, -EBADF);
    assert_program_reads(p, "");
}

/* The one who started us may have made it non-blocking; an early read is then no end. */
static void test_nothing_there_yet(void **state)
{
    struct pipes *p = *state;

    assert_int_equal(fcntl(p->from, F_SETFL, O_NONBLOCK), 0);
    input_move(&p->input);
    assert_true(p->input.to >= 0);
    assert_int_equal(p->input.len, 0);
    assert_int_equal(write(p->user, "late", 4), 4);
    assert_true(step(&p->input));
    assert_program_reads(p, "late");
}

#define PIPES_TEST(f) cmocka_unit_test_setup_teardown(f, pipes_setup, pipes_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PIPES_TEST(test_lines_as_they_come),
        PIPES_TEST(test_end_of_file),
        PIPES_TEST(test_no_input),
        PIPES_TEST(test_partial_writes),
        PIPES_TEST(test_full_pipe),
        PIPES_TEST(test_reader_gone),
        PIPES_TEST(test_reader_gone_with_a_full_pipe),
        PIPES_TEST(test_unreadable),
        PIPES_TEST(test_nothing_there_yet),
    };

    (void) signal(SIGPIPE, SIG_IGN); /* as the program itself does */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
