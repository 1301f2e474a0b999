/* Native API: executions, one-shot and in a session, and reading them later. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text/utf8.h"
#include "server/handlers.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"
#include "server/v1/stream.h"

#include "base/banned.h"

#define PAGE_BYTES 65536

/* ---- environment ---- */

/* The service checks the pairs; an = in a name would shift the boundary between the two. */
static bool names_are_plain(const json_t *map)
{
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *) map, name, value)
        if (!*name || strchr(name, '='))
            return false;
    return true;
}

int body_env_read(struct request *rq, const json_t *map, char ***ret_env)
{
    json_t *value, *errors;
    const char *name;
    size_t i = 0;
    char **env;

    if (!names_are_plain(map)) {
        errors = json_array();
        fields_add_error(errors, "body", "env", "bad_name", "a name is empty or holds an =");
        reply_invalid(rq, errors);
        return -1;
    }
    env = calloc(json_object_size(map) + 1, sizeof *env);
    if (env)
        json_object_foreach ((json_t *) map, name, value) {
            if (asprintf(&env[i], "%s=%s", name, json_string_value(value)) < 0) {
                env[i] = NULL;
                break;
            }
            i++;
        }
    if (!env || i < json_object_size(map)) {
        strv_free(env);
        reply_no_memory(rq);
        return -1;
    }
    *ret_env = env;
    return 0;
}

/* ---- running ---- */

void reply_receipt(struct request *rq, struct execution *execution)
{
    struct fault fault = { 0 };
    json_t *receipt;
    size_t len;
    char *text;

    request_note(rq, execution_session_id(execution), execution_id(execution));
    if (execution_receipt_text(execution, &text, &len))
        reply_json_text(rq, MHD_HTTP_OK, text, len);
    else if (execution_receipt(execution, &receipt, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, receipt);
}

static void reply_detached(struct request *rq, struct execution *execution)
{
    struct fault fault = { 0 };
    char location[96];
    json_t *progress;

    request_note(rq, execution_session_id(execution), execution_id(execution));
    snprintf(location, sizeof location, "/v1/executions/%s", execution_id(execution));
    if (execution_receipt(execution, &progress, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json_at(rq, MHD_HTTP_ACCEPTED, progress, location);
}

void run_request(struct request *rq, struct session *session, struct execution_request *request,
                 const struct run_options *options)
{
    struct service *service = rq->server->config.service;
    bool stream = options->media != MEDIA_JSON;
    struct execution *execution = NULL;
    struct fault fault = { 0 };
    int r;

    request->hangup_fd = options->cancel && !stream ? request_socket(rq) : -1;
    r = stream || options->detach
            ? execution_start(service, &rq->caller, session, request, &execution, &fault)
            : execution_run_here(service, &rq->caller, session, request, &execution, &fault);
    if (r < 0) {
        reply_fault(rq, &fault);
    } else if (stream) {
        stream_events(rq, options->media, TAKE_PTR(execution), &(struct event_cursor){ 0 },
                      options->cancel);
    } else if (options->detach) {
        reply_detached(rq, execution);
    } else {
        reply_receipt(rq, execution);
    }
    execution_unref(execution);
}

/* Fills @request from @body except for its environment; on failure the reply has been sent. */
static int fill_request(struct request *rq, const struct body_execute *body,
                        struct execution_request *request)
{
    struct fault fault = { 0 };

    if (body->network) /* it may contain secrets, and has been parsed */
        explicit_bzero(rq->body, rq->body_len);
    if (body->limits && limits_wish_from_json(body->limits, &request->limits, &fault) < 0) {
        reply_fault(rq, &fault);
        return -1;
    }
    if (body->timeout_us != FIELD_ABSENT) {
        if (request->limits.wall_us != -1) {
            reply_problem(rq, PROBLEM_INVALID_REQUEST,
                          "timeout and limits.timeout are the same; send one of them");
            return -1;
        }
        request->limits.wall_us = body->timeout_us;
    }
    request->code = body->code;
    request->code_len = strlen(body->code);
    request->filename = body->filename;
    request->input = body->stdin_text;
    request->input_len = body->stdin_text ? strlen(body->stdin_text) : 0;
    if (body->reply_bytes != FIELD_ABSENT)
        request->reply_bytes = body->reply_bytes;
    request->accept_loss = body->accept_loss;
    request->template = body->template;
    request->network = (json_t *) body->network; /* the body belongs to us, so it can be wiped */
    return 0;
}

static void execute(struct request *rq, struct session *session, const struct body_execute *body,
                    enum execution_kind kind)
{
    struct run_options options = { negotiate_media(rq->headers.accept), body->detach,
                                   body->cancel };
    struct execution_request request;
    char **env = NULL;

    execution_request_init(&request);
    request.kind = kind;
    if (fill_request(rq, body, &request) < 0)
        return;
    if (body->env && body_env_read(rq, body->env, &env) < 0)
        return;
    request.env = (const char *const *) env;
    run_request(rq, session, &request, &options);
    strv_free(env);
}

void v1_execute(struct request *rq)
{
    struct body_execute body = { 0 };

    if (request_json(rq, &body) == 0)
        execute(rq, NULL, &body, body.mode == MODE_SCRIPT ? EXECUTION_SCRIPT : EXECUTION_CELL);
}

void v1_session_execute(struct request *rq)
{
    struct body_execute body = { 0 };
    struct session *session;

    if (request_json(rq, &body) < 0 || request_session(rq, &session) < 0)
        return;
    execute(rq, session, &body, EXECUTION_CELL);
    session_unref(session);
}

void v1_session_command(struct request *rq)
{
    struct body_execute body = { 0 };
    struct session *session;

    if (request_json(rq, &body) < 0 || request_session(rq, &session) < 0)
        return;
    execute(rq, session, &body, body.shell ? EXECUTION_SHELL : EXECUTION_COMMAND);
    session_unref(session);
}

void v1_session_interrupt(struct request *rq)
{
    struct query_interrupt query;
    struct fault fault = { 0 };
    struct session *session;
    size_t count;

    if (request_query(rq, &query) < 0 || request_session(rq, &session) < 0)
        return;
    if (session_interrupt(session, query.all, &count, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json_pack("{s:I}", "interrupted", (json_int_t) count));
    session_unref(session);
}

/* ---- reading them later ---- */

static int find_execution(struct request *rq, struct execution **ret_execution)
{
    struct fault fault = { 0 };

    if (execution_find(rq->server->config.service, &rq->caller, request_param(rq, "id"),
                       ret_execution, &fault) < 0) {
        reply_fault(rq, &fault);
        return -1;
    }
    request_note(rq, execution_session_id(*ret_execution), execution_id(*ret_execution));
    return 0;
}

void v1_execution_get(struct request *rq)
{
    struct execution *execution;
    struct query_wait query;

    if (request_query(rq, &query) < 0 || find_execution(rq, &execution) < 0)
        return;
    if (query.wait_us != FIELD_ABSENT && query.wait_us > 0)
        (void) execution_wait(execution, query.wait_us);
    reply_receipt(rq, execution);
    execution_unref(execution);
}

/* A page as JSON text: a character that is cut at the end is left for the next page. */
static json_t *page_to_json(const struct query_output *query, const char *data, size_t len,
                            int64_t total, int64_t kept, bool done)
{
    size_t partial = utf8_partial_end(data, len), used;
    char *text = malloc(3 * len + 1);
    json_t *json;

    if (!text)
        return NULL;
    if (partial < len && !(done && query->offset + (int64_t) len >= kept))
        len -= partial;
    len = utf8_replace(data, len, text, 3 * len, &used);
    json =
        json_pack("{s:s,s:s%,s:I,s:I,s:I,s:I,s:b}", "stream", query->stream ? "stderr" : "stdout",
                  "text", text, len, "offset", (json_int_t) query->offset, "next",
                  (json_int_t) query->offset + (json_int_t) used, "total", (json_int_t) total,
                  "kept", (json_int_t) kept, "done", done);
    free(text);
    return json;
}

void v1_execution_output(struct request *rq)
{
    struct execution *execution = NULL;
    struct fault fault = { 0 };
    struct query_output query;
    int64_t total, kept;
    char *data;
    size_t len;
    bool done;

    if (request_query(rq, &query) < 0 || find_execution(rq, &execution) < 0)
        return;
    query.stream = query.stream < 0 ? 0 : query.stream;
    query.offset = query.offset == FIELD_ABSENT ? 0 : query.offset;
    query.limit = query.limit == FIELD_ABSENT ? PAGE_BYTES : query.limit;
    query.limit = query.limit < 4 ? 4 : query.limit; /* room for one character */
    data = malloc((size_t) query.limit);
    if (!data)
        reply_no_memory(rq);
    else if (execution_read_output(execution, query.stream ? STREAM_ERR : STREAM_OUT, query.offset,
                                   data, (size_t) query.limit, &len, &total, &kept, &done,
                                   &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, page_to_json(&query, data, len, total, kept, done));
    free(data);
    execution_unref(execution);
}

/* "12-0-3": bytes of stdout and stderr, displays. Anything else is not one of our ids. */
static void read_event_id(const char *text, struct event_cursor *cursor)
{
    long long out, err, displays;
    int end = 0;

    if (text && sscanf(text, "%18lld-%18lld-%9lld%n", &out, &err, &displays, &end) == 3 &&
        text[end] == '\0' && out >= 0 && err >= 0 && displays >= 0) {
        cursor->out = out;
        cursor->err = err;
        cursor->displays = (size_t) displays;
    }
}

/* Where a client that comes back continues: as the query says, otherwise after the last event it
 * has seen. */
static int read_cursor(struct request *rq, struct event_cursor *ret_cursor)
{
    struct event_cursor cursor = { 0 };
    struct query_events query;

    if (request_query(rq, &query) < 0)
        return -1;
    read_event_id(rq->headers.last_event_id, &cursor);
    if (query.out != FIELD_ABSENT)
        cursor.out = query.out;
    if (query.err != FIELD_ABSENT)
        cursor.err = query.err;
    if (query.displays != FIELD_ABSENT)
        cursor.displays = (size_t) query.displays;
    *ret_cursor = cursor;
    return 0;
}

void v1_execution_events(struct request *rq)
{
    enum media media = negotiate_media(rq->headers.accept);
    struct event_cursor cursor;
    struct execution *execution;

    if (read_cursor(rq, &cursor) == 0 && find_execution(rq, &execution) == 0)
        stream_events(rq, media == MEDIA_JSON ? MEDIA_SSE : media, execution, &cursor, false);
}

void v1_execution_stream(struct request *rq)
{
    struct event_cursor cursor;
    struct execution *execution;

    if (read_cursor(rq, &cursor) == 0 && find_execution(rq, &execution) == 0)
        socket_events(rq, execution, &cursor);
}

void v1_execution_interrupt(struct request *rq)
{
    struct execution *execution;
    struct fault fault = { 0 };

    if (find_execution(rq, &execution) < 0)
        return;
    if (execution_interrupt(execution, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json_pack("{s:i}", "interrupted", 1));
    execution_unref(execution);
}
