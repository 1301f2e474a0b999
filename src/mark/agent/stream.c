#include "mark/agent/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/hex.h"
#include "base/text/utf8.h"

#include "base/banned.h"

/* ---- one member of an object ---- */

enum {
    AT_START,
    AT_KEY, /* expects a key or the end */
    IN_KEY,
    AT_COLON,
    AT_VALUE,
    IN_WANTED, /* the string */
    IN_OTHER,  /* any other value */
    AT_END,    /* nothing more is read */
};

void member_release(struct member_stream *stream)
{
    text_release(&stream->partial);
}

static void put_unicode(struct text *out, unsigned c)
{
    char bytes[4];

    if (c < 0x80) {
        bytes[0] = (char) c;
        text_add(out, bytes, 1);
    } else if (c < 0x800) {
        bytes[0] = (char) (0xc0 | (c >> 6));
        bytes[1] = (char) (0x80 | (c & 0x3f));
        text_add(out, bytes, 2);
    } else if (c < 0x10000) {
        bytes[0] = (char) (0xe0 | (c >> 12));
        bytes[1] = (char) (0x80 | ((c >> 6) & 0x3f));
        bytes[2] = (char) (0x80 | (c & 0x3f));
        text_add(out, bytes, 3);
    } else {
        bytes[0] = (char) (0xf0 | (c >> 18));
        bytes[1] = (char) (0x80 | ((c >> 12) & 0x3f));
        bytes[2] = (char) (0x80 | ((c >> 6) & 0x3f));
        bytes[3] = (char) (0x80 | (c & 0x3f));
        text_add(out, bytes, 4);
    }
}

/* Half a pair alone stands for nothing. */
static void put_unit(struct member_stream *s, unsigned unit, struct text *out)
{
    unsigned high = s->high;

    s->high = 0;
    if (unit >= 0xd800 && unit < 0xdc00) {
        s->high = unit;
    } else if (unit >= 0xdc00 && unit < 0xe000) {
        if (high)
            put_unicode(out, 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00));
        else
            text_puts(out, UTF8_REPLACEMENT);
    } else if (unit > 0) {
        put_unicode(out, unit);
    }
}

static void feed_escape(struct member_stream *s, char c, struct text *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known;

    if (s->hex_len > 0) {
        s->hex[s->hex_len++ - 1] = c;
        if (s->hex_len < 5)
            return;
        s->hex[4] = '\0';
        put_unit(s, (unsigned) strtoul(s->hex, NULL, 16), out);
        s->hex_len = 0;
        s->escaped = false;
        return;
    }
    if (c == 'u') {
        s->hex_len = 1;
        return;
    }
    known = c ? strchr(from, c) : NULL;
    if (known)
        text_add(out, &to[known - from], 1);
    s->escaped = false;
}

static void feed_wanted(struct member_stream *s, char c, struct text *out)
{
    if (s->escaped)
        feed_escape(s, c, out);
    else if (c == '\\')
        s->escaped = true;
    else if (c == '"')
        s->state = AT_END;
    else
        text_add(out, &c, 1);
}

/* Until the comma after the value, at the depth of the object itself. */
static void feed_other(struct member_stream *s, char c)
{
    if (s->in_string) {
        if (s->escaped)
            s->escaped = false;
        else if (c == '\\')
            s->escaped = true;
        else if (c == '"')
            s->in_string = false;
        return;
    }
    if (c == '"')
        s->in_string = true;
    else if (c == '{' || c == '[')
        s->depth++;
    else if ((c == '}' || c == ']') && s->depth-- == 0)
        s->state = AT_END;
    else if (c == ',' && s->depth == 0)
        s->state = AT_KEY;
}

static void feed_key(struct member_stream *s, const char *name, char c)
{
    bool escaped = s->escaped;

    s->escaped = !escaped && c == '\\';
    if (c == '"' && !escaped) {
        s->wanted = s->key_len == strlen(name) && memcmp(s->key, name, s->key_len) == 0;
        s->state = AT_COLON;
    } else if (s->key_len < sizeof s->key) {
        s->key[s->key_len++] = c;
    }
}

static void feed_value(struct member_stream *s, char c)
{
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
        return;
    s->depth = 0;
    if (c == '"' && s->wanted) {
        s->state = IN_WANTED;
        return;
    }
    s->state = IN_OTHER;
    feed_other(s, c);
}

static void feed_char(struct member_stream *s, const char *name, char c, struct text *out)
{
    switch (s->state) {
    case AT_START:
        if (c == '{')
            s->state = AT_KEY;
        break;
    case AT_KEY:
        if (c == '"') {
            s->key_len = 0;
            s->state = IN_KEY;
        } else if (c == '}') {
            s->state = AT_END;
        }
        break;
    case IN_KEY:
        feed_key(s, name, c);
        break;
    case AT_COLON:
        if (c == ':')
            s->state = AT_VALUE;
        break;
    case AT_VALUE:
        feed_value(s, c);
        break;
    case IN_WANTED:
        feed_wanted(s, c, out);
        break;
    case IN_OTHER:
        feed_other(s, c);
        break;
    default:
        break;
    }
}

void member_feed(struct member_stream *stream, const char *name, const char *json, size_t len,
                 struct text *out)
{
    struct text whole = stream->partial;
    size_t partial;

    stream->partial = (struct text){ 0 };
    for (size_t i = 0; i < len && stream->state != AT_END; i++)
        feed_char(stream, name, json[i], &whole);
    if (whole.failed || whole.len == 0) {
        text_release(&whole);
        return;
    }
    partial = utf8_partial_end(whole.data, whole.len);
    text_add(out, whole.data, whole.len - partial);
    if (partial > 0)
        text_add(&stream->partial, whole.data + whole.len - partial, partial);
    text_release(&whole);
}

/* ---- references ---- */

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."

void refs_flush(struct refs_stream *stream, struct text *out)
{
    text_add(out, stream->hold, stream->len);
    stream->len = 0;
}

/* The reference that is held is complete. */
static void refs_replace(struct refs_stream *s, char *(*find)(void *arg, const char *name),
                         void *arg, struct text *out)
{
    char name[REFS_HOLD_MAX];
    size_t from = 2, to = s->len - 2;
    char *text;

    while (from < to && s->hold[from] == ' ')
        from++;
    while (to > from && s->hold[to - 1] == ' ')
        to--;
    memcpy(name, s->hold + from, to - from);
    name[to - from] = '\0';
    if (from == to || name[strspn(name, NAME_CHARACTERS)]) {
        refs_flush(s, out);
        return;
    }
    text = find(arg, name);
    if (text)
        text_puts(out, text);
    else
        text_printf(out, "[%s?]", name);
    free(text);
    s->len = 0;
}

void refs_feed(struct refs_stream *stream, const char *text, size_t len,
               char *(*find)(void *arg, const char *name), void *arg, struct text *out)
{
    struct refs_stream *s = stream;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (s->len == 0 && c != '{') {
            text_add(out, &c, 1);
            continue;
        }
        s->hold[s->len++] = c;
        if (s->len >= 4 && c == '}' && s->hold[s->len - 2] == '}')
            refs_replace(s, find, arg, out);
        else if ((s->len == 2 && c != '{') || s->len == REFS_HOLD_MAX || c == '\n')
            refs_flush(s, out);
    }
}
