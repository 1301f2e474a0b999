/* URIs of files and outputs, and their "contents". */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/text/base64.h"
#include "base/text/percent.h"
#include "base/text/utf8.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define FILES_PREFIX  "glovebox://sessions/"
#define FILES_PART    "/files/"
#define OUTPUT_PREFIX "glovebox://executions/"

static bool is_plain(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
           (c < 128 && c && strchr("-._~/", c));
}

char *uri_of_file(const char *session_id, const char *path)
{
    size_t size =
        strlen(FILES_PREFIX) + strlen(session_id) + strlen(FILES_PART) + 3 * strlen(path) + 1;
    char *uri = malloc(size);
    size_t used;

    if (!uri)
        return NULL;
    used = (size_t) snprintf(uri, size, "%s%s%s", FILES_PREFIX, session_id, FILES_PART);
    for (const unsigned char *p = (const unsigned char *) path; *p; p++)
        used += (size_t) snprintf(uri + used, size - used, is_plain(*p) ? "%c" : "%%%02X", *p);
    return uri;
}

/* An id: letters, digits and _, like ours. */
static bool take_id(const char **text, char *ret_id, size_t size)
{
    size_t len = strcspn(*text, "/");

    if (len == 0 || len >= size)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_plain((unsigned char) (*text)[i]))
            return false;
    memcpy(ret_id, *text, len);
    ret_id[len] = '\0';
    *text += len;
    return true;
}

bool uri_parse_file(const char *uri, struct uri_file *ret)
{
    if (strncmp(uri, FILES_PREFIX, strlen(FILES_PREFIX)) != 0)
        return false;
    uri += strlen(FILES_PREFIX);
    if (!take_id(&uri, ret->session_id, sizeof ret->session_id) ||
        strncmp(uri, FILES_PART, strlen(FILES_PART)) != 0)
        return false;
    uri += strlen(FILES_PART);
    ret->path_len = 0;
    for (; *uri; uri++) {
        if (ret->path_len == FILE_PATH_MAX)
            return false;
        if (*uri == '%') {
            int byte = percent_byte(uri, strnlen(uri, 3));

            if (byte <= 0)
                return false;
            ret->path[ret->path_len++] = (char) byte;
            uri += 2;
        } else {
            ret->path[ret->path_len++] = *uri;
        }
    }
    ret->path[ret->path_len] = '\0';
    return ret->path_len > 0;
}

char *uri_of_output(const char *execution_id, enum stream stream)
{
    char *uri = NULL;

    return asprintf(&uri, "%s%s/%s", OUTPUT_PREFIX, execution_id,
                    stream == STREAM_ERR ? "stderr" : "stdout") < 0
               ? NULL
               : uri;
}

bool uri_parse_output(const char *uri, char execution_id[EXECUTION_ID_MAX], enum stream *ret_stream)
{
    if (strncmp(uri, OUTPUT_PREFIX, strlen(OUTPUT_PREFIX)) != 0)
        return false;
    uri += strlen(OUTPUT_PREFIX);
    if (!take_id(&uri, execution_id, EXECUTION_ID_MAX))
        return false;
    *ret_stream = strcmp(uri, "/stderr") == 0 ? STREAM_ERR : STREAM_OUT;
    return *ret_stream == STREAM_ERR || strcmp(uri, "/stdout") == 0;
}

const char *uri_mime(const char *path)
{
    static const struct {
        const char *ending, *mime;
    } rows[] = {
        { ".csv", "text/csv" },
        { ".tsv", "text/tab-separated-values" },
        { ".txt", "text/plain" },
        { ".md", "text/markdown" },
        { ".json", "application/json" },
        { ".html", "text/html" },
        { ".xml", "application/xml" },
        { ".py", "text/x-python" },
        { ".svg", "image/svg+xml" },
        { ".png", "image/png" },
        { ".jpg", "image/jpeg" },
        { ".jpeg", "image/jpeg" },
        { ".gif", "image/gif" },
        { ".webp", "image/webp" },
        { ".pdf", "application/pdf" },
        { ".zip", "application/zip" },
        { ".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" },
    };
    size_t len = strlen(path);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t n = strlen(rows[i].ending);

        if (len > n && strcasecmp(path + len - n, rows[i].ending) == 0)
            return rows[i].mime;
    }
    return NULL;
}

json_t *uri_base64(const void *data, size_t len)
{
    autofree char *text = base64_encode(data, len);

    return text ? json_string(text) : NULL;
}

json_t *uri_content(const char *uri, const char *mime, const char *data, size_t len)
{
    bool text = utf8_valid(data, len) && !memchr(data, 0, len);
    json_t *json = json_pack("{s:s, s:s}", "uri", uri, "mimeType",
                             mime   ? mime
                             : text ? "text/plain"
                                    : "application/octet-stream");

    if (json)
        (void) json_object_set_new(json, text ? "text" : "blob",
                                   text ? json_stringn(data, len) : uri_base64(data, len));
    return json;
}
