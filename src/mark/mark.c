/*
 * Mark as a whole: its rooms, opened in the order in which they need each other and closed in the
 * reverse.
 *
 * A room that cannot be opened undoes those before it, so that there is either all of Mark or
 * nothing of it. Files that nobody owns any more, left by a service that was killed, are removed
 * after the start; that they cannot be is worth a line in the log, and no reason not to serve.
 */
#include "mark/mark.h"

#include <errno.h>
#include <stdlib.h>

#include "base/text/strv.h"
#include "mark/guests.h"

#include "base/banned.h"

struct mark {
    struct mark_config config;
    struct llm_models *models;
    struct auth *auth;
    struct attachments *attachments;
    struct sources *sources;
    struct broker *broker;
    struct budgets *budgets;
    struct agent *agent;
    struct verify *verify;
    struct exports *exports;
    struct guests *guests; /* NULL: there is nobody to remove them */
};

/* For the agent, which knows nothing of verified answers. */
static char *examples(void *arg, const struct caller *caller, const char *question, size_t max)
{
    const struct mark *mark = arg;

    return mark->verify ? verify_examples(mark->verify, caller, question, max) : NULL;
}

/* For verified answers that are shared. */
static bool may_use(void *arg, const struct caller *caller, const char *name)
{
    const struct mark *mark = arg;
    const char *const wanted[] = { name, NULL };
    struct fault ignored = { 0 };
    char **names = NULL;
    bool may = source_names(mark->sources, caller, wanted, &names, &ignored) == 0;

    strv_free(names);
    return may;
}

static int open_verify(struct mark *mark, struct gb_err *err)
{
    struct verify_config config = { .service = mark->config.service,
                                    .store = mark->config.store,
                                    .agent = mark->agent,
                                    .attachments = mark->attachments,
                                    .broker = mark->broker,
                                    .may_use = may_use,
                                    .arg = mark };

    return verify_open(&config, &mark->verify, err);
}

static int open_exports(struct mark *mark, struct gb_err *err)
{
    struct exports_config config = { .service = mark->config.service,
                                     .store = mark->config.store,
                                     .attachments = mark->attachments,
                                     .agent = mark->agent,
                                     .data_dir = mark->config.data_dir };

    return exports_open(&config, &mark->exports, err);
}

static int open_sources(struct mark *mark, struct gb_err *err)
{
    struct mark_config *config = &mark->config;
    int r;

    config->sources.service = config->service;
    if (!config->sources.store) {
        config->sources.store = config->store;
        config->sources.data_dir = config->data_dir;
    }
    r = sources_open(&config->sources, &mark->sources, err);
    if (r < 0)
        return r;
    config->broker.service = config->service;
    config->broker.store = config->store;
    config->broker.data_dir = config->data_dir;
    config->broker.sources = mark->sources;
    config->broker.calls = (struct broker_sources){ .grant = source_grant,
                                                    .release = grant_release,
                                                    .names = source_names,
                                                    .get = source_get,
                                                    .tables = source_tables,
                                                    .done = source_done };
    return broker_open(&config->broker, &mark->broker, err);
}

static int open_budgets(struct mark *mark, struct gb_err *err)
{
    struct budgets_config config = { .service = mark->config.service,
                                     .store = mark->config.store,
                                     .day = mark->config.budget };

    return budgets_open(&config, &mark->budgets, err);
}

static int open_rooms(struct mark *mark, struct gb_err *err)
{
    struct mark_config *config = &mark->config;
    int r = llm_models_open(&config->models, &mark->models, err);

    config->auth.store = config->store;
    config->auth.data_dir = config->data_dir;
    if (r == 0)
        r = auth_open(&config->auth, &mark->auth, err);
    config->attachments.service = config->service;
    config->attachments.store = config->store;
    config->attachments.data_dir = config->data_dir;
    if (r == 0)
        r = attachments_open(&config->attachments, &mark->attachments, err);
    if (r == 0)
        r = open_sources(mark, err);
    config->agent.sources = mark->sources;
    config->agent.broker = mark->broker;
    config->agent.service = config->service;
    config->agent.store = config->store;
    config->agent.data_dir = config->data_dir;
    config->agent.attachments = mark->attachments;
    config->agent.models = mark->models;
    if (r == 0)
        r = open_budgets(mark, err);
    config->agent.budgets = mark->budgets;
    config->agent.examples = examples;
    config->agent.examples_arg = mark;
    if (r == 0)
        r = agent_open(&config->agent, &mark->agent, err);
    if (r == 0)
        r = open_verify(mark, err);
    if (r == 0)
        r = open_exports(mark, err);
    if (r == 0 && config->guests)
        r = guests_open(mark, &mark->guests, err);
    return r;
}

int mark_open(const struct mark_config *config, struct mark **ret_mark, struct gb_err *err)
{
    struct mark *mark = calloc(1, sizeof *mark);
    struct gb_err swept = { 0 };
    int r;

    if (!mark)
        return gb_fail(err, ENOMEM, "start Mark");
    mark->config = *config;
    r = open_rooms(mark, err);
    if (r < 0) {
        mark_close(mark);
        return r;
    }
    if (attachments_sweep(mark->attachments, &swept) < 0)
        service_log(config->service, LOG_LEVEL_WARNING, "unused attachments remain: %s", swept.msg);
    *ret_mark = mark;
    return 0;
}

void mark_drain(struct mark *mark)
{
    if (!mark)
        return;
    guests_close(mark->guests);
    mark->guests = NULL;
    agent_drain(mark->agent);
}

void mark_close(struct mark *mark)
{
    if (!mark)
        return;
    guests_close(mark->guests); /* uses all the others */
    exports_close(mark->exports);
    agent_close(mark->agent); /* its threads use all the others */
    verify_close(mark->verify);
    broker_close(mark->broker);
    sources_close(mark->sources);
    budgets_close(mark->budgets);
    attachments_close(mark->attachments);
    auth_close(mark->auth);
    llm_models_close(mark->models);
    free(mark);
}

const char *mark_state(struct mark *mark)
{
    const struct llm_model *model = mark ? llm_model_find(mark->models, NULL) : NULL;

    if (!mark)
        return "off";
    if (!model)
        return "no-model";
    return llm_model_is_demo(model) ? "demo" : "ready";
}

struct service *mark_service(struct mark *mark)
{
    return mark->config.service;
}

struct auth *mark_auth(struct mark *mark)
{
    return mark->auth;
}

struct agent *mark_agent(struct mark *mark)
{
    return mark->agent;
}

struct sources *mark_sources(struct mark *mark)
{
    return mark->sources;
}

struct broker *mark_broker(struct mark *mark)
{
    return mark->broker;
}

struct attachments *mark_attachments(struct mark *mark)
{
    return mark->attachments;
}

struct exports *mark_exports(struct mark *mark)
{
    return mark->exports;
}

const struct llm_models *mark_models(struct mark *mark)
{
    return mark->models;
}

struct budgets *mark_budgets(struct mark *mark)
{
    return mark->budgets;
}

struct store *mark_store(struct mark *mark)
{
    return mark->config.store;
}

struct verify *mark_verify(struct mark *mark)
{
    return mark->verify;
}
