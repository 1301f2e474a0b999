#include "base/text/strv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

size_t strv_len(const char *const *list)
{
    size_t len = 0;

    while (list && list[len])
        len++;
    return len;
}

void strv_free(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

int strv_copy(const char *const *list, char ***ret_list)
{
    size_t len = strv_len(list);
    char **copy = calloc(len + 1, sizeof *copy);

    if (!copy)
        return -ENOMEM;
    for (size_t i = 0; i < len; i++) {
        copy[i] = strdup(list[i]);
        if (!copy[i]) {
            strv_free(copy);
            return -ENOMEM;
        }
    }
    *ret_list = copy;
    return 0;
}

int strv_add(char ***list, const char *text)
{
    size_t len = strv_len((const char *const *) *list);
    char **more = reallocarray(*list, len + 2, sizeof *more);

    if (!more)
        return -ENOMEM;
    *list = more;
    more[len] = strdup(text);
    if (!more[len])
        return -ENOMEM; /* that element is the end */
    more[len + 1] = NULL;
    return 0;
}
