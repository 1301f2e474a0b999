/*
 * What the code-session API and the locals API share: sessions by label, cells that return their
 * variables, and errors in the two forms that their clients read.
 */
#pragma once

#include "server/compat/labels.h"
#include "server/server_internal.h"

/* Which call is told that the session has lost its variables. */
enum dialect_loss {
    LOSS_TELL, /* this one, instead of a result */
    LOSS_KEEP, /* the next one: this call does not use earlier variables */
};

/* Finds the session that the header names, or creates it if @make; otherwise it may be NULL. On
 * failure the request is refused, but the reply is not sent. */
int dialect_session(struct request *rq, bool make, struct session **ret_session);

/* Removes the label; with @end also deletes the session that was used last. */
void dialect_forget(struct request *rq, bool end);

/* Whether the request has the header X-Session-Id. */
bool dialect_is_named(const struct request *rq);

/* Runs @request in @session and returns the receipt. On failure the reply has been sent. */
int dialect_run_in(struct request *rq, struct session *session, struct execution_request *request,
                   enum dialect_loss loss, json_t **ret_receipt);

/* The same in the session that the header names. Without @make and without a session *@ret_receipt
 * is NULL. */
int dialect_run(struct request *rq, struct execution_request *request, bool make,
                enum dialect_loss loss, json_t **ret_receipt);

/* The same in a fresh box. */
int dialect_run_fresh(struct request *rq, struct execution_request *request, json_t **ret_receipt);

/* Whether the receipt says ok; if not, the reply with the reason has been sent. */
bool dialect_is_ok(struct request *rq, json_t *receipt);

/* Whether the cell returned names. */
bool dialect_has_names(json_t *receipt);

/* The JSON text of the names that the cell returned; "{}" without any. It lives as long as
 * @receipt. */
const char *dialect_names(json_t *receipt, size_t *ret_len);

/* 400, in the form that the route's clients read. */
void dialect_reply_error(struct request *rq, const char *type, const char *detail,
                         const char *traceback);

/* The members that the locals API has instead of "detail"; also for problems (http/reply.c). */
void dialect_add_error(json_t *json, const char *type, const char *detail, const char *traceback);

/* A cell of our own: a call in the runner's names.py with one or two strings. Free with free(). */
char *dialect_call(const char *function, const char *first, const char *second);

/* A request for code from a client. */
void dialect_request(const char *code, struct execution_request *ret_request);

struct body_execute_code; /* compat/schemas.h */

/* Handlers of POST /execute_code/ in either dialect, once it has been determined. */
void codesession_execute(struct request *rq, const struct body_execute_code *body);
void locals_execute(struct request *rq, const struct body_execute_code *body);
