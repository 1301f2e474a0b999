/* Native API: packages of a session, and of the caller's default set. */
#include <stdlib.h>

#include "server/handlers.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

const char **body_texts(const json_t *list)
{
    size_t len = json_array_size(list);
    const char **texts = calloc(len + 1, sizeof *texts);

    for (size_t i = 0; texts && i < len; i++)
        texts[i] = json_string_value(json_array_get(list, i));
    return texts;
}

/* All take @session, which may be NULL, and reply. */

static void list(struct request *rq, struct session *session)
{
    struct fault fault = { 0 };
    json_t *json = NULL;

    if (packages_list(rq->server->config.service, &rq->caller, session, &json, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
    session_unref(session);
}

static void install(struct request *rq, struct session *session)
{
    struct install_order order = { .cancel_fd = -1 };
    struct body_packages body = { 0 };
    struct fault fault = { 0 };
    autofree const char **wanted = NULL;
    json_t *json = NULL;

    if (request_json(rq, &body) < 0) {
        session_unref(session);
        return;
    }
    wanted = body_texts(body.packages);
    order.wanted = wanted;
    order.newest = body.newest;
    if (!wanted)
        reply_no_memory(rq);
    else if (packages_install(rq->server->config.service, &rq->caller, session, &order, &json,
                              &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
    session_unref(session);
}

static void uninstall(struct request *rq, struct session *session)
{
    const char *const names[] = { request_param(rq, "name"), NULL };
    const struct install_order order = { .wanted = names, .remove = true, .cancel_fd = -1 };
    struct fault fault = { 0 };
    json_t *json = NULL;

    if (packages_install(rq->server->config.service, &rq->caller, session, &order, &json, &fault) <
        0)
        reply_fault(rq, &fault);
    else
        reply_json(rq, MHD_HTTP_OK, json);
    session_unref(session);
}

void v1_session_packages(struct request *rq)
{
    struct session *session;

    if (request_session(rq, &session) == 0)
        list(rq, session);
}

void v1_session_packages_add(struct request *rq)
{
    struct session *session;

    if (request_session(rq, &session) == 0)
        install(rq, session);
}

void v1_session_packages_remove(struct request *rq)
{
    struct session *session;

    if (request_session(rq, &session) == 0)
        uninstall(rq, session);
}

void v1_packages_remove(struct request *rq)
{
    uninstall(rq, NULL);
}

void v1_packages(struct request *rq)
{
    list(rq, NULL);
}

void v1_packages_add(struct request *rq)
{
    install(rq, NULL);
}

void v1_packages_reset(struct request *rq)
{
    struct fault fault = { 0 };

    if (packages_reset(rq->server->config.service, &rq->caller, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
}
