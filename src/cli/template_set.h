/* The packages of a template, for `glovebox template` and `glovebox serve --set-up`. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct config;
struct service;
struct template_entry;

/* What a package template is made of. */
struct template_set {
    char **wanted;       /* requirements, NULL-terminated */
    const char *lock;    /* text of a lock file that says which files; NULL: none */
    const char *preload; /* of a preset; NULL: to be found out */
    char *lock_text;     /* what @lock points to, if it was read */
};

void template_set_release(struct template_set *set);

/* Whether the options ask for a set, not for an interpreter. */
bool template_set_named(const struct config *cfg);

/* From --packages, --lock, --preset, or the name of the template itself. */
int template_set_find(const struct config *cfg, struct template_set *ret_set, struct gb_err *err);

/* Reads a file that may be anything; lock_check() checks its content. */
int template_lock_read(const char *path, char **ret_text, struct gb_err *err);

/* A service that installs into an empty environment. */
int template_set_open(const struct config *cfg, const char *data_dir,
                      const struct template_set *set, struct service **ret_service,
                      struct gb_err *err);

/* Installs it, with progress on stderr, and fills the entry except for its name. */
int template_set_install(const struct config *cfg, const char *data_dir,
                         const struct template_set *set, struct template_entry *entry,
                         struct gb_err *err);

/* `glovebox template update`: makes a new lock file and prints what has changed. */
int template_set_update(const struct config *cfg, const char *data_dir, struct gb_err *err);
