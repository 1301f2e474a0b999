/* Shared by the files of the supervisor's side of the engine. */
#pragma once

#include <pthread.h>

#include "engine/disk/disk.h"
#include "engine/engine.h"
#include "engine/shared/wire.h"

/* ---- tenant.c ---- */

/* What a tenant is cloned from; embedded in anything that can clone itself, such as a template. */
struct tenant_source {
    /* Clones a process into the box that @request and @fds describe (wire.h), as our own child. */
    int (*clone)(struct tenant_source *source, const struct clone_request *request, const int *fds,
                 size_t fds_len, int *ret_pidfd, struct gb_err *err);
};

bool tenant_is_alive(const struct tenant *tenant);

/* A tenant and our ends of its pipes: 0 is for writing, 1 and 2 for reading; they do not block. */
struct piped_tenant {
    struct tenant *tenant;
    int ends[3];
};

int tenant_spawn_piped(struct box *box, struct piped_tenant *ret_tenant, struct gb_err *err);

/* Three pipes: our ends, which do not block, and theirs. */
int pipes_make(int ours[3], int theirs[3], struct gb_err *err);

/* Adopts a process that was started with @control, which it takes over like @pidfd; waits for its
 * seal. */
int tenant_adopt(struct box *box, int pidfd, int control, struct tenant **ret_tenant,
                 struct gb_err *err);

/* ---- box.c ---- */

struct box {
    struct engine *engine;
    struct box *next;          /* in the engine's list of all boxes */
    struct template *template; /* the box is one of its users */
    uint32_t id;
    uint32_t host_id;
    struct limits limits;
    enum disk_kind disk;
    struct disk_watch *disk_watch; /* of disk.c; NULL: not watched */
    int pidfd, lifeline, root;     /* held so that they can be passed to a new builder */
    int cgroup_fds[CGROUP_FDS_MAX];
    size_t cgroup_fds_len;
    uint32_t cgroup_into;
    bool ready;                /* in the pool */
    struct piped_tenant spare; /* cloned in advance */
    struct standing_state
        *standing_state;        /* of run/standing.c; NULL until the first run of a session */
    uint64_t files_changed;     /* counts our own changes to the files; atomic */
    struct tenant *standing[2]; /* residents and shells known to be running */
    bool standing_command[2];   /* it is an executed program, not a clone of a template */
};

/* ---- disk.c ---- */

struct disk;

/* @path NULL: there are no workspaces on disk, and @ret_disk is NULL. */
int disk_open(const char *path, enum disk_kind wanted, struct disk **ret_disk, struct gb_err *err);
void disk_close(struct disk *disk);

enum disk_kind disk_kind_of(const struct disk *disk);
const char *disk_path(const struct disk *disk); /* "" if there is none */
const char *disk_note(const struct disk *disk);

/* Before a box is created. Fails if it does not fit; @ret_mount is filled only for an image. */
int disk_prepare(struct disk *disk, const struct limits *limits, int *ret_mount,
                 struct gb_err *err);

int disk_watch_new(struct disk_watch **ret_watch);
void disk_watch_free(struct disk_watch *watch); /* accepts NULL */

/* Has the builder remove the leftovers of dead engines, for a limited time. */
void disk_sweep_start(struct engine *engine, struct disk *disk);

/* The same for the workspace of a box that has ended. */
void disk_sweep_box(struct box *box);

/* The number of free bytes below which the workspace counts as full. */
int64_t disk_slack(const struct box *box);

/* ENOSPC if the workspace has no room for that much more. */
int disk_room(struct box *box, int64_t more_bytes, struct gb_err *err);

/* How much a run may use in a watched workspace: the quota, or what there was when it began. */
struct disk_allowance {
    int64_t bytes, inodes;
};

enum disk_verdict {
    DISK_FITS,
    DISK_OVER,
    DISK_BURSTS, /* so much that there is no time for a grace period */
};

/* Both do nothing unless the box has a watched workspace. @ret_limit is written unless it fits.
 * @last: the program has ended, and this look decides its verdict: an earlier look will not do, and
 * the free space of the disk is not conclusive if others use it too. */
int disk_allow(struct box *box, struct disk_allowance *ret_allowance, struct gb_err *err);
enum disk_verdict disk_check(struct box *box, const struct disk_allowance *allowance, bool last,
                             enum limit_kind *ret_limit);

struct disk *engine_get_disk(const struct engine *engine);

/* Whether the box's memory is limited by our own watch. */
bool box_is_watched(const struct box *box);

/* How many CPUs it can keep busy, at least 1; the same number as in the box (seal/machine.c). */
unsigned box_cpus(const struct box *box);

/* The size of the largest file in a list. */
int64_t files_largest(const struct file_entry *files, size_t files_len);

/* Registers a process that stays in the box, as far as there is room: if all processes are known,
 * the builder need not be asked for a list. */
void standing_add(struct box *box, struct tenant *tenant, bool command);
void standing_remove(struct box *box, const struct tenant *tenant);

void standing_state_free(struct standing_state *state); /* accepts NULL */

/* Clones a tenant in advance, for the next execution. */
int box_prepare(struct box *box, struct gb_err *err);

/* Empties the box after an execution: kills remaining processes, reads the counters one last time,
 * and takes a snapshot of the files. */
int box_finish(struct box *box, struct cgroup_usage *ret_usage, enum limit_kind *ret_disk,
               struct snapshot *ret_files, struct gb_err *err);

/* The tenant for an execution: the one cloned in advance, or a new one. The caller owns all of
 * it. */
int box_take_tenant(struct box *box, struct piped_tenant *ret_tenant, struct gb_err *err);

/* Takes over the memory file of an answer. */
int snapshot_map(const struct builder_reply *reply, const int *fds, size_t fds_len,
                 struct snapshot *ret_snapshot, struct gb_err *err);

#define OUTER_FDS  3
#define OUTER_USER 1 /* of these: the user namespace */

/* A process of ours at the other end of a socket. */
struct peer {
    pthread_mutex_t lock;
    int socket; /* -EBADF: not running */
    int pidfd;
    pid_t pid;
};

/* ---- preload.c ---- */

/* The modules of a template: those that its next start imports, and those that are left out. */
struct preload {
    char names[PRELOAD_MAX];
    char left_out[sizeof((struct template_report *) 0)->left_out];
    unsigned culprits, slow; /* how often it was started again, and after a time-out */
    bool told;               /* the caller knows what is left out */
};

bool preload_has(const struct preload *preload, size_t index);

/* Notes that the module with this index is not preloaded. */
void preload_note(struct preload *preload, size_t index, const char *why);

/* The same, and does not import it again; after too many, nor those that come after it. @slow: it
 * was found by a time-out. False if there is no such module. */
bool preload_drop(struct preload *preload, size_t index, bool slow, const char *why);
bool preload_drop_all(struct preload *preload, const char *why);

/* Fills @t->modules from the definition, or as the engine remembers them. */
void preload_begin(struct template *t);
void preload_remember(const struct template *t);
void preload_forget_all(struct engine *engine);

/* ---- template.c ---- */

/* What went wrong while it started, if a module is to blame. */
struct blame {
    int index; /* of the module that it imports or tries out; BLAME_NOBODY, BLAME_ALL */
    bool slow;
    char why[128]; /* "": nothing went wrong */
};

#define BLAME_NOBODY (-1)
#define BLAME_ALL    (-2)

struct template
{
    /* immutable */
    struct engine *engine;
    char *name, *python, *preload;
    char **binds;                /* NULL-terminated, never NULL */
    char venv_lib[VENV_LIB_MAX]; /* of struct template_packages; "": no environment */
    char *packages;              /* its directory; "": none */
    int packages_fd;             /* of that directory */

    /* under templates_lock */
    struct template *next;
    unsigned users;
    uint64_t let_go; /* when it last lost a user; a counter */

    bool runs; /* atomic */

    struct tenant_source source; /* of the tenants of its boxes */

    /* under peer.lock */
    struct peer peer;
    bool ready;
    int root; /* mount namespace of its boxes; -EBADF: the builder's own, or not created yet */
    int said; /* its stderr while it starts */
    size_t said_len;
    char at[136]; /* what it is doing while it starts */
    int64_t anon; /* of a template that is ready; 0 until asked for */
    struct template_report report;
    struct preload modules;
    struct blame blame;
};

/* @def must have passed template_def_check(). NULL when out of memory. */
struct template *template_new(struct engine *engine, const struct template_def *def);
void template_free(struct template *t); /* accepts NULL */
int template_def_check(const struct template_def *def, struct gb_err *err);
bool template_is(const struct template *t, const struct template_def *def); /* same definition */
bool template_runs(const struct template *t);

/* Starts it; it imports in the background. Its lock is held. */
int template_begin(struct template *t, struct gb_err *err);

/* Waits until it is ready, after starting it if need be. */
int template_wait(struct template *t, struct gb_err *err);

/* ---- template_list.c ---- */

int templates_open(struct engine *engine, const struct template_def *def, struct gb_err *err);
int templates_start(struct engine *engine, struct gb_err *err); /* the default one */
void templates_close(struct engine *engine);
unsigned templates_running(struct engine *engine);

struct template *template_ref(struct template *t); /* undo with engine_template_put() */

/* Anonymous memory of one that is not the default, else 0. */
int64_t template_anon(struct template *t);

/* The environment of its tenants: NAME=value, each NUL-terminated, then an empty one. */
void template_tenant_env(const struct template *t, unsigned threads, char *block, size_t size);

/* The variables in it that are @threads. */
#define THREAD_VARIABLES 4
extern const char *const thread_variables[THREAD_VARIABLES];

struct engine {
    struct engine_config config;
    char *lang, *tz;             /* copies */
    char locales[WIRE_PATH_MAX]; /* of locales_find() */
    struct peer builder;
    struct template *first; /* the default one; the others come after it */
    pthread_mutex_t templates_lock;
    uint64_t template_clock;
    struct verdict *verdicts; /* of preload.c; under templates_lock */
    int32_t id_mode, cgroup_mode;
    char cgroup_name[CGROUP_NAME_MAX], disk_name[DISK_NAME_MAX];
    char note[CGROUP_NOTE_MAX];
    struct disk *disk;        /* NULL: workspaces are in memory */
    int shelves[SHELVES_MAX]; /* held so that they can be passed to a new builder */
    size_t shelves_len;
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

/* Waits until a child of ours has exited. */
void pid_reap(int pidfd);

/* Closes the connection, which makes the peer exit, and reaps it. */
void peer_end(struct peer *peer, bool kill_it);

/* Starts a process for one root file system. */
int builder_spawn_root(struct engine *engine, struct peer *ret_peer, struct gb_err *err);

/* ---- locales.c ---- */

/* The directory of the locales that belong to this binary; "" if there is none. */
void locales_find(char *ret_path, size_t size);

/* @path if it has to be mounted into boxes, else "". */
const char *locales_mount(const char *path);

/* Where they are in a box; NULL if programs should use those of the host. */
const char *locales_place(const char *path, const char *lang);

/* ---- pool.c ---- */

int pool_start(struct engine *engine, struct gb_err *err);
void pool_end(struct engine *engine);

/* One request to the builder; replaces a dead builder and tries once more. The caller owns the
 * descriptors of the reply. @ret_fds may be NULL when none are expected. */
int engine_call(struct engine *engine, const struct builder_request *request, const int *sent,
                size_t sent_len, struct builder_reply *ret_reply, int *ret_fds, size_t *ret_fds_len,
                struct gb_err *err);

const struct engine_config *engine_get_config(const struct engine *engine);
enum cgroup_mode engine_get_cgroup_mode(const struct engine *engine);
