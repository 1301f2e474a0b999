/* What the model saw and said, for the owner of the chat. Keys are in no trace: they never get out
 * of mark/llm. */
#include <stdlib.h>
#include <string.h>

#include "base/text/strv.h"
#include "mark/agent/response.h"

#include "base/banned.h"

#define TRACE_STEPS_MAX 200
#define TRACE_BYTES_MAX ((size_t) 32 * 1024 * 1024)

static json_t *exchanges_of(char **texts)
{
    json_t *steps = json_array();
    size_t bytes = 0;

    for (size_t i = 0; texts && texts[i]; i++) {
        size_t len = strlen(texts[i]);
        json_t *step = NULL;

        bytes += len;
        if (i < TRACE_STEPS_MAX && bytes <= TRACE_BYTES_MAX)
            step = json_loadb(texts[i], len, JSON_ALLOW_NUL, NULL);
        if (!step)
            step = json_pack("{s:I, s:s}", "bytes", (json_int_t) len, "cut",
                             "this exchange is too large to be shown");
        if (step)
            (void) json_object_set_new(step, "n", json_integer((json_int_t) i + 1));
        (void) json_array_append_new(steps, step);
    }
    return steps;
}

const char *agent_prompt_version(const struct agent *agent)
{
    return agent->prompts.version;
}

static json_t *prompts_of(const struct agent *agent, const struct store_message *message)
{
    json_t *prompts = json_pack("{s:s}", "version", message->prompt_version);

    /* The texts of another version are in the requests, as they were sent. */
    if (strcmp(message->prompt_version, agent->prompts.version) == 0)
        for (int i = 0; i < PROMPTS; i++)
            (void) json_object_set_new(prompts, prompt_name((enum prompt) i),
                                       json_string(agent->prompts.texts[i]));
    return prompts;
}

int agent_trace(struct agent *agent, const struct caller *caller, const char *message_id,
                json_t **ret_json, struct fault *fault)
{
    struct store_message message = { 0 };
    struct gb_err err = { 0 };
    char **texts = NULL;
    json_t *details;
    int r;

    if (agent_get_answer(agent, caller, message_id, &message, fault) < 0)
        return -1;
    r = store_trace_list(agent->config.store, principal_text(&caller->principal), message_id,
                         &texts, &err);
    if (r < 0) {
        r = agent_store_fault(agent, PROBLEM_MESSAGE_UNKNOWN, "read a trace", r, &err, fault);
    } else {
        details = message.details ? json_loads(message.details, JSON_ALLOW_NUL, NULL) : NULL;
        *ret_json =
            json_pack("{s:s, s:O?, s:o, s:O?, s:O?, s:o}", "message_id", message.id, "model",
                      json_object_get(details, "model"), "prompts", prompts_of(agent, &message),
                      "decisions", json_object_get(details, "decisions"), "cause",
                      json_object_get(details, "cause"), "steps", exchanges_of(texts));
        json_decref(details);
        r = *ret_json ? 0 : fault_no_memory(fault);
    }
    strv_free(texts);
    store_message_release(&message);
    return r;
}
