/* What the files about sources share: sources.c (making and showing them), settings.c (bodies),
 * access.c (who, and as whom), sync.c, notes.c, catalogue.c, relevance.c. */
#pragma once

#include <pthread.h>

#include "mark/source/sources.h"

#define SOURCE_TRIES 20 /* of an edit that others overtake */

struct sources {
    struct sources_config config;
    char *data_dir;
    pthread_mutex_t lock; /* guards the list of those that are synced; held for a few steps */
    char **syncing;       /* ids, for strv_free() */
    struct google_tokens *tokens;
};

/* A failure of the store, of a file, or of the vault; -ENOENT is an unknown source. */
int source_fault(int r, const struct gb_err *err, struct fault *fault);
int source_unknown(const char *id_or_name, struct fault *fault);
/* Zeroes every text in @json, which is about to be released. Accepts NULL. */
void source_wipe(json_t *json);
/* JSON of the store; NULL: there is none, or it is damaged. */
json_t *source_stored(const char *text);

/* ---- who asks (access.c) ---- */

struct whom {
    bool is_operator, is_local, is_guest;
    char who[STORE_WHO_MAX];                                             /* "" if local */
    char email[STORE_WHO_MAX], user_id[STORE_ID_MAX], key[STORE_ID_MAX]; /* "" if it has none */
};

int whom_find(struct sources *sources, const struct caller *caller, struct whom *ret_whom,
              struct fault *fault);
/* PROBLEM_NOT_OPERATOR unless the caller is one. */
int whom_operator(struct sources *sources, const struct caller *caller, struct whom *ret_whom,
                  struct fault *fault);

/* A source with its access, and the row that is the caller's. */
struct held {
    struct store_source source;
    struct store_access *access;
    size_t access_len;
    const struct store_access *row; /* NULL: none names the caller */
    json_t *settings;
};

/* SOURCE_UNKNOWN also if the caller may not know of it. */
int held_find(struct sources *sources, const struct whom *whom, const char *id_or_name,
              struct held *ret_held, struct fault *fault);
/* All that the caller may know of, by name. */
int held_list(struct sources *sources, const struct whom *whom, struct held **ret_list,
              size_t *ret_len, struct fault *fault);
void held_release(struct held *held);
void held_free(struct held *list, size_t len);

/* Whether queries of the caller are allowed: its row, or it is local. */
bool held_usable(const struct held *held, const struct whom *whom);

/* As whom the database is used: two who are the same see the same. */
#define IDENTITY_MAX (2 * STORE_ID_MAX)
struct identity {
    const char *login, *role; /* "": none */
};
struct identity identity_of(const json_t *settings, const struct store_access *row);
void identity_text(const struct identity *identity, char buf[IDENTITY_MAX]);

/* The secret of a source itself. */
int secret_seal(struct sources *sources, const char *id, const char *plain, char **ret_sealed,
                struct fault *fault);

/* "source" and "limits" of an order, with secrets. */
int order_make(struct sources *sources, const struct held *held, const struct store_access *row,
               const struct whom *whom, json_t **ret_order, struct fault *fault);

/* Rows of access from "access" of a body; @old: those that there are, whose passwords are kept
 * where nothing else is said, unless @moved. */
int access_from_body(struct sources *sources, const char *source_id, const char *kind,
                     const json_t *body, const struct held *old, bool moved,
                     struct store_access **ret_access, size_t *ret_len, struct fault *fault);
json_t *access_to_json(const struct held *held);

/* ---- bodies (settings.c) ---- */

struct settings {
    json_t *json;
    char *secret; /* plain, or NULL if none was given; for vault_wipe() */
    bool moved;   /* the server or the login is another than before */
};

/* @old NULL: a new source. Only members of sources of @kind are allowed. */
int settings_from_body(const struct sources *sources, const char *kind, const json_t *old,
                       const json_t *body, struct settings *ret_settings, struct fault *fault);
void settings_release(struct settings *settings);
int settings_text(const json_t *object, const char *name, size_t max, const char **ret_text,
                  struct fault *fault);

/* Copies a text member as it is, or removes it if it is null or empty. 1: it was there. */
int settings_copy_text(json_t *to, const json_t *body, const char *name, size_t max,
                       struct fault *fault);

/* ---- notes (notes.c) ---- */

/* What @body changes in the notes of a source ("joins", "examples"), or of a table; @notes may be
 * NULL, and is not changed. An empty result is NULL. */
int notes_of_source(const json_t *notes, const json_t *body, json_t **ret_notes,
                    struct fault *fault);
int notes_of_table(const json_t *notes, const json_t *info, const char *kind, const json_t *body,
                   json_t **ret_notes, struct fault *fault);
/* [{"table", "columns"}] of all masks of the source. */
int notes_masked(struct sources *sources, const char *source_id, json_t **ret_masked,
                 struct fault *fault);

/* ---- catalogue.c ---- */

/* How many tables the caller sees. */
int catalogue_count(struct sources *sources, const struct held *held, const struct whom *whom,
                    int64_t *ret_count, struct fault *fault);
