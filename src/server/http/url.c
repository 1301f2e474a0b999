#include "server/http/url.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/percent.h"
#include "base/text/utf8.h"

#include "base/banned.h"

enum { STATUS_BAD = 400, STATUS_TOO_LONG = 414 };

/* Decodes @len bytes at @in to @out, NUL-terminated; returns the length, or -1 with the reason. */
static long decode(const char *in, size_t len, bool plus, char *out, const char **ret_why)
{
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        char c = in[i];

        if (c == '%') {
            int byte = percent_byte(in + i, len - i);

            if (byte < 0) {
                *ret_why = "a % in the URL is not followed by two hexadecimal digits; write %25";
                return -1;
            }
            c = (char) byte;
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0') {
            *ret_why = "the URL contains a NUL byte (%00); leave it out";
            return -1;
        }
        out[used++] = c;
    }
    out[used] = '\0';
    if (!utf8_valid(out, used)) {
        *ret_why = "the URL is not UTF-8 once its %xx are decoded";
        return -1;
    }
    return (long) used;
}

static int parse_path(const char *raw, size_t len, struct url *url, char **at, const char **ret_why)
{
    const char *end = raw + len;

    url->parts = *at;
    if (raw < end && end[-1] == '/')
        end--;
    while (raw < end) {
        const char *part = ++raw; /* after its slash */
        long used;

        raw = memchr(part, '/', (size_t) (end - part));
        raw = raw ? raw : end;
        used = decode(part, (size_t) (raw - part), false, *at, ret_why);
        if (used < 0)
            return STATUS_BAD;
        if (used == 0 || strcmp(*at, ".") == 0 || strcmp(*at, "..") == 0) {
            *ret_why = "the URL has an empty part, \".\" or \"..\"; write the plain path";
            return STATUS_BAD;
        }
        *at += used + 1;
        if (++url->parts_len > URL_PARTS_MAX || *at - url->parts > URL_PATH_MAX) {
            *ret_why = "the path is too long; at most 4096 bytes in 256 parts";
            return STATUS_TOO_LONG;
        }
    }
    return 0;
}

static int parse_query(const char *raw, struct url *url, char **at, const char **ret_why)
{
    while (*raw) {
        size_t len = strcspn(raw, "&");
        size_t name_len = strcspn(raw, "=&");
        struct param *param = &url->params[url->params_len];
        long used;

        if (len > 0) {
            if (url->params_len == URL_PARAMS_MAX) {
                *ret_why = "too many query parameters; at most 16";
                return STATUS_BAD;
            }
            param->name = *at;
            used = decode(raw, name_len, true, *at, ret_why);
            if (used < 0)
                return STATUS_BAD;
            *at += used + 1;
            param->value = *at;
            used = name_len < len
                       ? decode(raw + name_len + 1, len - name_len - 1, true, *at, ret_why)
                       : decode("", 0, true, *at, ret_why);
            if (used < 0)
                return STATUS_BAD;
            *at += used + 1;
            url->params_len++;
        }
        raw += len + (raw[len] == '&');
    }
    return 0;
}

int url_parse(const char *raw, struct url *ret_url, const char **ret_why)
{
    size_t raw_len = strlen(raw), path_len = strcspn(raw, "?#");
    struct url url = { 0 };
    char *at;
    int r;

    if (raw_len > URL_RAW_MAX) {
        *ret_why = "the URL is too long; at most 16384 bytes";
        return STATUS_TOO_LONG;
    }
    if (raw[0] != '/') {
        *ret_why = "the request's target must be a path that begins with /";
        return STATUS_BAD;
    }
    /* Decoding never makes a string longer; each part and each half of a parameter gets one NUL. */
    url.data = at = malloc(2 * raw_len + 2);
    if (!at)
        return -ENOMEM;
    r = parse_path(raw, path_len, &url, &at, ret_why);
    if (r == 0 && raw[path_len] == '?')
        r = parse_query(raw + path_len + 1, &url, &at, ret_why);
    if (r != 0) {
        url_release(&url);
        return r;
    }
    *ret_url = url;
    return 0;
}

void url_release(struct url *url)
{
    free(url->data);
    *url = (struct url){ 0 };
}

const char *url_next_part(const char *part)
{
    return part + strlen(part) + 1;
}

const char *url_param(const struct url *url, const char *name)
{
    for (size_t i = 0; i < url->params_len; i++)
        if (strcmp(url->params[i].name, name) == 0)
            return url->params[i].value;
    return NULL;
}
