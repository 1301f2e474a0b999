/*
 * All questions of a set, asked of one contender. A few threads take the next question each, ask it
 * in a new chat, wait for the answer, score it, and forget the chat, whose box ends with it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/strv.h"
#include "mark/agent/agent.h"
#include "mark/eval/internal.h"

#include "base/banned.h"

#define LOOK_US (USEC_PER_SEC / 5) /* whether to stop */

struct running {
    const struct eval_run *run;
    pthread_mutex_t lock;
    size_t next, done, passed; /* guarded by the lock, and so are results */
    json_t **results;          /* by question; NULL: not asked */
    bool failed;               /* out of memory */
};

static bool must_stop(const struct eval_run *run)
{
    return run->stop && atomic_load(run->stop) != 0;
}

static int list_files(const struct eval_run *run, const json_t *question, char ***ret_ids)
{
    const json_t *file;
    size_t i;

    *ret_ids = NULL;
    json_array_foreach (json_object_get(question, "files"), i, file) {
        const char *id = json_string_value(json_object_get(run->files, json_string_value(file)));

        if (!id || strv_add(ret_ids, id) < 0) {
            strv_free(*ret_ids);
            return -ENOMEM;
        }
    }
    return 0;
}

/* Those of the question, or those of the run. */
static int list_sources(const struct eval_run *run, const json_t *question, char ***ret_names)
{
    const json_t *list = json_object_get(question, "sources"), *name;
    int r = 0;
    size_t i;

    *ret_names = NULL;
    for (char *const *given = run->sources; r == 0 && !list && given && *given; given++)
        r = strv_add(ret_names, *given);
    json_array_foreach (list, i, name)
        if (r == 0)
            r = strv_add(ret_names, json_string_value(name));
    if (r < 0)
        strv_free(*ret_names);
    return r;
}

/* To the end of its answer. */
static json_t *ask_one(const struct eval_run *run, const json_t *question)
{
    struct agent_question asked = { .query = eval_string(question, "question"),
                                    .model = run->model,
                                    .no_examples = true };
    struct answer *answer = NULL;
    struct fault fault = { 0 };
    json_t *response, *result;
    char **ids = NULL, **names = NULL;
    bool told = false;

    if (list_sources(run, question, &names) < 0)
        return NULL;
    if (list_files(run, question, &ids) < 0) {
        strv_free(names);
        return NULL;
    }
    asked.attachments = (const char *const *) ids;
    asked.sources = (const char *const *) names;
    if (agent_ask(run->agent, run->caller, &asked, &answer, &fault) < 0) {
        strv_free(ids);
        strv_free(names);
        return eval_score(question, NULL, fault.detail);
    }
    while (!answer_wait(answer, LOOK_US))
        if (must_stop(run) && !told) {
            answer_stop(answer);
            told = true;
        }
    response = answer_to_json(answer);
    result = response && !told ? eval_score(question, response, NULL) : NULL;
    (void) agent_forget(run->agent, run->caller, answer_chat_id(answer), &fault);
    json_decref(response);
    answer_unref(answer);
    strv_free(ids);
    strv_free(names);
    return result;
}

static void *work_main(void *arg)
{
    struct running *running = arg;
    const struct eval_run *run = running->run;
    const json_t *questions = run->set->questions;

    for (;;) {
        json_t *result;
        size_t i;

        pthread_mutex_lock(&running->lock);
        i = running->next++;
        pthread_mutex_unlock(&running->lock);
        if (i >= json_array_size(questions) || must_stop(run))
            return NULL;
        result = ask_one(run, json_array_get(questions, i));
        pthread_mutex_lock(&running->lock);
        running->results[i] = result;
        running->failed |= !result && !must_stop(run);
        running->done++;
        running->passed += json_is_true(json_object_get(result, "passed")) ? 1 : 0;
        if (run->progress)
            run->progress(run->arg, running->done, running->passed);
        pthread_mutex_unlock(&running->lock);
    }
}

json_t *eval_run(const struct eval_run *run)
{
    size_t count = eval_count(run->set), jobs = run->jobs < count ? run->jobs : count, begun = 0;
    struct running running = { .run = run, .lock = PTHREAD_MUTEX_INITIALIZER };
    autofree pthread_t *threads = calloc(jobs + 1, sizeof *threads);
    json_t *results = json_array();

    running.results = calloc(count + 1, sizeof *running.results);
    while (results && threads && running.results && begun < jobs &&
           pthread_create(&threads[begun], NULL, work_main, &running) == 0)
        begun++;
    for (size_t i = 0; i < begun; i++)
        (void) pthread_join(threads[i], NULL);
    for (size_t i = 0; running.results && i < count; i++)
        if (running.results[i])
            running.failed |= json_array_append_new(results, running.results[i]) < 0;
    free(running.results);
    if (begun > 0 && !running.failed)
        return results;
    json_decref(results);
    return NULL;
}
