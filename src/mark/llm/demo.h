/* The model that needs no key: a canned conversation over the sample data (demo.c). */
#pragma once

#include "mark/llm/llm.h"

/* As llm_chat(). @ret_reply and @ret_error are zeroed when it is called; no trace is needed. */
int demo_chat(const struct llm_request *request, const struct llm_watch *watch, int cancel_fd,
              struct llm_reply *ret_reply, struct llm_error *ret_error);
