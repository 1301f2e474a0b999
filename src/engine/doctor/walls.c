/* The verdicts on each wall around a program, from the facts of the probe. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/doctor/internal.h"

#include "base/banned.h"

#define FACT_MAX     256
#define SEAL_FILTERS 2
#define SCOPE_ABI    6

const char *const doctor_namespaces[DOCTOR_NAMESPACES] = { "user", "mnt", "pid",   "net",
                                                           "ipc",  "uts", "cgroup" };

/* ---- looking at facts ---- */

static const char *told(const struct doctor_findings *f, const char *name, char buf[FACT_MAX])
{
    if (!doctor_fact(f->probe.out, name, buf, FACT_MAX))
        snprintf(buf, FACT_MAX, "unknown");
    return buf;
}

static bool is_told(const struct doctor_findings *f, const char *name, const char *value)
{
    char buf[FACT_MAX];

    return strcmp(told(f, name, buf), value) == 0;
}

static bool is_refusal(const char *answer)
{
    return answer[0] == 'E';
}

static bool is_refused(const struct doctor_findings *f, const char *name)
{
    char buf[FACT_MAX];

    return is_refusal(told(f, name, buf));
}

/* For the many rows that are one condition: active with one text, or failed with the fact. */
static void hold(struct doctor_check *check, bool holds, const char *good, const char *bad,
                 const char *value)
{
    if (holds)
        doctor_say(check, DOCTOR_ACTIVE, "%s", good);
    else
        doctor_say(check, DOCTOR_FAILED, "%s: %s", bad, value);
}

/* ---- ids and namespaces ---- */

static bool namespace_differs(const struct doctor_findings *f, size_t i)
{
    char name[32], buf[FACT_MAX];
    uint64_t inside;

    snprintf(name, sizeof name, "ns_%s", doctor_namespaces[i]);
    inside = strtoull(told(f, name, buf), NULL, 10);
    return inside != 0 && inside != (uint64_t) f->namespaces[i];
}

void doctor_judge_user_namespace(const struct doctor_findings *f, struct doctor_check *check)
{
    char ids[FACT_MAX];

    if (!namespace_differs(f, 0))
        doctor_say(check, DOCTOR_FAILED, "the box shares the user namespace of glovebox");
    else
        hold(check, strcmp(told(f, "ids", ids), "1000") == 0,
             "separate; the program is uid and gid 1000 there", "ids in the box", ids);
}

static void cure_single(const struct doctor_host *host, struct doctor_check *check)
{
    if (host->in_userns)
        doctor_say_cure(check, "start it outside this user namespace");
    else if (host->no_new_privs)
        doctor_say_cure(check,
                        "start it without no_new_privs, which prevents newuidmap from working");
    else if (host->has_newuidmap && host->has_subids)
        doctor_say_cure(check,
                        "newuidmap refused: it must be set-uid root, and the range must be free");
    else
        doctor_say_cure(check, "%s%s%s", host->has_newuidmap ? "" : "apt install uidmap",
                        host->has_newuidmap || host->has_subids ? "" : "; ",
                        host->has_subids ? ""
                                         : "sudo usermod --add-subuids 100000-165535 --add-subgids "
                                           "100000-165535 $USER");
}

static const char *why_single(const struct doctor_host *host)
{
    if (host->above_is_root)
        return "glovebox is in a user namespace with one id, which is root outside it";
    if (host->in_userns)
        return "glovebox is in a user namespace with one id";
    if (!host->has_newuidmap)
        return host->has_subids ? "no newuidmap" : "no newuidmap, no range in /etc/subuid";
    return host->has_subids ? "newuidmap failed" : "no range in /etc/subuid and /etc/subgid";
}

void doctor_judge_ids(const struct doctor_findings *f, struct doctor_check *check)
{
    if (f->host_uid == 0 && !f->host.in_userns) {
        doctor_say(check, DOCTOR_FAILED, "a box runs as root on this host");
        return;
    }
    switch (f->info.id_mode) {
    case ID_ROOT:
    case ID_RANGE:
        doctor_say(check, f->host_uid == f->host.uid ? DOCTOR_FAILED : DOCTOR_ACTIVE,
                   "each box has its own host id%s; this one has %u, you have %u",
                   f->info.id_mode == ID_RANGE ? ", in your range" : "", f->host_uid, f->host.uid);
        break;
    case ID_SINGLE:
        doctor_say(check, DOCTOR_MISSING, "all boxes run as you (%u) and keep your groups: %s",
                   f->host.uid, why_single(&f->host));
        cure_single(&f->host, check);
        break;
    }
}

void doctor_judge_namespaces(const struct doctor_findings *f, struct doctor_check *check)
{
    for (size_t i = 1; i < DOCTOR_NAMESPACES; i++) {
        if (!namespace_differs(f, i)) {
            doctor_say(check, DOCTOR_FAILED, "the box shares the %s namespace of glovebox",
                       doctor_namespaces[i]);
            return;
        }
    }
    doctor_say(check, DOCTOR_ACTIVE,
               "separate mounts, processes, network, IPC, host name and cgroups");
}

/* ---- privileges and system calls ---- */

void doctor_judge_capabilities(const struct doctor_findings *f, struct doctor_check *check)
{
    char caps[FACT_MAX];

    hold(check, strcmp(told(f, "caps", caps), "0") == 0,
         "all sets are empty, including the bounding set", "the program has capabilities", caps);
}

void doctor_judge_no_new_privs(const struct doctor_findings *f, struct doctor_check *check)
{
    char value[FACT_MAX];

    hold(check, strcmp(told(f, "no_new_privs", value), "1") == 0,
         "set: set-uid programs gain nothing", "no_new_privs is", value);
}

void doctor_judge_seccomp(const struct doctor_findings *f, struct doctor_check *check)
{
    char mode[FACT_MAX], filters[FACT_MAX];

    told(f, "seccomp", mode);
    told(f, "filters", filters);
    if (strcmp(mode, "2") == 0 && strtol(filters, NULL, 10) >= SEAL_FILTERS)
        doctor_say(check, DOCTOR_ACTIVE, "%s filters are loaded", filters);
    else
        doctor_say(check, DOCTOR_FAILED, "mode %s with %s filters", mode, filters);
}

void doctor_judge_system_calls(const struct doctor_findings *f, struct doctor_check *check)
{
    char refused[FACT_MAX], let[FACT_MAX];

    told(f, "calls_refused", refused);
    told(f, "calls_let", let);
    if (strcmp(let, "-") == 0)
        doctor_say(check, DOCTOR_ACTIVE,
                   "%s of %s tried are refused: mount, ptrace, unshare, setns, bpf ...", refused,
                   refused);
    else
        doctor_say(check, DOCTOR_FAILED, "not refused: %s", let);
}

/* ---- files ---- */

void doctor_judge_host_files(const struct doctor_findings *f, struct doctor_check *check)
{
    char seen[FACT_MAX];

    if (strcmp(told(f, "host_seen", seen), "-") == 0)
        doctor_say(check, DOCTOR_ACTIVE, "not visible: %s", f->host_paths);
    else
        doctor_say(check, DOCTOR_FAILED, "the program sees %s", seen);
}

void doctor_judge_read_only(const struct doctor_findings *f, struct doctor_check *check)
{
    char written[FACT_MAX];

    hold(check, strcmp(told(f, "written", written), "-") == 0 && is_told(f, "workspace", "ok"),
         "/, /usr, /etc, /dev and /proc cannot be written to, /workspace can",
         "the program could write to", written);
}

void doctor_judge_proc(const struct doctor_findings *f, struct doctor_check *check)
{
    char processes[FACT_MAX], unmasked[FACT_MAX];

    told(f, "processes", processes);
    told(f, "proc_unmasked", unmasked);
    if (strcmp(processes, "3") != 0)
        doctor_say(check, DOCTOR_FAILED, "the program sees %s processes, but its box has only 3",
                   processes);
    else if (!is_told(f, "proc_write", "EROFS"))
        doctor_say(check, DOCTOR_FAILED, "/proc can be written to");
    else
        hold(check, strcmp(unmasked, "-") == 0,
             "its own (3 processes), read-only; files that describe the host are masked",
             "the program can read from /proc", unmasked);
}

void doctor_judge_devices(const struct doctor_findings *f, struct doctor_check *check)
{
    char devices[FACT_MAX];

    if (!is_refused(f, "mknod"))
        doctor_say(check, DOCTOR_FAILED, "the program can create devices");
    else
        hold(check, strcmp(told(f, "devices", devices), "-") == 0,
             "null, zero, full, random, urandom, its own terminals; none can be created",
             "the program sees", devices);
}

void doctor_judge_descriptors(const struct doctor_findings *f, struct doctor_check *check)
{
    char open_now[FACT_MAX];

    hold(check, strcmp(told(f, "descriptors", open_now), "0 1 2 3") == 0, "only 0 to 3 are open",
         "open in the box", open_now);
}

void doctor_judge_init(const struct doctor_findings *f, struct doctor_check *check)
{
    bool holds = is_refused(f, "init_memory") && is_refused(f, "init_root");

    hold(check, holds, "the memory and files of PID 1 of the box are hidden",
         "the program can look into PID 1", "memory or root directory");
}

/* ---- network ---- */

void doctor_judge_network(const struct doctor_findings *f, struct doctor_check *check)
{
    char interfaces[FACT_MAX];

    told(f, "interfaces", interfaces);
    if (!is_told(f, "outside_tcp", "ENETUNREACH") || !is_told(f, "outside_udp", "ENETUNREACH"))
        doctor_say(check, DOCTOR_FAILED, "the program can reach the outside");
    else if (!is_refused(f, "raw") || !is_refused(f, "packet"))
        doctor_say(check, DOCTOR_FAILED, "the program can open raw sockets");
    else
        hold(check, strcmp(interfaces, "lo") == 0 && is_told(f, "loopback", "ok"),
             "only its own loopback; raw sockets are refused", "interfaces in the box", interfaces);
}

/* ---- Landlock ---- */

/* True if there is nothing to try: it is switched off, or not available. */
static bool landlock_absent(const struct doctor_findings *f, struct doctor_check *check)
{
    if (!f->config->landlock) {
        doctor_say(
            check, DOCTOR_OFF,
            "switched off by --landlock off, its environment variable or a configuration file");
        doctor_say_cure(check, "remove the --landlock setting");
    } else if (f->host.landlock_abi == 0) {
        doctor_say(check, DOCTOR_MISSING, "this kernel has no Landlock, or was booted without it");
        doctor_say_cure(check, "boot Linux 5.13 or later, with landlock in the lsm= parameter");
    } else {
        return false;
    }
    return true;
}

void doctor_judge_landlock(const struct doctor_findings *f, struct doctor_check *check)
{
    char sibling[FACT_MAX];

    if (landlock_absent(f, check))
        return;
    if (is_refusal(told(f, "sibling", sibling)))
        doctor_say(check, DOCTOR_ACTIVE,
                   "ABI %d; a program cannot inspect another one in the same box",
                   f->host.landlock_abi);
    else
        doctor_say(check, DOCTOR_FAILED, "ABI %d, but inspecting another program gave: %s",
                   f->host.landlock_abi, sibling);
}

void doctor_judge_landlock_scope(const struct doctor_findings *f, struct doctor_check *check)
{
    if (landlock_absent(f, check))
        return;
    if (is_refused(f, "signal_init"))
        doctor_say(check, DOCTOR_ACTIVE, "a signal to PID 1 of the box is refused");
    else if (f->host.landlock_abi < SCOPE_ABI) {
        doctor_say(
            check, DOCTOR_MISSING,
            "this kernel's Landlock has ABI %d and covers only files; only the PID and network "
            "namespaces protect against signals and abstract sockets",
            f->host.landlock_abi);
        doctor_say_cure(check, "boot Linux 6.12 or later");
    } else {
        doctor_say(check, DOCTOR_FAILED, "ABI %d, but a signal to PID 1 was allowed",
                   f->host.landlock_abi);
    }
}
