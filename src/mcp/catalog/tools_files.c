/* Tools about files: upload_file, read_file, list_files. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "mcp/catalog/tools.h"

#include "base/banned.h"

#define LIST_MAX     500
#define READ_DEFAULT 65536
#define READ_MAX     1048576
#define IMAGE_READ   (INT64_C(4) * 1024 * 1024)

/* Models also use the full path, and the places that other sandboxes have: in a box these are links
 * to the first. */
const char *tool_beneath(const char *path)
{
    static const char *const places[] = { "/workspace", "/mnt/data", "/home/user" };

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        size_t len = strlen(places[i]);

        if (strncmp(path, places[i], len) == 0 && (path[len] == '/' || path[len] == '\0'))
            return path[len] ? path + len + 1 : "";
    }
    return strcmp(path, ".") == 0 ? "" : path;
}

/* ---- upload ---- */

struct upload_args {
    const char *path, *content, *content_base64, *session_id;
};

static const struct schema schema_upload_args = {
    .fields =
        (const struct field[]){
            FILE_PATH_FIELD(upload_args),
            { "content", FIELD_TEXT, 0, offsetof(struct upload_args, content),
              .help = "Content of the file, as text" },
            { "content_base64", FIELD_TEXT, 0, offsetof(struct upload_args, content_base64),
              .help = "Content of the file in base64, instead of content" },
            SESSION_ID_FIELD(upload_args),
            { 0 },
        },
    .size = sizeof(struct upload_args),
};

static const struct schema schema_uploaded = {
    .fields =
        (const struct field[]){
            OUT_TEXT("path", "relative to /workspace"),
            OUT_INT("size", "in bytes"),
            OUT_BOOL("created", "false if a file was replaced"),
            OUT_SESSION,
            { 0 },
        },
};

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

/* The content of the file; free *@ret_owned. On failure the call has ended. */
static int content_of(struct mcp_call *call, const struct upload_args *args, char **ret_owned,
                      const char **ret_data, size_t *ret_len)
{
    size_t size = args->content_base64 ? strlen(args->content_base64) : 0;

    if (!args->content == !args->content_base64) {
        tool_fail(call, "Pass the file either as content (text) or as content_base64.");
        return -1;
    }
    if (args->content) {
        *ret_data = args->content;
        *ret_len = strlen(args->content);
        return 0;
    }
    *ret_owned = malloc(size + 1);
    if (!*ret_owned) {
        call_reply(call, NULL);
        return -1;
    }
    if (sodium_base642bin((unsigned char *) *ret_owned, size, args->content_base64, size, " \r\n",
                          ret_len, NULL, sodium_base64_VARIANT_ORIGINAL) != 0) {
        tool_fail(call, "content_base64 is not valid base64.");
        return -1;
    }
    *ret_data = *ret_owned;
    return 0;
}

static void upload_file(struct mcp_call *call, const void *arguments)
{
    const struct upload_args *args = arguments;
    const char *path = tool_beneath(args->path), *data = "";
    autofree char *owned = NULL, *uri = NULL;
    json_t *content = json_array();
    struct fault fault = { 0 };
    struct session *session = NULL;
    bool created = false;
    size_t len = 0;

    if (content_of(call, args, &owned, &data, &len) == 0 &&
        tool_session(call, args->session_id, &session) == 0) {
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

const struct mcp_tool tool_upload_file = {
    .name = "upload_file",
    .title = "Upload a file",
    .description =
        "Write a file to /workspace of a session, where execute_python and run_command find it "
        "under the same path. Missing directories are created; an existing file is replaced. Pass "
        "text as content, anything else as content_base64.",
    .input = &schema_upload_args,
    .output = &schema_uploaded,
    .hints = TOOL_DESTRUCTIVE | TOOL_IDEMPOTENT,
    .handle = upload_file,
};

/* ---- read ---- */

struct read_args {
    const char *path;
    int64_t offset, limit;
    const char *session_id;
};

static const struct schema schema_read_args = {
    .fields =
        (const struct field[]){
            FILE_PATH_FIELD(read_args),
            { "offset", FIELD_INT, 0, offsetof(struct read_args, offset), 0, INT64_MAX,
              .help = "Byte to start at. Default 0." },
            { "limit", FIELD_INT, 0, offsetof(struct read_args, limit), 1, READ_MAX,
              .help = "Maximum number of bytes to read. Default 65536." },
            SESSION_ID_FIELD(read_args),
            { 0 },
        },
    .size = sizeof(struct read_args),
};

static const char *const encodings[] = { "utf-8", "base64", "image", NULL };

static const struct schema schema_read_result = {
    .fields =
        (const struct field[]){
            OUT_TEXT("path", "relative to /workspace"),
            OUT_INT("size", "of the whole file, in bytes"),
            OUT_INT("offset", "where content begins"),
            { "next", FIELD_INT, FIELD_REQUIRED | FIELD_NULLABLE,
              .help = "the offset of the next part; null after the last" },
            { "encoding", FIELD_CHOICE, FIELD_REQUIRED, .choices = encodings,
              .help = "of content; image: it follows as image content" },
            OUT_TEXT("content", "this part of the file"),
            { "mime_type", FIELD_TEXT, .help = "by the name of the file" },
            OUT_SESSION,
            { 0 },
        },
};

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

/* How a part is returned: as text if it is text. A character that is cut at the end is left for the
 * next part. */
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
        tool_fail(call, "Reading the file failed: %s", strerror(data ? errno : ENOMEM));
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

static void read_file(struct mcp_call *call, const void *arguments)
{
    const struct read_args *args = arguments;
    const char *path = tool_beneath(args->path);
    struct fault fault = { 0 };
    struct file_reader file;
    struct session *session;

    if (tool_session(call, args->session_id, &session) < 0)
        return;
    if (files_open(session, path, strlen(path), &file, &fault) < 0) {
        tool_fail_fault(call, &fault);
    } else {
        reply_part(call, path, &file, args->offset == FIELD_ABSENT ? 0 : args->offset,
                   args->limit == FIELD_ABSENT ? READ_DEFAULT : (size_t) args->limit);
        (void) close(file.fd);
    }
    session_unref(session);
}

const struct mcp_tool tool_read_file = {
    .name = "read_file",
    .title = "Read a file",
    .description =
        "Read a file in /workspace of a session. Text is returned as text, an image as an image, "
        "anything else in base64. A large file is returned in parts: pass the next of the result "
        "as "
        "offset to continue.",
    .input = &schema_read_args,
    .output = &schema_read_result,
    .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
    .handle = read_file,
};

/* ---- list ---- */

struct list_args {
    const char *path, *session_id;
    bool recursive;
};

static const struct schema schema_list_args = {
    .fields =
        (const struct field[]){
            { "path", FIELD_TEXT, 0, offsetof(struct list_args, path), 0, FILE_PATH_MAX,
              .help = "Directory to list, relative to /workspace. Default: /workspace itself." },
            { "recursive", FIELD_BOOL, 0, offsetof(struct list_args, recursive),
              .help = "Whether to list subdirectories too. Default false." },
            SESSION_ID_FIELD(list_args),
            { 0 },
        },
    .size = sizeof(struct list_args),
};

static const struct schema schema_listed_file = {
    .fields =
        (const struct field[]){
            OUT_TEXT("path", "relative to /workspace"),
            { "kind", FIELD_TEXT, .help = "file, directory, link or other" },
            { "size", FIELD_INT, .help = "in bytes" },
            { "mtime", FIELD_NUMBER, .help = "when it was last modified, in seconds since 1970" },
            { 0 },
        },
};

static const struct schema schema_listed = {
    .fields =
        (const struct field[]){
            OUT_SESSION,
            { "files", FIELD_LIST, FIELD_REQUIRED, .of = &schema_listed_file },
            OUT_BOOL("more", "whether the list is incomplete"),
            { 0 },
        },
};

static void list_files(struct mcp_call *call, const void *arguments)
{
    const struct list_args *args = arguments;
    const char *dir = args->path ? tool_beneath(args->path) : "";
    struct fault fault = { 0 };
    struct session *session;
    struct file_list list;
    json_t *files;

    if (tool_session(call, args->session_id, &session) < 0)
        return;
    if (files_list(session, dir, strlen(dir), args->recursive, "", 0, LIST_MAX, &list, &fault) <
        0) {
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

const struct mcp_tool tool_list_files = {
    .name = "list_files",
    .title = "List files",
    .description =
        "List the files and directories in /workspace of a session, or in a directory below it. "
        "Returns path, kind, size and modification time of each, at most 500.",
    .input = &schema_list_args,
    .output = &schema_listed,
    .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
    .handle = list_files,
};
