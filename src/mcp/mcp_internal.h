/* What the files of the protocol share. mcp.h says how a call lives. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "mcp/mcp.h"
#include "mcp/outbox.h"

/* Fifteen digits, as the server writes its replies. */
#define MCP_JSON (JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))

#define MCP_MODERN_VERSION "2026-07-28"
#define MCP_CALLS_MAX      64 /* of one peer, at a time */
#define MCP_KEPT_CALLS_MAX 4  /* that ended and can still be resumed */
#define MCP_SUBSCRIPTIONS  256
#define MCP_LISTENERS_MAX  1024
#define MCP_PEER_SESSIONS  32 /* whose files a peer sees as resources */
#define MCP_URI_MAX        (3 * FILE_PATH_MAX + 128)
#define MCP_META           "io.modelcontextprotocol/"
#define MCP_PAGE           100
#define MCP_ASK_US         (INT64_C(300) * 1000000) /* for a client to answer us */

enum mcp_code {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_NO_METHOD = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL = -32603,
    MCP_NO_SESSION = -32001,
    MCP_HEADER_MISMATCH = -32020,
    MCP_NO_CAPABILITY = -32021,
    MCP_NO_VERSION = -32022,
};

enum mcp_era { MCP_LEGACY = 1 << 0, MCP_MODERN = 1 << 1 };

/* By rising severity, as in the specification. */
enum mcp_level { LEVEL_DEBUG, LEVEL_INFO, LEVEL_NOTICE, LEVEL_WARNING, LEVEL_ERROR, LEVEL_OFF = 8 };

/* The number of a level's name, or -1. */
int mcp_level_find(const char *name);

/* ---- calls ---- */

struct mcp_tool;

struct mcp_call {
    struct mcp *mcp;
    struct mcp_peer *peer; /* referenced, or NULL */
    _Atomic int refs;
    enum mcp_transport transport;
    enum mcp_era era;
    struct caller caller;

    json_t *message;                           /* as it came; what is below borrows from it */
    json_t *id, *params, *meta, *capabilities; /* NULL when absent */
    json_t *progress_token;
    json_t *input_responses; /* what the client answers to input_required */
    json_t *request_state;   /* owned: what we gave it along, once it has proved to be ours */
    const struct mcp_method *method;
    int log_level; /* from which on the client wants messages */
    double progress;
    int number; /* within the peer */
    bool begins_session;
    char session_id[SESSION_ID_MAX], execution_id[EXECUTION_ID_MAX];

    /* Work that takes time. @step does some of it and waits at most so long; it ends with
     * call_reply() or call_fail(). */
    void (*step)(struct mcp_call *call, int64_t timeout_us);
    void *work;
    void (*work_free)(void *work);

    json_t *out;            /* an array of messages that wait to be fetched */
    json_t *result, *error; /* one of them, once it is over */
    int status;
    bool told;   /* the response was fetched */
    bool silent; /* a batch of nothing but notifications */

    pthread_mutex_t lock; /* what follows; others than the driver touch it */
    pthread_cond_t wake;
    bool cancelled, ended;
    struct execution *execution; /* to be interrupted */
    char ask_id[32];             /* the request that we wait to be answered, or "" */
    json_t *answer;
    int asks;
    bool wants_break;

    struct outbox *log; /* of a call whose messages are kept */
    pthread_mutex_t drive;
    _Atomic unsigned claim;
    struct mcp_call *next; /* of the peer */
};

struct mcp_call *call_new(struct mcp *mcp, const struct mcp_arrival *arrival);

/* Ends it with a result, which is taken; NULL is want of memory. */
void call_reply(struct mcp_call *call, json_t *result);

/* Ends it with an error. */
void call_fail(struct mcp_call *call, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void call_fail_data(struct mcp_call *call, int code, json_t *data, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void call_fail_fault(struct mcp_call *call, const struct fault *fault);

bool call_is_over(const struct mcp_call *call);

/* Tells the client something before the end; takes @params. */
void call_notify(struct mcp_call *call, const char *method, json_t *params);
void call_log(struct mcp_call *call, enum mcp_level level, const char *logger, const char *text,
              size_t len);
/* Progress must rise; what does not is left out. @total below 0: unknown. */
void call_progress(struct mcp_call *call, double progress, double total, const char *message);

/* Waits until something happens to the call: it is cancelled, or answered. */
void call_wait(struct mcp_call *call, int64_t timeout_us);

/* Sends a request to the client, in the era that has them; takes @params. The answer comes to
 * call_take_answer(), the whole response. */
void call_ask(struct mcp_call *call, const char *method, json_t *params);
json_t *call_take_answer(struct mcp_call *call);

/* Answers with resultType input_required; takes both, @state may be NULL. */
void call_require_input(struct mcp_call *call, json_t *requests, json_t *state);

/* Whether the client declared it; without it, the call ends with the error for that. */
bool call_has_capability(const struct mcp_call *call, const char *name);
bool call_needs_capability(struct mcp_call *call, const char *name);

/* Text or an object among the parameters; NULL when absent. On a wrong type the call fails. */
const char *call_text(struct mcp_call *call, const char *name, bool required);

/* What is being run, so that it can be interrupted; takes a reference of its own. */
void call_set_execution(struct mcp_call *call, struct execution *execution);

/* The session of a call: @id when the client names one, else that of the peer, which is made when
 * there is none. NULL in *@ret_session: the call is to have a box of its own. */
int call_session(struct mcp_call *call, const char *id, struct session **ret_session,
                 struct fault *fault);

/* ---- messages (protocol/message.c) ---- */

enum message_kind { MESSAGE_REQUEST, MESSAGE_NOTIFICATION, MESSAGE_RESPONSE, MESSAGE_BAD };

/* @ret_why: what is wrong with a bad one. */
enum message_kind message_kind(const json_t *message, const char **ret_why);

/* The object under @name, or NULL. */
json_t *message_object(const json_t *object, const char *name);

json_t *message_notification(const char *method, json_t *params); /* takes @params */
json_t *message_response(json_t *id, json_t *result);             /* takes @result */
json_t *message_error(json_t *id, json_t *error);                 /* takes @error */

/* Parses it; on failure NULL, and the reason. */
json_t *message_parse(const char *text, size_t len, char why[200]);

/* ---- eras (protocol/revision.c) ---- */

/* Finds out the era of a request or notification and checks what that era wants of every message,
 * headers included. On failure the call has ended. */
int era_check(struct mcp_call *call, const struct mcp_arrival *arrival, bool request);

bool era_is_legacy_version(const char *version);
const char *const *era_legacy_versions(void); /* newest first, ends with NULL */
json_t *era_modern_versions(void);

/* Whether a tool's Mcp-Param headers say what the arguments say; else the call has ended. */
int era_check_params(struct mcp_call *call, const struct mcp_headers *headers);

/* ---- methods (protocol/methods.c) ---- */

struct mcp_method {
    const char *name;
    unsigned eras;
    void (*handle)(struct mcp_call *call);
    int ttl_ms; /* of results that may be cached; -1: they may not */
    const char *scope;
};

const struct mcp_method *method_find(const char *name, enum mcp_era era);
void method_notification(struct mcp_call *call);

json_t *mcp_server_info(void);

void method_tools_list(struct mcp_call *call);
void method_tools_call(struct mcp_call *call);
void method_resources_list(struct mcp_call *call);
void method_resources_templates(struct mcp_call *call);
void method_resources_read(struct mcp_call *call);
void method_resources_subscribe(struct mcp_call *call);
void method_resources_unsubscribe(struct mcp_call *call);
void method_prompts_list(struct mcp_call *call);
void method_prompts_get(struct mcp_call *call);
void method_complete(struct mcp_call *call);
void method_listen(struct mcp_call *call);

/* ---- the registry (catalog/registry.c): what tools, prompts and resources there are ---- */

struct mcp_tool {
    const char *name, *title, *description;
    const char *input, *output; /* JSON Schema as text; output may be NULL */
    const char *annotations;    /* JSON text, or NULL */
    void (*handle)(struct mcp_call *call, json_t *arguments);
};

struct mcp_prompt_argument {
    const char *name, *description;
    bool required;
};

struct mcp_prompt {
    const char *name, *title, *description;
    const struct mcp_prompt_argument *arguments; /* ends with a NULL name; may be NULL */
    void (*handle)(struct mcp_call *call, const json_t *arguments);
};

/* A resource, or a template of some: @uri then holds braces. */
struct mcp_resource {
    const char *uri, *name, *title, *description, *mime;
    bool template;
    /* Whether @uri is one of these, and then the call has ended or goes on in steps. */
    bool (*read)(struct mcp_call *call, const char *uri);
};

int registry_open(struct mcp *mcp);
void registry_close(struct mcp *mcp);
void registry_add_tool(struct mcp *mcp, const struct mcp_tool *tool);
void registry_remove_tool(struct mcp *mcp, const char *name);
void registry_add_prompt(struct mcp *mcp, const struct mcp_prompt *prompt);
void registry_remove_prompt(struct mcp *mcp, const char *name);
void registry_add_resource(struct mcp *mcp, const struct mcp_resource *resource);

const struct mcp_tool *registry_tool(struct mcp *mcp, const char *name);
const struct mcp_prompt *registry_prompt(struct mcp *mcp, const char *name);
/* The parsed input schema; lives as long as the tool. */
const json_t *registry_tool_input(struct mcp *mcp, const struct mcp_tool *tool);

json_t *registry_tools_to_json(struct mcp *mcp);
json_t *registry_prompts_to_json(struct mcp *mcp);
json_t *registry_resources_to_json(struct mcp *mcp, bool templates);
bool registry_read(struct mcp_call *call, const char *uri);

void tools_register(struct mcp *mcp);     /* catalog/tools.c */
void prompts_register(struct mcp *mcp);   /* catalog/prompts.c */
void resources_register(struct mcp *mcp); /* catalog/resources.c */
void fixtures_register(struct mcp *mcp);  /* fixtures.c */

/* What a description's "{timeout}" and the like stand for; the caller frees. */
char *describe_fill(struct mcp *mcp, const char *text);

/* ---- schemas (catalog/schema.c) ---- */

/* Whether @value is as @schema has it, of which the common part is understood. What is wrong is
 * written to @why, for a model to read. */
bool schema_check(const json_t *schema, const json_t *value, char *why, size_t size);

/* ---- state that the client carries (protocol/state.c) ---- */

/* @state as text that only we can have made, for this method and caller; the caller frees. */
char *state_seal(const struct mcp_call *call, const json_t *state);
/* NULL when it is not ours, or too old. */
json_t *state_open(const struct mcp_call *call, const char *text);

/* ---- URIs (catalog/uri.c) ---- */

/* "glovebox://sessions/ID/files/PATH", for free(); NULL without memory. */
char *uri_of_file(const char *session_id, const char *path);
struct uri_file {
    char session_id[SESSION_ID_MAX];
    char path[FILE_PATH_MAX + 1];
    size_t path_len;
};
bool uri_parse_file(const char *uri, struct uri_file *ret);

char *uri_of_output(const char *execution_id, enum stream stream);
bool uri_parse_output(const char *uri, char execution_id[EXECUTION_ID_MAX],
                      enum stream *ret_stream);

/* By the name's ending; NULL when it says nothing. */
const char *uri_mime(const char *path);

/* Text as UTF-8, else base64: one element of "contents". */
json_t *uri_content(const char *uri, const char *mime, const char *data, size_t len);
json_t *uri_base64(const void *data, size_t len);

/* ---- peers ---- */

struct mcp_peer {
    struct mcp *mcp;
    _Atomic int refs;
    enum mcp_transport transport;
    char id[MCP_SESSION_ID_MAX];
    struct caller caller;
    bool keeps;
    struct outbox *outbox;

    pthread_mutex_t lock;
    struct mcp_peer *next; /* in the table; under the table's lock */
    _Atomic int64_t used_us;
    bool initialized, ended;
    const char *version; /* one of ours */
    json_t *capabilities;
    int log_level;
    struct mcp_call *calls; /* under way, or kept; each referenced */
    int calls_len, numbers;
    json_t *subscriptions; /* an object whose keys are URIs */

    pthread_mutex_t session_lock; /* held while its box is made */
    char session_id[SESSION_ID_MAX];
    char sessions[MCP_PEER_SESSIONS][SESSION_ID_MAX]; /* that it has made */
    size_t sessions_len;
};

/* Enters the call; -1 when the id is in use or there are too many, and then the call has ended. */
int peer_enter(struct mcp_peer *peer, struct mcp_call *call);
/* It ended; kept calls stay for a while. */
void peer_leave(struct mcp_call *call);
void peer_forget(struct mcp_call *call); /* does not keep it after all */
void peer_cancel(struct mcp_peer *peer, const json_t *id);
void peer_answer(struct mcp_peer *peer, json_t *response);
void peer_add_session(struct mcp_peer *peer, const char *id);
void peer_remove_session(struct mcp_peer *peer, const char *id);
size_t peer_sessions(struct mcp_peer *peer, char (*ret)[SESSION_ID_MAX], size_t max);

/* Counts the threads that drive calls; with -1 it also lets go of @call. */
void peer_detached(struct mcp *mcp, int change, struct mcp_call *call);

/* Until no call is driven by a thread of ours, at most so long. */
void peer_wait_idle(struct mcp *mcp, int64_t timeout_us);

/* ---- changes that clients hear of (protocol/changes.c) ---- */

enum change_kind { CHANGE_TOOLS, CHANGE_PROMPTS, CHANGE_RESOURCES, CHANGE_FILE };

/* @owner: whose files; NULL: everybody hears of it. @uri of CHANGE_FILE. */
void change_publish(struct mcp *mcp, enum change_kind kind, const struct principal *owner,
                    const char *uri);

struct listener {
    struct listener *prev, *next;
    struct principal owner;
    bool tools, prompts, resources;
    json_t *uris; /* an object whose keys are URIs, or NULL */
    json_t *id;   /* of the request that listens */
    struct outbox *outbox;
};

/* ---- the whole ---- */

struct registry;

struct mcp {
    struct mcp_config config;
    struct registry *registry;
    unsigned char state_key[32];
    char *environment; /* what the box has, as text */

    pthread_mutex_t lock; /* what follows */
    struct mcp_peer *peers;
    size_t peers_len;
    struct listener listeners; /* head of a ring */
    size_t listeners_len;
    bool stopping;
    int detached;
    pthread_cond_t idle; /* no call is driven by a thread of ours */
};

/* Ends what @listener hears, and forgets it. */
int listener_enter(struct mcp *mcp, struct listener *listener);
void listener_leave(struct mcp *mcp, struct listener *listener);
