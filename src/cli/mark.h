/* The options of Mark as its configuration, for all commands that open it. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "cli/options/options.h"

struct mark;
struct mark_config;

/* What --model and --model-key say. */
struct mark_models {
    char **models, **keys; /* definitions; NULL: none */
    const char *use;       /* the name of the one to use; NULL: the first. Of the options */
    bool others;           /* those of the environment and of this machine count too */
};

/* Sorts the values of --model: definitions, of which the first of a name counts; a name alone; and
 * none, after which nothing counts. The caller releases it, also after a failure. */
int mark_models_read(const struct config *cfg, struct mark_models *ret_models, struct gb_err *err);
void mark_models_release(struct mark_models *models);

/* Fills the members that options decide. Service, store and data_dir are the caller's; so are
 * @models, which must stay valid. */
void mark_fill(const struct config *cfg, const struct mark_models *models,
               struct mark_config *config);

/* Whether mark_open() failed because of what the options say, such as a file that does not exist.
 */
bool mark_options_are_wrong(const struct gb_err *err);

/* The models that serve would have, as the doctor shows them: each as in GET /api/v1/models, with
 * reachable and reason. Asks each server, and waits; the demo is not listed. The caller owns the
 * array. */
int mark_models_look(const struct config *cfg, json_t **ret_models, struct gb_err *err);

/* "set OPENAI_API_KEY ...": what to do to get a model. One sentence without its full stop. */
extern const char mark_model_hint[];

/* A line of the welcome of `glovebox serve` about Mark. */
void mark_print_welcome(struct mark *mark);
