/*
 * The loop. The model is asked; what it calls is run, and the results are added to the
 * conversation; and again, until it answers, asks the person, fails, or is stopped.
 *
 * Budgets: steps (programs), tokens, money and time. When one of them is used up, the model is told
 * so and asked once more without run_python; a fifth of the time is kept for that. If that brings
 * no answer either, ours says what happened. The time never exceeds the budget: the descriptor that
 * cancels a call becomes readable at the end of the time as well as by a stop.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/agent/work.h"

#include "base/banned.h"

#define LAST_US_MAX     (60 * USEC_PER_SEC)
#define REPLY_BYTES_MAX ((size_t) 1024 * 1024) /* of a message that is to be sent back */
#define LAST_WORDS                                                                                 \
    "The budget for this question is used up. No more programs can run. Answer now with what "     \
    "you have, and say what is missing."

/* ---- small things that the others use ---- */

int64_t work_left_us(const struct work *work)
{
    return (work->last ? work->hard_us : work->soft_us) - clock_now_us();
}

void work_notice(struct work *work, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    int len;

    va_start(ap, fmt);
    len = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (len < 0)
        return;
    (void) pthread_mutex_lock(&work->answer->lock);
    (void) json_array_append_new(work->answer->gathered.notices, json_string(text));
    (void) pthread_mutex_unlock(&work->answer->lock);
    free(text);
}

void work_decision(struct work *work, const char *word)
{
    if (json_array_size(work->decisions) < 100)
        (void) json_array_append_new(work->decisions, json_string(word));
}

int work_say(struct work *work, const char *role, const char *content)
{
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", json_text(content));

    return message && json_array_append_new(work->messages, message) == 0 ? 0 : -ENOMEM;
}

void work_fail(struct work *work, const char *cause, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    va_end(ap);
    ending_release(&work->ending);
    work->ending.status = STORE_MESSAGE_ERROR;
    work->ending.story = text;
    work->ending.ours = true;
    work->ending.cause = cause;
    work->done = true;
    work_decision(work, cause);
}

void work_stop(struct work *work)
{
    const struct gathered *gathered = &work->answer->gathered;
    bool draining;

    (void) pthread_mutex_lock(&work->agent->lock);
    draining = work->agent->draining;
    (void) pthread_mutex_unlock(&work->agent->lock);
    work_fail(work, "stopped", "%s%s",
              draining ? "The service was shut down before this answer was complete."
                       : "You stopped this answer.",
              json_array_size(gathered->steps) > 0 ? " What was computed until then is below."
                                                   : "");
    work->ending.status = STORE_MESSAGE_STOPPED;
}

void work_answer(struct work *work, char *story, const json_t *charts, const json_t *tables)
{
    ending_release(&work->ending);
    work->ending.status = STORE_MESSAGE_OK;
    work->ending.story = story;
    work->ending.charts = json_incref((json_t *) charts);
    work->ending.tables = json_incref((json_t *) tables);
    work_decision(work, "answer");
}

uint64_t work_hash(const char *text, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char) text[i]) * UINT64_C(1099511628211);
    return hash ? hash : 1;
}

/* ---- time ---- */

static void set_timer(struct work *work, int64_t at_us)
{
    struct itimerspec when = { .it_value = { at_us / USEC_PER_SEC, at_us % USEC_PER_SEC * 1000 } };

    (void) timerfd_settime(work->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* One descriptor for both reasons to cancel. */
static int open_cancel(struct work *work)
{
    struct epoll_event event = { .events = EPOLLIN };

    work->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    work->cancel_fd = epoll_create1(EPOLL_CLOEXEC);
    if (work->timer_fd < 0 || work->cancel_fd < 0 ||
        epoll_ctl(work->cancel_fd, EPOLL_CTL_ADD, work->timer_fd, &event) < 0 ||
        epoll_ctl(work->cancel_fd, EPOLL_CTL_ADD, work->answer->stop_fd, &event) < 0)
        return -errno;
    set_timer(work, work->soft_us);
    return 0;
}

/* ---- budgets ---- */

#define GAVE_UP "gave_up" /* no budget: the model gets nowhere */

static const char *budget_used(const struct work *work)
{
    const struct agent_config *config = &work->agent->config;

    if (work->steps >= config->steps_max)
        return "steps";
    if (work->calls >= 2 * config->steps_max + 4)
        return "calls";
    if (clock_now_us() >= work->soft_us)
        return "seconds";
    if (work->tokens > 0 && work->tokens + tokens_estimate(work->messages) > config->tokens_max)
        return "tokens";
    if (config->cost_max > 0 && work->usage.cost >= config->cost_max)
        return "cost";
    return work->give_up ? GAVE_UP : NULL;
}

/* Tells the model that this is its last call. */
static void begin_last(struct work *work, const char *budget)
{
    work->last = true;
    work_decision(work, "last_call");
    work_decision(work, budget);
    if (strcmp(budget, GAVE_UP) == 0)
        work_notice(work,
                    "The model made no progress any more; this is what was found until then.");
    else
        work_notice(work, "The budget of this answer was used up: %s.", budget);
    set_timer(work, work->hard_us);
    (void) work_say(work, "user", LAST_WORDS);
}

/* ---- one turn ---- */

/* Whether the server refused the request because of its tools. */
static bool tools_refused(const struct work *work, const struct llm_error *error)
{
    return error->failure == LLM_INVALID && !work->fenced && !llm_model_has_tools(work->model);
}

/* Starts the conversation again, for a model without tools. */
static bool switch_to_fenced(struct work *work)
{
    work->fenced = true;
    work_decision(work, "fenced");
    (void) json_array_clear(work->messages);
    return history_prompt(work) == 0;
}

/* Whether the model can be asked again. */
static bool recover_from(struct work *work, const struct llm_error *error)
{
    if (atomic_load(&work->answer->stop))
        return false;
    if (error->failure == LLM_TOO_LONG && !work->shrunk) {
        work->shrunk = true;
        history_shrink(work, true);
        return true;
    }
    if (tools_refused(work, error) && work->steps == 0)
        return switch_to_fenced(work);
    if (error->failure == LLM_CANCELLED && !work->last) /* by the timer */
        return true;
    return false;
}

/* If there is an answer that was to be mended, it is shown as it was; else the failure is told. */
static void fall_back(struct work *work, const struct llm_error *error)
{
    if (work->ending.story && !atomic_load(&work->answer->stop))
        work->done = true;
    else
        ending_of_model(work, error);
}

static void take_reply(struct work *work, const struct llm_reply *reply)
{
    const json_t *calls = json_object_get(reply->message, "tool_calls");

    if (reply->finish == LLM_REFUSED) {
        ending_of_refusal(work, reply->message);
        return;
    }
    if (json_dumpb(reply->message, NULL, 0, JSON_COMPACT) > REPLY_BYTES_MAX) {
        work_fail(work, "model_broken",
                  "The model sent far more than an answer, so I stopped listening. Please ask "
                  "again; if it happens again, the operator should look at the model.");
        return;
    }
    (void) json_array_append(work->messages, reply->message);
    if (json_array_size(calls) > 0)
        tools_handle(work, reply->message, reply->finish);
    else
        fenced_handle(work, reply->message, reply->finish);
}

static void turn(struct work *work)
{
    const char *budget = budget_used(work);
    struct llm_error error;
    struct llm_reply reply;
    bool was_last;
    int r;

    if (budget && !work->last)
        begin_last(work, budget);
    was_last = work->last;
    history_shrink(work, false);
    if (!spending_may_ask(work))
        return;
    r = model_ask(work, !work->fenced, &reply, &error);
    spending_asked(work);
    if (r < 0) {
        if (!recover_from(work, &error))
            fall_back(work, &error);
        llm_error_release(&error);
        return;
    }
    take_reply(work, &reply);
    llm_reply_release(&reply);
    if (work->done)
        return;
    if (atomic_load(&work->answer->stop))
        work_stop(work);
    else if (was_last && work->ending.story)
        work->done = true; /* the one that was to be mended */
    else if (was_last)
        ending_of_budget(work);
}

/* ---- the whole ---- */

static int work_begin(struct work *work)
{
    struct gb_err err = { .msg = "out of memory" };
    int64_t spare = work->agent->config.seconds_max_us / 5;

    if (spare > LAST_US_MAX)
        spare = LAST_US_MAX;
    work->begun_us = clock_now_us();
    work->hard_us = work->begun_us + work->agent->config.seconds_max_us;
    work->soft_us = work->hard_us - spare;
    work->usage = (struct llm_usage){ -1, -1, -1, -1 };
    work->messages = json_array();
    work->decisions = json_array();
    work->requests = json_array();
    work->evidence = evidence_new();
    if (!work->messages || !work->decisions || !work->evidence)
        return -ENOMEM;
    spending_begin(work);
    if (work->done)
        return 0;
    if (open_cancel(work) < 0)
        return -ENOMEM;
    (void) evidence_add_given(work->evidence, EVIDENCE_QUESTION, work->answer->query,
                              strlen(work->answer->query));
    if (history_load(work, &err) < 0) {
        service_log(work->agent->config.service, LOG_LEVEL_ERROR, "mark: answer %s: %s",
                    work->answer->message_id, err.msg);
        return -EIO;
    }
    if (queries_resolve(work) < 0)
        return -ENOMEM;
    return history_prompt(work);
}

static void work_release(struct work *work)
{
    cells_release(&work->cells);
    history_release(&work->history);
    evidence_free(work->evidence);
    json_decref(work->messages);
    json_decref(work->decisions);
    json_decref(work->requests);
    ending_release(&work->ending);
    if (work->timer_fd >= 0)
        (void) close(work->timer_fd);
    if (work->cancel_fd >= 0)
        (void) close(work->cancel_fd);
}

void answer_work(struct answer *answer)
{
    struct work work = { .agent = answer->agent,
                         .answer = answer,
                         .model = answer->model,
                         .fenced = !llm_model_has_tools(answer->model),
                         .timer_fd = -1,
                         .cancel_fd = -1 };

    if (atomic_load(&answer->stop)) {
        work.begun_us = clock_now_us();
        work.decisions = json_array();
        work.usage = (struct llm_usage){ -1, -1, -1, -1 };
        work_stop(&work);
    } else if (work_begin(&work) < 0) {
        work_fail(&work, "internal",
                  "Something went wrong on our side before I could begin. Please ask again in a "
                  "moment.");
    }
    while (!work.done)
        turn(&work);
    finish(&work);
    work_release(&work);
}
