/* The verdicts on limits and on Python, from how the runs that tried to exceed them ended. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "engine/doctor/internal.h"

#include "base/banned.h"

#define FACT_MAX    256
#define DEADLINE_US (DOCTOR_WALL_MS * USEC_PER_MSEC + 15 * USEC_PER_SEC) /* busy machines stall */

const struct doctor_package doctor_packages[DOCTOR_PACKAGES_MAX] = {
    { .module = "numpy", .debian = "python3-numpy" },
    { .module = "pandas", .debian = "python3-pandas" },
    { .module = "matplotlib", .debian = "python3-matplotlib" },
    { .module = "plotly", .debian = "python3-plotly" },
    { .module = "requests", .debian = "python3-requests" },
    { .module = "scipy", .debian = "python3-scipy" },
    { .module = "sklearn", .debian = "python3-sklearn" },
    { .module = "openpyxl", .debian = "python3-openpyxl" },
    { .module = "PIL", .debian = "python3-pil" },
};

/* ---- control groups ---- */

static bool has_cgroups(const struct doctor_findings *f)
{
    return f->info.cgroup_mode == CGROUP_V2 || f->info.cgroup_mode == CGROUP_V1;
}

static const char *cgroup_name(const struct doctor_findings *f)
{
    return f->info.cgroup_mode == CGROUP_V2 ? "cgroup v2" : "cgroup v1";
}

static const char *cure_cgroups(const struct doctor_findings *f)
{
    const struct doctor_host *host = &f->host;

    if (f->config->cgroups == CGROUP_OFF)
        return "remove the --cgroups setting";
    if (host->cgroup_readonly)
        return "mount the cgroup file system writable in this container";
    if (!host->privileged && host->cgroup2_memory)
        return "start it as `systemd-run --user --scope -p Delegate=yes glovebox ...`";
    if (!host->privileged && host->cgroup1_memory)
        return "start it as root, or have root create a group for you in every v1 hierarchy";
    return "mount cgroup v2 with the memory and pids controllers (kernel parameter "
           "cgroup_enable=memory)";
}

/* The engine's note ends with advice after the parenthesis; we give our own. */
static int note_len(const char *note)
{
    const char *end = strncmp(note, "no control groups (", 19) == 0 ? strstr(note, "): ") : NULL;

    return end ? (int) (end - note) + 1 : (int) strlen(note);
}

void doctor_judge_cgroups(const struct doctor_findings *f, struct doctor_check *check)
{
    const char *note = f->info.note;

    if (f->cgroups_forced.code) {
        doctor_say(check, DOCTOR_FAILED, "%s; tried with %s instead", f->cgroups_forced.msg,
                   has_cgroups(f) ? cgroup_name(f) : "none");
        doctor_say_cure(check, "remove the --cgroups setting, or make that version available");
        check->required = true; /* `glovebox run` refuses to run without the requested cgroups */
    } else if (has_cgroups(f)) {
        doctor_say(check, DOCTOR_ACTIVE, "%s%s%.*s", cgroup_name(f), *note ? "; " : "",
                   note_len(note), note);
    } else if (f->config->cgroups == CGROUP_OFF) {
        doctor_say(
            check, DOCTOR_OFF,
            "switched off by --cgroups none, its environment variable or a configuration file: "
            "memory is sampled, the CPU share is not limited");
        doctor_say_cure(check, "%s", cure_cgroups(f));
    } else {
        doctor_say(check, DOCTOR_MISSING, "%.*s; memory is sampled, the CPU share is not limited",
                   note_len(note), note);
        doctor_say_cure(check, "%s", cure_cgroups(f));
    }
}

/* ---- runs that end at a limit ---- */

/* True if the run ended as it should; otherwise sets the state of the check. */
static bool ended_at(const struct doctor_findings *f, enum doctor_trial trial,
                     enum limit_kind limit, struct doctor_check *check)
{
    const struct doctor_result *result = &f->trials[trial];

    if (!result->ran)
        doctor_say(check, DOCTOR_FAILED, "could not be tried: %s", result->trouble);
    else if (result->limit != limit)
        doctor_say(check, DOCTOR_FAILED,
                   "the program that tried to exceed it ended as %s, exit code %d",
                   run_status_name(result->status), result->exit_code);
    else
        return true;
    return false;
}

/* Limits whose check only says that they held. */
static const struct {
    const char *check;
    enum doctor_trial trial;
    enum limit_kind limit;
    int allowed;
    const char *seen;
} plain_limits[] = {
    { "cpu_time", TRIAL_CPU_TIME, LIMIT_CPU_TIME, DOCTOR_CPU_MS,
      "ms allowed: a busy program was stopped" },
    { "disk", TRIAL_DISK, LIMIT_DISK_BYTES, DOCTOR_DISK_KIB,
      "KiB allowed in /workspace: writing more failed" },
    { "inodes", TRIAL_INODES, LIMIT_DISK_INODES, DOCTOR_INODES,
      "files allowed in /workspace: the next one failed" },
    { "file_size", TRIAL_FILE_SIZE, LIMIT_FILE_SIZE, DOCTOR_FILE_KIB,
      "KiB allowed: writing more failed" },
    { "output", TRIAL_OUTPUT, LIMIT_OUTPUT, DOCTOR_OUTPUT_KIB,
      "KiB allowed: a program that printed more was stopped" },
};

void doctor_judge_plain_limit(const struct doctor_findings *f, struct doctor_check *check)
{
    doctor_say(check, DOCTOR_FAILED, "nothing tries this limit"); /* a check without a row */
    for (size_t i = 0; i < ARRAY_LEN(plain_limits); i++)
        if (strcmp(plain_limits[i].check, check->name) == 0 &&
            ended_at(f, plain_limits[i].trial, plain_limits[i].limit, check))
            doctor_say(check, DOCTOR_ACTIVE, "%d %s", plain_limits[i].allowed,
                       plain_limits[i].seen);
}

void doctor_judge_memory(const struct doctor_findings *f, struct doctor_check *check)
{
    if (ended_at(f, TRIAL_MEMORY, LIMIT_MEMORY, check))
        doctor_say(check, DOCTOR_ACTIVE, "%d MiB allowed, more was used: ended as oom by %s",
                   DOCTOR_MEMORY_MIB,
                   has_cgroups(f) ? cgroup_name(f) : "the watcher, which samples every 20 ms");
}

void doctor_judge_swap(const struct doctor_findings *f, struct doctor_check *check)
{
    if (!f->host.has_swap) {
        doctor_say(check, DOCTOR_ACTIVE, "this host has no swap");
    } else if (f->swap_bytes == 0) {
        doctor_say(check, DOCTOR_ACTIVE, "counts as memory");
    } else if (f->swap_bytes > 0) {
        doctor_say(check, DOCTOR_FAILED, "a box may swap out %" PRId64 " MiB on top of its memory",
                   f->swap_bytes >> 20);
    } else {
        doctor_say(check, DOCTOR_MISSING,
                   "memory that a box has swapped out is not counted, so it may exceed its limit");
        doctor_say_cure(check, "%s",
                        has_cgroups(f) ? "boot with the kernel parameter swapaccount=1, or swapoff"
                                       : cure_cgroups(f));
    }
}

void doctor_judge_pids(const struct doctor_findings *f, struct doctor_check *check)
{
    if (ended_at(f, TRIAL_PIDS, LIMIT_PIDS, check))
        doctor_say(check, DOCTOR_ACTIVE, "%d allowed: the next fork was refused by %s", DOCTOR_PIDS,
                   has_cgroups(f) ? cgroup_name(f) : "RLIMIT_NPROC");
}

void doctor_judge_cpu_share(const struct doctor_findings *f, struct doctor_check *check)
{
    const struct doctor_result *result = &f->trials[TRIAL_CPU_SHARE];

    if (!has_cgroups(f)) {
        doctor_say(check, f->config->cgroups == CGROUP_OFF ? DOCTOR_OFF : DOCTOR_MISSING,
                   "only a cgroup can limit it");
        doctor_say_cure(check, "as for cgroups");
    } else if (!result->ran) {
        doctor_say(check, DOCTOR_FAILED, "could not be tried: %s", result->trouble);
    } else if (f->periods < 0 || f->throttled < 0) {
        doctor_say(check, DOCTOR_MISSING, "%s has no cpu controller here", cgroup_name(f));
        doctor_say_cure(check, "delegate the controller to this group (systemd: "
                               "CPUAccounting=yes, Delegate=yes)");
    } else if (f->throttled == 0 && result->cpu_us < result->wall_us / 2) {
        doctor_say(check, DOCTOR_MISSING, "inconclusive: this host was too busy");
        doctor_say_cure(check, "try again when the host is less busy");
    } else if (f->throttled == 0) {
        doctor_say(check, DOCTOR_FAILED, "a busy program was never throttled to %d.%d CPUs",
                   DOCTOR_SHARE_MILLI / 1000, DOCTOR_SHARE_MILLI % 1000 / 100);
    } else {
        doctor_say(check, DOCTOR_ACTIVE,
                   "%d.%d CPUs allowed: a busy program was throttled in %" PRId64 " of %" PRId64
                   " periods",
                   DOCTOR_SHARE_MILLI / 1000, DOCTOR_SHARE_MILLI % 1000 / 100, f->throttled,
                   f->periods);
    }
}

void doctor_judge_wall_time(const struct doctor_findings *f, struct doctor_check *check)
{
    int64_t took_us = f->trials[TRIAL_WALL_TIME].wall_us;

    if (!ended_at(f, TRIAL_WALL_TIME, LIMIT_WALL_TIME, check))
        return;
    doctor_say(check, took_us > DEADLINE_US ? DOCTOR_FAILED : DOCTOR_ACTIVE,
               "%d ms allowed: a program that ignores signals was gone after %.1f s",
               DOCTOR_WALL_MS, (double) took_us / USEC_PER_SEC);
}

void doctor_judge_leftovers(const struct doctor_findings *f, struct doctor_check *check)
{
    const struct doctor_result *result = &f->trials[TRIAL_LEFTOVERS];
    char count[FACT_MAX] = "unknown";

    /* PID 1 and the process that counted. */
    (void) doctor_fact(result->out, "processes", count, sizeof count);
    if (!result->ran)
        doctor_say(check, DOCTOR_FAILED, "could not be tried: %s", result->trouble);
    else if (strcmp(count, "2") == 0)
        doctor_say(check, DOCTOR_ACTIVE, "a daemon that ignores signals was gone after its run");
    else
        doctor_say(check, DOCTOR_FAILED, "processes in the box after a run: %s, should be 2",
                   count);
}

/* A watched quota works, but a hard one would be better. */
void doctor_judge_workspace(const struct doctor_findings *f, struct doctor_check *check)
{
    if (f->disk.code) {
        doctor_say(check, DOCTOR_MISSING, "no workspaces on disk: %s", f->disk.msg);
        doctor_say_cure(check, "give the service a data directory on a disk, owned by its user");
    } else if (!ended_at(f, TRIAL_WORKSPACE, LIMIT_DISK_BYTES, check)) {
        return;
    } else if (f->info.disk_kind == DISK_IMAGE) {
        doctor_say(check, DOCTOR_ACTIVE,
                   "hard: %d KiB allowed on disk, in a separate file system (ext4 image): "
                   "writing more failed",
                   DOCTOR_DISK_KIB);
    } else {
        doctor_say(check, DOCTOR_MISSING,
                   "watched, not hard (%s): %d KiB allowed on disk, more was written: the program "
                   "was stopped",
                   f->info.disk_note, DOCTOR_DISK_KIB);
        doctor_say_cure(
            check, "%s",
            f->host.privileged
                ? "give it loop devices (modprobe loop) and mke2fs (apt install e2fsprogs)"
                : "start it as root, with loop devices and mke2fs");
    }
}

/* ---- Python ---- */

static const char *python_of(const struct doctor_findings *f)
{
    const struct template_def *template = f->config ? &f->config->template : NULL;

    return template && template->python ? template->python : DOCTOR_PYTHON;
}

/* Of the template; "": it has none. */
static const char *name_of(const struct doctor_findings *f)
{
    return f->config && f->config->template.name ? f->config->template.name : "";
}

void doctor_judge_python(const struct doctor_findings *f, struct doctor_check *check)
{
    const char *name = name_of(f);
    char version[32];

    if (f->stage == STAGE_PYTHON) {
        doctor_say(check, DOCTOR_FAILED, "%s", f->error.msg);
        doctor_say_cure(check, "%s", doctor_cure(&f->host, f->stage, f->error.code));
    } else if (doctor_fact(f->probe.out, "python", version, sizeof version)) {
        doctor_say(check, DOCTOR_ACTIVE, "%s, version %s%s%.64s", python_of(f), version,
                   name[0] ? ", template " : "", name);
    } else {
        doctor_say(check, DOCTOR_FAILED, "the interpreter in the box did not report its version");
    }
}

void doctor_read_packages(const struct doctor_findings *f, struct doctor_package *ret_packages)
{
    const struct doctor_result *result = &f->trials[TRIAL_PACKAGES];

    for (size_t i = 0; i < DOCTOR_PACKAGES_MAX; i++) {
        struct doctor_package *package = &ret_packages[i];
        char said[sizeof package->trouble];

        *package = doctor_packages[i];
        package->tried = doctor_fact(result->out, package->module, said, sizeof said);
        if (!package->tried || strcmp(said, "-") == 0)
            continue;
        if (strncmp(said, "! ", 2) == 0)
            snprintf(package->trouble, sizeof package->trouble, "%s", said + 2);
        else
            snprintf(package->version, sizeof package->version, "%.31s", said);
    }
}

/* Adds @word to a list, with @separator in between. */
static void list_add(char *list, size_t size, const char *separator, const char *word)
{
    size_t used = strlen(list);

    snprintf(list + used, size - used, "%s%s", used ? separator : "", word);
}

/* Advice for apt: a package that is installed but broken is not repaired by installing it. */
static void packages_cure(const char *absent, const char *broken, struct doctor_check *check)
{
    if (!broken[0])
        doctor_say_cure(check, "apt install %s", absent);
    else
        doctor_say_cure(check,
                        "%s%s%sapt install --reinstall %s, and remove packages that pip "
                        "installed in its place or that conflict with it",
                        absent[0] ? "apt install " : "", absent, absent[0] ? "; " : "", broken);
}

void doctor_judge_packages(const struct doctor_findings *f, struct doctor_check *check)
{
    struct doctor_package packages[DOCTOR_PACKAGES_MAX];
    char have[200] = "", lack[128] = "", absent[200] = "", broken[200] = "";
    const char *why = NULL;
    bool ended = false;

    doctor_read_packages(f, packages);
    for (size_t i = 0; i < DOCTOR_PACKAGES_MAX; i++) {
        const struct doctor_package *package = &packages[i];
        char word[64];

        if (package->version[0]) {
            snprintf(word, sizeof word, "%s %s", package->module, package->version);
            list_add(have, sizeof have, ", ", word);
            continue;
        }
        list_add(lack, sizeof lack, ", ", package->module);
        if (package->tried && !package->trouble[0]) {
            list_add(absent, sizeof absent, " ", package->debian);
        } else if (package->tried || !ended) {
            /* The first without a result crashed the interpreter; about the rest we know
             * nothing. */
            ended = ended || !package->tried;
            list_add(broken, sizeof broken, " ", package->debian);
            if (!why)
                why = package->tried ? package->trouble : "the interpreter exited";
        }
    }
    if (!lack[0]) {
        doctor_say(check, DOCTOR_ACTIVE, "%s", have);
        return;
    }
    doctor_say(check, DOCTOR_MISSING, "cannot be imported: %s%s%s%s%s%s", lack, why ? " (" : "",
               why ? why : "", why ? ")" : "", have[0] ? "; can: " : "", have);
    if (f->trials[TRIAL_PACKAGES].status == RUN_TIMEOUT)
        doctor_say_cure(check, "importing took longer than the doctor waits: try again");
    else if (strcmp(python_of(f), DOCTOR_PYTHON) != 0)
        doctor_say_cure(check, "glovebox template check %s shows what the template has",
                        name_of(f));
    else
        packages_cure(absent, broken, check);
}

/* ---- what a box tells its programs ---- */

/* Libraries choose their memory and threads by these, and would be killed for the host's. */
void doctor_judge_machine(const struct doctor_findings *f, struct doctor_check *check)
{
    char memory[FACT_MAX] = "unknown", cpus[FACT_MAX] = "unknown";
    struct limits limits;

    limits_default(&limits); /* the probe's */
    (void) doctor_fact(f->probe.out, "memory_kb", memory, sizeof memory);
    (void) doctor_fact(f->probe.out, "cpus", cpus, sizeof cpus);
    if (strtoll(memory, NULL, 10) == limits.memory_bytes / 1024 &&
        strtoll(cpus, NULL, 10) == (limits.cpu_milli + 999) / 1000)
        doctor_say(check, DOCTOR_ACTIVE,
                   "programs see the limits of their box: %" PRId64 " MiB of memory, %s CPU",
                   limits.memory_bytes >> 20, cpus);
    else
        doctor_say(check, DOCTOR_MISSING,
                   "programs see %s kB of memory and %s CPUs, which are not those of their box",
                   memory, cpus);
}

void doctor_judge_locales(const struct doctor_findings *f, struct doctor_check *check)
{
    char have[FACT_MAX] = "-", lack[FACT_MAX] = "unknown";

    (void) doctor_fact(f->probe.out, "locales", have, sizeof have);
    (void) doctor_fact(f->probe.out, "no_locales", lack, sizeof lack);
    if (strcmp(lack, "-") == 0) {
        doctor_say(check, DOCTOR_ACTIVE, "those of the usual languages: %s and others", have);
        return;
    }
    doctor_say(check, DOCTOR_MISSING, "of those tried, programs cannot set %s%s%s", lack,
               strcmp(have, "-") == 0 ? "" : "; they can: ", strcmp(have, "-") == 0 ? "" : have);
    doctor_say_cure(check, "install the package locales, then run make locales in the checkout, "
                           "or make install again");
}
