/*
 * `glovebox mark verify`: runs all verified answers of a data directory again.
 *
 * The boxes are those of a service of our own (local.h); the verified answers and their inputs are
 * in the data directory, which a running service may have open too. Several are run at a time, and
 * printed in order. With --ask the questions go to a model again, in chats of the local caller,
 * which are deleted afterwards.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/strv.h"
#include "cli/local.h"
#include "cli/terminal/plain_text.h"

#include "base/banned.h"

enum { EXIT_BROKEN = 1, EXIT_NO_MODEL = 4 };

#define JOBS_MAX   16
#define BUSY_TRIES 120
#define BUSY_NS    500000000L
#define QUESTION   72 /* columns of it that are shown */

struct run {
    const struct config *cfg;
    struct local local;
    struct store *store;
    char *data_dir;
    char **ids;
    size_t len;
    json_t **results; /* one for each id; an entry belongs to whoever took its number */
    atomic_size_t next;
};

/* ---- running ---- */

static json_t *broken(const char *id, const struct fault *fault)
{
    return json_pack("{s:s, s:s, s:s, s:[s], s:[]}", "verified_id", id, "question", "", "status",
                     "cannot_run", "differences", fault->detail, "notes");
}

static json_t *run_one(struct run *run, const char *id)
{
    struct verify *verify = mark_verify(run->local.mark);
    struct timespec pause = { 0, BUSY_NS };
    struct fault fault = { 0 };
    json_t *json = NULL;

    for (int i = 0; i < BUSY_TRIES; i++) {
        int r = run->cfg->mark_ask
                    ? verify_again(verify, &run->local.caller, id, NULL, &json, &fault)
                    : verify_check(verify, &run->local.caller, id, &json, &fault);

        if (r == 0)
            return json;
        if (fault.retry_after_s <= 0)
            break;
        (void) nanosleep(&pause, NULL);
    }
    return broken(id, &fault);
}

static void *worker(void *arg)
{
    struct run *run = arg;
    size_t n;

    while ((n = atomic_fetch_add(&run->next, 1)) < run->len)
        run->results[n] = run_one(run, run->ids[n]);
    return NULL;
}

static void run_all(struct run *run)
{
    pthread_t threads[JOBS_MAX];
    size_t jobs = cmd_jobs(run->cfg), started = 0;

    if (jobs > run->len)
        jobs = run->len;
    while (started + 1 < jobs && started < JOBS_MAX &&
           pthread_create(&threads[started], NULL, worker, run) == 0)
        started++;
    (void) worker(run);
    for (size_t i = 0; i < started; i++)
        (void) pthread_join(threads[i], NULL);
}

/* ---- printing ---- */

static void print_plain(const char *before, const char *text, size_t columns)
{
    autofree char *plain = plain_text(text ? text : "", text ? strlen(text) : 0);
    size_t len = plain ? strcspn(plain, "\n") : 0, fit = plain ? plain_fit(plain, len, columns) : 0;

    printf("%s%.*s%s\n", before, (int) fit, plain ? plain : "", plain && plain[fit] ? "..." : "");
}

static void print_one(const json_t *json)
{
    const char *status = json_string_value(json_object_get(json, "status"));
    const json_t *line;
    char word[16];
    size_t i;

    (void) snprintf(word, sizeof word, "%-12s",
                    !status                             ? "cannot run"
                    : strcmp(status, "cannot_run") == 0 ? "cannot run"
                                                        : status);
    print_plain(word, json_string_value(json_object_get(json, "question")), QUESTION);
    json_array_foreach (json_object_get(json, "differences"), i, line)
        print_plain("              ", json_string_value(line), 400);
    json_array_foreach (json_object_get(json, "notes"), i, line)
        print_plain("              (now) ", json_string_value(line), 400);
}

static size_t count(const struct run *run, const char *status)
{
    size_t n = 0;

    for (size_t i = 0; i < run->len; i++) {
        const char *own = json_string_value(json_object_get(run->results[i], "status"));

        n += own && strcmp(own, status) == 0;
    }
    return n;
}

static void print_json(const struct run *run)
{
    json_t *list = json_array(), *json;

    for (size_t i = 0; i < run->len; i++)
        (void) json_array_append(list, run->results[i]);
    json = json_pack("{s:o, s:I, s:I, s:I}", "verified", list, "ok", (json_int_t) count(run, "ok"),
                     "changed", (json_int_t) count(run, "changed"), "cannot_run",
                     (json_int_t) count(run, "cannot_run"));
    (void) json_dumpf(json, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(json);
}

static int print_all(const struct run *run)
{
    size_t ok = count(run, "ok");

    if (run->cfg->json) {
        print_json(run);
    } else {
        for (size_t i = 0; i < run->len; i++)
            print_one(run->results[i]);
        if (run->len == 0)
            printf("there are no verified answers in %s\n", run->data_dir);
        else
            printf("%zu of %zu verified answers came out again\n", ok, run->len);
    }
    (void) fflush(stdout);
    return ok == run->len ? 0 : EXIT_BROKEN;
}

/* ---- the whole ---- */

/* Mark of this process, over the answers and inputs of the data directory. */
static int open_all(struct run *run, struct gb_err *err)
{
    struct mark_config config = { 0 };
    int r = mark_models_read(run->cfg, &run->local.models, err);

    if (r == 0)
        r = cmd_data_dir(run->cfg, &run->data_dir, err);
    if (r == 0)
        r = cmd_open_store(run->cfg, true, &run->store, err);
    if (r == 0)
        r = local_open(&run->local, err);
    if (r < 0)
        return r;
    local_fill(&run->local, &config);
    config.store = run->store;
    config.data_dir = run->data_dir;
    config.agent.keep_pending = true;
    if (!run->cfg->mark_ask) { /* then nobody waits for servers that may be there */
        config.models.find_local = false;
        config.models.environ = NULL;
    }
    r = local_open_mark(&run->local, &config, err);
    return r < 0 ? r : verify_ids(mark_verify(run->local.mark), &run->ids, err);
}

static int verify(struct run *run)
{
    struct gb_err err = { 0 };

    if (open_all(run, &err) < 0) {
        say("%s", err.msg);
        return run->local.service && mark_options_are_wrong(&err) ? EXIT_USAGE : EXIT_OURS;
    }
    if (run->cfg->mark_ask && !llm_model_find(mark_models(run->local.mark), NULL)) {
        say("there is no model to ask; %s", mark_model_hint);
        return EXIT_NO_MODEL;
    }
    run->len = strv_len((const char *const *) run->ids);
    run->results = calloc(run->len + 1, sizeof(json_t *));
    if (!run->results) {
        say("out of memory");
        return EXIT_OURS;
    }
    if (!run->cfg->quiet && run->len > 0)
        cmd_show_progress(run->cfg->mark_ask ? "asking again" : "running verified answers");
    run_all(run);
    if (!run->cfg->quiet)
        cmd_hide_progress();
    return print_all(run);
}

int cmd_mark_verify(const struct config *cfg)
{
    struct run run = { .cfg = cfg, .local = LOCAL_INIT(cfg, "verify") };
    int code = verify(&run);

    local_close(&run.local);
    mark_models_release(&run.local.models);
    store_close(run.store);
    for (size_t i = 0; run.results && i < run.len; i++)
        json_decref(run.results[i]);
    free(run.results);
    strv_free(run.ids);
    free(run.data_dir);
    return code;
}
