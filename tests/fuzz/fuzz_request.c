/*
 * What the server parses by itself: a target, an Accept, a Range, an If-None-Match, an address, a
 * body. Lines of the input, in this order; the body is the rest.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_depth.h"
#include "base/text/utf8.h"
#include "server/compat/json_text.h"
#include "server/compat/schemas.h"
#include "server/http/listen.h"
#include "server/http/negotiate.h"
#include "server/http/url.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_target(const char *raw)
{
    union {
        struct query_output output;
        struct query_files files;
    } query;
    json_t *errors = json_array();
    const char *why = NULL, *part;
    struct url url;
    int r = url_parse(raw, &url, &why);

    if (r != 0) {
        must((r == 400 || r == 414) && why);
        json_decref(errors);
        return;
    }
    part = url.parts;
    for (size_t i = 0; i < url.parts_len; i++, part = url_next_part(part)) {
        must(*part && strcmp(part, ".") != 0 && strcmp(part, "..") != 0);
        must(utf8_valid(part, strlen(part)));
    }
    (void) fields_read_query(&schema_output_query, url.params, url.params_len, &query.output,
                             errors);
    (void) fields_read_query(&schema_files_query, url.params, url.params_len, &query.files, errors);
    json_decref(errors);
    url_release(&url);
}

static void check_range(const char *text)
{
    long long first, last;

    for (long long size = 0; size < 100; size += 33)
        if (negotiate_range(text, size, &first, &last) == RANGE_ONE)
            must(first >= 0 && first <= last && last < size);
}

static void check_body(const char *text, size_t len)
{
    static const struct schema *const tables[] = { &schema_execute, &schema_command,
                                                   &schema_simple_execute };
    bool object = json_text_is_object(text, len);
    struct body_execute body;
    json_t *json, *errors;

    if (json_too_deep(text, len, 64))
        return;
    json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    /* The parser refuses more: numbers that it cannot hold, half a surrogate pair. But it passes
     * over a NUL behind a word. */
    must(!json_is_object(json) || object || memchr(text, 0, len));
    for (size_t i = 0; json && i < sizeof tables / sizeof *tables; i++) {
        errors = json_array();
        if (fields_read_body(tables[i], json, true, &body, errors) == 0)
            must(body.code && (body.timeout_us == FIELD_ABSENT || body.timeout_us > 0));
        else
            must(json_array_size(errors) > 0);
        json_decref(errors);
    }
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    char *lines[6] = { 0 }, *copy = malloc(size + 1), *at = copy;
    struct listen_spec spec;

    if (!copy)
        return 0;
    memcpy(copy, input, size);
    copy[size] = '\0';
    for (size_t i = 0; i < 5; i++) {
        char *end = memchr(at, '\n', size - (size_t) (at - copy));

        if (!end)
            break;
        *end = '\0';
        lines[i] = at;
        at = end + 1;
    }
    check_target(lines[0] ? lines[0] : copy);
    (void) negotiate_media(lines[1]);
    (void) negotiate_html(lines[1]);
    check_range(lines[2]);
    if (lines[3])
        (void) negotiate_etag(lines[3], "\"e1\"");
    if (lines[4] && listen_parse(lines[4], &spec, NULL) == 0)
        (void) listen_is_local(&spec);
    check_body(at, size - (size_t) (at - copy));
    free(copy);
    return 0;
}
