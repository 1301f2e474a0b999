/*
 * The JSON-RPC core: messages as they may come, over a service that refuses everything but files.
 *
 * The first line is for headers: revision, method, name and session, with tabs between; "-" is one
 * that is not there, and the session "S" the one that is open. An empty first line means stdio.
 * Each further line is a message. Whatever comes in, an answer is one message, well-formed, with
 * the id of its request, and ends.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fake_mark.h"
#include "fixtures.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define STEPS_MAX 64
#define LINES_MAX 32

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* ---- the service ---- */

static int refuse(struct fault *fault)
{
    *fault = (struct fault){ .kind = FAULT_NOT_FOUND,
                             .problem = PROBLEM_SESSION_UNKNOWN,
                             .type = problem_word(PROBLEM_SESSION_UNKNOWN),
                             .detail = "no" };
    return -1;
}

int fault_set(struct fault *fault, enum problem problem, const char *loc, const char *fmt, ...)
{
    (void) problem;
    (void) loc;
    (void) fmt;
    return refuse(fault);
}

int fault_no_memory(struct fault *fault)
{
    return refuse(fault);
}

/* clang-format off */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
const char *service_packages_text(const struct service *service)
{
    (void) service;
    return "numpy 2.4.6, pandas 3.1.1";
}

json_t *service_limits_to_json(struct service *s) { return json_object(); }
json_t *limits_to_json(const struct limits *l) { return json_object(); }
json_t *file_info_to_json(const struct file_info *i) { return json_object(); }
void session_request_init(struct session_request *r) { *r = (struct session_request){ 0 }; }
void execution_request_init(struct execution_request *r) { *r = (struct execution_request){ 0 }; }
int packages_install_named(struct service *s, const struct caller *c, struct session *n,
                           const char *p, const char *v, const struct install_order *w,
                           json_t **ret, struct fault *f)
{ return refuse(f); }
int install_task_start(struct service *s, const struct caller *c, struct session *n,
                       const struct install_order *o, const char *p, const char *v,
                       struct install_task **ret, struct fault *f) { return refuse(f); }
int install_task_next(struct install_task *t, int64_t us, struct install_event *e) { return -1; }
void install_task_free(struct install_task *t) { must(!t); }
const char *install_stage_name(enum install_stage s) { return ""; }
int session_create(struct service *s, const struct caller *c, const struct session_request *r,
                   struct session **ret, struct fault *f) { return refuse(f); }
int session_find(struct service *s, const struct caller *c, const char *id, struct session **ret,
                 struct fault *f) { return refuse(f); }
void session_unref(struct session *s) { must(!s); }
const char *session_id(const struct session *s) { return ""; }
void session_get_info(struct session *s, struct session_info *r) { }
void session_info_release(struct session_info *i) { }
int session_delete(struct session *s, struct fault *f) { return refuse(f); }
int session_interrupt(struct session *s, bool a, size_t *n, struct fault *f)
{ return refuse(f); }
int execution_start(struct service *s, const struct caller *c, struct session *n,
                    const struct execution_request *r, struct execution **ret, struct fault *f)
{ return refuse(f); }
int execution_find(struct service *s, const struct caller *c, const char *id, struct execution **r,
                   struct fault *f) { return refuse(f); }
struct execution *execution_ref(struct execution *x) { return x; }
void execution_unref(struct execution *x) { must(!x); }
const char *execution_id(const struct execution *x) { return ""; }
bool execution_wait(struct execution *x, int64_t t) { return true; }
int execution_receipt(struct execution *x, json_t **r, struct fault *f) { return refuse(f); }
int execution_interrupt(struct execution *x, struct fault *f) { return refuse(f); }
int execution_next_event(struct execution *x, struct event_cursor *c, char *b, size_t s, int64_t t,
                         struct event *r) { return -1; }
void event_release(struct event *e) { }
int execution_read_output(struct execution *x, enum stream s, int64_t o, char *b, size_t z, size_t *l,
                          int64_t *t, int64_t *k, bool *d, struct fault *f)
{ return refuse(f); }
int files_list(struct session *s, const char *d, size_t dl, bool r, const char *a, size_t al, size_t m,
               struct file_list *ret, struct fault *f) { return refuse(f); }
void file_list_release(struct file_list *l) { }
int files_open(struct session *s, const char *p, size_t l, struct file_reader *r, struct fault *f)
{ return refuse(f); }
int files_upload_begin(struct session *s, const char *p, size_t l, int64_t e, struct file_upload **r,
                       struct fault *f) { return refuse(f); }
int files_upload_write(struct file_upload *u, const void *d, size_t l, struct fault *f)
{ return refuse(f); }
int files_upload_commit(struct file_upload *u, bool *c, struct fault *f) { return refuse(f); }
void files_upload_abort(struct file_upload *u) { }
#pragma GCC diagnostic pop
/* clang-format on */

/* ---- what must hold ---- */

static void check_response(const json_t *response, const json_t *request)
{
    const json_t *error = json_object_get(response, "error"), *id = json_object_get(response, "id");

    must(strcmp(json_string_value(json_object_get(response, "jsonrpc")), "2.0") == 0);
    must(!error != !json_object_get(response, "result"));
    must(!error || (json_is_integer(json_object_get(error, "code")) &&
                    json_is_string(json_object_get(error, "message"))));
    must(id && (error || json_is_string(id) || json_is_integer(id)));
    must(!json_is_object(request) || json_is_null(id) ||
         json_equal(id, json_object_get(request, "id")));
}

static void check_final(const char *text, const json_t *request, int status)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL), *item;
    size_t i;

    must(json && (status == 200 || status == 400 || status == 404 || status == 503));
    if (json_is_array(json)) {
        must(json_is_array(request) && json_array_size(json) > 0);
        json_array_foreach (json, i, item)
            check_response(item, NULL);
    } else {
        check_response(json, request);
    }
    json_decref(json);
}

static void drive(struct mcp_call *call, const char *line, size_t len)
{
    json_t *request = json_loadb(line, len, JSON_DECODE_ANY, NULL);
    char *text;
    int r = 0;

    for (int i = 0; i < STEPS_MAX && r >= 0; i++) {
        if (i == STEPS_MAX / 2)
            mcp_call_cancel(call); /* one that listens, or waits for the client */
        r = mcp_call_next(call, 0, &text);
        if (r > 0 && mcp_call_is_done(call))
            check_final(text, request, mcp_call_status(call));
        if (r > 0)
            free(text);
    }
    must(r < 0 || !mcp_call_is_done(call));
    json_decref(request);
    mcp_call_unref(call);
}

/* ---- one input ---- */

static const char *field(char **at, const char *session)
{
    char *text = strsep(at, "\t");

    if (!text || strcmp(text, "-") == 0)
        return NULL;
    return session && strcmp(text, "S") == 0 ? session : text;
}

static struct mcp *mcp;

static void begin(void)
{
    struct mcp_config config;

    if (mcp)
        return;
    mcp_config_default(&config);
    config.more = fixtures_register;
    config.mark = fake_mark();
    must(mcp_open(&config, &mcp, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static const struct caller caller = { .listener = "fuzz" };
    char *copy = malloc(size + 1), *at = copy, *end;
    struct mcp_arrival arrival = { .caller = &caller };
    struct mcp_headers headers = { 0 };
    struct mcp_peer *peer = NULL;
    char *line;

    begin();
    if (!copy)
        return 0;
    memcpy(copy, input, size);
    copy[size] = '\0';
    end = copy + size;
    line = strsep(&at, "\n");
    arrival.transport = *line ? MCP_HTTP : MCP_STDIO;
    must(mcp_peer_new(mcp, arrival.transport, &caller, true, &peer) == 0);
    if (*line) {
        peer->initialized = true; /* as after initialize */
        peer->version = "2025-03-26";
        peer->capabilities = json_pack("{s:{}, s:{}}", "sampling", "elicitation");
        headers.version = field(&line, NULL);
        headers.method = field(&line, NULL);
        headers.name = field(&line, NULL);
        headers.session = field(&line, mcp_peer_id(peer));
        arrival.headers = &headers;
    } else {
        arrival.peer = peer;
    }
    for (int i = 0; at && i < LINES_MAX; i++) {
        char *stop = memchr(at, '\n', (size_t) (end - at));
        size_t len = (size_t) ((stop ? stop : end) - at);
        struct mcp_call *call = mcp_receive(mcp, &arrival, at, len);

        if (call)
            drive(call, at, len);
        at = stop ? stop + 1 : NULL;
    }
    mcp_peer_end(peer);
    mcp_peer_unref(peer);
    mcp_stop(mcp);
    mcp->stopping = false; /* and once more */
    free(copy);
    return 0;
}
