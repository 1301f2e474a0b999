/* Bodies, queries and responses of /v1. */
#include "server/v1/schemas.h"

#include "server/schema/schemas.h"
#include "server/schema/tables.h"
#include "service/service.h"

#include "base/banned.h"

/* clang-format off */

/* ---- parts of requests ---- */

static const struct field fields_new_file[] = {
    { "path", FIELD_TEXT, FIELD_REQUIRED, AT(body_file, path), 1, PATH_BYTES,
      .help = "path in the workspace", .example = "\"data/in.csv\"" },
    { "text", FIELD_TEXT, 0, AT(body_file, text), .help = "content as text" },
    { "base64", FIELD_TEXT, 0, AT(body_file, base64), .help = "or content in base64" },
    END,
};
REQUEST(new_file, struct body_file, "A file to create in a new session.");

static const struct field fields_secret[] = {
    { "host", FIELD_TEXT, FIELD_REQUIRED, .help = "exact host name",
      .example = "\"api.example.com\"" },
    { "port", FIELD_INT, .help = "defaults to 443" },
    { "header", FIELD_TEXT, FIELD_REQUIRED, .help = "name of the header",
      .example = "\"Authorization\"" },
    { "value", FIELD_TEXT, FIELD_REQUIRED, .help = "value of the header; never shown again",
      .example = "\"Bearer …\"" },
    END,
};
static const struct schema schema_secret = {
    "secret", "A header that code can use without seeing it: requests for http://HOST/ are sent "
              "as HTTPS with this header.", fields_secret, 0 };

static const struct field fields_network[] = {
    { "allow", FIELD_LIST,
      .help = "hosts: example.com, *.example.com, example.com:8443, 192.0.2.7, or * for all public "
              "hosts; optionally preceded by methods for plain HTTP: \"GET,HEAD example.com\"",
      .example = "[\"pypi.org\", \"*.pythonhosted.org\"]" },
    { "secrets", FIELD_LIST, .of = &schema_secret,
      .help = "headers that the proxy adds for some hosts" },
    END,
};
static const struct schema schema_network = {
    "network", "Hosts that a box may reach, within the operator's list (--network-allow, shown "
               "by GET /v1/limits).", fields_network, 0 };

static const struct field fields_volume[] = {
    { "source", FIELD_TEXT, FIELD_REQUIRED, AT(body_volume, source), 1, PATH_BYTES,
      .help = "a host directory that the operator allows, or one below it",
      .example = "\"/srv/sets/2026\"" },
    { "target", FIELD_TEXT, FIELD_REQUIRED, AT(body_volume, target), 1, VOLUME_TARGET_MAX - 1,
      .help = "path in the box", .example = "\"/data\"" },
    { "mode", FIELD_CHOICE, 0, AT(body_volume, mode), .choices = volume_modes,
      .help = "ro (default): read-only; rw: writable, if the operator allows it; "
              "auto: writable if the operator allows it, otherwise read-only" },
    END,
};
REQUEST(volume, struct body_volume, "A host directory that is mounted in a box.");

/* ---- requests ---- */

#define ROW_CODE(help_)                                                                            \
    { "code", FIELD_TEXT, FIELD_REQUIRED, AT(body_execute, code), 0, CODE_BYTES_MAX,               \
      .help = help_, .example = "\"print(6 * 7)\"" }
#define ROW_STDIN                                                                                  \
    { "stdin", FIELD_TEXT, 0, AT(body_execute, stdin_text), 0, INPUT_BYTES_MAX,                    \
      .help = "standard input; defaults to empty" }
#define ROW_TIMEOUT(help_)                                                                         \
    { "timeout", FIELD_SECONDS, 0, AT(body_execute, timeout_us), SEC / 1000, 7 * DAY,              \
      .help = help_, .example = "30" }
#define ROW_REPLY                                                                                  \
    { "reply_bytes", FIELD_SIZE, 0, AT(body_execute, reply_bytes), 1, 1024 * MIB,                  \
      .help = "bytes of each stream in the receipt; the rest stays readable with GET "             \
              "/v1/executions/{id}/output" }
#define ROW_DETACH                                                                                 \
    { "detach", FIELD_BOOL, 0, AT(body_execute, detach),                                           \
      .help = "reply 202 with the execution_id at once instead of waiting for the end" }
#define ROW_CANCEL                                                                                 \
    { "cancel_on_disconnect", FIELD_BOOL, 0, AT(body_execute, cancel),                             \
      .help = "interrupt the run if the client disconnects; by default it continues" }
#define ROW_LOSS                                                                                   \
    { "accept_loss", FIELD_BOOL, 0, AT(body_execute, accept_loss),                                 \
      .help = "in a session that lost its variables: continue with new ones instead of failing" }
#define ROW_ENV(help_)                                                                             \
    { "env", FIELD_MAP, 0, AT(body_execute, env), 0, 256, .help = help_,                           \
      .example = "{\"LANG\": \"C.UTF-8\"}" }

#define TEMPLATE_HELP                                                                              \
    "the Python environment: a template from GET /v1/templates, or an alias such as python:3.12"

#define NETWORK_HELP "hosts it may reach; defaults to none"

static const char *const mode_choices[] = { "cell", "script", NULL };

static const struct field fields_execute[] = {
    ROW_CODE("the program"),
    { "mode", FIELD_CHOICE, 0, AT(body_execute, mode), .choices = mode_choices,
      .help = "cell (default): as in a notebook, with a result and displays; script: as with python3" },
    ROW_STDIN,
    ROW_TIMEOUT("wall time in seconds; the same as limits.timeout"),
    { "limits", FIELD_OBJECT, 0, AT(body_execute, limits), .of = &schema_limits,
      .help = "resource limits" },
    ROW_ENV("extra environment variables"),
    { "filename", FIELD_TEXT, 0, AT(body_execute, filename), 1, 255,
      .help = "name of the program in tracebacks" },
    { "template", FIELD_TEXT, 0, AT(body_execute, template), 1, 255, .help = TEMPLATE_HELP,
      .example = "\"default\"" },
    { "network", FIELD_OBJECT, 0, AT(body_execute, network), .of = &schema_network,
      .help = NETWORK_HELP, .example = "{\"allow\": [\"api.example.com\"]}" },
    ROW_REPLY,
    ROW_DETACH,
    ROW_CANCEL,
    END,
};
REQUEST(execute, struct body_execute, "A program for a fresh box.");

static const struct field fields_session_execute[] = {
    ROW_CODE("the cell"),
    ROW_STDIN,
    ROW_TIMEOUT("wall time in seconds"),
    ROW_ENV("environment variables for this execution only"),
    { "filename", FIELD_TEXT, 0, AT(body_execute, filename), 1, 255,
      .help = "name of the cell in tracebacks" },
    ROW_REPLY,
    ROW_DETACH,
    ROW_CANCEL,
    ROW_LOSS,
    END,
};
REQUEST(session_execute, struct body_execute, "A cell for a session.");

static const struct field fields_command[] = {
    { "command", FIELD_TEXT, FIELD_REQUIRED, AT(body_execute, code), 1, CODE_BYTES_MAX,
      .help = "command line for /bin/sh", .example = "\"ls -l\"" },
    { "shell", FIELD_BOOL, 0, AT(body_execute, shell),
      .help = "run it in the session's persistent shell, where cd and export carry over" },
    ROW_STDIN,
    ROW_TIMEOUT("wall time in seconds; defaults to 300"),
    ROW_ENV("extra environment variables; not with shell"),
    ROW_REPLY,
    ROW_DETACH,
    ROW_CANCEL,
    ROW_LOSS,
    END,
};
REQUEST(command, struct body_execute, "A shell command.");

static const struct field fields_session_create[] = {
    { "limits", FIELD_OBJECT, 0, AT(body_session, limits), .of = &schema_limits,
      .help = "resource limits; timeout becomes the default for executions in the session" },
    { "idle_timeout", FIELD_SECONDS, 0, AT(body_session, idle_us), SEC, 365 * DAY,
      .help = "seconds without use before the session ends", .example = "3600" },
    { "env", FIELD_MAP, 0, AT(body_session, env), 0, 256, .help = "extra environment variables" },
    { "files", FIELD_LIST, 0, AT(body_session, files), 0, 256, .of = &schema_new_file,
      .help = "files to create" },
    { "template", FIELD_TEXT, 0, AT(body_session, template), 1, 255, .help = TEMPLATE_HELP,
      .example = "\"default\"" },
    { "network", FIELD_OBJECT, 0, AT(body_session, network), .of = &schema_network, .help = NETWORK_HELP,
      .example = "{\"allow\": [\"pypi.org\", \"*.example.com:8443\"]}" },
    { "packages", FIELD_LIST, 0, AT(body_session, packages), 0, 64,
      .help = "packages to install, as PEP 508 requirements",
      .example = "[\"humanize>=4\"]" },
    { "volumes", FIELD_LIST, 0, AT(body_session, volumes), 0, VOLUMES_MAX, .of = &schema_volume,
      .help = "host directories to mount; GET /v1/limits lists the allowed ones" },
    END,
};
REQUEST(session_create, struct body_session, "A session to create.");

static const struct field fields_packages_add[] = {
    { "packages", FIELD_LIST, FIELD_REQUIRED, AT(body_packages, packages), 1, 64,
      .help = "PEP 508 requirements: names, optionally with extras and versions",
      .example = "[\"requests[socks]>=2.31\", \"humanize\"]" },
    { "newest", FIELD_BOOL, 0, AT(body_packages, newest),
      .help = "install the newest version of requirements without a version" },
    END,
};
REQUEST(packages_add, struct body_packages, "Packages to install.");

static const struct field fields_move[] = {
    { "from", FIELD_TEXT, FIELD_REQUIRED, AT(body_move, from), 1, PATH_BYTES,
      .help = "current path", .example = "\"draft.csv\"" },
    { "to", FIELD_TEXT, FIELD_REQUIRED, AT(body_move, to), 1, PATH_BYTES, .help = "new path",
      .example = "\"out/final.csv\"" },
    { "replace", FIELD_BOOL, 0, AT(body_move, replace), .help = "replace an existing file" },
    END,
};
REQUEST(move, struct body_move, "The file to move and its new path.");

static const struct field fields_mkdir[] = {
    { "path", FIELD_TEXT, FIELD_REQUIRED, AT(body_mkdir, path), 1, PATH_BYTES,
      .help = "path of the directory; missing parents are created", .example = "\"out/plots\"" },
    END,
};
REQUEST(mkdir, struct body_mkdir, "A directory.");

static const struct field fields_terminal_open[] = {
    { "cols", FIELD_INT, 0, AT(body_terminal, cols), 1, TERMINAL_SIDE_MAX,
      .help = "columns; defaults to 80", .example = "80" },
    { "rows", FIELD_INT, 0, AT(body_terminal, rows), 1, TERMINAL_SIDE_MAX,
      .help = "rows; defaults to 24", .example = "24" },
    { "command", FIELD_LIST, 0, AT(body_terminal, command), 1, 64,
      .help = "the program and its arguments; defaults to an interactive shell",
      .example = "[\"python3\", \"-q\"]" },
    { "env", FIELD_MAP, 0, AT(body_terminal, env), 0, 256, .help = "extra environment variables" },
    END,
};
REQUEST(terminal_open, struct body_terminal, "A terminal to open.");

/* ---- queries ---- */

static const struct field fields_page_query[] = {
    { "after", FIELD_TEXT, 0, AT(query_page, after), 1, 64,
      .help = "the last id of the previous page" },
    { "limit", FIELD_INT, 0, AT(query_page, limit), 1, 1000,
      .help = "maximum number; defaults to 100" },
    END,
};
REQUEST(page_query, struct query_page, NULL);

static const struct field fields_files_query[] = {
    { "dir", FIELD_TEXT, 0, AT(query_files, dir), 0, PATH_BYTES,
      .help = "list only this directory" },
    { "after", FIELD_TEXT, 0, AT(query_files, after), 0, PATH_BYTES,
      .help = "the last path of the previous page" },
    { "limit", FIELD_INT, 0, AT(query_files, limit), 1, 1000,
      .help = "maximum number; defaults to 1000" },
    { "recursive", FIELD_BOOL, 0, AT(query_files, recursive),
      .help = "list the whole tree below dir, not only its entries" },
    END,
};
REQUEST(files_query, struct query_files, NULL);

static const struct field fields_upload_query[] = {
    { "dir", FIELD_TEXT, 0, AT(query_dir, dir), 0, PATH_BYTES, .help = "directory for the files" },
    END,
};
REQUEST(upload_query, struct query_dir, NULL);

static const struct field fields_archive_query[] = {
    { "dir", FIELD_TEXT, 0, AT(query_dir, dir), 0, PATH_BYTES,
      .help = "archive only this directory" },
    END,
};
REQUEST(archive_query, struct query_dir, NULL);

static const struct field fields_delete_query[] = {
    { "recursive", FIELD_BOOL, 0, AT(query_delete, recursive),
      .help = "delete a directory with everything in it" },
    END,
};
REQUEST(delete_query, struct query_delete, NULL);

static const char *const stream_choices[] = { "stdout", "stderr", NULL };

static const struct field fields_output_query[] = {
    { "stream", FIELD_CHOICE, 0, AT(query_output, stream), .choices = stream_choices,
      .help = "defaults to stdout" },
    { "offset", FIELD_INT, 0, AT(query_output, offset), 0, INT64_MAX,
      .help = "first byte; defaults to 0" },
    { "limit", FIELD_INT, 0, AT(query_output, limit), 1, 1024 * 1024,
      .help = "maximum number of bytes; defaults to 65536" },
    END,
};
REQUEST(output_query, struct query_output, NULL);

static const struct field fields_events_query[] = {
    { "stdout", FIELD_INT, 0, AT(query_events, out), 0, INT64_MAX,
      .help = "bytes you already have" },
    { "stderr", FIELD_INT, 0, AT(query_events, err), 0, INT64_MAX,
      .help = "bytes you already have" },
    { "displays", FIELD_INT, 0, AT(query_events, displays), 0, 1000000,
      .help = "displays you already have" },
    END,
};
REQUEST(events_query, struct query_events, NULL);

static const struct field fields_wait_query[] = {
    { "wait", FIELD_SECONDS, 0, AT(query_wait, wait_us), 0, 300 * SEC,
      .help = "seconds to wait for the execution to end; defaults to 0" },
    END,
};
REQUEST(wait_query, struct query_wait, NULL);

static const struct field fields_terminal_query[] = {
    { "offset", FIELD_INT, 0, AT(query_terminal, offset), 0, INT64_MAX,
      .help = "bytes of output you already have; defaults to all output that is kept" },
    END,
};
REQUEST(terminal_query, struct query_terminal, NULL);

static const struct field fields_interrupt_query[] = {
    { "all", FIELD_BOOL, 0, AT(query_interrupt, all), .help = "also interrupt queued executions" },
    END,
};
REQUEST(interrupt_query, struct query_interrupt, NULL);

/* ---- messages over a WebSocket ---- */

static const char *const stream_message_types[] = { "interrupt", NULL };
static const struct field fields_stream_message[] = {
    { "type", FIELD_CHOICE, FIELD_REQUIRED, AT(body_stream_message, type),
      .choices = stream_message_types,
      .help = "interrupt: same as POST /v1/executions/{id}/interrupt" },
    END,
};
REQUEST(stream_message, struct body_stream_message,
        "A message that a client may send over GET /v1/executions/{id}/stream.");

static const char *const terminal_message_types[] = { "resize", NULL };
static const struct field fields_terminal_message[] = {
    { "type", FIELD_CHOICE, FIELD_REQUIRED, AT(body_terminal_message, type),
      .choices = terminal_message_types },
    { "cols", FIELD_INT, FIELD_REQUIRED, AT(body_terminal_message, cols), 1, TERMINAL_SIDE_MAX,
      .help = "columns" },
    { "rows", FIELD_INT, FIELD_REQUIRED, AT(body_terminal_message, rows), 1, TERMINAL_SIDE_MAX,
      .help = "rows" },
    END,
};
REQUEST(terminal_message, struct body_terminal_message,
        "A text message that a client may send over GET "
        "/v1/sessions/{id}/terminals/{terminal_id}/stream.");

/* ---- responses ---- */

static const struct field fields_error[] = {
    ALWAYS("name", FIELD_TEXT, "NameError"), ALWAYS("value", FIELD_TEXT, NULL),
    ALWAYS("traceback", FIELD_TEXT, NULL), END };
static const struct schema schema_error = { "error", "An uncaught exception.", fields_error, 0 };

static const struct field fields_display[] = {
    ALWAYS("data", FIELD_OBJECT, "by MIME type; images in base64"),
    ALWAYS("metadata", FIELD_OBJECT, NULL),
    ALWAYS("stdout_offset", FIELD_INT, "how many bytes of the whole stdout were printed before it"),
    ALWAYS("stderr_offset", FIELD_INT, "likewise of stderr"), END };
static const struct schema schema_display = { "display", "A figure, table or other display.",
                                              fields_display, 0 };

static const char *const change_choices[] = { "created", "modified", "deleted", NULL };
static const struct field fields_changed[] = {
    ALWAYS("path", FIELD_TEXT, NULL), ALWAYS("size", FIELD_INT, NULL),
    { "change", FIELD_CHOICE, FIELD_REQUIRED, .choices = change_choices }, END };
static const struct schema schema_changed = { "changed_file", NULL, fields_changed, 0 };

static const char *const status_choices[] = {
#define STATUS(name, word, ...) word,
#include "base/words/status.def"
    NULL,
};
#define STATUS(name, word, exit_code, meaning, ...) "; " word ": " meaning
static const char status_help[] = "why the execution ended"
#include "base/words/status.def"
    ;
static const struct field fields_contact[] = {
    ALWAYS("host", FIELD_TEXT, "the requested name, or (others) if there were too many hosts"),
    ALWAYS("port", FIELD_INT, NULL),
    ALWAYS("requests", FIELD_INT, "requests and tunnels that were sent out"),
    ALWAYS("refused", FIELD_INT, "requests and tunnels that were not allowed"),
    ALWAYS("failed", FIELD_INT, "requests and tunnels whose host could not be reached"),
    ALWAYS("bytes_sent", FIELD_INT, NULL),
    ALWAYS("bytes_received", FIELD_INT, NULL),
    END,
};
static const struct schema schema_contact = { "contact", "A host that a run contacted.",
                                              fields_contact, 0 };

static const struct field fields_receipt[] = {
    { "status", FIELD_CHOICE, FIELD_REQUIRED, .choices = status_choices, .help = status_help },
    MAYBE("limit", FIELD_TEXT, "the limit that ended the execution"),
    ALWAYS("success", FIELD_BOOL, "true if status is ok"),
    ALWAYS("exit_code", FIELD_INT, NULL),
    ALWAYS("stdout", FIELD_TEXT, "output; if it is longer than reply_bytes, its beginning and end"),
    ALWAYS("stderr", FIELD_TEXT, NULL),
    ALWAYS("execution_time", FIELD_NUMBER, "seconds"),
    MAYBE("result", FIELD_OBJECT, "the value of the last expression, by MIME type"),
    MAYBE("result_metadata", FIELD_OBJECT, "metadata of the result, by MIME type"),
    { "outputs", FIELD_LIST, FIELD_REQUIRED, .of = &schema_display,
      .help = "figures, tables and other displays" },
    { "cleared", FIELD_OBJECT, 0, .help = "if the program called clear_output(): stdout_offset and "
                                          "stderr_offset, how much it had printed before" },
    { "error", FIELD_OBJECT, FIELD_NULLABLE, .of = &schema_error },
    { "files", FIELD_LIST, FIELD_REQUIRED, .of = &schema_changed,
      .help = "files that were created, changed or deleted" },
    ALWAYS("truncated", FIELD_OBJECT, "bytes of stdout and stderr, and the number of outputs, that "
                                      "were left out"),
    ALWAYS("usage", FIELD_OBJECT, "cpu_ms, peak_memory_bytes, wall_ms, processes, oom_kills "
                                  "(processes killed because memory was full), hosts (the hosts "
                                  "that were reached, as host:port)"),
    { "network", FIELD_LIST, 0, .of = &schema_contact,
      .help = "hosts that the program tried to reach, if any" },
    MAYBE("session_id", FIELD_TEXT, NULL),
    ALWAYS("execution_id", FIELD_TEXT, NULL),
    ALWAYS("execution_count", FIELD_INT, NULL),
    ALWAYS("template", FIELD_TEXT, "the template it ran with"),
    { "session_lost", FIELD_BOOL, 0, .help = "the session lost its variables; its files are kept" },
    { "shell_lost", FIELD_BOOL, 0,
      .help = "the session's shell ended; the next command gets a new shell" },
    { "queries", FIELD_ANY, 0, .help = "in answers of Mark: what the program asked of data sources" },
    END,
};
RESPONSE(receipt, "The result of an execution.");

static const char *const progress_choices[] = { "waiting", "running", NULL };
static const struct field fields_progress[] = {
    { "status", FIELD_CHOICE, FIELD_REQUIRED, .choices = progress_choices },
    ALWAYS("execution_id", FIELD_TEXT, NULL),
    MAYBE("session_id", FIELD_TEXT, NULL),
    ALWAYS("execution_time", FIELD_NUMBER, "seconds so far"),
    ALWAYS("output", FIELD_OBJECT, "bytes of stdout and stderr so far"),
    END,
};
RESPONSE(progress, "The progress of an execution that has not ended, in place of its receipt.");

static const struct field fields_interrupted[] = {
    ALWAYS("interrupted", FIELD_INT, "number of executions that were interrupted"), END };
RESPONSE(interrupted, NULL);

static const struct field fields_output[] = {
    { "stream", FIELD_CHOICE, FIELD_REQUIRED, .choices = stream_choices },
    ALWAYS("text", FIELD_TEXT, "UTF-8; invalid bytes become U+FFFD"),
    ALWAYS("offset", FIELD_INT, "offset of the first byte"),
    ALWAYS("next", FIELD_INT, "offset of the next page"),
    ALWAYS("total", FIELD_INT, "bytes printed so far"),
    ALWAYS("kept", FIELD_INT, "bytes that can be read"),
    ALWAYS("done", FIELD_BOOL, "the stream has ended"),
    END,
};
RESPONSE(output, NULL);

static const char *const event_choices[] = { "start", "stdout", "stderr", "display", "result",
                                             "receipt", "fault", "keepalive", NULL };
static const struct field fields_event[] = {
    { "event", FIELD_CHOICE, FIELD_REQUIRED, .choices = event_choices },
    ALWAYS("data", FIELD_OBJECT, "start: the ids; stdout, stderr: text, offset, next, left_out; "
                                 "display: a display; result: a bundle; receipt: the receipt; "
                                 "fault: a problem"),
    END,
};
RESPONSE(event, "One event of a stream, as a line of NDJSON. With server-sent events the name is "
                "the event type, and only data is in the data field.");

static const char *const session_states[] = { "ready", "running", "lost", NULL };
static const struct field fields_session[] = {
    ALWAYS("session_id", FIELD_TEXT, NULL),
    { "state", FIELD_CHOICE, FIELD_REQUIRED, .choices = session_states },
    ALWAYS("template", FIELD_TEXT, "the template of the session"),
    ALWAYS("created", FIELD_NUMBER, "seconds since 1970"),
    ALWAYS("age", FIELD_NUMBER, "seconds"),
    ALWAYS("idle", FIELD_NUMBER, "seconds without use"),
    ALWAYS("idle_timeout", FIELD_NUMBER, "seconds without use before the session ends"),
    ALWAYS("expires_in", FIELD_NUMBER, "seconds until the session ends, if it is not used"),
    ALWAYS("execution_count", FIELD_INT, NULL),
    ALWAYS("waiting", FIELD_INT, "queued executions, without the running one"),
    { "limits", FIELD_OBJECT, FIELD_REQUIRED, .of = &schema_limits },
    { "network", FIELD_OBJECT, 0, .help = "allow: hosts it may reach; secrets: headers that are added, "
                                          "without their values. Not in lists" },
    { "volumes", FIELD_LIST, FIELD_REQUIRED, .of = &schema_bound },
    END,
};
RESPONSE(session, "A session.");

static const struct field fields_session_page[] = {
    { "sessions", FIELD_LIST, FIELD_REQUIRED, .of = &schema_session },
    ALWAYS("more", FIELD_BOOL, "there are more; repeat with after set to the last id"),
    END,
};
RESPONSE(session_page, NULL);

static const char *const terminal_states[] = { "running", "exited", NULL };
static const struct field fields_terminal[] = {
    ALWAYS("terminal_id", FIELD_TEXT, NULL),
    ALWAYS("session_id", FIELD_TEXT, NULL),
    ALWAYS("cols", FIELD_INT, "columns"),
    ALWAYS("rows", FIELD_INT, "rows"),
    { "status", FIELD_CHOICE, FIELD_REQUIRED, .choices = terminal_states },
    MAYBE("exit_code", FIELD_INT, "of the program, once it has exited; 128 and the signal if it was killed"),
    ALWAYS("created", FIELD_NUMBER, "seconds since 1970"),
    ALWAYS("clients", FIELD_INT, "how many are attached"),
    ALWAYS("url", FIELD_TEXT, "path of its WebSocket"),
    END,
};
RESPONSE(terminal, "A terminal.");

static const struct field fields_terminal_list[] = {
    { "terminals", FIELD_LIST, FIELD_REQUIRED, .of = &schema_terminal, .help = "oldest first" },
    END,
};
RESPONSE(terminal_list, NULL);

static const char *const file_kinds[] = { "file", "directory", "link", "other", NULL };
static const struct field fields_file[] = {
    ALWAYS("path", FIELD_TEXT, NULL),
    { "kind", FIELD_CHOICE, 0, .choices = file_kinds },
    { "size", FIELD_INT, 0, .help = "bytes" },
    { "mtime", FIELD_NUMBER, 0, .help = "seconds since 1970" },
    { "path_base64", FIELD_TEXT, 0, .help = "the path in base64, if it is not UTF-8" },
    END,
};
RESPONSE(file, NULL);

static const struct field fields_file_page[] = {
    { "files", FIELD_LIST, FIELD_REQUIRED, .of = &schema_file },
    ALWAYS("more", FIELD_BOOL, "there are more; repeat with after set to the last path"),
    ALWAYS("incomplete", FIELD_BOOL, "the tree is too large to list completely"),
    END,
};
RESPONSE(file_page, NULL);

static const struct field fields_uploaded[] = {
    { "files", FIELD_LIST, FIELD_REQUIRED, .of = &schema_file }, END };
RESPONSE(uploaded, NULL);

static const struct field fields_moved[] = {
    ALWAYS("from", FIELD_TEXT, NULL), ALWAYS("to", FIELD_TEXT, NULL), END };
RESPONSE(moved, NULL);

static const struct field fields_package[] = {
    ALWAYS("name", FIELD_TEXT, NULL), ALWAYS("version", FIELD_TEXT, NULL),
    { "sha256", FIELD_TEXT, .help = "hash of the wheel" },
    { "requested", FIELD_BOOL, .help = "requested by name, not only as a dependency" }, END };
static const struct schema schema_package = { "package", NULL, fields_package, 0 };

static const struct field fields_packages_added[] = {
    ALWAYS("success", FIELD_BOOL, "true"), ALWAYS("message", FIELD_TEXT, NULL),
    { "installed", FIELD_LIST, FIELD_REQUIRED, .of = &schema_package, .help = "newly installed" },
    { "present", FIELD_LIST, FIELD_REQUIRED, .of = &schema_package,
      .help = "already installed" },
    { "removed", FIELD_LIST, FIELD_REQUIRED, .of = &schema_package,
      .help = "no longer installed" },
    ALWAYS("warnings", FIELD_LIST, "for example names that look like others"),
    MAYBE("layer", FIELD_TEXT, "key of the set; the same set always has the same key"),
    ALWAYS("cached", FIELD_BOOL, "the set was in the cache; no index was contacted"),
    ALWAYS("seconds", FIELD_NUMBER, NULL), END };
RESPONSE(packages_added, NULL);

static const struct field fields_package_list[] = {
    { "packages", FIELD_LIST, FIELD_REQUIRED, .of = &schema_package },
    ALWAYS("requirements", FIELD_LIST, "requirements that were requested"),
    MAYBE("layer", FIELD_TEXT, "key of the set"), END };
RESPONSE(package_list, NULL);

const struct schema *const v1_schemas[] = {
    &schema_new_file, &schema_network, &schema_secret, &schema_contact, &schema_volume,
    &schema_execute, &schema_session_execute, &schema_command, &schema_session_create,
    &schema_packages_add, &schema_packages_added, &schema_package_list, &schema_package,
    &schema_move, &schema_mkdir, &schema_error, &schema_display, &schema_changed, &schema_receipt,
    &schema_progress, &schema_interrupted, &schema_output, &schema_event, &schema_session,
    &schema_session_page, &schema_file, &schema_file_page, &schema_uploaded, &schema_moved, &schema_stream_message,
    &schema_complete, &schema_match, &schema_completion, &schema_inspect, &schema_inspection,
    &schema_variable, &schema_variable_list, &schema_share_create, &schema_share,
    &schema_share_content, &schema_share_list, &schema_terminal_open,
    &schema_terminal, &schema_terminal_list, &schema_terminal_message, NULL };
