/*
 * The seal of a connector, tried for real: a child seals itself and then tries what it must not be
 * able to do, and what it needs. As root, and as an ordinary user.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "connect/internal.h"

#include "base/banned.h"

#define ORDINARY 54321

/* What the child found: it writes a line for each thing that was not as it should be. */
static int report_fd;
static int file_fd;
static uint16_t open_port, closed_port;

static void expect(bool as_it_should_be, const char *what)
{
    if (!as_it_should_be)
        dprintf(report_fd, "%s (errno %d)\n", what, errno);
}

static long call(long nr, long a, long b, long c, long d)
{
    return syscall(nr, a, b, c, d, 0, 0);
}

static bool landlock_abi(int wanted)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, 1) >= wanted;
}

static bool reachable(uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd >= 0 && connect(fd, (struct sockaddr *) &to, sizeof to) == 0;
}

static void *thread_body(void *arg)
{
    *(int *) arg = 1;
    return NULL;
}

static void no_processes(void)
{
    char *const argv[] = { (char *) "true", NULL };

    expect(execve("/bin/true", argv, NULL) < 0 && errno == EPERM, "execve");
    expect(call(SYS_clone, SIGCHLD, 0, 0, 0) < 0 && errno == EPERM, "clone without CLONE_THREAD");
#ifdef SYS_fork
    expect(call(SYS_fork, 0, 0, 0, 0) < 0 && errno == EPERM, "fork");
    expect(call(SYS_vfork, 0, 0, 0, 0) < 0 && errno == EPERM, "vfork");
#endif
    expect(kill(getppid(), 0) < 0, "signal to the parent");
    /* A descriptor that can be read sends this signal to its owner. */
    expect(fcntl(report_fd, F_SETOWN, getppid()) < 0 && errno == EPERM, "owner of a descriptor");
    expect(fcntl(report_fd, F_SETSIG, SIGKILL) < 0 && errno == EPERM, "signal of a descriptor");
    expect(call(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0) < 0 && errno == EPERM, "ptrace");
    expect(call(SYS_process_vm_readv, getpid(), 0, 0, 0) < 0 && errno == EPERM, "process_vm_readv");
}

static void no_files(bool has_landlock)
{
    char name[64];

    snprintf(name, sizeof name, "/tmp/gbtest-seal-%d", (int) getpid());
    expect(open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) < 0, "making a file");
    expect(open("/dev/null", O_WRONLY | O_CLOEXEC) < 0 && errno == EPERM, "opening for writing");
    expect(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) < 0, "a file without a name");
    expect(mkdir(name, 0700) < 0 && errno == EPERM, "mkdir");
    expect(unlink("/tmp/none") < 0 && errno == EPERM, "unlink");
    expect(chmod("/tmp", 0777) < 0 && errno == EPERM, "chmod");
    if (!has_landlock)
        return;
    expect(open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES, "/etc/passwd");
    expect(open("/proc/self/maps", O_RDONLY | O_CLOEXEC) < 0, "/proc/self/maps");
    expect(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0 && errno == EACCES, "listing /");
}

static void no_kernel(void)
{
    expect(call(SYS_unshare, CLONE_NEWUSER, 0, 0, 0) < 0 && errno == EPERM, "unshare");
    expect(call(SYS_bpf, 0, 0, 0, 0) < 0 && errno == EPERM, "bpf");
    expect(call(SYS_io_uring_setup, 1, 0, 0, 0) < 0 && errno == EPERM, "io_uring");
    expect(call(SYS_keyctl, 0, 0, 0, 0) < 0 && errno == EPERM, "keyctl");
    expect(call(SYS_mount, 0, 0, 0, 0) < 0 && errno == EPERM, "mount");
    expect(call(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0) < 0 && errno == EPERM, "prctl");
    expect(call(SYS_setresuid, 0, 0, 0, 0) < 0 && errno == EPERM, "setresuid");
    expect(call(SYS_socket, AF_PACKET, SOCK_RAW, 0, 0) < 0 && errno == EPERM, "packet socket");
    expect(call(SYS_socket, AF_INET, SOCK_RAW, 1, 0) < 0 && errno == EPERM, "raw socket");
    expect(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0) == MAP_FAILED,
           "executable memory");
    expect(geteuid() != 0 && getuid() != 0 && getegid() != 0, "still root");
}

static void the_limits(void)
{
    struct rlimit now;

    (void) signal(SIGXFSZ, SIG_IGN);
    expect(lseek(file_fd, 1000, SEEK_SET) == 1000 && write(file_fd, "x", 1) < 0 && errno == EFBIG,
           "a file above its limit");
    expect(lseek(file_fd, 0, SEEK_SET) == 0 && write(file_fd, "x", 1) == 1, "the result file");
    expect(call(SYS_prlimit64, 0, RLIMIT_CORE, 0, (long) &now) < 0, "prlimit64");
}

static void what_it_needs(void)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    pthread_t thread;
    int ran = 0;

    expect(getaddrinfo("localhost", "5432", &hints, &found) == 0, "a name in /etc/hosts");
    if (found)
        freeaddrinfo(found);
    expect(pthread_create(&thread, NULL, thread_body, &ran) == 0, "a thread");
    if (pthread_join(thread, NULL) == 0)
        expect(ran == 1, "a thread that runs");
    expect(access("/etc/ssl/certs/ca-certificates.crt", F_OK) < 0 ||
               open("/etc/ssl/certs/ca-certificates.crt", O_RDONLY | O_CLOEXEC) >= 0,
           "the store of certificates");
    expect(reachable(open_port), "the port of the source");
}

static void child(void)
{
    struct seal_config seal = {
        .file_bytes_max = 1000, .seconds_max = 60, .ports = { open_port }, .ports_len = 1
    };
    bool has_landlock = landlock_abi(1), has_ports = landlock_abi(4);
    const char *step = "";
    int r = connect_seal(&seal, &step);

    if (r < 0) {
        dprintf(report_fd, "not sealed: %s: %s\n", step, strerror(-r));
        return;
    }
    no_processes();
    no_files(has_landlock);
    no_kernel();
    the_limits();
    what_it_needs();
    if (has_ports)
        expect(!reachable(closed_port) && errno == EACCES, "another port");
    expect(prctl(PR_GET_DUMPABLE) < 0, "prctl to read");
}

static int listener(uint16_t *ret_port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &at, sizeof at), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &at, &len), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static void sealed_as(uid_t uid)
{
    __attribute__((unused)) autoclose int one = listener(&open_port), two = listener(&closed_port);
    char text[4096] = "";
    int ends[2], status;
    ssize_t len;
    pid_t pid;

    file_fd = memfd_create("result", MFD_CLOEXEC);
    assert_true(file_fd >= 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        report_fd = ends[1];
        (void) alarm(120);
        if (uid && (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
            dprintf(report_fd, "cannot become %u\n", (unsigned) uid);
        else
            child();
        (void) syscall(SYS_exit_group, 0);
    }
    close(ends[1]);
    len = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    close(file_fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (len > 0)
        fail_msg("%s", text);
}

static void test_as_we_are(void **state)
{
    (void) state;
    sealed_as(0);
}

static void test_as_an_ordinary_user(void **state)
{
    (void) state;
    if (geteuid() == 0) /* else we are one */
        sealed_as(ORDINARY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_we_are),
        cmocka_unit_test(test_as_an_ordinary_user),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
