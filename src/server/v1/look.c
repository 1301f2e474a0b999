/* Native API: questions about a session. */
#include <string.h>

#include "server/handlers.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

static void reply_look(struct request *rq, const struct look_request *request)
{
    struct fault fault = { 0 };
    struct session *session;
    json_t *json;

    if (request_session(rq, &session) < 0)
        return;
    if (session_look(session, request, &json, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
    session_unref(session);
}

static void look_at_code(struct request *rq, enum look_op op)
{
    struct look_request request = { .op = op, .cursor = -1 };
    struct body_look body = { 0 };

    if (request_json(rq, &body) < 0)
        return;
    request.code = body.code;
    request.code_len = strlen(body.code);
    if (body.cursor != FIELD_ABSENT)
        request.cursor = body.cursor;
    reply_look(rq, &request);
}

void v1_session_complete(struct request *rq)
{
    look_at_code(rq, LOOK_COMPLETE);
}

void v1_session_inspect(struct request *rq)
{
    look_at_code(rq, LOOK_INSPECT);
}

void v1_session_variables(struct request *rq)
{
    const struct look_request request = { .op = LOOK_VARIABLES, .cursor = -1 };

    reply_look(rq, &request);
}
