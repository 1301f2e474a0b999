/* What the supervisor's side of the engine shares among its files. */
#pragma once

#include <pthread.h>

#include "engine/engine.h"

/* A tenant and our ends of its pipes: 0 is for writing, 1 and 2 for reading; they do not block. */
struct piped_tenant {
    struct tenant *tenant;
    int ends[3];
};

struct box {
    struct engine *engine;
    struct box *next; /* in the engine's list of all boxes */
    uint32_t id;
    uint32_t host_id;
    struct limits limits;
    int pidfd, lifeline, root; /* held so that a new builder can be given them */
    int cgroup_fds[CGROUP_FDS_MAX];
    size_t cgroup_fds_len;
    uint32_t cgroup_into;
    bool ready;                    /* in the pool */
    struct piped_tenant spare;     /* cloned ahead */
    struct session_state *session; /* of session.c; NULL until something runs that stays */
    uint64_t files_changed;        /* counts our own changes to the files; atomic */
    struct tenant *standing[2];    /* residents and shells that are known to be there */
    bool standing_command[2];      /* it is a program of its own, not a clone of a template */
};

/* Registers what stays in the box, as far as there is room: with a known number of processes nobody
 * has to be asked for a list of them. */
void box_stand(struct box *box, struct tenant *tenant, bool command);
void box_unstand(struct box *box, const struct tenant *tenant);

void session_state_free(struct session_state *state); /* accepts NULL */

/* Clones a tenant ahead, for the next execution. */
int box_prepare(struct box *box, struct gb_err *err);

/* Empties the box after an execution: kills what still runs, counts for the last time, and takes a
 * picture of the files. */
int box_finish(struct box *box, struct cgroup_usage *ret_usage, enum limit_kind *ret_disk,
               struct snapshot *ret_files, struct gb_err *err);

/* The tenant for an execution: the one cloned ahead, or a new one. All of it is the caller's. */
int box_take_tenant(struct box *box, struct piped_tenant *ret_tenant, struct gb_err *err);

/* Three pipes: our ends, which do not block, and theirs. */
int pipes_make(int ours[3], int theirs[3], struct gb_err *err);

/* A process that was started with @control, which it takes over like @pidfd; waits for its seal. */
int tenant_adopt(struct box *box, int pidfd, int control, struct tenant **ret_tenant,
                 struct gb_err *err);

/* Takes over the memory file that came with an answer. */
int snapshot_map(const struct builder_reply *reply, const int *fds, size_t fds_len,
                 struct snapshot *ret_snapshot, struct gb_err *err);

/* The environment of every tenant: NAME=value, each ended by NUL, an empty one ends all. */
void engine_tenant_env(const struct engine *engine, char *block, size_t size);

/* One request to the builder; replaces a dead builder and tries once more. Descriptors of the reply
 * are the caller's. @ret_fds may be NULL when none are expected. */
int engine_call(struct engine *engine, const struct builder_request *request, const int *fds,
                size_t fds_len, struct builder_reply *ret_reply, int *ret_fds, size_t *ret_fds_len,
                struct gb_err *err);

/* One clone request to the template; replaces a dead template and tries once more. */
int engine_clone(struct engine *engine, const struct clone_request *request, const int *fds,
                 size_t fds_len, struct clone_reply *ret_reply, int *ret_pidfd, struct gb_err *err);

const struct engine_config *engine_get_config(const struct engine *engine);
enum cgroup_mode engine_get_cgroup_mode(const struct engine *engine);
