/* Tools about sessions: create_session, close_session, interrupt. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "mcp/catalog/tools.h"

#include "base/banned.h"

#define YEAR_US (INT64_C(365) * 24 * 3600 * USEC_PER_SEC)

/* ---- create ---- */

struct create_args {
    int64_t idle_us;
};

static const struct schema schema_create_args = {
    .fields =
        (const struct field[]){
            { "idle_timeout", FIELD_SECONDS, 0, offsetof(struct create_args, idle_us),
              FIELD_ABOVE_ZERO, YEAR_US,
              .help = "Seconds without use after which the session is closed. Default {idle}." },
            { 0 },
        },
    .size = sizeof(struct create_args),
};

static const struct schema schema_created = {
    .fields =
        (const struct field[]){
            OUT_TEXT("session_id", "to pass to the other tools"),
            OUT_NUMBER("idle_timeout", "in seconds"),
            { "limits", FIELD_OBJECT, FIELD_REQUIRED, .help = "limits of the session" },
            { 0 },
        },
};

static void create_session(struct mcp_call *call, const void *arguments)
{
    const struct create_args *args = arguments;
    struct session_request request;
    struct session_info info;
    struct session *session;
    struct fault fault = { 0 };

    session_request_init(&request);
    if (args->idle_us != FIELD_ABSENT)
        request.idle_us = args->idle_us;
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
    session_info_release(&info);
    session_unref(session);
}

const struct mcp_tool tool_create_session = {
    .name = "create_session",
    .title = "Create a session",
    .description =
        "Create a session: a sandbox in which variables, imports and files persist from call to "
        "call. Returns its session_id, to pass to the other tools. Needed only if calls do not "
        "already share a session, or to keep tasks apart. Close it with close_session when it is "
        "no longer needed; it is closed automatically after {idle} s without use.",
    .input = &schema_create_args,
    .output = &schema_created,
    .handle = create_session,
};

/* ---- close and interrupt ---- */

struct session_args {
    const char *session_id;
};

static const struct schema schema_session_args = {
    .fields =
        (const struct field[]){
            { "session_id", FIELD_TEXT, 0, offsetof(struct session_args, session_id), 1,
              SESSION_WORD_MAX,
              .help = "Session, as returned by create_session. If omitted, the session of this "
                      "conversation." },
            { 0 },
        },
    .size = sizeof(struct session_args),
};

static const struct schema schema_closed = {
    .fields =
        (const struct field[]){
            OUT_TEXT("closed", "the session_id"),
            { 0 },
        },
};

static const struct schema schema_interrupted = {
    .fields =
        (const struct field[]){
            OUT_INT("interrupted", "number of executions that were interrupted"),
            OUT_SESSION,
            { 0 },
        },
};

/* Without a session_id only an existing one is used: none is created just to be closed. */
static int existing_session(struct mcp_call *call, const struct session_args *args,
                            struct session **ret_session)
{
    struct mcp_peer *peer = call->peer;
    char own[SESSION_ID_MAX] = "";
    struct fault fault = { 0 };
    const char *id = args->session_id;

    if (!id && peer && peer->keeps) {
        pthread_mutex_lock(&peer->session_lock);
        memcpy(own, peer->session_id, sizeof own);
        pthread_mutex_unlock(&peer->session_lock);
        if (!own[0]) {
            tool_fail(call, "There is no session yet: nothing has run in this conversation.");
            return -1;
        }
        id = own;
    }
    if (!id)
        return tool_session(call, NULL, ret_session);
    if (call_session(call, id, ret_session, &fault) < 0) {
        tool_fail_fault(call, &fault);
        return -1;
    }
    return 0;
}

static void close_session(struct mcp_call *call, const void *arguments)
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

static void interrupt(struct mcp_call *call, const void *arguments)
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

const struct mcp_tool tool_close_session = {
    .name = "close_session",
    .title = "Close a session",
    .description =
        "Close a session: stop its running code and delete its variables and files. This cannot be "
        "undone. If the session of the conversation is closed, the next call starts with a new "
        "one.",
    .input = &schema_session_args,
    .output = &schema_closed,
    .hints = TOOL_DESTRUCTIVE | TOOL_IDEMPOTENT,
    .handle = close_session,
};

const struct mcp_tool tool_interrupt = {
    .name = "interrupt",
    .title = "Interrupt execution",
    .description = "Interrupt the running code of a session, like Ctrl-C. Variables and files are "
                   "kept. Use it when code that another call started takes too long.",
    .input = &schema_session_args,
    .output = &schema_interrupted,
    .hints = TOOL_IDEMPOTENT,
    .handle = interrupt,
};
