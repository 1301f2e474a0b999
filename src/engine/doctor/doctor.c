/*
 * The doctor's trials: what it tries, and in which order.
 *
 * Theory of operation. One engine is opened as `glovebox run` would. In a first box one tenant
 * waits while another runs the probe (probe.py), which prints what it sees and can do. Then small
 * programs try to exceed one limit each, in separate boxes. Two of them take long, one because it
 * ignores signals and has to be killed after the grace period, one because it imports libraries;
 * each has a thread. Nothing is judged here: the findings go to verdict.c.
 */
#include "engine/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "engine/blobs.h"
#include "engine/cgroup/read.h"
#include "engine/doctor/internal.h"

#include "base/banned.h"

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)

#define PACKAGES_US (60 * USEC_PER_SEC) /* importing all of them; a busy machine is slow */

/* The limit stops them; otherwise each would exit by itself after a while. */
static const char *const programs[TRIAL_COUNT] = {
    /* Touched, not only allocated; held, so that a sampling watch can see it. */
    [TRIAL_MEMORY] = "import time\n"
                     "held = []\n"
                     "for _ in range(48):\n"
                     "    held.append(b'x' * (4 << 20))\n"
                     "time.sleep(2)\n",
    [TRIAL_PIDS] = "import os, time\n"
                   "try:\n"
                   "    for _ in range(64):\n"
                   "        if os.fork() == 0:\n"
                   "            time.sleep(5)\n"
                   "            os._exit(0)\n"
                   "finally:\n"
                   "    time.sleep(0.2)\n",
    [TRIAL_DISK] = "with open('fill', 'wb', 0) as f:\n"
                   "    for _ in range(64):\n"
                   "        f.write(b'x' * 65536)\n",
    [TRIAL_INODES] = "for n in range(4096):\n"
                     "    open(str(n), 'x').close()\n",
    [TRIAL_WORKSPACE] = "with open('fill', 'wb', 0) as f:\n"
                        "    for _ in range(64):\n"
                        "        f.write(b'x' * 65536)\n",
    [TRIAL_FILE_SIZE] = "with open('large', 'wb', 0) as f:\n"
                        "    for _ in range(64):\n"
                        "        f.write(b'x' * 16384)\n",
    [TRIAL_OUTPUT] = "for _ in range(64):\n"
                     "    print('x' * 4096, flush=True)\n",
    [TRIAL_CPU_TIME] = "import time\n"
                       "end = time.monotonic() + 5\n"
                       "while time.monotonic() < end:\n"
                       "    pass\n",
    [TRIAL_CPU_SHARE] = "import time\n"
                        "end = time.monotonic() + 0.3\n"
                        "while time.monotonic() < end:\n"
                        "    pass\n",
    /* Ignores signals, with a daemon in its own session that ignores them too. */
    [TRIAL_WALL_TIME] = "import os, signal, time\n"
                        "for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n"
                        "    signal.signal(s, signal.SIG_IGN)\n"
                        "if os.fork() == 0:\n"
                        "    os.setsid()\n"
                        "time.sleep(30)\n",
    /* Except the holder of this program's own memory, its only child. Killed processes need a
     * moment to be gone, on a busy machine a long one. */
    [TRIAL_LEFTOVERS] = "import os, time\n"
                        "def count():\n"
                        "    n = 0\n"
                        "    for pid in filter(str.isdigit, os.listdir('/proc')):\n"
                        "        try:\n"
                        "            stat = open(f'/proc/{pid}/stat').read()\n"
                        "        except OSError:\n"
                        "            continue\n"
                        "        n += int(stat.rpartition(')')[2].split()[1]) != os.getpid()\n"
                        "    return n\n"
                        "end = time.monotonic() + 5\n"
                        "while count() > 2 and time.monotonic() < end:\n"
                        "    time.sleep(0.01)\n"
                        "print('processes', count())\n",
    [TRIAL_PACKAGES] = "import importlib, os, sys\n"
                       "for name in sys.argv[1:]:\n"
                       "    try:\n"
                       "        module = importlib.import_module(name)\n"
                       "        said = str(getattr(module, '__version__', '?'))\n"
                       "    except ModuleNotFoundError as e:\n"
                       "        said = '-' if e.name == name else f'! {e}'\n"
                       "    except BaseException as e:\n"
                       "        said = f'! {e!r}'\n"
                       "    os.write(1, f'{name} {said[:90]}\\n'.encode('ascii', 'replace'))\n",
};

#define TRIAL_US (30 * USEC_PER_SEC)

/* The text for the progress callback, the time it may take, and the limit it tests. */
static const struct trial {
    const char *title;
    int64_t wall_us;
    size_t limit;
    int64_t value;
} trials[TRIAL_COUNT] = {
    [TRIAL_MEMORY] = { "the memory limit", TRIAL_US, LIMIT_ROW_memory_bytes,
                       (DOCTOR_MEMORY_MIB * MIB) },
    [TRIAL_PIDS] = { "the limit on processes", TRIAL_US, LIMIT_ROW_pids, DOCTOR_PIDS },
    [TRIAL_DISK] = { "the disk quota", TRIAL_US, LIMIT_ROW_disk_bytes, (DOCTOR_DISK_KIB * KIB) },
    [TRIAL_INODES] = { "the limit on files", TRIAL_US, LIMIT_ROW_disk_inodes, DOCTOR_INODES },
    [TRIAL_WORKSPACE] = { "the quota of workspaces on disk", TRIAL_US, LIMIT_ROW_disk_bytes,
                          (DOCTOR_DISK_KIB * KIB) },
    [TRIAL_FILE_SIZE] = { "the file size limit", TRIAL_US, LIMIT_ROW_file_bytes,
                          (DOCTOR_FILE_KIB * KIB) },
    [TRIAL_OUTPUT] = { "the output limit", TRIAL_US, LIMIT_ROW_output_bytes,
                       (DOCTOR_OUTPUT_KIB * KIB) },
    [TRIAL_CPU_TIME] = { "the CPU time limit", TRIAL_US, LIMIT_ROW_cpu_us,
                         (DOCTOR_CPU_MS * USEC_PER_MSEC) },
    [TRIAL_CPU_SHARE] = { "the CPU share", TRIAL_US, LIMIT_ROW_cpu_milli, DOCTOR_SHARE_MILLI },
    [TRIAL_WALL_TIME] = { "the deadline", (DOCTOR_WALL_MS * USEC_PER_MSEC), LIMIT_ROW_wall_us,
                          (DOCTOR_WALL_MS * USEC_PER_MSEC) },
    [TRIAL_LEFTOVERS] = { "processes that outlive a run", TRIAL_US, LIMIT_ROW_wall_us, TRIAL_US },
    [TRIAL_PACKAGES] = { "the Python packages", PACKAGES_US, LIMIT_ROW_memory_bytes, 1024 * MIB },
};

static void trial_limits(enum doctor_trial trial, struct limits *limits)
{
    limits_default(limits);
    limits->wall_us = trials[trial].wall_us;
    limit_put(limits, &limit_rows[trials[trial].limit], trials[trial].value);
}

/* ---- one run ---- */

struct job {
    struct engine *engine;
    struct doctor_findings *findings;
    enum doctor_trial trial;
    pthread_t thread;
    bool threaded;
    int cpu_fd, memory_fd; /* the box's cgroups; the trials of limits read them back */
};

static void result_fail(struct doctor_result *result, const struct gb_err *err)
{
    *result = (struct doctor_result){ 0 };
    snprintf(result->trouble, sizeof result->trouble, "%s", err->msg);
}

static void result_take(struct doctor_result *result, const struct outcome *outcome)
{
    size_t len = outcome->out.head_len;

    if (len >= sizeof result->out)
        len = sizeof result->out - 1;
    *result = (struct doctor_result){
        .ran = true,
        .status = outcome->status,
        .limit = outcome->limit,
        .exit_code = outcome->exit_code,
        .wall_us = outcome->wall_us,
        .cpu_us = outcome->cpu_us,
    };
    if (len > 0)
        memcpy(result->out, outcome->out.head, len);
}

static void run_in(struct box *box, struct run_spec *spec, struct doctor_result *result)
{
    struct outcome outcome;
    struct gb_err err = { 0 };

    spec->filename = "<doctor>";
    spec->reply_bytes = (size_t) 2 * DOCTOR_OUT_MAX; /* half of it is the head */
    spec->stdin_fd = spec->cancel_fd = -1;
    if (oneshot_run(box, spec, &outcome, &err) < 0) {
        result_fail(result, &err);
        return;
    }
    result_take(result, &outcome);
    outcome_release(&outcome);
}

/* ---- reading limits back ---- */

/* The group of @pid in the hierarchy of @controller (NULL: v2), according to /proc. */
static bool group_name(pid_t pid, const char *controller, char *buf, size_t size)
{
    char path[40], text[8192], *rest = text, *line;

    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    if (io_read_text_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    while ((line = strsep(&rest, "\n"))) {
        const char *name = cgroup_self_parse(line, controller);

        if (!name || strlen(name) >= size)
            continue;
        snprintf(buf, size, "%s", name);
        return true;
    }
    return false;
}

static int group_open(pid_t pid, const char *controller)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char name[PATH_MAX], *line = NULL;
    int fd = -EBADF;
    size_t size = 0;

    while (file && fd < 0 && getline(&line, &size, file) > 0) {
        struct cgroup_mount mount;
        const char *below;
        autoclose int top = -EBADF;

        if (!cgroup_mount_parse(line, &mount) || mount.v2 != !controller ||
            (controller && !cgroup_list_has(mount.options, ',', controller)) ||
            !group_name(pid, controller, name, sizeof name) ||
            !(below = cgroup_path_below(mount.root, name)) || !*below)
            continue;
        top = open(mount.point, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (top >= 0)
            fd = openat(top, below, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    free(line);
    if (file)
        (void) fclose(file);
    return fd < 0 ? -EBADF : fd;
}

static void open_groups(void *arg, struct tenant *tenant)
{
    struct job *job = arg;
    enum cgroup_mode mode = job->findings->info.cgroup_mode;

    if (mode != CGROUP_V1 && mode != CGROUP_V2)
        return;
    job->cpu_fd = group_open(tenant_pid(tenant), mode == CGROUP_V2 ? NULL : "cpu");
    job->memory_fd = group_open(tenant_pid(tenant), mode == CGROUP_V2 ? NULL : "memory");
}

/* While the box still exists. */
static void read_groups(struct job *job)
{
    struct doctor_findings *findings = job->findings;

    if (job->cpu_fd >= 0) {
        findings->periods = cgroup_read_key(job->cpu_fd, "cpu.stat", "nr_periods");
        findings->throttled = cgroup_read_key(job->cpu_fd, "cpu.stat", "nr_throttled");
    }
    if (job->memory_fd >= 0 && findings->info.cgroup_mode == CGROUP_V2) {
        findings->swap_bytes = cgroup_read_int(job->memory_fd, "memory.swap.max");
    } else if (job->memory_fd >= 0) {
        int64_t both = cgroup_read_int(job->memory_fd, "memory.memsw.limit_in_bytes");

        if (both >= 0)
            findings->swap_bytes = both - cgroup_read_int(job->memory_fd, "memory.limit_in_bytes");
    }
    gb_closep(&job->cpu_fd);
    gb_closep(&job->memory_fd);
    job->cpu_fd = job->memory_fd = -EBADF;
}

/* ---- the trials ---- */

static void trial_in(struct job *job, struct box *box, const struct limits *limits)
{
    char *argv[2 + DOCTOR_PACKAGES_MAX] = { (char *) "-c" };
    struct run_spec spec = {
        .code = programs[job->trial],
        .code_len = strlen(programs[job->trial]),
        .argv = argv,
        .limits = *limits,
    };

    for (size_t i = 0; job->trial == TRIAL_PACKAGES && i < DOCTOR_PACKAGES_MAX; i++)
        argv[1 + i] = (char *) doctor_packages[i].module;
    if (job->trial == TRIAL_CPU_SHARE) {
        spec.on_started = open_groups;
        spec.on_started_arg = job;
    }
    run_in(box, &spec, &job->findings->trials[job->trial]);
    read_groups(job);
}

static void *trial_run(void *arg)
{
    struct job *job = arg;
    struct box_options options = { .disk = job->trial == TRIAL_WORKSPACE };
    struct box *box = NULL;
    struct limits limits;
    struct gb_err err = { 0 };

    trial_limits(job->trial, &limits);
    if (box_acquire_with(job->engine, &limits, &options, &box, &err) < 0) {
        result_fail(&job->findings->trials[job->trial], &err);
        return NULL;
    }
    trial_in(job, box, &limits);
    if (job->trial == TRIAL_WALL_TIME) {
        job->trial = TRIAL_LEFTOVERS;
        trial_limits(job->trial, &limits);
        trial_in(job, box, &limits);
    }
    box_release(box);
    return NULL;
}

static void progress(const struct doctor_config *config, const char *what)
{
    if (config->progress)
        config->progress(config->progress_arg, what);
}

/* The slow ones first, in parallel with the others. */
static void run_trials(struct engine *engine, struct doctor_findings *findings)
{
    static const enum doctor_trial slow[] = { TRIAL_PACKAGES, TRIAL_WALL_TIME };
    struct job jobs[ARRAY_LEN(slow)];

    for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
        jobs[i] = (struct job){ engine, findings, slow[i], .cpu_fd = -EBADF, .memory_fd = -EBADF };
        jobs[i].threaded = pthread_create(&jobs[i].thread, NULL, trial_run, &jobs[i]) == 0;
    }
    for (int trial = 0; trial < TRIAL_WALL_TIME; trial++) {
        struct job job = { engine, findings, (enum doctor_trial) trial, .cpu_fd = -EBADF,
                           .memory_fd = -EBADF };

        if (trial == TRIAL_WORKSPACE && findings->disk.code)
            continue;
        progress(findings->config, trials[trial].title);
        (void) trial_run(&job);
    }
    for (size_t i = ARRAY_LEN(slow); i-- > 0;) {
        progress(findings->config, trials[slow[i]].title);
        if (jobs[i].threaded)
            (void) pthread_join(jobs[i].thread, NULL);
        else
            (void) trial_run(&jobs[i]);
    }
}

/* ---- the probe ---- */

static const char *const host_paths[] = {
    "/boot", "/etc/shadow", "/home", "/root", "/run", "/srv", "/sys/kernel", "/var/lib", "/var/log",
};

static void note_host_uid(void *arg, struct tenant *tenant)
{
    struct doctor_findings *findings = arg;
    char path[32];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d", tenant_pid(tenant));
    if (stat(path, &st) == 0)
        findings->host_uid = st.st_uid;
}

/* A path of the host that the probe looks for, if it exists. */
static void path_add(struct doctor_findings *findings, char **argv, size_t *argc, char *path)
{
    size_t used = strlen(findings->host_paths);

    if (access(path, F_OK) < 0)
        return;
    argv[(*argc)++] = path;
    snprintf(findings->host_paths + used, sizeof findings->host_paths - used, "%s%s",
             used ? ", " : "", path);
}

static void run_probe(struct box *box, const struct limits *limits,
                      struct doctor_findings *findings)
{
    struct blob probe = blob_doctor_probe();
    char *argv[ARRAY_LEN(host_paths) + 3] = { (char *) "-c" };
    struct run_spec spec = {
        .code = (const char *) probe.data,
        .code_len = probe.len,
        .argv = argv,
        .limits = *limits,
        .on_started = note_host_uid,
        .on_started_arg = findings,
    };
    size_t argc = 1;

    for (size_t i = 0; i < ARRAY_LEN(host_paths); i++)
        path_add(findings, argv, &argc, (char *) host_paths[i]);
    run_in(box, &spec, &findings->probe);
}

/* One tenant waits while another one looks around: they must be isolated from each other, too. */
static int probe_box(struct box *box, const struct limits *limits, struct doctor_findings *findings,
                     struct gb_err *err)
{
    autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int stdio[3] = { null, null, null };
    struct tenant *sibling = NULL;
    int r = tenant_spawn(box, stdio, &sibling, err);

    if (r < 0)
        return r;
    run_probe(box, limits, findings);
    tenant_free(sibling);
    if (!findings->probe.ran)
        return gb_fail_plain(err, EIO, "%s", findings->probe.trouble);
    return 0;
}

/* ---- the examination ---- */

static void look_namespaces(struct doctor_findings *findings)
{
    for (size_t i = 0; i < DOCTOR_NAMESPACES; i++) {
        char path[40];
        struct stat st;

        snprintf(path, sizeof path, "/proc/self/ns/%s", doctor_namespaces[i]);
        if (stat(path, &st) == 0)
            findings->namespaces[i] = st.st_ino;
    }
}

/* With the cgroups that the caller wants, and with a directory on disk. If one of them is not
 * available, without it: the other protections are worth testing all the same. */
static int open_engine(struct doctor_findings *findings, const char *disk_dir,
                       struct engine **ret_engine, struct gb_err *err)
{
    struct engine_config config = {
        .python =
            findings->config->template.python ? findings->config->template.python : DOCTOR_PYTHON,
        .binds = findings->config->template.binds,
        .packages = findings->config->template.packages,
        .cgroups = findings->config->cgroups,
        .landlock = findings->config->landlock,
        .disk_dir = disk_dir,
    };
    int r = engine_open(&config, ret_engine, err);

    if (r < 0 && disk_dir) {
        struct gb_err disk = *err;

        config.disk_dir = NULL;
        r = engine_open(&config, ret_engine, err);
        if (r == 0)
            findings->disk = disk; /* the disk was the reason only if that helped */
        else
            config.disk_dir = disk_dir;
    }

    if (r == 0 || (config.cgroups != CGROUP_V1 && config.cgroups != CGROUP_V2))
        return r;
    findings->cgroups_forced = *err;
    config.cgroups = CGROUP_AUTO;
    r = engine_open(&config, ret_engine, err);
    if (r < 0)
        findings->cgroups_forced = (struct gb_err){ 0 };
    return r;
}

/* Goes as far as this host lets us; findings->stage says how far. */
static int examine(const char *disk_dir, struct engine **engine, struct box **box,
                   struct doctor_findings *findings)
{
    struct gb_err *err = &findings->error;
    struct limits limits;
    int r;

    limits_default(&limits);
    if ((r = open_engine(findings, disk_dir, engine, err)) < 0)
        return r;
    engine_get_info(*engine, &findings->info);
    findings->stage = STAGE_BOX;
    if ((r = box_acquire(*engine, &limits, box, err)) < 0)
        return r;
    findings->stage = STAGE_PYTHON;
    if ((r = engine_wait_ready(*engine, err)) < 0)
        return r;
    findings->stage = STAGE_PROBE;
    progress(findings->config, "the walls of a box");
    if ((r = probe_box(*box, &limits, findings, err)) < 0)
        return r;
    findings->stage = STAGE_DONE;
    run_trials(*engine, findings);
    return 0;
}

int doctor_run(const struct doctor_config *config, struct doctor_report *ret_report,
               struct gb_err *err)
{
    struct doctor_findings *findings = calloc(1, sizeof *findings);
    char place[] = "/var/tmp/glovebox-doctor-XXXXXX";
    const char *disk_dir = config->disk_dir;
    struct engine *engine = NULL;
    struct box *box = NULL;

    if (!findings)
        return gb_fail(err, ENOMEM, "examine this host");
    findings->config = config;
    findings->host_uid = (uid_t) -1;
    findings->periods = findings->throttled = findings->swap_bytes = -1;
    progress(config, "to make a box");
    doctor_host_look(&findings->host);
    look_namespaces(findings);
    if (!disk_dir && !(disk_dir = mkdtemp(place)))
        (void) gb_fail(&findings->disk, errno, "create a directory below /var/tmp");
    (void) examine(disk_dir, &engine, &box, findings);
    box_release(box);
    engine_close(engine);
    if (disk_dir == place)
        (void) rmdir(place);
    doctor_judge(findings, ret_report);
    free(findings);
    return 0;
}
