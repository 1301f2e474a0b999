/*
 * The parts of the service and how they share state.
 *
 * Locks, in the order in which they may be taken:
 *   1. service->lock: the tables, the lists, the accounts, the numbers in flight
 *   2. session->lock: the line of executions, what the session is, when it was used
 *   3. execution->lock: how far it has come, its output, its outcome
 * Each is held for a few steps only: never while code runs, never over a call of the engine or the
 * store. Who has the turn in a session (turn_wait() to turn_give()) is the only one to touch its
 * lodging, without a lock; that is what keeps executions in order.
 *
 * References: the table of sessions holds one while a session lives, each execution of it holds one
 * until it has ended, and so does everybody to whom it was handed. With the last the box goes. The
 * table of executions holds one while an execution runs or is kept; it holds no session then, so
 * what is kept keeps no box.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "engine/engine.h"
#include "service/access/audit.h"
#include "service/execution/output_log.h"
#include "service/id_table.h"
#include "service/package/layers.h"
#include "service/service.h"
#include "service/session/engine_calls.h"
#include "service/session/reaper.h"

/* ---- quota.c: what a key has at a time; all under service->lock ---- */

struct account {
    struct id_node node;
    char key_id[STORE_ID_MAX];
    int64_t sessions, in_flight;
    struct bucket {
        int64_t tokens_milli, filled_us;
    } work, installs; /* of the rates */
    int64_t refs;     /* sessions and executions that point here */
};

/* Takes one session, or one execution, from what the caller may have. */
int account_take_session(struct service *service, const struct caller *caller,
                         struct account **ret_account, struct fault *fault);
int account_take_execution(struct service *service, const struct caller *caller,
                           struct account **ret_account, struct fault *fault);
/* One install from the rate of the key, with service->lock not held. */
int account_take_install(struct service *service, const struct caller *caller, struct fault *fault);
void account_give_session(struct account *account);
void account_give_execution(struct account *account);
/* Forgets those that have nothing and whose rate has recovered. */
void account_sweep(struct service *service);

/* ---- session/session.c ---- */

enum session_end { END_NONE, END_EXPIRED, END_DELETED, END_SHUTDOWN };

/* One that has ended, so that we can say why. */
struct tombstone {
    char id[SESSION_ID_MAX];
    char key_id[STORE_ID_MAX];
    enum session_end end;
    uint64_t serial;
};

#define TOMBSTONES 1024u

/* Outlives the session while output of its executions is kept. */
struct session_budget {
    _Atomic int refs;
    struct output_budget output;
};

TAILQ_HEAD(execution_list, execution);
TAILQ_HEAD(session_list_head, session);

struct session {
    /* under service->lock */
    struct id_node node;
    TAILQ_ENTRY(session) by_age;

    /* never changed */
    struct service *service;
    struct account *account;
    char id[SESSION_ID_MAX];
    char key_id[STORE_ID_MAX];
    uint64_t serial;
    struct limits limits; /* of the box; wall_us is the default of a cell, cpu_us is 0 */
    char template[TEMPLATE_NAME_MAX];
    int64_t cpu_us;            /* of each execution */
    json_t *network;           /* as it is shown; NULL: none */
    struct bindings *bindings; /* NULL: none */
    int64_t idle_us, created_us, created_unix_us;
    struct session_budget *budget;

    _Atomic int refs;

    pthread_mutex_t lock;
    enum session_end end;
    bool busy; /* somebody has the turn */
    struct execution_list line;
    int64_t line_len;
    int64_t users; /* file operations under way */
    int64_t last_used_us;
    int64_t execution_count;
    uint64_t epoch;   /* grows with each loss of the variables */
    bool loss_untold; /* nobody who came after it has been told */
    struct execution *running;

    pthread_mutex_t packages_lock; /* before all others, and held over a whole install */
    struct layer *layer;           /* under it: what is mounted; NULL: nothing */
    json_t *requirements;          /* under it: what was asked for; NULL: nothing */
    unsigned mounts;               /* under it: how often */

    struct lodging lodging; /* of who has the turn */
    int cancel_fd;          /* an eventfd; of the execution that runs */
};

/* Ends it: out of the table, what runs is stopped, what waits is refused. Once only; the first
 * reason counts. Returns whether it was this call. */
bool session_stop(struct session *session, enum session_end end);
void session_fault_ended(enum session_end end, const char *id, struct fault *fault);

/* Between these the session does not expire. */
int session_use_begin(struct session *session, struct fault *fault);
void session_use_end(struct session *session);

/* Ends those that were idle for too long. */
void session_sweep(struct service *service);

void budget_unref(struct session_budget *budget);

/* ---- session/queue.c: the line of executions in a session ---- */

/* Puts the execution in line, or gives it the turn if nobody has it. */
int turn_enter(struct session *session, struct execution *x, struct fault *fault);
/* 0 with the turn, 1 when it was interrupted in line, or a fault. */
int turn_wait(struct session *session, struct execution *x, struct fault *fault);
void turn_give(struct session *session);
/* Wakes one that waits so that it looks whether it was interrupted. */
void turn_wake(struct session *session, struct execution *x);
/* The variables are gone; @told: and the one who has the turn hears it instead of a receipt. */
void turn_lost(struct session *session, bool told);
int turn_fault_lost(const struct session *session, struct fault *fault);

/* ---- execution/execution.c ---- */

/* A display, kept with its place among the bytes. */
struct display {
    struct bundle bundle; /* while it runs; then it is in the outcome */
    int64_t out, err;
};

struct execution {
    /* under service->lock */
    struct id_node node;
    TAILQ_ENTRY(execution) in_list; /* live, or kept */
    int64_t kept_since_us, kept_memory, kept_disk, kept_files;

    /* under session->lock */
    TAILQ_ENTRY(execution) in_line;
    bool in_line_now, has_turn;
    uint64_t epoch;
    pthread_cond_t turn_cond;

    /* never changed */
    struct service *service;
    struct account *account; /* until it has ended */
    struct session_budget *budget;
    char id[EXECUTION_ID_MAX];
    char key_id[STORE_ID_MAX];
    char session_id[SESSION_ID_MAX]; /* "": one-shot */
    enum execution_kind kind;
    struct limits limits;
    char template[TEMPLATE_NAME_MAX];
    int64_t begun_unix_us;
    struct execution_copy *copy; /* of the request, when it runs on a worker */
    bool accept_loss;
    char set_name[SET_NAME_MAX]; /* one-shot: of the caller's default packages */

    struct egress_policy *policy; /* of a one-shot, until it runs; NULL: shut */

    /* of a one-shot, while it runs: its box, for packages that it asks for */
    pthread_mutex_t place_lock;
    struct box *place;
    struct layer *layer; /* what is mounted there; NULL: nothing */

    _Atomic int refs;
    _Atomic bool interrupted; /* also read in line */

    pthread_mutex_t lock;
    pthread_cond_t cond;
    int readers; /* that wait on cond */
    enum execution_state state;
    struct session *session; /* until it has ended */
    int cancel_fd;           /* while it runs; of the session, or own */
    int done_fd;             /* an eventfd that somebody polls, or -1 */
    struct output_log logs[2];
    struct display *displays;
    size_t displays_len;
    bool displays_taken; /* the outcome owns their JSON */
    int64_t started_us, ended_us;
    int64_t execution_count;
    bool session_lost, shell_lost;
    struct outcome outcome;
    struct egress_contact *contacts; /* who was contacted meanwhile */
    size_t contacts_len;
    struct fault fault; /* instead of an outcome */
};

/* Checks, makes and registers it, and puts it in line: from here on it is under way, and
 * execution_go() must follow. */
int execution_begin(struct service *service, const struct caller *caller, struct session *session,
                    const struct execution_request *request, struct execution **ret_execution,
                    struct fault *fault);
/* Waits for its turn, runs it, finishes it; in whatever thread. With @keep_refused also one that
 * was refused on the way can be found afterwards. */
int execution_go(struct execution *x, const struct execution_request *request, bool keep_refused,
                 struct fault *fault);

/* While it runs, by session/engine_calls.c: where what comes from the tenant goes. */
struct run_sink execution_sink(struct execution *x);

/* Drops kept ones that are too old, too many or too large. With service->lock not held. */
void execution_sweep(struct service *service);

/* Asks everything that runs or waits to stop. */
void execution_interrupt_all(struct service *service);

/* ---- execution/worker.c ---- */

void execution_copy_free(struct execution_copy *copy); /* accepts NULL */

/* Threads that service_close() waits for. */
void service_worker_count(struct service *service, int by);

/* ---- package/packages.c ---- */

struct packages;

/* Opens the store and reads pip's configuration, before the engine is opened: fills the shelves of
 * @engine. */
int packages_open(struct service *service, struct engine_config *engine, struct gb_err *err);
/* Once engine and egress are open. */
void packages_attach(struct service *service);
/* From now on installs are cut short. */
void packages_stop(struct service *service);
void packages_close(struct service *service);
void packages_sweep(struct service *service);
void packages_get_stats(struct service *service, struct service_stats *stats);

/* What the caller has by default: a reference, or NULL. */
struct layer *packages_default(struct service *service, const char *set_name);

/* ---- package/install.c ---- */

/* Into a box that nobody has used yet. */
int packages_mount(struct service *service, struct box *box, const struct layer *layer,
                   struct fault *fault);

/* For a session that is being made: the caller's default set, and what is wanted. */
int packages_move_in(struct session *session, const struct caller *caller,
                     const char *const *wanted, struct fault *fault);

/* ---- package/cell_request.c ---- */

/* run_spec.ask; @arg is the execution. */
int packages_ask(void *arg, const char *json, size_t len);

/* Before and after a one-shot: what the caller has by default comes into its box, and while it runs
 * it may ask for more. */
int packages_furnish(struct execution *x, struct box *box, struct fault *fault);
void packages_leave(struct execution *x);

/* For one-shots: installs into the box of the execution, and nothing else. */
int packages_install_here(struct execution *x, const char *const *wanted, json_t **ret_json,
                          struct fault *fault);

/* ---- service.c ---- */

struct service {
    struct service_config config;
    bool disk; /* workspaces of sessions are on disk */
    struct engine *engine;
    struct egress *egress;
    struct audit *audit; /* NULL without a store */
    struct reaper *reaper;
    struct packages *packages;
    int64_t started_us;

    pthread_mutex_t lock;
    pthread_cond_t idle; /* in_flight fell to 0 */
    pthread_cond_t sweep;
    bool draining, stopping, engine_ready;
    struct id_table sessions, executions, accounts;
    struct session_list_head sessions_by_age;
    uint64_t serial;
    struct tombstone *tombstones;
    size_t tombstones_next;
    struct execution_list live, kept;
    int64_t kept_len, kept_memory, kept_disk, kept_files;
    int64_t sessions_taken; /* living, and such as are being made */
    int64_t in_flight, workers;

    struct output_budget output;

    pthread_t sweeper;
    bool sweeper_runs;

    _Atomic int64_t running, waiting, refused;
    _Atomic int64_t sessions_made, sessions_expired, sessions_lost;
    _Atomic int64_t installs, installs_cached, installs_failed;
    _Atomic int64_t by_status[SERVICE_STATUSES], buckets[SERVICE_BUCKETS], duration_sum_us;
};

int64_t service_now(const struct service *service);
int64_t unix_now_us(void);

/* One round of the sweeper. */
void service_sweep(struct service *service);

/* The engine's error as a fault: ours, and for now. The message goes to the log, not to the client.
 */
int fault_from_engine(struct service *service, const char *what, const struct gb_err *err,
                      struct fault *fault);

/* ---- template/use.c ---- */

/* Which template a request means. */
int template_wish(struct service *service, const char *wanted, char ret_name[TEMPLATE_NAME_MAX],
                  struct fault *fault);

/* The template of that name, ready for boxes, until engine_template_put(); NULL is the default one.
 * It is read anew each time, so that what the operator has changed meanwhile counts. */
int template_open(struct service *service, const char *name, struct template **ret_template,
                  struct fault *fault);

/* Fills @buf with "@prefix" and 32 hex digits. 0 or -errno. */
int id_new(const char *prefix, char *buf, size_t size);
