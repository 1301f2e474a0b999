#include "engine/outcome.h"

#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

const char *run_status_name(enum run_status status)
{
    switch (status) {
    case RUN_OK:
        return "ok";
    case RUN_ERROR:
        return "error";
    case RUN_TIMEOUT:
        return "timeout";
    case RUN_OOM:
        return "oom";
    case RUN_KILLED:
        return "killed";
    case RUN_PIDS:
        return "pids";
    case RUN_DISK:
        return "disk";
    case RUN_OUTPUT:
        return "output";
    case RUN_CANCELLED:
        return "cancelled";
    case RUN_SYSTEM:
        break;
    }
    /* A number that is no status is a mistake of ours too. */
    return "system";
}

static void stream_cut_release(struct stream_cut *cut)
{
    free(cut->head);
    free(cut->tail);
}

void outcome_release(struct outcome *outcome)
{
    if (!outcome)
        return;
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
