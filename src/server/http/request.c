/* What handlers need from a request. */
#include <stdio.h>
#include <string.h>

#include "base/text/json_depth.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define JSON_DEPTH_MAX 64

int request_socket(const struct request *rq)
{
    return rq->conn->fd;
}

void request_origin(const struct request *rq, char *buf, size_t size)
{
    const char *proto = MHD_lookup_connection_value(rq->mhd, MHD_HEADER_KIND, "X-Forwarded-Proto");
    bool tls = proto && strcmp(proto, "https") == 0; /* sent by a proxy; trusted for links only */

    /* authenticate_host() has checked that the name is one of ours. */
    snprintf(buf, size, "%s://%s", tls ? "https" : "http",
             rq->listener->spec.is_unix || !rq->headers.host ? "localhost" : rq->headers.host);
}

void request_note(struct request *rq, const char *session_id, const char *execution_id)
{
    if (session_id)
        snprintf(rq->session_id, sizeof rq->session_id, "%s", session_id);
    if (execution_id)
        snprintf(rq->execution_id, sizeof rq->execution_id, "%s", execution_id);
}

const char *request_param(const struct request *rq, const char *name)
{
    return route_match_param(&rq->match, name);
}

int request_query(struct request *rq, void *ret)
{
    json_t *errors = json_array();

    if (fields_read_query(rq->route->query, rq->url.params, rq->url.params_len, ret, errors) < 0) {
        reply_invalid(rq, errors);
        return -1;
    }
    json_decref(errors);
    return 0;
}

/* Whether a string with a NUL is in it. Names with one are refused by the parser. */
static bool has_null(const json_t *value)
{
    const char *key;
    json_t *item;
    size_t i;

    if (json_is_string(value))
        return strlen(json_string_value(value)) < json_string_length(value);
    json_object_foreach ((json_t *) value, key, item)
        if (has_null(item))
            return true;
    json_array_foreach ((json_t *) value, i, item)
        if (has_null(item))
            return true;
    return false;
}

/* \u0000 is valid JSON, but nothing here can have a NUL in it: code is refused with Python's words.
 */
static void refuse_null(struct request *rq)
{
    json_t *json = json_loadb(rq->body, rq->body_len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    json_t *errors = json_array(), *value;
    const char *key;

    json_object_foreach (json, key, value)
        if (has_null(value))
            fields_add_error(errors, "body", key, "null_character",
                             strcmp(key, "code") == 0
                                 ? "source code string cannot contain null bytes"
                                 : "cannot contain null characters");
    json_decref(json);
    if (json_array_size(errors) > 0) {
        reply_invalid(rq, errors);
        return;
    }
    json_decref(errors);
    reply_problem(rq, PROBLEM_INVALID_REQUEST, "the body cannot contain null characters");
}

static int parse_body(struct request *rq)
{
    json_error_t error;

    if (json_too_deep(rq->body, rq->body_len, JSON_DEPTH_MAX)) {
        reply_problem(rq, PROBLEM_JSON_TOO_DEEP, "the body is nested deeper than %d levels",
                      JSON_DEPTH_MAX);
        return -1;
    }
    rq->json = json_loadb(rq->body, rq->body_len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!rq->json && json_error_code(&error) == json_error_null_character) {
        refuse_null(rq);
        return -1;
    }
    if (!rq->json) {
        reply_problem(rq, PROBLEM_BAD_JSON,
                      "the body is not JSON: %s (line %d, "
                      "column %d)",
                      error.text, error.line, error.column);
        return -1;
    }
    return 0;
}

int request_json(struct request *rq, void *ret)
{
    bool strict = !(rq->route->flags & ROUTE_LENIENT);
    json_t *errors;

    if (rq->body_len == 0)
        rq->json = json_object();
    else if (parse_body(rq) < 0)
        return -1;
    errors = json_array();
    if (fields_read_body(rq->route->request, rq->json, strict, ret, errors) < 0) {
        reply_invalid(rq, errors);
        return -1;
    }
    json_decref(errors);
    return 0;
}

int request_session(struct request *rq, struct session **ret_session)
{
    return request_session_named(rq, request_param(rq, "id"), ret_session);
}

int request_session_named(struct request *rq, const char *id, struct session **ret_session)
{
    struct fault fault = { 0 };

    if (session_find(rq->server->config.service, &rq->caller, id, ret_session, &fault) < 0) {
        reply_fault(rq, &fault);
        return -1;
    }
    request_note(rq, session_id(*ret_session), NULL);
    return 0;
}
