/*
 * A state machine over bytes, after the one in ECMA-48 terminals, with one difference: every ESC is
 * written by the filter itself, and only in front of a complete sequence that it found harmless. So
 * no mistake in imitating a terminal, and no choice of chunk boundaries, can let another sequence
 * through; at worst some of its characters appear as text.
 *
 * A control byte inside a sequence ends it: a terminal would act on the byte and continue, but no
 * honest program does that.
 */
#include "cli/terminal/term_filter.h"

#include <string.h>

#include "base/text/utf8.h"

#include "base/banned.h"

#define ESC '\x1b'
#define BEL '\a'
#define CAN '\x18'
#define SUB '\x1a'

/* ESC, '[' and the final byte around the parameters, of which the final byte belongs to the chunk
 * that brings it: 3 bytes of room. */
_Static_assert(TERM_FILTER_PARAMS_MAX + 3 <= TERM_FILTER_OUT_SIZE(1), "a sequence must fit");

/* A terminal swallows a string until its terminator. We give up on the terminator at some point, so
 * that a stray byte in binary output does not hide everything after it. */
#define TERM_STRING_MAX (1024u * 1024)

/* Beyond any screen; terminals have had overflows here. */
#define TERM_NUMBER_DIGITS_MAX 5

void term_filter_init(struct term_filter *filter)
{
    *filter = (struct term_filter){ .state = TERM_TEXT };
}

static size_t term_put(char *out, const char *data, size_t len)
{
    memcpy(out, data, len);
    return len;
}

/* True when the parameters are numbers of sane length and separators. Intermediate bytes and
 * private marks, which would change the meaning of the sequence, are collected with them and fail
 * here. */
static bool term_numbers(const struct term_filter *f, bool colons)
{
    unsigned digits = 0;

    for (size_t i = 0; i < f->params_len; i++) {
        char c = f->params[i];

        if (c >= '0' && c <= '9') {
            if (++digits > TERM_NUMBER_DIGITS_MAX)
                return false;
        } else if (c == ';' || (c == ':' && colons)) {
            digits = 0;
        } else {
            return false;
        }
    }
    return true;
}

static bool term_params_are(const struct term_filter *f, const char *text)
{
    return f->params_len == strlen(text) && memcmp(f->params, text, f->params_len) == 0;
}

static bool term_csi_harmless(const struct term_filter *f, char final)
{
    switch (final) {
    case 'm':
        return term_numbers(f, true);
    case 'A':
    case 'B':
    case 'C':
    case 'D':
    case 'E':
    case 'F':
    case 'G':
    case 'H':
    case 'f':
        return term_numbers(f, false);
    case 'J': /* not 3: the lines above the screen are the user's */
    case 'K':
        return f->params_len == 0 ||
               (f->params_len == 1 && f->params[0] >= '0' && f->params[0] <= '2');
    case 'h':
    case 'l':
        return term_params_are(f, "?25");
    default:
        return false;
    }
}

static size_t term_csi_end(struct term_filter *f, char final, char *out)
{
    size_t n = 0;

    f->state = TERM_TEXT;
    if (!term_csi_harmless(f, final))
        return 0;
    if (final == 'm')
        f->coloured = !(f->params_len == 0 || term_params_are(f, "0"));
    else if (final == 'h' || final == 'l')
        f->cursor_hidden = final == 'l';

    out[n++] = ESC;
    out[n++] = '[';
    n += term_put(out + n, f->params, f->params_len);
    out[n++] = final;
    return n;
}

/* Takes a byte while a character is incomplete or begins. */
static size_t term_wide(struct term_filter *f, char c, char *out, bool *again)
{
    size_t unit, len;

    f->part[f->part_len++] = c;
    len = f->part_len;
    switch (utf8_next(f->part, len, &unit)) {
    case UTF8_PARTIAL:
        return 0;
    case UTF8_CHAR:
        f->part_len = 0;
        /* U+0080 to U+009F are controls: some terminals take U+009B for ESC [. */
        if (len == 2 && f->part[0] == '\xc2' && (unsigned char) f->part[1] < 0xa0)
            return 0;
        return term_put(out, f->part, len);
    case UTF8_INVALID:
        break;
    }
    /* The newest byte is outside the invalid unit unless it is all of it. */
    f->part_len = 0;
    *again = unit < len;
    return term_put(out, UTF8_REPLACEMENT, UTF8_REPLACEMENT_LEN);
}

static size_t term_text(struct term_filter *f, char c, char *out, bool *again)
{
    if (f->part_len > 0 || (unsigned char) c >= 0x80)
        return term_wide(f, c, out, again);
    if (c == ESC) {
        f->state = TERM_ESC;
        return 0;
    }
    if ((c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\b') || c == '\x7f')
        return 0;
    out[0] = c;
    return 1;
}

static void term_esc(struct term_filter *f, char c)
{
    f->params_len = 0;
    f->dropped = 0;
    switch (c) {
    case '[':
        f->state = TERM_CSI;
        return;
    case ']':
        f->state = TERM_OSC;
        return;
    case 'P':
    case 'X':
    case '^':
    case '_':
        f->state = TERM_STRING;
        return;
    default:
        f->state = c >= ' ' && c <= '/' ? TERM_ESC_MORE : TERM_TEXT;
    }
}

static size_t term_csi(struct term_filter *f, char c, char *out)
{
    if (c >= '@')
        return term_csi_end(f, c, out);
    if (f->params_len == TERM_FILTER_PARAMS_MAX)
        f->state = TERM_CSI_DROP;
    else
        f->params[f->params_len++] = c;
    return 0;
}

/* Inside a string; @again when the byte is text again. */
static void term_string(struct term_filter *f, char c, bool *again)
{
    if (c == ESC) {
        /* Either ST, which is an ESC sequence that is dropped, or the start of another. */
        f->state = TERM_ESC;
    } else if (c == BEL || c == CAN || c == SUB) {
        f->state = TERM_TEXT;
    } else if ((c == '\n' && f->state == TERM_OSC) || ++f->dropped > TERM_STRING_MAX) {
        f->state = TERM_TEXT;
        *again = true;
    }
}

/* Inside ESC or a control sequence, only printable ASCII continues it. */
static size_t term_sequence(struct term_filter *f, char c, char *out, bool *again)
{
    if (c < ' ' || c == '\x7f' || (unsigned char) c >= 0x80) {
        f->state = TERM_TEXT;
        *again = true;
        return 0;
    }
    if (f->state == TERM_CSI)
        return term_csi(f, c, out);
    if (f->state == TERM_ESC)
        term_esc(f, c);
    else if (c >= (f->state == TERM_CSI_DROP ? '@' : '0'))
        f->state = TERM_TEXT;
    return 0;
}

size_t term_filter_run(struct term_filter *filter, const char *in, size_t len, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        bool again;

        do {
            again = false;
            if (filter->state == TERM_TEXT)
                n += term_text(filter, in[i], out + n, &again);
            else if (filter->state == TERM_OSC || filter->state == TERM_STRING)
                term_string(filter, in[i], &again);
            else
                n += term_sequence(filter, in[i], out + n, &again);
        } while (again);
    }
    return n;
}

size_t term_filter_end(struct term_filter *filter, char *out)
{
    size_t n = 0;

    if (filter->part_len > 0)
        n += term_put(out + n, UTF8_REPLACEMENT, UTF8_REPLACEMENT_LEN);
    if (filter->coloured)
        n += term_put(out + n, "\x1b[0m", 4);
    if (filter->cursor_hidden)
        n += term_put(out + n, "\x1b[?25h", 6);
    term_filter_init(filter);
    return n;
}
