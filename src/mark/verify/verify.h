/*
 * Verified answers: what a person has looked at and found right.
 *
 * Theory of operation. A verified answer is the case of an answer (agent_case()): its programs and
 * those it builds on, its inputs by their hashes, and what came out. It does not need its chat any
 * more, and its inputs stay while it is there, whoever deletes the attachments. It serves twice:
 * as a regression case, which is run again in the box that a new chat would get and compared
 * (verify_check()), or asked again from a model (verify_again()); and as an example in the prompt
 * of later questions that resemble it (verify_examples()), for its owner, or for everybody who may
 * use its sources if an operator shares it.
 *
 * An answer of somebody else does not exist here either. One that failed, that has a number nobody
 * computed, or that computed nothing cannot be verified.
 */
#pragma once

#include "mark/agent/agent.h"
#include "mark/attach/attachments.h"
#include "mark/broker/broker.h"
#include "store/verified.h"

#define VERIFY_NOTE_MAX 2000
#define VERIFY_PAGE_MAX 200

struct verify;

struct verify_config {
    struct service *service;
    struct store *store;
    struct agent *agent;
    struct attachments *attachments;
    struct broker *broker;
    int64_t owner_bytes_max; /* of inputs of one owner; 0: 1 GiB */
    /* Whether @caller may use the source @name; NULL: nobody may. */
    bool (*may_use)(void *arg, const struct caller *caller, const char *name);
    void *arg;
};

int verify_open(const struct verify_config *config, struct verify **ret_verify, struct gb_err *err);
void verify_close(struct verify *verify); /* accepts NULL; no call may be under way */

/* All JSON belongs to the caller. A verified answer: {verified_id, message_id, question, note,
 * shared, mine, created, checked, passed}; checked and passed are null before the first check. */

/* @note may be NULL. @shared: operators only. */
int verify_add(struct verify *verify, const struct caller *caller, const char *message_id,
               const char *note, bool shared, json_t **ret_json, struct fault *fault);
/* By the id of the answer, also when its chat is gone. An operator may take back those of others
 * that are shared. */
int verify_remove(struct verify *verify, const struct caller *caller, const char *message_id,
                  struct fault *fault);
/* {"verified": [...], "next": id or null}: the caller's and those that are shared with it, newest
 * first, after the id @after (NULL: from the start). */
int verify_list(struct verify *verify, const struct caller *caller, const char *after,
                int64_t limit, json_t **ret_json, struct fault *fault);
/* {verified_id, shared, created} of an answer of the caller's, or null. */
json_t *verify_of(struct verify *verify, const struct caller *caller, const char *message_id);

/* Runs it again without a model: {verified_id, message_id, question, status: "ok" | "changed" |
 * "cannot_run", differences: [text], notes: [text], result}. differences are what broke; notes are
 * what is different besides, such as versions of packages; result is that of agent_recheck() or
 * null. The outcome is kept. Its owner and operators may. Waits. */
int verify_check(struct verify *verify, const struct caller *caller, const char *id,
                 json_t **ret_json, struct fault *fault);
/* Asks the questions of its chat again, from @model (NULL: the default), in a chat of the caller's
 * that is deleted afterwards, without examples. The values that its story shows are compared by
 * name, or by what they are if the model calls them otherwise. The same JSON, with "story" instead
 * of a result; nothing is kept. Waits. */
int verify_again(struct verify *verify, const struct caller *caller, const char *id,
                 const char *model, json_t **ret_json, struct fault *fault);

/* The ids of all, oldest first, of whomever; for strv_free(). For the operator's command. */
int verify_ids(struct verify *verify, char ***ret_ids, struct gb_err *err);

/* Those that resemble @question most, as text of at most @max bytes. Written by people and models:
 * the caller fences it. NULL: there are none. For free(). */
char *verify_examples(struct verify *verify, const struct caller *caller, const char *question,
                      size_t max);
