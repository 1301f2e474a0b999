/* One package by its name, for POST /pip_install and the MCP tool pip_install. */
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "service/package/requirement.h"
#include "service/service.h"

#include "base/banned.h"

/* The installed version of the requested package, or NULL. */
static const json_t *version_of(const json_t *result, const char *normal)
{
    static const char *const lists[] = { "installed", "present" };
    json_t *item;
    size_t n;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        json_array_foreach (json_object_get(result, lists[i]), n, item) {
            const char *name = json_string_value(json_object_get(item, "name"));

            if (name && strcmp(name, normal) == 0)
                return json_object_get(item, "version");
        }
    return NULL;
}

/* Errors that the client must act on, and temporary ones, are faults here as everywhere else. */
static bool is_refusal(const struct fault *fault)
{
    return fault->kind == FAULT_TOO_MANY || fault->kind == FAULT_NOT_FOUND ||
           fault->kind == FAULT_INTERNAL || fault->problem == PROBLEM_REQUIREMENT_MALFORMED ||
           fault->problem == PROBLEM_OUT_OF_MEMORY || fault->problem == PROBLEM_DRAINING;
}

int packages_install_named(struct service *service, const struct caller *caller,
                           struct session *session, const char *package, const char *version,
                           const struct install_order *how, json_t **ret_json, struct fault *fault)
{
    struct requirement item;
    const char *const wanted[] = { item.text, NULL };
    const struct install_order order = { .wanted = wanted,
                                         .newest = true,
                                         .watch = how ? how->watch : (struct install_watch){ 0 },
                                         .cancel_fd = how ? how->cancel_fd : -1 };
    int64_t begun = clock_now_us();
    json_t *result = NULL;
    double took;

    if (requirement_from_name(package, version, &item) < 0)
        return fault_set(fault, PROBLEM_REQUIREMENT_MALFORMED, "package",
                         "not a valid package name and version");
    if (packages_install(service, caller, session, &order, &result, fault) < 0 && is_refusal(fault))
        return -1;
    took = (double) (clock_now_us() - begun) / USEC_PER_SEC;
    if (result)
        *ret_json = json_pack("{s:b,s:O,s:O?,s:f,s:O}", "success", 1, "message",
                              json_object_get(result, "message"), "installed_version",
                              version_of(result, item.normal), "installation_time", took,
                              "warnings", json_object_get(result, "warnings"));
    else
        *ret_json =
            json_pack("{s:b,s:s+++,s:n,s:f}", "success", 0, "message", "Could not install ",
                      package, ": ", fault->detail, "installed_version", "installation_time", took);
    json_decref(result);
    return *ret_json ? 0 : fault_no_memory(fault);
}
