/* Answers: objects that a thread of the agent works on and any number of readers follow. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/strv.h"
#include "base/thread.h"
#include "mark/agent/internal.h"
#include "mark/agent/response.h"

#include "base/banned.h"

/* Numbers of the events of an answer from the store: apart from those that it had while it was
 * under way, so that a client that comes back with one of those is told from one that reads on. */
#define STORED_FIRST_ID (INT64_C(1) << 40)

struct answer *answer_new(struct agent *agent, const struct caller *caller)
{
    struct answer *answer = calloc(1, sizeof *answer);

    if (!answer)
        return NULL;
    answer->refs = 1;
    answer->agent = agent;
    answer->caller = *caller;
    answer->stop_fd = -1;
    (void) pthread_mutex_init(&answer->lock, NULL);
    cond_init(&answer->changed);
    answer->listener = strdup(caller->listener ? caller->listener : "");
    answer->caller.listener = caller->listener ? answer->listener : NULL;
    answer->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (answer->listener && answer->stop_fd >= 0 && gathered_init(&answer->gathered) == 0)
        return answer;
    answer_unref(answer);
    return NULL;
}

struct answer *answer_ref(struct answer *answer)
{
    (void) atomic_fetch_add(&answer->refs, 1);
    return answer;
}

void answer_unref(struct answer *answer)
{
    if (!answer || atomic_fetch_sub(&answer->refs, 1) != 1)
        return;
    event_log_release(&answer->log);
    gathered_release(&answer->gathered);
    (void) pthread_mutex_destroy(&answer->lock);
    (void) pthread_cond_destroy(&answer->changed);
    if (answer->stop_fd >= 0)
        (void) close(answer->stop_fd);
    strv_free(answer->attachments);
    strv_free(answer->sources);
    json_decref(answer->wanted);
    free(answer->listener);
    free(answer->query);
    free(answer);
}

const char *answer_chat_id(const struct answer *answer)
{
    return answer->chat_id;
}

const char *answer_message_id(const struct answer *answer)
{
    return answer->message_id;
}

/* ---- events ---- */

void answer_event(struct answer *answer, enum event_name name, json_t *data)
{
    char *text = data ? json_dumps(data, JSON_COMPACT) : NULL;

    json_decref(data);
    (void) pthread_mutex_lock(&answer->lock);
    event_log_add(&answer->log, name, text);
    (void) pthread_cond_broadcast(&answer->changed);
    (void) pthread_mutex_unlock(&answer->lock);
}

void answer_delta(struct answer *answer, enum event_name name, int64_t n, bool err,
                  const char *text, size_t len)
{
    (void) pthread_mutex_lock(&answer->lock);
    event_log_delta(&answer->log, name, n, err, text, len);
    (void) pthread_cond_broadcast(&answer->changed);
    (void) pthread_mutex_unlock(&answer->lock);
}

void answer_end(struct answer *answer, json_t *response)
{
    char *text = response ? json_dumps(response, JSON_COMPACT) : NULL;
    bool built = text != NULL;

    json_decref(response);
    if (!built)
        text = strdup("{\"type\": \"urn:glovebox:problem:out-of-memory\", \"status\": 503, "
                      "\"title\": \"Out of memory\", "
                      "\"detail\": \"the service ran out of memory; ask again in a moment\"}");
    (void) pthread_mutex_lock(&answer->lock);
    event_log_add(&answer->log, built ? EV_DONE : EV_ERROR, text);
    gathered_release(&answer->gathered); /* the last event has it */
    answer->ended_us = clock_now_us();
    answer->state = ANSWER_ENDED; /* last: kept_sweep() reads the others without this lock */
    (void) pthread_cond_broadcast(&answer->changed);
    (void) pthread_mutex_unlock(&answer->lock);
}

/* Waits for something new until @until_us (negative: forever); false once that has passed. */
static bool answer_sleep(struct answer *answer, int64_t until_us)
{
    struct timespec until = { until_us / USEC_PER_SEC, until_us % USEC_PER_SEC * 1000 };

    if (until_us < 0)
        return pthread_cond_wait(&answer->changed, &answer->lock) == 0;
    return pthread_cond_timedwait(&answer->changed, &answer->lock, &until) != ETIMEDOUT;
}

static int64_t until_of(int64_t timeout_us)
{
    int64_t until;

    if (timeout_us < 0 || __builtin_add_overflow(clock_now_us(), timeout_us, &until))
        return -1;
    return until;
}

bool answer_wait(struct answer *answer, int64_t timeout_us)
{
    int64_t until_us = until_of(timeout_us);
    bool ended;

    (void) pthread_mutex_lock(&answer->lock);
    while (answer->state != ANSWER_ENDED && answer_sleep(answer, until_us))
        ;
    ended = answer->state == ANSWER_ENDED;
    (void) pthread_mutex_unlock(&answer->lock);
    return ended;
}

int answer_next_event(struct answer *answer, int64_t after, int64_t timeout_us,
                      struct answer_event *ret_event)
{
    int64_t until_us = until_of(timeout_us);
    int r;

    (void) pthread_mutex_lock(&answer->lock);
    for (;;) {
        r = event_log_next(&answer->log, after, ret_event);
        if (r != 0 || !answer_sleep(answer, until_us))
            break;
    }
    (void) pthread_mutex_unlock(&answer->lock);
    return r;
}

json_t *answer_to_json(struct answer *answer)
{
    autofree char *text = NULL;
    json_t *json = NULL;
    bool ended;

    (void) pthread_mutex_lock(&answer->lock);
    ended = answer->state == ANSWER_ENDED;
    if (ended && event_log_last(&answer->log))
        text = strdup(event_log_last(&answer->log));
    else if (!ended)
        json = response_pending(answer);
    (void) pthread_mutex_unlock(&answer->lock);
    return text ? json_loads(text, JSON_ALLOW_NUL, NULL) : json;
}

/* ---- stopping ---- */

void answer_set_running(struct answer *answer, struct execution *execution)
{
    struct execution *before;

    (void) pthread_mutex_lock(&answer->lock);
    before = answer->running;
    answer->running = execution ? execution_ref(execution) : NULL;
    (void) pthread_mutex_unlock(&answer->lock);
    execution_unref(before);
}

void answer_stop(struct answer *answer)
{
    uint64_t one = 1;
    struct execution *x;
    struct fault ignored;

    atomic_store(&answer->stop, true);
    (void) !write(answer->stop_fd, &one, sizeof one);
    (void) pthread_mutex_lock(&answer->lock);
    x = answer->running ? execution_ref(answer->running) : NULL;
    (void) pthread_cond_broadcast(&answer->changed);
    (void) pthread_mutex_unlock(&answer->lock);
    if (x)
        (void) execution_interrupt(x, &ignored);
    execution_unref(x);
}

/* ---- from the store ---- */

/* Moves a member of @response into an event of its own. */
static void tell_list(struct answer *answer, enum event_name name, const json_t *list)
{
    const json_t *item;
    size_t i;

    json_array_foreach (list, i, item) {
        json_t *data = json_object();
        json_int_t n = (json_int_t) i + 1;

        if (name == EV_CHART) {
            json_t *step = json_object_get(item, "step");

            (void) json_object_set(data, "spec", (json_t *) item);
            if (step)
                (void) json_object_set(data, "step", step);
        } else
            (void) json_object_update(data, (json_t *) item);
        if (!json_object_get(data, "n"))
            (void) json_object_set_new(data, "n", json_integer(n));
        answer_event(answer, name, data);
    }
}

static void tell_queries(struct answer *answer, json_t *n, const json_t *queries)
{
    const json_t *query;
    size_t i;

    json_array_foreach (queries, i, query) {
        json_t *event = json_copy((json_t *) query);

        (void) json_object_del(event, "params");
        (void) json_object_set(event, "n", n);
        answer_event(answer, EV_QUERY, event);
    }
}

static void tell_steps(struct answer *answer, const json_t *steps)
{
    const json_t *step;
    size_t i;

    json_array_foreach (steps, i, step) {
        json_t *n = json_object_get(step, "n");

        answer_event(answer, EV_STEP,
                     json_pack("{s:O?, s:O?}", "n", n, "code", json_object_get(step, "code")));
        tell_queries(answer, n, json_object_get(step, "queries"));
        answer_event(
            answer, EV_RECEIPT,
            json_pack("{s:O?, s:O?}", "n", n, "receipt", json_object_get(step, "receipt")));
    }
}

int answer_from_store(struct agent *agent, const struct caller *caller,
                      const struct store_message *message, struct answer **ret_answer,
                      struct fault *fault)
{
    json_t *response =
        message->response ? json_loads(message->response, JSON_ALLOW_NUL, NULL) : NULL;
    struct answer *answer = response ? answer_new(agent, caller) : NULL;

    if (!answer) {
        json_decref(response);
        return fault_no_memory(fault);
    }
    memcpy(answer->chat_id, message->chat_id, sizeof answer->chat_id);
    memcpy(answer->message_id, message->id, sizeof answer->message_id);
    memcpy(answer->question_id, message->reply_to, sizeof answer->question_id);
    answer->log.first_id = STORED_FIRST_ID;
    answer_event(answer, EV_CHAT,
                 json_pack("{s:s, s:s, s:s}", "chat_id", answer->chat_id, "message_id",
                           answer->message_id, "question_id", answer->question_id));
    tell_steps(answer, json_object_get(response, "steps"));
    tell_list(answer, EV_TABLE, json_object_get(response, "data"));
    tell_list(answer, EV_CHART, json_object_get(response, "visualizations"));
    answer_event(answer, EV_STORY,
                 json_pack("{s:O?}", "delta", json_object_get(response, "answer_story")));
    answer_end(answer, response);
    *ret_answer = answer;
    return 0;
}
