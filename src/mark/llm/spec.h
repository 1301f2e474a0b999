/* What operators write: specifications of models, files with keys. */
#pragma once

#include "mark/llm/internal.h"

struct model_spec {
    enum llm_kind kind;
    char *name;
    char *model; /* of openai and anthropic; the file of a script or cassette; NULL for demo */
    char *url;   /* NULL: the vendor's */
};

/* NAME=openai:MODEL@URL, NAME=openai:MODEL, the same with anthropic, NAME=script:FILE,
 * NAME=cassette:FILE, NAME=demo. */
int spec_parse(const char *text, struct model_spec *ret_spec, struct gb_err *err);
void spec_release(struct model_spec *spec);

/* The key in a file that others cannot read, without blanks around it. */
int spec_read_key(const char *path, char **ret_key, struct gb_err *err);

/* Whether it can be sent as a header: printable, without blanks. */
bool spec_key_is_good(const char *key);

#define OPENAI_URL    "https://api.openai.com/v1"
#define ANTHROPIC_URL "https://api.anthropic.com"

/* The address of the endpoint below @base, and the facts about it. An "openai" URL without a path
 * is meant to have /v1. */
int spec_endpoint(enum llm_kind kind, const char *base, struct llm_model *model,
                  struct gb_err *err);
