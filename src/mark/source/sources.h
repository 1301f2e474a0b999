/*
 * Data sources: what there is to ask, as whom, and what is in it.
 *
 * A source is made by an operator (a user who is one, or the local caller of a command) and shared
 * with those whom its access names. Its secrets are sealed with a key in the data directory
 * (vault.c), come out only for an order to the connector, and are in no JSON, log line or error.
 * What is not a caller's is not found.
 *
 * The catalogue is what the source says about its tables (info, replaced by every sync), and what
 * people wrote about them (notes, kept). catalogue.c joins the two and filters: a caller sees the
 * tables that its own role can read; samples and counts of tables with row policies, and samples of
 * masked columns, are not kept at all.
 */
#pragma once

#include "service/service.h"
#include "store/sources.h"

struct sources;
struct google_tokens;

struct sources_config {
    struct service
        *service; /* for catalogues of files, computed in a throw-away box; may be NULL */
    struct store *store;
    const char *data_dir;
    int64_t rows_max, bytes_max, us_max; /* ceilings of limits of sources; 0: 5,000,000 rows, 1 GiB,
                                            300 s */
    bool read_only; /* a command that only asks: the key must be there already */
};

int sources_open(const struct sources_config *config, struct sources **ret_sources,
                 struct gb_err *err);
void sources_close(struct sources *sources); /* accepts NULL; no call may be under way */

/* Tokens of Google's accounts, for google_tokens_keep() after an order of a grant. */
struct google_tokens *sources_tokens(struct sources *sources);

/* ---- making them (operators only: PROBLEM_NOT_OPERATOR) ---- */

/* @body as in POST /api/v1/sources, docs/MARK.md: {name, kind, ...; access?: [{who, role?, login?,
 * password?}]}. Secrets in @body are wiped. Nothing is asked yet. */
int source_add(struct sources *sources, const struct caller *caller, json_t *body,
               json_t **ret_json, struct fault *fault);
int source_change(struct sources *sources, const struct caller *caller, const char *id_or_name,
                  json_t *body, json_t **ret_json, struct fault *fault);
int source_remove(struct sources *sources, const struct caller *caller, const char *id_or_name,
                  struct fault *fault);
/* Connects and says what it found: {"ok", "checks": [{"name", "ok", "text"}]}. Waits. */
int source_check(struct sources *sources, const struct caller *caller, const char *id_or_name,
                 json_t **ret_json, struct fault *fault);
/* Reads the catalogue anew: {"tables", "added", "gone", "seconds"}. Waits. One at a time per
 * source. */
int source_sync(struct sources *sources, const struct caller *caller, const char *id_or_name,
                json_t **ret_json, struct fault *fault);

/* ---- looking at them (whoever has access) ---- */

/* {"sources": [...]}; without secrets. An operator sees all, with their settings; others see name,
 * kind, description and what they may. */
int source_list(struct sources *sources, const struct caller *caller, json_t **ret_json,
                struct fault *fault);
int source_get(struct sources *sources, const struct caller *caller, const char *id_or_name,
               json_t **ret_json, struct fault *fault);
/* {"tables": [...]} with columns and notes, by name; @q filters by words. */
int source_tables(struct sources *sources, const struct caller *caller, const char *id_or_name,
                  const char *q, json_t **ret_json, struct fault *fault);
int source_table(struct sources *sources, const struct caller *caller, const char *id_or_name,
                 const char *table, json_t **ret_json, struct fault *fault);
/* @body: {description?, synonyms?, columns?: [{name, description?, unit?, synonyms?, masked?}]}. */
int source_table_change(struct sources *sources, const struct caller *caller,
                        const char *id_or_name, const char *table, json_t *body, json_t **ret_json,
                        struct fault *fault);

/* ---- for the agent ---- */

/* A source as one caller may use it: name, kind, sealed credentials of the login, role. Keeps
 * nothing of the store open: if the source is removed meanwhile, the next query says so. */
struct grant {
    char id[STORE_ID_MAX], name[STORE_SOURCE_NAME_MAX], kind[16];
    json_t *order; /* "source", "masked" and "limits" of an order (connect.h), with secrets. Owned;
                      wiped by grant_release() */
    char *directory; /* of files; NULL otherwise */
    double price;    /* US dollars for 1 TiB billed; below 0: unknown */
};

int source_grant(struct sources *sources, const struct caller *caller, const char *id_or_name,
                 struct grant *ret_grant, struct fault *fault);
void grant_release(struct grant *grant);
/* After a query with @grant: keeps the access token that the connector's last message may have. */
void source_done(struct sources *sources, const struct grant *grant, const json_t *done);
/* Names of the sources that a caller may use, of @wanted (ids or names, NULL: all): a
 * NULL-terminated array for strv_free(). An unknown one is a fault. */
int source_names(struct sources *sources, const struct caller *caller, const char *const *wanted,
                 char ***ret_names, struct fault *fault);

/* What fits of the catalogue of @names into @max bytes, most relevant to @question first, as text
 * for a model: tables with columns in full, then names only; it says what was left out. Everything
 * in it is data of strangers: the caller fences it. NULL: out of memory; "": there is nothing. */
char *catalogue_text(struct sources *sources, const struct caller *caller, char *const *names,
                     const char *question, size_t max);
/* One table in full, for the tool describe_table, or words that say what there is. */
char *catalogue_table_text(struct sources *sources, const struct caller *caller, char *const *names,
                           const char *source, const char *table, size_t max);
