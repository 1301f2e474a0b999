/*
 * Requests of a running cell to the supervisor: %pip install, queries of Mark. What they say is for
 * the caller of the run.
 *
 * An ASK is passed to the caller of the run, which returns a descriptor at once and writes to its
 * other end when the answer is ready, from any thread. The loop of the run polls it like everything
 * else, so output, deadlines and interrupts are handled meanwhile. The run may end first: then the
 * descriptor is closed, the writer gets a broken pipe, and nobody waits. The same happens when the
 * program is to stop, so that an interrupt ends what the program waits for and not only its wait.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "engine/run/internal.h"

#include "base/banned.h"

#define ASK_MAX      262144u /* bytes of a request; glovebox_runner/asks.py has the same */
#define ASKS_MAX     400     /* in one run */
#define ANSWER_US    (200 * USEC_PER_MSEC)
#define SEQUENCE_MAX 20u

struct ask {
    int fd;
    int64_t since_us, lent_us; /* the run's deadline was moved by so much */
    char sequence[SEQUENCE_MAX + 1];
    size_t len;
    char answer[ASK_ANSWER_MAX];
};

/* A tenant that does not read its answer only hurts itself: its socket is full, and it waits. */
static void answer_send(struct run *run, const char *sequence, const char *json, size_t len)
{
    struct frame_out out;

    frame_out_init(&out, FRAME_ANSWER);
    frame_put_text(&out, KEY_SEQUENCE, sequence);
    frame_put(&out, KEY_JSON, json, len);
    if (frame_send(tenant_control(run->tenant), &out, clock_now_us() + ANSWER_US) < 0)
        run->asked = ASKS_MAX; /* half of it may have been sent: nothing more may follow */
    frame_out_release(&out);
}

static void refuse(struct run *run, const char *sequence, const char *why)
{
    char json[160];
    int len = snprintf(json, sizeof json, "{\"success\": false, \"message\": \"%s\"}", why);

    answer_send(run, sequence, json, (size_t) len);
}

/* Time spent waiting for us is not the program's: its deadline moves for as long as that takes, but
 * in total not further than the caller allows. */
static void time_lend(struct run *run)
{
    int64_t left = run->spec->ask_us - run->ask_used_us;

    run->ask->since_us = clock_now_us();
    run->ask->lent_us = left > 0 ? left : 0;
    run->deadline_us += run->ask->lent_us;
}

static void time_return(struct run *run)
{
    int64_t used = clock_now_us() - run->ask->since_us;

    if (used > run->ask->lent_us)
        used = run->ask->lent_us;
    run->deadline_us -= run->ask->lent_us - used;
    run->ask_used_us += used;
}

void ask_drop(struct run *run)
{
    if (!run->ask)
        return;
    time_return(run);
    gb_closep(&run->ask->fd);
    free(run->ask);
    run->ask = NULL;
}

void ask_stop(struct run *run)
{
    char sequence[SEQUENCE_MAX + 1];

    if (!run->ask)
        return;
    memcpy(sequence, run->ask->sequence, sizeof sequence);
    ask_drop(run);
    refuse(run, sequence, "interrupted"); /* for a program that ignores the interrupt */
}

bool ask_take(struct run *run, const struct frame_msg *msg)
{
    char sequence[SEQUENCE_MAX + 1];
    struct frame_field json;
    autofree char *text = NULL;
    int64_t number;

    if (!run->spec->cell || run->asked >= ASKS_MAX || !frame_find(msg, KEY_JSON, &json) ||
        json.len > ASK_MAX || !frame_find_int(msg, KEY_SEQUENCE, 0, INT64_MAX, &number))
        return false;
    run->asked++;
    snprintf(sequence, sizeof sequence, "%lld", (long long) number);
    if (run->ask) {
        refuse(run, sequence, "another request is in progress");
        return true;
    }
    if (!run->spec->ask) {
        refuse(run, sequence,
               "packages can only be installed through a service: see glovebox serve");
        return true;
    }
    text = malloc(json.len + 1u);
    run->ask = calloc(1, sizeof *run->ask);
    if (!run->ask || !text) {
        free(run->ask);
        run->ask = NULL;
        refuse(run, sequence, "out of memory");
        return true;
    }
    memcpy(text, json.data, json.len);
    text[json.len] = '\0';
    memcpy(run->ask->sequence, sequence, sizeof sequence);
    time_lend(run);
    run->ask->fd = run->spec->ask(run->spec->ask_arg, text, json.len);
    if (run->ask->fd < 0) {
        ask_drop(run);
        refuse(run, sequence, "the service is out of resources; try again");
    }
    return true;
}

int ask_fd(const struct run *run)
{
    return run->ask ? run->ask->fd : -1;
}

/* Lines that begin with a sign are for the user, and come before the answer. */
static void lines_tell(struct run *run)
{
    struct ask *ask = run->ask;
    char *end;

    while (ask->len > 0 && ask->answer[0] == ASK_LINE_SIGN &&
           (end = memchr(ask->answer, '\n', ask->len))) {
        size_t len = (size_t) (end - ask->answer) + 1;
        char text[ASK_LINE_MAX + 1];

        if (len - 1 <= ASK_LINE_MAX) {
            memcpy(text, ask->answer + 1, len - 1);
            text[len - 1] = '\0';
            run_take_text(run, STREAM_OUT, text);
        }
        ask->len -= len;
        memmove(ask->answer, ask->answer + len, ask->len);
    }
}

void ask_read(struct run *run)
{
    struct ask *ask = run->ask;
    ssize_t n;

    if (ask->len == sizeof ask->answer) {
        refuse(run, ask->sequence, "the answer is too long");
        ask_drop(run);
        return;
    }
    n = read(ask->fd, ask->answer + ask->len, sizeof ask->answer - ask->len);
    if (n > 0) {
        ask->len += (size_t) n;
        lines_tell(run);
    }
    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
        return;
    if (ask->len > 0)
        answer_send(run, ask->sequence, ask->answer, ask->len);
    else
        refuse(run, ask->sequence, "the service did not answer");
    ask_drop(run);
}
