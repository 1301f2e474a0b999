/* Standard input: never the descriptor itself (it may be a terminal, or a file open for writing),
 * always a pipe that we fill. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/run/oneshot.h"

#include "base/banned.h"

void input_init(struct input *input, int from, int to)
{
    input->from = from;
    input->to = to;
    input->start = input->len = 0;
    if (from < 0)
        input_close(input); /* end of file at once */
}

void input_close(struct input *input)
{
    gb_closep(&input->to);
    input->to = -EBADF;
}

void input_poll(const struct input *input, struct pollfd *ret_poll)
{
    if (input->to < 0)
        return;
    if (input->len > 0)
        *ret_poll = (struct pollfd){ .fd = input->to, .events = POLLOUT };
    else
        *ret_poll = (struct pollfd){ .fd = input->from, .events = POLLIN };
}

static void input_fill(struct input *input)
{
    ssize_t n = read(input->from, input->data, sizeof input->data);

    if (n > 0) {
        input->start = 0;
        input->len = (size_t) n;
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        input_close(input);
    }
}

void input_move(struct input *input)
{
    ssize_t n;

    if (input->len == 0) {
        input_fill(input);
        if (input->to < 0 || input->len == 0)
            return;
    }
    n = write(input->to, input->data + input->start, input->len);
    if (n > 0) {
        input->start += (size_t) n;
        input->len -= (size_t) n;
    } else if (n < 0 && errno != EINTR && errno != EAGAIN) {
        input_close(input); /* the program has closed its input */
    }
}

int input_file(const struct run_spec *spec, int *ret_fd, struct gb_err *err)
{
    autoclose int fd = memfd_create("glovebox-input", MFD_CLOEXEC);
    int r;

    if (fd < 0)
        return gb_fail(err, errno, "create a memory file");
    r = io_write_all(fd, spec->input, spec->input_len);
    if (r < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return gb_fail(err, r < 0 ? -r : errno, "keep the input");
    *ret_fd = TAKE_FD(fd);
    return 0;
}
