/*
 * The queue of executions in a session: first come, first served, one at a time.
 *
 * The holder of the turn hands it to the first in the queue, by name, so nobody who comes later can
 * slip in between. An execution that is interrupted, or whose session ends, leaves the queue by
 * itself.
 *
 * The loss of variables is reported here. Executions that were queued when it happened were written
 * for variables that are gone, so each of them is refused; if there were none, the first to come
 * afterwards is. After that the client knows, and a new interpreter is used. Commands do not use
 * variables and are not affected.
 */
#include <unistd.h>

#include "service/execution/execution.h"
#include "service/session/session.h"

#include "base/banned.h"

void turn_end_look(struct session *session)
{
    uint64_t one = 1;

    if (session->look_fd >= 0)
        (void) !write(session->look_fd, &one, sizeof one);
}

int turn_enter(struct session *session, struct execution *x, struct fault *fault)
{
    int64_t most = session->service->config.waiters_max;
    enum session_end end;
    bool full = false;

    pthread_mutex_lock(&session->lock);
    end = session->end;
    if (end == END_NONE) {
        x->epoch = session->epoch;
        session->last_used_us = service_now(session->service);
        /* A look is not in anybody's way: it ends now, and the first in the queue is next. */
        full = session->line_len >= most + (session->look_fd >= 0);
        turn_end_look(session);
    }
    if (end == END_NONE && !session->busy) {
        session->busy = true;
        x->has_turn = true;
    } else if (end == END_NONE && !full) {
        TAILQ_INSERT_TAIL(&session->line, x, in_line);
        x->in_line_now = true;
        session->line_len++;
    }
    full = full && !x->has_turn;
    pthread_mutex_unlock(&session->lock);
    if (end != END_NONE) {
        session_fault_ended(end, session->id, fault);
        return -1;
    }
    if (full) {
        (void) fault_set(
            fault, PROBLEM_SESSION_BUSY, NULL,
            "%lld executions are already queued in this session; wait for some to finish",
            (long long) most);
        fault->retry_after_s = 1;
        return -1;
    }
    return 0;
}

/* With the lock held. */
static void line_pass_on(struct session *session)
{
    struct execution *next = TAILQ_FIRST(&session->line);

    session->running = NULL;
    if (!next) {
        session->busy = false;
        return;
    }
    TAILQ_REMOVE(&session->line, next, in_line);
    next->in_line_now = false;
    session->line_len--;
    next->has_turn = true;
    pthread_cond_signal(&next->turn_cond);
}

/* With the lock held: whether this execution must be refused because the variables are gone. */
static bool loss_concerns(struct session *session, struct execution *x)
{
    bool concerns =
        x->kind != EXECUTION_COMMAND && (session->loss_untold || x->epoch != session->epoch);

    if (concerns)
        session->loss_untold = false;
    return concerns && !x->accept_loss;
}

int turn_fault_lost(const struct session *session, struct fault *fault)
{
    return fault_set(fault, PROBLEM_SESSION_LOST, NULL,
                     "the variables of session %s are lost: its interpreter was terminated. Its "
                     "files still exist. Run the code that defines your variables again, then "
                     "this; the next execution gets a new interpreter",
                     session->id);
}

int turn_wait(struct session *session, struct execution *x, struct fault *fault)
{
    enum session_end end;
    bool lost = false, interrupted;

    pthread_mutex_lock(&session->lock);
    while (!x->has_turn && session->end == END_NONE && !atomic_load(&x->interrupted))
        pthread_cond_wait(&x->turn_cond, &session->lock);
    end = session->end;
    interrupted = atomic_load(&x->interrupted);
    if (x->in_line_now) {
        TAILQ_REMOVE(&session->line, x, in_line);
        x->in_line_now = false;
        session->line_len--;
    }
    if (x->has_turn && end == END_NONE && !interrupted)
        lost = loss_concerns(session, x);
    if (x->has_turn && (end != END_NONE || interrupted || lost)) {
        x->has_turn = false;
        line_pass_on(session);
    }
    if (x->has_turn) {
        session->running = x;
        x->execution_count = ++session->execution_count;
    }
    pthread_mutex_unlock(&session->lock);
    if (end != END_NONE)
        session_fault_ended(end, session->id, fault);
    else if (lost)
        (void) turn_fault_lost(session, fault);
    else if (interrupted)
        return 1;
    return end != END_NONE || lost ? -1 : 0;
}

void turn_give(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    session->last_used_us = service_now(session->service);
    line_pass_on(session);
    pthread_mutex_unlock(&session->lock);
}

int turn_try(struct session *session, int fd, bool used, struct fault *fault)
{
    enum session_end end;
    bool free;

    pthread_mutex_lock(&session->lock);
    end = session->end;
    free = end == END_NONE && !session->busy;
    if (end == END_NONE && used)
        session->last_used_us = service_now(session->service);
    if (free) {
        session->busy = true;
        session->look_fd = fd;
    }
    pthread_mutex_unlock(&session->lock);
    if (end == END_NONE)
        return free;
    session_fault_ended(end, session->id, fault);
    return -1;
}

void turn_give_look(struct session *session, bool used)
{
    pthread_mutex_lock(&session->lock);
    session->look_fd = -1;
    if (used)
        session->last_used_us = service_now(session->service);
    line_pass_on(session);
    pthread_mutex_unlock(&session->lock);
}

void turn_lost(struct session *session, bool told)
{
    pthread_mutex_lock(&session->lock);
    session->epoch++;
    session->loss_untold = !told;
    pthread_mutex_unlock(&session->lock);
    atomic_fetch_add(&session->service->sessions_lost, 1);
}

void turn_wake(struct session *session, struct execution *x)
{
    pthread_mutex_lock(&session->lock);
    pthread_cond_signal(&x->turn_cond);
    pthread_mutex_unlock(&session->lock);
}
