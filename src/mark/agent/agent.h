/*
 * The agent: from a question to an answer that was computed.
 *
 * Theory of operation. agent_ask() stores the question and a pending answer, and returns; a thread
 * of the agent works on the answer, one at a time in each chat, in order. It asks the model, runs
 * the code that the model writes in the chat's session, shows it the results, and so on until the
 * model answers or a budget ends (loop.c). What happens is recorded as events in memory, which any
 * number of readers follow (answer_next_event()); a client that goes away loses nothing. When the
 * answer is done it is stored, and then kept in memory for a while, for readers that come back.
 *
 * A service that ends in the middle leaves the question and a pending answer in the store; the next
 * one turns it into an error that says so, to be asked again (regenerate).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mark/attach/attachments.h"
#include "mark/broker/broker.h"
#include "mark/budget/budget.h"
#include "mark/llm/llm.h"
#include "service/service.h"

struct agent;
struct answer;
struct gate;

enum agent_audit { AGENT_AUDIT_HASH, AGENT_AUDIT_WHOLE };

struct agent_config {
    struct service *service;
    struct store *store;
    struct attachments *attachments;
    const struct llm_models *models;
    struct budgets *budgets; /* of the day; NULL: none */
    struct sources *sources; /* may be NULL, as the next */
    struct broker *broker;   /* that programs ask for queries */
    const char *data_dir;    /* prompts in mark/prompts/ override the embedded ones */
    const char *prompts;     /* those in this directory instead, which must exist; NULL: none */
    const char *gate;        /* file of the policy gate; NULL: off */
    bool installs;           /* programs may install packages */
    bool strict;             /* an answer with an unsupported number is not shown */
    enum agent_audit audit;
    int64_t steps_max, seconds_max_us, tokens_max; /* of one answer; 0: 12, 300 s, 200,000 */
    double cost_max;                               /* of one answer, US dollars; 0: no limit */
    int64_t answers_max;                           /* under way at one time; 0: 256 */
    int64_t answers_per_owner_max;                 /* under way or waiting; 0: 16 */
    int64_t waiting_per_chat_max;                  /* 0: 8 */
    int64_t kept_us;                               /* finished answers in memory; 0: 120 s */
    bool keep_pending; /* another process may be answering: leave what is pending alone */
    /* Answers that people verified and that resemble a question, as text of at most @max bytes for
     * the prompt, for free(); NULL: there are none. May be NULL. On any thread. */
    char *(*examples)(void *arg, const struct caller *caller, const char *question, size_t max);
    void *examples_arg;
};

int agent_open(const struct agent_config *config, struct agent **ret_agent, struct gb_err *err);
/* Stops all answers as if asked to, waits for their threads and stores what there is. Accepts
 * NULL. */
void agent_close(struct agent *agent);

/* Refuses new questions from now on, stops all answers as agent_stop() would, and waits until they
 * have ended and are stored. May be called more than once; agent_close() does it too. */
void agent_drain(struct agent *agent);

struct agent_stats {
    int64_t running, waiting; /* now; the rest since the start */
    int64_t ok, error, stopped, needs_input;
    int64_t steps, model_calls, model_failures;
    int64_t prompt_tokens, completion_tokens, cached_tokens;
    double cost; /* US dollars, as far as is known */
};

void agent_get_stats(struct agent *agent, struct agent_stats *ret_stats);

/* Calls of one model since the start. Models after the first AGENT_MODELS_MAX are not told apart.
 */
#define AGENT_MODELS_MAX 64
struct agent_model_stats {
    int64_t calls, failures, prompt_tokens, completion_tokens, cached_tokens;
    double cost;
};
void agent_get_model_stats(struct agent *agent, const struct llm_model *model,
                           struct agent_model_stats *ret_stats);
/* A short hash of the prompt texts. */
const char *agent_prompt_version(const struct agent *agent);

/* ---- asking ---- */

#define AGENT_QUERY_MAX       (64 * 1024)
#define AGENT_ATTACHMENTS_MAX 20
#define AGENT_SOURCES_MAX     50

struct agent_question {
    const char *query;
    const char *chat_id;            /* NULL: a new chat */
    const char *const *attachments; /* ids, NULL-terminated; may be NULL */
    const char *model;              /* NULL: the chat's, or the default one */
    const char *const *sources;     /* ids or names; NULL: the chat's, or all there are */
    bool no_examples;               /* verified answers stay out of the prompt */
};

/* Returns as soon as the question is stored. The caller gets a reference. */
int agent_ask(struct agent *agent, const struct caller *caller,
              const struct agent_question *question, struct answer **ret_answer,
              struct fault *fault);
/* A new answer to the question of message @message_id, which is an answer; by @model, or if that is
 * NULL by the chat's. */
int agent_regenerate(struct agent *agent, const struct caller *caller, const char *message_id,
                     const char *model, struct answer **ret_answer, struct fault *fault);
/* Asks @question in place of message @message_id, which is a question: that one and everything
 * after it in its chat is deleted, and the chat's session ends, so that programs of answers that
 * are gone leave nothing behind. Without attachments or sources (NULL) it has those of the old one;
 * its chat_id does not count. Refused while an answer of the chat is under way. */
int agent_edit(struct agent *agent, const struct caller *caller, const char *message_id,
               const struct agent_question *question, struct answer **ret_answer,
               struct fault *fault);
/* The answers of a chat that are under way or wait end as "stopped", with what there is.
 * *@ret_count is how many; 0 is not a fault. */
int agent_stop(struct agent *agent, const struct caller *caller, const char *chat_id,
               size_t *ret_count, struct fault *fault);
/* The chat is about to be deleted: its answers and its session end. */
int agent_forget(struct agent *agent, const struct caller *caller, const char *chat_id,
                 struct fault *fault);

/* ---- answers ---- */

/* Under way, kept, or read from the store. */
int answer_find(struct agent *agent, const struct caller *caller, const char *message_id,
                struct answer **ret_answer, struct fault *fault);
struct answer *answer_ref(struct answer *answer);
void answer_unref(struct answer *answer); /* accepts NULL */

/* This one ends as "stopped", with what there is; others of its chat go on. */
void answer_stop(struct answer *answer);

const char *answer_chat_id(const struct answer *answer);
const char *answer_message_id(const struct answer *answer);

/* Waits until it has ended, at most @timeout_us (negative: forever); true if it has. */
bool answer_wait(struct answer *answer, int64_t timeout_us);
/* MarkResponse: of an answer that has not ended with status "pending" and what there is so far.
 * Built by each call, the caller's; NULL: out of memory. */
json_t *answer_to_json(struct answer *answer);

struct answer_event {
    int64_t id;       /* from 1; the id in the stream */
    const char *name; /* "chat", "thinking", "step", ..., "done", "error": valid forever */
    char *data;       /* JSON text, for free() */
    bool last;
};

/* The first event after number @after (0: from the start): 1 and the event, 0 if none came within
 * @timeout_us, -1 after the last. Deltas that a slow reader missed come joined. An answer that is
 * read from the store has the events that tell the whole; with @after above 0 only the last. */
int answer_next_event(struct answer *answer, int64_t after, int64_t timeout_us,
                      struct answer_event *ret_event);

/* ---- looking back ---- */

/* An answer with all that is needed to run it again when its chat is gone: {"message_id",
 * "chat_id", "question", "asked": [earlier questions], "before": [code of earlier answers],
 * "cells": [code], "files": [{"name", "path", "sha256", "size"}], "values", "data",
 * "visualizations", "charts_shown", "tables_shown", "queries": [{"key", "sha256", "size",
 * "query"}] (of this and the earlier answers), "sources": [names], "numbers", "status", "story"
 * (with its references), "template", "packages", "model", "prompt_version"}. What the answer does
 * not have is not there. */
int agent_case(struct agent *agent, const struct caller *caller, const char *message_id,
               json_t **ret_case, struct fault *fault);

#define AGENT_CASE_NOW  1u /* in the box that a new chat would get, not in that of its template */
#define AGENT_CASE_LIVE 2u /* asks the sources again instead of replaying what was recorded */

/* Runs a case in a fresh box, without a model, and compares what it has of values, data and
 * visualizations; the result is that of agent_recheck(). Waits. */
int agent_case_run(struct agent *agent, const struct caller *caller, const json_t *json,
                   unsigned flags, json_t **ret_result, struct fault *fault);
/* The same for those who want more of the box: before the first program and after the last. A fault
 * of either ends it. */
struct agent_case_hooks {
    int (*begin)(void *arg, struct session *session, struct fault *fault); /* may be NULL */
    int (*end)(void *arg, struct session *session, struct fault *fault);
    void *arg;
};
int agent_case_run_with(struct agent *agent, const struct caller *caller, const json_t *json,
                        unsigned flags, const struct agent_case_hooks *hooks, json_t **ret_result,
                        struct fault *fault);
/* Runs the answer's code again in a fresh box, without a model, and compares: {"equal", "values":
 * [{"name", "before", "after", "equal"}], "tables": [...], "charts": [...], "seconds", "checked",
 * "failed", "errors": [{"n", "error"}]}, and "packages" and "template" {"before", "after"} if they
 * are others now. Queries are replayed; with AGENT_CASE_LIVE the sources are asked again, and
 * "queries" has what came of it. Waits. */
int agent_recheck(struct agent *agent, const struct caller *caller, const char *message_id,
                  unsigned flags, json_t **ret_json, struct fault *fault);
/* {"message_id", "model", "prompts": {...}, "steps": [...]}: the exact requests and replies. */
int agent_trace(struct agent *agent, const struct caller *caller, const char *message_id,
                json_t **ret_json, struct fault *fault);
