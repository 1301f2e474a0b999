/*
 * The engine: boxes, templates and tenants for a supervisor. This is the module's public header.
 *
 * Everything here is called in the supervisor, by any of its threads. The engine never clones: it
 * executes a builder (builder/main.c), which creates boxes and starts templates. When a builder or
 * a template dies it is replaced at the next call that needs it; boxes and tenants keep running
 * meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/host.h"
#include "engine/limits.h"
#include "engine/outcome.h"
#include "engine/shelf.h"
#include "engine/volumes.h"

struct engine;
struct box;
struct tenant;

/* The packages of a template's virtual environment (shelf.h): a directory that is mounted as its
 * site-packages, read-only.
 * The engine holds a copy of the descriptor as long as it has the template, so a lock on it shows
 * others that the directory is in use. */
struct template_packages {
    const char *lib; /* the directory of libraries, such as "python3.11"; NULL: no environment */
    const char *dir; /* an absolute path without links in it; NULL: an empty environment */
    int fd;          /* of that directory */
};

/* The definition of a template. If it is not in /usr, @binds are the files and directories of the
 * host that it needs: absolute, without links in them, NULL-terminated, at most 16; may be NULL.
 * Its boxes see them read-only at the same paths; other boxes do not. With packages.lib the
 * interpreter is VENV_PYTHON. */
struct template_def {
    const char *name;    /* for the caller's own use; may be NULL */
    const char *python;  /* the interpreter: an absolute path, as boxes see it */
    const char *preload; /* modules that it imports, separated by spaces; may be NULL */
    const char *const *binds;
    struct template_packages packages;
};

struct engine_config {
    const char *python;       /* interpreter of the default template; NULL: /usr/bin/python3 */
    const char *preload;      /* modules that it imports, separated by spaces */
    const char *const *binds; /* as above; may be NULL */
    struct template_packages packages;
    unsigned templates_idle;  /* how many unused others are kept */
    int64_t template_wait_us; /* for one to get ready; 0: two minutes */
    const char *lang, *tz;    /* of the template and its tenants; NULL: C.UTF-8, the host's zone */
    enum cgroup_mode cgroups;
    bool landlock;
    struct limits pool_limits; /* of the boxes that are created in advance */
    unsigned pool_boxes;       /* how many are kept ready; 0: created on request */
    bool pool_tenants;         /* each with a sealed tenant that waits for its program */
    /* A directory for workspaces on disk: an absolute path, private (0700), not in memory; created
     * if missing. NULL: all workspaces are in memory. */
    const char *disk_dir;
    enum disk_kind disk_kind; /* DISK_NONE: the best this host supports */
    /* Directories that can be mounted into boxes in part, see box_mount_shelf(); absolute paths,
     * the first NULL ends the list. */
    const char *shelves[SHELVES_MAX];
    /* Directories of the host that boxes may mount; copied. */
    const struct volume_root *volume_roots;
    size_t volume_roots_len;

    /* Called while the default template imports: @done of @total modules, @name is next. */
    void (*progress)(void *arg, unsigned done, unsigned total, const char *name);
    void *progress_arg;
};

/* What the engine found on this host. */
struct engine_info {
    enum id_mode id_mode;
    enum cgroup_mode cgroup_mode;
    char note[CGROUP_NOTE_MAX]; /* why cgroups are not better, or "" */
    enum disk_kind disk_kind;   /* of workspaces on disk; DISK_NONE: there are none */
    char disk_note[200];        /* why they are watched, or "" */
    pid_t builder_pid;
    unsigned templates;               /* running ones, including the default one */
    unsigned boxes_ready, boxes_live; /* waiting in the pool; all boxes */
};

/* All modules of a full template. */
extern const char engine_preload_all[];

/* Starts a builder and, in the background, a template. Fails if the host cannot isolate. */
int engine_open(const struct engine_config *config, struct engine **ret_engine, struct gb_err *err);

/* Terminates all boxes and processes, and waits for them. Accepts NULL. */
void engine_close(struct engine *engine);

void engine_get_info(struct engine *engine, struct engine_info *ret_info);

/* Waits until the default template has imported everything; reports progress. */
int engine_wait_ready(struct engine *engine, struct gb_err *err);

/* ---- templates ---- */

struct template;

/* A working template with the definition @def: an existing one, or one that is started now. It is
 * kept at least until it is put back. The error says what went wrong inside. */
int engine_template_get(struct engine *engine, const struct template_def *def,
                        struct template **ret_template, struct gb_err *err);
void engine_template_put(struct template *t); /* accepts NULL */

/* What it is, if it has an environment with packages of its own: a text that differs if these or
 * the preloaded modules do, which the caller frees. EOPNOTSUPP: it has none. */
int engine_template_environment(const struct template *t, char **ret_text);

/* How its last start went. */
struct template_report {
    char version[32];   /* of Python; "" unless it became ready */
    char missing[2048]; /* modules that could not be imported and why, one per line */
    /* Modules that importing would have made it unfit to be cloned, likewise. Programs can import
     * them. */
    char left_out[2048];
    char said[2048]; /* the end of its output meanwhile */
};

/* @t NULL: the default one. */
void engine_template_report(struct engine *engine, struct template *t,
                            struct template_report *ret_report);

/* The same, for a log: true only if modules are left out and nobody was told yet. */
bool engine_template_news(struct engine *engine, struct template *t,
                          struct template_report *ret_report);

/* ---- boxes ---- */

/* A fresh box, from the pool if one with these limits is ready. Wall time and output are limits of
 * executions and may differ, as may CPU time if the pool's boxes have no limit on it. */
int box_acquire(struct engine *engine, const struct limits *limits, struct box **ret_box,
                struct gb_err *err);

struct box_options {
    struct template *template; /* NULL: the default one; the box keeps it */
    bool disk; /* /workspace is on disk, within limits.disk_bytes and disk_inodes; /tmp and /dev/shm
                  stay in memory, with at most half of limits.memory_bytes each */
    /* Directories of the host. They are not part of the workspace: they do not count against its
     * quota, the file calls do not reach them, and their files are not reported as changed. If the
     * engine runs as an ordinary user, such a box runs under that user's own id. */
    const struct volume *volumes;
    size_t volumes_len;
};

/* The same; @options may be NULL. A box with a workspace on disk or with volumes is always new.
 * ENOSPC: its quota is more than the free space in the file system of disk_dir. EADDRNOTAVAIL: a
 * volume is not available, for a reason that its caller can fix and the message names. EINVAL,
 * EACCES and E2BIG: as from volumes_settle(). */
int box_acquire_with(struct engine *engine, const struct limits *limits,
                     const struct box_options *options, struct box **ret_box, struct gb_err *err);

/* Kills everything in it and removes every trace. Tenants must have been freed. Accepts NULL. */
void box_release(struct box *box);

/* The template of a box: a reference, or NULL for the default one. */
struct template *box_get_template(struct box *box);

/* Its resource usage so far, and (if not NULL) the limit that one of its file systems has
 * reached. */
int box_get_usage(struct box *box, struct cgroup_usage *ret_usage, enum limit_kind *ret_disk,
                  struct gb_err *err);

/* Signals a process group of the box. */
int box_send_signal(struct box *box, pid_t pgid, int sig, struct gb_err *err);

/* Kills every process but PID 1; the files stay. */
int box_kill_all(struct box *box, struct gb_err *err);

/* Opens a regular file of the workspace for reading (not a directory, a pipe or a link), or creates
 * a new one for writing, with its parent directories. Never follows a link. */
int box_open_read(struct box *box, const char *path, int *ret_fd, struct gb_err *err);
int box_open_new(struct box *box, const char *path, mode_t mode, int *ret_fd, struct gb_err *err);

/* A listening TCP socket on the box's own loopback, 127.0.0.1:@port, for a proxy that serves the
 * box from outside. The descriptor is the caller's; it keeps the box's network namespace, so close
 * it no later than the box is released. EADDRINUSE: a program in the box uses the port. */
int box_listen(struct box *box, uint16_t port, int *ret_fd, struct gb_err *err);

/* Mounts directory @name of a shelf ("": the whole shelf) into the box, read-only and at once, at
 * SHELF_PLACE (@place 0) or at one of the places in it (1 to SHELVES_MAX - 1). It hides what was
 * mounted there before. The directory must stay as long as the box lives. -ENOENT: no such
 * directory. May be called by any thread, also while code runs in the box. */
int box_mount_shelf(struct box *box, unsigned shelf, const char *name, unsigned place,
                    struct gb_err *err);

/* A snapshot of the workspace, to compare with a later one. */
struct snapshot {
    void *data; /* struct scan_record, each followed by its path */
    size_t len;
    uint32_t count;
    bool incomplete;
    bool mapped; /* @data is a mapping, otherwise from malloc */
};

int snapshot_take(struct box *box, struct snapshot *ret_snapshot, struct gb_err *err);
void snapshot_release(struct snapshot *snapshot);

/* The changes between two snapshots, sorted by path; the caller frees as struct outcome does. */
int snapshot_diff(const struct snapshot *before, const struct snapshot *after,
                  struct file_entry **ret_files, size_t *ret_len, struct gb_err *err);

/* Copies host file @from to @name in the workspace. */
int workspace_put(struct box *box, const char *from, const char *name, struct gb_err *err);

/* Copies created and modified files to the directory @dir, which is created if missing. */
int workspace_fetch(struct box *box, const struct file_entry *files, size_t files_len,
                    const char *dir, struct gb_err *err);

/* ---- tenants ---- */

/* Clones a tenant into the box and waits until it is sealed. @stdio stays the caller's. */
int tenant_spawn(struct box *box, const int stdio[3], struct tenant **ret_tenant,
                 struct gb_err *err);

/* Kills it if it is still alive, waits for it, frees it. Accepts NULL. */
void tenant_free(struct tenant *tenant);

int tenant_pidfd(const struct tenant *tenant);   /* readable once it has ended */
int tenant_control(const struct tenant *tenant); /* the frame socket */
pid_t tenant_group(const struct tenant *tenant); /* its process group, as seen in the box */
pid_t tenant_pid(const struct tenant *tenant);   /* as seen on the host */

/* Collects the exit status once tenant_pidfd() is readable, as waitid(2) reports it. */
int tenant_wait(struct tenant *tenant, int *ret_code, int *ret_status);

/* ---- executions ---- */

enum stream { STREAM_OUT, STREAM_ERR };

enum bundle_kind { BUNDLE_DISPLAY, BUNDLE_RESULT };

/* Where output goes as it is produced. All members but @arg may be NULL. */
struct run_sink {
    void *arg;
    /* Takes bytes. A negative result means that nobody reads any more: the tenant gets a broken
     * pipe. */
    int (*write)(void *arg, enum stream stream, const char *data, size_t len);
    /* A descriptor to wait for until it is writable before more can be taken, or -1. */
    int (*blocked_fd)(void *arg, enum stream stream);
    /* That descriptor is writable now. */
    int (*flush)(void *arg, enum stream stream);
    /* A MIME bundle of a cell, as it arrives: bytes that claim to be JSON, within the caps of
     * frame.h, in order with the output printed before it. The outcome has them too. */
    void (*bundle)(void *arg, enum bundle_kind kind, const char *json, size_t len);
};

#define ASK_ANSWER_MAX 65536u
/* What comes before an answer: lines for the user, each with this sign in front. They become output
 * of the run. */
#define ASK_LINE_SIGN '#'
#define ASK_LINE_MAX  200u

struct run_spec {
    const char *code;
    size_t code_len;
    const char *filename; /* "<string>", "<stdin>" or a base name */
    bool cell;            /* as a notebook cell: with a result and outputs */
    bool echo;            /* a cell prints what it would show instead, as text */
    const char *names;    /* of a cell: JSON text, see docs/PROTOCOL.md; may be NULL */
    size_t names_len;
    char *const *argv;    /* sys.argv, NULL-terminated; NULL: it has no arguments */
    char *const *env;     /* more environment, NAME=value, NULL-terminated; may be NULL */
    struct limits limits; /* as the box was made with; wall_us, cpu_us and output_bytes are of this
                             execution and may differ */
    size_t reply_bytes;   /* budget for each stream in the outcome */
    const char *input;    /* bytes of its standard input, NULL: see stdin_fd */
    size_t input_len;
    int stdin_fd;  /* copied to the program; -1: its input is empty. Not for residents and
                      shells */
    int cancel_fd; /* readable: stop; readable again: at once. -1: none */
    struct run_sink sink;
    /* Handles a request of a cell to the supervisor: an object as JSON text, hostile.
     * Returns at once, with a descriptor from which the answer can be read until end of file, at
     * most ASK_ANSWER_MAX bytes of JSON; the engine closes it, perhaps before the end. Or a
     * negative number. NULL: requests are refused. */
    int (*ask)(void *arg, const char *json, size_t len);
    void *ask_arg;
    int64_t ask_us; /* how long a run may wait for such answers in total, beyond its wall_us */
    const struct snapshot *before;                        /* of the workspace; NULL: it was empty */
    void (*on_started)(void *arg, struct tenant *tenant); /* may be NULL */
    void *on_started_arg;
};

/* Runs a program in a new tenant of the box until it ends, and fills the outcome. Mistakes of the
 * program are in the outcome; an error is a failure of ours. Afterwards no process runs in the box,
 * and its files are still there. */
int oneshot_run(struct box *box, const struct run_spec *spec, struct outcome *ret_outcome,
                struct gb_err *err);

/* ---- sessions ----
 *
 * A session keeps state in a box across executions: a resident (a tenant that runs cell after
 * cell), a shell, and the processes they started. The caller runs one thing at a time in a box (a
 * cell, a command or a shell command); only the file calls below, box_get_usage() and a write to
 * cancel_fd may come from other threads meanwhile. A box for a session is acquired with
 * limits.cpu_us 0: CPU time is limited for each execution, by its run_spec.
 *
 * In all of them:
 * - A stop (time, output, cancel) is SIGINT to the running process and to those that this execution
 *   started, repeated after half of the grace period. The processes that a stopped execution has
 *   started are killed at its end. Those that earlier executions started keep running; those that
 *   this one leaves behind keep running if it ended by itself.
 * - The outcome's usage is that of this execution: CPU time, OOM kills and refused forks as
 *   differences (including background processes of earlier executions), the memory peak from its
 *   start on if the host can reset that counter (else outcome.memory_peak_is_box is set).
 * - outcome.files are the changes since the last execution in this box ended, except those made
 *   through the file calls below. Files that background processes wrote in between belong to the
 *   next execution, and so does their output.
 * - spec->before and spec->on_started are not used. */

struct resident;

/* A tenant that stays, in a box made with cpu_us 0; takes the one that was cloned ahead, if any.
 * @env is NAME=value, NULL-terminated, may be NULL; it is copied. */
int resident_open(struct box *box, char *const *env, struct resident **ret_resident,
                  struct gb_err *err);

/* Runs one cell (spec->cell must be set; spec->env is set for this cell and then undone).
 * Variables, imports, working directory, threads and children stay. `sys.exit` ends only the cell,
 * so the exit code of a cell that ended normally is the tenant's own claim; it can only falsify its
 * own receipt. All other verdicts are ours. A cell's input is only in sys.stdin; descriptor 0 is
 * always at end of file.
 *
 * With outcome.lost the tenant has ended (it was killed after the grace, ran out of memory,
 * crashed, called os._exit or broke the protocol): its variables and everything that ran in the box
 * are gone, the files stay. Free it and open another.
 *
 * -ECHILD: it exited between executions; the code was not run. Likewise free it and open
 * another. */
int resident_run(struct resident *resident, const struct run_spec *spec,
                 struct outcome *ret_outcome, struct gb_err *err);

/* A question about the state of a resident, between two cells: see docs/PROTOCOL.md, "Looks". */
struct look_spec {
    const char *json; /* what is asked */
    const char *code; /* text that it is about; NULL: none */
    size_t code_len;
    int64_t wall_us; /* then it is interrupted, and soon after given up */
    int cancel_fd;   /* readable: it is interrupted and given up at once; -1: none */
};

#define LOOK_REPLY_MAX (1u << 20)
#define LOOK_CODE_MAX  (48u * 1024) /* what fits into one packet, with the rest */

/* The answer as the tenant gave it, which claims to be JSON and is freed by the caller; NULL: it
 * had none, or one that is too large. Code of the program may have run, but it has no receipt, and
 * output of it is that of the next cell.
 *
 * -EBUSY: there is no answer, because the resident is still busy with this look or the last one. It
 * is alive, and a cell that is run now begins when it is done with that. -ECHILD: it has exited, or
 * violated the protocol; free it and open another. */
int resident_look(struct resident *resident, const struct look_spec *spec, char **ret_json,
                  size_t *ret_len, struct gb_err *err);

/* Whether it is still alive; for callers that want to know before they run something. */
bool resident_is_alive(const struct resident *resident);

/* Kills the tenant, but nothing else in the box. Accepts NULL. */
void resident_free(struct resident *resident);

/* Runs spec->argv (NULL: `/bin/sh -c` with spec->code) in the box, as a separate process. @env as
 * above; @cwd is NULL for the workspace, or a path as the box sees it. Members of @spec that are
 * for Python are not used. The exit code comes from wait(). A program that cannot be executed is an
 * outcome with exit code 127 or 126 and a line on stderr, as in a shell. */
int box_command(struct box *box, const struct run_spec *spec, char *const *env, const char *cwd,
                struct outcome *ret_outcome, struct gb_err *err);

/* One bash that keeps `cd`, `export`, functions and options from command to command. */
struct shell;

int shell_open(struct box *box, char *const *env, struct shell **ret_shell, struct gb_err *err);

/* Runs spec->code in the shell, with empty input. The shell reports the exit code over a descriptor
 * that its children do not have. With outcome.lost the shell has exited (`exit`, `exec`, killed
 * after the grace period): open another; the resident is not affected. -ECHILD as above. */
int shell_run(struct shell *shell, const struct run_spec *spec, struct outcome *ret_outcome,
              struct gb_err *err);
bool shell_is_alive(const struct shell *shell);
void shell_free(struct shell *shell);

/* ---- terminals ----
 *
 * A program with a pseudo-terminal of the box as its controlling terminal, such as an interactive
 * shell. Unlike the above it is no execution: it has no receipt, and any number may run in a box
 * while others do. A stop of an execution does not affect it; the end of an interpreter
 * (outcome.lost of a cell) ends everything in the box, and terminals with it. Each belongs to one
 * thread of the caller. */

struct pty;

/* Starts it: @argv, @env and @cwd as for box_command(). Returns when the program has been executed.
 * -ENOENT, -EACCES: it cannot be; -ENOSPC: the box has no terminal left; -EAGAIN: no process. */
int pty_open(struct box *box, char *const *argv, char *const *env, const char *cwd, uint16_t cols,
             uint16_t rows, struct pty **ret_pty, struct gb_err *err);

/* To read its output from and to write its input to; does not block. Poll reports a hang-up while
 * no process has it open. */
int pty_fd(const struct pty *pty);

/* Readable once the program has exited. */
int pty_pidfd(const struct pty *pty);

int pty_resize(struct pty *pty, uint16_t cols, uint16_t rows);

/* Signals all processes of its session, and those that descend from the program. Not after
 * pty_end(). */
int pty_signal(struct pty *pty, int sig, struct gb_err *err);

/* Kills the program unless it has exited, and waits for it; the exit code as a shell shows it. What
 * it has printed can still be read. */
int pty_end(struct pty *pty, int *ret_exit_code);

/* Hangs up, kills the program if it is alive, and waits for it. Accepts NULL. */
void pty_free(struct pty *pty);

/* ---- files of a workspace ----
 *
 * Paths are beneath the workspace, without a leading slash, any bytes but NUL; "" or "." is the
 * workspace itself. Links are never followed. Callable by any thread at any time. Errors that the
 * caller should explain: ENOENT, ENOTDIR, EISDIR, EEXIST, ENOTEMPTY, ELOOP (a link is in the way),
 * EXDEV (leads out of the workspace), ENAMETOOLONG, EINVAL (not a regular file; a bad name), ENOSPC
 * (quota of bytes or inodes). */

enum file_kind { FILE_REGULAR, FILE_DIRECTORY, FILE_LINK, FILE_OTHER };

struct file_info {
    char *path; /* owned; in a list beneath the workspace, not beneath the listed directory */
    enum file_kind kind;
    int64_t size;
    int64_t mtime_ns;
    uint64_t inode;
    uint32_t mode; /* the permission bits */
};

void file_info_release(struct file_info *info);

/* One entry, the link itself if it is one. */
int box_file_stat(struct box *box, const char *path, struct file_info *ret_info,
                  struct gb_err *err);

struct file_list {
    struct file_info *items; /* sorted by the bytes of their paths */
    size_t len;
    bool more;       /* there are more after the last of these */
    bool incomplete; /* the walk hit its bounds (20,000 entries, 32 levels): entries are missing */
};

/* A page of the entries of directory @dir, or of the whole tree below it: at most @limit, those
 * that sort after @after (NULL or "": from the first). */
int box_file_list(struct box *box, const char *dir, bool recursive, const char *after, size_t limit,
                  struct file_list *ret_list, struct gb_err *err);
void file_list_release(struct file_list *list);

/* Creates a directory. With @parents also those above it, and one that exists is not an error. */
int box_file_mkdir(struct box *box, const char *path, bool parents, struct gb_err *err);

/* Removes a file, a link, or an empty directory; with @tree a directory with its contents. */
int box_file_remove(struct box *box, const char *path, bool tree, struct gb_err *err);

/* Renames; @replace: an existing file is replaced. Parents of @to are created. */
int box_file_rename(struct box *box, const char *from, const char *to, bool replace,
                    struct gb_err *err);

/* A file being uploaded to the workspace. It is not visible until it is committed; then it appears
 * complete and replaces any file of that name. Written bytes count against the quota at once (write
 * fails with ENOSPC). */
struct upload;

/* Parent directories are created when it is committed. */
int upload_begin(struct box *box, const char *path, mode_t mode, struct upload **ret_upload,
                 struct gb_err *err);
int upload_fd(const struct upload *upload); /* to write to; owned by the upload */
int upload_commit(struct upload *upload, struct gb_err *err);
void upload_free(struct upload *upload); /* without a commit, discards it. Accepts NULL */
