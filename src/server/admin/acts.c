/* What operators did: in the log, and in the audit log, where it cannot be taken back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "server/admin/internal.h"
#include "service/access/audit.h"

#include "base/banned.h"

/* The action as the audit log has it: ASCII, sorted keys, no whitespace. */
static char *action_text(const char *action, const char *target)
{
    json_t *json = json_pack("{s:s,s:s?}", "name", action, "target", target);
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);

    json_decref(json);
    return text;
}

static void write_audit(struct request *rq, const char *action, const char *target, bool done)
{
    struct audit_entry entry = { .who = principal_text(&rq->caller.principal),
                                 .kind = "operator",
                                 .status = done ? RUN_OK : RUN_ERROR,
                                 .exit_code = done ? 0 : 1,
                                 .wall_us = -1,
                                 .cpu_us = -1,
                                 .memory_peak_bytes = -1,
                                 .output_bytes = -1 };
    char id[REQUEST_ID_MAX + 8], *text = action_text(action, target);
    struct gb_err err = { 0 };
    int r;

    snprintf(id, sizeof id, "op-%s", rq->id);
    entry.execution_id = id;
    entry.action = text;
    audit_hash_code(text ? text : "", 0, entry.code_hash);
    r = text ? service_audit(rq->server->config.service, &entry, &err)
             : gb_fail(&err, ENOMEM, "write the audit log");
    if (r < 0)
        log_event(LOG_LEVEL_ERROR, "operator", LOG_TEXT("id", rq->id),
                  LOG_TEXT("problem", err.msg));
    free(text);
}

void admin_tell(struct request *rq, const char *action, const char *target,
                const struct fault *fault)
{
    /* What is not an id is not ours, and not worth keeping. */
    if (target && !store_id_valid(target))
        target = NULL;
    log_event(fault ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "operator", LOG_TEXT("id", rq->id),
              LOG_TEXT("action", action), LOG_TEXT("target", target),
              LOG_TEXT("who", principal_text(&rq->caller.principal)),
              LOG_TEXT("problem", fault ? fault->type : NULL));
    write_audit(rq, action, target, !fault);
}

void admin_finish(struct request *rq, const char *action, const char *target, int r,
                  const struct fault *fault)
{
    admin_tell(rq, action, target, r < 0 ? fault : NULL);
    if (r < 0)
        reply_fault(rq, fault);
    else
        reply_empty(rq, MHD_HTTP_NO_CONTENT);
}
