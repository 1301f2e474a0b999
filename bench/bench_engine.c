/*
 * The engine, measured next to its peers in one run.
 *
 *   floor    (a) fork of the same warm interpreter, the cell, no isolation: bench/floor.py
 *   box      (b) a fresh box made on request, a tenant cloned into it
 *   pooled   (c) a box from the pool, a tenant cloned into it on request
 *   tenant   (d) a box from the pool with a sealed, warmed tenant in it
 *   default      the same of the default template, next to another one
 *   bwrap    (e) bubblewrap, python3, the imports
 *   python   (f) python3 and the imports, no isolation
 *
 * Latency is from the request to the first output and to the end (for a box: its receipt), right
 * after other work and after an idle second. Machines are noisy, so only ratios within one run
 * count, and rounds are interleaved so that a slow moment affects all alike.
 *
 * Parts, all of them unless some are named: latency, rate, burst, empty, memory, inside.
 *
 * With --template all but (default) use that template: its interpreter, its packages and the
 * modules that it preloads.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "bench/kit.h"
#include "engine/builder.h"
#include "engine/engine.h"
#include "service/access/data.h"
#include "service/template/templates.h"

#include "base/banned.h"

#define CELL "import numpy as np, pandas as pd\nprint(int(np.arange(1000).sum()))\n"

#define CPU_CELL                                                                                   \
    "import time\n"                                                                                \
    "t = time.perf_counter()\n"                                                                    \
    "x = 0\n"                                                                                      \
    "for i in range(3000000): x += i * i\n"                                                        \
    "print(time.perf_counter() - t)\n"

#define STAT_CELL                                                                                  \
    "import time, os\n"                                                                            \
    "t = time.perf_counter()\n"                                                                    \
    "for i in range(10000): os.stat('/usr')\n"                                                     \
    "print(time.perf_counter() - t)\n"

#define ROUNDS_DEFAULT 40
#define IDLE_ROUNDS    8
#define PEER_ROUNDS    10
#define BURST          100
#define RATE_SECONDS   3
#define POOL           6
#define THREADS_MAX    64
#define BINDS          17 /* of a template, and its packages */

extern char **environ;

enum { FLOOR, BOX, POOLED, TENANT, DEFAULT, BWRAP, PYTHON, SERIES };

struct series {
    struct samples first, end, idle_first, idle_end;
};

/* A floor.py that waits for our requests. */
struct floor {
    FILE *to, *from;
    pid_t pid;
};

struct bench {
    struct series series[SERIES];
    struct engine *engines[SERIES]; /* BOX, POOLED, TENANT; DEFAULT if it is another template */
    struct template_entry template; /* without a name: the default one */
    struct limits limits;
    struct floor floor;
    const char *floor_script;
    int rounds;
    json_t *result;
};

static const char *const names[SERIES] = { "floor",   "box",   "pooled", "tenant",
                                           "default", "bwrap", "python" };

/* ---- the floor ---- */

/* The same interpreter outside of boxes, where a set of packages has no virtual environment. */
static char *python_of(const struct bench *bench)
{
    bool own = bench->template.python && !bench->template.packages;

    return own ? bench->template.python : (char *) "/usr/bin/python3";
}

static const char *preload_of(const struct bench *bench)
{
    return bench->template.python ? bench->template.preload : engine_preload_all;
}

static void floor_start(struct floor *floor, const struct bench *bench)
{
    char *const argv[] = { python_of(bench), (char *) bench->floor_script, (char *) CELL,
                           (char *) preload_of(bench), NULL };
    posix_spawn_file_actions_t actions;
    int in[2], out[2];
    char line[64];

    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        die("pipe", NULL);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    errno = posix_spawn(&floor->pid, argv[0], &actions, NULL, argv, environ);
    if (errno != 0)
        die(argv[0], NULL);
    posix_spawn_file_actions_destroy(&actions);
    (void) close(in[0]);
    (void) close(out[1]);
    floor->to = fdopen(in[1], "w");
    floor->from = fdopen(out[0], "r");
    if (!floor->to || !floor->from || !fgets(line, sizeof line, floor->from))
        die("floor.py", "it did not start");
}

static void floor_end(struct floor *floor)
{
    (void) fclose(floor->to);
    (void) fclose(floor->from);
    (void) waitpid(floor->pid, NULL, 0);
}

static void floor_ask(struct floor *floor, const char *question, char *answer, int size)
{
    fprintf(floor->to, "%s\n", question);
    (void) fflush(floor->to);
    if (!fgets(answer, size, floor->from))
        die("floor.py", "it ended");
}

static void floor_one(struct bench *bench, struct samples *first, struct samples *end)
{
    long long first_us, end_us;
    char answer[64];

    floor_ask(&bench->floor, "one", answer, sizeof answer);
    if (sscanf(answer, "%lld %lld", &first_us, &end_us) != 2)
        die("floor.py", answer);
    sample_add(first, first_us);
    sample_add(end, end_us);
}

/* ---- whole programs ---- */

static void command_one(char *const argv[], struct samples *first, struct samples *end)
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
        sample_add(first, clock_now_us() - start);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die(argv[0], "it failed");
    sample_add(end, clock_now_us() - start);
    (void) close(out[0]);
}

static void python_one(const struct bench *bench, struct samples *first, struct samples *end)
{
    char *const argv[] = { python_of(bench), (char *) "-c", (char *) CELL, NULL };

    command_one(argv, first, end);
}

static void bwrap_one(const struct bench *bench, struct samples *first, struct samples *end)
{
    static const char *const words[] = {
        "bwrap",   "--unshare-all", "--ro-bind", "/usr",      "/usr",   "--ro-bind",
        "/etc",    "/etc",          "--proc",    "/proc",     "--dev",  "/dev",
        "--tmpfs", "/tmp",          "--symlink", "usr/bin",   "/bin",   "--symlink",
        "usr/lib", "/lib",          "--symlink", "usr/lib64", "/lib64",
    };
    const char *argv[ARRAY_LEN(words) + 3 * BINDS + 4];
    char *packages = bench->template.packages_dir;
    size_t len = ARRAY_LEN(words);

    memcpy(argv, words, sizeof words);
    if (packages) {
        argv[len++] = "--ro-bind";
        argv[len++] = packages;
        argv[len++] = packages;
    }
    for (size_t i = 0; bench->template.binds && bench->template.binds[i] && i + 1 < BINDS; i++) {
        argv[len++] = "--ro-bind";
        argv[len++] = bench->template.binds[i];
        argv[len++] = bench->template.binds[i];
    }
    argv[len++] = python_of(bench);
    argv[len++] = "-c";
    argv[len++] = CELL;
    argv[len] = NULL;
    command_one((char *const *) argv, first, end);
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

/* Runs @code in a fresh box; @answer, if not NULL, gets its output. */
static void box_run(struct engine *engine, const struct limits *limits, const char *code,
                    int64_t *ret_first_us, int64_t *ret_end_us, char *answer, size_t size)
{
    char *argv[] = { (char *) "-c", NULL };
    int64_t start = clock_now_us(), first = 0;
    struct run_spec spec = { .code = code,
                             .code_len = strlen(code),
                             .filename = "<string>",
                             .argv = argv,
                             .limits = *limits,
                             .reply_bytes = 4096,
                             .stdin_fd = -1,
                             .cancel_fd = -1,
                             .sink = { .arg = &first, .write = on_output } };
    struct outcome outcome;
    struct gb_err err;
    struct box *box;

    if (box_acquire(engine, limits, &box, &err) < 0 || oneshot_run(box, &spec, &outcome, &err) < 0)
        die("box", err.msg);
    *ret_end_us = clock_now_us() - start;
    *ret_first_us = first - start;
    if (outcome.status != RUN_OK || outcome.out.head_len == 0)
        die("box", "the cell failed");
    if (answer)
        snprintf(answer, size, "%.*s", (int) outcome.out.head_len, outcome.out.head);
    outcome_release(&outcome);
    box_release(box);
}

static void box_one(struct bench *bench, int which, struct samples *first, struct samples *end)
{
    int64_t first_us, end_us;

    box_run(bench->engines[which], &bench->limits, CELL, &first_us, &end_us, NULL, 0);
    sample_add(first, first_us);
    sample_add(end, end_us);
}

static struct engine *engine_start(const struct bench *bench, unsigned pool, bool tenants,
                                   bool standard)
{
    struct engine_config config = { .preload = standard ? engine_preload_all : preload_of(bench),
                                    .cgroups = CGROUP_AUTO,
                                    .landlock = true,
                                    .pool_boxes = pool,
                                    .pool_tenants = tenants,
                                    .pool_limits = bench->limits };
    struct template_report report;
    struct engine *engine;
    struct gb_err err;

    if (!standard && bench->template.python) {
        config.python = bench->template.python;
        config.binds = (const char *const *) bench->template.binds;
        config.packages = template_entry_def(&bench->template).packages;
    }
    if (engine_open(&config, &engine, &err) < 0 || engine_wait_ready(engine, &err) < 0)
        die("engine", err.msg);
    engine_template_report(engine, NULL, &report);
    if (report.missing[0] || report.left_out[0])
        fprintf(stderr, "not preloaded:\n%s%s", report.missing, report.left_out);
    return engine;
}

/* ---- latency ---- */

static void one(struct bench *bench, int which, bool idle)
{
    struct series *series = &bench->series[which];
    struct samples *first = idle ? &series->idle_first : &series->first;
    struct samples *end = idle ? &series->idle_end : &series->end;

    if (idle)
        (void) sleep(1);
    else if (which == POOLED || which == TENANT || which == DEFAULT)
        (void) usleep(50000); /* time to fill the pool, which is meant for occasional requests */
    if (which == FLOOR)
        floor_one(bench, first, end);
    else if (which == BWRAP)
        bwrap_one(bench, first, end);
    else if (which == PYTHON)
        python_one(bench, first, end);
    else
        box_one(bench, which, first, end);
}

static bool is_measured(const struct bench *bench, int which)
{
    return which != DEFAULT || bench->engines[DEFAULT];
}

static void latency(struct bench *bench, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        fprintf(stderr, "\r\033[Klatency, round %d of %d", round + 1, rounds);
        for (int which = FLOOR; which < SERIES; which++)
            if ((which < BWRAP || round < PEER_ROUNDS) && is_measured(bench, which))
                one(bench, which, false);
    }
    for (int round = 0; round < IDLE_ROUNDS; round++) {
        fprintf(stderr, "\r\033[Kafter an idle second, round %d of %d", round + 1, IDLE_ROUNDS);
        for (int which = FLOOR; which <= DEFAULT; which++)
            if (is_measured(bench, which))
                one(bench, which, true);
    }
    fprintf(stderr, "\r\033[K");
}

static void latency_report(struct bench *bench)
{
    double floor_end = percentile_ms(&bench->series[FLOOR].end, 0.5);
    double floor_idle = percentile_ms(&bench->series[FLOOR].idle_end, 0.5);
    double bwrap = percentile_ms(&bench->series[BWRAP].end, 0.5);
    json_t *all = json_object();

    printf("%-8s %9s %9s %9s %9s %9s %9s %9s %9s\n", "ms", "first p50", "p99", "end p50", "p99",
           "vs floor", "vs bwrap", "idle p50", "vs floor");
    for (int i = 0; i < SERIES; i++) {
        struct series *series = &bench->series[i];
        double first = percentile_ms(&series->first, 0.5), end = percentile_ms(&series->end, 0.5);
        double idle = percentile_ms(&series->idle_end, 0.5);
        double first99 = percentile_ms(&series->first, 0.99);
        double end99 = percentile_ms(&series->end, 0.99);

        if (!is_measured(bench, i))
            continue;
        printf("%-8s %9.2f %9.2f %9.2f %9.2f %7.2f x %7.1f x ", names[i], first, first99, end,
               end99, end / floor_end, bwrap / end);
        if (series->idle_end.len)
            printf("%9.2f %7.2f x", idle, idle / floor_idle);
        printf("\n");
        json_object_set_new(all, names[i],
                            json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "first_p50_ms",
                                      first, "first_p99_ms", first99, "end_p50_ms", end,
                                      "end_p99_ms", end99, "end_vs_floor", end / floor_end,
                                      "times_faster_than_bwrap", bwrap / end, "idle_end_p50_ms",
                                      idle, "idle_end_vs_floor",
                                      floor_idle > 0 ? idle / floor_idle : 0.0));
    }
    json_object_set_new(bench->result, "latency", all);
    if (bench->engines[DEFAULT])
        printf("tenant   %.2f x that of the default template\n",
               percentile_ms(&bench->series[TENANT].end, 0.5) /
                   percentile_ms(&bench->series[DEFAULT].end, 0.5));
}

/* ---- rate and bursts ---- */

struct worker {
    struct bench *bench;
    struct engine *engine;
    int64_t until_us; /* 0: once */
    int64_t count;
};

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    int64_t first, end;

    do {
        box_run(worker->engine, &worker->bench->limits, CELL, &first, &end, NULL, 0);
        worker->count++;
    } while (clock_now_us() < worker->until_us);
    return NULL;
}

/* Starts @count workers at once; returns the total number of runs. */
static int64_t workers(struct bench *bench, struct engine *engine, int count, int64_t until_us)
{
    struct worker *all = calloc((size_t) count, sizeof *all);
    pthread_t *threads = calloc((size_t) count, sizeof *threads);
    int64_t sum = 0;

    if (!all || !threads)
        die("memory", NULL);
    for (int i = 0; i < count; i++) {
        all[i] = (struct worker){ bench, engine, until_us, 0 };
        if (pthread_create(&threads[i], NULL, worker_main, &all[i]) != 0)
            die("thread", NULL);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        sum += all[i].count;
    }
    free(threads);
    free(all);
    return sum;
}

/* CPU time that this machine has used since boot, for all processes: work for a process before its
 * start and after its end is in nobody's account. */
static double machine_cpu_ms(void)
{
    double user = 0, nice = 0, system = 0, idle, iowait, irq = 0, softirq = 0;
    FILE *file = fopen("/proc/stat", "re");

    if (!file)
        return 0;
    if (fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &iowait, &irq,
               &softirq) != 7)
        user = 0;
    (void) fclose(file);
    return (user + nice + system + irq + softirq) * 1000 / (double) sysconf(_SC_CLK_TCK);
}

static void rate(struct bench *bench)
{
    int cores = (int) sysconf(_SC_NPROCESSORS_ONLN);
    double boxes, forks = 0, fork_cpu, box_cpu;
    struct floor floors[THREADS_MAX];
    char line[64];

    if (cores > THREADS_MAX)
        cores = THREADS_MAX;
    for (int i = 0; i < cores; i++)
        floor_start(&floors[i], bench);
    fork_cpu = machine_cpu_ms();
    for (int i = 0; i < cores; i++) {
        fprintf(floors[i].to, "loop %d\n", RATE_SECONDS);
        (void) fflush(floors[i].to);
    }
    for (int i = 0; i < cores; i++) {
        if (!fgets(line, sizeof line, floors[i].from))
            die("floor.py", "it ended");
        forks += strtod(line, NULL) / RATE_SECONDS;
    }
    fork_cpu = (machine_cpu_ms() - fork_cpu) / (forks * RATE_SECONDS);
    for (int i = 0; i < cores; i++)
        floor_end(&floors[i]);
    box_cpu = machine_cpu_ms();
    boxes = (double) workers(bench, bench->engines[BOX], cores,
                             clock_now_us() + RATE_SECONDS * USEC_PER_SEC) /
            RATE_SECONDS;
    box_cpu = (machine_cpu_ms() - box_cpu) / (boxes * RATE_SECONDS);
    printf("rate     %.0f forks/s, %.0f fresh boxes/s on %d cores: %.2f x; CPU time of the machine "
           "%.1f ms and %.1f ms each\n",
           forks, boxes, cores, boxes / forks, fork_cpu, box_cpu);
    json_object_set_new(bench->result, "rate",
                        json_pack("{s:f, s:f, s:f, s:f, s:f}", "forks_per_s", forks, "boxes_per_s",
                                  boxes, "ratio", boxes / forks, "fork_cpu_ms", fork_cpu,
                                  "box_cpu_ms", box_cpu));
}

static void burst(struct bench *bench)
{
    char question[32], answer[64];
    double forks, boxes;
    int64_t start;

    snprintf(question, sizeof question, "burst %d", BURST);
    floor_ask(&bench->floor, question, answer, sizeof answer);
    forks = strtod(answer, NULL) / 1000;
    start = clock_now_us();
    (void) workers(bench, bench->engines[BOX], BURST, 0);
    boxes = (double) (clock_now_us() - start) / 1000;
    printf("burst    %d forks %.0f ms, %d new boxes %.0f ms: %.2f x\n", BURST, forks, BURST, boxes,
           boxes / forks);
    json_object_set_new(
        bench->result, "burst",
        json_pack("{s:f, s:f, s:f}", "forks_ms", forks, "boxes_ms", boxes, "ratio", boxes / forks));
}

/* What an empty box costs the kernel: namespaces, mounts, cgroups, and their removal. */
static void empty(struct bench *bench)
{
    struct samples made = { 0 }, gone = { 0 };
    double make_ms, end_ms;

    for (int i = 0; i < ROUNDS_DEFAULT; i++) {
        int64_t start = clock_now_us();
        struct gb_err err;
        struct box *box;

        if (box_acquire(bench->engines[BOX], &bench->limits, &box, &err) < 0)
            die("box", err.msg);
        sample_add(&made, clock_now_us() - start);
        start = clock_now_us();
        box_release(box);
        sample_add(&gone, clock_now_us() - start);
    }
    make_ms = percentile_ms(&made, 0.5);
    end_ms = percentile_ms(&gone, 0.5);
    printf("empty    a box without a program: %.2f ms to make, %.2f ms to remove\n", make_ms,
           end_ms);
    json_object_set_new(bench->result, "empty",
                        json_pack("{s:f, s:f}", "make_ms", make_ms, "remove_ms", end_ms));
    samples_release(&made);
    samples_release(&gone);
}

/* ---- inside and outside ---- */

static void inside(struct bench *bench, const char *name, const char *code)
{
    char question[1024] = "self ", answer[64];
    double best_in = 1e9, best_out = 1e9;
    size_t used = strlen(question);
    int64_t first, end;

    for (const char *p = code; *p && used + 3 < sizeof question; p++) {
        if (*p == '\n') {
            question[used++] = '\\';
            question[used++] = 'n';
        } else {
            question[used++] = *p;
        }
    }
    question[used] = '\0';
    for (int i = 0; i < 5; i++) {
        double value;

        floor_ask(&bench->floor, question, answer, sizeof answer);
        value = strtod(answer, NULL);
        if (value < best_out)
            best_out = value;
        box_run(bench->engines[BOX], &bench->limits, code, &first, &end, answer, sizeof answer);
        value = strtod(answer, NULL);
        if (value < best_in)
            best_in = value;
    }
    printf("%-8s %.1f ms outside, %.1f ms inside: %.2f x the speed\n", name, best_out * 1000,
           best_in * 1000, best_out / best_in);
    json_object_set_new(bench->result, name,
                        json_pack("{s:f, s:f, s:f}", "outside_ms", best_out * 1000, "inside_ms",
                                  best_in * 1000, "speed", best_out / best_in));
}

static int64_t field_kib(const char *path, const char *name)
{
    FILE *file = fopen(path, "re");
    char line[256];
    int64_t sum = 0;

    if (!file)
        return -1;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            sum += strtoll(line + strlen(name), NULL, 10);
    (void) fclose(file);
    return sum;
}

/* Private memory of a waiting tenant, according to the kernel. */
static void memory(struct bench *bench)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), stdio[3] = { null, null, null };
    char path[64];
    int64_t dirty, tables, fork_kib;
    char answer[64];
    struct tenant *tenant;
    struct gb_err err;
    struct box *box;

    if (box_acquire(bench->engines[BOX], &bench->limits, &box, &err) < 0 ||
        tenant_spawn(box, stdio, &tenant, &err) < 0)
        die("tenant", err.msg);
    (void) usleep(500000); /* until it is warm and waits */
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", tenant_pid(tenant));
    dirty = field_kib(path, "Private_Dirty:") + field_kib(path, "Private_Clean:");
    snprintf(path, sizeof path, "/proc/%d/status", tenant_pid(tenant));
    tables = field_kib(path, "VmPTE:");
    floor_ask(&bench->floor, "memory", answer, sizeof answer);
    fork_kib = strtoll(answer, NULL, 10);
    printf("memory   an idle tenant has %lld KiB of private memory (a bare fork %lld), and %lld "
           "KiB of "
           "page tables\n",
           (long long) dirty, (long long) fork_kib, (long long) tables);
    json_object_set_new(bench->result, "memory",
                        json_pack("{s:I, s:I, s:I}", "private_kib", (json_int_t) dirty,
                                  "fork_private_kib", (json_int_t) fork_kib, "page_tables_kib",
                                  (json_int_t) tables));
    tenant_free(tenant);
    box_release(box);
    (void) close(null);
}

/* With all three engines; after this one is enough. */
static void latencies(struct bench *bench)
{
    bench->engines[POOLED] = engine_start(bench, POOL, false, false);
    bench->engines[TENANT] = engine_start(bench, POOL, true, false);
    if (bench->template.python)
        bench->engines[DEFAULT] = engine_start(bench, POOL, true, true);
    (void) sleep(1); /* until the pools are full */
    latency(bench, bench->rounds);
    latency_report(bench);
    engine_close(bench->engines[POOLED]);
    engine_close(bench->engines[TENANT]);
    engine_close(bench->engines[DEFAULT]);
    bench->engines[DEFAULT] = NULL;
}

static void insides(struct bench *bench)
{
    inside(bench, "cpu", CPU_CELL);
    inside(bench, "stat", STAT_CELL);
}

static const struct part {
    const char *name;
    void (*run)(struct bench *bench);
} parts[] = {
    { "latency", latencies }, { "rate", rate },     { "burst", burst },
    { "empty", empty },       { "memory", memory }, { "inside", insides },
};

/* The template of that name in the default data directory, or in $GLOVEBOX_DATA. Python outside of
 * boxes finds its packages too. */
static void template_use(struct bench *bench, const char *name)
{
    autofree char *data_dir = NULL;
    const char *named = getenv("GLOVEBOX_DATA");
    struct gb_err err = { 0 };

    if (named)
        data_dir = strdup(named);
    else if (data_default_dir(&data_dir, &err) < 0)
        die("template", err.msg);
    if (!data_dir || templates_load(data_dir, name, &bench->template, &err) < 0 ||
        template_furnish_from(data_dir, &bench->template, &err) < 0)
        die("template", err.msg);
    if (bench->template.packages_dir && setenv("PYTHONPATH", bench->template.packages_dir, 1) < 0)
        die("template", NULL);
}

static void bench_release(struct bench *bench)
{
    json_decref(bench->result);
    template_entry_release(&bench->template);
    for (int i = 0; i < SERIES; i++) {
        struct series *series = &bench->series[i];

        samples_release(&series->first);
        samples_release(&series->end);
        samples_release(&series->idle_first);
        samples_release(&series->idle_end);
    }
}

int main(int argc, char **argv)
{
    struct bench bench = { .result = json_object() };
    const char *path, *template = NULL;
    int rounds;

    if (argc > 1 && strcmp(argv[1], BUILDER_COMMAND) == 0)
        return builder_main(argc, argv); /* the engine executes the program that it is part of */
    if (argc > 2 && strcmp(argv[1], "--template") == 0) {
        template = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc < 2) {
        fprintf(stderr, "usage: bench_engine [--template NAME] FLOOR.PY [OUT.JSON [ROUNDS "
                        "[PART...]]]\n");
        return 2;
    }
    path = argc > 2 ? argv[2] : "bench.json";
    rounds = argc > 3 ? (int) strtol(argv[3], NULL, 10) : 0;
    (void) signal(SIGPIPE, SIG_IGN);
    bench.floor_script = argv[1];
    bench.rounds = rounds > 0 ? rounds : ROUNDS_DEFAULT;
    limits_default(&bench.limits);
    if (template)
        template_use(&bench, template);
    floor_start(&bench.floor, &bench);
    bench.engines[BOX] = engine_start(&bench, 0, false, false);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (is_named(argc, argv, 4, parts[i].name))
            parts[i].run(&bench);
    engine_close(bench.engines[BOX]);
    floor_end(&bench.floor);
    if (json_dump_file(bench.result, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0)
        printf("saved as %s\n", path);
    bench_release(&bench);
    return 0;
}
