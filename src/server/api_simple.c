/* The simple API: one program, one receipt; one package, one answer. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "server/api.h"
#include "server/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define LETTERS_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

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

    if (request_json(rq, &body) < 0 || check_timeout(rq, &body) < 0)
        return;
    if (body.session_id) {
        rq->param_id = body.session_id;
        if (request_session(rq, &session) < 0)
            return;
    }
    execution_request_init(&request);
    request.kind = EXECUTION_CELL;
    request.code = body.code;
    request.code_len = strlen(body.code);
    if (body.timeout_us != FIELD_ABSENT)
        request.limits.wall_us = body.timeout_us;
    run_request(rq, session, &request, &options);
    session_unref(session);
}

/* ---- packages ---- */

/* The length of a name of PEP 508 at the start of @text, or 0: letters, digits, and . _ - between.
 */
static size_t name_length(const char *text)
{
    size_t len = strspn(text, LETTERS_DIGITS "._-");

    if (len == 0 || strchr("._-", text[0]) || strchr("._-", text[len - 1]))
        return 0;
    return len;
}

/* A name, and perhaps [extras]. */
static bool is_package(const char *text)
{
    size_t len = name_length(text);

    if (len == 0 || text[len] == '\0')
        return len > 0;
    if (text[len] != '[')
        return false;
    do {
        text += len + 1;
        text += strspn(text, " ");
        len = name_length(text);
        if (len == 0)
            return false;
    } while (text[len] == ',');
    return strcmp(text + len, "]") == 0;
}

/* As PEP 440 has them, or nearly: 1.2.0rc1, 1!2.0+local.1, v3 */
static bool is_version(const char *text)
{
    size_t len = strspn(text, LETTERS_DIGITS ".!+_-");

    return text[len] == '\0' && len > 0 && !strchr(".!+_-", text[0]) &&
           !strchr(".!+_-", text[len - 1]) && strpbrk(text, "0123456789");
}

static int check_package(struct request *rq, const struct body_pip *body)
{
    json_t *errors = json_array();

    if (!is_package(body->package))
        fields_add_error(errors, "body", "package", "bad_name",
                         "is not the name of a package: letters, digits, and . _ - between; a "
                         "version goes into version");
    if (body->version && strcmp(body->version, "latest") != 0 && !is_version(body->version))
        fields_add_error(errors, "body", "version", "bad_version",
                         "is not a version, such as 2.31.0 or latest");
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

    if (request_json(rq, &body) < 0 || check_package(rq, &body) < 0)
        return;
    if (body.session_id) {
        rq->param_id = body.session_id;
        if (request_session(rq, &session) < 0)
            return;
    }
    session_unref(session);
    reply_json(rq, MHD_HTTP_OK,
               json_pack("{s:b,s:s++,s:n,s:f}", "success", 0, "message", "Could not install ",
                         body.package, ": packages cannot be added yet", "installed_version",
                         "installation_time", 0.0));
}
