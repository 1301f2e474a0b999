/*
 * A run: the loop that one-shots, cells of residents, commands and shells share (run.c), and the
 * code shared by those that live in a session (standing.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/frame.h"
#include "engine/outbuf.h"
#include "engine/run/oneshot.h"
#include "engine/supervisor/supervisor.h"

#define RUN_GRACE_US (1 * USEC_PER_SEC)
#define RUN_SEND_US  (30 * USEC_PER_SEC)

struct run;

/* How the kinds of runs differ. */
struct run_ops {
    /* Only for sessions: sends or starts the program; its time is already running. 1: that was
     * refused, and the outcome already says so. */
    int (*start)(struct run *run, struct gb_err *err);
    void (*ended)(struct run *run); /* likewise: after its process has exited; may be NULL */
    void (*soft)(struct run *run);  /* asks it to stop */
    void (*hard)(struct run *run);  /* kills it */
    void (*count)(struct run *run); /* fills run->usage */
    /* Reads one packet from the control socket; returns whether there may be more now. NULL: it is
     * not used. */
    bool (*control)(struct run *run);
};

struct pipe_in {
    int fd;        /* -EBADF once closed */
    bool borrowed; /* outlives the run: never closed, only no longer read */
    bool deaf;     /* the sink accepts no more */
    struct outbuf kept;
    int64_t total;
};

struct run {
    const struct run_ops *ops;
    struct box *box;
    const struct run_spec *spec;
    struct tenant *tenant;
    struct pipe_in streams[2];
    struct frame_reader *reader;
    int64_t control_bytes;
    bool control_open, done;
    bool done_ends;      /* a process that stays: its own message ends the run */
    const char *done_id; /* the id that a DONE must carry to end this run; NULL: any */
    int64_t done_code;   /* as reported by DONE; -1: not reported */
    struct ask *ask;     /* of cell_request.c: one waiting for its answer; NULL: none */
    int asked;           /* how many so far */
    int64_t ask_used_us; /* how long it waited for answers so far */
    struct input *input; /* may be NULL */
    void *owner;         /* for the functions of the table */

    int64_t started_us, deadline_us, watch_us;
    int64_t hard_us, again_us; /* 0 until a stop was soft */
    int64_t late_us;           /* time added to the grace period */
    enum stop stop;
    bool signalled; /* SIGINT was sent */
    bool killed, ended;
    struct cgroup_usage usage;
    enum limit_kind disk;
    struct disk_allowance allowance; /* how much a watched workspace may hold in this run */
    enum limit_kind disk_stop;       /* the limit for which it was stopped */
    int code, status;                /* as reported by waitid() or by DONE */
    struct snapshot after;
    struct outcome outcome;

    /* of a session */
    struct cgroup_usage before;
    struct proc_record *spared; /* processes that existed before; @standing or owned */
    size_t spared_len;
    struct proc_record standing[2];
    int64_t pids_seen;
};

/* ---- resident.c, look.c ---- */

struct resident {
    struct box *box;
    struct piped_tenant piped;
    struct frame_reader reader;
    char **env;           /* until it is sent with the first message */
    uint64_t count;       /* of messages: the last one's number */
    bool told;            /* its environment was sent */
    bool interrupted;     /* a SIGINT was sent after the last message */
    bool looking;         /* the last message was a look whose answer has not come */
    struct outcome early; /* displays that a look found: they belong to the next cell */
};

/* Sends @out, which it completes with what every message to a resident has. */
int resident_send(struct resident *resident, struct frame_out *out, const char *id,
                  int64_t until_us);

/* Kills it, and with it everything in its box. */
void resident_kill(struct box *box, struct tenant *tenant);

void run_init(struct run *run, const struct run_ops *ops, struct box *box,
              const struct run_spec *spec);
void run_release(struct run *run);

/* The run is in a process that stays: it ends when that process says so, with @done_id. */
void run_lend(struct run *run, const struct piped_tenant *piped, const char *done_id);

/* The run is a separate process, which the caller frees; @input_fd is its input. */
void run_own(struct run *run, const struct piped_tenant *piped, int input_fd);

/* Starts the clock. */
void run_start_clock(struct run *run);

/* Polls until the process has exited or, if that is enough, has said that it is done. */
int run_loop(struct run *run, struct gb_err *err);

/* Kills it now, if it is alive. */
void run_stop_hard(struct run *run, enum stop why);

/* Reads the current contents of the pipes, without waiting for more. */
void run_empty_pipes(struct run *run);

/* As if the program had printed it. */
void run_take_text(struct run *run, enum stream stream, const char *text);

/* A frame of a tenant; see run_ops.control. */
bool run_control_frames(struct run *run);

/* The program as fields of a RUN message. */
void run_put_program(struct frame_out *out, const struct run_spec *spec);

/* Its environment, in addition to the template's: that of the box, and @env (NULL: none). */
void run_put_env(struct frame_out *out, const struct box *box, char *const *env);

/* Fills the outcome's usage; @own processes in the box's cgroup are ours. */
void run_tell_usage(struct run *run, int64_t own);

/* Fills the outcome's streams and verdict; its usage and files are there already. */
int run_judge(struct run *run, struct gb_err *err);

/* ---- cell_request.c ---- */

/* Takes an ASK of the tenant; false: it is not allowed to send it. */
bool ask_take(struct run *run, const struct frame_msg *msg);

/* The descriptor to wait for, or -1; and what to do when it is readable. */
int ask_fd(const struct run *run);
void ask_read(struct run *run);
void ask_drop(struct run *run);
/* The program is to stop: whoever works on the answer is told to give up. */
void ask_stop(struct run *run);

/* ---- standing.c ---- */

/* One run of a process that stays in the box, from the first look at the box to the outcome.
 * Releases @run. */
int standing_run(struct run *run, struct outcome *ret_outcome, struct gb_err *err);

/* The list of processes in a memory file that the builder made; the caller frees. An incomplete
 * list is an error and never an empty one: processes that are not in it are signalled. */
int standing_read_procs(int fd, struct proc_record **ret_list, size_t *ret_len);

/* run_ops of processes that stay. */
void standing_soft(struct run *run);
void standing_count(struct run *run);
void standing_kill_started(struct run *run, bool with_root);

/* ---- command.c ---- */

/* A program that the builder is to start. Descriptors stay the caller's. */
struct command_start {
    char *const *argv, *const *env; /* env: over that of every tenant; may be NULL */
    const char *cwd;                /* NULL: the workspace */
    int stdio[3];
    int control;
    bool keep_control; /* it has the control socket as SEAL_CONTROL_FD */
    bool terminal;     /* a new terminal of the box instead of stdio */
    uint16_t cols, rows;
};

int command_call(struct box *box, const struct command_start *start, int *ret_pidfd,
                 struct gb_err *err);

/* Starts a program with pipes. With @keep_control it has the control socket as SEAL_CONTROL_FD. */
int command_spawn(struct box *box, char *const *argv, char *const *env, const char *cwd,
                  bool keep_control, struct piped_tenant *ret_command, struct gb_err *err);
