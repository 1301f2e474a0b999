/*
 * The verdict: why a run ended. Order matters: our own actions come first, then the kernel's
 * counters, then the program's own exit.
 *
 * Hitting a limit is not a verdict by itself: a program that lost a child to the memory limit, or
 * could not fork once, and still exited with 0 is `ok`. Of a lost child it hears on its standard
 * error (run.c), and the receipt counts it.
 */
#include <signal.h>
#include <sys/wait.h>

#include "engine/run/oneshot.h"

#include "base/banned.h"

enum { EXIT_SIGNAL = 128 };

static int own_exit(const struct verdict_facts *facts)
{
    return facts->code == CLD_EXITED ? facts->status : EXIT_SIGNAL + facts->status;
}

static void set(struct outcome *outcome, enum run_status status, enum limit_kind limit, int code)
{
    outcome->status = status;
    outcome->limit = limit;
    outcome->exit_code = code;
}

static bool pids_exhausted(const struct verdict_facts *facts)
{
    /* Without a counter of refusals: the watch saw as many processes as are allowed. */
    if (facts->watched)
        return facts->pids_peak >= facts->limits->pids;
    return facts->pids_refused > 0;
}

/* A run that failed by itself: because of a limit, or by its own mistake? */
static void verdict_failed(const struct verdict_facts *facts, struct outcome *outcome)
{
    int code = own_exit(facts);

    if (pids_exhausted(facts))
        set(outcome, RUN_PIDS, LIMIT_PIDS, code);
    else if (facts->disk != LIMIT_NONE)
        set(outcome, RUN_DISK, facts->disk, code);
    else if (facts->largest_file >= facts->limits->file_bytes)
        set(outcome, RUN_DISK, LIMIT_FILE_SIZE, code);
    else if (facts->code != CLD_EXITED)
        set(outcome, RUN_KILLED, LIMIT_NONE, code);
    else
        set(outcome, RUN_ERROR, LIMIT_NONE, code);
}

void verdict(const struct verdict_facts *facts, struct outcome *outcome)
{
    bool failed = facts->code != CLD_EXITED || facts->status != 0;

    switch (facts->stop) {
    case STOP_WALL:
        set(outcome, RUN_TIMEOUT, LIMIT_WALL_TIME, RUN_EXIT_TIMEOUT);
        return;
    case STOP_CPU:
        set(outcome, RUN_TIMEOUT, LIMIT_CPU_TIME, RUN_EXIT_TIMEOUT);
        return;
    case STOP_MEMORY:
        set(outcome, RUN_OOM, LIMIT_MEMORY, RUN_EXIT_OOM);
        return;
    case STOP_CANCEL:
        set(outcome, RUN_CANCELLED, LIMIT_NONE, RUN_EXIT_CANCELLED);
        return;
    case STOP_OUTPUT:
        set(outcome, RUN_OUTPUT, LIMIT_OUTPUT, own_exit(facts));
        return;
    case STOP_DISK:
        set(outcome, RUN_DISK, facts->disk, own_exit(facts));
        return;
    case STOP_BROKEN:
        set(outcome, RUN_KILLED, LIMIT_NONE, EXIT_SIGNAL + SIGKILL);
        return;
    case STOP_NONE:
        break;
    }
    if (!failed)
        set(outcome, RUN_OK, LIMIT_NONE, 0);
    else if (facts->ooms > 0)
        set(outcome, RUN_OOM, LIMIT_MEMORY, RUN_EXIT_OOM);
    else
        verdict_failed(facts, outcome);
}
