/*
 * Recheck: an answer's programs once more, in a fresh box, without a model (case.c). The answer
 * itself stays as it is; the result is kept in its details.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mark/agent/work.h"

#include "base/banned.h"

/* In the details of the answer, with the time. */
static void keep_result(struct agent *agent, struct store_message *message, json_t *details,
                        json_t *result)
{
    json_t *kept = json_copy(result);
    struct gb_err err;

    (void) json_object_set_new(kept, "at_us", json_integer(clock_wall_us()));
    (void) json_object_set_new(details, "recheck", kept);
    free(message->details);
    message->details = json_dumps(details, JSON_COMPACT);
    free(message->parts); /* NULL: unchanged */
    message->parts = NULL;
    if (!message->details || store_message_finish(agent->config.store, message, &err) < 0)
        service_log(agent->config.service, LOG_LEVEL_WARNING,
                    "mark: a recheck of %s could not be stored", message->id);
}

int agent_recheck(struct agent *agent, const struct caller *caller, const char *message_id,
                  unsigned flags, json_t **ret_json, struct fault *fault)
{
    struct store_message message = { 0 };
    json_t *details, *json, *result = NULL;
    struct gb_err err = { 0 };
    int r;

    if (agent_get_answer(agent, caller, message_id, &message, fault) < 0)
        return -1;
    details = message.details ? json_loads(message.details, JSON_ALLOW_NUL, NULL) : NULL;
    if (!details)
        details = json_object();
    json = case_make(agent, caller, &message, details, &err);
    r = json ? agent_case_run(agent, caller, json, flags, &result, fault)
             : agent_store_fault(agent, PROBLEM_MESSAGE_UNKNOWN, "read a chat", -err.code, &err,
                                 fault);
    if (r == 0) {
        keep_result(agent, &message, details, result);
        *ret_json = result;
    }
    json_decref(json);
    json_decref(details);
    store_message_release(&message);
    return r;
}
