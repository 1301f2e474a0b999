/*
 * A shell that stays: one bash, command after command.
 *
 * Theory of operation. bash reads its script from descriptor 0, a pipe that we write to. A command
 * becomes two lines:
 *
 *     eval 'the text, quoted' </dev/null 97>&-
 *     printf 'NUMBER %d\n' "$?" >&97
 *
 * The text is one quoted word, so nothing in it (an open quote, a here-document, `fi`) can reach
 * beyond it. Descriptor 97 is the control socket, which bash hides from the text and the processes
 * it starts; no output can be mistaken for the end of a command, and a packet without the number of
 * the command is ignored. A program that digs the socket out of /proc falsifies only its own
 * receipts.
 *
 * The shell is started as interactive. Then an interrupt ends the command and not the shell, and so
 * does a failed expansion or exec. Its startup message (that there is no terminal) is discarded.
 * Each command begins with an empty line: a late interrupt can cost the line that is being read.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "engine/run/internal.h"

#include "base/banned.h"

#define OPEN_WAIT_US (30 * USEC_PER_SEC)
#define TEXT_MAX     (1u << 20)
#define STATUS_MAX   64

struct shell {
    struct box *box;
    struct piped_tenant piped;
    uint64_t count;
};

static const char setup[] = "set +H +o history\n"
                            "exec 97>&3 3>&-\n"
                            "unset PS1 PS2 HISTFILE\n"
                            "printf '0 0\\n' >&97\n";

/* Writes all of @text to the shell's input. bash keeps reading while a line is incomplete, so this
 * waits only for bash itself. */
static int text_write(struct shell *shell, const char *text, size_t len, int64_t until)
{
    while (len > 0) {
        struct pollfd room = { .fd = shell->piped.ends[0], .events = POLLOUT };
        ssize_t n = write(shell->piped.ends[0], text, len);
        int64_t left = until - clock_now_us();

        if (n > 0) {
            text += n;
            len -= (size_t) n;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return -errno;
        } else if (left <= 0) {
            return -ETIMEDOUT;
        } else {
            (void) poll(&room, 1, (int) (left / USEC_PER_MSEC) + 1);
        }
    }
    return 0;
}

/* One packet: "NUMBER CODE\n". Returns whether it is the end of command @id. */
static bool status_parse(const char *text, uint64_t id, int64_t *ret_code)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    long code;

    if (end == text || *end != ' ' || number != id)
        return false;
    text = end + 1;
    code = strtol(text, &end, 10);
    if (end == text || *end != '\n' || code < 0 || code > 255)
        return false;
    *ret_code = code;
    return true;
}

/* Waits until the shell has run its setup, and discards its output meanwhile. */
static int shell_greet(struct shell *shell, struct gb_err *err)
{
    struct pollfd news = { .fd = tenant_control(shell->piped.tenant), .events = POLLIN };
    char text[STATUS_MAX + 1], waste[4096];
    int64_t code;
    ssize_t n;

    if (text_write(shell, setup, sizeof setup - 1, clock_now_us() + OPEN_WAIT_US) < 0 ||
        poll(&news, 1, (int) (OPEN_WAIT_US / USEC_PER_MSEC)) <= 0)
        return gb_fail_plain(err, ETIMEDOUT, "the shell did not respond");
    n = recv(news.fd, text, STATUS_MAX, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    if (!status_parse(text, 0, &code))
        return gb_fail_plain(err, ENOENT, "the box has no working bash");
    for (int i = 1; i < 3; i++)
        while (read(shell->piped.ends[i], waste, sizeof waste) > 0)
            ;
    return 0;
}

int shell_open(struct box *box, char *const *env, struct shell **ret_shell, struct gb_err *err)
{
    char *argv[] = { (char *) "/bin/bash",   (char *) "--norc", (char *) "--noprofile",
                     (char *) "--noediting", (char *) "-i",     NULL };
    struct shell *shell = calloc(1, sizeof *shell);
    autofree char **all = NULL;
    size_t len = 0;
    int r;

    while (env && env[len])
        len++;
    all = calloc(len + 3, sizeof *all);
    if (!shell || !all) {
        free(shell);
        return gb_fail(err, ENOMEM, "open a shell");
    }
    if (len > 0)
        memcpy(all, env, len * sizeof *all);
    all[len] = (char *) "PS1="; /* no prompts */
    all[len + 1] = (char *) "PS2=";
    shell->box = box;
    r = command_spawn(box, argv, all, NULL, true, &shell->piped, err);
    if (r < 0) {
        free(shell);
        return r;
    }
    r = shell_greet(shell, err);
    if (r < 0) {
        shell_free(shell);
        return r;
    }
    standing_add(box, shell->piped.tenant, true);
    *ret_shell = shell;
    return 0;
}

void shell_free(struct shell *shell)
{
    if (!shell)
        return;
    standing_remove(shell->box, shell->piped.tenant);
    tenant_free(shell->piped.tenant);
    for (int i = 0; i < 3; i++)
        gb_closep(&shell->piped.ends[i]);
    free(shell);
}

bool shell_is_alive(const struct shell *shell)
{
    return tenant_is_alive(shell->piped.tenant);
}

/* ---- a command ---- */

static bool shell_control(struct run *run)
{
    char text[STATUS_MAX + 1];
    ssize_t n = recv(tenant_control(run->tenant), text, STATUS_MAX, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        run->control_open = false;
        return false;
    }
    text[n] = '\0';
    if (!run->done && status_parse(text, strtoull(run->done_id, NULL, 10), &run->done_code))
        run->done = true;
    return true;
}

static void shell_hard(struct run *run)
{
    standing_kill_started(run, true);
}

static void shell_soft(struct run *run)
{
    char line[STATUS_MAX];
    int len = snprintf(line, sizeof line, "\nprintf '%s %%d\\n' \"$?\" >&97\n", run->done_id);

    standing_soft(run);
    (void) text_write(run->owner, line, (size_t) len, 0);
}

/* The two lines of a command; the caller frees. */
static char *lines_make(const struct run_spec *spec, const char *id, size_t *ret_len)
{
    static const char head[] = "\neval '", quote[] = "'\\''";
    char tail[96];
    size_t quotes = 0, tail_len, len = 0;
    char *lines;

    tail_len = (size_t) snprintf(tail, sizeof tail,
                                 "' </dev/null 97>&-\nprintf '%s %%d\\n' \"$?\" >&97\n", id);
    for (size_t i = 0; i < spec->code_len; i++)
        quotes += spec->code[i] == '\'';
    lines = malloc(sizeof head + spec->code_len + quotes * 3 + tail_len);
    if (!lines)
        return NULL;
    memcpy(lines, head, len = sizeof head - 1);
    for (size_t i = 0; i < spec->code_len; i++) {
        if (spec->code[i] == '\'') {
            memcpy(lines + len, quote, sizeof quote - 1);
            len += sizeof quote - 1;
        } else {
            lines[len++] = spec->code[i];
        }
    }
    memcpy(lines + len, tail, tail_len);
    *ret_len = len + tail_len;
    return lines;
}

static int shell_start(struct run *run, struct gb_err *err)
{
    autofree char *lines = NULL;
    size_t len;
    int r;

    lines = lines_make(run->spec, run->done_id, &len);
    if (!lines)
        return gb_fail(err, ENOMEM, "send a command");
    run->control_open = true;
    r = text_write(run->owner, lines, len, run->deadline_us);
    /* The loop notices a shell that is gone. */
    if (r < 0 && r != -EPIPE)
        run_stop_hard(run, STOP_WALL);
    return 0;
}

static const struct run_ops shell_ops = {
    .start = shell_start,
    .soft = shell_soft,
    .hard = shell_hard,
    .count = standing_count,
    .control = shell_control,
};

int shell_run(struct shell *shell, const struct run_spec *spec, struct outcome *ret_outcome,
              struct gb_err *err)
{
    struct run run;
    char id[24];

    if (memchr(spec->code, '\0', spec->code_len))
        return gb_fail_plain(err, EINVAL, "a command cannot contain null bytes");
    if (spec->code_len > TEXT_MAX)
        return gb_fail_plain(err, E2BIG, "the command is longer than %u bytes: put it into a file",
                             TEXT_MAX);
    if (!shell_is_alive(shell))
        return gb_fail_plain(err, ECHILD, "the shell exited between two commands");
    run_init(&run, &shell_ops, shell->box, spec);
    snprintf(id, sizeof id, "%llu", (unsigned long long) ++shell->count);
    run_lend(&run, &shell->piped, id);
    run.owner = shell;
    return standing_run(&run, ret_outcome, err);
}
