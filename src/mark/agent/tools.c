/* What the model may call, and what happens then. */
#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/agent/gate.h"
#include "mark/agent/work.h"

#include "base/banned.h"

#define CALLS_AT_ONCE  8
#define CODE_BYTES_MAX ((size_t) 200 * 1024)
#define SAME_ERROR_MAX 3
#define SAME_CODE_MAX  2
#define NUDGES_MAX     4
#define QUESTION_MAX   2000
#define DESCRIBED_MAX  20

/* ---- which there are ---- */

static json_t *with_run_python, *without_run_python, *with_sources;
static pthread_once_t tools_once = PTHREAD_ONCE_INIT;

static json_t *tool_of(const char *name, const char *description, json_t *properties,
                       const char *required)
{
    return json_pack("{s:s, s:s, s:{s:s, s:o, s:[s], s:b}}", "name", name, "description",
                     description, "parameters", "type", "object", "properties", properties,
                     "required", required, "additionalProperties", 0);
}

static json_t *text_property(const char *description)
{
    return json_pack("{s:s, s:s}", "type", "string", "description", description);
}

static json_t *numbers_property(const char *description)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "array", "items", "type", "integer",
                     "description", description);
}

static void tools_make(void)
{
    json_t *run = tool_of("run_python",
                          "Runs a Python program in the session and returns what it printed and "
                          "handed over. Variables stay.",
                          json_pack("{s:o}", "code", text_property("the program")), "code");
    json_t *ask =
        tool_of("ask_user", "Asks the person one short question and ends this turn.",
                json_pack("{s:o}", "question", text_property("the question")), "question");
    json_t *answer = tool_of(
        "answer", "The answer, which ends this turn.",
        json_pack("{s:o, s:o, s:o}", "story",
                  text_property("Markdown; numbers as {{name}} of values that were handed over"),
                  "charts", numbers_property("numbers of the charts to show; leave out for all"),
                  "tables", numbers_property("numbers of the tables to show; leave out for all")),
        "story");

    json_t *describe =
        tool_of("describe_table",
                "Describes one table of a data source in full: columns, types, keys, notes. "
                "Without a table "
                "it lists all tables of the source.",
                json_pack("{s:o, s:o}", "source", text_property("the name of the source"), "table",
                          text_property("the name of the table, as it is listed")),
                "source");

    with_run_python = json_pack("[O, O, O]", run, ask, answer);
    with_sources = json_pack("[O, o, O, O]", run, describe, ask, answer);
    without_run_python = json_pack("[o, o]", ask, answer);
    json_decref(run);
}

const json_t *tools_all(bool run_python, bool sources)
{
    (void) pthread_once(&tools_once, tools_make);
    return !run_python ? without_run_python : sources ? with_sources : with_run_python;
}

/* ---- results ---- */

static int say_result(struct work *work, const json_t *call, const char *content, bool error)
{
    json_t *id = json_object_get(call, "id"), *name = json_object_get(call, "name");
    json_t *message = json_pack("{s:s, s:O?, s:O?, s:o}", "role", "tool", "tool_call_id", id,
                                "name", name, "content", json_text(content));

    if (message && error)
        (void) json_object_set_new(message, "error", json_true());
    return message ? json_array_append_new(work->messages, message) : -ENOMEM;
}

static void nudge(struct work *work, const json_t *call, const char *content)
{
    work->nudges++;
    work_decision(work, "useless_call");
    (void) say_result(work, call, content, true);
}

/* ---- run_python ---- */

/* Models wrap code in a fence even where only code is asked for. */
static char *unfence(const char *code)
{
    const char *start, *end;
    size_t len, around;

    if (strncmp(code + strspn(code, " \t\r\n"), "```", 3) != 0)
        return strdup(code);
    if (fenced_find(code, &start, &len, &around))
        return strndup(start, len);
    start = strchr(code, '\n');
    if (!start)
        return strdup(code);
    start++;
    end = strstr(start, "```");
    return strndup(start, end ? (size_t) (end - start) : strlen(start));
}

/* Whether the program is worth running: not the one that just ran, and none for the third time. */
static bool code_is_new(struct work *work, const char *code)
{
    uint64_t hash = work_hash(code, strlen(code));
    struct seen *place = NULL;
    bool again = hash == work->last_code;

    for (size_t i = 0; i < SEEN_MAX && !place; i++)
        if (work->seen[i].count == 0 || work->seen[i].hash == hash)
            place = &work->seen[i];
    work->last_code = hash;
    if (!place)
        return !again;
    place->hash = hash;
    return ++place->count <= SAME_CODE_MAX && !again;
}

/* How often this error has come in this answer: its class and the first line of its message, as
 * line numbers change with every attempt. */
static int error_count(struct work *work, const json_t *receipt)
{
    const json_t *error = json_object_get(receipt, "error");
    const char *name = json_string_value(json_object_get(error, "name"));
    const char *value = json_string_value(json_object_get(error, "value"));
    struct text cause = { 0 };
    uint64_t hash;

    if (!name)
        name = json_string_value(json_object_get(receipt, "status"));
    text_puts(&cause, name ? name : "");
    text_puts(&cause, ":");
    if (value)
        text_add(&cause, value, strcspn(value, "\n"));
    hash = cause.data ? work_hash(cause.data, cause.len) : 0;
    text_release(&cause);
    for (size_t i = 0; i < CAUSES_MAX; i++)
        if (work->causes[i].count == 0 || work->causes[i].hash == hash) {
            work->causes[i].hash = hash;
            return ++work->causes[i].count;
        }
    return SAME_ERROR_MAX + 1; /* so many errors are as good as one again and again */
}

static char *result_of(struct work *work, int64_t n, const json_t *receipt,
                       const struct gathered_mark *before, bool *ret_failed)
{
    char *text =
        results_text(&work->answer->gathered, before, n, receipt, history_result_max(work));
    char *more = NULL;
    int count;

    *ret_failed = !receipt_ok(receipt);
    if (!text || !*ret_failed)
        return text;
    work_decision(work, "program_failed");
    count = error_count(work, receipt);
    if (count > SAME_ERROR_MAX)
        work->give_up = true;
    if (count < SAME_ERROR_MAX)
        return text;
    if (asprintf(&more,
                 "%sThis error has come %d times. Do not try the same way again: find another one, "
                 "or answer with what you have and say what is missing.\n",
                 text, count) < 0)
        return text;
    free(text);
    return more;
}

/* Faults that the model can do something about. */
static bool fault_is_about_code(const struct fault *fault)
{
    return fault->problem == PROBLEM_CODE_TOO_LARGE || fault->problem == PROBLEM_CODE_MALFORMED ||
           fault->problem == PROBLEM_CODE_MISSING;
}

/* Whether the operator's gate, if there is one, lets the code pass. If not, the words for the model
 * are in *@ret_text, or the work has ended. */
static bool gate_passes(struct work *work, const char *code, char **ret_text)
{
    struct fault fault = { 0 };
    int r;

    *ret_text = NULL;
    if (!work->agent->gate)
        return true;
    r = gate_check(work->agent->gate, work->agent->config.service, &work->answer->caller, code,
                   ret_text, &fault);
    if (r == 0)
        return true;
    if (r > 0)
        work_decision(work, "gate_refused");
    else
        ending_of_fault(work, &fault);
    return false;
}

static char *run_step(struct work *work, const char *code, bool *ret_failed)
{
    struct answer *answer = work->answer;
    struct gathered_mark before = gathered_mark(&answer->gathered);
    json_t *receipt = NULL;
    struct fault fault = { 0 };
    int64_t n = ++work->steps;
    char *text;

    answer_event(answer, EV_STEP, json_pack("{s:I, s:s}", "n", (json_int_t) n, "code", code));
    work_decision(work, "run_python");
    if (cells_run(work, n, code, &receipt, &fault) < 0) {
        if (fault_is_about_code(&fault)) {
            *ret_failed = true;
            return strdup(fault.detail);
        }
        ending_of_fault(work, &fault);
        return NULL;
    }
    (void) receipts_gather(answer, work->cells.session, work->evidence, n, code, receipt);
    (void) pthread_mutex_lock(&work->agent->lock);
    work->agent->stats.steps++;
    (void) pthread_mutex_unlock(&work->agent->lock);
    text = result_of(work, n, receipt, &before, ret_failed);
    json_decref(receipt);
    if (atomic_load(&answer->stop))
        work_stop(work);
    return text;
}

char *tools_run_python(struct work *work, const char *code, bool *ret_failed)
{
    autofree char *clean = unfence(code);
    size_t len = clean ? strlen(clean) : 0;
    char *refused;

    *ret_failed = true;
    if (!clean)
        return NULL;
    if (strspn(clean, " \t\r\n") == len) {
        work->nudges++;
        return strdup("The program is empty. Send the code.");
    }
    if (len > CODE_BYTES_MAX) {
        work->nudges++;
        return strdup("The program is too long. Write a shorter one; read data from files.");
    }
    if (work->last || work->steps >= work->agent->config.steps_max) {
        work->give_up = true;
        return strdup("The budget for this question is used up: no more programs can run.");
    }
    if (!code_is_new(work, clean)) {
        work->repeats++;
        work_decision(work, "repeated_program");
        if (work->repeats > SAME_CODE_MAX)
            work->give_up = true;
        return strdup("You ran exactly this program already, and its result is above. It was not "
                      "run again. Go on from that result: write a different program, or answer.");
    }
    return gate_passes(work, clean, &refused) ? run_step(work, clean, ret_failed) : refused;
}

static void call_run_python(struct work *work, const json_t *call, const json_t *arguments)
{
    const char *code = json_string_value(json_object_get(arguments, "code"));
    autofree char *text = NULL;
    bool failed;

    if (!code) {
        nudge(work, call, "run_python needs the argument \"code\", a string.");
        return;
    }
    text = tools_run_python(work, code, &failed);
    if (text)
        (void) say_result(work, call, text, failed);
}

/* ---- the others ---- */

/* Descriptions cost no step, so they are counted by themselves. */
static void call_describe_table(struct work *work, const json_t *call, const json_t *arguments)
{
    autofree char *text = NULL;

    if (!consult_any(work)) {
        nudge(work, call, "There are no data sources here. Use run_python, ask_user or answer.");
        return;
    }
    if (work->described++ >= DESCRIBED_MAX) {
        nudge(work, call, "That are enough descriptions. Write a program, or answer.");
        return;
    }
    work_decision(work, "describe_table");
    text = consult_describe(work, arguments);
    if (text)
        (void) say_result(work, call, text, false);
}

static void call_ask_user(struct work *work, const json_t *call, const json_t *arguments)
{
    const char *question = json_string_value(json_object_get(arguments, "question"));

    if (!question || question[strspn(question, " \t\r\n")] == '\0') {
        nudge(work, call, "ask_user needs the argument \"question\", a string.");
        return;
    }
    work_decision(work, "ask_user");
    ending_release(&work->ending); /* of an answer that was to be mended */
    work->ending.question = strndup(question, text_fit(question, strlen(question), QUESTION_MAX));
    work->ending.story = work->ending.question ? strdup(work->ending.question) : NULL;
    work->ending.status = STORE_MESSAGE_NEEDS_INPUT;
    work->done = true;
}

static bool numbers_only(const json_t *list)
{
    const json_t *item;
    size_t i;

    if (!json_is_array(list))
        return false;
    json_array_foreach (list, i, item)
        if (!json_is_integer(item))
            return false;
    return true;
}

static void call_answer(struct work *work, const json_t *call, const json_t *arguments)
{
    const char *story = json_string_value(json_object_get(arguments, "story"));
    const json_t *charts = json_object_get(arguments, "charts");
    const json_t *tables = json_object_get(arguments, "tables");

    if (!story || story[strspn(story, " \t\r\n")] == '\0') {
        nudge(work, call, "answer needs the argument \"story\", a text that is not empty.");
        return;
    }
    work_answer(work, strdup(story), numbers_only(charts) ? charts : NULL,
                numbers_only(tables) ? tables : NULL);
    if (finish_mend(work, json_string_value(json_object_get(call, "id"))))
        return;
    work->done = true;
}

static const struct {
    const char *name;
    void (*handle)(struct work *work, const json_t *call, const json_t *arguments);
} handlers[] = {
    { "run_python", call_run_python },
    { "describe_table", call_describe_table },
    { "ask_user", call_ask_user },
    { "answer", call_answer },
};

static void handle_call(struct work *work, const json_t *call, enum llm_finish finish)
{
    const char *name = json_string_value(json_object_get(call, "name"));
    const json_t *arguments = json_object_get(call, "arguments");

    for (size_t i = 0; name && i < ARRAY_LEN(handlers); i++) {
        if (strcmp(handlers[i].name, name) != 0)
            continue;
        if (json_is_object(arguments))
            handlers[i].handle(work, call, arguments);
        else if (finish == LLM_LENGTH)
            nudge(work, call,
                  "The call was cut off because your reply was too long. Send a shorter one.");
        else
            nudge(work, call,
                  "The arguments of the call are not valid JSON. Send the call again, with a JSON "
                  "object; escape quotes and newlines in strings.");
        return;
    }
    nudge(work, call, "There is no such tool. Use run_python, ask_user or answer.");
}

void tools_handle(struct work *work, const json_t *message, enum llm_finish finish)
{
    const json_t *calls = json_object_get(message, "tool_calls"), *call;
    bool answered = false;
    size_t i;

    json_array_foreach (calls, i, call) {
        const char *name = json_string_value(json_object_get(call, "name"));

        /* Every call needs a result, also those that come too late. */
        if (answered || i >= CALLS_AT_ONCE) {
            (void) say_result(work, call, "This call was not run.", true);
            continue;
        }
        handle_call(work, call, finish);
        answered = name && strcmp(name, "answer") == 0;
        if (work->done || atomic_load(&work->answer->stop))
            return;
    }
    if (work->nudges > NUDGES_MAX)
        work->give_up = true;
}
