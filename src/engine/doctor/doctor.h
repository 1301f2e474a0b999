/*
 * The doctor: which protections work on this host, each tried in a real box.
 *
 * Called in the supervisor, like engine.h. It opens its own engine, runs small programs in boxes
 * and compares what they could see and do with what they should. Its remarks about the host itself
 * (versions, settings) only explain; they do not affect the verdicts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/engine.h"

#define DOCTOR_CHECKS_MAX   34
#define DOCTOR_PACKAGES_MAX 9
#define DOCTOR_TEXT_MAX     360

enum doctor_state {
    DOCTOR_ACTIVE,  /* tried, and it works */
    DOCTOR_MISSING, /* not available on this host, or could not be tried */
    DOCTOR_OFF,     /* switched off by configuration */
    DOCTOR_FAILED,  /* tried, and it does not work */
};

/* "active", "missing", ... */
const char *doctor_state_name(enum doctor_state state);

struct doctor_check {
    const char *name;  /* "user_namespace" */
    const char *group; /* "Walls", "Limits", "Python"; checks of a group are together */
    enum doctor_state state;
    bool required;                /* without it code is not isolated */
    bool tried;                   /* false: there was no box to try it in */
    char reason[DOCTOR_TEXT_MAX]; /* what was seen; one line of printable ASCII */
    char cure[DOCTOR_TEXT_MAX];   /* what to change; "" when nothing is wrong */
};

/* Explains the verdicts. */
struct doctor_host {
    char kernel[65], machine[65];
    uid_t uid;
    bool privileged;      /* root, with the capabilities a builder needs */
    bool in_userns;       /* our own ids are mapped: we are in a user namespace already */
    bool above_is_root;   /* and there we would be root outside of it */
    bool kernel_is_old;   /* before 5.12 */
    bool userns_off;      /* user.max_user_namespaces = 0 */
    bool userns_kept;     /* kernel.unprivileged_userns_clone = 0 */
    bool apparmor_keeps;  /* kernel.apparmor_restrict_unprivileged_userns = 1 */
    bool proc_is_masked;  /* something is mounted over parts of /proc */
    bool is_filtered;     /* we are under a seccomp filter ourselves */
    bool no_new_privs;    /* we cannot gain privileges by exec: newuidmap cannot work */
    bool has_newuidmap;   /* and newgidmap */
    bool has_subids;      /* a range for this user in /etc/subuid and /etc/subgid */
    bool has_swap;        /* some swap is in use */
    bool has_python;      /* the interpreter is installed */
    bool cgroup2_memory;  /* the v2 hierarchy is mounted and has the memory controller */
    bool cgroup1_memory;  /* so has a v1 hierarchy */
    bool cgroup_readonly; /* one of them, but we may only read it */
    int landlock_abi;     /* 0: none */
};

struct doctor_package {
    const char *module; /* as in `import` */
    const char *debian; /* the package that contains it */
    bool tried;
    char version[32];  /* "" when it could not be imported */
    char trouble[100]; /* why it could not, unless it is simply not installed */
};

struct doctor_report {
    struct doctor_check checks[DOCTOR_CHECKS_MAX];
    size_t checks_len;
    bool isolated;       /* every required check is active */
    const char *id_mode; /* "root", "range", "single"; NULL: no engine could be opened */
    const char *cgroups; /* "v2", "v1", "none"; NULL likewise */
    char cgroup_note[CGROUP_NOTE_MAX];
    char python[32];   /* of the box; "" when it did not run */
    char template[72]; /* the template that was tried; "": it has no name */
    struct doctor_host host;
    struct doctor_package packages[DOCTOR_PACKAGES_MAX];
    size_t packages_len;
};

struct doctor_config {
    enum cgroup_mode cgroups; /* as of an engine */
    bool landlock;
    struct template_def template; /* whose boxes are tried; without a name: the system's Python */
    /* Where workspaces on disk are tried, as in engine_config; NULL: in a new directory below
     * /var/tmp. */
    const char *disk_dir;
    /* Called in the caller's thread, before each trial; may be NULL. */
    void (*progress)(void *arg, const char *what);
    void *progress_arg;
};

/* Examines this host; takes a second or two. A host that cannot isolate gets a report like any
 * other: it is an error only if no report can be made. Leaves nothing behind. */
int doctor_run(const struct doctor_config *config, struct doctor_report *ret_report,
               struct gb_err *err);
