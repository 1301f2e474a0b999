/*
 * `glovebox mark eval FILE`: questions whose answers are known, asked of one or more contenders,
 * and a report.
 *
 * A contender is a model with its prompts. Each is asked everything, one contender after the other,
 * in a Mark of its own over one service, so that they do not take time from each other. The first
 * signal stops what is under way, and the report has what there is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/parse.h"
#include "cli/interrupt.h"
#include "cli/local.h"
#include "cli/terminal/plain_text.h"
#include "mark/eval/eval.h"

#include "base/banned.h"

#define CONTENDERS_MAX 8
#define EXIT_FAILED    1
#define BUILT_IN       "built-in"

struct contender {
    char *model;         /* its name; NULL: the default one */
    const char *prompts; /* a directory; NULL: the built-in ones */
    char *label;
};

struct evaluation {
    const struct config *cfg;
    struct local local;
    struct interrupt interrupt;
    struct eval_set *set;
    struct contender contenders[CONTENDERS_MAX];
    size_t contenders_len, models, prompts; /* how many of each */
    size_t jobs;
    json_t *files;   /* {path: id} */
    json_t *results; /* one object for each contender that was asked */
};

/* ---- who is asked ---- */

static int add_contender(struct evaluation *eval, const char *model, const char *prompts,
                         struct gb_err *err)
{
    struct contender *contender = &eval->contenders[eval->contenders_len];

    if (eval->contenders_len == CONTENDERS_MAX)
        return gb_fail_plain(err, EINVAL, "at most %d models and prompts can be compared",
                             CONTENDERS_MAX);
    if (model && !(contender->model = strndup(model, strcspn(model, "="))))
        return gb_fail(err, ENOMEM, "read --model");
    contender->prompts = prompts && strcmp(prompts, BUILT_IN) != 0 ? prompts : NULL;
    for (size_t i = 0; i < eval->contenders_len; i++) /* --model a=... --model a */
        if (eval->contenders[i].model && contender->model &&
            strcmp(eval->contenders[i].model, contender->model) == 0 &&
            eval->contenders[i].prompts == contender->prompts) {
            free(TAKE_PTR(contender->model));
            return 0;
        }
    eval->contenders_len++;
    return 0;
}

/* Every model of the command line with all prompts. */
static int list_contenders(struct evaluation *eval, struct gb_err *err)
{
    char *const *prompts = eval->cfg->eval_prompts;
    int r = 0;

    do {
        const char *dir = prompts ? *prompts : NULL;
        size_t before = eval->contenders_len;

        for (int i = 0; r == 0 && i < eval->cfg->models_given; i++)
            if (strcmp(eval->cfg->models[i], "none") == 0)
                break;
            else
                r = add_contender(eval, eval->cfg->models[i], dir, err);
        if (r == 0 && eval->contenders_len == before)
            r = add_contender(eval, NULL, dir, err);
        eval->models = eval->contenders_len - before;
        eval->prompts++;
    } while (r == 0 && prompts && *++prompts);
    return r;
}

static const char *last_part(const char *path)
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    return path + len;
}

static int label_contender(struct evaluation *eval, struct contender *contender, const char *model)
{
    const char *prompts = contender->prompts ? last_part(contender->prompts) : BUILT_IN;

    if (asprintf(&contender->label, "%s%s%s", eval->prompts == 1 || eval->models > 1 ? model : "",
                 eval->prompts > 1 && eval->models > 1 ? ", " : "",
                 eval->prompts > 1 ? prompts : "") < 0)
        contender->label = NULL;
    return contender->label ? 0 : -ENOMEM;
}

/* ---- what is given ---- */

static int check_out(const char *dir, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];
    struct stat st;

    if (!dir)
        return 0;
    format_quoted(dir, quoted);
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return gb_fail(err, errno, "create %s", quoted);
    if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
        return gb_fail_plain(err, EINVAL, "%s is a file; --out needs a directory", quoted);
    return access(dir, W_OK | X_OK) < 0 ? gb_fail(err, errno, "write to %s", quoted) : 0;
}

/* Mistakes of the user, found before anything is started. */
static int prepare(struct evaluation *eval, struct gb_err *err)
{
    int r = eval_read(eval->cfg->args[0], &eval->set, err);

    eval->jobs = cmd_jobs(eval->cfg);
    if (r == 0)
        r = list_contenders(eval, err);
    if (r == 0)
        r = check_out(eval->cfg->out_dir, err);
    return r < 0 ? r : mark_models_read(eval->cfg, &eval->local.models, err);
}

/* ---- asking ---- */

static int attach_files(struct evaluation *eval, struct fault *fault)
{
    const json_t *path;
    size_t i;

    if (eval->files)
        return 0;
    eval->files = json_object();
    json_array_foreach (eval_files(eval->set), i, path) {
        autofree char *id = NULL;

        if (atomic_load(&eval->interrupt.signal))
            return 0;
        if (local_attach(&eval->local, json_string_value(path), &id, fault) < 0)
            return -1;
        if (json_object_set_new(eval->files, json_string_value(path), json_string(id)) < 0)
            return fault_no_memory(fault);
    }
    return 0;
}

struct progress {
    const struct evaluation *eval;
    const char *label;
};

static void show_progress(void *arg, size_t done, size_t passed)
{
    const struct progress *progress = arg;
    autofree char *text = NULL;

    if (progress->eval->cfg->quiet)
        return;
    if (asprintf(&text, "%.60s: %zu of %zu, %zu passed", progress->label, done,
                 eval_count(progress->eval->set), passed) < 0)
        text = NULL;
    if (text)
        cmd_show_progress(text);
}

/* Opens Mark as the contender wants it. */
static const struct llm_model *open_contender(struct evaluation *eval, struct contender *contender,
                                              struct gb_err *err)
{
    struct mark_config config = { 0 };
    const struct llm_model *model;
    char quoted[FORMAT_QUOTED_MAX];

    local_fill(&eval->local, &config);
    config.agent.prompts = contender->prompts;
    config.agent.answers_per_owner_max = (int64_t) eval->jobs + 1;
    if (local_open_mark(&eval->local, &config, err) < 0)
        return NULL;
    model = llm_model_find(mark_models(eval->local.mark), contender->model);
    if (!model && contender->model) {
        format_quoted(contender->model, quoted);
        (void) gb_fail_plain(err, EINVAL, "no model is called %s; glovebox doctor lists them",
                             quoted);
    } else if (!model) {
        (void) gb_fail_plain(err, EINVAL, "there is no model to ask; %s", mark_model_hint);
    } else if (label_contender(eval, contender, llm_model_name(model)) < 0) {
        (void) gb_fail(err, ENOMEM, "evaluate");
        model = NULL;
    }
    return model;
}

static int ask_contender(struct evaluation *eval, struct contender *contender, struct gb_err *err)
{
    const struct llm_model *model = open_contender(eval, contender, err);
    struct progress progress = { .eval = eval };
    struct eval_run run = { .caller = &eval->local.caller,
                            .set = eval->set,
                            .model = contender->model,
                            .sources = eval->cfg->sources,
                            .jobs = eval->jobs,
                            .stop = &eval->interrupt.signal,
                            .progress = show_progress,
                            .arg = &progress };
    int64_t begun_us = clock_now_us();
    struct fault fault = { 0 };
    json_t *results;

    if (!model)
        return -err->code;
    if (attach_files(eval, &fault) < 0)
        return gb_fail_plain(err, EINVAL, "%s", fault.detail);
    progress.label = contender->label;
    run.agent = mark_agent(eval->local.mark);
    run.files = eval->files;
    show_progress(&progress, 0, 0);
    results = eval_run(&run);
    cmd_hide_progress();
    if (!results)
        return gb_fail(err, ENOMEM, "evaluate");
    return json_array_append_new(
        eval->results, json_pack("{s:s, s:s, s:s, s:I, s:f, s:o}", "label", contender->label,
                                 "model", llm_model_name(model), "prompts",
                                 contender->prompts ? contender->prompts : BUILT_IN, "drifted",
                                 (json_int_t) llm_model_drifted(model), "seconds",
                                 (double) (clock_now_us() - begun_us) / (double) USEC_PER_SEC,
                                 "results", results));
}

/* ---- the report ---- */

static int write_file(const char *dir, const char *name, const char *text, struct gb_err *err)
{
    autofree char *path = NULL;
    autoclose int fd = -EBADF;
    int r;

    if (!text || asprintf(&path, "%s/%s", dir, name) < 0)
        return gb_fail(err, ENOMEM, "write %s", name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0666);
    r = fd < 0 ? -errno : io_write_all(fd, text, strlen(text));
    return r < 0 ? gb_fail(err, -r, "write '%s'", path) : 0;
}

static int save_report(const char *dir, const json_t *report, struct gb_err *err)
{
    autofree char *json = json_dumps(report, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    autofree char *page = eval_page(report), *picture = eval_picture(report);
    int r = write_file(dir, "report.json", json, err);

    if (r == 0)
        r = write_file(dir, "report.html", page, err);
    return r < 0 ? r : write_file(dir, "report.svg", picture, err);
}

static int print_report(const struct evaluation *eval, const json_t *report, struct gb_err *err)
{
    autofree char *text = NULL, *plain = NULL;
    int r = 0;

    if (eval->cfg->json) {
        size_t flags = isatty(STDOUT_FILENO) ? JSON_INDENT(2) | JSON_ENSURE_ASCII : 0;

        if (json_dumpf(report, stdout, flags | JSON_REAL_PRECISION(15)) < 0 || putchar('\n') == EOF)
            r = -EIO;
    } else {
        text = eval_table(report);
        plain = text ? plain_text(text, strlen(text)) : NULL;
        if (!plain || fputs(plain, stdout) == EOF)
            r = -EIO;
    }
    if (r == 0 && fflush(stdout) != 0)
        r = -EIO;
    return r < 0 ? gb_fail(err, -r, "print the report") : 0;
}

static int report(const struct evaluation *eval)
{
    json_t *json = eval_report(eval->set, eval->results, atomic_load(&eval->interrupt.signal) != 0);
    struct gb_err err = { 0 };
    int code;
    int r = json ? print_report(eval, json, &err) : gb_fail(&err, ENOMEM, "report");

    if (r == 0 && eval->cfg->out_dir)
        r = save_report(eval->cfg->out_dir, json, &err);
    code = json_is_true(json_object_get(json, "passed")) ? 0 : EXIT_FAILED;
    json_decref(json);
    if (r < 0)
        say("%s", err.msg);
    return r < 0 ? EXIT_OURS : code;
}

/* ---- the command ---- */

static int run(struct evaluation *eval)
{
    struct gb_err err = { 0 };
    int r = interrupt_open(&eval->interrupt, NULL, NULL, &err);

    if (r == 0)
        r = local_open(&eval->local, &err);
    for (size_t i = 0; r == 0 && i < eval->contenders_len; i++)
        if (!atomic_load(&eval->interrupt.signal))
            r = ask_contender(eval, &eval->contenders[i], &err);
    if (r == 0)
        return report(eval);
    say("%s", err.msg);
    return eval->local.service && mark_options_are_wrong(&err) ? EXIT_USAGE : EXIT_OURS;
}

int cmd_eval(const struct config *cfg)
{
    struct evaluation eval = { .cfg = cfg,
                               .local = LOCAL_INIT(cfg, "eval"),
                               .interrupt = INTERRUPT_INIT,
                               .results = json_array() };
    struct gb_err err = { 0 };
    int code = EXIT_USAGE;

    if (prepare(&eval, &err) < 0)
        say("%s", err.msg);
    else
        code = run(&eval);
    interrupt_close(&eval.interrupt);
    if (local_close(&eval.local) < 0 && code == 0)
        code = EXIT_OURS;
    mark_models_release(&eval.local.models);
    for (size_t i = 0; i < eval.contenders_len; i++) {
        free(eval.contenders[i].model);
        free(eval.contenders[i].label);
    }
    json_decref(eval.files);
    json_decref(eval.results);
    eval_free(eval.set);
    return code;
}
