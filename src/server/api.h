/* What the files of the API share. */
#pragma once

#include "base/autoclean.h"
#include "server/server_internal.h"

/* NAME=value, NULL-terminated, from an object of texts; on failure the reply has been sent. */
int body_env_read(struct request *rq, const json_t *map, char ***ret_env);
void body_env_free(char **env); /* accepts NULL */

struct run_options {
    enum media media;
    bool detach;
    bool cancel; /* interrupt it when the client leaves */
};

/* Runs @request as @options say, and replies. @session NULL: a one-shot. */
void run_request(struct request *rq, struct session *session, struct execution_request *request,
                 const struct run_options *options);

void reply_receipt(struct request *rq, struct execution *execution);

/* Begins of streamed bodies. */
int v1_files_upload_begin(struct request *rq);
int v1_file_put_begin(struct request *rq);
