/* The receipt: the outcome of an execution as the JSON object that every API returns. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "egress/egress.h"
#include "engine/outcome.h"

struct receipt_ids {
    const char *session_id; /* NULL: none */
    const char *execution_id;
    int64_t execution_count;
    const char *template; /* its name; NULL: default */
    bool session_lost;    /* the interpreter ended in this run, its variables are gone */
    bool shell_lost;      /* likewise the shell, with its cd and export */
    const struct egress_contact *contacts; /* hosts contacted during the run */
    size_t contacts_len;
};

/* Builds the receipt; the caller owns the object. Always valid: bytes that are not UTF-8 become
 * U+FFFD, and whatever was left out is counted under "truncated". */
int receipt_to_json(const struct outcome *outcome, const struct receipt_ids *ids, json_t **ret_json,
                    struct gb_err *err);

/* The same as text, which the caller frees. No tree is built: for a small receipt, building,
 * dumping and freeing one takes as long as everything else the service does. 0 or -ENOMEM. */
int receipt_to_text(const struct outcome *outcome, const struct receipt_ids *ids, char **ret_text,
                    size_t *ret_len);

/* A fresh random id such as "exec_3f9c2a7d51e04b86". */
int receipt_new_id(char *buf, size_t size);
