/* Facts about well-known models. */
#pragma once

#include "mark/llm/internal.h"

#define KNOWN_AS_OF "2026-11" /* when the prices were looked up */

/* The models that are used if a vendor's key is set and no name: they call tools over the API that
 * this dialect speaks. */
#define OPENAI_DEFAULT_MODEL    "gpt-5.4"
#define ANTHROPIC_DEFAULT_MODEL "claude-sonnet-5-5"

/* Sets context, output_max, and the price if the server is the vendor's; leaves what is not known
 * alone. */
void known_fill(struct llm_model *model);
