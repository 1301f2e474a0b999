/* The doctor's verdicts from findings that are made up here; what it finds on a real host is the
 * business of tests/system/test_doctor.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "engine/doctor/internal.h"

#include "base/banned.h"

static const char good_probe[] = "python 3.11.2\n"
                                 "ids 1000\n"
                                 "groups -\n"
                                 "caps 0\n"
                                 "no_new_privs 1\n"
                                 "seccomp 2\n"
                                 "filters 2\n"
                                 "ns_user 101\n"
                                 "ns_mnt 102\n"
                                 "ns_pid 103\n"
                                 "ns_net 104\n"
                                 "ns_ipc 105\n"
                                 "ns_uts 106\n"
                                 "ns_cgroup 107\n"
                                 "descriptors 0 1 2 3\n"
                                 "host_seen -\n"
                                 "written -\n"
                                 "workspace ok\n"
                                 "processes 3\n"
                                 "proc_unmasked -\n"
                                 "proc_write EROFS\n"
                                 "sibling EACCES\n"
                                 "signal_init EPERM\n"
                                 "init_memory EACCES\n"
                                 "init_root EACCES\n"
                                 "devices -\n"
                                 "mknod EPERM\n"
                                 "interfaces lo\n"
                                 "outside_tcp ENETUNREACH\n"
                                 "outside_udp ENETUNREACH\n"
                                 "loopback ok\n"
                                 "raw EAFNOSUPPORT\n"
                                 "packet EAFNOSUPPORT\n"
                                 "memory_kb 524288\n"
                                 "cpus 1\n"
                                 "locales de_DE fr_FR\n"
                                 "no_locales -\n"
                                 "calls_refused 19\n"
                                 "calls_let -\n";

static const char good_packages[] = "numpy 1.24.2\npandas 1.5.3\nmatplotlib 3.6.3\nplotly 5.4.0\n"
                                    "requests 2.28.1\nscipy 1.10.1\nsklearn 1.2.1\n"
                                    "openpyxl 3.0.9\nPIL 9.4.0\n";

static const enum limit_kind trial_ends[TRIAL_COUNT] = {
    [TRIAL_MEMORY] = LIMIT_MEMORY,        [TRIAL_PIDS] = LIMIT_PIDS,
    [TRIAL_DISK] = LIMIT_DISK_BYTES,      [TRIAL_INODES] = LIMIT_DISK_INODES,
    [TRIAL_WORKSPACE] = LIMIT_DISK_BYTES, [TRIAL_FILE_SIZE] = LIMIT_FILE_SIZE,
    [TRIAL_OUTPUT] = LIMIT_OUTPUT,        [TRIAL_CPU_TIME] = LIMIT_CPU_TIME,
    [TRIAL_WALL_TIME] = LIMIT_WALL_TIME,
};

static struct doctor_config config;
static struct doctor_findings findings;
static struct doctor_report report;

/* A host on which everything holds. */
static int setup(void **state)
{
    (void) state;
    config = (struct doctor_config){ .cgroups = CGROUP_AUTO, .landlock = true };
    findings = (struct doctor_findings){
        .config = &config,
        .stage = STAGE_DONE,
        .host = { .privileged = true, .has_python = true, .landlock_abi = 7, .has_swap = true },
        .info = { .id_mode = ID_ROOT, .cgroup_mode = CGROUP_V2, .disk_kind = DISK_IMAGE },
        .probe = { .ran = true, .status = RUN_OK },
        .namespaces = { 1, 2, 3, 4, 5, 6, 7 },
        .host_uid = 1900000001,
        .periods = 4,
        .throttled = 3,
    };
    snprintf(findings.probe.out, sizeof findings.probe.out, "%s", good_probe);
    for (size_t i = 0; i < TRIAL_COUNT; i++)
        findings.trials[i] = (struct doctor_result){ .ran = true, .limit = trial_ends[i] };
    findings.trials[TRIAL_WALL_TIME].wall_us = 1200 * USEC_PER_MSEC;
    snprintf(findings.trials[TRIAL_LEFTOVERS].out, DOCTOR_OUT_MAX, "processes 2\n");
    snprintf(findings.trials[TRIAL_PACKAGES].out, DOCTOR_OUT_MAX, "%s", good_packages);
    return 0;
}

/* Replaces the value of a fact; NULL: it is not told at all. */
static void tell(const char *name, const char *value)
{
    char before[DOCTOR_OUT_MAX], *rest = before, *line;
    char *out = findings.probe.out;
    size_t used = 0;

    snprintf(before, sizeof before, "%s", out);
    out[0] = '\0';
    while ((line = strsep(&rest, "\n")) && *line) {
        bool it = strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ' ';

        if (it && !value)
            continue;
        used += (size_t) snprintf(out + used, DOCTOR_OUT_MAX - used, "%s%s%s\n", it ? name : line,
                                  it ? " " : "", it ? value : "");
    }
}

static const struct doctor_check *judged(const char *name)
{
    doctor_judge(&findings, &report);
    for (size_t i = 0; i < report.checks_len; i++)
        if (strcmp(report.checks[i].name, name) == 0)
            return &report.checks[i];
    fail_msg("there is no check '%s'", name);
    return NULL;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' does not say '%s'", text, part);
}

static void test_a_good_host(void **state)
{
    (void) state;
    doctor_judge(&findings, &report);
    assert_true(report.isolated);
    assert_true(report.checks_len > 25);
    for (size_t i = 0; i < report.checks_len; i++) {
        const struct doctor_check *check = &report.checks[i];

        if (check->state != DOCTOR_ACTIVE)
            fail_msg("%s is %s: %s", check->name, doctor_state_name(check->state), check->reason);
        assert_true(check->tried);
        assert_true(check->reason[0] != '\0');
        assert_string_equal(check->cure, "");
    }
    assert_string_equal(report.id_mode, "root");
    assert_string_equal(report.cgroups, "v2");
    assert_string_equal(report.python, "3.11.2");
    assert_string_equal(report.packages[8].version, "9.4.0");
}

/* Each of them is a hole, and no other row may hide it. */
static const struct {
    const char *fact, *value, *check, *says;
} holes[] = {
    { "ns_user", "1", "user_namespace", "shares the user namespace" },
    { "ns_user", NULL, "user_namespace", "shares the user namespace" },
    { "ids", "0", "user_namespace", "0" },
    { "ids", "0 1000", "user_namespace", "0 1000" },
    { "ns_mnt", "2", "namespaces", "mnt" },
    { "ns_pid", "3", "namespaces", "pid" },
    { "ns_net", "4", "namespaces", "net" },
    { "ns_ipc", "5", "namespaces", "ipc" },
    { "ns_uts", "6", "namespaces", "uts" },
    { "ns_cgroup", "7", "namespaces", "cgroup" },
    { "ns_cgroup", "0", "namespaces", "cgroup" },
    { "caps", "200000", "capabilities", "200000" },
    { "caps", NULL, "capabilities", "unknown" },
    { "no_new_privs", "0", "no_new_privs", "0" },
    { "seccomp", "0", "seccomp", "mode 0" },
    { "filters", "1", "seccomp", "1 filters" },
    { "filters", "?", "seccomp", "? filters" },
    { "calls_let", "bpf=EINVAL", "system_calls", "bpf=EINVAL" },
    { "calls_let", NULL, "system_calls", "unknown" },
    { "host_seen", "/home", "host_files", "/home" },
    { "host_seen", NULL, "host_files", "unknown" },
    { "written", "/usr/.glovebox", "read_only", "/usr/.glovebox" },
    { "workspace", "EROFS", "read_only", "-" },
    { "processes", "180", "proc", "180" },
    { "proc_write", "ok", "proc", "written" },
    { "proc_unmasked", "kcore", "proc", "kcore" },
    { "devices", "sda", "devices", "sda" },
    { "mknod", "ok", "devices", "create devices" },
    { "descriptors", "0 1 2 3 7", "descriptors", "7" },
    { "init_memory", "ok", "init", "PID 1" },
    { "init_root", "ok", "init", "PID 1" },
    { "init_root", NULL, "init", "PID 1" },
    { "interfaces", "eth0 lo", "network", "eth0" },
    { "loopback", "ENETUNREACH", "network", "lo" },
    { "outside_tcp", "ETIMEDOUT", "network", "outside" },
    { "outside_udp", "ok", "network", "outside" },
    { "raw", "ok", "network", "raw" },
    { "packet", NULL, "network", "raw" },
    { "sibling", "ok", "landlock", "ok" },
    { "sibling", "none", "landlock", "none" },
    { "signal_init", "ok", "landlock_scope", "PID 1" },
    { "python", NULL, "python", "version" },
};

static void test_holes(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(holes); i++) {
        const struct doctor_check *check;

        setup(state);
        tell(holes[i].fact, holes[i].value);
        check = judged(holes[i].check);
        if (check->state != DOCTOR_FAILED)
            fail_msg("%s %s: %s is %s", holes[i].fact, holes[i].value, check->name,
                     doctor_state_name(check->state));
        assert_says(check->reason, holes[i].says);
        assert_says(check->cure, "SECURITY.md");
        assert_int_equal(report.isolated, !check->required);
    }
}

static void test_a_probe_that_failed(void **state)
{
    (void) state;
    findings.probe.status = RUN_KILLED;
    findings.probe.exit_code = 139;
    assert_int_equal(judged("box")->state, DOCTOR_FAILED);
    assert_says(judged("box")->reason, "139");
    assert_false(report.isolated);

    setup(state);
    snprintf(findings.probe.out, sizeof findings.probe.out, "trouble tell_ids: KeyError('Cap')\n");
    assert_says(judged("box")->reason, "tell_ids");
    assert_int_equal(judged("capabilities")->state, DOCTOR_FAILED);
}

/* ---- limits ---- */

static const struct {
    enum doctor_trial trial;
    const char *check;
} judged_rows[] = {
    { TRIAL_MEMORY, "memory" },       { TRIAL_PIDS, "processes" },
    { TRIAL_DISK, "disk" },           { TRIAL_INODES, "inodes" },
    { TRIAL_OUTPUT, "output" },       { TRIAL_CPU_TIME, "cpu_time" },
    { TRIAL_FILE_SIZE, "file_size" }, { TRIAL_WALL_TIME, "wall_time" },
};

static void test_limits_that_do_not_bite(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(judged_rows); i++) {
        struct doctor_result *result = &findings.trials[judged_rows[i].trial];

        setup(state);
        result->limit = LIMIT_NONE;
        result->status = RUN_OK;
        assert_int_equal(judged(judged_rows[i].check)->state, DOCTOR_FAILED);
        assert_says(judged(judged_rows[i].check)->reason, "ended as ok");
        assert_false(report.isolated);

        setup(state);
        *result = (struct doctor_result){ .trouble = "no more boxes" };
        assert_int_equal(judged(judged_rows[i].check)->state, DOCTOR_FAILED);
        assert_says(judged(judged_rows[i].check)->reason, "no more boxes");
    }
}

static void test_workspace(void **state)
{
    struct doctor_result *result = &findings.trials[TRIAL_WORKSPACE];

    assert_int_equal(judged("workspace_quota")->state, DOCTOR_ACTIVE);
    assert_says(judged("workspace_quota")->reason, "hard");

    findings.info.disk_kind = DISK_WATCHED;
    snprintf(findings.info.disk_note, sizeof findings.info.disk_note, "no free loop device");
    assert_int_equal(judged("workspace_quota")->state, DOCTOR_MISSING);
    assert_says(judged("workspace_quota")->reason, "watched, not hard (no free loop device)");
    assert_says(judged("workspace_quota")->cure, "modprobe loop");
    findings.host.privileged = false;
    assert_says(judged("workspace_quota")->cure, "as root");

    result->limit = LIMIT_NONE;
    result->status = RUN_OK;
    assert_int_equal(judged("workspace_quota")->state, DOCTOR_FAILED);
    assert_says(judged("workspace_quota")->reason, "ended as ok");
    assert_true(report.isolated); /* what one-shots have is another row */

    setup(state);
    (void) gb_fail_plain(&findings.disk, EINVAL, "is in memory");
    assert_int_equal(judged("workspace_quota")->state, DOCTOR_MISSING);
    assert_says(judged("workspace_quota")->reason, "is in memory");
}

static void test_what_programs_are_told(void **state)
{
    static const struct {
        const char *fact, *value, *check, *says;
    } cases[] = {
        { "memory_kb", "24000000", "machine", "24000000 kB" },
        { "memory_kb", NULL, "machine", "unknown kB" },
        { "cpus", "64", "machine", "64 CPUs" },
        { "no_locales", "ja_JP", "locales", "cannot set ja_JP; they can: de_DE fr_FR" },
        { "no_locales", NULL, "locales", "cannot set unknown" },
    };

    assert_int_equal(judged("machine")->state, DOCTOR_ACTIVE);
    assert_says(judged("machine")->reason, "512 MiB of memory, 1 CPU");
    assert_int_equal(judged("locales")->state, DOCTOR_ACTIVE);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        setup(state);
        tell(cases[i].fact, cases[i].value);
        assert_int_equal(judged(cases[i].check)->state, DOCTOR_MISSING);
        assert_says(judged(cases[i].check)->reason, cases[i].says);
        assert_true(report.isolated);
    }
}

static void test_late_and_left(void **state)
{
    findings.trials[TRIAL_WALL_TIME].wall_us = 20 * USEC_PER_SEC;
    assert_int_equal(judged("wall_time")->state, DOCTOR_FAILED);

    setup(state);
    snprintf(findings.trials[TRIAL_LEFTOVERS].out, DOCTOR_OUT_MAX, "processes 3\n");
    assert_int_equal(judged("leftovers")->state, DOCTOR_FAILED);
    findings.trials[TRIAL_LEFTOVERS].out[0] = '\0';
    assert_int_equal(judged("leftovers")->state, DOCTOR_FAILED);
}

static void test_cpu_share(void **state)
{
    (void) state;
    findings.throttled = 0;
    findings.trials[TRIAL_CPU_SHARE].wall_us = 300000;
    findings.trials[TRIAL_CPU_SHARE].cpu_us = 290000;
    assert_int_equal(judged("cpu_share")->state, DOCTOR_FAILED);
    assert_true(report.isolated);
    findings.trials[TRIAL_CPU_SHARE].cpu_us = 20000;
    assert_int_equal(judged("cpu_share")->state, DOCTOR_MISSING);
    assert_says(judged("cpu_share")->reason, "busy");
    findings.periods = findings.throttled = -1;
    assert_int_equal(judged("cpu_share")->state, DOCTOR_MISSING);
    assert_says(judged("cpu_share")->reason, "no cpu controller");
}

static void test_swap(void **state)
{
    (void) state;
    findings.swap_bytes = -1;
    assert_int_equal(judged("swap")->state, DOCTOR_MISSING);
    assert_says(judged("swap")->cure, "swapaccount=1");
    findings.swap_bytes = INT64_C(64) << 20;
    assert_int_equal(judged("swap")->state, DOCTOR_FAILED);
    assert_says(judged("swap")->reason, "64 MiB");
    findings.host.has_swap = false;
    assert_int_equal(judged("swap")->state, DOCTOR_ACTIVE);
    assert_true(report.isolated);
}

static void test_cgroups(void **state)
{
    static const struct {
        struct doctor_host host;
        const char *cure;
    } cases[] = {
        { { .cgroup2_memory = true }, "systemd-run --user --scope -p Delegate=yes" },
        { { .cgroup1_memory = true }, "v1 hierarchy" },
        { { .cgroup2_memory = true, .cgroup_readonly = true }, "writable" },
        { { .privileged = true }, "cgroup_enable=memory" },
        { { .privileged = false }, "cgroup_enable=memory" },
    };

    findings.info.cgroup_mode = CGROUP_OFF;
    snprintf(findings.info.note, sizeof findings.info.note,
             "no control groups (v2: it is not ours; v1: nor is that): read the manual");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        findings.host = cases[i].host;
        assert_int_equal(judged("cgroups")->state, DOCTOR_MISSING);
        assert_says(judged("cgroups")->reason, "v1: nor is that); memory is sampled");
        assert_null(strstr(judged("cgroups")->reason, "manual"));
        assert_says(judged("cgroups")->cure, cases[i].cure);
        assert_int_equal(judged("cpu_share")->state, DOCTOR_MISSING);
        assert_says(judged("memory")->reason, "the watcher");
        assert_true(report.isolated);
    }
    config.cgroups = CGROUP_OFF;
    assert_int_equal(judged("cgroups")->state, DOCTOR_OFF);
    assert_int_equal(judged("cpu_share")->state, DOCTOR_OFF);
    assert_says(judged("cgroups")->cure, "--cgroups");

    setup(state);
    findings.cgroups_forced = (struct gb_err){ ENOENT, "cgroup v1 cannot be used" };
    assert_int_equal(judged("cgroups")->state, DOCTOR_FAILED);
    assert_says(judged("cgroups")->reason, "tried with cgroup v2");
    assert_false(report.isolated);
}

/* ---- what may be missing ---- */

static void test_landlock(void **state)
{
    (void) state;
    tell("signal_init", "ok");
    findings.host.landlock_abi = 4;
    assert_int_equal(judged("landlock")->state, DOCTOR_ACTIVE);
    assert_int_equal(judged("landlock_scope")->state, DOCTOR_MISSING);
    assert_says(judged("landlock_scope")->cure, "6.12");
    assert_true(report.isolated);

    tell("sibling", "ok");
    findings.host.landlock_abi = 0;
    assert_int_equal(judged("landlock")->state, DOCTOR_MISSING);
    assert_int_equal(judged("landlock_scope")->state, DOCTOR_MISSING);
    assert_says(judged("landlock")->cure, "lsm=");

    config.landlock = false;
    assert_int_equal(judged("landlock")->state, DOCTOR_OFF);
    assert_int_equal(judged("landlock_scope")->state, DOCTOR_OFF);
    assert_says(judged("landlock")->reason, "--landlock off");
    assert_true(report.isolated);
}

static void test_ids(void **state)
{
    static const struct {
        struct doctor_host host;
        const char *reason, *cure;
    } cases[] = {
        { { .uid = 1000 }, "no newuidmap, no range", "apt install uidmap; sudo usermod" },
        { { .uid = 1000, .has_subids = true }, "no newuidmap", "apt install uidmap" },
        { { .uid = 1000, .has_newuidmap = true }, "/etc/subuid", "sudo usermod --add-subuids" },
        { { .uid = 1000, .has_newuidmap = true, .has_subids = true }, "failed", "set-uid" },
        { { .uid = 1000, .has_newuidmap = true, .has_subids = true, .no_new_privs = true },
          "failed",
          "without no_new_privs" },
        { { .in_userns = true }, "in a user namespace", "outside" },
        { { .in_userns = true, .above_is_root = true }, "root outside", "outside" },
    };

    findings.info.id_mode = ID_SINGLE;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        findings.host = cases[i].host;
        findings.host_uid = cases[i].host.uid;
        assert_int_equal(judged("ids")->state, DOCTOR_MISSING);
        assert_says(judged("ids")->reason, cases[i].reason);
        assert_says(judged("ids")->cure, cases[i].cure);
    }

    setup(state);
    findings.host_uid = 0; /* whatever the mode */
    assert_int_equal(judged("ids")->state, DOCTOR_FAILED);
    assert_says(judged("ids")->reason, "root on this host");

    setup(state);
    findings.info.id_mode = ID_RANGE;
    findings.host.uid = findings.host_uid = 1000;
    assert_int_equal(judged("ids")->state, DOCTOR_FAILED);
    findings.host_uid = 100001;
    assert_int_equal(judged("ids")->state, DOCTOR_ACTIVE);
    assert_string_equal(report.id_mode, "range");
}

static void test_packages(void **state)
{
    (void) state;
    snprintf(findings.trials[TRIAL_PACKAGES].out, DOCTOR_OUT_MAX,
             "numpy 1.24.2\npandas ! ValueError('numpy.dtype \x1b changed')\nPIL -\n");
    assert_int_equal(judged("packages")->state, DOCTOR_MISSING);
    assert_says(judged("packages")->reason, "numpy.dtype ? changed");
    assert_says(judged("packages")->reason, "can: numpy 1.24.2");
    assert_says(judged("packages")->cure, "python3-pil");
    assert_null(strstr(judged("packages")->cure, "python3-numpy"));
    assert_true(report.isolated);
    assert_string_equal(report.packages[0].version, "1.24.2");
    assert_string_equal(report.packages[1].version, "");
    assert_true(report.packages[8].tried);
    assert_false(report.packages[2].tried);

    findings.trials[TRIAL_PACKAGES].status = RUN_TIMEOUT;
    assert_says(judged("packages")->cure, "try again");
}

/* Installing does not mend what is installed. */
static void test_packages_cure(void **state)
{
    char *out = findings.trials[TRIAL_PACKAGES].out;

    (void) state;
    snprintf(out, DOCTOR_OUT_MAX,
             "numpy 1\npandas -\nmatplotlib 3\nplotly 5\nrequests 2\nscipy 1\nsklearn -\n"
             "openpyxl 3\nPIL 9\n");
    assert_string_equal(judged("packages")->cure, "apt install python3-pandas python3-sklearn");

    snprintf(out, DOCTOR_OUT_MAX,
             "numpy 1\npandas ! ImportError('libx.so: cannot open')\nmatplotlib 3\nplotly -\n"
             "requests 2\nscipy 1\nsklearn 1\nopenpyxl 3\nPIL 9\n");
    assert_says(judged("packages")->reason, "libx.so: cannot open");
    assert_says(judged("packages")->cure, "apt install python3-plotly; ");
    assert_says(judged("packages")->cure, "--reinstall python3-pandas,");

    /* The import of scipy crashed: nothing is known of what comes after it. */
    snprintf(out, DOCTOR_OUT_MAX, "numpy 1\npandas 1\nmatplotlib 3\nplotly 5\nrequests 2\n");
    assert_says(judged("packages")->reason, "the interpreter exited");
    assert_says(judged("packages")->cure, "--reinstall python3-scipy,");
    assert_null(strstr(judged("packages")->cure, "python3-sklearn"));
}

/* ---- no box ---- */

static void test_no_box(void **state)
{
    (void) state;
    findings.stage = STAGE_ENGINE;
    findings.host.userns_off = true;
    findings.error = (struct gb_err){ ENOSPC, "cannot create a user namespace" };
    findings.probe.out[0] = '\0';
    assert_int_equal(judged("box")->state, DOCTOR_FAILED);
    assert_says(judged("box")->reason, "cannot create a user namespace");
    assert_says(judged("box")->cure, "user.max_user_namespaces");
    assert_false(report.isolated);
    assert_null(report.id_mode);
    assert_null(report.cgroups);
    for (size_t i = 1; i < report.checks_len; i++) {
        assert_int_equal(report.checks[i].state, DOCTOR_MISSING);
        assert_false(report.checks[i].tried);
        assert_says(report.checks[i].reason, "not tried");
    }
}

static void test_no_python(void **state)
{
    (void) state;
    findings.stage = STAGE_PYTHON;
    findings.error = (struct gb_err){ EPIPE, "it ended while it was preloading" };
    findings.probe.out[0] = '\0';
    assert_int_equal(judged("python")->state, DOCTOR_FAILED);
    assert_true(judged("python")->tried);
    assert_says(judged("python")->cure, "-I -c pass");
    assert_false(report.isolated);
}

static const struct {
    struct doctor_host host;
    enum doctor_stage stage;
    int code;
    const char *cure;
} cures[] = {
    { { .has_python = true, .userns_off = true }, STAGE_ENGINE, ENOSPC, "max_user_namespaces" },
    { { .has_python = true, .userns_off = true, .privileged = true },
      STAGE_BOX,
      ENOSPC,
      "max_user_namespaces" },
    { { .has_python = true, .userns_kept = true, .uid = 1000 },
      STAGE_ENGINE,
      EPERM,
      "kernel.unprivileged_userns_clone=1" },
    { { .has_python = true, .apparmor_keeps = true, .uid = 1000 },
      STAGE_ENGINE,
      EACCES,
      "AppArmor profile" },
    /* Settings that do not bind root are not its trouble. */
    { { .has_python = true, .apparmor_keeps = true, .userns_kept = true, .privileged = true },
      STAGE_BOX,
      EPERM,
      "dmesg" },
    { { .has_python = true, .proc_is_masked = true, .uid = 1000, .is_filtered = true },
      STAGE_BOX,
      EPERM,
      "systempaths=unconfined" },
    { { .has_python = true, .proc_is_masked = true, .uid = 1000, .is_filtered = true },
      STAGE_ENGINE,
      EPERM,
      "seccomp=unconfined" },
    { { .has_python = true, .uid = 0 }, STAGE_ENGINE, EPERM, "ordinary user" },
    { { .has_python = true, .kernel_is_old = true, .privileged = true },
      STAGE_ENGINE,
      ENOSYS,
      "5.12" },
    { { .uid = 1000 }, STAGE_ENGINE, ENOENT, "apt install python3" },
    { { .has_python = true, .uid = 1000 }, STAGE_BOX, EAGAIN, "ulimit" },
    { { .has_python = true, .uid = 1000 }, STAGE_PROBE, EIO, "dmesg" },
};

static void test_cures(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cures); i++)
        assert_says(doctor_cure(&cures[i].host, cures[i].stage, cures[i].code), cures[i].cure);
}

/* ---- facts ---- */

static void test_facts(void **state)
{
    char buf[8] = "before";

    (void) state;
    assert_false(doctor_fact("", "a", buf, sizeof buf));
    assert_false(doctor_fact("ab 1\n", "a", buf, sizeof buf));
    assert_false(doctor_fact("b a 1\n", "a", buf, sizeof buf));
    assert_false(doctor_fact("a\n", "a", buf, sizeof buf));
    assert_string_equal(buf, "before");
    assert_true(doctor_fact("b 2\na 1 2\n", "a", buf, sizeof buf));
    assert_string_equal(buf, "1 2");
    assert_true(doctor_fact("\n\na 123456789", "a", buf, sizeof buf));
    assert_string_equal(buf, "1234567");
    assert_true(doctor_fact("a \nb 1", "a", buf, sizeof buf));
    assert_string_equal(buf, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_good_host, setup),
        cmocka_unit_test_setup(test_holes, setup),
        cmocka_unit_test_setup(test_a_probe_that_failed, setup),
        cmocka_unit_test_setup(test_limits_that_do_not_bite, setup),
        cmocka_unit_test_setup(test_workspace, setup),
        cmocka_unit_test_setup(test_what_programs_are_told, setup),
        cmocka_unit_test_setup(test_late_and_left, setup),
        cmocka_unit_test_setup(test_cpu_share, setup),
        cmocka_unit_test_setup(test_swap, setup),
        cmocka_unit_test_setup(test_cgroups, setup),
        cmocka_unit_test_setup(test_landlock, setup),
        cmocka_unit_test_setup(test_ids, setup),
        cmocka_unit_test_setup(test_packages, setup),
        cmocka_unit_test_setup(test_packages_cure, setup),
        cmocka_unit_test_setup(test_no_box, setup),
        cmocka_unit_test_setup(test_no_python, setup),
        cmocka_unit_test_setup(test_cures, setup),
        cmocka_unit_test(test_facts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
