/* Shared by the parts of the doctor: the findings, between trying (doctor.c) and judging
 * (verdict.c). */
#pragma once

#include "engine/doctor/doctor.h"
#include "engine/engine.h"

#define DOCTOR_PYTHON "/usr/bin/python3" /* that of `glovebox run` */

/* How far the examination got. If one stage fails, nothing after it can be tried. */
enum doctor_stage {
    STAGE_ENGINE, /* a builder in its skeleton */
    STAGE_BOX,    /* a box */
    STAGE_PYTHON, /* a template */
    STAGE_PROBE,  /* a tenant that was sealed and ran the probe */
    STAGE_DONE,
};

/* Runs of programs that try to exceed a limit, each in a separate box. */
enum doctor_trial {
    TRIAL_MEMORY,
    TRIAL_PIDS,
    TRIAL_DISK,
    TRIAL_INODES,
    TRIAL_WORKSPACE, /* on disk */
    TRIAL_FILE_SIZE,
    TRIAL_OUTPUT,
    TRIAL_CPU_TIME,
    TRIAL_CPU_SHARE,
    TRIAL_WALL_TIME,
    TRIAL_LEFTOVERS, /* in the box of the previous one: which processes are left */
    TRIAL_PACKAGES,
    TRIAL_COUNT,
};

#define DOCTOR_OUT_MAX 4096

struct doctor_result {
    bool ran; /* otherwise @trouble says why not */
    char trouble[sizeof((struct gb_err *) 0)->msg];
    enum run_status status;
    enum limit_kind limit;
    int exit_code;
    int64_t wall_us, cpu_us;  /* -1: unknown on this host */
    char out[DOCTOR_OUT_MAX]; /* what it printed, as far as needed */
};

#define DOCTOR_NAMESPACES 7

struct doctor_findings {
    const struct doctor_config *config;
    struct doctor_host host;
    enum doctor_stage stage;
    struct gb_err error;          /* of the stage that failed */
    struct gb_err cgroups_forced; /* why the wanted hierarchy cannot be used; code 0: it can */
    struct engine_info info;
    struct gb_err disk; /* why there are no workspaces on disk; code 0: there are */

    struct doctor_result probe;
    ino_t namespaces[DOCTOR_NAMESPACES]; /* ours, in the order of doctor_namespaces */
    char host_paths[512];                /* what the probe looked for, separated by ", " */
    uid_t host_uid;                      /* of the tenant, as we see it; -1: not seen */

    struct doctor_result trials[TRIAL_COUNT];
    int64_t periods, throttled; /* of the box with a CPU share; -1: no controller */
    int64_t swap_bytes;         /* what the box may swap out; -1: not counted */
};

/* The names of the namespaces under /proc/PID/ns. */
extern const char *const doctor_namespaces[DOCTOR_NAMESPACES];

/* The limits of the trials, for the runs and for the texts. */
#define DOCTOR_MEMORY_MIB  48
#define DOCTOR_PIDS        8
#define DOCTOR_DISK_KIB    256
#define DOCTOR_INODES      64
#define DOCTOR_FILE_KIB    64
#define DOCTOR_OUTPUT_KIB  16
#define DOCTOR_CPU_MS      50
#define DOCTOR_SHARE_MILLI 100 /* little: a busy machine must be able to give it */
#define DOCTOR_WALL_MS     200

/* What the host says about itself; never fails. */
void doctor_host_look(struct doctor_host *host);

/* Pure: fills the report from the findings. */
void doctor_judge(const struct doctor_findings *findings, struct doctor_report *ret_report);

/* What to change when creating a box failed with @code at @stage. */
const char *doctor_cure(const struct doctor_host *host, enum doctor_stage stage, int code);

/* The value of the fact @name in the lines of @text; false if it was not reported. */
bool doctor_fact(const char *text, const char *name, char *buf, size_t size);

/* Sets the state of a check; a failed one gets the advice not to run untrusted code. */
void doctor_say(struct doctor_check *check, enum doctor_state state, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void doctor_say_cure(struct doctor_check *check, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The verdicts, one function per check; the probe has run by then. In walls.c and limits.c. */
void doctor_judge_user_namespace(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_ids(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_namespaces(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_capabilities(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_no_new_privs(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_seccomp(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_system_calls(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_host_files(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_read_only(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_proc(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_devices(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_descriptors(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_init(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_network(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_landlock(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_landlock_scope(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_cgroups(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_memory(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_swap(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_pids(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_cpu_share(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_plain_limit(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_wall_time(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_leftovers(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_workspace(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_python(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_packages(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_machine(const struct doctor_findings *f, struct doctor_check *check);
void doctor_judge_locales(const struct doctor_findings *f, struct doctor_check *check);

/* The results of importing; @ret_packages has room for DOCTOR_PACKAGES_MAX. */
void doctor_read_packages(const struct doctor_findings *f, struct doctor_package *ret_packages);

/* The packages that the doctor looks for. */
extern const struct doctor_package doctor_packages[DOCTOR_PACKAGES_MAX];
