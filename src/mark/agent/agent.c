/* The agent: which answers there are, whose turn it is, and who may ask for how many. */
#include "mark/agent/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/thread.h"
#include "mark/agent/gate.h"
#include "mark/agent/internal.h"
#include "mark/agent/response.h"

#include "base/banned.h"

/* JSON is walked recursively, at most 2048 deep. A sanitizer has its own data on each stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LINE_STACK (8u * 1024 * 1024)
#else
#define LINE_STACK (1024u * 1024)
#endif

#define KEPT_COUNT_MAX 256
#define KEPT_BYTES_MAX ((size_t) 256 * 1024 * 1024)

int agent_store_fault(struct agent *agent, enum problem unknown, const char *what, int r,
                      const struct gb_err *err, struct fault *fault)
{
    if (r == -ENOENT)
        return fault_set(fault, unknown, NULL, "there is no such %s; it may have been deleted",
                         unknown == PROBLEM_CHAT_UNKNOWN ? "chat" : "message");
    if (r == -EDQUOT)
        return fault_set(fault, PROBLEM_CHATS_QUOTA, NULL, "%s; delete some, or begin another chat",
                         err->msg);
    service_log(agent->config.service, LOG_LEVEL_ERROR, "mark: %s: %s", what, err->msg);
    if (r == -ENOSPC) {
        (void) fault_set(fault, PROBLEM_DISK_FULL, NULL,
                         "the disk of the service is full; ask the operator to make room");
        fault->retry_after_s = 30;
        return -1;
    }
    return fault_set(fault, PROBLEM_INTERNAL, NULL, "the service failed; see the server log");
}

/* ---- opening and closing ---- */

static void config_fill(struct agent_config *config)
{
#define DEFAULT(member, value)                                                                     \
    do {                                                                                           \
        if (config->member <= 0)                                                                   \
            config->member = (value);                                                              \
    } while (0)
    DEFAULT(steps_max, 12);
    DEFAULT(seconds_max_us, 300 * USEC_PER_SEC);
    DEFAULT(tokens_max, 200000);
    DEFAULT(answers_max, 256);
    DEFAULT(answers_per_owner_max, 16);
    DEFAULT(waiting_per_chat_max, 8);
    DEFAULT(kept_us, 120 * USEC_PER_SEC);
#undef DEFAULT
}

/* What a service that ended left unanswered becomes an answer that says so. */
static int recover(struct agent *agent, struct gb_err *err)
{
    struct store_message *messages = NULL;
    size_t len = 0;
    int r = store_message_pending(agent->config.store, &messages, &len, err);

    for (size_t i = 0; r == 0 && i < len; i++)
        r = response_store_interrupted(agent, &messages[i], err);
    if (r == 0 && len > 0)
        service_log(agent->config.service, LOG_LEVEL_WARNING,
                    "mark: %zu answers were under way when the service ended; they can be asked "
                    "again",
                    len);
    store_messages_free(messages, len);
    return r;
}

static void agent_free(struct agent *agent)
{
    gate_free(agent->gate);
    prompts_release(&agent->prompts);
    (void) pthread_mutex_destroy(&agent->lock);
    (void) pthread_cond_destroy(&agent->idle);
    free(agent);
}

int agent_open(const struct agent_config *config, struct agent **ret_agent, struct gb_err *err)
{
    struct agent *agent = calloc(1, sizeof *agent);
    int r;

    if (!agent)
        return gb_fail(err, ENOMEM, "open Mark's agent");
    agent->config = *config;
    config_fill(&agent->config);
    (void) pthread_mutex_init(&agent->lock, NULL);
    cond_init(&agent->idle);
    r = prompts_open(&agent->prompts, config->data_dir, config->prompts, err);
    if (r == 0 && config->gate)
        r = gate_load(config->gate, &agent->gate, err);
    if (r == 0 && !config->keep_pending)
        r = recover(agent, err);
    if (r < 0) {
        agent_free(agent);
        return r;
    }
    *ret_agent = agent;
    return 0;
}

static struct answer **stop_all(struct agent *agent, const char *chat_id, size_t *ret_count);

void agent_drain(struct agent *agent)
{
    struct answer **list;
    size_t count;

    (void) pthread_mutex_lock(&agent->lock);
    agent->draining = true;
    (void) pthread_mutex_unlock(&agent->lock);
    list = stop_all(agent, NULL, &count);
    for (size_t i = 0; list && i < count; i++)
        answer_unref(list[i]);
    free(list);
    (void) pthread_mutex_lock(&agent->lock);
    while (agent->threads > 0 || agent->rechecks)
        (void) pthread_cond_wait(&agent->idle, &agent->lock);
    (void) pthread_mutex_unlock(&agent->lock);
}

void agent_close(struct agent *agent)
{
    if (!agent)
        return;
    agent_drain(agent);
    while (agent->answers) {
        struct answer *answer = agent->answers;

        agent->answers = answer->next;
        answer_unref(answer);
    }
    agent_free(agent);
}

void agent_get_stats(struct agent *agent, struct agent_stats *ret_stats)
{
    (void) pthread_mutex_lock(&agent->lock);
    *ret_stats = agent->stats;
    (void) pthread_mutex_unlock(&agent->lock);
}

struct agent_model_stats *agent_stats_of(struct agent *agent, const struct llm_model *model)
{
    for (size_t i = 0; i < AGENT_MODELS_MAX; i++) {
        if (!agent->models[i].model)
            agent->models[i].model = model;
        if (agent->models[i].model == model)
            return &agent->models[i].stats;
    }
    return NULL;
}

void agent_get_model_stats(struct agent *agent, const struct llm_model *model,
                           struct agent_model_stats *ret_stats)
{
    const struct agent_model_stats *stats;

    (void) pthread_mutex_lock(&agent->lock);
    stats = agent_stats_of(agent, model);
    *ret_stats = stats ? *stats : (struct agent_model_stats){ 0 };
    (void) pthread_mutex_unlock(&agent->lock);
}

/* ---- those in memory; with the agent's lock ---- */

/* Drops answers that ended long ago, and the oldest ones while all together are too many. The list
 * has the newest first. */
static void kept_sweep(struct agent *agent)
{
    int64_t now = clock_now_us();
    size_t count = 0, bytes = 0;

    for (struct answer **place = &agent->answers; *place;) {
        struct answer *answer = *place;

        if (answer->state == ANSWER_ENDED) {
            count++;
            bytes += answer->log.bytes;
            if (now - answer->ended_us > agent->config.kept_us || count > KEPT_COUNT_MAX ||
                bytes > KEPT_BYTES_MAX) {
                *place = answer->next;
                answer_unref(answer);
                continue;
            }
        }
        place = &answer->next;
    }
}

static struct line *line_find(struct agent *agent, const char *chat_id)
{
    struct line *line = agent->lines;

    while (line && strcmp(line->chat_id, chat_id) != 0)
        line = line->next;
    return line;
}

/* ---- the line of a chat ---- */

/* Takes the answer that has ended out of the line; the next one, or NULL and the line is gone. The
 * line has a reference to each of its answers. */
static struct answer *line_next(struct line *line)
{
    struct agent *agent = line->agent;
    struct answer *answer;

    (void) pthread_mutex_lock(&agent->lock);
    answer = line->first;
    if (answer && answer->state == ANSWER_ENDED) {
        agent->stats.running--;
        line->first = answer->next_in_line;
        answer_unref(answer);
        kept_sweep(agent);
        answer = line->first;
    }
    if (answer) {
        answer->state = ANSWER_RUNNING;
        agent->stats.waiting--;
        agent->stats.running++;
    } else {
        struct line **place = &agent->lines;

        while (*place != line)
            place = &(*place)->next;
        *place = line->next;
    }
    (void) pthread_mutex_unlock(&agent->lock);
    return answer;
}

static void *line_main(void *arg)
{
    struct line *line = arg;
    struct agent *agent = line->agent;
    struct answer *answer;

    while ((answer = line_next(line)))
        answer_work(answer);
    free(line);
    /* The last use of the agent by this thread: it may be closed now. */
    (void) pthread_mutex_lock(&agent->lock);
    agent->threads--;
    if (agent->threads == 0)
        (void) pthread_cond_broadcast(&agent->idle);
    (void) pthread_mutex_unlock(&agent->lock);
    return NULL;
}

/* Signals are handled by other threads. */
static int line_spawn(struct line *line)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    int r;

    (void) pthread_attr_init(&attr);
    (void) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void) pthread_attr_setstacksize(&attr, LINE_STACK);
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&thread, &attr, line_main, line);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void) pthread_attr_destroy(&attr);
    return -r;
}

/* Appends it to the line of its chat, which gets a thread if it is new. */
static int line_join(struct agent *agent, struct answer *answer)
{
    struct line *line = line_find(agent, answer->chat_id);

    if (line) {
        line->last->next_in_line = answer_ref(answer);
        line->last = answer;
        return 0;
    }
    line = calloc(1, sizeof *line);
    if (!line)
        return -ENOMEM;
    line->agent = agent;
    memcpy(line->chat_id, answer->chat_id, sizeof line->chat_id);
    line->first = line->last = answer_ref(answer);
    line->next = agent->lines;
    agent->lines = line;
    agent->threads++;
    if (line_spawn(line) == 0)
        return 0;
    agent->lines = line->next;
    agent->threads--;
    answer_unref(answer);
    free(line);
    return -EAGAIN;
}

/* Whether one more is within everybody's bounds. */
static int admit(struct agent *agent, const struct caller *caller, const char *chat_id,
                 struct fault *fault)
{
    int64_t own = 0, all = 0, same = 0;

    for (const struct answer *a = agent->answers; a; a = a->next) {
        if (a->state == ANSWER_ENDED)
            continue;
        all++;
        same += strcmp(a->chat_id, chat_id) == 0;
        own += principal_equal(&a->caller.principal, &caller->principal);
    }
    fault->retry_after_s = 0;
    if (agent->draining)
        (void) fault_set(fault, PROBLEM_DRAINING, NULL, "the service is shutting down");
    else if (same > agent->config.waiting_per_chat_max) /* one is under way */
        (void) fault_set(fault, PROBLEM_CHAT_BUSY, NULL,
                         "%lld questions wait in this chat already; wait for their answers, or "
                         "stop them",
                         (long long) agent->config.waiting_per_chat_max);
    else if (own >= agent->config.answers_per_owner_max)
        (void) fault_set(fault, PROBLEM_TOO_MANY_ANSWERS, NULL,
                         "%lld of your questions are being answered already; wait for one to end",
                         (long long) own);
    else if (all >= agent->config.answers_max)
        (void) fault_set(fault, PROBLEM_BUSY, NULL,
                         "too many questions are being answered; ask again in a moment");
    else
        return 0;
    fault->retry_after_s = 5;
    return -1;
}

/* Takes a place for @answer, or says why there is none. */
static int answer_admit(struct agent *agent, struct answer *answer, struct fault *fault)
{
    int r;

    (void) pthread_mutex_lock(&agent->lock);
    kept_sweep(agent);
    r = admit(agent, &answer->caller, answer->chat_id, fault);
    if (r == 0) {
        answer->next = agent->answers;
        agent->answers = answer_ref(answer);
        agent->stats.waiting++;
    }
    (void) pthread_mutex_unlock(&agent->lock);
    return r;
}

/* Gives the place back. */
static void answer_withdraw(struct agent *agent, struct answer *answer)
{
    struct answer **place = &agent->answers;

    (void) pthread_mutex_lock(&agent->lock);
    while (*place && *place != answer)
        place = &(*place)->next;
    if (*place) {
        *place = answer->next;
        agent->stats.waiting--;
        answer_unref(answer);
    }
    (void) pthread_mutex_unlock(&agent->lock);
}

/* Those in memory that were deleted: the answers from question number @seq on. */
static void kept_drop(struct agent *agent, const struct answer *instead)
{
    (void) pthread_mutex_lock(&agent->lock);
    for (struct answer **place = &agent->answers; *place;) {
        struct answer *answer = *place;

        if (answer == instead || answer->state != ANSWER_ENDED || answer->seq < instead->seq ||
            strcmp(answer->chat_id, instead->chat_id) != 0) {
            place = &answer->next;
            continue;
        }
        *place = answer->next;
        answer_unref(answer);
    }
    (void) pthread_mutex_unlock(&agent->lock);
}

static void session_end(struct agent *agent, const struct caller *caller, const char *id)
{
    struct session *session = NULL;
    struct fault ignored;

    if (id[0] && session_find(agent->config.service, caller, id, &session, &ignored) == 0)
        (void) session_delete(session, &ignored);
    session_unref(session);
}

static int pair_store(struct agent *agent, struct answer *answer, struct store_message *question,
                      struct store_message *message, struct store_replaced *replaced,
                      struct fault *fault)
{
    struct store *store = agent->config.store;
    struct gb_err err = { 0 };
    int r = replaced ? store_message_replace(store, replaced, question, message, &err)
                     : store_message_add(store, question, message, &err);

    if (r == -EBUSY)
        return fault_set(fault, PROBLEM_ANSWER_PENDING, NULL,
                         "an answer of this chat is under way; wait for it or stop it, and send "
                         "the changed question again");
    if (r < 0)
        return agent_store_fault(agent, replaced ? PROBLEM_MESSAGE_UNKNOWN : PROBLEM_CHAT_UNKNOWN,
                                 "store a question", r, &err, fault);
    if (question)
        answer->seq = question->seq;
    if (replaced) {
        session_end(agent, &answer->caller, replaced->session_id);
        kept_drop(agent, answer);
    }
    return 0;
}

int agent_begin(struct agent *agent, struct answer *answer, struct store_message *question,
                struct store_replaced *replaced, struct fault *fault)
{
    int64_t now = clock_wall_us();
    char parts[] = "[]";
    struct store_message message = { .role = STORE_ROLE_ASSISTANT,
                                     .status = STORE_MESSAGE_PENDING,
                                     .parts = parts,
                                     .created_us = now,
                                     .updated_us = now };
    struct gb_err err = { 0 };
    int r;

    memcpy(message.id, answer->message_id, sizeof message.id);
    memcpy(message.chat_id, answer->chat_id, sizeof message.chat_id);
    memcpy(message.reply_to, answer->question_id, sizeof message.reply_to);
    if (answer_admit(agent, answer, fault) < 0)
        return -1;
    if (pair_store(agent, answer, question, &message, replaced, fault) < 0) {
        answer_withdraw(agent, answer);
        return -1;
    }
    answer_event(answer, EV_CHAT,
                 json_pack("{s:s, s:s, s:s}", "chat_id", answer->chat_id, "message_id",
                           answer->message_id, "question_id", answer->question_id));
    (void) pthread_mutex_lock(&agent->lock);
    r = line_join(agent, answer);
    (void) pthread_mutex_unlock(&agent->lock);
    if (r == 0)
        return 0;
    /* It is stored, and can be asked again. */
    (void) response_store_interrupted(agent, &message, &err);
    answer_withdraw(agent, answer);
    (void) fault_set(fault, PROBLEM_OUT_OF_THREADS, NULL,
                     "the service is out of threads; ask again in a moment");
    fault->retry_after_s = 1;
    return -1;
}

/* ---- finding and stopping ---- */

static struct answer *agent_find_live(struct agent *agent, const struct caller *caller,
                                      const char *message_id)
{
    struct answer *answer;

    (void) pthread_mutex_lock(&agent->lock);
    answer = agent->answers;
    while (answer && (strcmp(answer->message_id, message_id) != 0 ||
                      !principal_equal(&answer->caller.principal, &caller->principal)))
        answer = answer->next;
    if (answer)
        (void) answer_ref(answer);
    (void) pthread_mutex_unlock(&agent->lock);
    return answer;
}

/* References to the answers of a chat (NULL: of all, and rechecks) that have not ended, in a list
 * that the caller frees; they are stopped. */
static struct answer **stop_all(struct agent *agent, const char *chat_id, size_t *ret_count)
{
    struct answer **list;
    size_t len = 0;

    (void) pthread_mutex_lock(&agent->lock);
    for (struct answer *a = agent->answers; a; a = a->next)
        len++;
    for (struct answer *a = agent->rechecks; a; a = a->next)
        len++;
    list = calloc(len + 1, sizeof *list);
    len = 0;
    for (struct answer *a = agent->answers; list && a; a = a->next)
        if (a->state != ANSWER_ENDED && (!chat_id || strcmp(a->chat_id, chat_id) == 0))
            list[len++] = answer_ref(a);
    for (struct answer *a = agent->rechecks; list && !chat_id && a; a = a->next)
        list[len++] = answer_ref(a);
    (void) pthread_mutex_unlock(&agent->lock);
    for (size_t i = 0; i < len; i++)
        answer_stop(list[i]);
    *ret_count = len;
    return list;
}

static int chat_get_own(struct agent *agent, const struct caller *caller, const char *chat_id,
                        struct store_chat *ret_chat, struct fault *fault)
{
    struct gb_err err = { 0 };
    int r = mark_id_valid(chat_id)
                ? store_chat_get(agent->config.store, principal_text(&caller->principal), chat_id,
                                 ret_chat, &err)
                : -ENOENT;

    if (r < 0)
        return agent_store_fault(agent, PROBLEM_CHAT_UNKNOWN, "read a chat", r, &err, fault);
    return 0;
}

int agent_stop(struct agent *agent, const struct caller *caller, const char *chat_id,
               size_t *ret_count, struct fault *fault)
{
    struct store_chat chat;
    struct answer **list;
    size_t count;

    if (chat_get_own(agent, caller, chat_id, &chat, fault) < 0)
        return -1;
    list = stop_all(agent, chat_id, &count);
    for (size_t i = 0; list && i < count; i++)
        answer_unref(list[i]);
    if (!list)
        return fault_no_memory(fault);
    free(list);
    *ret_count = count;
    return 0;
}

int agent_forget(struct agent *agent, const struct caller *caller, const char *chat_id,
                 struct fault *fault)
{
    struct store_chat chat;
    struct answer **list;
    size_t count;

    if (chat_get_own(agent, caller, chat_id, &chat, fault) < 0)
        return -1;
    list = stop_all(agent, chat_id, &count);
    for (size_t i = 0; list && i < count; i++) {
        (void) answer_wait(list[i], -1);
        answer_unref(list[i]);
    }
    if (!list)
        return fault_no_memory(fault);
    free(list);
    /* Its session may be new since the chat was read. */
    if (chat_get_own(agent, caller, chat_id, &chat, fault) < 0)
        return -1;
    session_end(agent, caller, chat.session_id);
    return 0;
}

/* Whether it is pending though no thread will end it. It is in the list before it is in the store,
 * and leaves the list only once its end was stored or could not be. */
static bool is_abandoned(struct agent *agent, const struct caller *caller,
                         const struct store_message *message)
{
    struct answer *live;

    if (message->role != STORE_ROLE_ASSISTANT || message->status != STORE_MESSAGE_PENDING ||
        agent->config.keep_pending)
        return false;
    live = agent_find_live(agent, caller, message->id);
    if (!live)
        return true;
    answer_unref(live);
    return false;
}

int agent_get_message(struct agent *agent, const struct caller *caller, const char *id,
                      struct store_message *ret_message, struct gb_err *err)
{
    const char *owner = principal_text(&caller->principal);
    struct store *store = agent->config.store;
    int r = store_message_get(store, owner, id, ret_message, err);

    if (r < 0 || !is_abandoned(agent, caller, ret_message))
        return r;
    /* Read again: it may have ended in between. */
    store_message_release(ret_message);
    r = store_message_get(store, owner, id, ret_message, err);
    if (r < 0 || ret_message->status != STORE_MESSAGE_PENDING ||
        response_store_interrupted(agent, ret_message, err) < 0)
        return r;
    store_message_release(ret_message);
    return store_message_get(store, owner, id, ret_message, err);
}

int answer_find(struct agent *agent, const struct caller *caller, const char *message_id,
                struct answer **ret_answer, struct fault *fault)
{
    struct store_message message = { 0 };
    struct gb_err err = { 0 };
    struct answer *live;
    int r;

    if (!mark_id_valid(message_id))
        return agent_store_fault(agent, PROBLEM_MESSAGE_UNKNOWN, "", -ENOENT, &err, fault);
    live = agent_find_live(agent, caller, message_id);
    if (live) {
        *ret_answer = live;
        return 0;
    }
    r = agent_get_message(agent, caller, message_id, &message, &err);
    if (r < 0)
        return agent_store_fault(agent, PROBLEM_MESSAGE_UNKNOWN, "read a message", r, &err, fault);
    if (message.role != STORE_ROLE_ASSISTANT)
        r = fault_set(fault, PROBLEM_NOT_AN_ANSWER, NULL, "that message is a question");
    else if (message.status == STORE_MESSAGE_PENDING || !message.response)
        r = fault_set(fault, PROBLEM_ANSWER_PENDING, NULL,
                      "the answer is not there yet; ask again in a moment");
    else
        r = answer_from_store(agent, caller, &message, ret_answer, fault);
    store_message_release(&message);
    return r;
}
