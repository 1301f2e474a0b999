/* The demo model: a script, not a language model. For this room only. */
#pragma once

#include "mark/llm/llm.h"

/* As llm_chat(), of which it is the provider. Fails only if it is cancelled or out of memory. */
int demo_chat(const struct llm_request *request, const struct llm_watch *watch, int cancel_fd,
              struct llm_reply *ret_reply, struct llm_error *ret_error);

/* What it says next in a conversation. */
struct demo_turn {
    const char *tool;    /* NULL: plain text, in arguments.text */
    const char *thought; /* said before, or NULL */
    json_t *arguments;   /* owned by the caller */
};

/* A pure function of the messages and of whether tools may be called; @must is a tool that has to
 * be called, or NULL. -ENOMEM. */
int demo_next(const json_t *messages, bool has_tools, const char *must, struct demo_turn *ret_turn);
