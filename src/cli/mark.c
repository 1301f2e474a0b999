#include "cli/mark.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/parse.h"
#include "base/text/strv.h"
#include "mark/mark.h"

#include "base/banned.h"

const char mark_model_hint[] = "set OPENAI_API_KEY or ANTHROPIC_API_KEY, start Ollama, LM Studio, "
                               "llama.cpp or vLLM on this machine, or give --model";

/* ---- which models ---- */

/* Whether @list has an item that begins as @item does, up to its "=". */
static bool has_name(char *const *list, const char *item)
{
    size_t len = strcspn(item, "=") + 1;

    for (; list && *list; list++)
        if (strncmp(*list, item, len) == 0)
            return true;
    return false;
}

/* Keys of models that come after "none" are not for us. */
static int read_keys(const struct config *cfg, struct mark_models *models)
{
    for (char **key = cfg->model_keys; key && *key; key++)
        if (!has_name(models->keys, *key) && (models->others || has_name(models->models, *key)) &&
            strv_add(&models->keys, *key) < 0)
            return -ENOMEM;
    return 0;
}

int mark_models_read(const struct config *cfg, struct mark_models *ret_models, struct gb_err *err)
{
    ret_models->others = true;
    for (char **item = cfg->models; item && *item; item++) {
        if (strcmp(*item, "none") == 0) {
            ret_models->others = false;
            break;
        }
        if (!strchr(*item, '=')) {
            ret_models->use = ret_models->use ? ret_models->use : *item;
        } else if (!has_name(ret_models->models, *item) &&
                   strv_add(&ret_models->models, *item) < 0) {
            return gb_fail(err, ENOMEM, "read --model");
        }
    }
    return read_keys(cfg, ret_models) < 0 ? gb_fail(err, ENOMEM, "read --model-key") : 0;
}

void mark_models_release(struct mark_models *models)
{
    strv_free(models->models);
    strv_free(models->keys);
    *models = (struct mark_models){ 0 };
}

/* ---- the rest ---- */

_Static_assert(AUTH_SIGNUP_AUTO == 0 && AUTH_SIGNUP_OPEN == 1 && AUTH_SIGNUP_INVITE == 2 &&
                   AUTH_SIGNUP_CLOSED == 3,
               "the choices of --signup follow enum auth_signup");
_Static_assert(AGENT_AUDIT_HASH == 0 && AGENT_AUDIT_WHOLE == 1,
               "the choices of --mark-audit follow enum agent_audit");

void mark_fill(const struct config *cfg, const struct mark_models *models,
               struct mark_config *config)
{
    config->models.models = models->models;
    config->models.model_keys = models->keys;
    config->models.use = models->use;
    config->models.environ = models->others ? environ : NULL;
    config->models.find_local = models->others;
    config->models.demo = models->others;
    config->models.retries = -1;
    config->auth.signup = (enum auth_signup) cfg->signup;
    config->attachments.file_bytes_max = cfg->attachment_bytes;
    config->attachments.owner_bytes_max = cfg->attachments_bytes;
    config->agent.gate = cfg->mark_gate;
    config->agent.installs = cfg->mark_packages;
    config->agent.strict = cfg->mark_strict;
    config->agent.audit = (enum agent_audit) cfg->mark_audit;
    config->agent.steps_max = cfg->mark_steps;
    config->agent.seconds_max_us = cfg->mark_us;
    config->agent.tokens_max = cfg->mark_tokens;
    config->agent.cost_max = (double) cfg->mark_cost / 1000;
    config->budget = (struct store_spent){ .bytes = cfg->budget_bytes,
                                           .cost = 1000 * cfg->budget_cost,
                                           .tokens = cfg->budget_tokens,
                                           .us = cfg->budget_us };
}

bool mark_options_are_wrong(const struct gb_err *err)
{
    static const int codes[] = { EINVAL, ENOENT, ENOTDIR, EISDIR, EACCES, E2BIG, EFBIG, EEXIST };

    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (err->code == codes[i])
            return true;
    return false;
}

/* ---- the doctor ---- */

#define PROBE_US (3 * USEC_PER_SEC)

int mark_models_look(const struct config *cfg, json_t **ret_models, struct gb_err *err)
{
    struct mark_models read = { 0 };
    struct mark_config config = { 0 };
    struct llm_models *models = NULL;
    json_t *list = json_array();
    int r = mark_models_read(cfg, &read, err);

    mark_fill(cfg, &read, &config);
    config.models.demo = false;
    if (r == 0)
        r = llm_models_open(&config.models, &models, err);
    for (size_t i = 0; r == 0 && llm_model_at(models, i); i++) {
        const struct llm_model *model = llm_model_at(models, i);
        char why[LLM_PROBE_MAX] = "";
        bool good = llm_model_probe(model, PROBE_US, why) == 0;
        json_t *json = llm_model_to_json(model);

        (void) json_object_set_new(json, "reachable", json_boolean(good));
        (void) json_object_set_new(json, "reason", json_string(why));
        (void) json_array_append_new(list, json);
    }
    llm_models_close(models);
    mark_models_release(&read);
    if (r < 0)
        json_decref(list);
    else
        *ret_models = list;
    return r;
}

/* ---- the welcome ---- */

void mark_print_welcome(struct mark *mark)
{
    const struct llm_model *model = llm_model_find(mark_models(mark), NULL);
    json_t *json = model ? llm_model_to_json(model) : NULL;
    const char *source = json_string_value(json_object_get(json, "source"));
    char name[FORMAT_QUOTED_MAX], from[FORMAT_QUOTED_MAX];

    if (!model) {
        printf("  mark     has no model; %s\n", mark_model_hint);
    } else if (llm_model_is_demo(model)) {
        printf("  mark     only shows a demo; for a model of your own, %s\n", mark_model_hint);
    } else {
        format_quoted(llm_model_name(model), name);
        format_quoted(source ? source : "", from);
        printf("  mark     answers with the model %s (%s)\n", name, from);
    }
    json_decref(json);
}
