/* What the files of the API share. */
#pragma once

#include "base/autoclean.h"
#include "base/text/strv.h"
#include "server/server_internal.h"

/* NAME=value, NULL-terminated, from an object of texts; free with strv_free(). On
 * failure the reply has been sent. */
int body_env_read(struct request *rq, const json_t *map, char ***ret_env);

/* The texts of a list that was checked, NULL-terminated; the caller frees the array. NULL: no
 * memory. */
const char **body_texts(const json_t *list);

struct run_options {
    enum media media;
    bool detach;
    bool cancel; /* interrupt it when the client leaves */
};

/* Runs @request as @options say, and replies. @session NULL: a one-shot. */
void run_request(struct request *rq, struct session *session, struct execution_request *request,
                 const struct run_options *options);

void reply_receipt(struct request *rq, struct execution *execution);

/* An upload of one part, "file", of a multipart body; takes @session. @path NULL: the part's
 * filename. On failure the request is refused. */
int upload_form_begin(struct request *rq, struct session *session, const char *path);

/* What was uploaded; lives as long as the request. */
struct uploaded {
    struct session *session;
    const char *path;
    int64_t bytes;
};

/* The body has ended: the file is in its place. On failure the reply has been sent. */
int upload_form_end(struct request *rq, struct uploaded *ret_file);

/* Begins of streamed bodies. */
int codesession_upload_begin(struct request *rq);
int locals_upload_begin(struct request *rq);
int v1_files_upload_begin(struct request *rq);
int v1_file_put_begin(struct request *rq);
