/* What the files of the protocol share. mcp.h says how a call lives. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "mcp/mcp.h"
#include "mcp/outbox.h"
#include "mcp/tool.h"

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

enum mcp_era { MCP_LEGACY = 1 << 0, MCP_MODERN = 1 << 1 };

/* The level up to which a client wants messages when it wants none of ours. */
#define MCP_LOG_OFF (-1)

/* What a client that asks for @word wants: the least severe of our levels, or MCP_LOG_OFF. False if
 * there is no such word. */
bool mcp_level_find(const char *word, int *ret_level);

/* ---- calls ---- */

/* A message that waits to be fetched. */
struct queued {
    struct queued *next;
    char *text;
};

struct mcp_call {
    struct mcp *mcp;
    _Atomic int refs;

    /* Who sent it, and how. */
    struct mcp_peer *peer; /* referenced, or NULL */
    enum mcp_transport transport;
    enum mcp_era era;
    struct caller caller;
    int number; /* within the peer */
    bool begins_session;
    struct mcp_call *next; /* of the peer; under the peer's lock */

    /* The request, as receive.c and revision.c have read it. Except for @request_state all of it
     * borrows from @message, and is NULL when absent. */
    json_t *message;
    json_t *id, *params, *meta, *capabilities;
    json_t *progress_token;
    json_t *input_responses; /* what the client answers to input_required (ask.c) */
    json_t *request_state;   /* what we gave it along, once its authenticity is proved */
    const struct mcp_method *method;
    int log_level; /* the least severe that the client wants; MCP_LOG_OFF: none */

    /* What the method does, and the tool: see call_continue(). For the log it leaves the ids. */
    void (*step)(struct mcp_call *call, int64_t timeout_us);
    void *work;
    void (*work_free)(void *work);
    double progress; /* the last that was sent */
    char session_id[SESSION_ID_MAX], execution_id[EXECUTION_ID_MAX];

    /* What goes out, each message as the text that is sent. Only the driver touches it. */
    struct queued *out, **out_end;
    char *response; /* comes after all of @out; NULL once it was fetched */
    int status;     /* of HTTP */
    bool over;      /* there is a response */
    bool failed;    /* it is an error */
    bool told;      /* it was fetched */

    /* What other threads touch too. */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool cancelled, ended, close_stream;
    struct execution *execution; /* to be interrupted */
    char ask_id[32];             /* the request that we wait to be answered, or "" */
    json_t *answer;
    int asks;

    /* A call whose messages are kept for a client that reconnects. */
    struct outbox *log;
    pthread_mutex_t drive; /* held by whoever drives it */
    _Atomic unsigned claim;
};

struct mcp_call *call_new(struct mcp *mcp, const struct mcp_arrival *arrival);

void call_fail_fault(struct mcp_call *call, const struct fault *fault);

/* Like call_reply(), with one more member in the result: @name, whose value is JSON text already.
 */
void call_reply_with(struct mcp_call *call, json_t *result, const char *name, const char *json);

/* Ends it with a response that is whole already; takes @text, where NULL means out of memory. */
void call_reply_text(struct mcp_call *call, char *text);

/* Sends a message before the end; takes @text. */
void call_put(struct mcp_call *call, char *text);

/* Tells the client something before the end; takes @params. */
void call_notify(struct mcp_call *call, const char *method, json_t *params);
/* Text or an object among the parameters; NULL when absent. On a wrong type the call fails. */
const char *call_text(struct mcp_call *call, const char *name, bool required);

/* What is being run, so that it can be interrupted; takes a reference of its own. */
void call_set_execution(struct mcp_call *call, struct execution *execution);

/* The session of a call: @id when the client names one, else that of the peer, which is made when
 * there is none. NULL in *@ret_session: the call is to have a box of its own. */
int call_session(struct mcp_call *call, const char *id, struct session **ret_session,
                 struct fault *fault);

/* Reads what a client sends along when it repeats a call after input_required; on failure the call
 * has ended. (protocol/ask.c) */
int ask_check_retry(struct mcp_call *call);

/* ---- messages (protocol/message.c) ---- */

enum message_kind { MESSAGE_REQUEST, MESSAGE_NOTIFICATION, MESSAGE_RESPONSE, MESSAGE_BAD };

/* @ret_why: what is wrong with a bad one. */
enum message_kind message_kind(const json_t *message, const char **ret_why);

/* The object under @name, or NULL. */
json_t *message_object(const json_t *object, const char *name);

json_t *message_notification(const char *method, json_t *params); /* takes @params */

/* A whole response, for free(): @member is "result" or "error", and @value, which is taken, its
 * value. @name (may be NULL) is put into @value, as the member whose value is the text @json. */
char *message_response(json_t *id, const char *member, json_t *value, const char *name,
                       const char *json);

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

int registry_open(struct mcp *mcp);
void registry_close(struct mcp *mcp);
/* A tool as it was registered. All of it lives as long as @mcp. */
struct tool_entry {
    const struct mcp_tool *tool;
    const struct schema *input; /* with the configured limits; NULL where the tool has none */
    const json_t *json_input;   /* the same as JSON Schema */
};

bool registry_tool(struct mcp *mcp, const char *name, struct tool_entry *ret_entry);
const struct mcp_prompt *registry_prompt(struct mcp *mcp, const char *name);

json_t *registry_tools_to_json(struct mcp *mcp);
json_t *registry_prompts_to_json(struct mcp *mcp);
json_t *registry_resources_to_json(struct mcp *mcp, bool templates);
bool registry_read(struct mcp_call *call, const char *uri);

void tools_register(struct mcp *mcp);     /* catalog/tools.c */
void prompts_register(struct mcp *mcp);   /* catalog/prompts.c */
void resources_register(struct mcp *mcp); /* catalog/resources.c */

/* ---- texts with the configured numbers in them (catalog/describe.c) ---- */

/* With {timeout} and the like replaced; the caller frees. NULL: out of memory. */
char *describe_fill(struct mcp *mcp, const char *text);

/* A copy of the table with its texts filled and its limits as configured, for
 * describe_schema_free(). NULL: out of memory. */
struct schema *describe_schema(struct mcp *mcp, const struct schema *schema);
void describe_schema_free(struct schema *schema); /* accepts NULL */

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
/* The session that its calls share, which is created for @caller if there is none yet. */
int peer_session(struct mcp_peer *peer, const struct caller *caller, struct session **ret_session,
                 struct fault *fault);
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

    pthread_mutex_t lock; /* what follows */
    struct mcp_peer *peers;
    size_t peers_len;
    struct listener listeners; /* head of a ring */
    size_t listeners_len;
    bool stopping;
    int detached;
    pthread_cond_t idle; /* no call is driven by a thread of ours */
};

/* Returns -1 if there are too many, or the protocol is about to stop. */
int listener_enter(struct mcp *mcp, struct listener *listener);
void listener_leave(struct mcp *mcp, struct listener *listener);
