/* pip_install: into the session or, without one, into the caller's default set, which fresh boxes
 * have. */
#include "mcp/catalog/tools.h"

#include "service/package/requirement.h"

#include "base/banned.h"

#define NAME_BYTES_MAX 200

struct pip_args {
    const char *package, *version, *session_id;
};

static const struct schema schema_pip_args = {
    .fields =
        (const struct field[]){
            { "package", FIELD_TEXT, FIELD_REQUIRED, offsetof(struct pip_args, package), 1,
              NAME_BYTES_MAX,
              .help = "Name of the package, for example polars; with extras: httpx[http2]" },
            { "version", FIELD_TEXT, 0, offsetof(struct pip_args, version), 0, NAME_BYTES_MAX,
              .help = "Version to install, for example 1.2.3. Default: the latest." },
            SESSION_ID_FIELD(pip_args),
            { 0 },
        },
    .size = sizeof(struct pip_args),
};

static const struct schema schema_pip_result = {
    .fields =
        (const struct field[]){
            OUT_BOOL("success", "whether the package can be imported now"),
            OUT_TEXT("message", "what was done, or why it failed"),
            { "installed_version", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
              .help = "null if it failed" },
            OUT_NUMBER("installation_time", "in seconds"),
            { "warnings", FIELD_LIST, .help = "of pip" },
            { 0 },
        },
};

static void pip_install(struct mcp_call *call, const void *arguments)
{
    const struct pip_args *args = arguments;
    struct fault fault = { 0 };
    struct session *session;
    json_t *json;

    if (!package_name_valid(args->package)) {
        tool_fail(call, "package " PACKAGE_NAME_RULE);
        return;
    }
    if (!package_version_or_any_valid(args->version)) {
        tool_fail(call, "version " PACKAGE_VERSION_RULE);
        return;
    }
    if (call_session(call, args->session_id, &session, &fault) < 0) {
        tool_fail_fault(call, &fault);
        return;
    }
    if (packages_install_named(call->mcp->config.service, &call->caller, session, args->package,
                               args->version, NULL, &json, &fault) < 0)
        tool_fail_fault(call, &fault);
    else
        tool_reply(call, json, NULL, !json_is_true(json_object_get(json, "success")));
    session_unref(session);
}

const struct mcp_tool tool_pip_install = {
    .name = "pip_install",
    .title = "Install a package",
    .description =
        "Install a Python package from PyPI: into a session, where it can be imported at once, or "
        "without a session into every later fresh sandbox. Many packages are already installed: "
        "see execute_python. Returns the installed version, or the reason why the installation "
        "failed.",
    .input = &schema_pip_args,
    .output = &schema_pip_result,
    .hints = TOOL_IDEMPOTENT | TOOL_OPEN_WORLD,
    .handle = pip_install,
};
