#include "mark/llm/known.h"

#include <string.h>

#include "base/autoclean.h"

#include "base/banned.h"

/*
 * Context and longest reply in tokens, US dollars per million tokens (prompt, prompt from the
 * cache, reply), as the vendors' pages had them in November 2026. A cost is an estimate: tiers,
 * batches and long contexts have other prices. A model that is not here works as well, without a
 * cost.
 */
static const struct known {
    const char *model;
    int64_t context, output_max;
    double prompt, cached, completion;
} table[] = {
    { "gpt-5.5", 1050000, 128000, 5, 0.5, 30 },
    { "gpt-5.4", 1050000, 128000, 2.5, 0.25, 15 },
    { "gpt-5.4-mini", 400000, 128000, 0.75, 0.075, 4.5 },
    { "gpt-5.4-nano", 400000, 128000, 0.2, 0.02, 1.25 },
    { "gpt-5.2", 400000, 128000, 1.75, 0.175, 14 },
    { "gpt-5.1", 400000, 128000, 1.25, 0.125, 10 },
    { "gpt-5", 400000, 128000, 1.25, 0.125, 10 },
    { "gpt-5-mini", 400000, 128000, 0.25, 0.025, 2 },
    { "gpt-5-nano", 400000, 128000, 0.05, 0.005, 0.4 },
    { "gpt-4.1", 1047576, 32768, 2, 0.5, 8 },
    { "gpt-4.1-mini", 1047576, 32768, 0.4, 0.1, 1.6 },
    { "gpt-4.1-nano", 1047576, 32768, 0.1, 0.025, 0.4 },
    { "gpt-4o", 128000, 16384, 2.5, 1.25, 10 },
    { "gpt-4o-mini", 128000, 16384, 0.15, 0.075, 0.6 },
    { "o3", 200000, 100000, 2, 0.5, 8 },
    { "o4-mini", 200000, 100000, 1.1, 0.275, 4.4 },
    { "claude-fable-5-1", 1000000, 128000, 10, 1, 50 },
    { "claude-opus-5-5", 1000000, 128000, 4, 0.4, 20 },
    { "claude-opus-5", 1000000, 128000, 5, 0.5, 25 },
    { "claude-opus-4-6", 1000000, 128000, 5, 0.5, 25 },
    { "claude-opus-4-5", 200000, 64000, 5, 0.5, 25 },
    { "claude-opus-4-1", 200000, 32000, 15, 1.5, 75 },
    { "claude-sonnet-5-5", 1000000, 128000, 2, 0.2, 10 },
    { "claude-sonnet-5", 1000000, 128000, 2, 0.2, 10 },
    { "claude-sonnet-4-6", 1000000, 64000, 3, 0.3, 15 },
    { "claude-sonnet-4-5", 200000, 64000, 3, 0.3, 15 },
    { "claude-haiku-5-5", 1000000, 128000, -1, -1, -1 }, /* its price has tiers */
    { "claude-haiku-4-5", 200000, 64000, 1, 0.1, 5 },
};

/* The model itself, or a dated form of it: "gpt-4o-2024-11-20", "claude-haiku-4-5-20251001". Not
 * another of the family: "gpt-5.5-pro" costs six times as much as "gpt-5.5". */
static bool is_form_of(const char *name, const char *model)
{
    size_t len = strlen(model);

    if (strncmp(name, model, len) != 0)
        return false;
    name += len;
    return *name == '\0' || strncmp(name, "-20", 3) == 0 || strcmp(name, "-latest") == 0;
}

void known_fill(struct llm_model *model)
{
    const char *slash = strrchr(model->model, '/'); /* gateways say "openai/gpt-5.4" */
    const char *name = slash ? slash + 1 : model->model;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (!is_form_of(name, table[i].model))
            continue;
        model->context = table[i].context;
        model->output_max = table[i].output_max;
        if (model->vendor)
            model->price = (struct llm_price){ .prompt = table[i].prompt,
                                               .cached = table[i].cached,
                                               .completion = table[i].completion };
        return;
    }
}
