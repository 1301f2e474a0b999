/* Responses of the routes about the service. */
#include "server/about/schemas.h"

#include "server/schema/schemas.h"
#include "server/schema/tables.h"

#include "base/banned.h"

/* clang-format off */

static const struct field fields_root[] = {
    ALWAYS("message", FIELD_TEXT, NULL), ALWAYS("status", FIELD_TEXT, NULL), END };
RESPONSE(root, NULL);

static const struct field fields_health[] = {
    ALWAYS("status", FIELD_TEXT, "healthy"),
    ALWAYS("service", FIELD_TEXT, "glovebox"),
    ALWAYS("version", FIELD_TEXT, NULL),
    ALWAYS("uptime_seconds", FIELD_NUMBER, NULL),
    ALWAYS("ready", FIELD_BOOL, "as GET /readyz"),
    ALWAYS("draining", FIELD_BOOL, NULL),
    ALWAYS("authentication", FIELD_TEXT, "key, loopback-only or off"),
    ALWAYS("template", FIELD_TEXT, "the default template"),
    ALWAYS("isolation", FIELD_OBJECT, "how code is isolated on this host"),
    ALWAYS("sessions", FIELD_OBJECT, "live, most"),
    ALWAYS("boxes", FIELD_OBJECT, "ready, live"),
    ALWAYS("mark", FIELD_OBJECT, "state: ready, demo, no-model or off; answers that are under way"),
    ALWAYS("memory_bytes", FIELD_INT, "of the server"),
    END,
};
RESPONSE(health, NULL);

static const struct field fields_ready[] = { ALWAYS("ready", FIELD_BOOL, NULL), END };
RESPONSE(ready, NULL);

static const struct field fields_limits_info[] = {
    { "oneshot", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_limits,
      .help = "defaults for a run in a fresh box" },
    { "session", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_limits,
      .help = "defaults for a session" },
    { "ceiling", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_limits,
      .help = "the highest values that a request may set" },
    ALWAYS("command_timeout", FIELD_OBJECT, "default and most (the maximum), in seconds"),
    ALWAYS("sessions", FIELD_OBJECT, "most, idle_timeout, idle_timeout_most"),
    { "volumes", FIELD_LIST, FIELD_REQUIRED, .of = &schema_bound,
      .help = "host directories that sessions may mount, with everything below them" },
    ALWAYS("code_bytes", FIELD_INT, "maximum size of a program"),
    ALWAYS("stdin_bytes", FIELD_INT, "maximum size of standard input"),
    ALWAYS("reply_bytes", FIELD_OBJECT, "default and most (the maximum), per stream in a receipt"),
    ALWAYS("network", FIELD_OBJECT, "allow: hosts that sessions may ask for; secrets: headers that "
                                    "the operator adds"),
    END,
};
RESPONSE(limits_info, "The default limits, and the highest values that requests may set.");

static const struct field fields_template_package[] = {
    ALWAYS("name", FIELD_TEXT, NULL), ALWAYS("version", FIELD_TEXT, NULL), END };
static const struct schema schema_template_package = { "template_package", "An installed package.",
                                                       fields_template_package, 0 };

static const struct field fields_template[] = {
    ALWAYS("name", FIELD_TEXT, NULL), ALWAYS("kind", FIELD_TEXT, "python, venv or packages"),
    ALWAYS("default", FIELD_BOOL, "whether it is used when a request names none"),
    ALWAYS("preload", FIELD_TEXT, "preloaded modules, separated by spaces"),
    { "packages", FIELD_LIST, FIELD_REQUIRED, .of = &schema_template_package,
      .help = "its packages with their versions" },
    MAYBE("requirements", FIELD_LIST, "for kind packages: what it was created from"), END };
static const struct schema schema_template = { "template", "A Python environment.",
                                               fields_template, 0 };

static const struct field fields_templates[] = {
    { "templates", FIELD_LIST, FIELD_REQUIRED, .of = &schema_template },
    ALWAYS("aliases", FIELD_LIST, "ALIAS=NAME; * matches anything, and the first match counts"),
    END,
};
RESPONSE(templates, "The templates and their aliases.");

static const struct field fields_stats[] = {
    ALWAYS("uptime_seconds", FIELD_NUMBER, NULL),
    ALWAYS("sessions", FIELD_OBJECT, "live, most, made, expired, lost"),
    ALWAYS("executions", FIELD_OBJECT, "running, waiting, kept, and by_status since the start"),
    ALWAYS("boxes", FIELD_OBJECT, "ready, live"),
    { "answers", FIELD_OBJECT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "of Mark: running, waiting, and since the start by_status, steps, model_calls, "
              "model_failures, tokens and cost in US dollars; null if Mark is off" },
    ALWAYS("http", FIELD_OBJECT, "requests, streams"),
    END,
};
RESPONSE(stats, NULL);

const struct schema *const about_schemas[] = {
    &schema_root, &schema_health, &schema_ready, &schema_limits_info, &schema_template_package,
    &schema_template, &schema_templates, &schema_stats, NULL };
