/*
 * The locals API: code with variables in and out.
 *
 * Every call gets a fresh box unless X-Session-Id names a session. The result is passed on as the
 * text that the box wrote, once it is known to be an object: integers in Python have any size, and
 * no parser of ours may round them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/compat/dialect.h"
#include "server/compat/json_text.h"
#include "server/compat/schemas.h"
#include "server/handlers.h"
#include "server/server_internal.h"

#include "base/banned.h"

/* ---- code ---- */

static void reply_result(struct request *rq, const char *text, size_t len)
{
    static const char head[] = "{\"result\":", tail[] = ",\"success\":true}";
    size_t size = sizeof head + len + sizeof tail, used = sizeof head - 1;
    char *body;

    if (!json_text_is_object(text, len)) {
        dialect_reply_error(rq, "ValueError", "the result of the code is not JSON", "");
        return;
    }
    body = malloc(size);
    if (!body) {
        reply_no_memory(rq);
        return;
    }
    memcpy(body, head, used);
    memcpy(body + used, text, len);
    used += len;
    memcpy(body + used, tail, sizeof tail);
    reply_text(rq, MHD_HTTP_OK, "application/json", body, used + sizeof tail - 1);
    free(body);
}

/* {"get": "json", "set": local_dict}; NULL: out of memory. */
static char *make_names(const json_t *local_dict)
{
    json_t *names = json_pack("{s:s,s:O*}", "get", "json", "set", local_dict);
    char *text = json_dumps(names, JSON_COMPACT);

    json_decref(names);
    return text;
}

void locals_execute(struct request *rq, const struct body_execute_code *body)
{
    struct execution_request request;
    json_t *receipt = NULL;
    char *names = make_names(body->local_dict);
    const char *text;
    size_t len;
    int r;

    if (!names) {
        reply_no_memory(rq);
        return;
    }
    dialect_request(body->code, &request);
    request.names = names;
    request.names_len = strlen(names);
    r = dialect_is_named(rq) ? dialect_run(rq, &request, true, LOSS_TELL, &receipt)
                             : dialect_run_fresh(rq, &request, &receipt);
    if (r == 0 && dialect_is_ok(rq, receipt)) {
        text = dialect_names(receipt, &len);
        reply_result(rq, text, len);
    }
    json_decref(receipt);
    free(names);
}

/* ---- files ---- */

static int new_session(struct request *rq, struct session **ret_session)
{
    struct session_request request;
    struct fault fault = { 0 };

    session_request_init(&request);
    if (session_create(rq->server->config.service, &rq->caller, &request, ret_session, &fault) < 0)
        return refuse_fault(rq, &fault);
    request_note(rq, session_id(*ret_session), NULL);
    return 0;
}

/* Calls without X-Session-Id share nothing, so a file without one gets a new session that the
 * client can name from then on. */
int locals_upload_begin(struct request *rq)
{
    struct session *session;
    int r = dialect_is_named(rq) ? dialect_session(rq, true, &session) : new_session(rq, &session);

    return r < 0 ? r : upload_form_begin(rq, session, NULL);
}

void locals_upload(struct request *rq)
{
    struct uploaded file;

    if (upload_form_end(rq, &file) == 0)
        reply_json(rq, MHD_HTTP_OK,
                   json_pack("{s:s++,s:s,s:I,s:s}", "message", "File ", file.path,
                             " has been uploaded", "path", file.path, "size",
                             (json_int_t) file.bytes, "session_id", session_id(file.session)));
}

/* ---- results ---- */

static void reply_execution(struct request *rq, struct execution *execution)
{
    struct fault fault = { 0 };
    json_t *receipt, *result;
    const char *text;
    size_t len;

    if (execution_receipt(execution, &receipt, &fault) < 0) {
        reply_fault(rq, &fault);
        return;
    }
    result = json_object_get(receipt, "result");
    if (dialect_is_ok(rq, receipt)) {
        text = dialect_names(receipt, &len);
        if (dialect_has_names(receipt))
            reply_result(rq, text, len);
        else
            reply_json(rq, MHD_HTTP_OK, json_pack("{s:O?,s:b}", "result", result, "success", 1));
    }
    json_decref(receipt);
}

void locals_download(struct request *rq)
{
    struct execution *execution;
    struct fault fault = { 0 };

    if (execution_find(rq->server->config.service, &rq->caller, request_param(rq, "id"), &execution,
                       &fault) < 0) {
        reply_fault(rq, &fault);
        return;
    }
    request_note(rq, execution_session_id(execution), execution_id(execution));
    if (!execution_wait(execution, 0))
        reply_problem(rq, PROBLEM_NOT_ENDED, "the code has not ended yet; ask again");
    else
        reply_execution(rq, execution);
    execution_unref(execution);
}
