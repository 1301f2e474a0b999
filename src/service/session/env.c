#include "service/session/env.h"

#include <stdbool.h>
#include <string.h>

#include "base/text/strv.h"
#include "service/service.h"

#include "base/banned.h"

#define ENV_COUNT_MAX 256u
#define ENV_BYTES_MAX ((size_t) 64 * 1024)

static bool name_valid(const char *entry)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    size_t len;

    if (!entry[0] || !strchr(letters, entry[0]))
        return false;
    len = strspn(entry, more);
    return entry[len] == '=';
}

int env_check(const char *const *env, struct fault *fault)
{
    size_t count = 0, bytes = 0;

    for (; env && env[count]; count++) {
        if (!name_valid(env[count]))
            return fault_set(fault, PROBLEM_ENV_MALFORMED, "env",
                             "a variable name consists of letters, digits and _ and does not start "
                             "with a digit");
        bytes += strlen(env[count]) + 1;
        if (count >= ENV_COUNT_MAX || bytes > ENV_BYTES_MAX)
            return fault_set(
                fault, PROBLEM_ENV_TOO_LARGE, "env",
                "at most 256 variables with 64 KiB in total; write large values to a file");
    }
    return 0;
}

int env_join(char *const *first, char *const *second, char ***ret_env)
{
    char **env = NULL;
    int r = strv_copy((const char *const *) first, &env);

    for (; r == 0 && second && *second; second++)
        r = strv_add(&env, *second);
    if (r == 0)
        *ret_env = env;
    else
        strv_free(env);
    return r;
}
