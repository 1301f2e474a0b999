/*
 * Mark in our own process, for commands that need no server: a service and Mark over a store in a
 * scratch directory, which is gone afterwards. Who asks is the local caller, so there are no
 * accounts.
 */
#pragma once

#include <stdint.h>

#include "cli/cmd.h"
#include "cli/mark.h"
#include "cli/scratch.h"
#include "cli/source_roots.h"
#include "mark/mark.h"
#include "service/template/templates.h"

struct local {
    const struct config *cfg;
    struct mark_models models; /* the caller's: mark_models_read() */
    struct template_entry template;
    struct scratch scratch;
    struct source_roots roots; /* of files in the sources of the data directory */
    struct store *store;
    struct service *service;
    struct mark *mark;
    struct caller caller;
    struct store *sources;         /* of --source: that of the data directory; NULL: none */
    char *data_dir;                /* that directory */
    struct llm_recorder *recorder; /* of --record; NULL: none */
};

#define LOCAL_INIT(config, name)                                                                   \
    {                                                                                              \
        .cfg = (config), .scratch = SCRATCH_INIT, .caller = {                                      \
            .listener = (name),                                                                    \
            .limits = { -1, -1, -1 }                                                               \
        }                                                                                          \
    }

/* Opens everything but Mark. The caller closes it, also after a failure, and releases the models.
 */
int local_open(struct local *local, struct gb_err *err);
/* What options say, for local_open_mark(). */
void local_fill(const struct local *local, struct mark_config *config);
/* Closes one that is open first. */
int local_open_mark(struct local *local, const struct mark_config *config, struct gb_err *err);
/* Says what could not be recorded, and is below 0 then. */
int local_close(struct local *local);

/* A regular file that can be read. */
int local_open_file(const char *path, int *ret_fd, int64_t *ret_size, struct gb_err *err);
/* Attaches the file at @path; *@ret_id is for free(). */
int local_attach(struct local *local, const char *path, char **ret_id, struct fault *fault);
