/* Tools about sessions: create_session, close_session, interrupt. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "mcp/catalog/tools.h"

#include "base/banned.h"

void tool_create_session(struct mcp_call *call, json_t *arguments)
{
    const json_t *idle = json_object_get(arguments, "idle_timeout");
    struct session_request request;
    struct session_info info;
    struct session *session;
    struct fault fault = { 0 };

    session_request_init(&request);
    if (idle && json_number_value(idle) > 1e9) {
        tool_fail(call, "idle_timeout: is too long");
        return;
    }
    if (idle)
        request.idle_us = (int64_t) (json_number_value(idle) * USEC_PER_SEC);
    if (session_create(call->mcp->config.service, &call->caller, &request, &session, &fault) < 0) {
        tool_fail_fault(call, &fault);
        return;
    }
    session_get_info(session, &info);
    snprintf(call->session_id, sizeof call->session_id, "%s", info.id);
    if (call->peer)
        peer_add_session(call->peer, info.id);
    tool_reply(call,
               json_pack("{s:s, s:f, s:o}", "session_id", info.id, "idle_timeout",
                         (double) info.idle_limit_us / USEC_PER_SEC, "limits",
                         limits_to_json(&info.limits)),
               NULL, false);
    session_unref(session);
}

/* Without a session_id only one that is there already: none is made to be ended. */
static int existing_session(struct mcp_call *call, const json_t *arguments,
                            struct session **ret_session)
{
    struct mcp_peer *peer = call->peer;
    char own[SESSION_ID_MAX] = "";
    struct fault fault = { 0 };
    const char *id = tool_text(arguments, "session_id");

    if (!id && peer && peer->keeps) {
        pthread_mutex_lock(&peer->session_lock);
        memcpy(own, peer->session_id, sizeof own);
        pthread_mutex_unlock(&peer->session_lock);
        if (!own[0]) {
            tool_fail(call, "There is no session yet: nothing has been run in this conversation.");
            return -1;
        }
        id = own;
    }
    if (!id)
        return tool_session(call, arguments, ret_session);
    if (call_session(call, id, ret_session, &fault) < 0) {
        tool_fail_fault(call, &fault);
        return -1;
    }
    return 0;
}

void tool_close_session(struct mcp_call *call, json_t *arguments)
{
    struct fault fault = { 0 };
    struct session *session;

    if (existing_session(call, arguments, &session) < 0)
        return;
    if (call->peer)
        peer_remove_session(call->peer, session_id(session));
    if (session_delete(session, &fault) < 0) {
        tool_fail_fault(call, &fault);
    } else {
        change_publish(call->mcp, CHANGE_RESOURCES, &call->caller.principal, NULL);
        tool_reply(call, json_pack("{s:s}", "closed", session_id(session)), NULL, false);
    }
    session_unref(session);
}

void tool_interrupt(struct mcp_call *call, json_t *arguments)
{
    struct fault fault = { 0 };
    struct session *session;
    size_t count = 0;

    if (existing_session(call, arguments, &session) < 0)
        return;
    if (session_interrupt(session, false, &count, &fault) < 0)
        tool_fail_fault(call, &fault);
    else
        tool_reply(call,
                   json_pack("{s:I, s:s}", "interrupted", (json_int_t) count, "session_id",
                             session_id(session)),
                   NULL, false);
    session_unref(session);
}
