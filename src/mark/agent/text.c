#include "mark/agent/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/grow.h"

#include "base/banned.h"

void text_add(struct text *text, const char *data, size_t len)
{
    char *grown = text->failed ? NULL : grow(text->data, &text->cap, text->len + len + 1, 1, 256);

    if (!grown) {
        text->failed = true;
        return;
    }
    text->data = grown;
    if (len > 0)
        memcpy(text->data + text->len, data, len);
    text->len += len;
    text->data[text->len] = '\0';
}

void text_puts(struct text *text, const char *string)
{
    text_add(text, string, strlen(string));
}

void text_printf(struct text *text, const char *fmt, ...)
{
    autofree char *piece = NULL;
    va_list ap;
    int len;

    va_start(ap, fmt);
    len = vasprintf(&piece, fmt, ap);
    va_end(ap);
    if (len < 0) {
        piece = NULL;
        text->failed = true;
    } else {
        text_add(text, piece, (size_t) len);
    }
}

/* Whether @c continues a character. */
static bool continues(char c)
{
    return ((unsigned char) c & 0xc0) == 0x80;
}

size_t text_fit(const char *data, size_t len, size_t max)
{
    if (len <= max)
        return len;
    while (max > 0 && continues(data[max]))
        max--;
    return max;
}

void text_add_cut(struct text *text, const char *data, size_t len, size_t max)
{
    size_t head, tail;

    if (len <= max) {
        text_add(text, data, len);
        return;
    }
    head = text_fit(data, len, max * 2 / 3);
    tail = len - max / 3;
    while (tail < len && continues(data[tail]))
        tail++;
    text_add(text, data, head);
    text_printf(text, "\n[... %zu bytes left out ...]\n", tail - head);
    text_add(text, data + tail, len - tail);
}

char *text_take(struct text *text)
{
    char *data;

    if (!text->data)
        text_add(text, "", 0);
    data = text->failed ? NULL : TAKE_PTR(text->data);
    text_release(text);
    return data;
}

void text_release(struct text *text)
{
    free(text->data);
    *text = (struct text){ 0 };
}
