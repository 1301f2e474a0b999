/* pip_install. What installs packages is to be called from install(), and from nowhere else. */
#include <string.h>

#include "mcp/tools.h"

#include "base/banned.h"

#define LETTERS_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* The length of a name of PEP 508 at the start of @text, or 0. */
static size_t name_length(const char *text)
{
    size_t len = strspn(text, LETTERS_DIGITS "._-");

    return len == 0 || strchr("._-", text[0]) || strchr("._-", text[len - 1]) ? 0 : len;
}

/* A name, and perhaps [extras]. */
static bool is_package(const char *text)
{
    size_t len = name_length(text);

    if (len == 0 || text[len] == '\0')
        return len > 0;
    if (text[len] != '[')
        return false;
    do {
        text += len + 1;
        text += strspn(text, " ");
        len = name_length(text);
        if (len == 0)
            return false;
    } while (text[len] == ',');
    return strcmp(text + len, "]") == 0;
}

static bool is_version(const char *text)
{
    size_t len = strspn(text, LETTERS_DIGITS ".!+_-");

    return text[len] == '\0' && len > 0 && !strchr(".!+_-", text[0]) &&
           !strchr(".!+_-", text[len - 1]) && strpbrk(text, "0123456789");
}

/* @session NULL: for the caller's later fresh boxes. */
static void install(struct mcp_call *call, struct session *session, const char *package,
                    const char *version)
{
    (void) session;
    (void) version;
    tool_reply(call,
               json_pack("{s:b, s:s++, s:n, s:f}", "success", 0, "message", "Could not install ",
                         package,
                         ": packages cannot be added yet. Use what is installed (see "
                         "execute_python), or write what you need yourself.",
                         "installed_version", "installation_time", 0.0),
               NULL, true);
}

void tool_pip_install(struct mcp_call *call, json_t *arguments)
{
    const char *package = tool_text(arguments, "package"),
               *version = tool_text(arguments, "version");
    struct fault fault = { 0 };
    struct session *session;

    if (!is_package(package)) {
        tool_fail(call,
                  "package: is not the name of a package: letters, digits, and . _ - between; "
                  "a version goes into version");
        return;
    }
    if (version && *version && strcmp(version, "latest") != 0 && !is_version(version)) {
        tool_fail(call, "version: is not a version, such as 2.31.0 or latest");
        return;
    }
    if (call_session(call, tool_text(arguments, "session_id"), &session, &fault) < 0) {
        tool_fail_fault(call, &fault);
        return;
    }
    install(call, session, package, version);
    session_unref(session);
}
