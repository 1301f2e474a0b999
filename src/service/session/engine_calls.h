/*
 * Where executions run: the calls to the engine, and a session's state there.
 *
 * A lodging is a box, its network if it has one, the interpreter in it and, once it was needed, the
 * shell. Only the holder of the session's turn may use it; file calls may come at any time, so the
 * box stays the same for the life of the session.
 */
#pragma once

#include "engine/engine.h"
#include "service/session/network.h"

struct execution;
struct fault;
struct service;
struct session;

struct lodging {
    struct box *box;
    struct network network;
    char **env;                /* for everything started in it; the network's, then the session's */
    struct resident *resident; /* NULL: lost; the next cell opens another */
    struct shell *shell;       /* NULL: not needed yet, or lost */
};

/* Creates the box and prepares it. @env may be NULL; so may @policy, which is taken over, even on
 * failure. */
int lodging_open(const struct session *session, const char *const *env,
                 struct egress_policy *policy, struct lodging *ret_lodging, struct fault *fault);
void lodging_close(struct lodging *lodging);

/* How a run changed its session. */
struct lodging_change {
    bool variables_lost; /* in this run */
    bool shell_lost;     /* in this run, or before it, and a new shell ran the command */
    bool found_lost;     /* they were lost before, and the code was not run */
};

/* Runs the code to its end. 0 with an outcome, or a fault of ours; @ret_change is filled in any
 * case. */
int lodging_run(struct session *session, struct execution *x, struct outcome *ret_outcome,
                struct lodging_change *ret_change, struct fault *fault);

/* Asks the interpreter. 1 with an answer, which may be NULL and is freed by the caller; 0: it is
 * busy; or a fault of ours. *@ret_lost: the variables are lost. */
int lodging_look(struct session *session, const struct look_spec *spec, char **ret_json,
                 size_t *ret_len, bool *ret_lost, struct fault *fault);

/* Like lodging_run() in a fresh box that is removed afterwards. */
int lodging_run_once(struct execution *x, struct outcome *ret_outcome, struct fault *fault);
