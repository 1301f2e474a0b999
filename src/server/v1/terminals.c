/* Native API: terminals of a session; terminal_socket.c has the WebSocket. */
#include <stdio.h>
#include <stdlib.h>

#include "server/handlers.h"
#include "server/v1/schemas.h"
#include "server/v1/terminal_socket.h"

#include "base/banned.h"

#define COLS_DEFAULT 80
#define ROWS_DEFAULT 24
#define URL_MAX      (SESSION_ID_MAX + TERMINAL_ID_MAX + 48)

static void url_make(const struct terminal_info *info, const char *tail, char buf[URL_MAX])
{
    snprintf(buf, URL_MAX, "/v1/sessions/%s/terminals/%s%s", info->session_id, info->id, tail);
}

static json_t *info_to_json(const struct terminal_info *info)
{
    char url[URL_MAX];

    url_make(info, "/stream", url);
    return json_pack("{s:s,s:s,s:I,s:I,s:s,s:o,s:f,s:I,s:s}", "terminal_id", info->id, "session_id",
                     info->session_id, "cols", (json_int_t) info->cols, "rows",
                     (json_int_t) info->rows, "status", info->exited ? "exited" : "running",
                     "exit_code", info->exited ? json_integer(info->exit_code) : json_null(),
                     "created", (double) info->created_unix_us / 1e6, "clients",
                     (json_int_t) info->clients, "url", url);
}

static void reply_terminal(struct request *rq, int status, struct terminal *terminal)
{
    struct terminal_info info;
    char location[URL_MAX];

    terminal_get_info(terminal, &info);
    url_make(&info, "", location);
    reply_json_at(rq, status, info_to_json(&info), status == MHD_HTTP_CREATED ? location : NULL);
}

/* Finds the session and the terminal; on failure the reply has been sent. */
static int find(struct request *rq, struct session **ret_session, struct terminal **ret_terminal)
{
    struct fault fault = { 0 };

    if (request_session(rq, ret_session) < 0)
        return -1;
    if (terminal_find(*ret_session, request_param(rq, "terminal_id"), ret_terminal, &fault) == 0)
        return 0;
    session_unref(*ret_session);
    reply_fault(rq, &fault);
    return -1;
}

static void open_terminal(struct request *rq, struct session *session,
                          const struct terminal_request *request)
{
    struct terminal *terminal = NULL;
    struct fault fault = { 0 };

    if (terminal_open(session, &rq->caller, request, &terminal, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_terminal(rq, MHD_HTTP_CREATED, terminal);
    terminal_unref(terminal);
}

void v1_terminal_open(struct request *rq)
{
    struct body_terminal body = { 0 };
    struct terminal_request request;
    autofree const char **argv = NULL;
    struct session *session;
    char **env = NULL;

    if (request_json(rq, &body) < 0 || request_session(rq, &session) < 0)
        return;
    if (body.command && !(argv = body_texts(body.command))) {
        reply_no_memory(rq);
    } else if (!body.env || body_env_read(rq, body.env, &env) == 0) {
        request = (struct terminal_request){
            .cols = body.cols == FIELD_ABSENT ? COLS_DEFAULT : body.cols,
            .rows = body.rows == FIELD_ABSENT ? ROWS_DEFAULT : body.rows,
            .argv = argv,
            .env = (const char *const *) env,
        };
        open_terminal(rq, session, &request);
    }
    strv_free(env);
    session_unref(session);
}

void v1_terminal_list(struct request *rq)
{
    struct terminal_info infos[TERMINALS_PER_SESSION];
    struct session *session;
    json_t *list;
    size_t len;

    if (request_session(rq, &session) < 0)
        return;
    len = terminal_list(session, infos);
    list = json_array();
    for (size_t i = 0; i < len; i++)
        (void) json_array_append_new(list, info_to_json(&infos[i]));
    reply_json(rq, MHD_HTTP_OK, json_pack("{s:o}", "terminals", list));
    session_unref(session);
}

void v1_terminal_get(struct request *rq)
{
    struct terminal *terminal;
    struct session *session;

    if (find(rq, &session, &terminal) < 0)
        return;
    reply_terminal(rq, MHD_HTTP_OK, terminal);
    terminal_unref(terminal);
    session_unref(session);
}

void v1_terminal_delete(struct request *rq)
{
    struct fault fault = { 0 };
    struct terminal *terminal;
    struct session *session;

    if (find(rq, &session, &terminal) < 0)
        return;
    if (terminal_delete(session, terminal, &fault) < 0)
        reply_fault(rq, &fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
    terminal_unref(terminal);
    session_unref(session);
}

void v1_terminal_stream(struct request *rq)
{
    struct query_terminal query = { 0 };
    struct terminal *terminal;
    struct session *session;

    if (request_query(rq, &query) < 0 || find(rq, &session, &terminal) < 0)
        return;
    session_touch(session);
    session_unref(session); /* the terminal does not need it, and it may end meanwhile */
    terminal_socket(rq, terminal, query.offset == FIELD_ABSENT ? -1 : query.offset);
}
