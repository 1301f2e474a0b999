/*
 * An answer as it is made, on a terminal: the programs, what they print, how they ended. All of it
 * is dimmed, because none of it is the answer; and all of it was written by a model or a program,
 * so it passes through plain_text.h.
 *
 * The story is not shown while it is written: it may still turn out to have a number that nobody
 * computed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "cli/ask.h"
#include "cli/terminal/plain_text.h"
#include "mark/agent/agent.h"

#include "base/banned.h"

#define WAIT_US    (USEC_PER_SEC / 2)
#define LINES_MAX  40 /* of one program's output */
#define DIM        "\033[2m"
#define NORMAL     "\033[0m"
#define CLEAR_LINE "\r\033[K"

struct follow {
    int64_t step;  /* the one whose code is being shown */
    size_t lines;  /* of its output */
    bool progress; /* a progress line is shown */
    bool midline;
};

static void hide_progress(struct follow *f)
{
    if (f->progress)
        fputs(CLEAR_LINE, stderr);
    f->progress = false;
}

static void show_progress(struct follow *f, const char *what)
{
    if (f->midline)
        fputc('\n', stderr);
    f->midline = false;
    fprintf(stderr, CLEAR_LINE DIM "%s …" NORMAL, what);
    f->progress = true;
}

/* Writes @text dimmed, each line behind @margin. */
static void write_dim(struct follow *f, const char *margin, const char *text)
{
    autofree char *plain = plain_text(text, strlen(text));
    const char *line = plain;

    hide_progress(f);
    while (line && *line) {
        size_t len = strcspn(line, "\n");

        fprintf(stderr, DIM "%s%.*s" NORMAL "%s", f->midline ? "" : margin, (int) len, line,
                line[len] ? "\n" : "");
        f->midline = line[len] == '\0';
        line += len + (line[len] == '\n');
    }
}

static void end_line(struct follow *f)
{
    hide_progress(f);
    if (f->midline)
        fputc('\n', stderr);
    f->midline = false;
}

static void on_step(struct follow *f, const json_t *data)
{
    const char *delta = json_string_value(json_object_get(data, "code_delta"));
    const char *code = json_string_value(json_object_get(data, "code"));
    int64_t n = json_integer_value(json_object_get(data, "n"));
    bool seen = n == f->step;

    if (!seen) {
        end_line(f);
        fprintf(stderr, DIM "step %lld" NORMAL "\n", (long long) n);
        f->step = n;
        f->lines = 0;
    }
    if (delta)
        write_dim(f, "  │ ", delta);
    else if (code && !seen) /* it did not come in pieces */
        write_dim(f, "  │ ", code);
    if (code) {
        end_line(f);
        show_progress(f, "running");
    }
}

static void on_output(struct follow *f, const json_t *data)
{
    const char *text = json_string_value(json_object_get(data, "text"));
    size_t len = text ? strlen(text) : 0, end = 0;
    autofree char *some = NULL;

    while (end < len && f->lines < LINES_MAX)
        if (text[end++] == '\n')
            f->lines++;
    some = strndup(text ? text : "", end);
    if (some && *some)
        write_dim(f, "  ", some);
    if (end < len && f->lines == LINES_MAX) {
        end_line(f);
        fprintf(stderr, DIM "  … more output" NORMAL "\n");
        f->lines++;
    }
}

static void on_receipt(struct follow *f, const json_t *data)
{
    const json_t *receipt = json_object_get(data, "receipt");
    const char *status = json_string_value(json_object_get(receipt, "status"));
    const json_t *error = json_object_get(receipt, "error");
    const char *name = json_string_value(json_object_get(error, "name"));
    const char *value = json_string_value(json_object_get(error, "value"));
    double seconds = json_number_value(json_object_get(receipt, "execution_time"));
    autofree char *line = NULL;

    end_line(f);
    if (asprintf(&line, "%s in %.1f s%s%s%s%.200s\n", status ? status : "not run", seconds,
                 name ? ": " : "", name ? name : "", value ? ": " : "", value ? value : "") < 0)
        line = NULL;
    if (line)
        write_dim(f, "  ", line);
    show_progress(f, "thinking");
}

static void show_event(struct follow *f, const struct answer_event *event)
{
    json_t *data = event->data ? json_loads(event->data, 0, NULL) : NULL;

    if (strcmp(event->name, "step") == 0)
        on_step(f, data);
    else if (strcmp(event->name, "output") == 0)
        on_output(f, data);
    else if (strcmp(event->name, "receipt") == 0)
        on_receipt(f, data);
    else if (strcmp(event->name, "story") == 0)
        show_progress(f, "writing the answer");
    else if (strcmp(event->name, "thinking") == 0 && !f->midline)
        show_progress(f, "thinking");
    (void) fflush(stderr);
    json_decref(data);
}

void ask_follow(struct answer *answer, bool shown)
{
    struct follow f = { 0 };
    int64_t after = 0;
    int r = 0;

    if (!shown) {
        (void) answer_wait(answer, -1);
        return;
    }
    show_progress(&f, "thinking");
    while (r >= 0) {
        struct answer_event event = { 0 };

        r = answer_next_event(answer, after, WAIT_US, &event);
        if (r > 0) {
            show_event(&f, &event);
            after = event.id;
            free(event.data);
        }
        if (r > 0 && event.last)
            break;
    }
    end_line(&f);
    (void) answer_wait(answer, -1);
}
