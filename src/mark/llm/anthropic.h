/* The two halves of the Messages dialect. */
#pragma once

#include "mark/llm/internal.h"

json_t *anthropic_encode(const struct llm_model *model, const struct llm_request *request,
                         unsigned quirks, const json_t *paused);
