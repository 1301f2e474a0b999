/*
 * Which directories boxes of Mark may mount: those of --source-root, and those of the sources of
 * files that there are when a service starts. Clients cannot mount them as volumes of their own.
 */
#pragma once

#include "cli/options/options.h"
#include "engine/volumes.h"

struct service_config;
struct store;

struct source_roots {
    struct volume_root items[VOLUME_ROOTS_MAX]; /* the operator's --volume-root first */
    size_t len, inner_len;                      /* so many of them at the end are Mark's */
    char **directories;                         /* what some of them point to */
};

/* Adds Mark's to @roots, which may have those of --volume-root. @store may be NULL: only those of
 * --source-root. A directory of a source that is gone is told and left out. */
int source_roots_add(const struct config *cfg, struct store *store, struct source_roots *roots,
                     struct gb_err *err);
/* For the engine; they must stay valid. */
void source_roots_fill(const struct source_roots *roots, struct service_config *config);
void source_roots_release(struct source_roots *roots);
