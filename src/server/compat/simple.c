/* The simple API: one program, one receipt; one package, one result. */
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/parse.h"
#include "base/text/strv.h"
#include "server/compat/schemas.h"
#include "server/handlers.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"
#include "service/package/requirement.h"

#include "base/banned.h"

static int check_timeout(struct request *rq, const struct body_execute *body)
{
    int64_t most = rq->server->config.simple_wall_max_us;
    char number[FORMAT_NUMBER_MAX], msg[80];
    json_t *errors;

    if (body->timeout_us == FIELD_ABSENT || body->timeout_us <= most)
        return 0;
    errors = json_array();
    format_fixed(most, USEC_PER_SEC, number);
    snprintf(msg, sizeof msg, "must be at most %s seconds", number);
    fields_add_error(errors, "body", "timeout", "out_of_range", msg);
    reply_invalid(rq, errors);
    return -1;
}

void simple_execute(struct request *rq)
{
    static const struct run_options options = { MEDIA_JSON, false, false };
    struct execution_request request;
    struct body_execute body = { 0 };
    struct session *session = NULL;
    char **env = NULL;

    if (request_json(rq, &body) < 0 || check_timeout(rq, &body) < 0)
        return;
    if (body.session_id && request_session_named(rq, body.session_id, &session) < 0)
        return;
    if (body.env && body_env_read(rq, body.env, &env) < 0) {
        session_unref(session);
        return;
    }
    execution_request_init(&request);
    request.kind = EXECUTION_CELL;
    request.code = body.code;
    request.code_len = strlen(body.code);
    request.input = body.stdin_text;
    request.input_len = body.stdin_text ? strlen(body.stdin_text) : 0;
    request.env = (const char *const *) env;
    if (body.timeout_us != FIELD_ABSENT)
        request.limits.wall_us = body.timeout_us;
    run_request(rq, session, &request, &options);
    session_unref(session);
    strv_free(env);
}

/* ---- packages ---- */

static int check_package(struct request *rq, const struct body_pip *body)
{
    json_t *errors = json_array();

    if (!package_name_valid(body->package))
        fields_add_error(errors, "body", "package", "bad_name", PACKAGE_NAME_RULE);
    if (!package_version_or_any_valid(body->version))
        fields_add_error(errors, "body", "version", "bad_version", PACKAGE_VERSION_RULE);
    if (json_array_size(errors) > 0) {
        reply_invalid(rq, errors);
        return -1;
    }
    json_decref(errors);
    return 0;
}

void simple_pip_install(struct request *rq)
{
    struct session *session = NULL;
    struct body_pip body = { 0 };
    struct fault fault = { 0 };
    json_t *json;

    if (request_json(rq, &body) < 0 || check_package(rq, &body) < 0)
        return;
    if (body.session_id && request_session_named(rq, body.session_id, &session) < 0)
        return;
    if (packages_install_named(rq->server->config.service, &rq->caller, session, body.package,
                               body.version, NULL, &json, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
    session_unref(session);
}
