/* MarkResponse: what the wire shows of an answer. */
#pragma once

#include "mark/agent/internal.h"
#include "mark/agent/receipts.h"

/* How an answer ended. */
struct ending {
    enum store_message_status status;
    char *story;             /* as the model wrote it, or ours; owned */
    bool ours;               /* our words: nothing in them is to be checked */
    char *question;          /* of ask_user; owned, or NULL */
    json_t *charts, *tables; /* numbers that the model chose; NULL: all */
    struct llm_usage usage;  /* of all calls */
    int64_t wall_us;
    const char *cause; /* of an error, for the log: a word; NULL: none */
};

void ending_release(struct ending *ending);

/* While it is under way; with the answer's lock. */
json_t *response_pending(struct answer *answer);
/* The whole, with the story filled in and checked. @story is NULL if ours. */
json_t *response_build(struct answer *answer, const struct ending *ending,
                       const struct story *story);
/* Those of @all that @numbers, from 1, choose; no array: all of them. */
json_t *response_choose(const json_t *all, const json_t *numbers);
const char *response_status_name(enum store_message_status status);
/* Ends a stored answer that nobody works on any more. */
int response_store_interrupted(struct agent *agent, const struct store_message *message,
                               struct gb_err *err);

/* ---- between ask.c and agent.c ---- */

/* Stores the answer (with @question, which may be NULL), and has it worked on. @replaced, if it is
 * not NULL, is what they are in place of; its session ends. */
int agent_begin(struct agent *agent, struct answer *answer, struct store_message *question,
                struct store_replaced *replaced, struct fault *fault);
/* The caller's answer, which has ended; otherwise a fault. */
int agent_get_answer(struct agent *agent, const struct caller *caller, const char *message_id,
                     struct store_message *ret_message, struct fault *fault);
/* The words of a message, and the ids of its attachments; the caller frees them. */
char *message_text(const struct store_message *message);
char **message_attachments(const struct store_message *message);
/* Names of the sources that a question asks for; the caller's. NULL: it does not say. */
json_t *message_sources(const struct store_message *message);
