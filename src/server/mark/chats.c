/* Mark over HTTP: chats, messages, ratings. */
#include "mark/chat/chats.h"

#include "mark/mark.h"
#include "server/mark/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

#define CHATS_DEFAULT    50
#define MESSAGES_DEFAULT 50

static struct store *store_of(struct request *rq)
{
    return mark_store(rq->server->config.mark);
}

void mark_chat_create(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = chat_create(store_of(rq), &rq->caller, &json, &fault);
    reply_either(rq, r, MHD_HTTP_CREATED, json, &fault);
}

void mark_chat_list(struct request *rq)
{
    struct fault fault = { 0 };
    struct query_chats query;
    json_t *json = NULL;
    int r;

    if (request_query(rq, &query) < 0)
        return;
    r = chat_list(store_of(rq), &rq->caller, query.q, query.after,
                  query.limit == FIELD_ABSENT ? CHATS_DEFAULT : query.limit, &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void mark_chat_get(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = chat_get(store_of(rq), &rq->caller, request_param(rq, "id"), &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void mark_chat_change(struct request *rq)
{
    struct body_chat_change body = { 0 };
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_json(rq, &body) < 0)
        return;
    r = chat_rename(store_of(rq), &rq->caller, request_param(rq, "id"), body.title, &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void mark_chat_delete(struct request *rq)
{
    const char *id = request_param(rq, "id");
    struct fault fault = { 0 };

    if (request_query(rq, NULL) < 0)
        return;
    if (mark_forget_chat(rq->server->config.mark, &rq->caller, id, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
}

void mark_chat_messages(struct request *rq)
{
    struct query_messages query;
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, &query) < 0)
        return;
    r = chat_messages(store_of(rq), &rq->caller, request_param(rq, "id"),
                      query.after == FIELD_ABSENT ? 0 : query.after,
                      query.limit == FIELD_ABSENT ? MESSAGES_DEFAULT : query.limit, &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void mark_feedback(struct request *rq)
{
    struct body_feedback body = { 0 };
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_json(rq, &body) < 0)
        return;
    r = chat_feedback(store_of(rq), &rq->caller, request_param(rq, "id"), body.rating == RATING_UP,
                      body.reasons, body.text, &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}
