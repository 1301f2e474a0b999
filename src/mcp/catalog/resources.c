/*
 * Resources: a description of the sandbox, the files of sessions, and output that was too long for
 * a result.
 *
 * Files are listed only for a client with a session of the protocol, and only those of the sessions
 * that it created: without one it is impossible to know which of many users behind a proxy is
 * asking. Anybody who knows the id of a session can read its files by their URIs, as everywhere in
 * the service.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define READ_MAX        (INT64_C(4) * 1024 * 1024)
#define ENVIRONMENT_URI "glovebox://environment"
#define CURSOR_MAX      (2 * FILE_PATH_MAX)
#define VARIANT         sodium_base64_VARIANT_URLSAFE_NO_PADDING

/* ---- the sandbox ---- */

static bool read_environment(struct mcp_call *call, const char *uri)
{
    static const char text[] =
        "# The sandbox\n\nAn isolated Linux sandbox with Python 3, the standard library, "
        "{packages}, and a shell. It has no network access.\n\n"
        "- time: {timeout} s per call, at most {timeout_max} s with `timeout`\n"
        "- memory: {memory}\n"
        "- disk: {disk} in /workspace, the working directory\n"
        "- output: {reply} bytes each of stdout and stderr per result; the complete output is a "
        "resource\n"
        "- sessions: closed after {idle} s without use\n";
    autofree char *filled = NULL;

    if (strcmp(uri, ENVIRONMENT_URI) != 0)
        return false;
    filled = describe_fill(call->mcp, text);
    call_reply(call, filled ? json_pack("{s:[o]}", "contents",
                                        uri_content(uri, "text/markdown", filled, strlen(filled)))
                            : NULL);
    return true;
}

/* ---- files ---- */

static void not_found(struct mcp_call *call, const char *uri)
{
    call_fail_data(call, MCP_INVALID_PARAMS, json_pack("{s:s}", "uri", uri), "resource not found");
}

static void reply_file(struct mcp_call *call, const char *uri, const char *path,
                       const struct file_reader *file)
{
    autofree char *data = NULL;
    int64_t used = 0;
    ssize_t n = 1;

    if (file->size > READ_MAX) {
        call_fail(
            call, MCP_INTERNAL,
            "the file has %lld bytes, more than the %lld of a resource; read it in parts with the "
            "tool read_file",
            (long long) file->size, (long long) READ_MAX);
        return;
    }
    data = malloc((size_t) file->size + 1);
    while (data && used < file->size && n > 0) {
        n = read(file->fd, data + used, (size_t) (file->size - used));
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            used += n;
    }
    call_reply(call, data && n >= 0
                         ? json_pack("{s:[o]}", "contents",
                                     uri_content(uri, uri_mime(path), data, (size_t) used))
                         : NULL);
}

static bool read_workspace(struct mcp_call *call, const char *uri)
{
    struct session *session = NULL;
    struct fault fault = { 0 };
    struct file_reader reader;
    struct uri_file *file = malloc(sizeof *file);

    if (!file || !uri_parse_file(uri, file)) {
        free(file);
        return false;
    }
    if (call_session(call, file->session_id, &session, &fault) < 0 ||
        files_open(session, file->path, file->path_len, &reader, &fault) < 0) {
        not_found(call, uri);
    } else {
        reply_file(call, uri, file->path, &reader);
        (void) close(reader.fd);
    }
    session_unref(session);
    free(file);
    return true;
}

static bool read_output(struct mcp_call *call, const char *uri)
{
    char id[EXECUTION_ID_MAX];
    struct execution *x = NULL;
    struct fault fault = { 0 };
    autofree char *data = NULL;
    int64_t total = 0, kept = 0;
    enum stream stream;
    size_t len = 0;
    bool done;

    if (!uri_parse_output(uri, id, &stream))
        return false;
    if (execution_find(call->mcp->config.service, &call->caller, id, &x, &fault) < 0) {
        not_found(call, uri);
        return true;
    }
    data = malloc((size_t) READ_MAX);
    if (!data)
        call_reply(call, NULL);
    else if (execution_read_output(x, stream, 0, data, (size_t) READ_MAX, &len, &total, &kept,
                                   &done, &fault) < 0)
        call_fail_fault(call, &fault);
    else
        call_reply(call,
                   json_pack("{s:[o]}", "contents", uri_content(uri, "text/plain", data, len)));
    execution_unref(x);
    return true;
}

static const struct mcp_resource rows[] = {
    { ENVIRONMENT_URI, "environment", "The sandbox",
      "What is installed in the sandbox, and its limits.", "text/markdown", false,
      read_environment },
    { "glovebox://sessions/{session_id}/files/{+path}", "workspace-file", "A file in a session",
      "A file in /workspace of a session.", NULL, true, read_workspace },
    { "glovebox://executions/{execution_id}/{stream}", "output", "Complete output",
      "The complete stdout or stderr of an execution, of which the result contains only a part.",
      "text/plain", true, read_output },
};

void resources_register(struct mcp *mcp)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        registry_add_resource(mcp, &rows[i]);
}

/* ---- lists ---- */

static json_t *file_to_resource(const char *session_id, const struct file_info *info)
{
    autofree char *uri = uri_of_file(session_id, info->path);
    const char *mime = uri_mime(info->path);
    json_t *json =
        uri ? json_pack("{s:s, s:s, s:s+, s:I}", "uri", uri, "name", info->path, "description",
                        "In /workspace of session ", session_id, "size", (json_int_t) info->size)
            : NULL;

    if (json && mime)
        (void) json_object_set_new(json, "mimeType", json_string(mime));
    return json; /* NULL if the name is not UTF-8 */
}

/* "SESSION/PATH" after which to continue, in base64. */
static json_t *make_cursor(const char *session_id, const char *path)
{
    char plain[FILE_PATH_MAX + SESSION_ID_MAX + 2], text[CURSOR_MAX];
    int len = snprintf(plain, sizeof plain, "%s/%s", session_id, path);

    if (len < 0 || (size_t) len >= sizeof plain ||
        sodium_base64_encoded_len((size_t) len, VARIANT) > sizeof text)
        return NULL;
    sodium_bin2base64(text, sizeof text, (unsigned char *) plain, (size_t) len, VARIANT);
    return json_string(text);
}

struct place {
    char plain[FILE_PATH_MAX + SESSION_ID_MAX + 2];
    char *path; /* within plain */
};

static bool read_cursor(const char *text, struct place *ret)
{
    size_t len = 0;
    char *slash;

    if (sodium_base642bin((unsigned char *) ret->plain, sizeof ret->plain - 1, text, strlen(text),
                          NULL, &len, NULL, VARIANT) != 0 ||
        memchr(ret->plain, 0, len))
        return false;
    ret->plain[len] = '\0';
    slash = strchr(ret->plain, '/');
    if (!slash)
        return false;
    *slash = '\0';
    ret->path = slash + 1;
    return true;
}

/* Adds a page of one session's files; true when the page is full, with the cursor. */
static bool add_files(struct mcp_call *call, const char *id, const char *after, json_t *list,
                      json_t **ret_cursor)
{
    size_t room = MCP_PAGE - json_array_size(list);
    struct fault fault = { 0 };
    struct session *session;
    struct file_list files;
    bool full = false;

    if (session_find(call->mcp->config.service, &call->caller, id, &session, &fault) < 0)
        return false;
    if (files_list(session, "", 0, true, after, strlen(after), room, &files, &fault) == 0) {
        for (size_t i = 0; i < files.len; i++)
            if (files.items[i].kind == FILE_REGULAR)
                (void) json_array_append_new(list, file_to_resource(id, &files.items[i]));
        full = files.more && files.len > 0;
        if (full)
            *ret_cursor = make_cursor(id, files.items[files.len - 1].path);
        file_list_release(&files);
    }
    session_unref(session);
    return full;
}

void method_resources_list(struct mcp_call *call)
{
    char ids[MCP_PEER_SESSIONS][SESSION_ID_MAX];
    const char *cursor = call_text(call, "cursor", false);
    size_t len = call->peer ? peer_sessions(call->peer, ids, MCP_PEER_SESSIONS) : 0, i = 0;
    json_t *list, *next = NULL, *result;
    struct place place = { .path = NULL };

    if (call_is_over(call))
        return;
    if (cursor && !read_cursor(cursor, &place)) {
        call_fail(call, MCP_INVALID_PARAMS, "invalid cursor; start without one");
        return;
    }
    list = cursor ? json_array() : registry_resources_to_json(call->mcp, false);
    while (cursor && i < len && strcmp(ids[i], place.plain) != 0)
        i++;
    for (; i < len; i++) {
        if (add_files(call, ids[i], place.path ? place.path : "", list, &next))
            break;
        place.path = NULL;
    }
    result = json_pack("{s:o}", "resources", list);
    if (result && next)
        (void) json_object_set_new(result, "nextCursor", next);
    call_reply(call, result);
}

void method_resources_templates(struct mcp_call *call)
{
    if (call_text(call, "cursor", false))
        call_fail(call, MCP_INVALID_PARAMS, "invalid cursor: everything is on one page");
    else
        call_reply(call, json_pack("{s:o}", "resourceTemplates",
                                   registry_resources_to_json(call->mcp, true)));
}

void method_resources_read(struct mcp_call *call)
{
    const char *uri = call_text(call, "uri", true);

    if (uri && !registry_read(call, uri))
        not_found(call, uri);
}

/* ---- subscriptions of the old era ---- */

void method_resources_subscribe(struct mcp_call *call)
{
    const char *uri = call_text(call, "uri", true);
    struct mcp_peer *peer = call->peer;
    bool full;

    if (!uri)
        return;
    pthread_mutex_lock(&peer->lock);
    full = json_object_size(peer->subscriptions) >= MCP_SUBSCRIPTIONS || strlen(uri) > MCP_URI_MAX;
    if (!full)
        (void) json_object_set_new(peer->subscriptions, uri, json_true());
    pthread_mutex_unlock(&peer->lock);
    if (full)
        call_fail(call, MCP_INVALID_PARAMS,
                  "at most %d resources can be subscribed to, with URIs of at most %d bytes",
                  MCP_SUBSCRIPTIONS, MCP_URI_MAX);
    else
        call_reply(call, json_object());
}

void method_resources_unsubscribe(struct mcp_call *call)
{
    const char *uri = call_text(call, "uri", true);

    if (!uri)
        return;
    pthread_mutex_lock(&call->peer->lock);
    (void) json_object_del(call->peer->subscriptions, uri);
    pthread_mutex_unlock(&call->peer->lock);
    call_reply(call, json_object());
}
