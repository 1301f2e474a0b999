/* Native API: notebooks that people share. */
#include "server/handlers.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

void v1_share_create(struct request *rq)
{
    struct body_share body = { 0 };
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_json(rq, &body) < 0)
        return;
    r = share_create(rq->server->config.service, &rq->caller,
                     body.title && body.title[0] ? body.title : "Untitled notebook", body.notebook,
                     &json, &fault);
    reply_either(rq, r, MHD_HTTP_CREATED, json, &fault);
}

void v1_share_list(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r = share_list(rq->server->config.service, &rq->caller, &json, &fault);

    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void v1_share_get(struct request *rq)
{
    struct fault fault = { 0 };
    char *text;
    size_t len;

    if (share_read(rq->server->config.service, request_param(rq, "id"), &text, &len, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json_text(rq, MHD_HTTP_OK, text, len);
}

void v1_share_delete(struct request *rq)
{
    struct fault fault = { 0 };

    if (share_delete(rq->server->config.service, &rq->caller, request_param(rq, "id"), &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
}
