/*
 * What a call asks its client, and the client's answers. mcp/tool.h describes how the two eras do
 * it. In the old era the answer arrives as a separate message and peer_answer() hands it to the
 * call; in the new era it is part of a second request.
 */
#include <stdio.h>

#include "base/autoclean.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

bool call_has_capability(const struct mcp_call *call, const char *name)
{
    return message_object(call->capabilities, name) != NULL;
}

bool call_needs_capability(struct mcp_call *call, const char *name)
{
    if (call_has_capability(call, name))
        return true;
    call_fail_data(call, call->era == MCP_MODERN ? MCP_NO_CAPABILITY : MCP_INVALID_REQUEST,
                   json_pack("{s:{s:{}}}", "requiredCapabilities", name),
                   "this needs a client with the capability %s", name);
    return false;
}

/* ---- the old era ---- */

void call_ask(struct mcp_call *call, const char *method, json_t *params)
{
    json_t *message;

    pthread_mutex_lock(&call->lock);
    snprintf(call->ask_id, sizeof call->ask_id, "gb-%d-%d", call->number, ++call->asks);
    json_decref(call->answer);
    call->answer = NULL;
    message = json_pack("{s:s, s:s, s:s, s:o}", "jsonrpc", "2.0", "id", call->ask_id, "method",
                        method, "params", params);
    pthread_mutex_unlock(&call->lock);
    call_put(call, message ? json_dumps(message, MCP_JSON) : NULL);
    json_decref(message);
}

json_t *call_take_answer(struct mcp_call *call)
{
    json_t *answer;

    pthread_mutex_lock(&call->lock);
    answer = TAKE_PTR(call->answer);
    pthread_mutex_unlock(&call->lock);
    return answer;
}

/* ---- the new era ---- */

void call_require_input(struct mcp_call *call, json_t *requests, json_t *state)
{
    json_t *result =
        json_pack("{s:s, s:o}", "resultType", "input_required", "inputRequests", requests);
    autofree char *sealed = state ? state_seal(call, state) : NULL;

    if (sealed && result)
        (void) json_object_set_new(result, "requestState", json_string(sealed));
    json_decref(state);
    call_reply(call, result);
}

int ask_check_retry(struct mcp_call *call)
{
    json_t *responses = json_object_get(call->params, "inputResponses"), *value;
    json_t *state = json_object_get(call->params, "requestState");
    const char *key;

    if (responses && !json_is_object(responses)) {
        call_fail(call, MCP_INVALID_PARAMS, "inputResponses must be an object");
        return -1;
    }
    json_object_foreach (responses, key, value) {
        if (!json_is_object(value)) {
            call_fail(call, MCP_INVALID_PARAMS, "each of inputResponses must be an object");
            return -1;
        }
    }
    call->input_responses = responses;
    if (!state)
        return 0;
    call->request_state = json_is_string(state) ? state_open(call, json_string_value(state)) : NULL;
    if (!call->request_state) {
        call_fail(call, MCP_INVALID_PARAMS,
                  "requestState is invalid for this request, or has expired");
        return -1;
    }
    return 0;
}

const json_t *call_input(const struct mcp_call *call, const char *key)
{
    return message_object(call->input_responses, key);
}

const json_t *call_state(const struct mcp_call *call)
{
    return call->request_state;
}
