/*
 * The doctor's verdicts: from findings to the report. Pure functions, so that a table of findings
 * can test them.
 *
 * A row for each protection; its function looks at the facts and sets a state, a reason and a fix.
 * A missing fact counts as the worst value.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "engine/doctor/internal.h"

#include "base/banned.h"

#define FACT_MAX 256

#define REPORT_IT                                                                                  \
    "do not run untrusted code on this host, and report this as described in SECURITY.md"

const char *doctor_state_name(enum doctor_state state)
{
    static const char *const names[] = { "active", "missing", "off", "failed" };

    return names[state];
}

bool doctor_fact(const char *text, const char *name, char *buf, size_t size)
{
    size_t len = strlen(name);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) != 0 || line[len] != ' ')
            continue;
        snprintf(buf, size, "%.*s", (int) strcspn(line + len + 1, "\n"), line + len + 1);
        return true;
    }
    return false;
}

/* ---- filling checks ---- */

static void printable(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

void doctor_say(struct doctor_check *check, enum doctor_state state, const char *fmt, ...)
{
    va_list ap;

    check->state = state;
    va_start(ap, fmt);
    vsnprintf(check->reason, sizeof check->reason, fmt, ap);
    va_end(ap);
    printable(check->reason);
    snprintf(check->cure, sizeof check->cure, "%s", state == DOCTOR_FAILED ? REPORT_IT : "");
}

void doctor_say_cure(struct doctor_check *check, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(check->cure, sizeof check->cure, fmt, ap);
    va_end(ap);
    printable(check->cure);
}

/* ---- the box itself ---- */

/* The settings that forbid user namespaces; as root only the first counts. */
static const char *cure_user_namespaces(const struct doctor_host *host, int code)
{
    bool denied = code == EPERM || code == EACCES;

    if (host->userns_off && (denied || code == ENOSPC || code == EUSERS))
        return "allow user namespaces: sudo sysctl user.max_user_namespaces=16384";
    if (host->privileged || !denied)
        return NULL;
    if (host->userns_kept)
        return "allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1";
    if (host->apparmor_keeps)
        return "install the AppArmor profile from the manual page (under DOCTOR), or: sudo sysctl "
               "kernel.apparmor_restrict_unprivileged_userns=0";
    return NULL;
}

const char *doctor_cure(const struct doctor_host *host, enum doctor_stage stage, int code)
{
    bool denied = code == EPERM || code == EACCES;
    const char *cure;

    if (!host->has_python)
        return "install Python where boxes can see it: " DOCTOR_PYTHON " (Debian: apt install "
               "python3)";
    if (stage == STAGE_PYTHON)
        return "check that `" DOCTOR_PYTHON " -I -c pass` works; version 3.9 or later is needed";
    if (host->kernel_is_old)
        return "boot Linux 5.12 or later: boxes need mount_setattr";
    if ((cure = cure_user_namespaces(host, code)))
        return cure;
    if (host->uid == 0 && !host->privileged && !host->in_userns)
        return "run glovebox as an ordinary user, or give root its capabilities (docker run "
               "--cap-add SYS_ADMIN ...)";
    if (denied && host->proc_is_masked && (stage == STAGE_BOX || !host->is_filtered))
        return "run the container with an unmasked /proc: docker run --security-opt "
               "systempaths=unconfined";
    if ((denied || code == ENOSYS) && host->is_filtered)
        return "let the container's seccomp profile allow namespaces and mounts: docker run "
               "--security-opt seccomp=unconfined";
    if (code == EAGAIN || code == EMFILE || code == ENFILE || code == ENOSPC)
        return "stop processes you no longer need, or raise the limits on processes, files and "
               "namespaces (ulimit -a, sysctl user)";
    return "the reason names the step that failed; check the kernel log (dmesg)";
}

static void judge_box(const struct doctor_findings *f, struct doctor_check *check)
{
    char trouble[FACT_MAX];

    if (f->stage == STAGE_DONE && doctor_fact(f->probe.out, "trouble", trouble, sizeof trouble)) {
        doctor_say(check, DOCTOR_FAILED, "the probe could not check everything: %s", trouble);
        return;
    }
    if (f->stage == STAGE_DONE && f->probe.status != RUN_OK) {
        doctor_say(check, DOCTOR_FAILED, "the probe failed: %s, exit code %d",
                   run_status_name(f->probe.status), f->probe.exit_code);
        return;
    }
    if (f->stage == STAGE_DONE) {
        doctor_say(check, DOCTOR_ACTIVE, "created and sealed; a program ran in it");
        return;
    }
    doctor_say(check, DOCTOR_FAILED, "%s", f->error.msg);
    doctor_say_cure(check, "%s", doctor_cure(&f->host, f->stage, f->error.code));
}

/* ---- all checks ---- */

static const struct row {
    const char *name, *group;
    bool required;
    void (*judge)(const struct doctor_findings *findings, struct doctor_check *check);
} rows[] = {
    { "box", "Walls", true, judge_box },
    { "user_namespace", "Walls", true, doctor_judge_user_namespace },
    { "ids", "Walls", false, doctor_judge_ids },
    { "namespaces", "Walls", true, doctor_judge_namespaces },
    { "capabilities", "Walls", true, doctor_judge_capabilities },
    { "no_new_privs", "Walls", true, doctor_judge_no_new_privs },
    { "seccomp", "Walls", true, doctor_judge_seccomp },
    { "system_calls", "Walls", true, doctor_judge_system_calls },
    { "host_files", "Walls", true, doctor_judge_host_files },
    { "read_only", "Walls", true, doctor_judge_read_only },
    { "proc", "Walls", true, doctor_judge_proc },
    { "devices", "Walls", true, doctor_judge_devices },
    { "descriptors", "Walls", true, doctor_judge_descriptors },
    { "init", "Walls", true, doctor_judge_init },
    { "network", "Walls", true, doctor_judge_network },
    { "landlock", "Walls", false, doctor_judge_landlock },
    { "landlock_scope", "Walls", false, doctor_judge_landlock_scope },
    { "cgroups", "Limits", false, doctor_judge_cgroups },
    { "memory", "Limits", true, doctor_judge_memory },
    { "swap", "Limits", false, doctor_judge_swap },
    { "processes", "Limits", true, doctor_judge_pids },
    { "cpu_share", "Limits", false, doctor_judge_cpu_share },
    { "cpu_time", "Limits", true, doctor_judge_plain_limit },
    { "wall_time", "Limits", true, doctor_judge_wall_time },
    { "leftovers", "Limits", true, doctor_judge_leftovers },
    { "disk", "Limits", true, doctor_judge_plain_limit },
    { "inodes", "Limits", true, doctor_judge_plain_limit },
    { "workspace_quota", "Limits", false, doctor_judge_workspace },
    { "file_size", "Limits", true, doctor_judge_plain_limit },
    { "output", "Limits", true, doctor_judge_plain_limit },
    { "machine", "Limits", false, doctor_judge_machine },
    { "python", "Python", true, doctor_judge_python },
    { "packages", "Python", false, doctor_judge_packages },
    { "locales", "Python", false, doctor_judge_locales },
};

_Static_assert(ARRAY_LEN(rows) <= DOCTOR_CHECKS_MAX, "the report has room for every row");

/* Without a box only two rows can be judged: the box itself, and Python. */
static bool can_judge(const struct doctor_findings *f, const struct row *row)
{
    return f->stage == STAGE_DONE || row->judge == judge_box ||
           (row->judge == doctor_judge_python && f->stage == STAGE_PYTHON);
}

static void judge_one(const struct doctor_findings *f, const struct row *row,
                      struct doctor_check *check)
{
    *check = (struct doctor_check){ .name = row->name,
                                    .group = row->group,
                                    .required = row->required,
                                    .tried = can_judge(f, row) };
    if (check->tried) {
        row->judge(f, check);
        return;
    }
    doctor_say(check, DOCTOR_MISSING, "not tried: no program could be run in a box");
    doctor_say_cure(check, "see box");
}

static const char *mode_name(enum cgroup_mode mode)
{
    switch (mode) {
    case CGROUP_V2:
        return "v2";
    case CGROUP_V1:
        return "v1";
    case CGROUP_AUTO:
    case CGROUP_OFF:
        break;
    }
    return "none";
}

void doctor_judge(const struct doctor_findings *findings, struct doctor_report *ret_report)
{
    static const char *const id_modes[] = {
        [ID_ROOT] = "root", [ID_RANGE] = "range", [ID_SINGLE] = "single"
    };
    struct doctor_report *report = ret_report;

    *report = (struct doctor_report){ .isolated = true, .host = findings->host };
    if (findings->stage != STAGE_ENGINE) {
        report->id_mode = id_modes[findings->info.id_mode];
        report->cgroups = mode_name(findings->info.cgroup_mode);
        snprintf(report->cgroup_note, sizeof report->cgroup_note, "%s", findings->info.note);
        printable(report->cgroup_note);
    }
    if (doctor_fact(findings->probe.out, "python", report->python, sizeof report->python))
        printable(report->python);
    if (findings->config && findings->config->template.name)
        snprintf(report->template, sizeof report->template, "%s", findings->config->template.name);
    doctor_read_packages(findings, report->packages);
    report->packages_len = DOCTOR_PACKAGES_MAX;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct doctor_check *check = &report->checks[report->checks_len++];

        judge_one(findings, &rows[i], check);
        if (check->required && check->state != DOCTOR_ACTIVE)
            report->isolated = false;
    }
}
