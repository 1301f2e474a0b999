#include "engine/outcome.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/frame.h"

#include "base/banned.h"

#define OUTPUTS_GROW 16

const char *run_status_name(enum run_status status)
{
    switch (status) {
#define STATUS(name, word, ...)                                                                    \
    case RUN_##name:                                                                               \
        return word;
#include "base/words/status.def"
    }
    /* A number that is not a status is a bug. */
    return "system";
}

static void stream_cut_release(struct stream_cut *cut)
{
    free(cut->head);
    free(cut->tail);
}

/* Within the caps: a copy in @ret. Beyond them: counted, and an empty @ret. */
static int bundle_keep(struct outcome *outcome, const void *json, size_t len, struct bundle *ret)
{
    char *copy;

    *ret = (struct bundle){ 0 };
    if (len > FRAME_BUNDLE_MAX || len > FRAME_DISPLAYS_BYTES - outcome->outputs_bytes) {
        outcome->outputs_left_out++;
        return 0;
    }
    copy = malloc(len + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, json, len);
    copy[len] = '\0';
    *ret = (struct bundle){ .json = copy, .len = len };
    outcome->outputs_bytes += len;
    return 0;
}

int outcome_add_output(struct outcome *outcome, const void *json, size_t len)
{
    struct bundle bundle, *grown;
    int r;

    if (outcome->outputs_len >= FRAME_DISPLAYS_MAX) {
        outcome->outputs_left_out++;
        return 0;
    }
    if (outcome->outputs_len % OUTPUTS_GROW == 0) {
        grown = reallocarray(outcome->outputs, outcome->outputs_len + OUTPUTS_GROW, sizeof *grown);
        if (!grown)
            return -ENOMEM;
        outcome->outputs = grown;
    }
    r = bundle_keep(outcome, json, len, &bundle);
    if (r < 0 || !bundle.json)
        return r;
    outcome->outputs[outcome->outputs_len++] = bundle;
    return 0;
}

int outcome_set_result(struct outcome *outcome, const void *json, size_t len)
{
    if (outcome->result.json) {
        outcome->outputs_left_out++;
        return 0;
    }
    return bundle_keep(outcome, json, len, &outcome->result);
}

void outcome_release(struct outcome *outcome)
{
    if (!outcome)
        return;
    free(outcome->result.json);
    for (size_t i = 0; i < outcome->outputs_len; i++)
        free(outcome->outputs[i].json);
    free(outcome->outputs);
    stream_cut_release(&outcome->out);
    stream_cut_release(&outcome->err);
    for (size_t i = 0; outcome->files && i < outcome->files_len; i++)
        free(outcome->files[i].path);
    free(outcome->files);
    free(outcome->error_name);
    free(outcome->error_value);
    free(outcome->error_traceback);
    *outcome = (struct outcome){ 0 };
}
