/* The table of methods, and the methods of the protocol itself. */
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define HOUR_MS  3600000
#define BOTH     (MCP_LEGACY | MCP_MODERN)
#define NO_CACHE -1, NULL

/* The eight levels of MCP, which are those of RFC 5424. Four are levels of ours; a client that
 * names one of the others gets everything at least as severe. */
static const struct {
    const char *word;
    int level;
} levels[] = {
#define LEVEL(name, word) { word, LOG_LEVEL_##name },
#include "base/words/log_levels.def"
    { "notice", LOG_LEVEL_WARNING },
    { "critical", MCP_LOG_OFF },
    { "alert", MCP_LOG_OFF },
    { "emergency", MCP_LOG_OFF },
};

bool mcp_level_find(const char *word, int *ret_level)
{
    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        if (strcmp(levels[i].word, word) == 0) {
            *ret_level = levels[i].level;
            return true;
        }
    return false;
}

json_t *mcp_server_info(void)
{
    return json_pack("{s:s, s:s, s:s}", "name", "glovebox", "title", "Glovebox", "version",
                     GLOVEBOX_VERSION);
}

static json_t *capabilities(void)
{
    return json_pack("{s:{s:b}, s:{s:b}, s:{s:b, s:b}, s:{}, s:{}}", "tools", "listChanged", 1,
                     "prompts", "listChanged", 1, "resources", "listChanged", 1, "subscribe", 1,
                     "completions", "logging");
}

static json_t *instructions(struct mcp_call *call)
{
    static const char text[] =
        "Runs Python code and shell commands in an isolated Linux sandbox without network access. "
        "Use execute_python to calculate, analyse data and draw charts; it returns the printed "
        "output, the value of the last expression and every figure. {state} The working directory "
        "is /workspace: add files with upload_file and fetch them with read_file.";
    autofree char *filled = NULL;
    const char *state =
        call->peer && call->peer->keeps
            ? "Variables, imports and files persist from call to call in this conversation."
            : "Each call runs in a fresh sandbox; to keep variables and files, create a session "
              "with create_session and pass its session_id to each call.";
    const char *place = strstr(text, "{state}");

    if (asprintf(&filled, "%.*s%s%s", (int) (place - text), text, state, place + 7) < 0)
        filled = NULL;
    return json_string(filled ? filled : "");
}

/* ---- the old era ---- */

/* The requested version if we support it, otherwise our newest: the client may then disconnect. */
static const char *agree(const char *wanted)
{
    const char *const *versions = era_legacy_versions();

    for (const char *const *v = versions; *v; v++)
        if (strcmp(*v, wanted) == 0)
            return *v;
    return versions[0];
}

static void initialize(struct mcp_call *call)
{
    json_t *wish = message_object(call->params, "capabilities");
    const char *version = call_text(call, "protocolVersion", true);
    struct mcp_peer *peer = call->peer;
    bool again;

    if (!version)
        return;
    if (!wish || !message_object(call->params, "clientInfo")) {
        call_fail(call, MCP_INVALID_PARAMS, "capabilities and clientInfo must be objects");
        return;
    }
    pthread_mutex_lock(&peer->lock);
    again = peer->initialized;
    if (!again) {
        peer->version = agree(version);
        peer->capabilities = json_incref(wish);
        peer->initialized = true;
    }
    pthread_mutex_unlock(&peer->lock);
    if (again)
        call_fail(call, MCP_INVALID_REQUEST, "this session is initialized already");
    else
        call_reply(call, json_pack("{s:s, s:o, s:o, s:o}", "protocolVersion", peer->version,
                                   "capabilities", capabilities(), "serverInfo", mcp_server_info(),
                                   "instructions", instructions(call)));
}

static void ping(struct mcp_call *call)
{
    call_reply(call, json_object());
}

static void set_level(struct mcp_call *call)
{
    const char *name = call_text(call, "level", true);
    int level;

    if (!name || !mcp_level_find(name, &level)) {
        call_fail(call, MCP_INVALID_PARAMS,
                  "level must be one of debug, info, notice, warning, "
                  "error, critical, alert, emergency");
        return;
    }
    pthread_mutex_lock(&call->peer->lock);
    call->peer->log_level = level;
    pthread_mutex_unlock(&call->peer->lock);
    call_reply(call, json_object());
}

/* ---- the new era ---- */

static void discover(struct mcp_call *call)
{
    call_reply(call, json_pack("{s:o, s:o, s:o}", "supportedVersions", era_modern_versions(),
                               "capabilities", capabilities(), "instructions", instructions(call)));
}

/* ---- the table ---- */

static const struct mcp_method methods[] = {
    { "initialize", MCP_LEGACY, initialize, NO_CACHE },
    { "ping", MCP_LEGACY, ping, NO_CACHE },
    { "logging/setLevel", MCP_LEGACY, set_level, NO_CACHE },
    { "resources/subscribe", MCP_LEGACY, method_resources_subscribe, NO_CACHE },
    { "resources/unsubscribe", MCP_LEGACY, method_resources_unsubscribe, NO_CACHE },
    { "server/discover", MCP_MODERN, discover, HOUR_MS, "public" },
    { "subscriptions/listen", MCP_MODERN, method_listen, NO_CACHE },
    { "tools/list", BOTH, method_tools_list, HOUR_MS, "public" },
    { "tools/call", BOTH, method_tools_call, NO_CACHE },
    { "resources/list", BOTH, method_resources_list, 0, "private" },
    { "resources/templates/list", BOTH, method_resources_templates, HOUR_MS, "public" },
    { "resources/read", BOTH, method_resources_read, 0, "private" },
    { "prompts/list", BOTH, method_prompts_list, HOUR_MS, "public" },
    { "prompts/get", BOTH, method_prompts_get, NO_CACHE },
    { "completion/complete", BOTH, method_complete, NO_CACHE },
};

const struct mcp_method *method_find(const char *name, enum mcp_era era)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (methods[i].eras & era && strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}

/* Unknown notifications are ignored. */
void method_notification(struct mcp_call *call)
{
    const char *method = json_string_value(json_object_get(call->message, "method"));
    const json_t *id = json_object_get(call->params, "requestId");

    if (strcmp(method, "notifications/cancelled") == 0 && call->peer && id)
        peer_cancel(call->peer, id);
}
