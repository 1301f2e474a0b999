/*
 * The processes of a box, and signals to those that one execution started.
 *
 * They are found by comparing lists: a process that did not exist at the start is new, unless it
 * descends from one that did, such as a server of an earlier cell that now starts a worker. The
 * ancestors of an orphan are unknown, so it counts as new. The process that runs the execution
 * existed before, but its descendants count as new: the execution started them. Those of another
 * process that we started ourselves meanwhile, the shell of a terminal, do not.
 *
 * A program can hide only its own processes from this: one that survives this way runs in the
 * program's own box, within its own limits.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/io.h"
#include "engine/box/box.h"

#include "base/banned.h"

#define PROCS_MAX    100000
#define PATIENCE_US  (200 * USEC_PER_MSEC) /* others wait for the builder meanwhile */
#define DYING_US     (1 * USEC_PER_SEC)    /* for killed ones to be gone, if none are new */
#define ROUNDS_MIN   20                    /* however long we were delayed ourselves */
#define ROUND_WAIT   (1000)                /* microseconds for killed processes to be gone */
#define HOLDER_TICKS 100                   /* at 100 per second */
#define ANCESTORS    64

struct procs {
    struct proc_record *items; /* owned */
    size_t len, cap;
};

/* Fields 3, 4, 6, 22 and 38 of stat(5), counted after the last ')'. Zombies count as gone. */
static bool proc_parse(const char *text, struct proc_record *ret_record, bool *ret_silent)
{
    const char *rest = strrchr(text, ')');
    unsigned long long start;
    int ppid, sid, exit_signal;
    char state;

    if (!rest || sscanf(rest + 1,
                        " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                        "%*d %llu %*u %*d %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %d",
                        &state, &ppid, &sid, &start, &exit_signal) != 5)
        return false;
    *ret_silent = exit_signal == 0;
    ret_record->ppid = ppid;
    ret_record->sid = sid;
    ret_record->start = start;
    return state != 'Z' && state != 'X';
}

static int procs_add(struct procs *procs, const struct proc_record *record)
{
    struct proc_record *items = grow(procs->items, &procs->cap, procs->len + 1, sizeof *items, 64);

    if (!items)
        return -ENOMEM;
    procs->items = items;
    procs->items[procs->len++] = *record;
    return 0;
}

static int proc_compare(const void *left, const void *right)
{
    const struct proc_record *a = left, *b = right;

    return (a->pid > b->pid) - (a->pid < b->pid);
}

/* Lists are sorted: /proc is, and lists from elsewhere are sorted first. */
static const struct proc_record *record_find(const struct proc_record *items, size_t len,
                                             int32_t pid)
{
    struct proc_record key = { .pid = pid };

    return len ? bsearch(&key, items, len, sizeof *items, proc_compare) : NULL;
}

static const struct proc_record *procs_find(const struct procs *procs, int32_t pid)
{
    return record_find(procs->items, procs->len, pid);
}

/* The process that holds a tenant's memory (seal/seal.c) is ours. It has no exit signal, its parent
 * is a tenant, whose own parent is in another PID namespace, and it is as old as its parent: a
 * program can create a similar process later, but not that early. */
static bool is_holder(const struct procs *procs, const struct proc_record *proc)
{
    const struct proc_record *parent = procs_find(procs, proc->ppid);

    return parent && parent->ppid == 0 && proc->start - parent->start <= HOLDER_TICKS;
}

static int procs_read(DIR *dir, struct procs *procs)
{
    struct dirent *entry;
    bool silent;
    int r = 0;

    while (r == 0 && procs->len < PROCS_MAX && (entry = readdir(dir))) {
        struct proc_record record = { 0 };
        char path[sizeof entry->d_name + 8], text[1024];

        if (!isdigit((unsigned char) entry->d_name[0]))
            continue;
        record.pid = (int32_t) strtol(entry->d_name, NULL, 10);
        snprintf(path, sizeof path, "%s/stat", entry->d_name);
        if (record.pid <= 1 || io_read_text_at(dirfd(dir), path, text, sizeof text) < 0)
            continue; /* PID 1 is ours; others may be gone by now */
        /* Its parent was listed before: pids are in order, and these two are at the beginning. */
        if (proc_parse(text, &record, &silent) && !(silent && is_holder(procs, &record)))
            r = procs_add(procs, &record);
    }
    return r;
}

static int procs_take(const struct box_entry *box, struct procs *ret_procs, struct gb_err *err)
{
    autoclosedir DIR *dir = NULL;
    struct procs procs = { 0 };
    int r = dir_open_at(box->root, "proc", &dir);

    if (r == 0)
        r = procs_read(dir, &procs);
    if (r < 0) {
        free(procs.items);
        return gb_fail(err, -r, "list the processes of box %u", box->id);
    }
    *ret_procs = procs;
    return 0;
}

int entry_procs(const struct box_entry *box, int *ret_fd, uint32_t *ret_count, struct gb_err *err)
{
    autoclose int out = memfd_create("glovebox-procs", MFD_CLOEXEC);
    struct procs procs;
    int r;

    if (out < 0)
        return gb_fail(err, errno, "create a memory file");
    if ((r = procs_take(box, &procs, err)) < 0)
        return r;
    r = io_write_all(out, procs.items, procs.len * sizeof *procs.items);
    free(procs.items);
    if (r < 0)
        return gb_fail(err, -r, "write a memory file");
    *ret_fd = TAKE_FD(out);
    *ret_count = (uint32_t) procs.len;
    return 0;
}

/* Which processes to signal. */
struct choice {
    pid_t root;                     /* the process that runs the execution */
    bool with_root;                 /* itself too */
    bool session;                   /* those of its session and its descendants, whatever is kept */
    const struct proc_record *keep; /* sorted */
    size_t keep_len;
};

static bool is_kept(const struct choice *choice, const struct proc_record *proc)
{
    const struct proc_record *kept = record_find(choice->keep, choice->keep_len, proc->pid);

    return kept && (kept->start == 0 || kept->start == proc->start);
}

/* Whether it is in the session of another process that we started, such as the shell of a terminal
 * that was opened meanwhile: those have their parent outside of the box. No program can enter such
 * a session from outside. */
static bool is_elsewhere(const struct procs *procs, pid_t root, const struct proc_record *proc)
{
    const struct proc_record *leader = procs_find(procs, proc->sid);

    return leader && leader->pid != root && leader->ppid == 0;
}

static bool is_new(const struct procs *procs, const struct choice *choice,
                   const struct proc_record *proc)
{
    if (is_elsewhere(procs, choice->root, proc))
        return false;
    for (int i = 0; proc && i < ANCESTORS; i++) {
        if (proc->pid == choice->root)
            return true;
        if (is_kept(choice, proc) || proc->ppid == 0)
            return false;
        proc = proc->ppid > 1 ? procs_find(procs, proc->ppid) : NULL;
    }
    return true;
}

static bool is_of_session(const struct procs *procs, const struct choice *choice,
                          const struct proc_record *proc)
{
    if (proc->sid == choice->root)
        return true;
    for (int i = 0; proc && i < ANCESTORS; i++) {
        if (proc->pid == choice->root)
            return true;
        proc = proc->ppid > 1 ? procs_find(procs, proc->ppid) : NULL;
    }
    return false;
}

/* The indices of the processes in @procs to signal; returns how many. */
static int victims_find(const struct procs *procs, const struct choice *choice, int32_t *victims)
{
    int len = 0;

    for (size_t i = 0; i < procs->len; i++) {
        const struct proc_record *proc = &procs->items[i];
        bool chosen;

        if (proc->pid == choice->root)
            chosen = choice->with_root;
        else if (choice->session)
            chosen = is_of_session(procs, choice, proc);
        else
            chosen = is_new(procs, choice, proc);
        if (chosen)
            victims[len++] = (int32_t) i;
    }
    return len;
}

/* One round; returns how many were signalled, or -errno. @told are those of the previous round, and
 * afterwards those of this one; @ret_fresh: whether there were new ones. */
static int signal_round(const struct box_entry *box, const struct choice *choice, int sig,
                        struct procs *told, bool *ret_fresh, struct gb_err *err)
{
    autofree int32_t *victims = NULL;
    struct procs procs;
    int len, r = procs_take(box, &procs, err);

    if (r < 0)
        return r;
    victims = calloc(procs.len + 1, sizeof *victims);
    if (!victims) {
        free(procs.items);
        return gb_fail(err, ENOMEM, "list processes");
    }
    len = victims_find(&procs, choice, victims);
    *ret_fresh = false;
    for (int i = 0; i < len; i++) {
        struct proc_record proc = procs.items[victims[i]];
        const struct proc_record *before = procs_find(told, proc.pid);

        *ret_fresh = *ret_fresh || !before || before->start != proc.start;
        procs.items[i] = proc; /* never after the index it comes from */
        victims[i] = proc.pid;
    }
    procs.len = (size_t) len;
    free(told->items);
    *told = procs;
    r = entry_signal_some(box, victims, (size_t) len, sig, err);
    return r < 0 ? r : len;
}

static int signal_chosen(const struct box_entry *box, const struct choice *choice, int sig,
                         struct gb_err *err)
{
    int64_t begun = clock_now_us(), took;
    struct procs told = { 0 };
    int sent, rounds = 0;
    bool fresh = false;

    /* A killed process starts no more processes, but needs the CPU once more to exit: on a busy
     * machine, or in a box that has used up its quota, that takes a while. Only processes not seen
     * before show that killing one by one does not help. Nobody needs those of a terminal to be
     * gone. */
    do {
        sent = signal_round(box, choice, sig, &told, &fresh, err);
        if (sent <= 0 || sig != SIGKILL || (choice->session && !fresh))
            break;
        (void) usleep(ROUND_WAIT);
        took = clock_now_us() - begun;
        rounds++;
    } while (rounds < ROUNDS_MIN || took < (fresh ? PATIENCE_US : DYING_US));
    free(told.items);
    if (sent > 0 && sig == SIGKILL && fresh)
        return gb_fail_plain(err, EBUSY, "box %u starts processes faster than they can be killed",
                             box->id);
    return sent < 0 ? sent : 0;
}

int entry_signal_new(const struct box_entry *box, struct proc_record *keep, size_t keep_len,
                     pid_t root, bool with_root, int sig, struct gb_err *err)
{
    struct choice choice = {
        .root = root, .with_root = with_root, .keep = keep, .keep_len = keep_len
    };

    if (keep_len > 0)
        qsort(keep, keep_len, sizeof *keep, proc_compare);
    return signal_chosen(box, &choice, sig, err);
}

int entry_signal_session(const struct box_entry *box, pid_t leader, int sig, struct gb_err *err)
{
    struct choice choice = { .root = leader, .with_root = true, .session = true };

    return signal_chosen(box, &choice, sig, err);
}
