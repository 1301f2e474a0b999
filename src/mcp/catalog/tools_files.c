/* Tools about files: upload_file, read_file, list_files. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/utf8.h"
#include "mcp/catalog/tools.h"

#include "base/banned.h"

#define LIST_MAX      500
#define READ_DEFAULT  65536
#define IMAGE_READ    (INT64_C(4) * 1024 * 1024)
#define WORKSPACE     "/workspace/"
#define WORKSPACE_LEN (sizeof WORKSPACE - 1)

/* Models know the place by its full name too. */
static const char *beneath(const char *path)
{
    if (strncmp(path, WORKSPACE, WORKSPACE_LEN) == 0)
        return path + WORKSPACE_LEN;
    return strcmp(path, "/workspace") == 0 || strcmp(path, ".") == 0 ? "" : path;
}

/* ---- upload ---- */

static int store(struct session *session, const char *path, const char *data, size_t len,
                 bool *ret_created, struct fault *fault)
{
    struct file_upload *upload;

    if (files_upload_begin(session, path, strlen(path), (int64_t) len, &upload, fault) < 0)
        return -1;
    if (files_upload_write(upload, data, len, fault) < 0) {
        files_upload_abort(upload);
        return -1;
    }
    return files_upload_commit(upload, ret_created, fault);
}

/* The bytes of the file; *@ret_owned is to be freed. On failure the call has ended. */
static int content_of(struct mcp_call *call, const json_t *arguments, char **ret_owned,
                      const char **ret_data, size_t *ret_len)
{
    const json_t *text = json_object_get(arguments, "content");
    const json_t *base64 = json_object_get(arguments, "content_base64");
    size_t size = json_string_length(base64);

    if (!text == !base64) {
        tool_fail(call, "Give the file as content (text) or as content_base64, one of them.");
        return -1;
    }
    if (text) {
        *ret_data = json_string_value(text);
        *ret_len = json_string_length(text);
        return 0;
    }
    *ret_owned = malloc(size + 1);
    if (!*ret_owned) {
        call_reply(call, NULL);
        return -1;
    }
    if (sodium_base642bin((unsigned char *) *ret_owned, size, json_string_value(base64), size,
                          " \r\n", ret_len, NULL, sodium_base64_VARIANT_ORIGINAL) != 0) {
        tool_fail(call, "content_base64: is not base64");
        return -1;
    }
    *ret_data = *ret_owned;
    return 0;
}

void tool_upload_file(struct mcp_call *call, json_t *arguments)
{
    const char *path = beneath(tool_text(arguments, "path")), *data = "";
    autofree char *owned = NULL, *uri = NULL;
    json_t *content = json_array();
    struct fault fault = { 0 };
    struct session *session = NULL;
    bool created = false;
    size_t len = 0;

    if (content_of(call, arguments, &owned, &data, &len) == 0 &&
        tool_session(call, arguments, &session) == 0) {
        if (store(session, path, data, len, &created, &fault) < 0) {
            tool_fail_fault(call, &fault);
        } else {
            uri = uri_of_file(session_id(session), path);
            if (uri)
                change_publish(call->mcp, CHANGE_FILE, &call->caller.principal, uri);
            if (created)
                change_publish(call->mcp, CHANGE_RESOURCES, &call->caller.principal, NULL);
            tool_add_link(call, content, uri, path, "the file", uri_mime(path), (int64_t) len);
            tool_reply(call,
                       json_pack("{s:s, s:I, s:b, s:s}", "path", path, "size", (json_int_t) len,
                                 "created", created, "session_id", session_id(session)),
                       json_incref(content), false);
        }
    }
    json_decref(content);
    session_unref(session);
}

/* ---- read ---- */

static bool is_image(const char *mime)
{
    return mime && (strcmp(mime, "image/png") == 0 || strcmp(mime, "image/jpeg") == 0 ||
                    strcmp(mime, "image/gif") == 0 || strcmp(mime, "image/webp") == 0);
}

/* Up to @len bytes from @offset; returns how many, or -1. */
static ssize_t read_at(int fd, char *buf, size_t len, int64_t offset)
{
    size_t used = 0;

    while (used < len) {
        ssize_t n = pread(fd, buf + used, len - used, (off_t) (offset + (int64_t) used));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        used += (size_t) n;
    }
    return (ssize_t) used;
}

/* How the part goes out: as text unless it is none. A character that the end has cut in two is left
 * for the next part. */
static json_t *part_to_json(const char *data, size_t *len, const char **ret_encoding)
{
    size_t partial = utf8_partial_end(data, *len);

    if (*len > partial && utf8_valid(data, *len - partial) && !memchr(data, 0, *len)) {
        *len -= partial;
        *ret_encoding = "utf-8";
        return json_stringn(data, *len);
    }
    *ret_encoding = *len == 0 ? "utf-8" : "base64";
    return *len == 0 ? json_string("") : uri_base64(data, *len);
}

static void reply_part(struct mcp_call *call, const char *path, const struct file_reader *file,
                       int64_t offset, size_t limit)
{
    const char *mime = uri_mime(path), *encoding = "image";
    bool image = is_image(mime) && offset == 0 && file->size <= IMAGE_READ;
    size_t len = image ? (size_t) file->size : limit;
    autofree char *data = malloc(len + 1);
    ssize_t n = data ? read_at(file->fd, data, len, offset) : -1;
    json_t *part, *content = NULL;
    int64_t next;

    if (n < 0) {
        tool_fail(call, "The file could not be read: %s", strerror(data ? errno : ENOMEM));
        return;
    }
    len = (size_t) n;
    if (image) {
        content = json_pack("[{s:s, s:o, s:s}]", "type", "image", "data", uri_base64(data, len),
                            "mimeType", mime);
        part = json_string("");
    } else {
        part = part_to_json(data, &len, &encoding);
    }
    next = offset + (int64_t) len;
    tool_reply(call,
               json_pack("{s:s, s:I, s:I, s:o, s:s, s:o, s:s, s:s}", "path", path, "size",
                         (json_int_t) file->size, "offset", (json_int_t) offset, "next",
                         len > 0 && next < file->size ? json_integer(next) : json_null(),
                         "encoding", encoding, "content", part, "mime_type",
                         mime ? mime : "application/octet-stream", "session_id", call->session_id),
               content, false);
}

void tool_read_file(struct mcp_call *call, json_t *arguments)
{
    const json_t *limit = json_object_get(arguments, "limit");
    const char *path = beneath(tool_text(arguments, "path"));
    struct fault fault = { 0 };
    struct file_reader file;
    struct session *session;

    if (tool_session(call, arguments, &session) < 0)
        return;
    if (files_open(session, path, strlen(path), &file, &fault) < 0) {
        tool_fail_fault(call, &fault);
    } else {
        reply_part(call, path, &file, json_integer_value(json_object_get(arguments, "offset")),
                   limit ? (size_t) json_integer_value(limit) : READ_DEFAULT);
        (void) close(file.fd);
    }
    session_unref(session);
}

/* ---- list ---- */

void tool_list_files(struct mcp_call *call, json_t *arguments)
{
    const char *wanted = tool_text(arguments, "path"), *dir = wanted ? beneath(wanted) : "";
    bool recursive = json_is_true(json_object_get(arguments, "recursive"));
    struct fault fault = { 0 };
    struct session *session;
    struct file_list list;
    json_t *files;

    if (tool_session(call, arguments, &session) < 0)
        return;
    if (files_list(session, dir, strlen(dir), recursive, "", 0, LIST_MAX, &list, &fault) < 0) {
        tool_fail_fault(call, &fault);
    } else {
        files = json_array();
        for (size_t i = 0; i < list.len; i++)
            (void) json_array_append_new(files, file_info_to_json(&list.items[i]));
        tool_reply(call,
                   json_pack("{s:s, s:o, s:b}", "session_id", session_id(session), "files", files,
                             "more", list.more || list.incomplete),
                   NULL, false);
        file_list_release(&list);
    }
    session_unref(session);
}
