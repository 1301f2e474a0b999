/*
 * `glovebox ask`: Mark on the command line, without a server.
 *
 * It opens a service and Mark in this process, with a store in a scratch directory, attaches the
 * files, asks, and prints the answer; then everything is closed and removed. Who asks is the local
 * caller, so there are no accounts.
 *
 * The first signal stops the answer, which then ends with what there is, as one that was stopped
 * over HTTP (interrupt.h).
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/parse.h"
#include "base/text/strv.h"
#include "base/text/utf8.h"
#include "cli/ask.h"
#include "cli/interrupt.h"
#include "cli/local.h"
#include "cli/terminal/answer_text.h"
#include "cli/terminal/plain_text.h"

#include "base/banned.h"

enum {
    EXIT_NOT_ANSWERED = 1, /* it failed, or was stopped */
    EXIT_NEEDS_INPUT = 3,
    EXIT_NO_MODEL = 4,
    EXIT_WITHHELD = 5,
};

#define QUESTIONS_MAX 10   /* that Mark may ask back, one after the other */
#define ROWS_SHOWN    20   /* of a table */
#define ANSWER_MAX    8192 /* what a person types */

struct ask {
    const struct config *cfg;
    char *query;
    struct local local;
    char **ids; /* of the attachments */
    struct interrupt interrupt;
    pthread_mutex_t lock;
    char *chat_id; /* guarded by the lock; NULL: nothing is under way yet */
};

/* ---- signals ---- */

static void stop_answer(void *arg)
{
    struct ask *ask = arg;
    struct fault fault = { 0 };
    size_t count;

    pthread_mutex_lock(&ask->lock);
    if (ask->chat_id)
        (void) agent_stop(mark_agent(ask->local.mark), &ask->local.caller, ask->chat_id, &count,
                          &fault);
    pthread_mutex_unlock(&ask->lock);
}

/* ---- what is given ---- */

static int read_question(struct ask *ask, struct gb_err *err)
{
    const char *given = ask->cfg->args[0];
    ssize_t n = (ssize_t) strlen(given);
    size_t len;

    if (strcmp(given, "-") != 0) {
        ask->query = strdup(given);
    } else {
        ask->query = malloc(AGENT_QUERY_MAX + 2);
        n = ask->query ? io_read_all(STDIN_FILENO, ask->query, AGENT_QUERY_MAX + 1) : 0;
        if (n < 0)
            return gb_fail(err, (int) -n, "read the question from standard input");
    }
    if (!ask->query)
        return gb_fail(err, ENOMEM, "read the question");
    len = (size_t) n;
    while (len > 0 && strchr(" \t\r\n", ask->query[len - 1]))
        len--;
    ask->query[len] = '\0';
    if (len == 0)
        return gb_fail_plain(err, EINVAL, "the question is empty");
    if (len > AGENT_QUERY_MAX)
        return gb_fail_plain(err, E2BIG,
                             "the question is longer than %d bytes; put data into a "
                             "file, and give it with --file",
                             AGENT_QUERY_MAX);
    if (strlen(ask->query) != len || !utf8_valid(ask->query, len))
        return gb_fail_plain(err, EINVAL, "the question is not UTF-8 text");
    return 0;
}

/* Mistakes of the user, found before anything is started. */
static int prepare(struct ask *ask, struct gb_err *err)
{
    char *const *files = ask->cfg->files;
    int r = read_question(ask, err);

    if (r == 0 && strv_len((const char *const *) files) > AGENT_ATTACHMENTS_MAX)
        r = gb_fail_plain(err, EINVAL, "at most %d files can be given", AGENT_ATTACHMENTS_MAX);
    for (; r == 0 && files && *files; files++) {
        autoclose int fd = -EBADF;
        int64_t size = 0;

        r = local_open_file(*files, &fd, &size, err);
    }
    if (r == 0)
        r = ask_save_check(ask->cfg, err);
    return r < 0 ? r : mark_models_read(ask->cfg, &ask->local.models, err);
}

/* ---- asking ---- */

static int open_local(struct ask *ask, struct gb_err *err)
{
    struct mark_config config = { 0 };
    int r = local_open(&ask->local, err);

    if (r < 0)
        return r;
    local_fill(&ask->local, &config);
    return local_open_mark(&ask->local, &config, err);
}

static int attach(struct ask *ask, const char *path, struct fault *fault)
{
    autofree char *id = NULL;

    if (local_attach(&ask->local, path, &id, fault) < 0)
        return -1;
    return strv_add(&ask->ids, id) < 0 ? fault_no_memory(fault) : 0;
}

static int attach_all(struct ask *ask, struct fault *fault)
{
    char *const *files = ask->cfg->files;
    int r = 0;

    if (files && !ask->cfg->quiet)
        cmd_show_progress("reading the files");
    for (; r == 0 && files && *files && !atomic_load(&ask->interrupt.signal); files++)
        r = attach(ask, *files, fault);
    if (!ask->cfg->quiet)
        cmd_hide_progress();
    return r;
}

/* One question, to the end of its answer. */
static int ask_once(struct ask *ask, const char *query, struct answer **ret_answer,
                    struct fault *fault)
{
    struct agent_question question = { .query = query,
                                       .chat_id = ask->chat_id,
                                       .sources = (const char *const *) ask->cfg->sources };
    bool shown = !ask->cfg->quiet && isatty(STDERR_FILENO);
    struct answer *answer = NULL;

    if (!ask->chat_id)
        question.attachments = (const char *const *) ask->ids;
    if (agent_ask(mark_agent(ask->local.mark), &ask->local.caller, &question, &answer, fault) < 0)
        return -1;
    pthread_mutex_lock(&ask->lock);
    if (!ask->chat_id)
        ask->chat_id = strdup(answer_chat_id(answer));
    pthread_mutex_unlock(&ask->lock);
    if (atomic_load(&ask->interrupt.signal)) /* it came before there was something to stop */
        stop_answer(ask);
    ask_follow(answer, shown);
    *ret_answer = answer;
    return 0;
}

/* An interrupt is on another thread, and would not end a read. */
static bool wait_typed(struct ask *ask)
{
    struct pollfd input = { STDIN_FILENO, POLLIN, 0 };

    while (!atomic_load(&ask->interrupt.signal))
        if (poll(&input, 1, 200) > 0)
            return true;
    return false;
}

/* Shows what Mark asks, and reads what the person replies; false: nobody is there. */
static bool reply_typed(struct ask *ask, const json_t *response, char *buf, size_t size)
{
    const char *question = json_string_value(json_object_get(response, "question"));
    autofree char *plain = question ? plain_text(question, strlen(question)) : NULL;
    size_t len;

    if (!plain || ask->cfg->json || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) ||
        strcmp(ask->cfg->args[0], "-") == 0 || atomic_load(&ask->interrupt.signal))
        return false;
    fprintf(stderr, "%s\n> ", plain);
    (void) fflush(stderr);
    if (!wait_typed(ask) || !fgets(buf, (int) size, stdin))
        return false;
    len = strcspn(buf, "\n");
    buf[len] = '\0';
    return len > 0 && utf8_valid(buf, len);
}

/* ---- printing ---- */

static bool styled(void)
{
    const char *off = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && !(off && *off) && term && strcmp(term, "dumb") != 0;
}

static void say_lines(const json_t *list)
{
    json_t *item;
    size_t i;

    json_array_foreach (list, i, item)
        say("%s", json_string_value(item));
}

/* Of the last program: those of earlier ones were mended. A program that shows no output on the
 * terminal would otherwise hide that a database is down. */
static void say_failed_queries(const json_t *steps)
{
    const json_t *last = json_array_get(steps, json_array_size(steps) - 1), *query;
    size_t i;

    json_array_foreach (json_object_get(last, "queries"), i, query) {
        const char *source = json_string_value(json_object_get(query, "source"));
        const char *status = json_string_value(json_object_get(query, "status"));
        const char *message = json_string_value(json_object_get(query, "message"));

        if (source && message && status && strcmp(status, "ok") != 0)
            say("a query of %s failed (%s): %s", source, status, message);
    }
}

/* "gpt-5, 3 steps, 12.3 s, 4210 + 512 tokens, $0.0123" */
static void say_usage(const json_t *response)
{
    const json_t *usage = json_object_get(response, "usage");
    const json_t *prompt = json_object_get(usage, "prompt_tokens");
    const json_t *cost = json_object_get(usage, "cost");
    const char *model = json_string_value(json_object_get(response, "model"));
    size_t steps = json_array_size(json_object_get(response, "steps"));
    char tokens[64] = "", money[32] = "";

    if (json_is_integer(prompt) && json_integer_value(prompt) >= 0)
        snprintf(tokens, sizeof tokens, ", %lld + %lld tokens",
                 (long long) json_integer_value(prompt),
                 (long long) json_integer_value(json_object_get(usage, "completion_tokens")));
    if (json_is_number(cost) && json_number_value(cost) >= 0)
        snprintf(money, sizeof money, ", $%.4f", json_number_value(cost));
    say("%s, %zu step%s, %.1f s%s%s", model ? model : "no model", steps, steps == 1 ? "" : "s",
        json_number_value(json_object_get(usage, "seconds")), tokens, money);
}

static void say_notes(const struct ask *ask, const json_t *response)
{
    const json_t *unsupported =
        json_object_get(json_object_get(response, "numbers"), "unsupported");
    size_t charts = json_array_size(json_object_get(response, "visualizations"));

    if (json_array_size(unsupported) > 0 && !ask->cfg->mark_strict)
        say("numbers with " ANSWER_UNSUPPORTED " were not computed; do not rely on them");
    if (ask->cfg->quiet)
        return;
    say_lines(json_object_get(response, "notices"));
    say_failed_queries(json_object_get(response, "steps"));
    if (charts > 0 && !ask->cfg->out_dir && !ask->cfg->ask_chart)
        say("%zu chart%s: --chart FILE or --out DIR saves %s", charts, charts == 1 ? "" : "s",
            charts == 1 ? "it" : "them");
    if (json_is_true(json_object_get(response, "demo")))
        say("for a language model in place of the demo, %s", mark_model_hint);
    else
        say_usage(response);
}

static int print_answer(const struct ask *ask, const json_t *response, struct gb_err *err)
{
    const char *story = json_string_value(json_object_get(response, "answer_story"));
    const char *question = json_string_value(json_object_get(response, "question"));
    const json_t *marks = json_object_get(json_object_get(response, "numbers"), "marks");
    json_t *table;
    size_t i;
    int r = 0;

    if (story && *story)
        r = answer_write_story(stdout, story, marks, styled());
    if (r == 0 && question && (!story || strcmp(story, question) != 0))
        r = answer_write_story(stdout, question, NULL, styled());
    json_array_foreach (json_object_get(response, "data"), i, table)
        if (r == 0) {
            fputc('\n', stdout);
            r = answer_write_table(stdout, table, ROWS_SHOWN, styled());
        }
    if (r == 0 && (fflush(stdout) != 0 || ferror(stdout)))
        r = -EIO;
    if (r < 0)
        return gb_fail(err, -r, "print the answer");
    say_notes(ask, response);
    return 0;
}

/* ASCII on a terminal: JSON escapes only the controls of ASCII. */
static int print_json(const json_t *response, struct gb_err *err)
{
    size_t flags = isatty(STDOUT_FILENO) ? JSON_INDENT(2) | JSON_ENSURE_ASCII : 0;

    if (json_dumpf(response, stdout, flags | JSON_REAL_PRECISION(15)) < 0 || putchar('\n') == EOF ||
        fflush(stdout) != 0)
        return gb_fail(err, EIO, "print JSON");
    return 0;
}

static void print_trace(struct ask *ask, struct answer *answer)
{
    struct fault fault = { 0 };
    json_t *trace = NULL;

    if (agent_trace(mark_agent(ask->local.mark), &ask->local.caller, answer_message_id(answer),
                    &trace, &fault) < 0) {
        say("no trace: %s", fault.detail);
        return;
    }
    if (json_dumpf(trace, stderr, JSON_INDENT(2) | JSON_ENSURE_ASCII) == 0)
        fputc('\n', stderr);
    json_decref(trace);
}

static int exit_code(const struct ask *ask, const json_t *response)
{
    const json_t *unsupported =
        json_object_get(json_object_get(response, "numbers"), "unsupported");
    const char *status = json_string_value(json_object_get(response, "status"));

    if (ask->cfg->mark_strict && json_array_size(unsupported) > 0)
        return EXIT_WITHHELD;
    if (status && strcmp(status, "needs_input") == 0)
        return EXIT_NEEDS_INPUT;
    return status && strcmp(status, "ok") == 0 ? 0 : EXIT_NOT_ANSWERED;
}

/* ---- the command ---- */

static int fail_fault(const struct fault *fault)
{
    say("%s", fault->detail);
    if (fault->problem == PROBLEM_NO_MODEL)
        return EXIT_NO_MODEL;
    return fault->kind < FAULT_INTERNAL ? EXIT_USAGE : EXIT_OURS;
}

static int finish(struct ask *ask, struct answer *answer, const json_t *response)
{
    struct gb_err err = { 0 };
    int lost;
    int r = ask->cfg->json ? print_json(response, &err) : print_answer(ask, response, &err);

    if (ask->cfg->ask_trace)
        print_trace(ask, answer);
    lost = ask_save(ask->cfg, ask->local.service, mark_exports(ask->local.mark), &ask->local.caller,
                    response);
    if (r < 0)
        say("%s", err.msg);
    return r < 0 || lost > 0 ? EXIT_OURS : exit_code(ask, response);
}

/* Questions and replies, until there is an answer or nobody replies. */
static int converse(struct ask *ask)
{
    struct answer *answer = NULL;
    struct fault fault = { 0 };
    json_t *response = NULL;
    char typed[ANSWER_MAX];
    int code = EXIT_OURS;
    int r = ask_once(ask, ask->query, &answer, &fault);

    for (int i = 0; r == 0; i++) {
        const char *status;

        json_decref(response);
        response = answer_to_json(answer);
        status = json_string_value(json_object_get(response, "status"));
        if (!status || strcmp(status, "needs_input") != 0 || i == QUESTIONS_MAX ||
            !reply_typed(ask, response, typed, sizeof typed))
            break;
        answer_unref(answer);
        answer = NULL;
        r = ask_once(ask, typed, &answer, &fault);
    }
    if (r < 0)
        code = fail_fault(&fault);
    else if (!response)
        say("out of memory");
    else
        code = finish(ask, answer, response);
    json_decref(response);
    answer_unref(answer);
    return code;
}

static int run(struct ask *ask)
{
    const struct llm_model *model;
    struct fault fault = { 0 };
    struct gb_err err = { 0 };

    if (interrupt_open(&ask->interrupt, stop_answer, ask, &err) < 0 || open_local(ask, &err) < 0) {
        say("%s", err.msg);
        return ask->local.service && mark_options_are_wrong(&err) ? EXIT_USAGE : EXIT_OURS;
    }
    model = llm_model_find(mark_models(ask->local.mark), NULL);
    if (!model) {
        say("there is no model to ask; %s", mark_model_hint);
        return EXIT_NO_MODEL;
    }
    if (llm_model_is_demo(model) && !ask->cfg->quiet)
        say("this is the demo: a canned conversation about sample data, not a language model");
    if (attach_all(ask, &fault) < 0)
        return fail_fault(&fault);
    if (atomic_load(&ask->interrupt.signal))
        return EXIT_NOT_ANSWERED;
    return converse(ask);
}

int cmd_ask(const struct config *cfg)
{
    struct ask ask = { .cfg = cfg,
                       .local = LOCAL_INIT(cfg, "ask"),
                       .interrupt = INTERRUPT_INIT,
                       .lock = PTHREAD_MUTEX_INITIALIZER };
    struct gb_err err = { 0 };
    int code = EXIT_USAGE;

    if (prepare(&ask, &err) < 0)
        say("%s", err.msg);
    else
        code = run(&ask);
    interrupt_close(&ask.interrupt); /* it may use Mark */
    if (local_close(&ask.local) < 0 && code == 0)
        code = EXIT_OURS;
    mark_models_release(&ask.local.models);
    strv_free(ask.ids);
    free(ask.chat_id);
    free(ask.query);
    return code;
}
