/*
 * The code-session API: tables and code in a session that needs no setup.
 *
 * CSV files become variables, code works on them, and the variables it sets are returned. Replies
 * with values are JSON strings with JSON inside, as the API's clients expect. All work on values is
 * done in the box; they leave it as text, or as a file if they may be large.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/compat/dialect.h"
#include "server/compat/json_text.h"
#include "server/compat/schemas.h"
#include "server/handlers.h"
#include "server/schema/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define PASSING_MAX 64

/* A file that exists during one request. No two requests have the same id. */
static void passing_path(const struct request *rq, char path[PASSING_MAX])
{
    (void) snprintf(path, PASSING_MAX, ".glovebox-%s", rq->id);
}

static void remove_passing(struct session *session, const char *path)
{
    struct fault ignored = { 0 };

    (void) files_delete(session, path, strlen(path), false, &ignored);
}

/* A name that cannot be a variable is refused before anything is stored; non-ASCII names are left
 * to Python, which knows the letters of all languages. So are keywords: Python knows its own
 * best. */
static bool may_be_name(const char *name)
{
    bool first = true;

    for (const unsigned char *p = (const unsigned char *) name; *p; p++, first = false) {
        bool letter = (*p | 32) >= 'a' && (*p | 32) <= 'z';

        if (*p < 128 && !letter && *p != '_' && (first || *p < '0' || *p > '9'))
            return false;
    }
    return !first;
}

/* ---- upload ---- */

int codesession_upload_begin(struct request *rq)
{
    const char *name = request_param(rq, "name");
    struct session *session;
    char path[PASSING_MAX];

    if (!may_be_name(name) || strlen(name) > NAME_BYTES_MAX)
        return refuse(rq, PROBLEM_BAD_NAME,
                      "the name becomes a variable, so it must be a Python identifier: letters, "
                      "digits and _, not a digit first");
    if (dialect_session(rq, true, &session) < 0)
        return -1;
    passing_path(rq, path);
    return upload_form_begin(rq, session, path);
}

void codesession_upload(struct request *rq)
{
    const char *name = request_param(rq, "name");
    struct execution_request request;
    struct session *session;
    json_t *receipt = NULL;
    struct uploaded file;
    char *code;

    if (upload_form_end(rq, &file) < 0)
        return;
    session = file.session;
    code = dialect_call("read_csv", name, file.path);
    if (!code) {
        reply_no_memory(rq);
    } else {
        dialect_request(code, &request);
        if (dialect_run_in(rq, session, &request, LOSS_KEEP, &receipt) == 0 &&
            dialect_is_ok(rq, receipt))
            reply_json(rq, MHD_HTTP_OK,
                       json_pack("{s:s++}", "message", "File ", name, " has been uploaded"));
    }
    remove_passing(session, file.path); /* it is gone already unless something failed */
    json_decref(receipt);
    free(code);
}

/* ---- files ---- */

/* The box has written the reply as it is to be sent. It is not parsed here: parsed, hostile text
 * could take a hundred times its length. */
static void send_list(struct request *rq, json_t *receipt)
{
    static const char none[] = "{\"files\":[]}";
    const char *text = none;
    size_t len = sizeof none - 1;

    if (receipt && dialect_has_names(receipt))
        text = dialect_names(receipt, &len);
    if (json_text_is_object(text, len))
        reply_text(rq, MHD_HTTP_OK, "application/json", text, len);
    else
        dialect_reply_error(rq, "ValueError", "the list of files did not come back as JSON", "");
}

void codesession_files(struct request *rq)
{
    struct execution_request request;
    char *code = dialect_call("uploads", NULL, NULL);
    json_t *receipt = NULL;

    if (!code) {
        reply_no_memory(rq);
        return;
    }
    dialect_request(code, &request);
    if (dialect_run(rq, &request, false, LOSS_KEEP, &receipt) == 0 &&
        (!receipt || dialect_is_ok(rq, receipt)))
        send_list(rq, receipt);
    json_decref(receipt);
    free(code);
}

/* ---- download ---- */

/* The box has written the reply as it is to be sent: a JSON string. */
static void send_passing(struct request *rq, struct session *session, const char *path)
{
    struct MHD_Response *response;
    struct fault fault = { 0 };
    struct file_reader file;

    if (files_open(session, path, strlen(path), &file, &fault) < 0) {
        dialect_reply_error(rq, "OSError", fault.detail, "");
        return;
    }
    response = MHD_create_response_from_fd64((uint64_t) file.size, file.fd);
    if (!response)
        (void) close(file.fd);
    else
        reply_header(response, "Content-Type", "application/json");
    reply_send(rq, MHD_HTTP_OK, response);
}

static void download(struct request *rq, const char *code, const char *path)
{
    struct execution_request request;
    struct session *session = NULL;
    json_t *receipt = NULL;

    dialect_request(code, &request);
    if (dialect_run(rq, &request, false, LOSS_TELL, &receipt) < 0)
        return;
    if (!receipt) {
        reply_json(rq, MHD_HTTP_OK, json_string("[]"));
    } else if (dialect_is_ok(rq, receipt)) {
        /* The session that it ran in, even if the label has another one by now. */
        struct fault fault = { 0 };

        if (session_find(rq->server->config.service, &rq->caller, rq->session_id, &session,
                         &fault) < 0) {
            reply_fault(rq, &fault);
        } else {
            send_passing(rq, session, path);
            remove_passing(session, path);
        }
    }
    session_unref(session);
    json_decref(receipt);
}

void codesession_download(struct request *rq)
{
    char path[PASSING_MAX], *code;

    passing_path(rq, path);
    code = dialect_call("write_records", request_param(rq, "name"), path);
    if (code)
        download(rq, code, path);
    else
        reply_no_memory(rq);
    free(code);
}

/* ---- code ---- */

void codesession_execute(struct request *rq, const struct body_execute_code *body)
{
    static const char names[] = "{\"get\":\"text\"}";
    struct execution_request request;
    json_t *receipt = NULL;
    const char *text;
    size_t len;

    dialect_request(body->code, &request);
    request.names = names;
    request.names_len = sizeof names - 1;
    if (dialect_run(rq, &request, true, LOSS_TELL, &receipt) == 0 && dialect_is_ok(rq, receipt)) {
        text = dialect_names(receipt, &len);
        reply_json(rq, MHD_HTTP_OK, json_stringn(text, len));
    }
    json_decref(receipt);
}

/* ---- clear ---- */

/* A session with a label is deleted as a whole, in its turn; the next call creates another. A
 * session that is named by its id was created by a client, and only loses its variables. */
void codesession_clear(struct request *rq)
{
    bool by_id = dialect_is_named(rq) && label_is_id(rq->headers.session_id);
    char *code = by_id ? dialect_call("clear", NULL, NULL) : strdup("");
    struct execution_request request;
    json_t *receipt = NULL;

    if (!code) {
        reply_no_memory(rq);
        return;
    }
    dialect_request(code, &request);
    request.accept_loss = true;
    if (dialect_run(rq, &request, false, LOSS_KEEP, &receipt) == 0 &&
        (!by_id || dialect_is_ok(rq, receipt))) {
        dialect_forget(rq, !by_id);
        reply_json(rq, MHD_HTTP_OK, json_pack("{s:s}", "message", "State has been cleared"));
    }
    json_decref(receipt);
    free(code);
}
