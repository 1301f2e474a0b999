/*
 * Files of a session, over the engine's calls. They may come while code runs: an upload appears in
 * one step, and a download continues with the file that was opened.
 *
 * Paths come from the network as raw bytes and are checked here first, so that a client learns what
 * is wrong with them; whatever they contain, the engine never follows a link and never leaves the
 * workspace.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/base64.h"
#include "base/text/utf8.h"
#include "service/session/files_internal.h"

#include "base/banned.h"

#define LIST_MAX 1000u
#define PART_MAX 255u

/* ---- paths ---- */

static int path_refuse(const char *loc, const char *why, struct fault *fault)
{
    return fault_set(fault, PROBLEM_PATH_MALFORMED, loc,
                     "the path %s; give a path relative to the workspace, such as data/in.csv",
                     why);
}

/* Why a part of a path is not allowed, or NULL. */
static const char *part_wrong(const char *part, size_t len)
{
    if (len == 0)
        return "has an empty part";
    if (len > PART_MAX)
        return "has a part longer than 255 bytes";
    if (part[0] == '.' && (len == 1 || (len == 2 && part[1] == '.')))
        return "contains \".\" or \"..\"";
    return NULL;
}

int path_copy(const char *path, size_t len, bool may_be_empty, const char *loc, char **ret_path,
              struct fault *fault)
{
    const char *why = NULL;
    size_t start = 0;
    char *copy;

    if (len > FILE_PATH_MAX)
        why = "is longer than 4000 bytes";
    else if (len > 0 && memchr(path, 0, len))
        why = "contains a NUL";
    else if (len > 0 && path[0] == '/')
        why = "is absolute";
    for (size_t i = 0; !why && i <= len && !(len == 0 && may_be_empty); i++)
        if (i == len || path[i] == '/') {
            why = part_wrong(path + start, i - start);
            start = i + 1;
        }
    if (why)
        return path_refuse(loc, why, fault);
    copy = malloc(len + 1);
    if (!copy)
        return fault_no_memory(fault);
    if (len > 0)
        memcpy(copy, path, len);
    copy[len] = 0;
    *ret_path = copy;
    return 0;
}

struct file_error {
    int code;
    enum problem problem;
    const char *detail;
};

static const struct file_error file_errors[] = {
    { ENOENT, PROBLEM_FILE_UNKNOWN, "no such file; list the files to see what exists" },
    { ENOTDIR, PROBLEM_NOT_A_DIRECTORY, "a part of the path is a file" },
    { EISDIR, PROBLEM_IS_A_DIRECTORY, "this is a directory" },
    { EEXIST, PROBLEM_FILE_EXISTS,
      "a file of that name already exists; choose another name or ask to replace it" },
    { ENOTEMPTY, PROBLEM_DIRECTORY_NOT_EMPTY,
      "the directory is not empty; empty it first, or delete recursively" },
    { ELOOP, PROBLEM_IS_A_LINK, "the path contains a symbolic link, and links are not followed" },
    { EXDEV, PROBLEM_LEADS_OUTSIDE, "the path leads out of the workspace" },
    { ENAMETOOLONG, PROBLEM_PATH_MALFORMED, "the path is too long" },
    { EINVAL, PROBLEM_NOT_A_FILE, "this is not a regular file" },
    { ENOSPC, PROBLEM_QUOTA_EXCEEDED,
      "the workspace is full; delete files, or create a session with more disk" },
    { EDQUOT, PROBLEM_QUOTA_EXCEEDED,
      "the workspace is full; delete files, or create a session with more disk" },
    { EFBIG, PROBLEM_QUOTA_EXCEEDED, "the file exceeds this session's file size limit" },
};

int files_fault(struct session *session, const struct gb_err *err, struct fault *fault)
{
    for (size_t i = 0; i < sizeof file_errors / sizeof *file_errors; i++)
        if (file_errors[i].code == err->code)
            return fault_set(fault, file_errors[i].problem, "path", "%s", file_errors[i].detail);
    return fault_from_engine(session->service, "the workspace could not be accessed", err, fault);
}

/* Before a call of the engine for one path: checks and copies it, and keeps the session from
 * expiring. files_end() follows, unless this fails. */
static int files_begin(struct session *session, const char *path, size_t len, char **ret_path,
                       struct fault *fault)
{
    if (path_copy(path, len, false, "path", ret_path, fault) < 0)
        return -1;
    return session_use_begin(session, fault);
}

/* After that call, with its return value. */
static int files_end(struct session *session, int r, const struct gb_err *err, struct fault *fault)
{
    session_use_end(session);
    return r < 0 ? files_fault(session, err, fault) : 0;
}

/* ---- looking ---- */

int files_list(struct session *session, const char *dir, size_t dir_len, bool recursive,
               const char *after, size_t after_len, size_t max, struct file_list *ret_list,
               struct fault *fault)
{
    autofree char *dir_path = NULL, *after_path = NULL;
    struct gb_err err;
    int r;

    if (max == 0 || max > LIST_MAX)
        return fault_set(fault, PROBLEM_LIMIT_MALFORMED, "limit", "limit must be from 1 to %u",
                         LIST_MAX);
    if (path_copy(dir, dir_len, true, "dir", &dir_path, fault) < 0 ||
        path_copy(after, after_len, true, "after", &after_path, fault) < 0 ||
        session_use_begin(session, fault) < 0)
        return -1;
    r = box_file_list(session->lodging.box, dir_path, recursive, after_path, max, ret_list, &err);
    return files_end(session, r, &err, fault);
}

json_t *file_info_to_json(const struct file_info *info)
{
    static const char *const kinds[] = { [FILE_REGULAR] = "file",
                                         [FILE_DIRECTORY] = "directory",
                                         [FILE_LINK] = "link",
                                         [FILE_OTHER] = "other" };
    size_t len = strlen(info->path), used, text_len;
    autofree char *text = malloc(3 * len + 1), *raw = NULL;
    json_t *json;

    if (!text)
        return NULL;
    text_len = utf8_replace(info->path, len, text, 3 * len, &used);
    json = json_pack("{s:s%, s:s, s:I, s:f}", "path", text, text_len, "kind", kinds[info->kind],
                     "size", (json_int_t) info->size, "mtime", (double) info->mtime_ns / 1e9);
    if (!json || utf8_valid(info->path, len))
        return json;
    raw = base64_encode(info->path, len);
    if (!raw || json_object_set_new(json, "path_base64", json_string(raw)) < 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* ---- reading ---- */

int files_open(struct session *session, const char *path, size_t path_len,
               struct file_reader *ret_reader, struct fault *fault)
{
    struct file_reader reader = { .fd = -1 };
    autofree char *copy = NULL;
    autoclose int fd = -EBADF;
    struct gb_err err = { 0 };
    struct stat st;
    int r;

    if (files_begin(session, path, path_len, &copy, fault) < 0)
        return -1;
    r = box_open_read(session->lodging.box, copy, &fd, &err);
    if (r == 0 && fstat(fd, &st) < 0)
        r = gb_fail(&err, errno, "stat a file in the workspace");
    if (files_end(session, r, &err, fault) < 0)
        return -1;
    reader.size = st.st_size;
    reader.mtime_ns = (int64_t) st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    /* Any change of the file changes one of these; the only exception is a second change within a
     * clock tick that leaves the size. */
    (void) snprintf(reader.etag, sizeof reader.etag, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"",
                    (uint64_t) st.st_ino, (uint64_t) reader.size, (uint64_t) reader.mtime_ns);
    reader.fd = TAKE_FD(fd);
    *ret_reader = reader;
    return 0;
}

/* ---- writing ---- */

struct file_upload {
    struct session *session; /* a reference, and a use */
    struct upload *upload;
    char *path;
    int64_t written, most;
};

static void upload_release(struct file_upload *upload)
{
    upload_free(upload->upload);
    free(upload->path);
    session_use_end(upload->session);
    session_unref(upload->session);
    free(upload);
}

void files_upload_abort(struct file_upload *upload)
{
    if (upload)
        upload_release(upload);
}

static int upload_too_large(int64_t most, struct fault *fault)
{
    return fault_set(
        fault, PROBLEM_QUOTA_EXCEEDED, NULL,
        "files in this session can have at most %lld bytes; create a session with more disk",
        (long long) most);
}

int files_upload_begin(struct session *session, const char *path, size_t path_len, int64_t expected,
                       struct file_upload **ret_upload, struct fault *fault)
{
    int64_t most = session->limits.file_bytes < session->limits.disk_bytes
                       ? session->limits.file_bytes
                       : session->limits.disk_bytes;
    struct file_upload *upload;
    autofree char *copy = NULL;
    struct gb_err err;

    if (path_copy(path, path_len, false, "path", &copy, fault) < 0)
        return -1;
    if (expected > most)
        return upload_too_large(most, fault);
    upload = calloc(1, sizeof *upload);
    if (!upload)
        return fault_no_memory(fault);
    if (session_use_begin(session, fault) < 0) {
        free(upload);
        return -1;
    }
    upload->session = session_ref(session);
    upload->path = TAKE_PTR(copy);
    upload->most = most;
    if (upload_begin(session->lodging.box, upload->path, 0644, &upload->upload, &err) < 0) {
        (void) files_fault(session, &err, fault);
        upload_release(upload);
        return -1;
    }
    *ret_upload = upload;
    return 0;
}

int files_upload_write(struct file_upload *upload, const void *data, size_t len,
                       struct fault *fault)
{
    struct gb_err err;
    int r;

    if ((uint64_t) len > (uint64_t) (upload->most - upload->written))
        return upload_too_large(upload->most, fault);
    r = io_write_all(upload_fd(upload->upload), data, len);
    if (r < 0) {
        (void) gb_fail(&err, -r, "write an upload");
        return files_fault(upload->session, &err, fault);
    }
    upload->written += (int64_t) len;
    return 0;
}

int files_upload_commit(struct file_upload *upload, bool *ret_created, struct fault *fault)
{
    struct session *session = upload->session;
    struct file_info before;
    struct gb_err err;
    bool created;
    int r;

    created = box_file_stat(session->lodging.box, upload->path, &before, &err) < 0;
    if (!created)
        file_info_release(&before);
    r = upload_commit(upload->upload, &err);
    if (r < 0)
        (void) files_fault(session, &err, fault);
    else
        *ret_created = created;
    upload_release(upload);
    return r;
}

/* ---- changing ---- */

int files_delete(struct session *session, const char *path, size_t path_len, bool recursive,
                 struct fault *fault)
{
    autofree char *copy = NULL;
    struct gb_err err;
    int r;

    if (files_begin(session, path, path_len, &copy, fault) < 0)
        return -1;
    r = box_file_remove(session->lodging.box, copy, recursive, &err);
    return files_end(session, r, &err, fault);
}

int files_move(struct session *session, const char *from, size_t from_len, const char *to,
               size_t to_len, bool replace, struct fault *fault)
{
    autofree char *from_path = NULL, *to_path = NULL;
    struct gb_err err;
    int r;

    if (path_copy(from, from_len, false, "from", &from_path, fault) < 0 ||
        path_copy(to, to_len, false, "to", &to_path, fault) < 0 ||
        session_use_begin(session, fault) < 0)
        return -1;
    r = box_file_rename(session->lodging.box, from_path, to_path, replace, &err);
    return files_end(session, r, &err, fault);
}

int files_mkdir(struct session *session, const char *path, size_t path_len, struct fault *fault)
{
    autofree char *copy = NULL;
    struct gb_err err;
    int r;

    if (files_begin(session, path, path_len, &copy, fault) < 0)
        return -1;
    r = box_file_mkdir(session->lodging.box, copy, true, &err);
    return files_end(session, r, &err, fault);
}
