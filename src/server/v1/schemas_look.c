/* Bodies and responses of the questions about a session. */
#include "server/schema/schemas.h"
#include "server/schema/tables.h"
#include "server/v1/schemas.h"
#include "service/service.h"

#include "base/banned.h"

/* clang-format off */

#define ROW_CODE                                                                                   \
    { "code", FIELD_TEXT, FIELD_REQUIRED, AT(body_look, code), 0, LOOK_TEXT_MAX,                   \
      .help = "the cell, as far as it was written", .example = "\"import math\\nmath.fl\"" }
#define ROW_CURSOR                                                                                 \
    { "cursor", FIELD_INT, 0, AT(body_look, cursor), 0, LOOK_TEXT_MAX,                             \
      .help = "position in code, in Unicode code points; defaults to its end" }
#define ROW_BUSY                                                                                   \
    ALWAYS("busy", FIELD_BOOL, "the session was busy, so there is no answer; ask again later")

static const struct field fields_complete[] = { ROW_CODE, ROW_CURSOR, END };
REQUEST(complete, struct body_look, "Code to complete.");

static const struct field fields_inspect[] = { ROW_CODE, ROW_CURSOR, END };
REQUEST(inspect, struct body_look, "Code with a name to get help about.");

static const char *const match_types[] = { "function", "class", "module", "property", "instance",
                                           "keyword", "param", "key", "path", "directory", "magic",
                                           NULL };
static const struct field fields_match[] = {
    ALWAYS("text", FIELD_TEXT, "what takes the place of the text between start and end"),
    { "type", FIELD_CHOICE, FIELD_REQUIRED, .choices = match_types,
      .help = "what it is; key: of a mapping or table" },
    END,
};
RESPONSE(match, "A completion.");

static const struct field fields_completion[] = {
    { "matches", FIELD_LIST, FIELD_REQUIRED, .of = &schema_match, .help = "at most 200" },
    ALWAYS("start", FIELD_INT, "where the text begins that a match replaces, in code points"),
    ALWAYS("end", FIELD_INT, "where it ends: the cursor"),
    ROW_BUSY,
    END,
};
RESPONSE(completion, "Completions of code.");

static const struct field fields_inspection[] = {
    ALWAYS("found", FIELD_BOOL, "the name is known"),
    ALWAYS("text", FIELD_TEXT, "plain text of several lines"),
    ROW_BUSY,
    END,
};
RESPONSE(inspection, "Help about a name.");

static const struct field fields_variable[] = {
    ALWAYS("name", FIELD_TEXT, NULL),
    ALWAYS("type", FIELD_TEXT, "name of its class"),
    ALWAYS("summary", FIELD_TEXT, "the beginning of its repr(), or a description"),
    { "shape", FIELD_LIST, .help = "of an array or a table its dimensions, otherwise its length; "
                                   "numbers" },
    { "size_bytes", FIELD_INT, .help = "memory that it takes, about, without the values in it" },
    END,
};
RESPONSE(variable, "A variable.");

static const struct field fields_variable_list[] = {
    { "variables", FIELD_LIST, FIELD_REQUIRED, .of = &schema_variable, .help = "at most 500" },
    ALWAYS("truncated", FIELD_BOOL, "there are more"),
    ROW_BUSY,
    END,
};
RESPONSE(variable_list, "The variables of a session.");
