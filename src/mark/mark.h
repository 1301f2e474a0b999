/*
 * Mark: an assistant that answers questions about data by writing Python and running it in boxes.
 * This is the module's public header; rooms have their own (auth/auth.h, agent/agent.h,
 * attach/attachments.h, chat/chats.h, export/export.h, llm/llm.h).
 *
 * Every function may be called by any thread and may wait. Everything belongs to an owner: a user
 * of auth.h, an API key, or the local caller of a command; for any other it does not exist.
 */
#pragma once

#include "mark/agent/agent.h"
#include "mark/attach/attachments.h"
#include "mark/auth/auth.h"
#include "mark/export/export.h"
#include "mark/llm/llm.h"
#include "mark/verify/verify.h"

struct mark;

struct mark_config {
    struct service *service;
    struct store *store;
    const char *data_dir;
    struct llm_config models;
    struct auth_config auth; /* store and data_dir are set by us, here and below */
    struct attachments_config attachments;
    struct sources_config sources;
    struct broker_config broker;
    struct agent_config agent;
    struct store_spent budget; /* of one owner and day; members of 0: no limit */
    bool guests;               /* removes those whose day is over, from time to time */
};

/* Opens all parts. @config is copied; what it points to must stay valid. */
int mark_open(const struct mark_config *config, struct mark **ret_mark, struct gb_err *err);
/* Before service_drain(): refuses new questions, stops the answers that are under way, and waits
 * until what there is of them is stored. Accepts NULL. */
void mark_drain(struct mark *mark);
void mark_close(struct mark *mark); /* before the service; accepts NULL */

/* For the deletion of an account: ends all answers and boxes of the caller's chats, and removes its
 * chats and attachments with their files. */
int mark_forget(struct mark *mark, const struct caller *caller, struct fault *fault);

/* Removes an account with everything that belongs to it, here and in the service. */
int mark_delete_user(struct mark *mark, const char *user_id, struct fault *fault);

/* "off" (@mark is NULL), "no-model", "demo" or "ready". */
const char *mark_state(struct mark *mark);

/* Ends a chat's answers and its box, and removes it with all that only it has. */
int mark_forget_chat(struct mark *mark, const struct caller *caller, const char *chat_id,
                     struct fault *fault);

struct auth *mark_auth(struct mark *mark);
struct agent *mark_agent(struct mark *mark);
struct attachments *mark_attachments(struct mark *mark);
struct sources *mark_sources(struct mark *mark);
struct broker *mark_broker(struct mark *mark);
struct verify *mark_verify(struct mark *mark);
struct exports *mark_exports(struct mark *mark);
const struct llm_models *mark_models(struct mark *mark);
struct store *mark_store(struct mark *mark);
struct service *mark_service(struct mark *mark);
struct budgets *mark_budgets(struct mark *mark);
