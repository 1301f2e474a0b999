/*
 * What operators see and do: sessions and executions of everybody, how the service fares, and the
 * state of the audit log. Whoever calls these has checked that the caller is an operator; what is
 * shown has no code, no output, no file and no secret of anybody.
 *
 * Everything is bounded, so that a dashboard cannot stall the service: lists have a maximum, locks
 * are held while fixed-size records are copied, and the audit log is read in pieces. What the
 * builder has to be asked for (the memory of a box) is remembered for some seconds.
 *
 * JSON belongs to the caller. "principal" is principal_text(), "principal_kind" is "local", "key"
 * or "user"; names that people know are added by whoever knows them.
 */
#pragma once

#include "service/service.h"

#define WATCH_ROWS_MAX 200

/* Counters since the start, and what there is now: {"ready", "draining", "uptime_seconds", "boxes",
 * "sessions", "executions": {..., "by_status", "by_limit"}, "memory", "packages", "network"}. */
int watch_overview(struct service *service, json_t **ret_json, struct fault *fault);

/* How it went in the last minutes, as lists of equal length, oldest first: {"step", "end", "time",
 * "rate", "error_rate", "stopped_rate", "p50_ms", "p95_ms", "sessions", "running", "waiting",
 * "boxes_ready", "memory_server", "memory_boxes", "memory_host"}; unknown values are null. */
#define WATCH_MINUTES_MAX 60
int watch_series(struct service *service, int64_t minutes, json_t **ret_json, struct fault *fault);

/* Sessions of everybody by age, after the one with id @after (NULL: from the start), at most @max
 * (WATCH_ROWS_MAX): {"sessions": [...], "more", "total"}. */
int watch_sessions(struct service *service, const char *after, size_t max, json_t **ret_json,
                   struct fault *fault);

/* Executions that run or wait, the oldest first; or those that have ended and are still known, the
 * newest first, of any @status (-1) or one: {"executions": [...], "more"}. */
struct watch_filter {
    bool finished;
    int status;        /* enum run_status, or -1 */
    bool stopped_only; /* those that ended neither "ok" nor "error" */
    size_t max;
};
int watch_executions(struct service *service, const struct watch_filter *filter, json_t **ret_json,
                     struct fault *fault);

/* What each principal has now: {"PRINCIPAL": {"sessions", "executions"}}. */
int watch_accounts(struct service *service, json_t **ret_json, struct fault *fault);

/* End a session of anybody; as session_delete(). */
int watch_session_end(struct service *service, const char *id, struct fault *fault);
/* Ends all sessions that a principal has at the moment. */
void watch_sessions_end(struct service *service, const struct principal *principal);
/* Interrupts an execution of anybody; as execution_interrupt(). */
int watch_execution_interrupt(struct service *service, const char *id, struct fault *fault);

/* Layers of packages, those used last first, and the default sets: {"layers": [...], "sets": [...],
 * "more", "bytes", "count"}. */
int watch_packages(struct service *service, size_t max, json_t **ret_json, struct fault *fault);

/* ---- the audit log ---- */

struct audit_search;

/* As audit_search_run() (access/audit.h). */
int watch_audit(struct service *service, const struct audit_search *search, json_t **ret_json,
                struct fault *fault);

/* Verifies the next piece of the chain, for a fraction of a second, and says how far it got:
 * {"state": "checking" | "intact" | "broken" | "off", "checked", "entries", "head", "broken_entry",
 * "why", "begun", "completed"}. Entries that were checked are not read again unless @anew. If
 * somebody else is at it, the reply is what is known so far. */
int watch_audit_chain(struct service *service, bool anew, json_t **ret_json, struct fault *fault);
