/*
 * The parts of the service and how they share state. session/session.h and execution/execution.h
 * have the two that have their own locks.
 *
 * Locks, in the order in which they may be taken:
 *   1. service->lock: the tables, the lists, the accounts, the counters
 *   2. session->lock: the queue of executions, its state, when it was last used
 *   3. execution->lock: its progress, its output, its outcome
 * Each is held for a few steps only: never while code runs, never during a call to the engine or
 * the store. Only the holder of the turn in a session (turn_wait() to turn_give()) uses its
 * lodging, without a lock; this keeps executions in order.
 *
 * References: the table of sessions holds one while a session lives, each execution of it holds one
 * until it has ended, and so does every caller that found it. The box goes with the last one. The
 * table of executions holds one while an execution runs or is kept; a finished execution does not
 * hold its session, so kept executions keep no boxes alive.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "engine/engine.h"
#include "service/execution/output_log.h"
#include "service/id_table.h"
#include "service/service.h"

struct audit;
struct packages;
struct reaper;
struct tombstone;
struct watch;

/* ---- quota.c: what a principal has at a time; all under service->lock ---- */

struct account {
    struct id_node node;
    struct principal principal;
    int64_t sessions, in_flight, terminals;
    struct bucket {
        int64_t tokens_milli, filled_us;
    } work, installs; /* of the rates */
    int64_t refs;     /* sessions and executions that refer to it */
};

/* Takes one session, or one execution, from what the caller may have. */
int account_take_session(struct service *service, const struct caller *caller,
                         struct account **ret_account, struct fault *fault);
int account_take_execution(struct service *service, const struct caller *caller,
                           struct account **ret_account, struct fault *fault);
/* Takes one terminal of a session with this account; no reference is needed while it lives. */
int account_take_terminal(struct service *service, const struct caller *caller,
                          struct account *account, struct fault *fault);
void account_give_terminal(struct service *service, struct account *account);
/* Takes one install from the rate of the key, without service->lock. */
int account_take_install(struct service *service, const struct caller *caller, struct fault *fault);
void account_give_session(struct account *account);
void account_give_execution(struct account *account);
/* Drops accounts that have nothing in use and whose rate has recovered. */
void account_sweep(struct service *service);

/* ---- service.c ---- */

/* Limits that can end a run, and LIMIT_NONE. */
#define LIMIT_END(...) +1
enum {
    SERVICE_LIMITS = 1
#include "base/words/limits.def"
};

TAILQ_HEAD(execution_list, execution);
TAILQ_HEAD(session_list_head, session);

struct service {
    struct service_config config;
    bool disk; /* workspaces of sessions are on disk */
    struct engine *engine;
    struct egress *egress;
    struct audit *audit; /* NULL without a store */
    struct reaper *reaper;
    struct packages *packages;
    struct watch *watch;
    char packages_text[SERVICE_PACKAGES_MAX];
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
    int64_t sessions_taken; /* live sessions, and those being created */
    int64_t in_flight, workers;
    int64_t terminals; /* running ones */

    struct output_budget output;

    pthread_t sweeper;
    bool sweeper_runs;

    _Atomic int64_t running, waiting, refused;
    _Atomic int64_t sessions_made, sessions_expired, sessions_lost;
    _Atomic int64_t terminals_opened;
    _Atomic int64_t installs, installs_cached, installs_failed;
    _Atomic int64_t by_limit[SERVICE_LIMITS];
    _Atomic int64_t by_status[SERVICE_STATUSES], buckets[SERVICE_BUCKETS], duration_sum_us;
};

int64_t service_now(const struct service *service);
int64_t unix_now_us(void);

/* Threads that service_close() waits for. */
void service_worker_count(struct service *service, int by);

/* Removes shares that have expired (shares.c). */
void share_sweep(struct service *service);

/* One round of the sweeper. */
void service_sweep(struct service *service);

/* An engine error as a fault: ours, and temporary. The message goes to the log, not to the client.
 */
int fault_from_engine(struct service *service, const char *what, const struct gb_err *err,
                      struct fault *fault);

/* ---- template/use.c ---- */

/* Once, before anything else: what the default template has. */
void template_describe(struct service *service);

/* Which template a request means. */
int template_wish(struct service *service, const char *wanted, char ret_name[TEMPLATE_NAME_MAX],
                  struct fault *fault);

/* Logs, once, which modules it could not preload. NULL is the default one. */
void template_log_left_out(struct service *service, const char *name, struct template *template);

/* The template of that name, ready for boxes, until engine_template_put(); NULL is the default one.
 * Any other is read again each time, so changes by the operator take effect. */
int template_open(struct service *service, const char *name, struct template **ret_template,
                  struct fault *fault);

/* Fills @buf with "@prefix" and 32 hex digits. 0 or -errno. */
int id_new(const char *prefix, char *buf, size_t size);
