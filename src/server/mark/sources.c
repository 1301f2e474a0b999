/* Mark over HTTP: data sources. Bodies may have passwords: they are wiped once they were used. */
#include "mark/source/sources.h"

#include <string.h>

#include "base/autoclean.h"
#include "mark/mark.h"
#include "server/mark/schemas.h"
#include "server/server_internal.h"

#include "base/banned.h"

static struct sources *sources_of(struct request *rq)
{
    return mark_sources(rq->server->config.mark);
}

static void wipe(struct request *rq)
{
    if (rq->body)
        explicit_bzero(rq->body, rq->body_size);
}

/* Reads the catalogue, and shows the source as it is then: a sync that fails is told by
 * sync_error. */
static int sync_and_get(struct request *rq, json_t **json, struct fault *fault)
{
    const char *id = json_string_value(json_object_get(*json, "source_id"));
    json_t *synced = NULL, *after = NULL;
    int r;

    if (source_sync(sources_of(rq), &rq->caller, id, &synced, fault) < 0)
        *fault = (struct fault){ 0 };
    json_decref(synced);
    r = source_get(sources_of(rq), &rq->caller, id, &after, fault);
    json_decref(*json);
    *json = after;
    return r;
}

void mark_source_list(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = source_list(sources_of(rq), &rq->caller, &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void mark_source_add(struct request *rq)
{
    struct query_source_add query;
    struct body_source body;
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, &query) < 0 || request_json(rq, &body) < 0) {
        wipe(rq);
        return;
    }
    r = source_add(sources_of(rq), &rq->caller, rq->json, &json, &fault);
    wipe(rq);
    if (r == 0 && !query.no_sync)
        r = sync_and_get(rq, &json, &fault);
    reply_either(rq, r, MHD_HTTP_CREATED, json, &fault);
}

void mark_source_get(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = source_get(sources_of(rq), &rq->caller, request_param(rq, "id"), &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

/* Whether a change may be one of what there is to be read, or by whom. */
static bool changes_tables(const json_t *body)
{
    static const char *const names[] = { "url",     "password",    "access",    "role",
                                         "schemas", "samples",     "dataset",   "project",
                                         "ca",      "credentials", "directory", "location" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (json_object_get(body, names[i]))
            return true;
    return false;
}

void mark_source_change(struct request *rq)
{
    struct body_source body;
    struct fault fault = { 0 };
    json_t *json = NULL;
    bool again;
    int r;

    if (request_query(rq, NULL) < 0 || request_json(rq, &body) < 0) {
        wipe(rq);
        return;
    }
    again = changes_tables(rq->json);
    r = source_change(sources_of(rq), &rq->caller, request_param(rq, "id"), rq->json, &json,
                      &fault);
    wipe(rq);
    if (r == 0 && again)
        r = sync_and_get(rq, &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void mark_source_remove(struct request *rq)
{
    struct fault fault = { 0 };

    if (request_query(rq, NULL) < 0)
        return;
    if (source_remove(sources_of(rq), &rq->caller, request_param(rq, "id"), &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
}

void mark_source_sync(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = source_sync(sources_of(rq), &rq->caller, request_param(rq, "id"), &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void mark_source_check(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = source_check(sources_of(rq), &rq->caller, request_param(rq, "id"), &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

/* ---- tables ---- */

void mark_source_tables(struct request *rq)
{
    struct query_tables query;
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, &query) < 0)
        return;
    r = source_tables(sources_of(rq), &rq->caller, request_param(rq, "id"), query.q, &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void mark_source_table(struct request *rq)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, NULL) < 0)
        return;
    r = source_table(sources_of(rq), &rq->caller, request_param(rq, "id"),
                     request_param(rq, "table"), &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}

void mark_source_table_change(struct request *rq)
{
    struct body_table_change body;
    struct fault fault = { 0 };
    json_t *json = NULL;
    int r;

    if (request_query(rq, NULL) < 0 || request_json(rq, &body) < 0)
        return;
    r = source_table_change(sources_of(rq), &rq->caller, request_param(rq, "id"),
                            request_param(rq, "table"), rq->json, &json, &fault);
    reply_either(rq, r, MHD_HTTP_OK, json, &fault);
}
