/* A session, as the service's own parts see it. service_internal.h has the order of locks. */
#pragma once

#include "service/service_internal.h"
#include "service/session/engine_calls.h"

struct bindings;
struct layer;

enum session_end { END_NONE, END_EXPIRED, END_DELETED, END_SHUTDOWN };

/* One that has ended, so that we can say why. */
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

/* ---- queue.c: the line of executions in a session ---- */

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
