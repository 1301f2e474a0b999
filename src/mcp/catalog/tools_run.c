/*
 * Tools that run something: execute_python and run_command.
 *
 * The execution has a thread in the service. A step of the call waits for its next event, sends
 * what the client has asked for (progress, and output as log messages), and builds the result from
 * the receipt. If the client has asked for neither, it waits only for the receipt.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mcp/catalog/tools.h"

#include "base/banned.h"

#define CODE_BYTES_MAX  (INT64_C(8) * 1024 * 1024)
#define TEXT_BYTES      4096
#define IMAGES_MAX      10
#define IMAGE_BYTES_MAX ((size_t) 8 * 1024 * 1024) /* of all images together, in base64 */
#define LINKS_MAX       20
#define DISPLAYS_MAX    50
#define TICK_US         USEC_PER_SEC
#define PROGRESS_US     (USEC_PER_SEC / 10) /* at most this often */

/* ---- the tables ---- */

static const char *const run_statuses[] = {
#define STATUS(name, word, ...) word,
#include "base/words/status.def"
    NULL,
};

struct run_args {
    const char *code; /* or the command */
    int64_t timeout_us;
    const char *session_id;
};

#define AT(member) offsetof(struct run_args, member)
#define TIMEOUT_FIELD                                                                              \
    {                                                                                              \
        "timeout", FIELD_SECONDS, 0, AT(timeout_us), FIELD_ABOVE_ZERO, MCP_WALL_MAX,               \
            .help = "Time limit in seconds. Default {timeout}, maximum {timeout_max}."             \
    }

static const struct schema schema_execute_python = {
    .fields =
        (const struct field[]){
            { "code", FIELD_TEXT, FIELD_REQUIRED, AT(code), 0, CODE_BYTES_MAX,
              .help = "Python code to run. End it with an expression to get its value back." },
            TIMEOUT_FIELD,
            SESSION_ID_FIELD(run_args),
            { 0 },
        },
    .size = sizeof(struct run_args),
};

static const struct schema schema_run_command = {
    .fields =
        (const struct field[]){
            { "command", FIELD_TEXT, FIELD_REQUIRED, AT(code), 1, CODE_BYTES_MAX,
              .help = "Command for /bin/sh, for example: ls -l; head -n 5 data.csv" },
            TIMEOUT_FIELD,
            SESSION_ID_FIELD(run_args),
            { 0 },
        },
    .size = sizeof(struct run_args),
};

static const struct schema schema_run_error = {
    .fields =
        (const struct field[]){
            OUT_TEXT("name", "the type of the exception"),
            OUT_TEXT("value", "its message"),
            OUT_TEXT("traceback", "its traceback"),
            { 0 },
        },
};

static const struct schema schema_run_file = {
    .fields =
        (const struct field[]){
            OUT_TEXT("path", "relative to /workspace"),
            { "size", FIELD_INT, .help = "in bytes" },
            OUT_TEXT("change", "created, modified or deleted"),
            { 0 },
        },
};

static const struct schema schema_run_result = {
    .fields =
        (const struct field[]){
            { "status", FIELD_CHOICE, FIELD_REQUIRED, .choices = run_statuses,
              .help = "error: an exception, or an exit code other than 0; killed: killed by a "
                      "signal; system: "
                      "a failure of the service; the others name the limit that was hit" },
            OUT_BOOL("success", "whether status is ok"),
            OUT_INT("exit_code", "exit code of the process"),
            OUT_TEXT("stdout", "what the program printed"),
            OUT_TEXT("stderr", "what it printed to stderr"),
            { "result", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
              .help = "the value of the last expression" },
            { "displays", FIELD_LIST, FIELD_REQUIRED, .help = "other values that it displayed" },
            OUT_INT("images", "the number of figures, which follow as image content"),
            { "error", FIELD_OBJECT, FIELD_REQUIRED | FIELD_NULLABLE, .of = &schema_run_error,
              .help = "the exception that ended the program" },
            { "files", FIELD_LIST, FIELD_REQUIRED, .of = &schema_run_file,
              .help = "files that were created, modified or deleted" },
            OUT_NUMBER("execution_time", "in seconds"),
            { "truncated", FIELD_OBJECT, FIELD_REQUIRED,
              .help = "how many bytes of stdout and stderr were left out" },
            { "session_id", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
              .help = "the session it ran in; null for a fresh sandbox" },
            { "hint", FIELD_TEXT, .help = "what to do about the failure" },
            { 0 },
        },
};

struct run {
    struct session *session; /* NULL: a fresh box for this run */
    struct session *passing; /* ... which is a session, because there are no one-shot commands */
    struct execution *execution;
    struct event_cursor cursor;
    int64_t started_us, wall_us, told_us;
    bool follow;
    char text[TEXT_BYTES];
};

static void run_free(void *work)
{
    struct run *run = work;
    struct fault fault = { 0 };

    if (run->passing)
        (void) session_delete(run->passing, &fault);
    session_unref(run->passing);
    session_unref(run->session);
    execution_unref(run->execution);
    free(run);
}

/* ---- the result ---- */

static const char *hint_of(const char *status)
{
    static const struct {
        const char *status, *hint;
    } rows[] = {
#define STATUS(name, word, exit_code, meaning, exception, apology, stopped, hint) { word, hint },
#include "base/words/status.def"
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].status, status) == 0)
            return rows[i].hint;
    return NULL;
}

struct shown {
    json_t *content, *displays;
    size_t text_max; /* of each string */
    size_t images, image_bytes;
};

/* Text that fits into a result: its beginning and its end. */
static json_t *clipped(const json_t *text, size_t max)
{
    const char *value = json_string_value(text);
    size_t len = json_string_length(text), head = max / 2, tail = len - max / 2;
    char *cut = NULL;
    json_t *json;

    if (!value || len <= max)
        return value ? json_incref((json_t *) text) : json_string("");
    while (head > 0 && (value[head] & 0xc0) == 0x80)
        head--;
    while (tail < len && (value[tail] & 0xc0) == 0x80)
        tail++;
    if (asprintf(&cut, "%.*s\n... %zu bytes left out ...\n%s", (int) head, value, tail - head,
                 value + tail) < 0)
        cut = NULL;
    json = json_string(cut ? cut : "");
    free(cut);
    return json;
}

/* The image of a bundle that models can look at. Plots are images; anything else is text. */
static void add_bundle(struct shown *shown, const json_t *data, bool with_text)
{
    static const char *const kinds[] = { "image/png", "image/jpeg", "image/gif", "image/webp" };
    const json_t *text = json_object_get(data, "text/plain");

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const json_t *image = json_object_get(data, kinds[i]);
        size_t len = json_string_length(image);

        if (len == 0 || shown->images >= IMAGES_MAX || shown->image_bytes + len > IMAGE_BYTES_MAX)
            continue;
        (void) json_array_append_new(shown->content,
                                     json_pack("{s:s, s:s, s:s}", "type", "image", "data",
                                               json_string_value(image), "mimeType", kinds[i]));
        shown->images++;
        shown->image_bytes += len;
        break;
    }
    if (with_text && json_is_string(text) && json_array_size(shown->displays) < DISPLAYS_MAX)
        (void) json_array_append_new(shown->displays, clipped(text, shown->text_max));
}

/* A copy of error with only the members of the schema. */
static json_t *error_of(const json_t *receipt, size_t max)
{
    const json_t *error = json_object_get(receipt, "error");

    if (!json_is_object(error))
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "name", clipped(json_object_get(error, "name"), max),
                     "value", clipped(json_object_get(error, "value"), max), "traceback",
                     clipped(json_object_get(error, "traceback"), max));
}

static json_t *copy_or(const json_t *receipt, const char *name, json_t *fallback)
{
    json_t *value = json_object_get(receipt, name);

    if (!value)
        return fallback;
    json_decref(fallback);
    return json_incref(value);
}

/* Links to the complete streams, if they were cut. */
static void add_output_links(struct mcp_call *call, json_t *content, const json_t *receipt)
{
    static const char *const names[] = { "stdout", "stderr" };
    const json_t *truncated = json_object_get(receipt, "truncated");

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        autofree char *uri = NULL;

        if (json_integer_value(json_object_get(truncated, names[i])) <= 0)
            continue;
        uri = uri_of_output(call->execution_id, i == 1 ? STREAM_ERR : STREAM_OUT);
        tool_add_link(call, content, uri, names[i], "the complete output", "text/plain", -1);
    }
}

/* Adds links to files that still exist, and notifies clients that watch them. */
static void add_file_links(struct mcp_call *call, json_t *content, const json_t *receipt)
{
    bool listed = false;
    size_t links = 0, i;
    json_t *file;

    json_array_foreach (json_object_get(receipt, "files"), i, file) {
        const char *path = json_string_value(json_object_get(file, "path"));
        const char *change = json_string_value(json_object_get(file, "change"));
        autofree char *uri = path ? uri_of_file(call->session_id, path) : NULL;

        if (!uri || !change)
            continue;
        listed |= strcmp(change, "modified") != 0;
        change_publish(call->mcp, CHANGE_FILE, &call->caller.principal, uri);
        if (strcmp(change, "deleted") != 0 && links++ < LINKS_MAX)
            tool_add_link(call, content, uri, path, "a file in the session", uri_mime(path),
                          json_integer_value(json_object_get(file, "size")));
    }
    if (listed)
        change_publish(call->mcp, CHANGE_RESOURCES, &call->caller.principal, NULL);
}

static void reply_receipt(struct mcp_call *call, struct run *run, json_t *receipt)
{
    struct shown shown = { json_array(), json_array(), (size_t) call->mcp->config.reply_bytes, 0,
                           0 };
    const json_t *result = json_object_get(receipt, "result");
    const char *status = json_string_value(json_object_get(receipt, "status"));
    bool ok = json_is_true(json_object_get(receipt, "success"));
    const char *hint = hint_of(status ? status : "");
    json_t *structured, *item;
    size_t i;

    json_array_foreach (json_object_get(receipt, "outputs"), i, item)
        add_bundle(&shown, json_object_get(item, "data"), true);
    add_bundle(&shown, result, false);
    add_output_links(call, shown.content, receipt);
    if (run->session)
        add_file_links(call, shown.content, receipt);
    structured = json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:s?}",
                           "status", status ? status : "system", "success", ok, "exit_code",
                           copy_or(receipt, "exit_code", json_integer(0)), "stdout",
                           copy_or(receipt, "stdout", json_string("")), "stderr",
                           copy_or(receipt, "stderr", json_string("")), "result",
                           json_object_get(result, "text/plain")
                               ? clipped(json_object_get(result, "text/plain"), shown.text_max)
                               : json_null(),
                           "displays", shown.displays, "images", (int) shown.images, "error",
                           error_of(receipt, shown.text_max), "files",
                           copy_or(receipt, "files", json_array()), "execution_time",
                           copy_or(receipt, "execution_time", json_real(0)), "truncated",
                           copy_or(receipt, "truncated", json_object()), "session_id",
                           run->session ? session_id(run->session) : NULL);
    if (structured && hint)
        (void) json_object_set_new(structured, "hint", json_string(hint));
    else if (structured && json_is_true(json_object_get(receipt, "session_lost")))
        (void) json_object_set_new(structured, "hint",
                                   json_string("The variables and imports of the session are lost; "
                                               "its files are kept. Define again what you need."));
    tool_reply(call, structured, shown.content, !ok);
}

static void finish(struct mcp_call *call, struct run *run)
{
    struct fault fault = { 0 };
    json_t *receipt = NULL;

    if (execution_receipt(run->execution, &receipt, &fault) < 0)
        tool_fail_fault(call, &fault);
    else
        reply_receipt(call, run, receipt);
    json_decref(receipt);
}

/* ---- steps ---- */

static void tell_progress(struct mcp_call *call, struct run *run, const char *message)
{
    int64_t now = clock_now_us();

    if (!call->progress_token || now - run->told_us < PROGRESS_US)
        return;
    run->told_us = now;
    call_progress(call, (double) (now - run->started_us) / USEC_PER_SEC,
                  (double) run->wall_us / USEC_PER_SEC, message);
}

static void tell_text(struct mcp_call *call, struct run *run, const struct event *event)
{
    bool err = event->kind == EVENT_STDERR;
    char line[201];
    size_t len = event->text_len;

    call_log(call, err ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, err ? "stderr" : "stdout", event->text,
             len);
    while (len > 0 && event->text[len - 1] == '\n')
        len--;
    if (len < sizeof line) {
        memcpy(line, event->text, len);
        line[len] = '\0';
    } else {
        snprintf(line, sizeof line, "%zu bytes printed", event->text_len);
    }
    tell_progress(call, run, line);
}

static void run_step(struct mcp_call *call, int64_t timeout_us)
{
    struct run *run = call->work;
    struct event event = { 0 };
    int r;

    if (timeout_us > TICK_US)
        timeout_us = TICK_US;
    if (!run->follow) {
        if (execution_wait(run->execution, timeout_us))
            finish(call, run);
        return;
    }
    r = execution_next_event(run->execution, &run->cursor, run->text, sizeof run->text, timeout_us,
                             &event);
    if (r == 0 && clock_now_us() - run->told_us >= TICK_US)
        tell_progress(call, run, "running");
    if (r > 0 && (event.kind == EVENT_STDOUT || event.kind == EVENT_STDERR))
        tell_text(call, run, &event);
    if (r < 0 || (r > 0 && event.kind == EVENT_RECEIPT))
        finish(call, run);
    if (r > 0 && event.kind == EVENT_FAULT)
        tool_fail_fault(call, &event.fault);
    if (r > 0)
        event_release(&event);
}

/* A session that exists for one command only. */
static int make_passing(struct mcp_call *call, struct run *run, struct fault *fault)
{
    struct session_request request;

    session_request_init(&request);
    return session_create(call->mcp->config.service, &call->caller, &request, &run->passing, fault);
}

static int begin(struct mcp_call *call, struct run *run, struct execution_request *request,
                 const struct run_args *args, struct fault *fault)
{
    run->wall_us =
        args->timeout_us == FIELD_ABSENT ? call->mcp->config.wall_default_us : args->timeout_us;
    request->limits.wall_us = run->wall_us;
    request->reply_bytes = call->mcp->config.reply_bytes;
    if (call_session(call, args->session_id, &run->session, fault) < 0)
        return -1;
    if (!run->session && request->kind == EXECUTION_COMMAND && make_passing(call, run, fault) < 0)
        return -1;
    return execution_start(call->mcp->config.service, &call->caller,
                           run->session ? run->session : run->passing, request, &run->execution,
                           fault);
}

static void run_tool(struct mcp_call *call, enum execution_kind kind, const struct run_args *args)
{
    struct run *run = calloc(1, sizeof *run);
    struct execution_request request;
    struct fault fault = { 0 };

    if (!run) {
        call_reply(call, NULL);
        return;
    }
    call_continue(call, run_step, run, run_free);
    execution_request_init(&request);
    request.kind = kind;
    request.code = args->code;
    request.code_len = strlen(args->code);
    if (begin(call, run, &request, args, &fault) < 0) {
        tool_fail_fault(call, &fault);
        return;
    }
    call_set_execution(call, run->execution);
    run->follow = call->progress_token || call->log_level != MCP_LOG_OFF;
    run->started_us = clock_now_us();
    run->told_us = run->started_us - PROGRESS_US;
}

static void execute_python(struct mcp_call *call, const void *arguments)
{
    run_tool(call, EXECUTION_CELL, arguments);
}

static void run_command(struct mcp_call *call, const void *arguments)
{
    run_tool(call, EXECUTION_COMMAND, arguments);
}

const struct mcp_tool tool_execute_python = {
    .name = "execute_python",
    .title = "Run Python",
    .description =
        "Run Python 3 code in an isolated Linux sandbox. Use it to calculate, analyse data, "
        "convert "
        "files and draw charts instead of guessing the result.\n\n"
        "Returns stdout and stderr, the value of the last expression as a notebook would show it, "
        "every matplotlib figure as an image, and the files that were created or changed; if the "
        "code fails, the exception with its traceback.\n\n"
        "Installed are {packages} and the standard library; pip_install adds more. The working "
        "directory is "
        "/workspace. There is no network access. Within a session, variables, imports and files "
        "persist from call to call. Figures need not be saved: show them, or leave them open.\n\n"
        "Limits: {timeout} s per call unless timeout is set (at most {timeout_max} s), {memory} of "
        "memory, {disk} of disk. Of stdout and stderr the first and last part is returned, {reply} "
        "bytes each; the complete output is available as a resource.",
    .input = &schema_execute_python,
    .output = &schema_run_result,
    .handle = execute_python,
};

const struct mcp_tool tool_run_command = {
    .name = "run_command",
    .title = "Run a shell command",
    .description =
        "Run a shell command with /bin/sh in the sandbox. Use it for command-line tools such as "
        "ls, "
        "grep, head or tar. Returns the exit code, stdout, stderr and the files that were created "
        "or "
        "changed.\n\n"
        "The working directory is /workspace. Files are shared with the Python code of the same "
        "session, variables are not. There is no network access and there are no root privileges. "
        "The limits are those of execute_python.",
    .input = &schema_run_command,
    .output = &schema_run_result,
    .handle = run_command,
};
