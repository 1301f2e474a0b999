/*
 * A template is the operator's own python3, executed inside the skeleton with the large seccomp
 * filter already loaded and no capabilities but those for joining boxes. Our code reaches it
 * through two sealed memory files: the extension module and a zip of the runner.
 */
#include "engine/builder/template_start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/blobs.h"
#include "engine/seal/seal.h"
#include "engine/seal/seccomp.h"

#include "base/banned.h"

enum { CONTROL_FD = 3, EXT_FD, ZIP_FD, REPORT_FD, FIRST_FREE_FD };

#define ENV_MAX 64

/* -I: no PYTHON* variables, no user site, no current directory; -B: /usr is read-only anyway. The
 * first lines are for Pythons that are too old for our code, or that cannot load the extension (one
 * without a GIL has no stable ABI before 3.15); they report it as struct template_event. */
static const char bootstrap[] =
    "import os, struct, sys\n"
    "why = None\n"
    "if sys.version_info < (3, 9):\n"
    "    why = 'is too old; a template needs 3.9 or later'\n"
    "elif hasattr(sys, '_is_gil_enabled') and 't' in sys.abiflags:\n"
    "    why = 'is free-threaded; a template needs a build with a GIL'\n"
    "if why:\n"
    "    why = 'Python %s %s' % (sys.version.split()[0], why)\n"
    "    os.write(3, struct.pack('=iII128s', 1, 0, 1, why.encode()))\n"
    "    sys.exit(1)\n"
    "sys.path.insert(0, '/proc/self/fd/5')\n"
    "from glovebox_runner import template\n"
    "sys.path.pop(0)\n"
    "template.main(3, 4, 5)\n";

/* Capabilities for joining a box; see seal/seal.c and python/template_ext.c. */
static const uint64_t template_caps = UINT64_C(1) << CAP_SYS_ADMIN | UINT64_C(1) << CAP_SYS_PTRACE |
                                      UINT64_C(1) << CAP_SYS_CHROOT | UINT64_C(1) << CAP_SETUID |
                                      UINT64_C(1) << CAP_SETGID | UINT64_C(1) << CAP_SETPCAP;

static int blob_file(const char *name, struct blob blob, int *ret_fd)
{
    autoclose int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r;

    if (fd < 0)
        return -errno;
    r = io_write_all(fd, blob.data, blob.len);
    if (r < 0)
        return r;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Everything the child needs, prepared before the clone. */
struct template_spec {
    const char *python;
    char *const *envp;
    int from[3]; /* control, extension, zip: above FIRST_FREE_FD, like the next two */
    int said, report;
};

struct template_step {
    const char *name;
    int (*run)(const struct template_spec *spec); /* 0 or -errno */
};

/* Sent over the report pipe when a step failed; nothing is sent when the exec succeeded. */
struct start_report {
    uint32_t step;
    int32_t error;
};

static int step_place(const struct template_spec *spec)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return -errno;
    for (int i = 0; i < 3; i++)
        if (dup2(null, i) < 0 || dup2(spec->from[i], CONTROL_FD + i) < 0)
            return -errno;
    if (dup2(spec->said, STDERR_FILENO) < 0)
        return -errno;
    if (dup3(spec->report, REPORT_FD, O_CLOEXEC) < 0)
        return -errno;
    return syscall(SYS_close_range, FIRST_FREE_FD, ~0U, 0) < 0 ? -errno : 0;
}

/* A template may need a directory for caches while it imports. In a separate mount namespace: boxes
 * would inherit mounts of the builder. */
static int step_tmp(const struct template_spec *spec)
{
    (void) spec;
    if (unshare(CLONE_NEWNS) < 0 ||
        mount("tmp", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m") < 0)
        return -errno;
    return 0;
}

static int step_session(const struct template_spec *spec)
{
    sigset_t none;

    (void) spec;
    sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL);
    (void) signal(SIGPIPE, SIG_DFL);
    /* Processes that a module starts and leaves are to be found among its children. */
    if (setsid() < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return -errno;
    return 0;
}

static int step_caps(const struct template_spec *spec)
{
    (void) spec;
    return seal_caps(template_caps);
}

static int step_no_new_privs(const struct template_spec *spec)
{
    (void) spec;
    return seal_no_new_privs();
}

static int step_seccomp(const struct template_spec *spec)
{
    (void) spec;
    return seal_seccomp_load(SECCOMP_POLICY_BASE);
}

static int step_exec(const struct template_spec *spec)
{
    char *const argv[] = { (char *) spec->python, (char *) "-I",      (char *) "-B",
                           (char *) "-c",         (char *) bootstrap, NULL };

    execve(spec->python, argv, spec->envp);
    return -errno;
}

static const struct template_step steps[] = {
    { "descriptors", step_place },
    { "/tmp", step_tmp },
    { "session", step_session },
    { "capabilities", step_caps },
    { "no_new_privs", step_no_new_privs },
    { "seccomp", step_seccomp },
    { "exec", step_exec }, /* does not return on success */
};

static _Noreturn void template_main(const struct template_spec *spec)
{
    for (uint32_t i = 0; i < ARRAY_LEN(steps); i++) {
        int r = steps[i].run(spec);
        struct start_report report = { .step = i, .error = -r };

        if (r >= 0)
            continue;
        /* It has its old number until the descriptors are moved, then the new one. */
        (void) !write(i == 0 ? spec->report : REPORT_FD, &report, sizeof report);
        break;
    }
    _exit(127);
}

static int report_fail(const char *python, const struct start_report *report, struct gb_err *err)
{
    const char *name = report->step < ARRAY_LEN(steps) ? steps[report->step].name : "?";

    return gb_fail(err, report->error, "start %s as a template: step '%s' failed", python, name);
}

static pid_t clone_sibling(int *ret_pidfd)
{
    struct clone_args args = {
        .flags = CLONE_PARENT | CLONE_PIDFD,
        .pidfd = (uint64_t) (uintptr_t) ret_pidfd,
    };

    return (pid_t) syscall(SYS_clone3, &args, sizeof args);
}

/* A copy of @fd above the numbers that the child uses. */
static int above(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
}

static void split_env(const char *block, char *envp[ENV_MAX + 1])
{
    size_t n = 0;

    while (*block && n < ENV_MAX) {
        envp[n++] = (char *) block;
        block += strlen(block) + 1;
    }
    envp[n] = NULL;
}

int template_start(const char *python, const char *env, int control, int said, int *ret_pidfd,
                   int *ret_dead, struct gb_err *err)
{
    autoclose int ext = -EBADF, zip = -EBADF, pidfd = -EBADF;
    autoclose int ext_high = -EBADF, zip_high = -EBADF, control_high = -EBADF;
    autoclose int said_high = -EBADF;
    autoclose int report_in = -EBADF, report_out = -EBADF;
    struct template_spec spec = { .python = python };
    struct start_report failure;
    char *envp[ENV_MAX + 1];
    int report[2], r;
    pid_t pid;

    if ((r = blob_file("glovebox-ext", blob_template_ext(), &ext)) < 0 ||
        (r = blob_file("glovebox-runner", blob_runner_zip(), &zip)) < 0)
        return gb_fail(err, -r, "create a memory file");
    if (pipe2(report, O_CLOEXEC) < 0)
        return gb_fail(err, errno, "create a pipe");
    report_in = report[0];
    report_out = above(report[1]);
    (void) close(report[1]);
    spec.report = report_out;
    spec.from[0] = control_high = above(control);
    spec.from[1] = ext_high = above(ext);
    spec.from[2] = zip_high = above(zip);
    spec.said = said_high = above(said);
    if (report_out < 0 || control_high < 0 || ext_high < 0 || zip_high < 0 || said_high < 0)
        return gb_fail(err, errno, "copy descriptors");
    split_env(env, envp);
    spec.envp = envp;
    pid = clone_sibling(&pidfd);
    if (pid == 0)
        template_main(&spec);
    if (pid < 0) {
        pidfd = -EBADF;
        return gb_fail(err, errno, "clone a template");
    }
    gb_closep(&report_out);
    report_out = -EBADF;
    /* The other end closes with the exec; anything read is the reason why it failed. */
    if (io_read_all(report_in, &failure, sizeof failure) == sizeof failure) {
        *ret_dead = TAKE_FD(pidfd);
        return report_fail(python, &failure, err);
    }
    *ret_pidfd = TAKE_FD(pidfd);
    return 0;
}
