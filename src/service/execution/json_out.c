#include "service/execution/json_out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define TEXT_FIRST ((size_t) 1024)
#define BLOCK      ((size_t) 4096) /* text that is escaped after one check for space */
#define ESCAPE_MAX 6               /* a control byte as \u001F */
#define NUMBER_MAX 24
/* The server dumps trees with the same flags. */
#define DUMP_FLAGS (JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))

void json_out_init(struct json_out *out, bool tree)
{
    *out = (struct json_out){ .tree = tree };
}

/* ---- a tree ---- */

/* jansson takes the value in any case, and fails on NULL. */
static void tree_put(struct json_out *out, const char *key, json_t *value)
{
    int r = value ? 0 : -1;

    if (out->depth == 0)
        out->root = value;
    else if (key)
        r = json_object_set_new_nocheck(out->open[out->depth - 1], key, value);
    else
        r = json_array_append_new(out->open[out->depth - 1], value);
    out->failed |= r < 0;
}

static json_t *spans_to_json(const struct span *spans, size_t len)
{
    size_t size = 1, used = 0, read;
    autofree char *text = NULL;

    for (size_t i = 0; i < len; i++)
        size += UTF8_REPLACEMENT_LEN * spans[i].len;
    text = malloc(size);
    for (size_t i = 0; text && i < len; i++)
        if (spans[i].len > 0)
            used += utf8_replace(spans[i].data, spans[i].len, text + used, size - used, &read);
    return text ? json_stringn(text, used) : NULL;
}

/* ---- text ---- */

/* Makes room for @more bytes; NULL if out of memory. */
static char *text_room(struct json_out *out, size_t more)
{
    char *text = out->failed ? NULL : grow(out->text, &out->cap, out->len + more, 1, TEXT_FIRST);

    if (!text) {
        out->failed = true;
        return NULL;
    }
    out->text = text;
    return text + out->len;
}

static char *put_bytes(char *to, const char *data, size_t len)
{
    memcpy(to, data, len);
    return to + len;
}

static void text_put(struct json_out *out, const char *data, size_t len)
{
    char *to = text_room(out, len);

    if (to)
        out->len = (size_t) (put_bytes(to, data, len) - out->text);
}

/* The comma and the key before a value. */
static void text_key(struct json_out *out, const char *key)
{
    size_t len = key ? strlen(key) : 0;
    char *to = text_room(out, len + 4);

    if (!to)
        return;
    if (out->comma)
        *to++ = ',';
    if (key) {
        *to++ = '"';
        to = put_bytes(to, key, len);
        *to++ = '"';
        *to++ = ':';
    }
    out->len = (size_t) (to - out->text);
    out->comma = true;
}

static void text_value(struct json_out *out, const char *key, const char *text, size_t len)
{
    text_key(out, key);
    text_put(out, text, len);
}

/* The letter after the backslash, 'u' for a numeric escape, 0 if @c needs none; the same as in
 * jansson. */
static char escape_of(unsigned char c)
{
    if (c >= 0x20 && c != '"' && c != '\\')
        return 0;
    switch (c) {
    case '"':
    case '\\':
        return (char) c;
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 'u';
    }
}

size_t json_unit_cost(struct span text, size_t *ret_len)
{
    unsigned char c = (unsigned char) text.data[0];
    char escape;

    *ret_len = 1;
    if (c >= 0x80) {
        bool whole = utf8_next(text.data, text.len, ret_len) == UTF8_CHAR;

        return whole ? *ret_len : UTF8_REPLACEMENT_LEN;
    }
    escape = escape_of(c);
    return escape == 0 ? 1 : escape == 'u' ? ESCAPE_MAX : 2;
}

static char *put_escape(char *to, unsigned char c, char escape)
{
    static const char digits[] = "0123456789ABCDEF";

    *to++ = '\\';
    *to++ = escape;
    if (escape == 'u') {
        *to++ = '0';
        *to++ = '0';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
    return to;
}

/* Writes @text from @pos to @end, or to the end of a unit that crosses it; returns that position.
 * The caller has made room at *@to. */
static size_t text_escape(struct span text, size_t pos, size_t end, char **to)
{
    char *at = *to;

    while (pos < end) {
        unsigned char c = (unsigned char) text.data[pos];
        size_t unit = 1;
        char escape;

        if (c >= 0x80) {
            bool whole = utf8_next(text.data + pos, text.len - pos, &unit) == UTF8_CHAR;

            at = whole ? put_bytes(at, text.data + pos, unit)
                       : put_bytes(at, UTF8_REPLACEMENT, UTF8_REPLACEMENT_LEN);
        } else if ((escape = escape_of(c))) {
            at = put_escape(at, c, escape);
        } else {
            *at++ = (char) c;
        }
        pos += unit;
    }
    *to = at;
    return pos;
}

static void text_span(struct json_out *out, struct span text)
{
    for (size_t pos = 0; pos < text.len;) {
        size_t end = text.len - pos > BLOCK ? pos + BLOCK : text.len;
        char *to = text_room(out, ESCAPE_MAX * (end - pos));

        if (!to)
            return;
        pos = text_escape(text, pos, end, &to);
        out->len = (size_t) (to - out->text);
    }
}

static int text_dump(const char *data, size_t len, void *arg)
{
    struct json_out *out = arg;

    text_put(out, data, len);
    return out->failed ? -1 : 0;
}

/* ---- values ---- */

static void begin(struct json_out *out, const char *key, bool array)
{
    if (out->depth == JSON_OUT_DEPTH) {
        out->failed = true;
        return;
    }
    if (out->tree) {
        json_t *value = array ? json_array() : json_object();

        tree_put(out, key, value);
        out->open[out->depth++] = value;
        return;
    }
    text_value(out, key, array ? "[" : "{", 1);
    out->comma = false;
    out->closing[out->depth++] = array ? ']' : '}';
}

void json_out_object(struct json_out *out, const char *key)
{
    begin(out, key, false);
}

void json_out_array(struct json_out *out, const char *key)
{
    begin(out, key, true);
}

void json_out_end(struct json_out *out)
{
    if (out->depth == 0) {
        out->failed = true;
        return;
    }
    out->depth--;
    if (!out->tree)
        text_put(out, &out->closing[out->depth], 1);
    out->comma = true;
}

void json_out_null(struct json_out *out, const char *key)
{
    if (out->tree)
        tree_put(out, key, json_null());
    else
        text_value(out, key, "null", 4);
}

void json_out_bool(struct json_out *out, const char *key, bool value)
{
    if (out->tree)
        tree_put(out, key, json_boolean(value));
    else
        text_value(out, key, value ? "true" : "false", value ? 4 : 5);
}

void json_out_int(struct json_out *out, const char *key, int64_t value)
{
    char text[NUMBER_MAX];

    if (out->tree)
        tree_put(out, key, json_integer(value));
    else
        text_value(out, key, text, (size_t) snprintf(text, sizeof text, "%" PRId64, value));
}

void json_out_seconds(struct json_out *out, const char *key, int64_t us)
{
    char text[NUMBER_MAX];

    if (out->tree)
        tree_put(out, key, json_real((double) us / USEC_PER_SEC));
    else
        text_value(out, key, text,
                   (size_t) snprintf(text, sizeof text, "%" PRId64 ".%06" PRId64, us / USEC_PER_SEC,
                                     us % USEC_PER_SEC));
}

void json_out_text(struct json_out *out, const char *key, const struct span *spans, size_t len)
{
    if (out->tree) {
        tree_put(out, key, spans_to_json(spans, len));
        return;
    }
    text_value(out, key, "\"", 1);
    for (size_t i = 0; i < len; i++)
        text_span(out, spans[i]);
    text_put(out, "\"", 1);
}

void json_out_word(struct json_out *out, const char *key, const char *word)
{
    if (word)
        json_out_text(out, key, &(struct span){ word, strlen(word) }, 1);
    else
        json_out_null(out, key);
}

void json_out_json(struct json_out *out, const char *key, json_t *value)
{
    if (out->tree) {
        tree_put(out, key, value);
        return;
    }
    text_key(out, key);
    if (!value || json_dump_callback(value, text_dump, out, DUMP_FLAGS) < 0)
        out->failed = true;
    json_decref(value);
}

/* ---- the end ---- */

int json_out_take_tree(struct json_out *out, json_t **ret_json)
{
    if (out->failed) {
        json_decref(out->root);
        return -ENOMEM;
    }
    *ret_json = out->root;
    return 0;
}

int json_out_take_text(struct json_out *out, char **ret_text, size_t *ret_len)
{
    if (out->failed) {
        free(out->text);
        return -ENOMEM;
    }
    *ret_text = out->text;
    *ret_len = out->len;
    return 0;
}
