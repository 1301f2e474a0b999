/*
 * The service: sessions, executions and files over the engine. This is the module's public header,
 * and the one interface between the dialects (HTTP, MCP, ...) and what they speak of.
 *
 * Every function may be called by any thread and may wait; a connection's thread calls straight
 * down. What is handed out is counted: session_find(), execution_find() and their like give a
 * reference, and each is given back with _unref(). Text and paths that come in are only read during
 * the call. Functions that can fail return 0 or a negative number and fill a struct fault, which is
 * ready to be shown to the client. What user code does wrong is no fault but a receipt.
 *
 * Sessions and executions belong to the principal that made them: for any other they do not exist.
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
    int retry_after_s;    /* 0: saying "later" would be no help */
    enum problem problem; /* a row of base/words/problems.def, which the other two come from */
    const char *type;     /* its word, for programs: "session-expired", "limit-above-ceiling" */
    char loc[64];         /* the field or parameter at fault, or "" */
    char detail[300];     /* what to change; printable UTF-8 */
};

/* Fills @fault, which here and everywhere must not be NULL, and returns a negative number. @loc may
 * be NULL. */
int fault_set(struct fault *fault, enum problem problem, const char *loc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The one way to say that an allocation failed: 503, and worth another try. */
int fault_no_memory(struct fault *fault);

/* ---- configuration ---- */

enum execution_kind {
    EXECUTION_CELL,    /* Python, as a notebook cell */
    EXECUTION_COMMAND, /* a shell command in a process of its own */
    EXECUTION_SHELL,   /* a line for the session's one shell: cd and export stay */
    EXECUTION_SCRIPT,  /* Python, as python3 would run it; not in a session */
};

/* What one key may have at a time. -1: as configured; SERVICE_NO_LIMIT: any number; 0: nothing.
 * They are those of a key in the store; callers without a key are only bound by the service's own.
 */
#define SERVICE_NO_LIMIT INT64_MAX
struct key_limits {
    int64_t sessions;
    int64_t in_flight;       /* executions that run or wait */
    int64_t rate_per_minute; /* executions and new sessions; a tenth of it, at least 10, may come at
                                once */
};

/* What is blocked unless the operator says otherwise: names of standard modules, which nobody
 * publishes under with good intent. */
#define PACKAGES_BLOCKED "os,subprocess,sys,importlib,ctypes,multiprocessing,threading"

/* Packages that callers may install. Strings and lists must stay. */
struct package_config {
    const char *blocked, *allowed; /* names with commas between; allowed NULL: all that are not
                                      blocked. Dependencies need not be allowed, but not blocked */
    bool builds;                   /* packages without a wheel may be built */
    bool urls;                     /* "name @ https://..." may be asked for */
    const char *index_url;         /* NULL: as the host's pip is configured; "none": none */
    char *const *extra_indexes;    /* NULL: likewise */
    char *const *wheels;           /* directories or URLs, besides those of pip; may be NULL */
    char *const *hosts;            /* more hosts that an install may reach, as egress.h has them */
    int64_t set_bytes;             /* of one set */
    int64_t timeout_us;            /* of one install */
    int64_t rate_per_minute;       /* of installs, for each key; SERVICE_NO_LIMIT: any */
    int64_t refresh_us;            /* how long "the newest" is not asked for again */
    int64_t store_bytes, store_age_us; /* of all layers together; of one that nobody uses */
};

struct service_config {
    struct engine_config engine; /* its pool limits are set by us */
    struct store *store;         /* of the audit log and session records; may be NULL. Not closed */
    struct keys *keys;    /* whose times of use the sweeper writes; may be NULL. Not closed */
    const char *data_dir; /* holds spilled output, workspaces and templates; must exist */
    const char *const *template_aliases; /* as templates_resolve() takes them; may be NULL */

    struct limits oneshot, session;       /* the defaults; wall_us here is not used */
    struct limits ceiling;                /* nobody gets more; wall_us here is not used */
    int64_t wall_default_us, wall_max_us; /* of cells and scripts */
    int64_t command_wall_default_us, command_wall_max_us; /* of commands and shells */

    struct package_config packages;

    int64_t sessions_max;
    int64_t idle_us, idle_max_us; /* default and most; the default also without a wish */
    int64_t sweep_us;
    int64_t waiters_max;   /* executions that may wait for their turn in one session */
    int64_t in_flight_max; /* of the whole service */
    struct key_limits key; /* of keys that bring none; callers without a key have none */

    int64_t code_bytes_max;               /* of a program or command */
    int64_t input_bytes_max;              /* of standard input as text */
    int64_t reply_bytes, reply_bytes_max; /* of each stream in a receipt; default and most */
    int64_t kept_count, kept_us;          /* finished executions: how many, how long at most */
    int64_t kept_memory_bytes, kept_disk_bytes; /* what they may hold together */
    int64_t grace_us;                           /* for running executions when draining */

    /* What sessions may ask for, with the operator's own addresses and secrets; NULL: nothing.
     * Stays the caller's, and must stay. */
    const struct egress_policy *network;
    struct egress_config egress;         /* its log is set by us */
    struct egress_limits network_limits; /* of each session */

    /* Each program, before it runs; NULL unless the operator asked for it. Called by any thread. */
    void (*log_code)(void *arg, const char *execution_id, const char *code);
    /* One line of the log; may be NULL. Called by any thread. */
    void (*log)(void *arg, enum log_level level, const char *line);
    void *log_arg;
    int64_t (*now_us)(void); /* for tests; NULL: clock_now_us() */
};

/* Everything but engine, store, data_dir and log. */
void service_config_default(struct service_config *config);

/* ---- the service ---- */

/* Starts the engine, its pool and the sweeper. @config is copied; strings must stay. */
int service_open(const struct service_config *config, struct service **ret_service,
                 struct gb_err *err);

/* Whether new work is taken: the template is warm and nothing drains. */
bool service_is_ready(struct service *service);

/* Waits until the template is warm. */
int service_wait_ready(struct service *service, struct gb_err *err);

/* From now on new work is refused; waits for what runs, at most the grace, then stops it; then ends
 * all sessions. May be called more than once. */
void service_drain(struct service *service);

/* Drains if that has not been done, ends everything and waits for it. No reference may be in use
 * and no other call may be under way. Accepts NULL. */
void service_close(struct service *service);

/* A line for the operator's log, if there is one. */
void service_log(struct service *service, enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The bounds of the histogram of durations in microseconds; the last bucket has none. */
#define SERVICE_BUCKETS 14
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
    int64_t refused; /* requests for work that met a fault */
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

/* ---- callers ---- */

struct caller {
    struct principal principal;
    const char *listener;     /* its address; local principals have a set of packages for each */
    struct key_limits limits; /* of the key */
};

/* ---- limits in requests ---- */

/* A wish: a member of -1 was not asked for. */
void limits_wish_init(struct limits *ret_wish);

/* Reads the object under "limits": timeout, cpu_time (seconds), memory, disk, file_size, output
 * (bytes, or text such as "512m"), cpus, pids, inodes, open_files. NULL is the empty object. */
int limits_wish_from_json(const json_t *object, struct limits *ret_wish, struct fault *fault);

/* The same names on the way back. */
json_t *limits_to_json(const struct limits *limits);

/* ---- sessions ---- */

#define SESSION_ID_MAX 40

struct session_request {
    struct limits limits; /* a wish */
    int64_t idle_us;      /* -1: the default */
    const char *template; /* a name or an alias; NULL: "default" */
    json_t *network; /* {"allow": [...], "secrets": [...]} as docs/NETWORK.md has it, within the
                        operator's ceiling; NULL: none. Values of secrets are wiped in it */
    const char *const *packages;  /* requirements, NULL-terminated; may be NULL */
    const char *const *env;       /* NAME=value, NULL-terminated; may be NULL */
    const struct volume *volumes; /* beneath the directories of engine.volume_roots */
    size_t volumes_len;
};

void session_request_init(struct session_request *ret_request);

enum session_state {
    SESSION_READY,   /* nothing runs */
    SESSION_RUNNING, /* one runs, others may wait */
    SESSION_LOST,    /* its variables are gone and nobody has been told yet */
};

struct session_info {
    char id[SESSION_ID_MAX];
    enum session_state state;
    int64_t age_us, idle_us; /* how long it has been there, how long unused */
    int64_t created_unix_us;
    int64_t idle_limit_us, expires_in_us;
    int64_t execution_count;
    int64_t waiting; /* executions in line, without the one that runs */
    struct limits limits;
    json_t *volumes; /* owned; NULL: none */
    char template[TEMPLATE_NAME_MAX];
};

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

/* {"allow": [...], "secrets": [...]}: whom it may reach, without any value. NULL: no memory. */
json_t *session_network_to_json(struct session *session);

/* The caller's sessions by age, oldest first, after the one with id @after (NULL: from the start).
 * Writes up to @max into @infos, which the caller releases; *@ret_more tells whether there are
 * others. */
int session_list(struct service *service, const struct caller *caller, const char *after,
                 struct session_info *infos, size_t max, size_t *ret_len, bool *ret_more,
                 struct fault *fault);

/* Starts its idle time anew. */
void session_touch(struct session *session);

/* Interrupts what runs in it, with @all also what waits. *@ret_count is how many: 0 is no fault. */
int session_interrupt(struct session *session, bool all, size_t *ret_count, struct fault *fault);

/* Stops what runs in it, refuses what waits, and ends it. Returns once it is gone, which takes at
 * most the grace of an interrupt. The reference stays the caller's. */
int session_delete(struct session *session, struct fault *fault);

/* ---- executions ---- */

#define EXECUTION_ID_MAX 40

struct execution_request {
    enum execution_kind kind;
    const char *code; /* program, command or line; may hold NUL only to be refused */
    size_t code_len;
    const char *filename; /* for tracebacks; NULL: a fitting one */
    const char *input;    /* standard input; NULL: empty */
    size_t input_len;
    const char *names; /* of a cell: JSON text, names to bind and to give back, as
                          docs/PROTOCOL.md has it. Not checked here. NULL: none */
    size_t names_len;
    const char *const *env; /* NAME=value; of one-shots and commands only */
    const char *template;   /* of one-shots only: a name or an alias; NULL: "default" */
    json_t *network;        /* of one-shots only: as that of struct session_request */
    struct limits limits;   /* a wish; in a session only wall_us may be asked for */
    int64_t reply_bytes;    /* budget of each stream; -1: the default */
    bool accept_loss;       /* in a session that lost its variables: go on with new ones */
    int hangup_fd;          /* the client's socket: stop when it hangs up. -1: go on without it */
};

void execution_request_init(struct execution_request *ret_request);

/* Runs it to its end; the caller keeps a reference in *@ret_execution, whose receipt is ready.
 * @session NULL: a one-shot in a fresh box. */
int execution_run_here(struct service *service, const struct caller *caller,
                       struct session *session, const struct execution_request *request,
                       struct execution **ret_execution, struct fault *fault);

/* Starts it on a thread of its own, or puts it in line; the request is copied. For streams, and for
 * those who come back later. hangup_fd is not looked at: a stream's writer knows best. */
int execution_start(struct service *service, const struct caller *caller, struct session *session,
                    const struct execution_request *request, struct execution **ret_execution,
                    struct fault *fault);

/* One that runs, or ended and is still kept. */
int execution_find(struct service *service, const struct caller *caller, const char *id,
                   struct execution **ret_execution, struct fault *fault);
struct execution *execution_ref(struct execution *x);
void execution_unref(struct execution *x); /* accepts NULL */

const char *execution_id(const struct execution *x);
const char *execution_session_id(const struct execution *x); /* NULL: one-shot */

enum execution_state { EXECUTION_WAITING, EXECUTION_RUNNING, EXECUTION_DONE };
enum execution_state execution_state(struct execution *x);

/* Waits until it has ended, at most @timeout_us (negative: for ever); true when it has. */
bool execution_wait(struct execution *x, int64_t timeout_us);

/* Its receipt, new at each call and the caller's own. Before the end: state, ids, times and how
 * much has been printed. A run that was refused or failed on our side tells that as a fault. */
int execution_receipt(struct execution *x, json_t **ret_json, struct fault *fault);

/* The receipt as JSON text, which the caller frees; faster than a tree and its text. False before
 * the end, for what has a fault, and without memory: execution_receipt() says which. */
bool execution_receipt_text(struct execution *x, char **ret_text, size_t *ret_len);

/* Asks it to stop: as with Ctrl-C; asked again: at once. One that waits leaves the line. */
int execution_interrupt(struct execution *x, struct fault *fault);

/* ---- what an execution gives, as it comes ---- */

enum event_kind {
    EVENT_STDOUT,
    EVENT_STDERR,
    EVENT_DISPLAY, /* one element of the receipt's "outputs" */
    EVENT_RESULT,  /* the receipt's "result" */
    EVENT_RECEIPT, /* the receipt itself; the last */
    EVENT_FAULT,   /* instead of a receipt: it was refused in line, or failed on our side */
};

/* "stdout", ...: its name in streams. */
const char *event_kind_name(enum event_kind kind);

/* How far a reader has come. All zero is the start; set out and err to begin at an offset. */
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

/* The next event for this reader: 1 and the event, 0 when none came within @timeout_us, -1 after
 * the last. Any number of readers may read at any time; none holds up the run or costs it memory.
 * @buf is at least 64 bytes; a stream's event is no longer than it. Relative to stdout and stderr a
 * display keeps its place. */
int execution_next_event(struct execution *x, struct event_cursor *cursor, char *buf, size_t size,
                         int64_t timeout_us, struct event *ret_event);
void event_release(struct event *event);

/* A page of a whole stream, raw: up to @size bytes from @offset. *@ret_total is how much there is
 * by now, *@ret_kept how much of that can be read, *@ret_done whether more may come. */
int execution_read_output(struct execution *x, enum stream stream, int64_t offset, char *buf,
                          size_t size, size_t *ret_len, int64_t *ret_total, int64_t *ret_kept,
                          bool *ret_done, struct fault *fault);

/* ---- packages ---- */

/* Installs what is wanted (requirements of PEP 508, NULL-terminated) into a live session, where it
 * can be imported at once, or with @session NULL into the caller's default set, which is there in
 * all fresh boxes that the caller gets from then on. @newest: what comes without a version is to be
 * the newest that the index has. What cannot be installed is a fault; the caller owns the object:
 *
 *   {"success": true, "message", "installed": [{"name", "version", "sha256"}], "present": [{"name",
 *    "version"}], "warnings": [...], "layer", "cached", "seconds"}
 */
int packages_install(struct service *service, const struct caller *caller, struct session *session,
                     const char *const *wanted, bool newest, json_t **ret_json,
                     struct fault *fault);

/* The same for one package by its name, extras with it, and a version: NULL, "" and "latest" are
 * the newest. What is the caller's to mend, or cannot be had for now, is a fault; else there is
 * {"success", "message", "installed_version", "installation_time"}, and "warnings" with a success.
 */
int packages_install_named(struct service *service, const struct caller *caller,
                           struct session *session, const char *package, const char *version,
                           json_t **ret_json, struct fault *fault);
/* {"packages": [{"name", "version", "sha256", "requested"}], "requirements": [...], "layer"} */
int packages_list(struct service *service, const struct caller *caller, struct session *session,
                  json_t **ret_json, struct fault *fault);

/* Forgets the caller's default set. Boxes that have it keep it. */
int packages_reset(struct service *service, const struct caller *caller, struct fault *fault);

/* Whether each is a requirement that may be asked for; the fault says which is not. */
int packages_check(const struct package_config *config, const char *const *wanted,
                   struct fault *fault);

/* ---- files of a session ---- */

/* Paths are raw bytes beneath the workspace: no "..", no empty or "." part, not absolute, no NUL,
 * no more than 4000 bytes, no part above 255. They need not be UTF-8. */
#define FILE_PATH_MAX 4000

/* Entries of directory @dir ("" is the workspace), or of the whole tree beneath it, sorted by
 * bytes, after path @after (empty: from the start). Paths in it are beneath the workspace. Free
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

/* An upload takes its place under its name only when it is committed, whole; parents are made. Any
 * file of that name makes way. @expected is the announced length or -1. What is beyond the
 * session's quota is FAULT_TOO_LARGE. */
struct file_upload;
int files_upload_begin(struct session *session, const char *path, size_t path_len, int64_t expected,
                       struct file_upload **ret_upload, struct fault *fault);
int files_upload_write(struct file_upload *upload, const void *data, size_t len,
                       struct fault *fault);
/* Frees it, also when it fails. *@ret_created: there was none before. */
int files_upload_commit(struct file_upload *upload, bool *ret_created, struct fault *fault);
void files_upload_abort(struct file_upload *upload); /* accepts NULL */

/* A directory only when empty, unless @recursive. */
int files_delete(struct session *session, const char *path, size_t path_len, bool recursive,
                 struct fault *fault);
/* Replaces what is at @to only when @replace. Parents of @to are made. */
int files_move(struct session *session, const char *from, size_t from_len, const char *to,
               size_t to_len, bool replace, struct fault *fault);
/* Parents too; one that is there already is fine. */
int files_mkdir(struct session *session, const char *path, size_t path_len, struct fault *fault);

/* The tree beneath @dir as tar.gz, handed to @write piece by piece; a negative answer of it ends
 * the archive. Links are left out. */
int files_archive(struct session *session, const char *dir, size_t dir_len,
                  int (*write)(void *arg, const void *data, size_t len), void *arg,
                  struct fault *fault);
