/*
 * The models that there are: those the operator named, those of the vendors' variables, those of
 * servers on this machine, and the demo, in this order. The first is the default.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/text/parse.h"
#include "mark/llm/cassette.h"
#include "mark/llm/internal.h"
#include "mark/llm/known.h"
#include "mark/llm/local.h"
#include "mark/llm/net.h"
#include "mark/llm/spec.h"

#include "base/banned.h"

#define CONNECT_US      (10 * USEC_PER_SEC)
#define IDLE_US         (120 * USEC_PER_SEC)
#define REPLY_BYTES_MAX (INT64_C(64) * 1024 * 1024)
#define RETRIES         2

/* Where nothing is said. The first is for servers elsewhere; Ollama cuts longer prompts silently
 * unless it is told otherwise, see docs/MARK.md. */
#define CONTEXT_UNKNOWN 32768
#define CONTEXT_LOCAL   8192
#define CONTEXT_OLLAMA  4096
#define CONTEXT_DEMO    32768

struct llm_models {
    struct net *net;
    struct llm_model **items;
    size_t len, cap;
    const struct llm_model *first; /* the default, if it is not the first of the list */
};

static void model_free(struct llm_model *model)
{
    if (!model)
        return;
    if (model->key)
        explicit_bzero(model->key, strlen(model->key));
    free(model->name);
    free(model->model);
    free(model->url);
    free(model->responses_url);
    free(model->where);
    free(model->key);
    free(model->source);
    free(model->learned);
    script_free(model->script);
    cassette_free(model->cassette);
    free(model);
}

static struct llm_model *model_new(const struct llm_config *config, struct llm_models *models,
                                   enum llm_kind kind, const char *name, const char *id,
                                   const char *source)
{
    struct llm_model *model = calloc(1, sizeof *model);

    if (!model)
        return NULL;
    model->kind = kind;
    model->name = strdup(name);
    model->model = strdup(id);
    model->source = strdup(source);
    model->learned = calloc(1, sizeof *model->learned);
    model->price = (struct llm_price){ -1, -1, -1 };
    model->net = models->net;
    model->recorder = config->recorder;
    model->connect_us = config->connect_us > 0 ? config->connect_us : CONNECT_US;
    model->idle_us = config->idle_us > 0 ? config->idle_us : IDLE_US;
    model->reply_bytes_max =
        config->reply_bytes_max > 0 ? config->reply_bytes_max : REPLY_BYTES_MAX;
    model->retries = config->retries >= 0 ? config->retries : RETRIES;
    if (model->name && model->model && model->source && model->learned)
        return model;
    model_free(model);
    return NULL;
}

/* Takes @model over, also when it fails. */
static int add(struct llm_models *models, struct llm_model *model, struct gb_err *err)
{
    struct llm_model **grown = grow(models->items, &models->cap, models->len + 1, sizeof *grown, 4);

    if (!grown) {
        model_free(model);
        return gb_fail(err, ENOMEM, "open the models");
    }
    models->items = grown;
    grown[models->len++] = model;
    return 0;
}

static const char *variable(char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; env && *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return (*env)[len + 1] ? *env + len + 1 : NULL;
    return NULL;
}

/* ---- those of the operator ---- */

/* The file of NAME=FILE for @name; the last counts. */
static const char *key_file_for(const struct llm_config *config, const char *name)
{
    size_t len = strlen(name);
    const char *file = NULL;

    for (char *const *k = config->model_keys; k && *k; k++)
        if (strncmp(*k, name, len) == 0 && (*k)[len] == '=')
            file = *k + len + 1;
    return file;
}

/* The key of the vendor's variable; a blank or newline around it is a slip of the shell. */
static int take_variable(struct llm_model *model, const char *value, const char *name,
                         struct gb_err *err)
{
    size_t start = strspn(value, " \t\r\n"), len = strlen(value);

    while (len > start && strchr(" \t\r\n", value[len - 1]))
        len--;
    model->key = strndup(value + start, len - start);
    if (!model->key)
        return gb_fail(err, ENOMEM, "open the models");
    if (!spec_key_is_good(model->key))
        return gb_fail_plain(err, EINVAL, "%s must be one word of printable ASCII", name);
    return 0;
}

static int find_key(const struct llm_config *config, const struct model_spec *spec,
                    struct llm_model *model, struct gb_err *err)
{
    const char *file = key_file_for(config, spec->name);
    const char *name = spec->kind == LLM_KIND_ANTHROPIC ? "ANTHROPIC_API_KEY" : "OPENAI_API_KEY";
    const char *value = variable(config->environ, name);

    if (file)
        return spec_read_key(file, &model->key, err);
    /* A vendor's key is for the vendor's server. */
    return !spec->url && value ? take_variable(model, value, name, err) : 0;
}

static int open_spec(const struct llm_config *config, struct llm_models *models,
                     const struct model_spec *spec, struct gb_err *err)
{
    struct llm_model *model = model_new(config, models, spec->kind, spec->name,
                                        spec->kind == LLM_KIND_SCRIPT     ? "script"
                                        : spec->kind == LLM_KIND_CASSETTE ? "cassette"
                                        : spec->model                     ? spec->model
                                                                          : "demo",
                                        "--model");
    const char *url = spec->url;
    int r = 0;

    if (!model)
        return gb_fail(err, ENOMEM, "open the models");
    model->context = CONTEXT_DEMO;
    if (spec->kind == LLM_KIND_SCRIPT) {
        r = script_open(spec->model, &model->script, err);
        if (r == 0 && script_context(model->script) > 0)
            model->context = script_context(model->script);
    } else if (spec->kind == LLM_KIND_CASSETTE) {
        r = cassette_open(spec->model, spec->name, &model->cassette, err);
        if (r == 0 && cassette_context(model->cassette) > 0)
            model->context = cassette_context(model->cassette);
    } else if (spec->kind != LLM_KIND_DEMO) {
        if (!url)
            url = spec->kind == LLM_KIND_ANTHROPIC ? ANTHROPIC_URL : OPENAI_URL;
        r = find_key(config, spec, model, err);
        if (r == 0)
            r = spec_endpoint(spec->kind, url, model, err);
        model->context = model->loopback ? CONTEXT_LOCAL : CONTEXT_UNKNOWN;
        known_fill(model);
    }
    if (r < 0) {
        model_free(model);
        return r;
    }
    return add(models, model, err);
}

static int open_specs(const struct llm_config *config, struct llm_models *models,
                      struct gb_err *err)
{
    for (char *const *m = config->models; m && *m; m++) {
        struct model_spec spec;
        int r = spec_parse(*m, &spec, err);

        if (r < 0)
            return r;
        if (llm_model_find(models, spec.name))
            r = gb_fail_plain(err, EINVAL, "two models are called '%s'; rename one", spec.name);
        else
            r = open_spec(config, models, &spec, err);
        spec_release(&spec);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_keys(const struct llm_config *config, const struct llm_models *models,
                      struct gb_err *err)
{
    for (char *const *k = config->model_keys; k && *k; k++) {
        const char *equals = strchr(*k, '=');
        autofree char *name = strndup(*k, equals ? (size_t) (equals - *k) : 0);
        char quoted[FORMAT_QUOTED_MAX];

        if (!name)
            return gb_fail(err, ENOMEM, "open the models");
        format_quoted(equals ? name : "", quoted); /* never what may be a key */
        if (!equals || !equals[1])
            return gb_fail_plain(err, EINVAL, "--model-key wants NAME=FILE");
        if (!*name || !llm_model_find(models, name))
            return gb_fail_plain(err, EINVAL, "--model-key %s: no --model has this name", quoted);
    }
    return 0;
}

/* ---- those of the vendors' variables ---- */

static const struct vendor {
    enum llm_kind kind;
    const char *key, *url, *model;
    const char *default_url, *default_model;
} vendors[] = {
    { LLM_KIND_OPENAI, "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", OPENAI_URL,
      OPENAI_DEFAULT_MODEL },
    { LLM_KIND_ANTHROPIC, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL",
      ANTHROPIC_URL, ANTHROPIC_DEFAULT_MODEL },
};

/* A name that is still free, or -EEXIST. */
static int free_name(const struct llm_models *models, const char *wanted, const char *more,
                     char *buf, size_t size)
{
    if (snprintf(buf, size, "%s", wanted) < (int) size && !llm_model_find(models, buf))
        return 0;
    if (snprintf(buf, size, "%s@%s", wanted, more) < (int) size && !llm_model_find(models, buf))
        return 0;
    return -EEXIST;
}

/* A server of this machine can be asked what it has. */
static char *ask_for_model(struct net *net, const char *base)
{
    struct net_url url;
    const char *why;

    return net_url_read(base, &url, &why) == 0 && url.loopback ? local_first(net, base) : NULL;
}

static int open_vendor(const struct llm_config *config, struct llm_models *models,
                       const struct vendor *vendor, struct gb_err *err)
{
    const char *key = variable(config->environ, vendor->key);
    const char *url = variable(config->environ, vendor->url);
    const char *id = variable(config->environ, vendor->model);
    autofree char *listed = NULL;
    struct llm_model *model;
    char name[300];
    int r = 0;

    if (!id && url && vendor->kind == LLM_KIND_OPENAI)
        id = listed = ask_for_model(models->net, url);
    if (!key && !(url && id)) /* a server without keys is named by the other two */
        return 0;
    id = id ? id : vendor->default_model;
    if (free_name(models, id, vendor->kind == LLM_KIND_ANTHROPIC ? "anthropic" : "openai", name,
                  sizeof name) < 0)
        return 0;
    model = model_new(config, models, vendor->kind, name, id, key ? vendor->key : vendor->url);
    if (!model)
        return gb_fail(err, ENOMEM, "open the models");
    if (key)
        r = take_variable(model, key, vendor->key, err);
    if (r == 0)
        r = spec_endpoint(vendor->kind, url ? url : vendor->default_url, model, err);
    if (r < 0) {
        model_free(model);
        return r;
    }
    model->context = model->loopback ? CONTEXT_LOCAL : CONTEXT_UNKNOWN;
    known_fill(model);
    return add(models, model, err);
}

/* ---- those of this machine ---- */

static int open_local(const struct llm_config *config, struct llm_models *models,
                      const struct local_model *local, struct gb_err *err)
{
    struct llm_model *model;
    char port[16], name[300], source[80], url[80];
    int64_t context = CONTEXT_LOCAL;
    int r;

    (void) snprintf(port, sizeof port, "%d", local->port);
    (void) snprintf(source, sizeof source, "%s at 127.0.0.1:%d", local->server, local->port);
    (void) snprintf(url, sizeof url, "http://127.0.0.1:%d/v1", local->port);
    if (free_name(models, local->model, port, name, sizeof name) < 0)
        return 0;
    model = model_new(config, models, LLM_KIND_OPENAI, name, local->model, source);
    if (!model)
        return gb_fail(err, ENOMEM, "open the models");
    r = spec_endpoint(LLM_KIND_OPENAI, url, model, err);
    if (r < 0) {
        model_free(model);
        return r;
    }
    if (strcmp(local->server, "Ollama") == 0 &&
        (parse_int(variable(config->environ, "OLLAMA_CONTEXT_LENGTH")
                       ? variable(config->environ, "OLLAMA_CONTEXT_LENGTH")
                       : "",
                   &context) < 0 ||
         context <= 0))
        context = CONTEXT_OLLAMA;
    model->context = local->context > 0 ? local->context : context;
    atomic_store(&model->learned->no_tools, local->no_tools);
    return add(models, model, err);
}

static int open_locals(const struct llm_config *config, struct llm_models *models,
                       struct gb_err *err)
{
    struct local_model *locals = NULL;
    size_t len = 0;
    int r = local_find(models->net, local_servers, local_servers_len, &locals, &len);

    if (r < 0)
        return gb_fail(err, -r, "look for local models");
    for (size_t i = 0; r == 0 && i < len; i++)
        r = open_local(config, models, &locals[i], err);
    local_free(locals, len);
    return r;
}

/* ---- all of them ---- */

static int open_demo(const struct llm_config *config, struct llm_models *models, struct gb_err *err)
{
    struct llm_model *model = model_new(config, models, LLM_KIND_DEMO, "demo", "demo", "built in");

    if (!model)
        return gb_fail(err, ENOMEM, "open the models");
    model->context = CONTEXT_DEMO;
    return add(models, model, err);
}

/* Makes the model that the operator names the default. */
static int choose_default(struct llm_models *models, const char *name, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX], list[100] = "";
    size_t len = 0;

    models->first = llm_model_find(models, name);
    if (models->first)
        return 0;
    for (size_t i = 0; i < models->len && len < sizeof list; i++)
        len += (size_t) snprintf(list + len, sizeof list - len, "%s%s", i > 0 ? ", " : "",
                                 models->items[i]->name);
    format_quoted(name, quoted);
    return gb_fail_plain(err, EINVAL, "no model is called %s; there are %s", quoted,
                         models->len > 0 ? list : "none");
}

int llm_models_open(const struct llm_config *config, struct llm_models **ret_models,
                    struct gb_err *err)
{
    struct llm_models *models = calloc(1, sizeof *models);
    int r;

    if (!models || !(models->net = net_new())) {
        free(models);
        return gb_fail(err, ENOMEM, "open the models");
    }
    r = open_specs(config, models, err);
    if (r == 0)
        r = check_keys(config, models, err);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(vendors); i++)
        r = open_vendor(config, models, &vendors[i], err);
    if (r == 0 && config->find_local)
        r = open_locals(config, models, err);
    if (r == 0 && config->demo && !llm_model_find(models, "demo"))
        r = open_demo(config, models, err);
    if (r == 0 && config->use && *config->use)
        r = choose_default(models, config->use, err);
    if (r < 0) {
        llm_models_close(models);
        return r;
    }
    *ret_models = models;
    return 0;
}

void llm_models_close(struct llm_models *models)
{
    if (!models)
        return;
    for (size_t i = 0; i < models->len; i++)
        model_free(models->items[i]);
    free(models->items);
    net_free(models->net);
    free(models);
}

const struct llm_model *llm_model_find(const struct llm_models *models, const char *name)
{
    if (!name || !*name)
        return models->first ? models->first : llm_model_at(models, 0);
    for (size_t i = 0; i < models->len; i++)
        if (strcmp(models->items[i]->name, name) == 0)
            return models->items[i];
    return NULL;
}

const struct llm_model *llm_model_at(const struct llm_models *models, size_t i)
{
    return i < models->len ? models->items[i] : NULL;
}

const struct llm_model *llm_model_demo(const struct llm_models *models)
{
    for (size_t i = 0; i < models->len; i++)
        if (llm_model_is_demo(models->items[i]))
            return models->items[i];
    return NULL;
}

const char *llm_model_name(const struct llm_model *model)
{
    return model->name;
}

bool llm_model_is_demo(const struct llm_model *model)
{
    return model->kind == LLM_KIND_DEMO;
}

bool llm_model_has_tools(const struct llm_model *model)
{
    if (model->kind == LLM_KIND_SCRIPT)
        return script_has_tools(model->script);
    if (model->kind == LLM_KIND_CASSETTE)
        return cassette_has_tools(model->cassette);
    return !atomic_load(&model->learned->no_tools);
}

size_t llm_model_drifted(const struct llm_model *model)
{
    return atomic_load(&model->learned->drifted);
}

int64_t llm_model_context(const struct llm_model *model)
{
    return model->context;
}

static json_t *price_json(const struct llm_price *price)
{
    if (price->prompt < 0)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:s, s:i, s:s}", "prompt", price->prompt, "cached",
                     price->cached, "completion", price->completion, "currency", "USD", "tokens",
                     1000000, "as_of", KNOWN_AS_OF);
}

json_t *llm_model_to_json(const struct llm_model *model)
{
    static const char *const providers[] = { [LLM_KIND_OPENAI] = "openai",
                                             [LLM_KIND_ANTHROPIC] = "anthropic",
                                             [LLM_KIND_SCRIPT] = "script",
                                             [LLM_KIND_CASSETTE] = "cassette",
                                             [LLM_KIND_DEMO] = "demo" };

    return json_pack("{s:s, s:s, s:s, s:b, s:I, s:o, s:b, s:s}", "name", model->name, "provider",
                     providers[model->kind], "model", model->model, "tools",
                     llm_model_has_tools(model), "context", (json_int_t) model->context, "price",
                     price_json(&model->price), "demo", llm_model_is_demo(model), "source",
                     model->source);
}
