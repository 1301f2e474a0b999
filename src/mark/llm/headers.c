/* Headers of a request to a model's server. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/strv.h"
#include "mark/llm/internal.h"

#include "base/banned.h"

static int add(char ***headers, const char *const *list, const char *key)
{
    for (; list && *list; list++) {
        const char *mark = strstr(*list, "%s");
        char *line = NULL;
        int r;

        if (asprintf(&line, "%.*s%s", mark ? (int) (mark - *list) : (int) strlen(*list), *list,
                     mark ? key : "") < 0)
            return -ENOMEM;
        r = strv_add(headers, line);
        explicit_bzero(line, strlen(line));
        free(line);
        if (r < 0)
            return r;
    }
    return 0;
}

int headers_make(const struct llm_model *model, const struct dialect *dialect, char ***ret_headers)
{
    static const char *const usual[] = { "Content-Type: application/json",
                                         "Accept: text/event-stream, application/json", NULL };
    char **headers = NULL;
    int r = add(&headers, usual, "");

    if (r == 0)
        r = add(&headers, dialect->headers, "");
    if (r == 0 && model->key)
        r = add(&headers, model->vendor ? dialect->key_headers : dialect->key_headers_others,
                model->key);
    if (r < 0)
        headers_free(headers);
    else
        *ret_headers = headers;
    return r;
}

void headers_free(char **headers)
{
    for (char **h = headers; h && *h; h++)
        explicit_bzero(*h, strlen(*h));
    strv_free(headers);
}
