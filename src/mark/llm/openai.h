/* The two halves of the Chat Completions dialect. */
#pragma once

#include "mark/llm/internal.h"

json_t *openai_encode(const struct llm_model *model, const struct llm_request *request,
                      unsigned quirks, const json_t *blocks);
