/* pip_install: into the session, or without one into the set that the caller's fresh boxes have. */
#include "mcp/catalog/tools.h"

#include "service/package/requirement.h"

#include "base/banned.h"

void tool_pip_install(struct mcp_call *call, json_t *arguments)
{
    const char *package = tool_text(arguments, "package"),
               *version = tool_text(arguments, "version");
    struct fault fault = { 0 };
    struct session *session;
    json_t *json;

    if (!package_name_valid(package)) {
        tool_fail(call, "package: " PACKAGE_NAME_RULE);
        return;
    }
    if (!package_version_or_any_valid(version)) {
        tool_fail(call, "version: " PACKAGE_VERSION_RULE);
        return;
    }
    if (call_session(call, tool_text(arguments, "session_id"), &session, &fault) < 0) {
        tool_fail_fault(call, &fault);
        return;
    }
    if (packages_install_named(call->mcp->config.service, &call->caller, session, package, version,
                               &json, &fault) < 0)
        tool_fail_fault(call, &fault);
    else
        tool_reply(call, json, NULL, !json_is_true(json_object_get(json, "success")));
    session_unref(session);
}
