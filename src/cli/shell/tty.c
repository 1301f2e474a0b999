#include <stdbool.h>

#include "cli/shell/tty.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"

#include "base/banned.h"

#define SIDE_MAX 1000

/* Ends keys as kitty and others report them, which each screen has of its own. */
static const char plain_keys[] = "\033[<9u";

/* Only if it is shown: otherwise some terminals move the cursor to where it was when it last was.
 */
static const char other_screen[] = "\033[?1049";

/* Shows the cursor; ends mouse reports, bracketed paste, focus reports, application keys,
 * reverse video, inserting, and updates that are held back; wraps lines again; and resets the
 * character set, margins and colours. The cursor is saved before the margins would move it. */
static const char quiet[] = "\033[?25h"
                            "\033[?9l\033[?1000l\033[?1002l\033[?1003l\033[?1006l\033[?2004l"
                            "\033[?1004l\033[?1l\033>\033[>4;0m\033[?5l\033[4l\033[?2026l"
                            "\033[?7h\033(B\017\0337\033[r\0338\033[m";

static struct termios before, raw;
static volatile sig_atomic_t is_raw;
static bool on_other_screen;
static size_t matched; /* how much of other_screen was shown last */

bool tty_is_there(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

/* Only calls that a signal handler may make. */
static void on_crash(int sig)
{
    if (is_raw)
        (void) tcsetattr(STDIN_FILENO, TCSANOW, &before);
    (void) raise(sig); /* SA_RESETHAND: now as without us */
}

static void crash_watch(void)
{
    static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    struct sigaction action = { .sa_handler = on_crash, .sa_flags = (int) SA_RESETHAND };

    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        (void) sigaction(signals[i], &action, NULL);
}

int tty_raw(struct gb_err *err)
{
    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return gb_fail(err, errno, "read the settings of the terminal");
    raw = before;
    cfmakeraw(&raw);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    crash_watch();
    is_raw = 1;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0) {
        is_raw = 0;
        return gb_fail(err, errno, "change the settings of the terminal");
    }
    return 0;
}

void tty_note(const char *shown, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (matched == sizeof other_screen - 1 && (shown[i] == 'h' || shown[i] == 'l'))
            on_other_screen = shown[i] == 'h';
        matched = matched < sizeof other_screen - 1 && shown[i] == other_screen[matched]
                      ? matched + 1
                      : shown[i] == other_screen[0];
    }
}

void tty_restore(void)
{
    if (!is_raw)
        return;
    (void) io_write_all(STDOUT_FILENO, plain_keys, sizeof plain_keys - 1);
    if (on_other_screen) {
        (void) io_write_all(STDOUT_FILENO, other_screen, sizeof other_screen - 1);
        (void) io_write_all(STDOUT_FILENO, "l", 1);
        (void) io_write_all(STDOUT_FILENO, plain_keys, sizeof plain_keys - 1);
    }
    (void) io_write_all(STDOUT_FILENO, quiet, sizeof quiet - 1);
    (void) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    is_raw = 0;
}

void tty_again(void)
{
    if (is_raw)
        (void) tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

static int64_t side(unsigned value, int64_t standard)
{
    return value == 0 ? standard : value > SIDE_MAX ? SIDE_MAX : (int64_t) value;
}

void tty_size(int64_t *ret_cols, int64_t *ret_rows)
{
    struct winsize size = { 0 };

    (void) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *ret_cols = side(size.ws_col, 80);
    *ret_rows = side(size.ws_row, 24);
}
