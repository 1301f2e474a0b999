/*
 * The service: sessions, executions and files over the engine. This is the module's public header,
 * and the only interface that the dialects (HTTP, MCP, ...) use.
 *
 * Every function may be called by any thread and may wait; a connection's thread calls straight
 * down. Objects are reference-counted: session_find(), execution_find() and similar functions
 * return a reference, which is released with _unref(). Text and paths that are passed in are only
 * read during the call. Functions that can fail return 0 or a negative number and fill a struct
 * fault, which is ready to be shown to the client. Errors of user code are not faults; they are in
 * the receipt.
 *
 * Sessions and executions belong to the principal that created them: for any other they do not
 * exist.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/words/problem.h"
#include "egress/egress.h"
#include "engine/engine.h"
#include "engine/limits.h"
#include "service/access/principal.h"
#include "service/template/templates.h"

struct service;
struct session;
struct execution;
struct keys;
struct template_entry;
struct store;

/* ---- faults: why a request was refused ---- */

enum fault_kind {
    FAULT_NONE = 0,
    FAULT_BAD_REQUEST = 400,
    FAULT_UNAUTHORIZED = 401,
    FAULT_FORBIDDEN = 403,
    FAULT_NOT_FOUND = 404,
    FAULT_CONFLICT = 409,
    FAULT_TOO_LARGE = 413,
    FAULT_INVALID = 422,
    FAULT_TOO_MANY = 429,
    FAULT_INTERNAL = 500,
    FAULT_UNAVAILABLE = 503,
};

struct fault {
    enum fault_kind kind; /* its value is the HTTP status */
    int retry_after_s;    /* 0: retrying later does not help */
    enum problem problem; /* a row of base/words/problems.def, which determines the other two */
    const char *type;     /* its word, for programs: "session-expired", "limit-above-ceiling" */
    char loc[64];         /* the field or parameter at fault, or "" */
    char detail[300];     /* what to change; printable UTF-8 */
};

/* Fills @fault, which must never be NULL, here and everywhere, and returns a negative number. @loc
 * may be NULL. */
int fault_set(struct fault *fault, enum problem problem, const char *loc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The one way to report a failed allocation: 503, and worth a retry. */
int fault_no_memory(struct fault *fault);

/* ---- configuration ---- */

enum execution_kind {
    EXECUTION_CELL,    /* Python, as a notebook cell */
    EXECUTION_COMMAND, /* a shell command in its own process */
    EXECUTION_SHELL,   /* a line for the session's persistent shell: cd and export carry over */
    EXECUTION_SCRIPT,  /* Python, as python3 runs it; not in a session */
};

/* The quotas of one key. -1: the configured default; SERVICE_NO_LIMIT: any number; 0: nothing. They
 * come from the key in the store; for callers without a key only the service's own limits apply. */
#define SERVICE_NO_LIMIT INT64_MAX
struct key_limits {
    int64_t sessions;
    int64_t in_flight;       /* executions that run or wait */
    int64_t rate_per_minute; /* executions and new sessions; bursts of a tenth of it, at least 10 */
};

/* Blocked by default: names of standard modules, which nobody publishes under with good intent. */
#define PACKAGES_BLOCKED "os,subprocess,sys,importlib,ctypes,multiprocessing,threading"

/* Packages that callers may install. Strings and lists must stay valid. */
struct package_config {
    const char *blocked, *allowed; /* comma-separated names; allowed NULL: all that are not blocked.
                                      Dependencies need not be allowed, but must not be blocked */
    bool builds;                   /* packages without a wheel may be built */
    bool urls;                     /* "name @ https://..." is allowed */
    const char *uv;                /* the program uv; NULL, "auto": found or fetched; "none" */
    const char *index_url;         /* NULL: the host's pip configuration; "none": none */
    char *const *extra_indexes;    /* NULL: the same */
    char *const *wheels;           /* directories or URLs, besides pip's own; may be NULL */
    char *const *hosts;            /* additional hosts that an install may reach, as in egress.h */
    int64_t set_bytes;             /* of one set */
    int64_t timeout_us;            /* of one install */
    int64_t rate_per_minute;       /* of installs, for each key; SERVICE_NO_LIMIT: any */
    int64_t refresh_us;            /* how long a resolved newest version is cached */
    int64_t store_bytes, store_age_us; /* of all layers together; of one that nobody uses */
};

struct service_config {
    struct engine_config engine; /* its pool limits are set by us */
    size_t inner_roots_len; /* so many at the end of engine.volume_roots are not for clients, but
                               for those of us who decide themselves who may see what (Mark) */
    struct store *store;    /* of the audit log and session records; may be NULL. Not closed */
    struct keys *keys;      /* whose times of use the sweeper writes; may be NULL. Not closed */
    const char *data_dir;   /* for spilled output, workspaces and templates; must exist */
    const char *const *template_aliases; /* for templates_resolve(); may be NULL */
    /* The default template, furnished: the engine's interpreter, directories and packages come from
     * it. It belongs to the caller and must stay valid. NULL: the system's Python. */
    const struct template_entry *template;

    struct limits oneshot, session;                       /* the defaults; wall_us is not used */
    struct limits ceiling;                                /* the maximum; wall_us is not used */
    int64_t wall_default_us, wall_max_us;                 /* of cells and scripts */
    int64_t command_wall_default_us, command_wall_max_us; /* of commands and shells */

    struct package_config packages;

    int64_t sessions_max;
    int64_t idle_us, idle_max_us; /* default and maximum; the default also if a request has none */
    int64_t sweep_us;
    int64_t waiters_max;   /* executions that may wait in one session */
    int64_t in_flight_max; /* of the whole service */
    int64_t terminals_max; /* likewise */
    int64_t terminals_per_caller;
    struct key_limits key; /* for keys without their own; callers without a key have none */

    int64_t code_bytes_max;               /* of a program or command */
    int64_t input_bytes_max;              /* of standard input as text */
    int64_t reply_bytes, reply_bytes_max; /* of each stream in a receipt; default and maximum */
    int64_t kept_count, kept_us;          /* finished executions: how many, how long at most */
    int64_t kept_memory_bytes, kept_disk_bytes; /* what they may use together */
    int64_t grace_us; /* how long running executions may continue when draining */

    /* The network that sessions may ask for, with the operator's own addresses and secrets; NULL:
     * none. Belongs to the caller and must stay valid. */
    const struct egress_policy *network;
    struct egress_config egress;         /* its log is set by us */
    struct egress_limits network_limits; /* of each session */

    /* Called with each program before it runs; NULL unless the operator asked for it. Any
     * thread. */
    void (*log_code)(void *arg, const char *execution_id, const char *code);
    /* Writes one line to the log; may be NULL. Any thread. */
    void (*log)(void *arg, enum log_level level, const char *line);
    void *log_arg;
    int64_t (*now_us)(void); /* for tests; NULL: clock_now_us() */
};

/* Fills everything except engine, store, data_dir and log. */
void service_config_default(struct service_config *config);

/* ---- the service ---- */

/* Starts the engine, its pool and the sweeper. @config is copied; strings must stay valid. */
int service_open(const struct service_config *config, struct service **ret_service,
                 struct gb_err *err);

/* Whether new work is accepted: the template is warm and the service is not draining. */
bool service_is_ready(struct service *service);

/* Waits until the template is warm. */
int service_wait_ready(struct service *service, struct gb_err *err);

/* Refuses new work from now on; waits for running executions, at most the grace period, then stops
 * them; then ends all sessions. May be called more than once. */
void service_drain(struct service *service);

/* Drains if that has not been done, ends everything and waits for it. No reference may be in use
 * and no other call may be under way. Accepts NULL. */
void service_close(struct service *service);

/* Writes a line to the operator's log, if there is one. */
void service_log(struct service *service, enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds an entry that is not of an execution to the audit log (access/audit.h), if there is one. */
struct audit_entry;
int service_audit(struct service *service, const struct audit_entry *entry, struct gb_err *err);

/* The bounds of the histogram of durations in microseconds; the last bucket is unbounded. */
#define SERVICE_BUCKETS 19
extern const int64_t service_bucket_us[SERVICE_BUCKETS - 1];
#define STATUS(...) +1
enum {
    SERVICE_STATUSES =
#include "base/words/status.def"
};

struct service_stats {
    bool ready, draining;
    int64_t uptime_us;
    int64_t boxes_ready, boxes_live;
    int64_t sessions_live, sessions_max, sessions_made, sessions_expired, sessions_lost;
    int64_t executions_running, executions_waiting, executions_kept;
    int64_t executions[SERVICE_STATUSES];      /* by enum run_status, since the start */
    int64_t duration_buckets[SERVICE_BUCKETS]; /* not cumulative */
    int64_t duration_sum_us, duration_count;
    int64_t terminals_live, terminals_opened;
    int64_t refused; /* requests for work that were refused */
    int64_t installs, installs_cached, installs_failed;
    int64_t layers, layers_bytes;
    int64_t server_rss_bytes;
    int64_t kept_memory_bytes, kept_disk_bytes; /* of finished and running executions */
    struct egress_stats network;
    struct engine_info engine;
};

void service_get_stats(struct service *service, struct service_stats *ret_stats);

/* "ok", "timeout", ...: the label of executions[i] in metrics. */
const char *service_status_name(size_t i);

/* Defaults and ceilings, as GET /v1/limits shows them; the caller owns the object. */
json_t *service_limits_to_json(struct service *service);

/* The templates and their aliases, as GET /v1/templates shows them; the caller owns the object. */
json_t *service_templates_to_json(struct service *service);

/* The name of the default template. */
const char *service_template_name(const struct service *service);

/* Its most important packages with their versions, "numpy 2.4.6, pandas 3.1.1", for descriptions:
 * at most SERVICE_PACKAGES_MAX bytes. */
#define SERVICE_PACKAGES_MAX 1200
const char *service_packages_text(const struct service *service);

/* ---- callers ---- */

struct caller {
    struct principal principal;
    const char *listener;     /* address; local principals have a set of packages for each */
    struct key_limits limits; /* of the key */
    bool is_guest;            /* a user for a day, who may do less */
};

/* ---- limits in requests ---- */

/* Requested limits: a member of -1 was not requested. */
void limits_wish_init(struct limits *ret_wish);

/* Reads the object under "limits": timeout, cpu_time (seconds), memory, disk, file_size, output
 * (bytes, or text such as "512m"), cpus, pids, inodes, open_files. NULL is the empty object. */
int limits_wish_from_json(const json_t *object, struct limits *ret_wish, struct fault *fault);

/* The reverse, with the same names. */
json_t *limits_to_json(const struct limits *limits);

/* ---- sessions ---- */

#define SESSION_ID_MAX 40

struct session_request {
    struct limits limits; /* as requested */
    int64_t idle_us;      /* -1: the default */
    const char *template; /* a name or an alias; NULL: the default one */
    json_t *network;      /* {"allow": [...], "secrets": [...]} as in docs/NETWORK.md, within the
                             operator's ceiling; NULL: none. Secrets are wiped in it */
    const char *const *packages;  /* requirements, NULL-terminated; may be NULL */
    bool no_installs;             /* its programs cannot install packages (%pip) */
    const char *const *env;       /* NAME=value, NULL-terminated; may be NULL */
    const struct volume *volumes; /* beneath the directories of engine.volume_roots */
    size_t volumes_len;
    bool inner_volumes; /* also beneath those of inner_roots_len. Never what a client says */
};

void session_request_init(struct session_request *ret_request);

enum session_state {
    SESSION_READY,   /* nothing runs */
    SESSION_RUNNING, /* one runs, others may wait */
    SESSION_LOST,    /* its variables are gone and no client has been told yet */
};

struct session_info {
    char id[SESSION_ID_MAX];
    enum session_state state;
    int64_t age_us, idle_us; /* how long it has existed, how long it has been idle */
    int64_t created_unix_us;
    int64_t idle_limit_us, expires_in_us;
    int64_t execution_count;
    int64_t waiting; /* queued executions, without the running one */
    struct limits limits;
    json_t *volumes; /* owned; NULL: none */
    char template[TEMPLATE_NAME_MAX];
};

/* Whether sessions may mount @directory: beneath those that the operator lists; @inner as
 * inner_volumes. Does not look whether it is there. */
int session_may_mount(struct service *service, const char *directory, bool inner,
                      struct fault *fault);
int session_create(struct service *service, const struct caller *caller,
                   const struct session_request *request, struct session **ret_session,
                   struct fault *fault);
int session_find(struct service *service, const struct caller *caller, const char *id,
                 struct session **ret_session, struct fault *fault);
struct session *session_ref(struct session *session);
void session_unref(struct session *session); /* accepts NULL */

const char *session_id(const struct session *session);
void session_get_info(struct session *session, struct session_info *ret_info);
void session_info_release(struct session_info *info);
json_t *session_info_to_json(const struct session_info *info);

/* {"allow": [...], "secrets": [...]}: what it may reach, without any value. NULL: out of memory. */
json_t *session_network_to_json(struct session *session);

/* The caller's sessions by age, oldest first, after the one with id @after (NULL: from the start).
 * Writes up to @max into @infos, which the caller releases; *@ret_more says whether there are
 * more. */
int session_list(struct service *service, const struct caller *caller, const char *after,
                 struct session_info *infos, size_t max, size_t *ret_len, bool *ret_more,
                 struct fault *fault);

/* Resets its idle timer. */
void session_touch(struct session *session);

/* Questions about the interpreter of a session, between two executions. They are not executions:
 * no count, no receipt, no audit entry. If something runs or waits, the answer says so at once, and
 * an execution that comes meanwhile does not wait for one. Completions and help reset the idle
 * timer, the list of variables does not, so that a page that shows it keeps nothing alive. */
enum look_op { LOOK_COMPLETE, LOOK_INSPECT, LOOK_VARIABLES };

#define LOOK_TEXT_MAX (256 * 1024) /* bytes of code */

struct look_request {
    enum look_op op;
    const char *code; /* UTF-8; not for the variables */
    size_t code_len;
    int64_t cursor; /* in code points; negative: at the end */
};

/* The reply as docs/API.md describes it. Waits a few seconds at most. */
int session_look(struct session *session, const struct look_request *request, json_t **ret_json,
                 struct fault *fault);

/* Interrupts the running execution, with @all also the queued ones. *@ret_count is how many; 0 is
 * not a fault. */
int session_interrupt(struct session *session, bool all, size_t *ret_count, struct fault *fault);

/* Stops the running execution, refuses the queued ones, and ends the session. Returns once it is
 * gone, which takes at most the grace period of an interrupt. The caller keeps its reference. */
int session_delete(struct session *session, struct fault *fault);

/* ---- shares: notebooks that others may read ---- */

/* A copy of @notebook, hostile JSON, that everyone may read who has its id, for 30 days. A caller
 * can have 50 of them with 64 MiB. *@ret_json is a description, as in the list. */
int share_create(struct service *service, const struct caller *caller, const char *title,
                 const json_t *notebook, json_t **ret_json, struct fault *fault);
/* {"shares": [...]}: the caller's own, without the notebooks. */
int share_list(struct service *service, const struct caller *caller, json_t **ret_json,
               struct fault *fault);
/* Anybody's: JSON text with the description and the notebook, for free(). */
int share_read(struct service *service, const char *id, char **ret_text, size_t *ret_len,
               struct fault *fault);
/* The caller's own. */
int share_delete(struct service *service, const struct caller *caller, const char *id,
                 struct fault *fault);

/* ---- executions ---- */

#define EXECUTION_ID_MAX 40

struct execution_request {
    enum execution_kind kind;
    const char *code; /* program, command or line; one with a NUL is refused */
    size_t code_len;
    const char *filename; /* for tracebacks; NULL: a suitable default */
    const char *input;    /* standard input; NULL: empty */
    size_t input_len;
    const char *names; /* of a cell: JSON text, names to bind and to return, as in docs/PROTOCOL.md.
                          Not checked here. NULL: none */
    size_t names_len;
    const char *const *env; /* NAME=value, for this execution; not of a persistent shell */
    const char *template;   /* of one-shots only: a name or an alias; NULL: the default one */
    json_t *network;        /* of one-shots only: as in struct session_request */
    struct limits limits;   /* as requested; in a session only wall_us may be set */
    int64_t reply_bytes;    /* budget of each stream; -1: the default */
    bool accept_loss;       /* in a session that lost its variables: continue with new ones */
    /* Requests of its cells that are not about packages: as run_spec.ask. The argument must stay
     * valid until the execution has ended. May be NULL. */
    int (*ask)(void *arg, const char *json, size_t len);
    void *ask_arg;
    int64_t ask_us; /* how long its cells may wait for such answers in total */
    int hangup_fd;  /* the client's socket: stop if it hangs up. -1: continue without it */
};

void execution_request_init(struct execution_request *ret_request);

/* Runs it to its end; the caller gets a reference in *@ret_execution, whose receipt is ready.
 * @session NULL: a one-shot in a fresh box. */
int execution_run_here(struct service *service, const struct caller *caller,
                       struct session *session, const struct execution_request *request,
                       struct execution **ret_execution, struct fault *fault);

/* Starts it on a separate thread, or queues it; the request is copied. For streams, and for clients
 * that come back later. hangup_fd is ignored: the writer of a stream notices it first. */
int execution_start(struct service *service, const struct caller *caller, struct session *session,
                    const struct execution_request *request, struct execution **ret_execution,
                    struct fault *fault);

/* An execution that is running, or has ended and is still kept. */
int execution_find(struct service *service, const struct caller *caller, const char *id,
                   struct execution **ret_execution, struct fault *fault);
struct execution *execution_ref(struct execution *x);
void execution_unref(struct execution *x); /* accepts NULL */

const char *execution_id(const struct execution *x);
const char *execution_session_id(const struct execution *x); /* NULL: one-shot */

enum execution_state { EXECUTION_WAITING, EXECUTION_RUNNING, EXECUTION_DONE };
enum execution_state execution_state(struct execution *x);

/* Waits until it has ended, at most @timeout_us (negative: forever); true if it has. */
bool execution_wait(struct execution *x, int64_t timeout_us);

/* Its receipt, built by each call and owned by the caller. Before the end: state, ids, times and
 * how much has been printed. If the run was refused or failed on our side, that is the fault. */
int execution_receipt(struct execution *x, json_t **ret_json, struct fault *fault);

/* The receipt as JSON text, which the caller frees; faster than building and dumping a tree. False
 * if it is not finished, has a fault, or out of memory: execution_receipt() tells which. */
bool execution_receipt_text(struct execution *x, char **ret_text, size_t *ret_len);

/* Asks it to stop, as with Ctrl-C; the second time, at once. A queued execution leaves the
 * queue. */
int execution_interrupt(struct execution *x, struct fault *fault);

/* ---- events of an execution, as they happen ---- */

enum event_kind {
    EVENT_STDOUT,
    EVENT_STDERR,
    EVENT_DISPLAY, /* one element of the receipt's "outputs" */
    EVENT_RESULT,  /* the receipt's "result" */
    EVENT_RECEIPT, /* the receipt itself; the last */
    EVENT_FAULT,   /* instead of a receipt: it was refused in the queue, or failed on our side */
};

/* "stdout", ...: its name in streams. */
const char *event_kind_name(enum event_kind kind);

/* The position of a reader. All zero is the start; set out and err to begin at an offset. */
struct event_cursor {
    int64_t out, err; /* raw bytes of each stream that were read */
    size_t displays;
    bool result, last;
};

struct event {
    enum event_kind kind;
    int64_t offset;   /* streams: of its first byte, in raw bytes */
    int64_t next;     /* streams: where the next begins */
    int64_t left_out; /* streams: raw bytes before @offset that were not kept */
    const char *text; /* streams: valid UTF-8, in the reader's buffer */
    size_t text_len;
    json_t *json; /* displays, result, receipt: owned, free with event_release() */
    struct fault fault;
};

/* The next event for this reader: 1 and the event, 0 if none came within @timeout_us, -1 after the
 * last. Any number of readers may read at any time; none delays the run or costs it memory. @buf is
 * at least 64 bytes; a stream's event is no longer than that. A display keeps its place relative to
 * stdout and stderr. */
int execution_next_event(struct execution *x, struct event_cursor *cursor, char *buf, size_t size,
                         int64_t timeout_us, struct event *ret_event);
void event_release(struct event *event);

/* A page of a whole stream, raw: up to @size bytes from @offset. *@ret_total is how much there is
 * so far, *@ret_kept how much of that can be read, *@ret_done whether more may come. */
int execution_read_output(struct execution *x, enum stream stream, int64_t offset, char *buf,
                          size_t size, size_t *ret_len, int64_t *ret_total, int64_t *ret_kept,
                          bool *ret_done, struct fault *fault);

/* ---- terminals: interactive programs in a session's box ----
 *
 * A terminal runs beside the executions of its session and ends with it. What the program prints is
 * kept in a ring, so that clients can come and go. Input, but neither output nor a client that only
 * watches, resets the idle timer of the session. */

#define TERMINAL_ID_MAX       40
#define TERMINALS_PER_SESSION 8
#define TERMINAL_CLIENTS      4
#define TERMINAL_KEPT_BYTES   (256u * 1024) /* of output */
#define TERMINAL_INPUT_BYTES  (64u * 1024)  /* of one message */
#define TERMINAL_SIDE_MAX     1000          /* columns or rows; at least 1 */

struct terminal;
struct terminal_client;

struct terminal_request {
    int64_t cols, rows;
    const char *const *argv; /* NULL: a shell */
    const char *const *env;  /* NAME=value, NULL-terminated; may be NULL */
};

struct terminal_info {
    char id[TERMINAL_ID_MAX];
    char session_id[SESSION_ID_MAX];
    int64_t cols, rows;
    bool exited;
    int exit_code; /* if it has exited; as a shell shows it */
    int64_t created_unix_us;
    int64_t clients;
};

/* Starts the program; returns once it runs. */
int terminal_open(struct session *session, const struct caller *caller,
                  const struct terminal_request *request, struct terminal **ret_terminal,
                  struct fault *fault);
int terminal_find(struct session *session, const char *id, struct terminal **ret_terminal,
                  struct fault *fault);
struct terminal *terminal_ref(struct terminal *terminal);
void terminal_unref(struct terminal *terminal); /* accepts NULL */

void terminal_get_info(struct terminal *terminal, struct terminal_info *ret_info);

/* Those of the session, oldest first; returns how many. Those that exited are listed until they are
 * deleted, or replaced by others. */
size_t terminal_list(struct session *session, struct terminal_info infos[TERMINALS_PER_SESSION]);

/* Ends its processes (a hang-up, then a kill) and removes it. Returns once they are gone. */
int terminal_delete(struct session *session, struct terminal *terminal, struct fault *fault);

/* Attaches a client, which sees the output from @offset on, as far as that is kept; negative: all
 * that is kept. The client holds a reference. */
int terminal_attach(struct terminal *terminal, int64_t offset, struct terminal_client **ret_client,
                    struct fault *fault);
void terminal_detach(struct terminal_client *client); /* accepts NULL */

/* Where its output begins, and *@ret_end: where that begins that was not there before it attached;
 * *@ret_missed: older output is gone. Before the first terminal_next(). */
int64_t terminal_client_start(struct terminal_client *client, int64_t *ret_end, bool *ret_missed);

enum terminal_news {
    TERMINAL_NOTHING, /* within the time */
    TERMINAL_OUTPUT,
    TERMINAL_ROOM, /* input is accepted again */
    TERMINAL_SLOW, /* the client is too slow: it gets nothing more, and must be detached */
    TERMINAL_EXIT, /* after all output */
};

/* Waits for news. Output is raw bytes in @buf. One thread per client. */
enum terminal_news terminal_next(struct terminal_client *client, char *buf, size_t size,
                                 int64_t timeout_us, size_t *ret_len);

/* Whether it was too slow; from any thread. */
bool terminal_client_slow(struct terminal_client *client);

/* Queues input for the program; never waits. False if there is no room, because the program does
 * not read: see terminal_takes_input(). Input for a program that has ended is dropped. */
bool terminal_input(struct terminal_client *client, const void *data, size_t len);

/* Whether there is room for at least one more message. */
bool terminal_takes_input(struct terminal_client *client);

/* Each from 1 to TERMINAL_SIDE_MAX; the last call wins. */
void terminal_resize(struct terminal_client *client, int64_t cols, int64_t rows);

/* ---- packages ---- */

enum install_stage { INSTALL_RESOLVING, INSTALL_FETCHING, INSTALL_UNPACKING };

/* "resolving", ... */
const char *install_stage_name(enum install_stage stage);

struct install_progress {
    enum install_stage stage;
    int64_t done, total;        /* packages */
    int64_t bytes, bytes_total; /* of downloads; 0: unknown */
    const char *name;           /* of the package that is done, in ASCII, or "" */
};

/* Follows an install. Called on the thread that installs, which waits meanwhile. */
struct install_watch {
    void (*tell)(void *arg, const struct install_progress *progress); /* may be NULL */
    void *arg;
};

struct install_order {
    const char *const *wanted; /* requirements of PEP 508, NULL-terminated; or, to remove packages,
                                  their names */
    bool newest;               /* requirements without a version get the newest one in the index */
    bool remove;
    struct install_watch watch;
    int cancel_fd; /* readable: stop. -1: none */
};

/* Installs packages into a live session, where they can be imported at once, or with @session NULL
 * into the caller's default set, which all later fresh boxes of the caller have; or removes them
 * from there. Versions that are there already may change if a requirement needs that. A failed
 * install is a fault. The caller owns the object:
 *
 *   {"success": true, "message", "installed": [{"name", "version", "sha256"}], "present": [{"name",
 *    "version"}], "removed": [{"name", "version"}], "warnings": [...], "layer", "cached",
 *    "seconds"} */
int packages_install(struct service *service, const struct caller *caller, struct session *session,
                     const struct install_order *order, json_t **ret_json, struct fault *fault);

/* The same for one package by its name, which may have extras, and a version: NULL, "" and "latest"
 * are the newest. Of @how, which may be NULL, the watch and cancel_fd are used. An error that the
 * caller can fix, or a temporary one, is a fault; otherwise the object has {"success", "message",
 * "installed_version", "installation_time"}, and "warnings" on success. */
int packages_install_named(struct service *service, const struct caller *caller,
                           struct session *session, const char *package, const char *version,
                           const struct install_order *how, json_t **ret_json, struct fault *fault);
/* An install on a separate thread, for streams and for calls that report progress. */
struct install_task;

struct install_event {
    bool last;                        /* @json or @fault; otherwise progress */
    struct install_progress progress; /* its name is valid until the next call */
    json_t *json;                     /* as packages_install() returns it, or NULL; the caller's */
    struct fault fault;
};

/* Starts it. With @package it is packages_install_named(), otherwise packages_install(), and what
 * the order points to is copied; its watch and cancel_fd are not used. */
int install_task_start(struct service *service, const struct caller *caller,
                       struct session *session, const struct install_order *order,
                       const char *package, const char *version, struct install_task **ret_task,
                       struct fault *fault);
/* Waits for the next event: 1, 0 if there was none within @timeout_us, -1 after the last. A reader
 * that is slow misses some of the progress. */
int install_task_next(struct install_task *task, int64_t timeout_us,
                      struct install_event *ret_event);
/* Cancels it unless it has ended, and does not wait. Accepts NULL. */
void install_task_free(struct install_task *task);

/* The newest versions of the requirements (NULL-terminated, checked by the caller) and of what they
 * need, with the hashes of their wheels for the versions of Python and the machines that presets
 * are for: the text of a lock file (package/lock.h), which the caller frees. */
int packages_make_lock(struct service *service, const char *const *wanted,
                       const struct install_watch *watch, char **ret_text, struct fault *fault);

/* {"packages": [{"name", "version", "sha256", "requested"}], "requirements": [...], "layer"} */
int packages_list(struct service *service, const struct caller *caller, struct session *session,
                  json_t **ret_json, struct fault *fault);

/* Empties the caller's default set. Boxes that have it keep it. */
int packages_reset(struct service *service, const struct caller *caller, struct fault *fault);

/* Whether each is a permitted requirement; the fault names the first that is not. */
int packages_check(const struct package_config *config, const char *const *wanted,
                   struct fault *fault);

/* ---- files of a session ---- */

/* Paths are raw bytes beneath the workspace: no "..", no empty or "." part, not absolute, no NUL,
 * no more than 4000 bytes, no part above 255. They need not be UTF-8. */
#define FILE_PATH_MAX 4000

/* Entries of directory @dir ("" is the workspace), or of the whole tree beneath it, sorted by
 * bytes, after path @after (empty: from the start). Their paths are relative to the workspace. Free
 * with file_list_release(). */
int files_list(struct session *session, const char *dir, size_t dir_len, bool recursive,
               const char *after, size_t after_len, size_t max, struct file_list *ret_list,
               struct fault *fault);

/* As JSON: path (U+FFFD where it is not UTF-8, and then path_base64 too), kind, size, mtime. */
json_t *file_info_to_json(const struct file_info *info);

#define FILE_ETAG_MAX 64
struct file_reader {
    int fd;                   /* the caller's; a regular file, open for reading */
    int64_t size, mtime_ns;   /* mtime since 1970 */
    char etag[FILE_ETAG_MAX]; /* with its quotes */
};

int files_open(struct session *session, const char *path, size_t path_len,
               struct file_reader *ret_reader, struct fault *fault);

/* An upload appears under its name only when it is committed, complete; missing directories are
 * created, and a file of that name is replaced. @expected is the announced length or -1. Beyond the
 * session's quota it is FAULT_TOO_LARGE. */
struct file_upload;
int files_upload_begin(struct session *session, const char *path, size_t path_len, int64_t expected,
                       struct file_upload **ret_upload, struct fault *fault);
int files_upload_write(struct file_upload *upload, const void *data, size_t len,
                       struct fault *fault);
/* Frees it, even on failure. *@ret_created: the file did not exist before. */
int files_upload_commit(struct file_upload *upload, bool *ret_created, struct fault *fault);
void files_upload_abort(struct file_upload *upload); /* accepts NULL */

/* A directory is removed only if it is empty, or with @recursive. */
int files_delete(struct session *session, const char *path, size_t path_len, bool recursive,
                 struct fault *fault);
/* Replaces an existing @to only with @replace. Missing directories above @to are created. */
int files_move(struct session *session, const char *from, size_t from_len, const char *to,
               size_t to_len, bool replace, struct fault *fault);
/* Creates missing parents too; an existing directory is not an error. */
int files_mkdir(struct session *session, const char *path, size_t path_len, struct fault *fault);

/* The tree beneath @dir as tar.gz, passed to @write piece by piece; a negative return value of it
 * ends the archive. Links are left out. */
int files_archive(struct session *session, const char *dir, size_t dir_len,
                  int (*write)(void *arg, const void *data, size_t len), void *arg,
                  struct fault *fault);
