/* Native API: sessions. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/handlers.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

#define LIST_DEFAULT 100

static void reply_session(struct request *rq, int status, struct session *session)
{
    char location[96];
    struct session_info info;
    json_t *json;

    session_get_info(session, &info);
    request_note(rq, info.id, NULL);
    json = session_info_to_json(&info);
    (void) json_object_set_new(json, "network", session_network_to_json(session));
    snprintf(location, sizeof location, "/v1/sessions/%s", info.id);
    reply_json_at(rq, status, json, status == MHD_HTTP_CREATED ? location : NULL);
    session_info_release(&info);
}

/* ---- initial files ---- */

static int put_bytes(struct session *session, const char *path, const void *data, size_t len,
                     struct fault *fault)
{
    struct file_upload *upload;
    bool created;

    if (files_upload_begin(session, path, strlen(path), (int64_t) len, &upload, fault) < 0)
        return -1;
    if (files_upload_write(upload, data, len, fault) < 0) {
        files_upload_abort(upload);
        return -1;
    }
    return files_upload_commit(upload, &created, fault);
}

static int put_file(struct session *session, const struct body_file *file, struct fault *fault)
{
    size_t text_len, len;
    unsigned char *data;
    int r;

    if (file->text)
        return put_bytes(session, file->path, file->text, strlen(file->text), fault);
    text_len = strlen(file->base64);
    data = malloc(text_len / 4 * 3 + 3);
    if (!data)
        return fault_no_memory(fault);
    if (sodium_base642bin(data, text_len / 4 * 3 + 3, file->base64, text_len, "\r\n", &len, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0)
        r = fault_set(fault, PROBLEM_BAD_BASE64, "files", "base64 of '%.100s' is not valid",
                      file->path);
    else
        r = put_bytes(session, file->path, data, len, fault);
    free(data);
    return r;
}

/* Checks all of them before the session is created; on failure the reply has been sent. */
static int read_files(struct request *rq, const json_t *list, struct body_file **ret_files)
{
    struct body_file *files = calloc(json_array_size(list) + 1, sizeof *files);
    json_t *errors = json_array(), *item;
    size_t i;

    json_array_foreach ((json_t *) list, i, item) {
        if (!files || fields_read_body(&schema_new_file, item, true, &files[i], errors) < 0)
            break;
        if (!files[i].text == !files[i].base64) {
            fields_add_error(errors, "body", "files", "invalid",
                             "each file has either text or base64");
            break;
        }
    }
    if (json_array_size(errors) > 0 || !files) {
        free(files);
        reply_invalid(rq, errors);
        return -1;
    }
    json_decref(errors);
    *ret_files = files;
    return 0;
}

/* The service checks where they lead; on failure the reply has been sent. */
static int read_volumes(struct request *rq, const json_t *list, struct volume volumes[VOLUMES_MAX],
                        struct session_request *request)
{
    json_t *errors = json_array(), *item;
    struct body_volume body;
    size_t i;

    json_array_foreach ((json_t *) list, i, item) {
        if (fields_read_body(&schema_volume, item, true, &body, errors) < 0)
            break;
        volumes[i] = (struct volume){ body.source, body.target,
                                      body.mode < 0 ? VOLUME_RO : (enum volume_mode) body.mode };
        request->volumes_len = i + 1;
    }
    if (json_array_size(errors) > 0) {
        reply_invalid(rq, errors);
        return -1;
    }
    json_decref(errors);
    request->volumes = volumes;
    return 0;
}

/* ---- handlers ---- */

static int fill_session(struct request *rq, const struct body_session *body, const char **packages,
                        struct session_request *request)
{
    struct fault fault = { 0 };

    session_request_init(request);
    if (body->network) /* it may contain secrets, and has been parsed */
        explicit_bzero(rq->body, rq->body_len);
    if (body->limits && limits_wish_from_json(body->limits, &request->limits, &fault) < 0) {
        reply_fault(rq, &fault);
        return -1;
    }
    if (body->idle_us != FIELD_ABSENT)
        request->idle_us = body->idle_us;
    request->template = body->template;
    request->network = (json_t *) body->network; /* the body belongs to us, so it can be wiped */
    request->packages = packages;
    return 0;
}

static void create(struct request *rq, const struct session_request *request,
                   const struct body_file *files)
{
    struct session *session = NULL;
    struct fault fault = { 0 }, ignored;
    int r = session_create(rq->server->config.service, &rq->caller, request, &session, &fault);
    bool made = r == 0;

    for (; r == 0 && files && files->path; files++)
        r = put_file(session, files, &fault);
    if (r == 0) {
        reply_session(rq, MHD_HTTP_CREATED, session);
    } else {
        if (made)
            (void) session_delete(session, &ignored);
        reply_fault(rq, &fault);
    }
    session_unref(session);
}

void v1_session_create(struct request *rq)
{
    struct body_session body = { 0 };
    struct session_request request;
    struct volume volumes[VOLUMES_MAX];
    struct body_file *files = NULL;
    autofree const char **packages = NULL;
    char **env = NULL;

    if (request_json(rq, &body) < 0)
        return;
    packages = body_texts(body.packages);
    if (fill_session(rq, &body, packages, &request) < 0)
        return;
    if (body.volumes && read_volumes(rq, body.volumes, volumes, &request) < 0)
        return;
    if (body.files && read_files(rq, body.files, &files) < 0)
        return;
    if (!body.env || body_env_read(rq, body.env, &env) == 0) {
        request.env = (const char *const *) env;
        create(rq, &request, files);
    }
    strv_free(env);
    free(files);
}

void v1_session_list(struct request *rq)
{
    struct session_info *infos;
    struct query_page query;
    struct fault fault = { 0 };
    json_t *list;
    size_t len;
    bool more;

    if (request_query(rq, &query) < 0)
        return;
    query.limit = query.limit == FIELD_ABSENT ? LIST_DEFAULT : query.limit;
    infos = calloc((size_t) query.limit, sizeof *infos);
    if (!infos) {
        reply_no_memory(rq);
        return;
    }
    if (session_list(rq->server->config.service, &rq->caller, query.after, infos,
                     (size_t) query.limit, &len, &more, &fault) < 0) {
        reply_fault(rq, &fault);
    } else {
        list = json_array();
        for (size_t i = 0; i < len; i++) {
            (void) json_array_append_new(list, session_info_to_json(&infos[i]));
            session_info_release(&infos[i]);
        }
        reply_json(rq, MHD_HTTP_OK, json_pack("{s:o,s:b}", "sessions", list, "more", more));
    }
    free(infos);
}

void v1_session_get(struct request *rq)
{
    struct session *session;

    if (request_session(rq, &session) < 0)
        return;
    reply_session(rq, MHD_HTTP_OK, session);
    session_unref(session);
}

void v1_session_delete(struct request *rq)
{
    struct fault fault = { 0 };
    struct session *session;

    if (request_session(rq, &session) < 0)
        return;
    if (session_delete(session, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
    session_unref(session);
}

void v1_session_keepalive(struct request *rq)
{
    struct session *session;

    if (request_session(rq, &session) < 0)
        return;
    session_touch(session);
    reply_session(rq, MHD_HTTP_OK, session);
    session_unref(session);
}
