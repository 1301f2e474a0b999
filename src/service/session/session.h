/* A session, as the service's own parts see it. service_internal.h has the order of locks. */
#pragma once

#include "service/service_internal.h"
#include "service/session/engine_calls.h"

struct bindings;
struct layer;
struct terminal;

enum session_end { END_NONE, END_EXPIRED, END_DELETED, END_SHUTDOWN };

/* A session that has ended, so that we can say why. */
struct tombstone {
    char id[SESSION_ID_MAX];
    struct principal principal;
    enum session_end end;
    uint64_t serial;
};

#define TOMBSTONES 1024u

/* Outlives the session while output of its executions is kept. */
struct session_budget {
    _Atomic int refs;
    struct output_budget output;
};

/* What its box uses, as it was measured; -1: unknown. */
struct box_usage {
    int64_t measured_us; /* 0: never */
    int64_t memory_bytes, pids, cpu_us;
};

#define SESSION_LISTENER_MAX 128

struct session {
    /* under service->lock */
    struct id_node node;
    TAILQ_ENTRY(session) by_age;

    /* never changed */
    struct service *service;
    struct account *account;
    char id[SESSION_ID_MAX];
    struct principal principal;
    uint64_t serial;
    struct limits limits; /* of the box; wall_us is the default of a cell, cpu_us is 0 */
    char template[TEMPLATE_NAME_MAX];
    char listener[SESSION_LISTENER_MAX]; /* where it was made, or "" */
    bool no_installs;                    /* by its programs */
    int64_t cpu_us;                      /* of each execution */
    json_t *network;                     /* as it is shown; NULL: none */
    struct bindings *bindings;           /* NULL: none */
    int64_t idle_us, created_us, created_unix_us;
    struct session_budget *budget;

    _Atomic int refs;

    pthread_mutex_t lock;
    enum session_end end;
    bool busy;   /* somebody has the turn */
    int look_fd; /* a look has it, and gives it back when it can read from this; -1: none has */
    struct execution_list line;
    int64_t line_len;
    int64_t users; /* file operations under way */
    int64_t last_used_us;
    int64_t execution_count;
    uint64_t epoch;   /* grows with each loss of the variables */
    bool loss_untold; /* no execution that came after it has been told */
    struct execution *running;
    struct terminal *terminals[TERMINALS_PER_SESSION]; /* oldest first, each a reference */
    size_t terminals_len;
    size_t terminals_opening; /* places that are taken already */
    struct box_usage usage;

    pthread_mutex_t packages_lock; /* taken before all others, and held during a whole install */
    struct layer *layer;           /* guarded by it: what is mounted; NULL: nothing */
    json_t *requirements;          /* guarded by it: what was requested; NULL: nothing */
    unsigned mounts;               /* guarded by it: how often */

    struct lodging lodging; /* used by the holder of the turn */
    int cancel_fd;          /* an eventfd; used by the running execution */
};

/* Ends it: removes it from the table, stops the running execution, refuses the waiting ones. Once
 * only; the first reason counts. Returns whether it was this call. */
bool session_stop(struct session *session, enum session_end end);
void session_fault_ended(enum session_end end, const char *id, struct fault *fault);

/* Between these the session does not expire. */
int session_use_begin(struct session *session, struct fault *fault);
void session_use_end(struct session *session);

/* Ends sessions that were idle for too long. */
void session_sweep(struct service *service);

void budget_unref(struct session_budget *budget);

/* ---- queue.c: the queue of executions in a session ---- */

/* Queues the execution, or gives it the turn if nobody has it. */
int turn_enter(struct session *session, struct execution *x, struct fault *fault);
/* 0 with the turn, 1 if it was interrupted in the queue, or a fault. */
int turn_wait(struct session *session, struct execution *x, struct fault *fault);
void turn_give(struct session *session);
/* Takes the turn for a look: 1, or 0 if it is not free, or a fault. @fd is a nonblocking eventfd.
 * @used: it counts as use of the session. turn_give_look() gives it back. */
int turn_try(struct session *session, int fd, bool used, struct fault *fault);
void turn_give_look(struct session *session, bool used);
/* With the session's lock held: a look that has the turn gives it back soon. */
void turn_end_look(struct session *session);
/* Wakes a queued execution so that it checks whether it was interrupted. */
void turn_wake(struct session *session, struct execution *x);
/* The variables are lost. @told: the holder of the turn gets that error instead of a receipt. */
void turn_lost(struct session *session, bool told);
int turn_fault_lost(const struct session *session, struct fault *fault);
