/*
 * A run: the loop that one-shots, cells of residents, commands and shells share (run.c), and what
 * those that live in a session share beyond it (standing.c).
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

/* In what the kinds of runs differ. */
struct run_ops {
    /* What stays in a box only: sends or starts the program; its time counts already. 1: that was
     * refused, and the outcome says so already. */
    int (*start)(struct run *run, struct gb_err *err);
    void (*ended)(struct run *run); /* likewise: after its process has ended; may be NULL */
    void (*soft)(struct run *run);  /* asks it to stop */
    void (*hard)(struct run *run);  /* ends it */
    void (*count)(struct run *run); /* fills run->usage */
    /* Reads one packet of the control socket; returns whether there may be more now. NULL: nothing
     * comes there. */
    bool (*control)(struct run *run);
};

struct pipe_in {
    int fd;        /* -EBADF once closed */
    bool borrowed; /* lives longer than the run: it is never closed, only not read any more */
    bool deaf;     /* the sink wants no more */
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
    bool done_ends;      /* a process that stays: word of its own is the end of the run */
    const char *done_id; /* what a DONE must say to be the one that is waited for; NULL: anything */
    int64_t done_code;   /* as DONE told; -1: it did not */
    struct ask *ask;     /* of cell_request.c: one that waits for its answer; NULL: none */
    int asked;           /* how many there were */
    struct input *input; /* may be NULL */
    void *owner;         /* for the functions of the table */

    int64_t started_us, deadline_us, watch_us;
    int64_t hard_us, again_us; /* 0 until a stop was soft */
    int64_t late_us;           /* what was added to the grace */
    enum stop stop;
    bool signalled; /* SIGINT was sent */
    bool killed, ended;
    struct cgroup_usage usage;
    enum limit_kind disk;
    struct disk_allowance allowance; /* how much a watched workspace may have in this run */
    enum limit_kind disk_stop;       /* for which it was ended */
    int code, status;                /* as waitid() told, or as DONE did */
    struct snapshot after;
    struct outcome outcome;

    /* of a session */
    struct cgroup_usage before;
    struct proc_record *spared; /* processes that were there; @standing or owned */
    size_t spared_len;
    struct proc_record standing[2];
    int64_t pids_seen;
};

void run_init(struct run *run, const struct run_ops *ops, struct box *box,
              const struct run_spec *spec);
void run_release(struct run *run);

/* The run is in a process that stays: it ends when that says so, with @done_id. */
void run_lend(struct run *run, const struct piped_tenant *piped, const char *done_id);

/* The run is a process of its own, which the caller frees; @input_fd is what it reads. */
void run_own(struct run *run, const struct piped_tenant *piped, int input_fd);

/* From now on time counts. */
void run_start_clock(struct run *run);

/* Polls until the process has ended or, where that is enough, said that it is done. */
int run_loop(struct run *run, struct gb_err *err);

/* Ends it now, if it lives. */
void run_stop_hard(struct run *run, enum stop why);

/* Reads what is in the pipes now, without waiting for more. */
void run_empty_pipes(struct run *run);

/* As if the program had printed it. */
void run_take_text(struct run *run, enum stream stream, const char *text);

/* A frame of a tenant; see run_ops.control. */
bool run_control_frames(struct run *run);

/* The program as fields of a RUN message, with @env as its environment (NULL: none). */
void run_put_program(struct frame_out *out, const struct run_spec *spec, char *const *env);

/* Fills the outcome's usage; @own processes of the box's cgroup are ours. */
void run_tell_usage(struct run *run, int64_t own);

/* Fills the outcome's streams and verdict; its usage and files are there already. */
int run_judge(struct run *run, struct gb_err *err);

/* ---- cell_request.c ---- */

/* Takes an ASK of the tenant; false: it may not say that. */
bool ask_take(struct run *run, const struct frame_msg *msg);

/* What to wait for, or -1; and what to do when it has come. */
int ask_fd(const struct run *run);
void ask_read(struct run *run);
void ask_drop(struct run *run);

/* ---- standing.c ---- */

/* One run of something that stays in the box, from the first look at the box to the outcome.
 * Releases @run. */
int standing_run(struct run *run, struct outcome *ret_outcome, struct gb_err *err);

/* The list of processes in a memory file that the builder made; the caller frees. A list that
 * cannot be read whole is an error and never an empty one: what is not in it gets signals. */
int standing_read_procs(int fd, struct proc_record **ret_list, size_t *ret_len);

/* run_ops of what stays. */
void standing_soft(struct run *run);
void standing_count(struct run *run);
void standing_kill_started(struct run *run, bool with_root);

/* ---- command.c ---- */

/* Starts a program with pipes. With @keep_control it has the control socket as SEAL_CONTROL_FD. */
int command_spawn(struct box *box, char *const *argv, char *const *env, const char *cwd,
                  bool keep_control, struct piped_tenant *ret_command, struct gb_err *err);
