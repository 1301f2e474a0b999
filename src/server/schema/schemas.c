/* The tables that more than one dialect shows, and the list of all dialects' tables. */
#include "server/schema/schemas.h"

#include "server/schema/tables.h"
#include "service/service.h"

#include "base/banned.h"

/* clang-format off */

static const struct field fields_limits[] = {
#define FIELD_OF_SECONDS FIELD_SECONDS
#define FIELD_OF_SIZE    FIELD_SIZE
#define FIELD_OF_CPUS    FIELD_NUMBER
#define FIELD_OF_COUNT   FIELD_INT
#define LIMIT(member, unit, words, json, standard, session, ceiling, min, max, zero, option,       \
              option_standard, option_min, commands, variable, variable_unit, example_, help_, ...) \
    { json, FIELD_OF_##unit, .help = help_, .example = example_ },
#include "base/words/limits.def"
    END,
};
const struct schema schema_limits = {
    "limits", "Resource limits. All are optional; none may be above the operator's maximum "
              "(GET /v1/limits).", fields_limits, 0 };

const char *const volume_modes[] = { "ro", "rw", "auto", NULL };
_Static_assert(VOLUME_RO == 0 && VOLUME_RW == 1 && VOLUME_AUTO == 2,
               "volume_modes follow enum volume_mode");

static const struct field fields_bound[] = {
    { "source", FIELD_TEXT, FIELD_REQUIRED, .help = "the host directory" },
    { "target", FIELD_TEXT, 0, .help = "path in the box" },
    { "mode", FIELD_CHOICE, FIELD_REQUIRED, .choices = volume_modes, .help = "ro or rw" },
    END,
};
const struct schema schema_bound = {
    "bound", "A volume: mounted in a session, or available to sessions.", fields_bound, 0 };

static const struct field fields_mistake[] = {
    ALWAYS("loc", FIELD_LIST, "body or query, then the field"), ALWAYS("msg", FIELD_TEXT, NULL),
    ALWAYS("type", FIELD_TEXT, NULL), END };
static const struct schema schema_mistake = { "mistake", NULL, fields_mistake, 0 };

static const struct field fields_problem[] = {
    ALWAYS("type", FIELD_TEXT, "a fixed URN for programs"),
    ALWAYS("title", FIELD_TEXT, NULL),
    ALWAYS("status", FIELD_INT, NULL),
    ALWAYS("detail", FIELD_TEXT, "what to change"),
    ALWAYS("request_id", FIELD_TEXT, "as in the log"),
    { "errors", FIELD_LIST, 0, .of = &schema_mistake, .help = "with 422: every invalid field" },
    END,
};
RESPONSE(problem, "Why a request was refused.");

static const struct schema *const shared_schemas[] = {
    &schema_limits, &schema_bound, &schema_mistake, &schema_problem, NULL };

const struct schema *const *const schema_lists[] = {
    shared_schemas, about_schemas, compat_schemas, v1_schemas, mcp_schemas, mark_schemas, admin_schemas,
    NULL };
