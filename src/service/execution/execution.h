/* An execution, as the service's own parts see it. service_internal.h has the order of locks. */
#pragma once

#include "service/package/layers.h"
#include "service/service_internal.h"

struct session_budget;

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
    struct principal principal;
    char session_id[SESSION_ID_MAX]; /* "": one-shot */
    enum execution_kind kind;
    char template[TEMPLATE_NAME_MAX];
    int64_t begun_unix_us;
    bool accept_loss;
    char set_name[SET_NAME_MAX]; /* one-shot: of the caller's default packages */

    /* used by the thread that runs it: the engine's view of the request, made once. Its strings
     * belong to the caller or, on a worker, to @own; after the end there are none. */
    struct run_spec spec;
    char cell_name[sizeof "<cell 9223372036854775807>"]; /* its file name, unless it has another */
    struct texts {
        char *code, *filename, *names, *input;
        char **env;
    } own;
    int (*ask)(void *arg, const char *json, size_t len); /* as in the request */
    void *ask_arg;
    struct egress_policy *policy; /* of a one-shot, until it runs; NULL: no network */

    /* of a one-shot, while it runs: its box, for packages that its code installs */
    pthread_mutex_t place_lock;
    struct box *place;
    struct layer *layer; /* what is mounted there; NULL: nothing */

    _Atomic int refs;
    _Atomic bool interrupted; /* also read while queued */

    pthread_mutex_t lock;
    pthread_cond_t cond;
    int readers; /* threads that wait on cond */
    enum execution_state state;
    struct session *session; /* until it has ended */
    int cancel_fd;           /* while it runs; of the session, or own */
    int done_fd;             /* an eventfd that somebody polls, or -1 */
    struct output_log logs[2];
    struct bundle *displays;
    size_t displays_len;
    bool displays_taken; /* the outcome owns their JSON too */
    int64_t started_us, ended_us;
    int64_t execution_count;
    bool session_lost, shell_lost;
    struct outcome outcome;
    struct egress_contact *contacts; /* hosts contacted during the run */
    size_t contacts_len;
    struct fault fault; /* instead of an outcome */
};

/* ---- admit.c ---- */

/* Checks the request, creates and registers the execution, and queues it: from here on it is in
 * flight, and execution_go() must follow. */
int execution_begin(struct service *service, const struct caller *caller, struct session *session,
                    const struct execution_request *request, struct execution **ret_execution,
                    struct fault *fault);

/* ---- execution.c ---- */

/* Waits for its turn, runs it, finishes it; on any thread. With @keep_refused, an execution that
 * was refused on the way can be found afterwards, too. */
int execution_go(struct execution *x, bool keep_refused, struct fault *fault);

/* Ends an execution in flight: with an outcome, which is taken over, or with a fault. */
void execution_finish(struct execution *x, struct outcome *outcome, const struct fault *fault,
                      bool keep);

/* Receives what comes from the tenant. */
struct run_sink execution_sink(struct execution *x);

/* ---- asks.c ---- */

/* run_spec.ask; @arg is the execution. */
int execution_ask(void *arg, const char *json, size_t len);

/* ---- kept.c: executions that have ended and can still be found ---- */

/* Removes it from the executions in flight: it is kept, or dropped. */
void execution_leave(struct execution *x, bool keep);
/* Drops output of earlier executions of the session, the oldest first, once its quota is half full.
 */
void kept_make_room(struct service *service, struct session *session);
/* Drops kept executions that are too old, too many or too large. Without service->lock. */
void execution_sweep(struct service *service);

/* ---- read.c ---- */

/* Asks everything that runs or waits to stop. */
void execution_interrupt_all(struct service *service);

/* ---- worker.c ---- */

/* Like execution_run_here(), but on a worker, and stopped when @hangup_fd hangs up. */
int execution_run_watched(struct service *service, const struct caller *caller,
                          struct session *session, const struct execution_request *request,
                          struct execution **ret_execution, struct fault *fault);
