/*
 * The engine: boxes, templates and tenants for a supervisor. This is the module's public header.
 *
 * Everything here is called in the supervisor, by any of its threads. The engine never clones: it
 * executes a builder (builder_main.c), which makes boxes and starts templates. When a builder or a
 * template dies it is replaced at the next call that needs it; boxes and tenants go on meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/cgroup.h"
#include "engine/limits.h"
#include "engine/outcome.h"
#include "engine/wire.h"

struct engine;
struct box;
struct tenant;

struct engine_config {
    const char *python;    /* interpreter of the template; NULL: /usr/bin/python3 */
    const char *preload;   /* modules that the template imports, separated by spaces */
    const char *lang, *tz; /* of the template and its tenants; NULL: C.UTF-8, the host's zone */
    enum cgroup_mode cgroups;
    bool landlock;
    struct limits pool_limits; /* of the boxes that are made ahead */
    unsigned pool_boxes;       /* how many are kept ready; 0: made when asked for */
    bool pool_tenants;         /* each with a sealed tenant that waits for its program */

    /* Called while the template imports: @done of @total modules, @name is next. */
    void (*progress)(void *arg, unsigned done, unsigned total, const char *name);
    void *progress_arg;
};

/* What the engine found on this host. */
struct engine_info {
    enum id_mode id_mode;
    enum cgroup_mode cgroup_mode;
    char note[200]; /* why cgroups are not better, or "" */
    pid_t builder_pid, template_pid;
};

/* All modules that a full template holds. */
extern const char engine_preload_all[];

/* Starts a builder and, in the background, a template. Refuses where the host cannot isolate. */
int engine_open(const struct engine_config *config, struct engine **ret_engine, struct gb_err *err);

/* Ends every box and every process, and waits for them. Accepts NULL. */
void engine_close(struct engine *engine);

void engine_get_info(struct engine *engine, struct engine_info *ret_info);

/* Waits until the template has imported everything; reports progress. */
int engine_wait_ready(struct engine *engine, struct gb_err *err);

/* ---- boxes ---- */

/* A fresh box, from the pool if one with these limits is ready. */
int box_acquire(struct engine *engine, const struct limits *limits, struct box **ret_box,
                struct gb_err *err);

/* Kills everything in it and removes every trace. Tenants must have been freed. Accepts NULL. */
void box_release(struct box *box);

/* What it has used so far, and (if not NULL) the limit that one of its file systems has reached. */
int box_get_usage(struct box *box, struct cgroup_usage *ret_usage, enum limit_kind *ret_disk,
                  struct gb_err *err);

/* A signal to a process group of the box. */
int box_send_signal(struct box *box, pid_t pgid, int sig, struct gb_err *err);

/* Kills every process but PID 1; the files stay. */
int box_kill_all(struct box *box, struct gb_err *err);

/* Opens a regular file of the workspace for reading, or makes a new one for writing (parent
 * directories included). Never follows a link. */
int box_open_read(struct box *box, const char *path, int *ret_fd, struct gb_err *err);
int box_open_new(struct box *box, const char *path, mode_t mode, int *ret_fd, struct gb_err *err);

pid_t box_init_pid(const struct box *box);

/* A picture of the workspace, to compare with a later one. */
struct snapshot {
    void *data; /* struct scan_record, each followed by its path */
    size_t len;
    uint32_t count;
    bool incomplete;
};

int snapshot_take(struct box *box, struct snapshot *ret_snapshot, struct gb_err *err);
void snapshot_release(struct snapshot *snapshot);

/* What changed between two pictures, sorted by path; the caller frees as struct outcome does. */
int snapshot_diff(const struct snapshot *before, const struct snapshot *after,
                  struct file_entry **ret_files, size_t *ret_len, struct gb_err *err);

/* Copies host file @from to @name in the workspace. */
int workspace_put(struct box *box, const char *from, const char *name, struct gb_err *err);

/* Copies what was created or modified into the directory @dir, which is made if it is not there. */
int workspace_fetch(struct box *box, const struct file_entry *files, size_t files_len,
                    const char *dir, struct gb_err *err);

/* ---- tenants ---- */

/* Clones a tenant into the box and waits until it is sealed. @stdio stays the caller's. */
int tenant_spawn(struct box *box, const int stdio[3], struct tenant **ret_tenant,
                 struct gb_err *err);

/* Kills it if it still lives, waits for it, frees it. Accepts NULL. */
void tenant_free(struct tenant *tenant);

int tenant_pidfd(const struct tenant *tenant);   /* readable once it has ended */
int tenant_control(const struct tenant *tenant); /* the frame socket */
pid_t tenant_group(const struct tenant *tenant); /* its process group, as seen in the box */
pid_t tenant_pid(const struct tenant *tenant);   /* as seen on the host */

/* Collects the exit status once tenant_pidfd() is readable, as waitid(2) tells it. */
int tenant_wait(struct tenant *tenant, int *ret_code, int *ret_status);

/* ---- executions ---- */

enum stream { STREAM_OUT, STREAM_ERR };

/* Where output goes while it comes. All members but @arg may be NULL. */
struct run_sink {
    void *arg;
    /* Takes bytes. A negative answer means that nobody listens any more: the tenant will see a
     * broken pipe. */
    int (*write)(void *arg, enum stream stream, const char *data, size_t len);
    /* A descriptor to wait for until it is writable before more can be taken, or -1. */
    int (*blocked_fd)(void *arg, enum stream stream);
    /* That descriptor is writable now. */
    int (*flush)(void *arg, enum stream stream);
};

struct run_spec {
    const char *code;
    size_t code_len;
    const char *filename; /* "<string>", "<stdin>" or a base name */
    bool cell;            /* as a notebook cell: with a result and outputs */
    bool echo;            /* a cell prints what it would show instead, as text */
    char *const *argv;    /* sys.argv, NULL-terminated */
    char *const *env;     /* more environment, NAME=value, NULL-terminated; may be NULL */
    struct limits limits; /* as the box was made with */
    size_t reply_bytes;   /* budget for each stream in the outcome */
    int stdin_fd;         /* copied to the program; -1: its input is empty */
    int cancel_fd;        /* readable: stop; readable again: at once. -1: none */
    struct run_sink sink;
    const struct snapshot *before;                        /* of the workspace; NULL: it was empty */
    void (*on_started)(void *arg, struct tenant *tenant); /* may be NULL */
    void *on_started_arg;
};

/* Runs a program in a new tenant of the box, to its end, and tells what came of it. What the
 * program does wrong is in the outcome; an error is ours. Afterwards nothing runs in the box, and
 * its files are still there. */
int execution_run(struct box *box, const struct run_spec *spec, struct outcome *ret_outcome,
                  struct gb_err *err);
