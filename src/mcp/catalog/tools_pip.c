/* pip_install: into the session or, without one, into the caller's default set, which fresh boxes
 * have. */
#include "mcp/catalog/tools.h"

#include <stdio.h>

#include "base/clock.h"
#include "service/package/requirement.h"

#include "base/banned.h"

#define NAME_BYTES_MAX 200
#define TICK_US        USEC_PER_SEC

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

/* The share of the work that is done: fetching is most of it. */
static double share(const struct install_progress *progress)
{
    double packages = progress->total > 0 ? (double) progress->done / (double) progress->total : 0;

    if (progress->stage == INSTALL_RESOLVING)
        return 0;
    return progress->bytes_total > 0 ? (double) progress->bytes / (double) progress->bytes_total
                                     : packages;
}

static void tell(struct mcp_call *call, const struct install_progress *progress)
{
    char text[200];

    snprintf(text, sizeof text, "%s%s%s, %lld of %lld packages, %.1f of %.1f MB",
             install_stage_name(progress->stage), progress->name[0] ? " " : "", progress->name,
             (long long) progress->done, (long long) progress->total,
             (double) progress->bytes / 1e6, (double) progress->bytes_total / 1e6);
    call_progress(call, share(progress), 1,
                  progress->total > 0 ? text : install_stage_name(progress->stage));
}

static void pip_step(struct mcp_call *call, int64_t timeout_us)
{
    struct install_event event;
    int r = install_task_next(call_work(call), timeout_us < TICK_US ? timeout_us : TICK_US, &event);

    if (r <= 0)
        return;
    if (!event.last)
        tell(call, &event.progress);
    else if (!event.json)
        tool_fail_fault(call, &event.fault);
    else
        tool_reply(call, event.json, NULL, !json_is_true(json_object_get(event.json, "success")));
}

static void pip_free(void *work)
{
    install_task_free(work);
}

static void pip_install(struct mcp_call *call, const void *arguments)
{
    const struct pip_args *args = arguments;
    const struct install_order order = { .cancel_fd = -1 };
    struct fault fault = { 0 };
    struct session *session;
    struct install_task *task;

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
    if (install_task_start(call->mcp->config.service, &call->caller, session, &order, args->package,
                           args->version, &task, &fault) < 0)
        tool_fail_fault(call, &fault);
    else
        call_continue(call, pip_step, task, pip_free);
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
