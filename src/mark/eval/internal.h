/* What the files of this room share. */
#pragma once

#include "mark/eval/eval.h"

struct eval_set {
    json_t *root;      /* the file, checked */
    json_t *questions; /* of root: with their files and sources filled in */
    json_t *files;     /* paths, each once */
};

#define EVAL_STATUSES "ok", "needs_input", "error"

/* A member that is a string, or "". */
static inline const char *eval_string(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static inline double eval_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}
