/* Questions and answers of Mark: bodies, queries, responses, events. */
#include "mark/agent/agent.h"
#include "server/mark/schemas.h"
#include "server/schema/schemas.h"
#include "server/schema/tables.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

/* clang-format off */

#define ID_BYTES    64  /* longer than any id, so that a wrong one is "no such chat" */
#define MODEL_BYTES 200

/* ---- requests ---- */

static const struct field fields_ask[] = {
    { "query", FIELD_TEXT, FIELD_REQUIRED, AT(body_ask, query), 1, AGENT_QUERY_MAX,
      .help = "the question", .example = "\"Which region grew fastest?\"" },
    { "chat_id", FIELD_TEXT, 0, AT(body_ask, chat_id), 1, ID_BYTES,
      .help = "the chat to continue; if it is left out, a new one is made" },
    { "attachments", FIELD_LIST, 0, AT(body_ask, attachments), 0, AGENT_ATTACHMENTS_MAX,
      .help = "ids of files from POST /api/v1/attachments; those of earlier questions stay" },
    { "sources", FIELD_LIST, 0, AT(body_ask, sources), 0, AGENT_SOURCES_MAX,
      .help = "names or ids of data sources that it may ask; defaults to those of the chat's last "
              "question that named some, then to all that you may use; an empty list: none" },
    { "model", FIELD_TEXT, 0, AT(body_ask, model), 1, MODEL_BYTES,
      .help = "a name from GET /api/v1/models; defaults to the chat's, then to the default one" },
    END,
};
REQUEST(ask, struct body_ask, "A question.");

static const struct field fields_edit[] = {
    { "query", FIELD_TEXT, FIELD_REQUIRED, AT(body_edit, query), 1, AGENT_QUERY_MAX,
      .help = "the question in its place", .example = "\"Which region shrank fastest?\"" },
    { "attachments", FIELD_LIST, 0, AT(body_edit, attachments), 0, AGENT_ATTACHMENTS_MAX,
      .help = "ids of files; defaults to those of the question that it replaces; an empty list: "
              "none" },
    { "sources", FIELD_LIST, 0, AT(body_edit, sources), 0, AGENT_SOURCES_MAX,
      .help = "names or ids of data sources; the default is likewise" },
    { "model", FIELD_TEXT, 0, AT(body_edit, model), 1, MODEL_BYTES,
      .help = "a name from GET /api/v1/models; defaults to the chat's, then to the default one" },
    END,
};
REQUEST(edit, struct body_edit, "A question in place of another.");

static const struct field fields_regenerate_body[] = {
    { "model", FIELD_TEXT, 0, AT(body_regenerate, model), 1, MODEL_BYTES,
      .help = "a name from GET /api/v1/models; defaults to the chat's, then to the default one" },
    END,
};
REQUEST(regenerate_body, struct body_regenerate, "How to answer again.");

static const struct field fields_mark_events_query[] = {
    { "after", FIELD_INT, 0, AT(query_mark_events, after), 0, INT64_MAX,
      .help = "the id of the last event that you have; goes before Last-Event-ID" },
    END,
};
REQUEST(mark_events_query, struct query_mark_events, NULL);

/* ---- the answer ---- */

static const char *const column_types[] = { "integer", "number", "text", "boolean", "date",
                                            "datetime", NULL };

static const struct field fields_mark_column[] = {
    ALWAYS("name", FIELD_TEXT, NULL),
    { "type", FIELD_CHOICE, FIELD_REQUIRED, .choices = column_types },
    END,
};
RESPONSE(mark_column, "A column of a table.");

static const struct field fields_mark_table[] = {
    ALWAYS("title", FIELD_TEXT, NULL),
    { "columns", FIELD_LIST, FIELD_REQUIRED, .of = &schema_mark_column },
    { "rows", FIELD_ROWS, FIELD_REQUIRED,
      .help = "at most 1000 rows: a list of cells each" },
    ALWAYS("row_count", FIELD_INT, "of the whole table"),
    { "step", FIELD_INT, 0, .help = "the program that handed it over" },
    { "line", FIELD_INT, 0, .help = "in the code of that step, from 1; left out if it is not known" },
    END,
};
RESPONSE(mark_table, "Rows that the code computed.");

static const struct field fields_mark_query[] = {
    ALWAYS("n", FIELD_INT, "its place in the answer, from 1; in an event, the step"),
    ALWAYS("source", FIELD_TEXT, "its name"), ALWAYS("sql", FIELD_TEXT, NULL),
    { "params", FIELD_ANY, 0, .help = "a list or an object, if there were some" },
    ALWAYS("status", FIELD_TEXT, "ok; or why not: sql, denied, too-expensive, too-large, timeout, "
           "cancelled, read-only, masked, unsafe, unreachable, broken, unsupported, budget, "
           "no-such-source, not-recorded, internal; running in the event before it runs"),
    { "rows", FIELD_NUMBER, FIELD_NULLABLE, .help = "that it returned" },
    { "bytes", FIELD_NUMBER, FIELD_NULLABLE, .help = "that the source read or billed" },
    { "ms", FIELD_NUMBER, FIELD_NULLABLE, .help = "how long it took" },
    { "cost", FIELD_NUMBER, FIELD_NULLABLE, .help = "in what the source counts in" },
    { "money", FIELD_NUMBER, FIELD_NULLABLE, .help = "US dollars" },
    { "estimate", FIELD_ANY, 0, .help = "{cost, rows, bytes, money} before it ran" },
    { "sha256", FIELD_TEXT, 0, .help = "of the result, by which it is kept" },
    { "cache_hit", FIELD_BOOL, 0, .help = "the source had the result already" },
    { "replayed", FIELD_BOOL, 0, .help = "it is the recorded result; the source was not asked" },
    { "message", FIELD_TEXT, 0, .help = "why it was refused or failed" }, END };
RESPONSE(mark_query, "A query that a program sent to a data source.");

static const struct field fields_mark_chart[] = {
    ALWAYS("data", FIELD_ANY, "a list of traces"),
    { "layout", FIELD_OBJECT, 0, .help = "title, axes and the like" },
    { "step", FIELD_INT, 0, .help = "the program that drew it" },
    { "line", FIELD_INT, 0, .help = "in the code of that step, from 1; left out if it is not known" },
    END,
};
RESPONSE(mark_chart, "A figure of Plotly, as Plotly.newPlot() and plotly.io.from_json() read it.");

static const struct field fields_mark_step[] = {
    ALWAYS("n", FIELD_INT, "from 1"),
    ALWAYS("code", FIELD_TEXT, "the program that the model wrote"),
    { "receipt", FIELD_OBJECT, FIELD_REQUIRED | FIELD_NULLABLE, .of = &schema_receipt,
      .help = "how it ran; values, tables and charts are left out, and stdout and stderr are cut "
              "to 8 KB each. Null if it did not run" },
    { "queries", FIELD_LIST, FIELD_REQUIRED, .of = &schema_mark_query,
      .help = "what it asked of data sources" },
    END,
};
RESPONSE(mark_step, "One program of an answer.");

static const struct field fields_mark_value[] = {
    ALWAYS("name", FIELD_TEXT, "as the code calls it"),
    { "value", FIELD_ANY, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "a number, a text, true or false; null for NaN" },
    { "unit", FIELD_TEXT, FIELD_NULLABLE, .example = "\"EUR\"" },
    { "format", FIELD_TEXT, FIELD_NULLABLE, .help = "how it is shown, as in Python" },
    ALWAYS("step", FIELD_INT, "the program that computed it"),
    { "line", FIELD_INT, 0, .help = "in the code of that step, from 1; left out if it is not known" },
    END,
};
RESPONSE(mark_value, "A value that code handed over with mark.value().");

static const char *const place_kinds[] = { "value", "found", "unsupported", NULL };
static const char *const place_origins[] = { "value", "table", "output", "query",
                                             "data",  "question", NULL };

static const struct field fields_mark_place[] = {
    ALWAYS("start", FIELD_INT, "offset in bytes of UTF-8"),
    ALWAYS("end", FIELD_INT, "offset after its last byte"),
    { "kind", FIELD_CHOICE, FIELD_REQUIRED, .choices = place_kinds,
      .help = "value: filled in from a value; found: in the output or a table; unsupported: "
              "nobody computed it" },
    { "name", FIELD_TEXT, .help = "of the value" },
    { "where", FIELD_CHOICE, 0, .choices = place_origins,
      .help = "of one that was found: in what; query is the number of its rows, data the profile of "
              "a file" },
    { "step", FIELD_INT, 0, .help = "the program that computed it, as in steps; left out if there "
                                    "is none, as the rest" },
    { "line", FIELD_INT, 0, .help = "in the code of that step, from 1" },
    { "message_id", FIELD_TEXT, 0, .help = "of the earlier answer of the chat that has the step" },
    { "table", FIELD_INT, 0, .help = "its place in data, from 1" },
    { "row", FIELD_INT, 0, .help = "of that table, from 1" },
    { "column", FIELD_INT, 0, .help = "likewise" },
    END,
};
RESPONSE(mark_place, "A number in answer_story.");

static const struct field fields_mark_numbers[] = {
    ALWAYS("checked", FIELD_INT, "how many were computed"),
    { "unsupported", FIELD_LIST, FIELD_REQUIRED,
      .help = "the texts of those that were not: do not rely on them" },
    { "marks", FIELD_LIST, 0, .of = &schema_mark_place, .help = "where they are" },
    END,
};
RESPONSE(mark_numbers, "Whether the numbers of answer_story were computed.");

static const struct field fields_mark_artifact[] = {
    ALWAYS("name", FIELD_TEXT, "path in the workspace"),
    ALWAYS("size", FIELD_INT, "in bytes"),
    ALWAYS("media_type", FIELD_TEXT, NULL),
    ALWAYS("url", FIELD_TEXT, "where to download it, while the session of the chat lives"),
    { "kept_url", FIELD_TEXT, 0, .help = "where to download it as it was at the end of the answer, "
                                         "as long as the answer is there; left out if the file was "
                                         "not kept" },
    { "step", FIELD_INT, 0, .help = "the last program that wrote it" },
    END,
};
RESPONSE(mark_artifact, "A file that the code wrote.");

static const struct field fields_mark_usage[] = {
    MAYBE("prompt_tokens", FIELD_INT, "null if the model did not tell, as for the next two"),
    MAYBE("completion_tokens", FIELD_INT, NULL),
    MAYBE("cached_tokens", FIELD_INT, "of prompt_tokens"),
    MAYBE("cost", FIELD_NUMBER, "in US dollars; null if the prices are not known"),
    MAYBE("seconds", FIELD_NUMBER, "from the question to the end of the answer"),
    END,
};
RESPONSE(mark_usage, "What an answer took.");

#define ROWS_AMOUNTS(words)                                                                        \
    MAYBE("bytes", FIELD_INT, "that sources read or bill" words),                                  \
        MAYBE("cost", FIELD_NUMBER, "in US dollars, of models and queries"),                       \
        MAYBE("tokens", FIELD_INT, "of models"), MAYBE("seconds", FIELD_NUMBER, "of answers"), END

static const struct field fields_mark_amounts[] = { ROWS_AMOUNTS("") };
RESPONSE(mark_amounts, "What was used.");

static const struct field fields_mark_limits[] = { ROWS_AMOUNTS("; null: no limit, here and below") };
RESPONSE(mark_limits, "What may be used.");

static const struct field fields_mark_budget[] = {
    ALWAYS("day", FIELD_TEXT, "in UTC, such as 2026-11-16"),
    ALWAYS("resets_in", FIELD_INT, "seconds until the next day"),
    { "limits", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_mark_limits },
    { "used", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_mark_amounts },
    { "left", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_mark_limits,
      .help = "without what is reserved for what is under way" },
    END,
};
RESPONSE(mark_budget, "A budget of the day.");

static const struct field fields_mark_spent[] = {
    { "day", FIELD_TEXT, .help = "in UTC" },
    { "resets_in", FIELD_INT, .help = "seconds until the next day" },
    { "limits", FIELD_OBJECT, .of = &schema_mark_limits },
    { "used", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_mark_amounts,
      .help = "by this answer" },
    { "left", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_mark_limits,
      .help = "for today, when it ended" },
    END,
};
RESPONSE(mark_spent, "What an answer took of the budget of the day.");

static const char *const answer_statuses[] = { "ok", "error", "stopped", "needs_input", "pending",
                                               NULL };

static const struct field fields_mark_response[] = {
    ALWAYS("chat_id", FIELD_TEXT, "a UUID"),
    ALWAYS("message_id", FIELD_TEXT, "a UUID, of the answer"),
    { "question_id", FIELD_TEXT, 0, .help = "a UUID, of the message with the question" },
    { "status", FIELD_CHOICE, FIELD_REQUIRED, .choices = answer_statuses,
      .help = "error: answer_story says what failed; stopped: on request, with what there was; "
              "needs_input: see question; pending: under way or waiting" },
    { "answer_story", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "the answer in Markdown; numbers are filled in from what was computed" },
    { "visualization", FIELD_OBJECT, FIELD_REQUIRED | FIELD_NULLABLE, .of = &schema_mark_chart,
      .help = "the first of visualizations" },
    { "visualizations", FIELD_LIST, FIELD_REQUIRED, .of = &schema_mark_chart,
      .help = "charts" },
    { "data", FIELD_LIST, FIELD_REQUIRED, .of = &schema_mark_table, .help = "the rows behind it" },
    { "steps", FIELD_LIST, FIELD_REQUIRED, .of = &schema_mark_step,
      .help = "the programs that were run" },
    { "values", FIELD_LIST, FIELD_REQUIRED, .of = &schema_mark_value },
    { "numbers", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_mark_numbers },
    { "artifacts", FIELD_LIST, FIELD_REQUIRED, .of = &schema_mark_artifact },
    { "question", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "what Mark has to know first; reply with the next question in the chat" },
    { "model", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE, .help = "its name" },
    { "usage", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_mark_usage },
    { "budget", FIELD_OBJECT, FIELD_NULLABLE, .of = &schema_mark_spent },
    { "demo", FIELD_BOOL, 0, .help = "true if the demo answered, which is no language model" },
    { "notices", FIELD_LIST, 0, .help = "sentences such as: the session was rebuilt" },
    END,
};
RESPONSE(mark_response, "An answer.");

/* ---- events ---- */

static const char *const event_names[] = { "chat",    "thinking", "step",  "output",
                                           "receipt", "query",    "story", "chart",
                                           "table",   "done",     "error", "keepalive", NULL };

static const struct field fields_mark_event[] = {
    { "event", FIELD_CHOICE, FIELD_REQUIRED, .choices = event_names },
    { "id", FIELD_INT, 0, .help = "rises; for after and Last-Event-ID. Not of a keepalive" },
    { "data", FIELD_OBJECT, FIELD_REQUIRED,
      .help = "chat: {chat_id, message_id, question_id}; thinking: {text}; step: {n, code_delta} while it is "
              "written, then {n, code}; output: {n, stream, text}; receipt: {n, receipt}; story: "
              "{delta}, with restart if what came before is void; chart: {n, spec}; table: {n} and "
              "the table; done: the answer; error: a problem" },
    END,
};
RESPONSE(mark_event, "One event of an answer, as a line of NDJSON. With server-sent events the name "
                     "is the event type, and only data is in the data field. done or error is the "
                     "last.");

static const struct field fields_stopped[] = {
    ALWAYS("stopped", FIELD_INT, "how many answers; 0 if none was under way"), END };
RESPONSE(stopped, "How many answers were stopped.");

/* ---- looking back ---- */

static const struct field fields_recheck_body[] = {
    { "live", FIELD_BOOL, 0, AT(body_recheck, live),
      .help = "ask the data sources again instead of replaying what they said" },
    END,
};
REQUEST(recheck_body, struct body_recheck, "How to check an answer.");

static const struct field fields_recheck_item[] = {
    { "name", FIELD_TEXT, 0, .help = "of a value; tables have a title, charts a number" },
    ALWAYS("equal", FIELD_BOOL, NULL),
    { "before", FIELD_ANY, FIELD_NULLABLE, .help = "what the answer shows" },
    { "after", FIELD_ANY, FIELD_NULLABLE, .help = "what came out now" },
    END,
};
RESPONSE(recheck_item, "One comparison.");

static const struct field fields_recheck_error[] = {
    ALWAYS("n", FIELD_INT, "the program, from 1"), ALWAYS("error", FIELD_TEXT, NULL), END };
RESPONSE(recheck_error, "Why a program failed this time.");

static const struct field fields_recheck[] = {
    ALWAYS("message_id", FIELD_TEXT, "of the answer"),
    ALWAYS("equal", FIELD_BOOL, "whether everything is"),
    { "values", FIELD_LIST, FIELD_REQUIRED, .of = &schema_recheck_item },
    { "tables", FIELD_LIST, FIELD_REQUIRED, .of = &schema_recheck_item },
    { "charts", FIELD_LIST, FIELD_REQUIRED, .of = &schema_recheck_item },
    { "seconds", FIELD_NUMBER, 0, .help = "how long it took" },
    { "failed", FIELD_INT, 0, .help = "how many programs of the answer failed this time" },
    { "checked", FIELD_INT, 0, .help = "how many values, tables and charts were compared" },
    { "errors", FIELD_LIST, 0, .of = &schema_recheck_error, .help = "of those that failed" },
    { "packages", FIELD_ANY, 0,
      .help = "{before, after}: the packages of the boxes with their versions, if they differ" },
    { "template", FIELD_ANY, 0, .help = "{before, after}: the templates, if they differ" },
    { "files", FIELD_LIST, 0,
      .help = "files of data sources that changed since, such as: archive/orders.csv was changed" },
    { "queries", FIELD_ANY, 0,
      .help = "with live: [{n, source, sql, before, after, equal}], what the sources said then "
              "and now" },
    END,
};
RESPONSE(recheck, "Whether an answer comes out again.");

static const struct field fields_exchange[] = {
    { "request", FIELD_ANY, FIELD_NULLABLE, .help = "the body as it was sent" },
    { "reply", FIELD_ANY, FIELD_NULLABLE, .help = "what came back" },
    { "status", FIELD_INT, FIELD_NULLABLE, .help = "of HTTP" },
    { "attempts", FIELD_INT, 0, .help = "with retries" },
    { "seconds", FIELD_NUMBER, 0, .help = "how long it took" },
    END,
};
RESPONSE(exchange, "One call of the model.");

static const struct field fields_trace[] = {
    ALWAYS("message_id", FIELD_TEXT, NULL),
    MAYBE("model", FIELD_TEXT, "its name"),
    ALWAYS("prompts", FIELD_OBJECT, "the versions of the prompt texts"),
    { "steps", FIELD_LIST, FIELD_REQUIRED, .of = &schema_exchange,
      .help = "the calls of the model, in order" },
    END,
};
RESPONSE(trace, "What the model saw and said.");

/* ---- models ---- */

static const struct field fields_price[] = {
    { "input", FIELD_NUMBER, 0, .help = "US dollars for a million tokens" },
    { "output", FIELD_NUMBER, 0, .help = "likewise" },
    { "cached", FIELD_NUMBER, 0, .help = "likewise, of input that the provider had already" },
    END,
};
RESPONSE(price, "What a model costs.");

static const struct field fields_model[] = {
    ALWAYS("name", FIELD_TEXT, "for the field model of a question"),
    ALWAYS("provider", FIELD_TEXT, "openai, anthropic, demo, ..."),
    MAYBE("model", FIELD_TEXT, "as its provider calls it"),
    ALWAYS("tools", FIELD_BOOL, "whether it can call tools; others write code into their text"),
    ALWAYS("context", FIELD_INT, "tokens, as far as is known"),
    { "price", FIELD_OBJECT, FIELD_NULLABLE, .of = &schema_price },
    ALWAYS("demo", FIELD_BOOL, "whether it is the demo, which is no language model"),
    ALWAYS("source", FIELD_TEXT, "where it was found"),
    END,
};
RESPONSE(model, "A model that can answer.");

static const struct field fields_model_page[] = {
    { "models", FIELD_LIST, FIELD_REQUIRED, .of = &schema_model },
    { "default", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "the name of the one that answers unless a question names another" },
    END,
};
RESPONSE(model_page, "The models of this service.");
