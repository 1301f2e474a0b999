/*
 * What the code-session API and the locals API share: sessions by label, cells that give back their
 * names, and errors in the two forms that their clients read.
 */
#pragma once

#include "server/compat/labels.h"
#include "server/server_internal.h"

/* Who is told when the session has lost its variables. */
enum dialect_loss {
    LOSS_TELL, /* this caller, instead of an answer */
    LOSS_KEEP, /* the next one: this call does not work on variables of before */
};

/* Finds the session that the header names, or makes it if @make; else it may be NULL. On failure
 * the request is refused, but the reply is not sent. */
int dialect_session(struct request *rq, bool make, struct session **ret_session);

/* The label means nothing any more; with @end the session that was used last goes too. */
void dialect_forget(struct request *rq, bool end);

/* Whether the header X-Session-Id is there. */
bool dialect_is_named(const struct request *rq);

/* Runs @request in @session and gives the receipt. On failure the reply has been sent. */
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

/* Whether the cell gave back names. */
bool dialect_has_names(json_t *receipt);

/* The JSON text of the names that the cell gave back; "{}" without any. It lives with @receipt. */
const char *dialect_names(json_t *receipt, size_t *ret_len);

/* 400, in the form that the route's clients read. */
void dialect_reply_error(struct request *rq, const char *type, const char *detail,
                         const char *traceback);

/* The members that the locals API has in place of "detail"; also for problems (http/reply.c). */
void dialect_add_error(json_t *json, const char *type, const char *detail, const char *traceback);

/* A cell of our own: a call in the runner's names.py with one or two texts. Free with free(). */
char *dialect_call(const char *function, const char *first, const char *second);

/* A request for code that came from a client. */
void dialect_request(const char *code, struct execution_request *ret_request);

struct body_execute_code; /* compat/schemas.h */

/* Handlers of POST /execute_code/ in either dialect, once it is known which. */
void codesession_execute(struct request *rq, const struct body_execute_code *body);
void locals_execute(struct request *rq, const struct body_execute_code *body);
