/*
 * Where executions run: the calls to the engine, and what a session has there.
 *
 * A lodging is a box, its way out if it has one, the interpreter that lives in it and, once
 * somebody asked for it, the shell. Only who has the session's turn may use it; the calls for files
 * may come at any time, so the box stays the same for the life of the session.
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
    char **env; /* of everything that is started in it; the network's and then the session's */
    struct resident *resident; /* NULL: lost; the next cell opens another */
    struct shell *shell;       /* NULL: not asked for yet, or lost */
};

/* Makes the box and moves in. @env may be NULL; so may @policy, which is taken over, also when it
 * fails. */
int lodging_open(const struct session *session, const char *const *env,
                 struct egress_policy *policy, struct lodging *ret_lodging, struct fault *fault);
void lodging_close(struct lodging *lodging);

/* What a run in a session did to it. */
struct lodging_change {
    bool variables_lost; /* now */
    bool shell_lost;     /* now, or it was found gone and a new one took the command */
    bool found_lost;     /* they were gone before, and the code was not run */
};

/* Runs the code to its end. 0 with an outcome, or a fault of ours; @ret_change is filled in any
 * case. */
int lodging_run(struct session *session, struct execution *x, struct outcome *ret_outcome,
                struct lodging_change *ret_change, struct fault *fault);

/* The same in a fresh box that is gone afterwards. */
int lodging_run_once(struct execution *x, struct outcome *ret_outcome, struct fault *fault);
