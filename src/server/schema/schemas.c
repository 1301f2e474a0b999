/* The tables that more than one dialect shows, and the list of all dialects' tables. */
#include "server/schema/schemas.h"

#include "server/schema/tables.h"
#include "service/service.h"

#include "base/banned.h"

/* clang-format off */

static const struct field fields_limits[] = {
    { "timeout", FIELD_SECONDS, .help = "wall time in seconds", .example = "30" },
    { "cpu_time", FIELD_SECONDS, .help = "CPU time of all processes together, in seconds; 0: none" },
    { "memory", FIELD_SIZE, .help = "memory of everything in the box", .example = "\"512m\"" },
    { "cpus", FIELD_NUMBER, .help = "CPUs it may keep busy", .example = "1.0" },
    { "pids", FIELD_INT, .help = "processes and threads at one time", .example = "64" },
    { "disk", FIELD_SIZE, .help = "bytes in the workspace", .example = "\"1g\"" },
    { "inodes", FIELD_INT, .help = "files and directories in the workspace" },
    { "file_size", FIELD_SIZE, .help = "the largest single file" },
    { "open_files", FIELD_INT, .help = "open files of each process" },
    { "output", FIELD_SIZE, .help = "bytes of stdout or stderr before the run is ended for it" },
    END,
};
const struct schema schema_limits = {
    "limits", "What a run may use. Each may be left out; none may be above the operator's ceiling "
              "(GET /v1/limits).", fields_limits, 0 };

const char *const volume_modes[] = { "ro", "rw", "auto", NULL };
_Static_assert(VOLUME_RO == 0 && VOLUME_RW == 1 && VOLUME_AUTO == 2,
               "volume_modes follow enum volume_mode");

static const struct field fields_bound[] = {
    { "source", FIELD_TEXT, FIELD_REQUIRED, .help = "the directory of the host" },
    { "target", FIELD_TEXT, 0, .help = "its place in the box" },
    { "mode", FIELD_CHOICE, FIELD_REQUIRED, .choices = volume_modes, .help = "ro or rw" },
    END,
};
const struct schema schema_bound = { "bound", "A volume as it is.", fields_bound, 0 };

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
    { "errors", FIELD_LIST, 0, .of = &schema_mistake, .help = "with 422: each mistake" },
    END,
};
RESPONSE(problem, "Why a request was refused.");

static const struct schema *const shared_schemas[] = {
    &schema_limits, &schema_bound, &schema_mistake, &schema_problem, NULL };

const struct schema *const *const schema_lists[] = {
    shared_schemas, about_schemas, compat_schemas, v1_schemas, mcp_schemas, NULL };
