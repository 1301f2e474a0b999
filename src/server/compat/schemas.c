/* Bodies of the simple, the code-session and the locals API. */
#include "server/compat/schemas.h"

#include "server/schema/schemas.h"
#include "server/schema/tables.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

/* clang-format off */

/* ---- requests ---- */

static const struct field fields_simple_execute[] = {
    { "code", FIELD_TEXT, FIELD_REQUIRED, AT(body_execute, code), 0, CODE_BYTES_MAX,
      .help = "the program", .example = "\"print(6 * 7)\"" },
    { "timeout", FIELD_SECONDS, 0, AT(body_execute, timeout_us), SEC / 1000, 7 * DAY,
      .help = "wall time in seconds", .example = "30" },
    { "stdin", FIELD_TEXT, 0, AT(body_execute, stdin_text), 0, INPUT_BYTES_MAX,
      .help = "standard input; defaults to empty" },
    { "env", FIELD_MAP, 0, AT(body_execute, env), 0, 256, .help = "extra environment variables" },
    { "session_id", FIELD_TEXT, 0, AT(body_execute, session_id), 1, 64,
      .help = "a live session from POST /v1/sessions; by default a fresh box is used" },
    END,
};
REQUEST(simple_execute, struct body_execute, "A program.");

static const struct field fields_execute_code[] = {
    { "code", FIELD_TEXT, 0, AT(body_execute_code, code), 0, CODE_BYTES_MAX, .help = "the program",
      .example = "\"total = price * 2\"" },
    { "local_dict", FIELD_OBJECT, 0, AT(body_execute_code, local_dict),
      .help = "locals API: variables for the code",
      .example = "{\"price\": 21}" },
    END,
};
REQUEST(execute_code, struct body_execute_code, "Code of the code-session API or the locals API.");

static const struct field fields_pip_install[] = {
    { "package", FIELD_TEXT, FIELD_REQUIRED, AT(body_pip, package), 1, NAME_BYTES_MAX,
      .help = "name of the package", .example = "\"requests\"" },
    { "version", FIELD_TEXT, 0, AT(body_pip, version), 1, NAME_BYTES_MAX,
      .help = "defaults to the latest", .example = "\"2.31.0\"" },
    { "session_id", FIELD_TEXT, 0, AT(body_pip, session_id), 0, 64,
      .help = "a live session from POST /v1/sessions" },
    END,
};
REQUEST(pip_install, struct body_pip, "A package.");

/* ---- responses ---- */

static const struct field fields_pip_installed[] = {
    ALWAYS("success", FIELD_BOOL, NULL), ALWAYS("message", FIELD_TEXT, NULL),
    MAYBE("installed_version", FIELD_TEXT, NULL),
    ALWAYS("installation_time", FIELD_NUMBER, "seconds"),
    { "warnings", FIELD_LIST, .help = "for example a name that looks like another" }, END };
RESPONSE(pip_installed, NULL);

static const struct field fields_message[] = { ALWAYS("message", FIELD_TEXT, NULL), END };
RESPONSE(message, NULL);

static const struct field fields_names[] = { ALWAYS("files", FIELD_LIST, "names"), END };
RESPONSE(names, NULL);

static const struct field fields_locals[] = {
    ALWAYS("result", FIELD_OBJECT, "names and values"), ALWAYS("success", FIELD_BOOL, "true"), END };
RESPONSE(locals, "Variables of the code in the locals API, including those it was given.");

static const struct field fields_locals_uploaded[] = {
    ALWAYS("message", FIELD_TEXT, NULL), ALWAYS("path", FIELD_TEXT, NULL),
    ALWAYS("size", FIELD_INT, "bytes"),
    ALWAYS("session_id", FIELD_TEXT, "send it as X-Session-Id"), END };
RESPONSE(locals_uploaded, NULL);

const struct schema *const compat_schemas[] = {
    &schema_simple_execute, &schema_execute_code, &schema_pip_install, &schema_pip_installed,
    &schema_message, &schema_names, &schema_locals, &schema_locals_uploaded, NULL };
