/* Recorded exchanges with a model, and a model that says them again. For this room only; llm.h has
 * what others need. */
#pragma once

#include "mark/llm/internal.h"

#define CASSETTE_KEY_MAX 65 /* hex digits and NUL */

/* What makes two requests the same: the conversation and the tools, without ids, and with what
 * differs from run to run made equal. 0 or -ENOMEM. */
int cassette_key(const struct llm_request *request, char buf[CASSETTE_KEY_MAX]);

/* How many times the assistant has spoken in the conversation. */
int64_t cassette_turn(const struct llm_request *request);

/* Appends an exchange; a failure is counted. */
void recorder_add(struct llm_recorder *recorder, const struct llm_model *model,
                  const struct llm_request *request, const struct llm_reply *reply);

/* Of a recording with several models it takes those that were called @name. */
int cassette_open(const char *path, const char *name, struct cassette **ret_cassette,
                  struct gb_err *err);
void cassette_free(struct cassette *cassette); /* accepts NULL */
bool cassette_has_tools(const struct cassette *cassette);
int64_t cassette_context(const struct cassette *cassette); /* 0: not said */

/* *@ret_drifted: the request was another one, though for the same question and turn. */
int cassette_chat(const struct cassette *cassette, const struct llm_request *request,
                  const struct llm_watch *watch, int cancel_fd, struct llm_reply *ret_reply,
                  bool *ret_drifted, struct llm_error *ret_error);
