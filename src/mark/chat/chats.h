/*
 * Chats, messages and feedback as the wire shows them, over store/chats.h. Nothing here waits for a
 * model or a box.
 */
#pragma once

#include <jansson.h>

#include "service/service.h"
#include "store/store.h"

#define CHAT_PAGE_MAX     200
#define CHAT_MESSAGES_MAX 200
#define CHAT_REASONS_MAX  10   /* of a rating */
#define CHAT_COMMENT_MAX  8192 /* bytes of its text */
#define CHAT_SEARCH_MAX   256  /* bytes of what is searched for */

/* All JSON belongs to the caller. */

/* {"chat_id"}: a chat without messages. */
int chat_create(struct store *store, const struct caller *caller, json_t **ret_json,
                struct fault *fault);
/* {"chats": [{chat_id, title, created, updated, model}], "next": text or null}; "next" is what
 * @after is for the next page. @limit is from 1 to CHAT_PAGE_MAX. */
int chat_list(struct store *store, const struct caller *caller, const char *q, const char *after,
              int64_t limit, json_t **ret_json, struct fault *fault);
int chat_get(struct store *store, const struct caller *caller, const char *id, json_t **ret_json,
             struct fault *fault);
int chat_rename(struct store *store, const struct caller *caller, const char *id, const char *title,
                json_t **ret_json, struct fault *fault);
/* End its answers first: agent_forget(). */
int chat_delete(struct store *store, const struct caller *caller, const char *id,
                struct fault *fault);
/* {"messages": [{message_id, role, status, reply_to, text, attachments, response, created,
 *  feedback}], "next": seq or null}; of an answer text is its story. A page ends early if its
 *  answers are large. */
int chat_messages(struct store *store, const struct caller *caller, const char *id, int64_t after,
                  int64_t limit, json_t **ret_json, struct fault *fault);
/* One of them, with its "chat_id". */
int chat_message(struct store *store, const struct caller *caller, const char *message_id,
                 json_t **ret_json, struct fault *fault);

/* @reasons: an array of words, or NULL. Replaces the caller's earlier rating of that answer. */
int chat_feedback(struct store *store, const struct caller *caller, const char *message_id, bool up,
                  const json_t *reasons, const char *text, json_t **ret_json, struct fault *fault);
/* Every rating with its question, code, story and model, as one JSON object each; a negative return
 * value of @each ends it. */
int chat_feedback_export(struct store *store, int64_t since_us,
                         int (*each)(void *arg, const json_t *entry), void *arg,
                         struct gb_err *err);

/* The title of a chat made from its first question: one line, at most 80 characters and
 * STORE_TITLE_MAX - 1 bytes, cut between words. @size is at least STORE_TITLE_MAX. */
void chat_title_make(const char *question, char *buf, size_t size);
