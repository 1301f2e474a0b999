/*
 * Cells for clients that work with variables.
 *
 * A call finds its session by the label, runs a cell there and takes the names out of the receipt.
 * A session that is gone is created again. A client that works on its variables must learn of that,
 * once: the first such call gets an error instead of a result. Calls that do not use variables
 * leave the message to those that do (labels.c).
 */
#include "server/compat/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "server/compat/schemas.h"
#include "server/handlers.h"

#include "base/banned.h"

#define NAMES_MIME "application/vnd.glovebox.names+json"
#define TRIES      3 /* a session may end after it was found and before it is used */

/* ---- sessions ---- */

bool dialect_is_named(const struct request *rq)
{
    return rq->headers.session_id != NULL;
}

static struct label_scope scope_of(const struct request *rq)
{
    return (struct label_scope){
        .service = rq->server->config.service,
        .caller = &rq->caller,
        .listener = rq->listener,
        .label = rq->headers.session_id ? rq->headers.session_id : "",
    };
}

static int check_label(struct request *rq)
{
    const char *label = rq->headers.session_id;

    if (!label || label_is_valid(label))
        return 0;
    return refuse(rq, PROBLEM_BAD_LABEL,
                  "X-Session-Id is 1 to %d of A-Z a-z 0-9 . _ -, or the id of a session",
                  LABEL_MAX);
}

int dialect_session(struct request *rq, bool make, struct session **ret_session)
{
    struct label_scope scope = scope_of(rq);
    struct fault fault = { 0 };
    bool made;

    if (check_label(rq) < 0)
        return -1;
    if (labels_session(rq->server->labels, &scope, make, ret_session, &made, &fault) < 0)
        return refuse_fault(rq, &fault);
    if (*ret_session)
        request_note(rq, session_id(*ret_session), NULL);
    if (made && !scope.label[0])
        log_event(LOG_LEVEL_WARNING, "shared-session", LOG_TEXT("listener", rq->listener->url),
                  LOG_TEXT("session", session_id(*ret_session)),
                  LOG_TEXT("detail", "all clients that send no X-Session-Id share its variables"));
    return 0;
}

/* Reports a loss that no client has been told of yet; true: the reply has been sent. */
static bool tell_loss(struct request *rq)
{
    struct label_scope scope = scope_of(rq);
    char words[LABEL_LOSS_MAX];

    if (!labels_take_loss(rq->server->labels, &scope, words))
        return false;
    dialect_reply_error(rq, "SessionLost", words, "");
    return true;
}

void dialect_forget(struct request *rq, bool end)
{
    struct label_scope scope = scope_of(rq);
    struct session *session = NULL;
    struct fault ignored = { 0 };

    /* The label first: a call that comes in between creates a new session instead of failing. */
    labels_forget(rq->server->labels, &scope);
    if (end && rq->session_id[0] &&
        session_find(scope.service, scope.caller, rq->session_id, &session, &ignored) == 0)
        (void) session_delete(session, &ignored);
    session_unref(session);
}

/* ---- running ---- */

void dialect_request(const char *code, struct execution_request *ret_request)
{
    execution_request_init(ret_request);
    ret_request->kind = EXECUTION_CELL;
    ret_request->code = code;
    ret_request->code_len = strlen(code);
}

static int run(struct request *rq, struct session *session, struct execution_request *request,
               json_t **ret_receipt, struct fault *fault)
{
    struct execution *execution = NULL;
    int r;

    *fault = (struct fault){ 0 };
    r = execution_run_here(rq->server->config.service, &rq->caller, session, request, &execution,
                           fault);
    if (r == 0) {
        request_note(rq, execution_session_id(execution), execution_id(execution));
        r = execution_receipt(execution, ret_receipt, fault);
    }
    execution_unref(execution);
    return r;
}

static bool is_lost(const struct fault *fault)
{
    return fault->problem == PROBLEM_SESSION_LOST;
}

/* The service reports a loss once and then continues, so the second attempt runs. */
static int run_and_note(struct request *rq, struct session *session,
                        struct execution_request *request, enum dialect_loss loss,
                        json_t **ret_receipt, struct fault *fault)
{
    struct label_scope scope = scope_of(rq);
    int r = run(rq, session, request, ret_receipt, fault);

    if (r < 0 && is_lost(fault) && loss == LOSS_KEEP) {
        labels_note_loss(rq->server->labels, &scope, fault->detail);
        r = run(rq, session, request, ret_receipt, fault);
    }
    return r;
}

static void reply_failure(struct request *rq, const struct fault *fault)
{
    if (is_lost(fault))
        dialect_reply_error(rq, "SessionLost", fault->detail, "");
    else
        reply_fault(rq, fault);
}

int dialect_run_in(struct request *rq, struct session *session, struct execution_request *request,
                   enum dialect_loss loss, json_t **ret_receipt)
{
    struct fault fault = { 0 };
    int r = run_and_note(rq, session, request, loss, ret_receipt, &fault);

    if (r < 0)
        reply_failure(rq, &fault);
    return r;
}

int dialect_run_fresh(struct request *rq, struct execution_request *request, json_t **ret_receipt)
{
    return dialect_run_in(rq, NULL, request, LOSS_TELL, ret_receipt);
}

int dialect_run(struct request *rq, struct execution_request *request, bool make,
                enum dialect_loss loss, json_t **ret_receipt)
{
    struct fault fault = { 0 };
    int r = -1;

    for (int i = 0; i < TRIES; i++) {
        struct session *session = NULL;

        if (dialect_session(rq, make, &session) < 0) {
            reply_refusal(rq);
            return -1;
        }
        if (loss == LOSS_TELL && tell_loss(rq)) {
            session_unref(session);
            return -1;
        }
        if (!session) {
            *ret_receipt = NULL;
            return 0;
        }
        r = run_and_note(rq, session, request, loss, ret_receipt, &fault);
        session_unref(session);
        if (r == 0 || fault.kind != FAULT_NOT_FOUND)
            break;
    }
    if (r < 0)
        reply_failure(rq, &fault);
    return r;
}

char *dialect_call(const char *function, const char *first, const char *second)
{
    char *code = NULL, *args = NULL;
    json_t *list = json_array();

    if (first)
        (void) json_array_append_new(list, json_string(first));
    if (second)
        (void) json_array_append_new(list, json_string(second));
    /* A list of JSON strings is also a list in Python. */
    args = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    if (!args ||
        asprintf(&code,
                 "__import__(\"sys\").modules[\"glovebox_runner.tenant\"].load_names().%s(*%s)",
                 function, args) < 0)
        code = NULL;
    free(args);
    return code;
}

/* ---- the result ---- */

static json_t *find_names(json_t *receipt)
{
    return json_object_get(json_object_get(receipt, "result"), NAMES_MIME);
}

bool dialect_has_names(json_t *receipt)
{
    return json_is_string(find_names(receipt));
}

const char *dialect_names(json_t *receipt, size_t *ret_len)
{
    json_t *text = find_names(receipt);

    *ret_len = json_is_string(text) ? json_string_length(text) : 2;
    return json_is_string(text) ? json_string_value(text) : "{}";
}

void dialect_add_error(json_t *json, const char *type, const char *detail, const char *traceback)
{
    (void) json_object_set_new(json, "error", json_string(detail));
    (void) json_object_set_new(json, "error_type", json_string(type));
    (void) json_object_set_new(json, "traceback", json_string(traceback));
    (void) json_object_set_new(json, "success", json_false());
}

void dialect_reply_error(struct request *rq, const char *type, const char *detail,
                         const char *traceback)
{
    json_t *json = json_pack("{s:s}", "detail", detail);

    if (rq->route->flags & ROUTE_TWO_SHAPES)
        dialect_add_error(json, type, detail, traceback);
    reply_json(rq, MHD_HTTP_BAD_REQUEST, json);
}

/* What a status means to a Python program; the words are for those that left no exception. */
static const struct {
    const char *status, *type, *words;
    bool ours; /* the exception, if there is one, only shows how we stopped it */
} failures[] = {
#define STATUS(name, word, exit_code, meaning, exception, apology, stopped, hint)                  \
    { word, exception, apology, stopped },
#include "base/words/status.def"
};

static const char *text_of(json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

/* Strings of a receipt are UTF-8 and have no NUL that would matter here. */
static void reply_failed(struct request *rq, json_t *receipt, size_t i)
{
    json_t *error = json_object_get(receipt, "error");
    int exit_code = (int) json_integer_value(json_object_get(receipt, "exit_code"));
    bool lost = json_is_true(json_object_get(receipt, "session_lost"));
    const char *type = failures[i].type, *words = text_of(error, "value");
    char own[160], *detail = NULL;

    if (failures[i].ours || !json_is_object(error)) {
        (void) snprintf(own, sizeof own, "%s (exit status %d)", failures[i].words, exit_code);
        words = own;
    } else {
        type = text_of(error, "name");
        words = *words ? words : type; /* assert False has no message */
    }
    if (lost && asprintf(&detail, "%s. The variables of the session are lost", words) < 0)
        detail = NULL;
    dialect_reply_error(rq, type, detail ? detail : words, text_of(error, "traceback"));
    free(detail);
}

bool dialect_is_ok(struct request *rq, json_t *receipt)
{
    const char *status = text_of(receipt, "status");

    if (strcmp(status, "ok") == 0)
        return true;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (failures[i].type && strcmp(status, failures[i].status) == 0) {
            reply_failed(rq, receipt, i);
            return false;
        }
    reply_problem(rq, PROBLEM_INTERNAL, "the code could not be run");
    return false;
}

/* ---- POST /execute_code, which both APIs have ---- */

/* Of the two APIs with this path, the locals API is the one that sends a local_dict. */
void dialect_execute_code(struct request *rq)
{
    const char *only = rq->listener->spec.dialect;
    struct body_execute_code body = { 0 };
    bool locals;

    if (request_json(rq, &body) < 0)
        return;
    locals = strcmp(only, "locals") == 0 ||
             (strcmp(only, "code-session") != 0 && json_object_get(rq->json, "local_dict"));
    if (!body.code || (locals && !*body.code))
        dialect_reply_error(rq, "ValueError", "No code provided in request body", "");
    else if (locals)
        locals_execute(rq, &body);
    else
        codesession_execute(rq, &body);
}
