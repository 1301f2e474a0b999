/*
 * The filters, tried for real: a child loads a policy and makes the calls by number. Every call is
 * chosen so that nothing happens if the filter is wrong and lets it through: a bad pointer or
 * descriptor gives another errno than the filter does.
 *
 * The generator is run as a program (GEN_SECCOMP) on small policies and on the real one
 * (SECCOMP_DEF). What it emits is read back and interpreted here, which also covers the other
 * architecture and programs too long for a single jump.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/seal/seccomp.h"

#include "base/banned.h"

#define HIGH     (1L << 32) /* a bit that a 32-bit argument does not have */
#define NO_RULES (-1)

struct probe {
    const char *what;
    int error; /* 0: the call works */
    long nr;
    long args[6];
};

/* --- children with a policy --- */

/* Not _exit(): before what the compiler knows not to return a sanitizer makes calls of its own,
 * which init may not. */
static void child_exit(int status)
{
    (void) syscall(SYS_exit_group, status);
}

/* Runs @body in a child with the policies from @first to @second loaded; the child's exit status
 * says whether all was well. */
static void with_policies(enum seccomp_policy first, int second, void (*body)(void))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seal_seccomp_load(first) < 0)
            child_exit(2);
        if (second != NO_RULES && seal_seccomp_load((enum seccomp_policy) second) < 0)
            child_exit(3);
        body();
        child_exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Not dprintf(): it allocates, and init may not. */
static void child_wrong(const char *what, long returned, int wanted)
{
    char line[128];
    int len = snprintf(line, sizeof line, "wrong: %s: returned %ld, errno %d, wanted errno %d\n",
                       what, returned, errno, wanted);

    (void) !write(STDERR_FILENO, line, (size_t) len);
    child_exit(1);
}

static void child_check(bool ok, const char *what)
{
    if (!ok)
        child_wrong(what, -1, 0);
}

static void probe_all(const struct probe *probes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct probe *p = &probes[i];
        long r;

        errno = 0;
        r = syscall(p->nr, p->args[0], p->args[1], p->args[2], p->args[3], p->args[4], p->args[5]);
        if ((p->nr == SYS_clone || p->nr == SYS_clone3) && r == 0)
            child_exit(4); /* a child that must not be */
        if (p->error == 0 ? r < 0 : r != -1 || errno != p->error)
            child_wrong(p->what, r, p->error);
    }
}

/* --- base --- */

static const struct probe base_probes[] = {
    { "getpid", 0, SYS_getpid, { 0 } },
    { "close goes through", EBADF, SYS_close, { -1 } },
    { "setns goes through", EBADF, SYS_setns, { -1 } },
    { "capset goes through", EFAULT, SYS_capset, { 0 } },
    { "clone3 goes through", EINVAL, SYS_clone3, { 0 } },
    { "seccomp goes through", EINVAL, SYS_seccomp, { 99 } },
    { "setresuid to the same", 0, SYS_setresuid, { -1, -1, -1 } },
    { "memfd_create goes through", EFAULT, SYS_memfd_create, { 0 } },

    { "unix", 0, SYS_socket, { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC } },
    { "tcp", 0, SYS_socket, { AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP } },
    { "udp", 0, SYS_socket, { AF_INET, SOCK_DGRAM } },
    { "tcp, high bits set", 0, SYS_socket, { HIGH | AF_INET, HIGH | SOCK_STREAM, HIGH } },
    { "route", 0, SYS_socket, { AF_NETLINK, SOCK_RAW, NETLINK_ROUTE } },
    { "other netlink", EAFNOSUPPORT, SYS_socket, { AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER } },
    { "raw", EAFNOSUPPORT, SYS_socket, { AF_INET, SOCK_RAW, IPPROTO_ICMP } },
    { "raw with flags", EAFNOSUPPORT, SYS_socket, { AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1 } },
    { "raw, IPv6", EAFNOSUPPORT, SYS_socket, { AF_INET6, SOCK_RAW, IPPROTO_ICMPV6 } },
    { "old packet socket", EAFNOSUPPORT, SYS_socket, { AF_INET, SOCK_PACKET, 0 } },
    { "sctp", EAFNOSUPPORT, SYS_socket, { AF_INET, SOCK_STREAM, IPPROTO_SCTP } },
    { "packet", EAFNOSUPPORT, SYS_socket, { AF_PACKET, SOCK_RAW } },
    { "packet, high bits", EAFNOSUPPORT, SYS_socket, { HIGH | AF_PACKET, SOCK_DGRAM } },
    { "vsock", EAFNOSUPPORT, SYS_socket, { AF_VSOCK, SOCK_STREAM } },
    { "alg", EAFNOSUPPORT, SYS_socket, { AF_ALG, SOCK_SEQPACKET } },
    { "socketpair goes through", EFAULT, SYS_socketpair, { AF_UNIX, SOCK_STREAM, 0, 0 } },
    { "socketpair", EAFNOSUPPORT, SYS_socketpair, { AF_INET, SOCK_STREAM, 0, 0 } },
    { "socket filter", ENOPROTOOPT, SYS_setsockopt, { -1, SOL_SOCKET, SO_ATTACH_FILTER } },
    { "setsockopt goes through", EBADF, SYS_setsockopt, { -1, SOL_SOCKET, SO_REUSEADDR } },

    { "TIOCSTI", EPERM, SYS_ioctl, { -1, TIOCSTI } },
    { "TIOCSTI, high bits", EPERM, SYS_ioctl, { -1, HIGH | TIOCSTI } },
    { "TIOCLINUX", EPERM, SYS_ioctl, { -1, TIOCLINUX } },
    { "TIOCSETD", EPERM, SYS_ioctl, { -1, TIOCSETD } },
    { "FIONREAD goes through", EBADF, SYS_ioctl, { -1, FIONREAD } },

    { "fifo goes through", EFAULT, SYS_mknodat, { -1, 0, S_IFIFO | 0600 } },
    { "file goes through", EFAULT, SYS_mknodat, { -1, 0, 0600 } },
    { "character device", EPERM, SYS_mknodat, { -1, 0, S_IFCHR | 0600, 0 } },
    { "block device", EPERM, SYS_mknodat, { -1, 0, S_IFBLK | 0600, 0 } },
    { "device, high bits", EPERM, SYS_mknodat, { -1, 0, HIGH | 0x10000 | S_IFBLK, 0 } },

    { "personality query", 0, SYS_personality, { 0xffffffff } },
    { "personality query, high bits", 0, SYS_personality, { -1 } },
    { "personality", EPERM, SYS_personality, { 0x0040000 /* ADDR_NO_RANDOMIZE */ } },
    { "huge pages", ENOMEM, SYS_mmap, { 0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB } },
    { "merged pages", EINVAL, SYS_madvise, { 0, 0, MADV_MERGEABLE } },
    { "madvise", 0, SYS_madvise, { 0, 0, MADV_DONTNEED } },

    { "mount", EPERM, SYS_mount, { 0 } },
    { "umount2", EPERM, SYS_umount2, { 0, 0xffff } },
    { "pivot_root", EPERM, SYS_pivot_root, { 0 } },
    { "fsopen", EPERM, SYS_fsopen, { 0, 0xffff } },
    { "open_tree", EPERM, SYS_open_tree, { -1, 0, 0xffff } },
    { "move_mount", EPERM, SYS_move_mount, { -1, 0, -1, 0, 0xffff } },
    { "mount_setattr", EPERM, SYS_mount_setattr, { -1, 0, 0xffff } },
    { "chroot", EPERM, SYS_chroot, { 0 } },
    { "unshare", EPERM, SYS_unshare, { 0 } },
    { "ptrace", EPERM, SYS_ptrace, { 0xffff, 0 } },
    { "process_vm_writev", EPERM, SYS_process_vm_writev, { 0, 0, 0, 0, 0, 1 } },
    { "pidfd_getfd", EPERM, SYS_pidfd_getfd, { -1, -1, 0 } },
    { "kcmp", EPERM, SYS_kcmp, { 0, 0, 99 } },
    { "keyctl", EPERM, SYS_keyctl, { 9999 } },
    { "bpf", EPERM, SYS_bpf, { 9999 } },
    { "perf_event_open", EPERM, SYS_perf_event_open, { 0, 0, -1, -1, 0xffff } },
    { "userfaultfd", EPERM, SYS_userfaultfd, { 0xffff } },
    { "vmsplice", EPERM, SYS_vmsplice, { -1 } },
    { "name_to_handle_at", EPERM, SYS_name_to_handle_at, { -1 } },
    { "open_by_handle_at", EPERM, SYS_open_by_handle_at, { -1 } },
    { "init_module", EPERM, SYS_init_module, { 0 } },
    { "swapon", EPERM, SYS_swapon, { 0 } },
    { "settimeofday", EPERM, SYS_settimeofday, { 0 } },
    { "syslog", EPERM, SYS_syslog, { 99 } },
    { "sethostname", EPERM, SYS_sethostname, { 0, 1 } },
    { "reboot", EPERM, SYS_reboot, { 0 } },
#ifdef SYS_iopl
    { "iopl", EPERM, SYS_iopl, { 99 } },
    { "modify_ldt", EPERM, SYS_modify_ldt, { 99 } },
#endif

    { "io_uring", ENOSYS, SYS_io_uring_setup, { 0 } },
    { "io_setup, not in the file", ENOSYS, SYS_io_setup, { 0 } },
    { "cachestat, younger than the file", ENOSYS, 451, { -1 } },
    { "a number nobody has", ENOSYS, 9999, { 0 } },
    { "a negative number", ENOSYS, -1, { 0 } },
};

/* --- base and last together, as a tenant has them --- */

static const struct probe last_probes[] = {
    { "clone3", ENOSYS, SYS_clone3, { 0 } },
    { "user namespace", EPERM, SYS_clone, { CLONE_NEWUSER | SIGCHLD } },
    { "mount namespace", EPERM, SYS_clone, { CLONE_NEWNS | SIGCHLD } },
    { "network namespace", EPERM, SYS_clone, { CLONE_NEWNET | SIGCHLD } },
    { "PID namespace", EPERM, SYS_clone, { CLONE_NEWPID | SIGCHLD } },
    { "UTS namespace", EPERM, SYS_clone, { CLONE_NEWUTS | SIGCHLD } },
    { "cgroup namespace", EPERM, SYS_clone, { CLONE_NEWCGROUP | SIGCHLD } },
    { "namespace, high bits", EPERM, SYS_clone, { HIGH | CLONE_NEWUSER | SIGCHLD } },
    { "somebody else's child", EPERM, SYS_clone, { CLONE_PARENT | SIGCHLD } },
    { "clone goes through", EINVAL, SYS_clone, { CLONE_THREAD } },
    { "setns", EPERM, SYS_setns, { -1 } },
    { "unshare", EPERM, SYS_unshare, { 0 } },
    { "setuid", EPERM, SYS_setuid, { -1 } },
    { "setgid", EPERM, SYS_setgid, { -1 } },
    { "setreuid to the same", 0, SYS_setreuid, { -1, -1 } },
    { "setregid to the same", 0, SYS_setregid, { -1, -1 } },
    { "setresuid to the same", 0, SYS_setresuid, { -1, -1, -1 } },
    { "setresgid to the same", 0, SYS_setresgid, { -1, -1, -1 } },
    { "setreuid, first", EPERM, SYS_setreuid, { 77, -1 } },
    { "setreuid, second", EPERM, SYS_setreuid, { 1000, 77 } },
    { "setregid, first", EPERM, SYS_setregid, { 77, 1000 } },
    { "setregid, second", EPERM, SYS_setregid, { -1, HIGH | 77 } },
    { "setresuid, first", EPERM, SYS_setresuid, { 0, -1, -1 } },
    { "setresuid, second", EPERM, SYS_setresuid, { -1, 0, -1 } },
    { "setresuid, third", EPERM, SYS_setresuid, { 1000, -1, HIGH } },
    { "setresgid, first", EPERM, SYS_setresgid, { 0, -1, -1 } },
    { "setresgid, second", EPERM, SYS_setresgid, { -1, 0, -1 } },
    { "setresgid, third", EPERM, SYS_setresgid, { 1000, -1, 0 } },
    { "setfsuid", EPERM, SYS_setfsuid, { -1 } },
    { "setgroups", EPERM, SYS_setgroups, { 0xfffff } },
    { "capset", EPERM, SYS_capset, { 0 } },
    { "landlock", EOPNOTSUPP, SYS_landlock_create_ruleset, { 0, 0, 1 } },
    { "seccomp", EPERM, SYS_seccomp, { 99 } },
    { "prctl seccomp", EPERM, SYS_prctl, { PR_SET_SECCOMP, 99 } },
    { "prctl seccomp, high bits", EPERM, SYS_prctl, { HIGH | PR_SET_SECCOMP, 99 } },
    { "prctl mm", EPERM, SYS_prctl, { PR_SET_MM, 9999 } },
    { "prctl core scheduling", EPERM, SYS_prctl, { PR_SCHED_CORE, 9999 } },
    { "another prctl", 0, SYS_prctl, { PR_GET_DUMPABLE } },
    { "own limit", 0, SYS_prlimit64, { 0, 0, 0, 0 } },
    { "own limit, high bits", 0, SYS_prlimit64, { HIGH, 0, 0, 0 } },
    { "limit of nobody", ESRCH, SYS_prlimit64, { 0x7fffffff, 0, 0, 0 } },
    { "limit of PID 1", EPERM, SYS_prlimit64, { 1, 0, 0, 0 } },
    { "limit of PID 1, high bits", EPERM, SYS_prlimit64, { HIGH | 1, 0, 0, 0 } },
    { "shmget goes through", ENOENT, SYS_shmget, { 0x7ab7e57, 1, 0 } },
    { "base still holds", EPERM, SYS_mount, { 0 } },
    { "a number nobody has", ENOSYS, 9999, { 0 } },
};

static const struct probe nocgroup_probes[] = {
    { "memfd_create", ENOSYS, SYS_memfd_create, { 0 } },
    { "shmget", ENOSYS, SYS_shmget, { 0x7ab7e57, 1, 0 } },
    { "msgget", ENOSYS, SYS_msgget, { 0x7ab7e57, 0 } },
    { "included: clone3", ENOSYS, SYS_clone3, { 0 } },
    { "included: setns", EPERM, SYS_setns, { -1 } },
    { "included: namespace", EPERM, SYS_clone, { CLONE_NEWUSER | SIGCHLD } },
    { "included: limit of PID 1", EPERM, SYS_prlimit64, { 1, 0, 0, 0 } },
};

static void *thread_body(void *arg)
{
    *(int *) arg = 7;
    return NULL;
}

/* What programs do all day still works, through libc. */
static void last_body(void)
{
    int fds[2], status, seen = 0;
    pthread_t thread;
    char byte = 'x';
    pid_t pid;

    probe_all(last_probes, ARRAY_LEN(last_probes));

    child_check(pthread_create(&thread, NULL, thread_body, &seen) == 0, "pthread_create");
    child_check(pthread_join(thread, NULL) == 0 && seen == 7, "pthread_join");
    child_check(pipe2(fds, O_CLOEXEC) == 0, "pipe2");
    pid = fork();
    child_check(pid >= 0, "fork");
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "exit 5", (char *) NULL);
        _exit(6);
    }
    child_check(waitpid(pid, &status, 0) == pid, "waitpid");
    child_check(WIFEXITED(status) && WEXITSTATUS(status) == 5, "execl");
    child_check(write(fds[1], &byte, 1) == 1 && read(fds[0], &byte, 1) == 1, "pipe");
    child_check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0, "socketpair");
    child_check(seal_seccomp_load(SECCOMP_POLICY_INIT) == -EPERM, "no further filters");
}

static void nocgroup_body(void)
{
    probe_all(nocgroup_probes, ARRAY_LEN(nocgroup_probes));
}

static void base_body(void)
{
    probe_all(base_probes, ARRAY_LEN(base_probes));
}

static void test_tenant(void **state)
{
    (void) state;
    with_policies(SECCOMP_POLICY_BASE, NO_RULES, base_body);
    with_policies(SECCOMP_POLICY_BASE, SECCOMP_POLICY_LAST, last_body);
    with_policies(SECCOMP_POLICY_BASE, SECCOMP_POLICY_LAST_NOCGROUP, nocgroup_body);
}

/* --- init, and what all programs have --- */

static void init_body(void)
{
    struct timespec now = { 0 };
    const struct probe probes[] = {
        { "getpid", 0, SYS_getpid, { 0 } },
        { "gettid", 0, SYS_gettid, { 0 } },
        { "kill, signal 0", ESRCH, SYS_kill, { 0x7fffffff, 0 } },
        { "wait4", ECHILD, SYS_wait4, { -1, 0, 0, 0 } },
        { "ppoll", 0, SYS_ppoll, { 0, 0, (long) &now, 0, 0 } },
        { "recvmsg", EBADF, SYS_recvmsg, { -1, 0, 0 } },
        { "openat", EPERM, SYS_openat, { -1, 0, 0 } },
        { "socket", EPERM, SYS_socket, { AF_UNIX, SOCK_STREAM } },
        { "mmap", EPERM, SYS_mmap, { 0 } },
        { "clone", EPERM, SYS_clone, { CLONE_THREAD } },
        { "execve", EPERM, SYS_execve, { 0 } },
        { "prctl", EPERM, SYS_prctl, { 9999 } },
        { "a number nobody has", EPERM, 9999, { 0 } },
    };

    probe_all(probes, ARRAY_LEN(probes));
#ifdef __x86_64__
    /* Here x32 and the default have different answers, so this sees the filter and not the kernel.
     */
    child_check(syscall(0x40000000L | SYS_getpid) == -1 && errno == ENOSYS, "x32 getpid");
    child_check(syscall(0x40000000L | 9999) == -1 && errno == ENOSYS, "x32 unknown");
#endif
}

static void test_init(void **state)
{
    (void) state;
    with_policies(SECCOMP_POLICY_INIT, NO_RULES, init_body);
}

#ifdef __x86_64__
/* The 32-bit entry; 20 is getpid there and writev in the 64-bit table. */
static long int80_getpid(void)
{
    long r = 20;

    __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
    return (int) r;
}

static void other_arch_body(void)
{
    child_check(int80_getpid() == -ENOSYS, "32-bit getpid");
}

static void test_other_arch(void **state)
{
    int status;
    pid_t pid = fork();

    (void) state;
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(int80_getpid() == getpid() ? 0 : 1); /* or SIGSEGV */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        skip(); /* a kernel without the 32-bit entry */
    with_policies(SECCOMP_POLICY_INIT, NO_RULES, other_arch_body);
    with_policies(SECCOMP_POLICY_LAST, NO_RULES, other_arch_body);
}
#endif

static void test_load_errors(void **state)
{
    int status;
    pid_t pid;

    (void) state;
    assert_int_equal(seal_seccomp_load((enum seccomp_policy) 99), -EINVAL);

    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        /* An ordinary user without no_new_privs may not. */
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
            _exit(0);
        if (geteuid() == 0 && syscall(SYS_setresuid, 65534, 65534, 65534) < 0)
            _exit(0);
        errno = EXDEV;
        _exit(seal_seccomp_load(SECCOMP_POLICY_LAST) == -EACCES && errno == EXDEV ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* --- the generator --- */

#ifdef __x86_64__
#define HOST_ARCH  "x86_64"
#define HOST_AUDIT AUDIT_ARCH_X86_64
#else
#define HOST_ARCH  "aarch64"
#define HOST_AUDIT AUDIT_ARCH_AARCH64
#endif
#define OUTPUT_MAX (1 << 20)

struct workdir {
    char path[64], def[80], out[80], err[80];
    char text[OUTPUT_MAX]; /* of the file read last */
};

static int workdir_setup(void **state)
{
    struct workdir *w = calloc(1, sizeof *w);

    assert_non_null(w);
    snprintf(w->path, sizeof w->path, "/tmp/test_seccomp.XXXXXX");
    assert_non_null(mkdtemp(w->path));
    snprintf(w->def, sizeof w->def, "%s/t.def", w->path);
    snprintf(w->out, sizeof w->out, "%s/t.h", w->path);
    snprintf(w->err, sizeof w->err, "%s/err", w->path);
    *state = w;
    return 0;
}

static int workdir_teardown(void **state)
{
    struct workdir *w = *state;

    (void) unlink(w->def);
    (void) unlink(w->out);
    (void) unlink(w->err);
    (void) rmdir(w->path);
    free(w);
    return 0;
}

static const char *env_needed(const char *name)
{
    const char *value = getenv(name);

    if (!value)
        fail_msg("set %s, as the build does", name);
    return value;
}

static void read_text(struct workdir *w, const char *path)
{
    FILE *f = fopen(path, "re");
    size_t len;

    assert_non_null(f);
    len = fread(w->text, 1, OUTPUT_MAX - 1, f);
    w->text[len] = '\0';
    fclose(f);
}

/* Returns the exit status; what the generator said is in w->text. */
static int run_gen(struct workdir *w, const char *arch, const char *def)
{
    const char *gen = env_needed("GEN_SECCOMP");
    int status;
    pid_t pid;

    (void) unlink(w->out);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = open(w->err, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        if (dup2(fd, STDERR_FILENO) < 0)
            _exit(99);
        execl(gen, gen, arch, def, w->out, (char *) NULL);
        _exit(98);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    read_text(w, w->err);
    return WEXITSTATUS(status);
}

static void write_def(const struct workdir *w, const char *text)
{
    FILE *f = fopen(w->def, "we");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Reads the program @policy out of the header in w->text; returns its length. */
static size_t read_prog(const struct workdir *w, const char *policy, struct sock_filter *prog)
{
    char start[64];
    const char *p;
    unsigned code, jt, jf, k;
    size_t n = 0;

    snprintf(start, sizeof start, "seccomp_%s[] = {\n", policy);
    p = strstr(w->text, start);
    assert_non_null(p);
    p += strlen(start);
    while (n < BPF_MAXINSNS && sscanf(p, " { 0x%x, %u, %u, 0x%x }", &code, &jt, &jf, &k) == 4) {
        assert_true(code <= UINT16_MAX && jt <= UINT8_MAX && jf <= UINT8_MAX);
        prog[n++] = (struct sock_filter){ (uint16_t) code, (uint8_t) jt, (uint8_t) jf, k };
        p = strchr(p, '\n') + 1;
    }
    assert_true(n > 0);
    return n;
}

/* What the kernel would answer; every instruction that it may meet is one we emit. */
static uint32_t interpret(const struct sock_filter *prog, size_t len, const struct seccomp_data *d)
{
    uint32_t acc = 0;

    for (size_t pc = 0; pc < len; pc++) {
        const struct sock_filter *i = &prog[pc];

        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(i->k + 4 <= sizeof *d);
            memcpy(&acc, (const char *) d + i->k, 4);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            acc &= i->k;
            break;
        case BPF_JMP | BPF_JA:
            pc += i->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += acc == i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += acc >= i->k ? i->jt : i->jf;
            break;
        case BPF_RET | BPF_K:
            return i->k;
        default:
            fail_msg("instruction 0x%x", i->code);
        }
    }
    fail_msg("ran past the end");
    return 0;
}

#define ERRNO(code) (SECCOMP_RET_ERRNO | (code))

static void test_gen_errors(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        { "policy a default allow\nrequire deny EPERM getpid nosuchcall\n",
          "t.def:2: required call 'nosuchcall'" },
        { "policy a default allow\nrequire allow getpid\n    nosuchcall\n",
          "t.def:3: required call 'nosuchcall'" },
        { "", "t.def:1: no policy" },
        { "# only this\n\nallow getpid\n", "t.def:3: expected 'policy' first" },
        { "  policy a default allow\n", "t.def:1: an indented line" },
        { "policy a default kill\n", "t.def:1: expected 'allow' or 'errno', not 'kill'" },
        { "policy a default errno EWHAT\n", "t.def:1: expected a known errno, not 'EWHAT'" },
        { "policy a\n", "t.def:1: expected 'default', not the end" },
        { "policy A-1 default allow\n", "t.def:1: expected the name of a policy" },
        { "policy a default allow now\n", "t.def:1: expected the end" },
        { "policy a default allow\npolicy a default allow\n",
          "t.def:2: policy 'a' already exists" },
        { "policy a default allow\nfrobnicate getpid\n", "t.def:2: expected a statement" },
        { "policy a default allow\nallow\n", "t.def:2: expected the name of a call" },
        { "policy a default allow\nallow get-pid\n", "t.def:2: expected the name of a call" },
        { "policy a default allow\ndeny getpid\n", "t.def:2: expected a known errno" },
        { "policy a default allow\nallow getpid\ndeny EPERM getppid getpid\n",
          "t.def:3: 'getpid' already appears on line 2" },
        { "policy a default allow\nrule getpid allow if arg0 == 1\n\n",
          "t.def:2: the last rule of 'getpid'" },
        { "policy a default allow\nrule getpid allow\nrule getpid allow if arg0 == 1\n",
          "t.def:3: 'getpid' already appears" },
        { "policy a default allow\nrule getpid allow if\n", "t.def:2: expected arg0 to arg5" },
        { "policy a default allow\nrule getpid allow if arg6 == 1\n", "not 'arg6'" },
        { "policy a default allow\nrule getpid allow if arg0 = 1\n", "expected '==' or '!='" },
        { "policy a default allow\nrule getpid allow if arg0 ==\n", "t.def:2: expected a number" },
        { "policy a default allow\nrule getpid allow if arg0 == AF_WHAT\n", "not 'AF_WHAT'" },
        { "policy a default allow\nrule getpid allow if arg0 == AF_UNIX|\n", "a number" },
        { "policy a default allow\nrule getpid allow if arg0 == 0x100000000\n", "a number" },
        { "policy a default allow\nrule getpid allow if arg0 == -1\n", "a number" },
        { "policy a default allow\nrule getpid allow if arg0 & 1 == 2\n", "outside of the mask" },
        { "policy a default allow\nrule getpid allow if arg0 == 1 or\n", "the end of the" },
        { "policy a default allow\ninclude b\n", "t.def:2: expected the name of an earlier" },
        { "policy a default allow\ninclude a\n", "t.def:2: expected the name of an earlier" },
        { "policy a default allow\nallow getpid\npolicy b default allow\nallow getpid\ninclude a\n",
          "'getpid' already appears on line 4" },
    };
    struct workdir *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        write_def(w, cases[i].text);
        assert_int_equal(run_gen(w, HOST_ARCH, w->def), 1);
        if (!strstr(w->text, cases[i].message))
            fail_msg("case %zu: wanted \"%s\", got \"%s\"", i, cases[i].message, w->text);
        assert_int_equal(access(w->out, F_OK), -1);
    }
    write_def(w, "policy a default allow\n");
    assert_int_equal(run_gen(w, "mips", w->def), 2);
    assert_int_equal(run_gen(w, HOST_ARCH, "/nonexistent/t.def"), 1);
}

static void test_gen_skips(void **state)
{
    static struct sock_filter prog[BPF_MAXINSNS];
    struct seccomp_data d = { .arch = AUDIT_ARCH_AARCH64 };
    struct workdir *w = *state;
    size_t len;

    write_def(w, "policy a default errno ENOSYS\nallow open nosuchcall getpid\n");
    assert_int_equal(run_gen(w, "aarch64", w->def), 0);
    read_text(w, w->out);
    len = read_prog(w, "a", prog);
    for (d.nr = 0; d.nr < 600; d.nr++) /* 172 is getpid there, and there is no open */
        assert_int_equal(interpret(prog, len, &d), d.nr == 172 ? SECCOMP_RET_ALLOW : ERRNO(ENOSYS));
}

static const struct {
    const char *name;
    int nr;
} long_calls[] = {
    { "read", SYS_read },
    { "write", SYS_write },
    { "close", SYS_close },
    { "lseek", SYS_lseek },
    { "mmap", SYS_mmap },
    { "munmap", SYS_munmap },
    { "brk", SYS_brk },
    { "ioctl", SYS_ioctl },
    { "readv", SYS_readv },
    { "writev", SYS_writev },
    { "madvise", SYS_madvise },
    { "shmget", SYS_shmget },
    { "shmat", SYS_shmat },
    { "dup", SYS_dup },
    { "socket", SYS_socket },
    { "connect", SYS_connect },
    { "accept", SYS_accept },
    { "sendto", SYS_sendto },
    { "bind", SYS_bind },
    { "listen", SYS_listen },
    { "clone", SYS_clone },
    { "execve", SYS_execve },
    { "exit", SYS_exit },
    { "wait4", SYS_wait4 },
    { "kill", SYS_kill },
    { "uname", SYS_uname },
    { "semget", SYS_semget },
    { "fcntl", SYS_fcntl },
    { "flock", SYS_flock },
    { "fsync", SYS_fsync },
    { "umask", SYS_umask },
    { "getuid", SYS_getuid },
    { "syslog", SYS_syslog },
    { "statx", SYS_statx },
    { "openat", SYS_openat },
    { "mkdirat", SYS_mkdirat },
    { "getrandom", SYS_getrandom },
    { "execveat", SYS_execveat },
    { "mlock2", SYS_mlock2 },
};

#define LONG_RULES 8

/* A policy of well over 255 instructions: every jump still arrives. */
static void test_gen_long(void **state)
{
    static const char *const names[] = { "EPERM", "EINVAL", "ENOMEM", "ENOSYS" };
    static const uint32_t codes[] = { EPERM, EINVAL, ENOMEM, ENOSYS };
    static struct sock_filter prog[BPF_MAXINSNS];
    struct workdir *w = *state;
    FILE *f = fopen(w->def, "we");
    size_t len;

    assert_non_null(f);
    fprintf(f, "policy a default errno EOPNOTSUPP\n");
    for (unsigned i = 0; i < ARRAY_LEN(long_calls); i++) {
        for (unsigned j = 0; j < LONG_RULES; j++)
            fprintf(f, "rule %s errno %s if arg2 & 0xff00 == 0x%x and arg5 != 3\n",
                    long_calls[i].name, names[(i + j) % 4], (i + j) << 8);
        fprintf(f, "rule %s allow\n", long_calls[i].name);
    }
    assert_int_equal(fclose(f), 0);
    assert_int_equal(run_gen(w, HOST_ARCH, w->def), 0);
    read_text(w, w->out);
    len = read_prog(w, "a", prog);
    assert_in_range(len, 1000, BPF_MAXINSNS);

    for (unsigned i = 0; i < ARRAY_LEN(long_calls); i++) {
        struct seccomp_data d = { .nr = long_calls[i].nr, .arch = HOST_AUDIT };

        for (unsigned j = 0; j < LONG_RULES; j++) {
            d.args[2] = UINT64_C(0xffffffffffff00ff) | (i + j) << 8;
            d.args[5] = 0;
            assert_int_equal(interpret(prog, len, &d), ERRNO(codes[(i + j) % 4]));
            d.args[5] = (UINT64_C(1) << 32) | 3;
            assert_int_equal(interpret(prog, len, &d), SECCOMP_RET_ALLOW);
        }
        d.args[2] = 0xfe00;
        assert_int_equal(interpret(prog, len, &d), SECCOMP_RET_ALLOW);
        d.nr = SYS_getppid;
        assert_int_equal(interpret(prog, len, &d), ERRNO(EOPNOTSUPP));
        d.arch = 0;
        assert_int_equal(interpret(prog, len, &d), ERRNO(ENOSYS));
    }
}

static void check_program(const char *policy, uint32_t audit, const struct sock_filter *prog,
                          size_t len)
{
    const uint32_t others[] = { AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, AUDIT_ARCH_I386,
                                AUDIT_ARCH_ARM, 0 };
    struct seccomp_data d = { .arch = audit };

    for (size_t i = 0; i < len; i++)
        if (BPF_CLASS(prog[i].code) == BPF_RET && prog[i].k != SECCOMP_RET_ALLOW &&
            (prog[i].k & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO)
            fail_msg("%s: an action that is neither allow nor errno", policy);
    for (d.nr = 0; d.nr < 1024; d.nr++)
        for (size_t i = 0; i < ARRAY_LEN(others); i++) {
            d.arch = others[i];
            if (d.arch != audit)
                assert_int_equal(interpret(prog, len, &d), ERRNO(ENOSYS));
        }
    d.arch = audit;
    for (unsigned nr = 0x40000000; audit == AUDIT_ARCH_X86_64 && nr < 0x40000400; nr++) {
        d.nr = (int) nr;
        assert_int_equal(interpret(prog, len, &d), ERRNO(ENOSYS));
    }
}

/* The real policy, for both architectures; the numbers are those of the other one too. */
static void test_gen_real(void **state)
{
    static const struct {
        const char *arch;
        uint32_t audit;
        int openat, mount, socket, clone;
    } arches[] = {
        { "x86_64", AUDIT_ARCH_X86_64, 257, 165, 41, 56 },
        { "aarch64", AUDIT_ARCH_AARCH64, 56, 40, 198, 220 },
    };
    static const char *const policies[] = { "base", "last", "last_nocgroup", "init" };
    static struct sock_filter prog[4][BPF_MAXINSNS];
    struct workdir *w = *state;

    for (size_t i = 0; i < ARRAY_LEN(arches); i++) {
        struct seccomp_data d = { .arch = arches[i].audit };
        size_t len[4];

        assert_int_equal(run_gen(w, arches[i].arch, env_needed("SECCOMP_DEF")), 0);
        read_text(w, w->out);
        for (size_t j = 0; j < ARRAY_LEN(policies); j++) {
            len[j] = read_prog(w, policies[j], prog[j]);
            check_program(policies[j], arches[i].audit, prog[j], len[j]);
        }
        d.nr = arches[i].openat;
        assert_int_equal(interpret(prog[0], len[0], &d), SECCOMP_RET_ALLOW);
        assert_int_equal(interpret(prog[3], len[3], &d), ERRNO(EPERM));
        d.nr = arches[i].mount;
        assert_int_equal(interpret(prog[0], len[0], &d), ERRNO(EPERM));
        d.nr = arches[i].socket;
        d.args[0] = AF_PACKET;
        assert_int_equal(interpret(prog[0], len[0], &d), ERRNO(EAFNOSUPPORT));
        d.nr = arches[i].clone;
        d.args[0] = CLONE_NEWUSER | SIGCHLD;
        assert_int_equal(interpret(prog[1], len[1], &d), ERRNO(EPERM));
        assert_int_equal(interpret(prog[2], len[2], &d), ERRNO(EPERM));
        d.args[0] = CLONE_VM | CLONE_VFORK | SIGCHLD;
        assert_int_equal(interpret(prog[1], len[1], &d), SECCOMP_RET_ALLOW);
        d.nr = 435; /* clone3 on both */
        assert_int_equal(interpret(prog[1], len[1], &d), ERRNO(ENOSYS));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tenant),
        cmocka_unit_test(test_init),
#ifdef __x86_64__
        cmocka_unit_test(test_other_arch),
#endif
        cmocka_unit_test(test_load_errors),
        cmocka_unit_test_setup_teardown(test_gen_errors, workdir_setup, workdir_teardown),
        cmocka_unit_test_setup_teardown(test_gen_skips, workdir_setup, workdir_teardown),
        cmocka_unit_test_setup_teardown(test_gen_long, workdir_setup, workdir_teardown),
        cmocka_unit_test_setup_teardown(test_gen_real, workdir_setup, workdir_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
