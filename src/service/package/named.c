/* One package by its name, as the seeds' interfaces have it: the simple dialect and MCP. */
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "service/service.h"

#include "base/banned.h"

#define LETTERS_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define TEXT_MAX       512

/* The length of a name of PEP 508 at the start of @text, or 0: letters, digits, and . _ - between.
 */
static size_t name_length(const char *text)
{
    size_t len = strspn(text, LETTERS_DIGITS "._-");

    if (len == 0 || strchr("._-", text[0]) || strchr("._-", text[len - 1]))
        return 0;
    return len;
}

bool named_package_valid(const char *text)
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

/* Whether @normal is what the first @len bytes of @package come to by PEP 503. */
static bool package_is(const char *normal, const char *package, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = package[i];
        bool sign = strchr("._-", c) != NULL;

        if (sign && i > 0 && strchr("._-", package[i - 1]))
            continue;
        if (*normal++ != (sign ? '-' : (c >= 'A' && c <= 'Z') ? (char) (c | 32) : c))
            return false;
    }
    return *normal == '\0';
}

static bool is_newest(const char *version)
{
    return !version || version[0] == '\0' || strcmp(version, "latest") == 0;
}

/* As PEP 440 has them, or nearly: 1.2.0rc1, 1!2.0+local.1, v3 */
bool named_version_valid(const char *text)
{
    size_t len;

    if (is_newest(text))
        return true;
    len = strspn(text, LETTERS_DIGITS ".!+_-");
    return text[len] == '\0' && len > 0 && !strchr(".!+_-", text[0]) &&
           !strchr(".!+_-", text[len - 1]) && strpbrk(text, "0123456789");
}

/* The version that is there now of the package that was asked for. */
static const json_t *version_of(const json_t *result, const char *package)
{
    static const char *const lists[] = { "installed", "present" };
    size_t len = name_length(package), n;
    json_t *item;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        json_array_foreach (json_object_get(result, lists[i]), n, item) {
            const char *name = json_string_value(json_object_get(item, "name"));

            if (name && package_is(name, package, len))
                return json_object_get(item, "version");
        }
    return NULL;
}

/* What is the client's to mend, or for now, is told as everywhere else. */
static bool is_refusal(const struct fault *fault)
{
    return fault->kind == FAULT_TOO_MANY || fault->kind == FAULT_NOT_FOUND ||
           fault->kind == FAULT_INTERNAL || fault->problem == PROBLEM_OUT_OF_MEMORY ||
           fault->problem == PROBLEM_REQUIREMENT_MALFORMED || fault->problem == PROBLEM_DRAINING;
}

int packages_install_named(struct service *service, const struct caller *caller,
                           struct session *session, const char *package, const char *version,
                           json_t **ret_json, struct fault *fault)
{
    char text[TEXT_MAX];
    const char *const wanted[] = { text, NULL };
    int64_t begun = clock_now_us();
    json_t *result = NULL;
    double took;

    if (!named_package_valid(package) || !named_version_valid(version) ||
        strlen(package) + (version ? strlen(version) : 0) + 3 > sizeof text)
        return fault_set(fault, PROBLEM_REQUIREMENT_MALFORMED, "package",
                         "that is not the name of a package and a version");
    snprintf(text, sizeof text, "%s%s%s", package,
             is_newest(version) ? "" : "==", is_newest(version) ? "" : version);
    if (packages_install(service, caller, session, wanted, true, &result, fault) < 0 &&
        is_refusal(fault))
        return -1;
    took = (double) (clock_now_us() - begun) / USEC_PER_SEC;
    if (result)
        *ret_json = json_pack("{s:b,s:O,s:O?,s:f,s:O}", "success", 1, "message",
                              json_object_get(result, "message"), "installed_version",
                              version_of(result, package), "installation_time", took, "warnings",
                              json_object_get(result, "warnings"));
    else
        *ret_json =
            json_pack("{s:b,s:s+++,s:n,s:f}", "success", 0, "message", "Could not install ",
                      package, ": ", fault->detail, "installed_version", "installation_time", took);
    json_decref(result);
    return *ret_json ? 0 : fault_no_memory(fault);
}
