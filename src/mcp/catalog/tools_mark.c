/*
 * The tool ask_data: a question for Mark.
 *
 * Data comes as text in the arguments, or as files of the session that the conversation has; both
 * become attachments. That takes a box, which computes their profile, so it happens in the first
 * step of the call and not in its handler. Later steps follow the events of the answer, of which
 * the client gets progress. A call that is cancelled or left stops its answer.
 *
 * Over HTTP the tool needs a key on every address, as Mark's routes do: its answers cost money.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/strv.h"
#include "mark/mark.h"
#include "mcp/catalog/tools.h"

#include "base/banned.h"

#define TICK_US         USEC_PER_SEC
#define DATA_BYTES_MAX  (INT64_C(4) * 1024 * 1024)
#define COPY_BYTES      ((size_t) 256 * 1024)
#define ROWS_MAX        50 /* of a table in the result */
#define TABLES_MAX      10
#define CHARTS_MAX      10
#define CHART_BYTES_MAX ((size_t) 256 * 1024) /* of one; larger ones are not for a model */
#define CHAT_ID_MAX     64                    /* longer than any, as for sessions */

/* ---- the tables ---- */

struct ask_args {
    const char *question, *chat_id, *session_id;
    const json_t *files, *data;
};

struct ask_data {
    const char *name, *content;
};

#define AT(member) offsetof(struct ask_args, member)

static const struct schema schema_ask_data = {
    .fields =
        (const struct field[]){
            { "name", FIELD_TEXT, FIELD_REQUIRED, offsetof(struct ask_data, name), 1, 255,
              .help = "Name of the file, for example sales.csv" },
            { "content", FIELD_TEXT, FIELD_REQUIRED, offsetof(struct ask_data, content), 1,
              DATA_BYTES_MAX, .help = "Its content, as text" },
            { 0 },
        },
    .size = sizeof(struct ask_data),
};

static const struct schema schema_ask_args = {
    .fields =
        (const struct field[]){
            { "question", FIELD_TEXT, FIELD_REQUIRED, AT(question), 1, AGENT_QUERY_MAX,
              .help = "The question, in plain language. Say which columns or units are meant if "
                      "that is not obvious." },
            { "files", FIELD_LIST, 0, AT(files), 0, AGENT_ATTACHMENTS_MAX,
              .help = "Paths of data files in /workspace of the session, such as data/sales.csv: "
                      "CSV, TSV, Excel, JSON, Parquet or SQLite" },
            { "data", FIELD_LIST, 0, AT(data), 0, AGENT_ATTACHMENTS_MAX, .of = &schema_ask_data,
              .help = "Data as text, for small tables, instead of files" },
            { "chat_id", FIELD_TEXT, 0, AT(chat_id), 1, CHAT_ID_MAX,
              .help = "The chat_id of an earlier result, to ask more about the same data or to "
                      "reply to a question. Its files need not be given again." },
            SESSION_ID_FIELD(ask_args),
            { 0 },
        },
    .size = sizeof(struct ask_args),
};

static const char *const answer_statuses[] = { "ok", "error", "stopped", "needs_input", NULL };

static const struct schema schema_ask_value = {
    .fields =
        (const struct field[]){
            OUT_TEXT("name", "as the code calls it"),
            { "value", FIELD_ANY, FIELD_REQUIRED | FIELD_NULLABLE, .help = "what was computed" },
            { "unit", FIELD_TEXT, FIELD_NULLABLE, .help = "its unit" },
            { 0 },
        },
};

static const struct schema schema_ask_table = {
    .fields =
        (const struct field[]){
            OUT_TEXT("title", "of the table"),
            { "columns", FIELD_LIST, FIELD_REQUIRED, .help = "their names" },
            { "rows", FIELD_ROWS, FIELD_REQUIRED, .help = "the first 50" },
            OUT_INT("row_count", "of the whole table"),
            { 0 },
        },
};

static const struct schema schema_ask_file = {
    .fields =
        (const struct field[]){
            OUT_TEXT("path", "relative to /workspace"),
            OUT_INT("size", "in bytes"),
            OUT_TEXT("media_type", "its type"),
            { 0 },
        },
};

static const struct schema schema_ask_result = {
    .fields =
        (const struct field[]){
            { "status", FIELD_CHOICE, FIELD_REQUIRED, .choices = answer_statuses,
              .help = "needs_input: see question" },
            OUT_TEXT("story", "the answer, in Markdown"),
            { "question", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
              .help = "what has to be known first: call again with chat_id and the reply as "
                      "question" },
            { "unsupported", FIELD_LIST, FIELD_REQUIRED,
              .help = "numbers in the story that nobody computed: do not repeat them" },
            { "values", FIELD_LIST, FIELD_REQUIRED, .of = &schema_ask_value,
              .help = "what the code computed" },
            { "tables", FIELD_LIST, FIELD_REQUIRED, .of = &schema_ask_table,
              .help = "the rows behind the answer" },
            OUT_INT("charts", "how many charts there are; small ones follow as Plotly's JSON"),
            { "code", FIELD_LIST, FIELD_REQUIRED, .help = "the programs that were run" },
            { "files", FIELD_LIST, FIELD_REQUIRED, .of = &schema_ask_file,
              .help = "files that the code wrote: read_file reads them, with the session_id of "
                      "this result" },
            { "session_id", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
              .help = "the session of the chat, if it wrote files" },
            OUT_TEXT("chat_id", "to ask more about the same data"),
            OUT_TEXT("model", "which answered"),
            { 0 },
        },
};

/* ---- attachments ---- */

struct ask {
    char *question, *chat_id;
    json_t *files, *data; /* of the arguments */
    struct session *session;
    char **ids;
    struct answer *answer;
    int64_t after, started_us;
    bool stopped, ended;
};

/* Others may have asked in the same chat: theirs go on. */
static void ask_stop(struct ask *ask)
{
    if (ask->answer && !ask->ended && !ask->stopped)
        answer_stop(ask->answer);
    ask->stopped = true;
}

static void ask_free(void *work)
{
    struct ask *ask = work;

    ask_stop(ask); /* unless it has ended: nobody waits for it any more */
    session_unref(ask->session);
    answer_unref(ask->answer);
    json_decref(ask->files);
    json_decref(ask->data);
    strv_free(ask->ids);
    free(ask->question);
    free(ask->chat_id);
    free(ask);
}

static int commit(struct ask *ask, struct attachment_upload *upload, struct fault *fault)
{
    struct store_attachment attachment = { 0 };
    int r;

    if (attachment_upload_commit(upload, &attachment, fault) < 0)
        return -1;
    r = strv_add(&ask->ids, attachment.id);
    store_attachment_release(&attachment);
    return r < 0 ? fault_no_memory(fault) : 0;
}

static int attach_text(struct mcp_call *call, struct ask *ask, const struct ask_data *data,
                       struct fault *fault)
{
    struct attachments *attachments = mark_attachments(call->mcp->config.mark);
    struct attachment_upload *upload = NULL;
    size_t len = strlen(data->content);

    if (attachment_upload_begin(attachments, &call->caller, data->name, (int64_t) len, &upload,
                                fault) < 0)
        return -1;
    if (attachment_upload_write(upload, data->content, len, fault) < 0) {
        attachment_upload_abort(upload);
        return -1;
    }
    return commit(ask, upload, fault);
}

static int copy_file(struct attachment_upload *upload, int fd, struct fault *fault)
{
    autofree char *buf = malloc(COPY_BYTES);
    ssize_t n;

    if (!buf)
        return fault_no_memory(fault);
    while ((n = io_read_all(fd, buf, COPY_BYTES)) > 0)
        if (attachment_upload_write(upload, buf, (size_t) n, fault) < 0)
            return -1;
    return n < 0 ? fault_set(fault, PROBLEM_INTERNAL, "files", "the file cannot be read") : 0;
}

static int attach_file(struct mcp_call *call, struct ask *ask, const char *given,
                       struct fault *fault)
{
    struct attachments *attachments = mark_attachments(call->mcp->config.mark);
    struct attachment_upload *upload = NULL;
    struct file_reader reader = { .fd = -EBADF };
    const char *path = tool_beneath(given), *slash = strrchr(path, '/');
    int r;

    if (files_open(ask->session, path, strlen(path), &reader, fault) < 0)
        return -1;
    r = attachment_upload_begin(attachments, &call->caller, slash ? slash + 1 : path, reader.size,
                                &upload, fault);
    if (r == 0)
        r = copy_file(upload, reader.fd, fault);
    (void) close(reader.fd);
    if (r < 0) {
        attachment_upload_abort(upload);
        return -1;
    }
    return commit(ask, upload, fault);
}

/* Nothing was asked, so nobody needs them; a client that tries again brings them again. */
static void detach_all(struct mcp_call *call, struct ask *ask)
{
    struct fault ignored;

    for (size_t i = 0; ask->ids && ask->ids[i]; i++)
        (void) attachment_delete(mark_attachments(call->mcp->config.mark), &call->caller,
                                 ask->ids[i], &ignored);
}

/* Returns -1 and the call has ended, or 0. */
static int attach_all(struct mcp_call *call, struct ask *ask)
{
    struct fault fault = { 0 };
    json_t *item;
    size_t i;

    json_array_foreach (ask->files, i, item)
        if (attach_file(call, ask, json_string_value(item), &fault) < 0) {
            detach_all(call, ask);
            tool_fail_fault(call, &fault);
            return -1;
        }
    json_array_foreach (ask->data, i, item) {
        struct ask_data data = { 0 };
        json_t *errors = json_array();
        int r = fields_read_body(&schema_ask_data, item, true, &data, errors);

        json_decref(errors);
        if (r < 0) {
            detach_all(call, ask);
            tool_fail(
                call,
                "data must be a list of objects with a name and a content of 1 byte to 4 MiB.");
            return -1;
        }
        if (attach_text(call, ask, &data, &fault) < 0) {
            detach_all(call, ask);
            tool_fail_fault(call, &fault);
            return -1;
        }
    }
    return 0;
}

/* ---- the result ---- */

static const json_t *member(const json_t *object, const char *name)
{
    return json_object_get(object, name);
}

static json_t *values_of(const json_t *response)
{
    json_t *list = json_array(), *value;
    size_t i;

    json_array_foreach (member(response, "values"), i, value)
        (void) json_array_append_new(
            list, json_pack("{s:O?, s:O?, s:O?}", "name", member(value, "name"), "value",
                            member(value, "value"), "unit", member(value, "unit")));
    return list;
}

static json_t *table_of(const json_t *table)
{
    json_t *columns = json_array(), *rows = json_array(), *item;
    size_t i;

    json_array_foreach (member(table, "columns"), i, item)
        (void) json_array_append(columns, json_object_get(item, "name"));
    json_array_foreach (member(table, "rows"), i, item) {
        if (i == ROWS_MAX)
            break;
        (void) json_array_append(rows, item);
    }
    return json_pack("{s:O?, s:o, s:o, s:O?}", "title", member(table, "title"), "columns", columns,
                     "rows", rows, "row_count", member(table, "row_count"));
}

static json_t *tables_of(const json_t *response)
{
    json_t *list = json_array(), *table;
    size_t i;

    json_array_foreach (member(response, "data"), i, table) {
        if (i == TABLES_MAX)
            break;
        (void) json_array_append_new(list, table_of(table));
    }
    return list;
}

static json_t *code_of(const json_t *response)
{
    json_t *list = json_array(), *step;
    size_t i;

    json_array_foreach (member(response, "steps"), i, step)
        if (json_is_string(json_object_get(step, "code")))
            (void) json_array_append(list, json_object_get(step, "code"));
    return list;
}

/* The files, and in @id the session that has them: the URL of a file names it. */
static json_t *files_of(const json_t *response, char id[SESSION_ID_MAX])
{
    static const char before[] = "/v1/sessions/";
    json_t *list = json_array(), *artifact;
    size_t i;

    id[0] = '\0';
    json_array_foreach (member(response, "artifacts"), i, artifact) {
        const char *url = json_string_value(json_object_get(artifact, "url"));

        if (url && strncmp(url, before, strlen(before)) == 0)
            snprintf(id, SESSION_ID_MAX, "%.*s", (int) strcspn(url + strlen(before), "/"),
                     url + strlen(before));
        (void) json_array_append_new(list, json_pack("{s:O?, s:O?, s:O?}", "path",
                                                     member(artifact, "name"), "size",
                                                     member(artifact, "size"), "media_type",
                                                     member(artifact, "media_type")));
    }
    return list;
}

/* Charts as embedded resources. Only clients that draw them use these. */
static json_t *charts_of(const json_t *response, const char *message_id)
{
    json_t *list = json_array(), *spec;
    size_t i;

    json_array_foreach (member(response, "visualizations"), i, spec) {
        autofree char *text = json_dumps(spec, MCP_JSON);
        char uri[96];

        if (i == CHARTS_MAX)
            break;
        if (!text || strlen(text) > CHART_BYTES_MAX)
            continue;
        snprintf(uri, sizeof uri, "glovebox://mark/%s/charts/%zu", message_id, i + 1);
        (void) json_array_append_new(
            list, json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource", "uri", uri,
                            "mimeType", "application/vnd.plotly.v1+json", "text", text));
    }
    return list;
}

static void reply_answer(struct mcp_call *call, const struct ask *ask)
{
    json_t *response = answer_to_json(ask->answer), *structured;
    const char *status = json_string_value(member(response, "status"));
    const char *story = json_string_value(member(response, "answer_story"));
    const char *model = json_string_value(member(response, "model"));
    const json_t *unsupported = member(member(response, "numbers"), "unsupported");
    bool bad = !status || strcmp(status, "error") == 0 || strcmp(status, "stopped") == 0;
    char id[SESSION_ID_MAX];
    json_t *files = files_of(response, id);

    structured =
        json_pack("{s:s, s:s, s:O?, s:o, s:o, s:o, s:i, s:o, s:o, s:s?, s:s, s:s}", "status",
                  status ? status : "error", "story", story ? story : "", "question",
                  member(response, "question"), "unsupported",
                  json_is_array(unsupported) ? json_incref((json_t *) unsupported) : json_array(),
                  "values", values_of(response), "tables", tables_of(response), "charts",
                  (int) json_array_size(member(response, "visualizations")), "code",
                  code_of(response), "files", files, "session_id", id[0] ? id : NULL, "chat_id",
                  answer_chat_id(ask->answer), "model", model ? model : "");
    tool_reply(call, structured, charts_of(response, answer_message_id(ask->answer)), bad);
    json_decref(response);
}

/* ---- steps ---- */

static void tell(struct mcp_call *call, const struct ask *ask, const char *message)
{
    if (call->progress_token)
        call_progress(call, (double) (clock_now_us() - ask->started_us) / USEC_PER_SEC, -1,
                      message);
}

static void tell_event(struct mcp_call *call, const struct ask *ask,
                       const struct answer_event *event)
{
    json_t *data = event->data ? json_loads(event->data, 0, NULL) : NULL;
    const char *code = json_string_value(json_object_get(data, "code"));
    char message[64];

    snprintf(message, sizeof message, "step %lld: %s",
             (long long) json_integer_value(json_object_get(data, "n")),
             strcmp(event->name, "step") == 0 ? "running" : "done");
    if (strcmp(event->name, "step") == 0 && code) {
        call_log(call, LOG_LEVEL_INFO, "code", code, strlen(code));
        tell(call, ask, message);
    } else if (strcmp(event->name, "receipt") == 0) {
        tell(call, ask, message);
    } else if (strcmp(event->name, "story") == 0) {
        tell(call, ask, "writing the answer");
    }
    json_decref(data);
}

static void follow_step(struct mcp_call *call, int64_t timeout_us)
{
    struct ask *ask = call->work;
    struct answer_event event = { 0 };
    int r;

    if (mcp_call_is_cancelled(call))
        ask_stop(ask);
    r = answer_next_event(ask->answer, ask->after, timeout_us < TICK_US ? timeout_us : TICK_US,
                          &event);
    if (r == 0)
        tell(call, ask, "thinking");
    if (r > 0) {
        ask->after = event.id;
        tell_event(call, ask, &event);
        free(event.data);
    }
    if (r < 0 || (r > 0 && event.last)) {
        (void) answer_wait(ask->answer, -1);
        ask->ended = true;
        reply_answer(call, ask);
    }
}

static void first_step(struct mcp_call *call, int64_t timeout_us)
{
    struct ask *ask = call->work;
    struct agent_question question = { .query = ask->question, .chat_id = ask->chat_id };
    struct fault fault = { 0 };

    (void) timeout_us;
    if (json_array_size(ask->files) + json_array_size(ask->data) > 0)
        tell(call, ask, "reading the data");
    if (attach_all(call, ask) < 0)
        return;
    question.attachments = (const char *const *) ask->ids;
    if (agent_ask(mark_agent(call->mcp->config.mark), &call->caller, &question, &ask->answer,
                  &fault) < 0) {
        detach_all(call, ask);
        tool_fail_fault(call, &fault);
        return;
    }
    call->step = follow_step;
}

static void ask_data(struct mcp_call *call, const void *arguments)
{
    const struct ask_args *args = arguments;
    struct ask *ask;

    if (principal_is_local(&call->caller.principal) && call->transport != MCP_STDIO) {
        tool_fail(call, "ask_data needs a key here: add the header Authorization: Bearer KEY to "
                        "this server's configuration. The operator creates one with: glovebox key "
                        "create");
        return;
    }
    ask = calloc(1, sizeof *ask);
    if (!ask) {
        call_reply(call, NULL);
        return;
    }
    call_continue(call, first_step, ask, ask_free);
    ask->started_us = clock_now_us();
    ask->question = strdup(args->question);
    ask->chat_id = args->chat_id ? strdup(args->chat_id) : NULL;
    ask->files = json_incref((json_t *) args->files);
    ask->data = json_incref((json_t *) args->data);
    if (!ask->question || (args->chat_id && !ask->chat_id))
        call_reply(call, NULL);
    else if (json_array_size(ask->files) > 0)
        (void) tool_session(call, args->session_id, &ask->session);
}

const struct mcp_tool tool_ask_data = {
    .name = "ask_data",
    .title = "Ask about data",
    .description =
        "Ask a question about data files and get an answer that was computed: another model writes "
        "Python, runs it in a sandbox, mends its mistakes, and replies with a story, values, "
        "tables and charts. Use it for a whole question, such as 'Which region grew fastest, and "
        "why?'; use execute_python if you want to write the code yourself.\n\n"
        "Give the data as files of the session (upload_file puts them there) or as text. Every "
        "number in the story was computed by the code; those that were not are listed in "
        "unsupported. Ask more about the same data with the chat_id of the result. It takes from "
        "seconds to minutes, and costs what the model costs.",
    .input = &schema_ask_args,
    .output = &schema_ask_result,
    .hints = TOOL_OPEN_WORLD,
    .handle = ask_data,
};
