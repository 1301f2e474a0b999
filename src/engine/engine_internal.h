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
    enum disk_kind disk;
    struct disk_watch *disk_watch; /* of engine_disk.c; NULL: nothing is to be watched */
    int pidfd, lifeline, root;     /* held so that a new builder can be given them */
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

/* ---- engine_disk.c ---- */

struct disk;

/* @path NULL: there are no workspaces on disk, and @ret_disk is NULL. */
int disk_open(const char *path, enum disk_kind wanted, struct disk **ret_disk, struct gb_err *err);
void disk_close(struct disk *disk);

enum disk_kind disk_kind_of(const struct disk *disk);
const char *disk_path(const struct disk *disk); /* "" if there is none */
const char *disk_note(const struct disk *disk);

/* Before a box is made. Refuses what does not fit; @ret_mount is filled for an image only. */
int disk_prepare(struct disk *disk, const struct limits *limits, int *ret_mount,
                 struct gb_err *err);

int disk_watch_new(struct disk_watch **ret_watch);
void disk_watch_free(struct disk_watch *watch); /* accepts NULL */

/* Has the builder remove what engines that died have left; for a while. */
void disk_sweep_start(struct engine *engine, struct disk *disk);

/* The same for the workspace of a box that has ended. */
void disk_sweep_box(struct box *box);

/* With how many free bytes the workspace counts as full. */
int64_t disk_slack(const struct box *box);

/* ENOSPC when the workspace has no room for so much more. */
int disk_room(struct box *box, int64_t more_bytes, struct gb_err *err);

struct disk *engine_get_disk(const struct engine *engine);

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

#define OUTER_FDS 3

/* A process of ours at the other end of a socket. */
struct peer {
    pthread_mutex_t lock;
    int socket; /* -EBADF: not running */
    int pidfd;
    pid_t pid;
};

struct engine {
    struct engine_config config;
    char *python, *preload, *lang, *tz; /* own copies */
    struct peer builder, template;
    bool template_ready;
    int32_t id_mode, cgroup_mode;
    char cgroup_name[CGROUP_NAME_MAX], disk_name[DISK_NAME_MAX], note[200];
    struct disk *disk; /* NULL: workspaces are in memory */
    struct volume_roots *volumes;
    int outer[OUTER_FDS]; /* keeper's lifeline, user and PID namespace of a rootless builder */
    int keeper_pidfd;     /* of the process that waits for the keeper */
    int lock_fds[64];     /* on ids and cgroups, of this and earlier builders */
    size_t lock_fds_len;

    pthread_mutex_t boxes_lock;
    struct box *boxes;
    uint32_t next_box;

    pthread_t pool_thread;
    pthread_cond_t pool_wanted;
    bool pool_running, pool_stop;
};

/* Waits for a child of ours, until it has ended. */
void pid_reap(int pidfd);

/* ---- engine_pool.c ---- */

int pool_start(struct engine *engine, struct gb_err *err);
void pool_end(struct engine *engine);

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
