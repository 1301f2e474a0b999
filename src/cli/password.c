#include "cli/password.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"

#include "base/banned.h"

/* The first line of @fd. */
static int read_line(int fd, char text[PASSWORD_SIZE], struct gb_err *err)
{
    ssize_t len = io_read_all(fd, text, PASSWORD_SIZE - 1);
    size_t line;

    if (len < 0)
        return gb_fail(err, (int) -len, "read the password");
    text[len] = '\0';
    line = strcspn(text, "\r\n");
    if (strlen(text) != (size_t) len || (len == PASSWORD_SIZE - 1 && text[line] == '\0'))
        return gb_fail_plain(err, EINVAL, "the password is too long, or has a NUL in it");
    explicit_bzero(text + line, PASSWORD_SIZE - line);
    return 0;
}

int password_read_file(const char *path, char text[PASSWORD_SIZE], struct gb_err *err)
{
    autoclose int fd = -EBADF;

    if (strcmp(path, "-") == 0)
        return read_line(STDIN_FILENO, text, err);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return gb_fail(err, errno, "open '%s'", path);
    return read_line(fd, text, err);
}

/* One line from the terminal without showing it. Ctrl-C must not leave the terminal as it is then,
 * so it arrives as a character. */
static int ask_line(int tty, const char *prompt, char text[PASSWORD_SIZE], struct gb_err *err)
{
    struct termios before, quiet;
    ssize_t len;

    if (tcgetattr(tty, &before) < 0)
        return gb_fail(err, errno, "use the terminal");
    quiet = before;
    quiet.c_lflag &= ~(tcflag_t) (ECHO | ISIG);
    quiet.c_lflag |= ICANON;
    (void) tcsetattr(tty, TCSAFLUSH, &quiet); /* before the prompt: what is typed after it counts */
    (void) io_write_all(tty, prompt, strlen(prompt));
    len = read(tty, text, PASSWORD_SIZE - 1);
    (void) tcsetattr(tty, TCSAFLUSH, &before);
    (void) io_write_all(tty, "\n", 1);
    if (len < 0)
        return gb_fail(err, errno, "read the password");
    text[len] = '\0';
    text[strcspn(text, "\n")] = '\0';
    for (const char *p = text; *p; p++)
        if ((unsigned char) *p < ' ')
            return gb_fail_plain(err, EINTR, "cancelled");
    return 0;
}

int password_can_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

int password_ask(const char *prompt, char text[PASSWORD_SIZE], struct gb_err *err)
{
    autoclose int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);

    if (tty < 0)
        return gb_fail(err, errno, "open the terminal");
    return ask_line(tty, prompt, text, err);
}
