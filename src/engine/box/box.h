/* Boxes as the builder keeps them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/box/ids.h"
#include "engine/box/vault.h"
#include "engine/box/volumes.h"
#include "engine/cgroup/cgroup.h"
#include "engine/limits.h"
#include "engine/shared/wire.h"

struct box_entry {
    uint32_t id;
    uint32_t host_id;
    int pidfd;    /* of PID 1 */
    int lifeline; /* our end; the supervisor holds a copy, so that a box outlives its builder */
    int root;     /* the box's root directory, O_PATH */
    int workspace;
    enum disk_kind disk;
    struct limits limits;
    struct cgroup cgroup;
    struct cgroup_usage peak; /* what the watch saw, without cgroup counters */
};

/* Where a clone of the builder starts. */
struct box_root {
    int mounts; /* the mount namespace of a template; -EBADF: the builder's own */
    int own;    /* the builder's own, to return to */
};

/* Between these two calls, clones of the builder have the root of the template. */
int box_root_enter(const struct box_root *root, struct gb_err *err);
void box_root_leave(const struct box_root *root);

/* The properties of a new box. Descriptors stay the caller's; -EBADF: none. */
struct box_plan {
    const struct limits *limits;
    enum disk_kind disk;
    int image;   /* of a workspace with DISK_IMAGE */
    int volumes; /* the list of them */
    struct box_root root;
    bool own_id; /* it runs under the builder's id, which is unprivileged */
};

/* Creates a box: its cgroup, its namespaces, its PID 1; returns when PID 1 is ready. A workspace on
 * disk is an image, or a new directory in @vault. If it fails after the clone, @ret_dead is the
 * pidfd of a dead process that the supervisor, its parent, must reap; otherwise it is not
 * touched. */
int entry_make(struct cgroup_root *cgroups, struct id_pool *ids, uint32_t id,
               const struct box_plan *plan, struct disk_vault *vault, struct volume_trees *trees,
               struct box_entry *ret_box, int *ret_dead, struct gb_err *err);

/* Takes over a box of a dead builder. On success it owns the descriptors. */
int entry_adopt(struct cgroup_root *cgroups, uint32_t id, uint32_t host_id,
                const struct limits *limits, enum disk_kind disk, const int fds[3],
                struct box_entry *ret_box, struct gb_err *err);

/* Kills PID 1, waits until it is gone, removes the cgroup, closes everything. A workspace on disk
 * is moved to the trash of @vault. */
int entry_end(struct cgroup_root *cgroups, struct id_pool *ids, struct disk_vault *vault,
              struct box_entry *box, struct gb_err *err);

/* Closes the workspace: the last process to close it waits for the file system's pending writes. */
void entry_leave(struct box_entry *box);

/* Sends SIGKILL to all processes but PID 1; returns when it was sent. */
int entry_kill(const struct box_entry *box, struct gb_err *err);

int entry_signal(const struct box_entry *box, pid_t pgid, int sig);

/* Signals some processes, in few messages: PID 1 shares the box's CPU time and can be slow. Returns
 * when the signals were sent. A process that is gone is not an error. */
int entry_signal_some(const struct box_entry *box, const int32_t *pids, size_t pids_len, int sig,
                      struct gb_err *err);

/* Usage from the cgroup's counters or, without cgroups, from the box's own /proc. @template_anon is
 * the anonymous memory that clones share with their template. */
void entry_usage(const struct cgroup_root *cgroups, struct box_entry *box, int64_t template_anon,
                 struct cgroup_usage *ret_usage);

/* The limit that a file system of the box has reached, or LIMIT_NONE. */
enum limit_kind entry_disk_full(const struct box_entry *box);

/* ---- files.c: names are relative to the workspace, links are never followed ---- */

/* Opens a regular file for reading, or newly created for writing; with O_TMPFILE one without a name
 * in directory @path. */
int entry_open(const struct box_entry *box, const char *path, int flags, mode_t mode, int *ret_fd,
               struct gb_err *err);

/* With @parents also those above it, and one that exists already is not an error. */
int entry_mkdir(const struct box_entry *box, const char *path, bool parents, struct gb_err *err);

int entry_stat(const struct box_entry *box, const char *path, struct scan_record *ret_record,
               struct gb_err *err);
int entry_rename(const struct box_entry *box, const char *from, const char *to, bool replace,
                 struct gb_err *err);

/* Gives an unnamed file the name @path, replacing any file of that name. */
int entry_link(const struct box_entry *box, int fd, const char *path, struct gb_err *err);

/* Removes one entry, or a tree; @ret_more: there was too much for one request, ask again. */
int entry_remove(const struct box_entry *box, const char *path, bool tree, bool *ret_more,
                 struct gb_err *err);

/* ---- scan.c: lists into a memory file of struct scan_record; stops at its bounds and says so
 * ---- */

/* The regular files of the workspace. */
int entry_scan(const struct box_entry *box, int *ret_fd, uint32_t *ret_count, bool *ret_incomplete,
               struct gb_err *err);

/* The entries of directory @dir ("": the workspace); flags as in walk.h. */
int entry_walk(const struct box_entry *box, const char *dir, unsigned flags, int *ret_fd,
               uint32_t *ret_count, bool *ret_incomplete, struct gb_err *err);

/* ---- procs.c ---- */

/* Lists the processes of a box, except PID 1, into a memory file of struct proc_record. */
int entry_procs(const struct box_entry *box, int *ret_fd, uint32_t *ret_count, struct gb_err *err);

/* Signals the processes that are not in @keep, a list as above, and do not descend from one that
 * is, unless through process @root; with @with_root also @root itself. SIGKILL is repeated until no
 * process is left; -EBUSY when that takes too long. Sorts @keep. */
int entry_signal_new(const struct box_entry *box, struct proc_record *keep, size_t keep_len,
                     pid_t root, bool with_root, int sig, struct gb_err *err);

/* Signals the processes of session @leader, and those that descend from that process. SIGKILL is
 * repeated until there are no new ones. The leader must not have been reaped. */
int entry_signal_session(const struct box_entry *box, pid_t leader, int sig, struct gb_err *err);

/* ---- box/command.c ---- */

/* A command as received from the supervisor. */
struct command {
    const char *cwd;
    char *const *argv;
    char *const *envp;
    int stdio[3];
    int control;
    bool keep_control; /* the program inherits it, as SEAL_CONTROL_FD */
    bool landlock;
    bool terminal; /* stdio is a new terminal of the box instead */
    uint16_t cols, rows;
};

/* Starts a sealed program in the box. Its parent is the supervisor; it reports over the control
 * socket as a tenant does, and once more when it cannot be executed. */
int entry_start_command(const struct cgroup_root *cgroups, const struct box_entry *box,
                        const struct command *command, int *ret_pidfd, struct gb_err *err);

/* ---- net.c ---- */

/* A socket that listens on 127.0.0.1:@port of the box. */
int entry_listen_inside(const struct box_entry *box, uint16_t port, int *ret_fd,
                        struct gb_err *err);

/* watch.c: memory, processes and CPU time of a box, read from its /proc. */
void entry_watch(const struct box_entry *box, int64_t template_anon,
                 struct cgroup_usage *ret_usage);
