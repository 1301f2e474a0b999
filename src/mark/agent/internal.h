/*
 * What the files of the agent share.
 *
 * Locks: agent->lock, then answer->lock; neither is held while a model, a box or the store works.
 * What an answer gathers is written by its thread alone, under answer->lock, and read by that
 * thread without it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "mark/agent/agent.h"
#include "mark/agent/events.h"
#include "mark/agent/text.h"
#include "mark/ids.h"
#include "mark/story/story.h"
#include "store/chats.h"

/* ---- prompts (prompts.c) ---- */

enum prompt {
    PROMPT_PERSONA,
    PROMPT_DECIDE,
    PROMPT_FENCED,
    PROMPT_CODE,
    PROMPT_STORY,
    PROMPT_SOURCES,
    PROMPTS
};

#define PROMPT_BYTES_MAX   (32 * 1024)
#define PROMPT_VERSION_MAX 17

struct prompts {
    char *texts[PROMPTS];
    char version[PROMPT_VERSION_MAX]; /* a short hash of all */
    bool overridden[PROMPTS];
};

/* From @dir, or from mark/prompts/ of @data_dir; each may be NULL. */
int prompts_open(struct prompts *prompts, const char *data_dir, const char *dir,
                 struct gb_err *err);
void prompts_release(struct prompts *prompts);
const char *prompt_name(enum prompt prompt);
/* The system prompt; for free(). */
char *prompts_system(const struct prompts *prompts, const char *packages, bool fenced);

/* ---- the agent (agent.c) ---- */

struct line { /* the answers of one chat: one is under way, the others wait */
    struct line *next;
    struct agent *agent;
    char chat_id[STORE_ID_MAX];
    struct answer *first, *last;
};

#define AGENT_SESSIONS_MAX 1024

struct agent {
    struct agent_config config;
    struct prompts prompts;
    struct gate *gate;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t idle;  /* there are no threads, or no rechecks, any more */
    struct line *lines;
    struct answer *answers;  /* all in memory: waiting, under way, kept */
    struct answer *rechecks; /* what they gather into; by their member next */
    int64_t threads;
    bool draining;
    struct agent_stats stats;
    struct {
        const struct llm_model *model; /* NULL: the end of the list */
        struct agent_model_stats stats;
    } models[AGENT_MODELS_MAX];
    struct {
        char id[SESSION_ID_MAX];
        struct principal owner;
    } sessions[AGENT_SESSIONS_MAX]; /* that we made, in a ring */
    size_t sessions_next;
};

/* With the agent's lock: where calls of @model are counted, or NULL. */
struct agent_model_stats *agent_stats_of(struct agent *agent, const struct llm_model *model);

/* ---- what an answer has gathered (receipts.c) ---- */

struct gathered {
    json_t *steps, *values, *tables, *charts, *artifacts; /* arrays as in MarkResponse */
    json_t *notices;
    size_t table_bytes, chart_bytes;
    int64_t dropped; /* malformed or too large */
};

/* ---- answers (answers.c) ---- */

enum answer_state { ANSWER_WAITING, ANSWER_RUNNING, ANSWER_ENDED };

struct answer {
    struct answer *next, *next_in_line;
    atomic_int refs;
    struct agent *agent;
    struct caller caller;
    char *listener; /* the caller's */
    char chat_id[STORE_ID_MAX], message_id[STORE_ID_MAX], question_id[STORE_ID_MAX];
    char *query;
    char **attachments; /* ids */
    json_t *wanted;     /* names of the sources that the question asks for; NULL: it does not say */
    char **sources;     /* names of those that its programs may ask; once it is worked on */
    const struct llm_model *model;
    bool no_examples;
    int64_t seq; /* of the question */
    int stop_fd; /* an eventfd: readable once it is to stop */
    atomic_bool stop;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    _Atomic enum answer_state state;
    struct event_log log;
    struct execution *running; /* to be interrupted by a stop */
    struct gathered gathered;
    struct store_spent spent; /* by this answer so far */
    int64_t ended_us;
};

struct answer *answer_new(struct agent *agent, const struct caller *caller);
/* The answer's events, with its lock. */
void answer_event(struct answer *answer, enum event_name name, json_t *data); /* takes @data */
void answer_delta(struct answer *answer, enum event_name name, int64_t n, bool err,
                  const char *text, size_t len);
/* Sets or clears the execution that a stop interrupts. */
void answer_set_running(struct answer *answer, struct execution *execution);
/* The last event, after which it has ended. Takes @response; NULL: out of memory. */
void answer_end(struct answer *answer, json_t *response);
/* An answer from the store, with events that tell the whole. */
int answer_from_store(struct agent *agent, const struct caller *caller,
                      const struct store_message *message, struct answer **ret_answer,
                      struct fault *fault);
/* Works on it: to the end, and stores it (loop.c). */
void answer_work(struct answer *answer);

/* store_message_get() by the caller. An answer that is pending though nobody works on it, because
 * its end could not be stored, becomes one that was interrupted. */
int agent_get_message(struct agent *agent, const struct caller *caller, const char *id,
                      struct store_message *ret_message, struct gb_err *err);

/* The fault of a store's error: not found is @unknown, everything else internal and logged. */
int agent_store_fault(struct agent *agent, enum problem unknown, const char *what, int r,
                      const struct gb_err *err, struct fault *fault);

/* ---- budgets of the day (spending.c) ---- */

/* Before a question is stored: whether there is anything left for its answer. */
int spending_check(struct agent *agent, const struct caller *caller, const struct llm_model *model,
                   struct fault *fault);
/* A query of the answer's programs, before it runs and after it; on any thread. What was estimated
 * is reserved between the two, if it was let @passed. */
int spending_may_query(struct answer *answer, const json_t *estimate, struct fault *fault);
void spending_queried(struct answer *answer, bool passed, const json_t *record);

/* ---- JSON helpers (response.c) ---- */

json_t *json_text_cut(const char *text, size_t len, size_t max);
/* A string, also of text that was cut within a character. NULL: out of memory. */
json_t *json_text(const char *text);
