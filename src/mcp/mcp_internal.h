/* What the files of the protocol share. mcp.h describes the life of a call. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "mcp/mcp.h"
#include "mcp/outbox.h"
#include "mcp/tool.h"

/* Fifteen digits, as in the server's replies. */
#define MCP_JSON (JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))

#define MCP_MODERN_VERSION "2026-07-28"
#define MCP_CALLS_MAX      64 /* of one peer, at a time */
#define MCP_KEPT_CALLS_MAX 4  /* finished calls that can still be resumed */
#define MCP_SUBSCRIPTIONS  256
#define MCP_LISTENERS_MAX  1024
#define MCP_PEER_SESSIONS  32 /* whose files a peer sees as resources */
#define MCP_URI_MAX        (3 * FILE_PATH_MAX + 128)
#define MCP_META           "io.modelcontextprotocol/"
#define MCP_PAGE           100

enum mcp_era { MCP_LEGACY = 1 << 0, MCP_MODERN = 1 << 1 };

/* The level of a client that wants none of our messages. */
#define MCP_LOG_OFF (-1)

/* The level that @word stands for: the least severe of our levels that the client wants, or
 * MCP_LOG_OFF. False if there is no such word. */
bool mcp_level_find(const char *word, int *ret_level);

/* ---- calls ---- */

/* A message that is ready to be fetched. */
struct queued {
    struct queued *next;
    char *text;
};

struct mcp_call {
    struct mcp *mcp;
    _Atomic int refs;

    /* Where it came from. */
    struct mcp_peer *peer; /* referenced, or NULL */
    enum mcp_transport transport;
    enum mcp_era era;
    struct caller caller;
    int number; /* within the peer */
    bool begins_session;
    struct mcp_call *next; /* in the peer's list; under the peer's lock */

    /* The request, as parsed by receive.c and revision.c. All of it except @request_state is
     * borrowed from @message, and NULL when absent. */
    json_t *message;
    json_t *id, *params, *meta, *capabilities;
    json_t *progress_token;
    json_t *input_responses; /* the client's answers to input_required (ask.c) */
    json_t *request_state;   /* the state we sent with it, once it has been authenticated */
    const struct mcp_method *method;
    int log_level; /* the least severe level that the client wants; MCP_LOG_OFF: none */

    /* Work of the method or tool: see call_continue(). The ids are for the log. */
    void (*step)(struct mcp_call *call, int64_t timeout_us);
    void *work;
    void (*work_free)(void *work);
    double progress; /* the last value sent */
    char session_id[SESSION_ID_MAX], execution_id[EXECUTION_ID_MAX];

    /* Outgoing messages, each as the text to send. Only the driver uses them. */
    struct queued *out, **out_end;
    char *response; /* comes after all of @out; NULL once it has been fetched */
    int status;     /* the HTTP status */
    bool over;      /* there is a response */
    bool failed;    /* it is an error */
    bool told;      /* it has been fetched */

    /* Members that other threads use, too. */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool cancelled, ended, close_stream;
    struct execution *execution; /* to be interrupted */
    char ask_id[32];             /* the id of our own request that is to be answered, or "" */
    json_t *answer;
    int asks;

    /* A call whose messages are kept for a client that reconnects. */
    struct outbox *log;
    pthread_mutex_t drive; /* held by the thread that drives it */
    _Atomic unsigned claim;
};

struct mcp_call *call_new(struct mcp *mcp, const struct mcp_arrival *arrival);

void call_fail_fault(struct mcp_call *call, const struct fault *fault);

/* Like call_reply(), with one more member in the result: @name, whose value is JSON text already.
 */
void call_reply_with(struct mcp_call *call, json_t *result, const char *name, const char *json);

/* Ends it with a complete response; takes @text, where NULL means out of memory. */
void call_reply_text(struct mcp_call *call, char *text);

/* Sends a message before the end; takes @text. */
void call_put(struct mcp_call *call, char *text);

/* Sends a notification before the end; takes @params. */
void call_notify(struct mcp_call *call, const char *method, json_t *params);
/* A string among the parameters; NULL when absent. A wrong type ends the call with an error. */
const char *call_text(struct mcp_call *call, const char *name, bool required);

/* The running execution, so that it can be interrupted; takes its own reference. */
void call_set_execution(struct mcp_call *call, struct execution *execution);

/* The session of a call: @id if the client names one, otherwise that of the peer, which is created
 * if there is none. NULL in *@ret_session: use a fresh box for this call. */
int call_session(struct mcp_call *call, const char *id, struct session **ret_session,
                 struct fault *fault);

/* Reads the members that a client adds when it repeats a call after input_required; on failure the
 * call has ended. (protocol/ask.c) */
int ask_check_retry(struct mcp_call *call);

/* ---- messages (protocol/message.c) ---- */

enum message_kind { MESSAGE_REQUEST, MESSAGE_NOTIFICATION, MESSAGE_RESPONSE, MESSAGE_BAD };

/* @ret_why: what is wrong with a malformed one. */
enum message_kind message_kind(const json_t *message, const char **ret_why);

/* The object under @name, or NULL. */
json_t *message_object(const json_t *object, const char *name);

json_t *message_notification(const char *method, json_t *params); /* takes @params */

/* A complete response, for free(): @member is "result" or "error", and @value, which is taken, its
 * value. @name (may be NULL) is added to @value, as the member whose value is the text @json. */
char *message_response(json_t *id, const char *member, json_t *value, const char *name,
                       const char *json);

/* Parses it; on failure returns NULL, and the reason. */
json_t *message_parse(const char *text, size_t len, char why[200]);

/* ---- eras (protocol/revision.c) ---- */

/* Determines the era of a request or notification and checks what that era requires of every
 * message, including headers. On failure the call has ended. */
int era_check(struct mcp_call *call, const struct mcp_arrival *arrival, bool request);

bool era_is_legacy_version(const char *version);
const char *const *era_legacy_versions(void); /* newest first, ends with NULL */
json_t *era_modern_versions(void);

/* Whether a tool's Mcp-Param headers agree with the arguments; if not, the call has ended. */
int era_check_params(struct mcp_call *call, const struct mcp_headers *headers);

/* ---- methods (protocol/methods.c) ---- */

struct mcp_method {
    const char *name;
    unsigned eras;
    void (*handle)(struct mcp_call *call);
    int ttl_ms; /* for results that may be cached; -1: they may not */
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

/* ---- the registry of tools, prompts and resources (catalog/registry.c) ---- */

int registry_open(struct mcp *mcp);
void registry_close(struct mcp *mcp);
/* A registered tool. All of it lives as long as @mcp. */
struct tool_entry {
    const struct mcp_tool *tool;
    const struct schema *input; /* with the configured limits; NULL if the tool has none */
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

/* ---- text with the configured numbers in it (catalog/describe.c) ---- */

/* With {timeout} and so on replaced; the caller frees it. NULL: out of memory. */
char *describe_fill(struct mcp *mcp, const char *text);

/* A copy of the table with its help filled in and its limits as configured, for
 * describe_schema_free(). NULL: out of memory. */
struct schema *describe_schema(struct mcp *mcp, const struct schema *schema);
void describe_schema_free(struct schema *schema); /* accepts NULL */

/* ---- state that the client carries (protocol/state.c) ---- */

/* @state as text that only we can have made, for this method and caller; the caller frees it. */
char *state_seal(const struct mcp_call *call, const json_t *state);
/* NULL if it is not ours, or too old. */
json_t *state_open(const struct mcp_call *call, const char *text);

/* ---- URIs (catalog/uri.c) ---- */

/* "glovebox://sessions/ID/files/PATH", for free(); NULL: out of memory. */
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

/* By the suffix of the name; NULL if that is unknown. */
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
    struct mcp_call *calls; /* running or kept; each referenced */
    int calls_len, numbers;
    json_t *subscriptions; /* an object whose keys are URIs */

    pthread_mutex_t session_lock; /* held while its box is created */
    char session_id[SESSION_ID_MAX];
    char sessions[MCP_PEER_SESSIONS][SESSION_ID_MAX]; /* that it has created */
    size_t sessions_len;
};

/* Adds the call; returns -1 if the id is in use or there are too many, and then the call has
 * ended. */
int peer_enter(struct mcp_peer *peer, struct mcp_call *call);
/* The call has ended; kept calls stay for a while. */
void peer_leave(struct mcp_call *call);
void peer_forget(struct mcp_call *call); /* drops one that was to be kept */
void peer_cancel(struct mcp_peer *peer, const json_t *id);
void peer_answer(struct mcp_peer *peer, json_t *response);
void peer_add_session(struct mcp_peer *peer, const char *id);
void peer_remove_session(struct mcp_peer *peer, const char *id);
/* The session that its calls share, which is created for @caller if there is none yet. */
int peer_session(struct mcp_peer *peer, const struct caller *caller, struct session **ret_session,
                 struct fault *fault);
size_t peer_sessions(struct mcp_peer *peer, char (*ret)[SESSION_ID_MAX], size_t max);

/* Counts the threads that drive calls; with -1 it also releases @call. */
void peer_detached(struct mcp *mcp, int change, struct mcp_call *call);

/* Waits until no call is driven by a thread of ours, at most that long. */
void peer_wait_idle(struct mcp *mcp, int64_t timeout_us);

/* ---- change notifications (protocol/changes.c) ---- */

enum change_kind { CHANGE_TOOLS, CHANGE_PROMPTS, CHANGE_RESOURCES, CHANGE_FILE };

/* @owner: whose files; NULL: everybody is notified. @uri is for CHANGE_FILE. */
void change_publish(struct mcp *mcp, enum change_kind kind, const struct principal *owner,
                    const char *uri);

struct listener {
    struct listener *prev, *next;
    struct principal owner;
    bool tools, prompts, resources;
    json_t *uris; /* an object whose keys are URIs, or NULL */
    json_t *id;   /* of the listening request */
    struct outbox *outbox;
};

/* ---- the protocol as a whole ---- */

struct registry;

struct mcp {
    struct mcp_config config;
    struct registry *registry;
    unsigned char state_key[32];

    pthread_mutex_t lock; /* guards the members below */
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
