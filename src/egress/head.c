/*
 * The parser of heads. Debian 12 has no llhttp, and http-parser, which it has, is unmaintained and
 * accepts input that we must refuse (bare LF, folded lines, several lengths); so we have our own
 * parser: one pass, no allocation, a strict subset of RFC 9112. tests/fuzz/fuzz_proxy.c feeds it.
 */
#include "egress/head.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/text/hex.h"
#include "egress/policy.h"

#include "base/banned.h"

#define LINE_MAX_ 8192 /* of a request line */

static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* The length of the head with its empty line, or 0 if it is incomplete. */
static size_t head_length(const char *data, size_t len)
{
    const char *end = memmem(data, len, "\r\n\r\n", 4);

    return end ? (size_t) (end - data) + 4 : 0;
}

/* The next line, without its CRLF; the callers refuse a CR or LF anywhere else. */
static const char *line_next(const char **at, const char *end, size_t *ret_len)
{
    const char *line = *at, *stop = memmem(line, (size_t) (end - line), "\r\n", 2);

    if (!stop)
        return NULL;
    *ret_len = (size_t) (stop - line);
    *at = stop + 2;
    return line;
}

static bool field_is(const struct head_field *field, const char *name)
{
    return field->name_len == strlen(name) && strncasecmp(field->name, name, field->name_len) == 0;
}

static int field_parse(const char *line, size_t len, struct head_field *ret_field)
{
    const char *colon = memchr(line, ':', len), *end = line + len;
    struct head_field field = { .name = line };

    if (!colon || colon == line)
        return -EPROTO;
    field.name_len = (size_t) (colon - line);
    for (size_t i = 0; i < field.name_len; i++)
        if (!is_token(line[i])) /* a blank at the start would be a folded line */
            return -EPROTO;
    field.value = colon + 1;
    while (field.value < end && (*field.value == ' ' || *field.value == '\t'))
        field.value++;
    while (end > field.value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    field.value_len = (size_t) (end - field.value);
    for (size_t i = 0; i < field.value_len; i++)
        if (((unsigned char) field.value[i] < 0x20 && field.value[i] != '\t') ||
            field.value[i] == 0x7f)
            return -EPROTO;
    *ret_field = field;
    return 0;
}

static int fields_parse(const char *at, const char *end, struct head_field *fields, size_t *ret_len)
{
    const char *line;
    size_t len;

    *ret_len = 0;
    while ((line = line_next(&at, end, &len)) && len > 0) {
        if (*ret_len == HEAD_FIELDS_MAX)
            return -E2BIG;
        if (field_parse(line, len, &fields[*ret_len]) < 0)
            return -EPROTO;
        (*ret_len)++;
    }
    return 0;
}

/* ---- requests ---- */

static int method_parse(const char *text, size_t len, char method[METHOD_MAX])
{
    if (len == 0 || len >= METHOD_MAX)
        return -EPROTO;
    for (size_t i = 0; i < len; i++)
        if (!is_token(text[i]))
            return -EPROTO;
    memcpy(method, text, len);
    method[len] = '\0';
    return 0;
}

static int target_parse(const char *text, size_t len, struct request_head *head,
                        const char **ret_why)
{
    static const char http[] = "http://";
    const char *end = text + len, *slash;
    int port;

    for (size_t i = 0; i < len; i++)
        if (text[i] <= 0x20 || text[i] == 0x7f || text[i] == '#')
            return *ret_why = "the target holds a character that must be encoded", -400;
    if (head->connect) {
        if (authority_parse(text, len, &head->host, &port) < 0 || port < 0)
            return *ret_why = "CONNECT needs HOST:PORT", -400;
        head->port = (uint16_t) port;
        return 0;
    }
    if (len > 8 && strncasecmp(text, "https://", 8) == 0)
        return *ret_why = "https:// URLs need CONNECT", -400;
    if (len <= sizeof http - 1 || strncasecmp(text, http, sizeof http - 1) != 0)
        return *ret_why = "this is a proxy: it needs an http:// URL or CONNECT", -400;
    text += sizeof http - 1;
    for (slash = text; slash < end && *slash != '/' && *slash != '?'; slash++)
        if (*slash == '@')
            return *ret_why = "a URL with a user name is refused; send an Authorization header",
                   -400;
    if (authority_parse(text, (size_t) (slash - text), &head->host, &port) < 0)
        return *ret_why = "the URL's host is not a valid name or plain IP address", -400;
    head->port = port < 0 ? 80 : (uint16_t) port;
    head->path = slash;
    head->path_len = (size_t) (end - slash);
    return 0;
}

static int line_parse(const char *line, size_t len, struct request_head *head, const char **ret_why)
{
    const char *first = memchr(line, ' ', len);
    const char *last = memrchr(line, ' ', len);

    if (!first || last == first || method_parse(line, (size_t) (first - line), head->method) < 0)
        return *ret_why = "not an HTTP request", -400;
    if ((size_t) (line + len - last - 1) != 8 || memcmp(last + 1, "HTTP/1.", 7) != 0 ||
        (last[8] != '0' && last[8] != '1'))
        return *ret_why = "only HTTP/1.1 and HTTP/1.0 are supported", -505;
    head->minor = last[8] - '0';
    head->connect = strcmp(head->method, "CONNECT") == 0;
    /* TRACE would echo the fields that we add. */
    if (strcasecmp(head->method, "TRACE") == 0 || strcasecmp(head->method, "TRACK") == 0 ||
        (!head->connect && strcasecmp(head->method, "CONNECT") == 0))
        return *ret_why = "this method is not allowed", -405;
    return target_parse(first + 1, (size_t) (last - first - 1), head, ret_why);
}

static int length_parse(const struct head_field *field, int64_t *ret_length)
{
    int64_t length = 0;

    if (field->value_len == 0 || field->value_len > 18)
        return -EPROTO;
    for (size_t i = 0; i < field->value_len; i++) {
        if (field->value[i] < '0' || field->value[i] > '9')
            return -EPROTO;
        length = length * 10 + (field->value[i] - '0');
    }
    *ret_length = length;
    return 0;
}

static bool value_is(const struct head_field *field, const char *value)
{
    return field->value_len == strlen(value) &&
           strncasecmp(field->value, value, field->value_len) == 0;
}

/* The end of the body must be given once, and in one way. */
static int framing_parse(struct request_head *head, const char **ret_why)
{
    unsigned lengths = 0, codings = 0, hosts = 0;

    for (size_t i = 0; i < head->fields_len; i++) {
        const struct head_field *field = &head->fields[i];

        if (field_is(field, "content-length")) {
            lengths++;
            if (length_parse(field, &head->body_len) < 0)
                return *ret_why = "Content-Length is not a number", -400;
        } else if (field_is(field, "transfer-encoding")) {
            codings++;
            if (!value_is(field, "chunked"))
                return *ret_why = "the only supported transfer coding is 'chunked'", -501;
        } else if (field_is(field, "host")) {
            hosts++;
        } else if (field_is(field, "expect")) {
            if (!value_is(field, "100-continue"))
                return *ret_why = "the only supported Expect value is 100-continue", -417;
            head->expect = true;
        }
    }
    if (lengths > 1 || codings > 1 || hosts > 1 || (lengths && codings))
        return *ret_why = "Content-Length, Transfer-Encoding and Host may appear once each, and "
                          "the first two not together",
               -400;
    if (codings && head->minor == 0)
        return *ret_why = "HTTP/1.0 has no transfer codings", -400;
    if (head->connect && (codings || head->body_len > 0))
        return *ret_why = "CONNECT must not have a body", -400;
    head->body = codings ? BODY_CHUNKED : lengths ? BODY_LENGTH : BODY_NONE;
    return 0;
}

int request_head_parse(const char *data, size_t len, struct request_head *ret_head,
                       const char **ret_why)
{
    size_t head_len = head_length(data, len < HEAD_MAX ? len : HEAD_MAX), line_len;
    const char *at = data, *end = data + head_len, *line;
    int r;

    if (head_len == 0)
        return len >= HEAD_MAX ? (*ret_why = "the head is larger than 16 KiB", -431) : 0;
    memset(ret_head, 0, offsetof(struct request_head, fields));
    ret_head->fields_len = 0;
    ret_head->body = BODY_NONE;
    ret_head->body_len = 0;
    ret_head->expect = false;
    line = line_next(&at, end, &line_len);
    if (!line || line_len > LINE_MAX_)
        return *ret_why = "the request line is longer than 8 KiB", -414;
    if ((r = line_parse(line, line_len, ret_head, ret_why)) < 0)
        return r;
    r = fields_parse(at, end, ret_head->fields, &ret_head->fields_len);
    if (r == -E2BIG)
        return *ret_why = "more than 100 header fields", -431;
    if (r < 0)
        return *ret_why = "a header field is malformed", -400;
    if ((r = framing_parse(ret_head, ret_why)) < 0)
        return r;
    return (int) head_len;
}

/* ---- the way out ---- */

struct writer {
    char *buf;
    size_t at, size;
    bool full;
};

static void put(struct writer *w, const char *data, size_t len)
{
    if (w->full || len > w->size - w->at) {
        w->full = true;
        return;
    }
    memcpy(w->buf + w->at, data, len);
    w->at += len;
}

static void put_text(struct writer *w, const char *text)
{
    put(w, text, strlen(text));
}

static void put_field(struct writer *w, const char *name, size_t name_len, const char *value,
                      size_t value_len)
{
    put(w, name, name_len);
    put(w, ": ", 2);
    put(w, value, value_len);
    put(w, "\r\n", 2);
}

/* Whether a "Connection" field of the same head names it. */
static bool nominated(const struct head_field *fields, size_t len, const struct head_field *field)
{
    for (size_t i = 0; i < len; i++) {
        const char *at = fields[i].value, *end = at + fields[i].value_len;

        if (!field_is(&fields[i], "connection"))
            continue;
        while (at < end) {
            const char *comma = memchr(at, ',', (size_t) (end - at)), *stop = comma ? comma : end;
            const char *next = comma ? comma + 1 : end;

            while (at < stop && (*at == ' ' || *at == '\t'))
                at++;
            while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t'))
                stop--;
            if ((size_t) (stop - at) == field->name_len &&
                strncasecmp(at, field->name, field->name_len) == 0)
                return true;
            at = next;
        }
    }
    return false;
}

static bool is_extra(const struct head_extra *extras, size_t len, const struct head_field *field)
{
    for (size_t i = 0; i < len; i++)
        if (field_is(field, extras[i].name))
            return true;
    return false;
}

static void put_host(struct writer *w, const struct request_head *head, uint16_t usual)
{
    bool v6 = head->host.literal && strchr(head->host.text, ':');
    char port[8];

    put_text(w, v6 ? "Host: [" : "Host: ");
    put_text(w, head->host.text);
    if (v6)
        put_text(w, "]");
    if (head->port != usual) {
        (void) snprintf(port, sizeof port, ":%u", head->port);
        put_text(w, port);
    }
    put_text(w, "\r\n");
}

int request_head_write(const struct request_head *head, const struct head_extra *extras,
                       size_t extras_len, bool tls, char *buf, size_t size)
{
    struct writer w = { .buf = buf, .size = size };
    char length[48];

    put_text(&w, head->method);
    put_text(&w, head->path_len > 0 && head->path[0] == '/' ? " " : " /");
    put(&w, head->path, head->path_len);
    put_text(&w, head->minor ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
    put_host(&w, head, tls ? 443 : 80);
    for (size_t i = 0; i < head->fields_len; i++) {
        const struct head_field *field = &head->fields[i];

        if (!field_is_hop(field->name, field->name_len) && !is_extra(extras, extras_len, field) &&
            !nominated(head->fields, head->fields_len, field))
            put_field(&w, field->name, field->name_len, field->value, field->value_len);
    }
    for (size_t i = 0; i < extras_len; i++)
        put_field(&w, extras[i].name, strlen(extras[i].name), extras[i].value, extras[i].value_len);
    if (head->body == BODY_LENGTH) {
        (void) snprintf(length, sizeof length, "Content-Length: %lld\r\n",
                        (long long) head->body_len);
        put_text(&w, length);
    } else if (head->body == BODY_CHUNKED) {
        put_text(&w, "Transfer-Encoding: chunked\r\n");
    }
    put_text(&w, "Connection: close\r\n\r\n");
    return w.full ? -EMSGSIZE : (int) w.at;
}

/* ---- bodies ---- */

enum chunk_state {
    CHUNK_SIZE,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_END_CR,
    CHUNK_END_LF,
    CHUNK_DONE,
};

void body_reader_init(struct body_reader *reader, const struct request_head *head)
{
    *reader = (struct body_reader){ .kind = head->body,
                                    .left = head->body == BODY_LENGTH ? head->body_len : 0,
                                    .state = CHUNK_SIZE };
}

bool body_reader_done(const struct body_reader *reader)
{
    switch (reader->kind) {
    case BODY_LENGTH:
        return reader->left == 0;
    case BODY_CHUNKED:
        return reader->state == CHUNK_DONE;
    case BODY_NONE:
        break;
    }
    return true;
}

static int size_feed(struct body_reader *reader, char c)
{
    int digit = hex_value(c);

    if (digit >= 0) {
        if (++reader->digits > 15)
            return -EPROTO;
        reader->left = reader->left * 16 + digit;
        return 0;
    }
    if (c != '\r' || reader->digits == 0)
        return -EPROTO;
    reader->state = CHUNK_SIZE_LF;
    return 0;
}

/* One byte of framing. */
static int frame_feed(struct body_reader *reader, char c)
{
    switch ((enum chunk_state) reader->state) {
    case CHUNK_SIZE:
        return size_feed(reader, c);
    case CHUNK_SIZE_LF:
        if (c != '\n')
            return -EPROTO;
        reader->state = reader->left > 0 ? CHUNK_DATA : CHUNK_END_CR;
        reader->digits = 0;
        return 0;
    case CHUNK_DATA_CR:
    case CHUNK_END_CR:
        if (c != '\r')
            return -EPROTO;
        reader->state++;
        return 0;
    case CHUNK_DATA_LF:
    case CHUNK_END_LF:
        if (c != '\n')
            return -EPROTO;
        reader->state = reader->state == CHUNK_DATA_LF ? CHUNK_SIZE : CHUNK_DONE;
        return 0;
    case CHUNK_DATA:
    case CHUNK_DONE:
        break;
    }
    return -EPROTO;
}

ssize_t body_reader_feed(struct body_reader *reader, const char *data, size_t len)
{
    size_t at = 0;

    if (reader->kind == BODY_NONE)
        return 0;
    if (reader->kind == BODY_LENGTH) {
        at = (int64_t) len < reader->left ? len : (size_t) reader->left;
        reader->left -= (int64_t) at;
        return (ssize_t) at;
    }
    while (at < len && reader->state != CHUNK_DONE) {
        if (reader->state == CHUNK_DATA) {
            size_t n = (int64_t) (len - at) < reader->left ? len - at : (size_t) reader->left;

            at += n;
            reader->left -= (int64_t) n;
            if (reader->left == 0)
                reader->state = CHUNK_DATA_CR;
        } else if (frame_feed(reader, data[at++]) < 0) {
            return -EPROTO;
        }
    }
    return (ssize_t) at;
}

/* ---- replies ---- */

static int status_parse(const char *line, size_t len)
{
    int status = 0;

    if (len < 12 || memcmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') ||
        line[8] != ' ' || (len > 12 && line[12] != ' '))
        return -EPROTO;
    for (size_t i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9')
            return -EPROTO;
        status = status * 10 + (line[i] - '0');
    }
    for (size_t i = 12; i < len; i++)
        if (((unsigned char) line[i] < 0x20 && line[i] != '\t') || line[i] == 0x7f)
            return -EPROTO;
    return status >= 100 && status <= 599 ? status : -EPROTO;
}

/* Framing headers of a reply are for the client: they are passed on with the body, unchanged. */
static bool reply_field_passes(const struct head_field *fields, size_t len,
                               const struct head_field *field)
{
    if (field_is(field, "content-length") || field_is(field, "transfer-encoding") ||
        field_is(field, "trailer"))
        return true;
    return !field_is_hop(field->name, field->name_len) && !nominated(fields, len, field);
}

int reply_head_rewrite(const char *data, size_t len, char *buf, size_t size, int *ret_status,
                       size_t *ret_len)
{
    struct head_field fields[HEAD_FIELDS_MAX];
    size_t head_len = head_length(data, len < REPLY_HEAD_MAX ? len : REPLY_HEAD_MAX);
    struct writer w = { .buf = buf, .size = size };
    const char *at = data, *end = data + head_len, *line;
    size_t line_len, fields_len;

    if (head_len == 0)
        return len >= REPLY_HEAD_MAX ? -EPROTO : 0;
    line = line_next(&at, end, &line_len);
    *ret_status = line ? status_parse(line, line_len) : -EPROTO;
    if (*ret_status < 0 || fields_parse(at, end, fields, &fields_len) < 0)
        return -EPROTO;
    put(&w, line, line_len);
    put_text(&w, "\r\n");
    for (size_t i = 0; i < fields_len; i++)
        if (reply_field_passes(fields, fields_len, &fields[i]))
            put_field(&w, fields[i].name, fields[i].name_len, fields[i].value, fields[i].value_len);
    put_text(&w, "Connection: close\r\n\r\n");
    if (w.full)
        return -EPROTO;
    *ret_len = w.at;
    return (int) head_len;
}
