/*
 * A bundle comes from a tenant and claims to be JSON of the form
 *
 *     {"data": {MIME type: data, ...}, "metadata": {...}}
 *
 * Data is a string, or any JSON for a type that is JSON itself. Everything else is refused. Parsed
 * JSON can take a hundred times the length of its text ("[],[],[],..."), so its values are counted
 * before it is parsed, against a budget that all bundles of a receipt share.
 */
#include "service/execution/bundle.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "engine/frame.h"

#include "base/banned.h"

#define TYPES_MAX     64
#define TYPE_NAME_MAX 128

/* Commas, colons and opening brackets outside strings. In valid JSON nothing else starts a value or
 * a key; invalid text is rejected by the parser, which has created no more than that by then. */
static size_t count_nodes(const char *json, size_t len)
{
    bool inside = false;
    size_t nodes = 0;

    for (size_t i = 0; i < len; i++) {
        if (json[i] == '"')
            inside = !inside;
        else if (inside)
            i += json[i] == '\\';
        else
            nodes += json[i] == ',' || json[i] == ':' || json[i] == '[' || json[i] == '{';
    }
    return nodes;
}

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char) text[i]) && !strchr("!#$&^_.+-", text[i]))
            return false;
    return len > 0;
}

static bool is_mime(const char *name)
{
    const char *slash = strchr(name, '/');
    size_t len = strlen(name);

    return slash && len <= TYPE_NAME_MAX && is_token(name, (size_t) (slash - name)) &&
           is_token(slash + 1, strlen(slash + 1));
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_json_type(const char *mime)
{
    size_t len = strlen(mime);

    return strcmp(mime, "application/json") == 0 ||
           (len > 5 && strcmp(mime + len - 5, "+json") == 0);
}

/* Data that web pages put after "data:...;base64,": it must be nothing but base64. */
static bool is_binary_type(const char *mime)
{
    if (starts_with(mime, "image/"))
        return strcmp(mime, "image/svg+xml") != 0;
    return starts_with(mime, "audio/") || starts_with(mime, "video/") ||
           starts_with(mime, "font/") || strcmp(mime, "application/pdf") == 0;
}

static bool is_base64(const char *text, size_t len)
{
    while (len > 0 && text[len - 1] == '=')
        len--;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char) text[i]) && text[i] != '+' && text[i] != '/')
            return false;
    return true;
}

static bool is_data(const char *mime, const json_t *value)
{
    if (!is_mime(mime))
        return false;
    if (is_json_type(mime))
        return true;
    if (!json_is_string(value))
        return false;
    return !is_binary_type(mime) || is_base64(json_string_value(value), json_string_length(value));
}

static bool is_bundle(json_t *json)
{
    json_t *data = json_object_get(json, "data"), *metadata = json_object_get(json, "metadata");
    json_t *value;
    const char *mime;

    if (!json_is_object(data) || json_object_size(data) > TYPES_MAX)
        return false;
    if (metadata && !json_is_object(metadata))
        return false;
    json_object_foreach (data, mime, value)
        if (!is_data(mime, value))
            return false;
    return true;
}

int bundle_parse(const struct bundle *bundle, size_t *nodes_left, json_t **ret_data,
                 json_t **ret_metadata)
{
    size_t nodes = count_nodes(bundle->json, bundle->len);
    json_t *json, *metadata;

    if (nodes > *nodes_left)
        return -E2BIG;
    *nodes_left -= nodes;
    json = json_loadb(bundle->json, bundle->len, JSON_ALLOW_NUL, NULL);
    if (!json)
        return -EBADMSG;
    if (!is_bundle(json)) {
        json_decref(json);
        return -EBADMSG;
    }
    metadata = json_object_get(json, "metadata");
    *ret_data = json_incref(json_object_get(json, "data"));
    *ret_metadata = metadata ? json_incref(metadata) : json_object();
    json_decref(json);
    return 0;
}
