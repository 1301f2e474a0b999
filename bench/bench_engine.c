/*
 * How long a pandas program takes, from the request to its first output and to its end (for a box:
 * its receipt), side by side in one run:
 *
 *   python     python3 with the import, no isolation
 *   bwrap      the same under bubblewrap
 *   box        a fresh box, made on request, and a tenant cloned into it
 *   pooled     a box from the pool, with a tenant that waits in it
 *
 * Machines differ and are noisy: what counts is the ratio to bwrap in the same run. The rounds of
 * all four are interleaved so that a slow moment hits them alike.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "engine/builder.h"
#include "engine/engine.h"

#include "base/banned.h"

#define PROGRAM                                                                                    \
    "import pandas as pd\n"                                                                        \
    "print(pd.DataFrame({'a': range(10)}).sum().to_dict())\n"

#define ROUNDS_DEFAULT 20
#define POOL_REST_US   50000
#define BOXES_A_ROUND  5 /* boxes are so much faster that one would be lost in the noise */

extern char **environ;

struct samples {
    int64_t *us;
    size_t len, cap;
};

struct series {
    const char *name, *what;
    struct samples first, end;
};

enum { PYTHON, BWRAP, BOX, POOLED, SERIES };

struct bench {
    struct series series[SERIES];
    struct engine *fresh, *pooled;
    struct limits limits;
};

static _Noreturn void die(const char *what, const struct gb_err *err)
{
    fprintf(stderr, "bench: %s: %s\n", what, err ? err->msg : strerror(errno));
    exit(1);
}

static void sample_add(struct samples *samples, int64_t us)
{
    if (samples->len == samples->cap) {
        samples->cap = samples->cap ? samples->cap * 2 : 64;
        samples->us = realloc(samples->us, samples->cap * sizeof(int64_t));
        if (!samples->us)
            die("memory", NULL);
    }
    samples->us[samples->len++] = us;
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *) a, right = *(const int64_t *) b;

    return (left > right) - (left < right);
}

/* Of sorted samples. */
static double percentile_ms(const struct samples *samples, double share)
{
    size_t at = (size_t) (share * (double) (samples->len - 1) + 0.5);

    return samples->len ? (double) samples->us[at] / 1000 : 0;
}

/* ---- the peers ---- */

static void run_command(struct series *series, char *const argv[])
{
    posix_spawn_file_actions_t actions;
    int64_t start = clock_now_us();
    int status, out[2];
    char byte;
    pid_t pid;

    if (pipe2(out, O_CLOEXEC) < 0)
        die("pipe", NULL);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    errno = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    if (errno != 0)
        die(argv[0], NULL);
    posix_spawn_file_actions_destroy(&actions);
    (void) close(out[1]);
    if (read(out[0], &byte, 1) == 1)
        sample_add(&series->first, clock_now_us() - start);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die(argv[0], &(struct gb_err){ .msg = "it failed" });
    sample_add(&series->end, clock_now_us() - start);
    (void) close(out[0]);
}

static void run_python(struct bench *bench)
{
    char *const argv[] = { (char *) "/usr/bin/python3", (char *) "-c", (char *) PROGRAM, NULL };

    run_command(&bench->series[PYTHON], argv);
}

static void run_bwrap(struct bench *bench)
{
    char *const argv[] = {
        (char *) "bwrap",     (char *) "--unshare-all", (char *) "--ro-bind",
        (char *) "/usr",      (char *) "/usr",          (char *) "--ro-bind",
        (char *) "/etc",      (char *) "/etc",          (char *) "--symlink",
        (char *) "usr/bin",   (char *) "/bin",          (char *) "--symlink",
        (char *) "usr/lib",   (char *) "/lib",          (char *) "--symlink",
        (char *) "usr/lib64", (char *) "/lib64",        (char *) "--proc",
        (char *) "/proc",     (char *) "--dev",         (char *) "/dev",
        (char *) "--tmpfs",   (char *) "/tmp",          (char *) "/usr/bin/python3",
        (char *) "-c",        (char *) PROGRAM,         NULL,
    };

    run_command(&bench->series[BWRAP], argv);
}

/* ---- boxes ---- */

static int on_output(void *arg, enum stream stream, const char *data, size_t len)
{
    int64_t *first = arg;

    (void) stream;
    (void) data;
    if (len > 0 && *first == 0)
        *first = clock_now_us();
    return 0;
}

static void run_box(struct bench *bench, struct engine *engine, struct series *series)
{
    char *argv[] = { (char *) "-c", NULL };
    struct run_spec spec = { .code = PROGRAM,
                             .code_len = strlen(PROGRAM),
                             .filename = "<string>",
                             .argv = argv,
                             .limits = bench->limits,
                             .reply_bytes = 65536,
                             .stdin_fd = -1,
                             .cancel_fd = -1 };
    int64_t start = clock_now_us(), first = 0;
    struct outcome outcome;
    struct gb_err err;
    struct box *box;

    spec.sink = (struct run_sink){ .arg = &first, .write = on_output };
    if (box_acquire(engine, &bench->limits, &box, &err) < 0)
        die("box", &err);
    if (execution_run(box, &spec, &outcome, &err) < 0)
        die("run", &err);
    sample_add(&series->end, clock_now_us() - start);
    sample_add(&series->first, first - start);
    if (outcome.status != RUN_OK || outcome.out.head_len == 0)
        die("run", &(struct gb_err){ .msg = "the program failed in the box" });
    outcome_release(&outcome);
    box_release(box);
}

static struct engine *engine_start(const struct bench *bench, unsigned pool)
{
    struct engine_config config = { .preload = engine_preload_all,
                                    .cgroups = CGROUP_AUTO,
                                    .landlock = true,
                                    .pool_boxes = pool,
                                    .pool_limits = bench->limits };
    struct engine *engine;
    struct gb_err err;

    if (engine_open(&config, &engine, &err) < 0 || engine_wait_ready(engine, &err) < 0)
        die("engine", &err);
    return engine;
}

static void rounds(struct bench *bench, int count)
{
    for (int round = 0; round < count; round++) {
        run_python(bench);
        run_bwrap(bench);
        for (int i = 0; i < BOXES_A_ROUND; i++)
            run_box(bench, bench->fresh, &bench->series[BOX]);
        for (int i = 0; i < BOXES_A_ROUND; i++) {
            (void) usleep(POOL_REST_US); /* a pool is for requests that come now and then */
            run_box(bench, bench->pooled, &bench->series[POOLED]);
        }
        fprintf(stderr, "\rround %d of %d", round + 1, count);
    }
    fprintf(stderr, "\r\033[K");
}

/* ---- the report ---- */

static void report(struct bench *bench, const char *path)
{
    const struct series *peer = &bench->series[BWRAP];
    double peer_first = percentile_ms(&peer->first, 0.5), peer_end = percentile_ms(&peer->end, 0.5);
    json_t *root = json_object();

    printf("%-8s %24s %29s\n", "", "to first output, ms", "to the end, ms");
    printf("%-8s %8s %8s %9s %8s %8s %9s\n", "", "p50", "p99", "vs bwrap", "p50", "p99",
           "vs bwrap");
    for (int i = 0; i < SERIES; i++) {
        const struct series *series = &bench->series[i];
        double first = percentile_ms(&series->first, 0.5), end = percentile_ms(&series->end, 0.5);
        double first99 = percentile_ms(&series->first, 0.99);
        double end99 = percentile_ms(&series->end, 0.99);

        printf("%-8s %8.2f %8.2f %7.1f x %8.2f %8.2f %7.1f x  %s\n", series->name, first, first99,
               peer_first / first, end, end99, peer_end / end, series->what);
        json_object_set_new(root, series->name,
                            json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "first_p50_ms", first,
                                      "first_p99_ms", first99, "first_times_bwrap",
                                      peer_first / first, "end_p50_ms", end, "end_p99_ms", end99,
                                      "end_times_bwrap", peer_end / end, "samples",
                                      (json_int_t) series->end.len));
    }
    if (json_dump_file(root, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0)
        printf("saved as %s\n", path);
    json_decref(root);
}

int main(int argc, char **argv)
{
    static const char *const what[SERIES][2] = {
        [PYTHON] = { "python", "python3 and the import, no isolation" },
        [BWRAP] = { "bwrap", "the same under bubblewrap" },
        [BOX] = { "box", "a fresh box, made when asked for" },
        [POOLED] = { "pooled", "a fresh box from the pool" },
    };
    struct bench bench = { 0 };
    int count = ROUNDS_DEFAULT;

    if (argc > 1 && strcmp(argv[1], BUILDER_COMMAND) == 0)
        return builder_main(argc, argv); /* the engine executes the program that it is part of */
    if (argc > 2)
        count = (int) strtol(argv[2], NULL, 10);
    limits_default(&bench.limits);
    for (int i = 0; i < SERIES; i++) {
        bench.series[i].name = what[i][0];
        bench.series[i].what = what[i][1];
    }
    bench.fresh = engine_start(&bench, 0);
    bench.pooled = engine_start(&bench, BOXES_A_ROUND + 1);
    rounds(&bench, count > 0 ? count : 1);
    engine_close(bench.fresh);
    engine_close(bench.pooled);
    for (int i = 0; i < SERIES; i++) {
        qsort(bench.series[i].first.us, bench.series[i].first.len, sizeof(int64_t), compare);
        qsort(bench.series[i].end.us, bench.series[i].end.len, sizeof(int64_t), compare);
    }
    report(&bench, argc > 1 ? argv[1] : "bench.json");
    for (int i = 0; i < SERIES; i++) {
        free(bench.series[i].first.us);
        free(bench.series[i].end.us);
    }
    return 0;
}
