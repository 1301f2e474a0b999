/* What the files of the API share. */
#pragma once

#include "base/autoclean.h"
#include "base/text/strv.h"
#include "server/server_internal.h"

/* NAME=value, NULL-terminated, from an object of strings; free with strv_free(). On failure the
 * reply has been sent. */
int body_env_read(struct request *rq, const json_t *map, char ***ret_env);

/* The strings of a list that was checked, NULL-terminated; the caller frees the array. NULL: out of
 * memory. */
const char **body_texts(const json_t *list);

struct run_options {
    enum media media;
    bool detach;
    bool cancel; /* interrupt it if the client disconnects */
};

/* Runs @request as @options say, and replies. @session NULL: a one-shot. */
void run_request(struct request *rq, struct session *session, struct execution_request *request,
                 const struct run_options *options);

void reply_receipt(struct request *rq, struct execution *execution);

/* Receives an upload with one part, "file", of a multipart body; takes @session. @path NULL: the
 * part's filename. On failure the request is refused. */
int upload_form_begin(struct request *rq, struct session *session, const char *path);

/* The file that was uploaded; lives as long as the request. */
struct uploaded {
    struct session *session;
    const char *path;
    int64_t bytes;
};

/* The body has ended: commits the file. On failure the reply has been sent. */
int upload_form_end(struct request *rq, struct uploaded *ret_file);

/* The body is not what it should be; returns -1. */
int upload_refuse_form(struct request *rq);

/* Called when a streamed body begins. */
int codesession_upload_begin(struct request *rq);
int locals_upload_begin(struct request *rq);
int v1_files_upload_begin(struct request *rq);
int v1_file_put_begin(struct request *rq);
int mark_attachment_add_begin(struct request *rq);
