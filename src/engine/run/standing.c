/*
 * Shared by cells, commands and shells of a session: one run among others in a box that continues
 * to exist.
 *
 * Theory of operation. A run begins with a look at the box: its counters, its processes, its files;
 * it ends with another, and the receipt shows the difference. The look must not cost more than the
 * cell `2 + 2`. So the counters are files that we keep open, we list the files ourselves if we have
 * permission, and processes are listed only if there are more than PID 1 and the one tenant. A stop
 * affects the running process and those that this run started, and no other in the box.
 *
 * The snapshot of the files at the end of a run is kept for the next one. Our own file calls
 * increment box->files_changed; a snapshot from before such a change is not used.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "engine/run/internal.h"
#include "engine/shared/walk.h"

#include "base/banned.h"

struct standing_state {
    int meters[METER_COUNT]; /* -EBADF: not available on this host */
    bool metered;
    bool files_known;
    uint64_t files_changed; /* box->files_changed when the snapshot was taken */
    struct snapshot files;
};

void standing_state_free(struct standing_state *state)
{
    if (!state)
        return;
    for (int i = 0; i < METER_COUNT; i++)
        gb_closep(&state->meters[i]);
    snapshot_release(&state->files);
    free(state);
}

/* ---- counters ---- */

static int meters_open(struct box *box, struct standing_state *state, struct gb_err *err)
{
    struct builder_request request = { .op = BOX_METERS, .box = box->id };
    struct builder_reply reply;
    int fds[WIRE_FDS_MAX], r;
    size_t fds_len = 0, used = 0;

    r = engine_call(box->engine, &request, NULL, 0, &reply, fds, &fds_len, err);
    if (r < 0)
        return r;
    for (int i = 0; i < METER_COUNT; i++)
        if (reply.meters.present & 1u << i && used < fds_len)
            state->meters[i] = fds[used++];
    wire_close_fds(fds + used, fds_len - used);
    state->metered = state->meters[METER_PIDS] >= 0;
    return 0;
}

static int state_ensure(struct box *box, struct gb_err *err)
{
    struct standing_state *state;
    int r;

    if (box->standing_state)
        return 0;
    state = calloc(1, sizeof *state);
    if (!state)
        return gb_fail(err, ENOMEM, "begin a session");
    for (int i = 0; i < METER_COUNT; i++)
        state->meters[i] = -EBADF;
    r = meters_open(box, state, err);
    if (r < 0) {
        standing_state_free(state);
        return r;
    }
    box->standing_state = state;
    return 0;
}

/* The number in the file, or the one after @key; -1 if there is none. */
static int64_t meter_read(int fd, const char *key)
{
    char text[1024];
    const char *at = text;
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);

    if (n <= 0)
        return -1;
    text[n] = '\0';
    if (key) {
        size_t len = strlen(key);

        while (at && (strncmp(at, key, len) != 0 || at[len] != ' ')) {
            at = strchr(at, '\n');
            at = at ? at + 1 : NULL;
        }
        if (!at)
            return -1;
        at += len;
    }
    return strtoll(at, NULL, 10);
}

/* Each counter is a system call, so only those needed are read. */
enum {
    READ_PEAK = 1,  /* the peak of the run; it was reset just before */
    READ_BLAME = 2, /* what the kernel refused: for a run that failed, or may have */
};

static void meters_read(const struct box *box, unsigned what, struct cgroup_usage *ret_usage)
{
    const int *fds = box->standing_state->meters;
    bool v2 = engine_get_cgroup_mode(box->engine) == CGROUP_V2;
    int64_t ooms;

    *ret_usage = (struct cgroup_usage){
        .cpu_us = meter_read(fds[METER_CPU], v2 ? "usage_usec" : NULL),
        .memory_bytes = -1,
        .memory_peak_bytes = what & READ_PEAK ? meter_read(fds[METER_MEMORY_PEAK], NULL) : -1,
        .pids = meter_read(fds[METER_PIDS], NULL),
        .pids_peak = meter_read(fds[METER_PIDS_PEAK], NULL),
        .oom_kills = -1,
        .ooms = -1,
        .pids_refused = -1,
    };
    if (!v2 && ret_usage->cpu_us > 0)
        ret_usage->cpu_us /= 1000;
    if (!(what & READ_BLAME))
        return;
    ret_usage->oom_kills = meter_read(fds[METER_OOM], "oom_kill");
    ret_usage->pids_refused = meter_read(fds[METER_PIDS_EVENTS], "max");
    /* A victim that was dying already counts as `oom` but not as `oom_kill`. */
    ooms = v2 ? meter_read(fds[METER_OOM], "oom") : -1;
    ret_usage->ooms = ooms > ret_usage->oom_kills ? ooms : ret_usage->oom_kills;
}

static int usage_read(struct run *run, unsigned what, struct cgroup_usage *ret_usage,
                      struct gb_err *err)
{
    if (!run->box->standing_state->metered)
        return box_get_usage(run->box, ret_usage, NULL, err);
    meters_read(run->box, what, ret_usage);
    return 0;
}

/* The usage of this run, if both ends are known. */
static void usage_since(struct run *run, const struct cgroup_usage *now)
{
    const struct cgroup_usage *before = &run->before;
    struct cgroup_usage *usage = &run->usage;

    *usage = *now;
    if (now->cpu_us >= 0 && before->cpu_us >= 0)
        usage->cpu_us = now->cpu_us - before->cpu_us;
    if (now->oom_kills >= 0 && before->oom_kills >= 0)
        usage->oom_kills = now->oom_kills - before->oom_kills;
    if (now->ooms >= 0 && before->ooms >= 0)
        usage->ooms = now->ooms - before->ooms;
    if (now->pids_refused >= 0 && before->pids_refused >= 0)
        usage->pids_refused = now->pids_refused - before->pids_refused;
    /* This peak cannot be reset: only a new maximum belongs to this run. */
    if (now->pids > run->pids_seen)
        run->pids_seen = now->pids;
    if (now->pids_peak > before->pids_peak && before->pids_peak >= 0)
        run->pids_seen = now->pids_peak;
    usage->pids_peak = run->pids_seen;
}

static void count(struct run *run, unsigned what)
{
    struct cgroup_usage now;
    struct gb_err ignored;

    if (usage_read(run, what, &now, &ignored) == 0)
        usage_since(run, &now);
}

void standing_count(struct run *run)
{
    count(run, READ_PEAK | READ_BLAME);
}

/* ---- files ---- */

/* Most sessions have no files at all; opendir() and its buffer of 32 KiB are too expensive to find
 * that out. If in doubt, the directory is not empty. */
static bool dir_is_empty(int dir)
{
    char buf[512] __attribute__((aligned(8)));
    ssize_t n;

    while ((n = getdents64(dir, buf, sizeof buf)) > 0) {
        const struct dirent64 *entry;

        for (ssize_t at = 0; at < n; at += entry->d_reclen) {
            entry = (const void *) (buf + at);
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
                (void) lseek(dir, 0, SEEK_SET);
                return false;
            }
        }
    }
    return n == 0;
}

/* Takes a snapshot ourselves; the builder does it if we lack permission. */
static int files_take(struct box *box, struct snapshot *ret_snapshot, struct gb_err *err)
{
    int dir = openat(box->root, "workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct walk walk;

    if (dir >= 0 && dir_is_empty(dir)) {
        (void) close(dir);
        *ret_snapshot = (struct snapshot){ 0 };
        return 0;
    }
    if (dir < 0 || walk_tree(dir, "", WALK_FILES, &walk) < 0)
        return snapshot_take(box, ret_snapshot, err);
    if (walk.denied) {
        walk_release(&walk);
        return snapshot_take(box, ret_snapshot, err);
    }
    *ret_snapshot = (struct snapshot){
        .data = walk.data,
        .len = walk.len,
        .count = walk.count,
        .incomplete = walk.incomplete,
    };
    return 0;
}

static uint64_t files_changed(const struct box *box)
{
    return __atomic_load_n(&box->files_changed, __ATOMIC_ACQUIRE);
}

static int files_before(struct box *box, struct gb_err *err)
{
    struct standing_state *state = box->standing_state;
    uint64_t changed = files_changed(box);
    int r;

    if (state->files_known && state->files_changed == changed)
        return 0;
    snapshot_release(&state->files);
    state->files_known = false;
    r = files_take(box, &state->files, err);
    if (r < 0)
        return r;
    state->files_known = true;
    state->files_changed = changed;
    return 0;
}

static bool files_same(const struct snapshot *a, const struct snapshot *b)
{
    return a->len == b->len && a->count == b->count && a->incomplete == b->incomplete &&
           (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static int files_after(struct run *run, struct gb_err *err)
{
    struct standing_state *state = run->box->standing_state;
    struct outcome *o = &run->outcome;
    uint64_t changed = files_changed(run->box);
    int r = files_take(run->box, &run->after, err);

    if (r < 0)
        return r;
    o->files_incomplete = state->files.incomplete || run->after.incomplete;
    if (!files_same(&state->files, &run->after))
        r = snapshot_diff(&state->files, &run->after, &o->files, &o->files_len, err);
    if (r < 0)
        return r;
    snapshot_release(&state->files);
    state->files = run->after;
    state->files_changed = changed;
    run->after = (struct snapshot){ 0 };
    return 0;
}

/* ---- processes ---- */

void standing_add(struct box *box, struct tenant *tenant, bool command)
{
    for (size_t i = 0; i < ARRAY_LEN(box->standing); i++) {
        if (!box->standing[i]) {
            box->standing[i] = tenant;
            box->standing_command[i] = command;
            return;
        }
    }
}

void standing_remove(struct box *box, const struct tenant *tenant)
{
    for (size_t i = 0; i < ARRAY_LEN(box->standing); i++)
        if (box->standing[i] == tenant)
            box->standing[i] = NULL;
}

/* Each tenant that is a clone has a process that holds its memory (seal/seal.c). */
static int64_t holders(const struct box *box)
{
    int64_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(box->standing) && !box_is_watched(box); i++)
        if (box->standing[i] && !box->standing_command[i])
            count += CGROUP_OWN_PIDS - 1;
    return count;
}

/* Whether there are no processes in the box but PID 1 and those we know; then those are the
 * list. */
static bool procs_known(struct run *run)
{
    const struct box *box = run->box;
    int64_t alive = 0;

    if (!box->standing_state->metered || run->before.pids < 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(box->standing); i++)
        /* The one that is to run was checked a moment ago. */
        if (box->standing[i] &&
            (box->standing[i] == run->tenant || tenant_is_alive(box->standing[i])))
            run->standing[alive++] = (struct proc_record){ .pid = tenant_group(box->standing[i]) };
    if (run->before.pids > alive + 1 + holders(box))
        return false;
    run->spared = run->standing;
    run->spared_len = (size_t) alive;
    return true;
}

int standing_read_procs(int fd, struct proc_record **ret_list, size_t *ret_len)
{
    autofree struct proc_record *list = NULL;
    struct stat st;
    ssize_t n;
    size_t len;

    if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    if (st.st_size % (off_t) sizeof *list != 0)
        return -EPROTO;
    len = (size_t) st.st_size / sizeof *list;
    list = calloc(len + 1, sizeof *list);
    if (!list)
        return -ENOMEM;
    n = io_read_all(fd, list, len * sizeof *list);
    if (n < 0 || (size_t) n != len * sizeof *list)
        return n < 0 ? (int) n : -EPROTO;
    *ret_list = TAKE_PTR(list);
    *ret_len = len;
    return 0;
}

static int procs_before(struct run *run, struct gb_err *err)
{
    struct builder_request request = { .op = BOX_PROCS, .box = run->box->id };
    struct builder_reply reply;
    int fds[WIRE_FDS_MAX], r;
    size_t fds_len = 0;

    if (procs_known(run))
        return 0;
    r = engine_call(run->box->engine, &request, NULL, 0, &reply, fds, &fds_len, err);
    if (r < 0)
        return r;
    r = fds_len == 1 ? standing_read_procs(fds[0], &run->spared, &run->spared_len) : -EPROTO;
    wire_close_fds(fds, fds_len);
    return r < 0 ? gb_fail(err, -r, "list processes") : 0;
}

static int signal_new(struct run *run, int sig, bool with_root, struct gb_err *err)
{
    autoclose int list = memfd_create("glovebox-procs", MFD_CLOEXEC);
    struct builder_request request = { .op = BOX_SIGNAL_NEW, .box = run->box->id };
    struct builder_reply reply;
    int r;

    if (list < 0)
        return gb_fail(err, errno, "create a memory file");
    r = io_write_all(list, run->spared, run->spared_len * sizeof *run->spared);
    if (r < 0)
        return gb_fail(err, -r, "write a memory file");
    request.signal.pgid = tenant_group(run->tenant);
    request.signal.signal = sig;
    request.signal.with_root = with_root;
    return engine_call(run->box->engine, &request, &list, 1, &reply, NULL, NULL, err);
}

void standing_soft(struct run *run)
{
    pid_t pid = tenant_pid(run->tenant);
    struct gb_err ignored;

    run->signalled = true;
    /* First those that it may be waiting for: system(3) ignores SIGINT while it waits. */
    (void) signal_new(run, SIGINT, false, &ignored);
    /* Sent by ourselves, since the signal has been delivered when the call returns: later code is
     * not hit by it. That holds only for a signal to one thread: in a process the kernel chooses
     * any thread that does not block the signal, and a thread left by a cell may take it and be
     * delayed before it runs the handler, which then hits the next cell. The first thread's id is
     * ours until we reap it. */
    if (!run->done_ends || syscall(SYS_tgkill, pid, pid, SIGINT) < 0)
        (void) syscall(SYS_pidfd_send_signal, tenant_pidfd(run->tenant), SIGINT, NULL, 0);
}

void standing_kill_started(struct run *run, bool with_root)
{
    struct gb_err ignored;

    if (signal_new(run, SIGKILL, with_root, &ignored) < 0)
        (void) box_kill_all(run->box, &ignored);
    if (with_root)
        (void) syscall(SYS_pidfd_send_signal, tenant_pidfd(run->tenant), SIGKILL, NULL, 0);
}

/* ---- a run, from begin to end ---- */

static void peak_reset(struct run *run)
{
    int fd = run->box->standing_state->meters[METER_MEMORY_PEAK];

    run->outcome.memory_peak_is_box = fd < 0 || pwrite(fd, "0", 1, 0) != 1;
}

/* Records counters, processes and files before a run. */
static int look_before(struct run *run, struct gb_err *err)
{
    int r = state_ensure(run->box, err);

    if (r < 0)
        return r;
    peak_reset(run);
    if ((r = usage_read(run, READ_BLAME, &run->before, err)) < 0 ||
        (r = files_before(run->box, err)) < 0 ||
        (r = disk_allow(run->box, &run->allowance, err)) < 0)
        return r;
    run->pids_seen = run->before.pids;
    return procs_before(run, err);
}

static void disk_look(struct run *run)
{
    struct cgroup_usage unused;
    struct gb_err ignored;
    autoclose int dir = openat(run->box->root, "workspace", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (dir >= 0)
        run->disk = walk_disk_full(run->box->root, disk_slack(run->box));
    else
        (void) box_get_usage(run->box, &unused, &run->disk, &ignored);
}

/* How the process ended or, if it stays, how it reported that the program did. */
static int status_take(struct run *run, struct gb_err *err)
{
    int r;

    if (!run->ended) {
        run->code = CLD_EXITED;
        run->status = run->done_code >= 0 ? (int) run->done_code : 1;
        return 0;
    }
    r = tenant_wait(run->tenant, &run->code, &run->status);
    return r < 0 ? gb_fail(err, -r, "wait for the tenant") : 0;
}

/* Memory is charged in small pieces, so a run that used less than half of it lost no process. */
static void count_after(struct run *run, bool failed)
{
    int64_t half = run->box->limits.memory_bytes / 2;

    count(run, failed ? READ_PEAK | READ_BLAME : READ_PEAK);
    if (failed || run->usage.oom_kills >= 0 || run->before.oom_kills < 0)
        return;
    if (run->usage.memory_peak_bytes >= 0 && run->usage.memory_peak_bytes < half)
        run->usage.oom_kills = run->usage.ooms = 0;
    else
        count(run, READ_PEAK | READ_BLAME);
}

/* After the loop: kills what a stopped run started, then counters, files, verdict. */
static int look_after(struct run *run, struct gb_err *err)
{
    bool failed;
    int r;

    run->outcome.wall_us = clock_now_us() - run->started_us;
    run->outcome.lost = run->ended && run->done_ends;
    if ((r = status_take(run, err)) < 0)
        return r;
    if (run->stop != STOP_NONE && !run->killed)
        standing_kill_started(run, false);
    run_empty_pipes(run);
    while (run->ended && run->control_open && run->ops->control && run->ops->control(run))
        ;
    failed = run->code != CLD_EXITED || run->status != 0;
    count_after(run, failed);
    run_tell_usage(run, 1 + holders(run->box)); /* PID 1 */
    if (failed)
        disk_look(run);
    /* A disk limit that was exceeded before we could look. */
    if (run->stop == STOP_NONE &&
        disk_check(run->box, &run->allowance, true, &run->disk_stop) != DISK_FITS)
        run->stop = STOP_DISK;
    if ((r = files_after(run, err)) < 0)
        return r;
    return run_judge(run, err);
}

/* The loop, and killing what must not survive it. */
static int run_through(struct run *run, struct gb_err *err)
{
    int r = run_loop(run, err);

    if (r < 0)
        run->ops->hard(run); /* its state is unknown */
    else if (run->ended && run->ops->ended)
        run->ops->ended(run);
    return r;
}

int standing_run(struct run *run, struct outcome *ret_outcome, struct gb_err *err)
{
    int r = look_before(run, err);

    if (r == 0) {
        run_start_clock(run);
        r = run->ops->start(run, err);
        if (r == 0 && (r = run_through(run, err)) == 0)
            r = look_after(run, err);
    }
    run_release(run);
    if (r < 0) {
        outcome_release(&run->outcome);
        return r;
    }
    *ret_outcome = run->outcome;
    return 0;
}
