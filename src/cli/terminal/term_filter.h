/*
 * Keeps a hostile program from driving the terminal that shows its output.
 *
 * Text, line and tab controls, colours, cursor movement and erasing pass. Everything else that a
 * terminal would act on is dropped: titles, the clipboard, key mappings, queries whose answer it
 * would type into the shell, modes, resets. Used only where our own stdout or stderr is a terminal.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A held sequence of this many bytes may come out with a chunk of a single byte; it bounds the
 * parameters of a control sequence. */
#define TERM_FILTER_SLACK 16u

/* The room that term_filter_run() needs for @len bytes. */
#define TERM_FILTER_OUT_SIZE(len) (3 * (len) + TERM_FILTER_SLACK)

#define TERM_FILTER_PARAMS_MAX 16u

enum term_state {
    TERM_TEXT,
    TERM_ESC,      /* after ESC */
    TERM_ESC_MORE, /* after ESC and an intermediate byte */
    TERM_CSI,      /* collecting a control sequence */
    TERM_CSI_DROP, /* in a control sequence that will not pass */
    TERM_OSC,      /* in an operating system command */
    TERM_STRING,   /* in DCS, APC, PM or SOS */
};

/* One for each stream; the state lasts from chunk to chunk. */
struct term_filter {
    enum term_state state;
    char part[4]; /* of a character that is not complete */
    uint8_t part_len;
    char params[TERM_FILTER_PARAMS_MAX];
    uint8_t params_len;
    uint32_t dropped;   /* bytes of the present string */
    bool coloured;      /* the program left a colour on */
    bool cursor_hidden; /* or the cursor off */
};

void term_filter_init(struct term_filter *filter);

/* Filters one chunk; @out has room for TERM_FILTER_OUT_SIZE(@len). Returns the bytes written, which
 * never end inside a character or a sequence. */
size_t term_filter_run(struct term_filter *filter, const char *in, size_t len, char *out);

/* The end of the stream: what restores colour and cursor if the program did not, at most
 * TERM_FILTER_SLACK bytes. */
size_t term_filter_end(struct term_filter *filter, char *out);
