/* Bodies, queries and responses of the operator's API. */
#include "server/admin/schemas.h"

#include "server/schema/schemas.h"
#include "server/schema/tables.h"
#include "service/watch/watch.h"

#include "base/banned.h"

/* clang-format off */

#define ROW_LIMIT(struct_)                                                                         \
    { "limit", FIELD_INT, 0, AT(struct_, limit), 1, WATCH_ROWS_MAX,                                \
      .help = "maximum number; defaults to 100" }

static const char *const statuses[] = {
#define STATUS(name, word, ...) word,
#include "base/words/status.def"
    NULL };

/* ---- queries ---- */

static const struct field fields_admin_page_query[] = {
    { "after", FIELD_TEXT, 0, AT(query_admin_page, after), 1, 64,
      .help = "the last id of the previous page" },
    ROW_LIMIT(query_admin_page),
    END,
};
REQUEST(admin_page_query, struct query_admin_page, NULL);

static const struct field fields_admin_keys_query[] = {
    { "after", FIELD_TEXT, 0, AT(query_admin_keys, after), 1, 64,
      .help = "the last id of the previous page" },
    { "active", FIELD_BOOL, 0, AT(query_admin_keys, active),
      .help = "only those that are not revoked" },
    ROW_LIMIT(query_admin_keys),
    END,
};
REQUEST(admin_keys_query, struct query_admin_keys, NULL);

static const struct field fields_admin_series_query[] = {
    { "minutes", FIELD_INT, 0, AT(query_admin_series, minutes), 1, WATCH_MINUTES_MAX,
      .help = "how far back; defaults to 15" },
    END,
};
REQUEST(admin_series_query, struct query_admin_series, NULL);

static const char *const states[] = { "live", "finished", "stopped", NULL };

static const struct field fields_admin_executions_query[] = {
    { "state", FIELD_CHOICE, 0, AT(query_admin_executions, state), .choices = states,
      .help = "live (default); finished; or stopped: those that ended neither ok nor with an error" },
    { "status", FIELD_CHOICE, 0, AT(query_admin_executions, status), .choices = statuses,
      .help = "of finished ones" },
    ROW_LIMIT(query_admin_executions),
    END,
};
REQUEST(admin_executions_query, struct query_admin_executions, NULL);

static const struct field fields_admin_users_query[] = {
    { "q", FIELD_TEXT, 0, AT(query_admin_users, q), 1, 200,
      .help = "part of the address or the name" },
    { "after", FIELD_TEXT, 0, AT(query_admin_users, after), 1, 64,
      .help = "the last user_id of the previous page" },
    ROW_LIMIT(query_admin_users),
    END,
};
REQUEST(admin_users_query, struct query_admin_users, NULL);

static const struct field fields_admin_audit_query[] = {
    { "since", FIELD_TEXT, 0, AT(query_admin_audit, since), 1, 40,
      .help = "began then or later, such as 2026-11-16T00:00:00Z" },
    { "until", FIELD_TEXT, 0, AT(query_admin_audit, until), 1, 40, .help = "began before" },
    { "who", FIELD_TEXT, 0, AT(query_admin_audit, who), 1, 300,
      .help = "a principal, the id or the name of a key, the address of an account, or local" },
    { "session_id", FIELD_TEXT, 0, AT(query_admin_audit, session_id), 1, 64,
      .help = "only entries of this session" },
    { "kind", FIELD_TEXT, 0, AT(query_admin_audit, kind), 1, 15,
      .help = "cell, script, command, shell, terminal, terminal_end, install, answer or operator" },
    { "status", FIELD_CHOICE, 0, AT(query_admin_audit, status), .choices = statuses,
      .help = "only executions that ended like this" },
    { "before", FIELD_INT, 0, AT(query_admin_audit, before), 1, INT64_MAX,
      .help = "only entries with a smaller number: the before of the previous page" },
    ROW_LIMIT(query_admin_audit),
    END,
};
REQUEST(admin_audit_query, struct query_admin_audit, NULL);

/* ---- bodies ---- */

#define QUOTA_MAX INT64_C(1000000000)

static const struct field fields_admin_key_create[] = {
    { "name", FIELD_TEXT, 0, AT(body_admin_key, name), 0, 128, .help = "for people",
      .example = "\"nightly reports\"" },
    { "sessions", FIELD_INT, 0, AT(body_admin_key, sessions), 1, QUOTA_MAX,
      .help = "at one time; the server's default if it is left out, as below" },
    { "executions", FIELD_INT, 0, AT(body_admin_key, executions), 1, QUOTA_MAX,
      .help = "that run or wait at one time" },
    { "rate_per_minute", FIELD_INT, 0, AT(body_admin_key, rate_per_minute), 1, QUOTA_MAX,
      .help = "executions and new sessions" },
    END,
};
REQUEST(admin_key_create, struct body_admin_key, "A new API key.");

static const char *const roles[] = { "operator", "user", NULL };

static const struct field fields_admin_user_change[] = {
    { "role", FIELD_CHOICE, FIELD_REQUIRED, AT(body_admin_user, role), .choices = roles },
    END,
};
REQUEST(admin_user_change, struct body_admin_user, "A change of an account.");

static const struct field fields_admin_budget[] = {
    { "bytes", FIELD_INT, 0, AT(body_admin_budget, bytes), -1, INT64_MAX / 8,
      .help = "that sources read or bill" },
    { "cost", FIELD_NUMBER, 0, AT(body_admin_budget, cost), .help = "in US dollars" },
    { "tokens", FIELD_INT, 0, AT(body_admin_budget, tokens), -1, INT64_MAX / 8,
      .help = "of models" },
    { "seconds", FIELD_NUMBER, 0, AT(body_admin_budget, seconds), .help = "of answers" },
    END,
};
REQUEST(admin_budget, struct body_admin_budget,
        "What an account may spend in a day; -1 is no limit, and what is left out is the service's "
        "default.");

static const struct field fields_admin_invite[] = {
    { "hours", FIELD_INT, 0, AT(body_admin_invite, hours), 1, 720,
      .help = "how long it is valid; defaults to 72" },
    END,
};
REQUEST(admin_invite, struct body_admin_invite, "An invitation.");

/* ---- responses ---- */

static const struct field fields_admin_overview[] = {
    ALWAYS("ready", FIELD_BOOL, NULL), ALWAYS("draining", FIELD_BOOL, NULL),
    ALWAYS("version", FIELD_TEXT, NULL), ALWAYS("uptime_seconds", FIELD_NUMBER, NULL),
    ALWAYS("template", FIELD_TEXT, "the default one"),
    ALWAYS("boxes", FIELD_OBJECT, "ready, live, and pool: how many are kept ready"),
    ALWAYS("sessions", FIELD_OBJECT, "live, most, made, expired, lost"),
    ALWAYS("executions", FIELD_OBJECT, "running, waiting, most, kept, refused, and since the start "
                                       "by_status and by_limit"),
    ALWAYS("memory", FIELD_OBJECT, "bytes of the server, of the host, and of kept results"),
    ALWAYS("packages", FIELD_OBJECT, "installs, cached, failed, layers, bytes"),
    ALWAYS("key_defaults", FIELD_OBJECT, "quotas of keys without their own, and of accounts"),
    ALWAYS("mark", FIELD_OBJECT, "answers: running, waiting, and since the start by status"),
    ALWAYS("http", FIELD_OBJECT, "requests, streams, and replies by the first digit"),
    END,
};
RESPONSE(admin_overview, "The service at a glance.");

static const struct field fields_admin_series[] = {
    ALWAYS("step", FIELD_NUMBER, "seconds between two values"),
    ALWAYS("end", FIELD_INT, "Unix time of the last sample"),
    ALWAYS("time", FIELD_LIST, "Unix times"),
    ALWAYS("rate", FIELD_LIST, "executions that ended, per second"),
    ALWAYS("error_rate", FIELD_LIST, "of them, those with an error of the program"),
    ALWAYS("stopped_rate", FIELD_LIST, "of them, those that were stopped or killed"),
    ALWAYS("p50_ms", FIELD_LIST, "half of them took at most so long; null: there were none"),
    ALWAYS("p95_ms", FIELD_LIST, "95 of 100 took at most so long"),
    ALWAYS("sessions", FIELD_LIST, NULL), ALWAYS("running", FIELD_LIST, "executions"),
    ALWAYS("waiting", FIELD_LIST, "executions"), ALWAYS("boxes_ready", FIELD_LIST, NULL),
    ALWAYS("memory_server", FIELD_LIST, "bytes"),
    ALWAYS("memory_boxes", FIELD_LIST, "of all sessions; null where it cannot be measured"),
    ALWAYS("memory_host", FIELD_LIST, "in use on the whole machine"),
    END,
};
RESPONSE(admin_series, "How the service was.");

#define ROW_PRINCIPAL                                                                              \
    ALWAYS("principal", FIELD_TEXT, "who has it: the id of a key, user-ID, or local"),             \
    ALWAYS("principal_kind", FIELD_TEXT, "key, user or local"),                                    \
    ALWAYS("name", FIELD_TEXT, "the name of the key, the address of the user, or the listener")

static const struct field fields_admin_session[] = {
    ALWAYS("session_id", FIELD_TEXT, NULL), ROW_PRINCIPAL,
    MAYBE("listener", FIELD_TEXT, "where it was made"),
    ALWAYS("state", FIELD_TEXT, "ready, running or lost"), ALWAYS("template", FIELD_TEXT, NULL),
    ALWAYS("created", FIELD_NUMBER, "Unix time"), ALWAYS("age", FIELD_NUMBER, "seconds"),
    ALWAYS("idle", FIELD_NUMBER, "seconds"), ALWAYS("idle_timeout", FIELD_NUMBER, "seconds"),
    ALWAYS("expires_in", FIELD_NUMBER, "seconds"),
    ALWAYS("execution_count", FIELD_INT, NULL), ALWAYS("waiting", FIELD_INT, NULL),
    { "limits", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_limits },
    MAYBE("memory_bytes", FIELD_INT, "of the box now; null if it cannot be measured, as below"),
    MAYBE("processes", FIELD_INT, NULL), MAYBE("cpu_seconds", FIELD_NUMBER, NULL),
    MAYBE("execution_id", FIELD_TEXT, "what runs in it"),
    END,
};
static const struct schema schema_admin_session = { "admin_session", "A session of anybody.",
                                                    fields_admin_session, 0 };

static const struct field fields_admin_sessions[] = {
    { "sessions", FIELD_LIST, FIELD_REQUIRED, .of = &schema_admin_session },
    ALWAYS("more", FIELD_BOOL, "whether there is another page"), ALWAYS("total", FIELD_INT, NULL),
    END,
};
RESPONSE(admin_sessions, NULL);

static const struct field fields_admin_execution[] = {
    ALWAYS("execution_id", FIELD_TEXT, NULL), ROW_PRINCIPAL,
    MAYBE("session_id", FIELD_TEXT, "null: a one-shot"),
    ALWAYS("kind", FIELD_TEXT, "cell, script, command or shell"),
    ALWAYS("template", FIELD_TEXT, NULL),
    ALWAYS("status", FIELD_TEXT, "waiting, running, the status of its receipt, or refused"),
    ALWAYS("begun", FIELD_NUMBER, "Unix time of the request"),
    MAYBE("seconds", FIELD_NUMBER, "that it ran"), MAYBE("cpu_seconds", FIELD_NUMBER, NULL),
    MAYBE("memory_peak_bytes", FIELD_INT, NULL),
    MAYBE("limit", FIELD_TEXT, "the limit that ended it"), MAYBE("exit_code", FIELD_INT, NULL),
    MAYBE("refused", FIELD_TEXT, "the problem type, if it was refused in the queue"),
    END,
};
static const struct schema schema_admin_execution = { "admin_execution", "An execution of anybody.",
                                                      fields_admin_execution, 0 };

static const struct field fields_admin_executions[] = {
    { "executions", FIELD_LIST, FIELD_REQUIRED, .of = &schema_admin_execution },
    ALWAYS("more", FIELD_BOOL, "whether there are others"),
    END,
};
RESPONSE(admin_executions, NULL);

static const struct field fields_admin_key[] = {
    ALWAYS("id", FIELD_TEXT, NULL), ALWAYS("name", FIELD_TEXT, NULL),
    ALWAYS("created", FIELD_TEXT, NULL), MAYBE("last_used", FIELD_TEXT, NULL),
    MAYBE("revoked", FIELD_TEXT, NULL),
    MAYBE("sessions", FIELD_INT, "quota; null: the server's default, as below"),
    MAYBE("executions", FIELD_INT, NULL), MAYBE("rate_per_minute", FIELD_INT, NULL),
    MAYBE("now", FIELD_OBJECT, "sessions and executions at this moment"),
    MAYBE("budget", FIELD_OBJECT, "as GET /api/v1/budget"),
    MAYBE("token", FIELD_TEXT, "the key itself; only when it was just created"),
    END,
};
RESPONSE(admin_key, "An API key.");

static const struct field fields_admin_keys[] = {
    { "keys", FIELD_LIST, FIELD_REQUIRED, .of = &schema_admin_key },
    ALWAYS("more", FIELD_BOOL, NULL), ALWAYS("total", FIELD_INT, "of those that match"),
    END,
};
RESPONSE(admin_keys, NULL);

static const struct field fields_admin_user[] = {
    ALWAYS("user_id", FIELD_TEXT, NULL), ALWAYS("email", FIELD_TEXT, NULL),
    ALWAYS("name", FIELD_TEXT, NULL), ALWAYS("role", FIELD_TEXT, NULL),
    ALWAYS("created", FIELD_TEXT, NULL),
    MAYBE("sessions", FIELD_INT, "quota; null: as a key without its own, as below"),
    MAYBE("executions", FIELD_INT, NULL), MAYBE("rate_per_minute", FIELD_INT, NULL),
    MAYBE("now", FIELD_OBJECT, "sessions and executions at this moment"),
    MAYBE("budget", FIELD_OBJECT,
          "as GET /api/v1/budget; own is what was set for this account: null is the default, -1 "
          "no limit"),
    END,
};
RESPONSE(admin_user, "An account.");

static const struct field fields_admin_users[] = {
    { "users", FIELD_LIST, FIELD_REQUIRED, .of = &schema_admin_user },
    ALWAYS("more", FIELD_BOOL, NULL), ALWAYS("total", FIELD_INT, "of those that match"),
    END,
};
RESPONSE(admin_users, NULL);

static const struct field fields_admin_password[] = {
    ALWAYS("password", FIELD_TEXT, "shown once"), END };
RESPONSE(admin_password, NULL);

static const struct field fields_admin_invitation[] = {
    ALWAYS("invitation", FIELD_TEXT, "the code"), ALWAYS("url", FIELD_TEXT, "where to use it"),
    ALWAYS("expires", FIELD_TEXT, NULL), END };
RESPONSE(admin_invitation, NULL);

static const struct field fields_admin_entry[] = {
    ALWAYS("seq", FIELD_INT, "its number"), ALWAYS("time", FIELD_TEXT, NULL),
    MAYBE("session_id", FIELD_TEXT, NULL), MAYBE("who", FIELD_TEXT, "the principal"),
    MAYBE("name", FIELD_TEXT, "a name for it"), MAYBE("kind", FIELD_TEXT, NULL),
    MAYBE("execution_id", FIELD_TEXT, NULL), MAYBE("status", FIELD_TEXT, NULL),
    MAYBE("limit", FIELD_TEXT, NULL), MAYBE("exit_code", FIELD_INT, NULL),
    MAYBE("code_bytes", FIELD_INT, NULL), MAYBE("code_sha256", FIELD_TEXT, NULL),
    MAYBE("wall_us", FIELD_INT, NULL), MAYBE("cpu_us", FIELD_INT, NULL),
    MAYBE("memory_peak_bytes", FIELD_INT, NULL), MAYBE("output_bytes", FIELD_INT, NULL),
    MAYBE("action", FIELD_OBJECT, "of an operator: name, target"),
    MAYBE("answer", FIELD_OBJECT, "of Mark: model, status, prompt_version, programs, queries"),
    MAYBE("malformed", FIELD_BOOL, "it was not written by Glovebox"),
    END,
};
static const struct schema schema_admin_entry = { "admin_entry", "An entry of the audit log.",
                                                  fields_admin_entry, 0 };

static const struct field fields_admin_audit[] = {
    { "entries", FIELD_LIST, FIELD_REQUIRED, .of = &schema_admin_entry },
    MAYBE("before", FIELD_INT, "where to go on; null: that was all"),
    ALWAYS("looked_at", FIELD_INT, "entries"),
    END,
};
RESPONSE(admin_audit, NULL);

static const char *const chain_states[] = { "checking", "intact", "broken", "off", NULL };

static const struct field fields_admin_chain[] = {
    { "state", FIELD_CHOICE, FIELD_REQUIRED, .choices = chain_states },
    ALWAYS("checked", FIELD_INT, "intact entries, from the first on"),
    ALWAYS("entries", FIELD_INT, "how many there are"),
    ALWAYS("head", FIELD_TEXT, "the hash of the last entry that was checked"),
    MAYBE("broken_entry", FIELD_INT, NULL), MAYBE("why", FIELD_TEXT, NULL),
    MAYBE("begun", FIELD_TEXT, "when the check of the first entry was"),
    MAYBE("completed", FIELD_TEXT, "when it was last at the end"),
    END,
};
RESPONSE(admin_chain, "The state of the audit log.");

static const struct field fields_admin_layer[] = {
    ALWAYS("layer", FIELD_TEXT, NULL), ALWAYS("count", FIELD_INT, "of packages"),
    ALWAYS("packages", FIELD_LIST, "name, version; at most 60"), ALWAYS("bytes", FIELD_INT, NULL),
    ALWAYS("used", FIELD_INT, "Unix time of the last use"),
    ALWAYS("uses", FIELD_INT, "at this moment"), END };
static const struct schema schema_admin_layer = { "admin_layer", "Packages as files.",
                                                  fields_admin_layer, 0 };

static const struct field fields_admin_packages[] = {
    { "layers", FIELD_LIST, FIELD_REQUIRED, .of = &schema_admin_layer },
    ALWAYS("sets", FIELD_LIST, "default sets: owner, name, requirements, layer"),
    ALWAYS("more", FIELD_BOOL, "whether there are other layers or sets"),
    ALWAYS("count", FIELD_INT, "of layers"),
    ALWAYS("bytes", FIELD_INT, "of all layers; files that several have count once"),
    END,
};
RESPONSE(admin_packages, NULL);

static const struct field fields_admin_source[] = {
    ALWAYS("source_id", FIELD_TEXT, NULL), ALWAYS("name", FIELD_TEXT, NULL),
    ALWAYS("kind", FIELD_TEXT, NULL), ALWAYS("description", FIELD_TEXT, NULL),
    ALWAYS("tables", FIELD_INT, NULL), MAYBE("synced", FIELD_TEXT, NULL),
    MAYBE("sync_error", FIELD_TEXT, "why the last sync failed"),
    ALWAYS("access", FIELD_INT, "how many rows say who may use it"), END };
static const struct schema schema_admin_source = { "admin_source", "A data source.",
                                                   fields_admin_source, 0 };

static const struct field fields_admin_sources[] = {
    { "sources", FIELD_LIST, FIELD_REQUIRED, .of = &schema_admin_source }, END };
RESPONSE(admin_sources, NULL);

static const struct field fields_admin_models[] = {
    ALWAYS("models", FIELD_LIST, "as GET /api/v1/models, and use: calls, failures, prompt_tokens, "
                                 "completion_tokens, cached_tokens and cost since the start"),
    ALWAYS("totals", FIELD_OBJECT, "the same of all, and answers by status"),
    ALWAYS("days", FIELD_LIST, "day, bytes, cost, tokens, seconds; the last first, 30 at most"),
    ALWAYS("owners", FIELD_LIST, "today: owner, name, bytes, cost, tokens, seconds"),
    ALWAYS("today", FIELD_TEXT, NULL), ALWAYS("more", FIELD_BOOL, "whether there are more owners"),
    END,
};
RESPONSE(admin_models, NULL);

const struct schema *const admin_schemas[] = {
    &schema_admin_key_create, &schema_admin_user_change, &schema_admin_budget, &schema_admin_invite,
    &schema_admin_overview, &schema_admin_series, &schema_admin_session, &schema_admin_sessions,
    &schema_admin_execution, &schema_admin_executions, &schema_admin_key, &schema_admin_keys,
    &schema_admin_user, &schema_admin_users, &schema_admin_password, &schema_admin_invitation,
    &schema_admin_entry, &schema_admin_audit, &schema_admin_chain, &schema_admin_layer,
    &schema_admin_packages, &schema_admin_source, &schema_admin_sources, &schema_admin_models,
    NULL };
