/* An execution, as the service's own parts see it. service_internal.h has the order of locks. */
#pragma once

#include "service/package/layers.h"
#include "service/service_internal.h"

struct session_budget;

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
    struct principal principal;
    char session_id[SESSION_ID_MAX]; /* "": one-shot */
    enum execution_kind kind;
    char template[TEMPLATE_NAME_MAX];
    int64_t begun_unix_us;
    bool accept_loss;
    char set_name[SET_NAME_MAX]; /* one-shot: of the caller's default packages */

    /* of the thread that runs it: what the engine is told, made of the request once. Its texts are
     * the caller's, or on a worker those in @own; from the end on there are none. */
    struct run_spec spec;
    struct texts {
        char *code, *filename, *names, *input;
        char **env;
    } own;
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

/* ---- admit.c ---- */

/* Checks the request, makes the execution of it and registers it, and puts it in line: from here on
 * it is under way, and execution_go() must follow. */
int execution_begin(struct service *service, const struct caller *caller, struct session *session,
                    const struct execution_request *request, struct execution **ret_execution,
                    struct fault *fault);

/* ---- execution.c ---- */

/* Waits for its turn, runs it, finishes it; in whatever thread. With @keep_refused also one that
 * was refused on the way can be found afterwards. */
int execution_go(struct execution *x, bool keep_refused, struct fault *fault);

/* Ends one that is under way: with an outcome, which is taken over, or else with a fault. */
void execution_finish(struct execution *x, struct outcome *outcome, const struct fault *fault,
                      bool keep);

/* Where what comes from the tenant goes. */
struct run_sink execution_sink(struct execution *x);

/* ---- kept.c: executions that have ended and can still be found ---- */

/* Out of what is under way: kept, or gone. */
void execution_leave(struct execution *x, bool keep);
/* Drops output of earlier executions of the session, the oldest first, once its quota is half full.
 */
void kept_make_room(struct service *service, struct session *session);
/* Drops kept ones that are too old, too many or too large. With service->lock not held. */
void execution_sweep(struct service *service);

/* ---- read.c ---- */

/* Asks everything that runs or waits to stop. */
void execution_interrupt_all(struct service *service);

/* ---- worker.c ---- */

/* As execution_run_here(), but by a worker, and stopped when @hangup_fd hangs up. */
int execution_run_watched(struct service *service, const struct caller *caller,
                          struct session *session, const struct execution_request *request,
                          struct execution **ret_execution, struct fault *fault);
