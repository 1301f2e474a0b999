/* The simple API: one program, one receipt; one package, one answer. */
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
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

/* Whether @normal is what the first @len bytes of @package come to by PEP 503. */
static bool package_is(const char *normal, const char *package, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = package[i];
        bool sign = strchr("._-", c) != NULL;

        if (sign && i > 0 && strchr("._-", package[i - 1]))
            continue;
        if (*normal++ != (sign ? '-' : (c >= 'A' && c <= 'Z') ? (char) (c | 32) : c))
            return false;
    }
    return *normal == '\0';
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

/* The version that is there now of the package that was asked for. */
static const json_t *version_of(const json_t *result, const char *package)
{
    static const char *const lists[] = { "installed", "present" };
    size_t len = name_length(package), n;
    json_t *item;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        json_array_foreach(json_object_get(result, lists[i]), n, item)
        {
            const char *name = json_string_value(json_object_get(item, "name"));

            if (name && package_is(name, package, len))
                return json_object_get(item, "version");
        }
    return NULL;
}

static void reply_pip(struct request *rq, const struct body_pip *body, int64_t begun,
                      json_t *result, const struct fault *fault)
{
    double took = (double) (clock_now_us() - begun) / USEC_PER_SEC;

    if (result)
        reply_json(rq, MHD_HTTP_OK,
                   json_pack("{s:b,s:O,s:O?,s:f,s:O}", "success", 1, "message",
                             json_object_get(result, "message"), "installed_version",
                             version_of(result, body->package), "installation_time", took,
                             "warnings", json_object_get(result, "warnings")));
    else
        reply_json(rq, MHD_HTTP_OK,
                   json_pack("{s:b,s:s+++,s:n,s:f}", "success", 0, "message", "Could not install ",
                             body->package, ": ", fault->detail, "installed_version",
                             "installation_time", took));
    json_decref(result);
}

/* What is the client's to mend, or for now, is told as everywhere else. */
static bool is_refusal(const struct fault *fault)
{
    return fault->kind == FAULT_TOO_MANY || fault->kind == FAULT_NOT_FOUND ||
           fault->kind == FAULT_INTERNAL || strcmp(fault->type, "requirement-malformed") == 0 ||
           strcmp(fault->type, "draining") == 0;
}

void simple_pip_install(struct request *rq)
{
    char text[2 * NAME_BYTES_MAX + 4];
    const char *const wanted[] = { text, NULL };
    struct session *session = NULL;
    int64_t begun = clock_now_us();
    struct body_pip body = { 0 };
    struct fault fault = { 0 };
    json_t *result = NULL;

    if (request_json(rq, &body) < 0 || check_package(rq, &body) < 0)
        return;
    if (body.session_id) {
        rq->param_id = body.session_id;
        if (request_session(rq, &session) < 0)
            return;
    }
    snprintf(text, sizeof text, "%s%s%s", body.package,
             body.version && strcmp(body.version, "latest") != 0 ? "==" : "",
             body.version && strcmp(body.version, "latest") != 0 ? body.version : "");
    if (packages_install(rq->server->config.service, &rq->caller, session, wanted, true, &result,
                         &fault) < 0 &&
        is_refusal(&fault))
        reply_fault(rq, &fault);
    else
        reply_pip(rq, &body, begun, result, &fault);
    session_unref(session);
}
