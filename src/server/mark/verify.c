/* Mark over HTTP: verified answers. */
#include "mark/verify/verify.h"

#include "mark/mark.h"
#include "server/mark/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define VERIFIED_DEFAULT 50

static struct verify *verify_part(struct request *rq)
{
    return mark_verify(rq->server->config.mark);
}

void mark_verify_add(struct request *rq)
{
    struct body_verify body = { 0 };
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_json(rq, &body) < 0)
        return;
    r = verify_add(verify_part(rq), &rq->caller, request_param(rq, "id"), body.note, body.shared,
                   &json, &fault);
    reply_either(rq, r, MHD_HTTP_CREATED, json, &fault);
}

void mark_verify_remove(struct request *rq)
{
    struct fault fault = { 0 };

    if (request_query(rq, NULL) < 0)
        return;
    if (verify_remove(verify_part(rq), &rq->caller, request_param(rq, "id"), &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
}

void mark_verified_list(struct request *rq)
{
    struct query_verified query;
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, &query) < 0)
        return;
    r = verify_list(verify_part(rq), &rq->caller, query.after,
                    query.limit == FIELD_ABSENT ? VERIFIED_DEFAULT : query.limit, &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void mark_verified_check(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r = verify_check(verify_part(rq), &rq->caller, request_param(rq, "id"), &json, &fault);

    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}
