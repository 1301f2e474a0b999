/*
 * Sources of kind "files": directories of the operator, mounted read-only in boxes.
 *
 * Programs read the files themselves, so nothing of them passes through the host: not even their
 * names are looked at here but to tell which of them changed. A directory can be mounted if it was
 * known when the service started, or lies beneath a --source-root; the engine follows no links on
 * the way to it, and links inside it lead nowhere in a box (SECURITY-MODEL.md, Volumes). Clients
 * cannot mount it as a volume of their own: who may use a source says its access.
 */
#pragma once

#include "mark/source/sources.h"

#define FILES_PLACE       "/sources" /* in a box: /sources/NAME */
#define FILES_SOURCES_MAX 16         /* of one box */
#define FILES_STATE_MAX   1000       /* files whose state is kept */

/* Whether it can be a source: absolute, there, a directory that boxes can read, and neither the
 * whole machine nor near the data directory (NULL: not compared). */
int files_check(const char *directory, const char *data_dir, struct fault *fault);

/* Looks into its files in a throw-away box. The catalogue is as in connect/driver.h; a file that
 * cannot be read is a table whose comment says why. At most @samples of each column. Waits. */
int files_catalogue(struct service *service, const char *directory, int64_t samples,
                    json_t **ret_catalogue, struct fault *fault);

/* The directories of all sources of that kind, for the start of a service: NULL-terminated, for
 * strv_free(). */
int files_directories(struct store *store, char ***ret_directories, struct gb_err *err);

/* The mounts of a box. */
struct mounts {
    struct volume items[FILES_SOURCES_MAX]; /* owned; targets are FILES_PLACE/NAME */
    size_t len;
    json_t *left_out; /* sentences about those that cannot be mounted; NULL: all can */
};

/* Adds those of the sources among @names (may be NULL) that are files, and that the caller may use.
 * One whose directory is gone, or cannot be mounted by this service, is left out: it does not keep
 * a person from asking about other data. The caller releases them, also after a failure. */
int mounts_add(struct sources *sources, struct service *service, const struct caller *caller,
               char *const *names, struct mounts *mounts, struct fault *fault);
void mounts_release(struct mounts *mounts);
/* Whether a session with the volumes @volumes (session_info) has exactly these. */
bool mounts_are(const struct mounts *mounts, const json_t *volumes);
/* A fault of a session that could not be made because of them, in words of sources. */
void mounts_explain(const struct mounts *mounts, struct fault *fault);

/* {"NAME": {"orders.csv": [size, mtime in ns], ...}, ...}: what is there now, without links and
 * hidden files. NULL: there are none. */
json_t *mounts_state(const struct mounts *mounts);
/* Lines such as "archive/orders.csv was changed": how @now differs from @then. */
json_t *mounts_changes(const json_t *then, const json_t *now);
